// SPDX-License-Identifier: Apache-2.0
#include "study/study.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/printable.h"
#include "study/alone.h"
#include "study/question.h"
#include "study/terms.h"

namespace assay::study {
namespace {

// Refuses a property of tensors that have no elements at any point, such as an absent mask.
void require_effect(const Plan& plan, const std::vector<Point>& points, const Axis& axis) {
  if (axis.kind != Axis::Kind::kProperty) return;
  for (const Point& point : points) {
    const Dims dims = dims_at(plan.axes, point, plan.dims);
    for (size_t tensor : axis.tensors) {
      if (element_count(shape_of(plan.op->inputs[tensor], dims)) > 0) return;
    }
  }
  throw usage_error("--sweep {} changes nothing: its tensor has no elements", axis.name);
}

// What all contenders of one dtype share in one draw, of one output.
struct Shared {
  std::vector<int64_t> elements = {};
  std::vector<double> exact = {}, unrounded = {}, sizes = {};
};

struct Draw {
  Dims dims;
  std::vector<Values> drawn;
  TensorBytes stored;
  std::string why_not;  // why no error can be said: "x does not fit f16"
  std::vector<Shared> outputs;
};

bool has_finite(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
}

// Names the first tensor that the dtype is too narrow for; empty if there is none.
std::string overflow(const Op& op, const std::vector<Values>& drawn, DType storage) {
  for (size_t i = 0; i < drawn.size(); ++i) {
    const DType dtype = op.inputs[i].dtype.value_or(storage);
    double largest = 0;
    for (double value : drawn[i]) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    if (!std::isfinite(read(stored(Values{largest}, dtype), dtype)[0]))
      return fmt::format("{} does not fit {}: it holds {:.3g}", op.inputs[i].name, name_of(dtype), largest);
  }
  return "";
}

Draw make_draw(const Plan& plan, const Study& study, size_t point, int64_t number, DType dtype) {
  const Point& at = study.points[point];
  const uint64_t seed_of_draw = draw_at(point, number);
  Draw draw;
  draw.dims = dims_at(plan.axes, at, plan.dims);
  draw.drawn = draw_inputs(*plan.op, plan.axes, at, draw.dims, plan.seed, seed_of_draw,
                           plan.given ? &*plan.given : nullptr);
  draw.stored = stored(*plan.op, draw.drawn, dtype);
  draw.why_not = overflow(*plan.op, draw.drawn, dtype);
  if (!draw.why_not.empty()) return draw;
  const Question as_stored = question_of(*plan.op, draw.dims, draw.stored, dtype, {.storage = dtype});
  // Two draws tell what rounding does, and how large terms are.
  constexpr int64_t kYardsticks = 2;
  const bool has_yardsticks = number < kYardsticks;
  const Question as_drawn = question_of_values(*plan.op, draw.dims, draw.drawn, {.storage = dtype});
  for (size_t output = 0; output < plan.op->outputs.size(); ++output) {
    const Extents shape = shape_of(plan.op->outputs[output], draw.dims);
    Shared shared{.elements = chosen_elements(shape, plan.seed + seed_of_draw)};
    const auto exact = [&](const Question& question) {
      return middles(evaluate(*plan.oracle, question, static_cast<int>(output),
                              Arithmetic(Arithmetic::Mode::kExact), shared.elements, row_of(shape)));
    };
    shared.exact = exact(as_stored);
    if (shared.exact.empty()) draw.why_not = "an output has no elements";
    if (!shared.exact.empty() && !has_finite(shared.exact)) draw.why_not = "no exact value is finite";
    // What a file holds has been rounded already: its numbers before that are unknown.
    if (has_yardsticks && !plan.given) shared.unrounded = exact(as_drawn);
    if (has_yardsticks)
      shared.sizes =
          sizes_of_terms(*plan.oracle, as_stored, static_cast<int>(output), shared.elements, row_of(shape));
    draw.outputs.push_back(std::move(shared));
  }
  return draw;
}

// Runs the last entry of the batch alone, and says of which outputs it has the same bits.
std::vector<std::optional<bool>> bits_alone(const Plan& plan, const Draw& draw, const Contender& contender,
                                            const TensorBytes& outputs, Runner& runner) {
  std::vector<std::optional<bool>> same(outputs.size());
  const Op& op = *plan.op;
  const Dims& dims = draw.dims;
  if (op.inputs[0].shape.empty()) return same;
  const int64_t last = dims.at(axes_of(op.inputs[0])[0]) - 1;
  const auto alone = alone_of(op, dims, draw.stored, last);
  if (!alone) return same;
  const Runner::Outputs ran = runner.run(contender, alone->dims, alone->inputs, false);
  if (!ran.why_not.empty()) return same;
  const Recipe plain{.storage = contender.dtype};
  const Question of_all = question_of(op, dims, draw.stored, contender.dtype, plain);
  const Question of_one = question_of(op, alone->dims, alone->inputs, contender.dtype, plain);
  for (size_t output = 0; output < outputs.size(); ++output) {
    if (has_part(op, output) && is_independent(op, *plan.oracle, output, of_all, of_one, last))
      same[output] = has_same_bits(outputs[output], ran.first[output], last);
  }
  return same;
}

std::vector<Cell> cells_of(const Plan& plan, const Draw& draw, size_t contender_number, size_t point,
                           int64_t number, Runner& runner) {
  const Contender& contender = plan.contenders[contender_number];
  std::vector<Cell> cells;
  const Recipe recipe = contender.recipe(draw.dims);
  const Question question = question_of(*plan.op, draw.dims, draw.stored, contender.dtype, recipe);
  Runner::Outputs ran;
  ran.why_not = draw.why_not.empty() ? contender.why_not_at(point) : draw.why_not;
  if (!contender.is_emulated() && ran.why_not.empty())
    ran = runner.run(contender, draw.dims, draw.stored, number == 0);
  std::vector<std::optional<bool>> alone(plan.op->outputs.size());
  if (!ran.second.empty()) alone = bits_alone(plan, draw, contender, ran.first, runner);
  for (size_t output = 0; output < plan.op->outputs.size(); ++output) {
    Cell cell{.point = point, .contender = contender_number, .output = output, .draw = number, .errors = {}};
    cell.why_not = ran.why_not;
    if (!cell.why_not.empty()) {
      cells.push_back(std::move(cell));
      continue;
    }
    const TensorInfo& info = plan.op->outputs[output];
    const Extents shape = shape_of(info, draw.dims);
    const DType dtype = info.dtype.value_or(contender.dtype);
    const Shared& shared = draw.outputs[output];
    const auto in = [&](const Arithmetic& arithmetic) {
      return evaluate(*plan.oracle, question, static_cast<int>(output), arithmetic, shared.elements,
                      row_of(shape));
    };
    std::vector<double> got;
    if (contender.is_emulated()) {
      got = middles(in(Arithmetic(contender.plant, kPlainestPath)));
    } else {
      for (int64_t element : shared.elements) got.push_back(read_element(ran.first[output], dtype, element));
      if (!ran.second.empty()) cell.repeats = ran.first[output] == ran.second[output];
      cell.alone = alone[output];
    }
    const std::vector<Ball> balls = in(Arithmetic(Arithmetic::Mode::kBall));
    cell.errors = errors_of({.got = got,
                             .exact = shared.exact,
                             .unrounded = shared.unrounded,
                             .balls = balls,
                             .sizes = shared.sizes},
                            dtype);
    // What the emulation does besides is outside the recipe on purpose.
    if (contender.plant.kind != Plant::Kind::kNone) {
      cell.errors.outside = 0;
      cell.errors.over_best = std::nullopt;
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace

std::string Study::label(size_t contender) const {
  return contenders[contender].label() + (emulated[contender] ? ", emulated" : "");
}

std::optional<double> Time::energy_j() const {
  return median_ns && power_w ? std::optional(*power_w * *median_ns * 1e-9) : std::nullopt;
}

Study begin(const Plan& plan) {
  Study study{.op = std::string(plan.op->name),
              .outputs = {},
              .axes = plan.axes,
              .points = points_of(plan.axes),
              .contenders = plan.contenders,
              .emulated = {},
              .recipes = {},
              .dims = plan.dims,
              .draws = plan.draws,
              .seed = plan.seed,
              .shard = plan.shard,
              .shards = plan.shards,
              .target = plan.target,
              .inputs = plan.given ? hash_of(*plan.given) : ""};
  for (const TensorInfo& output : plan.op->outputs) study.outputs.emplace_back(output.name);
  for (const Point& point : study.points) require_dims(*plan.op, dims_at(plan.axes, point, plan.dims));
  for (const Axis& axis : plan.axes) require_effect(plan, study.points, axis);
  const Dims first = dims_at(plan.axes, study.points[0], plan.dims);
  for (const Contender& contender : plan.contenders) {
    study.emulated.push_back(contender.is_emulated());
    study.recipes.push_back(contender.recipe(first).to_string());
  }
  return study;
}

Runner::Outputs Runner::run(const Contender& contender, const Dims& dims, const TensorBytes& inputs,
                            bool twice) {
  Outputs outputs;
  try {
    const Path& path = *contender.path;
    if (path.unsupported) {
      if (const auto why = path.unsupported(dims, contender.dtype)) {
        outputs.why_not = "unsupported: " + *why;
        return outputs;
      }
    }
    const bool is_same = problem_ != nullptr && &problem_->path() == &path &&
                         problem_->which().dtype == contender.dtype && problem_->which().dims == dims;
    if (!is_same) {
      problem_.reset();
      problem_ = std::make_unique<Problem>(op_, path,
                                           Case{.op = std::string(op_.name),
                                                .path = std::string(path.name),
                                                .dtype = contender.dtype,
                                                .dims = dims},
                                           device_of_(path));
    }
    problem_->set_inputs(inputs);
    problem_->poison_outputs(Poison::kNan);
    problem_->run();
    outputs.first = problem_->outputs();
    if (!twice) return outputs;
    problem_->poison_outputs(Poison::kFinite);
    problem_->run();
    outputs.second = problem_->outputs();
  } catch (const std::exception& error) {
    problem_.reset();
    outputs = {.first = {}, .second = {}, .why_not = excerpt(message_of(error))};
  }
  return outputs;
}

bool run_cells(const Plan& plan, const Study& study, Runner& runner, const Watcher& watcher) {
  for (size_t point = 0; point < study.points.size(); ++point) {
    if (static_cast<int64_t>(point) % plan.shards != plan.shard) continue;
    // Contenders of one dtype share the exact values.
    std::vector<DType> dtypes;
    for (const Contender& contender : plan.contenders) {
      if (std::ranges::count(dtypes, contender.dtype) == 0) dtypes.push_back(contender.dtype);
    }
    for (int64_t number = 0; number < plan.draws; ++number) {
      watcher.progress(point, number);
      for (DType dtype : dtypes) {
        if (watcher.gives_up()) return false;
        const Draw draw = make_draw(plan, study, point, number, dtype);
        for (size_t i = 0; i < plan.contenders.size(); ++i) {
          if (plan.contenders[i].dtype != dtype) continue;
          watcher.add(cells_of(plan, draw, i, point, number, runner));
          if (watcher.gives_up()) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace assay::study
