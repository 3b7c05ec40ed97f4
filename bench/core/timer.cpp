// SPDX-License-Identifier: Apache-2.0
#include "bench/core/timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/core/median.h"
#include "bench/core/next_call.h"
#include "properties/core/compare_outputs.h"
#include "properties/core/random.h"

namespace assay {
namespace {

constexpr uint64_t kAnswerStream = 5101, kWatchStream = 5102, kVariedStream = 5103;
constexpr double kMostIdle = 50e-6;         // [s] that it takes to see that a GPU is idle
constexpr size_t kRepeats = 3;              // timed calls after one that warms the caches
constexpr size_t kVaried = kOtherData + 1;  // one of the draws, varied

// As many calls as fill a third of a second, or a second together with what is done around
// them, but 15 to 300. 15 are enough for an interval of the median, and few enough for a slow path.
// Or as many as fill `least` seconds together with what is done around them.
size_t sample_count(double call, double all, double least) {
  const double usual = std::clamp(std::min(0.33 / std::max(call, 1e-9), 1 / all), 15.0, 300.0);
  return static_cast<size_t>(std::max(usual, std::min(least / all, kMostSamples)));
}

uint64_t chain(uint64_t hash, uint64_t next) {
  return CounterRandom(hash, next).bits(0);
}

std::string name_of_draw(size_t draw) {
  if (draw == kOtherData) return "other data";
  if (draw == kVaried) return "inputs with a few other elements";
  return draw == 0 ? "the judged inputs" : fmt::format("draw {} of its inputs", draw);
}

// What is wrong with the times on new inputs, all in [ns]. If it makes no difference whether inputs
// are new, then the shortest of seven times is above the median of the others at most once in 2^7,
// and a quarter above it more seldom.
std::string why_slower(double known, const std::vector<double>& first) {
  const double least = shortest(first, known);
  if (least <= kSlower * known || least <= known + 1e9 * kLeastSlower) return "";
  return fmt::format(
      "a call takes {:.4g} µs and more on inputs that it has not seen, and {:.4g} µs on others", least / 1e3,
      known / 1e3);
}

}  // namespace

std::string_view name_of(Cache cache) {
  switch (cache) {
    case Cache::kCold:
      return "cold";
    case Cache::kWarm:
      return "warm";
  }
  throw Error("Cache({}) is not a cache state", static_cast<int>(cache));
}

Timer::Timer(const Subject& subject, Problem& problem, uint64_t seed, double least)
    : subject_(&subject), problem_(&problem), seed_(seed), least_(least), draws_(problem, seed) {
  problem.device().flush_cache();  // what the judged calls set aside is taken back
  set_aside_ = problem.device().cache_set_aside();
  weights_ = hash_of_inputs(true);
  hash_of_draw_[0] = hash_of_inputs(false);
  problem.run();  // first touch of the outputs, code pages, clocks
  if (problem.judged() && hash_on_host() != *problem.judged())
    blame("the first call after those that were judged gives other bits, on the same inputs");
  look_at_outputs(0);
  watch_call(kOtherData);
}

// Rule 5.
void Timer::watch_call(size_t draw) {
  Device& device = problem_->device();
  draws_.use(draw_ = draw);
  const Watched watched = device.watch([&] { problem_->enqueue(); }, outputs());
  waits_ = std::max(waits_, watched.blocked);
  if (watched.escaped) {
    blame(device.host_can_access()
              ? "the outputs change after the call has returned"
              : "the outputs change while the stream of the call is held up: work escapes from it");
  }
  look_at_outputs(draw);
}

// Beside it a call of the timed problem has to find its memory, too.
std::unique_ptr<NearShape> Timer::near_shape() {
  std::unique_ptr<NearShape> near = NearShape::make(*subject_, *problem_, seed_);
  if (!near) return nullptr;
  try {
    problem_->enqueue();
    look_at_outputs(draw_);
    return near;
  } catch (const OutOfMemory&) {
    return nullptr;
  }
}

Samples Timer::take(Cache cache, int rounds) {
  using Seconds = std::chrono::duration<double>;
  time_once(Cache::kWarm, 0);  // on inputs that it knows: the others are to be new
  double call = 0, all = 0;
  for (int i = 0; i < (least_ > 0 ? 5 : 1); ++i) {  // the first one changes no inputs
    const auto start = std::chrono::steady_clock::now();
    call = time_once(cache, i % 2 == 0 ? 0 : kOtherData);
    const double one = Seconds(std::chrono::steady_clock::now() - start).count();
    all = i < 2 ? one : std::min(all, one);
  }
  const size_t repeats = is_repeated(cache) && rounds == 1 ? kRepeats : 1;
  const size_t count =
      std::max<size_t>(sample_count(call, all, least_) / static_cast<size_t>(rounds), 3) / repeats * repeats;
  // The first call on new inputs is one of cold caches. Later all draws are known.
  const bool is_cold = cache == Cache::kCold;
  const size_t others = is_cold && rounds == 1 ? std::clamp<size_t>(count / 4, 7, 25) : 0;
  const std::vector<size_t> plan = plan_draws(count / repeats, seed_ + takes_++);
  const std::set<size_t> answers = plan_answers(plan, repeats);
  const size_t other_answer = CounterRandom(seed_, kAnswerStream).bits(1) % std::max<size_t>(others, 1);
  const size_t watched = 1 + CounterRandom(seed_, kWatchStream).bits(takes_) % (count - 1);
  busy_.clear();
  process_.clear();
  if (is_cold && rounds == 1 && call <= kLongestBesideNear) near_ = near_shape();
  const std::string step = fmt::format("the timing with {} caches", name_of(cache));
  problem_->begin(step);
  Samples samples;
  std::vector<double> first, later;
  std::vector<Variation> varied, unvaried;
  const CounterRandom variation(seed_ + takes_, kVariedStream);
  for (size_t i = 0; i < count; ++i) {
    const size_t draw = plan[i / repeats];
    const bool is_known = !is_timed_.insert(draw).second;
    samples.ns.push_back(1e9 * time_once(cache, draw, i % repeats != 0 && draw_ == draw));
    (is_known ? later : first).push_back(samples.ns.back());
    if (answers.contains(i)) keep_answer(draw);
    if (i == watched) watch_call(plan[(i - 1) / repeats]);
    while (!is_cold && rounds == 1 && (i + 1) % repeats == 0 &&
           varied.size() < (i + 1) * (kDraws - 1) / count) {
      const uint64_t bits = variation.bits(1, varied.size());
      const bool changes_first = variation.bits(2, varied.size()) % 2 == 0;
      for (const bool changes : {changes_first, !changes_first})
        (changes ? varied : unvaried).push_back(time_variation(draw, bits, changes));
    }
    if (near_ && near_->calls() < (i + 1) * kNearCalls / count) time_near();
    if (samples.other_ns.size() >= (i + 1) * others / count) continue;
    samples.other_ns.push_back(1e9 * time_once(cache, kOtherData));
    if (samples.other_ns.size() == 1 + other_answer) keep_answer(kOtherData);
  }
  look_at_inputs();
  const double median = median_interval(samples.ns).median;
  if (const double busy = median_interval(busy_).median; busy > std::max(kMostIdle, 0.2e-9 * median))
    samples.doubt =
        fmt::format("the device works for {:.3g} µs after the stream of the call is idle", busy * 1e6);
  if (samples.doubt.empty()) samples.doubt = process_.fault(1e-9 * median);
  if (near_) {
    problem_->begin(near_->step());
    call_near();
    samples.near = std::exchange(near_, nullptr)->take();
    problem_->begin(step);
  }
  if (is_cold && samples.doubt.empty()) samples.doubt = look_at_times(first, later, samples);
  if (!is_cold && rounds == 1) {
    std::string unequal = look_at_variations(varied, unvaried);
    if (samples.doubt.empty()) samples.doubt = std::move(unequal);
  }
  draws_.use(draw_ = 0);
  if (is_cold && rounds == 1) samples.graph_ns = time_graph();
  samples.waits = waits_;
  samples.fault = fault_;
  return samples;
}

// Its answers are those to the judged inputs, as rule 2 has it.
std::vector<double> Timer::time_graph() {
  constexpr int kReplays = 15;
  std::vector<double> times;
  if (problem_->device().host_can_access()) return times;
  try {
    problem_->capture();
  } catch (const Error&) {  // of a call that waits for its stream, for example
    return times;
  }
  for (int i = 0; i < kReplays; ++i) times.push_back(1e9 * time_once(Cache::kCold, 0));
  problem_->release_graph();
  return times;
}

// On a GPU the inputs are hashed after each call, which leaves another cache than the call does.
bool Timer::is_repeated(Cache cache) const {
  return cache == Cache::kWarm && problem_->device().host_can_access();
}

double Timer::time_once(Cache cache, size_t draw, bool is_in_use) {
  Device& device = problem_->device();
  draw_ = draw;
  if (cache == Cache::kCold && device.host_can_access()) {
    process_.prepare([&] {
      draws_.use(draw);
      device.flush_cache();
    });
  } else if (!is_in_use) {
    draws_.use(draw);
    if (cache == Cache::kCold) device.flush_cache();
  }
  if (cache == Cache::kWarm && !is_in_use) {
    problem_->enqueue();
    for (const MemorySpan& span : outputs()) device.flip(span);
  }
  const double seconds = time_call(*problem_);
  look_at_call(draw);
  return seconds;
}

void Timer::call_near() {
  if (near_->call_and_flip()) return;
  blame("a timed call gives other bits than the next one, in " + near_->step());
}

// Then the path is as it was: the next call is not the first after one of another shape.
void Timer::time_near() {
  Device& device = problem_->device();
  const std::string step = problem_->step();
  problem_->begin(near_->step());
  call_near();
  const auto prepare = [&] {
    near_->change_inputs();
    device.flush_cache();
  };
  device.host_can_access() ? process_.prepare(prepare) : prepare();
  near_->add(1e9 * time_call(near_->problem()));
  problem_->begin(step);
  problem_->enqueue();
  look_at_outputs(draw_);
}

double Timer::time_call(Problem& problem) {
  Device& device = problem.device();
  const auto time = [&] { return device.time([&] { problem.enqueue(); }); };
  const double seconds = device.host_can_access() ? process_.call(time) : time();
  busy_.push_back(device.wait_until_idle());
  return seconds;
}

void Timer::look_at_call(size_t draw) {
  Device& device = problem_->device();
  if (!device.host_can_access()) look_at_inputs();  // a CPU remembers each touch
  look_at_outputs(draw);
  if (const int64_t bytes = device.cache_set_aside(); bytes > set_aside_)
    blame(fmt::format("a call sets {} bytes of the cache aside, also for later calls", bytes));
}

// Rule 2. The outputs are read once for both.
void Timer::look_at_outputs(size_t draw) {
  if (!hash_of_draw_.contains(draw)) hash_of_draw_[draw] = hash_of_inputs(false);
  const uint64_t question = hash_of_draw_[draw];
  uint64_t answer = 0;
  for (const MemorySpan& span : outputs()) answer = chain(answer, problem_->device().hash_and_flip(span));
  const auto [earlier, is_new] = answer_to_.try_emplace(question, answer);
  if (!is_new && earlier->second != answer && problem_->path().deterministic && fault_.empty()) {
    blame(fmt::format("a timed call on {} gives other bits than an earlier call on it{}", name_of_draw(draw),
                      against_next_call(*problem_)));
  }
  // A sum over all elements of an input does not change when they move, so only other data count,
  // and only outputs that do not agree by chance.
  constexpr int64_t kFewest = 64;
  int64_t elements = 0;
  for (const GuardedTensor& tensor : problem_->output_tensors()) elements += tensor.elements();
  (draw == kOtherData ? other_answer_ : own_answer_) = answer;
  const bool is_of_both = other_answer_ && own_answer_ == other_answer_;
  if (is_of_both && elements >= kFewest && hash_of_draw_.at(kOtherData) != hash_of_draw_.at(0))
    blame(fmt::format("a timed call on {} gives the bits of a call on other inputs", name_of_draw(draw)));
  answer_ = answer;
}

// Rule 6.
void Timer::look_at_inputs() {
  problem_->finish(problem_->device().stream());
  const auto known = hash_of_draw_.find(draw_);
  if (hash_of_inputs(true) != weights_ ||
      (known != hash_of_draw_.end() && hash_of_inputs(false) != known->second))
    blame("a timed call changed its inputs");
}

// Rule 4. So that times compare, the same comes before, a call and a look, whether inputs change.
Timer::Variation Timer::time_variation(size_t draw, uint64_t seed, bool changes) {
  draws_.use(draw);
  if (std::exchange(draw_, draw) != draw) {
    problem_->enqueue();
    look_at_call(draw);
  }
  Variation variation{.draw = draw, .seed = seed, .ns = 0, .before = answer_, .answer = 0};
  draws_.vary(seed, changes);
  variation.ns = 1e9 * time_call(*problem_);
  if (changes) hash_of_draw_.erase(draw_ = kVaried);
  look_at_call(draw_);
  variation.answer = answer_;
  return variation;
}

// Rules 4, 2 and 3: a path that takes varied inputs for the last ones gives another answer later.
std::string Timer::look_at_variations(const std::vector<Variation>& varied,
                                      const std::vector<Variation>& unvaried) {
  const CounterRandom random(seed_ + takes_, kVariedStream);
  const Variation& asked = varied[random.bits(0) % varied.size()];
  time_once(Cache::kWarm, asked.draw == 0 ? 1 : 0);
  draws_.use(asked.draw);
  draws_.vary(asked.seed);
  problem_->enqueue();
  hash_of_draw_.erase(draw_ = kVaried);
  look_at_call(draw_);
  if (asked.answer == asked.before && answer_ != asked.before)
    blame(fmt::format("a timed call on {} gives the bits of the call before", name_of_draw(kVaried)));
  const auto times = [](const std::vector<Variation>& variations) {
    std::vector<double> all;
    for (const Variation& one : variations) all.push_back(one.ns);
    return all;
  };
  return why_slower(median_interval(times(unvaried)).median, times(varied));
}

// Rule 4.
std::string Timer::look_at_times(const std::vector<double>& first, const std::vector<double>& later,
                                 const Samples& samples) const {
  if (first.size() == kDraws - 1 && later.size() >= first.size()) {
    if (std::string unequal = why_slower(median_interval(later).median, first); !unequal.empty())
      return unequal;
  }
  const MedianInterval own = median_interval(samples.ns);
  if (samples.near) {
    std::string unequal = why_slower(own, problem_->device(), *samples.near);
    if (!unequal.empty()) return unequal;
  }
  if (samples.other_ns.empty()) return "";
  const MedianInterval other = median_interval(samples.other_ns);
  if (other.low <= kSlower * own.high) return "";
  return fmt::format("a call takes {:.4g} µs on data={} from another seed, and {:.4g} µs on the judged data",
                     other.median / 1e3, other_data(seed_).to_string(), own.median / 1e3);
}

std::set<size_t> Timer::plan_answers(const std::vector<size_t>& plan, size_t repeats) const {
  const bool is_once_each = problem_->path().deterministic;  // its later answers are equal
  if (is_once_each && takes_ > 1) return {};
  const size_t choices = is_once_each ? std::set(plan.begin(), plan.end()).size() : plan.size() * repeats;
  // An oracle may have to read the whole problem for each answer.
  const size_t most = is_once_each ? 4 : 8;
  const CounterRandom random(seed_, kAnswerStream);
  std::set<size_t> answers, draws;
  for (uint64_t i = 0; answers.size() < std::min(most, choices); ++i) {
    const size_t sample = random.bits(2 + takes_, i) % (plan.size() * repeats);
    if (!is_once_each || draws.insert(plan[sample / repeats]).second) answers.insert(sample);
  }
  return answers;
}

void Timer::keep_answer(size_t draw) {
  TimedAnswer answer{.draw = draw, .outputs = {}};
  for (size_t i = 0; i < problem_->output_tensors().size(); ++i) {
    GuardedTensor& tensor = problem_->output_tensors()[i];
    tensor.download();
    answer.outputs.push_back(
        tensor.gather(brief_sample(*subject_, problem_->which(), i, sample_seed(seed_, draw))));
    for (std::byte& byte : answer.outputs.back()) byte ^= std::byte{1};  // back: they are flipped
  }
  answers_.push_back(std::move(answer));
}

void Timer::blame(std::string fault) {
  if (fault_.empty()) fault_ = std::move(fault);
}

std::vector<MemorySpan> Timer::outputs() const {
  std::vector<MemorySpan> spans;
  for (const GuardedTensor& tensor : problem_->output_tensors()) spans.push_back(tensor.device_span());
  return spans;
}

uint64_t Timer::hash(std::span<const MemorySpan> memory) const {
  uint64_t all = 0;
  for (const MemorySpan& span : memory) all = chain(all, problem_->device().hash(span));
  return all;
}

// As Problem::judged(). The hash of a device may be another one.
uint64_t Timer::hash_on_host() const {
  if (problem_->device().host_can_access()) return hash(outputs());
  TensorBytes bytes = problem_->outputs();
  return hash_of(bytes);
}

uint64_t Timer::hash_of_inputs(bool weights) const {
  const std::vector<TensorInfo>& infos = problem_->op().inputs;
  std::vector<MemorySpan> spans;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].is_weight == weights) spans.push_back(problem_->input_tensors()[i].device_span());
  }
  return hash(spans);
}

}  // namespace assay
