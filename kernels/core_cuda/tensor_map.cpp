// SPDX-License-Identifier: Apache-2.0
#include "kernels/core_cuda/tensor_map.h"

#include "kernels/core/error.h"
#include "kernels/core_cuda/driver_function.h"

namespace assay {
namespace {

PFN_cuTensorMapEncodeTiled_v12000 encode_function() {
  static const auto function =
      driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled", 12000);
  return function;
}

CUtensorMapDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  }
  throw_bad_dtype(dtype);
}

}  // namespace

CUtensorMap map_of(const Matrices& m, int box_rows) {
  const auto size = static_cast<int64_t>(size_of(m.dtype));
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows),
                              static_cast<cuuint64_t>(m.count)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(m.row_stride * size),
                                static_cast<cuuint64_t>(m.matrix_stride * size)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(kBoxRowBytes / size), static_cast<cuuint32_t>(box_rows),
                            1};
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode_function()(
      &map, type_of(m.dtype), 3, m.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw device_error("cuda: cuTensorMapEncodeTiled of {} matrices ({}, {}) of {} failed with code {}",
                       m.count, m.rows, m.columns, name_of(m.dtype), static_cast<int>(result));
  }
  return map;
}

}  // namespace assay
