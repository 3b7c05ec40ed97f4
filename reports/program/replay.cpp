// SPDX-License-Identifier: Apache-2.0
// replay and exec: one case.
#include <algorithm>
#include <optional>
#include <string>

#include "properties/core/history.h"
#include "properties/core/judge.h"
#include "properties/core/precheck.h"
#include "reports/program/capsule.h"
#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/session.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

void print_numerics(const Verdict& verdict) {
  for (const OutputNumerics& output : verdict.outputs) {
    const Comparison& c = output.comparison;
    fmt::print(
        "  {:<8} {} of {} elements compared, {} wrong; error/bound {:.3g}, {:.3g} ulp, rel_l2 {}, max "
        "{:.3g}\n",
        output.name, c.count, output.elements, c.wrong, c.max_error_over_bound, c.max_ulp,
        format_number(c.rel_l2()), c.max_abs);
    const std::vector<double> parts = parts_of_bound(output.shares);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& [stage, bound, rms] = output.shares[i];
      fmt::print("    {:<16} alone: mean bound {:.3g} ({} of all stages' bounds), rms {:.3g}\n", stage, bound,
                 format_percent(parts[i]), rms);
    }
  }
}

// The reason why --shares shows nothing, if there is one.
std::optional<std::string> without_shares(const Subject& subject, const Verdict& verdict) {
  if (subject.oracle->stages.empty())
    return fmt::format("the oracle of {} does not divide its bound by stages", subject.op->name);
  const bool has_shares =
      verdict.outputs.empty() || std::ranges::any_of(verdict.outputs, [](const OutputNumerics& output) {
        return !output.shares.empty();
      });
  return has_shares ? std::nullopt
                    : std::optional<std::string>("no finite element has a bound to divide by stages");
}

}  // namespace

int run_replay(const Registry& registry, const Options& options) {
  const std::optional<Capsule> capsule =
      is_capsule(options.subject) ? std::optional(read_capsule(options.subject)) : std::nullopt;
  const Case given = capsule ? capsule->which : parse_case(options.subject);
  const Subject subject = registry.subject(given.op, given.path);
  const Case which = in_order(*subject.op, given);
  const auto device = open_device_for(*subject.path, options.device);
  std::optional<TensorBytes> inputs;
  if (capsule && !precheck(subject, which)) inputs = inputs_from(capsule->file, *subject.op, which);
  std::optional<Session> session;  // where the verdict is recorded
  if (options.json || !options.out.empty()) session.emplace(options);
  const Judged judged{.which = which,
                      .verdict = judge(subject, which, *device,
                                       {.inputs = inputs ? &*inputs : nullptr, .shares = options.shares}),
                      .shrunk_from = {}};
  if (options.shares && !options.quiet) {
    if (const auto why = without_shares(subject, judged.verdict)) fmt::print(stderr, "assay: {}\n", *why);
  }
  if (!session || !(options.json || options.quiet)) {
    fmt::print("{}: {}\n", name_of(judged.verdict.kind), judged.verdict.reason);
    print_numerics(judged.verdict);
    fmt::print("  {}\n", which.to_string());
  }
  if (session) {
    session->add_device(*device);
    session->add(subject, *device, judged);
    return session->finish();
  }
  if (is_failure(judged.verdict.kind)) return kExitNumericalFailure;
  return judged.verdict.kind == VerdictKind::kPass ? kExitPassed : kExitNothingSelected;
}

int run_exec(const Registry& registry, const Options& options) {
  const Case given = parse_case(options.subject);
  const Subject subject = registry.subject(given.op, given.path);
  const Case which = in_order(*subject.op, given);
  if (const auto refused = precheck(subject, which)) {
    throw unsupported_error("{}/{} does not serve this case: {}", which.op, which.path, refused->reason);
  }
  const TensorBytes inputs = inputs_from(read_safetensors(options.in), *subject.op, which);
  const auto device = open_device_for(*subject.path, options.device);
  Problem problem(*subject.op, *subject.path, which, *device);
  if (const auto wrong = prepare(problem, &inputs)) throw Error("{}", wrong->reason);
  problem.run();
  write_safetensors(options.out, file_of(which, named(subject.op->outputs, which, problem.outputs())));
  return kExitPassed;
}

}  // namespace assay
