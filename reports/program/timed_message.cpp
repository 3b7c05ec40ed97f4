// SPDX-License-Identifier: Apache-2.0
#include "reports/program/timed_message.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "kernels/core/printable.h"
#include "properties/core/compare_outputs.h"
#include "properties/core/said_json.h"
#include "properties/core/worker.h"

namespace assay {

Message to_message(Timed timed) {
  Samples& samples = timed.samples;
  Message message{.fields = {{"samples_ns", samples.ns},
                             {"other_ns", samples.other_ns},
                             {"graph_ns", samples.graph_ns},
                             {"waits_s", samples.waits},
                             {"fault", samples.fault},
                             {"doubt", samples.doubt},
                             {"answers", nlohmann::ordered_json::array()},
                             {"near", nullptr}},
                  .tensors = {}};
  for (TimedAnswer& answer : timed.answers) {
    message.fields["answers"].push_back(answer.draw);
    std::ranges::move(answer.outputs, std::back_inserter(message.tensors));
  }
  if (samples.near) {
    message.fields["near"] = {{"ns", samples.near->ns}, {"recipe", to_json(samples.near->recipe)}};
    std::ranges::move(samples.near->outputs, std::back_inserter(message.tensors));
  }
  return message;
}

Timed timed_in(Message message, const Subject& subject, const Case& which, uint64_t draws) {
  const auto& fields = message.fields;
  Timed timed{.samples = {.ns = fields.at("samples_ns").get<std::vector<double>>(),
                          .other_ns = fields.at("other_ns").get<std::vector<double>>(),
                          .graph_ns = fields.at("graph_ns").get<std::vector<double>>(),
                          .near = {},
                          .waits = fields.at("waits_s").get<double>(),
                          .fault = excerpt(fields.at("fault").get<std::string>(), kLongestReason),
                          .doubt = excerpt(fields.at("doubt").get<std::string>(), kLongestReason)},
              .answers = {}};
  if (timed.samples.ns.empty()) throw Nonsense("no samples");
  size_t next = 0;
  const auto take_outputs = [&](const Case& of, uint64_t sample) {
    TensorBytes outputs;
    for (size_t i = 0; i < subject.op->outputs.size(); ++i) {
      outputs.push_back(std::move(message.tensors.at(next++)));
      const size_t elements = brief_sample(subject, of, i, sample).size();
      const DType dtype = subject.op->outputs[i].dtype.value_or(of.dtype);
      if (outputs.back().size() != elements * size_of(dtype)) throw Nonsense("outputs of other sizes");
    }
    return outputs;
  };
  for (const size_t draw : fields.at("answers").get<std::vector<size_t>>()) {
    if (draw > kOtherData) throw Nonsense("no such draw");
    timed.answers.push_back({.draw = draw, .outputs = take_outputs(which, sample_seed(draws, draw))});
  }
  if (const auto& near = fields.at("near"); !near.is_null()) {
    const Case shape = near_case(*subject.op, which, draws).value();
    timed.samples.near = NearSamples{.which = shape,
                                     .recipe = recipe_from_json(near.at("recipe")),
                                     .ns = near.at("ns").get<std::vector<double>>(),
                                     .outputs = take_outputs(shape, draws)};
    if (timed.samples.near->ns.size() != kNearCalls) throw Nonsense("other samples of another shape");
  }
  return timed;
}

}  // namespace assay
