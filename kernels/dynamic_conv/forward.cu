// SPDX-License-Identifier: Apache-2.0
// out[b,t,d] = sum_w k[b,t,d,w] * x[b,t+w-W+1,d]. Each x is loaded once and kept for the W rows
// that need it.
#include "kernels/dynamic_conv/march.cuh"

namespace assay::dynamic_conv {
namespace {

template <class T>
struct Arguments {
  Strided<const T> x;
  Strided<const T> k;
  Strided<T> out;
  Chunking chunking;
};

template <class T, int kTaps, bool kVectors_>
struct Plan : Division<T, kTaps, kVectors_, 1, 40> {
  static constexpr bool kVectors = kVectors_;
  static constexpr int64_t kChunk = 16;  // [rows]
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;  // on a multiprocessor
};

template <class T, int kTaps, class Plan>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kMinBlocks) forward_kernel(const Arguments<T> a) {
  constexpr bool kVectors = Plan::kVectors;
  constexpr int kChannels = Plan::kChannels;
  constexpr int kRows = Plan::kRows;
  constexpr int kPast = kTaps - 1;

  const Place place = place_of_thread(a.chunking);
  if (place.rows == 0) return;
  Cursor<const T> x(a.x, place, kChannels, -kPast);
  Cursor<const T> k(a.k, place, kChannels);
  Cursor<T> out(a.out, place, kChannels);

  // Rows in reach before t = 0.
  const int padding = static_cast<int>(max(kPast - place.begin, int64_t{0}));
  Bits<T, kChannels> window[kPast + kRows]{};  // x of the rows from i - kPast on
#pragma unroll
  for (int i = 0; i < kPast; ++i) {
    const T* const row = x.next();
    if (i >= padding) load<kVectors>(window[i], row, 0);
  }

  // Marches through rows i to i + kRows - 1. At an edge some of them lie beyond the chunk, or some
  // of their taps lie before t = 0.
  const auto march = [&](int i, auto edge) {
    Bits<T, kChannels * kTaps> taps[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T* const x_row = x.next();
      const T* const k_row = k.next();
      if (edge && i + r >= place.rows) continue;
      load<kVectors>(window[kPast + r], x_row, 0);
      load<kVectors>(taps[r], k_row, a.k.tap);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float sums[kChannels]{};
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
#pragma unroll
        for (int w = 0; w < kTaps; ++w) {
          if (edge && i + r + w < padding) continue;
          sums[c] = fmaf(taps[r][c * kTaps + w], window[r + w][c], sums[c]);
        }
      }
      T* const out_row = out.next();
      if (edge && i + r >= place.rows) continue;
      store<kVectors>(out_row, 0, round_to<T>(sums));
    }
#pragma unroll
    for (int past = 0; past < kPast; ++past) window[past] = window[past + kRows];
  };
  for (int i = 0; i < place.rows; i += kRows) {
    if (i >= padding && i + kRows <= place.rows) {
      march(i, std::false_type{});
    } else {
      march(i, std::true_type{});
    }
  }
}

template <class T, int kTaps, class Plan>
void launch(const ForwardTensors& t, cudaStream_t stream) {
  const Chunking chunking = cut(t.x.shape, Plan::kChannels, Plan::kChunk);
  const Arguments<T> arguments{Strided<const T>(t.x), Strided<const T>(t.k), Strided<T>(t.out), chunking};
  forward_kernel<T, kTaps, Plan>
      <<<blocks_of(chunking, Plan::kThreads), Plan::kThreads, 0, stream>>>(arguments);
  cuda_check_launch("forward_kernel");
}

}  // namespace

void forward_cuda(const ForwardTensors& t, void* stream) {
  require_valid(t);
  if (t.x.size() == 0) return;
  specialise(t.k, [&]<class T, int kTaps>() {
    using Vectors = Plan<T, kTaps, true>;
    if (have_vectors(Vectors::kChannels, t.x, t.k, t.out)) {
      launch<T, kTaps, Vectors>(t, static_cast<cudaStream_t>(stream));
    } else {
      launch<T, kTaps, Plan<T, kTaps, false>>(t, static_cast<cudaStream_t>(stream));
    }
  });
}

}  // namespace assay::dynamic_conv
