// SPDX-License-Identifier: Apache-2.0
#include "reports/program/options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <sstream>

#include "kernels/core/printable.h"
#include "properties/core/generate.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"

namespace assay {
namespace {

// "60s", "5m", "500ms", "1h"; a bare number is seconds.
std::chrono::duration<double> parse_time(std::string_view option, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, text.data() + text.size());
  const double seconds = unit == "ms"                ? 1e-3
                         : unit == "" || unit == "s" ? 1
                         : unit == "m"               ? 60
                         : unit == "h"               ? 3600
                                                     : 0;
  if (error != std::errc() || seconds == 0 || !(number > 0) || !std::isfinite(number * seconds)) {
    throw usage_error("{} {} is not a time such as 60s, 5m or 500ms", option, excerpt(text));
  }
  return std::chrono::duration<double>(number * seconds);
}

// "5%", "0.5%", as a share.
double parse_share(std::string_view option, const std::string& text) {
  double percent = 0;
  const char* text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, percent);
  if (error != std::errc() || std::string_view(end, text_end) != "%" || !(percent >= 0) ||
      !std::isfinite(percent)) {
    throw usage_error("{} {} is not a share such as 5% or 0.5%", option, excerpt(text));
  }
  return percent / 100;
}

template <class Integer>
Integer parse_integer(std::string_view option, const std::string& text, Integer least) {
  Integer number{};
  const char* text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, number);
  if (error != std::errc() || end != text_end || number < least) {
    throw usage_error("{} {} is not an integer from {} to {}", option, excerpt(text), least,
                      std::numeric_limits<Integer>::max());
  }
  return number;
}

void parse_shard(const std::string& text, Options& options) {
  const size_t slash = text.find('/');
  int64_t i = 0;
  int64_t n = 0;
  const char* end = text.data() + text.size();
  if (slash != std::string::npos) {
    const auto first = std::from_chars(text.data(), text.data() + slash, i);
    const auto second = std::from_chars(text.data() + slash + 1, end, n);
    if (first.ptr != text.data() + slash || second.ptr != end) i = 0;
  }
  if (i < 1 || i > n) throw usage_error("--shard {} is not i/n with 1 <= i <= n", excerpt(text));
  options.shard = i - 1;
  options.shards = n;
}

// Options as text, for those that need a parser of ours.
struct RawOptions {
  std::string device;
  std::string dtype;
  std::string cases;
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

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version", tool_record().version + " (" + tool_record().git + ")");
    app_.footer(
        "Exit codes: 0 passed, 1 numerical failure, 2 usage, 3 slower (gate), 4 unclear (gate --certain),\n"
        "5 nothing selected, or gone (gate), 6 environment unfit (--strict-env), 70 internal error,\n"
        "77 device absent, 130 interrupted. Every option has an environment twin ASSAY_<OPTION>.");

    auto& list = add(Command::kList, "list", "Print the ops, their paths and what they need");
    add_selection(list);
    add_json(list);

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
        ->envname("ASSAY_SPECIMENS");

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

    auto& replay = add(Command::kReplay, "replay", "Judge one case, or the tensors of a capsule, again");
    replay.add_option("CASE|CAPSULE", options_.subject, "A case line or a .safetensors capsule")->required();
    add_device(replay);
    add_isolation(replay);
    add_out(replay, "Directory for the record, the reports and, of a failure, the capsule");
    add_json(replay);
    add_shares(replay);

    auto& draw = add(Command::kDraw, "draw", "Write the inputs of one case to a .safetensors file");
    add_case(draw);
    draw.add_option("--out", options_.out, "File for the inputs")->required()->envname("ASSAY_OUT");

    auto& judge = add(Command::kJudge, "judge",
                      "Judge outputs that somebody else computed, in a .safetensors file; runs no path");
    add_case(judge);
    add_in(judge, "File with the inputs as `list` names them (default: those that `draw` writes)");
    judge.add_option("--got", options_.got, "File with the outputs as `list` names them")
        ->required()
        ->envname("ASSAY_GOT");
    add_out(judge, "Directory for the record, the reports and, of a failure, the capsule");
    add_json(judge);
    add_shares(judge);

    auto& exec = add(Command::kExec, "exec", "Run one case on tensors from a .safetensors file");
    add_case(exec);
    add_in(exec, "File with the inputs as `list` names them; booleans are 0 and 1")->required();
    exec.add_option("--out", options_.out, "File for the outputs")->required()->envname("ASSAY_OUT");
    add_device(exec);

    auto& report = add(Command::kReport, "report", "Render the reports of a record again");
    report.add_option("RUN.JSON", options_.subject, "A record that `run` left, or its directory")->required();
    add_out(report, "Directory for the reports (default: beside the record)");

    auto& create =
        add(Command::kNew, "new", "Write the project of an op with one formula, to build and to judge");
    create.add_option("OP", options_.subject, "The name of the op and of its folder, in snake_case")
        ->required();
    create.add_option("FORMULA", options_.formula, "Such as 'y[m] = sum_k a[m,k] * x[k] - 0.5 * z[m]'")
        ->required();

    auto& compare =
        add(Command::kCompare, "compare", "Print what got slower or more wrong between two records");
    add_sides(compare);

    auto& gate = add(Command::kGate, "gate", "Compare, and fail if anything got worse");
    add_sides(gate);
    gate.add_flag("--certain", options_.certain, "Fail with exit code 4 if the samples leave a time open")
        ->envname("ASSAY_CERTAIN");
  }

  ParsedOptions parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
      if (app_.get_subcommands().empty()) throw usage_error("a subcommand is required; see --help");
      take_typed();
      if (!raw_.device.empty()) options_.device = raw_.device;
      if (!raw_.dtype.empty()) options_.dtype = parse_dtype(raw_.dtype);
      if (!raw_.cases.empty()) options_.cases = parse_integer<int64_t>("--cases", raw_.cases, 1);
      if (!raw_.max_elements.empty())
        options_.max_elements = parse_integer<int64_t>("--max-elements", raw_.max_elements, 1);
      if (!raw_.max_failures.empty())
        options_.max_failures = parse_integer<int64_t>("--max-failures", raw_.max_failures, 1);
      if (!raw_.seed.empty()) options_.seed = parse_integer<uint64_t>("--seed", raw_.seed, 0);
      if (!raw_.budget.empty()) options_.budget = parse_time("--budget", raw_.budget);
      if (!raw_.timeout.empty()) options_.timeout = parse_time("--timeout", raw_.timeout);
      options_.isolate = !raw_.no_isolate;
      if (raw_.no_isolate && !raw_.timeout.empty())
        throw usage_error("--timeout {} needs the workers that --no-isolate leaves out",
                          excerpt(raw_.timeout));
      if (!raw_.budget.empty() && !raw_.cases.empty())
        throw usage_error("--cases {} and --budget {} exclude each other", excerpt(raw_.cases),
                          excerpt(raw_.budget));
      if (!raw_.shard.empty()) parse_shard(raw_.shard, options_);
      options_.limits.slower = parse_share("--slower", raw_.slower);
      options_.limits.more_wrong = parse_share("--more-wrong", raw_.more_wrong);
      if (options_.specimens && options_.max_failures)
        throw usage_error("--max-failures {} does not apply to --specimens", *options_.max_failures);
    } catch (const CLI::Success& success) {
      app_.exit(success);
      return {.options = {}, .exit_code = kExitPassed};
    } catch (const CLI::ParseError& error) {
      fmt::print(stderr, "assay: {}; see --help\n", excerpt(error.what()));
      return {.options = {}, .exit_code = kExitUsage};
    }
    options_.command_line.assign(argv, argv + argc);
    return {.options = options_, .exit_code = kExitPassed};
  }

 private:
  // Keeps the text of the options that select and draw the cases. A resumed run takes those of its
  // journal, and refuses others.
  void take_typed() {
    std::string command = app_.get_subcommands().front()->get_name();
    std::string specimens = options_.specimens ? "yes" : "";
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
                                                          {"--max-failures", &raw_.max_failures}};
    if (!options_.resume.empty()) {
      if (!options_.out.empty() && options_.out != options_.resume)
        throw usage_error("--out {} and --resume {} exclude each other", options_.out, options_.resume);
      options_.out = options_.resume;
      const Journal journal = unfinished_run(options_.resume);
      for (const auto& [name, text] : texts) {
        const auto found = journal.options.find(name);
        const std::string was = found == journal.options.end() ? "" : found->second;
        if (!text->empty() && *text != was) {
          throw usage_error("{} {}: the unfinished run in {} has {}", name, *text, options_.resume,
                            was.empty() ? "none" : was);
        }
        *text = was;
      }
      options_.filters = words_of(filters);
      options_.specimens = !specimens.empty();
    }
    for (const auto& [name, text] : texts) {
      if (!text->empty()) options_.typed[name] = *text;
    }
  }

  CLI::App& add(Command command, const char* name, const char* what) {
    CLI::App& sub = *app_.add_subcommand(name, what);
    sub.callback([this, command] { options_.command = command; });
    sub.add_flag("-q,--quiet", options_.quiet, "No progress on stderr")->envname("ASSAY_QUIET");
    return sub;
  }
  void add_selection(CLI::App& sub) {
    sub.add_option("FILTER", options_.filters, "Globs on op or op/path: 'dynamic*', '*/cuda*'");
    sub.add_option("--dtype", raw_.dtype, "Only this storage dtype: f32, f16 or bf16")
        ->envname("ASSAY_DTYPE");
    add_device(sub);
  }
  void add_case(CLI::App& sub) {
    sub.add_option("CASE", options_.subject, "A case line: op/path/dtype/dim=size/...")->required();
  }
  CLI::Option* add_in(CLI::App& sub, const char* what) {
    return sub.add_option("--in", options_.in, what)->envname("ASSAY_IN");
  }
  void add_shares(CLI::App& sub) {
    sub.add_flag("--shares", options_.shares,
                 "Also say bound and error of each stage performed alone, where its oracle has stages")
        ->envname("ASSAY_SHARES");
  }
  void add_device(CLI::App& sub) {
    sub.add_option("--device", raw_.device, "all, cpu, cuda or cuda:k (default all)")
        ->envname("ASSAY_DEVICE");
  }
  void add_seed(CLI::App& sub) {
    sub.add_option("--seed", raw_.seed, "Seed of the cases (default 0)")->envname("ASSAY_SEED");
  }
  void add_cases(CLI::App& sub) {
    sub.add_option("--cases", raw_.cases, "Cases per path (default 200)")->envname("ASSAY_CASES");
    sub.add_option("--budget", raw_.budget, "Time per path instead of a number of cases: 60s, 5m")
        ->envname("ASSAY_BUDGET");
    sub.add_option("--max-elements", raw_.max_elements,
                   "Elements of a case's largest tensor (default " + std::to_string(kFuzzElements) + ")")
        ->envname("ASSAY_MAX_ELEMENTS");
    sub.add_option("--max-failures", raw_.max_failures,
                   "Failing cases after which a path is judged no further")
        ->envname("ASSAY_MAX_FAILURES");
    sub.add_option("--shard", raw_.shard, "Judge the i-th of n parts of the cases: i/n")
        ->envname("ASSAY_SHARD");
    add_seed(sub);
  }
  void add_isolation(CLI::App& sub) {
    sub.add_option("--timeout", raw_.timeout,
                   "Time for one case: 60s, 5m (default: 60 s, and more for large cases)")
        ->envname("ASSAY_TIMEOUT");
    sub.add_flag("--no-isolate", raw_.no_isolate,
                 "Run paths in this process instead of workers, for debuggers and sanitizers")
        ->envname("ASSAY_NO_ISOLATE");
  }
  void add_out(CLI::App& sub, const char* what) {
    sub.add_option("--out", options_.out, what)->envname("ASSAY_OUT");
  }
  void add_resume(CLI::App& sub) {
    sub.add_option("--resume", options_.resume, "Go on with the unfinished run in this directory")
        ->envname("ASSAY_RESUME");
  }
  void add_json(CLI::App& sub) {
    sub.add_flag("--json", options_.json, "JSON on stdout instead of a table")->envname("ASSAY_JSON");
  }
  void add_sides(CLI::App& sub) {
    const char* const kSide = "A record, the folder of one, or a folder of such folders: several runs";
    sub.add_option("BEFORE", options_.subject, kSide)->required();
    sub.add_option("AFTER", options_.after, kSide)->required();
    sub.add_option("FILTER", options_.filters, "Only these: globs on op or op/path");
    sub.add_option("--slower", raw_.slower, "What a time may grow by (default 5%)")->envname("ASSAY_SLOWER");
    sub.add_option("--more-wrong", raw_.more_wrong,
                   "What the rms of a path's distances may grow by (default 25%)")
        ->envname("ASSAY_MORE_WRONG");
    sub.add_flag("--all", options_.all, "Also print what did not change")->envname("ASSAY_ALL");
    add_json(sub);
  }
  void add_strict_env(CLI::App& sub) {
    sub.add_flag("--strict-env", options_.strict_env,
                 "Fail with exit code 6 if the machine is unfit for timing")
        ->envname("ASSAY_STRICT_ENV");
  }

  CLI::App app_{"How wrong each path of a numerical kernel is, how fast it is, and whether either got worse",
                "assay"};
  Options options_;
  RawOptions raw_;
};

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  return CommandLine().parse(argc, argv);
}

}  // namespace assay
