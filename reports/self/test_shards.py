#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--shard` and `assay merge`: any split of a run merges to what one run gives.   usage: test_shards.py ASSAY"""
import json
import pathlib
import shutil
import unittest

from program import ProgramTest, assay

SLURM = {"SLURM_ARRAY_TASK_ID": "12", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_COUNT": "4"}
# What differs from run to run.
OF_TIME = {"started", "seconds", "command", "conditions", "sentinels", "machine"}


def without_times(record):
    """What two runs of the same options have in common."""
    record = {key: value for key, value in record.items() if key not in OF_TIME}
    for case in record["cases"]:
        case.pop("seconds")
        for key in ("perf", "perf_warm"):
            case[key] = case[key] and case[key]["cache"]
    return record


class Shards(ProgramTest):
    def read(self, name):
        return json.loads((self.dir / name / "run.json").read_text())

    def run_shards(self, count, *options):
        for i in range(1, count + 1):
            result = assay(*options, "--shard", f"{i}/{count}", "--out", self.dir / f"of{count}" / str(i), "-q")
            self.assertEqual(result.returncode, 0, result.stderr)
        return self.dir / f"of{count}"

    def test_any_split_merges_to_what_one_run_gives(self):
        options = "verify", "dynamic_conv*", "--device", "cpu", "--cases", "7", "--seed", "3"
        assay(*options, "--out", self.dir / "whole")
        whole = without_times(self.read("whole"))
        self.assertGreater(len(whole["cases"]), 10)
        for count in (1, 2, 3, 9):  # more shards than cases: some are empty
            folder = self.dir / f"of{count}"
            for i in range(count, 0, -1):
                assay(*options, "--shard", f"{i}/{count}", "--out", folder / str(i), "-q")
            result = assay("merge", folder, "--out", self.dir / f"merged{count}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.dumps(without_times(self.read(f"merged{count}"))), json.dumps(whole))
        self.assertEqual({path.name for path in (self.dir / "merged3").iterdir()},
                         {"run.json", "report.html", "report.md", "junit.xml", "benchmark.json"})

    def test_timed_problems_are_shared_out(self):
        self.share_out_timed_problems("run", "mhc_post/cpu", "--cases", "3")

    def test_timed_problems_of_bench_are_shared_out(self):
        self.share_out_timed_problems("bench", "dynamic_conv/cpu", "--dtype", "f32", "--sweep", "t=64,128")

    def share_out_timed_problems(self, *options):
        assay(*options, "--out", self.dir / "whole", "-q")
        folder = self.run_shards(2, *options)
        result = assay("merge", folder / "2", folder / "1", "--out", self.dir / "merged")
        self.assertEqual(result.returncode, 0, result.stderr)
        whole, merged = self.read("whole"), self.read("merged")
        self.assertEqual(json.dumps(without_times(merged)), json.dumps(without_times(whole)))
        self.assertEqual(sum(case["perf"] is not None for case in self.read("of2/1")["cases"]), 1)
        self.assertEqual(len(merged["sentinels"]), 2)
        self.assertIn("ceilings", merged["machine"]["devices"][0])
        self.assertNotIn("--shard", merged["command"])

    def test_specimens_end_where_one_run_would_have_ended(self):
        options = "verify", "--specimens", "dynamic_conv/specimen.tap*", "--device", "cpu"
        assay(*options, "--out", self.dir / "whole", "-q")
        folder = self.run_shards(2, *options)
        self.assertEqual(assay("merge", folder, "--out", self.dir / "merged").returncode, 0)
        self.assertEqual(self.read("merged")["specimens"], self.read("whole")["specimens"])

    def test_a_missing_shard_is_named(self):
        folder = self.run_shards(4, "verify", "mhc_post/cpu", "--cases", "4")
        shutil.rmtree(folder / "3")
        self.fails(5, "missing: shard 3/4", "merge", folder, "--out", self.dir / "merged")
        shutil.rmtree(folder / "1")
        self.fails(5, "missing: shards 1/4, 3/4", "merge", folder, "--out", self.dir / "merged")
        self.assertFalse((self.dir / "merged").exists())

    def test_what_is_no_shard_of_one_run_is_refused(self):
        merge = lambda message, *folders: self.fails(2, message, "merge", *folders, "--out", self.dir / "merged")
        one = self.run_shards(2, "verify", "mhc_post/cpu", "--cases", "2", "--dtype", "f32")
        other = self.dir / "other"
        assay("verify", "mhc_post/cpu", "--cases", "4", "--dtype", "f32", "--shard", "2/2", "--out", other)
        merge("are not shards of one run: their options are --cases 2", one / "1", other)
        merge("shard 1/2 is there twice", one / "1", one / "1", one / "2")
        assay("verify", "mhc_post/cpu", "--cases", "2", "--dtype", "f32", "--out", self.dir / "whole")
        merge("is no shard: it had no --shard", one / "1", self.dir / "whole")
        assay("verify", "mhc_post/cpu", "--cases", "2", "--dtype", "f32", "--shard", "2/3", "--out", self.dir / "third")
        merge("shards 1/2 and 2/3 are not of one run", one / "1", self.dir / "third")
        record = self.read("of2/2")
        record["machine"]["devices"][0]["model"] = "another"
        (self.dir / "foreign").mkdir()
        (self.dir / "foreign/run.json").write_text(json.dumps(record))
        merge("their devices are", one / "1", self.dir / "foreign")
        merge("is no folder", self.dir / "nowhere")
        self.fails(2, "holds a run already", "merge", one, "--out", one / "1")

    def test_an_interrupted_shard_is_told(self):
        folder = self.run_shards(2, "verify", "mhc_post/cpu", "--cases", "2")
        record = self.read("of2/2") | {"complete": False}
        (folder / "2/run.json").write_text(json.dumps(record))
        self.assertEqual(assay("merge", folder, "--out", self.dir / "merged").returncode, 130)
        self.assertFalse(self.read("merged")["complete"])

    def test_studies_merge_by_the_same_command(self):
        options = "study", "dynamic_conv", "--paths", "cpu", "--dtype", "f32", "--sweep", "t=4,8,16,32", "--repeat", "3", "--no-time"
        folder = self.run_shards(2, *options)
        result = assay("merge", folder, "--out", self.dir / "merged")
        self.assertEqual(result.returncode, 0, result.stderr)
        study = json.loads((self.dir / "merged/study.json").read_text())
        self.assertTrue(study["complete"])
        self.fails(5, "missing: shard 1/2", "merge", folder / "2", "--out", self.dir / "half")


class Auto(ProgramTest):
    def cases(self, env):
        result = assay("verify", "mhc_post/cpu", "--cases", "8", "--shard", "auto", "--json", "-q", env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads(result.stdout)
        return record["options"]["--shard"], [case["drawn"] for case in record["cases"]]

    def test_systems_are_known(self):
        self.assertEqual(self.cases(SLURM), ("3/4", [2, 6]))
        self.assertEqual(self.cases(SLURM | {"SLURM_ARRAY_TASK_ID": "16", "SLURM_ARRAY_TASK_STEP": "2"}), ("4/4", [3, 7]))
        self.assertEqual(self.cases({"GTEST_SHARD_INDEX": "0", "GTEST_TOTAL_SHARDS": "4"}), ("1/4", [0, 4]))
        self.assertEqual(self.cases({"CI_NODE_INDEX": "4", "CI_NODE_TOTAL": "4"}), ("4/4", [3, 7]))
        self.assertEqual(self.cases({"BUILDKITE_PARALLEL_JOB": "1", "BUILDKITE_PARALLEL_JOB_COUNT": "8"}), ("2/8", [1]))
        self.assertEqual(self.cases(SLURM | {"CI_NODE_INDEX": "3", "CI_NODE_TOTAL": "4"}), ("3/4", [2, 6]))

    def test_what_is_not_clear_is_an_error(self):
        auto = lambda message, env: self.fails(2, message, "verify", "--shard", "auto", env=env)
        auto("none of SLURM_ARRAY_TASK_ID, GTEST_SHARD_INDEX, CI_NODE_INDEX, BUILDKITE_PARALLEL_JOB is set", {})
        auto("CI_NODE_INDEX is set, but CI_NODE_TOTAL is not", {"CI_NODE_INDEX": "1"})
        auto("GTEST_SHARD_INDEX is x, which is no integer", {"GTEST_SHARD_INDEX": "x", "GTEST_TOTAL_SHARDS": "2"})
        auto("CI_NODE_INDEX is 0, but CI_NODE_TOTAL is 2", {"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "2"})
        auto("SLURM_ARRAY_TASK_ID says 3/4, but CI_NODE_INDEX says 1/4", SLURM | {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "4"})
        auto("SLURM_ARRAY_TASK_ID 12 is not in the array from 11 by 2", SLURM | {"SLURM_ARRAY_TASK_MIN": "11", "SLURM_ARRAY_TASK_STEP": "2"})
        self.fails(2, "--shard 0/4 is not i/n with 1 <= i <= n, or auto", "verify", "--shard", "0/4")


if __name__ == "__main__":
    unittest.main()
