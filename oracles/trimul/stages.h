// SPDX-License-Identifier: Apache-2.0
// The stages of trimul in double, with their errors. The derivation stands in oracles/trimul/trimul.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "oracles/core/oracle.h"
#include "oracles/trimul/trimul.h"

namespace assay::trimul::oracle {

enum class Fault : uint8_t {
  kNothing,
  kMaskIgnored,
  kRightTransposed,
  kProjectionsAndGatesSwapped,
};

// What each rounding may do, by recipe; 0 in a stage that is left out.
struct Units {
  Units(const Recipe& recipe,
        std::optional<Stage> only);  // throws Error (internal) if no bound is derived for it

  double norm_in, projection_sum, gate, contraction_sum, norm_out, out_gate, out_sum;       // u or q
  double projection_factor, projection_weight, contraction_factor, out_factor, out_weight;  // f
  double left_storage, hidden_storage, gate_storage;                                        // i
  double tiny_in, tiny_projection, tiny_gate, tiny_contraction, tiny_hidden, tiny_norm_out, tiny_out_gate,
      tiny_out;           // underflow in f32
  double underflow_gate;  // below which a sigmoid may become 0
  double underflow_out_gate;
  bool is_scaled;   // f16
  bool is_split;    // bf16x3
  double products;  // in place of one
};

// A row of numbers, made 0 on average and 1 in variance.
struct Statistics {
  double mean = 0, sigma = 0;  // the latter with eps
  double range = 0;
  double variance = 0;
};
Statistics statistics_of(const double* values, int64_t count);

// xn of one edge.
struct Edge {
  bool is_nan = false, is_open = false;
  std::vector<double> xn;
  std::vector<double> own;      // s of each
  std::vector<double> squares;  // of xn
  double shared = 0;            // m / sigma
  double rho = 0;
  double repeats = 1;    // r
  double norm = 0;       // of xn
  double signature = 0;  // equal for equal xn
};

struct Projection {
  explicit Projection(const ConstTensorView& view);
  bool has_equal_rows() const;

  int64_t rows, columns;
  std::vector<double> values, squares;   // (H, C)
  std::vector<double> weighted, biased;  // sums over c with norm.weight, with norm.bias
  std::vector<double> norms;             // of the rows
  double largest = 0;                    // magnitude
  bool has_infinity = false;
};

// A projection of one edge.
struct Value {
  double value = 0, s = 0, weights = 0;  // weights: s_w
  bool is_open = false;
};

// left or right of one first node: (H, N), the second node innermost.
struct Row {
  std::once_flag once;
  bool is_nan = false, is_open = false;
  std::vector<double> value, squares, s, root_weights, magnitude;
  double repeats = 1;
};

double sigmoid(double g);
// An upper limit of |sigmoid'| in g +- error.
double sigmoid_slope(double g, double error);

}  // namespace assay::trimul::oracle
