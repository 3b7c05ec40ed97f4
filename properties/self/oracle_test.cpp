// SPDX-License-Identifier: Apache-2.0
// Every oracle against the formula of its op in exact arithmetic, oracles/<op>/self/audit.cpp.
#include "oracles/core/oracle.h"

#include <cmath>
#include <optional>

#include "oracles/core/compare.h"
#include "oracles/core/self/audit.h"
#include "properties/core/generate.h"
#include "properties/core/problem.h"
#include "properties/self/support.h"

namespace assay::test {
namespace {

// What the oracle gets wrong in one case, or nothing.
std::optional<std::string> find_error(const Oracle& oracle, const Audit& audit, const Case& which) {
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path(which.path), which, cpu());
  problem.draw_inputs(which.seed);
  const TensorBytes bytes = problem.inputs();
  const Question question = problem.question();
  std::vector<Dense> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.emplace_back(bytes[i], question.inputs[i].dtype, question.inputs[i].shape);
  }
  for (size_t output = 0; output < op.outputs.size(); ++output) {
    const Extents shape = shape_of(op.outputs[output], which.dims);
    const DType dtype = op.outputs[output].dtype.value_or(which.dtype);
    std::vector<int64_t> elements(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<int64_t>(i);
    std::vector<Expected> expected(elements.size());
    oracle.solve(question, static_cast<int>(output))(elements, expected);
    for (size_t i = 0; i < elements.size(); ++i) {
      ExactSum exact;
      audit.outputs[output](inputs, which.dims, index_of(elements[i], shape), exact);
      const auto error = [&](std::string_view what) {
        return fmt::format("{}: {}[{}] of {} is {}; the oracle says {} +- {}", what, op.outputs[output].name,
                           i, which.to_string(), exact.nearest(), expected[i].value, expected[i].bound);
      };
      if (!std::isfinite(exact.nearest())) {
        const bool agrees = std::isnan(exact.nearest()) ? std::isnan(expected[i].value)
                                                        : expected[i].value == exact.nearest();
        if (!agrees) return error("another class");
        continue;
      }
      // The oracle's own error must not matter beside what it allows a path.
      if (!(exact.distance(expected[i].value) <= 1e-6 * expected[i].bound)) return error("too far");
      if (!std::isfinite(expected[i].bound)) return error("no bound");
      const double rounded = visit(
          dtype, [&]<class T>(std::type_identity<T>) { return to_double(from_double<T>(exact.nearest())); });
      if (!is_right(expected[i], rounded, dtype)) return error("the exact sum, rounded once, is refused");
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_error(const Oracle& oracle, const Audit& audit, Regime regime) {
  const Op& op = registry().op(audit.op);
  for (DType dtype : op.paths.front().dtypes) {
    for (Layout layout : {Layout::kDense, Layout::kStrided, Layout::kTransposed, Layout::kBroadcast}) {
      for (int64_t size : {1, 3, 1000}) {
        Case which{.op = std::string(op.name),
                   .path = std::string(op.paths.front().name),
                   .dtype = dtype,
                   .dims = small_dims(op, size)};
        if (!is_legal(layout, op, which.dims)) continue;
        which.data = regime;
        which.layout = layout;
        which.seed = static_cast<uint64_t>(size);
        if (auto error = find_error(oracle, audit, which)) return error;
      }
    }
  }
  return std::nullopt;
}

TEST(OracleAudit, EveryOpHasOne) {
  const std::vector<Audit> audits = all_audits();
  for (const Op* op : registry().ops()) {
    const auto found = std::ranges::find(audits, op->name, &Audit::op);
    ASSERT_NE(found, audits.end()) << "no oracles/<op>/self/audit.cpp audits the oracle of " << op->name;
    EXPECT_EQ(found->outputs.size(), op->outputs.size()) << op->name;
  }
}

class OracleAudit : public testing::TestWithParam<Regime> {};
INSTANTIATE_TEST_SUITE_P(Regimes, OracleAudit, testing::ValuesIn(all_regimes().begin(), all_regimes().end()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(OracleAudit, AgreesWithExactArithmetic) {
  for (const Audit& audit : all_audits()) {
    const auto error = find_error(registry().oracle(audit.op), audit, GetParam());
    EXPECT_FALSE(error) << *error;
  }
}

// Each counterfeit is an oracle that is wrong somewhere.
TEST(OracleAudit, FindsEveryCounterfeit) {
  for (const Audit& audit : all_audits()) {
    const Oracle& right = registry().oracle(audit.op);
    for (const Counterfeit& counterfeit : right.counterfeits) {
      const Oracle wrong{.op = right.op, .solve = counterfeit.solve, .counterfeits = {}};
      EXPECT_TRUE(find_error(wrong, audit, Regime::kNormal)) << audit.op << ": " << counterfeit.fault;
    }
  }
}

}  // namespace
}  // namespace assay::test
