// SPDX-License-Identifier: Apache-2.0
// How one sum of an op is reached from outside: which inputs make its terms, and where its value is
// seen. `assay probe` finds out from such sums how a path adds up (probe/probe.h).
//
// An op declares its sums in properties/probed/<op>.cpp, if it has any:
//   std::vector<ProbedSum> probed_sums();
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "kernels/core/op.h"
#include "properties/core/trial.h"

namespace assay {

// Sums with equally many terms. Term k of sum s is a[s * terms + k] * b[s * terms + k].
struct Factors {
  int64_t terms = 0;
  std::vector<double> a = {}, b = {};
  bool asks_for_zero = false;  // only whether a sum is 0
  // Terms that are far smaller than the largest one of their sum; all of them if none is so small.
  // A reference beside the sum that adds up their sizes is as large as what remains of the sum.
  // Empty if asks_for_zero.
  std::vector<bool> is_small = {};

  Factors() = default;
  Factors(int64_t sums, int64_t terms_)
      : terms(terms_), a(static_cast<size_t>(sums * terms_), 1.0), b(static_cast<size_t>(sums * terms_)) {}

  int64_t sums() const { return terms == 0 ? 0 : static_cast<int64_t>(a.size()) / terms; }
  size_t at(int64_t sum, int64_t term) const { return static_cast<size_t>(sum * terms + term); }
};

// Which first factors a question may choose. Second ones are free within the storage dtype.
enum class FirstFactor : uint8_t {
  kFree,
  kOne,
};

struct ProbedSum {
  std::string_view op;
  Site site;
  std::string_view what;  // "the sum over x and the streams"
  // Why it cannot be reached. Then all that follows is empty.
  std::string_view why_not = {};
  // Of a sum that no recipe names: what the op's contract promises, and how many bits it keeps.
  std::string_view contract = {};
  int contract_bits = 0;
  // The additions that a term goes through at most, in a sum that keeps no more bits.
  std::function<int64_t(int64_t terms)> contract_depth = {};
  // Why it cannot be reached in paths of a recipe; empty if it can be.
  std::function<std::string_view(const Recipe&)> why_not_with = {};
  int64_t usual_terms = 0, most_terms = 0;
  FirstFactor first = FirstFactor::kFree;
  // Whether decode() gives the sum, rounded to the storage dtype. Else a norm or the like lies
  // between, and it gives about that. If asks_for_zero, it gives 0 for 0 alone, in f32.
  bool is_exact = true;
  // Whether terms are times a common factor that is no power of two, under such a recipe. Then the
  // tree alone can be seen. Empty: never.
  std::function<bool(const Recipe&)> is_scaled = {};
  // Whether the output is the sum, and so a polynomial of the inputs.
  bool is_polynomial = false;
  // The output is about 2^shift times the sum. Below 0, f16 has no room for both ends of a sum, and
  // subnormal ones cannot be seen.
  int shift = 0;
  // 2^huge swamps what the sum is kept in. Sums in f64 need more.
  int huge = 50;
  std::function<int64_t(int64_t terms)> most_sums = {};  // that a call computes
  std::function<Dims(int64_t terms, int64_t sums)> dims = {};
  // An element of an input. There may be more places for sums than sums.
  std::function<double(const Factors& factors, size_t tensor, const Extents& index)> encode = {};
  std::function<double(const Factors& factors, const Values& outputs, int64_t sum)> decode = {};
};

}  // namespace assay
