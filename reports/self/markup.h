// SPDX-License-Identifier: Apache-2.0
// A small check of well-formed XML, for what this project writes: elements, attributes, entities, no DTD.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// What is wrong first, with its position; empty if nothing is.
std::string markup_fault(std::string_view document);

}  // namespace assay
