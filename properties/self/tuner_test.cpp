// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/tuner.h"

#include <rapidcheck/state.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "kernels/core/context.h"
#include "properties/core/roles.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using test::cpu;
using test::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Tunable& speeds() {
  static const Tunable tunable{
      .name = "test_speeds", .version = 3, .configs = {{{"wait", 3}}, {{"wait", 0}}, {{"wait", 2}}}};
  return tunable;
}

// Takes `wait` milliseconds; adds `source` to each of its buffers, by role.
struct Adder {
  float source = 1;
  float written = -1;
  float sum = -1;
  float updated = 10;
  float scratch = 0;
  std::vector<std::string> ran;         // the configurations, in order
  std::vector<const void*> written_to;  // where `written` lay in each run

  Launch launch(std::string key = "k") {
    const auto buffer = [](std::string_view name, Role role, float& value) {
      return Buffer{name, role, &value, sizeof(float)};
    };
    return {.tunable = &speeds(),
            .key = std::move(key),
            .unfit = {},
            .buffers = {buffer("source", Role::kRead, source), buffer("written", Role::kWrite, written),
                        buffer("sum", Role::kAccumulate, sum), buffer("updated", Role::kUpdate, updated),
                        buffer("scratch", Role::kScratch, scratch)},
            .run =
                [this](const Config& config, std::span<void* const> data) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(config["wait"]));
                  const auto at = [&](size_t i) -> float& { return *static_cast<float*>(data[i]); };
                  at(1) = at(0);
                  at(2) += at(0);
                  at(3) += at(0);
                  at(4) = at(0);
                  ran.push_back(config.to_string());
                  written_to.push_back(data[1]);
                },
            .stream = nullptr};
  }
};

std::filesystem::path temporary(std::string_view name) {
  return std::filesystem::temp_directory_path() / fmt::format("assay-tuner-test-{}-{}", getpid(), name);
}

const Tunable* const kKnown[] = {&speeds()};

TEST(Tuner, ChoosesTheFastestAndKeepsIt) {
  Tuner tuner(cpu());
  Adder adder;
  tuner.run(adder.launch());
  EXPECT_EQ(adder.ran.back(), "wait=0");
  EXPECT_EQ(tuner.trials(), 3);
  adder.ran.clear();
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=0"));
  tuner.run(adder.launch("another key"));
  EXPECT_EQ(tuner.trials(), 6);
  EXPECT_EQ(tuner.choices(), 2);
  tuner.forget();
  tuner.run(adder.launch());
  EXPECT_EQ(tuner.trials(), 9);
}

TEST(Tuner, TrialsLeaveNoTrace) {
  Tuner tuner(cpu());
  Adder adder;
  tuner.run(adder.launch());
  EXPECT_EQ(adder.written, 1);
  EXPECT_EQ(adder.sum, 1);       // zeroed before the real call
  EXPECT_EQ(adder.updated, 11);  // updated once
  EXPECT_EQ(std::ranges::count(adder.written_to, &adder.written), 1);
  tuner.run(adder.launch());
  EXPECT_EQ(adder.sum, 1);
  EXPECT_EQ(adder.updated, 12);
}

TEST(Tuner, PrunesWithReasons) {
  Tuner tuner(cpu());
  Adder adder;
  Launch launch = adder.launch();
  launch.unfit = [](const Config& config) -> std::optional<std::string> {
    if (config["wait"] < 2) return "it is too hasty";
    return std::nullopt;
  };
  tuner.run(launch);
  EXPECT_EQ(adder.ran.back(), "wait=2");
  launch.unfit = [](const Config&) -> std::optional<std::string> { return "nothing fits"; };
  EXPECT_THAT(error_of([&] { tuner.run(launch); }, Error::Kind::kUnsupported),
              AllOf(HasSubstr("test_speeds"), HasSubstr("wait=3: nothing fits")));
}

TEST(Tuner, UsesWhatIsForced) {
  Tuner tuner(cpu());
  Adder adder;
  tuner.force("test_speeds", Config{{"wait", 2}});
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=2"));
  EXPECT_EQ(tuner.trials(), 0);
  tuner.force("test_speeds", Config{{"wait", 5}});
  EXPECT_THAT(error_of([&] { tuner.run(adder.launch()); }, Error::Kind::kUnsupported),
              AllOf(HasSubstr("wait=5"), HasSubstr("no such configuration")));
  tuner.force("test_speeds", std::nullopt);
  tuner.run(adder.launch());
  EXPECT_EQ(tuner.trials(), 3);
}

// A device whose streams are all being captured, or that has no memory left.
class BadDevice final : public Device {
 public:
  BadDevice(bool captures, bool is_full) : captures_(captures), is_full_(is_full) {}
  const DeviceInfo& info() const override { return cpu().info(); }
  void* allocate(int64_t bytes) override {
    if (is_full_) throw device_error("no room for {} bytes", bytes);
    return cpu().allocate(bytes);
  }
  void release(void* memory, int64_t bytes) noexcept override { cpu().release(memory, bytes); }
  bool host_can_access() const override { return true; }
  void copy_to_device(void* to, const void* from, int64_t bytes) override {
    cpu().copy_to_device(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, int64_t bytes) override {
    cpu().copy_to_host(to, from, bytes);
  }
  void* stream() const override { return nullptr; }
  void* other_stream() override { return nullptr; }
  void synchronize(void*) override {}
  void copy(void* to, const void* from, int64_t bytes, void*) override {
    cpu().copy(to, from, bytes, nullptr);
  }
  void fill(void* to, unsigned char byte, int64_t bytes, void*) override {
    cpu().fill(to, byte, bytes, nullptr);
  }
  double time(const std::function<void()>& work, void*) override { return cpu().time(work, nullptr); }
  std::function<void()> capture(const std::function<void()>&) override { return {}; }
  bool is_capturing(void*) const override { return captures_; }
  void flush_cache() override {}
  void start_capture() { captures_ = true; }

 private:
  bool captures_;
  bool is_full_;
};

TEST(Tuner, DoesNotTuneWhileAGraphIsCaptured) {
  BadDevice device(true, false);
  Tuner tuner(device);
  Adder adder;
  EXPECT_THAT(
      error_of([&] { tuner.run(adder.launch()); }),
      AllOf(HasSubstr("test_speeds"), HasSubstr("while a graph is captured"), HasSubstr("once before")));
  EXPECT_THAT(adder.ran, IsEmpty());
  tuner.force("test_speeds", Config{{"wait", 0}});
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=0"));
}

TEST(Tuner, WithoutMemoryForTrialsRunsTheFirstThatFits) {
  BadDevice device(false, true);
  Tuner tuner(device);
  Adder adder;
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=3"));
  EXPECT_EQ(tuner.trials(), 0);
  // It was not timed, so nobody else should trust it.
  const auto file = temporary("untimed.json");
  tuner.save(file);
  Tuner other(cpu());
  EXPECT_THAT(other.load(file, kKnown), IsEmpty());
  EXPECT_EQ(other.choices(), 0);
  std::filesystem::remove(file);
}

// A capture after a call finds a choice, even where that call could not try any.
TEST(Tuner, ACallWithoutMemoryForTrialsMayBeCaptured) {
  BadDevice device(false, true);
  Tuner tuner(device);
  Adder adder;
  tuner.run(adder.launch());
  device.start_capture();
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=3", "wait=3"));
}

TEST(Tuner, ThreadsShareOneChoice) {
  Tuner tuner(cpu());
  std::vector<Adder> adders(8);
  std::vector<std::thread> threads;
  for (Adder& adder : adders) threads.emplace_back([&] { tuner.run(adder.launch()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tuner.trials(), 3);
  for (const Adder& adder : adders) {
    EXPECT_EQ(adder.ran.back(), "wait=0");
    EXPECT_EQ(adder.written, 1);
    EXPECT_EQ(adder.sum, 1);
    EXPECT_EQ(adder.updated, 11);
  }
}

TEST(TunerFile, CarriesChoices) {
  const auto file = temporary("choices.json");
  Tuner tuner(cpu());
  Adder adder;
  tuner.run(adder.launch("a"));
  tuner.run(adder.launch("b"));
  tuner.save(file);
  Tuner other(cpu());
  EXPECT_THAT(other.load(file, kKnown), IsEmpty());
  adder.ran.clear();
  other.run(adder.launch("a"));
  other.run(adder.launch("b"));
  EXPECT_THAT(adder.ran, ElementsAre("wait=0", "wait=0"));
  EXPECT_EQ(other.trials(), 0);
  std::filesystem::remove(file);
}

// Changes a saved file by replacing a text, and returns what loading it leaves out.
std::vector<std::string> loaded_after(std::string_view text, std::string_view replacement, int64_t trials) {
  const auto file = temporary("changed.json");
  Tuner tuner(cpu());
  Adder adder;
  tuner.run(adder.launch());
  tuner.save(file);
  std::ifstream in(file);
  std::string content(std::istreambuf_iterator<char>(in), {});
  const size_t at = content.find(text);
  EXPECT_NE(at, std::string::npos) << content;
  content.replace(at, text.size(), replacement);
  std::ofstream(file) << content;
  Tuner other(cpu());
  const auto left_out = other.load(file, kKnown);
  other.run(adder.launch());
  EXPECT_EQ(other.trials(), trials) << replacement;
  EXPECT_EQ(adder.ran.back(), "wait=0");
  std::filesystem::remove(file);
  return left_out;
}

TEST(TunerFile, IsNotTrustedWhereItIsStale) {
  EXPECT_THAT(loaded_after("\"device\": \"", "\"device\": \"another ", 3),
              ElementsAre(AllOf(HasSubstr("it was tuned on 'another "), HasSubstr("this is"))));
  EXPECT_THAT(loaded_after("\"version\": 3", "\"version\": 2", 3),
              ElementsAre(HasSubstr("version 2, this is version 3")));
  EXPECT_THAT(loaded_after("wait=0", "wait=7", 3), ElementsAre(HasSubstr("no configuration wait=7")));
  EXPECT_THAT(loaded_after("test_speeds", "test_speed", 3), ElementsAre(HasSubstr("no such tunable")));
  EXPECT_THAT(loaded_after("wait=0", "wait=0", 0), IsEmpty());
}

TEST(TunerFile, ErrorsNameTheFile) {
  const auto file = temporary("broken.json");
  Tuner tuner(cpu());
  EXPECT_THAT(error_of([&] { tuner.load(file, kKnown); }), HasSubstr(file.string()));
  for (std::string_view content :
       {"", "{", "[]", "{\"schema\": \"assay.run/1\"}", "{\"schema\": \"assay.choices/1\"}"}) {
    std::ofstream(file) << content;
    EXPECT_THAT(error_of([&] { tuner.load(file, kKnown); }), HasSubstr(file.string())) << content;
  }
  std::filesystem::remove(file);
  EXPECT_THAT(error_of([&] { tuner.save("/nowhere/choices.json"); }), HasSubstr("/nowhere/choices.json"));
}

TEST(TuningKey, HoldsEverythingThatMatters) {
  alignas(16) float memory[64] = {};
  const auto call = [&](float* x, const Dims& dims, DType dtype, const Extents& strides) {
    return Call{.dims = dims, .dtype = dtype, .inputs = {{x, dtype, {2, 3}, strides}}, .outputs = {}};
  };
  const Dims dims{{"n", 2}, {"dilation", 1}};
  const std::string key = tuning_key(call(memory, dims, DType::kF32, {3, 1}));
  EXPECT_EQ(tuning_key(call(memory + 4, dims, DType::kF32, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory + 1, dims, DType::kF32, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory, {{"n", 2}, {"dilation", 2}}, DType::kF32, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory, dims, DType::kBF16, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory, dims, DType::kF32, {4, 1})), key);
}

// What a tuner is, without its machinery: keys are tuned once until they are forgotten, and each launch does its work
// once.
struct Model {
  std::map<std::string, bool> tuned;  // by key
  std::optional<std::string> forced;
  std::map<std::string, bool> saved;
};

struct Tested {
  std::unique_ptr<Tuner> tuner = std::make_unique<Tuner>(cpu());
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
    tested.tuner = std::make_unique<Tuner>(cpu());
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

// Launches that do something else than they declare.
std::optional<std::string> fault_of(const Launch& launch) {
  RoleChecker checker(cpu());
  Tuner tuner(cpu());
  tuner.force("test_speeds", Config{{"wait", 0}});  // trials would already have written what is declared read
  tuner.observe(&checker);
  tuner.run(launch);
  return checker.fault();
}

TEST(Roles, RightOnesPass) {
  Adder adder;
  EXPECT_EQ(fault_of(adder.launch()), std::nullopt);
  EXPECT_EQ(adder.written, 1);
  EXPECT_EQ(adder.sum, 1);
  EXPECT_EQ(adder.updated, 11);
}

TEST(Roles, WrongOnesAreNamed) {
  const auto fault_with = [](size_t buffer, Role declared) {
    Adder adder;
    Launch launch = adder.launch();
    launch.buffers[buffer].role = declared;
    return fault_of(launch).value_or("none");
  };
  EXPECT_THAT(fault_with(1, Role::kRead),
              AllOf(HasSubstr("declares written read, but writes it"), HasSubstr("test_speeds")));
  EXPECT_THAT(fault_with(2, Role::kRead), HasSubstr("declares sum read, but writes it"));
  EXPECT_THAT(fault_with(3, Role::kRead), HasSubstr("declares updated read, but writes it"));
  EXPECT_THAT(fault_with(2, Role::kWrite),
              HasSubstr("declares sum write, but a second run leaves other values"));
  EXPECT_THAT(fault_with(3, Role::kWrite),
              HasSubstr("declares updated write, but a second run leaves other values"));
}

TEST(Workspace, BlocksGoBackToTheirStream) {
  Workspace workspace(cpu());
  int a = 0, b = 0;
  std::vector<void*> blocks_of_a;
  {
    const Workspace::Lease first = workspace.lease(1000, &a);
    const Workspace::Lease second = workspace.lease(1000, &a);
    EXPECT_NE(second.data(), first.data());
    blocks_of_a = {first.data(), second.data()};
  }
  EXPECT_NE(workspace.lease(10, &b).data(), nullptr);
  const Workspace::Lease again = workspace.lease(900, &a);
  EXPECT_EQ(std::ranges::count(blocks_of_a, again.data()), 1);
  int blocks = 0;
  workspace.for_each([&](void*, int64_t bytes) {
    ++blocks;
    EXPECT_GE(bytes, 10);
  });
  EXPECT_EQ(blocks, 3);
}

TEST(Workspace, DoesNotAllocateWhileAGraphIsCaptured) {
  BadDevice device(true, false);
  Workspace workspace(device);
  EXPECT_THAT(error_of([&] { workspace.lease(64, nullptr); }),
              AllOf(HasSubstr("64 bytes"), HasSubstr("once")));
}

TEST(DerivedTensors, AreMadeAnewForEveryNewVersion) {
  Context context(cpu());
  int made = 0;
  const auto get = [&](std::vector<uint64_t> versions, std::string name = "cast") {
    const auto held = context.derived().get(name, 4, versions, nullptr, [&](void* data) {
      const int number = ++made;
      std::memcpy(data, &number, sizeof number);
    });
    int content = 0;
    std::memcpy(&content, held.data(), sizeof content);
    return content;
  };
  const uint64_t version = new_version();
  EXPECT_EQ(get({version}), 1);
  EXPECT_EQ(get({version}), 1);
  EXPECT_EQ(get({new_version()}), 2);
  EXPECT_EQ(get({version}), 1);
  EXPECT_EQ(get({version}, "other"), 3);
  EXPECT_EQ(get({version, version}), 4);
  EXPECT_EQ(get({}), 5);  // nobody knows the values
  EXPECT_EQ(get({}), 6);
  EXPECT_EQ(get({0}), 7);
  EXPECT_EQ(get({version, 0}), 8);
}

}  // namespace
}  // namespace assay
