// SPDX-License-Identifier: Apache-2.0
// history: what many runs say, for tools that watch for changes.
#include "reports/render/history.h"

#include <algorithm>

#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/store/files.h"

namespace assay {

int run_history(const Options& options) {
  namespace fs = std::filesystem;
  std::vector<Record> runs;
  for (const std::string& record : options.records)
    std::ranges::move(read_runs(record), std::back_inserter(runs));
  std::erase_if(runs, [](const Record& run) { return !run.complete; });
  if (runs.empty()) {
    fmt::print(stderr, "assay: no run is complete\n");
    return kExitNothingSelected;
  }
  std::ranges::stable_sort(runs, {}, &Record::started);
  const fs::path out = options.out;
  make_output_directory(out);
  write_files_atomically(
      std::vector<NamedContent>{{out / "otava.json", render_otava(runs, options.branch)},
                                {out / "smaller-is-better.json", render_smaller_is_better(runs.back())}});
  fmt::print("{}\n{}\n", (out / "otava.json").string(), (out / "smaller-is-better.json").string());
  return kExitPassed;
}

}  // namespace assay
