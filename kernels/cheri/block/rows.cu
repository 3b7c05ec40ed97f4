// SPDX-License-Identifier: Apache-2.0
// Copies between strided tensors and packed rows.
#include <algorithm>
#include <cstdint>

#include "kernels/cheri/block/block.h"
#include "kernels/core/specialise.h"
#include "kernels/core/threshold.h"
#include "kernels/core_cuda/cuda_check.h"

namespace assay::cheri {
namespace {

constexpr int kThreads = 256;
constexpr Threshold kMostBlocks{int64_t{1} << 20, 2};

// A tensor as rows. Row r is (r / length, r % length). Strides are in elements.
struct RowLayout {
  int64_t outer, inner, column;  // strides
  int64_t length;                // rows of one outer step
  int64_t rows, columns, pitch;

  RowLayout(const ConstTensorView& view, int64_t pitch_) : pitch(pitch_) {
    const int last = view.shape.rank() - 1;
    outer = last == 2 ? view.strides[0] : 0;
    inner = view.strides[last - 1];
    column = view.strides[last];
    length = view.shape[last - 1];
    rows = last == 2 ? view.shape[0] * length : length;
    columns = view.shape[last];
  }
};

// Bits is an unsigned integer as wide as an element.
template <class Bits, bool kToRows>
__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(const Bits* from, Bits* to, const RowLayout layout) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t columns = kToRows ? layout.pitch : layout.columns;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < layout.rows * columns; i += stride) {
    const int64_t row = i / columns, column = i - row * columns;
    const int64_t outer = row / layout.length, inner = row - outer * layout.length;
    const int64_t in_tensor = outer * layout.outer + inner * layout.inner + column * layout.column;
    if constexpr (kToRows) {
      to[i] = column < layout.columns ? from[in_tensor] : Bits{0};
    } else {
      to[in_tensor] = from[row * layout.pitch + column];
    }
  }
}

template <bool kToRows>
void launch(const void* from, void* to, DType dtype, const RowLayout& layout, void* stream) {
  const int64_t count = layout.rows * (kToRows ? layout.pitch : layout.columns);
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks.value()));
  visit_storage(dtype, [&]<class T>(std::type_identity<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
    copy_rows_kernel<Bits, kToRows><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const Bits*>(from), static_cast<Bits*>(to), layout);
    cuda_check_launch("copy_rows_kernel");
  });
}

}  // namespace

void copy_to_rows(const ConstTensorView& from, void* to, int64_t pitch, void* stream) {
  launch<true>(from.data, to, from.dtype, RowLayout(from, pitch), stream);
}

void copy_from_rows(const void* from, int64_t pitch, const TensorView& to, void* stream) {
  launch<false>(from, to.data, to.dtype, RowLayout(to, pitch), stream);
}

}  // namespace assay::cheri
