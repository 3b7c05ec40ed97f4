// SPDX-License-Identifier: Apache-2.0
// A small check that XML is well-formed, for the XML of this project: elements, attributes,
// entities, no DTD.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// The first fault with its position; empty if there is none.
std::string markup_fault(std::string_view document);

}  // namespace assay
