// SPDX-License-Identifier: Apache-2.0
#include "properties/specimens/dynamic_conv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

namespace assay::dynamic_conv {
namespace {

enum class Fault : uint8_t {
  kTapDropped,
  kTapsReversed,
  kFirstInputIgnored,
  kPaddingClamped,
  kPreviousBatchRead,
  kPaddingMultipliedByZero,
  kPaddingUnwritten,
  kChunkStartPadded,
  kTailSkipped,
  kNarrowOffsets,
  kContiguousAssumed,
  kLayoutOfFirstInputAssumed,
  kWritesPastRow,
  kAccumulatesIntoOutput,
  kModifiesInput,
  kNondeterministic,
  kRepeatedCallSkipped,
  kProductsRounded,
  kSumsRounded,
  kInputsRounded,
  kOutputTruncated,
  kSubnormalsFlushed,
};
using enum Fault;

// A strided tensor whose offsets are computed by hand: shape (B, T, D) or (B, T, D, W).
template <class T>
class Tensor {
 public:
  template <class Void>
  Tensor(const BasicTensorView<Void>& view, Fault fault)
      : data_(const_cast<T*>(static_cast<const T*>(view.data))), rank_(view.shape.rank()), fault_(fault) {
    for (int i = 0; i < rank_; ++i) strides_[static_cast<size_t>(i)] = view.strides[i];
    if (fault == kContiguousAssumed) strides_[static_cast<size_t>(rank_ - 1)] = 1;
  }

  T& operator()(int64_t b, int64_t t, int64_t d, int64_t w = 0) const {
    if (fault_ == kNarrowOffsets) return data_[offset<uint32_t>(b, t, d, w)];
    return data_[offset<int64_t>(b, t, d, w)];
  }

  // Overwrites what follows the innermost row, if that is its neighbour in memory.
  void write_past_row(int64_t b, int64_t t, int64_t d, int64_t row) const {
    const auto innermost = static_cast<size_t>(rank_ - 1);
    if (strides_[innermost] == 1) (rank_ == 3 ? (*this)(b, t, row) : (*this)(b, t, d, row)) = T{};
  }

 private:
  template <class Offset>
  Offset offset(int64_t b, int64_t t, int64_t d, int64_t w) const {
    const auto step = [&](size_t axis, int64_t i) {
      return static_cast<Offset>(i) * static_cast<Offset>(strides_[axis]);
    };
    return static_cast<Offset>(step(0, b) + step(1, t) + step(2, d) + step(3, w));
  }

  T* data_;
  int rank_;
  Fault fault_;
  std::array<int64_t, 4> strides_{};
};

// float arithmetic on stored values of type T.
template <class T>
struct Arithmetic {
  Fault fault;

  float load(T stored) const {
    const auto value = static_cast<float>(to_double(stored));
    if (fault == kInputsRounded) return static_cast<float>(to_double(to_bf16(value)));
    const double smallest_normal = std::ldexp(1.0, format_of(dtype_of<T>()).min_exponent);
    if (fault == kSubnormalsFlushed && std::abs(value) < smallest_normal) return 0;
    return value;
  }
  float multiply(float a, float b) const {
    return fault == kProductsRounded ? through_storage(a * b) : a * b;
  }
  float add(float a, float b) const { return fault == kSumsRounded ? through_storage(a + b) : a + b; }

  T store(float value) const {
    T stored = from_double<T>(value);
    if constexpr (sizeof(T) == 2) {
      if (fault == kOutputTruncated && std::abs(to_double(stored)) > std::abs(value)) --stored.bits;
    }
    return stored;
  }

 private:
  static float through_storage(float value) { return static_cast<float>(to_double(from_double<T>(value))); }
};

// What a call needs besides its tensors.
struct Shape {
  int64_t b, t, d, w;

  explicit Shape(const Dims& dims) : b(dims["b"]), t(dims["t"]), d(dims["d"]), w(dims["w"]) {}

  // Calls body(b, t, d) for each position that the faulty loop visits, in row-major order.
  template <class Body>
  void for_each(Fault fault, const Body& body) const {
    const int64_t visited = fault == kTailSkipped ? d / 8 * 8 : d;
    for (int64_t i = 0; i < b; ++i) {
      for (int64_t j = 0; j < t; ++j) {
        for (int64_t channel = 0; channel < visited; ++channel) body(i, j, channel);
      }
    }
  }
};

constexpr int64_t kChunk = 128;  // [rows]

// x at time t for the row `at`, or nothing where the tap is to be left out.
template <class T>
std::optional<float> padded(const Tensor<T>& x, const Shape& shape, Fault fault, int64_t b, int64_t at,
                            int64_t t, int64_t d) {
  const Arithmetic<T> math{fault};
  if (fault == kFirstInputIgnored && t == 0) return std::nullopt;
  if (fault == kChunkStartPadded && t < at / kChunk * kChunk) return std::nullopt;
  if (t >= 0) return math.load(x(b, t, d));
  if (fault == kPaddingClamped) return math.load(x(b, 0, d));
  if (fault == kPreviousBatchRead && b > 0 && t + shape.t >= 0) return math.load(x(b - 1, t + shape.t, d));
  if (fault == kPaddingMultipliedByZero) return 0.0f;
  return std::nullopt;
}

template <class T>
void forward(const Call& call, Fault fault) {
  const Shape shape(call.dims);
  const Tensor<T> x(call.inputs[0], fault), k(call.inputs[1], fault), out(call.outputs[0], fault);
  const Arithmetic<T> math{fault};
  shape.for_each(fault, [&](int64_t b, int64_t t, int64_t d) {
    float sum = fault == kAccumulatesIntoOutput ? math.load(out(b, t, d)) : 0.0f;
    for (int64_t w = fault == kTapDropped ? 1 : 0; w < shape.w; ++w) {
      const int64_t tap = fault == kTapsReversed ? shape.w - 1 - w : w;
      const auto input = padded(x, shape, fault, b, t, t + w - shape.w + 1, d);
      if (input) sum = math.add(sum, math.multiply(math.load(k(b, t, d, tap)), *input));
    }
    out(b, t, d) = math.store(sum);
    if (fault == kWritesPastRow && d == shape.d - 1) out.write_past_row(b, t, d, shape.d);
  });
}

template <class T>
void backward(const Call& call, Fault fault) {
  const Shape shape(call.dims);
  const Tensor<T> dout(call.inputs[0], fault), x(call.inputs[1], fault), k(call.inputs[2], fault);
  const Tensor<T> dx(call.outputs[0], fault), dk(call.outputs[1], fault);
  const Arithmetic<T> math{fault};
  shape.for_each(fault, [&](int64_t b, int64_t t, int64_t d) {
    float sum = fault == kAccumulatesIntoOutput ? math.load(dx(b, t, d)) : 0.0f;
    for (int64_t w = 0; w < shape.w; ++w) {
      const int64_t tap = fault == kTapsReversed ? shape.w - 1 - w : w;
      const int64_t later = t + shape.w - 1 - w;
      if (later < shape.t && !(fault == kTapDropped && w == 0)) {
        sum = math.add(sum, math.multiply(math.load(dout(b, later, d)), math.load(k(b, later, d, tap))));
      }
      const auto input = padded(x, shape, fault, b, t, t + w - shape.w + 1, d);
      if (input) {
        dk(b, t, d, tap) = math.store(math.multiply(math.load(dout(b, t, d)), *input));
      } else if (fault != kPaddingUnwritten) {
        dk(b, t, d, tap) = T{};
      }
    }
    dx(b, t, d) = math.store(sum);
    if (fault == kWritesPastRow) dk.write_past_row(b, t, d, shape.w);
  });
}

// What a path with memory remembers of its earlier calls.
struct History {
  int64_t calls = 0;
  const void* last_input = nullptr;
};

Call with_layout_of_first_input(Call call) {
  if (!call.inputs[0].is_dense()) return call;
  for (ConstTensorView& view : call.inputs) view.strides = dense_strides(view.shape);
  for (TensorView& view : call.outputs) view.strides = dense_strides(view.shape);
  return call;
}

template <class T>
void run(const Call& asked, Fault fault, bool is_gradient, History& history) {
  const Call call = fault == kLayoutOfFirstInputAssumed ? with_layout_of_first_input(asked) : asked;
  const void* input = call.inputs[0].data;
  if (fault == kRepeatedCallSkipped && std::exchange(history.last_input, input) == input) return;
  is_gradient ? backward<T>(call, fault) : forward<T>(call, fault);
  ++history.calls;
  if (call.outputs[0].size() == 0) return;
  // One bit is enough for both: the last one of the result, the sign of the input.
  auto* first_output = static_cast<unsigned char*>(call.outputs[0].data);
  if (fault == kNondeterministic && history.calls % 2 == 0) *first_output ^= 1;
  auto* first_input = static_cast<unsigned char*>(const_cast<void*>(input));
  if (fault == kModifiesInput) first_input[sizeof(T) - 1] ^= 0x80;
}

struct FaultInfo {
  Fault fault;
  std::string_view path;
  std::string_view sentence;
  std::vector<DType> dtypes = {DType::kF32, DType::kF16, DType::kBF16};
};

const std::vector<FaultInfo>& all_faults() {
  static const std::vector<DType> short_types = {DType::kF16, DType::kBF16};
  static const std::vector<FaultInfo> all = {
      {kTapDropped, "specimen.tap_dropped", "the first tap is left out"},
      {kTapsReversed, "specimen.taps_reversed", "the taps are applied in the opposite order"},
      {kFirstInputIgnored, "specimen.first_input_ignored", "the padding test is t > 0 instead of t >= 0"},
      {kPaddingClamped, "specimen.padding_clamped", "x[0] is read where x lies before t = 0"},
      {kPreviousBatchRead, "specimen.previous_batch_read",
       "the end of the previous batch entry is read as padding"},
      {kPaddingMultipliedByZero, "specimen.padding_multiplied_by_zero",
       "padding taps are multiplied by 0, not left out"},
      {kPaddingUnwritten, "specimen.padding_unwritten", "dk is left unwritten in the padding"},
      {kChunkStartPadded, "specimen.chunk_start_padded", "each chunk of 128 rows begins as if it were t = 0"},
      {kTailSkipped, "specimen.tail_skipped", "the last channels are skipped when D % 8 != 0"},
      {kNarrowOffsets, "specimen.narrow_offsets", "offsets are computed in 32 bits"},
      {kContiguousAssumed, "specimen.contiguous_assumed", "the innermost stride is taken for 1"},
      {kLayoutOfFirstInputAssumed, "specimen.layout_of_first_input_assumed",
       "all tensors are taken for dense when the first input is"},
      {kWritesPastRow, "specimen.writes_past_row", "one element past the end of each output row is written"},
      {kAccumulatesIntoOutput, "specimen.accumulates_into_output",
       "the sum is added to what the output held"},
      {kModifiesInput, "specimen.modifies_input", "the sign of one input element is flipped"},
      {kNondeterministic, "specimen.nondeterministic",
       "every second call differs in the last bit of one element"},
      {kRepeatedCallSkipped, "specimen.repeated_call_skipped",
       "a call on the same addresses as the last one returns at once"},
      {kProductsRounded, "specimen.products_rounded",
       "products are rounded to the storage dtype before the sum", short_types},
      {kSumsRounded, "specimen.sums_rounded", "sums are accumulated in the storage dtype", short_types},
      {kInputsRounded, "specimen.inputs_rounded", "f32 inputs are rounded to bf16", {DType::kF32}},
      {kOutputTruncated, "specimen.output_truncated", "results are rounded toward zero", short_types},
      {kSubnormalsFlushed, "specimen.subnormals_flushed", "subnormal inputs are taken for 0"},
  };
  return all;
}

Specimen make_specimen(const FaultInfo& info, bool is_gradient) {
  const auto history = std::make_shared<History>();
  const auto run_faulty = [fault = info.fault, is_gradient, history](const Call& call) {
    visit(call.dtype, [&]<class T>(std::type_identity<T>) { run<T>(call, fault, is_gradient, *history); });
  };
  const auto recipe = [](DType storage) {
    return Recipe{.storage = storage, .product = DType::kF32, .accumulate = DType::kF32};
  };
  return {.op = is_gradient ? "dynamic_conv_grad" : "dynamic_conv",
          .fault = info.sentence,
          .path = {.name = info.path,
                   .device = DeviceKind::kCpu,
                   .dtypes = info.dtypes,
                   .deterministic = true,
                   .recipe = recipe,
                   .unsupported = {},
                   .run = run_faulty,
                   .summary = info.sentence}};
}

}  // namespace

std::vector<Specimen> specimens() {
  std::vector<Specimen> all;
  for (const FaultInfo& info : all_faults()) {
    if (info.fault != kPaddingUnwritten) all.push_back(make_specimen(info, false));
    all.push_back(make_specimen(info, true));
  }
  return all;
}

}  // namespace assay::dynamic_conv
