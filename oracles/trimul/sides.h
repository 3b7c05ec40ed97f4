// SPDX-License-Identifier: Apache-2.0
// left and right of trimul, the factors of the contraction, in double with their errors; and xn,
// from which they come. The derivation stands in oracles/trimul/trimul.h.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/core/oracle.h"
#include "oracles/trimul/row_cache.h"
#include "oracles/trimul/stages.h"

namespace assay::trimul::oracle {

// What factors, and what lies between the steps, lose of each tensor to underflow, at most.
struct Lost {
  double xn = 0, left = 0, right = 0, hidden = 0, z = 0, gate = 0;
};

class Sides {
 public:
  Sides(const Question& question, const Units& units);  // both outlive it

  // By itself, and as one of the edges of its first node.
  Edge edge(int64_t b, int64_t i, int64_t k) const;
  Edge edge_of_row(int64_t b, int64_t i, int64_t k) const;
  // xn of a channel without a weight is its bias at all edges, and rounded alike.
  bool is_fixed(size_t c) const { return units_.projection_factor > 0 && norm_weight_[c] == 0; }
  bool has_fixed() const;
  // left, or right, of one first node, computed when it is first asked for.
  std::shared_ptr<const Row> left(int64_t b, int64_t i) const;
  std::shared_ptr<const Row> right(int64_t b, int64_t j) const;
  // Of hidden (H): root of s_w, by weights that meet all k; empty where they are not followed.
  std::vector<double> met_weights(const Row& left, const Row& right) const;
  // Hidden channels have equal weights.
  bool is_uniform() const;
  const Projection& proj(bool is_right) const { return is_right ? right_ : left_; }
  const Projection& gates(bool is_right) const { return is_right ? right_gate_ : left_gate_; }
  // What s of a factor of the contraction, value number `at` of a row, and of what is stored of it,
  // grows by where they are rounded alike.
  double grown_by(const Row& row, size_t at, double kappa, double counted) const;
  bool is_open() const {
    return left_.is_open || left_gate_.is_open || right_.is_open || right_gate_.is_open;
  }
  // Up to hidden: with masks of 1, and of a batch.
  const Lost& lost() const { return lost_; }
  Lost lost(int64_t b) const;

 private:
  // What the edges of one first node round alike.
  struct Kappas {
    std::once_flag once;
    std::vector<double> channels;  // kappa of each channel of xn
    double all = 0;                // of all of them
    std::vector<double> repeats;   // how many edges are equal to each one
  };
  const Kappas& kappas(int64_t b, int64_t i) const;
  // Of the rounding of each channel as a factor: square limits grow by grown(c), of which by_itself
  // already counts.
  template <class Grown>
  void grow(Edge& e, double by_itself, const Grown& grown) const;
  void fill(Kappas& to, int64_t b, int64_t i) const;
  void round_alike(Row& row, std::vector<double>& s, const std::vector<double>& repeats) const;
  void measure();
  // How many rows fit into this part of the memory.
  size_t rows_within(double part) const;
  void fill(Row& row, int64_t b, int64_t i, const Projection& proj, const Projection& gates,
            double lost) const;

  const Question& question_;
  const Units& units_;
  int64_t nodes_, channels_, hidden_;
  size_t columns_;  // channels, filled up to whole lanes
  std::vector<double> norm_weight_, norm_bias_;
  Projection left_, left_gate_, right_, right_gate_;
  bool follows_weights_;
  Lost lost_;
  // (B): largest finite magnitudes, or 1 where nothing is scaled by them.
  std::vector<double> masks_;
  mutable RowCache lefts_, rights_;
  mutable std::vector<Kappas> kappas_;
};

}  // namespace assay::trimul::oracle
