// SPDX-License-Identifier: Apache-2.0
#include "properties/core/compare_outputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/core/parallel.h"
#include "properties/core/certificate.h"
#include "properties/core/conformity.h"
#include "properties/core/random.h"
#include "properties/core/regime.h"

namespace assay {
namespace {

constexpr uint64_t kSampleStream = 2000;

struct Answered {
  std::vector<int64_t> elements;
  std::vector<Expected> expected;
  std::vector<double> got;
  Comparison comparison;
};

// Calls visit(number of the range, its first element, its length) for ranges of kGrain elements, in
// parallel.
constexpr int64_t kGrain = 2048;
template <class Visit>
void for_ranges(size_t count, const Visit& visit) {
  const auto all = static_cast<int64_t>(count);
  parallel_for(all, kGrain, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kGrain) {
      const auto first = static_cast<size_t>(begin);
      visit(static_cast<size_t>(begin / kGrain), first,
            static_cast<size_t>(std::min(end, begin + kGrain)) - first);
    }
  });
}

std::vector<Ball> evaluate(const Oracle& oracle, const Question& question, size_t output,
                           const Arithmetic& arithmetic, std::span<const int64_t> elements) {
  std::vector<Ball> values(elements.size());
  if (elements.empty()) return values;
  const Evaluate formula = oracle.formula(question, static_cast<int>(output), arithmetic, 0);
  for_ranges(elements.size(), [&](size_t, size_t first, size_t count) {
    formula(elements.subspan(first, count), std::span(values).subspan(first, count));
  });
  return values;
}

// The balls of the elements, and their exact values. A brief comparison reports no errors, so the
// middles of the balls do as exact values.
std::vector<Expected> expected_of(const Oracle& oracle, const Question& question, size_t output,
                                  std::span<const int64_t> elements, bool is_brief) {
  const auto in = [&](Arithmetic::Mode mode) {
    return evaluate(oracle, question, output, Arithmetic(mode), elements);
  };
  const std::vector<Ball> balls = in(Arithmetic::Mode::kBall);
  const std::vector<Ball> exact = is_brief ? balls : in(Arithmetic::Mode::kExact);
  std::vector<Expected> expected(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    const bool is_open = balls[i].is_open();
    expected[i] = {.value = balls[i].mid,
                   .bound = is_open ? 0 : balls[i].radius,
                   .exact = exact[i].mid,
                   .is_open = is_open,
                   .is_signed = balls[i].is_signed && balls[i].mid == 0 && balls[i].radius == 0};
  }
  return expected;
}

Answered compare(const Oracle& oracle, const Question& question, size_t output, std::vector<int64_t> elements,
                 DType dtype, std::span<const std::byte> got, bool is_brief) {
  Answered answered{.elements = std::move(elements), .expected = {}, .got = {}, .comparison = {}};
  answered.expected = expected_of(oracle, question, output, answered.elements, is_brief);
  answered.got.resize(answered.elements.size());
  const bool is_gathered = got.size() == answered.elements.size() * size_of(dtype);
  // Parts are merged in order, so sums do not depend on the number of threads.
  std::vector<Comparison> parts((answered.elements.size() + kGrain - 1) / kGrain);
  for_ranges(answered.elements.size(), [&](size_t range, size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      const int64_t element = answered.elements[i];
      answered.got[i] = read_element(got, dtype, is_gathered ? static_cast<int64_t>(i) : element);
      parts[range].add(answered.expected[i], answered.got[i], element, dtype);
    }
  });
  for (const Comparison& part : parts) answered.comparison.merge(part);
  return answered;
}

std::string pass_reason(const std::vector<OutputNumerics>& outputs, double largest_bound) {
  int64_t compared = 0;
  int64_t open = 0;
  int64_t all = 0;
  double worst = 0;
  for (const OutputNumerics& output : outputs) {
    compared += output.comparison.count;
    open += output.comparison.open;
    all += output.elements;
    worst = std::max(worst, output.comparison.max_error_over_bound);
  }
  const std::string left_out = open == 0 ? "" : fmt::format("; {} of them may be anything", open);
  const std::string elements = compared == all ? fmt::format("all {} elements", all)
                                               : fmt::format("{} sampled of {} elements", compared, all);
  return largest_bound > 0 ? fmt::format("{} within {:.3g} of their bounds{}", elements, worst, left_out)
                           : fmt::format("{} are the computed values to the bit{}", elements, left_out);
}

// "0.89 +- 1.2e-07"
std::string expected_text(const WorstElement& element) {
  const std::string text = fmt::format("{:.9g}", element.want);
  if (element.bound > 0) return fmt::format("{} +- {:.3g}", text, element.bound);
  return std::isfinite(element.want) ? text + " to the bit" : text;
}

// Rules 8 and 9 for one output.
std::optional<std::string> find_numerical_error(const OutputNumerics& output, const Extents& shape) {
  const Comparison& c = output.comparison;
  if (c.wrong > 0) {
    return fmt::format("{} of {} compared elements of {} are wrong; the worst is {} = {:.9g}, expected {}",
                       c.wrong, c.count, output.name, element_name(output.name, c.worst->element, shape),
                       c.worst->got, expected_text(*c.worst));
  }
  if (output.obeys_rms_law && output.conformity->rms > output.conformity->allowed) {
    return fmt::format(
        "{} differs from what the recipe computes by {:.3g} (rms); right paths differ by {:.3g}, and at most "
        "by {:.3g}",
        output.name, output.conformity->rms, output.conformity->predicted, output.conformity->allowed);
  }
  if (output.conformity && output.conformity->farthest > most_farthest(output.conformity->rows)) {
    return fmt::format(
        "{} is more than twice as far from what the recipe computes as each of {} right paths, in {} of {} "
        "rows; right paths are in at most {}",
        output.name, kSamples, output.conformity->farthest, output.conformity->rows,
        most_farthest(output.conformity->rows));
  }
  return std::nullopt;
}

std::vector<Share> shares_of(const Oracle& oracle, const Question& question, size_t output,
                             const Answered& answered) {
  std::vector<int64_t> finite;
  for (size_t i = 0; i < answered.elements.size(); ++i) {
    const Expected& expected = answered.expected[i];
    if (!expected.is_open && std::isfinite(expected.value)) finite.push_back(answered.elements[i]);
  }
  std::vector<Share> shares;
  if (finite.empty()) return shares;
  const auto count = static_cast<double>(finite.size());
  const auto in = [&](const Arithmetic& arithmetic) {
    return evaluate(oracle, question, output, arithmetic, finite);
  };
  const std::vector<Ball> exact = in(Arithmetic(Arithmetic::Mode::kExact));
  for (size_t stage = 0; stage < oracle.stages.size(); ++stage) {
    const auto only = static_cast<int>(stage);
    double radii = 0, squares = 0;
    for (const Ball& ball : in(Arithmetic::of_stage(Arithmetic::Mode::kBall, only))) radii += ball.radius;
    const std::vector<Ball> path = in(Arithmetic::of_stage(Arithmetic::Mode::kSampled, only));
    for (size_t i = 0; i < path.size(); ++i) {
      const double error = path[i].mid - exact[i].mid;
      squares += error * error;
    }
    shares.push_back({std::string(oracle.stages[stage]), radii / count, std::sqrt(squares / count)});
  }
  return shares;
}

// The certificate for one output: a wrong answer that the comparison would accept, if there is one.
std::optional<std::string> find_accepted_fault(const Subject& subject, const Question& question,
                                               size_t output, DType dtype, const Extents& shape,
                                               const Answered& answered, double noise,
                                               const TensorBytes& previous) {
  std::vector<double> held;
  if (!previous.empty()) {
    for (int64_t element : answered.elements) held.push_back(read_element(previous[output], dtype, element));
  }
  return accepted_fault({.oracle = *subject.oracle,
                         .question = question,
                         .output = static_cast<int>(output),
                         .shape = shape,
                         .dtype = dtype,
                         .elements = answered.elements,
                         .expected = answered.expected,
                         .noise = noise,
                         .previous = held});
}

// What a comparison says of an output.
Brief::Totals to_judge(const Subject& subject, const Outputs& outputs, size_t output) {
  const bool is_total = outputs.brief && subject.oracle->block_axes[output] == 0;
  return is_total ? outputs.brief->totals : Brief::Totals::kJudged;
}

// Compares one output and adds its numerics to the verdict. The first fault gives the reason.
// Returns the largest bound of an element.
double compare_output(const Subject& subject, const Problem& problem, const Outputs& outputs, size_t output,
                      bool shares, Verdict& verdict) {
  const Case& which = problem.which();
  const TensorInfo& info = subject.op->outputs[output];
  const Extents shape = shape_of(info, which.dims);
  const DType dtype = info.dtype.value_or(which.dtype);
  const Question question = problem.question(outputs.recipe);
  std::vector<int64_t> elements = outputs.brief
                                      ? brief_sample(subject, which, output, outputs.brief->seed)
                                      : compared_elements(shape, which.seed, subject.oracle->shares_rows);
  const Answered answered = compare(*subject.oracle, question, output, std::move(elements), dtype,
                                    outputs.got[output], outputs.brief.has_value());
  double largest_bound = 0;
  for (const Expected& expected : answered.expected) largest_bound = std::max(largest_bound, expected.bound);
  OutputNumerics numerics{
      .name = std::string(info.name), .comparison = answered.comparison, .elements = element_count(shape)};
  if (to_judge(subject, outputs, output) == Brief::Totals::kJudged) {
    numerics.conformity = conformity_of({.oracle = *subject.oracle,
                                         .question = question,
                                         .output = static_cast<int>(output),
                                         .shape = shape,
                                         .dtype = dtype,
                                         .elements = answered.elements,
                                         .expected = answered.expected,
                                         .got = answered.got});
  }
  if (spreads_errors(which) && numerics.conformity) {
    numerics.obeys_rms_law = numerics.conformity->count >= kFewestOfLaw && numerics.conformity->doubts == 0;
  } else if (numerics.conformity) {
    numerics.conformity->rows = numerics.conformity->farthest = 0;
  }
  if (shares) numerics.shares = shares_of(*subject.oracle, question, output, answered);
  verdict.outputs.push_back(numerics);
  if (auto error = find_numerical_error(numerics, shape)) {
    if (verdict.kind == VerdictKind::kFail) return largest_bound;
    verdict.kind = VerdictKind::kFail;
    verdict.reason = *std::move(error);
    return largest_bound;
  }
  if (outputs.brief) return largest_bound;
  // Four times what a sampled right path did to any element.
  const double noise = numerics.conformity ? 4 * numerics.conformity->largest : 0;
  const auto accepted =
      find_accepted_fault(subject, question, output, dtype, shape, answered, noise, outputs.previous);
  if (accepted && verdict.kind == VerdictKind::kPass) {
    verdict.kind = VerdictKind::kUninformative;
    verdict.reason = fmt::format("the comparison of {} would also accept: {}", info.name, *accepted);
  }
  return largest_bound;
}

Verdict skipped(std::string reason) {
  return {.kind = VerdictKind::kSkipped, .reason = std::move(reason), .outputs = {}};
}

std::vector<int64_t> all_elements(int64_t count) {
  std::vector<int64_t> elements(static_cast<size_t>(count));
  std::iota(elements.begin(), elements.end(), int64_t{0});
  return elements;
}

// Each once.
std::vector<int64_t> ascending(std::vector<int64_t> elements) {
  std::ranges::sort(elements);
  const auto repeated = std::ranges::unique(elements);
  elements.erase(repeated.begin(), repeated.end());
  return elements;
}

}  // namespace

Verdict compare_outputs(const Subject& subject, const Problem& problem, const Outputs& outputs, bool shares) {
  Verdict result;
  double largest_bound = 0;
  for (size_t i = 0; i < subject.op->outputs.size(); ++i) {
    if (to_judge(subject, outputs, i) == Brief::Totals::kLeftOut) continue;
    largest_bound = std::max(largest_bound, compare_output(subject, problem, outputs, i, shares, result));
  }
  if (result.kind != VerdictKind::kPass) return result;
  const bool is_empty =
      std::ranges::all_of(result.outputs, [](const auto& output) { return output.elements == 0; });
  if (is_empty) return skipped("empty: there is nothing to compare");
  const bool is_open = std::ranges::all_of(
      result.outputs, [](const auto& output) { return output.comparison.open == output.comparison.count; });
  if (is_open)
    return skipped("open: infinities or NaNs, given or by overflow, let right paths differ everywhere");
  result.reason = pass_reason(result.outputs, largest_bound);
  return result;
}

std::vector<int64_t> compared_elements(const Extents& shape, uint64_t seed, bool whole_rows) {
  const int64_t count = element_count(shape);
  if (count <= kCompareAll) return all_elements(count);
  // Index lines along each axis. The other indices take every combination of these places.
  const int rank = shape.rank();
  const Extents strides = dense_strides(shape);
  constexpr int64_t kLongestLine = 4096;
  const auto places = [&](int axis) {
    std::vector<int64_t> at{
        0, 1, kTileEdge - 1, kTileEdge, shape[axis] - 1 - kTileEdge, shape[axis] - 2, shape[axis] - 1};
    std::erase_if(at, [&](int64_t i) { return i < 0 || i >= shape[axis]; });
    return at;
  };
  std::vector<int64_t> elements;
  for (int axis = 0; axis < rank; ++axis) {
    std::vector<int64_t> starts{0};
    for (int other = 0; other < rank; ++other) {
      if (other == axis) continue;
      std::vector<int64_t> further;
      for (int64_t start : starts) {
        for (int64_t place : places(other)) further.push_back(start + place * strides[other]);
      }
      starts = std::move(further);
    }
    const int64_t step = std::max<int64_t>(1, shape[axis] / kLongestLine);
    for (int64_t start : starts) {
      for (int64_t i = 0; i < shape[axis]; i += step) elements.push_back(start + i * strides[axis]);
    }
  }
  const CounterRandom random(seed, kSampleStream);
  const int64_t run = whole_rows ? std::min(shape[rank - 1], kRandomSample) : 1;
  for (int64_t i = 0; i < kRandomSample / run; ++i) {
    const auto at = random.bits(static_cast<uint64_t>(i)) % static_cast<uint64_t>(count / run);
    for (int64_t e = 0; e < run; ++e) elements.push_back(static_cast<int64_t>(at) * run + e);
  }
  return ascending(std::move(elements));
}

std::vector<int64_t> brief_sample(const Extents& shape, uint64_t seed, int block_axes, bool whole_rows) {
  const int64_t count = element_count(shape);
  if (count <= kBriefSample) return all_elements(count);
  int64_t block = 1;
  for (int axis = block_axes; axis < shape.rank(); ++axis) block *= shape[axis];
  const int64_t of_block = std::min(block, kBriefSample / kBriefBlocks);
  const int64_t run = whole_rows ? std::min(shape[shape.rank() - 1], of_block) : 1;
  const CounterRandom random(seed, kSampleStream);
  uint64_t drawn = 0;
  const auto below = [&](int64_t end) {
    return static_cast<int64_t>(random.bits(drawn++) % static_cast<uint64_t>(end));
  };
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < kBriefSample / of_block; ++i) {
    const int64_t first = below(count / block) * block;
    for (int64_t r = 0; r < of_block / run; ++r) {
      const int64_t at = below((block + run - 1) / run) * run;
      for (int64_t e = at; e < std::min(at + run, block); ++e) elements.push_back(first + e);
    }
  }
  return ascending(std::move(elements));
}

std::vector<int64_t> brief_sample(const Subject& subject, const Case& which, size_t output, uint64_t seed) {
  return brief_sample(shape_of(subject.op->outputs[output], which.dims), seed,
                      subject.oracle->block_axes[output], subject.oracle->shares_rows);
}

}  // namespace assay
