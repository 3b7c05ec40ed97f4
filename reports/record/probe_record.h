// SPDX-License-Identifier: Apache-2.0
// What a probe.json says of each sum (reports/schema/assay.probe-1.schema.json).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct ProbeFinding {
  std::string op, path, model;  // `model` of the device
  std::string dtype, site, what;
  int64_t terms = 0;
  std::string tree;   // its shape in words; empty if none was found
  std::string nodes;  // all of it, the same text for the same tree
  std::string text;   // on one line: tree, adder, contradictions, or why it was not probed
};

// Throws Error (usage) that names the field.
std::vector<ProbeFinding> parse_probe(std::string_view text, std::string_view source);

// A line for each sum that both have, with as many terms on the same model of device, and that adds
// up in another tree. Empty if there is none.
std::string tree_changes(const std::vector<ProbeFinding>& before, const std::vector<ProbeFinding>& after);

}  // namespace assay
