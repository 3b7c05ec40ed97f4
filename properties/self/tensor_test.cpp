// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/tensor.h"

#include <set>

#include "properties/self/support.h"

namespace assay {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kBig = int64_t{1} << 40;

alignas(64) float memory[64];

ConstTensorView view(Extents shape, Extents strides, const void* data = memory) {
  return {data, DType::kF32, shape, strides};
}

TEST(Extents, CompareAndPrint) {
  const Extents extents{8, 2048, 3};
  EXPECT_EQ(extents.to_string(), "(8, 2048, 3)");
  EXPECT_EQ(Extents().to_string(), "()");
  EXPECT_NE(extents, (Extents{8, 2048}));
  EXPECT_NE(extents, (Extents{8, 2048, 4}));
  EXPECT_THAT(error_of([] { (void)Extents{1, 2, 3, 4, 5, 6, 7}; }, Error::Kind::kInternal), HasSubstr("6"));
}

TEST(Extents, CountElements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 4}), 12);
  EXPECT_EQ(element_count({3, 0, 4}), 0);
  EXPECT_EQ(element_count({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  EXPECT_THAT(error_of([] {
                element_count({kBig, kBig});
              }),
              AllOf(HasSubstr(std::to_string(kBig)), HasSubstr("2^62")));
  EXPECT_THAT(error_of([] { element_count({2, -3}); }), HasSubstr("(2, -3)"));
}

TEST(Extents, CountNoElementsWhereverTheZeroStands) {
  EXPECT_EQ(element_count({0, kBig, kBig}), 0);
  EXPECT_EQ(element_count({kBig, kBig, 0}), 0);
}

TEST(Extents, OffsetsFollowStrides) {
  EXPECT_EQ(dense_strides({2, 3, 4}), (Extents{12, 4, 1}));
  EXPECT_EQ(dense_strides({2, 0, 4}), (Extents{1, 1, 1}));
  EXPECT_EQ(index_of(23, {2, 3, 4}), (Extents{1, 2, 3}));
  EXPECT_EQ(offset_of({1, 2, 3}, {100, 10, 1}), 123);
  EXPECT_EQ(offset_of({kBig, 1}, {1 << 20, 1}), (int64_t{1} << 60) + 1);
}

TEST(Extents, IndexAndOffsetInvertEachOther) {
  test::expect_property([] {
    Extents shape;
    const int rank = *rc::gen::inRange(1, kMaxRank + 1);
    for (int i = 0; i < rank; ++i) shape.push_back(*rc::gen::inRange<int64_t>(1, 9));
    const int64_t flat = *rc::gen::inRange<int64_t>(0, element_count(shape));
    RC_ASSERT(offset_of(index_of(flat, shape), dense_strides(shape)) == flat);
  });
}

TEST(TensorView, SpansItsElements) {
  EXPECT_EQ(span_bytes(view({2, 3}, {3, 1})), 6 * 4);
  EXPECT_EQ(span_bytes(view({2, 3}, {10, 2})), 15 * 4);
  EXPECT_EQ(span_bytes(view({2, 3}, {0, 1})), 3 * 4);
  EXPECT_EQ(span_bytes(view({2, 0}, {3, 1})), 0);
  EXPECT_TRUE(view({2, 3}, {3, 1}).is_dense());
  EXPECT_TRUE(view({2, 0}, {9, 9}).is_dense());
  EXPECT_TRUE(view({1, 1}, {9, 9}).is_dense());
  EXPECT_FALSE(view({2, 3}, {4, 1}).is_dense());
}

TEST(TensorView, IsReadAsItsOwnTypeOnly) {
  EXPECT_EQ(view({1}, {1}).as<float>(), memory);
  EXPECT_THAT(error_of([] { view({1}, {1}).as<f16>(); }, Error::Kind::kInternal),
              AllOf(HasSubstr("f32"), HasSubstr("f16")));
}

TEST(TensorView, ErrorsNameTheOperandAndItsValues) {
  EXPECT_THAT(error_of([] {
                require_shape("k", view({2, 3}, {3, 1}), {2, 4});
              }),
              AllOf(HasSubstr("k "), HasSubstr("(2, 3)"), HasSubstr("(2, 4)")));
  EXPECT_THAT(error_of([] { require_dtype("k", view({2}, {1}), DType::kBF16); }),
              AllOf(HasSubstr("k "), HasSubstr("f32"), HasSubstr("bf16")));
  EXPECT_THAT(error_of([] {
                require_input("x", view({2, 3}, {1}));
              }),
              AllOf(HasSubstr("x "), HasSubstr("(2, 3)"), HasSubstr("(1)")));
  EXPECT_THAT(error_of([] {
                require_input("x", view({2, 3}, {-3, 1}));
              }),
              AllOf(HasSubstr("x "), HasSubstr("(-3, 1)")));
  EXPECT_THAT(error_of([] {
                require_input("x", view({2, 3}, {3, 1}, nullptr));
              }),
              AllOf(HasSubstr("x "), HasSubstr("(2, 3)")));
  const void* odd = reinterpret_cast<const char*>(memory) + 2;
  EXPECT_THAT(error_of([&] { require_input("x", view({2}, {1}, odd)); }),
              AllOf(HasSubstr("x "), HasSubstr(fmt::format("{}", odd)), HasSubstr("4 bytes")));
  EXPECT_THAT(error_of([] {
                require_output("out", view({2, 3}, {0, 1}));
              }),
              AllOf(HasSubstr("out "), HasSubstr("(2, 3)"), HasSubstr("(0, 1)")));
  EXPECT_THAT(error_of([] { require_disjoint("out", view({8}, {1}), "x", view({8}, {1}, memory + 7)); }),
              AllOf(HasSubstr("out "), HasSubstr("x "), HasSubstr("32 bytes")));
}

TEST(TensorView, AcceptsWhatIsLegal) {
  require_input("x", view({2, 3}, {0, 1}));
  require_input("x", view({0, 3}, {3, 1}, nullptr));
  require_output("out", view({1, 3}, {0, 1}));
  require_output("out", view({3, 2}, {1, 3}));
  require_disjoint("a", view({8}, {1}), "b", view({8}, {1}, memory + 8));
  require_disjoint("a", view({8}, {1}), "b", view({0}, {1}));
}

// require_output() may refuse interleaved views, but must never accept elements that share memory.
TEST(TensorView, OutputsNeverOverlapThemselves) {
  test::expect_property(
      [] {
        Extents shape, strides;
        for (int i = 0; i < 3; ++i) {
          shape.push_back(*rc::gen::inRange<int64_t>(1, 5));
          strides.push_back(*rc::gen::inRange<int64_t>(0, 21));
        }
        std::set<int64_t> offsets;
        for (int64_t i = 0; i < element_count(shape); ++i)
          offsets.insert(offset_of(index_of(i, shape), strides));
        const bool overlaps = static_cast<int64_t>(offsets.size()) < element_count(shape);
        bool refused = false;
        try {
          require_output("out", view(shape, strides));
        } catch (const Error&) {
          refused = true;
        }
        RC_ASSERT(refused || !overlaps);
        RC_ASSERT(!refused || strides != dense_strides(shape));
      },
      1000);
}

}  // namespace
}  // namespace assay
