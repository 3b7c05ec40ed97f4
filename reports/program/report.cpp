// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "kernels/core/read_file.h"
#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/program/session.h"
#include "reports/store/files.h"

namespace assay {

int run_report(const Options& options) {
  std::filesystem::path source(options.subject);
  std::error_code error;  // reading the file says what is wrong with it
  if (std::filesystem::is_directory(source, error)) source /= "run.json";
  const Record record = parse_record(read_file(source), source.string());
  const std::string beside = source.has_parent_path() ? source.parent_path().string() : ".";
  const std::string out = options.out.empty() ? beside : options.out;
  make_output_directory(out);
  write_reports(record, out);
  fmt::print("{}\n", (std::filesystem::path(out) / "report.html").string());
  return kExitPassed;
}

}  // namespace assay
