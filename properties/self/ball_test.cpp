// SPDX-License-Identifier: Apache-2.0
// Soundness of every oracle: what a right path computes lies in its ball. Right paths are sampled
// (oracles/core/arithmetic.h), for all recipes of an op, those of paths that this build lacks
// included.
#include <cmath>
#include <mutex>

#include "kernels/core/parallel.h"
#include "oracles/core/oracle.h"
#include "properties/core/problem.h"
#include "properties/core/recipes.h"
#include "properties/self/support.h"

namespace assay::test {
namespace {

// Of all threads.
struct Reach {
  void merge(const Reach& other) {
    const std::lock_guard lock(mutex);
    if (other.largest > largest) largest = other.largest, where = other.where;
    paths += other.paths;
  }

  double largest = 0;  // |sampled - computed| / radius
  std::string where;
  int64_t paths = 0;  // that were sampled
  std::mutex mutex;
};

// Compares `samples` right paths with the balls of a case, under each recipe.
void sample(const Oracle& oracle, const Case& which, int samples, Reach& reach) {
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path(which.path), which, cpu());
  problem.draw_inputs(which.seed);
  Question question = problem.question();
  for (size_t output = 0; output < op.outputs.size(); ++output) {
    std::vector<int64_t> elements(
        static_cast<size_t>(element_count(shape_of(op.outputs[output], which.dims))));
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<int64_t>(i);
    if (elements.empty()) continue;
    for (const Recipe& recipe : recipes_of(op, which.dims, which.dtype)) {
      question.recipe = recipe;
      const auto evaluate = [&](const Arithmetic& arithmetic) {
        std::vector<Ball> values(elements.size());
        oracle.formula(question, static_cast<int>(output), arithmetic, 0)(elements, values);
        return values;
      };
      const std::vector<Ball> balls = evaluate(Arithmetic(Arithmetic::Mode::kBall));
      for (int s = 0; s < samples; ++s) {
        const auto path =
            evaluate(Arithmetic(Arithmetic::Mode::kSampled, which.seed * 64 + static_cast<uint64_t>(s)));
        for (size_t i = 0; i < elements.size(); ++i) {
          const Ball& ball = balls[i];
          const double got = path[i].mid;
          if (ball.is_open()) continue;
          const double distance = std::abs(got - ball.mid);
          const bool holds = std::isfinite(ball.mid) ? distance <= ball.radius
                             : std::isnan(ball.mid)  ? std::isnan(got)
                                                     : got == ball.mid;
          EXPECT_TRUE(holds) << which.to_string() << ", " << recipe.to_string() << ", "
                             << op.outputs[output].name << "[" << elements[i] << "]: sample " << s << " is "
                             << got << ", the ball " << ball.mid << " +- " << ball.radius;
          if (!holds) return;
          if (ball.radius > 0 && distance / ball.radius > reach.largest) {
            reach.largest = distance / ball.radius;
            reach.where = which.to_string() + ", " + recipe.to_string();
          }
        }
        ++reach.paths;
      }
    }
  }
}

class BallsOf : public testing::TestWithParam<std::string> {};

TEST_P(BallsOf, HoldEverySampledPath) {
  const Op& op = registry().op(GetParam());
  const Oracle& oracle = registry().oracle(op.name);
  Reach reach;
  const char* const nightly = std::getenv("ASSAY_NIGHTLY");
  const bool is_quick = kIsSanitized || std::getenv("ASSAY_QUICK") != nullptr;
  // The nightly ones are more than 10^6 paths of all ops.
  const int cases = is_quick ? 60 : nightly == nullptr ? 300 : 40000;
  // Generators are not made for threads.
  std::mutex mutex;
  const auto draw = [&](uint64_t seed) {
    const std::lock_guard lock(mutex);
    const auto gen = arbitrary_case(op, op.paths.front(), op.name == "trimul" ? 2048 : 4096);
    return gen(rc::Random(seed), 100).value();
  };
  parallel_for(cases, 1, [&](int64_t seed, int64_t) {
    if (HasFailure()) return;
    const Case which = draw(static_cast<uint64_t>(seed));
    if (which.layout == Layout::kInflated) return;
    Reach own;
    sample(oracle, which, 2, own);
    reach.merge(own);
  });
  RecordProperty("largest", std::to_string(reach.largest));
  std::cout << op.name << ": of " << reach.paths << " sampled paths, the largest distance is "
            << reach.largest << " of the radius, in " << reach.where << "\n";
}

INSTANTIATE_TEST_SUITE_P(Op, BallsOf, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Op* op : registry().ops()) names.emplace_back(op->name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace assay::test
