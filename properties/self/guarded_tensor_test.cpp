// SPDX-License-Identifier: Apache-2.0
#include "properties/core/guarded_tensor.h"

#include <cstring>
#include <set>

#include "properties/self/support.h"

namespace assay {
namespace {

using test::cpu;

const Extents kShape{2, 3, 5};

// Accesses the bytes around element 0 by their distance to it.
std::byte& byte_at(const GuardedTensor& tensor, int64_t position) {
  return *(static_cast<std::byte*>(tensor.host_view().data) + position);
}

// The positions of all bytes that belong to elements.
std::set<int64_t> element_bytes(const GuardedTensor& tensor) {
  const TensorView view = tensor.host_view();
  const auto bytes = static_cast<int64_t>(size_of(view.dtype));
  std::set<int64_t> positions;
  for (int64_t i = 0; i < view.size(); ++i) {
    const int64_t first = offset_of(index_of(i, view.shape), view.strides) * bytes;
    for (int64_t b = 0; b < bytes; ++b) positions.insert(first + b);
  }
  return positions;
}

// Positions of bytes that the tensor must watch, from one guard's length before to one after each
// stretch of elements: all near the elements and at the far ends, and some in between.
std::set<int64_t> watched_bytes(const GuardedTensor& tensor, Layout layout) {
  const TensorView view = tensor.host_view();
  const int64_t span = span_bytes(view);
  const int64_t slice_step = view.strides[0] * static_cast<int64_t>(size_of(view.dtype));
  const int64_t slices = layout == Layout::kInflated ? view.shape[0] : 1;
  const int64_t slice_span = span - (slices - 1) * slice_step;
  std::set<int64_t> positions;
  for (int64_t slice = 0; slice < slices; ++slice) {
    for (int64_t i = -GuardedTensor::kGuardBytes; i < slice_span + GuardedTensor::kGuardBytes; ++i) {
      const int64_t from_end =
          std::min(i + GuardedTensor::kGuardBytes, slice_span + GuardedTensor::kGuardBytes - 1 - i);
      const bool is_near = from_end < 16 || (i >= -64 && i < slice_span + 64);
      if (is_near || i % 509 == 0) positions.insert(slice * slice_step + i);
    }
  }
  return positions;
}

class Guarded : public testing::TestWithParam<std::tuple<Layout, DType>> {
 protected:
  Layout layout() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  GuardedTensor make(const Extents& shape = kShape, bool is_input = true) const {
    return GuardedTensor(cpu(), shape, dtype(), layout(), is_input);
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, Guarded,
                         testing::Combine(testing::Values(Layout::kDense, Layout::kStrided,
                                                          Layout::kMisaligned, Layout::kTransposed,
                                                          Layout::kBroadcast, Layout::kInflated),
                                          testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", name_of(std::get<0>(test.param)),
                                              name_of(std::get<1>(test.param)));
                         });

TEST_P(Guarded, ElementsRoundTrip) {
  GuardedTensor tensor = make();
  tensor.poison(Poison::kNan);
  tensor.fill([](int64_t element) { return static_cast<double>(element + 1); });
  const int64_t repeated = layout() == Layout::kBroadcast ? 15 : 30;
  const TensorView view = tensor.host_view();
  ASSERT_EQ(tensor.elements(), 30);
  visit(dtype(), [&]<class T>(std::type_identity<T>) {
    const std::vector<std::byte> dense = tensor.gather();
    for (int64_t i = 0; i < 30; ++i) {
      T gathered;
      std::memcpy(&gathered, &dense[static_cast<size_t>(i) * sizeof(T)], sizeof(T));
      const T in_place = view.as<T>()[offset_of(index_of(i, kShape), view.strides)];
      ASSERT_EQ(to_double(gathered), static_cast<double>(i % repeated + 1));
      ASSERT_EQ(to_double(in_place), static_cast<double>(i % repeated + 1));
    }
    GuardedTensor other = make();
    other.poison(Poison::kNan);
    other.scatter(dense);
    EXPECT_EQ(other.gather(), dense);
    EXPECT_EQ(other.hash(), tensor.hash());
  });
}

TEST_P(Guarded, LayoutIsWhatItsNamePromises) {
  const TensorView view = make().host_view();
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  EXPECT_EQ(address % 64, layout() == Layout::kMisaligned ? size_of(dtype()) : 0);
  switch (layout()) {
    case Layout::kDense:
    case Layout::kMisaligned:
      EXPECT_EQ(view.strides, (Extents{15, 5, 1}));
      break;
    case Layout::kStrided:
      EXPECT_EQ(view.strides, (Extents{32, 8, 1}));
      break;
    case Layout::kTransposed:
      EXPECT_EQ(view.strides, (Extents{15, 1, 3}));
      break;
    case Layout::kBroadcast:
      EXPECT_EQ(view.strides, (Extents{0, 5, 1}));
      EXPECT_EQ(make(kShape, false).host_view().strides, (Extents{15, 5, 1}));
      break;
    case Layout::kInflated:
      EXPECT_EQ(view.strides, (Extents{int64_t{1} << 32, 5, 1}));
      break;
    case Layout::kMixed:
      FAIL() << "a problem draws it, no tensor has it";
  }
}

TEST_P(Guarded, EveryByteOutsideTheElementsIsGuarded) {
  GuardedTensor tensor = make(kShape, false);
  const auto elements = element_bytes(tensor);
  for (Poison poison : {Poison::kNan, Poison::kFinite}) {
    tensor.poison(poison);
    tensor.fill([](int64_t) { return 1; });
    EXPECT_FALSE(tensor.find_overwrite(poison));
    for (int64_t position : watched_bytes(tensor, layout())) {
      if (elements.contains(position)) continue;
      std::byte& byte = byte_at(tensor, position);
      byte ^= std::byte{1};
      ASSERT_TRUE(tensor.find_overwrite(poison)) << position;
      byte ^= std::byte{1};
    }
    EXPECT_FALSE(tensor.find_overwrite(poison));
  }
}

TEST_P(Guarded, HashSeesEveryByte) {
  GuardedTensor tensor = make();
  tensor.poison(Poison::kNan);
  tensor.fill([](int64_t element) { return static_cast<double>(element); });
  const uint64_t hash = tensor.hash();
  for (int64_t position : watched_bytes(tensor, layout())) {
    std::byte& byte = byte_at(tensor, position);
    byte ^= std::byte{0x80};
    ASSERT_NE(tensor.hash(), hash) << position;
    byte ^= std::byte{0x80};
  }
  EXPECT_EQ(tensor.hash(), hash);
}

TEST_P(Guarded, EmptyTensorsHaveGuards) {
  for (const Extents& shape : {Extents{0, 3, 5}, Extents{2, 0, 5}, Extents{2, 3, 0}}) {
    GuardedTensor tensor = make(shape, false);
    tensor.poison(Poison::kNan);
    tensor.fill([](int64_t) { return 1; });
    EXPECT_TRUE(tensor.gather().empty());
    EXPECT_FALSE(tensor.find_overwrite(Poison::kNan));
    byte_at(tensor, 0) = std::byte{0};
    EXPECT_TRUE(tensor.find_overwrite(Poison::kNan));
  }
}

TEST_P(Guarded, OneDimensionalTensorsRoundTrip) {
  GuardedTensor tensor = make({7});
  tensor.poison(Poison::kNan);
  tensor.fill([](int64_t element) { return static_cast<double>(element + 1); });
  visit(dtype(), [&]<class T>(std::type_identity<T>) {
    const TensorView view = tensor.host_view();
    for (int64_t i = 0; i < 7 && layout() != Layout::kInflated; ++i) {
      const double expected = layout() == Layout::kBroadcast ? 1 : static_cast<double>(i + 1);
      EXPECT_EQ(to_double(view.as<T>()[i * view.strides[0]]), expected) << i;
    }
  });
}

TEST(GuardedTensor, SaysWhereTheOverwriteIs) {
  GuardedTensor tensor(cpu(), kShape, DType::kF32, Layout::kStrided, false);
  const int64_t span = span_bytes(tensor.host_view());
  const std::pair<int64_t, const char*> places[] = {{-1, "1 bytes before the first element"},
                                                    {span, "0 bytes after the end"},
                                                    {5 * 4, "20 bytes after the first"}};
  for (const auto& [position, where] : places) {
    tensor.poison(Poison::kNan);
    byte_at(tensor, position) = std::byte{0};
    EXPECT_THAT(tensor.find_overwrite(Poison::kNan).value_or(""), testing::HasSubstr(where));
  }
}

TEST(GuardedTensor, PoisonIsNanOrFiniteInEveryDtype) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    GuardedTensor tensor(cpu(), {1}, dtype, Layout::kDense, false);
    visit(dtype, [&]<class T>(std::type_identity<T>) {
      tensor.poison(Poison::kNan);
      EXPECT_TRUE(std::isnan(to_double(*tensor.host_view().as<T>())));
      tensor.poison(Poison::kFinite);
      EXPECT_TRUE(std::isfinite(to_double(*tensor.host_view().as<T>())));
    });
  }
}

}  // namespace
}  // namespace assay
