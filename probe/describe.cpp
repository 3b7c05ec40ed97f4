// SPDX-License-Identifier: Apache-2.0
#include "probe/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace assay {
namespace {

// How partial sums are joined, or the terms of one of them.
using Join = SumTree (*)(std::vector<SumTree> parts);

SumTree butterfly_of(std::vector<SumTree> parts) {  // i with i + n/2, as in a tree of shuffles
  while (parts.size() > 1) {
    const size_t half = (parts.size() + 1) / 2;
    for (size_t i = half; i < parts.size(); ++i)
      parts[i - half] = node({std::move(parts[i - half]), std::move(parts[i])});
    parts.resize(half);
  }
  return std::move(parts.at(0));
}

SumTree backwards_of(std::vector<SumTree> parts) {
  std::ranges::reverse(parts);
  return sequential_of(std::move(parts));
}

struct Named {
  std::string_view name;
  Join join;
};
constexpr Named kOrders[] = {{"sequential", sequential_of},
                             {"pairwise", pairwise_of},
                             {"pairwise over halves apart", butterfly_of},
                             {"sequential from the last term", backwards_of}};

std::vector<SumTree> terms_of(const Leaves& leaves) {
  std::vector<SumTree> all;
  for (int64_t k = 0; k < leaves.count; ++k) all.push_back(leaf(leaves.first + k * leaves.step));
  return all;
}

// The words of a tree over these leaves that is no combination of smaller ones.
std::string simple_shape(const SumTree& tree, const Leaves& leaves) {
  if (leaves.count == 1) return "a single term";
  if (widest_node(tree) == 2) {
    for (const auto& [name, join] : kOrders) {
      if (tree == join(terms_of(leaves))) return std::string(name);
    }
    return "";
  }
  if (tree == node(terms_of(leaves))) return "all terms at once";
  for (int64_t size = 2; size < std::min<int64_t>(leaves.count, 129); ++size) {
    if (tree == fused_chain(leaves, size))
      return fmt::format("groups of {} terms, each added at once to the sum so far", size);
  }
  return "";
}

// The parts that `join` joins to `tree`, if there are `count` of them.
const SumTree* find_part(const SumTree& tree, const std::vector<int64_t>& leaves) {
  if (leaves_of(tree).size() == leaves.size()) {
    std::vector<int64_t> found = leaves_of(tree);
    std::ranges::sort(found);
    return found == leaves ? &tree : nullptr;
  }
  for (const SumTree& part : tree.parts) {
    const std::vector<int64_t> within = leaves_of(part);
    if (std::ranges::find(within, leaves.front()) != within.end()) return find_part(part, leaves);
  }
  return nullptr;
}

std::string combined_shape(const SumTree& tree, int64_t count, int64_t parts, bool is_strided) {
  std::vector<SumTree> all;
  std::string shape;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t length = (count + parts - 1) / parts;
    const Leaves leaves = is_strided ? Leaves{(count - p + parts - 1) / parts, p, parts}
                                     : Leaves{std::min(length, count - p * length), p * length};
    if (leaves.count < 1) return "";
    std::vector<int64_t> wanted;
    for (int64_t k = 0; k < leaves.count; ++k) wanted.push_back(leaves.first + k * leaves.step);
    const SumTree* part = find_part(tree, wanted);
    if (part == nullptr) return "";
    const std::string of_part = simple_shape(*part, leaves);
    if (p == 0) shape = of_part;
    if (of_part.empty() || (of_part != shape && leaves.count > 2)) return "";
    all.push_back(*part);
  }
  for (const auto& [name, join] : kOrders) {
    if (tree != join(all)) continue;
    return fmt::format("{} {}, each {}; then {}", parts, is_strided ? "strided lanes" : "chunks", shape,
                       name);
  }
  return "";
}

// A sum that adds one leaf or group after the other: `start` holds what it starts from, if that is
// no leaf itself.
struct Chain {
  const SumTree* start = nullptr;
  std::vector<std::vector<int64_t>> steps = {};
};

Chain chain_of(const SumTree& tree) {
  Chain chain;
  const SumTree* at = &tree;
  for (;;) {
    std::vector<int64_t> own;
    const SumTree* below = nullptr;
    int64_t inner = 0;
    for (const SumTree& part : at->parts) {
      if (part.is_leaf()) {
        own.push_back(part.leaf);
      } else {
        below = &part;
        ++inner;
      }
    }
    if (inner > 1) {
      chain.start = at;
      break;
    }
    if (inner == 0 && own.size() == 2) {
      chain.steps.push_back({own[1]});
      chain.steps.push_back({own[0]});
    } else {
      chain.steps.push_back(own);
    }
    if (inner == 0) break;
    at = below;
  }
  std::ranges::reverse(chain.steps);
  return chain;
}

std::string range_of(const std::vector<int64_t>& numbers) {
  std::vector<std::string> words;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    const int64_t step = end < numbers.size() ? numbers[end] - numbers[i] : 0;
    while (end < numbers.size() && numbers[end] - numbers[end - 1] == step) ++end;
    if (end - i < 3) {
      words.push_back(std::to_string(numbers[i++]));
      continue;
    }
    words.push_back(step == 1 ? fmt::format("{}..{}", numbers[i], numbers[end - 1])
                              : fmt::format("{}..{} by {}", numbers[i], numbers[end - 1], step));
    i = end;
  }
  return fmt::format("{}", fmt::join(words, " "));
}

// The first and the last of many alike.
std::string folded(const std::vector<std::string>& words) {
  if (words.size() <= 6) return fmt::format("{}", fmt::join(words, " "));
  return fmt::format("{} {} ... {}", words[0], words[1], words.back());
}

// Partial sums that are added one after the other; fewer than three if they are not.
std::vector<const SumTree*> partial_sums(const SumTree& tree) {
  std::vector<const SumTree*> sums;
  const SumTree* at = &tree;
  while (at->parts.size() == 2 && !at->parts[0].is_leaf() && !at->parts[1].is_leaf()) {
    const int64_t first = leaf_count(at->parts[0]), second = leaf_count(at->parts[1]);
    sums.push_back(&at->parts[first > second ? 1 : 0]);
    at = &at->parts[first > second ? 0 : 1];
    if (first == second) break;
  }
  sums.push_back(at);
  std::ranges::reverse(sums);
  if (sums.size() > 2) std::swap(sums[0], sums[1]);
  return sums;
}

std::string line(const SumTree& tree) {
  if (tree.is_leaf()) return std::to_string(tree.leaf);
  if (const auto sums = partial_sums(tree); sums.size() > 2) {
    std::vector<std::string> words;
    for (const SumTree* sum : sums) words.push_back(line(*sum));
    return fmt::format("seq({})", folded(words));
  }
  const Chain chain = chain_of(tree);
  std::vector<std::string> words;
  if (chain.start != nullptr) {
    std::vector<std::string> parts;
    for (const SumTree& part : chain.start->parts) parts.push_back(line(part));
    words.push_back(fmt::format("({})", folded(parts)));
  }
  for (size_t i = 0; i < chain.steps.size();) {
    std::vector<int64_t> singles;
    std::vector<std::string> groups;
    for (; i < chain.steps.size() && chain.steps[i].size() == 1; ++i) singles.push_back(chain.steps[i][0]);
    if (!singles.empty()) words.push_back(range_of(singles));
    const size_t size = i < chain.steps.size() ? chain.steps[i].size() : 0;
    for (; i < chain.steps.size() && size > 1 && chain.steps[i].size() == size; ++i)
      groups.push_back(fmt::format("{{{}}}", range_of(chain.steps[i])));
    if (!groups.empty()) words.push_back(folded(groups));
  }
  const bool is_one = words.size() == 1 && chain.steps.size() <= 1;
  return is_one ? words[0] : fmt::format("seq({})", fmt::join(words, " "));
}

// [pixels]
constexpr double kWidth = 960, kHeight = 420, kBorder = 24;

struct Drawing {
  double leaves, depth;
  double next = 0;
  std::string svg = {};

  double y(int64_t level) const { return kBorder + 20 + static_cast<double>(level) / depth * kHeight; }

  // Returns the place of the node.
  double draw(const SumTree& tree, int64_t level) {
    if (tree.is_leaf()) {
      const double x = kBorder + (next++ + 0.5) / leaves * kWidth;
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='1.5'><title>term {}</title></circle>\n", x,
                         y(level), tree.leaf);
      if (leaves <= 64)
        svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>\n", x, y(level) + 12,
                           tree.leaf);
      return x;
    }
    double first = 0, last = 0;
    std::string lines;
    for (size_t i = 0; i < tree.parts.size(); ++i) {
      const double x = draw(tree.parts[i], level + 1);
      if (i == 0) first = last = x;
      first = std::min(first, x);
      last = std::max(last, x);
      lines += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, y(level + 1), y(level));
    }
    svg += fmt::format("<path d='{}M{:.1f} {:.1f}H{:.1f}' class='{}'/>\n", lines, first, y(level), last,
                       tree.parts.size() > 2 ? "fused" : "pair");
    return (first + last) / 2;
  }
};

}  // namespace

std::string shape_of_tree(const SumTree& tree) {
  const int64_t count = leaf_count(tree);
  if (std::string simple = simple_shape(tree, {count}); !simple.empty()) return simple;
  for (int64_t parts = 2; parts <= std::min<int64_t>(count / 2, 64); ++parts) {
    for (const bool is_strided : {true, false}) {
      if (std::string shape = combined_shape(tree, count, parts, is_strided); !shape.empty()) return shape;
    }
  }
  return fmt::format(
      "a tree of depth {}{}", depth_of(tree),
      widest_node(tree) > 2 ? fmt::format(", at most {} parts at once", widest_node(tree)) : "");
}

std::string line_of_tree(const SumTree& tree, size_t most) {
  std::string text = line(tree);
  if (text.size() > most) text = text.substr(0, most) + "...";
  return text;
}

std::string picture_of_tree(const SumTree& tree, const std::string& title) {
  Drawing drawing{static_cast<double>(leaf_count(tree)),
                  static_cast<double>(std::max<int64_t>(depth_of(tree), 1))};
  drawing.draw(tree, 0);
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' font-family='sans-serif' "
      "font-size='10'>\n"
      "<style>path{{fill:none;stroke:#456;stroke-width:1}}.fused{{stroke:#b40;stroke-width:2}}</style>\n"
      "<text x='{2}' y='{2}'>{3}</text>\n{4}</svg>\n",
      kWidth + 2 * kBorder, kHeight + 3 * kBorder, kBorder, title, drawing.svg);
}

}  // namespace assay
