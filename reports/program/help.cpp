// SPDX-License-Identifier: Apache-2.0
#include "reports/program/help.h"

#include <sstream>

#include "kernels/core/did_you_mean.h"
#include "kernels/core/printable.h"
#include "reports/program/terminal.h"
#include "reports/render/text.h"

namespace assay {
namespace {

// Each line of a text of its own.
std::string lines_wrapped(const std::string& text, int width) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) all += wrapped(line, width) + "\n";
  return all;
}

// Beside the names.
std::string in_column(const std::string& text, size_t names) {
  return wrapped(text, text_width() - static_cast<int>(names));
}

}  // namespace

std::string HelpLayout::make_description(const CLI::App* app) const {
  return lines_wrapped(Formatter::make_description(app), text_width());
}

std::string HelpLayout::make_footer(const CLI::App* app) const {
  return lines_wrapped(Formatter::make_footer(app), text_width());
}

std::string HelpLayout::make_subcommand(const CLI::App* sub) const {
  std::ostringstream out;
  CLI::detail::format_help(out, sub->get_name(), in_column(sub->get_description(), get_column_width()),
                           get_column_width());
  return out.str();
}

std::string HelpLayout::make_option_desc(const CLI::Option* option) const {
  return in_column(option->get_description(), get_column_width());
}

std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) return excerpt(error.what());
  const auto chosen = app.get_subcommands();
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const bool is_option = word.starts_with("-");
  if (!is_option && !chosen.empty()) return excerpt(error.what());
  std::vector<std::string> known;
  if (is_option) {
    const CLI::App& command = chosen.empty() ? app : *chosen.front();
    for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
    return fmt::format("{} has no option {}{}", command.get_name(), excerpt(word), did_you_mean(word, known));
  }
  for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  return fmt::format("there is no command {}{}", excerpt(word), did_you_mean(word, known));
}

}  // namespace assay
