// SPDX-License-Identifier: Apache-2.0
#include "kernels/core_cuda/cublas.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <type_traits>

#include "kernels/core/error.h"
#include "kernels/core/shared_library.h"
#include "kernels/core_cuda/cuda_check.h"

namespace assay {
namespace {

constexpr std::string_view kToolkitLibraries = ASSAY_CUDA_LIBRARIES;  // a folder

// The functions of cuBLASLt that are used here. Its file has 540 MB, so the first product loads it.
struct CublasLt {
  SharedLibrary library = [] {
    const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
    return SharedLibrary({name, fmt::format("{}/{}", kToolkitLibraries, name)});
  }();
  decltype(&cublasLtCreate) create = library.function("cublasLtCreate");
  decltype(&cublasLtDestroy) destroy = library.function("cublasLtDestroy");
  decltype(&cublasLtGetStatusString) get_status_string = library.function("cublasLtGetStatusString");
  decltype(&cublasLtMatmul) matmul = library.function("cublasLtMatmul");
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) matmul_algo_config_get_attribute =
      library.function("cublasLtMatmulAlgoConfigGetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) matmul_algo_get_heuristic =
      library.function("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create = library.function("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy = library.function("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute =
      library.function("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) matmul_preference_create =
      library.function("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) matmul_preference_destroy =
      library.function("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) matmul_preference_set_attribute =
      library.function("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create = library.function("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy =
      library.function("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) matrix_layout_set_attribute =
      library.function("cublasLtMatrixLayoutSetAttribute");
};

const CublasLt& lt() {
  static const CublasLt functions;
  return functions;
}

// Most matrices of one call. They may be blocks along z of a grid, and cuBLASLt fails for more with
// some shapes.
constexpr int64_t kMostBatches = 65535;

void cublas_check(cublasStatus_t status, std::string_view operation,
                  std::source_location where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Error::Kind::kDevice,
              fmt::format("cuda: {} failed: {}", operation, lt().get_status_string(status)), where);
}

struct Destroy {
  void operator()(cublasLtHandle_t handle) const noexcept { lt().destroy(handle); }
  void operator()(cublasLtMatmulDesc_t desc) const noexcept { lt().matmul_desc_destroy(desc); }
  void operator()(cublasLtMatrixLayout_t layout) const noexcept { lt().matrix_layout_destroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const noexcept {
    lt().matmul_preference_destroy(preference);
  }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
  }
  throw_bad_dtype(dtype);
}

// Layouts are column-major, as cuBLASLt sees them.
struct Batch {
  int64_t count, stride;  // [elements]
};
Owned<cublasLtMatrixLayout_t> layout_of(DType dtype, int64_t rows, int64_t columns, int64_t pitch,
                                        Batch batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  cublas_check(lt().matrix_layout_create(&layout, type_of(dtype), static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(columns), pitch),
               "cublasLtMatrixLayoutCreate");
  Owned<cublasLtMatrixLayout_t> owned(layout);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    cublas_check(lt().matrix_layout_set_attribute(layout, attribute, &value, sizeof(value)),
                 "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch.count));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch.stride);
  return owned;
}

// The problem transposed: d^T (columns, rows) = b (inner, columns)^T * a^T (inner, rows),
// column-major.
struct Problem {
  Owned<cublasLtMatmulDesc_t> desc;
  Owned<cublasLtMatrixLayout_t> a, b, d;

  Problem(const RowProduct& product, int64_t rows, int64_t batches)
      : a(layout_of(product.dtype, product.inner, rows, product.a_pitch, {batches, product.a_batch})),
        b(layout_of(product.dtype, product.inner, product.columns, product.b_pitch,
                    {batches, product.b_batch})),
        d(layout_of(product.dtype, product.columns, rows, product.d_pitch, {batches, product.d_batch})) {
    cublasLtMatmulDesc_t created = nullptr;
    const cublasComputeType_t compute =
        product.allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublas_check(lt().matmul_desc_create(&created, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    desc.reset(created);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    cublas_check(
        lt().matmul_desc_set_attribute(created, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
        "cublasLtMatmulDescSetAttribute");
  }
};

template <class T>
T attribute_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  size_t written = 0;
  cublas_check(lt().matmul_algo_config_get_attribute(&algorithm, attribute, &value, sizeof(value), &written),
               "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

// `found` lists algorithms, best first. Takes the first with tiles of 128 x 128 of the same kind as
// the best, else the best.
const cublasLtMatmulHeuristicResult_t& with_tile_128(std::span<const cublasLtMatmulHeuristicResult_t> found) {
  const auto kind = [](const cublasLtMatmulHeuristicResult_t& result) {
    return attribute_of<int32_t>(result.algo, CUBLASLT_ALGO_CONFIG_ID);
  };
  for (const cublasLtMatmulHeuristicResult_t& result : found) {
    if (kind(result) == kind(found.front()) &&
        attribute_of<uint32_t>(result.algo, CUBLASLT_ALGO_CONFIG_TILE_ID) == CUBLASLT_MATMUL_TILE_128x128) {
      return result;
    }
  }
  return found.front();
}

// A handle of a device and the algorithms chosen with it. There is one per process and device,
// since a choice takes longer than a small product.
class Products {
 public:
  static Products& of_device(int index) {
    lt();  // ends after `all`, which needs it
    static std::mutex mutex;
    static std::map<int, Products> all;
    const std::lock_guard lock(mutex);
    return all[index];
  }

  cublasLtHandle_t handle() {
    const std::lock_guard lock(mutex_);
    if (!handle_) {
      cublasLtHandle_t created = nullptr;
      cublas_check(lt().create(&created), "cublasLtCreate");
      handle_.reset(created);
    }
    return handle_.get();
  }

  cublasLtMatmulHeuristicResult_t algorithm(const RowProduct& p) {
    const cublasLtHandle_t handle = this->handle();
    const std::lock_guard lock(mutex_);
    const Key key{p.dtype,       p.columns,       p.inner,   p.a_pitch, p.b_pitch, p.d_pitch, p.usual_rows,
                  p.allows_tf32, p.usual_batches, p.a_batch, p.b_batch, p.d_batch, p.tile_128};
    if (const auto found = chosen_.find(key); found != chosen_.end()) return found->second;
    cublasLtMatmulPreference_t created = nullptr;
    cublas_check(lt().matmul_preference_create(&created), "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreference_t> preference(created);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      cublas_check(lt().matmul_preference_set_attribute(created, attribute, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{32} << 20);
    // Several blocks would add up partial sums of an element in any order.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
    if (p.a_batch != 0) {
      constexpr uint32_t kAlignment = 16;
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
    }
    const Problem problem(p, p.usual_rows, p.usual_batches);
    std::array<cublasLtMatmulHeuristicResult_t, 16> results{};
    int count = 0;
    const cublasStatus_t status = lt().matmul_algo_get_heuristic(
        handle, problem.desc.get(), problem.b.get(), problem.a.get(), problem.d.get(), problem.d.get(),
        created, p.tile_128 ? static_cast<int>(results.size()) : 1, results.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
      throw unsupported_error("cuBLASLt has no algorithm for {} rows of {} by {} {}", p.usual_rows, p.inner,
                              p.columns, name_of(p.dtype));
    }
    cublas_check(status, "cublasLtMatmulAlgoGetHeuristic");
    const std::span found(results.data(), static_cast<size_t>(count));
    return chosen_.emplace(key, p.tile_128 ? with_tile_128(found) : found.front()).first->second;
  }

 private:
  using Key = std::tuple<DType, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, int64_t, int64_t,
                         int64_t, int64_t, bool>;

  std::mutex mutex_;
  Owned<cublasLtHandle_t> handle_;
  std::map<Key, cublasLtMatmulHeuristicResult_t> chosen_;
};

}  // namespace

void multiply_rows(const RowProduct& product, int64_t rows, const void* a, const void* b, void* d,
                   Context& context, void* stream, int64_t batches) {
  if (rows == 0 || batches == 0) return;
  Products& products = Products::of_device(context.device().info().index);
  const cublasLtMatmulHeuristicResult_t chosen = products.algorithm(product);
  const auto bytes = static_cast<int64_t>(chosen.workspaceSize);
  const Workspace::Lease workspace = context.workspace().lease(bytes, stream);
  const auto size = static_cast<int64_t>(size_of(product.dtype));
  for (int64_t first = 0; first < batches; first += kMostBatches) {
    const Problem problem(product, rows, std::min(kMostBatches, batches - first));
    const void* const left = static_cast<const std::byte*>(a) + first * product.a_batch * size;
    const void* const right = static_cast<const std::byte*>(b) + first * product.b_batch * size;
    void* const to = static_cast<std::byte*>(d) + first * product.d_batch * size;
    constexpr float kOfEarlier = 0;  // d is overwritten
    cublas_check(
        lt().matmul(products.handle(), problem.desc.get(), &product.alpha, right, problem.b.get(), left,
                    problem.a.get(), &kOfEarlier, to, problem.d.get(), to, problem.d.get(), &chosen.algo,
                    workspace.data(), chosen.workspaceSize, static_cast<cudaStream_t>(stream)),
        "cublasLtMatmul");
  }
}

void clear_padding(void* matrix, DType dtype, int64_t rows, int64_t columns, int64_t pitch, void* stream) {
  if (pitch == columns || rows == 0) return;
  const auto size = static_cast<int64_t>(size_of(dtype));
  cuda_check(
      cudaMemset2DAsync(static_cast<std::byte*>(matrix) + columns * size, static_cast<size_t>(pitch * size),
                        0, static_cast<size_t>((pitch - columns) * size), static_cast<size_t>(rows),
                        static_cast<cudaStream_t>(stream)),
      "cudaMemset2DAsync");
}

}  // namespace assay
