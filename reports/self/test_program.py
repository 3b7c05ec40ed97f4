#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as its users see it: data, messages, files and exit codes.   usage: test_program.py ASSAY"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import jsonschema

ASSAY = sys.argv.pop(1)
SOURCE = pathlib.Path(__file__).resolve().parents[2]
CASE = "dynamic_conv/cpu/f32/b=2/t=5/d=3/w=4/data=normal/state=first_call/seed=7"
BLOCK = "cheri_block/cpu/f32/n=1/l=2/c=3/dilation=1/hidden=4/state="
WRONG = "dynamic_conv/specimen.tap_dropped/f32/b=2/t=5/d=3/w=4"


def assay(*args, env=None, cwd=None, stdout=subprocess.PIPE):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")} | (env or {})
    return subprocess.run([ASSAY, *args], text=True, stdout=stdout, stderr=subprocess.PIPE, env=environment, cwd=cwd)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def fails(self, code, message, *args, **kwargs):
        result = assay(*args, **kwargs)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(message, result.stderr)
        self.assertEqual(result.stderr.strip().count("\n"), 0, f"more than one line: {result.stderr}")
        return result


class Commands(ProgramTest):
    def test_list_names_ops_and_paths(self):
        result = assay("list")
        self.assertEqual(result.returncode, 0)
        self.assertIn("dynamic_conv_grad", result.stdout)
        ops = json.loads(assay("list", "--json").stdout)
        names = [op["op"] for op in ops]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual({"dynamic_conv", "dynamic_conv_grad"}, set(names))
        for op in ops:
            self.assertIn("cpu", [path["path"] for path in op["paths"]], op["op"])

    def test_doctor_measures_the_copy_bandwidth(self):
        doctor = json.loads(assay("doctor", "--device", "cpu", "--json").stdout)
        self.assertGreater(doctor["devices"][0]["copy_bytes_per_s"], 1e8)
        self.assertGreater(doctor["devices"][0]["products"]["stored"], 1e9)

    def test_verify_leaves_every_file_and_a_valid_record(self):
        result = assay("verify", "--device", "cpu", "--cases", "8", "--out", self.dir / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        names = {path.name for path in (self.dir / "out").iterdir()}
        self.assertEqual(names, {"run.json", "report.html", "report.md", "junit.xml", "benchmark.json"})
        record = json.loads((self.dir / "out/run.json").read_text())
        schema = json.loads((SOURCE / "reports/schema/assay.run-1.schema.json").read_text())
        jsonschema.validate(record, schema)
        self.assertTrue(record["complete"])
        verdicts = {case["verdict"] for case in record["cases"]}
        self.assertEqual(verdicts - {"skipped"}, {"pass"})  # a case without elements is skipped
        self.assertTrue(all(case["perf"] is None for case in record["cases"]))
        suites = xml.etree.ElementTree.parse(self.dir / "out/junit.xml").getroot()
        self.assertEqual(len(list(suites.iter("testcase"))), len(record["cases"]))

    def test_the_schema_can_reject(self):
        assay("verify", "--device", "cpu", "--cases", "1", "--out", self.dir)
        record = json.loads((self.dir / "run.json").read_text())
        schema = json.loads((SOURCE / "reports/schema/assay.run-1.schema.json").read_text())
        record["cases"][0]["verdict"] = "probably fine"
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(record, schema)

    def test_a_seed_gives_the_same_cases_and_shards_partition_them(self):
        def ids(*args):
            record = json.loads(assay("verify", "--device", "cpu", "--cases", "12", "--json", "-q", *args).stdout)
            return [case["id"] for case in record["cases"]]

        whole = ids("--seed", "3")
        self.assertEqual(whole, ids("--seed", "3"))
        self.assertNotEqual(whole, ids("--seed", "4"))
        parts = ids("--seed", "3", "--shard", "1/2") + ids("--seed", "3", "--shard", "2/2")
        self.assertEqual(sorted(whole), sorted(parts))
        empty = assay("verify", "dynamic_conv/cpu", "--cases", "1", "--shard", "2/2", "-q")
        self.assertEqual(empty.returncode, 5)
        self.assertIn("part 2 of 2 is empty", empty.stderr)

    def test_json_and_tables_go_to_stdout_and_progress_to_stderr(self):
        result = assay("verify", "dynamic_conv", "--device", "cpu", "--cases", "2", "--json")
        json.loads(result.stdout)
        self.assertIn("verifying", result.stderr)
        self.assertEqual(assay("verify", "--device", "cpu", "--cases", "2", "--json", "-q").stderr, "")

    def test_options_have_environment_twins(self):
        twin = assay("verify", "dynamic_conv", "--device", "cpu", "--json", env={"ASSAY_CASES": "3", "ASSAY_SEED": "9", "ASSAY_DTYPE": "f16"})
        record = json.loads(twin.stdout)
        self.assertEqual(record["seed"], 9)
        self.assertEqual({case["dtype"] for case in record["cases"]}, {"f16"})
        self.assertEqual(len(record["cases"]), 3)

    def test_problems_are_as_small_as_asked(self):
        result = assay("verify", "dynamic_conv", "--device", "cpu", "--cases", "40", "--max-elements", "64", "--json", "-q")
        counts = [output["count"] for case in json.loads(result.stdout)["cases"] if case["numerics"] for output in case["numerics"]["outputs"]]
        self.assertGreater(len(counts), 20)
        self.assertLessEqual(max(counts), 64)

    def test_report_renders_a_record_again(self):
        assay("verify", "--device", "cpu", "--cases", "3", "--out", self.dir / "a")
        result = assay("report", self.dir / "a", "--out", self.dir / "b")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("run.json", "report.html", "report.md", "junit.xml", "benchmark.json"):
            self.assertEqual((self.dir / "a" / name).read_text(), (self.dir / "b" / name).read_text(), name)

    def test_specimens_are_all_caught(self):  # those of all ops: EverySpecimen (properties/self/specimens_test.cpp)
        result = assay("verify", "--specimens", "dynamic_conv*", "mhc_post*", "--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotIn("SURVIVED", result.stdout)

    def test_a_specimen_that_survives_fails_the_command(self):
        # One tiny case cannot show a wrapped 32-bit offset.
        result = assay("verify", "--specimens", "dynamic_conv/specimen.narrow_offsets", "--cases", "1", "--device", "cpu")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("SURVIVED", result.stdout)


class Failures(ProgramTest):
    def test_replay_of_a_pass_and_of_a_failure(self):
        self.assertEqual(assay("replay", CASE).returncode, 0)
        result = assay("replay", WRONG)
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected", result.stdout)

    def test_replay_says_what_each_stage_adds_to_the_bound(self):
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
        # Nothing is finite.
        nonfinite = ["replay", "trimul/cpu/f32/b=1/n=9/c=4/h=4/mask=1/data=nonfinite", "--shares"]
        self.assertNotIn("alone", assay(*nonfinite).stdout)
        self.assertIn("no finite element has a bound to divide by stages", assay(*nonfinite).stderr)
        self.assertEqual(assay(*nonfinite, "--quiet").stderr, "")
        # No other oracle divides its bound.
        result = assay("replay", CASE, "--shares")
        self.assertEqual(result.stdout, assay("replay", CASE).stdout)
        self.assertIn("does not divide its bound", result.stderr)
        (output,) = json.loads(assay("replay", CASE, "--shares", "--json").stdout)["cases"][0]["numerics"]["outputs"]
        self.assertNotIn("shares", output)

    def test_replay_skips_what_the_memory_does_not_hold(self):
        for options in ([], ["--shares"]):
            result = assay("replay", "trimul/cpu/f32/b=1/n=65536/c=512/h=512/mask=1", *options)
            self.assertIn("are needed", result.stdout)
            self.assertEqual(result.returncode, 5)

    def test_the_largest_error_is_not_shown_as_none(self):
        text = assay("replay", "trimul/cpu/f32/b=1/n=9/c=100/h=8/mask=1/data=offset").stdout
        (within,) = re.findall(r"elements within (\S+) of their bounds", text)
        (ratio,) = re.findall(r"error/bound ([^,]+),", text)
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
        self.assertIn("in an untuned call in a new context", result.stdout)
        self.assertEqual(assay("replay", case + "second_call").returncode, 0)

    def test_a_failure_leaves_a_capsule_that_replays(self):
        self.assertEqual(assay("replay", WRONG, "--out", self.dir).returncode, 1)
        (capsule,) = (self.dir / "capsules").iterdir()
        again = assay("replay", capsule)
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertEqual(again.stdout, assay("replay", WRONG).stdout)

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

    def test_interrupted_runs_write_an_incomplete_record(self):
        process = subprocess.Popen([ASSAY, "verify", "--device", "cpu", "--budget", "1h", "--out", self.dir, "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertFalse(json.loads((self.dir / "run.json").read_text())["complete"])


class ScriptRun(ProgramTest):
    """scripts/run in a tree of its own, where setup and the build do nothing and `assay` is this script."""

    def setUp(self):
        super().setUp()
        self.tree = self.dir / "tree"
        self.build = self.tree / "build/release"
        self.script(self.tree / "scripts/run", (SOURCE / "scripts/run").read_text())
        self.script(self.tree / "scripts/setup", "#!/bin/sh\n")
        self.script(self.dir / "bin/cmake", "#!/bin/sh\n")

    def script(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_script(self, assay_script, *args, **env):
        self.script(self.build / "bin/assay", f"#!/bin/sh\necho \"$@\"\n{assay_script}\n")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")} | env
        environment["PATH"] = f"{self.dir / 'bin'}:{environment['PATH']}"
        return subprocess.run([self.tree / "scripts/run", *args], text=True, capture_output=True, cwd=self.dir, env=environment)

    def test_announces_the_report_where_it_is(self):
        for out, args, env in [
            ("assay-out", [], {}),
            ("a", ["--out", "a"], {}),
            ("b", ["--out=b"], {}),
            ("c", [], {"ASSAY_OUT": "c"}),
            ("d", ["--out", "d"], {"ASSAY_OUT": "c"}),
        ]:
            with self.subTest(out=out):
                result = self.run_script(f"mkdir -p {out}; sleep 0.05; echo > {out}/report.html", *args, **env)
                self.assertEqual(result.stdout.split(), ["run", *args])
                self.assertEqual(result.stderr, f"scripts/run: the report is {out}/report.html\n")

    def test_does_not_announce_the_report_of_an_earlier_run(self):
        (self.dir / "assay-out").mkdir()
        (self.dir / "assay-out/report.html").write_text("")
        time.sleep(0.05)
        result = self.run_script("exit 2")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, "")


class BadInput(ProgramTest):
    def test_usage_errors_name_the_thing_and_its_value(self):
        for message, *args in [
            ("nonsense", "nonsense"),
            ("--nonsense", "verify", "--nonsense"),
            ("'f12' is not one of f32, f16, bf16", "verify", "--dtype", "f12"),
            ("--device moon", "list", "--device", "moon"),
            ("--shard 3/2", "verify", "--shard", "3/2"),
            ("--budget soon", "verify", "--budget", "soon"),
            ("--budget infs", "verify", "--budget", "infs"),
            ("--cases 4 and --budget 3s exclude each other", "verify", "--cases", "4", "--budget", "3s"),
            ("--cases 0 is not an integer from 1", "verify", "--cases", "0"),
            ("--cases -3 is not an integer from 1", "verify", "--cases", "-3"),
            ("--cases many is not", "verify", "--cases", "many"),
            ("--max-elements 0 is not an integer from 1", "verify", "--max-elements", "0"),
            ("--seed -1 is not an integer from 0", "verify", "--seed", "-1"),
            ("--seed 1.5 is not", "bench", "--seed", "1.5"),
            ("--seed 18446744073709551616 is not", "run", "--seed", str(2**64)),
            ("--json", "verify", "--specimens", "--json"),
            ("--out", "verify", "--specimens", "--out", "somewhere"),
            ("'nothing'", "replay", "nothing/cpu/f32/b=1/t=1/d=1/w=1"),
            ("has no path 'gpu'", "replay", "dynamic_conv/gpu/f32/b=1/t=1/d=1/w=1"),
            ("'w' is missing", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1"),
            ("w=9", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1/w=9"),
            ("no dimension 'q'", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1/w=1/q=2"),
            ("data=odd", "replay", CASE.replace("normal", "odd")),
            ("seed=-1", "replay", CASE.replace("seed=7", "seed=-1")),
            ("state=third_call is not one of first_call, ", "replay", CASE.replace("first_call", "third_call")),
            ("forced:<tunable>:<config>", "replay", CASE.replace("first_call", "forced:tries")),
            ("no configurations", "replay", CASE.replace("first_call", "forced:x:y")),
            ("no tunable 'x'; it has cheri_block_cpu", "replay", BLOCK + "forced:x:y"),
            ("no configuration 'rows=7'; it has rows=", "replay", BLOCK + "forced:cheri_block_cpu:rows=7"),
            ("no input 'w3'; it has x, w, w1, w2", "replay", BLOCK + "weight_updated:w3"),
            ("weight_updated takes an argument", "replay", BLOCK + "weight_updated:"),
            ("'w' is missing", "replay", CASE.replace("first_call", "after:f32,b=1,t=1,d=1")),
            ("missing.json", "report", "missing.json"),
            ("run.json", "report", "/"),
            ("missing.safetensors", "replay", "missing.safetensors"),
        ]:
            with self.subTest(args=args):
                self.fails(2, message, *args)

    def test_a_full_disk_is_an_error(self):
        long_output = "verify", "mhc_post/cpu", "--cases", "5", "--json", "--quiet"
        for args in ("list",), long_output:
            with self.subTest(args=args), open("/dev/full", "w") as full:
                result = assay(*args, stdout=full)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stderr, "assay: cannot write to standard output\n")

    def test_an_output_directory_that_cannot_be_made(self):
        (self.dir / "file").write_text("")
        self.fails(2, "file/out", "verify", "--cases", "1", "--out", self.dir / "file/out")

    def test_foreign_and_truncated_records(self):
        (self.dir / "a.json").write_text('{"schema": "other/1"}')
        self.fails(2, "other/1", "report", self.dir / "a.json")
        (self.dir / "b.json").write_text('{"schema": "assay.run/1", ')
        self.fails(2, "b.json", "report", self.dir / "b.json")

    def test_a_full_disk_behind_the_reports_does_not_lose_the_verdict(self):
        (self.dir / "run.json").mkdir()  # as good as a disk that takes no file
        result = assay("replay", CASE, "--json", "--out", self.dir)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("run.json", result.stderr)
        self.assertEqual(json.loads(result.stdout)["cases"][0]["verdict"], "pass")

    def test_exec_refuses_what_the_path_does_not_serve(self):
        self.assertEqual(assay("replay", WRONG, "--out", self.dir).returncode, 1)
        (capsule,) = (self.dir / "capsules").iterdir()
        for message, case in [
            ("dtype=f64", CASE.replace("f32", "f64")),
            ("layout=inflated", CASE.replace("state", "layout=inflated/state").replace("b=2", "b=3")),
        ]:
            with self.subTest(case=case):
                self.fails(2, message, "exec", case, "--in", capsule, "--out", self.dir / "out.safetensors")
                self.assertFalse((self.dir / "out.safetensors").exists())

    def test_nothing_selected(self):
        self.fails(5, "no path matches zzz", "verify", "dynamic_conv", "zzz", "--cases", "1")
        self.fails(5, "no path matches zzz", "list", "zzz", "dynamic_conv")
        self.fails(5, "no path matches zzz", "verify", "--specimens", "*/specimen.*", "zzz")
        self.fails(5, "no selected path serves f64", "list", "--dtype", "f64")
        self.fails(5, "does not serve f64", "verify", "dynamic_conv/cpu", "--dtype", "f64")
        self.fails(5, "no path matches nothing*", "verify", "nothing*")
        self.fails(5, "no path matches nothing*", "list", "nothing*")

    @unittest.skipIf(json.loads(assay("doctor", "--device", "cpu", "--json").stdout)["gpus"].endswith("found"), "a GPU is here")
    def test_an_absent_device(self):
        self.fails(77, "cuda", "verify", "--device", "cuda")
        self.fails(77, "cuda:3", "verify", "--device", "cuda:3")

    def test_an_unfit_machine_under_strict_env(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
        try:
            deadline = time.time() + 120
            while os.getloadavg()[0] <= 0.55 * (os.cpu_count() or 1) and time.time() < deadline:
                time.sleep(1)
            result = assay("bench", "--strict-env", "--device", "cpu", "--out", self.dir)
            self.assertEqual(result.returncode, 6, result.stderr)
            self.assertIn("load", result.stderr)
            record = json.loads((self.dir / "run.json").read_text())
            self.assertFalse(record["complete"])
            self.assertEqual(record["cases"], [])
            self.assertIn("load", record["not_run"][0]["reason"])
            self.assertTrue((self.dir / "report.html").exists())
        finally:
            for process in busy:
                process.kill()
                process.wait()


if __name__ == "__main__":
    unittest.main()
