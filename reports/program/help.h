// SPDX-License-Identifier: Apache-2.0
// The layout of --help.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace assay {

// That of CLI11, but sentences are broken where text_width() ends.
class HelpLayout : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// Names the first word that no command takes, if there is one, and what it may stand for.
std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace assay
