// SPDX-License-Identifier: Apache-2.0
#include "reports/program/command_table.h"

#include <CLI/CLI.hpp>

namespace assay {
namespace {

TableCommand command_of(const CLI::App& app) {
  TableCommand command{.name = app.get_name(), .summary = app.get_description(), .options = {}};
  for (const CLI::Option* option : app.get_options()) {
    const bool is_positional = option->get_positional();
    const bool is_flag = !is_positional && option->get_items_expected_max() == 0;
    command.options.push_back(
        {.name = is_positional ? option->get_name(true) : "--" + option->get_lnames().front(),
         .letter = option->get_snames().empty() ? "" : option->get_snames().front(),
         .value = is_positional || is_flag ? "" : option->get_type_name(),
         .summary = option->get_description(),
         .is_positional = is_positional,
         .is_required = option->get_required(),
         .repeats = option->get_items_expected_max() > 1});
  }
  return command;
}

}  // namespace

Table table_of(const CLI::App& app) {
  Table table{.program = command_of(app), .commands = {}};
  for (const CLI::App* sub : app.get_subcommands({})) table.commands.push_back(command_of(*sub));
  return table;
}

}  // namespace assay
