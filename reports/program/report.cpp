// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "kernels/core/read_file.h"
#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/program/run_folder.h"
#include "reports/program/study_folder.h"
#include "reports/render/render.h"
#include "reports/store/files.h"

namespace assay {

// Renders a record, or a study. The record of a run stays as it is; another folder gets a copy
// of it.
int run_report(const Options& options) {
  namespace fs = std::filesystem;
  if (const auto study = read_study(options.subject)) return report_study(*study, options);
  const fs::path source = record_file(options.subject);
  const fs::path beside = source.has_parent_path() ? source.parent_path() : ".";
  const fs::path out = options.out.empty() ? beside : fs::path(options.out);
  require_no_run(beside);
  require_no_run(out);
  const Record record = read_record(source);
  make_output_directory(out);
  const bool is_journal = source.extension() == ".jsonl";
  std::error_code error;
  const bool in_place = fs::equivalent(beside, out, error);
  write_reports(record, in_place ? std::string() : is_journal ? record_text(record) : read_file(source), out);
  if (const std::string end = render_interruption(record); !end.empty())
    fmt::print(stderr, "assay: {}: {}\n", options.subject, end);
  fmt::print("{}\n", (out / "report.html").string());
  return kExitPassed;
}

}  // namespace assay
