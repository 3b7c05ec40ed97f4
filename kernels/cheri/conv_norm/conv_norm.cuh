// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of conv_norm and its gradient share: how the work is cut, the convolution,
// the statistics.
//
// The rows b, b+d, b+2d, ... of an example form a chain. Taps reach to the next rows of the same
// chain only. A thread owns a vector of neighbouring channels and marches along a strip of a chain
// with the taps in registers. So it loads every row of its strip once, and at each end one row of
// another strip (two rows for the gradient), for any d. Neighbouring threads own neighbouring
// channels, then neighbouring chains, so what a block loads at a time lies together.
//
// Statistics are sums of conv - reference and of its square, in double from the first addition. The
// reference is the example's own conv[n,0,0]. A value of an example is at most sqrt(L*C) standard
// deviations from the mean. So
// sum((conv - mean)^2) = sum((conv - reference)^2) - (mean - reference) * sum(conv - reference)
// loses at most a factor L*C of double's 2^-53, in the worst case that the reference alone makes
// the variance. mean/std does not matter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/cheri/cheri.h"
#include "kernels/core_cuda/block_sum.cuh"
#include "kernels/core_cuda/packed.cuh"

namespace assay::cheri {

inline constexpr int kMostColumns = 64;

// Host: how a problem is cut into strips. The cut decides the order of sums and depends on the size
// of an example alone.
struct Cut {
  int64_t examples, rows, channels;
  int64_t dilation;  // at most `rows`; from a row to the next of its chain
  int lanes;         // channels of a vector
  int columns;       // vectors side by side in a block
  int lines;         // strips that a block works on at a time, each `columns` wide
  int chunk;         // rows of a strip; fewer at the end of a chain
  int64_t full;      // rows of each chain; the first `rest` chains have one more
  int64_t rest;
  int64_t strips;  // of an example in each vector
  int64_t tiles;   // of `columns` vectors
  int64_t groups;  // of `lines` strips

  constexpr int threads() const { return (columns * lines + kWarp - 1) / kWarp * kWarp; }
  // Of an example; a block does one at a time.
  constexpr int64_t units() const { return tiles * groups; }
  std::string to_string() const {
    return fmt::format(
        "N={} L={} C={} dilation={} in {} tiles of {} vectors of {} channels, {} strips of {} rows, {} at a "
        "time",
        examples, rows, channels, dilation, tiles, columns, lanes, strips, chunk, lines);
  }
};

// Cuts a problem with at most `threads` threads in a block and `longest` rows in a strip. L and C
// are not 0.
inline Cut cut(const Extents& shape, int64_t dilation, int lanes, int threads, int64_t longest) {
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  Cut cut{};
  cut.examples = shape[0];
  cut.rows = shape[1];
  cut.channels = shape[2];
  cut.dilation = std::min(dilation, cut.rows);
  cut.lanes = lanes;
  const int64_t vectors = parts(cut.channels, lanes);
  cut.tiles = parts(vectors, int64_t{kMostColumns});
  cut.columns = static_cast<int>(parts(vectors, cut.tiles));
  const int64_t steps = parts(cut.rows, cut.dilation);  // of the longest chain
  cut.chunk = static_cast<int>(parts(steps, parts(steps, longest)));
  cut.full = cut.rows / cut.dilation;
  cut.rest = cut.rows % cut.dilation;
  cut.strips = cut.dilation * parts(steps, cut.chunk);
  cut.lines = static_cast<int>(std::min<int64_t>(threads / cut.columns, cut.strips));
  cut.groups = parts(cut.strips, cut.lines);
  return cut;
}

// A tensor (N,L,C), or (3,C) with the taps as rows. Strides in elements.
template <class T>
struct Strided {
  T* data;
  int64_t example, row, channel;

  template <class Void>
  explicit Strided(const BasicTensorView<Void>& view)
      : data(view.template as<std::remove_const_t<T>>()),
        example(view.shape.rank() == 3 ? view.strides[0] : 0),
        row(view.strides[view.shape.rank() - 2]),
        channel(view.strides[view.shape.rank() - 1]) {}
};

// Host: whether the channels are packed, `bytes` divides the length of a row, and every row begins
// at a multiple of `bytes`.
inline bool has_vectors(const ConstTensorView& view, int64_t bytes) {
  const auto size = static_cast<int64_t>(size_of(view.dtype));
  return view.strides[2] == 1 && view.shape[2] * size % bytes == 0 && is_aligned_across(view, 0, 2, bytes);
}

// Host: the tuner's key of a call with these tensors.
inline std::string key_of(const Extents& shape, int64_t dilation, std::vector<ConstTensorView> inputs,
                          std::vector<TensorView> outputs) {
  Call call;
  call.dims = Dims{{kN, shape[0]}, {kL, shape[1]}, {kC, shape[2]}, {kDilation, dilation}};
  call.dtype = inputs.front().dtype;
  call.inputs = std::move(inputs);
  call.outputs = std::move(outputs);
  return tuning_key(call);
}

// The calling thread's part of a tile: a vector of channels. Some of them may lie beyond the last
// channel.
struct Lane {
  int line;         // number of the strip; not below cut.lines without work
  int64_t channel;  // the first channel
  int valid;        // channels of the vector that exist
};

__device__ inline Lane lane_of_thread(const Cut& cut, int64_t tile) {
  const int thread = static_cast<int>(threadIdx.x);
  const int line = thread / cut.columns;
  const int64_t channel = (tile * cut.columns + (thread - line * cut.columns)) * cut.lanes;
  return {line, channel, static_cast<int>(max(int64_t{0}, min(cut.channels - channel, int64_t{cut.lanes})))};
}

// Rows of a chain, counted from the first row of the strip.
struct Strip {
  int64_t first;  // l of row 0
  int before;     // rows of the chain before row 0, at most 2
  int count;      // rows of the strip; 0 if the thread has no work
  int after;      // rows of the chain after the strip, at most 2

  __device__ bool holds(int row) const { return row >= -before && row < count + after; }
};

// a / b for a, b >= 0, in 32 bits if they fit, since 64 bits take several times as long.
__device__ inline int64_t quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

__device__ inline Strip strip_of(const Cut& cut, const Lane& lane, int64_t group) {
  const int64_t index = group * cut.lines + lane.line;
  if (lane.line >= cut.lines || index >= cut.strips || lane.valid == 0) return {};
  const int64_t piece = quotient(index, cut.dilation);
  const int64_t chain = index - piece * cut.dilation;
  const int64_t done = piece * cut.chunk;
  const int64_t left = cut.full + (chain < cut.rest ? 1 : 0) - done;
  if (left <= 0) return {};
  const int count = static_cast<int>(min(int64_t{cut.chunk}, left));
  return {chain + done * cut.dilation, static_cast<int>(min(done, int64_t{2})), count,
          static_cast<int>(min(left - count, int64_t{2}))};
}

// The vectors of a strip in memory. If kPiece is an element, they are moved one channel after the
// other, else whole.
template <int kPiece, class T, int kLanes>
struct Rows {
  T* first;
  int64_t step, channel;  // [elements]
  int pieces;

  __device__ Rows(const Strided<T>& tensor, int64_t example, const Lane& lane, const Strip& strip,
                  int64_t dilation)
      : first(tensor.data + example * tensor.example + strip.first * tensor.row +
              lane.channel * tensor.channel),
        step(dilation * tensor.row),
        channel(tensor.channel),
        pieces(kPiece == kLanes * int{sizeof(T)} ? 1 : lane.valid) {}

  // Moves down the rows and loads, stores or skips each.
  struct Cursor {
    using Values = Bits<std::remove_const_t<T>, kLanes>;
    T* at;
    int64_t step, channel;
    int pieces;

    __device__ void load(Values& bits) const { load_pieces<kPiece>(bits, at, channel, pieces); }
    __device__ void store(const Bits<T, kLanes>& bits) const {
      store_pieces<kPiece>(at, channel, bits, pieces);
    }
    __device__ void next() { at += step; }
  };
  __device__ Cursor from(int row) const { return {first + row * step, step, channel, pieces}; }
};

// Takes the place of rows that a march does not need.
struct NoRows {
  struct Cursor {
    struct Values {};
    __device__ void load(Values&) const {}
    __device__ void next() {}
  };
  __device__ Cursor from(int) const { return {}; }
};

template <int kLanes>
struct Weights {
  float taps[3][kLanes];

  template <class T>
  __device__ Weights(const Strided<const T>& w, const Lane& lane) {
#pragma unroll
    for (int k = 0; k < 3; ++k) {
#pragma unroll
      for (int e = 0; e < kLanes; ++e) {
        taps[k][e] = 0;
        if (e >= lane.valid) continue;
        Bits<T, 1> bits{};
        load_pieces<int{sizeof(T)}>(bits, w.data + k * w.row + (lane.channel + e) * w.channel, 0);
        taps[k][e] = bits[0];
      }
    }
  }
};

// One value of the convolution. All kernels of an op compute it with the same operations.
__device__ inline float convolve(float left, float middle, float right, bool has_left, bool has_right,
                                 float w0, float w1, float w2) {
  float sum = __fmul_rn(middle, w1);
  if (has_left) sum = fmaf(left, w0, sum);
  if (has_right) sum = fmaf(right, w2, sum);
  return sum;
}

// Values are a vector's, one for each lane.
template <int kLanes, class Values>
__device__ void convolve(float (&conv)[kLanes], const Weights<kLanes>& w, const Values& left,
                         const Values& middle, const Values& right, bool has_left, bool has_right) {
#pragma unroll
  for (int e = 0; e < kLanes; ++e) {
    conv[e] =
        convolve(left[e], middle[e], right[e], has_left, has_right, w.taps[0][e], w.taps[1][e], w.taps[2][e]);
  }
}

// conv[n,0,0]. `cut` tells the dilation and the rows of an example.
template <class Cut, class T>
__device__ float reference_of(const Cut& cut, const Strided<const T>& x, const Strided<const T>& w,
                              int64_t example) {
  const auto at = [](const T* element) {
    Bits<T, 1> bits{};
    load_pieces<int{sizeof(T)}>(bits, element, 0);
    return bits[0];
  };
  const T* const first = x.data + example * x.example;
  const bool has_right = cut.dilation < cut.rows;
  const float right = has_right ? at(first + cut.dilation * x.row) : 0.0f;
  return convolve(0, at(first), right, false, has_right, 0, at(w.data + w.row), at(w.data + 2 * w.row));
}

// Calls visit(inside, row, left, middle, right, beside) for each row of the strip. `left`, `middle`
// and `right` are vectors of x, `beside` is the vector of `other`. kAhead rows are in flight at a
// time. If `inside` is a true_type, the row has neighbours on both sides.
template <int kAhead, class Source, class Other, class Visit>
__device__ void march(const Strip& strip, const Source& x, const Other& other, Visit&& visit) {
  if (strip.count == 0) return;
  typename Source::Cursor::Values window[kAhead + 2]{};
  typename Other::Cursor::Values beside[kAhead];
  auto x_next = x.from(-1);
  auto other_next = other.from(0);
  if (strip.before > 0) x_next.load(window[0]);
  x_next.next();
  x_next.load(window[1]);
  x_next.next();
  // The rows before it have a next row.
  const int inner_end = strip.after > 0 ? strip.count : strip.count - 1;
  const auto batch = [&](int row, auto size, auto inside) {
#pragma unroll
    for (int i = 0; i < size; ++i) {
      if (inside || row + i < inner_end) x_next.load(window[i + 2]);
      if (inside || row + i < strip.count) other_next.load(beside[i]);
      x_next.next();
      other_next.next();
    }
#pragma unroll
    for (int i = 0; i < size; ++i) {
      if (inside || row + i < strip.count)
        visit(inside, row + i, window[i], window[i + 1], window[i + 2], beside[i]);
    }
    window[0] = window[size];
    window[1] = window[size + 1];
  };
  using One = std::integral_constant<int, 1>;
  using Many = std::integral_constant<int, kAhead>;
  for (int row = 0; row < strip.count;) {
    const bool is_inside = row > 0 || strip.before > 0;
    if (is_inside && row + Many{} <= inner_end) {
      batch(row, Many{}, std::true_type{});
      row += Many{};
    } else if (is_inside && row < inner_end) {
      batch(row, One{}, std::true_type{});
      row += One{};
    } else {
      batch(row, Many{}, std::false_type{});
      row += Many{};
    }
  }
}

// Sums over an example, in this order: of conv - reference, of its square, of dy, of
// dy * (conv - reference), of |dy|.
enum Sum : int { kDeviations, kSquares, kGradients, kProducts, kMagnitudes, kGradSums };

// y = (conv - mean) * rstd. `scale` is a power of 2. It keeps huge values from a difference beyond
// float and from a subnormal rstd. The mean is kept in two floats, since mean/std may be anything.
struct Norm {
  float scale, shift, rest, rstd;

  __device__ float operator()(float conv) const { return fmaf(fmaf(conv, scale, -shift), rstd, -rest); }
};

// Divides sums over an example by the number of its elements. A multiplication and a correction
// take a fraction of the time of a division, and whoever waits for the statistics waits for them.
// The result is exact where it can be.
struct Average {
  double count, inverse;

  // `size` is a Cut or a Tiling.
  template <class Size>
  __device__ explicit Average(const Size& size)
      : count(static_cast<double>(size.rows) * static_cast<double>(size.channels)), inverse(1 / count) {}

  __device__ double operator()(double sum) const {
    const double close = sum * inverse;
    return fma(fma(-close, count, sum), inverse, close);
  }
};

struct Moments {
  double offset;  // mean - reference
  double mean, variance, rstd;

  __device__ Moments(double reference, double deviations, double squares, const Average& average)
      : offset(average(deviations)), mean(reference + offset) {
    const double raw = average(squares) - offset * offset;
    variance = raw < 0 ? 0 : raw;
    rstd = rsqrt(variance + kEpsilon);
  }

  // None of another tensor's values, which are to be scaled likewise, is above `others`.
  __device__ Norm norm(double others = 0) const {
    const bool huge = fabs(mean) > 0x1p100 || variance > 0x1p200 || others > 0x1p100;
    const double scale = huge ? 0x1p-64 : 1, unscaled = rstd * (huge ? 0x1p64 : 1);
    const float shift = static_cast<float>(mean * scale);
    return {static_cast<float>(scale), shift, static_cast<float>((mean * scale - shift) * unscaled),
            static_cast<float>(unscaled)};
  }
};

// Enqueues kernels that fill `norms` (N) with the Norm of each example. `norms` is on the device,
// aligned to 16 bytes. It is for paths that normalise the values of convolve() themselves. The
// kernel enqueued next may be launched as a dependent (dependent_launch.cuh) and finds the norms
// after its wait.
void enqueue_norms(const ConstTensorView& x, const ConstTensorView& w, const Run& run, void* norms);

}  // namespace assay::cheri
