// SPDX-License-Identifier: Apache-2.0
// Templates of the files of a project, and how they are filled in.
//
//   @name@            is replaced by that field; its value may have several lines
//   @each list@ line  stands once for each item of the list, whose fields it may name, too
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The files project/*.in; defined by assay_embed().
extern const std::string_view kProjectLists, kProjectReadme, kProjectContract, kProjectOp, kProjectLoop;
extern const std::string_view kProjectOracle, kProjectProperties, kProjectBench;

using Fields = std::map<std::string, std::string>;
using Lists = std::map<std::string, std::vector<Fields>>;

// Throws Error (internal) for a field or a list that is not there.
std::string fill(std::string_view text, const Fields& fields, const Lists& lists);

}  // namespace assay
