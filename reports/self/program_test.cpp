// SPDX-License-Identifier: Apache-2.0
// The program on bad paths that no build ships: what they do must not end the run.
#include "reports/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "kernels/core/build.h"
#include "kernels/core/read_file.h"
#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/core/judge.h"
#include "reports/program/capsule.h"
#include "reports/record/record.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

// No main() here calls run_program(), so there are no workers.
const int no_workers = setenv("ASSAY_NO_ISOLATE", "1", 1);

// dynamic_conv with bad paths beside right ones.
class ProgramOnBadPaths : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    out_ = std::filesystem::temp_directory_path() / fmt::format("assay-program-{}-{}", name, getpid());
  }
  void TearDown() override { std::filesystem::remove_all(out_); }

  // Adds a path whose calls go to `run`.
  Path& add_path(std::string_view name, std::function<void(const Call&)> run) {
    Path path = registry().op("dynamic_conv").path("cpu");
    path.name = name;
    path.run = std::move(run);
    ops_[0].paths.push_back(path);
    return ops_[0].paths.back();
  }

  int assay(std::vector<const char*> arguments) {
    Registry all;
    Oracle oracle = registry().oracle("dynamic_conv");
    oracle.sums.clear();  // which would have specimens
    all.add(ops_, {oracle}, {}, laws_);
    arguments.insert(arguments.begin(), "assay");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_program(static_cast<int>(arguments.size()), arguments.data(), all, {});
    errors_ = testing::internal::GetCapturedStderr();
    output_ = testing::internal::GetCapturedStdout();
    return code;
  }

  Record record() const { return parse_record(read_file(out_ / "run.json"), "run.json"); }

  // Verifies one case of a path that throws, and returns the capsule of the failure.
  Capsule capsule_of_a_throw(std::function<void(const Call&)> run, VerdictKind kind) {
    add_path("thrower", std::move(run));
    add_path("right", registry().op("dynamic_conv").path("cpu").run);
    EXPECT_EQ(assay({"verify", "--device", "cpu", "--cases", "1", "--out", out_.c_str()}),
              kExitNumericalFailure)
        << errors_;
    EXPECT_EQ(record().cases.at(0).verdict.kind, kind);
    EXPECT_EQ(record().cases.at(1).which.path, "right");
    return read_capsule(only_capsule());
  }

  std::string only_capsule() const {
    const std::filesystem::directory_iterator capsules(out_ / "capsules");
    return capsules->path().string();
  }

  std::vector<Op> ops_ = [] {
    Op op = registry().op("dynamic_conv");
    op.paths.clear();
    return std::vector{op};
  }();
  std::vector<Law> laws_;
  std::filesystem::path out_;
  std::string output_;
  std::string errors_;
};

TEST_F(ProgramOnBadPaths, APathOnGpusIsMissedWithTheReason) {
  add_path("right", registry().op("dynamic_conv").path("cpu").run);
  EXPECT_EQ(assay({"list", "dynamic_conv/cuda.none"}), kExitNothingSelected);
  EXPECT_THAT(errors_,
              HasSubstr(kHasCuda ? "no path matches dynamic_conv/cuda.none; see assay list"
                                 : "no path matches dynamic_conv/cuda.none; this build has no CUDA"));
  EXPECT_EQ(assay({"list", "dynamic_cnv/cuda.none"}), kExitNothingSelected);
  EXPECT_THAT(errors_, Not(HasSubstr("no CUDA")));
}

TEST_F(ProgramOnBadPaths, APathThatRefusesALegalCallLeavesItsInputs) {
  const Capsule capsule =
      capsule_of_a_throw([](const Call&) { throw usage_error("not today"); }, VerdictKind::kFail);
  EXPECT_THAT(capsule.file.metadata.at("reason"), HasSubstr("not today"));
  EXPECT_TRUE(capsule.file.tensors.contains("x"));
  EXPECT_FALSE(capsule.file.tensors.contains("out"));
}

// With workers, these look at the laws. Without, the program does.
TEST_F(ProgramOnBadPaths, LawsAreTriedWithoutWorkers) {
  add_path("right", registry().op("dynamic_conv").path("cpu").run);
  laws_ = {{.op = "dynamic_conv",
            .name = "silence",
            .statement = "nothing is ever said",
            .violation = {},
            .violation_by = [](const Problem&) { return std::optional<std::string>("a word"); }}};
  EXPECT_EQ(assay({"verify", "--device", "cpu", "--cases", "9", "--max-elements", "64"}),
            kExitNumericalFailure);
  EXPECT_THAT(errors_, HasSubstr("the law silence is broken, nothing is ever said: a word"));
}

TEST_F(ProgramOnBadPaths, APathThatCrashesIsNotRunAgain) {
  int calls = 0;
  const auto crash = [&calls](const Call&) {
    ++calls;
    throw std::bad_alloc();
  };
  const Capsule capsule = capsule_of_a_throw(crash, VerdictKind::kCrashed);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(capsule.file.tensors.contains("x"));
  EXPECT_FALSE(capsule.file.tensors.contains("out"));
}

// The path is wrong in its third call only, so no other run shows what the capsule has to hold.
TEST_F(ProgramOnBadPaths, AFailureByHistoryIsKeptAsItHappened) {
  int calls = 0;
  const auto third_is_wrong = [&calls,
                               right = registry().op("dynamic_conv").path("cpu").run](const Call& call) {
    right(call);
    if (++calls == 3) call.outputs[0].as<float>()[5] = 1e6f;
  };
  add_path("moody", third_is_wrong).deterministic = false;
  const std::string line = "dynamic_conv/moody/f32/b=1/t=4/d=3/w=2/seed=7";
  EXPECT_EQ(assay({"replay", line.c_str()}), kExitPassed) << output_;  // calls 1 and 2
  EXPECT_EQ(assay({"replay", line.c_str(), "--out", out_.c_str()}), kExitNumericalFailure);
  const std::string reason = record().cases.at(0).verdict.reason;
  EXPECT_THAT(reason,
              HasSubstr("1 of 12 compared elements of out are wrong; the worst is out[0, 1, 2] = 1000000"));
  const std::string path = only_capsule();
  const Capsule capsule = read_capsule(path);
  EXPECT_EQ(capsule.file.metadata.at("reason"), reason);
  EXPECT_EQ(capsule.file.metadata.at("differs"), "1 of 12 elements of out and out.second_run");
  EXPECT_TRUE(capsule.file.tensors.contains("out.second_run"));

  const auto judge_capsule = [&] {
    return assay({"judge", line.c_str(), "--in", path.c_str(), "--got", path.c_str(), "--json"});
  };
  EXPECT_EQ(judge_capsule(), kExitNumericalFailure);
  EXPECT_EQ(parse_record(output_, "stdout").cases.at(0).verdict.reason, reason);
  EXPECT_EQ(assay({"replay", path.c_str()}), kExitPassed) << output_;  // calls 5 and 6
  EXPECT_EQ(calls, 6);
}

TEST_F(ProgramOnBadPaths, TheCapsuleOfAShrunkFailureHoldsTheShrunkCase) {
  add_path("wrong", [right = registry().op("dynamic_conv").path("cpu").run](const Call& call) {
    right(call);
    if (call.dtype == DType::kF32 && element_count(call.outputs[0].shape) > 0)
      *call.outputs[0].as<float>() += 1;
  });
  EXPECT_EQ(assay({"verify", "--cases", "20", "--dtype", "f32", "--out", out_.c_str()}),
            kExitNumericalFailure);
  const std::vector<CaseRecord> cases = record().cases;
  const auto is_shrunk = [](const CaseRecord& item) { return item.shrunk_from.has_value(); };
  const auto found = std::ranges::find_if(cases, is_shrunk);
  ASSERT_NE(found, cases.end());
  const CaseRecord& failure = *found;
  const Capsule capsule = read_capsule(
      out_ / "capsules" / fmt::format("{:03}-dynamic_conv-wrong.safetensors", found - cases.begin() + 1));
  EXPECT_EQ(capsule.which, failure.which);
  EXPECT_EQ(capsule.file.metadata.at("reason"), failure.verdict.reason);
  EXPECT_EQ(capsule.file.tensors.at("out").shape, shape_of(ops_[0].outputs[0], failure.which.dims));
}

// This holds for every op and for tensors with dtypes of their own.
TEST_F(ProgramOnBadPaths, ACapsuleHoldsEveryTensorAsTheOpDeclaresIt) {
  const auto cpu = open_cpu();
  std::filesystem::create_directories(out_);
  size_t number = 0;
  for (const Op* op : registry().ops()) {
    Path path = op->paths.front();
    path.run = [](const Call&) {};
    for (DType dtype : path.dtypes) {
      Case which{.op = std::string(op->name), .path = std::string(path.name), .dtype = dtype, .dims = {}};
      for (const DimInfo& dim : op->dims)
        which.dims.set(std::string(dim.key), std::clamp<int64_t>(3, dim.min, dim.max));
      write_capsule(out_, ++number, which, judge({op, &path, &registry().oracle(op->name)}, which, *cpu),
                    false);
      const Capsule capsule =
          read_capsule(out_ / fmt::format("{:03}-{}-{}.safetensors", number, op->name, path.name));
      EXPECT_EQ(capsule.which, which);
      for (const auto* infos : {&op->inputs, &op->outputs}) {
        for (const TensorInfo& info : *infos) {
          const StoredTensor& tensor = capsule.file.tensors.at(std::string(info.name));
          EXPECT_EQ(tensor.dtype, info.dtype.value_or(dtype)) << which.to_string() << " " << info.name;
          EXPECT_EQ(tensor.shape, shape_of(info, which.dims)) << which.to_string() << " " << info.name;
        }
      }
      Problem problem(*op, path, which, *cpu);
      problem.draw_inputs(which.seed);
      EXPECT_EQ(inputs_from(capsule.file, "", *op, which), problem.inputs()) << which.to_string();
      problem.poison_outputs(Poison::kNan);
      EXPECT_EQ(outputs_from(capsule.file, "", *op, which), problem.outputs()) << which.to_string();
    }
  }
}

TEST_F(ProgramOnBadPaths, ACapsuleSaysWhyItHoldsNoTensors) {
  const auto evidence = std::make_shared<Evidence>();
  evidence->left_out = "the tensors take 9 bytes; at most 8 are kept";
  const Case which = parse_case("dynamic_conv/cpu/f32/b=1/t=4/d=3/w=2");
  std::filesystem::create_directories(out_);
  write_capsule(out_, 1, which,
                {.kind = VerdictKind::kFail, .reason = "wrong", .outputs = {}, .evidence = evidence}, false);
  const std::string path = out_ / "001-dynamic_conv-cpu.safetensors";
  EXPECT_EQ(read_safetensors(path).metadata.at("reason"), "wrong");
  EXPECT_EQ(assay({"replay", path.c_str()}), kExitUsage);
  EXPECT_THAT(errors_,
              HasSubstr("holds no tensors: the tensors take 9 bytes; at most 8 are kept; its case is "
                        "dynamic_conv/cpu/f32/b=1/t=4/d=3/w=2"));
}

// Neither needs the path's device, since neither runs the path.
TEST_F(ProgramOnBadPaths, DrawAndJudgeNeedNoDevice) {
  const auto run = [](const Call&) { throw Error("the path ran"); };
  add_path("cuda", run).device = DeviceKind::kCuda;
  add_path("right", registry().op("dynamic_conv").path("cpu").run);
  const std::string on_cpu = "dynamic_conv/right/f32/b=1/t=4/d=3/w=2";
  const std::string on_gpu = "dynamic_conv/cuda/f32/b=1/t=4/d=3/w=2";
  std::filesystem::create_directories(out_);
  const std::string in = out_ / "in.safetensors", got = out_ / "got.safetensors";
  EXPECT_EQ(assay({"draw", on_gpu.c_str(), "--out", in.c_str()}), kExitPassed) << errors_;
  EXPECT_EQ(assay({"exec", on_cpu.c_str(), "--in", in.c_str(), "--out", got.c_str()}), kExitPassed)
      << errors_;
  EXPECT_EQ(assay({"judge", on_gpu.c_str(), "--in", in.c_str(), "--got", got.c_str()}), kExitPassed)
      << errors_;
  EXPECT_THAT(output_, HasSubstr("pass: all 12 elements"));
}

TEST_F(ProgramOnBadPaths, OnlyAnAbsentDeviceIsCalledThat) {
  add_path("cpu", [](const Call&) {});
  add_path("cuda", [](const Call&) {}).device = DeviceKind::kCuda;
  EXPECT_EQ(assay({"verify", "--device", "cpu", "--dtype", "f64"}), kExitNothingSelected);
  EXPECT_THAT(errors_, HasSubstr("does not serve f64"));
  EXPECT_EQ(assay({"verify", "--device", "cpu", "*/cuda"}), kExitDeviceAbsent);
  EXPECT_THAT(errors_, HasSubstr("no cuda device"));
}

TEST_F(ProgramOnBadPaths, AProgramWithoutSpecimensSaysSo) {
  add_path("cpu", [](const Call&) {}).dtypes = {DType::kF32};  // whose outputs cannot be truncated
  EXPECT_EQ(assay({"demo", "--out", out_.c_str()}), kExitNothingSelected);
  EXPECT_EQ(errors_, "assay: this program has no specimens to show\n");
  EXPECT_FALSE(std::filesystem::exists(out_));
  EXPECT_EQ(assay({"verify", "--specimens", "--out", out_.c_str()}), kExitNothingSelected);
  EXPECT_EQ(errors_, "assay: no specimen matches\n");
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(ProgramOnBadPaths, ExecAndReplayRefuseWhatThePathDoesNotServe) {
  add_path("even", [](const Call&) {}).unsupported = [](const Dims& dims, DType) {
    return dims[dynamic_conv::kD] % 2 == 0 ? std::nullopt : std::optional<std::string>("d is odd");
  };
  const Case which = parse_case("dynamic_conv/even/f32/b=1/t=1/d=1/w=1");
  TensorFile file;
  file.metadata["case"] = which.to_string();
  for (std::string name : {"x", "k"}) {
    const Extents shape = name == "x" ? Extents{1, 1, 1} : Extents{1, 1, 1, 1};
    file.tensors[name] = {.dtype = DType::kF32, .shape = shape, .bytes = std::vector<std::byte>(4)};
  }
  std::filesystem::create_directories(out_);
  const std::string capsule = out_ / "in.safetensors";
  const std::string result = out_ / "out.safetensors";
  write_safetensors(capsule, file);
  const std::string line = which.to_string();
  EXPECT_EQ(assay({"exec", line.c_str(), "--in", capsule.c_str(), "--out", result.c_str()}),
            kExitNothingSelected);
  EXPECT_THAT(errors_, HasSubstr("unsupported: d is odd"));
  EXPECT_FALSE(std::filesystem::exists(result));
  EXPECT_EQ(assay({"replay", capsule.c_str(), "--out", out_.c_str()}), kExitNothingSelected) << errors_;
  EXPECT_EQ(record().cases.at(0).verdict.kind, VerdictKind::kUnsupported);
}

}  // namespace
}  // namespace assay
