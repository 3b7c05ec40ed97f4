#!/ usr / bin / env python3
#SPDX - License - Identifier : Apache - 2.0
"""The program as its users see it: data, messages, files and exit codes.   usage: test_program.py ASSAY"""
import json
import os
import pathlib
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
        self.assertEqual([op["op"] for op in ops], ["dynamic_conv", "dynamic_conv_grad"])
        self.assertEqual(ops[0]["paths"][0]["path"], "cpu")

    def test_doctor_measures_the_copy_bandwidth(self):
        doctor = json.loads(assay("doctor", "--device", "cpu", "--json").stdout)
        self.assertGreater(doctor["devices"][0]["copy_bytes_per_s"], 1e8)

    def test_verify_leaves_every_file_and_a_valid_record(self):
        result = assay("verify", "--device", "cpu", "--cases", "8", "--out", self.dir / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        names = {path.name for path in (self.dir / "out").iterdir()}
        self.assertEqual(names, {"run.json", "report.html", "report.md", "junit.xml", "benchmark.json"})
        record = json.loads((self.dir / "out/run.json").read_text())
        schema = json.loads((SOURCE / "reports/schema/assay.run-1.schema.json").read_text())
        jsonschema.validate(record, schema)
        self.assertTrue(record["complete"])
        self.assertEqual({case["verdict"] for case in record["cases"]}, {"pass"})
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

    def test_json_and_tables_go_to_stdout_and_progress_to_stderr(self):
        result = assay("verify", "dynamic_conv", "--device", "cpu", "--cases", "2", "--json")
        json.loads(result.stdout)
        self.assertIn("verifying", result.stderr)
        self.assertEqual(assay("verify", "--device", "cpu", "--cases", "2", "--json", "-q").stderr, "")

    def test_options_have_environment_twins(self):
        twin = assay("verify", "--device", "cpu", "--json", env={"ASSAY_CASES": "3", "ASSAY_SEED": "9", "ASSAY_DTYPE": "f16"})
        record = json.loads(twin.stdout)
        self.assertEqual(record["seed"], 9)
        self.assertEqual({case["dtype"] for case in record["cases"]}, {"f16"})
        self.assertEqual(len(record["cases"]), 6)

    def test_report_renders_a_record_again(self):
        assay("verify", "--device", "cpu", "--cases", "3", "--out", self.dir / "a")
        result = assay("report", self.dir / "a/run.json", "--out", self.dir / "b")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("run.json", "report.html", "report.md", "junit.xml", "benchmark.json"):
            self.assertEqual((self.dir / "a" / name).read_text(), (self.dir / "b" / name).read_text(), name)

    def test_specimens_are_all_caught(self):
        result = assay("verify", "--specimens", "--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotIn("SURVIVED", result.stdout)

    def test_a_specimen_that_survives_fails_the_command(self):
#One tiny case cannot show a wrapped 32 - bit offset.
        result = assay("verify", "--specimens", "*/specimen.narrow_offsets", "--cases", "1", "--device", "cpu")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("SURVIVED", result.stdout)


class Failures(ProgramTest):
    def test_replay_of_a_pass_and_of_a_failure(self):
        self.assertEqual(assay("replay", CASE).returncode, 0)
        result = assay("replay", WRONG)
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected", result.stdout)

    def test_a_failure_leaves_a_capsule_that_replays(self):
        self.assertEqual(assay("replay", WRONG, "--out", self.dir).returncode, 1)
        (capsule,) = (self.dir / "capsules").iterdir()
        again = assay("replay", capsule)
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertEqual(again.stdout, assay("replay", WRONG).stdout)

    def test_interrupted_runs_write_an_incomplete_record(self):
        process = subprocess.Popen([ASSAY, "verify", "--device", "cpu", "--budget", "1h", "--out", self.dir, "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertFalse(json.loads((self.dir / "run.json").read_text())["complete"])


class BadInput(ProgramTest):
    def test_usage_errors_name_the_thing_and_its_value(self):
        for message, *args in [
            ("nonsense", "nonsense"),
            ("--nonsense", "verify", "--nonsense"),
            ("'f12'", "verify", "--dtype", "f12"),
            ("--device moon", "list", "--device", "moon"),
            ("--shard 3/2", "verify", "--shard", "3/2"),
            ("--budget soon", "verify", "--budget", "soon"),
            ("--cases", "verify", "--cases", "0"),
            ("'nothing'", "replay", "nothing/cpu/f32/b=1/t=1/d=1/w=1"),
            ("has no path 'gpu'", "replay", "dynamic_conv/gpu/f32/b=1/t=1/d=1/w=1"),
            ("'w' is missing", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1"),
            ("w=9", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1/w=9"),
            ("no dimension 'q'", "replay", "dynamic_conv/cpu/f32/b=1/t=1/d=1/w=1/q=2"),
            ("data=odd", "replay", CASE.replace("normal", "odd")),
            ("seed=-1", "replay", CASE.replace("seed=7", "seed=-1")),
            ("missing.json", "report", "missing.json"),
            ("missing.safetensors", "replay", "missing.safetensors"),
        ]:
            with self.subTest(args=args):
                self.fails(2, message, *args)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = assay("list", stdout=full)
        self.assertEqual(result.returncode, 2)
        self.assertIn("standard output", result.stderr)

    def test_an_output_directory_that_cannot_be_made(self):
        (self.dir / "file").write_text("")
        self.fails(2, "file/out", "verify", "--cases", "1", "--out", self.dir / "file/out")

    def test_foreign_and_truncated_records(self):
        (self.dir / "a.json").write_text('{"schema": "other/1"}')
        self.fails(2, "other/1", "report", self.dir / "a.json")
        (self.dir / "b.json").write_text('{"schema": "assay.run/1", ')
        self.fails(2, "b.json", "report", self.dir / "b.json")

    def test_nothing_selected(self):
        self.fails(5, "no path matches cheri*", "verify", "cheri*")
        self.fails(5, "no path matches cheri*", "list", "cheri*")

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
            result = assay("bench", "--strict-env", "--device", "cpu")
            self.assertEqual(result.returncode, 6, result.stderr)
            self.assertIn("load", result.stderr)
        finally:
            for process in busy:
                process.kill()


if __name__ == "__main__":
    unittest.main()
