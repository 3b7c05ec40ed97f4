#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of a run, read as other people's tools read them: Google Benchmark's compare.py, Bencher, github-action-benchmark and
Apache Otava. Each reader below says again what that tool requires.   usage: test_consumers.py ASSAY"""
import copy
import json
import math
import pathlib
import subprocess
import sys
import unittest

from program import ProgramTest, assay

COMPARE = pathlib.Path("/usr/share/benchmark/compare.py")  # of the package libbenchmark-tools
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def compare_py(before, after):
    """tools/gbench/report.py: partition_benchmarks and get_difference_report."""
    changes = {}
    for name in dict.fromkeys(row["name"] for row in before["benchmarks"]):
        unit = next(row["time_unit"] for row in before["benchmarks"]
                    if row["name"] == name and "real_time" in row and "cpu_time" in row)
        sides = [[row for row in side["benchmarks"] if row["name"] == name and row["time_unit"] == unit] for side in (before, after)]
        changes[name] = [new["real_time"] / old["real_time"] for old, new in zip(*sides)]
    return changes


def bencher(run):
    """bencher_adapter/src/adapters/cpp/google.rs, whose JSON has to have these fields; a name has 1 to 1024 bytes."""
    if not isinstance(run["context"]["caches"], list):
        raise TypeError("caches")
    metrics = {}
    for row in run["benchmarks"]:
        if not 1 <= len(row["name"].encode()) <= 1024 or row["time_unit"] not in ("ns", "us", "ms", "s"):
            raise ValueError(row["name"])
        if not isinstance(row["real_time"], (int, float)) or row["name"] in metrics:
            raise ValueError(row["name"])
        metrics[row["name"]] = row["real_time"]
    return metrics


def github_action_benchmark(run):
    """src/extract.ts, extractGoogleCppResult: every row becomes a curve in which smaller is better."""
    return [{"name": row["name"], "value": row["real_time"], "unit": row["time_unit"] + "/iter",
             "extra": f"iterations: {row['iterations']}\ncpu: {row['cpu_time']} {row['time_unit']}\nthreads: {row['threads']}"}
            for row in run["benchmarks"]]


class Consumers(ProgramTest):
    def rendered(self, name="h200"):
        record = SOURCE / "reports/gpu/nvidia-h200-all"
        out = self.dir / name
        result = assay("report", record, "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((record / "run.json").read_text()), out / "benchmark.json"

    def test_each_time_is_one_row_that_all_readers_take(self):
        record, file = self.rendered()
        run = json.loads(file.read_text())
        times = [case[key]["median_ns"] for case in record["cases"] for key in ("perf", "perf_warm") if case.get(key)]
        self.assertGreater(len(times), 100)
        self.assertEqual(list(bencher(run).values()), times)
        curves = github_action_benchmark(run)
        self.assertEqual([curve["value"] for curve in curves], times)
        self.assertEqual(len({curve["name"] for curve in curves}), len(times))
        slower = copy.deepcopy(run)
        for row in slower["benchmarks"]:
            row["real_time"] *= 2
        self.assertEqual(set(map(tuple, compare_py(run, slower).values())), {(2.0,)})

    def test_the_readers_can_reject(self):
        _, file = self.rendered()
        run = json.loads(file.read_text())
        del run["context"]["caches"]
        with self.assertRaises(KeyError):
            bencher(run)
        run["context"]["caches"] = []
        run["benchmarks"].append(run["benchmarks"][0])  # a row for each sample
        with self.assertRaises(ValueError):
            bencher(run)

    def test_a_run_on_a_gpu_is_under_two_megabytes(self):
        _, file = self.rendered()
        self.assertLess(file.stat().st_size, 2_000_000)

    def test_google_s_own_tool(self):
        if not COMPARE.exists():
            self.skipTest("the package libbenchmark-tools is not installed")
        if subprocess.run([sys.executable, "-c", "import scipy"], capture_output=True).returncode:
            self.skipTest("compare.py needs scipy")
        _, file = self.rendered()
        result = subprocess.run([sys.executable, COMPARE, "--no-color", "benchmarks", file, file], text=True, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("/cache=cold_median", result.stdout)


class History(ProgramTest):
    def setUp(self):
        super().setUp()
        self.record = json.loads((SOURCE / "reports/gpu/nvidia-h200-trimul/run.json").read_text()) | {"complete": True}

    def export(self, *records):
        for i, record in enumerate(records):
            folder = self.dir / f"runs/{i}"
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(json.dumps(record))
        result = assay("history", "export", self.dir / "runs", "--out", self.dir / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads((self.dir / "out" / name).read_text()) for name in ("otava.json", "smaller-is-better.json")]

    def test_otava_finds_every_metric_in_every_run(self):
        """otava/importer.py, JsonImporter: each metric becomes a series as long as that of the times."""
        later = copy.deepcopy(self.record)
        later["started"], later["tool"]["git"] = "2030-01-01T00:00:00Z", "later"
        timed = next(case for case in later["cases"] if case["perf"])
        timed["perf"] = timed["perf_warm"] = None
        timed["no_perf"] = "not timed"
        otava, _ = self.export(later, self.record)
        self.assertEqual([run["attributes"] for run in otava],
                         [{"branch": "main", "commit": self.record["tool"]["git"]}, {"branch": "main", "commit": "later"}])
        self.assertLess(otava[0]["timestamp"], otava[1]["timestamp"])
        self.assertEqual(otava[1]["timestamp"], 1893456000)
        names = [[metric["name"] for metric in run["metrics"]] for run in otava]
        self.assertEqual(names[0], names[1])
        self.assertFalse(any(name.startswith(timed["id"]) for name in names[0]))
        self.assertTrue(all(math.isfinite(metric["value"]) for run in otava for metric in run["metrics"]))

    def test_errors_stand_beside_times(self):
        """src/extract.ts, customSmallerIsBetter: name, unit and value of each row; range is text."""
        _, rows = self.export(self.record)
        self.assertEqual(len({row["name"] for row in rows}), len(rows))
        times = [row for row in rows if row["unit"] == "ns"]
        errors = [row for row in rows if row["unit"] == "of its bound"]
        self.assertEqual(len(times) + len(errors), len(rows))
        self.assertTrue(times and errors)
        self.assertIn("/error_over_bound on cuda:0", errors[0]["name"])
        self.assertRegex(times[0]["range"], r"^\d+ to \d+$")

    def test_runs_without_a_common_metric_say_so(self):
        empty = copy.deepcopy(self.record)
        empty["cases"] = []
        for name, record in (("a", self.record), ("b", empty)):
            (self.dir / name).mkdir()
            (self.dir / name / "run.json").write_text(json.dumps(record))
        self.fails(2, "have no metric in common", "history", "export", self.dir / "a", self.dir / "b", "--out", self.dir / "out")

    def test_bad_input(self):
        self.fails(2, "ACTION", "history", "import", self.dir, "--out", self.dir)
        self.record["complete"] = False
        (self.dir / "run.json").write_text(json.dumps(self.record))
        self.fails(5, "no run is complete", "history", "export", self.dir / "run.json", "--out", self.dir / "out")
        self.record["complete"], self.record["started"] = True, "yesterday"
        (self.dir / "run.json").write_text(json.dumps(self.record))
        self.fails(2, "started at yesterday", "history", "export", self.dir / "run.json", "--out", self.dir / "out")


if __name__ == "__main__":
    unittest.main()
