// SPDX-License-Identifier: Apache-2.0
// completion: what a shell needs to complete command lines, made from the table of commands.
//
// A word is completed by its kind: that of the value of an option, or one that follows from the
// name of a positional argument.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/program/shell_templates.h"
#include "reports/scaffold/templates.h"

namespace assay {
namespace {

constexpr const char *kPathKind = "PATH", *kShellKind = "SHELL";

std::vector<std::string> kinds_of(const TableCommand& command) {
  std::vector<std::string> kinds;
  const auto add = [&](const char* kind) {
    if (std::ranges::count(kinds, kind) == 0) kinds.emplace_back(kind);
  };
  for (const TableOption& option : command.options) {
    if (!option.is_positional) continue;
    const auto has = [&](std::string_view part) { return option.name.find(part) != std::string::npos; };
    if (has("FILTER") || has("CASE")) add(kPathKind);
    if (has("CAPSULE") || has("RUN") || has("BEFORE") || has("AFTER")) add(kFileValue);
    if (has("SHELL")) add(kShellKind);
  }
  return kinds;
}

std::string replaced(std::string text, std::string_view part, std::string_view by) {
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += by.size())
    text.replace(at, part.size(), by);
  return text;
}

// A shell function has the name of the program, as far as it may.
std::string function_name(std::string program) {
  std::ranges::replace_if(
      program, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return "_" + program;
}

// The words of the kinds that are no files.
Lists words_of(const Registry& registry) {
  std::vector<std::string> paths;
  for (const Op* op : registry.ops()) {
    paths.emplace_back(op->name);
    for (const Path& path : op->paths) paths.push_back(fmt::format("{}/{}", op->name, path.name));
  }
  return {{"words",
           {{{"kind", kDTypeValue}, {"words", "f32 f16 bf16"}},
            {{"kind", kDeviceValue}, {"words", "all cpu cuda"}},
            {{"kind", kShellKind}, {"words", "bash zsh fish"}},
            {{"kind", kPathKind}, {"words", fmt::format("{}", fmt::join(paths, " "))}}}}};
}

std::string option_names(const TableCommand& command) {
  std::vector<std::string> names;
  for (const TableOption& option : command.options) {
    if (!option.is_positional) names.push_back(option.name);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

std::string bash_script(const Table& table, Fields fields, Lists lists) {
  std::vector<std::string> names;
  for (const TableCommand& command : table.commands) {
    names.push_back(command.name);
    lists["commands"].push_back({{"name", command.name},
                                 {"kinds", fmt::format("{}", fmt::join(kinds_of(command), " "))},
                                 {"options", option_names(command)}});
    for (const TableOption& option : command.options) {
      if (!option.value.empty())
        lists["values"].push_back(
            {{"command", command.name}, {"name", option.name}, {"value", option.value}});
    }
  }
  fields["names"] = fmt::format("{}", fmt::join(names, " "));
  fields["options"] = option_names(table.program);
  return fill(kBashTemplate, fields, lists);
}

bool is_file(std::string_view kind) {
  return kind == kFileValue || kind == kDirectoryValue;
}

bool has_words(std::string_view kind, const Lists& lists) {
  return std::ranges::any_of(lists.at("words"), [&](const Fields& item) { return item.at("kind") == kind; });
}

// The arguments of _arguments.
std::string zsh_options(const TableCommand& command, const std::string& function, const Lists& lists) {
  std::string text;
  for (const TableOption& option : command.options) {
    if (option.is_positional) continue;
    std::string summary = replaced(option.summary, "'", "'\\''");
    for (const char* special : {"[", "]"}) summary = replaced(summary, special, std::string("\\") + special);
    const bool completes = is_file(option.value) || has_words(option.value, lists);
    const std::string value =
        option.value.empty()
            ? ""
            : fmt::format("=:{}:{}", option.value, completes ? function + "_" + option.value : " ");
    text += fmt::format(" '{}{}[{}]{}'", option.name, value.empty() ? "" : "=", summary,
                        value.empty() ? "" : value.substr(1));
    if (!option.letter.empty()) text += fmt::format(" '-{}[{}]'", option.letter, summary);
  }
  std::string action;
  for (const std::string& kind : kinds_of(command)) action += fmt::format(" {}_{};", function, kind);
  if (!action.empty()) text += fmt::format(" '*:argument:{{{} }}'", action);
  return text;
}

std::string zsh_script(const Table& table, Fields fields, Lists lists) {
  const std::string function = fields.at("function");
  for (const TableCommand& command : table.commands) {
    lists["commands"].push_back({{"name", command.name},
                                 {"summary", replaced(command.summary, "'", "'\\''")},
                                 {"options", zsh_options(command, function, lists)}});
  }
  fields["options"] = zsh_options(table.program, function, lists);
  return fill(kZshTemplate, fields, lists);
}

std::string fish_words(std::string_view kind, const Lists& lists) {
  for (const Fields& item : lists.at("words")) {
    if (item.at("kind") == kind) return fmt::format("-a '{}'", item.at("words"));
  }
  if (kind == kDirectoryValue) return "-a '(__fish_complete_directories)'";
  return kind == kFileValue ? "-F" : "";
}

void add_fish_options(const TableCommand& command, const std::string& condition, Lists& lists) {
  for (const TableOption& option : command.options) {
    if (option.is_positional) continue;
    std::string text = "-l " + option.name.substr(2);
    if (!option.letter.empty()) text += " -s " + option.letter;
    if (!option.value.empty())
      text +=
          fmt::format(" {} {}", option.value == kFileValue ? "-r" : "-x", fish_words(option.value, lists));
    lists["options"].push_back(
        {{"condition", condition}, {"option", text}, {"summary", replaced(option.summary, "'", "\\'")}});
  }
}

std::string fish_script(const Table& table, const Fields& fields, Lists lists) {
  add_fish_options(table.program, "__fish_use_subcommand", lists);
  for (const TableCommand& command : table.commands) {
    lists["commands"].push_back({{"name", command.name}, {"summary", replaced(command.summary, "'", "\\'")}});
    add_fish_options(command, "__fish_seen_subcommand_from " + command.name, lists);
    for (const std::string& kind : kinds_of(command))
      lists["arguments"].push_back({{"command", command.name}, {"argument", fish_words(kind, lists)}});
  }
  return fill(kFishTemplate, fields, lists);
}

}  // namespace

int run_completion(const Registry& registry, const Options& options) {
  const Table table = command_table();
  const std::string program = std::filesystem::path(options.command_line.at(0)).filename().string();
  const Fields fields{{"program", program}, {"function", function_name(program)}};
  const Lists lists = words_of(registry);
  const auto script = options.subject == "bash"  ? bash_script
                      : options.subject == "zsh" ? zsh_script
                                                 : nullptr;
  fmt::print("{}", script != nullptr ? script(table, fields, lists) : fish_script(table, fields, lists));
  return kExitPassed;
}

}  // namespace assay
