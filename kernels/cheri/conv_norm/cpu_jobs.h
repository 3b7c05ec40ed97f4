// SPDX-License-Identifier: Apache-2.0
// The jobs of the threads of a CPU path.
#pragma once

#include <vector>

#include "kernels/cheri/conv_norm/cpu_example.h"
#include "kernels/core/op.h"
#include "kernels/core/tensor.h"
#include "kernels/core/threshold.h"

namespace assay::cheri {

// The configurations of a launch over examples. A thread works on whole examples or on parts of
// them, and stores past the caches or into them.
std::vector<Config> ways_through_examples();

// Widens the taps and writes them as Taps.
void repeat_taps(const ConstTensorView& w, const Geometry& geometry, float* taps);

struct ConvNormJob {
  Geometry geometry;
  ConstTensorView x;  // examples dense
  const float* taps;
  TensorView y;
  bool stream;  // past the caches
};

// The least rows of a part, so that it takes a tenth of their memory.
inline constexpr Threshold kRowsPerSum{64, 1};

// dw is summed in parts. There is a part for each block of examples and each range of their rows. A
// row here is a period of the taps, so a place in it belongs to one channel.
struct GradParts {
  explicit GradParts(const Geometry& geometry);

  int64_t rows;          // of an example
  int64_t rows_of_part;  // most rows of a part, a multiple of kSumGroup
  int64_t per_example;   // parts
  int64_t examples;      // in a block; small ones share it, so that parts take little memory
  int64_t blocks;        // of examples
  int64_t size;          // of a part: a sum for each tap of each place in a row
  int64_t window;        // elements of dconv held at a time
  int64_t count() const { return blocks * per_example; }
};

struct GradJob {
  Geometry geometry;
  GradParts parts;
  ConstTensorView dy;  // examples dense
  ConstTensorView x;   // examples dense
  const float* taps;
  TensorView dx;
  double* sums;  // of the parts
  bool stream;   // past the caches
};

// Computes the norm of every example from x and the taps of the job. `moments` has room for all
// chunks, `norms` for all examples.
void norms_of_examples(const ConvNormJob& job, Moments* moments, Norm* norms);

struct BlockJob {
  Geometry geometry;
  int64_t hidden;
  ConstTensorView x;  // examples dense
  const float* taps;
  const Norm* norms;
  const float* w1;  // packed
  const float* w2;  // packed
  int32_t shift;    // hidden values are scaled by 2^shift, which changes underflow only
  TensorView out;
};

// A weight (outputs, inputs) as f32, in panels of `width` outputs. The outputs of a panel lie side
// by side, input after input. Zeros fill up the last panel.
struct Panels {
  Panels(int64_t outputs_, int64_t inputs_, int64_t width_)
      : outputs(outputs_), inputs(inputs_), width(width_), count((outputs + width - 1) / width) {}
  int64_t floats() const { return count * inputs * width; }

  int64_t outputs, inputs;
  int64_t width;
  int64_t count;
};
void pack_panels(const ConstTensorView& weight, const Panels& panels, float* to);

}  // namespace assay::cheri
