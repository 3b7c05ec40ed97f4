// SPDX-License-Identifier: Apache-2.0
#include "reports/program/options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "kernels/core/printable.h"
#include "reports/program/command_line.h"
#include "reports/program/help.h"
#include "reports/program/option_values.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/program/selection.h"
#include "reports/program/shard.h"

namespace assay {
namespace {

class CommandLine {
 public:
  CommandLine() {
    declare_commands(app_, typed_);
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
    if (!words_.empty() && words_.front() == "help") {  // "help replay" is "replay --help"
      words_.erase(words_.begin());
      words_.emplace_back("--help");
    }
    try {
      refuse_empty_words(words_);
      ignore_overruled_variables();
      app_.parse(std::vector<std::string>(words_.rbegin(), words_.rend()));
      if (app_.get_subcommands().empty()) throw usage_error("a command is required; see --help");
      for (const CLI::Option* option : app_.get_subcommands().front()->get_options()) {
        if (option->count() > 0) options_.given.push_back(option->get_name());
      }
      if (!raw_.shard.empty()) raw_.shard = text_of(parse_shard(origin("--shard"), raw_.shard));
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
      if (!raw_.min_time.empty()) options_.min_time = parse_time(origin("--min-time"), raw_.min_time);
      options_.isolate = !raw_.no_isolate;
      if (options_.out == "-")
        throw usage_error("{} - is not the standard output; for a file write ./-", origin("--out"));
      if (!raw_.shard.empty()) {
        const Shard shard = parse_shard(origin("--shard"), raw_.shard);
        options_.shard = shard.number - 1;
        options_.shards = shard.count;
      }
      if (!raw_.repeat.empty()) options_.repeats = parse_integer<int64_t>(origin("--repeat"), raw_.repeat, 1);
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
    std::string no_isolate = raw_.no_isolate ? "yes" : "", no_shrink = options_.no_shrink ? "yes" : "";
    std::string filters = fmt::format("{}", fmt::join(options_.filters, " "));
    std::string sizes = fmt::format("{}", fmt::join(options_.sizes, " "));
    const std::pair<const char*, std::string*> texts[] = {
        {"command", &command},         {"FILTER", &filters},          {"--dtype", &raw_.dtype},
        {"--device", &raw_.device},    {"--cases", &raw_.cases},      {"--budget", &raw_.budget},
        {"--seed", &raw_.seed},        {"--shard", &raw_.shard},      {"--max-elements", &raw_.max_elements},
        {"--sweep", &sizes},           {"--specimens", &specimens},   {"--max-failures", &raw_.max_failures},
        {"--timeout", &raw_.timeout},  {"--no-isolate", &no_isolate}, {"--no-shrink", &no_shrink},
        {"--min-time", &raw_.min_time}};
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
      options_.sizes = words_of(sizes);
      options_.specimens = !specimens.empty();
      options_.hostile = specimens == "hostile";
      raw_.no_isolate = !no_isolate.empty();
    }
    for (const auto& [name, text] : texts) {
      if (!text->empty()) options_.typed[name] = *text;
    }
  }

  CLI::App app_{"How wrong each path of a numerical kernel is, how fast it is, and whether either got worse",
                "assay"};
  Typed typed_;
  Options& options_ = typed_.options;
  RawOptions& raw_ = typed_.raw;
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
