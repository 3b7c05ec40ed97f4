// SPDX-License-Identifier: Apache-2.0
// An op's constants find the right dimensions and tensors, and every other order is named.
#include "kernels/core/op.h"

#include <functional>
#include <utility>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/core/common_laws.h"
#include "properties/self/support.h"

namespace assay::dynamic_conv {
namespace {

using testing::HasSubstr;

// The message of the internal error that the action throws.
std::string fault_of(const std::function<void()>& action) {
  return test::error_of(action, Error::Kind::kInternal);
}

TEST(Dims, AreFoundByConstantAndByText) {
  const Dims dims{{kB, 2}, {kT, 3}, {kD, 5}, {kW, 7}};
  EXPECT_EQ(dims, (Dims{{"b", 2}, {"t", 3}, {"d", 5}, {"w", 7}}));
  EXPECT_EQ(dims[kD], 5);
  EXPECT_EQ(dims.at("d"), 5);
}

TEST(Dims, NameWhatStandsInAnotherPlace) {
  const Dims swapped{{kB, 2}, {kD, 5}, {kT, 3}};
  EXPECT_EQ(swapped[kB], 2);
  EXPECT_THAT(fault_of([&] { (void)swapped[kT]; }), HasSubstr("'t' is not dimension 1 of (b, d, t)"));
  EXPECT_THAT(fault_of([&] { (void)swapped[kW]; }), HasSubstr("'w' is not dimension 3 of (b, d, t)"));
  EXPECT_THAT(test::error_of([&] { (void)swapped.at("w"); }), HasSubstr("the dimension 'w' is missing"));
}

// A misspelt dimension is also a missing one.
TEST(Dims, ThatAreUnknownAreNamedFirst) {
  const Op& op = ops().front();
  const auto error_of = [&](const Dims& dims) { return test::error_of([&] { require_dims(op, dims); }); };
  EXPECT_EQ(error_of({{"b", 2}, {"t", 3}, {"d", 5}, {"ww", 7}}),
            "dynamic_conv has no dimension 'ww'; it has b, t, d, w");
  EXPECT_EQ(error_of({{"b", 2}, {"t", -1}, {"d", 5}, {"width", 7}}),
            "dynamic_conv has no dimension 'width'; it has b, t, d, w");
  EXPECT_THAT(error_of({{"b", 2}, {"t", 3}, {"d", 5}}), HasSubstr("the dimension 'w' is missing"));
}

// The registry refuses a table whose entries do not stand where their constants say. It holds all
// ops of the program, so it takes those in order.
TEST(OpTable, InAnotherOrderIsRefused) {
  const auto refusal = [](const std::function<void(Op&)>& edit) {
    Op op = ops().back();
    edit(op);
    Registry registry;
    return fault_of([&] { registry.add({op}, {assay::registry().oracle(op.name)}, {}, {}); });
  };
  EXPECT_THAT(refusal([](Op& op) { std::swap(op.dims[kT.place], op.dims[kD.place]); }),
              HasSubstr("dynamic_conv_grad: the dimension 'd' stands in place 1 of the table; it is "
                        "declared in place 2"));
  EXPECT_THAT(refusal([](Op& op) { std::swap(op.inputs[grad::kDout], op.inputs[grad::kX]); }),
              HasSubstr("dynamic_conv_grad: the input 'x' stands in place 0 of the table; it is declared "
                        "in place 1"));
  EXPECT_THAT(refusal([](Op& op) { std::swap(op.outputs[grad::kDx], op.outputs[grad::kDk]); }),
              HasSubstr("dynamic_conv_grad: the output 'dk' stands in place 0 of the table; it is "
                        "declared in place 1"));
  EXPECT_THAT(refusal([](Op& op) {
                op.paths.front().edges = {{{kB, {1, "d"}}, 8}};
              }),
              HasSubstr("dynamic_conv_grad/cpu: an edge has the dimension 'd' in place 1, which the op has "
                        "not"));
  EXPECT_THAT(
      refusal([](Op& op) {
        op.paths.front().own_sizes = {{{1, "d"}, 8}};
      }),
      HasSubstr("dynamic_conv_grad/cpu: a size of its own has the dimension 'd' in place 1, which the "
                "op has not"));
}

TEST(OpTable, AnOutputWithoutBlocksIsRefused) {
  Registry registry;
  Oracle oracle = assay::registry().oracle("dynamic_conv_grad");
  oracle.block_axes.pop_back();
  EXPECT_EQ(fault_of([&] { registry.add({ops().back()}, {oracle}, {}, {}); }),
            "the oracle of 'dynamic_conv_grad' has 1 block_axes for 2 outputs");
}

TEST(Recipe, NamesSitesThatShareAPlace) {
  const Rounding hidden{.site = {5, "hidden"}, .format = Format::kF16};
  const auto sites_with = [&](const Site& sum, const std::vector<Site>& all_sums) {
    return Recipe{.storage = DType::kF32, .roundings = {hidden}, .sums = {{.site = sum}}}.sites(all_sums);
  };
  const std::string shared = "the sites 'hidden' and 'contraction' share place 5 of the formula";
  EXPECT_THAT(fault_of([&] { sites_with({5, "contraction"}, {}); }), HasSubstr(shared));
  EXPECT_THAT(fault_of([&] { sites_with({4, "projections"}, {{5, "contraction"}}); }), HasSubstr(shared));
  EXPECT_EQ(sites_with({4, "contraction"}, {{4, "contraction"}}).size(), 3u);  // and the outputs
}

// A law of one op does not take the inputs of another.
TEST(OpTable, InputsOfAnotherOpAreRefused) {
  const Op& op = ops().back();
  const Trial trial(op, op.path("cpu"), test::cpu(), {{kB, 2}, {kT, 2}, {kD, 2}}, 1);
  const Check law = scaling({{kX, 1}});
  EXPECT_EQ(trial.place_of(grad::kX), 1u);
  EXPECT_THAT(fault_of([&] { (void)law(trial); }),
              HasSubstr("dynamic_conv_grad has no input 'x' in place 0"));
}

}  // namespace
}  // namespace assay::dynamic_conv
