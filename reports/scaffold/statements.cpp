// SPDX-License-Identifier: Apache-2.0
#include "reports/scaffold/statements.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <vector>

namespace assay {
namespace {

std::string line(int depth, std::string_view text) {
  return fmt::format("{:{}}{}\n", "", 2 * depth, text);
}

// "0.5f", "2.0f"
std::string literal(float number) {
  const std::string digits = fmt::format("{}", number);
  return digits + (digits.find_first_not_of("0123456789") == std::string::npos ? ".0f" : "f");
}

// Writes the statements of a formula in the words of one file.
class StatementWriter {
 public:
  StatementWriter(const Formula& formula, const Faults& faults) : formula_(formula), faults_(faults) {}

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
        text += line(depth, fmt::format("const Ball {} = {};", name, factors.back()));
        factors.back() = name;
      }
      if (factors.empty()) factors.push_back("1");
      if (term.number) factors.insert(factors.begin(), literal(*term.number));
      if (factors.size() == 1) factors.insert(factors.begin(), "1");
      for (std::string& factor : factors) factor = fmt::format("{{{}}}", factor);
      factors.front().insert(1, term.is_negative ? "-" : "");
      if (factors.size() == 3) {
        factors[1] = fmt::format("arithmetic.multiply({}, {})", factors[0], factors[1]);
        factors.erase(factors.begin());
      }
      return text + line(depth, fmt::format("add({});", joined(factors, ", ")));
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
        text += line(depth, fmt::format("if (fault != {}{}) {{", scope, faults_.dropped[i].enumerator()));
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

std::string without_last_newline(std::string text) {
  text.pop_back();
  return text;
}

}  // namespace

std::string cpu_loop(const Formula& formula, const Faults& faults) {
  return without_last_newline(StatementWriter(formula, faults).cpu_loop());
}
std::string oracle_terms(const Formula& formula, const Faults& faults) {
  return without_last_newline(StatementWriter(formula, faults).oracle_terms());
}
std::string specimen_loop(const Formula& formula, const Faults& faults) {
  return without_last_newline(StatementWriter(formula, faults).specimen_loop());
}

}  // namespace assay
