// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each returns an exit code of program.h and throws Error.
#pragma once

#include <vector>

#include "bench/core/measure.h"
#include "properties/core/registry.h"
#include "reports/program/options.h"

namespace assay {

int run_list(const Registry& registry, const Options& options);
int run_doctor(const Options& options);
// verify, bench, run
int run_paths(const Registry& registry, const std::vector<Sweep>& sweeps, const Options& options);
int run_specimens(const Registry& registry, const Options& options);  // verify --specimens
int run_demo(const Registry& registry, const Options& options);
int run_replay(const Registry& registry, const Options& options);
int run_draw(const Registry& registry, const Options& options);
int run_judge(const Registry& registry, const Options& options);
int run_exec(const Registry& registry, const Options& options);
int run_new(const Registry& registry, const Options& options);
int run_report(const Options& options);
int run_study(const Registry& registry, const std::vector<Sweep>& sweeps, const Options& options);
int run_compare(const Options& options);  // compare, gate
int run_calibrate(const Options& options);
int run_ab(const Options& options);
int run_merge(const Options& options);
int run_history(const Options& options);
int run_probe(const Registry& registry, const Options& options);
int run_completion(const Registry& registry, const Options& options);
int run_manual(const Options& options);

}  // namespace assay
