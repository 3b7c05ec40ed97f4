// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/tuner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "kernels/core/json.h"
#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"

namespace assay {
namespace {

constexpr std::string_view kSchema = "assay.choices/1";
constexpr int kTimings = 5;  // of each configuration, after an untimed run; the shortest counts

// What a choice depends on besides its key.
std::string identity(const DeviceInfo& info) {
  return fmt::format("{}, {}, {} units", info.model, info.driver.empty() ? "no driver" : info.driver,
                     info.units);
}

std::vector<void*> addresses(const std::vector<Buffer>& buffers) {
  std::vector<void*> data;
  for (const Buffer& buffer : buffers) data.push_back(buffer.data);
  return data;
}

// The configurations that can run here, and why the others cannot.
struct Pruned {
  std::vector<Config> fitting;
  std::vector<std::string> reasons;
};

Pruned prune(const Launch& launch) {
  Pruned pruned;
  for (const Config& config : launch.tunable->configs) {
    const auto why = launch.unfit ? launch.unfit(config) : std::nullopt;
    if (why) {
      pruned.reasons.push_back(fmt::format("{}: {}", config.to_string(), *why));
    } else {
      pruned.fitting.push_back(config);
    }
  }
  return pruned;
}

// Memory for trials, in place of buffers that a trial would change.
class TrialBuffers {
 public:
  // Throws Error (device) if there is not enough memory.
  TrialBuffers(const Launch& launch, Device& device)
      : launch_(launch), device_(device), data_(addresses(launch.buffers)) {
    for (size_t i = 0; i < data_.size(); ++i) {
      const Buffer& buffer = launch.buffers[i];
      if (buffer.role == Role::kRead || buffer.role == Role::kScratch) continue;
      data_[i] = owned_.emplace_back(device, buffer.bytes).data();
    }
  }

  // Puts every buffer into the state that its role asks for.
  void prepare() {
    for (size_t i = 0; i < data_.size(); ++i) {
      const Buffer& buffer = launch_.buffers[i];
      if (buffer.role == Role::kAccumulate) device_.fill(data_[i], 0, buffer.bytes, launch_.stream);
      if (buffer.role == Role::kUpdate) device_.copy(data_[i], buffer.data, buffer.bytes, launch_.stream);
    }
  }

  std::span<void* const> data() const { return data_; }

 private:
  const Launch& launch_;
  Device& device_;
  std::vector<void*> data_;
  std::vector<DeviceBuffer> owned_;
};

struct Loaded {
  struct Entry {
    std::string tunable, key;
    Config config;
    int version;
    double seconds;
  };
  std::optional<std::string> refused;  // the reason why nothing is taken
  std::vector<Entry> taken;
  std::vector<std::string> left_out;  // the reason for each other entry
};

// Throws Error (usage) for a text that does not hold choices.
Loaded parse_choices(const std::string& text, const std::string& here,
                     std::span<const Tunable* const> known) {
  constexpr std::string_view kSource = "not a file of the tuner's choices";
  Loaded loaded;
  const nlohmann::ordered_json document = parse_json(text, kSource);
  const JsonFields fields(document, kSource);
  if (const auto schema = fields.text("schema"); schema != kSchema) {
    loaded.refused = fmt::format("it has the schema '{}', expected {}", excerpt(schema), kSchema);
    return loaded;
  }
  if (const auto device = fields.text("device"); device != here) {
    loaded.refused = fmt::format("it was tuned on '{}', this is '{}'", excerpt(device), here);
    return loaded;
  }
  for (const JsonFields& entry : fields.objects("choices")) {
    const auto name = entry.text("tunable"), key = entry.text("key"), config_text = entry.text("config");
    const auto version = entry.integer<int64_t>("version");
    const double seconds = entry.number("seconds");
    const auto tunable = std::ranges::find(known, name, [](const Tunable* t) { return t->name; });
    const Config* config = tunable == known.end() ? nullptr : find_config(**tunable, config_text);
    if (tunable == known.end()) {
      loaded.left_out.push_back(fmt::format("{}: no such tunable", excerpt(name)));
    } else if (version != (*tunable)->version) {
      loaded.left_out.push_back(
          fmt::format("{}: version {}, this is version {}", name, version, (*tunable)->version));
    } else if (config == nullptr) {
      loaded.left_out.push_back(fmt::format("{}: it has no configuration {}", name, excerpt(config_text)));
    } else {
      loaded.taken.push_back({name, key, *config, (*tunable)->version, seconds});
    }
  }
  return loaded;
}

}  // namespace

const Config* find_config(const Tunable& tunable, std::string_view text) {
  const auto found =
      std::ranges::find_if(tunable.configs, [&](const Config& c) { return c.to_string() == text; });
  return found == tunable.configs.end() ? nullptr : &*found;
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::kRead:
      return "read";
    case Role::kWrite:
      return "write";
    case Role::kAccumulate:
      return "accumulate";
    case Role::kUpdate:
      return "update";
    case Role::kScratch:
      return "scratch";
  }
  throw Error("Role({}) is not a role", static_cast<int>(role));
}

Buffer buffer_of(std::string_view name, Role role, const ConstTensorView& view) {
  const int64_t bytes = span_bytes(view);
  const bool has_gaps = bytes > view.size() * static_cast<int64_t>(size_of(view.dtype));
  if (role == Role::kAccumulate && has_gaps) {
    throw Error("{} has gaps between its elements (shape {}, strides {}) and cannot be accumulated in place",
                name, view.shape.to_string(), view.strides.to_string());
  }
  return {.name = name, .role = role, .data = const_cast<void*>(view.data), .bytes = bytes};
}

std::string tuning_key(const Call& call) {
  std::string key(name_of(call.dtype));
  for (const auto& [name, size] : call.dims.values()) key += fmt::format(" {}={}", name, size);
  const auto add = [&](char kind, const ConstTensorView& view) {
    constexpr uintptr_t kWidestAccess = 16;  // [bytes]
    const auto address = reinterpret_cast<uintptr_t>(view.data) | kWidestAccess;
    key += fmt::format(" {}{}", kind, address & (~address + 1));
    if (!view.is_dense()) key += view.strides.to_string();
  };
  for (const ConstTensorView& input : call.inputs) add('r', input);
  for (const TensorView& output : call.outputs) add('w', output);
  return key;
}

void Tuner::run(const Launch& launch) {
  const Pruned pruned = prune(launch);
  if (pruned.fitting.empty()) {
    throw unsupported_error("no configuration of {} fits: {}", launch.tunable->name,
                            fmt::join(pruned.reasons, "; "));
  }
  Config config;
  if (const auto wanted = forced(launch)) {
    config = *wanted;
    if (std::ranges::count(pruned.fitting, config) == 0) {
      if (const auto why = launch.unfit ? launch.unfit(config) : std::nullopt)
        throw ForcedIsUnfit("{} cannot run with {}: {}", launch.tunable->name, config.to_string(), *why);
      throw unsupported_error("{} has no configuration {}", launch.tunable->name, config.to_string());
    }
  } else {
    config = pruned.fitting.size() == 1 ? pruned.fitting.front() : chosen(launch, pruned.fitting);
  }
  for (const Buffer& buffer : launch.buffers) {
    if (buffer.role == Role::kAccumulate) device_->fill(buffer.data, 0, buffer.bytes, launch.stream);
  }
  if (Observer* const observer = observer_) {
    observer->launch(launch, config);
  } else {
    launch.run(config, addresses(launch.buffers));
  }
}

Config Tuner::chosen(const Launch& launch, const std::vector<Config>& fitting) {
  const std::shared_ptr<Choice> choice = choice_of(launch.tunable->name, launch.key);
  const std::lock_guard lock(choice->mutex);
  const bool is_usable = choice->config && choice->version == launch.tunable->version &&
                         std::ranges::count(fitting, *choice->config) != 0;
  if (is_usable) return *choice->config;
  if (const auto number = number_without_trials()) return fitting[*number % fitting.size()];
  if (device_->is_capturing(launch.stream)) {
    throw usage_error(
        "{} cannot be tuned while a graph is captured: make the same call once before capturing it, load "
        "saved choices, or force a configuration",
        launch.tunable->name);
  }
  const auto winner = fastest(launch, fitting);
  choice->config = winner ? winner->first : fitting.front();
  choice->version = launch.tunable->version;
  choice->seconds = winner ? std::optional(winner->second) : std::nullopt;
  return *choice->config;
}

std::optional<std::pair<Config, double>> Tuner::fastest(const Launch& launch,
                                                        const std::vector<Config>& fitting) {
  std::optional<TrialBuffers> buffers;
  try {
    buffers.emplace(launch, *device_);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return std::nullopt;
  }
  std::pair<Config, double> best{fitting.front(), std::numeric_limits<double>::infinity()};
  for (const Config& config : fitting) {
    for (int i = 0; i <= kTimings; ++i) {
      buffers->prepare();
      const double seconds = device_->time([&] { launch.run(config, buffers->data()); }, launch.stream);
      if (i > 0 && seconds < best.second) best = {config, seconds};
    }
  }
  const std::lock_guard lock(mutex_);
  trials_ += static_cast<int64_t>(fitting.size());
  return best;
}

std::shared_ptr<Tuner::Choice> Tuner::choice_of(const std::string& tunable, const std::string& key) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Choice>& choice = choices_[{tunable, key}];
  if (choice == nullptr) choice = std::make_shared<Choice>();
  return choice;
}

std::optional<Config> Tuner::forced(const Launch& launch) const {
  const std::lock_guard lock(mutex_);
  const auto found = forced_.find(launch.tunable->name);
  return found == forced_.end() ? std::nullopt : std::optional(found->second);
}

void Tuner::force(const std::string& tunable, std::optional<Config> config) {
  const std::lock_guard lock(mutex_);
  if (config) {
    forced_[tunable] = *std::move(config);
  } else {
    forced_.erase(tunable);
  }
}

void Tuner::allow_trials(bool allowed, uint64_t number) {
  const std::lock_guard lock(mutex_);
  number_without_trials_ = allowed ? std::nullopt : std::optional(number);
}

std::optional<uint64_t> Tuner::number_without_trials() const {
  const std::lock_guard lock(mutex_);
  return number_without_trials_;
}

void Tuner::forget() {
  const std::lock_guard lock(mutex_);
  choices_.clear();
}

int64_t Tuner::trials() const {
  const std::lock_guard lock(mutex_);
  return trials_;
}

int64_t Tuner::choices() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(choices_.size());
}

Tuner::Choices Tuner::copy_of_choices() const {
  const std::lock_guard lock(mutex_);
  return choices_;
}

std::string Tuner::saved() const {
  nlohmann::ordered_json document = {{"schema", kSchema},
                                     {"device", identity(device_->info())},
                                     {"choices", nlohmann::ordered_json::array()}};
  for (const auto& [name, choice] : copy_of_choices()) {
    const std::lock_guard lock(choice->mutex);
    if (!choice->config || !choice->seconds) continue;
    document["choices"].push_back({{"tunable", name.first},
                                   {"version", choice->version},
                                   {"key", name.second},
                                   {"config", choice->config->to_string()},
                                   {"seconds", *choice->seconds}});
  }
  return document.dump(1) + '\n';
}

void Tuner::save(const std::filesystem::path& file) const {
  // The temporary name is used by no other thread, process or machine.
  std::random_device entropy;
  const std::filesystem::path unfinished =
      fmt::format("{}.{:08x}{:08x}.unfinished", file.string(), entropy(), entropy());
  std::ofstream out(unfinished);
  out << saved();
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(unfinished, file, error);
  if (!out || error) {
    std::filesystem::remove(unfinished, error);
    throw usage_error("the tuner's choices cannot be written to '{}'", excerpt(file.string()));
  }
}

std::vector<std::string> Tuner::load(const std::filesystem::path& file,
                                     std::span<const Tunable* const> known) {
  return load_saved(read_file(file), file.string(), known);
}

std::vector<std::string> Tuner::load_saved(const std::string& text, std::string_view source,
                                           std::span<const Tunable* const> known) {
  Loaded loaded;
  try {
    loaded = parse_choices(text, identity(device_->info()), known);
  } catch (const Error& error) {
    loaded.refused = error.what();
  }
  if (loaded.refused) return {fmt::format("all of '{}': {}", excerpt(source), *loaded.refused)};
  for (Loaded::Entry& entry : loaded.taken) {
    const std::shared_ptr<Choice> choice = choice_of(entry.tunable, entry.key);
    const std::lock_guard lock(choice->mutex);
    choice->config = std::move(entry.config);
    choice->version = entry.version;
    choice->seconds = entry.seconds;
  }
  return loaded.left_out;
}

}  // namespace assay
