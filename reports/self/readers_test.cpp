// SPDX-License-Identifier: Apache-2.0
// Each reader of files and arguments takes what it is given, or refuses it with one line: mutated
// files, and files that are deep, wide or long.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"
#include "properties/core/precheck.h"
#include "properties/self/tuner_support.h"
#include "reports/program/capsule.h"
#include "reports/program/selection.h"
#include "reports/render/render.h"
#include "reports/scaffold/project.h"
#include "reports/self/fixture.h"
#include "reports/self/mutation.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// ---- the property

struct Limits {
  double seconds = 2;                   // [s] of this thread
  int64_t memory = int64_t{256} << 20;  // [bytes]
  size_t line = 1000;                   // [bytes]
};

double seconds_of_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// [bytes] The most memory that this process has had.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

std::string complaint_on(std::string_view message, const Limits& limits) {
  if (printable(message) != message) return fmt::format("its message is '{}'", printable(message));
  if (message.size() > limits.line) return fmt::format("its message has {} bytes", message.size());
  return "";
}

using Read = std::function<void(const std::string&)>;

struct Outcome {
  bool refused = false;
  std::string complaint;  // what is wrong with how the input was taken; empty if nothing is
};

Outcome take(const Read& read, const std::string& input, const Limits& limits = {}) {
  Outcome outcome;
  std::string& wrong = outcome.complaint;
  const double start = seconds_of_thread();
  const int64_t memory = peak_memory();
  try {
    read(input);
  } catch (const Error& error) {
    outcome.refused = true;
    wrong = error.kind() == Error::Kind::kUsage ? complaint_on(error.what(), limits)
                                                : fmt::format("it is no error of usage: {}", error.what());
  } catch (const std::exception& error) {
    wrong = fmt::format("it throws {}", error.what());
  }
  const double seconds = seconds_of_thread() - start;
  if (wrong.empty() && seconds > limits.seconds) wrong = fmt::format("it takes {} s", seconds);
  const int64_t taken = peak_memory() - memory;
  if (wrong.empty() && taken > limits.memory) wrong = fmt::format("it takes {} bytes of memory", taken);
  return outcome;
}

void expect_refusal(const Read& read, const std::string& input) {
  const Outcome outcome = take(read, input);
  EXPECT_TRUE(outcome.refused && outcome.complaint.empty()) << outcome.complaint << ": " << excerpt(input);
}

// ---- the readers

void read_case_line(const std::string& line) {
  const Case parsed = parse_case(line);
  if (parse_case(parsed.to_string()) != parsed) throw std::logic_error("a case does not survive its line");
  const Subject subject = registry().subject(parsed.op, parsed.path);
  precheck(subject, in_order(*subject.op, parsed));
}

void read_record(const std::string& text) {
  const Record record = parse_record(text, "run.json");
  for (const auto render : {render_html, render_markdown, render_junit, render_benchmark_json})
    render(record);
  render_table(record, false);
}

void read_tensors(const std::string& content) {
  const TensorFile file = parse_safetensors(content, "a.safetensors");
  inputs_from(file, "a.safetensors", registry().op("dynamic_conv"),
              parse_case("dynamic_conv/cpu/f32/b=1/t=2/d=1/w=2"));
}

void read_formula(const std::string& text) {
  const Formula formula = parse_formula(text);
  const std::string printed = to_string(formula);
  if (to_string(parse_formula(printed)) != printed) throw std::logic_error("a formula does not survive");
  project_files("fuzzed", formula);
}

fs::path scratch(std::string_view name) {
  return fs::temp_directory_path() / fmt::format("assay-readers-{}-{}", getpid(), name);
}

// A refused file is no error of the tuner, which gives the reasons.
void read_choices(const std::string& text) {
  static const fs::path file = scratch("choices.json");
  std::ofstream(file) << text;
  Tuner tuner(test::simulated());
  const std::vector<std::string> reasons = tuner.load(file, test::kKnown);
  fs::remove(file);
  for (const std::string& reason : reasons) throw usage_error("{}", reason);
}

// ---- their inputs

std::string saved_choices() {
  const fs::path file = scratch("saved.json");
  Tuner tuner(test::simulated());
  test::Adder adder;
  tuner.run(adder.launch("a"));
  tuner.save(file);
  const std::string text = read_file(file);
  fs::remove(file);
  return text;
}

struct Reader {
  std::string name;  // of its folder in the corpus
  Read read;
  std::vector<std::string> extra = {};  // a seed beside its corpus
};

std::vector<Reader> readers() {
  return {{"case", read_case_line},
          {"choices", read_choices, {saved_choices()}},
          {"formula", read_formula},
          {"record", read_record},
          {"safetensors", read_tensors}};
}

// Valid files and files that a reader did not refuse as it should, in the order of their names.
std::vector<std::string> seeds_of(const Reader& reader) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(ASSAY_CORPUS) / reader.name))
    files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> seeds = reader.extra;
  for (const fs::path& file : files) seeds.push_back(read_file(file));
  return seeds;
}

void expect_lines(const Reader& reader, uint64_t inputs) {
  std::vector<std::string> seeds = seeds_of(reader);
  // Changes of what is valid reach furthest, so valid seeds weigh more.
  for (const std::string& seed : seeds_of(reader)) {
    if (!take(reader.read, seed).refused) seeds.insert(seeds.end(), 10, seed);
  }
  uint64_t refused = 0;
  for (uint64_t number = 0; number < inputs; ++number) {
    const std::string input = Mutation(seeds, number).text(reader.name == "safetensors");
    const Outcome outcome = take(reader.read, input);
    ASSERT_EQ(outcome.complaint, "") << reader.name << " " << number << ": " << printable(input);
    refused += outcome.refused ? 1 : 0;
  }
  EXPECT_GT(refused, inputs / 4) << reader.name;
  EXPECT_LT(refused, inputs - inputs / 50) << reader.name;
}

// ---- the tests

class EachReader : public testing::TestWithParam<std::string> {
 protected:
  static Reader reader() {
    const std::vector<Reader> all = readers();
    return *std::ranges::find(all, GetParam(), &Reader::name);
  }
};
INSTANTIATE_TEST_SUITE_P(Readers, EachReader,
                         testing::Values("case", "choices", "formula", "record", "safetensors"),
                         [](const auto& info) { return info.param; });

TEST_P(EachReader, RefusesMutatedFilesWithALine) {
  expect_lines(reader(), 500);
}

TEST_P(EachReader, RefusesManyMutatedFilesWithALine) {
  NIGHTLY("500 files always are");
  expect_lines(reader(), 100'000);
}

TEST(Readers, TakeTheCorpus) {
  for (const Reader& reader : readers()) {
    for (const std::string& seed : seeds_of(reader))
      EXPECT_EQ(take(reader.read, seed).complaint, "") << reader.name << ": " << printable(seed);
  }
}

std::string times(int count, std::string_view part) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

// {"a0": 0, "a1": 0, ...}
std::string wide_object(int fields) {
  std::string text = "{";
  for (int i = 0; i < fields; ++i) text += fmt::format("{}\"a{}\": 0", i == 0 ? "" : ",", i);
  return text + "}";
}

// Documents of some 100 kB that are deep, wide or have one long part.
std::vector<std::string> extremes() {
  const std::string closed = times(100'000, "[") + times(100'000, "]");
  std::vector<std::string> documents{times(200'000, "["),      closed,
                                     times(40'000, "{\"a\":"), wide_object(100'000),
                                     times(200'000, "9"),      "\"" + times(200'000, "\x01") + "\""};
  for (std::string_view field :
       {"\"__metadata__\": {}", "\"__metadata__\": {{\"a\": {}}}",
        "\"x\": {{\"dtype\": {}, \"shape\": [], \"data_offsets\": [0, 4]}}",
        "\"x\": {{\"dtype\": \"F32\", \"shape\": {}, \"data_offsets\": [0, 4]}}",
        "\"x\": {{\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": {}}}", "\"schema\": {}",
        "\"schema\": \"assay.run/1\", \"complete\": {}", "\"schema\": \"assay.choices/1\", \"device\": {}"}) {
    for (const std::string& value : {closed, "\"" + times(200'000, "x\\n") + "\"", wide_object(1001)})
      documents.push_back("{" + fmt::format(fmt::runtime(field), value) + "}");
  }
  return documents;
}

TEST(Readers, RefuseDeepWideAndLongFiles) {
  for (const Reader& reader : readers()) {
    for (const std::string& document : extremes()) {
      expect_refusal(reader.read, reader.name == "safetensors" ? with_length(document, "1234") : document);
    }
  }
}

TEST(Readers, RefuseLongCaseLines) {
  std::string dims = "dynamic_conv/cpu/f32";
  for (int i = 0; i < 100'000; ++i) dims += fmt::format("/a{}=1", i);
  const std::string steps = "dynamic_conv/cpu/f32/state=" + times(100'000, "warm+") + "warm";
  for (const std::string& line : {dims, steps, times(1'000'000, "/")}) expect_refusal(read_case_line, line);
}

TEST(Readers, APlantedFaultIsSeen) {
  const auto complaint_on_plant = [](const Read& plant, const Limits& limits = {}) {
    return take(plant, "", limits).complaint;
  };
  EXPECT_EQ(complaint_on_plant([](const std::string&) { throw usage_error("a line"); }), "");
  EXPECT_EQ(complaint_on_plant([](const std::string&) { throw Error("a bug"); }),
            "it is no error of usage: a bug");
  EXPECT_EQ(complaint_on_plant([](const std::string&) { throw std::out_of_range("at"); }), "it throws at");
  EXPECT_EQ(complaint_on_plant([](const std::string&) { throw usage_error("a\nb"); }),
            "its message is 'a\\x0ab'");
  EXPECT_EQ(complaint_on_plant([](const std::string&) { throw usage_error("{}", times(2000, "a")); }),
            "its message has 2000 bytes");
  const Limits small{.seconds = 0.01, .memory = 1 << 20};
  const auto spin = [](const std::string&) {
    for (const double start = seconds_of_thread(); seconds_of_thread() < start + 0.02;) continue;
  };
  EXPECT_TRUE(has(complaint_on_plant(spin, small), "it takes 0.0"));
  const auto fill = [](const std::string&) {
    const std::vector<char> memory(static_cast<size_t>(peak_memory()) + (16 << 20), 'x');
    ASSERT_EQ(memory.back(), 'x');
  };
  EXPECT_TRUE(has(complaint_on_plant(fill, {.seconds = 1e9, .memory = 1 << 20}), "bytes of memory"));
}

}  // namespace
}  // namespace assay
