// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "oracles/cheri/convolution.h"

namespace assay::cheri::oracle {
namespace {

enum OwnFault : int { kMeanKept = kOwnFaults };

class Gradient {
 public:
  Gradient(const Question& question, const Arithmetic& arithmetic, int fault)
      : a(arithmetic),
        of_(question, grad::kX, grad::kW, arithmetic, fault, 1.0),
        dy_(question.inputs[grad::kDy]),
        x_(question.inputs[grad::kX]),
        keeps_mean_(fault == kMeanKept),
        means_(of_.examples, [this](int64_t n) { return means_of(n); }) {}

  const Convolution& of() const { return of_; }

  // dx[n,l,c] = sum_k dconv[n,l+(1-k)*d,c] * w[k,c]
  Ball dx(int64_t n, int64_t l, int64_t c) const {
    std::array<double, 3> mids{}, radii{}, taps{};
    size_t count = 0;
    for (int64_t k = of_.first_tap; k < 3; ++k) {
      const int64_t source = l + (1 - k) * of_.dilation;
      if (source < 0 || source >= of_.length) continue;
      const Ball gradient = dconv(n, source, c);
      mids[count] = gradient.mid;
      radii[count] = gradient.radius;
      taps[count++] = of_.weight(k, c);
    }
    return a.dot({mids.data(), radii.data(), count}, {taps.data(), nullptr, count}, {});
  }

  // dw[k,c] = sum_nl dconv[n,l,c] * x[n,l+(k-1)*d,c], for all k and c
  std::vector<Ball> dw() const {
    std::vector<std::vector<Ball>> parts(static_cast<size_t>(of_.examples));
    parallel_for(of_.examples, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) parts[static_cast<size_t>(n)] = dw_of(n);
    });
    std::vector<Ball> all(static_cast<size_t>(3 * of_.channels));
    for (size_t i = 0; i < all.size(); ++i) {
      Balls sums;
      for (const std::vector<Ball>& part : parts) sums.push_back(part[i]);
      all[i] = a.total(sums.row());
    }
    return all;
  }

 private:
  struct Means {
    Ball dy, product;  // of dy, of dy * y
  };
  Means means_of(int64_t n) const {
    Balls dy(static_cast<size_t>(of_.count())), y(dy.size());
    for (int64_t i = 0; i < of_.count(); ++i) {
      const int64_t l = i / of_.channels, c = i % of_.channels;
      dy.set(static_cast<size_t>(i), {dy_({n, l, c})});
      y.set(static_cast<size_t>(i), of_.y(n, l, c));
    }
    return {a.mean(dy.row()), a.mean(dy.row(), y.row())};
  }

  // dconv = rstd * (dy - mean(dy) - y * mean(dy * y))
  Ball dconv(int64_t n, int64_t l, int64_t c) const {
    const auto& [mean, product] = means_[n];
    const Ball centred = a.deviation({dy_({n, l, c})}, keeps_mean_ ? Ball{} : mean);
    const Ball across = a.subtract(centred, a.multiply(of_.y(n, l, c), product));
    const Ball gradient = a.multiply(across, of_.moments(n).rstd);
    return std::isinf(gradient.mid) ? Ball::open() : gradient;  // a path may multiply by rstd later
  }

  // The terms of an example, channel after channel.
  std::vector<Ball> dw_of(int64_t n) const {
    const int64_t length = of_.length, channels = of_.channels;
    Balls gradients(static_cast<size_t>(of_.count()));
    std::vector<double> x(gradients.size());
    for (int64_t l = 0; l < length; ++l) {
      for (int64_t c = 0; c < channels; ++c) {
        gradients.set(static_cast<size_t>(c * length + l), dconv(n, l, c));
        x[static_cast<size_t>(c * length + l)] = x_({n, l, c});
      }
    }
    std::vector<Ball> sums(static_cast<size_t>(3 * channels));
    for (int64_t k = of_.first_tap; k < 3; ++k) {
      const int64_t distance = (k - 1) * of_.dilation;
      if (std::abs(distance) >= length) continue;
      const auto count = static_cast<size_t>(length - std::abs(distance));
      for (int64_t c = 0; c < channels; ++c) {
        const auto first = static_cast<size_t>(c * length + std::max<int64_t>(-distance, 0));
        const Row inputs{x.data() + first + distance, nullptr, count};
        sums[static_cast<size_t>(k * channels + c)] =
            a.dot(gradients.row(first, count), inputs, {.group = kSumGroup});
      }
    }
    return sums;
  }

  const Arithmetic& a;
  Convolution of_;
  Reader dy_, x_;
  bool keeps_mean_;
  PerExample<Means> means_;
};

}  // namespace

Evaluate conv_norm_grad(const Question& question, int output, const Arithmetic& a, int fault) {
  const auto gradient = std::make_shared<const Gradient>(question, a, fault);
  if (gradient->of().is_unchanged()) return {};
  const DType storage = question.recipe.storage;
  if (static_cast<size_t>(output) == grad::kDw) {
    return [dw = gradient->dw(), &a, storage](std::span<const int64_t> elements, std::span<Ball> values) {
      for (size_t i = 0; i < elements.size(); ++i)
        values[i] = a.round(storage, dw[static_cast<size_t>(elements[i])]);
    };
  }
  return [gradient, &a, storage](std::span<const int64_t> elements, std::span<Ball> values) {
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto [n, l, c] = gradient->of().place(elements[i]);
      values[i] = a.round(storage, gradient->dx(n, l, c));
    }
  };
}

}  // namespace assay::cheri::oracle
