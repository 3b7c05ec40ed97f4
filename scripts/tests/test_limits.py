#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a machine or its limits lack memory, threads or files, no path is to blame: `test_limits.py BUILD`."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import time
import unittest
from pathlib import Path

from installed import TESTS
from murderous_program import SHORT, MurderousTest


class Limits(MurderousTest):
    def test_limits_of_the_shell_are_named(self):
        def replay(limit, case):
            command = f"ulimit {limit}; exec '{self.program}' replay {case}"
            return subprocess.run(["bash", "-c", command], text=True, capture_output=True)

        small, large = replay("-f 1000", "echo/healthy/f32/n=1000"), replay("-f 1000", "echo/healthy/f32/n=1000000")
        self.assertEqual(small.returncode, 0, small.stdout)
        self.assertEqual(large.returncode, 5, large.stdout)
        self.assertIn("skipped: 4194304 bytes of shared memory: File too large\n", large.stdout)
        few = replay("-n 8", "echo/healthy/f32/n=1000")
        self.assertEqual(few.returncode, 70)
        self.assertIn("a worker needs more than 10 files; the limit (ulimit -n) is 8\n", few.stderr)

    def test_without_memory_a_healthy_path_is_skipped(self):
        case, inputs, outputs = "echo/healthy_and_parallel/f32/n=8000000", self.work / "inputs.st", self.work / "outputs.st"
        for command in (["draw", case, "--out", inputs], ["exec", case, "--in", inputs, "--out", outputs]):
            self.assertEqual(self.assay(*command).returncode, 0)
        commands = {
            "replay": [case],
            "draw": [case, "--out", self.work / "again.st"],
            "exec": [case, "--in", inputs, "--out", self.work / "again.st"],
            "judge": [case, "--got", outputs],
        }
        for name, arguments in commands.items():
            codes = []
            for kibibytes in range(80_000, 20_000_000, 40_000):
                command = f"ulimit -v {kibibytes}; exec '{self.program}' {name} {' '.join(map(str, arguments))}"
                result = subprocess.run(["bash", "-c", command], text=True, capture_output=True)
                self.assertIn(result.returncode, (0, 5), f"{command}: {result.stdout}{result.stderr}")
                codes.append(result.returncode)
                if codes[-3:] == [0, 0, 0]:
                    break
            self.assertEqual(set(codes), {0, 5}, name)

    def test_memory_that_nobody_took_is_nobodys_fault(self):
        """A step that no machine has the memory for, and scratch that a limit does not allow."""
        for case in "healthy/f32/n=3/state=after:f32,n=2000000000", "leaves_a_session_when_asked/f32/n=3/state=after:f32,n=1000000000":
            result = self.assay("replay", f"echo/{case}", "--device", "cpu")
            self.assertEqual(result.returncode, 5, result.stdout)
        case, inputs = "echo/healthy_with_scratch/f32/n=1000", self.work / "inputs.st"
        self.assertEqual(self.assay("draw", case, "--out", inputs).returncode, 0)
        limits = range(300_000, 2_000_000, 50_000)
        for arguments, limits in (
            (["replay", case], limits),
            (["exec", case, "--in", inputs, "--out", self.work / "outputs.st"], limits),
            (["replay", "echo/healthy_with_scratch/f32/n=7000000/state=second_call"], range(700_000, 1_500_000, 24_000)),
            (["replay", "echo/healthy_with_scratch/f32/n=18000000/state=second_call"], range(1_000_000, 2_000_000, 100_000)),
        ):
            codes = set()
            for kibibytes in limits:
                command = f"ulimit -v {kibibytes}; exec '{self.program}' {' '.join(map(str, arguments))} --device cpu"
                result = subprocess.run(["bash", "-c", command], text=True, capture_output=True)
                self.assertIn(result.returncode, (0, 5), f"{command}: {result.stdout}{result.stderr}")
                codes.add(result.returncode)
            self.assertEqual(codes, {0, 5}, arguments)

    def test_without_memory_for_threads_or_steps_a_healthy_path_is_skipped(self):
        for case in "n=3", "n=3/state=after:f32,n=30000000", "n=30000/state=others_in_turn":
            for stack in "unlimited", 8192, 256:
                codes = set()
                for kibibytes in range(80_000, 1_200_000, 48_000):
                    command = f"ulimit -s {stack}; ulimit -v {kibibytes}; exec '{self.program}' replay echo/healthy_and_parallel/f32/{case}"
                    result = subprocess.run(["bash", "-c", command], text=True, capture_output=True)
                    self.assertIn(result.returncode, (0, 5), f"{command}: {result.stdout}{result.stderr}")
                    codes.add(result.returncode)
                self.assertIn(5, codes)

    def test_where_threads_never_start_a_healthy_path_is_skipped(self):
        library = self.work / "no_threads.so"
        self.run_ok("c++", "-shared", "-fPIC", "-o", library, TESTS / "planted/threads_never_start.cpp")
        result = self.assay("replay", "echo/healthy_and_parallel/f32/n=3", *SHORT, env=os.environ | {"LD_PRELOAD": str(library)})
        self.assertEqual(result.returncode, 5, result.stdout + result.stderr)
        self.assertIn("skipped: threads do not start; there may be too little memory", result.stdout)

    def test_what_a_path_does_to_its_memory_is_its_fault(self):
        inputs, outputs = self.work / "inputs.st", self.work / "outputs.st"
        self.assertEqual(self.assay("draw", "echo/healthy/f32/n=30000000", "--out", inputs).returncode, 0)
        took = "crashed: the path took memory that was there before it was called: "
        reasons = {"keeps_all_memory": took, "keeps_all_memory_and_files": took, "limits_private_memory_softly": "crashed: the path lowered its process's limits: "}
        for path, reason in reasons.items():
            for command in ["replay"], ["exec", "--in", inputs, "--out", outputs]:
                with self.subTest(path, command=command[0]):
                    result = self.assay(command[0], f"echo/{path}/f32/n=30000000", *command[1:], "--device", "cpu")
                    self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                    self.assertIn(reason, " ".join((result.stdout + result.stderr).split()))
        for steps in "second_call+after:f32,n=30000000", "after:f32,n=3+after:f32,n=30000000":
            result = self.assay("replay", f"echo/keeps_all_memory/f32/n=3/state={steps}", "--device", "cpu")
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn(took, " ".join(result.stdout.split()))

    def test_without_memory_to_copy_or_to_flush_the_caches_there_is_no_time(self):
        out = self.work / "out"
        without_time = without_ceilings = 0
        for kibibytes in range(300_000, 20_000_000, 20_000):
            command = f"ulimit -v {kibibytes}; exec '{self.program}' bench echo/keeps_some_memory --device cpu --out '{out}'"
            result = subprocess.run(["bash", "-c", command], text=True, capture_output=True)
            self.assertIn(result.returncode, (0, 5), result.stderr)
            record = json.loads((out / "run.json").read_text())
            (case,) = record["cases"]
            (device,) = record["machine"]["devices"]
            if "ceilings" not in device:
                self.assertIn("cannot map", device["no_ceilings"])
                self.assertIn("not measured: cpu: cannot map", (out / "report.html").read_text())
                self.assertIn("not measured: cpu: cannot map", (out / "report.md").read_text())
                without_ceilings += 1
            if case["perf"]:
                break
            if case["verdict"] == "pass":
                self.assertIn("cannot map", case["no_perf"])
                without_time += 1
        self.assertGreater(without_time, 0)
        self.assertGreater(without_ceilings, 0)

    def replay_with_memory_for(self, more):
        """Replays a case with two tensors of 120 MB, in a program that gets this much more [bytes] than it has for its own input."""
        program = self.start("replay", "echo/stops/f32/n=30000000")
        worker = self.worker_of(program)
        self.wait_for(lambda: "State:\tT" in Path(f"/proc/{worker}/status").read_text())
        (size,) = [int(line.split()[1]) for line in Path(f"/proc/{program.pid}/status").read_text().splitlines() if line.startswith("VmSize:")]
        resource.prlimit(program.pid, resource.RLIMIT_AS, (2 * [(size << 10) + more]))
        while program.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(worker, signal.SIGCONT)
            time.sleep(0.1)
        return (program.returncode, *program.communicate())

    def test_a_case_for_which_the_program_has_no_memory_is_skipped(self):
        for more, reason in (64 << 20, "134217728 bytes of shared memory: Cannot allocate memory"), (200 << 20, "there is no memory to judge it"):
            with self.subTest(reason):
                code, output, errors = self.replay_with_memory_for(more)
                self.assertEqual(code, 5, errors)
                self.assertIn(f"skipped: {reason}\n", output)


if __name__ == "__main__":
    unittest.main()
