// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/noise.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/core/json.h"
#include "reports/gate/machines.h"

namespace assay {
namespace {

constexpr std::string_view kSchema = "assay.noise/1";

using Medians = std::map<std::string, std::vector<double>>;

// What all runs measured alike; the key of anything else is an Error.
std::map<std::string, double> scatters_of(const Medians& values, size_t runs) {
  std::map<std::string, double> scatters;
  for (const auto& [key, all] : values) {
    if (all.size() != runs) throw usage_error("{}: {} of {} runs timed it", excerpt(key), all.size(), runs);
    const auto [least, most] = std::ranges::minmax(all);
    const double scatter = most / least - 1;
    if (!std::isfinite(scatter))
      throw usage_error("{}: times from {} to {} ns have no ratio", excerpt(key), least, most);
    scatters[key] = scatter;
  }
  return scatters;
}

void require_one_program(Records runs) {
  if (runs.size() < 2) throw usage_error("{} run shows no scatter; two are the least", runs.size());
  for (const Record& run : runs) {
    if (!run.complete) throw usage_error("the run of {} is not complete", excerpt(run.started));
    if (run.tool.dirty)
      throw usage_error("the run of {} is of {} with changes, which another run need not have",
                        excerpt(run.started), excerpt(run.tool.git));
    if (run.tool.git != runs.front().tool.git)
      throw usage_error("the runs of {} and {} are of commits {} and {}; scatter is that of one program",
                        excerpt(runs.front().started), excerpt(run.started), excerpt(runs.front().tool.git),
                        excerpt(run.tool.git));
  }
}

}  // namespace

std::string time_key(const Case& which, const std::string& device, Cache cache) {
  Case problem = which;
  problem.seed = 0;
  return fmt::format("{}/cache={} on {}", problem.to_string(), name_of(cache), device);
}

std::string rate_key(const std::string& device, const std::string& name) {
  return fmt::format("{} on {}", name, device);
}

Noise noise_of(Records runs) {
  require_one_program(runs);
  Noise noise{.runs = std::ssize(runs)};
  Medians times, rates;
  for (const Record& run : runs) {
    for (const DeviceRecord& device : run.machine.devices) {
      const std::string name = device.info.name(), model = models_of({&run, 1}, name);
      const std::string& known = noise.models.emplace(name, model).first->second;
      if (known != model)
        throw usage_error("{} is {} in one run and {} in another", name, excerpt(known), excerpt(model));
      if (!device.ceilings) continue;
      for (const auto& [rate, value] : rates_of(*device.ceilings))
        rates[rate_key(name, rate)].push_back(value);
    }
    for (const CaseRecord& item : run.cases) {
      for (const std::optional<Perf>& perf : {item.perf, item.perf_warm}) {
        if (perf) times[time_key(item.which, item.device, perf->cache)].push_back(perf->median_ns);
      }
    }
  }
  if (times.empty()) throw usage_error("the runs hold no times");
  noise.times = scatters_of(times, runs.size());
  noise.rates = scatters_of(rates, runs.size());
  return noise;
}

std::string noise_text(const Noise& noise) {
  Json json{{"schema", kSchema}, {"runs", noise.runs}, {"devices", Json::array()}};
  for (const auto& [name, model] : noise.models)
    json["devices"].push_back({{"name", name}, {"model", model}});
  for (const auto& [field, scatters] : {std::pair{"times", &noise.times}, {"rates", &noise.rates}}) {
    json[field] = Json::array();
    for (const auto& [key, scatter] : *scatters) json[field].push_back({{"what", key}, {"scatter", scatter}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Noise read_noise(std::string_view text, std::string_view source) {
  const Json json = parse_json(text, source);
  const JsonFields fields(json, source);
  if (!json.is_object() || !fields.has("schema") || fields.text("schema") != kSchema)
    throw usage_error("{}: not what calibrate writes: no schema {}", excerpt(source), kSchema);
  Noise noise{.runs = fields.count("runs")};
  for (const JsonFields& device : fields.objects("devices"))
    noise.models[device.text("name")] = device.text("model");
  for (const auto& [field, scatters] : {std::pair{"times", &noise.times}, {"rates", &noise.rates}}) {
    for (const JsonFields& one : fields.objects(field)) {
      const double scatter = one.number("scatter");
      if (!(scatter >= 0)) throw one.error("scatter", "is {}, expected 0 or more", scatter);
      (*scatters)[one.text("what")] = scatter;
    }
  }
  return noise;
}

}  // namespace assay
