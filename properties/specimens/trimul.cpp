// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/trimul.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/trimul/trimul.h"
#include "properties/core/planted.h"

namespace assay::trimul {
namespace {

enum class Own : uint8_t {
  kMaskIgnored,
  kMaskOnGate,
  kMaskOnLeftOnly,
  kNoMaskIsZero,
  kProjectionsAndGatesSwapped,
  kRightTransposed,
  kHiddenInF16,
  kEpsilonNotScaled,
  kSquaresMinusSquareIn,
  kSquaresMinusSquareOut,
  kXnInF16,
  kSumsOverKInF16,
  kOutGateOfTransposedEdge,
  kNormOutAfterGate,
  kFirstBatchOnly,
  kLastBlockDropped,
  kLastBlockOfSumDropped,
};
using enum Own;

constexpr int64_t kBlock = 64;  // rows
constexpr int64_t kStep = 8;    // terms of a sum

float through_f16(float value) {
  return static_cast<float>(to_double(to_f16(value)));
}

// mean and 1/sqrt(variance + epsilon) of a row.
struct Statistics {
  double mean, rstd;
};
Statistics statistics(std::span<const float> row, double epsilon, bool is_squares_minus_square) {
  const auto count = static_cast<double>(row.size());
  double sum = 0, squares = 0;
  float short_sum = 0, short_squares = 0;
  for (float value : row) {
    sum += value;
    short_sum += value;
    short_squares += value * value;
  }
  if (is_squares_minus_square) {
    const float mean = short_sum / static_cast<float>(count);
    return {mean, 1 / std::sqrt(short_squares / static_cast<float>(count) - mean * mean + epsilon)};
  }
  const double mean = sum / count;
  for (float value : row) squares += (value - mean) * (value - mean);
  return {mean, 1 / std::sqrt(squares / count + epsilon)};
}

float sigmoid(float g) {
  return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(g))));
}

class Loop {
 public:
  Loop(const Call& call, const Fault<Own>& fault)
      : call_(call),
        fault_(fault),
        math_(fault),
        nodes_(call.dims[kN]),
        channels_(call.dims[kC]),
        hidden_(call.dims[kH]) {}

  void run() {
    for (int64_t b = 0; b < call_.dims[kB]; ++b) {
      project(b);
      const int64_t whole = nodes_ / kBlock * kBlock;
      const int64_t rows = fault_ == kLastBlockDropped && whole > 0 ? whole : nodes_;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < nodes_; ++j) finish(b, i, j);
      }
    }
  }

 private:
  Elements<float> input(Input which) const { return Elements<float>(call_.inputs[which]); }

  size_t edge(int64_t i, int64_t k) const { return static_cast<size_t>((i * nodes_ + k) * hidden_); }

  float mask(int64_t b, int64_t i, int64_t k) const {
    if (call_.dims[kM] == 0) return fault_ == kNoMaskIsZero ? 0.0f : 1.0f;
    return fault_ == kMaskIgnored ? 1.0f : math_.load(input(kMask)(b, i, k));
  }

  std::vector<float> row_of_x(int64_t b, int64_t i, int64_t k) const {
    const Elements<float> x = input(kX), weight = input(kNormWeight), bias = input(kNormBias);
    std::vector<float> row;
    for (int64_t c = 0; c < channels_; ++c) row.push_back(math_.load(x(b, i, k, c)));
    const Statistics s = statistics(row, kEpsilon, fault_ == kSquaresMinusSquareIn);
    for (int64_t c = 0; c < channels_; ++c) {
      float& value = row[static_cast<size_t>(c)];
      value = static_cast<float>((value - s.mean) * s.rstd) * math_.load(weight(c)) + math_.load(bias(c));
      if (fault_ == kXnInF16) value = through_f16(value);
    }
    return row;
  }

  // The weights of a projection as they are loaded: (H, C).
  std::vector<float> matrix(Input which) const {
    const Elements<float> weight = input(which);
    std::vector<float> values;
    for (int64_t h = 0; h < hidden_; ++h) {
      for (int64_t c = 0; c < channels_; ++c) values.push_back(math_.load(weight(h, c)));
    }
    return values;
  }

  float product(const std::vector<float>& weights, int64_t h, const std::vector<float>& row) const {
    float sum = 0;
    const float* weight = weights.data() + h * channels_;
    for (size_t c = 0; c < row.size(); ++c) sum = math_.add(sum, math_.multiply(weight[c], row[c]));
    return sum;
  }

  void project(int64_t b) {
    const bool is_swapped = fault_ == kProjectionsAndGatesSwapped;
    const std::vector<float> projections[] = {matrix(is_swapped ? kLeftGate : kLeftProj),
                                              matrix(is_swapped ? kRightGate : kRightProj)};
    const std::vector<float> gates[] = {matrix(is_swapped ? kLeftProj : kLeftGate),
                                        matrix(is_swapped ? kRightProj : kRightGate)};
    const std::vector<float> out_gate = matrix(kOutGate);
    const auto size = static_cast<size_t>(nodes_ * nodes_ * hidden_);
    for (auto* values : {&factors_[0], &factors_[1], &gates_}) values->resize(size);
    for (int64_t i = 0; i < nodes_; ++i) {
      for (int64_t k = 0; k < nodes_; ++k) {
        const std::vector<float> row = row_of_x(b, i, k);
        for (int64_t h = 0; h < hidden_; ++h) {
          const size_t at = edge(i, k) + static_cast<size_t>(h);
          for (size_t side = 0; side < 2; ++side) {
            // Right stays that of batch 0.
            if (side == 1 && fault_ == kFirstBatchOnly && b > 0) continue;
            const float m = fault_ == kMaskOnLeftOnly && side == 1 ? 1 : mask(b, i, k);
            const float p = product(projections[side], h, row), g = product(gates[side], h, row);
            factors_[side][at] = fault_ == kMaskOnGate ? p * sigmoid(g * m) : p * sigmoid(g) * m;
          }
          gates_[at] = sigmoid(product(out_gate, h, row));
        }
      }
    }
  }

  float contract(int64_t i, int64_t j, int64_t h) const {
    const int64_t whole = nodes_ / kStep * kStep;
    const int64_t terms = fault_ == kLastBlockOfSumDropped && whole > 0 ? whole : nodes_;
    const auto channel = static_cast<size_t>(h);
    float sum = 0;
    for (int64_t k = 0; k < terms; ++k) {
      const float right = factors_[1][(fault_ == kRightTransposed ? edge(k, j) : edge(j, k)) + channel];
      sum = math_.add(sum, math_.multiply(factors_[0][edge(i, k) + channel], right));
      if (fault_ == kSumsOverKInF16) sum = through_f16(sum);
    }
    return sum;
  }

  void finish(int64_t b, int64_t i, int64_t j) const {
    const Elements<float> weight = input(kToOutNormWeight), bias = input(kToOutNormBias),
                          to_out = input(kToOut);
    const Elements<float> out(call_.outputs[kOut]);
    // A path that keeps hidden in f16 would scale it like this.
    const double scale = fault_ == kEpsilonNotScaled ? std::exp2(-8) : 1;
    std::vector<float> hidden;
    for (int64_t h = 0; h < hidden_; ++h) {
      float value = static_cast<float>(contract(i, j, h) * scale);
      if (fault_ == kHiddenInF16) value = through_f16(value);
      hidden.push_back(value);
    }
    const size_t gate = fault_ == kOutGateOfTransposedEdge ? edge(j, i) : edge(i, j);
    if (fault_ == kNormOutAfterGate) {
      for (size_t h = 0; h < hidden.size(); ++h) hidden[h] *= gates_[gate + h];
    }
    const Statistics s = statistics(hidden, kEpsilon, fault_ == kSquaresMinusSquareOut);
    for (size_t h = 0; h < hidden.size(); ++h) {
      const auto at = static_cast<int64_t>(h);
      const auto normalised = static_cast<float>((hidden[h] - s.mean) * s.rstd);
      hidden[h] = normalised * math_.load(weight(at)) + math_.load(bias(at));
      if (fault_ != kNormOutAfterGate) hidden[h] *= gates_[gate + h];
    }
    for (int64_t c = 0; c < channels_; ++c) {
      float sum = 0;
      for (int64_t h = 0; h < hidden_; ++h) {
        sum = math_.add(sum, math_.multiply(math_.load(to_out(c, h)), hidden[static_cast<size_t>(h)]));
      }
      out(b, i, j, c) = math_.store(sum);
    }
  }

  const Call& call_;
  const Fault<Own>& fault_;
  FaultyArithmetic<float> math_;
  int64_t nodes_, channels_, hidden_;
  std::vector<float> factors_[2];  // left, right: (N, N, H), of one batch
  std::vector<float> gates_;       // of the output, the same
};

void loop(const Call& call, const Fault<Own>& fault) {
  Loop(call, fault).run();
}

}  // namespace

std::vector<Specimen> specimens() {
  using enum CommonFault;
  const std::vector<OwnFault<Own>> own = {
      {kMaskIgnored, {"specimen.mask_ignored", "the mask is ignored"}},
      {kMaskOnGate,
       {"specimen.mask_on_gate", "the mask multiplies the gate before its sigmoid, and not the product"}},
      {kMaskOnLeftOnly, {"specimen.mask_on_left_only", "the mask multiplies left and not right"}},
      {kNoMaskIsZero, {"specimen.no_mask_is_zero", "a mask that is not there counts as one of zeros"}},
      {kProjectionsAndGatesSwapped,
       {"specimen.projections_and_gates_swapped", "the weights of projections and gates are swapped"}},
      {kRightTransposed,
       {"specimen.right_transposed", "right is read at [k,j]: incoming edges for outgoing"}},
      {kHiddenInF16, {"specimen.hidden_in_f16", "hidden is kept in f16 without a scale"}},
      {kEpsilonNotScaled,
       {"specimen.epsilon_not_scaled", "hidden is scaled by 2^-8 and the eps of its norm is not"}},
      {kSquaresMinusSquareIn,
       {"specimen.squares_minus_square_in", "the variance of x is E[x^2] - E[x]^2 in f32"}},
      {kSquaresMinusSquareOut,
       {"specimen.squares_minus_square_out", "the variance of hidden is E[x^2] - E[x]^2 in f32"}},
      {kXnInF16, {"specimen.xn_in_f16", "normalised x is rounded to f16"}},
      {kSumsOverKInF16, {"specimen.sums_over_k_in_f16", "the pairwise product is summed in f16"}},
      {kOutGateOfTransposedEdge,
       {"specimen.out_gate_of_transposed_edge", "the gate of the output is that of the edge [j,i]"}},
      {kNormOutAfterGate, {"specimen.norm_out_after_gate", "hidden is gated before it is normalised"}},
      {kFirstBatchOnly, {"specimen.first_batch_only", "right of the first batch serves all batches"}},
      {kLastBlockDropped,
       {"specimen.last_block_dropped",
        "rows beyond the last multiple of 64 are not written, if there is one"}},
      {kLastBlockOfSumDropped,
       {"specimen.last_block_of_sum_dropped",
        "terms beyond the last multiple of 8 are left out of the pairwise product, if there is one"}},
  };
  // trimul has no 16-bit storage that products, sums and results could be rounded to. eps hides
  // subnormal inputs.
  return plant(ops().front(), own, loop,
               {kProductsRounded, kSumsRounded, kOutputTruncated, kSubnormalsFlushed});
}

}  // namespace assay::trimul
