// SPDX-License-Identifier: Apache-2.0
// The stages of trimul in double, with their errors. The derivation, with all symbols, is in
// oracles/trimul/trimul.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/trimul/trimul.h"
#include "oracles/core/oracle.h"
#include "oracles/trimul/trimul.h"

namespace assay::trimul::oracle {

inline constexpr double kLambda = 7;          // exceeded with probability 2 exp(-lambda^2 / 2) = 5e-11
inline constexpr double kOverflow = 0x1p127;  // half of what f32 rounds to infinity
// What f16 loses of a tensor, by its largest magnitude.
inline constexpr double kUnderflowF16 = 0x1p-38;

inline double square(double value) {
  return value * value;
}

// What a counterfeit gets wrong.
enum class Fault : uint8_t {
  kMaskIgnored,
  kRightTransposed,
  kProjectionsAndGatesSwapped,
};

// What each rounding may do, by recipe; 0 in a stage that is left out.
struct Units {
  // Throws Error (internal) if no bound is derived for it.
  Units(const Recipe& recipe, std::optional<Stage> only);

  double norm_in, projection_sum, gate, contraction_sum, norm_out, out_gate, out_sum;       // u or q
  double projection_factor, projection_weight, contraction_factor, out_factor, out_weight;  // f
  double left_storage, hidden_storage, gate_storage;                                        // i
  double tiny_in, tiny_projection, tiny_gate, tiny_contraction, tiny_hidden, tiny_norm_out, tiny_out_gate,
      tiny_out;           // underflow in f32
  double underflow_gate;  // below which a sigmoid may become 0
  double underflow_out_gate;
  double sigmoid;    // [units] roundings of a sigmoid beside those of its exponential
  double norm_mean;  // of the mean as one number, where hidden is stored in 16 bits
  bool is_scaled;    // f16
  bool is_split;     // bf16x3, tf32x3
  double products;   // in place of one
  int factor_bits;   // of a factor that is not rounded
  int storage_bits;  // of what lies between the steps
  double lost;       // to underflow in a format of f32's range, which nothing is scaled for
  // What a weight loses to underflow, of a tensor with this largest magnitude.
  double lost_weight(double largest) const { return is_scaled ? kUnderflowF16 * largest : lost; }
};

// A row of numbers, made 0 on average and 1 in variance.
struct Statistics {
  double mean = 0, sigma = 0;  // the latter with eps
  double range = 0;
  double variance = 0;
};
Statistics statistics_of(const double* values, int64_t count);

// xn of one edge, with its errors. Each xn is rounded to a factor; s is the squared limit of that
// rounding (oracles/trimul/trimul.h).
struct Edge {
  bool is_nan = false, is_open = false;
  std::vector<double> xn;
  std::vector<double> own;  // s of each xn, or 0 where `fixed` has it
  // s of each xn in a channel whose xn is the same at all edges. Empty without such a channel.
  std::vector<double> fixed;
  std::vector<double> limits;   // limits of these roundings
  std::vector<double> alike;    // the same limits, enlarged for roundings that are alike
  std::vector<double> squares;  // of xn
  double shared = 0, rho = 0;   // m / sigma, and the relative error of 1/sqrt(V + eps)
  double differences = 0;       // u R / sigma, and the underflow before the weight
  double scaled = 0;            // 3u sqrt(C V) / sigma
  double added = 0;             // u sqrt(C)
  double underflow = 0;         // sqrt(C) times the underflow of each xn
  double repeats = 1;           // r
  double kappa = 0;             // of the edge's own channels (oracles/trimul/alike.h)
  double norm = 0;              // of xn
  double signature = 0;         // equal for equal xn
};

inline constexpr size_t kGroupRows = 4;  // of weights, projected at once

struct Projection {
  // Its factors have so many bits.
  explicit Projection(const ConstTensorView& view, int factor_bits = 53);
  // With what the errors of xn, normalised with this weight and bias, need.
  Projection(const ConstTensorView& view, int factor_bits, const std::vector<double>& weight,
             const std::vector<double>& bias);
  bool has_equal_rows() const;

  int64_t rows, columns;
  std::vector<double> values;  // (H, C)
  // By groups of rows, (H / kGroupRows rounded up, C, kGroupRows): values, their squares, and the
  // squares of those that are rounded, times r of their row.
  std::vector<double> grouped, squares, rounded;
  // Sums over c with norm.weight, with norm.bias; empty without them.
  std::vector<double> weighted, biased;
  // Of the former: sum of magnitudes, root of the sum of squares.
  std::vector<double> absolute, root;
  std::vector<double> norms;  // of the rows
  double largest = 0;         // magnitude
  bool is_open = false;       // a finite weight is infinite as a factor
};

// A projection of one edge, one row of it.
struct Value {
  double value = 0, s = 0, weights = 0;  // weights: s_w, of what errs alike at all edges
  // The most that nothing random is known of: of the norm, of the sum, of underflow.
  double lost = 0;
  bool is_open = false;
  // What errs alike at all edges, as if weights alone did.
  double alike() const { return square(std::sqrt(weights) + lost / kLambda); }
};
std::vector<Value> project(const Projection& w, const Edge& e, const Units& units);

// The sigmoid of g: value, its greatest slope, what its evaluation adds to s, and below which it
// may become 0.
struct Gate {
  double value, slope, s, underflow;
};
Gate gate_of(const Value& g, const Units& units, double unit, double underflow);

// The most that p may be, but for what doubles s in hidden; 0 only if it is 0 whatever was rounded.
inline double reach_of(const Value& p) {
  return std::abs(p.value) + kLambda * (std::sqrt(p.s) + std::sqrt(p.alike()));
}
// What underflow may take from left or right; `lost` is what its format loses.
inline double underflow_of(const Units& units, const Value& p, const Gate& gate, double mask, double lost) {
  const double reach = reach_of(p);
  if (reach == 0 || mask == 0) return 0;
  return std::abs(mask) * reach * gate.underflow + units.tiny_gate * (1 + std::abs(mask)) + lost;
}

// The limit of the error of what is projected: 7 sqrt(2 s) + 7 sqrt(s_w), with what is lost.
double error_of_projection(const Value& value);

// left or right of one first node: (H, N), the second node innermost.
struct Row {
  std::once_flag once;
  bool is_nan = false, is_open = false;
  std::vector<double> value;
  std::vector<float> root_s, root_weights;  // as not_below() has them
  // Where errors of weights are followed through the sum over k; empty elsewhere. (H, N), as
  // not_below() has them.
  std::vector<float> root_mixed;        // root of s of errors of weights times those of xn
  std::vector<float> rest;              // limit of what is lost, and of errors of weights times each other
  std::vector<float> by_proj, by_gate;  // (H, N): derivatives
  std::vector<float> xn;                // (N, columns)
  std::vector<double> norms;            // of the values of each h
  std::vector<double> kappas;           // of the values of each h, and of all; empty if they are not rounded
  std::vector<double> signatures;       // magnitudes, of edges that are not masked
};

// Of each (h, k) of a row, and where errors of weights are followed besides.
inline constexpr double kBytesOfEntry = sizeof(double) + 2 * sizeof(float),
                        kBytesFollowed = 4 * sizeof(float);

// A limit as a float, which is 2^-22 larger at most, or 2^-149; infinity for what exceeds the
// range.
float not_below(double limit);

// The most edges of two rows that are equal: on the diagonal they share xn.
double repeats_of(const Row& left, const Row& right);

// A number of so many significant bits.
bool has_bits(double value, int bits);
// From a value to the nearest number of so many significant bits.
double distance_from(int bits, double value);

double sigmoid(double g);
// An upper limit of |sigmoid'| in g +- error.
double sigmoid_slope(double g, double error);

// Of the partial sums of a sum p, from the first term on; T is double or a vector.
template <class T>
struct PartialSums {
  T value{};           // p
  T all{}, squares{};  // of the partial sums
  T term_squares{};    // of the terms: kept by who adds them, for add() may get several at once
  void add(const T& term) {
    value += term;
    all += value;
    squares += value * value;
  }
};
// The mean square of `count` partial sums from the first term on or from the last one on, whichever
// is more. Each sum of the last terms is p without one of the first terms.
inline double mean_square(const PartialSums<double>& sums, double count) {
  const double p = sums.value, from_last = sums.squares + p * ((count + 1) * p - 2 * sums.all);
  return std::max(sums.squares, from_last) / std::max(count, 1.0);
}
// M^2 of all `count` terms.
inline double m_squared(const PartialSums<double>& sums, double count) {
  return std::max(square(sums.value) + sums.term_squares, mean_square(sums, count));
}
// M^2 of the sum over k, whose squared terms add up to `term_squares`. Of many terms the partial
// sums are known after each eighth one. Between, up to seven terms lie before the next known one:
// the mean of the squares of their sums is at most 28/n of `term_squares`.
double m_squared_of_products(const double* left, const double* right, size_t n, double term_squares);

// a(n): how many additions of a norm's sum a term goes through on average; twice that at most.
inline double norm_additions(double n) {
  return std::min((n + 1) / 2, 18 + n / 64);
}
// What the mean is wrong by, in u R: by sums, the differences that are added up, and the product
// with 1/n.
inline double mean_roundings(double n) {
  return norm_additions(n) + (has_bits(n, 1) ? 1 : 3);
}

double largest_of(const std::vector<double>& values);  // magnitude
double norm_of(const std::vector<double>& values);

// x of one edge, and its mask: 1 if there is none.
std::vector<double> edge_of(const Question& question, int64_t b, int64_t i, int64_t k);
double mask_of(const Question& question, int64_t b, int64_t i, int64_t k);

// Of one batch.
template <class Visit>
void for_mask(const Question& question, int64_t b, const Visit& visit_one) {
  const int64_t nodes = question.dims[kN];
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t k = 0; k < nodes; ++k) visit_one(mask_of(question, b, i, k));
  }
}

// The op with a fault.
Solve counterfeit(Fault fault);

}  // namespace assay::trimul::oracle
