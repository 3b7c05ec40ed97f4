#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay replay`: one case again, what it prints, and the capsules that it takes.   usage: test_replay.py ASSAY"""
import json
import re
import unittest

from program import CASE, WRONG, ProgramTest, assay


class Replay(ProgramTest):
    def test_replay_of_a_pass_and_of_a_failure(self):
        self.assertEqual(assay("replay", CASE).returncode, 0)
        result = assay("replay", WRONG)
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected", result.stdout)

    def test_replay_says_what_each_stage_does_alone(self):
        case = "trimul/cpu/f32/b=1/n=5/c=8/h=4/mask=0"
        result = assay("replay", case, "--shares")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        (output,) = json.loads(assay("replay", case, "--shares", "--json").stdout)["cases"][0]["numerics"]["outputs"]
        stages = [share["stage"] for share in output["shares"]]
        self.assertEqual((stages[0], stages[-1], len(stages)), ("norm_in", "out_projection", 8))
        bounds = [share["bound"] for share in output["shares"]]
        for share in output["shares"]:
            bound, under, percent, rms = re.search(
                rf"{share['stage']} +alone: mean bound (\S+) \((under )?(\S+) % of all stages' bounds\), rms (\S+)",
                result.stdout).groups()
            for text, value in ((bound, share["bound"]), (rms, share["rms"])):
                self.assertLessEqual(abs(float(text) - value), value / 100)
            part = 100 * share["bound"] / sum(bounds)
            self.assertEqual(under is not None, part < 0.001)
            if not under:
                self.assertLessEqual(abs(float(percent) - part), part / 100)
        self.assertTrue(assay("replay", case, "--shares", "--out", self.dir).stdout.startswith(result.stdout))
        # Nothing is finite.
        nonfinite = ["replay", "trimul/cpu/f32/b=1/n=9/c=4/h=4/mask=1/data=nonfinite", "--shares"]
        self.assertNotIn("alone", assay(*nonfinite).stdout)
        self.assertIn("no element is finite, so no stage has a bound", assay(*nonfinite).stderr)
        self.assertEqual(assay(*nonfinite, "--quiet").stderr, "")
        # No other oracle has stages.
        result = assay("replay", CASE, "--shares")
        self.assertEqual(result.stdout, assay("replay", CASE).stdout)
        self.assertIn("the oracle of dynamic_conv has no stages", result.stderr)
        (output,) = json.loads(assay("replay", CASE, "--shares", "--json").stdout)["cases"][0]["numerics"]["outputs"]
        self.assertNotIn("shares", output)

    def test_replay_skips_what_the_memory_does_not_hold(self):
        for options in ([], ["--shares"]):
            result = assay("replay", "trimul/cpu/f32/b=1/n=65536/c=512/h=512/mask=1", *options)
            self.assertIn("are needed", result.stdout)
            self.assertEqual(result.returncode, 5)

    def test_the_largest_error_is_not_shown_as_none(self):
        text = assay("replay", "trimul/cpu/f32/b=1/n=64/c=128/h=128/mask=1").stdout
        (within,) = re.findall(r"elements within (\S+) of their bounds", text)
        (ratio,) = re.findall(r"error/bound ([^,]+), ", text)
        self.assertLess(float(ratio), 0.001)
        self.assertEqual(within, ratio)

    def test_a_state_is_a_sequence_of_steps(self):
        case = "cheri_conv_norm/cpu/f32/n=2/l=9/c=5/dilation=2/state="
        for state in ("second_call", "retuned+after:f16,n=2,l=9,c=5,dilation=3+cache_loaded", "dirty_workspace+warm"):
            result = assay("replay", case + state)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn(f"state={state}/", result.stdout)
        result = assay("replay", case + "graph_replay")
        self.assertEqual(result.returncode, 5)
        self.assertIn("skipped: a cpu has no streams and no graphs", result.stdout)

    def test_every_configuration_that_list_names_can_be_forced(self):
        op, = json.loads(assay("list", "cheri_conv_norm/cpu", "--json").stdout)
        (tunable, configs), = op["paths"][0]["tunables"].items()
        self.assertGreater(len(configs), 1)
        for config in configs:
            self.assertIn(config, assay("list", "cheri_conv_norm/cpu").stdout)
            state = f"forced:{tunable}:{config}"
            result = assay("replay", f"cheri_conv_norm/cpu/f32/n=2/l=40/c=16/dilation=2/state={state}")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_residue_of_the_first_call_is_gone_in_the_second(self):
        case = "cheri_conv_norm_grad/specimen.updates_in_trials/f32/n=2/l=9/c=5/dilation=2/state="
        result = assay("replay", case + "first_call")
        self.assertEqual(result.returncode, 1)
        self.assertIn("an untuned call in a new context gives", result.stdout)
        self.assertEqual(assay("replay", case + "second_call").returncode, 0)

    def test_a_failure_leaves_a_capsule_that_replays(self):
        self.assertEqual(assay("replay", WRONG, "--out", self.dir).returncode, 1)
        (capsule,) = (self.dir / "capsules").iterdir()
        again = assay("replay", capsule)
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertEqual(again.stdout, assay("replay", WRONG).stdout)

    def test_a_worker_leaves_what_this_process_leaves(self):
        small = "dynamic_conv/specimen.{}/f32/b=2/t=9/d=5/w=8/seed=3{}"
        tuned = "cheri_conv_norm_grad/specimen.updates_in_trials/f32/n=2/l=9/c=5/dilation=2/state={}"
        names = "tap_dropped", "modifies_input", "nondeterministic", "writes_past_row"
        cases = [small.format(name, "") for name in names] + [small.format("repeated_call_skipped", "/state=warm+warm")]
        cases += [tuned.format(state) for state in ("first_call", "retuned+retuned+warm")]
        tensors = set()
        for number, case in enumerate(cases):
            with self.subTest(case):
                results, capsules = [], []
                for option in [], ["--no-isolate"]:
                    folder = self.dir / f"{number}{option}"
                    folder.mkdir()
                    results.append(assay("replay", case, "--out", "out", *option, cwd=folder))
                    capsules += [path.read_bytes() for path in (folder / "out/capsules").iterdir()]
                self.assertEqual([result.returncode for result in results], [1, 1], results[0].stderr)
                self.assertEqual(results[0].stdout, results[1].stdout)
                self.assertEqual(capsules[0], capsules[1])
                tensors |= json.loads(capsules[0][8 : 8 + int.from_bytes(capsules[0][:8], "little")]).keys()
        for suffix in ".second_run", ".untuned_call", ".after_call", ".step":
            self.assertTrue(any(suffix in name for name in tensors), f"no case left a tensor{suffix}")

    def test_a_capsule_that_cannot_be_written_does_not_end_the_run(self):
        (self.dir / "capsules").write_text("")
        result = assay("replay", WRONG, "--out", self.dir)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("no capsule: ", result.stderr)
        self.assertEqual(json.loads((self.dir / "run.json").read_text())["cases"][0]["verdict"], "fail")

    def test_a_case_line_is_printed_in_the_order_of_the_op(self):
        shuffled = CASE.replace("b=2/t=5/d=3/w=4", "w=4/d=3/t=5/b=2")
        self.assertEqual(assay("replay", shuffled).stdout, assay("replay", CASE).stdout)
        shuffled = WRONG.replace("b=2/t=5/d=3/w=4", "w=4/d=3/t=5/b=2")
        self.assertEqual(assay("replay", shuffled, "--out", self.dir).returncode, 1)
        self.assertIn("b=2/t=5/d=3/w=4", json.loads((self.dir / "run.json").read_text())["cases"][0]["id"])
        (capsule,) = (self.dir / "capsules").iterdir()
        self.assertIn("b=2/t=5/d=3/w=4", assay("replay", capsule).stdout)


if __name__ == "__main__":
    unittest.main()
