// SPDX-License-Identifier: Apache-2.0
// Everything readable, as pure functions of the record. Nothing here measures, judges or writes
// files.
//
// All functions take any record: empty, interrupted, without a time, with hostile text in names and
// reasons. Text from the record is escaped for its format. Bytes that cannot be shown (control
// characters, broken UTF-8) appear as \x1b. A number that was not measured appears as a dash, never
// as 0.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// The verdict on the whole run in one sentence, plain text.
std::string render_headline(const Record& record);
// "interrupted after 812 of 1,414 cases, in CASE"; empty if the record is complete.
std::string render_interruption(const Record& record);

// "a/b was not run: REASON", or "16 paths were not run: REASON" for those of one reason.
std::vector<std::string> render_not_run(const std::vector<NotRun>& paths);

// One line per op, path, dtype and device, for a terminal of `width` columns. Columns without a
// value are left out, and the least important ones until the table fits. The paths that were not
// run follow. Of specimens it has a line each, and the fault below where it does not fit beside.
// ANSI colours are used only if asked for.
std::string render_table(const Record& record, bool colour = false, int width = 120);

// For a terminal: a block for each path and kind of failure, with the smallest case, the command
// that judges it again and, below `folder`, its capsule. Reasons fit `width` columns. Empty
// if nothing failed, or if the cases are those of specimens, which fail as they should.
std::string render_failures(const Record& record, const std::string& folder, int width = 120);

// report.md fits into a pull request comment. What does not fit is counted.
inline constexpr size_t kMarkdownLimit = 64'000;  // [bytes]
std::string render_markdown(const Record& record);

// report.html is one file that needs no network and no script. A script adds a filter, sorting and
// details.
std::string render_html(const Record& record);

// junit.xml has a suite per op and path and a test per case. Fail and mistrusted count as failures,
// crashed and timeout as errors, unsupported and skipped as skipped. Of specimens it has a suite
// per op and a test each, which fails if the specimen survived.
std::string render_junit(const Record& record);

// benchmark.json has the format of Google Benchmark 1.7, with one row for each time: its median. So
// Google's compare.py, Bencher and github-action-benchmark read it. A name is the case line with
// /cache=cold_median or /cache=warm_median. The samples are in run.json alone.
std::string render_benchmark_json(const Record& record);

}  // namespace assay
