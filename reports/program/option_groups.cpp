// SPDX-License-Identifier: Apache-2.0
#include "reports/program/option_groups.h"

#include <CLI/CLI.hpp>

#include "properties/core/generate.h"

namespace assay {

void add_selection(CLI::App& sub, Typed& typed) {
  sub.add_option("FILTER", typed.options.filters, "Globs on op or op/path: 'dynamic*', '*/cuda*'");
  add_dtype(sub, typed);
  add_device(sub, typed);
}

void add_case(CLI::App& sub, Typed& typed) {
  sub.add_option("CASE", typed.options.subject, "A case line: op/path/dtype/dim=size/...")->required();
}

CLI::Option* add_in(CLI::App& sub, Typed& typed, const char* what) {
  return sub.add_option("--in", typed.options.in, what)->type_name(kFileValue);
}

void add_shares(CLI::App& sub, Typed& typed) {
  sub.add_flag("--shares", typed.options.shares,
               "Also say bound and error of each stage performed alone, where its oracle has stages");
}

void add_dtype(CLI::App& sub, Typed& typed) {
  sub.add_option("--dtype", typed.raw.dtype, "Only this storage dtype: f32, f16 or bf16")
      ->type_name(kDTypeValue);
}

void add_device(CLI::App& sub, Typed& typed) {
  sub.add_option("--device", typed.raw.device, "all, cpu, cuda or cuda:k (default all)")
      ->type_name(kDeviceValue);
}

void add_seed(CLI::App& sub, Typed& typed) {
  sub.add_option("--seed", typed.raw.seed, "Seed of the cases (default 0)")->type_name("N");
}

void add_cases(CLI::App& sub, Typed& typed) {
  CLI::Option* const cases =
      sub.add_option("--cases", typed.raw.cases, "Cases per path (default 200)")->type_name("N");
  sub.add_option("--budget", typed.raw.budget, "Time per path instead of a number of cases: 60s, 5m")
      ->excludes(cases)
      ->type_name("TIME");
  sub.add_option("--max-elements", typed.raw.max_elements,
                 "Elements of a case's largest tensor (default " + std::to_string(kFuzzElements) +
                     ", but millions in every 64th case)")
      ->type_name("N");
  sub.add_option("--max-failures", typed.raw.max_failures,
                 "Failing cases after which a path is judged no further")
      ->type_name("N");
  sub.add_flag("--no-shrink", typed.options.no_shrink,
               "Report failures as they were drawn: look for no simpler case, judge none again");
  add_shard(sub, typed,
            "Judge the i-th of n parts of the cases: i/n, or auto: as the CI system or the cluster says");
  add_seed(sub, typed);
}

void add_shard(CLI::App& sub, Typed& typed, const char* what) {
  sub.add_option("--shard", typed.raw.shard, what)->type_name("I/N");
}

void add_isolation(CLI::App& sub, Typed& typed) {
  CLI::Option* const timeout =
      sub.add_option("--timeout", typed.raw.timeout,
                     "Time for one case: 60s, 5m (default: 60 s, and more for large cases)")
          ->type_name("TIME");
  sub.add_flag("--no-isolate", typed.raw.no_isolate,
               "Run paths in this process instead of workers, for debuggers and sanitizers")
      ->excludes(timeout);
}

CLI::Option* add_out(CLI::App& sub, Typed& typed, const char* what) {
  return sub.add_option("--out", typed.options.out, what)->type_name(kDirectoryValue);
}

void add_resume(CLI::App& sub, Typed& typed) {
  sub.add_option("--resume", typed.options.resume, "Go on with the unfinished run in this directory")
      ->excludes(sub.get_option("--out"))
      ->type_name(kDirectoryValue);
}

void add_json(CLI::App& sub, Typed& typed) {
  sub.add_flag("--json", typed.options.json, "JSON on stdout instead of a table");
}

void add_sides(CLI::App& sub, Typed& typed) {
  const char* const kSide = "A record, the folder of one, or a folder of such folders: several runs";
  sub.add_option("BEFORE", typed.options.subject, kSide)->required();
  sub.add_option("AFTER", typed.options.after, kSide)->required();
}

void add_limits(CLI::App& sub, Typed& typed) {
  sub.add_option("FILTER", typed.options.filters, "Only these: globs on op or op/path");
  sub.add_option("--slower", typed.raw.slower, "What a time may grow by (default 5%)")->type_name("SHARE");
  sub.add_option("--more-wrong", typed.raw.more_wrong,
                 "What the rms of a path's distances may grow by (default 25%)")
      ->type_name("SHARE");
  sub.add_option("--noise", typed.options.noise,
                 "What calibrate wrote: a time may grow by what it scattered, if that is more than --slower")
      ->type_name(kFileValue);
  CLI::Option* const json = sub.add_flag("--json", typed.options.json, "JSON on stdout instead of a table");
  sub.add_flag("--markdown", typed.options.markdown, "Markdown on stdout, for a pull request's comment")
      ->excludes(json);
  sub.add_flag("--all", typed.options.all, "Also print what did not change");
}

void add_policy(CLI::App& sub, Typed& typed) {
  sub.add_flag("--certain", typed.options.certain, "Fail with exit code 4 if a time is unclear");
  sub.add_flag("--allow-traded", typed.options.allow_traded,
               "Pass paths that got faster and more wrong, or slower and less wrong");
}

void add_strict_env(CLI::App& sub, Typed& typed) {
  sub.add_flag("--strict-env", typed.options.strict_env,
               "Fail with exit code 6 if the machine is unfit for timing");
}

}  // namespace assay
