// SPDX-License-Identifier: Apache-2.0
// Reads the values of options. Each function throws Error (usage), which names the option and the
// text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// "60s", "5m", "500ms", "1h"
std::chrono::duration<double> parse_time(std::string_view option, const std::string& text);

double parse_share(std::string_view option, const std::string& text);  // 0.05 for "5%"

template <class Integer>  // int64_t or uint64_t
Integer parse_integer(std::string_view option, const std::string& text, Integer least);

std::vector<std::string> words_of(const std::string& text);
std::string variable_of(const std::string& option);  // "ASSAY_CASES" for "--cases"

// Throws Error (usage) for an empty word of a command line, and for --out=. A shell makes them of
// "$DIR" and --out=$DIR. CLI11 takes the next word for the value of --out=.
void refuse_empty_words(const std::vector<std::string>& words);

}  // namespace assay
