// SPDX-License-Identifier: Apache-2.0
// Both gradients in one pass over dout, x and k:
//   dk[b,t,d,w]    = dout[b,t,d] * x[b,t+w-W+1,d]
//   dx[b,t-W+1,d] += dout[b,t,d] * k[b,t,d,0], complete with row t; W sums are pending at a time
// A sum grows in order of t, which is the order of w downwards. The last W-1 sums of a chunk need the first
// rows of the next one: each chunk reads those again and adds the terms itself, so that no sum is ever split.
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

template <class T, int kTaps, bool kVectors_>
struct Plan {
  using Division = Registers<T, kTaps, kVectors_, 2>;
  static constexpr bool kVectors = kVectors_;
  static constexpr int kChannels = Division::kChannels;
  static constexpr int kRows = Division::rows(kBackwardTuning.words_in_flight);
  static constexpr int kThreads = kBackwardTuning.threads;
  static constexpr int kMinBlocks = 1;
};

template <class T, int kTaps, class Plan>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kMinBlocks) backward_kernel(const Arguments<T> a) {
  constexpr bool kVectors = Plan::kVectors;
  constexpr int kChannels = Plan::kChannels;
  constexpr int kRows = Plan::kRows;
  constexpr int kPast = kTaps - 1;

  const Place place = place_of_thread(a.chunking);
  if (place.begin == place.end) return;
  const int64_t channel = place.column * kChannels;
  const T* const dout = a.dout.at(place.batch, channel);
  const T* const x = a.x.at(place.batch, channel);
  const T* const k = a.k.at(place.batch, channel);
  T* const dx = a.dx.at(place.batch, channel);
  T* const dk = a.dk.at(place.batch, channel);

  float pending[kTaps][kChannels]{};       // dx of the rows from t - kPast on
  float window[kPast + kRows][kChannels];  // x of the same rows
#pragma unroll
  for (int i = 0; i < kPast; ++i) {
    const int64_t t = place.begin - kPast + i;
    Bits<T, kChannels> row{};
    if (t >= 0) load<kVectors>(row, x + t * a.x.row, 0);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) window[i][c] = row[c];
  }

  // At an edge some rows lie beyond the chunk or the tensor, some taps before t = 0, and some sums before the
  // chunk.
  const auto march = [&](int64_t t, auto edge) {
    Bits<T, kChannels> dout_rows[kRows];
    Bits<T, kChannels> x_rows[kRows];
    Bits<T, kChannels * kTaps> k_rows[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (edge) {
        dout_rows[r] = {};
        x_rows[r] = {};
        k_rows[r] = {};
      }
      if (!edge || t + r < min(place.end + kPast, a.chunking.rows)) {
        load<kVectors>(dout_rows[r], dout + (t + r) * a.dout.row, 0);
        load<kVectors>(k_rows[r], k + (t + r) * a.k.row, a.k.tap);
      }
      if (!edge || t + r < place.end) load<kVectors>(x_rows[r], x + (t + r) * a.x.row, 0);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float dk_row[kChannels * kTaps];
      float dx_row[kChannels];
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        window[kPast + r][c] = x_rows[r][c];
        const float gradient = dout_rows[r][c];
#pragma unroll
        for (int w = 0; w < kTaps; ++w) {
          const bool padding = edge && t + r + w < kPast;
          dk_row[c * kTaps + w] = padding ? 0.0f : gradient * window[r + w][c];
          if (!edge || t + r < a.chunking.rows) {
            pending[w][c] = fmaf(gradient, k_rows[r][c * kTaps + w], pending[w][c]);
          }
        }
        dx_row[c] = pending[0][c];
#pragma unroll
        for (int w = 0; w < kPast; ++w) pending[w][c] = pending[w + 1][c];
        pending[kPast][c] = 0;
      }
      if (!edge || t + r < place.end) {
        store<kVectors>(dk + (t + r) * a.dk.row, a.dk.tap, round_to<T>(dk_row));
      }
      const int64_t complete = t + r - kPast;
      if (!edge || (complete >= place.begin && complete < place.end)) {
        store<kVectors>(dx + complete * a.dx.row, 0, round_to<T>(dx_row));
      }
    }
#pragma unroll
    for (int i = 0; i < kPast; ++i) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) window[i][c] = window[i + kRows][c];
    }
  };
  for (int64_t t = place.begin; t < place.end + kPast; t += kRows) {
    if (t >= place.begin + kPast && t + kRows <= place.end) {
      march(t, std::false_type{});
    } else {
      march(t, std::true_type{});
    }
  }
}

template <class T, int kTaps, class Plan>
void launch(const BackwardTensors& t, const Chunking& chunking, cudaStream_t stream) {
  const Arguments<T> arguments{Strided<const T>(t.dout), Strided<const T>(t.x), Strided<const T>(t.k),
                               Strided<T>(t.dx),         Strided<T>(t.dk),      chunking};
  backward_kernel<T, kTaps, Plan>
      <<<blocks_of(chunking, Plan::kThreads), Plan::kThreads, 0, stream>>>(arguments);
  cuda_check_launch("backward_kernel");
}

template <class T, int kTaps, class Plan>
void cut_and_launch(const BackwardTensors& t, cudaStream_t stream) {
  const int64_t multiprocessors = multiprocessors_of_current_device();
  launch<T, kTaps, Plan>(t, cut(t.x.shape, Plan::kChannels, Plan::kRows, kBackwardTuning, multiprocessors),
                         stream);
}

// Host: from tensors to a launch.
template <class T, int kTaps>
void choose_layout(const BackwardTensors& t, cudaStream_t stream) {
  using Vectors = Plan<T, kTaps, true>;
  constexpr int kChannels = Vectors::kChannels;
  if (has_vectors(t.dout, kChannels) && has_vectors(t.x, kChannels) && has_vectors(t.k, kChannels) &&
      has_vectors(t.dx, kChannels) && has_vectors(t.dk, kChannels)) {
    cut_and_launch<T, kTaps, Vectors>(t, stream);
  } else {
    cut_and_launch<T, kTaps, Plan<T, kTaps, false>>(t, stream);
  }
}

}  // namespace

void backward_cuda(const BackwardTensors& tensors, void* stream) {
  require_valid(tensors);
  if (tensors.x.size() == 0) return;
  visit(tensors.x.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, double>) {
      throw Error("an f64 tensor passed require_valid");
    } else {
      visit_taps(tensors.k.shape[3], [&]<int kTaps>(std::integral_constant<int, kTaps>) {
        choose_layout<T, kTaps>(tensors, static_cast<cudaStream_t>(stream));
      });
    }
  });
}

}  // namespace assay::dynamic_conv
