// SPDX-License-Identifier: Apache-2.0
// Judges the cases of a path in workers, so that nothing that the path does costs more than one
// verdict. Both processes draw the inputs. The worker runs the path (runs.h) and has it say its
// recipe. This process runs nothing of the path: it holds the expectation and judges. A worker is
// kept until something goes wrong in it.
//
//   request {"case": line, "keep": whether the tensors are wanted again}, the inputs if given
//   request {"case": line, "ask": true}, to have the path asked alone (precheck.h)
//   answer  {"verdict", "reason", "recipe"}, if the case ran also {"broken_law", "counts": of the
//           tensors by their place in Runs, "of_step"}, ...
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/judge.h"
#include "properties/core/worker.h"

namespace assay {

struct IsolationOptions {
  std::vector<std::string> arguments;  // that make this program a worker for the path
  std::optional<Seconds> timeout;      // of a case; usual_timeout() if absent
  std::function<bool()> gives_up;      // asked 20 times a second while a worker runs
  bool repeats_deaths = true;          // in a new worker, to tell whether the case dies alone
};

// [s] A minute, and more for a large case: as long as 10 MB/s and 100 MFLOP/s take.
Seconds usual_timeout(const Op& op, const Case& which);

class Isolation {
 public:
  Isolation(const Subject& subject, IsolationOptions options);

  // The verdict, or nothing if the caller gave up. A crash or a timeout in a worker that has run
  // other cases is judged again in a new one (`repeats_deaths`), and so is a case that found no
  // memory. A case for which this process finds none is skipped. Throws Error if no worker starts.
  std::optional<Verdict> judge(const Case& which, const JudgeOptions& options = {}, bool keep = false);

  // The same in a new worker.
  std::optional<Verdict> judge_alone(const Case& which);

  // Says which case judge() gets after the next one, with neither options nor `keep`. The worker
  // runs it, and its timeout begins, while this process judges the one before. Others may come
  // first. With judge_alone() it is forgotten.
  void expect(const Case& following) { expected_ = following; }

  // What ask_path() says in a worker, if the path has a function `unsupported`. Without one there
  // is nothing to say before the case runs.
  std::optional<Verdict> ask_path(const Case& which);

  // What the path said of the case that was judged last, if it said it.
  const std::optional<Recipe>& recipe() const { return recipe_; }

  // The problem that holds, in host memory, the inputs of the case that was judged last with
  // `keep`. It is handed out once.
  std::optional<Problem> take_held() { return std::exchange(held_, std::nullopt); }

  // Asks the worker for something else, about the case that it was last asked to keep. It may take
  // so much longer than a case.
  Worker::Answer ask(const Case& which, const Message& request, Seconds longer = Seconds(0));

 private:
  // A case that the worker runs before it is judged, and its answer once it was waited for.
  struct Ahead {
    Case which;
    std::optional<Runs> runs;
  };

  Worker& worker();
  Seconds timeout(const Case& which) const {
    return options_.timeout.value_or(usual_timeout(*subject_.op, which));
  }
  std::optional<Verdict> judge_in_worker(const Case& which, const JudgeOptions& options, bool keep,
                                         const std::optional<Case>& following);
  void end_worker();
  std::optional<Runs> receive(const Case& which, bool is_question);
  void begin(const Case& following);
  bool make_idle();
  bool is_ahead(const Message& request) const;
  const std::pair<Case, std::optional<Verdict>>* find_asked(const Case& which) const;
  // The answer to a request, or nothing if the caller gave up. What fails in a worker that has run
  // other cases is asked of a new one, too.
  std::optional<Runs> run(const Message& request, const Case& which, const std::function<void()>& meanwhile);
  std::optional<Runs> run_once(const Message& request, const Case& which,
                               const std::function<void()>& meanwhile);

  Subject subject_;
  IsolationOptions options_;
  std::unique_ptr<Device> cpu_ = open_cpu();
  std::unique_ptr<Worker> worker_;
  bool has_run_ = false;  // the worker has run a case
  std::optional<Recipe> recipe_;
  std::optional<Case> expected_;
  std::optional<Ahead> ahead_;
  // What the path said of cases that are to be judged soon.
  std::deque<std::pair<Case, std::optional<Verdict>>> asked_;
  // The inputs of the last case. Small ones go when the worker is busy with the next case:
  // unmapping them takes as long as waking it.
  std::optional<Problem> held_;
};

// Whether these are the tensors of a case, one for each of `infos`.
bool have_sizes_of(const TensorBytes& bytes, const std::vector<TensorInfo>& infos, const Case& which);

// The worker's side of judge(). `kept` holds the problem afterwards, if that is asked for.
Message run_case(const Subject& subject, Device& device, const Message& request, Channel& channel,
                 std::optional<Problem>& kept);

}  // namespace assay
