// SPDX-License-Identifier: Apache-2.0
// What a path declares about its precision: where it rounds, and how its sums run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/dtype.h"

namespace assay {

// A place of an op's formula where some path rounds, or a sum of products. An op names its sites
// beside its contract, numbered in the order of the formula:
//   inline constexpr Site kContraction{4, "contraction"}, kHidden{5, "hidden"};
struct Site {
  int place = -1;
  std::string_view name;

  bool operator==(const Site& other) const { return place == other.place; }
};

// How values are represented at a site.
enum class Format : uint8_t {
  kStored,  // as they are in memory, or in f32
  kF16,     // rounded to f16
  kBF16,    // rounded to bf16
  kBF16x3,  // hi + lo, both bf16; a product is hi*hi + hi*lo + lo*hi, without lo*lo
  kTF32,    // rounded to tf32
  kF16x3,   // as kBF16x3, hi and lo in f16
};
std::string_view name_of(Format format);  // "bf16x3"
Format format_for(DType dtype);           // kStored for f32 and f64
// Whether values are kept in two parts.
constexpr bool is_split(Format format) {
  return format == Format::kBF16x3 || format == Format::kF16x3;
}

// What happens to the values at a site.
struct Rounding {
  enum class Mode : uint8_t {
    kNearestEven,
    kNearest,  // ties either way
    kTowardZero,
  };

  Site site = {};
  Format format = Format::kStored;
  Mode mode = Mode::kNearestEven;
  // Times a power of two, which the contract names, so that nothing overflows.
  bool is_scaled = false;
  bool is_optional = false;  // a path may round here or not, for all values alike

  std::string to_string() const;  // "f16, scaled", "tf32, ties either way"
};

// How a sum of products runs.
struct Sum {
  enum class Order : uint8_t {
    kAny,         // any tree over the products
    kContiguous,  // any tree in which each node adds up neighbours: ascending, in chunks, split;
                  // within steps of kStep products any tree
  };
  static constexpr size_t kStep = 32;

  Site site = {};
  // Of the factors. In two parts, hi*hi, hi*lo and lo*hi are added up.
  Format factors = Format::kStored;
  Order order = Order::kAny;
  // The factors are times powers of two, so the sum may stay finite where f32 would overflow.
  bool is_scaled = false;
  bool truncates = false;  // each addition, as tensor cores do, in place of rounding to nearest
  // If not 0, at most so many products are added up in f32, and such groups in f64. The sum may be
  // a part of a longer one: it stays in f64, and a group may reach beyond it.
  size_t group = 0;

  // The error of one addition, relative to its result.
  double unit() const { return truncates ? 0x1p-23 : 0x1p-24; }
  std::string to_string() const;  // "sum in f32, truncated, of neighbours, factors in bf16x3"
};

// The recipe of a path for one storage dtype. At a site that is not named, nothing is rounded below
// f32, and sums run in f32, in any order. Outputs are rounded to the storage dtype at the end.
struct Recipe {
  DType storage;  // of inputs and outputs in memory
  std::vector<Rounding> roundings = {};
  std::vector<Sum> sums = {};
  std::shared_ptr<const void> names = {};  // of the sites, if they came from another process

  Rounding rounding(const Site& site) const;
  Sum sum(const Site& site) const;
  // Each named site with what happens there, in the order of the formula, "outputs" last. Also the
  // sums of `all_sums` that the recipe does not name. Throws Error if two sites share a place, if
  // there are more than 100, or if a name has more than 100 bytes.
  std::vector<std::pair<std::string_view, std::string>> sites(const std::vector<Site>& all_sums = {}) const;
  std::string to_string() const;  // all of it on one line
};

}  // namespace assay
