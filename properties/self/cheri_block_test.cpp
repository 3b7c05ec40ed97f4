// SPDX-License-Identifier: Apache-2.0
// The oracle of cheri_block for recipes of paths that need a GPU. It is compared with a plain loop
// that rounds where the recipes say.
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/cheri/cheri.h"
#include "properties/core/compare.h"
#include "properties/core/problem.h"
#include "properties/self/support.h"

namespace assay::cheri {
namespace {

Recipe train_recipe(DType storage) {
  return block_recipe(storage, Format::kStored);
}
Recipe fused_recipe(DType storage) {
  return block_recipe(storage, storage == DType::kF16 ? Format::kF16 : Format::kBF16);
}

struct RecipeOfPath {
  std::string_view path;
  Recipe (*of)(DType storage);
};
constexpr RecipeOfPath kTrain{"cuda.train", train_recipe}, kFused{"cuda.fused", fused_recipe};

// A problem and what the oracle expects of a recipe.
class Judged {
 public:
  Judged(std::string_view line, const RecipeOfPath& recipe)
      : which_(parse_case(fmt::format("cheri_block/cpu/{}", line))),
        op_(registry().op("cheri_block")),
        problem_(op_, op_.path("cpu"), which_, test::cpu()) {
    problem_.draw_inputs(which_.seed);
    question_.emplace(problem_.question());
    question_->recipe = recipe.of(which_.dtype);
    elements_.resize(static_cast<size_t>(element_count(shape_of(op_.outputs[kOut], which_.dims))));
    std::iota(elements_.begin(), elements_.end(), 0);
    std::vector<Ball> balls(elements_.size());
    const Arithmetic arithmetic(Arithmetic::Mode::kBall);
    registry().oracle("cheri_block").formula(*question_, 0, arithmetic, 0)(elements_, balls);
    for (const Ball& ball : balls) {
      expected_.push_back({.value = ball.mid,
                           .bound = ball.is_open() ? 0 : ball.radius,
                           .exact = ball.mid,
                           .is_open = ball.is_open()});
    }
  }

  const Case& which() const { return which_; }
  const Question& question() const { return *question_; }

  Comparison compare(const std::vector<double>& got) const {
    Comparison comparison;
    for (size_t i = 0; i < got.size(); ++i) comparison.add(expected_[i], got[i], elements_[i], which_.dtype);
    return comparison;
  }

 private:
  Case which_;
  const Op& op_;
  Problem problem_;
  std::optional<Question> question_;
  std::vector<int64_t> elements_;
  std::vector<Expected> expected_;
};

double through(DType dtype, double value) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) { return to_double(from_double<T>(value)); });
}

// The block with sums in f32 and roundings where the recipe says. The second half of the hidden
// units sums backwards, so equal units may differ by errors of f32 sums.
std::vector<double> block_by_loop(const Question& question, double scale) {
  const Recipe& recipe = question.recipe;
  const auto element = [&](size_t tensor, Extents at) {
    const ConstTensorView& view = question.inputs[tensor];
    int64_t offset = 0;
    for (int axis = 0; axis < at.rank(); ++axis) offset += at[axis] * view.strides[axis];
    return visit(view.dtype, [&]<class T>(std::type_identity<T>) {
      return to_double(static_cast<const T*>(view.data)[offset]);
    });
  };
  const Format factors = recipe.rounding(site::kW1).format;
  const auto between = [&](double value) {
    return factors == Format::kStored ? through(recipe.storage, value) : value;
  };
  const auto factor = [&](double value) {
    switch (factors) {
      case Format::kF16:
        return through(DType::kF16, value);
      case Format::kBF16:
        return through(DType::kBF16, value);
      case Format::kStored:
      case Format::kBF16x3:
      case Format::kTF32:
      case Format::kF16x3:
        return value;
    }
    throw Error("no such factor");
  };
  const auto dot = [](int64_t size, bool is_backwards, const std::function<double(int64_t)>& product) {
    float sum = 0;
    for (int64_t i = 0; i < size; ++i)
      sum = static_cast<float>(sum + product(is_backwards ? size - 1 - i : i));
    return static_cast<double>(sum);
  };
  const Dims& dims = question.dims;
  const int64_t n = dims[kN], l = dims[kL], c = dims[kC], hidden = dims[kHidden], d = dims[kDilation];
  std::vector<double> out;
  for (int64_t example = 0; example < n; ++example) {
    std::vector<double> conv;
    for (int64_t i = 0; i < l * c; ++i) {
      conv.push_back(dot(3, false, [&](int64_t tap) {
        const int64_t at = i / c + (tap - 1) * d;
        return at < 0 || at >= l ? 0 : element(kX, {example, at, i % c}) * element(kW, {tap, i % c});
      }));
    }
    const auto count = static_cast<double>(conv.size());
    const double mean = std::accumulate(conv.begin(), conv.end(), 0.0) / count;
    double squares = 0;
    for (double value : conv) squares += (value - mean) * (value - mean);
    const double rstd = 1 / std::sqrt(squares / count + kEpsilon);
    for (int64_t row = 0; row < l; ++row) {
      std::vector<double> y, g;
      for (int64_t i = 0; i < c; ++i)
        y.push_back(factor(between((conv[static_cast<size_t>(row * c + i)] - mean) * rstd)));
      for (int64_t h = 0; h < hidden; ++h) {
        const double z = between(dot(c, h >= hidden / 2, [&](int64_t i) {
          return factor(element(kW1, {h, i})) * y[static_cast<size_t>(i)];
        }));
        g.push_back(factor(between(z / (1 + std::exp(-1.5957691216057308 * (z + 0.044715 * z * z * z))))));
      }
      for (int64_t i = 0; i < c; ++i) {
        const bool is_folded = factors != Format::kStored;
        const double sum = dot(hidden, false, [&](int64_t h) {
          return factor((is_folded ? scale : 1) * element(kW2, {i, h})) * g[static_cast<size_t>(h)];
        });
        const double added = is_folded ? sum : scale * between(sum);
        out.push_back(through(recipe.storage, element(kX, {example, row, i}) + added));
      }
    }
  }
  return out;
}

// Cases in which all hidden units are equal and their weights in out nearly cancel.
struct Line {
  std::string_view line;
  RecipeOfPath recipe;
};
const Line kRepeated[] = {
    {"bf16/n=2/l=1/c=9/dilation=16/hidden=65/layout=broadcast", kTrain},
    {"bf16/n=2/l=1/c=16/dilation=2/hidden=16/layout=broadcast", kTrain},
    {"bf16/n=2/l=1/c=16/dilation=2/hidden=16/layout=broadcast", kFused},
    {"bf16/n=2/l=1/c=31/dilation=15/hidden=65/layout=broadcast", kTrain},
    {"bf16/n=2/l=1/c=33/dilation=257/hidden=17/layout=broadcast", kTrain},
    {"bf16/n=2/l=2/c=3/dilation=255/hidden=64/layout=broadcast", kFused},
    {"f32/n=2/l=2/c=127/dilation=256/hidden=16/layout=broadcast", kFused},
    {"bf16/n=2/l=31/c=17/dilation=31/hidden=64/layout=broadcast", kTrain},
    {"bf16/n=2/l=31/c=17/dilation=31/hidden=64/layout=broadcast", kFused},
    {"f32/n=2/l=31/c=31/dilation=65/hidden=16/layout=broadcast", kFused},
    {"bf16/n=2/l=32/c=63/dilation=256/hidden=63/layout=broadcast", kTrain},
    {"bf16/n=2/l=63/c=8/dilation=1/hidden=64/layout=broadcast", kFused},
    {"bf16/n=2/l=63/c=64/dilation=31/hidden=64/layout=broadcast", kTrain},
    {"bf16/n=2/l=63/c=64/dilation=31/hidden=64/layout=broadcast", kFused},
    {"f32/n=2/l=64/c=3/dilation=32/hidden=64/layout=broadcast", kFused},
    {"f32/n=2/l=65/c=32/dilation=127/hidden=64/layout=broadcast", kFused},
    {"bf16/n=2/l=511/c=8/dilation=127/hidden=64/layout=broadcast", kFused},
    {"f16/n=2/l=65/c=63/dilation=64/hidden=17/layout=broadcast", kTrain},
    {"f16/n=2/l=33/c=33/dilation=32/hidden=65/layout=broadcast", kTrain},
    {"bf16/n=2/l=129/c=9/dilation=127/hidden=63/layout=broadcast", kTrain},
    {"bf16/n=2/l=1/c=33/dilation=128/hidden=64/layout=broadcast", kTrain},
    {"f32/n=2/l=32/c=63/dilation=31/hidden=64/layout=broadcast", kFused},
};

const Line kOthers[] = {{"f32/n=2/l=7/c=33/dilation=2/hidden=64", kFused},
                        {"f16/n=2/l=7/c=33/dilation=2/hidden=64", kFused},
                        {"bf16/n=2/l=7/c=33/dilation=2/hidden=65", kTrain},
                        {"f16/n=2/l=7/c=33/dilation=2/hidden=65", kTrain},
                        {"f32/n=2/l=7/c=33/dilation=2/hidden=65", kTrain},
                        {"bf16/n=2/l=5/c=16/dilation=2/hidden=256/layout=broadcast", kTrain},
                        {"f32/n=2/l=5/c=16/dilation=2/hidden=256/layout=broadcast", kFused},
                        {"f32/n=2/l=5/c=16/dilation=2/hidden=256/layout=broadcast", kTrain},
                        {"bf16/n=2/l=5/c=16/dilation=2/hidden=256/data=positive/layout=broadcast", kTrain},
                        {"f16/n=2/l=5/c=16/dilation=2/hidden=64/data=integers/layout=broadcast", kFused},
                        {"f32/n=2/l=5/c=16/dilation=2/hidden=64/data=constant", kFused}};

// A path that rounds as its recipe says is right.
TEST(CheriBlockOracle, HoldsALoopThatRoundsAsTheRecipeSays) {
  const auto hold = [&](const Line& line, uint64_t seed) {
    const Judged judged(fmt::format("{}/seed={}", line.line, seed), line.recipe);
    const Comparison c = judged.compare(block_by_loop(judged.question(), kScale));
    EXPECT_EQ(c.wrong, 0) << line.recipe.path << ' ' << judged.which().to_string();
  };
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const Line& line : kOthers) hold(line, seed);
  }
  for (const Line& line : kRepeated) hold(line, 0);
}

// A planted fault is rejected if it shows above rounding.
TEST(CheriBlockOracle, RejectsALoopWithAnotherScale) {
  for (const double wrong : {1.0, kScale * kScale}) {
    int rejected = 0;
    for (const auto& [line, recipe] : kRepeated) {
      const Judged judged(line, recipe);
      rejected += judged.compare(block_by_loop(judged.question(), wrong)).wrong > 0;
    }
    EXPECT_GE(rejected, static_cast<int>(std::size(kRepeated)) / 2) << wrong;
  }
}

TEST(CheriBlockOracle, RejectsFactorsOf16BitsInPathsOfF32) {
  const std::string_view line = "f32/n=2/l=7/c=33/dilation=2/hidden=64";
  for (const std::string_view layout : {"dense", "broadcast"}) {
    const std::string with_layout = fmt::format("{}/layout={}", line, layout);
    const Judged rounded(with_layout, kFused), exact(with_layout, kTrain);
    EXPECT_GT(exact.compare(block_by_loop(rounded.question(), kScale)).wrong, 0) << layout;
  }
}

}  // namespace
}  // namespace assay::cheri
