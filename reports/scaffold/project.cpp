// SPDX-License-Identifier: Apache-2.0
#include "reports/scaffold/project.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

#include "kernels/core/error.h"
#include "reports/scaffold/faults.h"
#include "reports/scaffold/statements.h"
#include "reports/scaffold/templates.h"

namespace assay {
namespace {

// "(M,K)"
std::string sizes(const Tensor& tensor, std::string_view separator) {
  std::string text = joined(tensor.indices, separator);
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

// The dimensions: the index, and where its size stands in a tensor.
std::vector<Fields> dims_of(const Formula& formula) {
  std::vector<Tensor> tensors = formula.inputs();
  tensors.push_back(formula.output);
  std::vector<Fields> dims;
  for (const std::string& index : formula.indices()) {
    const auto has = [&](const Tensor& tensor) { return std::ranges::count(tensor.indices, index) > 0; };
    const Tensor& owner = *std::ranges::find_if(tensors, has);
    const auto axis = std::ranges::find(owner.indices, index) - owner.indices.begin();
    dims.push_back({{"index", index},
                    {"key", "k" + camel_case(index)},
                    {"number", fmt::format("{}", dims.size())},
                    {"owner", owner.name},
                    {"axis", fmt::format("{}", axis)}});
  }
  return dims;
}

// The problem to time: equal sizes, and no term of more than 2^22 products.
std::string bench_dims(const Formula& formula) {
  size_t most = 0;  // indices of a term
  for (const Term& term : formula.terms)
    most = std::max(most, formula.output.indices.size() + term.summed.size());
  const int64_t size = int64_t{1} << (22 / most);
  std::vector<std::string> dims;
  for (const Fields& dim : dims_of(formula)) dims.push_back(fmt::format("{{{}, {}}}", dim.at("key"), size));
  return joined(dims, ", ");
}

std::vector<Fields> tensor_fields(const std::vector<Tensor>& tensors, size_t longest) {
  std::vector<Fields> all;
  for (const Tensor& tensor : tensors) {
    all.push_back({{"name", tensor.name},
                   {"tensor", "k" + camel_case(tensor.name)},
                   {"number", fmt::format("{}", all.size())},
                   {"axes", joined(tensor.indices, " ")},
                   {"indices", joined(tensor.indices, ", ")},
                   {"sizes", sizes(tensor, ", ")},
                   {"pad", std::string(longest - tensor.name.size(), ' ')}});
  }
  return all;
}

std::vector<Fields> fault_fields(const std::vector<PlantedFault>& faults) {
  std::vector<Fields> all;
  for (const PlantedFault& fault : faults)
    all.push_back({{"fault", fault.name}, {"enumerator", fault.enumerator()}, {"sentence", fault.sentence}});
  return all;
}

Lists lists_of(const Formula& formula, const Faults& faults) {
  const std::vector<Tensor> inputs = formula.inputs();
  const std::string_view kInput = "ConstTensorView", kOutput = "TensorView";
  size_t longest = formula.output.name.size() + kOutput.size();
  for (const Tensor& input : inputs) longest = std::max(longest, input.name.size() + kInput.size());

  Lists lists;
  lists["inputs"] = tensor_fields(inputs, longest - kInput.size());
  lists["output"] = tensor_fields({formula.output}, longest - kOutput.size());
  lists["dims"] = dims_of(formula);
  for (const std::string& index : formula.output.indices) {
    lists["output_axes"].push_back(
        {{"index", index}, {"axis", fmt::format("{}", lists["output_axes"].size())}});
  }
  lists["faults"] = fault_fields(faults.all());
  lists["sums"] = fault_fields(faults.last_left_out);
  for (size_t i = 0; i < lists["sums"].size(); ++i)
    lists["sums"][i]["index"] = formula.indices()[formula.output.indices.size() + i];
  lists["transposed"] = faults.swapped ? fault_fields({*faults.swapped}) : std::vector<Fields>{};
  lists["counterfeits"] = fault_fields(faults.counterfeits());
  const std::vector<std::string> hidden = hidden_faults(formula);
  for (const std::string& fault : hidden) lists["hidden"].push_back({{"enumerator", fault}});
  lists["hidden"].resize(hidden.size());
  lists[hidden.empty() ? "all_show" : "some_hide"].resize(1);
  lists[hidden.empty() ? "some_hide" : "all_show"].clear();
  return lists;
}

Fields fields_of(std::string_view op, const Formula& formula, const Faults& faults) {
  std::vector<std::string> shapes, elements, flops;
  std::vector<Tensor> tensors = formula.inputs();
  tensors.push_back(formula.output);
  for (const Tensor& tensor : tensors) {
    shapes.push_back(fmt::format("{} ({})", tensor.name, sizes(tensor, ",")));
    elements.push_back(joined(tensor.indices, " * "));
  }
  for (const Term& term : formula.terms) {  // a flop for each factor: the products, and an addition
    std::vector<std::string> factors = formula.output.indices;
    factors.insert(factors.end(), term.summed.begin(), term.summed.end());
    const size_t count = term.factors.size() + (term.number ? 1 : 0);
    if (count > 1) factors.insert(factors.begin(), fmt::format("{}", count));
    flops.push_back(joined(factors, " * "));
  }
  std::vector<std::string> output_sizes;
  for (const std::string& index : formula.output.indices) output_sizes.push_back(index + "_size");
  return {{"op", std::string(op)},
          {"formula", to_string(formula)},
          {"output", formula.output.name},
          {"shapes", joined(shapes, "; ")},
          {"elements", joined(elements, " + ")},
          {"flops", joined(flops, " + ")},
          {"bench_dims", bench_dims(formula)},
          {"output_sizes", joined(output_sizes, ", ")},
          {"cpu_loop", cpu_loop(formula, faults)},
          {"oracle_terms", oracle_terms(formula, faults)},
          {"copies", is_copy(formula) ? "      .copies = true,\n" : ""},
          {"output_rank", fmt::format("{}", formula.output.indices.size())},
          {"specimen_loop", specimen_loop(formula, faults)}};
}

std::vector<ProjectFile> filled_in(std::string_view op, const Formula& formula) {
  const Faults faults = faults_of(formula);
  const Fields fields = fields_of(op, formula, faults);
  const Lists lists = lists_of(formula, faults);
  const std::pair<std::string_view, std::string_view> templates[] = {
      {"CMakeLists.txt", kProjectLists},           {"README.md", kProjectReadme},
      {"kernels/@op@/@op@.h", kProjectContract},   {"kernels/@op@/@op@.cpp", kProjectOp},
      {"kernels/@op@/cpu.cpp", kProjectLoop},      {"oracles/@op@/@op@.cpp", kProjectOracle},
      {"properties/@op@.cpp", kProjectProperties}, {"bench/@op@.cpp", kProjectBench},
  };
  std::vector<ProjectFile> files;
  for (const auto& [path, text] : templates)
    files.push_back({fill(path, fields, {}), fill(text, fields, lists)});
  return files;
}

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The names in C++ code, but those of members after a dot.
std::set<std::string, std::less<>> names_in(std::string_view code) {
  std::set<std::string, std::less<>> names;
  for (size_t i = 0; i < code.size();) {
    if (code.substr(i).starts_with("//")) {
      i = std::min(code.find('\n', i), code.size());
    } else if (code[i] == '"') {
      i = std::min(code.find('"', i + 1), code.size() - 1) + 1;
    } else if (is_of_name(code[i])) {
      const size_t begin = i;
      while (i < code.size() && is_of_name(code[i])) ++i;
      if (begin == 0 || code[begin - 1] != '.') names.emplace(code.substr(begin, i - begin));
    } else {
      ++i;
    }
  }
  return names;
}

// The names that the code of any formula has, read off the code of one that has all there is.
const std::set<std::string, std::less<>>& names_of_every_project() {
  static const std::set<std::string, std::less<>> names = [] {
    const Tensor out{"own_out", {"own_i", "own_j"}}, left{"own_a", {"own_i", "own_k"}},
        right{"own_b", {"own_k", "own_j"}}, other{"own_c", {"own_i", "own_j"}};
    Formula formula{.output = out, .terms = std::vector<Term>(3)};
    formula.terms[0] = {.is_negative = false, .number = 0.5F, .summed = {"own_k"}, .factors = {left, right}};
    formula.terms[1] = {.is_negative = true, .number = {}, .summed = {}, .factors = {other}};
    formula.terms[2].number = 2.0F;
    std::set<std::string, std::less<>> all;
    for (const ProjectFile& file : filled_in("own_op", formula)) {
      if (file.path.ends_with(".h") || file.path.ends_with(".cpp")) all.merge(names_in(file.text));
    }
    std::erase_if(all, [](const std::string& name) { return name.starts_with("own_"); });
    return all;
  }();
  return names;
}

// Constants are called kName.
void require_free(std::string_view name) {
  const bool is_constant =
      name.size() > 1 && name[0] == 'k' && std::isupper(static_cast<unsigned char>(name[1]));
  if (is_constant || names_of_every_project().contains(name))
    throw usage_error("'{}' cannot be a name: the code that is written uses it", name);
}

}  // namespace

std::vector<ProjectFile> project_files(std::string_view op, const Formula& formula) {
  require_free(op);
  require_free(formula.output.name);
  for (const Tensor& input : formula.inputs()) require_free(input.name);
  for (const std::string& index : formula.indices()) require_free(index);
  return filled_in(op, formula);
}

}  // namespace assay
