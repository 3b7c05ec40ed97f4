#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay draw` and `assay judge`: outputs that somebody else computed.   usage: test_judge.py ASSAY"""
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import numpy

from program import ASSAY, ProgramTest, assay
from tensors import read_tensors, write_tensors

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CASE = "mhc_post/cpu/f32/n=3/hc=2/h=5"
# What the README imports. It reads and writes as the package of that name does.
SAFETENSORS = """
import pathlib
import tensors
def load_file(path): return tensors.read_tensors(pathlib.Path(path))
def save_file(arrays, path): tensors.write_tensors(pathlib.Path(path), arrays)
"""


class Judge(ProgramTest):
    def setUp(self):
        super().setUp()
        self.inputs, self.outputs = self.dir / "in.safetensors", self.dir / "out.safetensors"

    def compute(self, case):
        """Draws the inputs of a case and computes right outputs."""
        for command in (["draw", case, "--out", self.inputs],
                        ["exec", case, "--in", self.inputs, "--out", self.outputs]):
            result = assay(*command)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""), command)

    def judge(self, case, *args, **kwargs):
        return assay("judge", case, "--in", self.inputs, "--got", self.outputs, *args, **kwargs)

    def spoil(self):
        (name, out), = read_tensors(self.outputs).items()
        out = out.copy()
        out.flat[7] += 1
        write_tensors(self.outputs, {name: out})

    def forget_the_case(self):
        """Leaves the inputs as other tools write them, without a case."""
        write_tensors(self.inputs, read_tensors(self.inputs))

    def test_says_of_right_outputs_what_replay_says_of_the_path(self):
        for case in (CASE, CASE.replace("f32", "bf16"), "dynamic_conv_grad/cpu/f32/b=2/t=5/d=3/w=4/data=heavy_tail/seed=7",
                     "trimul/cpu/f32/b=1/n=5/c=8/h=4/mask=0", "dynamic_conv/cpu/f16/b=3/t=4/d=3/w=2/layout=broadcast"):
            with self.subTest(case=case):
                self.compute(case)
                judged, replayed = self.judge(case), assay("replay", case)
                self.assertEqual((judged.returncode, judged.stdout), (0, replayed.stdout))
                without_in = assay("judge", case, "--got", self.outputs)
                self.assertEqual((without_in.returncode, without_in.stdout), (0, replayed.stdout))

    def test_names_what_is_wrong(self):
        self.compute(CASE)
        self.spoil()
        result = self.judge(CASE)
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        self.assertRegex(result.stdout, r"\Afail: 1 of 30 compared elements of out are wrong;\n"
                                        r"      the worst is out\[0, 1, 2\] = \S+, expected \S+ \+- \S+\n  out +30 of 30 ")

    def test_says_what_is_finite(self):
        self.compute(CASE)
        (name, out), = read_tensors(self.outputs).items()
        for kept, says in (2, ", of 2 finite elements"), (0, "  accuracy +no element is finite\n"):
            spoilt = numpy.full_like(out, numpy.nan)
            spoilt.flat[:kept] = out.flat[:kept]
            write_tensors(self.outputs, {name: spoilt})
            result = self.judge(CASE)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stdout, says)

    def test_judges_on_the_inputs_that_are_given(self):
        self.compute(CASE + "/seed=1")
        self.forget_the_case()
        self.assertEqual(self.judge(CASE).returncode, 0)
        # On those of seed 0 they fail.
        self.assertEqual(assay("judge", CASE, "--got", self.outputs).returncode, 1)

    def test_refuses_the_inputs_of_another_case(self):
        self.compute(CASE + "/seed=1")
        for case in CASE, CASE + "/seed=1/data=uniform", CASE + "/seed=1/layout=strided":
            with self.subTest(case=case):
                self.fails(2, f"in.safetensors: it holds the inputs of {CASE}/data=normal/state=first_call/seed=1, not of {CASE}/",
                           "judge", case, "--in", self.inputs, "--got", self.outputs)
        tensors = read_tensors(self.inputs)
        write_tensors(self.inputs, tensors, case="mine")
        self.fails(2, "in.safetensors: 'mine' is not a case", "judge", CASE, "--in", self.inputs, "--got", self.outputs)
        # A capsule names its case so.
        for same in CASE + "/seed=1/state=warm", CASE.replace("/cpu/", "/cuda/") + "/seed=1":
            write_tensors(self.inputs, tensors, case=same)
            self.assertEqual(self.judge(CASE + "/seed=1").returncode, 0)

    def test_exec_leaves_its_inputs(self):
        self.compute(CASE)
        before = self.inputs.read_bytes()
        self.fails(2, "the outputs would replace the inputs there", "exec", CASE, "--in", self.inputs, "--out", self.inputs)
        self.assertEqual(self.inputs.read_bytes(), before)

    def test_what_draw_writes_replays(self):
        self.compute(CASE)
        result = assay("replay", self.inputs)
        self.assertEqual((result.returncode, result.stdout), (0, assay("replay", CASE).stdout))

    def test_leaves_a_record_and_a_capsule_with_what_was_judged(self):
        self.compute(CASE + "/seed=1")
        self.forget_the_case()
        self.spoil()
        out = self.dir / "report"
        result = self.judge(CASE, "--json", "--out", out)
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("replay", result.stderr)
        (line,) = [line for line in result.stderr.splitlines() if " judge " in line]
        for name in "report.html", "report.md", "junit.xml":
            text = html.unescape((out / name).read_text())
            self.assertIn(line.strip(), text, name)
            self.assertNotIn(f"{ASSAY} replay", text, name)
        # What it prints can be typed.
        again = subprocess.run(line, shell=True, text=True, capture_output=True)
        self.assertEqual((again.returncode, again.stdout), (1, self.judge(CASE).stdout))
        record = json.loads(result.stdout)
        self.assertEqual(record, json.loads((out / "run.json").read_text()))
        self.assertEqual([case["verdict"] for case in record["cases"]], ["fail"])
        (capsule,) = (out / "capsules").iterdir()
        held = read_tensors(capsule)
        given = read_tensors(self.inputs) | read_tensors(self.outputs)
        self.assertEqual(held.keys(), given.keys())
        for name, array in given.items():
            numpy.testing.assert_array_equal(held[name], array)
        for again in assay("judge", CASE, "--in", capsule, "--got", capsule), assay("replay", capsule):
            self.assertEqual((again.returncode, again.stdout), (1, self.judge(CASE).stdout))
        self.assertIn('classname="mhc_post.given"', (out / "junit.xml").read_text())
        self.assertIn(f"did not pass (1 fail), with the outputs of mhc_post in {self.outputs}.", html.unescape((out / "report.html").read_text()))
        self.fails(2, f"it judges the outputs in {self.outputs}, and says nothing of a path", "gate", out, out)

    def test_zeros_that_are_right_show_nothing(self):
        self.compute(CASE)
        self.forget_the_case()
        for file in self.inputs, self.outputs:
            write_tensors(file, {name: numpy.zeros_like(array) for name, array in read_tensors(file).items()})
        result = self.judge(CASE)
        self.assertEqual(result.returncode, 5)
        self.assertIn("uninformative: all outputs are 0, and so they should be, but so is memory that nobody wrote", " ".join(result.stdout.split()))

    def test_the_options_have_environment_twins(self):
        self.compute(CASE)
        drawn = self.inputs.read_bytes()
        self.inputs.unlink()
        self.assertEqual(assay("draw", CASE, "--out", self.inputs).returncode, 0)
        self.assertEqual(self.inputs.read_bytes(), drawn)
        twins = {"ASSAY_IN": str(self.inputs), "ASSAY_GOT": str(self.outputs), "ASSAY_SHARES": "1"}
        result = assay("judge", CASE, env=twins)
        self.assertEqual(result.returncode, 0)
        self.assertIn("the oracle of mhc_post has no stages", result.stderr)

    def test_says_what_each_stage_does_alone(self):
        case = "trimul/cpu/f32/b=1/n=5/c=8/h=4/mask=1"
        self.compute(case)
        self.assertEqual(self.judge(case, "--shares").stdout, assay("replay", case, "--shares").stdout)

    def test_says_what_is_wrong_with_the_files(self):
        self.compute(CASE)
        out = read_tensors(self.outputs)["out"]
        for message, tensors in [
            ("the tensor out of mhc_post is missing", {}),
            ("out has shape (3, 5, 2), expected (3, 2, 5)", {"out": out.reshape(3, 5, 2)}),
            ("out has dtype f16, expected f32", {"out": out.astype(numpy.float16)}),
            ("'result' is no tensor of mhc_post, which gives out", {"result": out}),
            ("'out.third_run' is no tensor of mhc_post", {"out": out, "out.third_run": out}),
        ]:
            with self.subTest(message=message):
                write_tensors(self.outputs, tensors)
                self.fails(2, f"out.safetensors: {message}", "judge", CASE, "--in", self.inputs, "--got", self.outputs)
        write_tensors(self.outputs, {"out": out})
        whole = self.inputs.read_bytes()
        write_tensors(self.inputs, {"x": read_tensors(self.inputs)["x"]})
        self.fails(2, "in.safetensors: the tensor residual of mhc_post is missing", "judge", CASE, "--in", self.inputs, "--got", self.outputs)
        self.inputs.write_bytes(whole[:-2])
        self.fails(2, "in.safetensors: ", "judge", CASE, "--in", self.inputs, "--got", self.outputs)
        self.inputs.write_bytes(whole)
        self.outputs.write_text("no tensors at all")
        self.fails(2, "out.safetensors: not a safetensors file", "judge", CASE, "--got", self.outputs)
        self.fails(2, "none.safetensors", "judge", CASE, "--got", self.dir / "none.safetensors")
        self.fails(2, "--got is required", "judge", CASE)
        self.fails(2, "--out is required", "draw", CASE)

    def test_inputs_obey_the_layout_of_the_case(self):
        case = CASE + "/layout=broadcast"
        self.compute(CASE)
        self.forget_the_case()
        self.fails(2, "repeats along its outermost dimension", "judge", case, "--in", self.inputs, "--got", self.outputs)

    def test_refuses_a_state(self):
        message = "state=second_call: draw and judge call no path, so nothing comes before; leave the state out"
        case = CASE + "/state=second_call"
        self.fails(2, message, "draw", case, "--out", self.inputs)
        self.assertFalse(self.inputs.exists())
        self.compute(CASE)
        self.fails(2, message, "judge", case, "--in", self.inputs, "--got", self.outputs)

    def test_refuses_a_case_that_the_path_does_not_serve(self):
        self.fails(5, "mhc_post/cpu unsupported: dtype=f64", "draw", CASE.replace("f32", "f64"), "--out", self.inputs)
        self.assertFalse(self.inputs.exists())
        self.compute(CASE)
        result = self.judge(CASE.replace("f32", "f64"))
        self.assertEqual((result.returncode, result.stdout.splitlines()[0]), (5, "unsupported: dtype=f64"))

    def test_skips_a_case_that_memory_does_not_hold(self):
        self.fails(5, "skipped: 507904 GiB of host memory are needed", "draw", "mhc_post/cpu/f32/n=1099511627776/hc=2/h=5", "--out", self.inputs)
        self.assertFalse(self.inputs.exists())
        self.fails(2, "2^62", "draw", "mhc_post/cpu/f32/n=1099511627776/hc=16/h=1099511627776", "--out", self.inputs)

    def test_judges_nothing_where_there_is_nothing(self):
        case = CASE.replace("n=3", "n=0")
        self.compute(case)
        result = self.judge(case)
        self.assertEqual(result.returncode, 5)
        self.assertIn("skipped: empty", result.stdout)

    def test_the_example_of_the_readme_prints_what_it_says(self):
        text = (SOURCE / "README.md").read_text()
        (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        (console,) = re.findall(r"```console\n(\$ assay draw .*?)```", text, re.DOTALL)
        (self.dir / "mine.py").write_text(script)
        (self.dir / "safetensors").mkdir()
        (self.dir / "safetensors/numpy.py").write_text(SAFETENSORS)
        (self.dir / "assay").symlink_to(pathlib.Path(ASSAY).resolve())
        environment = os.environ | {"PYTHONPATH": f"{self.dir}:{pathlib.Path(__file__).parent}",
                                    "PATH": f"{self.dir}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        printed = ""
        for command in re.findall(r"^\$ (.*)$", console, re.MULTILINE):
            result = subprocess.run(command, shell=True, text=True, capture_output=True, cwd=self.dir, env=environment)
            self.assertEqual(result.stderr, "")
            printed += f"$ {command}\n{result.stdout}"
        self.assertEqual(result.returncode, 1)

        def without_digits(text):  # the last ones depend on NumPy's order of sums
            return re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "#", text)

        said, _, rest = console.partition("...\n")
        self.assertEqual(rest, "")
        self.assertTrue(without_digits(printed).startswith(without_digits(said)), printed)


if __name__ == "__main__":
    unittest.main()
