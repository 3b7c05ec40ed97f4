// SPDX-License-Identifier: Apache-2.0
#include "reports/render/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace assay {
namespace {

// Three digits of value / 1000^k with the k-th unit. k is chosen for readable digits.
template <size_t N>
std::string with_unit(double value, const std::array<std::string_view, N>& units) {
  size_t unit = 0;
  while (unit + 1 < N && std::abs(value) >= 999.5) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", format_number(value), units[unit]);
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string escaped;
  for (char c : printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string clipped(std::string text, size_t bytes) {
  constexpr std::string_view kEllipsis = "…";
  if (text.size() <= bytes) return text;
  size_t end = bytes > kEllipsis.size() ? bytes - kEllipsis.size() : 0;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text += kEllipsis;
}

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string wrapped(std::string_view text, int width, int indent) {
  constexpr size_t kNone = std::string_view::npos;
  std::string lines;
  size_t room = static_cast<size_t>(std::max(width, 1));
  while (columns_of(text) > room) {
    size_t cut = kNone;
    for (size_t space = text.find(' ', text.find_first_not_of(' ')); space != kNone;
         space = text.find(' ', space + 1)) {
      if (cut != kNone && columns_of(text.substr(0, space)) > room) break;
      cut = space;
    }
    if (cut == kNone) break;
    const size_t end = text.find_last_not_of(' ', cut) + 1;
    lines += fmt::format("{}\n{:{}}", text.substr(0, end), "", indent);
    text.remove_prefix(std::min(text.find_first_not_of(' ', cut), text.size()));
    room = static_cast<size_t>(std::max(width - indent, 1));
  }
  return lines + std::string(text);
}

std::string in_lines(std::string_view text, int width, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string lines;
  if (text.empty() || columns_of(text) + margin.size() <= static_cast<size_t>(std::max(width, 0)))
    return std::string(text);
  while (!text.empty()) {
    const size_t end = std::min(text.find("; "), text.size() - 1) + 1;
    lines += (lines.empty() ? "" : "\n") + wrapped(margin + std::string(text.substr(0, end)), width, indent);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines.substr(margin.size());
}

std::string format_number(std::optional<double> value) {
  if (!value) return "–";
  const double magnitude = std::abs(*value);
  if (magnitude == 0 || !std::isfinite(magnitude) || (magnitude >= 99.95 && magnitude < 1e6))
    return fmt::format("{:.0f}", *value);
  return fmt::format("{:#.3g}", *value);
}

std::string format_ratio(std::optional<double> ratio) {
  const bool rounds_to_1 = ratio && *ratio < 1 && *ratio >= 0.9995;
  return rounds_to_1 ? "0.999" : format_number(ratio);
}

std::string format_time(double ns) {
  return with_unit(ns, std::array<std::string_view, 4>{"ns", "µs", "ms", "s"});
}

std::string format_rate(double bytes_per_s) {
  return fmt::format("{} GB/s", format_number(bytes_per_s * 1e-9));
}

std::string format_flops(double flops_per_s) {
  return with_unit(flops_per_s,
                   std::array<std::string_view, 5>{"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"});
}

std::string format_products(const std::optional<Ceilings>& ceilings) {
  std::string text;
  for (const auto& [factor, rate] : ceilings.value_or(Ceilings{}).product_flops_per_s) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_flops(rate),
                        factor == Format::kStored ? "f32" : name_of(factor));
  }
  return text.empty() ? "not measured" : text;
}

std::string format_bytes(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  return with_unit(static_cast<double>(bytes), std::array<std::string_view, 5>{"B", "kB", "MB", "GB", "TB"});
}

std::string format_percent(std::optional<double> fraction) {
  if (!fraction) return "–";
  if (*fraction > 0 && *fraction < 1e-5) return "under 0.001 %";
  return fmt::format("{} %", format_number(100 * *fraction));
}

std::string format_count(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_dims(const Dims& dims) {
  std::string text;
  for (const auto& [key, size] : dims.values())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, size);
  return text;
}

std::string join_some(const std::set<std::string>& names) {
  constexpr int64_t kShown = 3;
  std::string text;
  int64_t shown = 0;
  for (const std::string& name : names) {
    if (shown == kShown)
      return fmt::format("{} and {} more", text, static_cast<int64_t>(names.size()) - shown);
    text += (shown++ == 0 ? "" : ", ") + name;
  }
  return text;
}

std::string shell_quoted(std::string_view text) {
  std::string escaped;
  for (char c : text) escaped += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return fmt::format("'{}'", escaped);
}

std::string shell_word(std::string_view text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./:=,+@%-").find(c) != std::string_view::npos;
  });
  return is_plain ? std::string(text) : shell_quoted(text);
}

std::string replay_command(std::string_view program, const Case& which) {
  return fmt::format("{} replay {}", shell_word(program), shell_quoted(which.to_string()));
}

}  // namespace assay
