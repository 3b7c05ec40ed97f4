// SPDX-License-Identifier: Apache-2.0
// A sum of products of subscripted tensors, as a user writes it:
//
//   c[m,n] = 0.5 * sum_k a[m,k] * b[k,n] - bias[n]
//
//   formula  TENSOR = [-] TERM, and any number of + TERM or - TERM
//   TERM     [NUMBER *] [sum_INDEX or sum_{INDEX,...}] [TENSOR [* TENSOR]], but not empty
//   TENSOR   NAME[INDEX,...], with 1 to 6 indices
//
// An index is a dimension, in lower case. Each stands on the left or in the sum of its term. A
// tensor has the same indices wherever it stands. Every index of the output also stands on the
// right: a formula does not repeat its values along an axis. No term is a multiple of another, as
// their sum is one term. A formula has at most 1000 characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct Tensor {
  std::string name;
  std::vector<std::string> indices;
};

struct Term {
  bool is_negative = false;
  std::optional<float> number;  // > 0
  std::vector<std::string> summed;
  std::vector<Tensor> factors;  // none if there is a number, or up to two
};

struct Formula {
  Tensor output;
  std::vector<Term> terms;

  std::vector<std::string> indices() const;  // those of the output, then those that are summed
  std::vector<Tensor> inputs() const;        // each once, in the order of the formula
};

// Throws Error (usage) with the character at which the text is no formula, and what is wrong there.
Formula parse_formula(std::string_view text);

std::string to_string(const Term& term);  // "0.5 * sum_k a[m,k] * b[k,n]", without its sign
std::string to_string(const Formula& formula);

std::string joined(const std::vector<std::string>& parts, std::string_view separator);

// "row_sum" -> "RowSum", for names of constants.
std::string camel_case(std::string_view name);

// Throws Error (usage) unless the name is snake_case, has at most 64 characters, and is free for a
// namespace.
void require_op_name(std::string_view name);

}  // namespace assay
