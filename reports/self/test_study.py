#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay study`: what it leaves, what it refuses, and that another seed gives the same answer.   usage: test_study.py ASSAY"""
import html
import json
import pathlib
import re
import signal
import subprocess
import time
import unittest

import jsonschema

from program import ASSAY, ProgramTest, assay

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "reports/schema/assay.study-1.schema.json").read_text())
SMALL = ("study", "cheri_block", "--sweep", "n=2", "--sweep", "l=64", "--sweep", "c=16", "--sweep", "hidden=32",
         "--sweep", "x.mean_over_std=0,10", "--repeat", "4", "--no-time")


class Study(ProgramTest):
    def study(self, *args, code=0):
        out = ["--out", "s"] if "--out" not in args else []
        result = assay(*SMALL, *out, *args, cwd=self.dir)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads((self.dir / (args[-1] if not out else "s") / "study.json").read_text())

    def test_a_study_leaves_what_its_schema_says(self):
        study = self.study()
        jsonschema.validate(study, SCHEMA)
        self.assertTrue(study["complete"])
        self.assertEqual(len(study["cells"]), 2 * 4 * len(study["contenders"]))
        self.assertTrue(html.escape(study["findings"]["answer"]) in (self.dir / "s/study.html").read_text())
        self.assertIn("## What each site does", (self.dir / "s/study.md").read_text())
        study["cells"][0]["normwise"] = "small"
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(study, SCHEMA)

    def test_another_seed_gives_the_same_answer(self):
        answers = {self.study("--seed", seed)["findings"]["answer"] for seed in ("0", "1", "2")}
        self.assertEqual(len(answers), 1, answers)
        self.assertNotEqual(answers, {self.study("--target", "normwise=1e-5")["findings"]["answer"]})

    def test_bf16_inside_is_seen_and_a_recipe_of_ones_own_is_answered(self):
        study = self.study("--paths", "cuda.fused", "--dtype", "f32", "--recipe", "mine=cuda.fused:*=f32:*=nearest")
        names = [contender["name"] for contender in study["contenders"]]
        self.assertEqual(names, ["cuda.fused", "mine"])
        limits = [max(point["limit"] for point in summary["points"]) for summary in study["findings"]["summaries"]]
        self.assertGreater(limits[0], 1e-3)
        self.assertLess(limits[1], 1e-5)
        shares = {share["site"]: share["alone"] for share in study["sites"] if share["contender"] == 0}
        self.assertGreater(shares["w2"], 100 * shares["outputs"])

    def test_tensors_of_ones_own_are_resampled(self):
        case = "cheri_block/cpu/f32/n=6/l=16/c=16/dilation=2/hidden=32"
        self.assertEqual(assay("draw", case, "--out", "x.safetensors", cwd=self.dir).returncode, 0)
        result = assay("study", "cheri_block", "--in", "x.safetensors", "--no-time", "--out", "s", "--dtype", "f32",
                       "--recipe", "kept=cpu:w1 y=kept-in-bf16", "--sweep", "dilation=2,4", cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        study = json.loads((self.dir / "s/study.json").read_text())
        self.assertEqual(study["dims"], {"n": 6, "l": 16, "c": 16, "dilation": 2, "hidden": 32})
        errors = {cell["draw"]: cell["normwise"] for cell in study["cells"] if cell["contender"] == 0 and cell["point"] == 0}
        self.assertEqual(len(set(errors.values())), 8)
        self.assertEqual([summary["standing"] for summary in study["findings"]["summaries"]][-1], "missed")
        self.fails(2, "--sweep l changes shapes", "study", "cheri_block", "--in", "x.safetensors", "--sweep", "l=1")

    def test_a_study_with_times_tells_the_state_of_the_device(self):
        without_times = [word for word in SMALL if word != "--no-time"]
        result = assay(*without_times, "--dtype", "f32", "--out", "s", cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        study = json.loads((self.dir / "s/study.json").read_text())
        jsonschema.validate(study, SCHEMA)
        self.assertIn("load", study["machine"]["devices"][0]["state"])

    def test_shards_are_the_points(self):
        points = [{cell["point"] for cell in self.study("--shard", f"{i}/2")["cells"]} for i in (1, 2)]
        self.assertEqual(points, [{0}, {1}])
        for i in (1, 2):
            self.study("--shard", f"{i}/2", "--out", f"parts/{i}")
        self.assertEqual(assay("report", "parts", "--out", "all", cwd=self.dir).returncode, 0)
        whole, merged = self.study(), json.loads((self.dir / "all/study.json").read_text())
        jsonschema.validate(merged, SCHEMA)
        self.assertTrue(merged["complete"])
        self.assertEqual(merged["findings"], whole["findings"])

    def test_two_studies_are_compared_cell_by_cell(self):
        study = self.study("--paths", "cpu")
        result = assay("compare", "s", "s", "--json", cwd=self.dir)
        self.assertEqual({one["reading"] for one in json.loads(result.stdout)}, {"equal"})
        (self.dir / "worse").mkdir()
        for cell in study["cells"]:
            cell["normwise"] *= 1.001 if study["contenders"][cell["contender"]]["dtype"] == "f32" else 1
        (self.dir / "worse/study.json").write_text(json.dumps(study))
        result = assay("gate", "s", "worse", "--json", cwd=self.dir)
        readings = {one["contender"]: one["reading"] for one in json.loads(result.stdout)}
        self.assertEqual(readings, {"cpu in f32": "unclear", "cpu in f16": "equal", "cpu in bf16": "equal"})
        self.study("--paths", "cpu", "--seed", "1", "--out", "other")
        self.fails(2, "the studies have different draws", "compare", "s", "other")

    def test_an_interruption_keeps_what_is_there(self):
        long = [*SMALL[:-3], "--repeat", "100000", "--no-time"]
        process = subprocess.Popen([ASSAY, *long, "--out", "s"], cwd=self.dir, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, 130)
        study = json.loads((self.dir / "s/study.json").read_text())
        jsonschema.validate(study, SCHEMA)
        self.assertFalse(study["complete"])
        self.assertIn("not complete", study["findings"]["answer"])

    def test_what_is_wrong_is_named(self):
        for message, args in {
            "cheri_block has no axis q": ("--sweep", "q=1"),
            "did you mean x.mean_over_std?": ("--sweep", "x.mean_ovr_std=1"),
            "l=1:2:3 is not a range": ("--sweep", "l=1:2:3"),
            "l=-1: is no size": ("--sweep", "l=-1"),
            "outliers:SHARE:SCALE": ("--data", "outliers:2"),
            "has no site q": ("--recipe", "a=cpu:q=f32"),
            "has no path q": ("--recipe", "a=q"),
            "is no format": ("--recipe", "a=cpu:conv=f31"),
            "--target fast is not normwise=ERROR": ("--target", "fast"),
            "--repeat 2 is not an integer from 3": ("--repeat", "2"),
        }.items():
            self.fails(2, message, "study", "cheri_block", *args)
        self.fails(2, "there is no op", "study", "cheri_blok")
        self.fails(5, "no path of cheri_block matches", "study", "cheri_block", "--paths", "gpu")

    def test_the_page_needs_no_network_and_escapes_names(self):
        self.study("--recipe", "<script>=cpu")
        page = (self.dir / "s/study.html").read_text()
        self.assertFalse("<script>" in page)
        self.assertTrue("&lt;script&gt; in f32" in page)
        self.assertIsNone(re.search(r'(src|href)="?https?:', page))


if __name__ == "__main__":
    unittest.main()
