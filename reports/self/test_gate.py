#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `assay gate` does in CI: machines in unlike states, trades, scatter, bisection, GitHub, and `assay ab`.   usage: test_gate.py ASSAY"""
import copy
import json
import os
import pathlib
import stat
import unittest

import jsonschema

from program import ASSAY, ProgramTest, assay

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((SOURCE / "reports/schema/assay.changes-1.schema.json").read_text())
NOISE = json.loads((SOURCE / "reports/schema/assay.noise-1.schema.json").read_text())
CEILINGS = {"copy_bytes_per_s": 50.6e9, "copy_method": "memcpy, 256 MiB", "read_bytes_per_s": 55e9,
            "products": [{"factor": "stored", "flops_per_s": 2e11}]}
WHO = {"op": "mhc_post", "path": "cpu", "dtype": "f32", "device": "cpu"}
LINE = "mhc_post/cpu/f32/n=2048/hc=4/h={h}/data=normal/state=first_call/seed=0"


def perf(cache, median):
    return {"cache": cache, "timer": "steady_clock", "median_ns": median, "ci95_ns": [0.999 * median, 1.001 * median],
            "bytes": 1000, "flops": 1000, "samples_ns": [median] * 9}


def case(h, median):
    numerics = {"name": "out", "count": 4096, "elements": 4096, "wrong": 0, "nonfinite": 0, "max_error_over_bound": 0.5,
                "conformity": {"rms": 1e-8, "predicted": 1e-8, "allowed": 2e-8, "largest": 1e-7, "doubts": 0, "count": 512, "rows": 32,
                               "farthest": 6, "is_law": True},
                "max_ulp": 1.0, "max_abs": 1e-7, "bias": 0.0, "rms": 1e-8,
                "sums": {"finite": 4096, "error": 0.0, "square_error": 4e-13, "square_value": 4096.0}}
    return WHO | {"id": LINE.format(h=h), "state": "first_call", "recipe": "f32", "verdict": "pass", "reason": "",
                  "numerics": {"outputs": [numerics]}, "perf": perf("cold", median), "perf_warm": perf("warm", 0.9 * median)}


def record():
    device = {"name": "cpu", "kind": "cpu", "index": 0, "model": "Some CPU", "driver": "", "memory_bytes": 8 << 30,
              "cache_bytes": 32 << 20, "units": 2, "compute_capability": 0, "ceilings": copy.deepcopy(CEILINGS)}
    return {"schema": "assay.run/1", "complete": True, "started": "2026-01-15T09:30:00Z", "command": ["assay", "bench"], "seed": 0,
            "tool": {"version": "0.1.0", "git": "abc", "dirty": False, "compiler": "GNU 12.2.0", "build": "Release"},
            "machine": {"host_os": "Debian", "memory_bytes": 8 << 30, "devices": [device]}, "seconds": 1.0,
            "conditions": {"load": 0.1, "threads": 2, "disturbances": []}, "not_run": [], "cases": [case(64, 1e6), case(4096, 7e6)]}


def scale(run, factor, caches=("perf", "perf_warm")):
    for one in run["cases"]:
        for key in caches:
            for field in ("median_ns", "ci95_ns", "samples_ns"):
                value = one[key][field]
                one[key][field] = [factor * v for v in value] if isinstance(value, list) else factor * value


def load(run):
    """Eight processes beside the run: a fifth of the time, and a third of the memory's bandwidth."""
    scale(run, 5.3)
    run["machine"]["devices"][0]["ceilings"]["copy_bytes_per_s"] = 14.8e9
    run["conditions"] = {"load": 8.0, "threads": 2,
                         "disturbances": [{"kind": "load", "text": "other work is running: 2.0 of 2 hardware threads are busy, load 8.0"}]}


def grow(run, factor):
    for one in run["cases"]:
        for output in one["numerics"]["outputs"]:
            output["conformity"]["rms"] *= factor
            output["sums"]["square_error"] *= factor ** 2


class GateTest(ProgramTest):
    def write(self, name, run):
        path = self.dir / name / "run.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run))
        return path.parent

    def gate(self, change, *options, env=None):
        run = record()
        change(run)
        return assay("gate", self.write("before", record()), self.write("after", run), *options, env=env)


class Machines(GateTest):
    def test_a_loaded_machine_is_no_slower_path(self):
        without_a_cause = self.gate(lambda run: scale(run, 5.3))
        self.assertEqual(without_a_cause.returncode, 3)
        result = self.gate(load)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("4 times unclear on cpu: other work is running: 2.0 of 2 hardware threads are busy, load 8.0 (after, not before); "
                      "copy: 50.6 GB/s before, 14.8 GB/s after\n", result.stdout)
        self.assertEqual(result.stderr, "")
        self.assertEqual(self.gate(load, "--certain").returncode, 4)
        changes = json.loads(self.gate(load, "--json").stdout)
        jsonschema.validate(changes, SCHEMA)
        self.assertEqual({time["change"] for time in changes["times"]}, {"unclear"})
        self.assertTrue(all("14.8 GB/s" in time["reason"] for time in changes["times"]))

    def test_another_model_is_no_baseline(self):
        def other(run):
            run["machine"]["devices"][0]["model"] = "Another CPU"
        result = self.gate(other)
        self.assertEqual(result.returncode, 5, result.stdout)
        self.assertIn("unclear on cpu: Some CPU with 2 units before, Another CPU with 2 units after", result.stdout)

    def test_a_machine_that_slowed_meanwhile_shows(self):
        def slow(run):
            scale(run, 1.3)
            run["sentinels"] = [{"op": "mhc_post", "path": "cpu", "device": "cpu", "before": CEILINGS,
                                 "after": CEILINGS | {"copy_bytes_per_s": 30e9}}]
        result = self.gate(slow)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("copy: 50.6 GB/s at first, 30.0 GB/s after the times of mhc_post/cpu", result.stdout)


class Verdicts(GateTest):
    def test_a_trade_needs_an_allowance(self):
        def faster(run):
            scale(run, 0.7)
            grow(run, 2)
        result = self.gate(faster)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("4 traded for errors", result.stdout)
        self.assertIn("traded  mhc_post/cpu", result.stdout)
        self.assertEqual(self.gate(faster, "--allow-traded").returncode, 0)
        def slower(run):
            scale(run, 1.5)
            grow(run, 0.5)
        self.assertEqual(self.gate(slower).returncode, 3)
        self.assertEqual(self.gate(slower, "--allow-traded").returncode, 0)
        def worse(run):
            scale(run, 1.5)
            grow(run, 2)
        self.assertEqual(self.gate(worse, "--allow-traded").returncode, 1)

    def test_a_time_may_grow_by_what_it_scatters(self):
        for i, factor in enumerate((1, 1.1, 1.25)):
            run = record()
            scale(run, factor, ("perf",))
            self.write(f"same/{i}", run)
        noise = self.dir / "noise.json"
        result = assay("calibrate", self.dir / "same", "--out", noise)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("beside other work", result.stderr)
        self.assertIn("3 runs", result.stdout)
        self.assertIn("25.0 %", result.stdout)
        jsonschema.validate(json.loads(noise.read_text()), NOISE)
        slow = lambda run: scale(run, 1.2, ("perf",))
        self.assertEqual(self.gate(slow).returncode, 3)
        self.assertEqual(self.gate(slow, "--noise", noise).returncode, 0)
        self.assertEqual(self.gate(lambda run: scale(run, 1.3, ("perf",)), "--noise", noise).returncode, 3)
        self.assertEqual(self.gate(lambda run: scale(run, 1.2, ("perf_warm",)), "--noise", noise).returncode, 3)
        changes = json.loads(self.gate(slow, "--noise", noise, "--json").stdout)
        self.assertEqual(changes["limits"]["calibrated"], 3)
        self.assertAlmostEqual(max(time["limit"] for time in changes["times"]), 0.25)

    def test_calibrate_warns_of_loaded_runs(self):
        for i in range(2):
            run = record()
            run["conditions"] = {"load": 3, "threads": 2, "disturbances": [
                {"kind": "load" if i else "governor", "text": "it is disturbed"}]}
            self.write(f"same/{i}", run)
        result = assay("calibrate", self.dir / "same", "--out", self.dir / "noise.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 of 2 runs were taken beside other work", result.stderr)

    def test_scatter_is_that_of_one_program(self):
        one, other = record(), record()
        other["tool"]["git"] = "other"
        folders = self.write("one", one), self.write("other", other)
        self.fails(2, "of commits abc and other", "calibrate", *folders, "--out", self.dir / "noise.json")
        self.fails(2, "1 run shows no scatter", "calibrate", folders[0], "--out", self.dir / "noise.json")
        self.assertFalse((self.dir / "noise.json").exists())
        (self.dir / "noise.json").write_text("{}")
        self.fails(2, "noise.json: not what calibrate writes", "gate", *folders, "--noise", self.dir / "noise.json")

    def test_bisection_skips_what_is_no_verdict(self):
        gate = lambda change, *options: self.gate(change, "--bisect", *options).returncode
        self.assertEqual(gate(lambda run: None), 0)
        self.assertEqual(gate(lambda run: scale(run, 1.2)), 3)
        self.assertEqual(gate(lambda run: grow(run, 2)), 1)
        self.assertEqual(gate(load), 125)                                    # 4
        self.assertEqual(gate(lambda run: run["cases"].pop()), 125)          # 5
        self.assertEqual(gate(lambda run: None, "nothing*"), 125)            # 5
        self.assertEqual(gate(lambda run: run.pop("cases")), 125)            # 2
        self.assertEqual(gate(lambda run: None, "--slower", "x"), 125)       # 2
        self.assertEqual(self.gate(lambda run: run["cases"].pop(), env={"ASSAY_BISECT": "1"}).returncode, 125)
        self.assertEqual(assay("compare", self.dir / "before", "--bisect").returncode, 2)


class GitHub(GateTest):
    def test_markdown_fits_into_a_comment(self):
        result = self.gate(lambda run: scale(run, 1.2), "--markdown")
        self.assertEqual(result.returncode, 3)
        self.assertTrue(result.stdout.startswith("## Assay\n\n**Of 4 times, 4 slower"), result.stdout)
        self.assertIn("| slower | `mhc_post/cpu` | f32 | cpu | n=2048 hc=4 h=4096 | cold | 7.00 ms → 8.40 ms | 1.200 |", result.stdout)
        def many(run):
            run["cases"] = [case(h, 1e6) | {"verdict": "fail", "reason": "wrong " * 200, "perf": None, "perf_warm": None, "no_perf": "x"}
                            for h in range(1, 500)]
        self.assertLess(len(self.gate(many, "--markdown").stdout), 65_000)
        self.fails(2, "--markdown", "gate", self.dir / "before", self.dir / "after", "--markdown", "--json")

    def test_a_run_on_github_is_annotated_and_summarised(self):
        summary = self.dir / "summary.md"
        summary.write_text("before\n")
        env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
        result = self.gate(lambda run: scale(run, 1.2), "--json", env=env)
        self.assertEqual(result.returncode, 3)
        # Data are not mixed with commands.
        self.assertEqual(json.loads(result.stdout)["times"][0]["change"], "worse")
        self.assertEqual(result.stderr.count("\n::error title=slower%3A mhc_post/cpu::f32 n=2048 hc=4 h=") + result.stderr.startswith("::error"), 4)
        self.assertTrue(summary.read_text().startswith("before\n## Assay\n"))
        self.assertIn("::warning title=unclear::4 times on cpu: other work", self.gate(load, env=env).stderr)
        self.assertEqual(self.gate(lambda run: scale(run, 1.2)).stderr, "")  # elsewhere
        env["GITHUB_STEP_SUMMARY"] = str(self.dir)
        result = self.gate(lambda run: None, env=env)
        self.assertEqual(result.returncode, 2)
        self.assertIn("GITHUB_STEP_SUMMARY: cannot write", result.stderr)


class Ab(GateTest):
    def program(self, name, factor, code=0):
        """A program whose bench leaves a record, and a line that says when it ran."""
        run = record()
        scale(run, factor)
        (self.dir / f"{name}.json").write_text(json.dumps(run))
        path = self.dir / name
        path.write_text(f"#!/bin/sh\necho {name} \"$@\" >> {self.dir}/log\necho a table\n"
                        f"while [ \"$1\" != --out ]; do shift; done\ncp {self.dir}/{name}.json \"$2/run.json\"\nexit {code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def test_two_programs_take_turns(self):
        old, new = self.program("old", 1), self.program("new", 1.2)
        result = assay("ab", old, new, "mhc*", "--out", self.dir / "out", "--repeat", "2", "--device", "cpu")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("2 runs before, 2 runs after", result.stdout)
        self.assertNotIn("a table", result.stdout)
        log = (self.dir / "log").read_text().splitlines()
        self.assertEqual([line.split()[0] for line in log], ["old", "new", "new", "old"])
        self.assertTrue(all(line.split()[1:5] == ["bench", "mhc*", "--device", "cpu"] for line in log), log)
        self.fails(2, "is there already: remove it, or name another folder with --out", "ab", old, new, "--out", self.dir / "out")
        self.assertEqual(assay("ab", old, old, "--out", self.dir / "same", "-q").returncode, 0)

    def test_a_program_that_cannot_run_ends_it(self):
        old, new = self.program("old", 1), self.program("new", 1, code=77)
        result = assay("ab", old, new, "--out", self.dir / "out")
        self.assertEqual(result.returncode, 77)
        self.assertIn("bench ended with exit code 77", result.stderr)
        self.fails(2, "is no program", "ab", old, self.dir / "nowhere", "--out", self.dir / "other")

    def test_the_program_itself(self):
        result = assay("ab", ASSAY, ASSAY, "mhc_post/cpu", "--dtype", "bf16", "--repeat", "1", "--out", self.dir / "out", "--slower", "900%")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(sorted(os.listdir(self.dir / "out")), ["after", "before"])


if __name__ == "__main__":
    unittest.main()
