// SPDX-License-Identifier: Apache-2.0
// A study: errors of paths and recipes at each point of some axes, in several draws, and times of
// the same problems.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "properties/core/problem.h"
#include "study/axis.h"
#include "study/contender.h"
#include "study/draw.h"
#include "study/errors.h"

namespace assay::study {

struct Target {
  double normwise = 1e-3;
  std::optional<double> worst = {};  // Errors::worst, of each element
};

struct Plan {
  const Op* op = nullptr;
  const Oracle* oracle = nullptr;
  std::vector<Axis> axes = {};
  Dims dims = {};  // of what no axis varies
  std::vector<Contender> contenders = {};
  int64_t draws = 8;  // at each point
  uint64_t seed = 0;
  int64_t shard = 0, shards = 1;    // of the points, each n-th
  std::optional<Given> given = {};  // a user's tensors
  Target target = {};
};

// One output of one contender, at a point, in a draw.
struct Cell {
  size_t point = 0, contender = 0, output = 0;
  int64_t draw = 0;
  Errors errors = {};
  // Two runs on the same inputs gave the same bits. Absent if it is emulated, and in all draws but
  // the first.
  std::optional<bool> repeats = {};
  // An entry of the batch alone has the bits that it has among the others (alone.h). Absent as
  // above, and if nothing can be asked.
  std::optional<bool> alone = {};
  std::string why_not = {};  // why there are no errors: "unsupported: ...", "x does not fit f16"
};

// The time of a path on the dimensions of a point. All paths take turns there, kRounds times: what
// slows the machine for a while slows all of them.
inline constexpr int kRounds = 5;
struct Time {
  size_t point = 0, contender = 0;
  std::string verdict = {};              // of the judge on this problem, with normal data
  std::string reason = {};               // of the verdict, or why there is no time
  std::optional<double> median_ns = {};  // [ns] of all samples, cold
  // Why the median cannot be right (bench/core/measure.h); empty if nothing speaks against it.
  std::string implausible = {};
  // [ns] the least and the largest median of a round
  std::optional<double> low_ns = {}, high_ns = {};
  std::optional<double> floor_ns = {};  // [ns] the floor
  // [W] The mean power of the device in the last round, also between the timed calls.
  std::optional<double> power_w = {};

  // Whether a contender can win by it.
  bool counts() const { return median_ns && implausible.empty(); }
  std::optional<double> energy_j() const;  // [J] of a call at that power
};

// What one site of a recipe does to an output at a point. Errors are normwise, in the first draw.
struct SiteShare {
  size_t point = 0, contender = 0, output = 0;
  std::string site = {};  // "hidden"; "outputs" and "f32 between sites" besides
  double alone = 0;       // performed alone, all else exact
  double without = 0;     // all but this
  double all = 0;         // of the whole recipe
};

// Distances at a point in the first draw, in order: what a share k / (size - 1) of the elements
// does not exceed. In units of the rms of the exact values.
struct Distances {
  size_t point = 0, contender = 0, output = 0;
  std::vector<double> from_computed = {}, from_exact = {};
};
inline constexpr int kDistances = 64;

struct Study {
  std::string op = {};
  std::vector<std::string> outputs = {};  // names
  std::vector<Axis> axes = {};
  std::vector<Point> points = {};
  std::vector<Contender> contenders = {};  // without functions if read from a file
  std::vector<bool> emulated = {};         // of each contender
  std::vector<std::string> recipes = {};   // of each contender, at the first point
  Dims dims = {};
  int64_t draws = 0;
  uint64_t seed = 0;
  int64_t shard = 0, shards = 1;
  Target target = {};
  std::string inputs = {};  // hash_of() a user's tensors; empty if they are drawn
  bool complete = false;
  std::vector<Cell> cells = {};
  std::vector<Time> times = {};
  std::vector<SiteShare> sites = {};
  std::vector<Distances> distances = {};

  std::string label(size_t contender) const;  // "cuda.bf16 in f32, emulated"
};

// Everything but cells and what follows from them. Throws Error (usage) if the op has no such
// dimensions, or if an axis changes nothing.
Study begin(const Plan& plan);

// Runs a path on inputs. Keeps the problem for the next call on the same dimensions.
class Runner {
 public:
  // The device of a path.
  using DeviceOf = std::function<Device&(const Path&)>;
  Runner(const Op& op, DeviceOf device_of) : op_(op), device_of_(std::move(device_of)) {}

  struct Outputs {
    TensorBytes first, second;  // of two calls; the second only if asked for
    std::string why_not;        // why there are none
  };
  Outputs run(const Contender& contender, const Dims& dims, const TensorBytes& inputs, bool twice);

 private:
  const Op& op_;
  DeviceOf device_of_;
  std::unique_ptr<Problem> problem_;
};

// What a study tells while it goes on. Each is called from one thread.
struct Watcher {
  std::function<bool()> gives_up;              // asked after each cell
  std::function<void(std::vector<Cell>)> add;  // of one contender in one draw
  std::function<void(size_t point, int64_t draw)> progress;
};

// All cells of the plan's shard. Returns whether it was not given up.
bool run_cells(const Plan& plan, const Study& study, Runner& runner, const Watcher& watcher);

}  // namespace assay::study
