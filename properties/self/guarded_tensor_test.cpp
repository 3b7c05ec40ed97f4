// SPDX-License-Identifier: Apache-2.0
#include "properties/core/guarded_tensor.h"

#include <sys/mman.h>

#include <csignal>
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

// Positions of bytes that the tensor must watch, in the pages of each stretch of elements.
std::set<int64_t> watched_bytes(const GuardedTensor& tensor, Layout layout) {
  const TensorView view = tensor.host_view();
  const int64_t span = span_bytes(view);
  const int64_t slice_step = view.strides[0] * static_cast<int64_t>(size_of(view.dtype));
  const int64_t slices = layout == Layout::kInflated ? view.shape[0] : 1;
  const int64_t slice_span = span - (slices - 1) * slice_step;
  const int64_t page = cpu().page_bytes();
  const int64_t in_page = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data)) % page;
  const int64_t end = (in_page + slice_span + page - 1) / page * page - in_page;
  std::set<int64_t> positions;
  for (int64_t slice = 0; slice < slices; ++slice) {
    for (int64_t i = -in_page; i < end; ++i) {
      const int64_t from_end = std::min(i + in_page, end - 1 - i);
      const bool is_near = from_end < 16 || (i >= -64 && i < slice_span + 64);
      if (is_near || i % 509 == 0) positions.insert(slice * slice_step + i);
    }
  }
  return positions;
}

// Reads one byte, or writes it.
void read(const GuardedTensor& tensor, int64_t position) {
  static_cast<void>(
      *static_cast<const volatile char*>(static_cast<const char*>(tensor.host_view().data) + position));
}
void write(const GuardedTensor& tensor, int64_t position) {
  *(static_cast<volatile char*>(tensor.host_view().data) + position) = 1;
}

class Guarded : public testing::TestWithParam<std::tuple<Layout, DType, Flush>> {
 protected:
  Layout layout() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  Flush flush() const { return std::get<2>(GetParam()); }
  GuardedTensor make(const Extents& shape = kShape, bool is_input = true) const {
    return GuardedTensor(cpu(), shape, dtype(), layout(), is_input, flush());
  }
};
INSTANTIATE_TEST_SUITE_P(
    Layouts, Guarded,
    testing::Combine(testing::Values(Layout::kDense, Layout::kStrided, Layout::kMisaligned,
                                     Layout::kTransposed, Layout::kBroadcast, Layout::kInflated),
                     testing::Values(DType::kF32, DType::kBF16), testing::Values(Flush::kEnd, Flush::kStart)),
    [](const auto& test) {
      return fmt::format("{}_{}_{}", name_of(std::get<0>(test.param)), name_of(std::get<1>(test.param)),
                         std::get<2>(test.param) == Flush::kEnd ? "end" : "start");
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
    const std::vector<int64_t> sample{3, 4, 17, 29};
    const std::vector<std::byte> sampled = tensor.gather(sample);
    ASSERT_EQ(sampled.size(), sample.size() * sizeof(T));
    for (size_t i = 0; i < sample.size(); ++i) {
      const T* const of_all = reinterpret_cast<const T*>(dense.data()) + sample[i];
      EXPECT_EQ(std::memcmp(&sampled[i * sizeof(T)], of_all, sizeof(T)), 0);
    }
  });
}

TEST_P(Guarded, LayoutIsWhatItsNamePromises) {
  const TensorView view = make().host_view();
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  EXPECT_TRUE(layout() != Layout::kDense || address % 64 == 0);
  EXPECT_TRUE(layout() != Layout::kMisaligned || address % 16 != 0);
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

// The last byte before the fence and the first behind it, at the flush end of the tensor.
TEST_P(Guarded, OneEndLiesAtAFence) {
  GuardedTensor tensor = make();
  const int64_t span = span_bytes(tensor.host_view());
  const bool is_at_end = flush() == Flush::kEnd;
  // 120 bytes of f32 or 60 of bf16: a misaligned tensor that ends at the fence is misaligned.
  const int64_t gap = layout() == Layout::kDense && is_at_end         ? (64 - span % 64) % 64
                      : layout() == Layout::kMisaligned && !is_at_end ? static_cast<int64_t>(size_of(dtype()))
                                                                      : 0;
  const int64_t inside = is_at_end ? span + gap - 1 : -gap, outside = is_at_end ? span + gap : -gap - 1;
  tensor.poison(Poison::kNan);
  read(tensor, inside);
  write(tensor, inside);
  EXPECT_EQ(tensor.find_touch("x"), std::nullopt);
  const std::string where =
      is_at_end ? fmt::format("past the end of x: {} bytes after the end", gap)
                : fmt::format("before the start of x: {} bytes before the first element", gap + 1);
  for (int again = 0; again < 2; ++again) {
    read(tensor, outside);
    EXPECT_EQ(tensor.find_touch("x"), "read " + where);
    write(tensor, outside);
    EXPECT_EQ(tensor.find_touch("x"), "wrote " + where);
    EXPECT_EQ(tensor.find_touch("x"), std::nullopt);
  }
}

TEST_P(Guarded, ProtectedTensorsNoticeWritesUntilTheyAreSetAgain) {
  GuardedTensor tensor = make();
  tensor.poison(Poison::kNan);
  tensor.fill([](int64_t) { return 1; });
  const int64_t last = span_bytes(tensor.host_view()) - 1;
  for (int again = 0; again < 2; ++again) {
    tensor.protect();
    for (int64_t position : {int64_t{0}, last}) {
      read(tensor, position);
      EXPECT_EQ(tensor.find_touch("x"), std::nullopt);
      write(tensor, position);
      EXPECT_EQ(tensor.find_touch("x"),
                fmt::format("wrote to x, {} bytes after the first element", position));
    }
    tensor.fill([](int64_t) { return 1; });
    write(tensor, 0);
    EXPECT_EQ(tensor.find_touch("x"), std::nullopt);
  }
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

// Each slice along the inflated axis lies between fences of its own.
TEST(GuardedTensor, AnyAxisCanBeInflated) {
  constexpr int64_t k31 = int64_t{1} << 31, k32 = int64_t{1} << 32;
  const Extents shape{2, 3, 4};
  EXPECT_EQ(inflatable_axes(shape), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(inflatable_axes({1, 65, 0}), std::vector<int>());
  for (int axis = 0; axis < 3; ++axis) {
    for (int64_t stride : {k31, k32, k31 / 4, k32 / 4}) {
      for (Flush flush : {Flush::kEnd, Flush::kStart}) {
        GuardedTensor tensor(cpu(), shape, DType::kF32, Layout::kInflated, true, flush, {axis, stride});
        tensor.poison(Poison::kNan);
        tensor.fill([](int64_t element) { return static_cast<double>(element); });
        const TensorView view = tensor.host_view();
        ASSERT_EQ(view.strides[axis], stride);
        for (int64_t i = 0; i < view.size(); ++i)
          ASSERT_EQ(view.as<float>()[offset_of(index_of(i, shape), view.strides)], static_cast<float>(i));
        GuardedTensor other(cpu(), shape, DType::kF32, Layout::kInflated, true, flush, {axis, stride});
        other.poison(Poison::kNan);
        other.scatter(tensor.gather());
        EXPECT_EQ(other.hash(), tensor.hash());
        const int64_t slice = 24 / shape[axis] * 4;
        for (int64_t i = 0; i < shape[axis]; ++i) {
          const int64_t outside = i * stride * 4 + (flush == Flush::kEnd ? slice : -1);
          read(tensor, outside);
          EXPECT_TRUE(tensor.find_touch("x")) << axis << " " << i;
        }
        // Where an offset of 32 bits with a sign leads.
        read(tensor, (shape[axis] - 1) * -k31 * 4);
        EXPECT_THAT(tensor.find_touch("x").value_or(""), testing::HasSubstr("read before the start of x"));
      }
    }
  }
}

TEST(GuardedTensor, SaysWhereTheOverwriteIs) {
  const int64_t span = 149 * 4;
  const std::tuple<Flush, int64_t, const char*> places[] = {
      {Flush::kEnd, -1, "1 bytes before the first element"},
      {Flush::kStart, span, "0 bytes after the end"},
      {Flush::kEnd, 5 * 4, "20 bytes after the first"}};
  for (const auto& [flush, position, where] : places) {
    GuardedTensor tensor(cpu(), {2, 9, 5}, DType::kF32, Layout::kStrided, false, flush);
    ASSERT_EQ(span_bytes(tensor.host_view()), span);
    tensor.poison(Poison::kNan);
    byte_at(tensor, position) = std::byte{0};
    EXPECT_THAT(tensor.find_overwrite(Poison::kNan).value_or(""), testing::HasSubstr(where));
  }
}

// The end of the process is that of the fault, or AddressSanitizer's report of it.
bool is_fault(int status) {
  return testing::KilledBySignal(SIGSEGV)(status) ||
         (test::kIsSanitized && testing::ExitedWithCode(1)(status));
}

TEST(GuardedTensorDeathTest, AFaultElsewhereIsStillAFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  GuardedTensor tensor(cpu(), kShape, DType::kF32, Layout::kDense, false);
  void* const foreign = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EXIT(*static_cast<volatile char*>(foreign) = 1, is_fault, "");
  munmap(foreign, 4096);
  EXPECT_EXIT(raise(SIGSEGV), is_fault, "");
  EXPECT_EXIT(write(tensor, int64_t{64} << 20), is_fault, "");
}

TEST(GuardedTensor, MemoryIsKeptForTheNextOfItsSize) {
  const auto make = [] { return GuardedTensor(cpu(), {1001}, DType::kF32, Layout::kDense, false); };
  const void* first = make().host_view().data;
  EXPECT_EQ(make().host_view().data, first);
  const GuardedTensor one = make(), other = make();
  EXPECT_NE(one.host_view().data, other.host_view().data);
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
