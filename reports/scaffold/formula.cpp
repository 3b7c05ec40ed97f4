// SPDX-License-Identifier: Apache-2.0
#include "reports/scaffold/formula.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "kernels/core/printable.h"
#include "kernels/core/tensor.h"
#include "reports/scaffold/reserved.h"

namespace assay {
namespace {

constexpr size_t kLongestFormula = 1000;
constexpr size_t kLongestName = 64;  // of a folder and of what is built there

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string to_string(const Tensor& tensor) {
  return fmt::format("{}[{}]", tensor.name, joined(tensor.indices, ","));
}

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Two terms with the same are multiples of each other: a tensor has the same indices everywhere.
std::vector<std::string> factor_names(const Term& term) {
  std::vector<std::string> names;
  for (const Tensor& factor : term.factors) names.push_back(factor.name);
  std::ranges::sort(names);
  return names;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Formula parse() {
    if (text_.size() > kLongestFormula)
      throw usage_error("the formula has {} characters, more than {}", text_.size(), kLongestFormula);
    const size_t output_at = skip_spaces();
    formula_.output = tensor();
    const std::vector<size_t> index_at = index_at_;
    const std::vector<std::string>& indices = formula_.output.indices;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (std::ranges::count(indices, indices[i]) > 1)
        fail(output_at, "the index {} stands twice in the output", indices[i]);
    }
    expect('=', "'=' after the output");
    bool is_negative = accept('-');
    do {
      const size_t at = skip_spaces();
      const Term next = term(is_negative);
      for (const Term& before : formula_.terms) {
        if (factor_names(before) == factor_names(next))
          fail(at, "this is a multiple of the term {}: leave one of the two", to_string(before));
      }
      formula_.terms.push_back(next);
      is_negative = skip_spaces() < text_.size() && text_[at_] == '-';
    } while (accept('+') || accept('-'));
    if (skip_spaces() < text_.size()) fail(at_, "expected '+', '-' or the end");
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!contains(read_, indices[i]))
        fail(index_at[i], "the index {} of the output stands nowhere on the right", indices[i]);
    }
    return std::move(formula_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(size_t at, fmt::format_string<Args...> format, Args&&... args) const {
    const std::string where = at < text_.size()
                                  ? fmt::format("character {}, '{}'", at + 1, printable(text_.substr(at, 12)))
                                  : "its end";
    throw usage_error("the formula at {}: {}", where,
                      excerpt(fmt::format(format, std::forward<Args>(args)...)));
  }

  size_t skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_;
  }
  bool next_is(bool (*kind)(char)) { return skip_spaces() < text_.size() && kind(text_[at_]); }
  bool accept(char c) {
    if (skip_spaces() == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, std::string_view what) {
    if (!accept(c)) fail(at_, "expected {}", what);
  }

  std::string name(std::string_view what) {
    if (!next_is(is_letter)) fail(at_, "expected {}", what);
    const size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '_')) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // No two things of the formula may have one name, nor those that are made from an index.
  void claim(const std::string& name, std::string_view kind, size_t at) {
    if (is_reserved(name)) fail(at, "'{}' cannot be a name: the code that is written uses it", name);
    const std::string owner = fmt::format("the {} {}", kind, name);
    for (std::string_view suffix : {"", "_size", "_end"}) {
      if (kind == "tensor" && suffix != "") break;
      const auto [entry, is_new] = owners_.emplace(camel_case(name + std::string(suffix)), owner);
      if (entry->second != owner) fail(at, "{} has a name too much like that of {}", owner, entry->second);
    }
  }

  std::string index() {
    const size_t at = skip_spaces();
    std::string text = name("an index");
    if (std::ranges::any_of(text, [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }))
      fail(at, "an index is in lower case");
    claim(text, "index", at);
    return text;
  }

  // Where the indices stand is in index_at_.
  Tensor tensor() {
    const size_t at = skip_spaces();
    Tensor tensor{.name = name("a tensor"), .indices = {}};
    claim(tensor.name, "tensor", at);
    if (accept('(')) fail(at, "there are no functions: a term is a product of tensors");
    expect('[', fmt::format("'[' after the tensor {}", tensor.name));
    index_at_.clear();
    do {
      index_at_.push_back(skip_spaces());
      tensor.indices.push_back(index());
    } while (accept(','));
    expect(']', "',' or ']' after an index");
    if (tensor.indices.size() > kMaxRank)
      fail(at, "{} has {} indices, more than {}", tensor.name, tensor.indices.size(), kMaxRank);
    return tensor;
  }

  Term term(bool is_negative) {
    Term term{.is_negative = is_negative, .number = {}, .summed = {}, .factors = {}};
    if (next_is([](char c) { return is_digit(c) || c == '.'; })) {
      term.number = number();
      if (!accept('*')) return term;
    }
    const size_t sum_at = skip_spaces();
    if (text_.substr(sum_at, 4) == "sum_") sum(term);
    term.factors.push_back(factor(term));
    if (accept('*')) term.factors.push_back(factor(term));
    if (skip_spaces() < text_.size() && text_[at_] == '*') fail(at_, "a term has at most two tensors");
    for (const std::string& index : term.summed) {
      const auto has = [&](const Tensor& tensor) { return contains(tensor.indices, index); };
      if (std::ranges::none_of(term.factors, has))
        fail(sum_at, "no tensor of the sum has the index {}", index);
    }
    return term;
  }

  float number() {
    const size_t at = skip_spaces();
    float value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at, text_.data() + text_.size(), value);
    if (error != std::errc() || value == 0 || !std::isfinite(value))
      fail(at, "this number is 0, or f32 does not hold it");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  // "sum_k" or "sum_{k,l}"
  void sum(Term& term) {
    at_ += 4;
    const bool has_braces = accept('{');
    do {
      const size_t at = skip_spaces();
      term.summed.push_back(index());
      const std::string& index = term.summed.back();
      if (contains(formula_.output.indices, index))
        fail(at, "{} is an index of the output, so it cannot be summed", index);
      if (std::ranges::count(term.summed, index) > 1) fail(at, "the index {} is summed twice", index);
    } while (has_braces && accept(','));
    if (has_braces) expect('}', "',' or '}' after an index");
  }

  Tensor factor(const Term& term) {
    const size_t at = skip_spaces();
    if (next_is(is_digit)) fail(at, "a number stands first in its term: 2 * sum_k x[k]");
    if (text_.substr(at, 4) == "sum_")
      fail(at, "a term has one sum, before its tensors; one over two indices is sum_{{j,k}}");
    Tensor read = tensor();
    if (read.name == formula_.output.name) fail(at, "{} is the output", read.name);
    for (size_t i = 0; i < read.indices.size(); ++i) {
      const std::string& index = read.indices[i];
      if (!contains(formula_.output.indices, index) && !contains(term.summed, index))
        fail(index_at_[i], "the index {} is neither in the output nor summed", index);
    }
    for (const Tensor& input : formula_.inputs()) check_same(input, read, at);
    for (const Tensor& input : term.factors) check_same(input, read, at);
    read_.insert(read_.end(), read.indices.begin(), read.indices.end());
    return read;
  }
  void check_same(const Tensor& before, const Tensor& now, size_t at) const {
    if (before.name == now.name && before.indices != now.indices)
      fail(at, "a tensor has the same indices everywhere, and this one was {}", to_string(before));
  }

  std::string_view text_;
  size_t at_ = 0;
  Formula formula_;
  std::vector<size_t> index_at_;               // of the last tensor
  std::vector<std::string> read_;              // indices on the right
  std::map<std::string, std::string> owners_;  // "RowSum" -> "the tensor row_sum"
};

}  // namespace

std::vector<std::string> Formula::indices() const {
  std::vector<std::string> all = output.indices;
  for (const Term& term : terms) {
    for (const std::string& index : term.summed) {
      if (!contains(all, index)) all.push_back(index);
    }
  }
  return all;
}

std::vector<Tensor> Formula::inputs() const {
  std::vector<Tensor> all;
  for (const Term& term : terms) {
    for (const Tensor& tensor : term.factors) {
      const auto is_same = [&](const Tensor& other) { return other.name == tensor.name; };
      if (std::ranges::none_of(all, is_same)) all.push_back(tensor);
    }
  }
  return all;
}

Formula parse_formula(std::string_view text) {
  return Parser(text).parse();
}

std::string to_string(const Term& term) {
  std::vector<std::string> parts;
  if (term.number) parts.push_back(fmt::format("{}", *term.number));
  for (const Tensor& tensor : term.factors) parts.push_back(to_string(tensor));
  if (!term.summed.empty()) {
    const std::string indices = joined(term.summed, ",");
    std::string& first = parts[term.number ? 1 : 0];
    first = fmt::format("sum_{} {}", term.summed.size() > 1 ? "{" + indices + "}" : indices, first);
  }
  return joined(parts, " * ");
}

std::string to_string(const Formula& formula) {
  std::string text = to_string(formula.output) + " =";
  for (const Term& term : formula.terms) {
    const bool is_first = &term == &formula.terms.front();
    text += term.is_negative ? (is_first ? " -" : " - ") : is_first ? " " : " + ";
    text += to_string(term);
  }
  return text;
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string camel_case(std::string_view name) {
  std::string text;
  bool starts_word = true;
  for (char c : name) {
    if (c != '_') text += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts_word = c == '_';
  }
  return text;
}

void require_op_name(std::string_view name) {
  bool is_snake_case = !name.empty() && name.back() != '_' && name.find("__") == std::string_view::npos;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    is_snake_case &= (c >= 'a' && c <= 'z') || (i > 0 && (is_digit(c) || c == '_'));
  }
  if (!is_snake_case) throw usage_error("the op's name '{}' is not snake_case", excerpt(name));
  if (name.size() > kLongestName)
    throw usage_error("the op's name {} has {} characters, more than {}", excerpt(name), name.size(),
                      kLongestName);
  if (is_reserved(name) || is_reserved_namespace(name))
    throw usage_error("'{}' cannot be the name of an op: the code that is written uses it", name);
}

}  // namespace assay
