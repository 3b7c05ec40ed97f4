// SPDX-License-Identifier: Apache-2.0
// What `assay new` takes for a formula, what it says of anything else, and what it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/core/error.h"
#include "reports/scaffold/faults.h"
#include "reports/scaffold/project.h"
#include "reports/scaffold/templates.h"
#include "reports/self/error_of.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string text_of(const std::vector<ProjectFile>& files, std::string_view path) {
  for (const ProjectFile& file : files) {
    if (file.path == path) return file.text;
  }
  return "no such file";
}

TEST(FormulaOfAnOp, IsASumOfProducts) {
  const Formula formula =
      parse_formula("out[m, n]=.5*sum_{k,l}a[m,k,l] * b[k,l,n]- bias[n] + sum_k r[m,k] +1e-2");
  EXPECT_EQ(to_string(formula),
            "out[m,n] = 0.5 * sum_{k,l} a[m,k,l] * b[k,l,n] - bias[n] + sum_k r[m,k] + 0.01");
  EXPECT_EQ(formula.output.name, "out");
  EXPECT_THAT(formula.indices(), ElementsAre("m", "n", "k", "l"));
  ASSERT_EQ(formula.terms.size(), 4u);
  EXPECT_EQ(formula.terms[0].number, 0.5f);
  EXPECT_THAT(formula.terms[0].summed, ElementsAre("k", "l"));
  EXPECT_TRUE(formula.terms[1].is_negative);
  EXPECT_TRUE(formula.terms[3].factors.empty());
  ASSERT_EQ(formula.inputs().size(), 4u);
  EXPECT_EQ(formula.inputs()[1].name, "b");
}

TEST(FormulaOfAnOp, NamesEachTensorOnce) {
  const Formula formula = parse_formula("y[n] = -0.5 * a[n] * x[n] + x[n]");
  EXPECT_EQ(to_string(formula), "y[n] = -0.5 * a[n] * x[n] + x[n]");
  EXPECT_EQ(formula.inputs().size(), 2u);
}

TEST(FormulaOfAnOp, SaysWhereItIsNone) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "at its end: expected a tensor"},
      {"y", "at its end: expected '[' after the tensor y"},
      {"y[]", "at character 3, ']': expected an index"},
      {"y[n", "at its end: expected ',' or ']' after an index"},
      {"y[3] = x[n]", "at character 3, '3] = x[n]': expected an index"},
      {"y[N] = x[N]", "at character 3, 'N] = x[N]': an index is in lower case"},
      {"y[n] + x[n]", "at character 6, '+ x[n]': expected '=' after the output"},
      {"y[n] =", "at its end: expected a tensor"},
      {"y[n] = x[n] +", "at its end: expected a tensor"},
      {"y[n] = x[n] / z[n]", "at character 13, '/ z[n]': expected '+', '-' or the end"},
      {"y[n] = x[n] - x[n]",
       "at character 15, 'x[n]': this is a multiple of the term x[n]: leave one of the two"},
      {"y[n] = a[n] * x[n] + 2 * x[n] * a[n]", "this is a multiple of the term a[n] * x[n]"},
      {"y[n] = 1 + 2 + x[n]", "at character 12, '2 + x[n]': this is a multiple of the term 1: leave one"},
      {"y[n] = exp(x[n])", "at character 8, 'exp(x[n])': there are no functions"},
      {"y[n] = x[n] $", "at character 13, '$': expected '+', '-' or the end"},
      {"y[n] = x[n] * 2", "at character 15, '2': a number stands first in its term: 2 * sum_k x[k]"},
      {"y[n] = 0 * x[n]", "at character 8, '0 * x[n]': this number is 0, or f32 does not hold it"},
      {"y[n] = 1e99 * x[n]", "this number is 0, or f32 does not hold it"},
      {"y[n] = .e * x[n]", "this number is 0, or f32 does not hold it"},
      {"y[n] = a[n] * b[n] * c[n]", "at character 20, '* c[n]': a term has at most two tensors"},
      {"y[n] = a[n] * sum_k b[k]",
       "at character 15, 'sum_k b[k]': a term has one sum, before its tensors; one over two indices is "
       "sum_{j,k}"},
      {"y[n] = sum_ x[n]", "at character 14, '[n]': expected a tensor"},
      {"y[n] = sum_ = x[n]", "at character 13, '= x[n]': expected an index"},
      {"y[n] = sum_{k x[k]", "at character 15, 'x[k]': expected ',' or '}' after an index"},
      {"y[n] = sum_{k,k} x[n,k]", "at character 15, 'k} x[n,k]': the index k is summed twice"},
      {"y[n] = sum_n x[n]", "at character 12, 'n x[n]': n is an index of the output, so it cannot be summed"},
      {"y[n] = sum_k x[n]", "at character 8, 'sum_k x[n]': no tensor of the sum has the index k"},
      {"y[n] = x[n,k]", "at character 12, 'k]': the index k is neither in the output nor summed"},
      {"y[n] = sum_k x[n,k] + z[k]", "the index k is neither in the output nor summed"},
      {"y[n,n] = x[n]", "at character 1, 'y[n,n] = x[n': the index n stands twice in the output"},
      {"y[m,n] = x[n]",
       "at character 3, 'm,n] = x[n]': the index m of the output stands nowhere on the right"},
      {"y[n] = y[n]", "at character 8, 'y[n]': y is the output"},
      {"y[m,n] = x[m,n] + x[n]",
       "at character 19, 'x[n]': a tensor has the same indices everywhere, and this one was x[m,n]"},
      {"y[m,n] = x[m,n] * x[n,m]", "this one was x[m,n]"},
      {"y[a,b,c,d,e,f,g] = x[a,b,c,d,e,f,g]", "y has 7 indices, more than 6"},
      {"float[n] = x[n]", "at character 1, 'float[n] = x': 'float' cannot be a name"},
      {"y[for] = x[for]", "'for' cannot be a name"},
      {"y[seed] = x[seed]", "'seed' cannot be a name"},
      {"n[n] = x[n]",
       "at character 3, 'n] = x[n]': the index n has a name too much like that of the tensor n"},
      {"y[n] = N[n]", "the tensor N has a name too much like that of the index n"},
      {"y[n] = n_size[n]", "the tensor n_size has a name too much like that of the index n"},
      {"y[n] = a_b[n] + aB[n]", "the tensor aB has a name too much like that of the tensor a_b"},
      {"y[n] =\n\x1b[2J x[n]", "at character 7, '\\x0a\\x1b[2J x[n]': expected a tensor"},
      {"y[n] = x[n]" + std::string(990, ' '), "the formula has 1001 characters, more than 1000"},
  };
  for (const auto& [text, message] : wrong) {
    EXPECT_THAT(error_of([&] { parse_formula(text); }), HasSubstr(message)) << text;
  }
}

TEST(NameOfAnOp, IsFreeShortAndSnakeCase) {
  for (const char* name : {"gemm", "row_sum2", "a"}) require_op_name(name);
  for (const char* name : {"", "Gemm", "2d", "_a", "a_", "a__b", "a-b", "a/b", "row sum"})
    EXPECT_THAT(error_of([&] { require_op_name(name); }), HasSubstr("is not snake_case")) << name;
  for (const char* name : {"new", "std", "core", "cpu", "permutation"})
    EXPECT_THAT(error_of([&] { require_op_name(name); }), HasSubstr("cannot be the name of an op")) << name;
  require_op_name(std::string(64, 'a'));
  EXPECT_THAT(error_of([] { require_op_name(std::string(65, 'a')); }),
              HasSubstr("has 65 characters, more than 64"));
  EXPECT_THAT(error_of([] { require_op_name("a\nb"); }), HasSubstr("'a\\x0ab' is not snake_case"));
}

TEST(FaultsOfAFormula, AreThoseThatItCanShow) {
  const auto names = [](const std::vector<PlantedFault>& faults) {
    std::vector<std::string> all;
    for (const PlantedFault& fault : faults) all.push_back(fault.name);
    return all;
  };
  const Formula gemm = parse_formula("c[m,n] = sum_k a[m,k] * b[k,n] + bias[n]");
  EXPECT_THAT(names(faults_of(gemm).all()),
              ElementsAre("a_b_dropped", "bias_dropped", "last_k_dropped", "a_transposed"));
  EXPECT_THAT(names(faults_of(gemm).counterfeits()), ElementsAre("a_b_dropped", "a_transposed"));
  EXPECT_THAT(hidden_faults(gemm), ElementsAre("kSubnormalsFlushed", "kSubnormalResultsFlushed"));

  const Formula alike = parse_formula("y[n] = a[n] * b[n] + a_b[n]");
  EXPECT_THAT(names(faults_of(alike).all()), ElementsAre("a_b_dropped", "a_b_dropped_2"));
  const Formula last = parse_formula("y[n] = sum_k a[n,k] + last_k[n]");
  EXPECT_THAT(names(faults_of(last).all()),
              ElementsAre("a_dropped", "last_k_dropped", "last_k_dropped_2", "a_transposed"));

  const Formula copy = parse_formula("y[n] = x[n]");
  EXPECT_THAT(names(faults_of(copy).all()), ElementsAre("x_dropped"));
  EXPECT_THAT(hidden_faults(copy), ElementsAre("kProductsRounded", "kSumsRounded", "kOutputTruncated"));

  const Formula scaled = parse_formula("y[n] = 0.3 * a[n] * x[n]");
  EXPECT_THAT(hidden_faults(scaled), ElementsAre("kSumsRounded"));
}

TEST(ProjectOfAFormula, SaysTheFormulaInEachFile) {
  const auto files = project_files("fma", parse_formula("y[n] = 0.5 * a[n] * x[n] - 2 * x[n] + 1"));
  EXPECT_EQ(files.size(), 8u);
  for (const ProjectFile& file : files) EXPECT_THAT(file.text, Not(HasSubstr("@"))) << file.path;
  EXPECT_THAT(
      text_of(files, "kernels/fma/cpu.cpp"),
      HasSubstr(
          "    sum += 0.5f * (load(a(n)) * load(x(n)));\n    sum -= 2.0f * load(x(n));\n    sum += 1.0f;\n"));
  EXPECT_THAT(text_of(files, "oracles/fma/fma.cpp"),
              HasSubstr("add(arithmetic.multiply({0.5f}, {a({n})}), {x({n})});"));
  EXPECT_THAT(text_of(files, "oracles/fma/fma.cpp"), HasSubstr("add({-2.0f}, {x({n})});"));
  EXPECT_THAT(text_of(files, "oracles/fma/fma.cpp"), HasSubstr("add({1.0f}, {1});"));
  EXPECT_THAT(text_of(files, "bench/fma.cpp"), HasSubstr("{kN, 4194304}"));
}

// Whatever name stands in the code of one formula is no name in another.
TEST(ProjectOfAFormula, RefusesTheNamesThatItsCodeHas) {
  for (const char* name : {"Ball", "Stored", "add", "dims", "first", "from_double", "index_of", "kN", "kX",
                           "load", "math", "second", "size_of", "std", "sum", "swapped", "tensors"}) {
    const Formula formula = parse_formula(fmt::format("y[n] = x[n] + {}[n]", name));
    EXPECT_THAT(error_of([&] { project_files("fma", formula); }),
                HasSubstr(fmt::format("'{}' cannot be a name: the code that is written uses it", name)));
  }
  EXPECT_THAT(error_of([] { project_files("load", parse_formula("y[n] = x[n]")); }),
              HasSubstr("'load' cannot"));
  for (const char* name : {"a", "b", "bias", "k", "key", "kernel", "plain", "row_sum", "w", "weight", "y2"})
    project_files("fma", parse_formula(fmt::format("y[n] = x[n] + {}[n]", name)));
}

TEST(Template, NamesAFieldThatIsNotThere) {
  const Lists lists = {{"items", {{{"name", "a"}}, {{"name", "b"}}}}};
  EXPECT_EQ(fill("@op@:\n@each items@  @name@ of @op@\nend", {{"op", "x"}}, lists),
            "x:\n  a of x\n  b of x\nend");
  EXPECT_THAT(error_of([] { fill("@nothing@", {}, {}); }), HasSubstr("no field 'nothing'"));
  EXPECT_THAT(error_of([] { fill("@each nothing@", {}, {}); }), HasSubstr("no list 'nothing'"));
}

}  // namespace
}  // namespace assay
