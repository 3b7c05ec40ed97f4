// SPDX-License-Identifier: Apache-2.0
// Choosing among configurations of a launch by timing them, without anybody noticing.
//
// A launch says what it does to each of its buffers (its role) and gets their addresses from the tuner, so that a trial
// can run on other memory than the caller's:
//
//   role         a trial runs on           before each trial      before the real call
//   read         the caller's buffer       -                      -
//   write        memory of the tuner       -                      -
//   accumulate   memory of the tuner       zeroed                 zeroed
//   update       memory of the tuner       copied from the caller -
//   scratch      the caller's buffer       -                      -
//
// A configuration may change where and when work is done, never the order of a sum: every configuration gives the same
// bits, and which one was chosen cannot be seen in a result.
//
// Choices are kept by (tunable, key) and can be saved to a file and loaded. A file that is broken or not ours, from another
// device, another driver, another version of the tunable, or with an unknown configuration, is not trusted: what does
// not fit is left out, with its reason, and tuned again when it is needed.
//
// Threads may share a tuner. The first one to ask for a key tunes it; the others wait for its choice. So a launch must
// not call the tuner again, and must not wait for other work than its own; parallel_for() does not.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core/op.h"

namespace assay {

// The configuration that prints as `text`, or nullptr.
const Config* find_config(const Tunable& tunable, std::string_view text);

enum class Role : uint8_t {
  kRead,        // only read
  kWrite,       // overwritten, whatever it held
  kAccumulate,  // added to: zero before the launch
  kUpdate,      // read and overwritten: a second run would see the first
  kScratch,     // holds nothing before and nothing after that anybody reads
};
std::string_view name_of(Role role);  // "read"

struct Buffer {
  std::string_view name;
  Role role;
  void* data;     // on the device; only read where the role is kRead
  int64_t bytes;  // [bytes] from `data` on
};

// A buffer that spans a tensor from its first to its last element. Throws Error (internal) for an accumulated tensor with
// gaps between its elements: they would be zeroed, too, and are not the launch's. Such a launch accumulates in dense
// working memory.
Buffer buffer_of(std::string_view name, Role role, const ConstTensorView& view);

struct Launch {
  const Tunable* tunable;
  std::string key;  // of everything that decides which configuration is best or fits: see tuning_key()
  std::function<std::optional<std::string>(const Config&)>
      unfit;  // why this one cannot run here; may be empty
  std::vector<Buffer> buffers;
  // Enqueues the work on `stream`; `data[i]` is where buffer i lies in this run.
  std::function<void(const Config& config, std::span<void* const> data)> run;
  void* stream = nullptr;
};

// Dimensions, dtype, and the strides and alignment of every tensor of a call.
std::string tuning_key(const Call& call);

class Tuner {
 public:
  explicit Tuner(Device& device) : device_(&device) {}

  // Runs the launch with the forced configuration, the chosen one, or after trials with the fastest one that fits.
  // Throws Error (unsupported) if none fits or the forced one does not, Error (usage) if trials would have to run while
  // the stream is being captured into a graph. If memory for trials is short, the first that fits is chosen, but not
  // saved.
  void run(const Launch& launch);

  // From now on every launch of the tunable uses this configuration, until it is given no value.
  void force(const std::string& tunable, std::optional<Config> config);

  // Whether launches without a choice are tuned; otherwise they run the first configuration that fits.
  void allow_trials(bool allowed);

  void forget();            // all choices, as if nothing had been tuned
  int64_t trials() const;   // configurations that were timed so far
  int64_t choices() const;  // keys that were asked for

  // Throw Error (usage) if the file cannot be written or read.
  // Replaces the file as a whole: whoever reads it meanwhile, and whoever else saves to it, sees a complete one.
  void save(const std::filesystem::path& file) const;
  // Takes choices among `known` tunables, none of a broken file; says why each entry that was left out was left out.
  std::vector<std::string> load(const std::filesystem::path& file, std::span<const Tunable* const> known);

  // Watches the real calls, not the trials, in the threads that make them: several at once, if several do. It must run
  // the launch at least once.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void launch(const Launch& launch, const Config& config) = 0;
  };
  // Of all calls that begin from now on; nullptr: nobody. Not owned: it has to live until calls that have begun end.
  void observe(Observer* observer) { observer_ = observer; }

 private:
  struct Choice {
    std::mutex mutex;  // held while trials run
    std::optional<Config> config;
    int version = 0;                // of the tunable
    std::optional<double> seconds;  // of its fastest trial; none if there was no memory for trials
  };

  using Choices =
      std::map<std::pair<std::string, std::string>, std::shared_ptr<Choice>>;  // by (tunable, key)

  bool allows_trials() const;
  Choices copy_of_choices() const;
  std::shared_ptr<Choice> choice_of(const std::string& tunable, const std::string& key);
  std::optional<Config> forced(const Launch& launch) const;
  Config chosen(const Launch& launch, const std::vector<Config>& fitting);
  std::optional<std::pair<Config, double>> fastest(const Launch& launch, const std::vector<Config>& fitting);

  Device* device_;  // not owned
  std::atomic<Observer*> observer_ = nullptr;
  mutable std::mutex mutex_;  // of what follows
  Choices choices_;
  std::map<std::string, Config> forced_;  // by tunable
  bool allows_trials_ = true;
  int64_t trials_ = 0;
};

}  // namespace assay
