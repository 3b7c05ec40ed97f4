#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay compare` and `assay gate`: what got slower or more wrong, and how they end.   usage: test_compare.py ASSAY"""
import copy
import json
import pathlib
import unittest

import jsonschema

from program import ProgramTest, assay

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "reports/schema/assay.changes-1.schema.json").read_text())
RECORD = None  # of one small run, with times


def record():
    global RECORD
    if RECORD is None:
        result = assay("run", "dynamic_conv/cpu", "--dtype", "f32", "--cases", "12", "--json")
        assert result.returncode == 0, result.stderr
        RECORD = json.loads(result.stdout)
        # Whatever else this machine was doing.
        RECORD["conditions"] = {"load": 0.1, "threads": 2, "disturbances": []}
        del RECORD["sentinels"]
        for case in RECORD["cases"]:
            for key in ("perf", "perf_warm"):
                if case.get(key):
                    case[key].pop("implausible", None)
                    case[key]["ci95_ns"] = [0.999 * case[key]["median_ns"], 1.001 * case[key]["median_ns"]]
    return copy.deepcopy(RECORD)


def scale(perf, factor):
    perf["median_ns"] *= factor
    perf["ci95_ns"] = [factor * end for end in perf["ci95_ns"]]


def timed(run):
    return next(case for case in run["cases"] if case["perf"])


class Compare(ProgramTest):
    def setUp(self):
        super().setUp()
        self.before = self.write("before", record())

    def write(self, name, run):
        path = self.dir / name / "run.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(run))
        return path.parent

    def gate(self, change, *options):
        run = record()
        change(run)
        after = self.dir / "after"
        after.mkdir(exist_ok=True)
        (after / "run.json").write_text(json.dumps(run))
        return assay("gate", self.before, after, *options)

    def test_what_did_not_change_passes(self):
        result = self.gate(lambda run: None)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("the same", result.stdout)
        self.assertEqual(result.stderr, "")

    def test_a_slower_path_fails_the_gate_and_not_the_comparison(self):
        result = self.gate(lambda run: scale(timed(run)["perf"], 1.2))
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("slower  dynamic_conv/cpu", result.stdout)
        self.assertEqual(assay("compare", self.before, self.dir / "after").returncode, 0)
        self.assertEqual(self.gate(lambda run: scale(timed(run)["perf"], 1.2), "--slower", "25%").returncode, 0)
        self.assertEqual(self.gate(lambda run: scale(timed(run)["perf"], 0.8)).returncode, 0)

    def test_larger_errors_and_new_failures_come_first(self):
        def grow(run):
            scale(timed(run)["perf"], 1.2)
            for case in run["cases"]:
                for output in case["numerics"]["outputs"] if case["numerics"] else []:
                    if "conformity" in output:
                        output["conformity"]["rms"] *= 2
        result = self.gate(grow)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("larger  dynamic_conv/cpu", result.stdout)
        self.assertIn("assay replay 'dynamic_conv/cpu/f32/", result.stdout)
        self.assertEqual(self.gate(grow, "--more-wrong", "150%").returncode, 3)

        def fail(run):
            case = next(case for case in run["cases"] if case["verdict"] == "pass" and not case["perf"])
            case["verdict"], case["reason"] = "fail", "out: wrong"
        result = self.gate(fail)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("(pass before): out: wrong", result.stdout)

    def test_what_is_gone_fails_the_gate(self):
        def drop(run):
            run["cases"] = [case for case in run["cases"] if not case["perf"]]
        result = self.gate(drop)
        self.assertEqual(result.returncode, 5, result.stdout)
        self.assertIn("gone  the cold times of dynamic_conv/cpu f32 on cpu at ", result.stdout)
        def drop_one(run):
            run["cases"].remove(next(case for case in run["cases"] if case["verdict"] == "pass"))
        self.assertEqual(self.gate(drop_one).returncode, 5)

        def interrupt(run):
            run["complete"] = False
        self.assertEqual(self.gate(interrupt).returncode, 5)
        nothing = record()
        nothing["cases"] = []
        empty = self.write("empty", nothing)
        self.assertEqual(assay("compare", empty, empty).returncode, 5)

    def test_what_the_samples_leave_open_fails_if_asked(self):
        def blur(run):
            perf = timed(run)["perf"]
            perf["ci95_ns"] = [perf["median_ns"], 1.2 * perf["median_ns"]]
        self.assertEqual(self.gate(blur).returncode, 0)
        self.assertEqual(self.gate(blur, "--certain").returncode, 4)

    def test_several_runs_a_side(self):
        slow = record()
        scale(timed(slow)["perf"], 1.2)
        for i in "123":
            self.write(f"new/{i}", slow)
            self.write(f"old/{i}", record())
        result = assay("gate", self.dir / "old", self.dir / "new")
        self.assertEqual(result.returncode, 3)
        self.assertIn("3 runs before, 3 runs after", result.stdout)
        self.assertIn("at most 1 in 20\n", result.stdout)
        (self.dir / "new/2/run.json").write_text(json.dumps(record()))
        self.assertEqual(assay("gate", self.dir / "old", self.dir / "new").returncode, 0)

    def test_only_some_paths(self):
        slow = lambda run: scale(timed(run)["perf"], 1.2)
        self.assertEqual(self.gate(slow, "*/cpu").returncode, 3)
        result = self.gate(slow, "*/cpu", "mhc*")
        self.assertEqual(result.returncode, 5)
        self.assertEqual(result.stderr, f"assay: nothing in {self.before} matches mhc*\n")

    def test_json(self):
        result = self.gate(lambda run: scale(timed(run)["perf"], 1.2), "--json")
        self.assertEqual(result.returncode, 3)
        changes = json.loads(result.stdout)
        jsonschema.validate(changes, SCHEMA)
        self.assertEqual(changes["times"][0]["change"], "worse")
        self.assertAlmostEqual(changes["times"][0]["ratio"], 1.2)
        self.assertEqual(changes["chance_of_slower"], 0.5)
        changes["times"][0]["change"] = "perhaps"
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(changes, SCHEMA)

    def test_bad_input(self):
        (self.dir / "hollow").mkdir()
        self.fails(2, "holds no run.json", "gate", self.dir / "hollow", self.before)
        # A run that left nothing is not one fewer.
        self.fails(2, "hollow/run.json", "gate", self.dir, self.before)
        self.fails(2, "nowhere", "gate", self.dir / "nowhere", self.before)
        self.fails(2, "--slower 5 is not a share such as 5% or 0.5%", "gate", self.before, self.before, "--slower", "5")
        self.fails(2, "--more-wrong -1%", "compare", self.before, self.before, "--more-wrong", "-1%")
        self.fails(2, "AFTER", "compare", self.before)
        (self.before / "run.json").write_text('{"schema": "assay.run/2"}')
        self.fails(2, "run.json", "gate", self.before, self.before)


if __name__ == "__main__":
    unittest.main()
