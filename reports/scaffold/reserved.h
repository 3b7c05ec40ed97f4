// SPDX-License-Identifier: Apache-2.0
// Names that the written code cannot give to something of a formula.
#pragma once

#include <string_view>

namespace assay {

// Words of C++, macros of its headers, and keys of case lines. The code that is written has names
// of its own, too: project_files() refuses those.
bool is_reserved(std::string_view name);

// Names that mean something in namespace assay already, or a folder of Assay.
bool is_reserved_namespace(std::string_view name);

}  // namespace assay
