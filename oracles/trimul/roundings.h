// SPDX-License-Identifier: Apache-2.0
// What independent roundings do to whole rows of out, by the derivatives of out by each of them:
// for all of a small problem, and for the edges between some nodes of a large one. The derivation
// stands in oracles/trimul/trimul.h, "All channels at once".
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "oracles/trimul/sides.h"
#include "oracles/trimul/stages.h"

namespace assay::trimul::oracle {

// Standard deviations of a product of two errors, with the probability of kLambda.
inline constexpr double kChaos = 62;

// Of the sigmoid's second derivative: 1 / (6 sqrt(3)) at most, and no more than the slope.
inline constexpr double kMostCurved = 0.0962251;

// How often each value occurs, NaNs as one.
std::vector<double> counts_of(std::vector<double> values);
std::vector<double> magnitudes_of(std::vector<double> values);
// (forms, n) = forms (count, H) times slopes (H, n), row h times factors[h]; n is a multiple of
// kLanes.
void multiply(const double* forms, size_t count, const double* factors, size_t hidden, const double* slopes,
              size_t n, double* to);
// The products of all pairs of rows of slopes (H, n), in the order (0,0), (1,0), (1,1), (2,0) ...;
// n alike.
void gram(const double* slopes, size_t hidden, size_t n, double* to);

// Errors of a sum: of squared limits, and of limits, of its independent roundings.
struct Errors {
  double s = 0, limit = 0;
  void add(double one, double repeats = 1) {
    s += repeats * one * one;
    limit += std::abs(one);
  }
  double bound() const { return std::min(limit, kLambda * std::sqrt(s)); }
};

// Of a linear form of hidden, by the roundings of xn. s is the most that equal data may make of it,
// `least` the least; likewise the sum of products of its derivatives with those of the last form.
struct Form : Errors {
  double least = 0, least_common = 0, most_common = 0;
};

// Of one edge of out, from hidden on.
struct Finish {
  const double *hidden, *hidden_error;  // (H) and a bound
  const double* m2;                     // (H): M^2
  Statistics statistics;                // of hidden
  const double *y, *z, *z_error;        // (H)
  double lost;                          // of hidden, as in Lost
  bool is_uniform;                      // y is exact
};

class Roundings {
 public:
  enum class Extent : uint8_t { kNothing, kSome, kAll };
  static Extent affordable(const Dims& dims);
  Roundings(const Question& question, const Units& units, const Sides& sides, const Projection& out_gate,
            const Projection& to_out, const std::vector<double>& out_norm_weight, const Lost& lost);

  // Whether there is an answer for an edge: for those between some nodes of the first and the last
  // batch, unless for all.
  bool covers(int64_t b, int64_t i, int64_t j) const;

  // Of all roundings but those of the last sum: (C). Infinite where they may be as large as what
  // hidden's norm divides by.
  struct Rows {
    std::vector<double> bound, noise;
  };
  Rows of(int64_t b, int64_t i, int64_t j, const Finish& finish) const;

 private:
  class Finished;

  // Of left, or right, of one first node.
  struct Node {
    std::once_flag once;
    // (N, H, columns): derivatives by the roundings of xn, times their limits.
    std::vector<double> slopes;
    // In their place (N, H (H + 1) / 2), of a large problem: sums over C of products.
    std::vector<double> grams;
    std::vector<double> squares;  // (N, H): sums of their squares
    // (N, H): of those of channels of xn that are the same at all edges, which `squares` lacks.
    std::vector<double> fixed;
    std::vector<double> by_proj, by_gate;  // (N, H): derivatives
    std::vector<double> own, own_limits;   // (N, H): s and limits of roundings of the channel alone
    std::vector<double> second;            // (N, H): products of two errors of xn
    std::vector<double> second_mixed;      // (N, H): of two of which one is the channel's own
    std::vector<double> second_weights;    // (N, H): of two errors of weights
    std::vector<double> weights;           // (N, H): s_w
    // (N, H): as that of a Value, with what underflow takes from the side itself.
    std::vector<double> lost;
    // (N, H): limits of the error, and of its products of two errors.
    std::vector<double> all, all_second;
    std::vector<double> panels;      // of xn (met_weights.h)
    std::vector<double> signatures;  // (N): of xn
    double repeats = 1;              // of equal values of one channel
  };
  // Limits of the roundings of weights, (H, C), and r times their squares.
  struct Weights {
    std::vector<double> limits, squares;
    // Squares of those of to_out that occur among the others as well, or 0.
    std::vector<double> shared;
  };
  // Of hidden, by channel.
  struct Channels {
    explicit Channels(size_t hidden)
        : own(hidden), weights(hidden), xn(hidden), second(hidden), second_own(hidden) {}
    std::vector<Errors> own, weights;
    std::vector<double> xn;                  // s
    std::vector<double> second, second_own;  // limits, of all channels in common and of each alone
  };

  static std::vector<char> covered_nodes(const Dims& dims);  // (B, N), of a large problem
  double limit_of(const Projection& w, size_t h, const Value& value, const Edge& e) const;
  const Node& node(bool is_right, int64_t b, int64_t i) const;
  void fill(Node& node, bool is_right, int64_t b, int64_t i) const;
  std::vector<Weights> weights_of(const std::vector<const Projection*>& all, double unit) const;
  Channels channels(const Node& left, const Node& right, const Row& l, const Row& r, const Finish& f) const;
  // Of linear forms of hidden, (forms, H).
  std::vector<Form> shared(const Node& left, const Node& right, const Row& l, const Row& r,
                           const std::vector<double>& forms) const;
  std::vector<Form> shared_by_grams(const Node& left, const Node& right, const Row& l, const Row& r,
                                    const std::vector<double>& forms) const;

  const Question& question_;
  const Units& units_;
  const Sides& sides_;
  const Projection &out_gate_, &to_out_;
  const std::vector<double>& out_norm_weight_;
  const Lost& lost_;
  size_t nodes_, channels_, hidden_, columns_;
  bool is_small_;
  std::vector<char> is_covered_;  // (B, N): nodes of a large problem
  std::vector<Weights> weights_;  // of left, its gate, right, its gate, the output's gate
  Weights gate_weights_, out_weights_;
  std::vector<char> is_fixed_;  // (columns): channels of xn
  bool has_fixed_;
  std::vector<double> twins_, gate_twins_;  // (H): equal channels
  std::vector<char> is_shared_;             // (H): left and right have channels that are equal
  mutable std::vector<Node> lefts_, rights_;
};

}  // namespace assay::trimul::oracle
