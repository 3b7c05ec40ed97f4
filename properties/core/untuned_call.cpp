// SPDX-License-Identifier: Apache-2.0
#include "properties/core/untuned_call.h"

#include <algorithm>

#include "properties/core/random.h"

namespace assay {
namespace {

constexpr uint64_t kConfigStream = 3005;

}  // namespace

TensorBytes outputs_of_untuned_call(Problem& problem) {
  problem.poison_outputs(Poison::kNan);
  Context fresh(problem.device());
  fresh.tuner().allow_trials(false, CounterRandom(problem.which().seed, kConfigStream).bits(0));
  Call call = problem.call();
  call.context = &fresh;
  problem.call_path(call);
  problem.finish(call.stream);
  for (GuardedTensor& tensor : problem.output_tensors()) tensor.download();
  return problem.outputs();
}

std::optional<std::string> first_difference(const Problem& problem, const TensorBytes& a,
                                            const TensorBytes& b) {
  const std::vector<TensorInfo>& infos = problem.op().outputs;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const DType dtype = infos[i].dtype.value_or(problem.which().dtype);
    const auto differing = static_cast<int64_t>(
        static_cast<size_t>(std::ranges::mismatch(a[i], b[i]).in1 - a[i].begin()) / size_of(dtype));
    return fmt::format("{} is {:.9g}; an untuned call in a new context gives {:.9g}",
                       element_name(infos[i].name, differing, shape_of(infos[i], problem.which().dims)),
                       read_element(a[i], dtype, differing), read_element(b[i], dtype, differing));
  }
  return std::nullopt;
}

}  // namespace assay
