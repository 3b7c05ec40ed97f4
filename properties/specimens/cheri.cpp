// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/cheri.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/cheri/cheri.h"
#include "properties/core/planted.h"
#include "properties/specimens/cheri_tuning.h"

namespace assay::cheri {
namespace {

enum class Own : uint8_t {
  // of the convolution and its statistics
  kDilationPlusOne,
  kPaddingWraps,
  kSquaresMinusSquare,
  kEpsilonLeftOut,
  kEpsilonOutsideRoot,
  kSampleVariance,
  kStatisticsOfRoundedConvolution,
  kStatisticsOfPreviousExample,
  kStatisticsOfBatch,
  kStatisticsTooEarly,
  kChannelwiseStatistics,
  // of the gradient
  kMeanOfDyLeftOut,
  kSecondTermLeftOut,
  kTapsOfDxNotSwapped,
  kDwInBf16,
  kDwOfLastExample,
  // of the block
  kErfGelu,
  kScaleTwice,
  kScaleLeftOut,
  kResidualNormalised,
  kW1Transposed,
  kLastHiddenDropped,
};
using enum Own;

constexpr int64_t kBlock = 32;  // [rows]

// The convolution of one example, in f32, and the statistics that normalise it.
struct Normalised {
  std::vector<float> conv;  // (L, C)
  double mean = 0;
  double rstd = 0;
};

// The statistics of values, with the fault.
Normalised normalised(std::vector<float> conv, std::span<const float> counted, const Fault<Own>& fault) {
  Normalised result{.conv = std::move(conv)};
  const auto count = static_cast<double>(counted.size());
  double sum = 0, squares = 0;
  float short_sum = 0, short_squares = 0;
  for (float c : counted) {
    sum += c;
    short_sum += c;
    short_squares += c * c;
  }
  result.mean = sum / count;
  for (float c : counted) squares += (c - result.mean) * (c - result.mean);
  double variance = squares / (fault == kSampleVariance ? std::max(count - 1, 1.0) : count);
  if (fault == kSquaresMinusSquare) {
    const float mean = short_sum / static_cast<float>(count);
    result.mean = mean;
    variance = short_squares / static_cast<float>(count) - mean * mean;
  }
  result.rstd = fault == kEpsilonLeftOut       ? 1 / std::sqrt(variance)
                : fault == kEpsilonOutsideRoot ? 1 / (std::sqrt(variance) + kEpsilon)
                                               : 1 / std::sqrt(variance + kEpsilon);
  return result;
}

// x and w of a call with their sizes.
template <class T>
struct Convolution {
  Elements<T> x, w;
  int64_t examples, rows, channels, dilation;
  const Fault<Own>& fault;
  FaultyArithmetic<T> math;

  Convolution(const Call& call, Input x_input, Input w_input, const Fault<Own>& planted)
      : x(call.inputs[x_input]),
        w(call.inputs[w_input]),
        examples(call.dims[kN]),
        rows(call.dims[kL]),
        channels(call.dims[kC]),
        dilation(call.dims[kDilation] + (planted == kDilationPlusOne ? 1 : 0)),
        fault(planted),
        math(planted) {}

  // The row that tap k of row l reads; -1 for padding.
  int64_t row_of(int64_t l, int64_t k) const {
    const bool is_outside = k == 0 ? l < dilation : k == 2 && dilation >= rows - l;
    if (!is_outside) return l + (k - 1) * dilation;
    if (fault != kPaddingWraps) return -1;
    const int64_t shift = dilation % rows;
    return (l + (k == 0 ? rows - shift : shift)) % rows;
  }

  std::vector<float> convolved(int64_t n) const {
    std::vector<float> conv;
    conv.reserve(static_cast<size_t>(rows * channels));
    for (int64_t l = 0; l < rows; ++l) {
      for (int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < 3; ++k) {
          const int64_t from = row_of(l, k);
          if (from >= 0) sum = math.add(sum, math.multiply(math.load(x(n, from, c)), math.load(w(k, c))));
        }
        conv.push_back(sum);
      }
    }
    return conv;
  }

  Normalised normalise(int64_t n) const {
    const std::vector<float> conv = convolved(n);
    std::vector<float> counted = conv;
    if (fault == kStatisticsOfRoundedConvolution) {
      for (float& value : counted) value = static_cast<float>(to_double(to_bf16(value)));
    }
    if (fault == kStatisticsOfPreviousExample && n > 0) counted = convolved(n - 1);
    if (fault == kStatisticsOfBatch) {
      counted.clear();
      for (int64_t other = 0; other < examples; ++other) {
        const std::vector<float> more = convolved(other);
        counted.insert(counted.end(), more.begin(), more.end());
      }
    }
    return normalised(conv, counted, fault);
  }

  // y of an example, in f32.
  std::vector<float> y(const Normalised& example) const {
    const auto row = static_cast<size_t>(channels), block = static_cast<size_t>(kBlock) * row;
    std::vector<Normalised> of_channels;
    if (fault == kChannelwiseStatistics) {
      for (size_t c = 0; c < row; ++c) {
        std::vector<float> channel;
        for (size_t i = c; i < example.conv.size(); i += row) channel.push_back(example.conv[i]);
        of_channels.push_back(normalised({}, channel, fault));
      }
    }
    std::vector<float> result(example.conv.size());
    Normalised early;  // of the blocks done so far
    for (size_t i = 0; i < result.size(); ++i) {
      if (fault == kStatisticsTooEarly && i % block == 0)
        early = normalised({}, std::span(example.conv).first(std::min(result.size(), i + block)), fault);
      const Normalised& used = fault == kStatisticsTooEarly      ? early
                               : fault == kChannelwiseStatistics ? of_channels[i % row]
                                                                 : example;
      result[i] = static_cast<float>((example.conv[i] - used.mean) * used.rstd);
    }
    return result;
  }
};

template <class T>
void conv_norm(const Call& call, const Fault<Own>& fault) {
  const Convolution<T> of(call, kX, kW, fault);
  const Elements<T> out(call.outputs[kY]);
  for (int64_t n = 0; n < of.examples; ++n) {
    const std::vector<float> y = of.y(of.normalise(n));
    for (int64_t l = 0; l < of.rows; ++l) {
      for (int64_t c = 0; c < of.channels; ++c) {
        out(n, l, c) = of.math.store(y[static_cast<size_t>(l * of.channels + c)]);
      }
    }
  }
}

template <class T>
void conv_norm_grad(const Call& call, const Fault<Own>& fault) {
  const Convolution<T> of(call, grad::kX, grad::kW, fault);
  const Elements<T> dy(call.inputs[grad::kDy]), dx(call.outputs[grad::kDx]), dw(call.outputs[grad::kDw]);
  const FaultyArithmetic<T>& math = of.math;
  std::vector<double> dw_sums(static_cast<size_t>(3 * of.channels));
  for (int64_t n = 0; n < of.examples; ++n) {
    const Normalised example = of.normalise(n);
    const std::vector<float> y = of.y(example);
    const auto at = [&](int64_t l, int64_t c) { return static_cast<size_t>(l * of.channels + c); };
    const auto count = static_cast<double>(y.size());
    double sum = 0, weighted = 0;
    for (int64_t l = 0; l < of.rows; ++l) {
      for (int64_t c = 0; c < of.channels; ++c) {
        sum += math.load(dy(n, l, c));
        weighted += double{math.load(dy(n, l, c))} * y[at(l, c)];
      }
    }
    if (!std::isfinite(sum)) sum = NAN;  // all of the example
    if (fault == kMeanOfDyLeftOut) sum = 0;
    if (fault == kSecondTermLeftOut) weighted = 0;
    std::vector<float> dconv(y.size());
    for (int64_t l = 0; l < of.rows; ++l) {
      for (int64_t c = 0; c < of.channels; ++c) {
        const double d = math.load(dy(n, l, c)) - sum / count - y[at(l, c)] * (weighted / count);
        dconv[at(l, c)] = static_cast<float>(d * example.rstd);
      }
    }
    if (fault == kDwOfLastExample) std::ranges::fill(dw_sums, 0.0);
    for (int64_t l = 0; l < of.rows; ++l) {
      for (int64_t c = 0; c < of.channels; ++c) {
        float total = 0;
        for (int64_t k = 0; k < 3; ++k) {
          const int64_t tap = fault == kTapsOfDxNotSwapped ? 2 - k : k;
          const int64_t from = of.row_of(l, 2 - k);
          if (from >= 0) {
            total = math.add(total, math.multiply(dconv[at(from, c)], math.load(of.w(tap, c))));
          }
          const int64_t x_row = of.row_of(l, k);
          if (x_row < 0) continue;
          double& dw_sum = dw_sums[static_cast<size_t>(k * of.channels + c)];
          dw_sum += double{dconv[at(l, c)]} * math.load(of.x(n, x_row, c));
          if (fault == kDwInBf16) dw_sum = to_double(to_bf16(static_cast<float>(dw_sum)));
        }
        dx(n, l, c) = math.store(total);
      }
    }
  }
  for (int64_t k = 0; k < 3; ++k) {
    for (int64_t c = 0; c < of.channels; ++c) {
      dw(k, c) = math.store(static_cast<float>(dw_sums[static_cast<size_t>(k * of.channels + c)]));
    }
  }
}

double gelu(double z, const Fault<Own>& fault) {
  if (fault == kErfGelu) return z / 2 * (1 + std::erf(z / std::numbers::sqrt2));
  return z / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z)));
}

template <class T>
void block(const Call& call, const Fault<Own>& fault) {
  const Convolution<T> of(call, kX, kW, fault);
  const Elements<T> w1(call.inputs[kW1]), w2(call.inputs[kW2]), out(call.outputs[kOut]);
  const FaultyArithmetic<T>& math = of.math;
  const int64_t width = call.dims[kHidden];
  const int64_t used = width - (fault == kLastHiddenDropped ? 1 : 0);
  const bool is_transposed = fault == kW1Transposed && width == of.channels;
  const double scale = fault == kScaleTwice ? kScale * kScale : fault == kScaleLeftOut ? 1 : kScale;
  std::vector<float> hidden(static_cast<size_t>(width));
  for (int64_t n = 0; n < of.examples; ++n) {
    const std::vector<float> y = of.y(of.normalise(n));
    for (int64_t l = 0; l < of.rows; ++l) {
      const std::span<const float> row = std::span(y).subspan(static_cast<size_t>(l * of.channels));
      for (int64_t h = 0; h < width; ++h) {
        float z = 0;
        for (int64_t c = 0; c < of.channels; ++c) {
          const float weight = math.load(is_transposed ? w1(c, h) : w1(h, c));
          z = math.add(z, math.multiply(weight, row[static_cast<size_t>(c)]));
        }
        hidden[static_cast<size_t>(h)] = static_cast<float>(gelu(z, fault));
      }
      for (int64_t c = 0; c < of.channels; ++c) {
        float sum = 0;
        for (int64_t h = 0; h < used; ++h) {
          sum = math.add(sum, math.multiply(math.load(w2(c, h)), hidden[static_cast<size_t>(h)]));
        }
        const float kept =
            fault == kResidualNormalised ? row[static_cast<size_t>(c)] : math.load(of.x(n, l, c));
        const auto added = static_cast<float>(scale * sum);
        out(n, l, c) = math.store(added == 0 ? kept : kept + added);
      }
    }
  }
}

void any_conv_norm(const Call& call, const Fault<Own>& fault) {
  visit(call.dtype, [&]<class T>(std::type_identity<T>) { conv_norm<T>(call, fault); });
}
void any_conv_norm_grad(const Call& call, const Fault<Own>& fault) {
  visit(call.dtype, [&]<class T>(std::type_identity<T>) { conv_norm_grad<T>(call, fault); });
}
void any_block(const Call& call, const Fault<Own>& fault) {
  visit(call.dtype, [&]<class T>(std::type_identity<T>) { block<T>(call, fault); });
}

const std::vector<OwnFault<Own>>& faults_of_statistics() {
  static const std::vector<OwnFault<Own>> all = {
      {kDilationPlusOne, {"specimen.dilation_plus_one", "the dilation is read as one more"}},
      {kPaddingWraps, {"specimen.padding_wraps", "taps outside an example read its other end"}},
      {kSquaresMinusSquare, {"specimen.squares_minus_square", "the variance is E[x^2] - E[x]^2 in f32"}},
      {kEpsilonLeftOut, {"specimen.epsilon_left_out", "eps is not added to the variance"}},
      {kEpsilonOutsideRoot, {"specimen.epsilon_outside_root", "eps is added to the standard deviation"}},
      {kSampleVariance, {"specimen.sample_variance", "the variance is divided by one less than the count"}},
      {kStatisticsOfRoundedConvolution,
       {"specimen.statistics_of_rounded_convolution",
        "the statistics are those of the convolution rounded to bf16"}},
      {kStatisticsOfPreviousExample,
       {"specimen.statistics_of_previous_example",
        "an example is normalised with the statistics of the one before"}},
      {kStatisticsOfBatch, {"specimen.statistics_of_batch", "all examples are normalised together"}},
      {kStatisticsTooEarly,
       {"specimen.statistics_too_early",
        "without a barrier, a block of rows is normalised with the sums that are complete by then"}},
      {kChannelwiseStatistics, {"specimen.channelwise_statistics", "each channel is normalised by itself"}},
  };
  return all;
}

std::vector<Specimen> planted(size_t op, std::vector<OwnFault<Own>> own,
                              void (*loop)(const Call&, const Fault<Own>&),
                              const std::vector<CommonFault>& without) {
  const auto& common = faults_of_statistics();
  own.insert(own.end(), common.begin(), common.end());
  return plant(ops()[op], own, loop, without);
}

}  // namespace

std::vector<Specimen> specimens() {
  using enum CommonFault;
  std::vector<Specimen> all = planted(0, {}, any_conv_norm, {});
  const auto add = [&](std::vector<Specimen> more) {
    for (Specimen& specimen : more) all.push_back(std::move(specimen));
  };
  add(planted(1,
              {{kMeanOfDyLeftOut, {"specimen.mean_of_dy_left_out", "the mean of dy is not subtracted"}},
               {kSecondTermLeftOut,
                {"specimen.second_term_left_out", "the term with the mean of dy * y is left out"}},
               {kTapsOfDxNotSwapped,
                {"specimen.taps_of_dx_not_swapped", "dx is convolved with the taps in forward order"}},
               {kDwInBf16, {"specimen.dw_in_bf16", "dw is summed in bf16"}},
               {kDwOfLastExample, {"specimen.dw_of_last_example", "dw is that of the last example"}}},
              any_conv_norm_grad, {}));
  add(planted(
      2,
      {{kErfGelu, {"specimen.erf_gelu", "GELU is computed with erf instead of tanh"}},
       {kScaleTwice, {"specimen.scale_twice", "the residual scale is applied twice"}},
       {kScaleLeftOut, {"specimen.scale_left_out", "the residual scale is left out"}},
       {kResidualNormalised, {"specimen.residual_normalised", "the normalised convolution is added, not x"}},
       {kW1Transposed, {"specimen.w1_transposed", "w1 is read transposed where it is square"}},
       {kLastHiddenDropped, {"specimen.last_hidden_dropped", "the last hidden value is left out"}}},
      any_block, {}));
  add(tuning_specimens());
  return all;
}

}  // namespace assay::cheri
