#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as its users see it: data, messages, files and exit codes.   usage: test_program.py ASSAY"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

import jsonschema

from program import ASSAY, CASE, ENVIRONMENT, WRONG, ProgramTest, assay

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BLOCK = "cheri_block/cpu/f32/n=1/l=2/c=3/dilation=1/hidden=4/state="


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

    def test_sanitizers_see_a_case_of_each_path_on_a_gpu(self):
        ops = json.loads(assay("list", "--json").stdout)
        paths = {f"{op['op']}/{path['path']}" for op in ops for path in op["paths"] if path["path"].startswith("cuda")}
        cases = (SOURCE / "scripts/sanitized_cases").read_text().splitlines()
        if not paths:
            self.skipTest("no CUDA paths are built")
        self.assertEqual({"/".join(case.split("/")[:2]) for case in cases}, paths)
        for case in cases:
            result = assay("draw", case.split("/state=")[0], "--out", self.dir / "inputs.safetensors")
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_doctor_measures_the_copy_bandwidth(self):
        doctor = json.loads(assay("doctor", "--device", "cpu", "--json").stdout)
        self.assertGreater(doctor["devices"][0]["copy_bytes_per_s"], 1e8)
        (product,) = doctor["devices"][0]["products"]
        self.assertGreater(product["flops_per_s"], 1e9)

    def test_the_user_knows_the_cache(self):
        doctor = assay("doctor", "--device", "cpu", env={"ASSAY_CACHE_BYTES": "3145728"})
        self.assertIn(" 3 MiB last-level cache", doctor.stdout)
        self.assertRegex(doctor.stdout, r"\n +a call takes [\d.]+ µs or more\n")
        for text in "32M", "", "-1", "1048575", "1e8":
            doctor = assay("doctor", "--device", "cpu", env={"ASSAY_CACHE_BYTES": text})
            self.assertEqual(doctor.returncode, 2, doctor.stderr)
            self.assertIn(f"ASSAY_CACHE_BYTES is {text}; expected bytes, 1048576 or more", doctor.stderr)

    def test_doctor_tells_the_state_of_the_cpu_or_why_it_does_not(self):
        (cpu, ) = json.loads(assay("doctor", "--device", "cpu", "--json").stdout)["devices"]
        self.assertGreaterEqual(cpu["telemetry"]["readings"], 2)
        for state in cpu["state"], cpu["telemetry"]:
            self.assertGreaterEqual(state["load"], 0)
            absent = {field for one in state.get("absent", []) for field in one["fields"]}
            for field in "clock_mhz", "energy_j":
                self.assertNotEqual(field in state, field in absent, state)

    def test_each_time_says_what_the_device_was_like(self):
        for isolated in (), ("--no-isolate", ):
            result = assay("bench", "mhc_post/cpu", "--dtype", "f32", "--sweep", "n=16", "--out", self.dir / "out", *isolated)
            self.assertEqual(result.returncode, 0, result.stderr)
            record = json.loads((self.dir / "out/run.json").read_text())
            jsonschema.validate(record, json.loads((SOURCE / "reports/schema/assay.run-1.schema.json").read_text()))
            (case, ) = record["cases"]
            for perf in case["perf"], case["perf_warm"]:
                self.assertGreaterEqual(perf["telemetry"]["readings"], 2)
                self.assertGreater(perf["telemetry"]["seconds"], sum(perf["samples_ns"]) * 1e-9)
                self.assertGreaterEqual(perf["telemetry"]["load"], 0)
            self.assertIn("| meanwhile |", (self.dir / "out/report.md").read_text())

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
        # Some cases have hardly an element.
        self.assertEqual(verdicts - {"skipped", "uninformative"}, {"pass"})
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

    def test_a_record_from_before_conformity_obeys_the_schema(self):
        schema = json.loads((SOURCE / "reports/schema/assay.run-1.schema.json").read_text())
        record = json.loads((SOURCE / "reports/self/corpus/record/one_case.json").read_text())
        (output,) = record["cases"][0]["numerics"]["outputs"]
        self.assertIn("rms_over_predicted", output)
        jsonschema.validate(record, schema)
        # It does not say whether this is a law.
        output["conformity"] = {"rms": 1, "predicted": 2, "allowed": 3}
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

    def test_specimens_are_all_caught(self):
        # EverySpecimen (properties/self/specimens_test.cpp) has those of all ops.
        result = assay("verify", "--specimens", "dynamic_conv*", "mhc_post*", "--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotIn("SURVIVED", result.stdout)

    def test_a_specimen_that_survives_fails_the_command(self):
        # One tiny case cannot show a wrapped 32-bit offset.
        result = assay("verify", "--specimens", "dynamic_conv/specimen.narrow_offsets", "--cases", "1", "--device", "cpu")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("SURVIVED", result.stdout)


class Failures(ProgramTest):
    def test_interrupted_runs_write_an_incomplete_record(self):
        process = subprocess.Popen([ASSAY, "verify", "--device", "cpu", "--budget", "1h", "--out", self.dir, "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertFalse(json.loads((self.dir / "run.json").read_text())["complete"])

    def test_an_interruption_while_a_worker_starts_is_no_crash(self):
        for milliseconds in range(60, 150, 3):
            process = subprocess.Popen([ASSAY, "demo", "--out", self.dir, "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            if process.returncode == 130 and (self.dir / "run.json").exists():
                cases = json.loads((self.dir / "run.json").read_text())["cases"]
                self.assertNotIn("crashed", [case["verdict"] for case in cases])


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
        path = {"PATH": f"{self.dir / 'bin'}:{ENVIRONMENT['PATH']}"}
        return subprocess.run([self.tree / "scripts/run", *args], text=True, capture_output=True, cwd=self.dir, env=ENVIRONMENT | path | env)

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
            ("--timeout soon is not a time", "verify", "--timeout", "soon"),
            ("--timeout 5 is not a time", "verify", "--timeout", "5"),
            ("--timeout excludes --no-isolate", "replay", CASE, "--no-isolate", "--timeout", "1s"),
            ("--cases excludes --budget", "verify", "--cases", "4", "--budget", "3s"),
            ("--cases 0 is not an integer from 1", "verify", "--cases", "0"),
            ("--cases -3 is not an integer from 1", "verify", "--cases", "-3"),
            ("--cases many is not", "verify", "--cases", "many"),
            ("--max-elements 0 is not an integer from 1", "verify", "--max-elements", "0"),
            ("--seed -1 is not an integer from 0", "verify", "--seed", "-1"),
            ("--seed 1.5 is not", "bench", "--seed", "1.5"),
            ("--seed 18446744073709551616 is not", "run", "--seed", str(2**64)),
            ("--max-failures excludes --specimens", "verify", "--specimens", "--max-failures", "2"),
            ("--max-failures 0 is not an integer from 1", "verify", "--max-failures", "0"),
            ("'nothing'", "replay", "nothing/cpu/f32/b=1/t=1/d=1/w=1"),
            ("has no path 'gpu'", "replay", "dynamic_conv/gpu/f32/b=1/t=1/d=1/w=1"),
            ("'w' is missing", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1"),
            ("w=9", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1/w=9"),
            ("no dimension 'q'", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1/w=1/q=2"),
            ("the dimension dta=odd is not a 64-bit integer", "replay", CASE.replace("data=normal", "dta=odd")),
            ("an argument is empty", "verify", "--cases", "1", "--out", ""),
            ("an argument is empty", "verify", "--resume", ""),
            ("an argument is empty", "replay", ""),
            ("--out - is not the standard output; for a file write ./-", "draw", CASE, "--out", "-"),
            ("--out - is not the standard output; for a file write ./-", "verify", "--out", "-"),
            ("--out= is empty", "verify", "--out=", "dynamic_conv"),
            ("a command is required",),
            ("data=odd", "replay", CASE.replace("normal", "odd")),
            ("spike, nonfinite; did you mean normal?", "replay", CASE.replace("normal", "nromal")),
            ("; did you mean first_call?", "replay", CASE.replace("first_call", "frist_call")),
            ("must start with op/path/dtype", "replay", CASE.replace("/cpu", "", 1)),
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

    def test_what_a_user_or_a_journal_says_is_printable(self):
        for folder, said in ("a\nb\x1b[31m", r"a\x0ab\x1b[31m holds no unfinished run"), (3000 * "x", "holds no unfinished run"):
            result = self.fails(2, said, "verify", "--resume", folder)
            self.assertLess(len(result.stderr), 1000)
            self.assertNotIn("\x1b", result.stderr)

    def test_exec_refuses_what_the_path_does_not_serve(self):
        self.assertEqual(assay("replay", WRONG, "--out", self.dir).returncode, 1)
        (capsule,) = (self.dir / "capsules").iterdir()
        no_short_axis = "dynamic_conv/cpu/f32/b=65/t=65/d=65/w=1/layout=inflated"
        for message, case in [
            ("dtype=f64", CASE.replace("f32", "f64")),
            ("layout=inflated", no_short_axis),
        ]:
            with self.subTest(case=case):
                self.fails(5, message, "exec", case, "--in", capsule, "--out", self.dir / "out.safetensors")
                self.assertFalse((self.dir / "out.safetensors").exists())

    def test_nothing_selected(self):
        self.fails(5, "no op matches zzz", "verify", "dynamic_conv", "zzz", "--cases", "1")
        self.fails(5, "no op matches zzz", "list", "zzz", "dynamic_conv")
        self.fails(5, "no op matches zzz", "verify", "--specimens", "*/specimen.*", "zzz")
        self.fails(5, "no selected path serves f64", "list", "--dtype", "f64")
        self.fails(5, "does not serve f64", "verify", "dynamic_conv/cpu", "--dtype", "f64")
        self.fails(5, "no op matches nothing*", "verify", "nothing*")
        self.fails(5, "no op matches nothing*", "list", "nothing*")

    def test_a_run_that_judged_nothing(self):
        # Of some seed the case is empty, and so it is skipped.
        runs = (assay("verify", "mhc_post/cpu", "--cases", "1", "--seed", str(seed), "--max-elements", "1") for seed in range(50))
        result = next(run for run in runs if run.returncode != 0)
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertRegex(" ".join(result.stdout.split()),
                         r" Nothing was judged: empty: there is nothing to compare\.$")

    @unittest.skipIf(json.loads(assay("doctor", "--device", "cpu", "--json").stdout)["gpus"].endswith("found"), "a GPU is here")
    def test_an_absent_device(self):
        self.fails(77, "cuda", "verify", "--device", "cuda")
        self.fails(77, "cuda:3", "verify", "--device", "cuda:3")

    def test_a_run_on_an_absent_device_leaves_no_reports_of_an_earlier_one(self):
        for command in ("verify",), ("run",), ("verify", "--specimens"):
            with self.subTest(command):
                out = self.dir / command[-1]
                self.assertEqual(assay("verify", "mhc_post/cpu", "--cases", "3", "--out", out).returncode, 0)
                result = assay(*command, "mhc_post", "--device", "cuda:99", "--out", out)
                self.assertEqual(result.returncode, 77, result.stderr)
                record = json.loads((out / "run.json").read_text())
                self.assertEqual((record["complete"], record["cases"]), (True, []))
                self.assertTrue(all("--device cuda:99: " in path["reason"] for path in record["not_run"]))
                for name in "report.html", "report.md", "junit.xml":
                    text = (out / name).read_text()
                    if name != "junit.xml":  # it has no place for paths without cases
                        self.assertIn("--device cuda:99: ", text, name)
                    self.assertNotIn("mhc_post/cpu/f32", text, name)

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
