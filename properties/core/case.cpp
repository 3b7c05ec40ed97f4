// SPDX-License-Identifier: Apache-2.0
#include "properties/core/case.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "kernels/core/printable.h"
#include "properties/core/text.h"

namespace assay {

std::string Case::to_string() const {
  std::string line = fmt::format("{}/{}/{}", op, path, name_of(dtype));
  for (const auto& [key, size] : dims.values()) line += fmt::format("/{}={}", key, size);
  line += fmt::format("/data={}", data.to_string());
  if (layout != Layout::kDense) line += fmt::format("/layout={}", name_of(layout));
  return line + fmt::format("/state={}/seed={}", state.to_string(), seed);
}

bool is_smaller(const Case& a, const Case& b) {
  const auto size = [](const Case& which) {
    double product = 1;
    for (const auto& [key, length] : which.dims.values()) product *= static_cast<double>(length);
    return std::pair(product, which.to_string().size());
  };
  return size(a) < size(b);
}

Case parse_case(std::string_view line) {
  constexpr size_t kLongest = 10'000;  // [bytes] sequences of states are shorter
  if (line.size() > kLongest) throw usage_error("'{}' is not a case: it is too long", excerpt(line));
  if (printable(line) != line)
    throw usage_error("'{}' is not a case: it holds what cannot be shown", excerpt(line));
  const std::vector<std::string_view> parts = split(line, '/');
  const auto is_name = [](std::string_view part) {
    return !part.empty() && part.find('=') == std::string_view::npos;
  };
  if (parts.size() < 3 || !std::ranges::all_of(std::span(parts).first(3), is_name)) {
    throw usage_error("'{}' is not a case: it must start with op/path/dtype", excerpt(line));
  }
  Case result;
  result.op = parts[0];
  result.path = parts[1];
  result.dtype = parse_dtype(parts[2]);
  std::vector<std::string_view> seen;
  for (std::string_view part : std::span(parts).subspan(3)) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw usage_error("'{}' in the case '{}' is not of the form key=value", excerpt(part), excerpt(line));
    }
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    if (std::ranges::count(seen, key) != 0)
      throw usage_error("'{}' stands twice in the case '{}'", excerpt(key), excerpt(line));
    seen.push_back(key);
    if (key == "data") {
      result.data = parse_data(value);
    } else if (key == "layout") {
      result.layout = parse_name(key, value, all_layouts());
    } else if (key == "state") {
      result.state = parse_state(value);
    } else if (key == "seed") {
      result.seed = parse_integer<uint64_t>(key, value);
    } else {
      result.dims.set(key, parse_integer<int64_t>(fmt::format("the dimension {}", key), value));
    }
  }
  return result;
}

}  // namespace assay
