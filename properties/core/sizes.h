// SPDX-License-Identifier: Apache-2.0
// How the dimensions of a case are kept within a size, or brought to the edge of a path.
#pragma once

#include <string_view>
#include <vector>

#include "properties/core/generate.h"

namespace assay {

// What a case may have at most.
struct Size {
  int64_t elements;  // of the largest tensor
  int64_t flops = kFuzzFlops;

  bool allows(const Op& op, const Dims& dims, DType dtype) const {
    return largest_tensor(op, dims) <= elements &&
           (op.cost == nullptr || op.cost(dims, dtype).flops <= flops);
  }
};

// A product edge, and the dimension by which a case meets it.
struct Meeting {
  const ProductEdge* edge = nullptr;
  std::string_view free{};
};

// Halves the largest dimension until the size is small enough or all dimensions are 0. Dimensions
// that are kept are halved only after all others, the last one first, so that edges that were drawn
// survive, or one of them.
void limit(const Op& op, const std::vector<std::string_view>& kept, const Size& size, DType dtype,
           Dims& dims);

// Gives the product `times` the size of its edge and the free dimension `more` than that, if the
// size allows it. All other dimensions of the product are halved until they leave something to the
// free one, those beside it until they leave enough.
bool meet(const Meeting& meeting, int64_t times, int64_t more, const Op& op, DType dtype, const Size& size,
          Dims& dims);

// The edges that a case of this size can meet, each by each of its dimensions.
std::vector<Meeting> meetings(const Op& op, const Path& path, const Size& size);

// Gives an axis the largest length that is allowed.
void grow(const Op& op, std::string_view key, const Size& size, DType dtype, Dims& dims);

}  // namespace assay
