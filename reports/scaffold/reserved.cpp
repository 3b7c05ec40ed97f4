// SPDX-License-Identifier: Apache-2.0
#include "reports/scaffold/reserved.h"

#include <algorithm>
#include <array>

namespace assay {
namespace {

constexpr auto kWords = std::to_array<std::string_view>(
    {"alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
     "catch", "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval",
     "constexpr", "constinit", "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype",
     "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern",
     "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new",
     "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public",
     "register", "reinterpret_cast", "requires", "return", "short", "signed", "sizeof", "static",
     "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true",
     "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
     "wchar_t", "while", "xor", "xor_eq",
     // macros
     "EOF", "INFINITY", "NAN", "NULL", "assert", "errno", "linux", "stderr", "stdin", "stdout", "unix",
     // of case lines
     "data", "layout", "seed", "state"});

constexpr auto kNamespaces = std::to_array<std::string_view>(
    {"additivity", "assay",     "bf16",         "build",    "build_info", "changed", "compute",
     "core",       "core_cuda", "cpu",          "differs",  "draw",       "f16",     "fmt",
     "fuzz",       "hwy",       "independence", "judge",    "measure",    "mixed",   "permutation",
     "plant",      "precheck",  "rc",           "registry", "scaling",    "self",    "split",
     "std",        "store",     "sweeps",       "test",     "visit",      "write"});

template <size_t size>
bool contains(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_reserved(std::string_view name) {
  return contains(kWords, name);
}

bool is_reserved_namespace(std::string_view name) {
  return contains(kNamespaces, name);
}

}  // namespace assay
