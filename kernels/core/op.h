// SPDX-License-Identifier: Apache-2.0
// What an operation is and which paths compute it: the tables that every other layer reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/recipe.h"
#include "kernels/core/tensor.h"

namespace assay {

// A dimension of an op: its place in the op's table, and its name. An op declares its dimensions
// and its tensors beside its contract, and indexes by these constants:
//   inline constexpr Dim kN{0, "n"}, kH{1, "h"};
//   inline constexpr Input kX{0, "x"}, kPost{1, "post"};
//   inline constexpr Output kOut{0, "out"};
struct Dim {
  size_t place;
  std::string_view key;
};

// A tensor of an op: its place among the inputs or the outputs, and its name. It converts to the
// place, so it is an index.
struct TensorPlace {
  size_t place;
  std::string_view name;
  constexpr operator size_t() const { return place; }
};
struct Input : TensorPlace {};
struct Output : TensorPlace {};

// The sizes of one problem by name, in the op's order: {b: 8, t: 2048, d: 2048, w: 4}.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::pair<std::string, int64_t>> values) : values_(values) {}
  Dims(std::initializer_list<std::pair<Dim, int64_t>> values);

  int64_t operator[](Dim dim) const;       // throws Error (internal) if another one is in its place
  int64_t at(std::string_view key) const;  // throws Error (usage) for an unknown key
  bool contains(std::string_view key) const;
  void set(std::string_view key, int64_t value);  // appends, or replaces the value
  const std::vector<std::pair<std::string, int64_t>>& values() const { return values_; }

  bool operator==(const Dims&) const = default;

 private:
  std::vector<std::pair<std::string, int64_t>> values_;
};

struct DimInfo : Dim {
  int64_t min;
  int64_t max;  // the largest size that some path serves
  // Sizes at which some path changes its behaviour: vector, tile and chunk lengths.
  std::vector<int64_t> edges;
  std::string_view meaning;
};

// A tensor of an op. `shape` has a dimension or a number for each axis, outermost first: "b t d" or
// "3 c".
struct TensorInfo : TensorPlace {
  std::string_view shape;
  std::optional<DType> dtype;  // absent: the storage dtype of the case
  std::string_view meaning;
  // Kept from call to call while the other inputs change. Paths may keep what they make of it.
  bool is_weight = false;
};
inline constexpr bool kIsWeight = true;

// The axes of "n hc h": {"n", "hc", "h"}. The names live as long as the op's table.
std::vector<std::string_view> axes_of(const TensorInfo& tensor);
Extents shape_of(const TensorInfo& tensor, const Dims& dims);

// One way to launch a kernel: {rows: 4, threads: 256}.
class Config {
 public:
  Config() = default;
  Config(std::initializer_list<std::pair<std::string, int64_t>> values) : values_(values) {}

  int64_t operator[](std::string_view key) const;  // throws Error (internal) for an unknown key
  std::string to_string() const;                   // "rows=4,threads=256"

  bool operator==(const Config&) const = default;

 private:
  std::vector<std::pair<std::string, int64_t>> values_;
};

// A launch with several configurations, among which the tuner chooses (kernels/core/tuner.h).
struct Tunable {
  std::string name;  // unique in the program, without '/', ':' and '+': "cheri_conv_norm_apply"
  // Changes with each change of the kernel: saved choices of other versions do not count.
  int version;
  std::vector<Config> configs;  // the first that fits is used where trials cannot run
};

// What an ideal implementation moves and computes: each input read once, each output written once.
struct Cost {
  int64_t bytes;  // [bytes] read and written
  int64_t flops;  // [flop] a fused multiply-add counts as two
};

// One launch of a call, and what it moves and computes at least. The `bytes` of all launches are
// those of the op's Cost, and so are the `flops`: each input and each output counts where it is
// first touched. What launches pass to each other counts beside that. It may stay in a cache, which
// the floor allows for (bench/core/ceilings.h).
struct Stage {
  std::string_view name;  // "contract"
  int64_t bytes = 0;      // [bytes] of the op's inputs and outputs
  int64_t reads = 0;      // [bytes] that an earlier launch has read or written
  int64_t writes = 0;     // [bytes] that a later launch reads
  int64_t flops = 0;      // [flop]
};

enum class DeviceKind : uint8_t { kCpu, kCuda };
std::string_view name_of(DeviceKind kind);  // "cpu", "cuda"

class Context;

// One request to compute. Tensors are in the order of the op's tables, so its constants index them:
// inputs[kX]. They lie in memory that the path's device can access.
struct Call {
  Dims dims;
  DType dtype;
  std::vector<ConstTensorView> inputs;
  std::vector<TensorView> outputs;
  void* stream = nullptr;  // a cudaStream_t for CUDA paths, which enqueue work and do not wait
  // The context of the path's device. Paths that keep something between calls need one. A GPU must
  // be the current device of the thread that runs the path.
  Context* context = nullptr;
  // One version for each input, or none at all. Equal versions other than 0 promise equal values
  // (kernels/core/context.h).
  std::vector<uint64_t> versions{};
};

// A product of dimensions at which a path changes its behaviour: {{kL, kC}, 65536}, beyond which an
// example has a second chunk. A dimension may stand twice.
struct ProductEdge {
  std::vector<Dim> dims;
  int64_t at;             // [elements]
  bool is_bytes = false;  // `at` counts bytes of elements of the storage dtype
};

// A size for which a path has code of its own: {kHc, 4} for exactly four streams, {kH, 16} for rows
// of whole vectors. Of a short dimension it is that size, of a long one any multiple.
struct OwnSize {
  Dim dim;
  int64_t size;
};

// One way to compute an op.
struct Path {
  std::string_view name;  // "cpu", "cuda"; what follows a dot names the algorithm or the precision
  DeviceKind device;
  std::vector<DType> dtypes;
  bool deterministic;  // equal inputs give equal bits, call after call
  Recipe (*recipe)(const Dims&, DType storage);
  // The reason why the path cannot serve a problem, or nothing. An empty function refuses nothing.
  // run() throws Error (unsupported) for the same problems, and for no others.
  std::function<std::optional<std::string>(const Dims&, DType)> unsupported;
  std::function<void(const Call&)> run;  // throws Error; does not wait for a CUDA path
  std::string_view summary;
  std::vector<const Tunable*> tunables{};  // what its launches choose among
  std::vector<ProductEdge> edges{};        // besides those of single dimensions (DimInfo)
  std::vector<OwnSize> own_sizes{};        // which together lead to code of their own
  // The launches of a call, in order. A path without has one, which does all that the op's Cost
  // says.
  std::vector<Stage> (*stages)(const Dims&, DType storage) = nullptr;
};

// What a path that this build lacks declares, so that formulas are tested under its recipe.
struct AbsentPath {
  std::string_view name;
  std::vector<DType> dtypes;
  Recipe (*recipe)(const Dims&, DType storage);
};

// Products and sums in f32, in any order, and one rounding to the storage dtype.
Recipe f32_recipe(const Dims&, DType storage);

// A deterministic path with that recipe that serves f32, f16 and bf16.
Path f32_path(std::string_view name, DeviceKind device, std::function<void(const Call&)> run,
              std::string_view summary);

struct Op {
  std::string_view name;
  std::string_view formula;
  std::vector<DimInfo> dims;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  Cost (*cost)(const Dims&, DType storage);
  std::vector<Path> paths;
  int degree = 2;                    // the most input elements that are multiplied in one term
  int least_degree = degree;         // the fewest, where norms hide the others
  std::vector<AbsentPath> absent{};  // with recipes that no path of this build has

  const Path& path(std::string_view name) const;  // throws Error (usage)
};

// Throws Error (internal), naming the op and the entry, unless each dimension and each tensor of
// the op's table stands in the place that it declares, and the edges of paths have no others.
void require_places(const Op& op);

// Throws Error (usage) unless `dims` has exactly the op's dimensions, each within its range.
void require_dims(const Op& op, const Dims& dims);

// [bytes] All inputs and outputs, dense. A sum above 2^62 is returned as a number that exceeds any
// machine.
int64_t tensor_bytes(const Op& op, const Dims& dims, DType storage);

}  // namespace assay
