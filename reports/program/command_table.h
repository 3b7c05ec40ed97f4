// SPDX-License-Identifier: Apache-2.0
// The commands and their options as a table, for shells and the manual page.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace assay {

// The names of values that a shell can complete.
inline constexpr const char *kDTypeValue = "DTYPE", *kDeviceValue = "DEVICE", *kFileValue = "FILE",
                            *kDirectoryValue = "DIR";

// A positional option has a name in capitals.
struct TableOption {
  std::string name;    // "--cases" or "FILTER"
  std::string letter;  // "q" if there is -q
  std::string value;   // "N", empty without one
  std::string summary;
  bool is_positional, is_required, repeats;
};
struct TableCommand {
  std::string name, summary;
  std::vector<TableOption> options;
};
struct Table {
  TableCommand program;  // what can stand in place of a command
  std::vector<TableCommand> commands;
};
Table table_of(const CLI::App& app);

}  // namespace assay
