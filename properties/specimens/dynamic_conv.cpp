// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/dynamic_conv.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "kernels/core/build.h"
#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/core/planted.h"
#include "properties/specimens/dynamic_conv_hostile.h"

namespace assay::dynamic_conv {
namespace {

enum class Own : uint8_t {
  kTapDropped,
  kTapsReversed,
  kFirstInputIgnored,
  kPaddingClamped,
  kPreviousBatchRead,
  kPaddingMultipliedByZero,
  kPaddingUnwritten,
  kChunkStartPadded,
  kLaterEntriesBackwards,
};
using enum Own;
using Planted = Fault<Own>;

struct Shape {
  int64_t b, t, d, w;

  explicit Shape(const Dims& dims) : b(dims[kB]), t(dims[kT]), d(dims[kD]), w(dims[kW]) {}

  // Calls body(b, t, d) for each position, in row-major order.
  template <class Body>
  void for_each(const Body& body) const {
    for (int64_t i = 0; i < b; ++i) {
      for (int64_t j = 0; j < t; ++j) {
        for (int64_t channel = 0; channel < d; ++channel) body(i, j, channel);
      }
    }
  }
};

constexpr int64_t kChunk = 128;  // [rows]

// x at time t for the row `at`, or nothing if the tap is left out.
template <class T>
std::optional<float> padded(const Elements<T>& x, const Shape& shape, const Planted& fault, int64_t b,
                            int64_t at, int64_t t, int64_t d) {
  const FaultyArithmetic<T> math(fault);
  if (fault == kFirstInputIgnored && t == 0) return std::nullopt;
  if (fault == kChunkStartPadded && t < at / kChunk * kChunk) return std::nullopt;
  if (t >= 0) return math.load(x(b, t, d));
  if (fault == kPaddingClamped) return math.load(x(b, int64_t{0}, d));
  if (fault == kPreviousBatchRead && b > 0 && t + shape.t >= 0) return math.load(x(b - 1, t + shape.t, d));
  if (fault == kPaddingMultipliedByZero) return 0.0f;
  return std::nullopt;
}

template <class T>
void forward(const Call& call, const Planted& fault) {
  const Shape shape(call.dims);
  const Elements<T> x(call.inputs[kX]), k(call.inputs[kK]), out(call.outputs[kOut]);
  const FaultyArithmetic<T> math(fault);
  shape.for_each([&](int64_t b, int64_t t, int64_t d) {
    float sum = 0;
    for (int64_t term = fault == kTapDropped ? 1 : 0; term < shape.w; ++term) {
      const int64_t w = fault == kLaterEntriesBackwards && b > 0 ? shape.w - 1 - term : term;
      const int64_t tap = fault == kTapsReversed ? shape.w - 1 - w : w;
      const auto input = padded(x, shape, fault, b, t, t + w - shape.w + 1, d);
      if (input) sum = math.add(sum, math.multiply(math.load(k(b, t, d, tap)), *input));
    }
    out(b, t, d) = math.store(sum);
  });
}

template <class T>
void backward(const Call& call, const Planted& fault) {
  const Shape shape(call.dims);
  const Elements<T> dout(call.inputs[grad::kDout]), x(call.inputs[grad::kX]), k(call.inputs[grad::kK]);
  const Elements<T> dx(call.outputs[grad::kDx]), dk(call.outputs[grad::kDk]);
  const FaultyArithmetic<T> math(fault);
  shape.for_each([&](int64_t b, int64_t t, int64_t d) {
    float sum = 0;
    for (int64_t w = 0; w < shape.w; ++w) {
      const int64_t tap = fault == kTapsReversed ? shape.w - 1 - w : w;
      const int64_t later = t + shape.w - 1 - w;
      if (later < shape.t && !(fault == kTapDropped && w == 0)) {
        sum = math.add(sum, math.multiply(math.load(dout(b, later, d)), math.load(k(b, later, d, tap))));
      }
      const auto input = padded(x, shape, fault, b, t, t + w - shape.w + 1, d);
      if (input) {
        dk(b, t, d, tap) = math.store(math.multiply(math.load(dout(b, t, d)), *input));
      } else if (!(fault == kPaddingUnwritten)) {
        dk(b, t, d, tap) = T{};
      }
    }
    dx(b, t, d) = math.store(sum);
  });
}

void forward_loop(const Call& call, const Planted& fault) {
  visit(call.dtype, [&]<class T>(std::type_identity<T>) { forward<T>(call, fault); });
}
void backward_loop(const Call& call, const Planted& fault) {
  visit(call.dtype, [&]<class T>(std::type_identity<T>) { backward<T>(call, fault); });
}

}  // namespace

std::vector<Specimen> specimens() {
  const std::vector<OwnFault<Own>> of_both = {
      {kTapDropped, {"specimen.tap_dropped", "the first tap is left out"}},
      {kTapsReversed, {"specimen.taps_reversed", "the taps are applied in the opposite order"}},
      {kFirstInputIgnored, {"specimen.first_input_ignored", "the padding test is t > 0 instead of t >= 0"}},
      {kPaddingClamped, {"specimen.padding_clamped", "x[0] is read where x lies before t = 0"}},
      {kPreviousBatchRead,
       {"specimen.previous_batch_read", "the end of the previous batch entry is read as padding"}},
      {kPaddingMultipliedByZero,
       {"specimen.padding_multiplied_by_zero", "padding taps are multiplied by 0, not left out"}},
      {kChunkStartPadded,
       {"specimen.chunk_start_padded", "each chunk of 128 rows begins as if it were t = 0"}},
  };
  // Right to the ball; a law sees it.
  std::vector<OwnFault<Own>> of_forward = of_both;
  of_forward.push_back({kLaterEntriesBackwards,
                        {"specimen.later_entries_backwards",
                         "entries of the batch after the first add their taps backwards"}});
  std::vector<OwnFault<Own>> of_gradient = of_both;
  of_gradient.push_back(
      {kPaddingUnwritten, {"specimen.padding_unwritten", "dk is left unwritten in the padding"}});
  std::vector<Specimen> all = plant(ops()[0], of_forward, forward_loop);
  const auto add = [&](std::vector<Specimen> more) { std::ranges::move(more, std::back_inserter(all)); };
  add(plant(ops()[1], of_gradient, backward_loop));
  add(hostile_on_cpu());
  add(hostile_between_calls());
  add(hostile_to_clocks());
  if constexpr (kHasCuda) add(hostile_on_cuda());
  return all;
}

}  // namespace assay::dynamic_conv
