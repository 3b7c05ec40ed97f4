// SPDX-License-Identifier: Apache-2.0
// The tuner chooses among configurations of a launch by timing them. No result shows that it did.
//
// A launch tells what it does to each of its buffers (its role) and gets their addresses from the
// tuner. So a trial can run on other memory than the caller's:
//
//   role         a trial runs on           before each trial      before the real call
//   read         the caller's buffer       -                      -
//   write        memory of the tuner       -                      -
//   accumulate   memory of the tuner       zeroed                 zeroed
//   update       memory of the tuner       copied from the caller -
//   scratch      the caller's buffer       -                      -
//
// A configuration may change where and when work is done, never the order of a sum. So every
// configuration gives the same bits, and no result shows which one was chosen.
//
// Choices are kept by (tunable, key). They can be saved to a file and loaded again. load() leaves
// out every entry that does not fit and gives the reason: a broken or foreign file, another device
// or driver, another version of the tunable, or an unknown configuration. A launch without a choice
// is tuned when it is next called.
//
// Threads may share a tuner. The first thread to ask for a key tunes it, and the others wait for
// its choice. So a launch must neither call the tuner again nor wait for work other than its own;
// parallel_for() does neither.
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
  kRead,        // is only read
  kWrite,       // is overwritten, whatever it held
  kAccumulate,  // is added to: zero before the launch
  kUpdate,      // is read and overwritten: a second run would read what the first wrote
  kScratch,     // holds nothing that anybody reads before or after the launch
};
std::string_view name_of(Role role);  // "read"

struct Buffer {
  std::string_view name;
  Role role;
  void* data;     // on the device; never written if the role is kRead
  int64_t bytes;  // [bytes] from `data` on
};

// A buffer that spans a tensor from its first to its last element. Throws Error (internal) for an
// accumulated tensor with gaps between its elements: zeroing the buffer would overwrite the gaps,
// which are not the launch's. Such a launch accumulates in dense working memory.
Buffer buffer_of(std::string_view name, Role role, const ConstTensorView& view);

struct Launch {
  const Tunable* tunable;
  std::string key;  // all that decides which configuration fits and is best: tuning_key()
  // The reason why a configuration cannot run here, if there is one. An empty function allows all.
  std::function<std::optional<std::string>(const Config&)> unfit;
  std::vector<Buffer> buffers;
  // Enqueues the work on `stream`; `data[i]` is where buffer i lies in this run.
  std::function<void(const Config& config, std::span<void* const> data)> run;
  void* stream = nullptr;
};

// The forced configuration is one of the tunable's, but cannot run here.
class ForcedIsUnfit : public Error {
 public:
  template <class... Args>
  explicit ForcedIsUnfit(FormatOf<Args...> format, const Args&... args)
      : Error(Kind::kUnsupported, format, args...) {}
};

// The dimensions and dtype of a call, and the strides and alignment of each of its tensors.
std::string tuning_key(const Call& call);

class Tuner {
 public:
  explicit Tuner(Device& device) : device_(&device) {}

  // Runs the launch with the forced configuration, else with the chosen one. If there is no choice
  // yet, trials choose the fastest configuration that fits. Throws ForcedIsUnfit if the forced one
  // does not fit, Error (unsupported) if none fits or the tunable has no such one. Throws Error
  // (usage) if trials are needed while the stream is being captured into a graph. If memory for
  // trials is short, the first configuration that fits is chosen; that choice is not saved.
  void run(const Launch& launch);

  // Makes every launch of the tunable use this configuration. No value ends that.
  void force(const std::string& tunable, std::optional<Config> config);

  // Whether a launch without a choice is tuned. If not, it runs the configuration that `number`
  // counts to among those that fit, 0 for the first one, and begins again at the end.
  void allow_trials(bool allowed, uint64_t number = 0);

  void forget();            // drops all choices
  int64_t trials() const;   // configurations that were timed so far
  int64_t choices() const;  // keys that were asked for

  // Throw Error (usage) if the file cannot be written or read.
  // Replaces the file as a whole. A process that reads it or saves to it at the same time sees a
  // complete file.
  void save(const std::filesystem::path& file) const;
  // Takes choices of `known` tunables; of a broken file, none. Returns the reason for each entry
  // left out.
  std::vector<std::string> load(const std::filesystem::path& file, std::span<const Tunable* const> known);
  // The contents of such a file, and what load() does with them. Reasons name the source.
  std::string saved() const;
  std::vector<std::string> load_saved(const std::string& text, std::string_view source,
                                      std::span<const Tunable* const> known);

  // Watches real calls, not trials, in the threads that make them, possibly several at once.
  // launch() must run the launch at least once.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void launch(const Launch& launch, const Config& config) = 0;
  };
  // Observes all calls that begin from now on; nullptr ends that. The observer is not owned and
  // must outlive the calls that have begun.
  void observe(Observer* observer) { observer_ = observer; }

 private:
  struct Choice {
    std::mutex mutex;  // held while trials run
    std::optional<Config> config;
    int version = 0;                // of the tunable
    std::optional<double> seconds;  // of the fastest trial; none without memory for trials
  };

  // by (tunable, key)
  using Choices = std::map<std::pair<std::string, std::string>, std::shared_ptr<Choice>>;

  std::optional<uint64_t> number_without_trials() const;
  Choices copy_of_choices() const;
  std::shared_ptr<Choice> choice_of(const std::string& tunable, const std::string& key);
  std::optional<Config> forced(const Launch& launch) const;
  Config chosen(const Launch& launch, const std::vector<Config>& fitting);
  std::optional<std::pair<Config, double>> fastest(const Launch& launch, const std::vector<Config>& fitting);

  Device* device_;  // not owned
  std::atomic<Observer*> observer_ = nullptr;
  mutable std::mutex mutex_;  // guards what follows
  Choices choices_;
  std::map<std::string, Config> forced_;  // by tunable
  std::optional<uint64_t> number_without_trials_;
  int64_t trials_ = 0;
};

}  // namespace assay
