// SPDX-License-Identifier: Apache-2.0
#include "reports/program/options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "kernels/core/printable.h"
#include "properties/core/generate.h"
#include "reports/program/help.h"
#include "reports/program/machine.h"
#include "reports/program/option_values.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/program/selection.h"

namespace assay {
namespace {

// Options as text, for those that need a parser of ours.
struct RawOptions {
  std::string device;
  std::string dtype;
  std::string cases;
  std::string length;
  std::string max_failures;
  std::string max_elements;
  std::string seed;
  std::string budget;
  std::string timeout;
  bool no_isolate = false;
  std::string shard;
  std::string slower = "5%";
  std::string more_wrong = "25%";
};

class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", tool_record().version + " (" + tool_record().git + ")");
    std::vector<std::string> codes;
    for (const auto& [code, meaning] : kExitMeanings)
      codes.push_back(fmt::format("{} {}", static_cast<int>(code), meaning));
    app_.formatter(std::make_shared<HelpLayout>());
    app_.footer(
        fmt::format("Exit codes: {}.\nOptions have environment twins, ASSAY_CASES for --cases. "
                    "The command line beats them.",
                    fmt::join(codes, ", ")));

    auto& list = add(Command::kList, "list", "Print the ops, their paths and what they need");
    add_selection(list);
    add_json(list);
    list.add_flag("--recipes", options_.recipes, "Also print where each path rounds, and how its sums run");
    list.add_option("--probed", options_.probed, "A probe.json: print what it found beside what is declared")
        ->type_name(kFileValue);
    auto& doctor = add(Command::kDoctor, "doctor",
                       "Print what this machine can run, how fast it copies, and what disturbs timing");
    add_device(doctor);
    add_json(doctor);
    add_strict_env(doctor);

    auto& verify = add(Command::kVerify, "verify", "Judge paths on random cases");
    add_selection(verify);
    add_cases(verify);
    add_isolation(verify);
    add_out(verify, "Directory for the record and the reports");
    add_resume(verify);
    add_json(verify);
    verify
        .add_flag("--specimens", options_.specimens,
                  "Judge the known-bad implementations; passes if every one is caught")
        ->excludes(verify.get_option("--max-failures"));
    verify
        .add_flag("--hostile", options_.hostile,
                  "Of these, time and judge those that are right when judged and cheat when timed")
        ->needs(verify.get_option("--specimens"));

    auto& bench = add(Command::kBench, "bench", "Time paths on production shapes, each judged there first");
    add_selection(bench);
    add_seed(bench);
    add_isolation(bench);
    add_out(bench, "Directory for the record and the reports");
    add_resume(bench);
    add_json(bench);
    add_strict_env(bench);

    auto& run = add(Command::kRun, "run", "verify, bench and report");
    add_selection(run);
    add_cases(run);
    add_isolation(run);
    add_out(run, "Directory for the record and the reports (default assay-out)");
    add_resume(run);
    add_json(run);
    add_strict_env(run);

    auto& demo =
        add(Command::kDemo, "demo", "Make a small failing report from known-bad implementations, to look at");
    add_isolation(demo);
    add_out(demo, "Directory for the record and the reports (default assay-demo)");
    add_resume(demo);

    auto& replay = add(Command::kReplay, "replay", "Judge one case, or the tensors of a capsule, again");
    replay.add_option("CASE|CAPSULE", options_.subject, "A case line or a .safetensors capsule")->required();
    add_device(replay);
    add_isolation(replay);
    add_out(replay, "Directory for the record, the reports and, of a failure, the capsule");
    add_json(replay);
    add_shares(replay);

    auto& draw = add(Command::kDraw, "draw", "Write the inputs of one case to a .safetensors file");
    add_case(draw);
    draw.add_option("--out", options_.out, "File for the inputs")->required()->type_name(kFileValue);

    auto& judge = add(Command::kJudge, "judge",
                      "Judge outputs that somebody else computed, in a .safetensors file; runs no path");
    add_case(judge);
    add_in(judge, "File with the inputs as `list` names them (default: those that `draw` writes)");
    judge.add_option("--got", options_.got, "File with the outputs as `list` names them")
        ->required()
        ->type_name(kFileValue);
    add_out(judge, "Directory for the record, the reports and, of a failure, the capsule");
    add_json(judge);
    add_shares(judge);

    auto& exec = add(Command::kExec, "exec", "Run one case on tensors from a .safetensors file");
    add_case(exec);
    add_in(exec, "File with the inputs as `list` names them; booleans are 0 and 1")->required();
    exec.add_option("--out", options_.out, "File for the outputs")->required()->type_name(kFileValue);
    add_device(exec);
    add_isolation(exec);

    auto& report = add(Command::kReport, "report", "Render the reports of a record again");
    report.add_option("RUN.JSON", options_.subject, "A record that `run` left, a study, or its directory")
        ->required();
    add_out(report, "Directory for the reports (default: beside the record)");

    auto& create =
        add(Command::kNew, "new", "Write the project of an op with one formula, to build and to judge");
    create.add_option("OP", options_.subject, "The name of the op and of its folder, in snake_case")
        ->required();
    create.add_option("FORMULA", options_.formula, "Such as 'y[m] = sum_k a[m,k] * x[k] - 0.5 * z[m]'")
        ->required();

    auto& compare = add(Command::kCompare, "compare",
                        "Print what got slower or more wrong between two records, or two studies");
    add_sides(compare);

    auto& gate = add(Command::kGate, "gate", "Compare, and fail if anything got worse");
    add_sides(gate);
    gate.add_flag("--certain", options_.certain, "Fail with exit code 4 if the samples leave a time open");

    auto& probe =
        add(Command::kProbe, "probe",
            "Find out how paths add up: the tree of each sum, its width and rounding, against the recipe");
    add_selection(probe);
    probe
        .add_option("--length", raw_.length,
                    "Terms of each sum (default: as few as tell; at most what it can have)")
        ->type_name("N");
    add_seed(probe);
    add_out(probe, "Directory for probe.json, probe.md and a picture of each tree");
    add_json(probe);
    add_isolation(probe);
    probe.add_flag("--specimens", options_.specimens, "Probe the known-bad implementations");

    auto& study = add(Command::kStudy, "study",
                      "Say which precision an op needs: errors and times of its paths and of recipes");
    study.add_option("OP", options_.subject, "An op")->required();
    add_study_options(study, options_.study);
    add_in(study, "File with a user's inputs, which are resampled");
    study.add_option("--dtype", raw_.dtype, "Only this storage dtype: f32, f16 or bf16")
        ->type_name(kDTypeValue);
    add_device(study);
    add_seed(study);
    add_shard(study, "Study the i-th of n parts of the points: i/n");
    add_isolation(study);
    add_out(study, "Directory for study.json, study.md and study.html (default assay-study)");
    add_json(study);

    auto& completion =
        add(Command::kCompletion, "completion", "Print what a shell needs to complete command lines");
    completion.add_option("SHELL", options_.subject, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    add(Command::kManual, "manual", "Print the manual page");

    for (CLI::App* sub : app_.get_subcommands({})) {
      for (CLI::Option* option : sub->get_options()) {
        const std::string name = option->get_name();
        const bool is_file = name == "--out" && option->get_type_name() == kFileValue;
        if (option->get_positional()) option->type_name("");  // its name says it
        if (option->nonpositional() && name != "--help")
          option->envname(variable_of(is_file ? "--out-file" : name));
      }
    }
  }

  const CLI::App& app() const { return app_; }

  ParsedOptions parse(int argc, const char* const* argv) {
    words_.assign(argv + 1, argv + argc);
    app_.name(std::filesystem::path(argv[0]).filename().string());
    try {
      refuse_empty_words(words_);
      ignore_overruled_variables();
      app_.parse(argc, argv);
      if (app_.get_subcommands().empty()) throw usage_error("a command is required; see --help");
      take_typed();
      if (!raw_.device.empty()) options_.device = device_name(origin("--device"), raw_.device);
      options_.device_is_typed = is_typed("--device");
      if (!raw_.dtype.empty()) options_.dtype = parse_dtype(raw_.dtype);
      if (!raw_.length.empty()) options_.terms = parse_integer<int64_t>(origin("--length"), raw_.length, 2);
      if (!raw_.cases.empty()) options_.cases = parse_integer<int64_t>(origin("--cases"), raw_.cases, 1);
      if (!raw_.max_elements.empty())
        options_.max_elements = parse_integer<int64_t>(origin("--max-elements"), raw_.max_elements, 1);
      if (!raw_.max_failures.empty())
        options_.max_failures = parse_integer<int64_t>(origin("--max-failures"), raw_.max_failures, 1);
      if (!raw_.seed.empty()) options_.seed = parse_integer<uint64_t>(origin("--seed"), raw_.seed, 0);
      if (!raw_.budget.empty()) options_.budget = parse_time(origin("--budget"), raw_.budget);
      if (!raw_.timeout.empty()) options_.timeout = parse_time(origin("--timeout"), raw_.timeout);
      options_.isolate = !raw_.no_isolate;
      if (options_.out == "-")
        throw usage_error("{} - is not the standard output; for a file write ./-", origin("--out"));
      if (!raw_.shard.empty()) {
        const Shard shard = parse_shard(origin("--shard"), raw_.shard);
        options_.shard = shard.number - 1;
        options_.shards = shard.count;
      }
      options_.limits.slower = parse_share(origin("--slower"), raw_.slower);
      options_.limits.more_wrong = parse_share(origin("--more-wrong"), raw_.more_wrong);
    } catch (const CLI::Success& success) {
      return {.options = {}, .exit_code = print(success)};
    } catch (const CLI::ParseError& error) {
      fmt::print(stderr, "assay: {}; see --help\n", what_is_wrong(app_, error));
      return {.options = {}, .exit_code = kExitUsage};
    }
    options_.command_line.assign(argv, argv + argc);
    return {.options = options_, .exit_code = kExitPassed};
  }

 private:
  int print(const CLI::Success& asked) const {
    std::ostringstream text;
    app_.exit(asked, text, text);
    fmt::print("{}", text.str());
    return kExitPassed;
  }

  // Whether an option stands on the command line. The other words of its commands are always typed.
  bool is_typed(const std::string& name) const {
    return !name.starts_with("--") || std::ranges::any_of(words_, [&](const std::string& word) {
      return word == name || word.starts_with(name + "=");
    });
  }

  std::string origin(const std::string& option) const {
    if (!options_.resume.empty() && !is_typed(option))
      return fmt::format("the unfinished run in {}: {}", excerpt(options_.resume), option);
    return is_typed(option) ? option : variable_of(option);
  }

  // The command line beats the environment: an option that was typed excludes the variables of
  // those that it excludes.
  void ignore_overruled_variables() {
    for (CLI::App* sub : app_.get_subcommands({})) {
      for (CLI::Option* option : sub->get_options()) {
        const auto& rivals = option->get_excludes();
        if (std::ranges::any_of(rivals, [&](CLI::Option* rival) { return is_typed(rival->get_name()); }))
          option->envname("");
      }
    }
  }

  // Keeps the text of the options that decide what the record says. A resumed run takes those of
  // its journal, and refuses others.
  void take_typed() {
    std::string command = app_.get_subcommands().front()->get_name();
    std::string specimens = options_.hostile ? "hostile" : options_.specimens ? "yes" : "";
    std::string no_isolate = raw_.no_isolate ? "yes" : "";
    std::string filters = fmt::format("{}", fmt::join(options_.filters, " "));
    const std::pair<const char*, std::string*> texts[] = {{"command", &command},
                                                          {"FILTER", &filters},
                                                          {"--dtype", &raw_.dtype},
                                                          {"--device", &raw_.device},
                                                          {"--cases", &raw_.cases},
                                                          {"--budget", &raw_.budget},
                                                          {"--seed", &raw_.seed},
                                                          {"--shard", &raw_.shard},
                                                          {"--max-elements", &raw_.max_elements},
                                                          {"--specimens", &specimens},
                                                          {"--max-failures", &raw_.max_failures},
                                                          {"--timeout", &raw_.timeout},
                                                          {"--no-isolate", &no_isolate}};
    if (!options_.resume.empty()) {
      options_.out = options_.resume;
      const Journal journal = unfinished_run(options_.resume);
      for (const auto& [name, text] : texts) {
        const auto found = journal.options.find(name);
        const std::string was = found == journal.options.end() ? "" : found->second;
        if (!text->empty() && *text != was && is_typed(name)) {
          throw usage_error("{} {}: the unfinished run in {} has {}", name, excerpt(*text),
                            excerpt(options_.resume), was.empty() ? "none" : excerpt(was));
        }
        *text = was;
      }
      options_.filters = words_of(filters);
      options_.specimens = !specimens.empty();
      options_.hostile = specimens == "hostile";
      raw_.no_isolate = !no_isolate.empty();
    }
    for (const auto& [name, text] : texts) {
      if (!text->empty()) options_.typed[name] = *text;
    }
  }

  CLI::App& add(Command command, const char* name, const char* what) {
    CLI::App& sub = *app_.add_subcommand(name, what);
    // CLI11 reads the variables of every command that has a callback of another kind.
    sub.parse_complete_callback([this, command] { options_.command = command; });
    sub.add_flag("-q,--quiet", options_.quiet, "No progress on stderr");
    return sub;
  }
  void add_selection(CLI::App& sub) {
    sub.add_option("FILTER", options_.filters, "Globs on op or op/path: 'dynamic*', '*/cuda*'");
    sub.add_option("--dtype", raw_.dtype, "Only this storage dtype: f32, f16 or bf16")
        ->type_name(kDTypeValue);
    add_device(sub);
  }
  void add_case(CLI::App& sub) {
    sub.add_option("CASE", options_.subject, "A case line: op/path/dtype/dim=size/...")->required();
  }
  CLI::Option* add_in(CLI::App& sub, const char* what) {
    return sub.add_option("--in", options_.in, what)->type_name(kFileValue);
  }
  void add_shares(CLI::App& sub) {
    sub.add_flag("--shares", options_.shares,
                 "Also say bound and error of each stage performed alone, where its oracle has stages");
  }
  void add_device(CLI::App& sub) {
    sub.add_option("--device", raw_.device, "all, cpu, cuda or cuda:k (default all)")
        ->type_name(kDeviceValue);
  }
  void add_seed(CLI::App& sub) {
    sub.add_option("--seed", raw_.seed, "Seed of the cases (default 0)")->type_name("N");
  }
  void add_cases(CLI::App& sub) {
    CLI::Option* const cases =
        sub.add_option("--cases", raw_.cases, "Cases per path (default 200)")->type_name("N");
    sub.add_option("--budget", raw_.budget, "Time per path instead of a number of cases: 60s, 5m")
        ->excludes(cases)
        ->type_name("TIME");
    sub.add_option("--max-elements", raw_.max_elements,
                   "Elements of a case's largest tensor (default " + std::to_string(kFuzzElements) +
                       ", but millions in every 64th case)")
        ->type_name("N");
    sub.add_option("--max-failures", raw_.max_failures,
                   "Failing cases after which a path is judged no further")
        ->type_name("N");
    add_shard(sub, "Judge the i-th of n parts of the cases: i/n");
    add_seed(sub);
  }
  void add_shard(CLI::App& sub, const char* what) {
    sub.add_option("--shard", raw_.shard, what)->type_name("I/N");
  }
  void add_isolation(CLI::App& sub) {
    CLI::Option* const timeout =
        sub.add_option("--timeout", raw_.timeout,
                       "Time for one case: 60s, 5m (default: 60 s, and more for large cases)")
            ->type_name("TIME");
    sub.add_flag("--no-isolate", raw_.no_isolate,
                 "Run paths in this process instead of workers, for debuggers and sanitizers")
        ->excludes(timeout);
  }
  void add_out(CLI::App& sub, const char* what) {
    sub.add_option("--out", options_.out, what)->type_name(kDirectoryValue);
  }
  void add_resume(CLI::App& sub) {
    sub.add_option("--resume", options_.resume, "Go on with the unfinished run in this directory")
        ->excludes(sub.get_option("--out"))
        ->type_name(kDirectoryValue);
  }
  void add_json(CLI::App& sub) { sub.add_flag("--json", options_.json, "JSON on stdout instead of a table"); }
  void add_sides(CLI::App& sub) {
    const char* const kSide = "A record, the folder of one, or a folder of such folders: several runs";
    sub.add_option("BEFORE", options_.subject, kSide)->required();
    sub.add_option("AFTER", options_.after, kSide)->required();
    sub.add_option("FILTER", options_.filters, "Only these: globs on op or op/path");
    sub.add_option("--slower", raw_.slower, "What a time may grow by (default 5%)")->type_name("SHARE");
    sub.add_option("--more-wrong", raw_.more_wrong,
                   "What the rms of a path's distances may grow by (default 25%)")
        ->type_name("SHARE");
    sub.add_flag("--all", options_.all, "Also print what did not change");
    add_json(sub);
  }
  void add_strict_env(CLI::App& sub) {
    sub.add_flag("--strict-env", options_.strict_env,
                 "Fail with exit code 6 if the machine is unfit for timing");
  }

  CLI::App app_{"How wrong each path of a numerical kernel is, how fast it is, and whether either got worse",
                "assay"};
  Options options_;
  RawOptions raw_;
  std::vector<std::string> words_;  // of the command line
};

}  // namespace

Table command_table() {
  return table_of(CommandLine().app());
}

ParsedOptions parse_options(int argc, const char* const* argv) {
  return CommandLine().parse(argc, argv);
}

}  // namespace assay
