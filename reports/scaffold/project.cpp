// SPDX-License-Identifier: Apache-2.0
#include "reports/scaffold/project.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "kernels/core/error.h"
#include "reports/scaffold/faults.h"
#include "reports/scaffold/templates.h"

namespace assay {
namespace {

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string line(int depth, std::string_view text) {
  return fmt::format("{:{}}{}\n", "", 2 * depth, text);
}

std::string without_last_newline(std::string text) {
  text.pop_back();
  return text;
}

std::string enumerator(const PlantedFault& fault) {
  return "k" + camel_case(fault.name);
}

// "0.5f", "2.0f"
std::string literal(float number) {
  const std::string digits = fmt::format("{}", number);
  return digits + (digits.find_first_not_of("0123456789") == std::string::npos ? ".0f" : "f");
}

// "(M,K)"
std::string sizes(const Tensor& tensor, std::string_view separator) {
  std::string text = joined(tensor.indices, separator);
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

// Writes the statements of a formula in the words of one file.
class Writer {
 public:
  Writer(const Formula& formula, const Faults& faults) : formula_(formula), faults_(faults) {}

  std::string cpu_loop() const {
    return over(formula_.output.indices, "size", 1, [&](int depth) {
      std::string text = line(depth, "float sum = 0;");
      for (const Term& term : formula_.terms) {
        text += over(term.summed, "size", depth, [&](int inner) {
          return line(inner, fmt::format("sum {}= {};", term.is_negative ? '-' : '+', product(term)));
        });
      }
      return text + line(depth, fmt::format("{} = from_double<Stored>(sum);", element(formula_.output)));
    });
  }

  std::string oracle_terms() const {
    return terms(3, "Fault::", faults_.is_large, "size", [&](const Term& term, int depth) {
      std::string text;
      std::vector<std::string> factors;
      for (const Tensor& tensor : term.factors) {
        factors.push_back(faulty_element(tensor, "({", "})"));
        if (!is_swapped(tensor)) continue;
        const char* name = factors.size() == 1 ? "first" : "second";
        text += line(depth, fmt::format("const double {} = {};", name, factors.back()));
        factors.back() = name;
      }
      if (factors.empty()) factors.push_back("1");
      if (term.number) factors.insert(factors.begin(), literal(*term.number));
      if (factors.size() == 1) factors.insert(factors.begin(), "1");
      const char* add = factors.size() == 3 ? "add_scaled" : "add";
      const char* sign = term.is_negative ? "-" : "";
      return text + line(depth, fmt::format("sum.{}({}{});", add, sign, joined(factors, ", ")));
    });
  }

  std::string specimen_loop() const {
    return over(formula_.output.indices, "size", 1, [&](int depth) {
      const auto add = [&](const Term& term, int inner) { return specimen_addition(term, inner); };
      return line(depth, "float sum = 0;") +
             terms(depth, "", std::vector<bool>(formula_.terms.size(), true), "end", add) +
             line(depth, fmt::format("{} = math.store(sum);", element(formula_.output)));
    });
  }

 private:
  using Body = std::function<std::string(int depth)>;
  using TermBody = std::function<std::string(const Term& term, int depth)>;

  // Loops over the indices from 0 to <index>_<end>, with the body inside.
  static std::string over(const std::vector<std::string>& indices, std::string_view end, int depth,
                          const Body& body) {
    std::string text;
    for (const std::string& index : indices)
      text += line(depth++, fmt::format("for (int64_t {0} = 0; {0} < {0}_{1}; ++{0}) {{", index, end));
    text += body(depth);
    for (size_t i = 0; i < indices.size(); ++i) text += line(--depth, "}");
    return text;
  }

  // All terms. Those that can be dropped are left out if that is the fault.
  std::string terms(int depth, std::string_view scope, const std::vector<bool>& can_be_dropped,
                    std::string_view end, const TermBody& body) const {
    std::string text;
    for (size_t i = 0; i < formula_.terms.size(); ++i) {
      const Term& term = formula_.terms[i];
      const bool is_guarded = !faults_.dropped.empty() && can_be_dropped[i];
      if (is_guarded) {
        text += line(depth, fmt::format("if (fault != {}{}) {{", scope, enumerator(faults_.dropped[i])));
      }
      text += over(term.summed, end, depth + is_guarded, [&](int inner) { return body(term, inner); });
      if (is_guarded) text += line(depth, "}");
    }
    return text;
  }

  static std::string element(const Tensor& tensor) {
    return fmt::format("{}({})", tensor.name, joined(tensor.indices, ", "));
  }

  bool is_swapped(const Tensor& tensor) const {
    return faults_.swapped && faults_.swapped_tensor.name == tensor.name;
  }

  // The element of an input, of another one if that is the fault.
  std::string faulty_element(const Tensor& tensor, std::string_view open, std::string_view close) const {
    const auto at = [&](const std::vector<std::string>& indices) {
      return fmt::format("{}{}{}{}", tensor.name, open, joined(indices, ", "), close);
    };
    if (!is_swapped(tensor)) return at(tensor.indices);
    std::vector<std::string> indices = tensor.indices;
    const size_t last = indices.size() - 1;
    indices[last - 1] = fmt::format("{} % {}_size", tensor.indices[last], tensor.indices[last - 1]);
    indices[last] = fmt::format("{} % {}_size", tensor.indices[last - 1], tensor.indices[last]);
    return fmt::format("swapped ? {} : {}", at(indices), at(tensor.indices));
  }

  // "0.5f * (load(a(m, k)) * load(b(k, n)))"
  static std::string product(const Term& term) {
    std::vector<std::string> factors;
    for (const Tensor& tensor : term.factors) factors.push_back(fmt::format("load({})", element(tensor)));
    const std::string product = joined(factors, " * ");
    if (!term.number) return product;
    const char* form = factors.empty() ? "{}" : factors.size() == 1 ? "{} * {}" : "{} * ({})";
    return fmt::format(fmt::runtime(form), literal(*term.number), product);
  }

  std::string specimen_addition(const Term& term, int depth) const {
    std::string text;
    std::string value;
    for (const Tensor& tensor : term.factors) {
      const char* name = value.empty() ? "first" : "second";
      text +=
          line(depth, fmt::format("const float {} = math.load({});", name, faulty_element(tensor, "(", ")")));
      value = value.empty() ? "first" : "math.multiply(first, second)";
    }
    if (term.number) {
      const std::string number = literal(*term.number);
      value = value.empty() ? number : fmt::format("math.multiply({}, {})", number, value);
    }
    return text + line(depth, fmt::format("sum = math.add(sum, {}{});", term.is_negative ? "-" : "", value));
  }

  const Formula& formula_;
  const Faults& faults_;
};

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
                    {"key", fmt::format("\"{}\"", index)},
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
                   {"place", fmt::format("{}", all.size())},
                   {"tensor", fmt::format("\"{}\"", tensor.name)},
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
    all.push_back({{"fault", fault.name}, {"enumerator", enumerator(fault)}, {"sentence", fault.sentence}});
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
  const Writer writer(formula, faults);
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
          {"cpu_loop", without_last_newline(writer.cpu_loop())},
          {"oracle_terms", without_last_newline(writer.oracle_terms())},
          {"specimen_loop", without_last_newline(writer.specimen_loop())}};
}

}  // namespace

std::vector<ProjectFile> project_files(std::string_view op, const Formula& formula) {
  const Faults faults = faults_of(formula);
  const Fields fields = fields_of(op, formula, faults);
  const Lists lists = lists_of(formula, faults);
  const std::pair<std::string_view, std::string_view> templates[] = {
      {"CMakeLists.txt", kProjectLists},         {"README.md", kProjectReadme},
      {"kernels/@op@/@op@.h", kProjectContract}, {"kernels/@op@/@op@.cpp", kProjectOp},
      {"kernels/@op@/cpu.cpp", kProjectLoop},    {"oracles/@op@/@op@.h", kProjectOracleHeader},
      {"oracles/@op@/@op@.cpp", kProjectOracle}, {"properties/@op@.cpp", kProjectProperties},
      {"bench/@op@.cpp", kProjectBench},
  };
  std::vector<ProjectFile> files;
  for (const auto& [path, text] : templates)
    files.push_back({fill(path, fields, {}), fill(text, fields, lists)});
  return files;
}

}  // namespace assay
