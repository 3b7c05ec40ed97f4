// SPDX-License-Identifier: Apache-2.0
#include "probe/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "kernels/core/error.h"
#include "properties/core/random.h"

namespace assay {
namespace {

constexpr int64_t kLeastOthers = 16;  // pairs, to test a tree with

int64_t first_leaf(const SumTree& tree) {
  const SumTree* at = &tree;
  while (!at->is_leaf()) at = &at->parts.front();
  return at->leaf;
}

void collect(const SumTree& tree, std::vector<int64_t>& leaves) {
  if (tree.is_leaf()) leaves.push_back(tree.leaf);
  for (const SumTree& part : tree.parts) collect(part, leaves);
}

// A set of leaves. The rest of them are in groups by L(first leaf, .), ascending.
struct Task {
  std::vector<int64_t> leaves;
  std::map<int64_t, std::unique_ptr<Task>> groups = {};
};

struct Built {
  SumTree tree;
  int64_t leaves;  // of the whole subtree that holds these, other sets' leaves included
};

// Starts from the first leaf and joins one group after the other. A group whose own subtree has
// more leaves than the group lies in the same fused node as what is built so far.
Built build(const Task& task) {
  Built built{leaf(task.leaves.front()), 1};
  for (const auto& [size, group] : task.groups) {
    Built other = build(*group);
    if (other.leaves == static_cast<int64_t>(group->leaves.size())) {
      built.tree = node({std::move(built.tree), std::move(other.tree)});
    } else {
      other.tree.parts.push_back(std::move(built.tree));
      built.tree = node(std::move(other.tree.parts));
    }
    built.leaves = size;
  }
  return built;
}

// Splits the sets, all those of a level in one call.
int64_t split(Task& root, const CommonLeaves& ask) {
  int64_t asked = 0;
  std::vector<Task*> level{&root};
  while (!level.empty()) {
    std::vector<Pair> pairs;
    for (const Task* task : level) {
      for (size_t k = 1; k < task->leaves.size(); ++k) pairs.emplace_back(task->leaves[0], task->leaves[k]);
    }
    if (pairs.empty()) break;
    const std::vector<int64_t> sizes = ask(pairs);
    if (sizes.size() != pairs.size()) throw Error("{} answers for {} pairs", sizes.size(), pairs.size());
    asked += static_cast<int64_t>(pairs.size());
    std::vector<Task*> next;
    size_t at = 0;
    for (Task* task : level) {
      for (size_t k = 1; k < task->leaves.size(); ++k, ++at) {
        std::unique_ptr<Task>& group = task->groups[sizes[at]];
        if (group == nullptr) group = std::make_unique<Task>();
        group->leaves.push_back(task->leaves[k]);
      }
      for (auto& [size, group] : task->groups) {
        if (group->leaves.size() > 1) next.push_back(group.get());
      }
    }
    level = std::move(next);
  }
  return asked;
}

}  // namespace

SumTree leaf(int64_t term) {
  return {.leaf = term};
}

SumTree node(std::vector<SumTree> parts) {
  std::ranges::sort(parts, {}, first_leaf);
  return {.parts = std::move(parts)};
}

SumTree sequential_of(std::vector<SumTree> parts) {
  SumTree sum = std::move(parts.at(0));
  for (size_t i = 1; i < parts.size(); ++i) sum = node({std::move(sum), std::move(parts[i])});
  return sum;
}

SumTree pairwise_of(std::vector<SumTree> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  const auto half = parts.begin() + static_cast<std::ptrdiff_t>((parts.size() + 1) / 2);
  return node({pairwise_of({parts.begin(), half}), pairwise_of({half, parts.end()})});
}

namespace {

std::vector<SumTree> leaves(const Leaves& terms) {
  std::vector<SumTree> all;
  for (int64_t k = 0; k < terms.count; ++k) all.push_back(leaf(terms.first + k * terms.step));
  return all;
}

}  // namespace

SumTree sequential(const Leaves& terms) {
  return sequential_of(leaves(terms));
}

SumTree pairwise(const Leaves& terms) {
  return pairwise_of(leaves(terms));
}

SumTree fused_chain(const Leaves& terms, int64_t size) {
  SumTree sum;
  for (int64_t k = 0; k < terms.count; k += size) {
    std::vector<SumTree> parts =
        leaves({std::min(size, terms.count - k), terms.first + k * terms.step, terms.step});
    if (k > 0) parts.push_back(std::move(sum));
    sum = parts.size() == 1 ? std::move(parts[0]) : node(std::move(parts));
  }
  return sum;
}

int64_t leaf_count(const SumTree& tree) {
  return static_cast<int64_t>(leaves_of(tree).size());
}

std::vector<int64_t> leaves_of(const SumTree& tree) {
  std::vector<int64_t> all;
  collect(tree, all);
  return all;
}

int64_t depth_of(const SumTree& tree) {
  int64_t depth = 0;
  for (const SumTree& part : tree.parts) depth = std::max(depth, 1 + depth_of(part));
  return depth;
}

int64_t widest_node(const SumTree& tree) {
  auto widest = static_cast<int64_t>(tree.parts.size());
  for (const SumTree& part : tree.parts) widest = std::max(widest, widest_node(part));
  return widest;
}

std::vector<int64_t> common_leaves(const SumTree& tree, const std::vector<Pair>& pairs) {
  // A leaf's ancestors with their numbers of leaves, the root first.
  struct Ancestor {
    const SumTree* tree;
    int64_t leaves;
  };
  std::map<int64_t, std::vector<Ancestor>> ancestors;
  const auto visit = [&](const auto& self, const SumTree& at, std::vector<Ancestor>& above) -> void {
    if (at.is_leaf()) {
      ancestors[at.leaf] = above;
      return;
    }
    above.push_back({&at, leaf_count(at)});
    for (const SumTree& part : at.parts) self(self, part, above);
    above.pop_back();
  };
  std::vector<Ancestor> above;
  visit(visit, tree, above);
  std::vector<int64_t> common;
  for (const auto& [i, j] : pairs) {
    const std::vector<Ancestor>&of_i = ancestors.at(i), &of_j = ancestors.at(j);
    size_t depth = 0;
    while (depth < of_i.size() && depth < of_j.size() && of_i[depth].tree == of_j[depth].tree) ++depth;
    if (depth == 0) throw Error("the terms {} and {} have no common sum", i, j);
    common.push_back(of_i[depth - 1].leaves);
  }
  return common;
}

Recovered recover_tree(int64_t count, const CommonLeaves& ask, uint64_t seed) {
  Task root;
  for (int64_t k = 0; k < count; ++k) root.leaves.push_back(k);
  Recovered recovered;
  recovered.pairs = split(root, ask);
  SumTree tree = build(root).tree;
  std::vector<Pair> others;
  const CounterRandom random(seed, 0);
  const auto below = [&](uint64_t counter, uint64_t lane) {
    return static_cast<int64_t>(random.bits(counter, lane) % static_cast<uint64_t>(count));
  };
  for (uint64_t k = 0; k < static_cast<uint64_t>(std::max<int64_t>(count, kLeastOthers)); ++k) {
    if (const Pair pair{below(k, 0), below(k, 1)}; pair.first != pair.second) others.push_back(pair);
  }
  const std::vector<int64_t> want = common_leaves(tree, others);
  const std::vector<int64_t> got = others.empty() ? std::vector<int64_t>() : ask(others);
  recovered.pairs += static_cast<int64_t>(others.size());
  for (size_t k = 0; k < others.size(); ++k) {
    if (got.at(k) == want[k]) continue;
    recovered.why_not =
        fmt::format("the terms {} and {} meet in a sum of {}, by the other pairs in one of {}",
                    others[k].first, others[k].second, got[k], want[k]);
    return recovered;
  }
  if (const int64_t most = widest_node(tree); most > kMostAtOnce) {
    recovered.why_not =
        fmt::format("{} terms would be added at once: what follows the sum hides its units", most);
    return recovered;
  }
  recovered.tree = std::move(tree);
  return recovered;
}

}  // namespace assay
