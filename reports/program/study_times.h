// SPDX-License-Identifier: Apache-2.0
// Judges the paths of a study and times them, in workers.
#pragma once

#include <functional>

#include "properties/core/registry.h"
#include "reports/program/options.h"
#include "reports/record/record.h"
#include "study/study.h"

namespace assay {

struct TimesWatcher {
  std::function<void(const std::string&)> progress;
  std::function<void(const DeviceRecord&)> add_device;
  std::function<void(study::Time)> add_time;
};

// On the dimensions of each point of the plan's shard: judges each path, and then has all that
// passed take turns (study::kRounds). Where the tensors of all of them do not fit the memory, fewer
// take turns at once. A path that fails has a Contender::why_not at these points, and is not called
// in this process there.
void study_times(const Registry& registry, study::Plan& plan, const study::Study& study,
                 const std::function<Device&(const Path&)>& device_of, const Options& options,
                 const TimesWatcher& watcher);

}  // namespace assay
