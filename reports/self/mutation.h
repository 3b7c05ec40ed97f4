// SPDX-License-Identifier: Apache-2.0
// Texts that are almost valid, for the tests of readers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/random.h"

namespace assay {

// A header of a file of tensors, with its length in front, and its data.
std::string with_length(std::string_view header, std::string_view data);

// Changes a seed in one place or more. Equal numbers give equal texts.
class Mutation {
 public:
  Mutation(const std::vector<std::string>& seeds, uint64_t number) : seeds_(&seeds), random_(1, number) {}

  // Without its length, which stands in front of the header of a file of tensors, a seed is changed
  // as a text; then it gets a length that fits its data.
  std::string text(bool has_length);

 private:
  size_t below(size_t count) { return random_.bits(counter_++) % count; }
  std::string changed(std::string text);
  void change(std::string& text);
  void repeat(std::string& text, size_t at, size_t length);

  const std::vector<std::string>* seeds_;
  CounterRandom random_;
  uint64_t counter_ = 0;
};

}  // namespace assay
