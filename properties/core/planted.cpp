// SPDX-License-Identifier: Apache-2.0
#include "properties/core/planted.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

namespace assay {
namespace {

using enum CommonFault;

struct CommonFaultInfo {
  CommonFault fault;
  FaultInfo info;
};

const std::vector<CommonFaultInfo>& common_faults() {
  static const std::vector<DType> short_types = {DType::kF16, DType::kBF16};
  static const std::vector<CommonFaultInfo> all = {
      {kTailSkipped,
       {"specimen.tail_skipped",
        "the tail of the innermost dimension is skipped when it is no multiple of 8"}},
      {kLastEntrySkipped,
       {"specimen.last_entry_skipped", "the last entry of the outermost dimension is skipped"}},
      {kNarrowOffsets, {"specimen.narrow_offsets", "offsets are computed in 32 bits"}},
      {kSignedOffsets, {"specimen.signed_offsets", "offsets are computed in 32 bits with a sign"}},
      {kContiguousAssumed, {"specimen.contiguous_assumed", "the innermost stride is taken for 1"}},
      {kLayoutOfFirstInputAssumed,
       {"specimen.layout_of_first_input_assumed", "all tensors are taken for dense when the first input is"}},
      {kWritesPastRow,
       {"specimen.writes_past_row", "one element past the end of each output row is written"}},
      {kReadsPastEnd,
       {"specimen.reads_past_end", "a vector past the end of each input is loaded, and not used"}},
      {kReadsBeforeStart,
       {"specimen.reads_before_start", "a vector before the start of each input is loaded, and not used"}},
      {kAccumulatesIntoOutput,
       {"specimen.accumulates_into_output", "the result is added to what the output held"}},
      {kModifiesInput, {"specimen.modifies_input", "the sign of one input element is flipped"}},
      {kNondeterministic,
       {"specimen.nondeterministic", "every second call differs in the last bit of one element"}},
      {kRepeatedCallSkipped,
       {"specimen.repeated_call_skipped", "a call on the same addresses as the last one returns at once"}},
      {kProductsRounded,
       {"specimen.products_rounded", "products are rounded to the storage dtype before the sum",
        short_types}},
      {kSumsRounded, {"specimen.sums_rounded", "sums are accumulated in the storage dtype", short_types}},
      {kSumsInFixedPoint,
       {"specimen.sums_in_fixed_point", "sums are accumulated in fixed point, in steps of 2^-12"}},
      {kInputsRounded, {"specimen.inputs_rounded", "f32 inputs are rounded to bf16", {DType::kF32}}},
      {kOutputTruncated, {"specimen.output_truncated", "results are rounded toward zero", short_types}},
      {kSubnormalsFlushed, {"specimen.subnormals_flushed", "subnormal inputs are taken for 0"}},
      {kSubnormalResultsFlushed, {"specimen.subnormal_results_flushed", "subnormal results become 0"}},
  };
  return all;
}

// The call with other strides for each tensor.
template <class Strides>
Call with_strides(Call call, const Strides& strides) {
  for (ConstTensorView& view : call.inputs) view.strides = strides(view);
  for (TensorView& view : call.outputs) view.strides = strides(view);
  return call;
}

Extents dense(const ConstTensorView& view) {
  return dense_strides(view.shape);
}

Extents contiguous(const ConstTensorView& view) {
  Extents strides = view.strides;
  strides[strides.rank() - 1] = 1;
  return strides;
}

// Strides wrapped to 32 bits: a step of 2^32 is none, and one of 2^31 goes back if it has a sign.
template <class Narrow>
Extents narrow(const ConstTensorView& view) {
  Extents strides = view.strides;
  for (int axis = 0; axis < strides.rank(); ++axis) strides[axis] = static_cast<Narrow>(strides[axis]);
  return strides;
}

std::byte* address_of(const TensorView& view, const Extents& index) {
  return static_cast<std::byte*>(view.data) +
         offset_of(index, view.strides) * static_cast<int64_t>(size_of(view.dtype));
}

// Keeps the bytes of chosen output elements and writes them back later.
class Kept {
 public:
  // Keeps the elements for which keeps(output, index) holds.
  template <class Keeps>
  Kept(const Call& call, const Keeps& keeps) {
    for (size_t output = 0; output < call.outputs.size(); ++output) {
      const TensorView& view = call.outputs[output];
      for (int64_t i = 0; i < view.size(); ++i) {
        const Extents index = index_of(i, view.shape);
        if (!keeps(output, index)) continue;
        std::byte* address = address_of(view, index);
        elements_.push_back({address, view.dtype, {}});
        std::memcpy(elements_.back().bytes.data(), address, size_of(view.dtype));
      }
    }
  }

  void restore() const {
    for (const Element& e : elements_) std::memcpy(e.address, e.bytes.data(), size_of(e.dtype));
  }
  // Adds them to what is there now.
  void add() const {
    for (const Element& e : elements_) {
      visit(e.dtype, [&]<class T>(std::type_identity<T>) {
        T kept, now;
        std::memcpy(&kept, e.bytes.data(), sizeof(T));
        std::memcpy(&now, e.address, sizeof(T));
        now = from_double<T>(to_double(kept) + to_double(now));
        std::memcpy(e.address, &now, sizeof(T));
      });
    }
  }

 private:
  struct Element {
    std::byte* address;
    DType dtype;
    std::array<std::byte, sizeof(double)> bytes;
  };
  std::vector<Element> elements_;
};

// Overwrites the element after each innermost row of the outputs, if the elements of a row are
// neighbours in memory.
void write_past_rows(const Call& call) {
  for (const TensorView& view : call.outputs) {
    const int last = view.shape.rank() - 1;
    if (view.size() == 0 || view.strides[last] != 1) continue;
    for (int64_t i = view.shape[last] - 1; i < view.size(); i += view.shape[last]) {
      std::memset(address_of(view, index_of(i, view.shape)) + size_of(view.dtype), 0, size_of(view.dtype));
    }
  }
}

// Loads a vector of 16 bytes, so many bytes after the first element of each input.
void load_vectors(const Call& call, int64_t (*position)(const ConstTensorView&)) {
  for (const ConstTensorView& view : call.inputs) {
    const auto* from = static_cast<const volatile std::byte*>(view.data) + position(view);
    for (int i = 0; i < 16; ++i) static_cast<void>(from[i]);
  }
}

// Flips one bit: the sign in the last byte of an element, or the last bit of the significand in the
// first byte.
void flip(const ConstTensorView& view, size_t byte, unsigned char bit) {
  if (view.size() > 0) static_cast<unsigned char*>(const_cast<void*>(view.data))[byte] ^= bit;
}

// The loop with the fault in its arithmetic or around it. Copies of the result share what it
// remembers of earlier calls.
Run with_fault(const Op& op, CommonFault fault, const FaultyLoop& faulty) {
  const Run loop = [faulty](const Call& call) { faulty(call, std::nullopt); };
  const auto change_strides = [&](auto strides) -> Run {
    return [loop, strides](const Call& call) { loop(with_strides(call, strides)); };
  };
  switch (fault) {
    case kTailSkipped:
      return leaving_out(
          op, axes_of(op.outputs[0]).back(),
          [](int64_t index, int64_t size) { return index >= size / 8 * 8; }, loop);
    case kLastEntrySkipped:
      return leaving_out(
          op, axes_of(op.outputs[0]).front(), [](int64_t index, int64_t size) { return index == size - 1; },
          loop);
    case kNarrowOffsets:
      return change_strides(narrow<uint32_t>);
    case kSignedOffsets:
      return change_strides(narrow<int32_t>);
    case kContiguousAssumed:
      return change_strides(contiguous);
    case kLayoutOfFirstInputAssumed:
      return [loop](const Call& call) { loop(call.inputs[0].is_dense() ? with_strides(call, dense) : call); };
    case kWritesPastRow:
      return [loop](const Call& call) {
        write_past_rows(call);  // first: in a loop, the next row would overwrite it
        loop(call);
      };
    case kReadsPastEnd:
      return [loop](const Call& call) {
        load_vectors(call, span_bytes);
        loop(call);
      };
    case kReadsBeforeStart:
      return [loop](const Call& call) {
        load_vectors(call, [](const ConstTensorView&) { return int64_t{-16}; });
        loop(call);
      };
    case kAccumulatesIntoOutput:
      return [loop](const Call& call) {
        const Kept before(call, [](size_t, const Extents&) { return true; });
        loop(call);
        before.add();
      };
    case kModifiesInput:
      return [loop](const Call& call) {
        loop(call);
        flip(call.inputs[0], size_of(call.inputs[0].dtype) - 1, 0x80);
      };
    case kNondeterministic:
      return [loop, calls = std::make_shared<int64_t>(0)](const Call& call) {
        loop(call);
        if (++*calls % 2 == 0) flip(call.outputs[0], 0, 1);
      };
    case kRepeatedCallSkipped:
      return [loop, last = std::make_shared<const void*>(nullptr)](const Call& call) {
        const void* input = call.inputs[0].data;
        if (std::exchange(*last, input) != input) loop(call);
      };
    case kProductsRounded:
    case kSumsRounded:
    case kSumsInFixedPoint:
    case kInputsRounded:
    case kOutputTruncated:
    case kSubnormalsFlushed:
    case kSubnormalResultsFlushed:
      return [faulty, fault](const Call& call) { faulty(call, fault); };
  }
  throw Error("CommonFault({}) is not a fault", static_cast<int>(fault));
}

}  // namespace

Run leaving_out(const Op& op, std::string_view key, LeftOut left_out, Run run) {
  std::vector<std::vector<std::string_view>> axes;
  for (const TensorInfo& output : op.outputs) axes.push_back(axes_of(output));
  return [=](const Call& call) {
    const Kept kept(call, [&](size_t output, const Extents& index) {
      for (int axis = 0; axis < index.rank(); ++axis) {
        if (axes[output][static_cast<size_t>(axis)] != key) continue;
        if (left_out(index[axis], call.outputs[output].shape[axis])) return true;
      }
      return false;
    });
    run(call);
    kept.restore();
  };
}

Specimen make_specimen(const Op& op, const FaultInfo& info, Run run) {
  return {.op = op.name,
          .fault = info.sentence,
          .path = {.name = info.path,
                   .device = DeviceKind::kCpu,
                   .dtypes = info.dtypes.empty() ? op.paths.front().dtypes : info.dtypes,
                   .deterministic = true,
                   .recipe = op.paths.front().recipe,
                   .unsupported = {},
                   .run = std::move(run),
                   .summary = info.sentence}};
}

std::vector<Specimen> common_specimens(const Op& op, const FaultyLoop& loop,
                                       const std::vector<CommonFault>& without) {
  std::vector<Specimen> all;
  for (const auto& [fault, info] : common_faults()) {
    if (std::ranges::count(without, fault) == 0) {
      all.push_back(make_specimen(op, info, with_fault(op, fault, loop)));
    }
  }
  return all;
}

}  // namespace assay
