// SPDX-License-Identifier: Apache-2.0
#include "reports/record/record.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "kernels/core/json.h"
#include "reports/record/tally.h"
#include "reports/self/fixture.h"

namespace assay {
// ---- equality of all fields. A structured binding does not compile once a field is added, so none
// can be forgotten. Not in an unnamed namespace: all_fields() finds these by the type of their
// argument.

static uint64_t bits(double value) {
  return std::bit_cast<uint64_t>(value);
}
static std::optional<uint64_t> bits(const std::optional<double>& value) {
  return value ? std::optional(bits(*value)) : std::nullopt;
}

static std::vector<uint64_t> bits(const std::vector<double>& values) {
  std::vector<uint64_t> all;
  for (double value : values) all.push_back(bits(value));
  return all;
}

static auto fields(const WorstElement& worst) {
  const auto& [element, got, want, bound] = worst;
  return std::tuple(element, bits(got), bits(want), bits(bound));
}

static auto fields(const Comparison& seen) {
  const auto& [count, wrong, open, nonfinite, equal, ratio, ulp, max_abs, error, square_error, square_value,
               finite, worst] = seen;
  return std::tuple(count, wrong, open, nonfinite, equal, bits(ratio), bits(ulp), bits(max_abs), bits(error),
                    bits(square_error), bits(square_value), finite,
                    worst ? std::optional(fields(*worst)) : std::nullopt);
}

static auto fields(const OutputNumerics& output) {
  const auto& [name, comparison, conformity, is_law, elements, shares] = output;
  std::vector<std::tuple<std::string, uint64_t, uint64_t>> shared;
  for (const auto& [stage, bound, rms] : shares) shared.emplace_back(stage, bits(bound), bits(rms));
  const auto [rms, predicted, allowed, largest, count, doubts, rows, farthest] =
      conformity.value_or(Conformity{});
  return std::tuple(name, fields(comparison), conformity.has_value(), bits(rms), bits(predicted),
                    bits(allowed), bits(largest), count, doubts, rows, farthest, is_law, elements, shared);
}

static auto fields(const std::optional<Range>& range) {
  const auto& [least, median, most] = range.value_or(Range{});
  return std::tuple(range.has_value(), bits(least), bits(median), bits(most));
}

static auto fields(const std::optional<DeviceState>& state) {
  const auto& [clock, memory_clock, power, energy, temperature, memory_temperature, reasons, limit, usual,
               ecc, errors, mig, processes, uuid, vbios, load, absent] = state.value_or(DeviceState{});
  return std::tuple(state.has_value(), bits(clock), bits(memory_clock), bits(power), bits(energy),
                    bits(temperature), bits(memory_temperature), reasons, bits(limit), bits(usual), ecc,
                    errors, mig, processes, uuid, vbios, bits(load), absent);
}

static auto fields(const std::optional<Telemetry>& telemetry) {
  const auto& [seconds, readings, clock, memory_clock, power, energy, temperature, memory_temperature,
               reasons, load, cycles, absent] = telemetry.value_or(Telemetry{});
  return std::tuple(telemetry.has_value(), bits(seconds), readings, fields(clock), bits(memory_clock),
                    bits(power), bits(energy), bits(temperature), bits(memory_temperature), reasons,
                    bits(load), bits(cycles), absent);
}

static auto fields(const std::optional<OtherTimes>& times) {
  const auto& [what, samples, median, interval] = times.value_or(OtherTimes{});
  return std::tuple(times.has_value(), what, bits(samples), bits(median), bits(interval[0]),
                    bits(interval[1]));
}

static auto fields(const FloorPart& part) {
  return std::tuple(part.name, part.limit, bits(part.ns), part.bytes, part.flops);
}

template <class Item>
static auto all_fields(const std::vector<Item>& items) {
  std::vector<decltype(fields(items.front()))> all;
  for (const Item& item : items) all.push_back(fields(item));
  return all;
}

static auto fields(const std::optional<Perf>& perf) {
  const auto& [cache, timer, samples, median, interval, bytes, flops, floor, fraction, floor_parts,
               implausible, draws, other, near, graph, waits, telemetry] = perf.value_or(Perf{});
  return std::tuple(perf.has_value(), cache, timer, bits(samples), bits(median), bits(interval[0]),
                    bits(interval[1]), bytes, flops, bits(floor), bits(fraction), implausible, draws,
                    fields(other), fields(near), bits(waits), all_fields(floor_parts), graph.has_value(),
                    bits(graph ? graph->samples_ns : std::vector<double>{}),
                    bits(graph ? graph->median_ns : 0), fields(telemetry));
}

static auto fields(const CaseRecord& item) {
  const auto& [which, device, verdict, shrunk_from, perf, perf_warm, no_perf, seconds, capsule, drawn,
               problem] = item;
  const auto& [kind, reason, outputs, recipe, fails_alone, evidence] = verdict;
  return std::tuple(which.to_string(), device, recipe, kind, reason, all_fields(outputs), fails_alone,
                    evidence == nullptr, shrunk_from ? shrunk_from->to_string() : "", fields(perf),
                    fields(perf_warm), no_perf, bits(seconds), capsule, drawn, problem);
}

static auto fields(const DeviceRecord& device) {
  const auto& [info, ceilings, no_ceilings, state, telemetry] = device;
  const auto& [kind, index, model, driver, memory, cache, units, capability] = info;
  return std::tuple(kind, index, model, driver, memory, cache, units, capability, no_ceilings,
                    ceilings.has_value(), ceilings ? bits(ceilings->copy_bytes_per_s) : 0,
                    ceilings ? ceilings->copy_method : "", ceilings ? bits(ceilings->read_bytes_per_s) : 0,
                    ceilings ? ceilings->product_flops_per_s : std::map<Format, double>{}, fields(state),
                    fields(telemetry));
}

static auto fields(const NotRun& path) {
  const auto& [op, name, reason] = path;
  return std::tuple(op, name, reason);
}

static auto fields(const SpecimenRecord& specimen) {
  const auto& [op, path, fault] = specimen;
  return std::tuple(op, path, fault);
}

static auto fields(const GivenFiles& given) {
  const auto& [in, got] = given;
  return std::tuple(in, got);
}

static auto fields(const Conditions& conditions) {
  const auto& [load, threads, disturbances] = conditions;
  std::vector<std::pair<std::string, std::string>> disturbed;
  for (const auto& [kind, text] : disturbances) disturbed.emplace_back(kind, text);
  return std::tuple(bits(load), threads, disturbed);
}

static auto fields(const Ceilings& ceilings) {
  const auto& [copy, method, read, products, launch, next_launch] = ceilings;
  return std::tuple(bits(copy), method, bits(read), products, bits(launch), bits(next_launch));
}

static auto fields(const Sentinel& sentinel) {
  const auto& [op, path, device, before, after] = sentinel;
  return std::tuple(op, path, device, fields(before), fields(after));
}

static auto fields(const Record& record) {
  const auto& [complete, started, seconds, command, seed, machine, tool, cases, not_run, planned, running,
               specimens, given, conditions, sentinels, timeout, options] = record;
  const auto& [host_os, host_name, memory, devices] = machine;
  const auto& [version, git, dirty, compiler, build] = tool;
  return std::tuple(complete, started, bits(seconds), command, seed, host_os, host_name, memory,
                    all_fields(devices), version, git, dirty, compiler, build, all_fields(cases),
                    all_fields(not_run), planned, running ? running->to_string() : "", all_fields(specimens),
                    given ? std::optional(fields(*given)) : std::nullopt,
                    conditions ? std::optional(fields(*conditions)) : std::nullopt, all_fields(sentinels),
                    timeout, options);
}

namespace {

Record through_text(const Record& record) {
  return parse_record(record_text(record), "run.json");
}

std::string error_of_record(const std::string& text) {
  try {
    parse_record(text, "run.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    return error.what();
  }
  return "no error";
}

// The example's text with a field replaced or removed. The field must be present.
std::string damaged(const std::string& from, const std::string& to) {
  std::string text = record_text(example_record(1));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// ---- the tests

TEST(Record, SurvivesText) {
  Record judged = example_record(1);
  judged.given = GivenFiles{.in = "", .got = "out.safetensors"};
  judged.options = {{"command", "verify"}, {"--shard", "1/2"}};
  judged.cases.front().drawn = 0;
  judged.cases.back().problem = 7;
  judged.conditions = Conditions{.load = 1.5, .threads = 2, .disturbances = {{"load", "other work"}}};
  judged.sentinels = {{"op", "path", "cpu", *judged.machine.devices.front().ceilings, Ceilings{}}};
  for (const Record& record :
       {example_record(), interrupted_record(), specimens_record(), judged, Record{}}) {
    EXPECT_TRUE(fields(through_text(record)) == fields(record));
  }
}

TEST(Record, EqualityOfTheTestSeesADifference) {
  Record other = example_record(1);
  other.cases.front().verdict.outputs.front().comparison.sum_error += 1;
  EXPECT_FALSE(fields(other) == fields(example_record(1)));
}

RC_GTEST_PROP(Record, AnyNumberSurvivesText, (uint64_t a, uint64_t b, uint64_t element, uint64_t seed)) {
  Record record = example_record(1);
  record.seed = seed;
  Comparison& seen = record.cases.front().verdict.outputs.front().comparison;
  const auto number = [](uint64_t pattern) {
    const auto value = std::bit_cast<double>(pattern);
    // JSON says that a number is NaN, not which NaN.
    return value == value ? value : std::numeric_limits<double>::quiet_NaN();
  };
  seen.max_ulp = number(a);
  seen.worst = {.element = static_cast<int64_t>(element >> 1),
                .got = number(b),
                .want = -number(a),
                .bound = 0x1p-1074};
  if (seen.worst->want != seen.worst->want) seen.worst->want = seen.max_ulp;
  RC_ASSERT(fields(through_text(record)) == fields(record));
}

TEST(Record, TextWithoutUtf8IsReplaced) {
  Record record = example_record(1);
  record.cases.front().verdict.reason = kHostileText;
  const std::string reason = through_text(record).cases.front().verdict.reason;
  EXPECT_NE(reason.find("</script>"), std::string::npos);
  EXPECT_EQ(reason.find('\xff'), std::string::npos);
}

TEST(Record, HasNoTokenForNonfiniteNumbers) {
  const std::string text = record_text(example_record());
  for (const char* token : {":NaN", ":Infinity", ":-Infinity", ":inf", ":nan", ":-inf"}) {
    EXPECT_EQ(text.find(token), std::string::npos) << token;
  }
  const Json json = to_json(example_record());
  for (const Json& item : json["cases"]) {
    if (item["verdict"] != "fail" || item["numerics"]["outputs"].back()["name"] != "dk") continue;
    const Json& output = item["numerics"]["outputs"].back();
    if (!output.contains("nonfinite_fields")) continue;
    EXPECT_FALSE(output.contains("max_error_over_bound"));
    EXPECT_EQ(output["nonfinite_fields"]["max_error_over_bound"], "inf");
    EXPECT_EQ(output["worst"]["nonfinite_fields"]["got"], "nan");
    EXPECT_EQ(output["worst"]["nonfinite_fields"]["want"], "-inf");
    return;
  }
  ADD_FAILURE() << "the example has no non-finite number";
}

TEST(Record, HoldsNoTimeOfAWrongPath) {
  Record record = example_record(1);
  record.cases.front() = record.cases[1];
  ASSERT_TRUE(record.cases.front().perf.has_value());
  EXPECT_NO_THROW(to_json(record));
  record.cases.front().verdict.kind = VerdictKind::kFail;
  EXPECT_THROW(to_json(record), Error);
}

TEST(Record, NamesWhatIsWrong) {
  const auto expect = [](const std::string& text, const std::string& message) {
    const std::string error = error_of_record(text);
    EXPECT_NE(error.find(message), std::string::npos) << error;
  };
  EXPECT_EQ(error_of_record(record_text(example_record(1))), "no error");
  expect("", "run.json: not JSON, or cut short");
  const std::string whole = record_text(example_record(1));
  expect(whole.substr(0, whole.size() / 2), "run.json: not JSON, or cut short");
  expect("[1]", "run.json: not a record of assay");
  expect("{\"context\": {}, \"benchmarks\": []}",
         "run.json: not a record of assay: it has no field 'schema'");
  expect(damaged("assay.run/1", "assay.run/2"),
         "the schema is 'assay.run/2', of another version of assay; this program reads assay.run/1");
  expect(damaged("assay.run/1", "other/1"), "the schema is 'other/1'; this program");
  expect(damaged("\"complete\": true", "\"complete\": 1"), "complete is a number, expected true or false");
  expect(damaged("\"seed\": 18446744073709551615", "\"seed\": -1"), "seed is -1, which is out of range");
  expect(damaged("\"seed\": 18446744073709551615", "\"seed\": 1.5"), "seed is a number, expected an integer");
  expect(damaged("\"seconds\": 41.7", "\"seconds\": 1e999"), "run.json: number overflow parsing '1e999'");
  expect(damaged("\"units\":16", "\"units\":1e19"), "devices[0].units is a number, expected an integer");
  expect(damaged("\"memory_bytes\":", "\"memory_bytes\":-"), "memory_bytes is -");
  expect(damaged("\"seconds\": 41.7", "\"seconds\": \"long\""), "seconds is a string, expected a number");
  expect(damaged("\"seconds\": 41.7", "\"nonfinite_fields\": {\"seconds\": \"huge\"}"),
         "seconds is 'huge' in nonfinite_fields");
  expect(damaged("\"kind\":\"cuda\"", "\"kind\":\"tpu\""), "machine.devices[1].kind is 'tpu'");
  expect(damaged("\"kind\":\"cuda\",", ""), "machine.devices[1].kind is missing");
  expect(damaged("\"verdict\":\"pass\"", "\"verdict\":\"good\""), "cases[0].verdict is 'good'");
  expect(damaged("\"verdict\":\"pass\",", ""), "cases[0].verdict is missing");
  expect(damaged("\"id\":\"dynamic_conv/cpu/f32", "\"id\":\"dynamic_conv/cpu/f31"),
         "cases[0].id is not a case: ");
  expect(damaged("\"outputs\":[{", "\"outputs\":[7,{"),
         "cases[0].numerics.outputs[0] is a number, expected an object");
  expect(damaged("\"outputs\":[{", "\"outputs\":{\"a\":[{"), "run.json: not JSON");
  expect(damaged("\"ci95_ns\":[", "\"ci95_ns\":[1,"), "cases[1].perf.ci95_ns has 3 numbers, expected 2");
  expect(damaged("\"samples_ns\":[", "\"samples_ns\":[null,"),
         "cases[1].perf.samples_ns holds a null, expected numbers");
  expect(damaged("\"verdict\":\"fail\"", "\"verdict\":\"pass\""), "no error");
}

TEST(Json, IsRefusedBeyondItsLimits) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const auto with_fields = [](int count) {
    std::string text = "{\"a\":0";
    for (int i = 1; i < count; ++i) text += fmt::format(",\"{}\":0", i);
    return text + "}";
  };
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      parse_json(text, "a.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kUsage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of(nested(32)), "no error");
  EXPECT_EQ(error_of(nested(33)), "a.json: it nests deeper than 32");
  EXPECT_EQ(error_of(with_fields(1000)), "no error");
  EXPECT_EQ(error_of(with_fields(1001)), "a.json: an object has more than 1000 fields");
  EXPECT_EQ(error_of(R"([{"a":0},{"a":{"a":0}}])"), "no error");
  EXPECT_EQ(error_of(R"({"b":{"a":0,"a":0}})"), "a.json: it holds 'a' twice");
  EXPECT_EQ(error_of("[-1e999]"), "a.json: number overflow parsing '-1e999'");
  EXPECT_TRUE(has(error_of("[\"\x01\"]"), "a.json: not JSON, or cut short: parse error at line 1, column 3"));
}

TEST(Record, CountsVerdicts) {
  const Tally counts = tally(example_record(2).cases);
  EXPECT_EQ(counts.pass, 2 * 12 + 12 + 1);
  EXPECT_EQ(counts.fail, 2);
  EXPECT_EQ(counts.failures(), 5);
  EXPECT_EQ(counts.unsupported, 1);
  EXPECT_EQ(counts.skipped, 1);
  EXPECT_EQ(counts.all(), 44);
}

}  // namespace
}  // namespace assay
