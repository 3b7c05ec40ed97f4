// SPDX-License-Identifier: Apache-2.0
#include "reports/program/command_line.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "reports/program/help.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"

namespace assay {
namespace {

CLI::App& add(CLI::App& app, Typed& typed, Command command, const char* name, const char* what) {
  CLI::App& sub = *app.add_subcommand(name, what);
  // CLI11 reads the variables of every command that has a callback of another kind.
  sub.parse_complete_callback([&typed, command] { typed.options.command = command; });
  sub.add_flag("-q,--quiet", typed.options.quiet, "No progress on stderr");
  return sub;
}

// What runs paths, or works on one case.
void declare_runs(CLI::App& app, Typed& typed) {
  CLI::App& list = add(app, typed, Command::kList, "list", "Print the ops, their paths and what they need");
  add_selection(list, typed);
  add_json(list, typed);
  list.add_flag("--recipes", typed.options.recipes,
                "Also print where each path rounds, and how its sums run");
  list.add_option("--probed", typed.options.probed,
                  "A probe.json: print what it found beside what is declared")
      ->type_name(kFileValue);
  CLI::App& doctor = add(app, typed, Command::kDoctor, "doctor",
                         "Print what this machine can run, how fast it copies, and what disturbs timing");
  add_device(doctor, typed);
  add_json(doctor, typed);
  add_strict_env(doctor, typed);

  CLI::App& verify = add(app, typed, Command::kVerify, "verify", "Judge paths on random cases");
  add_selection(verify, typed);
  add_cases(verify, typed);
  add_isolation(verify, typed);
  add_out(verify, typed, "Directory for the record and the reports");
  add_resume(verify, typed);
  add_json(verify, typed);
  verify
      .add_flag("--specimens", typed.options.specimens,
                "Judge the known-bad implementations; passes if every one is caught")
      ->excludes(verify.get_option("--max-failures"));
  verify
      .add_flag("--hostile", typed.options.hostile,
                "Of these, time and judge those that are right when judged and cheat when timed")
      ->needs(verify.get_option("--specimens"));

  CLI::App& bench =
      add(app, typed, Command::kBench, "bench", "Time paths on production shapes, each judged there first");
  add_selection(bench, typed);
  bench
      .add_option(
          "--sweep", typed.options.sizes,
          "Time other sizes: l=1:100000:x10 or c=16,128; dimensions without an axis are those of the op's "
          "first problem")
      ->type_name("AXIS");
  bench
      .add_option("--max-elements", typed.raw.max_elements,
                  "Leave out sizes of --sweep with more elements in a tensor")
      ->type_name("N");
  bench
      .add_option("--min-time", typed.raw.min_time,
                  "Call for about so long with cold caches, and as long with warm ones, at most 30,000 times "
                  "each: 60s, 5m (default: 15 to 300 times); --timeout grows by three times as much")
      ->type_name("TIME");
  add_shard(bench, typed,
            "Time the i-th of n parts of the problems: i/n, or auto: as the CI system or the cluster says");
  add_seed(bench, typed);
  add_isolation(bench, typed);
  add_out(bench, typed, "Directory for the record and the reports");
  add_resume(bench, typed);
  add_json(bench, typed);
  add_strict_env(bench, typed);

  CLI::App& run = add(app, typed, Command::kRun, "run", "verify, bench and report");
  add_selection(run, typed);
  add_cases(run, typed);
  add_isolation(run, typed);
  add_out(run, typed, "Directory for the record and the reports (default assay-out)");
  add_resume(run, typed);
  add_json(run, typed);
  add_strict_env(run, typed);

  CLI::App& demo = add(app, typed, Command::kDemo, "demo",
                       "Make a small failing report from known-bad implementations, to look at");
  add_isolation(demo, typed);
  add_out(demo, typed, "Directory for the record and the reports (default assay-demo)");
  add_resume(demo, typed);

  CLI::App& replay = add(app, typed, Command::kReplay, "replay",
                         "Judge a case, or a path on the inputs of a capsule, again");
  replay.add_option("CASE|CAPSULE", typed.options.subject, "A case line or a .safetensors capsule")
      ->required();
  add_device(replay, typed);
  add_isolation(replay, typed);
  add_out(replay, typed, "Directory for the record, the reports and, of a failure, the capsule");
  add_json(replay, typed);
  add_shares(replay, typed);

  CLI::App& draw =
      add(app, typed, Command::kDraw, "draw", "Write the inputs of one case to a .safetensors file");
  add_case(draw, typed);
  draw.add_option("--out", typed.options.out, "File for the inputs")->required()->type_name(kFileValue);

  CLI::App& judge = add(app, typed, Command::kJudge, "judge",
                        "Judge outputs that somebody else computed, in a .safetensors file; runs no path");
  add_case(judge, typed);
  add_in(judge, typed, "File with the inputs as `list` names them (default: those that `draw` writes)");
  judge.add_option("--got", typed.options.got, "File with the outputs as `list` names them")
      ->required()
      ->type_name(kFileValue);
  add_out(judge, typed, "Directory for the record, the reports and, of a failure, the capsule");
  add_json(judge, typed);
  add_shares(judge, typed);

  CLI::App& exec =
      add(app, typed, Command::kExec, "exec", "Run one case on tensors from a .safetensors file");
  add_case(exec, typed);
  add_in(exec, typed, "File with the inputs as `list` names them; booleans are 0 and 1")->required();
  exec.add_option("--out", typed.options.out, "File for the outputs")->required()->type_name(kFileValue);
  add_device(exec, typed);
  add_isolation(exec, typed);

  CLI::App& report = add(app, typed, Command::kReport, "report", "Render the reports of a record again");
  report.add_option("RUN.JSON", typed.options.subject, "A record that `run` left, a study, or its directory")
      ->required();
  add_out(report, typed, "Directory for the reports (default: beside the record)");

  CLI::App& create = add(app, typed, Command::kNew, "new",
                         "Write the project of an op with one formula, to build and to judge");
  create.add_option("OP", typed.options.subject, "The name of the op and of its folder, in snake_case")
      ->required();
  create
      .add_option(
          "FORMULA", typed.options.formula,
          "Sums of products of tensors: 'y[m] = sum_k a[m,k] * x[k] - 0.5 * z[m]'. There are no functions")
      ->required();
}

// What reads records.
void declare_gates(CLI::App& app, Typed& typed) {
  CLI::App& compare = add(app, typed, Command::kCompare, "compare",
                          "Print what got slower or more wrong between two records, or two studies");
  add_sides(compare, typed);
  add_limits(compare, typed);

  CLI::App& gate = add(app, typed, Command::kGate, "gate", "Compare, and fail if anything got worse");
  add_sides(gate, typed);
  add_limits(gate, typed);
  add_policy(gate, typed);
  gate.add_flag("--bisect", typed.options.bisect,
                "For git bisect run: exit with 125 where there is no verdict; implies --certain");

  CLI::App& ab = add(app, typed, Command::kAb, "ab",
                     "Run bench of two programs in turns, and gate what they leave in --out");
  ab.add_option("BEFORE", typed.options.subject, "The program of the earlier version")->required();
  ab.add_option("AFTER", typed.options.after, "The program of the later version")->required();
  add_limits(ab, typed);
  add_policy(ab, typed);
  ab.add_option("--repeat", typed.raw.repeat, "Runs of each program (default 3)")->type_name("N");
  add_dtype(ab, typed);
  add_device(ab, typed);
  add_out(ab, typed, "Directory for the records, in before/ and after/ (default assay-ab)");

  CLI::App& calibrate = add(app, typed, Command::kCalibrate, "calibrate",
                            "Write by how much times scatter between runs of one program, for gate --noise");
  calibrate.add_option("RECORD", typed.options.records, "Records, their folders, or folders of such folders")
      ->required();
  calibrate.add_option("--out", typed.options.out, "File for what they scatter by")
      ->required()
      ->type_name(kFileValue);

  CLI::App& merge =
      add(app, typed, Command::kMerge, "merge", "Make one record of the parts that --shard cut a run into");
  merge.add_option("DIR", typed.options.records, "The parts: their folders, or a folder of these")
      ->required();
  add_out(merge, typed, "Directory for the record and the reports")->required();

  CLI::App& history = add(app, typed, Command::kHistory, "history",
                          "Write times and errors of many runs, for tools that watch them");
  history.add_option("ACTION", typed.options.subject, "export")->required()->check(CLI::IsMember({"export"}));
  history.add_option("RECORD", typed.options.records, "Records, their folders, or folders of such folders")
      ->required();
  history.add_option("--branch", typed.options.branch, "The branch that the runs are of (default main)");
  add_out(history, typed, "Directory for otava.json and smaller-is-better.json")->required();
}

// What looks into paths, and what serves shells.
void declare_others(CLI::App& app, Typed& typed) {
  CLI::App& probe =
      add(app, typed, Command::kProbe, "probe",
          "Find out how paths add up: the tree of each sum, its width and rounding, against the recipe");
  add_selection(probe, typed);
  probe
      .add_option("--length", typed.raw.length,
                  "Terms of each sum (default: as few as tell; at most what it can have)")
      ->type_name("N");
  add_seed(probe, typed);
  add_out(probe, typed, "Directory for probe.json, probe.md and a picture of each tree");
  add_json(probe, typed);
  add_isolation(probe, typed);
  probe.add_flag("--specimens", typed.options.specimens, "Probe the known-bad implementations");

  CLI::App& study = add(app, typed, Command::kStudy, "study",
                        "Say which precision an op needs: errors and times of its paths and of recipes");
  study.add_option("OP", typed.options.subject, "An op")->required();
  add_study_options(study, typed.options.study);
  add_in(study, typed, "File with a user's inputs, which are resampled");
  add_dtype(study, typed);
  add_device(study, typed);
  add_seed(study, typed);
  add_shard(study, typed, "Study the i-th of n parts of the points: i/n");
  add_isolation(study, typed);
  add_out(study, typed, "Directory for study.json, study.md and study.html (default assay-study)");
  add_json(study, typed);

  CLI::App& completion = add(app, typed, Command::kCompletion, "completion",
                             "Print what a shell needs to complete command lines");
  completion.add_option("SHELL", typed.options.subject, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  add(app, typed, Command::kManual, "manual", "Print the manual page");
}

void describe(CLI::App& app) {
  app.set_version_flag("--version", tool_record().version + " (" + tool_record().git + ")");
  std::vector<std::string> codes;
  for (const auto& [code, meaning] : kExitMeanings)
    codes.push_back(fmt::format("{} {}", static_cast<int>(code), meaning));
  app.formatter(std::make_shared<HelpLayout>());
  app.footer(fmt::format(
      "Exit codes: {}.\nOptions have environment twins, ASSAY_CASES for --cases. "
      "The command line beats them. ASSAY_CACHE_BYTES is the last-level cache of the CPUs that the "
      "program may use, where the system tells that of a larger machine.",
      fmt::join(codes, ", ")));
}

}  // namespace

void declare_commands(CLI::App& app, Typed& typed) {
  describe(app);
  declare_runs(app, typed);
  declare_gates(app, typed);
  declare_others(app, typed);
}

}  // namespace assay
