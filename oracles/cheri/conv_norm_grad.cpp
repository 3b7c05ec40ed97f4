// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "oracles/cheri/cheri.h"

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
        dconvs_(of_.examples, [this](int64_t n) { return dconv(n); }) {}

  const Convolution& of() const { return of_; }

  // dx[n,l,c] = sum_k dconv[n,l+(1-k)*d,c] * w[k,c]
  Ball dx(int64_t n, int64_t l, int64_t c, Products& products) const {
    const auto at = [&](int64_t row) { return dconvs_[n][static_cast<size_t>(row * of_.channels + c)]; };
    return of_.taps(at, l, -of_.dilation, c, to_dx_, products);
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
  // dconv = rstd * (dy - mean(dy) - y * mean(dy * y)), of an example
  Balls dconv(int64_t n) const {
    const Balls dy(dy_.all({n}));
    Balls values = of_.conv(n);
    const Moments moments = of_.moments_of(values);
    for (size_t i = 0; i < dy.size(); ++i) values.set(i, a.normalise(values[i], moments));
    const Ball mean = keeps_mean_ ? Ball{} : a.moments(dy.row(), kEpsilon).mean;
    const Ball product = a.mean_of_products(dy.row(), values.row());
    for (size_t i = 0; i < dy.size(); ++i) {
      const Ball across = a.add(a.deviation(dy[i], mean), -a.multiply(values[i], product));
      const Ball gradient = a.multiply(across, moments.rstd);
      // A path may multiply by rstd later.
      values.set(i, std::isinf(gradient.mid) ? Ball::open() : gradient);
    }
    return values;
  }

  // The terms of an example.
  std::vector<Ball> dw_of(int64_t n) const {
    const auto channels = static_cast<size_t>(of_.channels);
    const std::vector<double> inputs = x_.all({n});
    const Balls rows = dconv(n);
    std::vector<Ball> sums(3 * channels);
    for (size_t c = 0; c < channels; ++c) {
      Balls gradients, x;  // of the channel
      for (size_t i = c; i < rows.size(); i += channels) {
        gradients.push_back(rows[i]);
        x.push_back({inputs[i]});
      }
      for (int64_t k = of_.first_tap; k < 3; ++k) {
        const int64_t distance = (k - 1) * of_.dilation, left = of_.length - std::abs(distance);
        if (left <= 0) continue;
        const int64_t first = std::max<int64_t>(-distance, 0);
        const auto of = [&](const Balls& column, int64_t from) {
          return column.row(static_cast<size_t>(from), static_cast<size_t>(left));
        };
        sums[static_cast<size_t>(k) * channels + c] =
            a.dot(of(gradients, first), of(x, first + distance), to_dw_);
      }
    }
    return sums;
  }

  const Arithmetic& a;
  Convolution of_;
  Reader dy_, x_;
  bool keeps_mean_;
  Sum to_dx_, to_dw_;
  Lazy<Balls> dconvs_;
};

}  // namespace

Evaluate conv_norm_grad(const Question& question, int output, const Arithmetic& a, int fault) {
  const auto gradient = std::make_shared<const Gradient>(question, a, fault);
  if (gradient->of().is_unchanged()) return {};
  if (static_cast<size_t>(output) == grad::kDx) {
    return each(question, a, question.inputs[grad::kX].shape,
                [gradient](const Extents& at, Products& products) {
                  return gradient->dx(at[0], at[1], at[2], products);
                });
  }
  return each(question, a, question.inputs[grad::kW].shape,
              [dw = gradient->dw(), channels = question.dims[kC]](const Extents& at, Products&) {
                return dw[static_cast<size_t>(at[0] * channels + at[1])];
              });
}

}  // namespace assay::cheri::oracle
