// SPDX-License-Identifier: Apache-2.0
// The inputs of timed calls. A path that has seen a problem must not know the next one, so the
// inputs change from call to call, in the same memory:
//   draw 0                the inputs that were judged
//   draws 1 ... kDraws-1  the same elements, moved round in each tensor by a distance of its own:
//                         other values in each place, of one distribution, for one cost
//   kOtherData            from another seed and regime
// Weights (TensorInfo::is_weight) stay as they are, as with their user.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "properties/core/problem.h"

namespace assay {

inline constexpr size_t kDraws = 8, kOtherData = kDraws;

// Where other data come from.
Data other_data(uint64_t seed);

// The seed of the sample of an answer to this draw that goes to the oracle (brief_sample()).
inline uint64_t sample_seed(uint64_t seed, size_t draw) {
  return seed + draw;
}

// Which draw each sample is taken on. No draw follows itself. New ones come all along, from 28
// samples on at places that nobody can tell ahead; the first sample has draw 1.
std::vector<size_t> plan_draws(size_t samples, uint64_t seed);

// The inputs of a dense problem in host memory, which are those of draw `from`, become those of
// draw `to`. Nothing is kept, so no way leads back from other data.
void change_draw(Problem& problem, uint64_t seed, size_t from, size_t to);

class Draws {
 public:
  // Keeps the inputs that a dense problem holds now, and which are those of draw 0. The seed
  // chooses the distances and the other data. Throws Error (device) if there is no memory for them.
  Draws(Problem& problem, uint64_t seed);

  // The problem holds these inputs from now on, in the memory of its device, with new versions. Of
  // the draw in use only what vary() may have changed is written.
  // What host memory of another device holds is of no use any more.
  void use(size_t draw);
  // Until the next use() a few elements of each input hold other judged values, by the seed; not
  // for other data. If nothing `changes`, these elements are written as they are.
  void vary(uint64_t seed, bool changes = true);

 private:
  struct Kept {
    size_t number;  // of the input
    std::unique_ptr<DeviceBuffer> own, other;
  };
  std::unique_ptr<DeviceBuffer> copy_of(const GuardedTensor& tensor) const;

  Problem* problem_;
  uint64_t seed_;
  size_t draw_ = 0;      // in use
  uint64_t varied_ = 0;  // the last seed of vary()
  std::vector<Kept> kept_;
};

}  // namespace assay
