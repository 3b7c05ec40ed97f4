// SPDX-License-Identifier: Apache-2.0
// Both gradients in one pass over dout, x and k:
//   dk[b,t,d,w]    = dout[b,t,d] * x[b,t+w-W+1,d]
//   dx[b,t-W+1,d] += dout[b,t,d] * k[b,t,d,0], complete with row t; W sums are pending at a time
// A sum grows in order of t, which is the reverse order of w. The last W-1 sums of a chunk need the
// first rows of the next one. Each chunk reads those again and adds the terms itself, so no sum is
// ever split.
#include "kernels/dynamic_conv/march.cuh"

namespace assay::dynamic_conv {
namespace {

template <class T>
struct Arguments {
  Strided<const T> dout;
  Strided<const T> x;
  Strided<const T> k;
  Strided<T> dx;
  Strided<T> dk;
  Chunking chunking;
};

// A chunk reads W - 1 rows of taps and gradients of the next chunk again. So many taps make short
// chunks costly. They also need more registers than four blocks leave each thread.
template <class T, int kTaps, bool kVectors_>
struct Plan : Division<T, kTaps, kVectors_, 2, 48> {
  static constexpr bool kVectors = kVectors_;
  static constexpr int64_t kChunk = kTaps <= 4 ? 16 : 128;  // [rows]
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = kTaps <= 4 ? 4 : 1;  // on a multiprocessor
};

template <class T, int kTaps, class Plan>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kMinBlocks) backward_kernel(const Arguments<T> a) {
  constexpr bool kVectors = Plan::kVectors;
  constexpr int kChannels = Plan::kChannels;
  constexpr int kRows = Plan::kRows;
  constexpr int kPast = kTaps - 1;

  const Place place = place_of_thread(a.chunking);
  if (place.rows == 0) return;
  Cursor<const T> dout(a.dout, place, kChannels);
  Cursor<const T> x(a.x, place, kChannels, -kPast);
  Cursor<const T> k(a.k, place, kChannels);
  Cursor<T> dx(a.dx, place, kChannels, -kPast);
  Cursor<T> dk(a.dk, place, kChannels);

  // Rows in reach before t = 0.
  const int padding = static_cast<int>(max(kPast - place.begin, int64_t{0}));
  const int ahead = static_cast<int>(min(int64_t{kPast}, a.chunking.rows - place.begin - place.rows));
  float pending[kTaps][kChannels]{};           // dx of the rows from i - kPast on
  Bits<T, kChannels> window[kPast + kRows]{};  // x of the same rows
#pragma unroll
  for (int i = 0; i < kPast; ++i) {
    const T* const row = x.next();
    if (i >= padding) load<kVectors>(window[i], row, 0);
  }

  // Marches through rows i to i + kRows - 1. At an edge some of them lie beyond the chunk or the
  // tensor, or some of their taps lie before t = 0. The sums that the first rows complete belong to
  // the chunk before.
  const auto march = [&](int i, auto edge) {
    Bits<T, kChannels> gradients[kRows];
    Bits<T, kChannels * kTaps> taps[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T* const dout_row = dout.next();
      const T* const x_row = x.next();
      const T* const k_row = k.next();
      if (!edge || i + r < place.rows + ahead) {
        load<kVectors>(gradients[r], dout_row, 0);
        load<kVectors>(taps[r], k_row, a.k.tap);
      }
      if (!edge || i + r < place.rows) load<kVectors>(window[kPast + r], x_row, 0);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float dk_row[kChannels * kTaps];
      float complete[kChannels];
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        const float gradient = gradients[r][c];
#pragma unroll
        for (int w = 0; w < kTaps; ++w) {
          const bool padded = edge && i + r + w < padding;
          dk_row[c * kTaps + w] = padded ? 0.0f : gradient * window[r + w][c];
          if (edge && i + r >= place.rows + ahead) continue;
          pending[w][c] = fmaf(gradient, taps[r][c * kTaps + w], pending[w][c]);
        }
        complete[c] = pending[0][c];
#pragma unroll
        for (int w = 0; w < kPast; ++w) pending[w][c] = pending[w + 1][c];
        pending[kPast][c] = 0;
      }
      T* const to_dk = dk.next();
      T* const to_dx = dx.next();
      if (!edge || i + r < place.rows) store<kVectors>(to_dk, a.dk.tap, round_to<T>(dk_row));
      if (i + r >= kPast && (!edge || i + r < place.rows + kPast)) {
        store<kVectors>(to_dx, 0, round_to<T>(complete));
      }
    }
#pragma unroll
    for (int past = 0; past < kPast; ++past) window[past] = window[past + kRows];
  };
  for (int i = 0; i < place.rows + kPast; i += kRows) {
    if (i >= padding && i + kRows <= place.rows) {
      march(i, std::false_type{});
    } else {
      march(i, std::true_type{});
    }
  }
}

template <class T, int kTaps, class Plan>
void launch(const BackwardTensors& t, cudaStream_t stream) {
  const Chunking chunking = cut(t.x.shape, Plan::kChannels, Plan::kChunk);
  const Arguments<T> arguments{Strided<const T>(t.dout), Strided<const T>(t.x), Strided<const T>(t.k),
                               Strided<T>(t.dx),         Strided<T>(t.dk),      chunking};
  backward_kernel<T, kTaps, Plan>
      <<<blocks_of(chunking, Plan::kThreads), Plan::kThreads, 0, stream>>>(arguments);
  cuda_check_launch("backward_kernel");
}

}  // namespace

void backward_cuda(const BackwardTensors& t, void* stream) {
  require_valid(t);
  if (t.x.size() == 0) return;
  specialise(t.k, [&]<class T, int kTaps>() {
    using Vectors = Plan<T, kTaps, true>;
    if (have_vectors(Vectors::kChannels, t.dout, t.x, t.k, t.dx, t.dk)) {
      launch<T, kTaps, Vectors>(t, static_cast<cudaStream_t>(stream));
    } else {
      launch<T, kTaps, Plan<T, kTaps, false>>(t, static_cast<cudaStream_t>(stream));
    }
  });
}

}  // namespace assay::dynamic_conv
