// SPDX-License-Identifier: Apache-2.0
// manual: the manual page, made from the table of commands.
#include <algorithm>
#include <filesystem>

#include "reports/program/commands.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/shell_templates.h"
#include "reports/scaffold/templates.h"

namespace assay {
namespace {

// Text for roff.
std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) safe += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

std::string synopsis(const TableCommand& command) {
  std::string text = command.name;
  for (const TableOption& option : command.options) {
    if (!option.is_positional) continue;
    const std::string name = option.name + (option.repeats ? " ..." : "");
    text += option.is_required ? " " + name : " [" + name + "]";
  }
  return escaped(text);
}

std::string options_of(const TableCommand& command) {
  std::string text;
  for (const TableOption& option : command.options) {
    text += ".TP\n";
    if (option.is_positional) {
      text += fmt::format(".I {}\n", escaped(option.name));
    } else {
      const std::string letter = option.letter.empty() ? "" : fmt::format("\\-{}, ", option.letter);
      text += fmt::format(".B {}{} {}\n", letter, escaped(option.name), escaped(option.value));
    }
    text +=
        escaped(option.summary) + (option.is_required && !option.is_positional ? " (required)" : "") + "\n";
  }
  return text;
}

}  // namespace

int run_manual(const Options& options) {
  const Table table = command_table();
  const std::string program = std::filesystem::path(options.command_line.at(0)).filename().string();
  std::string title = program, commands, codes;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const TableCommand& command : table.commands) {
    commands +=
        fmt::format(".SS {}\n{}.\n{}", synopsis(command), escaped(command.summary), options_of(command));
  }
  for (const auto& [code, meaning] : kExitMeanings)
    codes += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(code), escaped(meaning));
  fmt::print("{}", fill(kManualTemplate,
                        {{"program", program},
                         {"title", title},
                         {"version", tool_record().version},
                         {"summary", escaped(table.program.summary)},
                         {"commands", commands},
                         {"codes", codes}},
                        {}));
  return kExitPassed;
}

}  // namespace assay
