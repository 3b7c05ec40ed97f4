// SPDX-License-Identifier: Apache-2.0
#include "properties/core/guarded_tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/core/parallel.h"

namespace assay {
namespace {

constexpr int64_t kRowGap = 3;                     // [elements] odd: rows are misaligned
constexpr int64_t kFenceBytes = int64_t{2} << 20;  // on each side
constexpr int64_t kCpuAlignment = 64, kGpuAlignment = 128, kVectorBytes = 16;

Extents with(Extents extents, int axis, int64_t value) {
  extents[axis] = value;
  return extents;
}

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Extents strides_for(const Extents& shape, Layout layout, bool is_input, const Inflation& inflation) {
  Extents strides = dense_strides(shape);
  const int last = shape.rank() - 1;
  switch (layout) {
    case Layout::kDense:
    case Layout::kMisaligned:
      break;
    case Layout::kStrided: {
      int64_t stride = last == 0 ? 2 : 1;
      int64_t gap = kRowGap;
      for (int i = last; i >= 0; --i) {
        strides[i] = stride;
        stride *= shape[i] + gap;
        gap = 1;
      }
      break;
    }
    case Layout::kTransposed:
      if (last > 0) {
        strides[last - 1] = 1;
        strides[last] = std::max<int64_t>(shape[last - 1], 1);
      }
      break;
    case Layout::kBroadcast:
      if (is_input) strides[0] = 0;
      break;
    case Layout::kInflated:
      strides = dense_strides(with(shape, inflation.axis, 1));
      strides[inflation.axis] = inflation.stride;
      break;
    case Layout::kMixed:
      throw Error("layout=mixed belongs to a problem, not to a tensor");
  }
  return strides;
}

Device& host_memory_owner() {
  static const std::unique_ptr<Device> cpu = open_cpu();
  return *cpu;
}

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

// The number rounded to T. A NaN keeps its sign and the leading bits of its significand, quiet or
// signalling, which no conversion does.
template <class T>
T stored(double value) {
  using Bits =
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  if (!std::isnan(value)) return from_double<T>(value);
  const int significand = format_of(dtype_of<T>()).precision - 1;  // [bits]
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t payload = bits << 12 >> (64 - significand);
  const uint64_t sign = bits >> 63 << (8 * sizeof(T) - 1);
  const uint64_t exponent = (uint64_t{1} << (8 * sizeof(T) - 1)) - (uint64_t{1} << significand);
  return std::bit_cast<T>(static_cast<Bits>(sign | exponent | std::max<uint64_t>(payload, 1)));
}

}  // namespace

std::vector<int> inflatable_axes(const Extents& shape) {
#ifdef __SANITIZE_THREAD__
  constexpr int64_t kMost = 4;  // ThreadSanitizer leaves a process little address space
#else
  constexpr int64_t kMost = 64;
#endif
  std::vector<int> axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] >= 2 && shape[axis] <= kMost) axes.push_back(axis);
  }
  return axes;
}

GuardedTensor::GuardedTensor(Device& device, const Extents& shape, DType dtype, Layout layout, bool is_input,
                             Flush flush, const Inflation& inflation)
    : device_(&device),
      shape_(shape),
      strides_(strides_for(shape, layout, is_input, inflation)),
      dtype_(dtype),
      elements_(element_count(shape)),
      place_(place(layout, flush, inflation.axis)),
      device_memory_(device, place_.bytes, place_.parts) {
  if (!device.host_can_access()) host_memory_.emplace(host_memory_owner(), place_.bytes, place_.parts);
}

// Where the tensor lies in its memory. An inflated one has a slice for each index of the inflated
// axis, and each slice has its own fences. An offset in signed 32 bits goes back by 2^31 elements
// where it should go on, so the fence before is longer by that much for each slice after the first.
GuardedTensor::Place GuardedTensor::place(Layout layout, Flush flush, int inflated_axis) const {
  const auto bytes = static_cast<int64_t>(size_of(dtype_));
  const bool has_slices = layout == Layout::kInflated && elements_ > 0;
  const int64_t slices = has_slices ? shape_[inflated_axis] : 1;
  const int64_t step = has_slices ? strides_[inflated_axis] * bytes : 0;
  const int64_t span = span_bytes({nullptr, dtype_, shape_, strides_}) - (slices - 1) * step;
  const bool has_fences = device_->page_bytes() > 0;
  const int64_t page = has_fences ? device_->page_bytes() : kGuardBytes;
  const int64_t fence_behind = has_fences ? round_up(kFenceBytes, page) : 0;
  const int64_t fence = fence_behind + (has_fences ? (slices - 1) * (int64_t{1} << 31) * bytes : 0);
  const int64_t poison = page < kGuardBytes ? 0 : kGuardBytes;  // the least where there is no fence
  const int64_t poison_before = has_fences && flush == Flush::kStart ? 0 : poison;
  const int64_t poison_behind = has_fences && flush == Flush::kEnd ? 0 : poison;

  Place place;
  place.data = fence + poison_before;
  if (has_fences && flush == Flush::kEnd) {
    place.data = fence + round_up(poison_before + span, page) - span;
    if (layout == Layout::kDense)
      place.data -= place.data % (device_->host_can_access() ? kCpuAlignment : kGpuAlignment);
    if (layout == Layout::kMisaligned && place.data % kVectorBytes == 0) place.data -= bytes;
  } else if (layout == Layout::kMisaligned) {
    place.data += bytes;
  }
  for (int64_t slice = 0; slice < slices; ++slice) {
    const int64_t first = place.data + slice * step, end = first + std::max<int64_t>(span, 1);
    const int64_t begin = (first - poison_before) / page * page;
    place.parts.push_back({begin, round_up(end + poison_behind, page) - begin});
    const int64_t from = std::max(begin, first - kGuardBytes);
    const int64_t to = std::min(begin + place.parts.back().length, end + kGuardBytes);
    place.watched.push_back({from, to - from});
  }
  place.bytes = place.parts.back().begin + place.parts.back().length + fence_behind;
  return place;
}

std::byte* GuardedTensor::host() const {
  return host_memory_ ? host_memory_->data() : device_memory_.data();
}

TensorView GuardedTensor::device_view() const {
  return {device_memory_.data() + place_.data, dtype_, shape_, strides_};
}

TensorView GuardedTensor::host_view() const {
  return {host() + place_.data, dtype_, shape_, strides_};
}

MemorySpan GuardedTensor::device_span() const {
  const TensorView view = device_view();
  return {view.data, span_bytes(view)};
}

void GuardedTensor::poison(Poison poison) {
  device_memory_.allow_writes();
  for (const Part& segment : place_.watched) {
    std::memset(host() + segment.begin, static_cast<int>(poison), static_cast<size_t>(segment.length));
  }
}

void GuardedTensor::protect() {
  device_memory_.protect();
}

void GuardedTensor::upload() {
  if (!host_memory_) return;
  for (const Part& segment : place_.watched) {
    device_->copy_to_device(device_memory_.data() + segment.begin, host() + segment.begin, segment.length);
  }
}

void GuardedTensor::download() {
  if (!host_memory_) return;
  for (const Part& segment : place_.watched) {
    device_->copy_to_host(host() + segment.begin, device_memory_.data() + segment.begin, segment.length);
  }
}

void GuardedTensor::for_each_row(bool repeated, const std::function<void(int64_t, int64_t)>& row) const {
  if (elements_ == 0) return;
  const int last = shape_.rank() - 1;
  Extents outer = shape_;
  outer[last] = 1;
  // A repeated outermost dimension has the rows of its first index only.
  if (!repeated && strides_[0] == 0 && last > 0) outer[0] = 1;
  constexpr int64_t kRowsPerTask = 64;
  parallel_for(element_count(outer), kRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(i * shape_[last], offset_of(index_of(i, outer), strides_));
  });
}

void GuardedTensor::fill(const std::function<double(int64_t)>& value) {
  fill_ranges([&](int64_t first, std::span<double> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(first + static_cast<int64_t>(i));
  });
}

void GuardedTensor::fill_ranges(const std::function<void(int64_t, std::span<double>)>& set_values) {
  device_memory_.allow_writes();
  const int64_t stride = strides_[shape_.rank() - 1];
  const int64_t size = stride == 0 ? 1 : shape_[shape_.rank() - 1];
  visit(dtype_, [&]<class T>(std::type_identity<T>) {
    T* data = host_view().template as<T>();
    for_each_row(false, [&](int64_t first, int64_t offset) {
      std::array<double, 256> values;
      for (int64_t begin = 0; begin < size; begin += std::ssize(values)) {
        const int64_t count = std::min(size - begin, std::ssize(values));
        set_values(first + begin, std::span(values).first(static_cast<size_t>(count)));
        T* const to = data + offset + begin * stride;
        for (int64_t i = 0; i < count; ++i) to[i * stride] = stored<T>(values[static_cast<size_t>(i)]);
      }
    });
  });
}

std::vector<std::byte> GuardedTensor::gather() const {
  if (host_view().is_dense()) {
    const auto* const data = static_cast<const std::byte*>(host_view().data);
    return {data, data + elements_ * static_cast<int64_t>(size_of(dtype_))};
  }
  std::vector<std::byte> dense(static_cast<size_t>(elements_) * size_of(dtype_));
  const int64_t size = shape_[shape_.rank() - 1];
  const int64_t stride = strides_[shape_.rank() - 1];
  visit(dtype_, [&]<class T>(std::type_identity<T>) {
    const T* data = host_view().template as<T>();
    for_each_row(true, [&](int64_t first, int64_t offset) {
      for (int64_t i = 0; i < size; ++i) {
        std::memcpy(&dense[static_cast<size_t>(first + i) * sizeof(T)], &data[offset + i * stride],
                    sizeof(T));
      }
    });
  });
  return dense;
}

std::vector<std::byte> GuardedTensor::gather(std::span<const int64_t> elements) const {
  std::vector<std::byte> dense;
  const auto* const data = static_cast<const std::byte*>(host_view().data);
  const auto bytes = static_cast<int64_t>(size_of(dtype_));
  for (const int64_t element : elements) {
    const std::byte* const held = data + offset_of(index_of(element, shape_), strides_) * bytes;
    dense.insert(dense.end(), held, held + bytes);
  }
  return dense;
}

void GuardedTensor::scatter(std::span<const std::byte> dense) {
  device_memory_.allow_writes();
  const int64_t stride = strides_[shape_.rank() - 1];
  const int64_t size = stride == 0 ? 1 : shape_[shape_.rank() - 1];
  visit(dtype_, [&]<class T>(std::type_identity<T>) {
    T* data = host_view().template as<T>();
    for_each_row(false, [&](int64_t first, int64_t offset) {
      for (int64_t i = 0; i < size; ++i) {
        std::memcpy(&data[offset + i * stride], &dense[static_cast<size_t>(first + i) * sizeof(T)],
                    sizeof(T));
      }
    });
  });
}

void GuardedTensor::set_rotated(const void* contents, int64_t by) {
  device_memory_.allow_writes();
  const MemorySpan span = device_span();
  const int64_t first = by * static_cast<int64_t>(size_of(dtype_)), rest = span.bytes - first;
  auto* const to = static_cast<std::byte*>(span.data);
  const auto* const from = static_cast<const std::byte*>(contents);
  if (rest > 0) device_->copy(to + first, from, rest, device_->stream());
  if (first > 0) device_->copy(to, from + rest, first, device_->stream());
  device_->synchronize();
}

void GuardedTensor::set_elements(int64_t first, const void* contents, int64_t count) {
  device_memory_.allow_writes();
  const auto size = static_cast<int64_t>(size_of(dtype_));
  auto* const to = static_cast<std::byte*>(device_span().data) + first * size;
  device_->copy(to, contents, count * size, device_->stream());
  device_->synchronize();
}

void GuardedTensor::rotate(int64_t by) {
  if (elements_ == 0) return;
  device_memory_.allow_writes();
  visit(dtype_, [&]<class T>(std::type_identity<T>) {
    T* const data = host_view().template as<T>();
    std::rotate(data, data + (elements_ - by), data + elements_);
  });
}

bool GuardedTensor::swap_memory(GuardedTensor& other) {
  if (place_ != other.place_) return false;
  std::swap(device_memory_, other.device_memory_);
  std::swap(host_memory_, other.host_memory_);
  return true;
}

uint64_t GuardedTensor::hash() const {
  uint64_t hash = 0;
  for (const Part& segment : place_.watched) {
    const std::byte* bytes = host() + segment.begin;
    int64_t i = 0;
    // Four independent chains, which need not wait for each other.
    uint64_t words[4] = {}, hashes[4] = {};
    for (; i + static_cast<int64_t>(sizeof(words)) <= segment.length; i += sizeof(words)) {
      std::memcpy(words, bytes + i, sizeof(words));
      for (int chain = 0; chain < 4; ++chain) hashes[chain] = mix(hashes[chain], words[chain]);
    }
    for (uint64_t chain : hashes) hash = mix(hash, chain);
    for (; i < segment.length; ++i) hash = mix(hash, static_cast<uint64_t>(bytes[i]));
  }
  return hash;
}

std::optional<std::string> GuardedTensor::find_overwrite(Poison poison) {
  const auto bytes = static_cast<int64_t>(size_of(dtype_));
  const int64_t size = shape_[shape_.rank() - 1];
  const int64_t stride = strides_[shape_.rank() - 1];
  for_each_row(false, [&](int64_t, int64_t offset) {
    std::byte* row = host() + place_.data + offset * bytes;
    if (stride == 1) {
      std::memset(row, static_cast<int>(poison), static_cast<size_t>(size * bytes));
      return;
    }
    for (int64_t i = 0; i < size; ++i) {
      std::memset(row + i * stride * bytes, static_cast<int>(poison), static_cast<size_t>(bytes));
    }
  });
  const int64_t span = span_bytes(host_view());
  for (const Part& segment : place_.watched) {
    const std::byte* begin = host() + segment.begin;
    const std::byte* end = begin + segment.length;
    // The first byte is the poison and each byte equals the next. This is quicker than testing
    // each.
    const bool is_poison = *begin == static_cast<std::byte>(poison) &&
                           std::memcmp(begin, begin + 1, static_cast<size_t>(segment.length - 1)) == 0;
    if (is_poison) continue;
    const std::byte* found =
        std::find_if(begin, end, [&](std::byte b) { return b != static_cast<std::byte>(poison); });
    const int64_t position = found - host() - place_.data;
    if (position < 0) return fmt::format("{} bytes before the first element", -position);
    if (position >= span) return fmt::format("{} bytes after the end", position - span);
    return fmt::format("in a gap between elements, {} bytes after the first", position);
  }
  return std::nullopt;
}

std::optional<std::string> GuardedTensor::find_touch(std::string_view name) {
  const auto touch = device_memory_.take_touch();
  if (!touch) return std::nullopt;
  const int64_t position = touch->position - place_.data;
  const int64_t span = span_bytes(host_view());
  const std::string_view verb = touch->is_write ? "wrote" : "read";
  if (position < 0)
    return fmt::format("{} before the start of {}: {} bytes before the first element", verb, name, -position);
  if (position >= span)
    return fmt::format("{} past the end of {}: {} bytes after the end", verb, name, position - span);
  const bool is_inside = std::ranges::any_of(place_.parts, [&](const Part& part) {
    return touch->position >= part.begin && touch->position < part.begin + part.length;
  });
  return fmt::format("{} {} {}, {} bytes after the first element", verb,
                     is_inside ? "to" : "between slices of", name, position);
}

std::string element_name(std::string_view tensor, int64_t element, const Extents& shape) {
  const std::string index = index_of(element, shape).to_string();
  return fmt::format("{}[{}]", tensor, index.substr(1, index.size() - 2));
}

double read_element(std::span<const std::byte> dense, DType dtype, int64_t element) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) {
    T value{};
    std::memcpy(&value, &dense[static_cast<size_t>(element) * sizeof(T)], sizeof(T));
    return to_double(value);
  });
}

}  // namespace assay
