// SPDX-License-Identifier: Apache-2.0
// out[n,i,h] = post[n,i] * x[n,h] + sum_j comb[n,j,i] * residual[n,j,h]. A thread loads its part of
// x and of all streams of a token once and writes all outputs from registers.
//
// A thread's part is a vector of 16 bytes along h, or two vectors if there is one stream. Where the
// layout allows it, a vector is one piece. Elsewhere it has pieces of 4 bytes or of single
// elements, so far apart that neighbouring threads touch neighbouring memory. Short rows go by
// single elements, too, with several tokens to a block. The arithmetic and its order are the same.
// The block issues the loads of x and of the streams before it brings the weights of its tokens to
// shared memory. With four streams a thread loads the twenty weights itself, if aligned: waiting
// takes 0.4 of 13 us.
#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/core/specialise.h"
#include "kernels/core_cuda/cuda_check.h"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/packed.cuh"
#include "kernels/mhc_post/mhc_post.h"

namespace assay::mhc_post {
namespace {

// How the kernel divides its work. Each number was the fastest on an H200.
template <class T, int kStreams_, int kPiece_, bool kOwnWeights_ = false, bool kIsSmall_ = false>
struct Plan {
  static constexpr int kStreams = kStreams_;
  static constexpr int kPiece = kPiece_;             // [bytes] moved at once
  static constexpr bool kOwnWeights = kOwnWeights_;  // each thread loads the weights of its token
  static constexpr bool kIsSmall = kIsSmall_;        // see is_small
  // Whether a block has one token, whose weights all its threads share.
  static constexpr bool kOneToken = kPiece > int{sizeof(T)};
  static constexpr int kElements = 16 / int{sizeof(T)};             // of a vector
  static constexpr int kPieces = 16 / kPiece;                       // of a vector
  static constexpr int kThreads = kStreams <= 8 ? 64 : 256;         // of a block at most
  static constexpr int kRegisters = kStreams <= 4 ? 80 : 128;       // of a thread at most
  static constexpr int kMinBlocks = 65536 / kRegisters / kThreads;  // on a multiprocessor
  static constexpr int kVectors = kStreams == 1 ? 2 : 1;            // of a thread in each row
  static constexpr int kOutputs = std::min(kStreams, 4);            // summed at once
  // Weights of a token: a row for x and one for each stream, padded to whole groups of kOutputs.
  static constexpr int kPitch = (kStreams + kOutputs - 1) / kOutputs * kOutputs;
  static constexpr int kWeights = (kStreams + 1) * kPitch;

  // The type in which positions are computed.
  using Offset = std::conditional_t<kIsSmall, int, int64_t>;

  static_assert(!kOwnWeights || (kStreams == 4 && kPiece == 16), "a row of weights is a float4");
  static_assert(!kIsSmall || kOwnWeights, "a block has whole vectors of one token");
};

// A tensor (N,H) or (N,HC,H). Strides in elements.
template <class T>
struct Rows {
  T* data;
  int64_t token, stream, hidden;

  template <class Void>
  explicit Rows(const BasicTensorView<Void>& view)
      : data(view.template as<std::remove_const_t<T>>()),
        token(view.strides[0]),
        stream(view.shape.rank() == 3 ? view.strides[1] : 0),
        hidden(view.strides[view.shape.rank() - 1]) {}
};

// The threads of a launch: `groups` groups of `tokens` tokens, each with `tiles` blocks along h and
// `threads` threads for each token.
struct Division {
  int64_t n, h;  // sizes of the problem
  int threads, tokens;
  int64_t tiles, groups;

  std::string to_string() const {
    return fmt::format(
        "{} tokens of {} elements in {} groups of {} by {} blocks of {} threads for each token", n, h, groups,
        tokens, tiles, threads);
  }
};

template <class T>
struct Arguments {
  Rows<const T> x, residual;
  Rows<T> out;
  const float* post;
  int64_t post_token, post_stream;  // [elements]
  const float* comb;
  int64_t comb_token, comb_from, comb_to;  // [elements] strides of (n, j, i)
  Division division;
};

// Weight k of the block's tokens: [token][0][i] = post[i], [token][1 + j][i] = comb[j][i], else 0.
template <class Plan, class T>
__device__ float weight_of(const Arguments<T>& a, int64_t first_token, int k) {
  const int64_t n = first_token + (Plan::kOneToken ? 0 : k / Plan::kWeights);
  const int row = k % Plan::kWeights / Plan::kPitch;
  const int i = k % Plan::kPitch;
  if (n >= a.division.n || i >= Plan::kStreams) return 0;
  return __ldg(row == 0 ? a.post + n * a.post_token + i * a.post_stream
                        : a.comb + n * a.comb_token + (row - 1) * a.comb_from + i * a.comb_to);
}

// Weights that one load reads.
template <int kCount>
struct alignas(kCount % 4 == 0   ? 16
               : kCount % 2 == 0 ? 8
                                 : 4) Group {
  float values[kCount];
  __device__ float operator[](int i) const { return values[i]; }
};

// The weights of the block's tokens in shared memory. Row 0 is for x, row 1 + j for stream j.
template <class Plan>
class SharedWeights {
 public:
  template <class T>
  __device__ SharedWeights(const Arguments<T>& a, int64_t first_token) {
    extern __shared__ float4 shared[];
    auto* const weights = reinterpret_cast<float*>(shared);
    const int tokens = Plan::kOneToken ? 1 : a.division.tokens;
    const int threads = static_cast<int>(blockDim.x * blockDim.y);
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
    for (int k = thread; k < tokens * Plan::kWeights; k += threads) {
      weights[k] = weight_of<Plan>(a, first_token, k);
    }
    __syncthreads();
    own_ = reinterpret_cast<const Group<Plan::kOutputs>*>(
        weights + (Plan::kOneToken ? 0 : threadIdx.y * Plan::kWeights));
  }

  // The weights for outputs i .. i + kOutputs - 1 of the thread's token.
  __device__ Group<Plan::kOutputs> at(int row, int i) const {
    return own_[(row * Plan::kPitch + i) / Plan::kOutputs];
  }

 private:
  const Group<Plan::kOutputs>* own_;
};

// The same rows in registers, for the only token of the block.
template <class Plan>
class OwnWeights {
 public:
  template <class T>
  __device__ OwnWeights(const Arguments<T>& a, int64_t token) {
    using Offset = typename Plan::Offset;
    constexpr int kStreams = Plan::kStreams;
    const auto n = static_cast<Offset>(token);
    const Offset post_token = Plan::kIsSmall ? kStreams : static_cast<Offset>(a.post_token);
    const Offset comb_token = Plan::kIsSmall ? kStreams * kStreams : static_cast<Offset>(a.comb_token);
    const auto* const comb = reinterpret_cast<const float4*>(a.comb + n * comb_token);
    rows_[0] = __ldg(reinterpret_cast<const float4*>(a.post + n * post_token));
#pragma unroll
    for (int j = 0; j < Plan::kStreams; ++j) rows_[1 + j] = __ldg(comb + j);
  }

  __device__ Group<4> at(int row, int) const {
    return {rows_[row].x, rows_[row].y, rows_[row].z, rows_[row].w};
  }

 private:
  float4 rows_[1 + Plan::kStreams];
};

// Hides from the compiler that the elements are unchanged. Otherwise it would widen all of them
// before the loop and run out of registers.
template <class T, int kCount>
__device__ void keep_packed(Bits<T, kCount>& bits) {
  for (uint32_t& word : bits.words) asm volatile("" : "+r"(word));
}

template <class T, class Plan>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kMinBlocks) streams_kernel(const Arguments<T> a) {
  constexpr int kStreams = Plan::kStreams;
  constexpr int kElements = Plan::kElements;
  constexpr int kOutputs = Plan::kOutputs;
  constexpr int kPerPiece = kElements / Plan::kPieces;

  // With one token to a block there are few instructions, and each one before the first load
  // counts. So a thread computes its place in the row as one number, and its group, which is below
  // 2^32 (grid_of), in 32 bits. Elsewhere it counts the many pieces in 32 bits from the start of
  // the block: with 64 bits, 4 streams of 4095 elements took 161 us instead of 127.
  constexpr bool kOneToken = Plan::kOneToken;
  using GroupIndex = std::conditional_t<kOneToken, unsigned, int64_t>;
  using Step = std::conditional_t<kOneToken, unsigned, int>;
  using Size = std::conditional_t<kOneToken, int64_t, int>;
  const int tokens = kOneToken ? 1 : a.division.tokens;
  const int64_t first_token =
      Plan::kIsSmall ? blockIdx.y : int64_t{GroupIndex{blockIdx.z} * gridDim.y + blockIdx.y} * tokens;
  if (!Plan::kIsSmall && first_token >= a.division.n) return;
  const int64_t n = kOneToken ? first_token : first_token + threadIdx.y;
  // Piece p of the thread's vector v lies `first` + (v * kPieces + p) * step after `start`.
  const int step = static_cast<int>(blockDim.x) * kPerPiece;
  constexpr int kMost = Plan::kPieces * Plan::kVectors;
  const int64_t tile = int64_t{blockIdx.x} * (static_cast<Step>(blockDim.x) * kPerPiece * kMost);
  const int64_t start = kOneToken ? tile + threadIdx.x * kPerPiece : tile;
  const int first = kOneToken ? 0 : static_cast<int>(threadIdx.x) * kPerPiece;
  const int64_t left = a.division.h - start;
  const auto size = static_cast<Size>(kOneToken ? left : min(left, int64_t{step * kMost}));
  int pieces = 0;  // of the thread, within the tensor
#pragma unroll
  for (int p = 0; p < kMost; ++p) {
    if (Plan::kIsSmall || (first + p * step < size && (kOneToken || n < a.division.n))) ++pieces;
  }
  if (Plan::kOwnWeights && pieces == 0) return;

  Bits<T, kElements> x[Plan::kVectors], residual[kStreams][Plan::kVectors];
  const auto vector_at = [&](const auto& rows, int streams, int stream, int v) {
    const int part = first + v * Plan::kPieces * step;
    if constexpr (Plan::kIsSmall) {
      const int row = static_cast<int>(n) * streams + stream;
      return rows.data + (row * static_cast<int>(a.division.h) + static_cast<int>(start) + part);
    } else {
      const int64_t hidden = kOneToken ? 1 : rows.hidden;
      return rows.data + (n * rows.token + stream * rows.stream + start * hidden) + part * hidden;
    }
  };
  const auto load = [&](Bits<T, kElements>& bits, const Rows<const T>& rows, int streams, int stream, int v) {
    const T* const from = vector_at(rows, streams, stream, v);
    if constexpr (Plan::kIsSmall) {
      reinterpret_cast<uint4&>(bits.words) = __ldcs(reinterpret_cast<const uint4*>(from));
    } else {
      load_pieces<Plan::kPiece>(bits, from, step * (kOneToken ? 1 : rows.hidden), pieces - v * Plan::kPieces);
    }
  };
#pragma unroll
  for (int v = 0; v < Plan::kVectors; ++v) {
    load(x[v], a.x, 1, 0, v);
#pragma unroll
    for (int j = 0; j < kStreams; ++j) load(residual[j][v], a.residual, kStreams, j, v);
  }
  const std::conditional_t<Plan::kOwnWeights, OwnWeights<Plan>, SharedWeights<Plan>> weights(a, first_token);

#pragma unroll
  for (int v = 0; v < Plan::kVectors; ++v) {
    if (v * Plan::kPieces >= pieces) return;
    constexpr int kUnroll = kStreams <= 8 ? kStreams : 1;
#pragma unroll kUnroll
    for (int i = 0; i < kStreams; i += kOutputs) {
      if constexpr (kUnroll == 1) {
        keep_packed(x[v]);
#pragma unroll
        for (int j = 0; j < kStreams; ++j) keep_packed(residual[j][v]);
      }
      float sums[kOutputs][kElements];
      const Group<kOutputs> post = weights.at(0, i);
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
#pragma unroll
        for (int e = 0; e < kElements; ++e) sums[o][e] = post[o] * x[v][e];
      }
#pragma unroll
      for (int j = 0; j < kStreams; ++j) {
        const Group<kOutputs> comb = weights.at(1 + j, i);
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          const float value = residual[j][v][e];
#pragma unroll
          for (int o = 0; o < kOutputs; ++o) sums[o][e] = fmaf(comb[o], value, sums[o][e]);
        }
      }
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        if (i + o >= kStreams) break;
        T* const to = vector_at(a.out, kStreams, i + o, v);
        const Bits<T, kElements> bits = round_to<T>(sums[o]);
        if constexpr (Plan::kIsSmall) {
          store_keeping_order(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4&>(bits.words));
        } else {
          store_pieces<Plan::kPiece>(to, step * (kOneToken ? 1 : a.out.hidden), bits,
                                     pieces - v * Plan::kPieces);
        }
      }
    }
  }
}

template <class T, class Plan>
Division divide(int64_t n, int64_t h) {
  constexpr int64_t kSharedBytes = int64_t{32} << 10;          // most weights in a block
  constexpr int64_t kPart = Plan::kElements * Plan::kVectors;  // [elements] of a thread in each row
  const int64_t threads_of_token = (h + kPart - 1) / kPart;
  Division division{.n = n, .h = h, .threads = 0, .tokens = 0, .tiles = 0, .groups = 0};
  division.tiles = (threads_of_token + Plan::kThreads - 1) / Plan::kThreads;
  const int64_t shared_out = (threads_of_token + division.tiles - 1) / division.tiles;
  division.threads = static_cast<int>(division.tiles == 1 ? shared_out : (shared_out + 31) / 32 * 32);
  const int64_t fit = Plan::kOneToken ? 1 : kSharedBytes / (Plan::kWeights * int64_t{sizeof(float)});
  division.tokens =
      static_cast<int>(std::clamp<int64_t>(Plan::kThreads / division.threads, 1, std::min(fit, n)));
  division.groups = (n + division.tokens - 1) / division.tokens;
  return division;
}

// x counts tiles, y and z count groups.
dim3 grid_of(const Division& division) {
  const int64_t most = kMostAlongY.value(), z = (division.groups + most - 1) / most;
  const int64_t y = (division.groups + z - 1) / z;  // few blocks have no work
  if (division.tiles > INT32_MAX || z > kGridLimit) {
    throw unsupported_error("a grid of {} by {} by {} blocks: {}", division.tiles, y, z,
                            division.to_string());
  }
  return {static_cast<unsigned>(division.tiles), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

template <class T, class Plan>
void launch(const Tensors& t, cudaStream_t stream) {
  const Division division = divide<T, Plan>(t.x.shape[0], t.x.shape[1]);
  const Arguments<T> arguments{.x = Rows<const T>(t.x),
                               .residual = Rows<const T>(t.residual),
                               .out = Rows<T>(t.out),
                               .post = t.post.as<float>(),
                               .post_token = t.post.strides[0],
                               .post_stream = t.post.strides[1],
                               .comb = t.comb.as<float>(),
                               .comb_token = t.comb.strides[0],
                               .comb_from = t.comb.strides[1],
                               .comb_to = t.comb.strides[2],
                               .division = division};
  const dim3 block(static_cast<unsigned>(division.threads), static_cast<unsigned>(division.tokens));
  const size_t shared =
      Plan::kOwnWeights ? 0 : static_cast<size_t>(division.tokens) * Plan::kWeights * sizeof(float);
  streams_kernel<T, Plan><<<grid_of(division), block, shared, stream>>>(arguments);
  cuda_check_launch("streams_kernel");
}

// Whether h can be cut into packed and aligned pieces of `bytes` in every row.
bool has_pieces(const ConstTensorView& view, int64_t bytes) {
  const int hidden = view.shape.rank() - 1;
  return view.strides[hidden] == 1 &&
         view.shape[hidden] * static_cast<int64_t>(size_of(view.dtype)) % bytes == 0 &&
         is_aligned_across(view, 0, hidden, bytes);
}

// Whether the weights of a token are five aligned float4: one of post and four of comb.
bool has_aligned_weights(const Tensors& t) {
  return t.post.strides[1] == 1 && is_aligned_across(t.post, 0, 1, 16) && t.comb.strides[2] == 1 &&
         t.comb.strides[1] == 4 && is_aligned_across(t.comb, 0, 1, 16);
}

// Whether x, the streams and the outputs fit into the L2 together, densely, and rows consist of
// whole blocks. What is loaded should then leave the L2 first. The L2 is full of lines written
// before, and each modified line that makes room is written to memory while this kernel runs. On an
// H200 with half of the L2 modified, 512 tokens of 4 streams of 4096 bf16 then cause 8 MB of such
// writes instead of 13, and take 3 % less time. 1024 tokens do not fit and gain nothing; 2048 lose
// 4 %, 8192 lose 6 %. Outputs that keep the order of lines save 1 %. Each place on the GPU gets few
// blocks: without bounds checks and strides the kernel took 12.6 us instead of 13.0.
template <class T, class Plan>
bool is_small(const Tensors& t) {
  // It is asked once: it decides about speed only, and the GPUs of a host are alike.
  static const int64_t kBytes = [] {
    int device = 0;
    int bytes = 0;
    cuda_check(cudaGetDevice(&device), "cudaGetDevice");
    cuda_check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
    return int64_t{bytes};
  }();
  constexpr int64_t kTile = Plan::kThreads * Plan::kElements;
  const auto all_dense = [](const auto&... views) { return (views.is_dense() && ...); };
  return (t.x.size() + t.residual.size() + t.out.size()) * int64_t{sizeof(T)} <= kBytes &&
         t.x.shape[0] <= kMostAlongY.value() && t.x.shape[1] % kTile == 0 &&
         all_dense(t.x, t.residual, t.post, t.comb, t.out);
}

template <class T, int kStreams>
void choose_layout(const Tensors& t, cudaStream_t stream) {
  // Pieces of several elements need a token with work for a warp: a block has one token then.
  const auto all_have_pieces = [&](int64_t bytes) {
    constexpr int64_t kWarp = 32 * 16;  // [bytes]
    return t.x.shape[1] * static_cast<int64_t>(sizeof(T)) >= kWarp && has_pieces(t.x, bytes) &&
           has_pieces(t.residual, bytes) && has_pieces(t.out, bytes);
  };
  if constexpr (kStreams == 4) {
    if (all_have_pieces(16) && has_aligned_weights(t)) {
      using Small = Plan<T, kStreams, 16, true, true>;
      return is_small<T, Small>(t) ? launch<T, Small>(t, stream)
                                   : launch<T, Plan<T, kStreams, 16, true>>(t, stream);
    }
  }
  if (all_have_pieces(16)) return launch<T, Plan<T, kStreams, 16>>(t, stream);
  if constexpr (sizeof(T) < 4) {
    if (all_have_pieces(4)) return launch<T, Plan<T, kStreams, 4>>(t, stream);
  }
  launch<T, Plan<T, kStreams, sizeof(T)>>(t, stream);
}

}  // namespace

void run_cuda(const Tensors& t, void* stream) {
  require_valid(t);
  if (t.out.size() == 0) return;
  visit_storage(t.x.dtype, [&]<class T>(std::type_identity<T>) {
    visit_integer<1, kMaxStreams>(t.residual.shape[1],
                                  [&]<int kStreams>(std::integral_constant<int, kStreams>) {
                                    choose_layout<T, kStreams>(t, static_cast<cudaStream_t>(stream));
                                  });
  });
}

}  // namespace assay::mhc_post
