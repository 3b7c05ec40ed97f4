// SPDX-License-Identifier: Apache-2.0
#include "study/draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/core/parallel.h"
#include "properties/core/regime.h"

namespace assay::study {
namespace {

// Lanes of random numbers beyond those of regimes.
enum Lane : uint64_t { kHasOutlier = 100, kExponent, kKept, kGrade, kRow };
constexpr int64_t kGrain = 4096;

// In parallel.
template <class Visit>
void for_elements(int64_t count, const Visit& visit) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) visit(i);
  });
}

struct Properties {
  double mean_over_std = 0, scale = 1, spread = 0, density = 1;
  std::optional<int64_t> rank;
};

Properties properties_of(size_t tensor, const std::vector<Axis>& axes, const Point& point) {
  Properties all;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    if (axis.kind != Axis::Kind::kProperty || std::ranges::count(axis.tensors, tensor) == 0) continue;
    const double value = axis.values[point[i]].number.value();
    switch (axis.property) {
      case Property::kMeanOverStd:
        all.mean_over_std = value;
        break;
      case Property::kScale:
        all.scale = value;
        break;
      case Property::kSpread:
        all.spread = value;
        break;
      case Property::kRank:
        all.rank = static_cast<int64_t>(value);
        break;
      case Property::kDensity:
        all.density = value;
        break;
    }
  }
  return all;
}

DataSource source_at(const std::vector<Axis>& axes, const Point& point) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].kind == Axis::Kind::kData) return parse_data_source(axes[i].values[point[i]].text);
  }
  return {};
}

// Draws one input from the data alone.
class Source {
 public:
  Source(const Op& op, size_t tensor, const Extents& shape, const DataSource& data, uint64_t seed)
      : data_(data),
        random_(seed, tensor),
        // All tensors of a graded set have one set of exponents.
        grades_(seed, 5000),
        normal_(Regime::kNormal, seed, drawn(op, tensor, shape)),
        regime_(data.kind == DataSource::Kind::kRegime ? parse_data(data.text) : Data(), seed,
                drawn(op, tensor, shape)),
        sign_(tensor == 0 ? 1 : -1) {
    if (data.kind != DataSource::Kind::kGraded || op.inputs[0].shape.empty()) return;
    const std::string_view graded = axes_of(op.inputs[0]).back();
    const auto own = axes_of(op.inputs[tensor]);
    int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (own[static_cast<size_t>(axis)] == graded) {
        stride_ = stride;
        length_ = shape[axis];
        break;
      }
      stride *= shape[axis];
    }
  }

  double operator()(int64_t element) const {
    const auto i = static_cast<uint64_t>(element);
    switch (data_.kind) {
      case DataSource::Kind::kRegime:
        return regime_(element);
      case DataSource::Kind::kOutliers: {
        const bool is_outlier = random_.uniform(i, kHasOutlier) < data_.first;
        return normal_(element) + (is_outlier ? data_.second * random_.normal(~i) : 0);
      }
      case DataSource::Kind::kGraded: {
        if (length_ == 0) return normal_(element);
        const auto index = static_cast<uint64_t>(element / stride_ % length_);
        const double octaves = data_.first * (grades_.uniform(index, kGrade) - 0.5);
        return std::ldexp(normal_(element), sign_ * static_cast<int>(std::round(octaves)));
      }
    }
    throw Error("DataSource({}) is no source", static_cast<int>(data_.kind));
  }

 private:
  static Drawn drawn(const Op& op, size_t tensor, const Extents& shape) {
    return {.tensor = static_cast<int>(tensor),
            .tensors = static_cast<int>(op.inputs.size()),
            .dtype = DType::kF32,
            .shape = shape,
            .degree = op.degree,
            .least_degree = op.least_degree};
  }

  DataSource data_;
  CounterRandom random_, grades_;
  Drawing normal_, regime_;
  int sign_;
  int64_t stride_ = 1, length_ = 0;  // of the graded axis
};

// z as a product of this rank, of the same variance.
void reduce_rank(Values& values, const Extents& shape, int64_t rank, uint64_t seed, size_t tensor) {
  const int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const double norm = 1 / std::sqrt(static_cast<double>(rank));
  const CounterRandom left_factors(seed, 6000 + tensor), right_factors(seed, 7000 + tensor);
  for_elements(std::ssize(values), [&](size_t i) {
    const uint64_t row = i / static_cast<uint64_t>(columns), column = i % static_cast<uint64_t>(columns);
    double sum = 0;
    for (uint64_t r = 0; r < static_cast<uint64_t>(rank); ++r) {
      sum += left_factors.normal(row * static_cast<uint64_t>(rank) + r) *
             right_factors.normal(column * static_cast<uint64_t>(rank) + r);
    }
    values[i] = sum * norm;
  });
}

Values resampled(const Op& op, size_t tensor, const Given& given, uint64_t seed, uint64_t draw) {
  Values values = given.inputs[tensor];
  const auto own = axes_of(op.inputs[tensor]), first = axes_of(op.inputs[0]);
  constexpr uint64_t kOfPoint = 0xFFFFFFFFu;
  if ((draw & kOfPoint) == 0 || own.empty() || first.empty() || own[0] != first[0] || values.empty())
    return values;
  const int64_t rows = shape_of(op.inputs[tensor], given.dims)[0];
  const auto length = static_cast<int64_t>(values.size()) / rows;
  const CounterRandom random(seed + draw, 5001);
  for (int64_t row = 0; row < rows; ++row) {
    const auto from =
        static_cast<int64_t>(random.bits(static_cast<uint64_t>(row), kRow) % static_cast<uint64_t>(rows));
    std::copy_n(given.inputs[tensor].begin() + from * length, length, values.begin() + row * length);
  }
  return values;
}

}  // namespace

std::string hash_of(const Given& given) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a, by words
  const auto add = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001B3u; };
  for (const auto& [key, value] : given.dims.values()) add(static_cast<uint64_t>(value));
  for (const Values& values : given.inputs) {
    add(values.size());
    for (double value : values) add(std::bit_cast<uint64_t>(value));
  }
  return fmt::format("{:016x}", hash);
}

Dims dims_at(const std::vector<Axis>& axes, const Point& point, Dims base) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].kind != Axis::Kind::kDim) continue;
    base.set(axes[i].name, static_cast<int64_t>(axes[i].values[point[i]].number.value()));
  }
  return base;
}

std::vector<Values> draw_inputs(const Op& op, const std::vector<Axis>& axes, const Point& point,
                                const Dims& dims, uint64_t seed, uint64_t draw, const Given* given) {
  const DataSource data = source_at(axes, point);
  std::vector<Values> inputs;
  for (size_t tensor = 0; tensor < op.inputs.size(); ++tensor) {
    const Extents shape = shape_of(op.inputs[tensor], dims);
    const Properties has = properties_of(tensor, axes, point);
    const uint64_t own_seed = seed + draw * 0x9E3779B97F4A7C15u;
    Values values;
    if (given != nullptr) {
      values = resampled(op, tensor, *given, seed, draw);
    } else {
      values.resize(static_cast<size_t>(element_count(shape)));
      const Source source(op, tensor, shape, data, own_seed);
      if (has.rank) {
        reduce_rank(values, shape, *has.rank, own_seed, tensor);
      } else {
        for_elements(std::ssize(values), [&](size_t i) { values[i] = source(static_cast<int64_t>(i)); });
      }
    }
    const CounterRandom random(own_seed, tensor);
    for_elements(std::ssize(values), [&](size_t i) {
      const double exponent = has.spread == 0 ? 0 : has.spread * (random.uniform(i, kExponent) - 0.5);
      values[i] = has.scale * std::exp2(exponent) * (has.mean_over_std + values[i]);
      if (has.density < 1 && random.uniform(i, kKept) >= has.density) values[i] = 0;
    });
    inputs.push_back(std::move(values));
  }
  return inputs;
}

std::vector<std::byte> stored(std::span<const double> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    for_elements(std::ssize(values), [&](size_t i) {
      const T value = from_double<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    });
  });
  return bytes;
}

TensorBytes stored(const Op& op, const std::vector<Values>& inputs, DType dtype) {
  TensorBytes all;
  for (size_t i = 0; i < inputs.size(); ++i)
    all.push_back(stored(inputs[i], op.inputs[i].dtype.value_or(dtype)));
  return all;
}

Values read(std::span<const std::byte> bytes, DType dtype) {
  Values values(bytes.size() / size_of(dtype));
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = to_double(value);
    }
  });
  return values;
}

}  // namespace assay::study
