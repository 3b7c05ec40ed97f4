// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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
        to_dx_(question.recipe.sum(site::kDx)),
        to_dw_(question.recipe.sum(site::kDw)),
        examples_(of_.examples, [this](int64_t n) { return example_of(dy_.all({n}), of_.conv(n)); }) {}

  const Convolution& of() const { return of_; }

  void dx(std::span<const int64_t> elements, std::span<Ball> values) const {
    // Three elements share each dconv, if they are asked for.
    const bool is_whole = 3 * static_cast<int64_t>(elements.size()) >= of_.count();
    Balls whole;
    int64_t held = -1;
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto [n, l, c] = of_.place(elements[i]);
      if (is_whole && n != held) whole = dconv(n);
      held = n;
      values[i] = dx_of(l, c, [&, n = n, c = c](int64_t row) {
        if (is_whole) return whole[static_cast<size_t>(row * of_.channels + c)];
        return dconv(examples_[n], dy_({n, row, c}), of_.conv(n, row, c));
      });
    }
  }

  // dw[k,c] = sum_nl dconv[n,l,c] * x[n,l+(k-1)*d,c], for all k and c
  std::vector<Ball> dw() const {
    std::vector<std::vector<Ball>> parts(static_cast<size_t>(of_.examples));
    of_.for_examples([&](int64_t n) { parts[static_cast<size_t>(n)] = dw_of(n); });
    std::vector<Ball> all;
    for (size_t i = 0; i < static_cast<size_t>(3 * of_.channels); ++i) {
      Balls sums;
      for (const std::vector<Ball>& part : parts) sums.push_back(part[i]);
      all.push_back(a.total(sums.row()));
    }
    return all;
  }

 private:
  struct Example {
    Moments moments;
    Ball mean, product;  // the means of dy and of dy * y
  };
  Example example_of(const std::vector<double>& dy, const Balls& conv) const {
    const Balls gradients(dy);
    const Moments moments = of_.moments_of(conv);
    Balls y(conv.size());
    for (size_t i = 0; i < y.size(); ++i) y.set(i, a.normalise(conv[i], moments));
    const Ball mean = keeps_mean_ ? Ball{} : a.moments(gradients.row(), kEpsilon).mean;
    return {moments, mean, a.mean_of_products(gradients.row(), y.row())};
  }

  // dconv = rstd * (dy - mean(dy) - y * mean(dy * y))
  Ball dconv(const Example& of, double dy, Ball conv) const {
    const Ball y = a.normalise(conv, of.moments);
    const Ball across = a.subtract(a.deviation({dy}, of.mean), a.multiply(y, of.product));
    const Ball gradient = a.multiply(across, of.moments.rstd);
    return std::isinf(gradient.mid) ? Ball::open() : gradient;  // a path may multiply by rstd later
  }

  Balls dconv(int64_t n) const {
    const std::vector<double> dy = dy_.all({n});
    Balls values = of_.conv(n);
    const Example example = example_of(dy, values);
    for (size_t i = 0; i < dy.size(); ++i) values.set(i, dconv(example, dy[i], values[i]));
    return values;
  }
  // dx[n,l,c] = sum_k dconv[n,l+(1-k)*d,c] * w[k,c], where dconv(l) is dconv[n,l,c].
  template <class Dconv>
  Ball dx_of(int64_t l, int64_t c, const Dconv& dconv) const {
    std::array<double, 3> mids{}, radii{}, taps{};
    size_t count = 0;
    for (int64_t k = of_.first_tap; k < 3; ++k) {
      const int64_t source = l + (1 - k) * of_.dilation;
      if (source < 0 || source >= of_.length) continue;
      const Ball gradient = dconv(source);
      mids[count] = gradient.mid;
      radii[count] = gradient.radius;
      taps[count++] = of_.weight(k, c);
    }
    return a.dot({mids.data(), radii.data(), count}, {taps.data(), nullptr, count}, to_dx_);
  }

  // The terms of an example.
  std::vector<Ball> dw_of(int64_t n) const {
    const auto length = static_cast<size_t>(of_.length), channels = static_cast<size_t>(of_.channels);
    const std::vector<double> inputs = x_.all({n});
    const Balls rows = dconv(n);
    // Channel after channel.
    Balls gradients(rows.size()), x(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      gradients.set(i % channels * length + i / channels, rows[i]);
      x.set(i % channels * length + i / channels, {inputs[i]});
    }
    std::vector<Ball> sums(3 * channels);
    for (int64_t k = of_.first_tap; k < 3; ++k) {
      const int64_t distance = (k - 1) * of_.dilation, left = of_.length - std::abs(distance);
      for (size_t c = 0; c < channels && left > 0; ++c) {
        const size_t first = c * length + static_cast<size_t>(std::max<int64_t>(-distance, 0));
        const Row inputs_at = x.row(first + static_cast<size_t>(distance), static_cast<size_t>(left));
        sums[static_cast<size_t>(k) * channels + c] =
            a.dot(gradients.row(first, inputs_at.size), inputs_at, to_dw_);
      }
    }
    return sums;
  }

  const Arithmetic& a;
  Convolution of_;
  Reader dy_, x_;
  bool keeps_mean_;
  Sum to_dx_, to_dw_;
  Lazy<Example> examples_;
};

}  // namespace

Evaluate conv_norm_grad(const Question& question, int output, const Arithmetic& a, int fault) {
  const auto gradient = std::make_shared<const Gradient>(question, a, fault);
  if (gradient->of().is_unchanged()) return {};
  const DType storage = question.recipe.storage;
  if (static_cast<size_t>(output) == grad::kDw) {
    return [dw = gradient->dw(), &a, storage](auto elements, auto values) {
      for (size_t i = 0; i < elements.size(); ++i)
        values[i] = a.round(storage, dw[static_cast<size_t>(elements[i])]);
    };
  }
  return [gradient, &a, storage](auto elements, auto values) {
    gradient->dx(elements, values);
    for (Ball& value : values) value = a.round(storage, value);
  };
}

}  // namespace assay::cheri::oracle
