// SPDX-License-Identifier: Apache-2.0
// Takes the times of a path that was judged, and judges every timed call, outside the clock. A path
// may remember what it has computed, stop computing after some calls, or work when nobody looks. So
//   1. Before each call its inputs change (draws.h), and its outputs hold the answer before, with
//      one bit of each byte flipped: what is left unwritten is plausible and wrong. Weights stay
//      (draws.h): an op that has nothing but weights is timed on the same inputs all the time.
//   2. After each call its outputs are hashed. A deterministic path gives equal bits for equal
//      inputs, those that were judged for the judged ones, and others for other data.
//   3. Answers to four draws that the seed chooses, and one to other data, go to the oracle. Of a
//      path that is wrong on half of the eight draws they are right once in 70. Answers of a path
//      that promises no equal bits have no other judge. So of each Cache's samples eight go there.
//      No call of it that differs from the call before in a few elements has the bits of that, if a
//      later one does not.
//   4. A first call on a draw takes no longer than later ones, and a call on other data no longer
//      than one on the judged data. With warm caches a call that differs from the call before in a
//      few elements takes no longer than one before which the same few were written as they were.
//      With cold caches a call on almost the same shape (near_shape.h) takes no longer, either, and
//      one of its answers goes to the oracle.
//   5. In the second call, and in one among each Cache's samples that the seed chooses, nothing is
//      changed by other streams while its stream is held up, nor on a CPU after it. A GPU is idle
//      when the call is complete. No part of its cache is set aside.
//   6. Inputs are intact: on a GPU after each call, on a CPU no call writes to them.
//   7. On a CPU the clock agrees with the kernel's (kernel_clock.h).
//   8. On a CPU no thread works between calls, neither before the inputs change nor from then on.
// What times alone say, by rules 4, 7 and 8 and of an idle GPU, a busy machine may say as well. It
// is a doubt, and a fault if a second Timer, with other draws, has one too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/core/draws.h"
#include "bench/core/near_shape.h"
#include "bench/core/process_watch.h"

namespace assay {

enum class Cache : uint8_t {
  kCold,  // Device::flush_cache() runs before every sample
  kWarm,  // the same call ran just before; on a CPU it may have been timed, too
};
std::string_view name_of(Cache cache);

struct Samples {
  std::vector<double> ns;           // [ns] in the order taken
  std::vector<double> other_ns;     // [ns] on other data, taken among them; with cold caches only
  std::vector<double> graph_ns;     // [ns] of a graph of the call; with cold caches only
  std::optional<NearSamples> near;  // with cold caches only
  double waits = 0;                 // [s] how long a call waited for its stream; 0 if it does not
  std::string fault;                // what a timed call did wrong; empty if nothing
  std::string doubt;                // what its times say against the path; empty if nothing
};

// So many numbers fit into what a worker answers.
inline constexpr double kMostSamples = 3e4;

// What a timed call computed.
struct TimedAnswer {
  size_t draw;
  TensorBytes outputs;  // of each the brief sample of sample_seed() alone
};

class Timer {
 public:
  // For a problem of the subject that has just been judged. Samples of a Cache go on for `least`
  // seconds, or until there are kMostSamples: more calls are judged. Throws as Draws does.
  Timer(const Subject& subject, Problem& problem, uint64_t seed, double least = 0);

  uint64_t seed() const { return seed_; }

  // Of several rounds, each takes its part of the samples, three at least, and none of other data
  // or another shape.
  // Throws what calls of the path throw.
  Samples take(Cache cache, int rounds = 1);
  // Those of rule 3, of the samples taken last. They are handed out once.
  std::vector<TimedAnswer> take_answers() { return std::exchange(answers_, {}); }

 private:
  std::unique_ptr<NearShape> near_shape();
  bool is_repeated(Cache cache) const;  // the same call, timed several times
  // [s] The inputs stay, and no call comes before, if the draw is in use.
  double time_once(Cache cache, size_t draw, bool is_in_use = false);
  double time_call(Problem& problem);  // [s]
  void call_near();
  void time_near();  // with cold caches
  void look_at_call(size_t draw);
  struct Variation {
    size_t draw;
    uint64_t seed;
    double ns;
    uint64_t before, answer;  // hashes of the outputs: of the call before, and of the timed one
  };
  Variation time_variation(size_t draw, uint64_t seed, bool changes);
  std::vector<double> time_graph();  // [ns] with cold caches; none if the call makes no graph
  std::string look_at_variations(const std::vector<Variation>& varied,
                                 const std::vector<Variation>& unvaried);
  void watch_call(size_t draw);
  void look_at_outputs(size_t draw);  // and flips them
  void look_at_inputs();
  std::string look_at_times(const std::vector<double>& first, const std::vector<double>& later,
                            const Samples& samples) const;
  // The samples whose answers are kept. A draw has `repeats` samples after each other.
  std::set<size_t> plan_answers(const std::vector<size_t>& plan, size_t repeats) const;
  void keep_answer(size_t draw);
  void blame(std::string fault);  // the first one stays
  std::vector<MemorySpan> outputs() const;
  uint64_t hash(std::span<const MemorySpan> memory) const;
  uint64_t hash_of_inputs(bool weights) const;
  uint64_t hash_on_host() const;  // of the outputs

  const Subject* subject_;
  Problem* problem_;
  uint64_t seed_;
  double least_;  // [s]
  Draws draws_;
  size_t draw_ = 0;      // in use
  uint64_t answer_ = 0;  // hash of the last outputs
  uint64_t weights_ = 0;
  int64_t set_aside_ = 0;  // [bytes] of the cache, at the beginning
  uint64_t takes_ = 0;
  std::set<size_t> is_timed_{0};  // draws
  std::map<size_t, uint64_t> hash_of_draw_;
  std::map<uint64_t, uint64_t> answer_to_;             // hashes of outputs, by those of inputs
  std::optional<uint64_t> own_answer_, other_answer_;  // the last ones
  std::vector<TimedAnswer> answers_;
  std::vector<double> busy_;         // [s] how long the device worked after the last calls
  ProcessWatch process_;             // of a CPU
  std::unique_ptr<NearShape> near_;  // while calls on it are timed
  double waits_ = 0;
  std::string fault_;
};

}  // namespace assay
