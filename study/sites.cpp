// SPDX-License-Identifier: Apache-2.0
#include "study/sites.h"

#include <algorithm>
#include <cmath>

#include "study/question.h"

namespace assay::study {
namespace {

// Whether a site rounds at all.
bool acts(const Rounding& rounding) {
  return rounding.format != Format::kStored && !is_split(rounding.format);
}

Sum exact_sum(Sum sum) {
  sum.factors = Format::kStored;
  sum.truncates = false;
  sum.group = 1;
  return sum;
}

// A recipe with its roundings and sums chosen one by one.
struct Parts {
  std::vector<Rounding> roundings;
  std::vector<Sum> sums;
  DType storage;
};

Recipe recipe_with(const Parts& parts, const std::function<bool(size_t)>& has_rounding,
                   const std::function<bool(size_t)>& has_sum, bool rounds_outputs) {
  Recipe recipe{.storage = rounds_outputs ? parts.storage : DType::kF64};
  for (size_t i = 0; i < parts.roundings.size(); ++i) {
    if (has_rounding(i)) recipe.roundings.push_back(parts.roundings[i]);
  }
  for (size_t i = 0; i < parts.sums.size(); ++i)
    recipe.sums.push_back(has_sum(i) ? parts.sums[i] : exact_sum(parts.sums[i]));
  return recipe;
}

Parts parts_of(const Recipe& recipe, const Oracle& oracle) {
  Parts parts{.roundings = recipe.roundings, .sums = recipe.sums, .storage = recipe.storage};
  std::erase_if(parts.roundings, [](const Rounding& rounding) { return !acts(rounding); });
  for (const Site& site : oracle.sums) {
    const bool is_named = std::ranges::any_of(parts.sums, [&](const Sum& sum) { return sum.site == site; });
    if (is_named) continue;
    Sum sum = recipe.sum(site);
    sum.site = site;
    parts.sums.push_back(sum);
  }
  return parts;
}

// The first draw at a point, before it is stored.
std::vector<Values> first_draw(const Plan& plan, const Study& study, size_t point) {
  const Point& at = study.points[point];
  return draw_inputs(*plan.op, plan.axes, at, dims_at(plan.axes, at, plan.dims), plan.seed, draw_at(point, 0),
                     plan.given ? &*plan.given : nullptr);
}

// One contender on the inputs of the first draw at a point.
class Bench {
 public:
  Bench(const Plan& plan, const Study& study, size_t point, const Contender& contender)
      : plan_(plan),
        plant_(contender.plant),
        dims_(dims_at(plan.axes, study.points[point], plan.dims)),
        inputs_(stored(*plan.op, first_draw(plan, study, point), contender.dtype)) {
    dtype_ = contender.dtype;
    for (const TensorInfo& output : plan.op->outputs) {
      elements_.push_back(chosen_elements(shape_of(output, dims_), plan.seed));
      exact_.push_back({});
    }
    for (size_t i = 0; i < elements_.size(); ++i)
      exact_[i] = values(i, {.storage = dtype_}, Arithmetic(Arithmetic::Mode::kExact));
  }

  // The square of the normwise error of a right path of the recipe.
  double square(size_t output, const Recipe& recipe) const {
    const auto got = values(output, recipe, Arithmetic(plant_, kPlainestPath));
    const auto error = normwise(got, exact_[output], exact_[output]);
    return error ? *error * *error : 0;
  }
  const Dims& dims() const { return dims_; }

 private:
  std::vector<double> values(size_t output, const Recipe& recipe, const Arithmetic& arithmetic) const {
    const Question question = question_of(*plan_.op, dims_, inputs_, dtype_, recipe);
    return middles(evaluate(*plan_.oracle, question, static_cast<int>(output), arithmetic, elements_[output],
                            row_of(shape_of(plan_.op->outputs[output], dims_))));
  }

  const Plan& plan_;
  Plant plant_;
  Dims dims_;
  DType dtype_ = DType::kF32;
  TensorBytes inputs_;
  std::vector<std::vector<int64_t>> elements_;
  std::vector<std::vector<double>> exact_;
};

bool has_errors(const Study& study, size_t point, size_t contender) {
  return std::ranges::any_of(study.cells, [&](const Cell& cell) {
    return cell.point == point && cell.contender == contender && cell.why_not.empty();
  });
}

}  // namespace

void measure_sites(const Plan& plan, const Study& study, size_t point, const std::function<bool()>& gives_up,
                   const std::function<void(SiteShare)>& add) {
  const auto every = [](size_t) { return true; };
  const auto none = [](size_t) { return false; };
  for (size_t number = 0; number < plan.contenders.size(); ++number) {
    if (!has_errors(study, point, number)) continue;
    const Contender& contender = plan.contenders[number];
    const Bench bench(plan, study, point, contender);
    const Parts parts = parts_of(contender.recipe(bench.dims()), *plan.oracle);
    for (size_t output = 0; output < plan.op->outputs.size(); ++output) {
      const auto square = [&](const auto& has_rounding, const auto& has_sum, bool rounds_outputs) {
        return bench.square(output, recipe_with(parts, has_rounding, has_sum, rounds_outputs));
      };
      const double between = square(none, none, false), all = square(every, every, true);
      const auto record = [&](std::string_view site, double alone, double without) {
        add({.point = point,
             .contender = number,
             .output = output,
             .site = std::string(site),
             .alone = std::sqrt(std::max(alone, 0.0)),
             .without = std::sqrt(without),
             .all = std::sqrt(all)});
      };
      for (size_t i = 0; i < parts.roundings.size() + parts.sums.size(); ++i) {
        if (gives_up()) return;
        const size_t first_sum = parts.roundings.size();
        const bool is_sum = i >= first_sum;
        const auto only = [at = is_sum ? i - first_sum : i](size_t j) { return j == at; };
        const auto others = [only](size_t j) { return !only(j); };
        if (is_sum) {
          record(parts.sums[i - first_sum].site.name, square(none, only, false) - between,
                 square(every, others, true));
        } else {
          record(parts.roundings[i].site.name, square(only, none, false) - between,
                 square(others, every, true));
        }
      }
      record("outputs", square(none, none, true) - between, square(every, every, false));
      record("f32 between sites", between, all);
    }
  }
}

std::vector<Distances> measure_distances(const Plan& plan, const Study& study, size_t point, Runner& runner) {
  std::vector<Distances> all;
  const Dims dims = dims_at(plan.axes, study.points[point], plan.dims);
  const auto drawn = first_draw(plan, study, point);
  for (size_t number = 0; number < plan.contenders.size(); ++number) {
    if (!has_errors(study, point, number)) continue;
    const Contender& contender = plan.contenders[number];
    const TensorBytes inputs = stored(*plan.op, drawn, contender.dtype);
    const Question question = question_of(*plan.op, dims, inputs, contender.dtype, contender.recipe(dims));
    Runner::Outputs ran;
    if (!contender.is_emulated()) ran = runner.run(contender, dims, inputs, false);
    if (!ran.why_not.empty()) continue;
    for (size_t output = 0; output < plan.op->outputs.size(); ++output) {
      const TensorInfo& info = plan.op->outputs[output];
      const Extents shape = shape_of(info, dims);
      const std::vector<int64_t> elements = chosen_elements(shape, plan.seed);
      const auto in = [&](const Arithmetic& arithmetic) {
        return middles(
            evaluate(*plan.oracle, question, static_cast<int>(output), arithmetic, elements, row_of(shape)));
      };
      const auto exact = in(Arithmetic(Arithmetic::Mode::kExact)),
                 computed = in(Arithmetic(Arithmetic::Mode::kBall));
      std::vector<double> got;
      if (contender.is_emulated()) {
        got = in(Arithmetic(contender.plant, kPlainestPath));
      } else {
        for (int64_t element : elements)
          got.push_back(read_element(ran.first[output], info.dtype.value_or(contender.dtype), element));
      }
      std::vector<double> near, far;
      double squares = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        if (!std::isfinite(got[i]) || !std::isfinite(exact[i]) || !std::isfinite(computed[i])) continue;
        near.push_back(std::abs(got[i] - computed[i]));
        far.push_back(std::abs(got[i] - exact[i]));
        squares += exact[i] * exact[i];
      }
      if (near.empty() || squares == 0) continue;
      const double rms = std::sqrt(squares / static_cast<double>(near.size()));
      const auto ordered = [&](std::vector<double>& values) {
        std::ranges::sort(values);
        std::vector<double> chosen;
        for (int k = 0; k < kDistances; ++k)
          chosen.push_back(values[static_cast<size_t>(k) * (values.size() - 1) / (kDistances - 1)] / rms);
        return chosen;
      };
      all.push_back({.point = point,
                     .contender = number,
                     .output = output,
                     .from_computed = ordered(near),
                     .from_exact = ordered(far)});
    }
  }
  return all;
}

}  // namespace assay::study
