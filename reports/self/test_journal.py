#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that do not finish: what they leave, and how another run goes on with it.   usage: test_journal.py ASSAY"""
import json
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import jsonschema

from program import ASSAY, CASE, ENVIRONMENT, WRONG, ProgramTest, assay

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "reports/schema"
REPORTS = {"report.html", "report.md", "junit.xml", "benchmark.json"}
# About half a second of judging.
VERIFY = ("verify", "dynamic_conv/cpu", "mhc_post/cpu", "--cases", "60", "--seed", "5")


def journal_validator():
    run, journal = (json.loads((SCHEMAS / name).read_text()) for name in ("assay.run-1.schema.json", "assay.journal-1.schema.json"))
    resolver = jsonschema.RefResolver.from_schema(journal, store={run["$id"]: run})
    return jsonschema.Draft202012Validator(journal, resolver=resolver)


def without_times(cases):
    return [{name: value for name, value in case.items() if name != "seconds"} for case in cases]


class JournalTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "out"
        self.journal = self.out / "journal.jsonl"

    def start(self, *args, **kwargs):
        process = subprocess.Popen([ASSAY, *args, "--out", self.out], text=True, env=ENVIRONMENT, stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, **kwargs)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def wait_for_cases(self, count):
        end = time.monotonic() + 60
        while self.verdicts() < count:
            self.assertLess(time.monotonic(), end, "no verdict")
            time.sleep(0.005)

    def verdicts(self):
        return self.journal.read_text().count('"case":') if self.journal.exists() else 0

    def killed_run(self, *args, cases=10):
        process = self.start(*(args or VERIFY))
        self.wait_for_cases(cases)
        process.kill()
        process.wait()

    def names(self):
        return {path.name for path in self.out.iterdir()}

    def record(self):
        return json.loads((self.out / "run.json").read_text())


class KilledRuns(JournalTest):
    def test_a_killed_run_is_reported_as_what_it_is(self):
        self.assertEqual(assay("verify", "mhc_post/cpu", "--cases", "3", "--out", self.out).returncode, 0)
        self.killed_run()
        # Yesterday's reports are not taken for today's.
        self.assertEqual(self.names(), {"journal.jsonl"})
        lines = self.journal.read_text().splitlines()
        validator = journal_validator()
        for line in lines[:-1]:
            validator.validate(json.loads(line))
        with self.assertRaises(jsonschema.ValidationError):
            validator.validate({"at": 1, "running": 7, "device": "cpu"})
        before = self.journal.read_bytes()
        result = assay("report", self.out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.journal.read_bytes(), before)
        text = f"nterrupted after {self.verdicts()} of 120 cases"
        self.assertIn(text, result.stderr)
        self.assertEqual(self.names(), REPORTS | {"journal.jsonl"})
        for name in REPORTS - {"benchmark.json"}:
            self.assertIn(text, (self.out / name).read_text(), name)
        copied = assay("report", self.out, "--out", self.dir / "copy")
        self.assertEqual(copied.returncode, 0, copied.stderr)
        record = json.loads((self.dir / "copy/run.json").read_text())
        jsonschema.validate(record, json.loads((SCHEMAS / "assay.run-1.schema.json").read_text()))
        self.assertEqual((record["complete"], record["planned"], len(record["cases"])), (False, 120, self.verdicts()))

    def test_a_budget_plans_no_number(self):
        self.killed_run("verify", "mhc_post/cpu", "--budget", "1h")
        self.assertIn(f"interrupted after {self.verdicts()} cases", assay("report", self.out).stderr)

    def test_gate_and_compare_read_the_journal(self):
        self.killed_run()
        self.assertEqual(assay("verify", *VERIFY[1:], "--out", self.dir / "whole").returncode, 0)
        result = assay("gate", self.dir / "whole", self.out)
        self.assertEqual(result.returncode, 5, result.stdout)
        self.assertIn(f"interrupted after {self.verdicts()} of 120 cases", result.stdout)
        self.assertEqual(assay("compare", self.out, self.dir / "whole").returncode, 0)

    def kill_and_resume(self, moments):
        start = time.monotonic()
        whole = without_times(json.loads(assay(*VERIFY, "--json", "-q").stdout)["cases"])
        seconds = time.monotonic() - start
        begun = 0
        for seed in range(moments):
            process = self.start(*VERIFY, "-q")
            time.sleep(random.Random(seed).uniform(0, seconds))
            process.kill()
            process.wait()
            judged = self.verdicts()
            if process.returncode == 0 or not self.journal.exists() or self.journal.stat().st_size == 0:
                continue  # it was too late or too early
            begun += 1
            named = self.journal.read_text().count('"running":')
            self.assertLessEqual(named - judged, 1)
            self.assertEqual(assay("report", self.out).returncode, 0)
            resumed = assay("verify", "--resume", self.out, "-q")
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            self.assertEqual(self.names(), REPORTS | {"run.json"})
            self.assertEqual(without_times(self.record()["cases"]), whole)
            self.assertTrue(self.record()["complete"])
        self.assertGreater(begun, moments // 4)

    def test_kill_at_random_moments_loses_at_most_the_running_case(self):
        self.kill_and_resume(3)

    @unittest.skipUnless(os.environ.get("ASSAY_NIGHTLY"), "nightly: more of the same")
    def test_kill_at_100_random_moments_loses_at_most_the_running_case(self):
        self.kill_and_resume(100)


class Resume(JournalTest):
    def test_a_resumed_run_judges_only_what_is_missing(self):
        self.killed_run()
        judged = self.verdicts()
        resumed = assay("verify", "--resume", self.out)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertNotIn(f"after {judged}", resumed.stderr)
        self.assertEqual(len(self.record()["cases"]), 120)
        again = assay("verify", "--resume", self.out)
        self.assertEqual(again.returncode, 2)
        self.assertIn("holds no unfinished run: no journal.jsonl", again.stderr)

    def test_bench_goes_on_too(self):
        process = self.start("bench", "mhc_post/cpu", "--dtype", "bf16", "--sweep", "n=64,128")
        while process.poll() is None and not (self.journal.exists() and '"running"' in self.journal.read_text()):
            time.sleep(0.005)
        process.kill()
        process.communicate()
        resumed = assay("bench", "--resume", self.out, "-q")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        record = self.record()
        jsonschema.validate(record, json.loads((SCHEMAS / "assay.run-1.schema.json").read_text()))
        self.assertTrue(all(case["perf"]["floor_ns"] > 0 for case in record["cases"]))

    def test_samples_go_on_for_a_minimal_time_also_beyond_the_timeout(self):
        samples = []
        # One call tells how many there are to be; on a busy machine it may take long.
        while len(samples) < 3 and max(samples, default=0) <= 300:
            result = assay("bench", "mhc_post/cpu", "--dtype", "bf16", "--sweep", "n=1", "--timeout", "3s", "--min-time", "4s",
                           "--out", self.out / str(len(samples)))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            (case, ) = json.loads((self.out / str(len(samples)) / "run.json").read_text())["cases"]
            samples.append(len(case["perf_warm"]["samples_ns"]))
        self.assertGreater(max(samples), 300)

    def test_a_budget_counts_what_was_spent(self):
        process = self.start("verify", "mhc_post/cpu", "--budget", "8s")
        self.wait_for_cases(1)
        time.sleep(6)
        process.kill()
        process.wait()
        self.assertEqual(assay("verify", "--resume", self.out, "-q").returncode, 0)
        self.assertLess(self.record()["seconds"], 12)

    def test_other_options_are_refused_by_name(self):
        self.killed_run()
        for message, *args in [
            ("--seed 6: the unfinished run in", "verify", "--seed", "6"),
            ("--dtype f32: the unfinished run in", "verify", "--dtype", "f32"),
            ("--cases 7: the unfinished run in", "verify", "--cases", "7"),
            ("FILTER mhc_post/cpu: the unfinished run in", "verify", "mhc_post/cpu"),
            ("command bench: the unfinished run in", "bench"),
            ("--out excludes --resume", "verify", "--out", "elsewhere"),
            ("--max-failures 2: the unfinished run in", "verify", "--max-failures", "2"),
            ("--timeout 5s: the unfinished run in", "verify", "--timeout", "5s"),
            ("--no-isolate yes: the unfinished run in", "verify", "--no-isolate"),
            ("--no-shrink yes: the unfinished run in", "verify", "--no-shrink"),
            ("--specimens yes: the unfinished run in", "verify", "--specimens"),
        ]:
            with self.subTest(args=args):
                self.fails(2, message, *args, "--resume", self.out)
        # The same, typed again.
        self.assertEqual(assay(*VERIFY, "--resume", self.out, "-q").returncode, 0)

    def test_an_option_in_the_journal_that_makes_no_sense_is_named_as_such(self):
        self.killed_run()
        head, *rest = self.journal.read_text().splitlines(keepends=True)
        self.journal.write_text(head.replace('"--cases":"60"', '"--cases":"sixty"') + "".join(rest))
        self.fails(2, f"the unfinished run in {self.out}: --cases sixty is not an integer", "verify", "--resume", self.out)

    def test_a_run_of_specimens_goes_on(self):
        # None of them races.
        specimens = ("verify", "--specimens", "dynamic_conv", "--device", "cpu")
        self.killed_run(*specimens, cases=5)
        resumed = assay("verify", "--resume", self.out, "-q")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        whole = json.loads(assay(*specimens, "--json", "-q").stdout)
        self.assertEqual(self.record()["specimens"], whole["specimens"])
        self.assertEqual(without_times(self.record()["cases"]), without_times(whole["cases"]))

    def test_a_killed_demo_goes_on(self):
        whole = assay("demo", "-q", "--out", self.dir / "whole")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.killed_run("demo", cases=5)
        resumed = assay("demo", "-q", "--resume", self.out)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        cases = json.loads((self.dir / "whole/run.json").read_text())["cases"]
        self.assertEqual([case["id"] for case in self.record()["cases"]], [case["id"] for case in cases])
        self.assertEqual(self.record()["timeout"], "3s")

    def test_another_machine_or_program_is_refused(self):
        self.killed_run()
        text = self.journal.read_text()
        for field, old, new in [("tool", '"compiler":"', '"compiler":"another '), ("machine", '"host_os":"', '"host_os":"another ')]:
            with self.subTest(field=field):
                self.journal.write_text(text.replace(old, new, 1))
                self.fails(2, f"the {field} of the run there was", "verify", "--resume", self.out)


class TwoRuns(JournalTest):
    def test_the_second_run_into_a_folder_is_refused(self):
        first = self.start("verify", "mhc_post/cpu", "--budget", "1h", "-q")
        self.wait_for_cases(1)
        started = json.loads(self.journal.read_text().splitlines()[0])["writer"]["started"]
        message = f"process {first.pid} has been writing a run there since {started}"
        self.fails(2, message, "verify", "mhc_post/cpu", "--cases", "1", "--out", self.out)
        self.assertEqual(self.fails(2, message, "replay", CASE, "--out", self.out).stdout, "")
        self.fails(2, message, "verify", "--resume", self.out)
        self.fails(2, message, "report", self.out)
        self.fails(2, message, "report", self.out, "--out", self.dir / "copy")
        self.assertIsNone(first.poll())


class FullDisk(JournalTest):
    def test_what_was_judged_before_the_disk_was_full_is_kept(self):
        # The limit, which stands for a full disk, is also one of the memory that workers share.
        command = f"ulimit -f 40; exec '{ASSAY}' {' '.join(VERIFY)} -q --no-isolate --out '{self.out}'"
        result = subprocess.run(["bash", "-c", command], text=True, capture_output=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(f"cannot write {self.journal}: File too large\n", result.stderr)
        self.assertIn(f"{self.out} keeps what was judged; `{ASSAY} verify --resume {self.out}` goes on\n", result.stderr)
        self.assertGreater(self.verdicts(), 5)
        resumed = assay("verify", "--resume", self.out, "-q")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(len(self.record()["cases"]), 120)

    def test_the_journal_in_memory_has_a_name(self):
        command = f"ulimit -f 40; exec '{ASSAY}' {' '.join(VERIFY)} -q --no-isolate"
        result = subprocess.run(["bash", "-c", command], text=True, capture_output=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("cannot write the journal in memory: File too large\n", result.stderr)


class Signals(JournalTest):
    def test_each_signal_ends_the_run_with_its_reports(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(number):
                process = self.start("verify", "mhc_post/cpu", "--budget", "1h")
                self.wait_for_cases(1)
                start = time.monotonic()
                process.send_signal(number)
                errors = process.stderr.read()
                process.wait()
                self.assertLess(time.monotonic() - start, 1.5)
                self.assertEqual(process.returncode, 130, errors)
                self.assertEqual(self.names(), REPORTS | {"run.json", "journal.jsonl"})
                self.assertRegex(errors, rf"assay: interrupted after {len(self.record()['cases'])} cases?(, in \S+)?\n")
                self.assertTrue(errors.endswith(f"\nassay: `{ASSAY} verify --resume {self.out}` goes on\n"), errors)
                self.assertFalse(self.record()["complete"])
                self.journal.unlink()

    def test_an_interrupted_run_goes_on(self):
        process = self.start(*VERIFY, "-q")
        self.wait_for_cases(5)
        process.send_signal(signal.SIGINT)
        process.wait()
        self.assertEqual(assay("verify", "--resume", self.out, "-q").returncode, 0)
        self.assertEqual(self.names(), REPORTS | {"run.json"})
        self.assertEqual(len(self.record()["cases"]), 120)


class Streams(JournalTest):
    RUN = ("verify", "mhc_post/cpu", "--cases", "5")

    def run_in_shell(self, redirections):
        command = " ".join([str(ASSAY), *self.RUN, "--out", str(self.out), redirections])
        return subprocess.run(["bash", "-c", command], text=True, capture_output=True)

    def test_no_stream_costs_a_report(self):
        for redirections, code in [
            (">&-", 2), (">/dev/full", 2), ("> >(true)", 0),
            ("2>&-", 0), ("2>/dev/full", 0), ("2> >(true)", 0),
            ("<&- >&- 2>&-", 2),
        ]:
            with self.subTest(redirections):
                result = self.run_in_shell(redirections)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(self.names(), REPORTS | {"run.json"})
                self.assertEqual(len(self.record()["cases"]), 5)
                for name in REPORTS:
                    (self.out / name).unlink()

    def test_a_reader_that_went_away_is_no_error(self):
        read, write = os.pipe()
        os.close(read)
        for code, args in [(0, ["list"]), (0, ["list", "--json"]), (0, ["--help"]), (1, ["replay", WRONG]),
                           (0, [*self.RUN, "-q", "--out", self.out])]:
            with self.subTest(args=args):
                result = assay(*args, stdout=write)
                self.assertEqual((result.returncode, result.stderr), (code, ""))
        os.close(write)
        self.assertEqual(self.names(), REPORTS | {"run.json"})


class Records(JournalTest):
    def test_report_leaves_the_record_as_it_is(self):
        self.assertEqual(assay("replay", CASE, "--out", self.out).returncode, 0)
        record = self.record()
        record["of_another_program"] = {"kept": [1, 2]}
        (self.out / "run.json").write_text(json.dumps(record))
        before = (self.out / "run.json").stat().st_mtime_ns, (self.out / "run.json").read_bytes()
        self.assertEqual(assay("report", self.out).returncode, 0)
        self.assertEqual(((self.out / "run.json").stat().st_mtime_ns, (self.out / "run.json").read_bytes()), before)
        self.assertEqual(assay("report", self.out, "--out", self.dir / "copy").returncode, 0)
        self.assertEqual((self.dir / "copy/run.json").read_bytes(), before[1])


if __name__ == "__main__":
    unittest.main()
