// SPDX-License-Identifier: Apache-2.0
#include "reports/program/option_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <sstream>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {

std::chrono::duration<double> parse_time(std::string_view option, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, text.data() + text.size());
  const double seconds = unit == "ms" ? 1e-3 : unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || seconds == 0 || !(number > 0) || !std::isfinite(number * seconds)) {
    throw usage_error("{} {} is not a time such as 60s, 5m or 500ms", option, excerpt(text));
  }
  return std::chrono::duration<double>(number * seconds);
}

double parse_share(std::string_view option, const std::string& text) {
  double percent = 0;
  const char* text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, percent);
  if (error != std::errc() || std::string_view(end, text_end) != "%" || !(percent >= 0) ||
      !std::isfinite(percent)) {
    throw usage_error("{} {} is not a share such as 5% or 0.5%", option, excerpt(text));
  }
  return percent / 100;
}

template <class Integer>
Integer parse_integer(std::string_view option, const std::string& text, Integer least) {
  Integer number{};
  const char* text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, number);
  if (error != std::errc() || end != text_end || number < least) {
    throw usage_error("{} {} is not an integer from {} to {}", option, excerpt(text), least,
                      std::numeric_limits<Integer>::max());
  }
  return number;
}

template int64_t parse_integer(std::string_view, const std::string&, int64_t);
template uint64_t parse_integer(std::string_view, const std::string&, uint64_t);

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string variable_of(const std::string& option) {
  std::string variable = "ASSAY_" + option.substr(2);
  std::ranges::transform(variable, variable.begin(),
                         [](char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  return variable;
}

void refuse_empty_words(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (word.empty() || (word.starts_with("--") && word.ends_with("=")))
      throw usage_error("{} is empty; see --help", word.empty() ? "an argument" : excerpt(word));
}

}  // namespace assay
