// SPDX-License-Identifier: Apache-2.0
#include "properties/core/isolation.h"

#include <algorithm>
#include <array>
#include <new>

#include "kernels/core/parallel.h"
#include "kernels/core/printable.h"
#include "properties/core/limits.h"
#include "properties/core/precheck.h"
#include "properties/core/said_json.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostAsked = 4;                 // twice for each of two cases
constexpr int64_t kMostHeld = int64_t{16} << 20;  // [bytes] of tensors between cases
constexpr std::array kDTypes{DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
constexpr std::array kTensorsOfRuns{&Runs::got, &Runs::previous, &Runs::again, &Runs::untuned,
                                    &Runs::changed_inputs};

Message to_message(Runs&& runs) {
  Message message{.fields = to_json(Said{.recipe = runs.recipe, .verdict = runs.verdict}), .tensors = {}};
  message.fields["broken_law"] = runs.broken_law;
  message.fields["counts"] = Json::array();
  for (const auto member : kTensorsOfRuns) {
    message.fields["counts"].push_back((runs.*member).size());
    std::ranges::move(runs.*member, std::back_inserter(message.tensors));
  }
  Json& evidence = message.fields["of_step"];
  evidence["differs"] = runs.of_step.differs;
  evidence["left_out"] = runs.of_step.left_out;
  evidence["tensors"] = Json::array();
  for (NamedTensor& tensor : runs.of_step.tensors) {
    evidence["tensors"].push_back(
        {{"name", tensor.name},
         {"dtype", name_of(tensor.dtype)},
         {"shape", std::vector(tensor.shape.values().begin(), tensor.shape.values().end())}});
    message.tensors.push_back(std::move(tensor.bytes));
  }
  return message;
}

// Throws a JSON exception, or Nonsense, for what no worker sends that is intact.
Runs from_message(Message&& message) {
  Runs runs;
  const Json& fields = message.fields;
  Said said = said_from_json(fields);
  runs.recipe = std::move(said.recipe);
  runs.verdict = std::move(said.verdict);
  if (!fields.contains("counts")) return runs;
  runs.broken_law = excerpt(fields.at("broken_law").get<std::string>(), kLongestReason);
  size_t next = 0;
  const auto take = [&] { return std::move(message.tensors.at(next++)); };
  const auto counts = fields.at("counts").get<std::vector<size_t>>();
  for (size_t i = 0; i < kTensorsOfRuns.size(); ++i) {
    for (size_t tensor = 0; tensor < counts.at(i); ++tensor) (runs.*kTensorsOfRuns[i]).push_back(take());
  }
  const Json& evidence = fields.at("of_step");
  runs.of_step.differs = evidence.at("differs").get<std::string>();
  runs.of_step.left_out = evidence.at("left_out").get<std::string>();
  for (const Json& tensor : evidence.at("tensors")) {
    Extents shape;
    for (const int64_t size : tensor.at("shape").get<std::vector<int64_t>>()) shape.push_back(size);
    runs.of_step.tensors.push_back({.name = tensor.at("name").get<std::string>(),
                                    .dtype = value_of(kDTypes, tensor.at("dtype").get<std::string>()),
                                    .shape = shape,
                                    .bytes = take()});
  }
  return runs;
}

// Whether each group of tensors is complete, or absent where it may be.
bool is_sound(const Runs& runs, const Op& op, const Case& which) {
  const auto is_optional = [&](const TensorBytes& bytes, const std::vector<TensorInfo>& infos) {
    return bytes.empty() || have_sizes_of(bytes, infos, which);
  };
  return (runs.verdict || (runs.recipe && have_sizes_of(runs.got, op.outputs, which))) &&
         is_optional(runs.got, op.outputs) && is_optional(runs.previous, op.outputs) &&
         is_optional(runs.again, op.outputs) && is_optional(runs.untuned, op.outputs) &&
         is_optional(runs.changed_inputs, op.inputs) &&
         std::ranges::all_of(runs.of_step.tensors, [](const NamedTensor& tensor) {
           return tensor.bytes.size() ==
                  static_cast<size_t>(element_count(tensor.shape)) * size_of(tensor.dtype);
         });
}

// [bytes] The most that an answer can hold: four sets of outputs, the inputs, and those of a step.
int64_t most_bytes(const Op& op, const Case& which) {
  return 4 * tensor_bytes(op, which.dims, which.dtype) + kLargestEvidence;
}

Runs decided(std::optional<Verdict> verdict) {
  Runs runs;
  runs.verdict = std::move(verdict);
  return runs;
}

bool is(const Runs& runs, VerdictKind kind) {
  return runs.verdict && runs.verdict->kind == kind;
}

// To run the case on inputs that the worker draws, and to keep nothing of it.
Json plain_request(const Case& which) {
  return {{"case", which.to_string()}, {"keep", false}};
}

bool has_died(const Runs& runs) {
  return is(runs, VerdictKind::kCrashed) || is(runs, VerdictKind::kTimeout);
}

// What the path says of the case and, unless that is all that is asked, does on it.
Runs ask_and_run(const Subject& subject, Device& device, const Case& which, const Message& request,
                 const OnStep& step, std::optional<Problem>& kept) {
  try {
    Said said;
    {
      const auto limit = limit_on(subject.path->device);
      said = ask_path(*subject.path, which.dims, which.dtype, step);
    }
    if (said.verdict || request.fields.contains("ask")) {
      Runs runs = decided(std::move(said.verdict));
      runs.recipe = std::move(said.recipe);
      return runs;
    }
    step("the preparation of the tensors");
    kept.emplace(*subject.op, *subject.path, which, device);
    kept->set_observer(step);
    const auto limit = limit_on(subject.path->device);
    return run_path(subject, *kept, *std::move(said.recipe),
                    request.tensors.empty() ? nullptr : &request.tensors);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    return decided(no_memory(error.what()));
  } catch (const std::bad_alloc&) {
    return decided(no_memory("there is no memory for its tensors"));
  }
}

}  // namespace

bool have_sizes_of(const TensorBytes& bytes, const std::vector<TensorInfo>& infos, const Case& which) {
  return std::ranges::equal(bytes, infos, [&](const auto& tensor, const TensorInfo& info) {
    const auto elements = static_cast<size_t>(element_count(shape_of(info, which.dims)));
    return tensor.size() == elements * size_of(info.dtype.value_or(which.dtype));
  });
}

Seconds usual_timeout(const Op& op, const Case& which) {
  constexpr double kBytesPerSecond = 1e7, kFlopsPerSecond = 1e8;
  const auto bytes = static_cast<double>(tensor_bytes(op, which.dims, which.dtype));
  const auto flops = static_cast<double>(op.cost(which.dims, which.dtype).flops);
  return Seconds(60 + bytes / kBytesPerSecond + flops / kFlopsPerSecond);
}

Isolation::Isolation(const Subject& subject, IsolationOptions options)
    : subject_(subject), options_(std::move(options)) {}

Worker& Isolation::worker() {
  if (worker_ == nullptr) {
    worker_ = std::make_unique<Worker>(options_.arguments, options_.gives_up);
    has_run_ = false;
  }
  return *worker_;
}

void Isolation::end_worker() {
  worker_.reset();
  ahead_.reset();
}

// The answer to the last request, or nothing if the caller gave up. A worker in which something
// went wrong is ended.
std::optional<Runs> Isolation::receive(const Case& which, bool is_question) {
  Worker::Answer answer = worker_->receive(timeout(which), most_bytes(*subject_.op, which));
  std::optional<Runs> runs;
  if (answer.death) runs = decided(std::move(answer.death));
  if (answer.message) {
    try {
      runs = from_message(*std::move(answer.message));
      if (!is_question && !is_sound(*runs, *subject_.op, which)) throw Nonsense("tensors of other sizes");
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      runs = decided(nonsense());
    }
  }
  if (!runs) {
    end_worker();
  } else if (!answer.message || has_died(*runs)) {
    worker_.reset();
  }
  return runs;
}

// Has the worker run a case ahead, unless something is to be said before it runs.
void Isolation::begin(const Case& following) {
  if (worker_ == nullptr || ahead_ || precheck_case(subject_, following)) return;
  const auto* const asked = find_asked(following);
  if (subject_.path->unsupported && (asked == nullptr || asked->second)) return;
  worker_->send({.fields = plain_request(following), .tensors = {}});
  ahead_ = {.which = following, .runs = {}};
}

bool Isolation::is_ahead(const Message& request) const {
  return ahead_ && request.tensors.empty() && request.fields == plain_request(ahead_->which);
}

// Waits for the case that runs ahead, if there is one, so that the worker can be asked for more.
// Returns false if the caller gave up.
bool Isolation::make_idle() {
  try {
    if (!ahead_ || ahead_->runs) return true;
    std::optional<Runs> runs = receive(Case(ahead_->which), false);
    if (!runs) return false;
    ahead_->runs = std::move(runs);
    return true;
  } catch (const std::bad_alloc&) {
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
  }
  end_worker();  // there is no memory for its answer now; it runs again when it is judged
  return true;
}

// The answer to a request, and what this process does meanwhile.
std::optional<Runs> Isolation::run_once(const Message& request, const Case& which,
                                        const std::function<void()>& meanwhile) {
  if (is_ahead(request)) {
    meanwhile();
    std::optional<Runs> runs = std::exchange(ahead_, std::nullopt)->runs;
    return runs ? std::move(runs) : receive(which, false);
  }
  if (!make_idle()) return std::nullopt;
  worker().send(request);
  has_run_ = true;
  meanwhile();
  return receive(which, request.fields.contains("ask"));
}

std::optional<Runs> Isolation::run(const Message& request, const Case& which,
                                   const std::function<void()>& meanwhile) {
  if (!is_ahead(request)) worker();
  const bool is_alone = !is_ahead(request) && !has_run_;
  std::optional<Runs> runs = run_once(request, which, meanwhile), alone;
  if (!runs) return std::nullopt;
  if (!is_alone && (has_died(*runs) ? options_.repeats_deaths : is(*runs, VerdictKind::kSkipped))) {
    worker_.reset();
    alone = run_once(request, which, [] {});
    if (!alone) return std::nullopt;
    if (!has_died(*runs)) runs = alone;  // the path had kept the memory, or spoiled the device
  }
  if (has_died(*runs) && (is_alone || alone)) runs->verdict->set_fails_alone(is_alone || has_died(*alone));
  return runs;
}

const std::pair<Case, std::optional<Verdict>>* Isolation::find_asked(const Case& which) const {
  const auto asked = std::ranges::find(asked_, which, [](const auto& one) { return one.first; });
  return asked == asked_.end() ? nullptr : &*asked;
}

std::optional<Verdict> Isolation::ask_path(const Case& which) {
  if (!subject_.path->unsupported) return std::nullopt;
  if (const auto* const asked = find_asked(which)) return asked->second;
  const std::optional<Runs> runs =
      run({.fields = {{"case", which.to_string()}, {"ask", true}}, .tensors = {}}, which, [] {});
  if (!runs) return std::nullopt;
  if (std::ssize(asked_) == kMostAsked) asked_.pop_front();
  return asked_.emplace_back(which, runs->verdict).second;
}

std::optional<Verdict> Isolation::judge(const Case& which, const JudgeOptions& options, bool keep) {
  const std::optional<Case> following = std::exchange(expected_, std::nullopt);
  if (auto refused = precheck_case(subject_, which)) return refused;
  if (!ahead_) worker();  // what keeps it from starting ends the run
  std::string why;
  try {
    const bool is_known_to_run = ahead_ && ahead_->which == which;
    auto refused = is_known_to_run ? std::nullopt : ask_path(which);
    std::erase_if(asked_, [&](const auto& asked) { return asked.first == which; });
    return refused ? refused : judge_in_worker(which, options, keep, following);
  } catch (const std::bad_alloc&) {
    why = "there is no memory to judge it";
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kDevice) throw;
    why = error.what();
  }
  end_worker();  // its answer would be taken for that to the next request
  held_.reset();
  return Verdict{.kind = VerdictKind::kSkipped, .reason = std::move(why), .outputs = {}};
}

std::optional<Verdict> Isolation::judge_in_worker(const Case& which, const JudgeOptions& options, bool keep,
                                                  const std::optional<Case>& following) {
  Message request{.fields = plain_request(which), .tensors = {}};
  request.fields["keep"] = keep;
  if (options.inputs != nullptr) request.tensors = *options.inputs;
  const auto prepare = [&] {
    held_.emplace(*subject_.op, *subject_.path, which, *cpu_);
    held_->only_hold_inputs();
    if (options.inputs != nullptr) {
      held_->set_inputs(*options.inputs);
    } else {
      held_->draw_inputs(which.seed);
    }
  };
  std::optional<Runs> runs = run(request, which, prepare);
  if (!runs) return std::nullopt;
  if (following) begin(*following);
  recipe_ = runs->recipe;
  Verdict verdict = judge_runs(subject_, *held_, *std::move(runs), options);
  if (!keep && tensor_bytes(*subject_.op, which.dims, which.dtype) > kMostHeld) held_.reset();
  return verdict;
}

std::optional<Verdict> Isolation::judge_alone(const Case& which) {
  end_worker();
  asked_.clear();
  return judge(which);
}

Worker::Answer Isolation::ask(const Case& which, const Message& request, Seconds longer) {
  if (!make_idle()) return {};
  worker().send(request);
  Worker::Answer answer = worker_->receive(timeout(which) + longer, most_bytes(*subject_.op, which));
  if (!answer.message) worker_.reset();
  return answer;
}

Message run_case(const Subject& subject, Device& device, const Message& request, Channel& channel,
                 std::optional<Problem>& kept) {
  const Case which = parse_case(request.fields.at("case").get<std::string>());
  const auto step = [&](std::string_view name) { channel.set_step(name); };
  kept.reset();
  std::optional<Runs> runs;
  try {
    step(kStartOfThreads);
    start_threads();
    const FoundMemory memory(subject, which);
    runs = ask_and_run(subject, device, which, request, step, kept);
    if (is(*runs, VerdictKind::kSkipped)) {
      runs = decided(std::move(runs->verdict));  // releases what it has of tensors
      Device* const gpu = kept && !device.host_can_access() ? &device : nullptr;
      kept.reset();
      runs->verdict = memory.blame(*std::move(runs->verdict), gpu);
    }
  } catch (const Error& error) {
    if (runs || error.kind() != Error::Kind::kDevice) throw;  // once it has run: it spoiled the GPU
    runs = decided(no_memory(error.what()));
  }
  step("what follows a call");
  if (!request.fields.value("keep", false)) kept.reset();
  return to_message(*std::move(runs));
}

}  // namespace assay
