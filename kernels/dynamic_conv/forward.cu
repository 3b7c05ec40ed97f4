// SPDX-License-Identifier: Apache-2.0
// out[b,t,d] = sum_w k[b,t,d,w] * x[b,t+w-W+1,d]: each x is loaded once and kept for the W rows that need it.
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
struct Plan {
  using Division = Registers<T, kTaps, kVectors_, 1>;
  static constexpr bool kVectors = kVectors_;
  static constexpr int kChannels = Division::kChannels;
  static constexpr int kRows = Division::rows(kForwardTuning.words_in_flight);
  static constexpr int kThreads = kForwardTuning.threads;
  static constexpr int kMinBlocks = 1;
};

template <class T, int kTaps, class Plan>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kMinBlocks) forward_kernel(const Arguments<T> a) {
  constexpr bool kVectors = Plan::kVectors;
  constexpr int kChannels = Plan::kChannels;
  constexpr int kRows = Plan::kRows;
  constexpr int kPast = kTaps - 1;

  const Place place = place_of_thread(a.chunking);
  if (place.begin == place.end) return;
  const int64_t channel = place.column * kChannels;
  const T* const x = a.x.at(place.batch, channel);
  const T* const k = a.k.at(place.batch, channel);
  T* const out = a.out.at(place.batch, channel);

  float window[kPast + kRows][kChannels];  // x of the rows from t - kPast on
#pragma unroll
  for (int i = 0; i < kPast; ++i) {
    const int64_t t = place.begin - kPast + i;
    Bits<T, kChannels> row{};
    if (t >= 0) load<kVectors>(row, x + t * a.x.row, 0);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) window[i][c] = row[c];
  }

  // At an edge some rows lie beyond the chunk, or some taps before t = 0.
  const auto march = [&](int64_t t, auto edge) {
    Bits<T, kChannels> x_rows[kRows];
    Bits<T, kChannels * kTaps> k_rows[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (edge && t + r >= place.end) {
        x_rows[r] = {};
        k_rows[r] = {};
        continue;
      }
      load<kVectors>(x_rows[r], x + (t + r) * a.x.row, 0);
      load<kVectors>(k_rows[r], k + (t + r) * a.k.row, a.k.tap);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float sums[kChannels];
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        window[kPast + r][c] = x_rows[r][c];
        sums[c] = 0;
#pragma unroll
        for (int w = 0; w < kTaps; ++w) {
          if (edge && t + r + w < kPast) continue;
          sums[c] = fmaf(k_rows[r][c * kTaps + w], window[r + w][c], sums[c]);
        }
      }
      if (edge && t + r >= place.end) continue;
      store<kVectors>(out + (t + r) * a.out.row, 0, round_to<T>(sums));
    }
#pragma unroll
    for (int i = 0; i < kPast; ++i) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) window[i][c] = window[i + kRows][c];
    }
  };
  for (int64_t t = place.begin; t < place.end; t += kRows) {
    if (t >= kPast && t + kRows <= place.end) {
      march(t, std::false_type{});
    } else {
      march(t, std::true_type{});
    }
  }
}

template <class T, int kTaps, class Plan>
void launch(const ForwardTensors& t, const Chunking& chunking, cudaStream_t stream) {
  const Arguments<T> arguments{Strided<const T>(t.x), Strided<const T>(t.k), Strided<T>(t.out), chunking};
  forward_kernel<T, kTaps, Plan>
      <<<blocks_of(chunking, Plan::kThreads), Plan::kThreads, 0, stream>>>(arguments);
  cuda_check_launch("forward_kernel");
}

template <class T, int kTaps, class Plan>
void cut_and_launch(const ForwardTensors& t, cudaStream_t stream) {
  const int64_t multiprocessors = multiprocessors_of_current_device();
  launch<T, kTaps, Plan>(t, cut(t.x.shape, Plan::kChannels, Plan::kRows, kForwardTuning, multiprocessors),
                         stream);
}

// Host: from tensors to a launch.
template <class T, int kTaps>
void choose_layout(const ForwardTensors& t, cudaStream_t stream) {
  using Vectors = Plan<T, kTaps, true>;
  constexpr int kChannels = Vectors::kChannels;
  if (has_vectors(t.x, kChannels) && has_vectors(t.k, kChannels) && has_vectors(t.out, kChannels)) {
    cut_and_launch<T, kTaps, Vectors>(t, stream);
  } else {
    cut_and_launch<T, kTaps, Plan<T, kTaps, false>>(t, stream);
  }
}

}  // namespace

void forward_cuda(const ForwardTensors& tensors, void* stream) {
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
