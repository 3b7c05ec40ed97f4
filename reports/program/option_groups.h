// SPDX-License-Identifier: Apache-2.0
// Groups of options that several commands share. Each function declares one on a command.
#pragma once

#include <string>

#include "reports/program/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace assay {

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
  std::string min_time;
  bool no_isolate = false;
  std::string shard;
  std::string slower = "5%";
  std::string more_wrong = "25%";
  std::string repeat;
};

// What was typed: values that need no parser are in `options`.
struct Typed {
  Options options;
  RawOptions raw;
};

void add_selection(CLI::App& sub, Typed& typed);  // FILTER, --dtype, --device
void add_case(CLI::App& sub, Typed& typed);
CLI::Option* add_in(CLI::App& sub, Typed& typed, const char* what);
void add_shares(CLI::App& sub, Typed& typed);
void add_dtype(CLI::App& sub, Typed& typed);
void add_device(CLI::App& sub, Typed& typed);
void add_seed(CLI::App& sub, Typed& typed);
void add_cases(CLI::App& sub, Typed& typed);  // what draws the cases of verify
void add_shard(CLI::App& sub, Typed& typed, const char* what);
void add_isolation(CLI::App& sub, Typed& typed);
CLI::Option* add_out(CLI::App& sub, Typed& typed, const char* what);
void add_resume(CLI::App& sub, Typed& typed);  // after add_out()
void add_json(CLI::App& sub, Typed& typed);
void add_sides(CLI::App& sub, Typed& typed);  // BEFORE, AFTER
void add_limits(CLI::App& sub,
                Typed& typed);  // FILTER, --slower, --more-wrong and what else a comparison has
void add_policy(CLI::App& sub, Typed& typed);  // of a gate
void add_strict_env(CLI::App& sub, Typed& typed);

}  // namespace assay
