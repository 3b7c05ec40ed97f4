// SPDX-License-Identifier: Apache-2.0
// Marks: threads
#include "kernels/core/tuner.h"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "kernels/core/parallel.h"
#include "properties/self/tuner_support.h"

namespace assay {
namespace {

using test::Adder;
using test::error_of;
using test::kKnown;
using test::simulated;
using test::SimulatedDevice;
using test::temporary;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Tuner, ChoosesTheFastestAndKeepsIt) {
  Tuner tuner(simulated());
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
  Tuner tuner(simulated());
  Adder adder;
  tuner.run(adder.launch());
  EXPECT_EQ(adder.written, 1);
  EXPECT_EQ(adder.sum, 1);       // zeroed before the real call
  EXPECT_EQ(adder.updated, 11);  // updated once
  EXPECT_EQ(std::ranges::count(adder.written_to, &adder.written), 1);
  EXPECT_THAT(adder.updated_from, testing::Each(10)) << "each trial updates what the real call will";
  tuner.run(adder.launch());
  EXPECT_EQ(adder.sum, 1);
  EXPECT_EQ(adder.updated, 12);
}

TEST(Tuner, PrunesWithReasons) {
  Tuner tuner(simulated());
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

// A key that lacks something costs time only, since a choice that does not fit the call is not
// used.
TEST(Tuner, TunesAgainWhereItsChoiceDoesNotFit) {
  Tuner tuner(simulated());
  Adder adder;
  Launch launch = adder.launch();
  tuner.run(launch);
  EXPECT_EQ(adder.ran.back(), "wait=0");
  launch.unfit = [](const Config& config) -> std::optional<std::string> {
    if (config["wait"] < 2) return "it is too hasty";
    return std::nullopt;
  };
  tuner.run(launch);
  EXPECT_EQ(adder.ran.back(), "wait=2");
}

TEST(Tuner, RunsWithoutTrialsWhatItIsTold) {
  Tuner tuner(simulated());
  Adder adder;
  Launch launch = adder.launch();
  launch.unfit = [](const Config& config) -> std::optional<std::string> {
    if (config["wait"] == 0) return "it is too hasty";
    return std::nullopt;
  };
  for (uint64_t number = 0; number < 3; ++number) {
    tuner.allow_trials(false, number);
    tuner.run(launch);
  }
  ASSERT_EQ(adder.ran.size(), 3u);
  EXPECT_EQ(adder.ran[0], adder.ran[2]) << "two of three fit";
  EXPECT_THAT(adder.ran, testing::UnorderedElementsAre("wait=2", "wait=3", adder.ran[0]));
  EXPECT_EQ(tuner.trials(), 0);
  tuner.allow_trials(true);
  tuner.run(launch);
  EXPECT_EQ(tuner.trials(), 2);
}

TEST(Tuner, UsesWhatIsForced) {
  Tuner tuner(simulated());
  Adder adder;
  tuner.force("test_speeds", Config{{"wait", 2}});
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=2"));
  EXPECT_EQ(tuner.trials(), 0);
  tuner.force("test_speeds", Config{{"wait", 5}});
  EXPECT_THAT(error_of([&] { tuner.run(adder.launch()); }, Error::Kind::kUnsupported),
              HasSubstr("has no configuration wait=5"));
  Launch launch = adder.launch();
  launch.unfit = [](const Config& config) -> std::optional<std::string> {
    if (config["wait"] == 2) return "it is too slow";
    return std::nullopt;
  };
  tuner.force("test_speeds", Config{{"wait", 2}});
  EXPECT_THROW(tuner.run(launch), ForcedIsUnfit);
  tuner.force("test_speeds", std::nullopt);
  tuner.run(adder.launch());
  EXPECT_EQ(tuner.trials(), 3);
}

TEST(Tuner, DoesNotTuneWhileAGraphIsCaptured) {
  SimulatedDevice device(true, false);
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
  SimulatedDevice device(false, true);
  Tuner tuner(device);
  Adder adder;
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=3"));
  EXPECT_EQ(tuner.trials(), 0);
  // It was not timed, so it is not saved for others.
  const auto file = temporary("untimed.json");
  tuner.save(file);
  Tuner other(simulated());
  EXPECT_THAT(other.load(file, kKnown), IsEmpty());
  EXPECT_EQ(other.choices(), 0);
  std::filesystem::remove(file);
}

// A capture after a call finds a choice, even if that call could not run trials.
TEST(Tuner, ACallWithoutMemoryForTrialsMayBeCaptured) {
  SimulatedDevice device(false, true);
  Tuner tuner(device);
  Adder adder;
  tuner.run(adder.launch());
  device.start_capture();
  tuner.run(adder.launch());
  EXPECT_THAT(adder.ran, ElementsAre("wait=3", "wait=3"));
}

TEST(Tuner, ThreadsShareOneChoice) {
  Tuner tuner(simulated());
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

// The lock of a key is held while its launch waits for its own parallel work. The waiting thread
// must not start other work that needs the same lock.
TEST(Tuner, MayBeCalledFromParallelWork) {
  constexpr int kThreads = 8;
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, kThreads);
  static thread_local bool is_tuning = false;
  std::atomic<int> nested = 0;
  Tuner tuner(simulated());
  tbb::task_arena(kThreads).execute([&] {
    parallel_for(200, 1, [&](int64_t begin, int64_t) {
      if (is_tuning) {
        ++nested;
        return;
      }
      is_tuning = true;
      tuner.run({.tunable = &test::speeds(),
                 .key = std::to_string(begin % 25),
                 .unfit = {},
                 .buffers = {},
                 .run = [](const Config&, std::span<void* const>) {
                   parallel_for(16, 1, [](int64_t, int64_t) {
                     std::this_thread::sleep_for(std::chrono::microseconds(20));
                   });
                 }});
      is_tuning = false;
    });
  });
  EXPECT_EQ(nested, 0);
  EXPECT_EQ(tuner.trials(), 25 * 3);
}

TEST(TunerFile, CarriesChoices) {
  const auto file = temporary("choices.json");
  Tuner tuner(simulated());
  Adder adder;
  tuner.run(adder.launch("a"));
  tuner.run(adder.launch("b"));
  tuner.save(file);
  Tuner other(simulated());
  EXPECT_THAT(other.load(file, kKnown), IsEmpty());
  adder.ran.clear();
  other.run(adder.launch("a"));
  other.run(adder.launch("b"));
  EXPECT_THAT(adder.ran, ElementsAre("wait=0", "wait=0"));
  EXPECT_EQ(other.trials(), 0);
  std::filesystem::remove(file);
}

// Replaces a text in a saved file, and returns what loading the file leaves out.
std::vector<std::string> loaded_after(std::string_view text, std::string_view replacement, int64_t trials) {
  const auto file = temporary("changed.json");
  Tuner tuner(simulated());
  Adder adder;
  tuner.run(adder.launch());
  tuner.save(file);
  std::ifstream in(file);
  std::string content(std::istreambuf_iterator<char>(in), {});
  const size_t at = content.find(text);
  EXPECT_NE(at, std::string::npos) << content;
  content.replace(at, text.size(), replacement);
  std::ofstream(file) << content;
  Tuner other(simulated());
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

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(TunerFile, IsTakenAsAWholeOrNotAtAll) {
  const auto file = temporary("cut.json");
  Tuner tuner(simulated());
  Adder adder;
  tuner.run(adder.launch("a"));
  tuner.run(adder.launch("b"));
  tuner.save(file);
  const std::string content = content_of(file);
  const auto expect_nothing_taken = [&](const std::string& changed) {
    std::ofstream(file) << changed;
    Tuner other(simulated());
    EXPECT_THAT(other.load(file, kKnown), ElementsAre(HasSubstr(file.string()))) << changed;
    EXPECT_EQ(other.choices(), 0) << changed;
  };
  for (size_t length = 0; length < content.rfind('}'); ++length)
    expect_nothing_taken(content.substr(0, length));
  std::string without_seconds = content;
  without_seconds.replace(without_seconds.rfind("seconds"), 7, "minutes");
  expect_nothing_taken(without_seconds);
  expect_nothing_taken(content + "{}");
  for (const char* version : {"1e19", "1e999", "18446744073709551616", "-1e19", "\"3\"", "[3]"}) {
    std::string other = content;
    const size_t at = other.rfind("\"version\": 3");
    other.replace(at, std::string_view("\"version\": 3").size(), fmt::format("\"version\": {}", version));
    expect_nothing_taken(other);
  }
  std::filesystem::remove(file);
}

TEST(TunerFile, MayBeSavedByManyAtOnce) {
  const auto folder = temporary("folder");
  std::filesystem::create_directory(folder);
  const auto file = folder / "choices.json";
  Tuner tuner(simulated());
  Adder adder;
  tuner.run(adder.launch());
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        try {
          tuner.save(file);
          Tuner other(simulated());
          if (!other.load(file, kKnown).empty() || other.choices() != 1) ++failures;
        } catch (const Error&) {
          ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "something was left behind";
  std::filesystem::remove_all(folder);
}

TEST(TunerFile, IsRefusedWhereItIsNoFileOfChoices) {
  const auto file = temporary("broken.json");
  for (std::string_view content : {"", "{", "[]", "null", "\xff", "{\"schema\": 1}",
                                   "{\"schema\": \"assay.run/1\"}", "{\"schema\": \"assay.choices/1\"}"}) {
    std::ofstream(file) << content;
    Tuner tuner(simulated());
    Adder adder;
    EXPECT_THAT(tuner.load(file, kKnown), ElementsAre(HasSubstr(fmt::format("all of '{}'", file.string()))))
        << content;
    tuner.run(adder.launch());
    EXPECT_EQ(tuner.trials(), 3) << content;
    tuner.save(file);
    EXPECT_THAT(Tuner(simulated()).load(file, kKnown), IsEmpty()) << content;
  }
  std::filesystem::remove(file);
}

TEST(TunerFile, ErrorsNameTheFile) {
  const auto file = temporary("missing.json");
  Tuner tuner(simulated());
  EXPECT_THAT(error_of([&] { tuner.load(file, kKnown); }), HasSubstr(file.string()));
  const auto folder = temporary("folder.json");
  std::filesystem::create_directory(folder);
  EXPECT_THAT(error_of([&] { tuner.load(folder, kKnown); }), HasSubstr(folder.string()));
  EXPECT_THAT(error_of([&] { tuner.save(folder); }), HasSubstr(folder.string()));
  EXPECT_TRUE(std::filesystem::is_directory(folder));
  std::filesystem::remove(folder);
  EXPECT_THAT(error_of([&] { tuner.save("/nowhere/choices.json"); }), HasSubstr("/nowhere/choices.json"));
}

TEST(BufferOf, ZeroesNoGaps) {
  float memory[64] = {};
  const TensorView gaps{memory, DType::kF32, {2, 3}, {4, 1}}, transposed{memory, DType::kF32, {2, 3}, {1, 2}};
  EXPECT_THAT(error_of([&] { buffer_of("dw", Role::kAccumulate, gaps); }, Error::Kind::kInternal),
              AllOf(HasSubstr("dw has gaps"), HasSubstr("(4, 1)")));
  EXPECT_EQ(buffer_of("dw", Role::kAccumulate, transposed).bytes, 24);
  EXPECT_EQ(buffer_of("dw", Role::kUpdate, gaps).bytes, 28);
}

TEST(TuningKey, HoldsEverythingThatMatters) {
  alignas(16) float memory[64] = {};
  const auto call = [&](float* x, const Dims& dims, DType dtype, const Extents& strides) {
    return Call{.dims = dims, .dtype = dtype, .inputs = {{x, dtype, {2, 3}, strides}}, .outputs = {}};
  };
  const auto call_with_output = [&](float* y, const Extents& strides) {
    Call all = call(memory, {{"n", 2}}, DType::kF32, {3, 1});
    all.outputs = {{y, DType::kF32, {2, 3}, strides}};
    return all;
  };
  const Dims dims{{"n", 2}, {"dilation", 1}};
  const std::string key = tuning_key(call(memory, dims, DType::kF32, {3, 1}));
  EXPECT_EQ(tuning_key(call(memory + 4, dims, DType::kF32, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory + 1, dims, DType::kF32, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory, {{"n", 2}, {"dilation", 2}}, DType::kF32, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory, dims, DType::kBF16, {3, 1})), key);
  EXPECT_NE(tuning_key(call(memory, dims, DType::kF32, {4, 1})), key);
  const std::string with_output = tuning_key(call_with_output(memory, {3, 1}));
  EXPECT_EQ(tuning_key(call_with_output(memory + 4, {3, 1})), with_output);
  EXPECT_NE(tuning_key(call_with_output(memory + 1, {3, 1})), with_output);
  EXPECT_NE(tuning_key(call_with_output(memory, {4, 1})), with_output);
}

}  // namespace
}  // namespace assay
