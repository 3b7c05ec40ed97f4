// SPDX-License-Identifier: Apache-2.0
// How the rings (ring_roles.cuh) divide a call into the turns of their blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/cheri/conv_norm/ring.cuh"
#include "kernels/core_cuda/cooperative.cuh"
#include "kernels/core_cuda/limits.h"
#include "kernels/core_cuda/published.cuh"

namespace assay::cheri {

// What the roles of all blocks have in common.
struct RingJob {
  Tiling tiling;
  int64_t turns;  // of all blocks
  int laps;       // of an example that is not held: turns in which a block adds up its tiles of it
  int parts;      // of an example, each with its own sums: its tiles if it is held, else the blocks
  LaunchCount* count;
  Published* sums;  // (examples, parts, sums of a part)
};

// What a block does in its turn. kIsHeld: all blocks together hold an example, so each tile is
// brought once, added up and ended. If not, a block first adds up its tiles of an example, and then
// it ends them, the last one first.
template <bool kIsHeld>
struct Task {
  int64_t tile, part;    // numbered over all examples
  bool is_there = true;  // the tile; else it stands for one of the same example
  bool adds = true;      // the tile up
  bool ends = true;      // computes the results of the tile
  bool completes_part = true;

  __device__ Task(const RingJob& job, int64_t turn) : tile(turn), part(turn) {
    if constexpr (!kIsHeld) {
      const int64_t blocks = gridDim.x, turns = 2 * job.laps * blocks;  // of an example
      const int64_t example = quotient(turn, turns);
      const auto lap = static_cast<int>(quotient(turn - example * turns, blocks));
      const int64_t of_example = min(lap, 2 * job.laps - 1 - lap) * blocks + blockIdx.x;
      is_there = of_example < job.tiling.tiles;
      tile = example * job.tiling.tiles + (is_there ? of_example : blockIdx.x);
      part = example * blocks + blockIdx.x;
      adds = lap < job.laps;
      ends = !adds;
      completes_part = lap == job.laps - 1;
    }
  }
};

// Host: throws Error (unsupported) unless the device has what the loads need, and the rows of an
// example of tensors (N,L,C) can be counted.
inline void require_ring(const Extents& shape, const Device& device) {
  if (const auto why = ring_unsupported(shape)) throw unsupported_error("{}", *why);
  const int capability = device.info().compute_capability;
  if (capability < 90)
    throw unsupported_error("copies of rows need compute capability 90, this device has {}", capability);
}

// Host: the blocks of a launch, a multiple of the tiling's sides. `resident` run at the same time.
inline int64_t blocks_of_ring(const Tiling& tiling, int64_t resident) {
  const auto whole = [&](int64_t blocks) { return blocks / tiling.sides * tiling.sides; };
  if (resident < tiling.sides) {
    throw unsupported_error("{} channels need {} blocks that run at a time; this device has {}",
                            tiling.channels, tiling.sides, resident);
  }
  return std::min({whole(resident), tiling.examples * tiling.tiles,
                   std::max<int64_t>(tiling.sides, whole(std::min(kMostBlocks.value(), resident)))});
}

// Host: whether so many blocks hold an example. They end a tile up to `lag` turns after they have
// added it up.
inline bool is_held(const Tiling& tiling, int64_t blocks, int lag) {
  return tiling.tiles <= (lag + 1) * blocks;
}

// Host: a job, and memory that each launch leaves as the next one needs it. It outlives the launch.
class RingMemory {
 public:
  // `sums` are those of a part.
  RingMemory(const std::string& name, const Tiling& tiling, int64_t blocks, bool is_held, int sums,
             const Run& run)
      : job_{.tiling = tiling,
             .turns = tiling.examples * tiling.tiles,
             .laps = static_cast<int>((tiling.tiles + blocks - 1) / blocks),
             .parts = static_cast<int>(is_held ? tiling.tiles : blocks),
             .count = nullptr,
             .sums = nullptr} {
    if (!is_held) job_.turns = tiling.examples * 2 * job_.laps * blocks;
    const int64_t bytes =
        int64_t{sizeof(LaunchCount)} + tiling.examples * job_.parts * sums * int64_t{sizeof(Published)};
    memory_ = run.context.derived().get(
        name, bytes, {{.version = 1, .data = nullptr}}, run.stream, [&](void* data) {
          cuda_check(
              cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), static_cast<cudaStream_t>(run.stream)),
              "cudaMemsetAsync");
        });
    job_.count = static_cast<LaunchCount*>(memory_.data());
    job_.sums = reinterpret_cast<Published*>(job_.count + 1);
  }

  const RingJob& job() const { return job_; }

 private:
  RingJob job_;
  DerivedTensors::Held memory_;
};

}  // namespace assay::cheri
