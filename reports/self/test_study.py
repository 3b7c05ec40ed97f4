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
        limits = [max(point["largest"] for point in summary["points"]) for summary in study["findings"]["summaries"]]
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
        self.assertEqual({point["standing"] for point in study["findings"]["summaries"][-1]["points"]}, {"missed"})
        self.assertRegex(study["inputs"], "^[0-9a-f]{16}$")
        self.fails(2, "--sweep l changes shapes", "study", "cheri_block", "--in", "x.safetensors", "--sweep", "l=1")
        self.fails(2, "--sweep x.rank draws values", "study", "cheri_block", "--in", "x.safetensors", "--sweep", "x.rank=1")

    def test_a_study_with_times_tells_the_state_of_the_device(self):
        without_times = [word for word in SMALL if word != "--no-time"]
        result = assay(*without_times, "--dtype", "f32", "--out", "s", cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        study = json.loads((self.dir / "s/study.json").read_text())
        jsonschema.validate(study, SCHEMA)
        self.assertIn("load", study["machine"]["devices"][0]["state"])
        # What disturbs the times stands in each report.
        study["conditions"]["disturbances"] = [{"kind": "load", "text": "other work is running"}]
        jsonschema.validate(study, SCHEMA)
        (self.dir / "s/study.json").write_text(json.dumps(study))
        self.assertEqual(assay("report", "s", cwd=self.dir).returncode, 0)
        for name in ("study.md", "study.html"):
            self.assertIn("Times are disturbed: other work is running", (self.dir / "s" / name).read_text())
        self.assertNotIn("conditions", self.study())

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
        self.assertIn("This is shard 2/2", json.loads((self.dir / "parts/2/study.json").read_text())["findings"]["answer"])

    def test_parts_that_are_not_of_one_study_are_not_merged(self):
        self.study("--paths", "cpu", "--shard", "1/2", "--out", "parts/1")
        for message, args in {
            "their targets are normwise=0.001 and normwise=0.01": ("--target", "normwise=1e-2"),
            "their lists of sweeps are": ("--sweep", "dilation=1,2"),
            "their lists of dimensions are": (),
            "their seeds are 0 and 3": ("--seed", "3"),
            "their hashes of inputs are none and 0123456789abcdef": (),
            "their cpu models are": (),
            "shard 1 is there twice": (),
        }.items():
            self.study("--paths", "cpu", *args, "--shard", "1/2" if "twice" in message else "2/2", "--out", "parts/2")
            file = self.dir / "parts/2/study.json"
            study = json.loads(file.read_text())
            if "dimensions" in message:
                study["dims"]["n"] = 3
            if "inputs" in message:
                study["inputs"] = "0123456789abcdef"
            if "models" in message:
                study["machine"]["devices"][0]["model"] = "Another"
            file.write_text(json.dumps(study))
            self.fails(2, message, "report", "parts", "--out", "all")
            self.assertFalse((self.dir / "all").exists())

    def test_one_bad_point_takes_no_other_away(self):
        out = ("--no-time", "--repeat", "3", "--json", "--out", "s")
        result = assay("study", "mhc_post", "--paths", "cpu", "--dtype", "f32", "--sweep", "n=0,8", *out, cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)["findings"]
        self.assertEqual([point["standing"] for point in found["summaries"][0]["points"]], ["not there", "met"])
        self.assertEqual(found["point"], 1)
        result = assay("study", "cheri_block", "--paths", "cpu", "--sweep", "x.mean_over_std=1,1e5", "--sweep", "l=64",
                       *out, cwd=self.dir)
        points = json.loads(result.stdout)["findings"]["summaries"][1]["points"]
        self.assertEqual([point["standing"] for point in points], ["met", "not there"])
        self.assertIn("x does not fit f16: it holds 1e+05", points[1]["why_not"])
        self.assertIn("x does not fit f16", (self.dir / "s/study.md").read_text())

    def test_times_are_of_the_point_of_the_answer_and_taken_in_turns(self):
        # Far above its floor, so no time is implausible beside other work.
        result = assay("study", "cheri_conv_norm", "--paths", "cpu", "--sweep", "l=8,16", "--sweep", "n=2", "--repeat", "3", "--json",
                       "--out", "s", cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        study = json.loads(result.stdout)
        jsonschema.validate(study, SCHEMA)
        self.assertEqual([(time["point"], time["contender"]) for time in study["times"]],
                         [(point, contender) for point in (0, 1) for contender in (0, 1, 2)])
        for time in study["times"]:
            low, high = time["rounds_ns"]
            self.assertTrue(low <= time["median_ns"] <= high, time)
        self.assertTrue(study["findings"]["answer"].startswith("At l=16 n=2, the cheapest path with"))
        self.assertEqual({share["point"] for share in study["sites"]}, {1})
        self.assertEqual({cell["alone"] for cell in study["cells"] if "alone" in cell}, {True})
        median = study["times"][3]["median_ns"] / 1e3
        self.assertIn(f", {median:.3g} µs", study["findings"]["grounds"][0] + study["findings"]["grounds"][1])

    def test_energies_and_implausible_times_are_shown(self):
        study = self.study("--paths", "cpu")
        self.assertNotIn("| energy |", (self.dir / "s/study.md").read_text())
        self.assertIn("| over \\|W\\|\\|z\\| |", (self.dir / "s/study.md").read_text())
        study["times"][0].update(median_ns=2e3, power_w=500.0)
        study["times"][1].update(median_ns=1e3, implausible="1 us is less than reading takes")
        jsonschema.validate(study, SCHEMA)
        (self.dir / "s/study.json").write_text(json.dumps(study))
        self.assertEqual(assay("report", "s", cwd=self.dir).returncode, 0)
        text = (self.dir / "s/study.md").read_text()
        self.assertIn("| 2.00 µs | 1.00 mJ |", text)
        self.assertIn("| 1.00 µs ? |", text)
        self.assertIn("its time is implausible: 1 us", text)
        again = json.loads((self.dir / "s/study.json").read_text())
        self.assertEqual(again["times"], study["times"])

    def test_a_killed_study_leaves_what_it_has(self):
        process = subprocess.Popen([ASSAY, *SMALL[:-3], "--repeat", "100000", "--no-time", "--out", "s"], cwd=self.dir,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        journal = self.dir / "s/study.jsonl"
        while not journal.exists() or journal.read_text().count('"cells":[{') < 20:
            time.sleep(0.05)
        self.fails(2, "another process writes a study there", "report", "s")
        self.fails(2, "another process writes a study there", *SMALL, "--out", "s")
        process.kill()
        process.wait()
        with journal.open("a") as file:
            file.write('{"at": 1, "cel')
        lines = journal.read_text().count('"cells":[{') - 1  # but that of the head, which is empty
        self.assertEqual(assay("report", "s", cwd=self.dir).returncode, 0)
        study = json.loads((self.dir / "s/study.json").read_text())
        jsonschema.validate(study, SCHEMA)
        self.assertGreaterEqual(len(study["cells"]), lines)
        self.assertFalse(study["complete"])
        self.assertIn("not complete", study["findings"]["answer"])
        self.study()
        self.assertFalse(journal.exists())

    def test_damaged_studies_are_refused(self):
        study, file = self.study("--paths", "cpu", "--dtype", "f32"), self.dir / "s/study.json"
        def damaged(change):
            other = json.loads(json.dumps(study))
            change(other)
            file.write_text(json.dumps(other))
        for message, change in {
            "cells[0].point is 9, of 2": lambda s: s["cells"][0].update(point=9),
            "cells[0].draw is 4, of 4": lambda s: s["cells"][0].update(draw=4),
            "points are not those of the axes": lambda s: s["points"].reverse(),
            "points are not those": lambda s: s["points"].append([0, 0, 0, 0, 7]),
            "sites[0].point is 2, of 2": lambda s: s["sites"][0].update(point=2),
            "shard.number is 2, of 1": lambda s: s["shard"].update(number=2),
        }.items():
            damaged(change)
            self.fails(2, message, "report", "s")

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
        self.assertEqual(result.returncode, 0)
        self.fails(4, "", "gate", "s", "worse", "--certain")
        study["cells"] = [cell for cell in study["cells"] if cell["contender"] != 0]
        (self.dir / "worse/study.json").write_text(json.dumps(study))
        self.fails(5, "", "gate", "s", "worse")
        study["cells"][0]["outside"] = 1
        (self.dir / "worse/study.json").write_text(json.dumps(study))
        self.fails(1, "", "gate", "s", "worse")
        self.assertEqual(assay("compare", "s", "worse", cwd=self.dir).returncode, 0)
        self.study("--paths", "cpu", "--seed", "1", "--out", "other")
        self.fails(2, "the studies cannot be compared: their seeds are 0 and 1", "compare", "s", "other")
        self.study("--paths", "cpu", "--target", "normwise=1e-2", "--out", "other")
        self.fails(2, "their targets are normwise=0.001 and normwise=0.01", "compare", "s", "other")

    def test_options_that_two_studies_have_no_use_for_are_refused(self):
        self.study("--paths", "cpu", "--dtype", "f32")
        for args in (("none/none",), ("--slower", "5%"), ("--more-wrong", "1%"), ("--noise", "absent.json"), ("--markdown",),
                     ("--all",)):
            name = args[0] if args[0].startswith("--") else "FILTER"
            for command in ("compare", "gate"):
                self.fails(2, f"{name} is for records of runs: {command} of two studies takes none", command, "s", "s", *args)
        (self.dir / "run").mkdir()
        self.fails(2, "s holds a study, but run none", "compare", "s", "run")
        self.fails(2, "s holds a study, but run none", "compare", "run", "s")
        self.fails(2, "--allow-traded is for records", "gate", "s", "s", "--allow-traded")
        self.fails(2, "--slower is for records", "gate", "s", "s", env={"ASSAY_SLOWER": "7%"})
        self.assertEqual(assay("gate", "s", "s", "--certain", "--json", cwd=self.dir).returncode, 0)

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
            "l=-1 is no size": ("--sweep", "l=-1"),
            "x.rank=1e12 is no rank from 1 to 4096": ("--sweep", "x.rank=1e12"),
            "x.scale=1.0 stands twice": ("--sweep", "x.scale=1,1.0"),
            "the axes have more than 10000 points": tuple(
                word for axis in ("l", "n", "c") for word in ("--sweep", f"{axis}=1:1000:+1")),
            "l has more than 1000 values": ("--sweep", "l=" + ",".join(map(str, range(1001)))),
            "outliers:SHARE:SCALE": ("--data", "outliers:2"),
            "has no site q": ("--recipe", "a=cpu:q=f32"),
            "has no path q": ("--recipe", "a=q"),
            "is no format": ("--recipe", "a=cpu:conv=f31"),
            "--target fast is not normwise=ERROR": ("--target", "fast"),
            "--repeat 2 is not an integer from 3": ("--repeat", "2"),
        }.items():
            self.fails(2, message, "study", "cheri_block", *args)
        self.fails(2, "there is no op", "study", "cheri_blok")
        self.fails(2, "--sweep mask.density changes nothing: its tensor has no elements", "study", "trimul", "--paths",
                   "cpu", "--sweep", "mask.density=0.5,1")
        self.fails(5, "no path of cheri_block matches", "study", "cheri_block", "--paths", "gpu")
        self.fails(5, "no path of trimul matches in f16", "study", "trimul", "--dtype", "f16")

    def test_the_page_needs_no_network_and_escapes_names(self):
        self.study("--recipe", "<script>=cpu")
        page = (self.dir / "s/study.html").read_text()
        self.assertFalse("<script>" in page)
        self.assertTrue("&lt;script&gt; in f32" in page)
        self.assertIsNone(re.search(r'(src|href)="?https?:', page))


if __name__ == "__main__":
    unittest.main()
