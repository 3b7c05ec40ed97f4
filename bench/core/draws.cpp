// SPDX-License-Identifier: Apache-2.0
#include "bench/core/draws.h"

#include <algorithm>
#include <utility>

#include "kernels/core/context.h"
#include "properties/core/random.h"

namespace assay {
namespace {

constexpr uint64_t kDistanceStream = 5000, kOtherStream = 5001, kPlanStream = 5100, kVaryStream = 6000;

// [elements] From 1 to elements - 1.
int64_t distance(uint64_t seed, size_t draw, size_t input, int64_t elements) {
  if (draw == 0 || elements < 2) return 0;
  const uint64_t bits = CounterRandom(seed, kDistanceStream).bits(draw, input);
  return 1 + static_cast<int64_t>(bits % static_cast<uint64_t>(elements - 1));
}

std::vector<size_t> changing_inputs(Problem& problem) {
  std::vector<size_t> numbers;
  const std::vector<TensorInfo>& infos = problem.op().inputs;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (!infos[i].is_weight && problem.input_tensors()[i].elements() > 0) numbers.push_back(i);
  }
  return numbers;
}

void draw_other_data(Problem& problem, uint64_t seed, size_t input) {
  problem.draw_input(CounterRandom(seed, kOtherStream).bits(1), input, other_data(seed));
}

}  // namespace

// One new draw in each of kDraws - 1 stretches, in their first halves.
std::vector<size_t> plan_draws(size_t samples, uint64_t seed) {
  constexpr size_t kNew = kDraws - 1;
  const CounterRandom random(seed, kPlanStream);
  std::vector<size_t> plan;
  size_t known = 1, next_at = 0;
  for (size_t i = 0; i < samples; ++i) {
    if (known < kDraws && i == next_at) {
      plan.push_back(known);
      const size_t begin = known * samples / kNew, end = (known + 1) * samples / kNew;
      next_at = begin + random.bits(i, 1) % std::max<size_t>(1, (end - begin) / 2);
      ++known;
      continue;
    }
    const size_t last = plan.back();
    const size_t other = random.bits(i) % (known - 1);  // among all known but the last
    plan.push_back(other < last ? other : other + 1);
  }
  return plan;
}

Data other_data(uint64_t seed) {
  return CounterRandom(seed, kOtherStream).bits(0) % 2 == 0 ? Regime::kUniform : Regime::kPositive;
}

void change_draw(Problem& problem, uint64_t seed, size_t from, size_t to) {
  for (const size_t i : changing_inputs(problem)) {
    GuardedTensor& tensor = problem.input_tensors()[i];
    const int64_t elements = tensor.elements();
    if (to == kOtherData) {
      draw_other_data(problem, seed, i);
    } else {
      tensor.rotate((distance(seed, to, i, elements) - distance(seed, from, i, elements) + elements) %
                    elements);
    }
  }
}

Draws::Draws(Problem& problem, uint64_t seed) : problem_(&problem), seed_(seed) {
  for (const size_t i : changing_inputs(problem)) {
    Kept kept{.number = i, .own = copy_of(problem.input_tensors()[i]), .other = {}};
    kept_.push_back(std::move(kept));
  }
}

std::unique_ptr<DeviceBuffer> Draws::copy_of(const GuardedTensor& tensor) const {
  Device& device = problem_->device();
  const MemorySpan span = tensor.device_span();
  auto buffer = std::make_unique<DeviceBuffer>(device, span.bytes);
  device.copy(buffer->data(), span.data, span.bytes, device.stream());
  device.synchronize();
  return buffer;
}

// So few elements leave the caches as they are. Neighbours of `own` are neighbours in all draws,
// except where the input ends.
void Draws::vary(uint64_t seed, bool changes) {
  varied_ = seed;
  constexpr int64_t kMost = 16;
  for (const Kept& kept : kept_) {
    const GuardedTensor& tensor = problem_->input_tensors()[kept.number];
    const int64_t elements = tensor.elements(), size = tensor.device_span().bytes / elements;
    const int64_t most = std::clamp<int64_t>(elements / 2, 1, kMost), places = elements - most + 1;
    const CounterRandom random(seed, kVaryStream + kept.number);
    const auto place = static_cast<int64_t>(random.bits(0) % static_cast<uint64_t>(places));
    const auto other = static_cast<int64_t>(random.bits(1) % static_cast<uint64_t>(places));
    const int64_t first = (place + distance(seed_, draw_, kept.number, elements)) % elements;
    const auto* const own = static_cast<const std::byte*>(kept.own->data());
    problem_->set_elements(kept.number, first, own + (changes ? other : place) * size,
                           std::min(most, elements - first), new_version());
  }
}

void Draws::use(size_t draw) {
  if (draw == std::exchange(draw_, draw) && draw != kOtherData) return vary(varied_, false);
  for (Kept& kept : kept_) {
    if (draw != kOtherData) {
      const int64_t elements = problem_->input_tensors()[kept.number].elements();
      problem_->rotate_input(kept.number, kept.own->data(), distance(seed_, draw, kept.number, elements),
                             new_version());
    } else if (kept.other) {
      problem_->rotate_input(kept.number, kept.other->data(), 0, new_version());
    } else {
      draw_other_data(*problem_, seed_, kept.number);
      kept.other = copy_of(problem_->input_tensors()[kept.number]);
    }
  }
}

}  // namespace assay
