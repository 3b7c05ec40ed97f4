// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of conv_norm's gradient share: the gradient from the sums over an example,
// the march that computes dx and a strip's share of dw, and the sum of all shares.
//
// sum(dy * y) = rstd * (sum(dy * (conv - reference)) - (mean - reference) * sum(dy)), in double
// (conv_norm.cuh).
#pragma once

#include "kernels/cheri/conv_norm/conv_norm.cuh"
#include "kernels/core_cuda/dependent_launch.cuh"

namespace assay::cheri {

// Channels of a vector: registers have to hold the rows of two strips, of dconv, and the sums of
// dw.
inline constexpr int kGradLanes = 4;

// dconv = rstd * (dy - mean(dy) - y * mean(dy * y)). The mean of dy is kept in two floats, since
// mean/std may be anything. The scale of the norm is that of dy, too, so that neither has
// differences beyond float: mean, rest and slope are multiplied by it, as rstd is divided by it.
struct NormGrad {
  Norm norm;
  float mean, rest, slope;

  __device__ float operator()(float conv, float dy) const {
    return (fmaf(dy, norm.scale, -mean) - fmaf(norm(conv), slope, rest)) * norm.rstd;
  }
};

__device__ inline NormGrad norm_grad(double reference, const double (&sums)[kGradSums],
                                     const Average& average) {
  const Moments moments(reference, sums[kDeviations], sums[kSquares], average);
  const Norm norm = moments.norm(sums[kMagnitudes]);
  const double mean = average(norm.scale * sums[kGradients]);
  const double product =
      average(norm.scale * moments.rstd * (sums[kProducts] - moments.offset * sums[kGradients]));
  const float rounded = static_cast<float>(mean);
  return {norm, rounded, static_cast<float>(mean - rounded), static_cast<float>(product)};
}

// Adds a strip's values to the sums of its thread. The magnitudes only tell whether values are
// huge, so a strip adds them up in f32.
template <int kAhead, bool kMasked, class SourceX, class SourceDy>
__device__ void add_to_sums(double (&sums)[kGradSums], const Strip& strip, const Lane& lane,
                            const Weights<kGradLanes>& w, double reference, const SourceX& x,
                            const SourceDy& dy) {
  float magnitudes = 0;
  const auto add = [&](auto inside, int row, const auto& left, const auto& middle, const auto& right,
                       const auto& gradients) {
    float conv[kGradLanes];
    convolve(conv, w, left, middle, right, inside || strip.holds(row - 1), inside || strip.holds(row + 1));
#pragma unroll
    for (int e = 0; e < kGradLanes; ++e) {
      if (kMasked && e >= lane.valid) continue;
      const double deviation = conv[e] - reference;
      const double gradient = gradients[e];
      sums[kDeviations] += deviation;
      sums[kSquares] = fma(deviation, deviation, sums[kSquares]);
      sums[kGradients] += gradient;
      sums[kProducts] = fma(gradient, deviation, sums[kProducts]);
      magnitudes += fabsf(gradients[e]);
    }
  };
  march<kAhead>(strip, x, dy, add);
  sums[kMagnitudes] += magnitudes;
}

// Rows of a march. Those of kAny may be missing in the chain, or their neighbours may.
enum class RowsAre {
  kAny,
  kFirst,  // -1 and 0
  kInner,  // from 1 on, of the strip
  kLast    // the one behind the strip
};

// Stores dx of a strip and adds the strip's terms of dw, at most kSumGroup for each sum, to `dw`.
// dconv is computed for rows -1 to count, since dx of a row needs dconv of both neighbours.
template <int kAhead, class T, class SourceX, class SourceDy, class Target>
__device__ void march_back(float (&dw)[3][kGradLanes], const Strip& strip, const Weights<kGradLanes>& w,
                           const NormGrad& grad, const SourceX& x, const SourceDy& dy, const Target& dx) {
  static_assert(kAhead >= 2, "rows -1 and 0 go together");
  if (strip.count == 0) return;
  typename SourceX::Cursor::Values window[kAhead + 2]{};
  typename SourceDy::Cursor::Values gradients[kAhead];
  float before[kGradLanes]{}, current[kGradLanes]{};  // dconv of the two rows before
  auto x_next = x.from(-2);
  auto dy_next = dy.from(-1);
  auto dx_next = dx.from(0);
  if (strip.before > 1) x_next.load(window[0]);
  x_next.next();
  if (strip.before > 0) x_next.load(window[1]);
  x_next.next();

  const auto batch = [&](int begin, auto size, auto rows) {
    constexpr bool inside = rows != RowsAre::kAny;
#pragma unroll
    for (int i = 0; i < size; ++i) {
      if (inside || strip.holds(begin + i + 1)) x_next.load(window[i + 2]);
      if (inside || strip.holds(begin + i)) dy_next.load(gradients[i]);
      x_next.next();
      dy_next.next();
    }
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const int row = begin + i;
      const bool here = inside || strip.holds(row);
      float next[kGradLanes]{};
      if (here) {
        const bool has_left = inside || strip.holds(row - 1), has_right = inside || strip.holds(row + 1);
        convolve(next, w, window[i], window[i + 1], window[i + 2], has_left, has_right);
        const bool own = rows == RowsAre::kInner || (rows == RowsAre::kFirst && i > 0) ||
                         (!inside && row >= 0 && row < strip.count);
#pragma unroll
        for (int e = 0; e < kGradLanes; ++e) {
          next[e] = grad(next[e], gradients[i][e]);
          if (own && has_left) dw[0][e] = fmaf(next[e], window[i][e], dw[0][e]);
          if (own) dw[1][e] = fmaf(next[e], window[i + 1][e], dw[1][e]);
          if (own && has_right) dw[2][e] = fmaf(next[e], window[i + 2][e], dw[2][e]);
        }
      }
      if (rows == RowsAre::kInner || rows == RowsAre::kLast || (!inside && row >= 1)) {
        float values[kGradLanes];
        const bool has_before = inside || strip.holds(row - 2);
#pragma unroll
        for (int e = 0; e < kGradLanes; ++e) {
          values[e] = __fmul_rn(current[e], w.taps[1][e]);
          if (here) values[e] = fmaf(next[e], w.taps[0][e], values[e]);
          if (has_before) values[e] = fmaf(before[e], w.taps[2][e], values[e]);
        }
        dx_next.store(round_to<T>(values));
        dx_next.next();
      }
#pragma unroll
      for (int e = 0; e < kGradLanes; ++e) {
        before[e] = current[e];
        current[e] = next[e];
      }
    }
    window[0] = window[size];
    window[1] = window[size + 1];
  };
  const auto advance = [&]<RowsAre kRows, int kSize>(int& row) {
    batch(row, std::integral_constant<int, kSize>{}, std::integral_constant<RowsAre, kRows>{});
    row += kSize;
  };
  // dx of a row needs dconv of the row before.
  const int inner = strip.before > 0 ? 1 : 2, inner_end = strip.after > 0 ? strip.count : strip.count - 1;
  for (int row = -1; row <= strip.count;) {
    if (row == -1 && strip.before > 1 && inner_end > 0) {
      advance.template operator()<RowsAre::kFirst, 2>(row);
    } else if (row >= inner && row + kAhead <= inner_end) {
      advance.template operator()<RowsAre::kInner, kAhead>(row);
    } else if (row >= inner && row < inner_end) {
      advance.template operator()<RowsAre::kInner, 1>(row);
    } else if (row >= inner && row == strip.count && strip.after > 1) {
      advance.template operator()<RowsAre::kLast, 1>(row);
    } else {
      advance.template operator()<RowsAre::kAny, 1>(row);
    }
  }
}

// The sums over a block's strips for each tap and channel of its tile, in double, over the lines in
// their order, group after group. All threads call each function. Lines without work add zeros.
template <int kThreads>
struct TileSums {
  static constexpr int kMostOutputs = kMostColumns * 3 * kGradLanes;
  double sums[kMostOutputs];
  float shares[kThreads * 3 * kGradLanes];  // (lines, taps, channels of the tile)

  __device__ void clear() {
    for (int output = static_cast<int>(threadIdx.x); output < kMostOutputs;
         output += static_cast<int>(blockDim.x)) {
      sums[output] = 0;
    }
  }

  __device__ void add(const Cut& cut, const float (&dw)[3][kGradLanes]) {
    const int thread = static_cast<int>(threadIdx.x);
    const int line = thread / cut.columns;
    const int column = thread - line * cut.columns;
    const int width = cut.columns * kGradLanes;
    if (line < cut.lines) {
#pragma unroll
      for (int k = 0; k < 3; ++k) {
        *reinterpret_cast<float4*>(shares + (line * 3 + k) * width + column * kGradLanes) =
            float4{dw[k][0], dw[k][1], dw[k][2], dw[k][3]};
      }
    }
    __syncthreads();
    for (int output = thread; output < 3 * width; output += static_cast<int>(blockDim.x)) {
      double sum = sums[output];
      for (int other = 0; other < cut.lines; ++other) sum += shares[other * 3 * width + output];
      sums[output] = sum;
    }
    __syncthreads();
  }

  // Stores the sums to a row of (3,C).
  __device__ void store(const Cut& cut, int64_t tile, double* to) const {
    const int width = cut.columns * kGradLanes;
    for (int output = static_cast<int>(threadIdx.x); output < 3 * width;
         output += static_cast<int>(blockDim.x)) {
      const int tap = output / width;
      const int64_t channel = tile * width + (output - tap * width);
      if (channel < cut.channels) to[tap * cut.channels + channel] = sums[output];
    }
  }
};

// Column sums of a matrix. A block sums a few columns: each thread adds rows r, r + 128, ..., then
// the threads of a column add their sums in two steps.
inline constexpr int kSumColumns = 8, kSumLines = 128, kSumLinesOfStep = 8;

template <class T>
struct ColumnSums {
  const double* from;  // (rows, columns)
  int64_t rows, columns;
  int64_t rows_of_sum;   // rows that one sum adds up
  double* sums;          // (sums, columns), or null if the one sum is the result
  T* out;                // (3, columns / 3)
  int64_t tap, channel;  // [elements] strides of `out`
};

template <class T>
__global__ void __launch_bounds__(kSumColumns* kSumLines) column_sums_kernel(const ColumnSums<T> a) {
  __shared__ double shared[kSumLines][kSumColumns];
  const int lane = static_cast<int>(threadIdx.x) % kSumColumns,
            line = static_cast<int>(threadIdx.x) / kSumColumns;
  wait_for_kernel_before();
  const int64_t tiles = (a.columns + kSumColumns - 1) / kSumColumns;
  const int64_t jobs = tiles * max(int64_t{1}, (a.rows + a.rows_of_sum - 1) / a.rows_of_sum);
  for (int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const int64_t which = job / tiles;
    const int64_t column = (job - which * tiles) * kSumColumns + lane;
    const int64_t end = min(a.rows, (which + 1) * a.rows_of_sum);
    double sum = 0;
    if (column < a.columns) {
#pragma unroll 8
      for (int64_t row = which * a.rows_of_sum + line; row < end; row += kSumLines) {
        sum += a.from[row * a.columns + column];
      }
    }
    shared[line][lane] = sum;
    __syncthreads();
    constexpr int kSteps = kSumLines / kSumLinesOfStep;
    if (line < kSteps) {
      sum = 0;
#pragma unroll
      for (int i = 0; i < kSumLinesOfStep; ++i) sum += shared[line * kSumLinesOfStep + i][lane];
    }
    __syncthreads();
    if (line < kSteps) shared[line][lane] = sum;
    __syncthreads();
    if (line == 0 && column < a.columns) {
#pragma unroll
      for (int i = 1; i < kSteps; ++i) sum += shared[i][lane];
      if (a.sums != nullptr) {
        a.sums[which * a.columns + column] = sum;
      } else {
        const int64_t tap = column / (a.columns / 3);
        const float rounded[1]{static_cast<float>(sum)};
        store_pieces<int{sizeof(T)}>(a.out + tap * a.tap + (column - tap * (a.columns / 3)) * a.channel, 0,
                                     round_to<T>(rounded));
      }
    }
    __syncthreads();
  }
}

// Host: the most rows that one block adds up. More rows are summed in several steps.
inline constexpr int64_t kMostRows = 2048, kRowsOfSum = 512;

// Host: rows of the sums between steps, in all steps together.
inline int64_t rows_between(int64_t rows) {
  int64_t all = 0;
  while (rows > kMostRows) all += rows = (rows + kRowsOfSum - 1) / kRowsOfSum;
  return all;
}

// Host: dw = the sum of `rows` rows of (3,C) at `shares`. Behind them there is room for
// rows_between(rows) more.
template <class T>
void enqueue_column_sums(bool can_depend, double* shares, int64_t rows, const TensorView& dw,
                         cudaStream_t stream) {
  ColumnSums<T> a{.from = shares,
                  .rows = rows,
                  .columns = 3 * dw.shape[1],
                  .rows_of_sum = 0,
                  .sums = nullptr,
                  .out = dw.as<T>(),
                  .tap = dw.strides[0],
                  .channel = dw.strides[1]};
  for (bool last = false; !last;) {
    last = a.rows <= kMostRows;
    a.rows_of_sum = last ? std::max<int64_t>(a.rows, 1) : kRowsOfSum;
    const int64_t sums = last ? 1 : (a.rows + kRowsOfSum - 1) / kRowsOfSum;
    a.sums = last ? nullptr : shares + rows * a.columns;
    const int64_t blocks = std::min<int64_t>((a.columns + kSumColumns - 1) / kSumColumns * sums, INT32_MAX);
    launch_dependent(can_depend, "column_sums_kernel", column_sums_kernel<T>,
                     dim3(static_cast<unsigned>(blocks)), dim3(kSumColumns * kSumLines), 0, stream, a);
    a.from = a.sums;
    shares = a.sums;
    rows = a.rows = sums;
  }
}

}  // namespace assay::cheri
