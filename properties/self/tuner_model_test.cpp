// SPDX-License-Identifier: Apache-2.0
// The tuner against a model of it, under random sequences of commands.
#include <rapidcheck/state.h>

#include <filesystem>
#include <map>
#include <optional>

#include "kernels/core/tuner.h"
#include "properties/self/tuner_support.h"

namespace assay {
namespace {

using test::Adder;
using test::kKnown;
using test::simulated;
using test::speeds;
using test::temporary;

// A model of the tuner without its machinery: a key is tuned once until it is forgotten, and each
// launch does its work once.
struct Model {
  std::map<std::string, bool> tuned;  // by key
  std::optional<std::string> forced;
  std::map<std::string, bool> saved;
};

struct Tested {
  std::unique_ptr<Tuner> tuner = std::make_unique<Tuner>(simulated());
  Adder adder;
};

using Command = rc::state::Command<Model, Tested>;

struct Launched final : Command {
  std::string key = *rc::gen::element<std::string>("a", "b", "c");
  void apply(Model& model) const override {
    if (!model.forced) model.tuned[key] = true;
  }
  void run(const Model& model, Tested& tested) const override {
    Adder& adder = tested.adder;
    const int64_t trials = tested.tuner->trials();
    const float updated = adder.updated;
    adder.written = adder.sum = -1;
    Launch launch = adder.launch(key);
    tested.tuner->run(launch);
    RC_ASSERT(adder.written == adder.source);
    RC_ASSERT(adder.sum == adder.source);
    RC_ASSERT(adder.updated == updated + adder.source);
    const bool is_known = model.forced || model.tuned.contains(key);
    RC_ASSERT(tested.tuner->trials() - trials == (is_known ? 0 : 3));
    if (model.forced) RC_ASSERT(adder.ran.back() == *model.forced);
  }
  void show(std::ostream& os) const override { os << "launch " << key; }
};

struct Forgotten final : Command {
  void apply(Model& model) const override { model.tuned.clear(); }
  void run(const Model&, Tested& tested) const override { tested.tuner->forget(); }
  void show(std::ostream& os) const override { os << "forget"; }
};

struct Forced final : Command {
  size_t config = *rc::gen::inRange<size_t>(0, speeds().configs.size() + 1);
  void apply(Model& model) const override {
    model.forced =
        config < speeds().configs.size() ? std::optional(speeds().configs[config].to_string()) : std::nullopt;
  }
  void run(const Model&, Tested& tested) const override {
    const bool is_config = config < speeds().configs.size();
    tested.tuner->force("test_speeds", is_config ? std::optional(speeds().configs[config]) : std::nullopt);
  }
  void show(std::ostream& os) const override { os << "force " << config; }
};

struct Reloaded final : Command {
  void apply(Model& model) const override { model.forced.reset(); }
  void run(const Model&, Tested& tested) const override {
    const auto file = temporary("model.json");
    tested.tuner->save(file);
    tested.tuner = std::make_unique<Tuner>(simulated());
    RC_ASSERT(tested.tuner->load(file, kKnown).empty());
    std::filesystem::remove(file);
  }
  void show(std::ostream& os) const override { os << "save and load"; }
};

TEST(Tuner, AnyHistoryGivesTheSameResults) {
  test::expect_property(
      [] {
        Model model;
        Tested tested;
        rc::state::check(
            model, tested,
            rc::state::gen::execOneOfWithArgs<Launched, Launched, Forgotten, Forced, Reloaded>());
      },
      12);
}

}  // namespace
}  // namespace assay
