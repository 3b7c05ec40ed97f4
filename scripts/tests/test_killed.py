#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is left of runs and workers that end early: `test_killed.py BUILD` builds scripts/tests/murderous on that build."""

import contextlib
import json
import os
import pty
import random
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

from murderous_program import SHORT, MurderousTest


def workers_of(pid):
    """The children that lead a process group. What workers leave behind does not."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [child for child in children if os.getpgid(child) == child]
    except OSError:
        return []  # one has ended


def leftovers():
    return {path for folder in ("/tmp", "/dev/shm") for path in Path(folder).glob("assay*")}


class Killed(MurderousTest):
    def kill_after(self, count, *args):
        """Kills a run once it has judged so many cases. Returns its folder and its journal."""
        out = self.work / f"killed-{count}-{args[-1].replace('/', '-')}"
        program = self.start(*args, "--out", out)
        journal = out / "journal.jsonl"
        self.wait_for(lambda: journal.exists() and '"running"' in (text := journal.read_text()) and text.count('"case"') >= count)
        program.kill()
        program.communicate()
        return out, journal

    def test_a_resumed_run_keeps_to_its_timeout_and_leaves_paths_that_timed_out(self):
        out, journal = self.kill_after(3, "verify", "--cases", "1000", "--max-elements", "65536", *SHORT, "echo/hang", "echo/hang_deaf", "echo/healthy_too")
        hung = [json.loads(line) for line in journal.read_text().splitlines() if '"verdict":"timeout"' in line]
        self.assertEqual([line["timeouts"] for line in hung], [3, 3])
        other = self.assay("verify", "--resume", out, "--timeout", "1s")
        self.assertEqual(other.returncode, 2)
        self.assertIn("--timeout 1s: the unfinished run in", other.stderr)
        resumed = self.assay("verify", "--resume", out)
        self.assertEqual(resumed.returncode, 1, resumed.stderr)
        cases = json.loads((out / "run.json").read_text())["cases"]
        self.assertEqual(sum(case["path"].startswith("hang") for case in cases), 2)
        self.assertEqual(sum(case["path"] == "healthy_too" for case in cases), 1000)

    def test_a_resumed_run_has_the_timeout_of_its_journal(self):
        out, _ = self.kill_after(0, "verify", "--cases", "1000", *SHORT, "echo/hang")
        self.assertEqual(self.assay("verify", "--resume", out).returncode, 1)
        (case,) = json.loads((out / "run.json").read_text())["cases"]
        self.assertIn("within 0.3 s", case["reason"])

    def on_terminal(self, *args):
        main, terminal = pty.openpty()
        program = subprocess.Popen([self.program, *args], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
                                   cwd=self.work, env=os.environ | {"TERM": "xterm"})
        os.close(terminal)
        said = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(main, 65536):
                said += part
        os.close(main)
        program.wait()
        return said.decode()

    def test_a_resumed_run_counts_each_case_once(self):
        # The path is asked about a case when it is drawn, and again before it is judged.
        out, journal = self.kill_after(600, "verify", "--cases", "1000", "--max-elements", "65536", "--device", "cpu", "echo/serves_even_sizes")
        known = journal.read_text().count('"case"')
        said = re.findall(r"verifying ([\d,]+) of ([\d,]+)", self.on_terminal("verify", "--resume", out))
        done, planned = zip(*[[int(number.replace(",", "")) for number in pair] for pair in said])
        self.assertEqual(set(planned), {1000})
        self.assertGreater(done[0], known)
        self.assertLessEqual(done[-1], 1000)

    def test_the_journal_names_the_running_specimen(self):
        out, _ = self.kill_after(0, "verify", "--specimens", *SHORT[:1], "1h", "--device", "cpu", "echo/specimen.hang")
        self.assertIn("interrupted after 0 cases, in echo/specimen.hang/", self.assay("report", out).stderr)

    def test_an_interrupt_does_not_wait_for_a_path_that_hangs(self):
        program = self.start("verify", "echo/healthy", "echo/hang_deaf", "--cases", "2", "--device", "cpu", "--json", "--out", self.work / "cut")
        self.worker_of(program)
        self.wait_for(lambda: "verifying echo/hang_deaf" in program.stderr.readline())
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        start = time.time()
        output, errors = program.communicate(timeout=20)
        self.assertLess(time.time() - start, 2)
        self.assertEqual(program.returncode, 130, errors)
        self.assertFalse(json.loads(output)["complete"])
        self.wait_for(lambda: not self.processes())

    def test_nothing_is_left_of_a_killed_program(self):
        before = leftovers()
        paths = ("echo/hang_deaf", 3), ("echo/healthy", 3), ("echo/leaves_a_child", 4), ("echo/outlives_its_program", 3), ("echo/leaves_its_group", 3)
        for path, processes in paths:
            program = self.start("verify", path, "--budget", "1h", "--device", "cpu")
            worker = self.worker_of(program)
            if path != "echo/leaves_its_group":
                # It is there before it leads its group.
                self.wait_for(lambda: os.getpgid(worker) == worker)
            self.wait_for(lambda: len(self.processes()) >= processes)
            program.kill()
            program.communicate()
            self.wait_for(lambda: not self.processes())
        self.assertLessEqual(leftovers(), before)

    def test_what_left_its_group_ends_with_its_path(self):
        result = self.assay("verify", "echo/leaves_a_session", "--cases", "3", "--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.processes(), {})

    def kill_workers(self, moments):
        run = ("verify", "echo/healthy", "echo/healthy_too", "--cases", "150", "--device", "cpu", "--json")
        start = time.monotonic()
        whole = json.loads(self.assay(*run).stdout)["cases"]
        seconds = time.monotonic() - start
        before, killed = leftovers(), 0
        for seed in range(moments):
            program = self.start(*run)
            time.sleep(random.Random(seed).uniform(0, seconds))
            workers = workers_of(program.pid)
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            output, errors = program.communicate(timeout=60)
            cases = json.loads(output)["cases"]
            differing = [case for case, healthy in zip(cases, whole) if case["verdict"] != healthy["verdict"]]
            with self.subTest(seed=seed):
                self.assertEqual([case["id"] for case in cases], [case["id"] for case in whole], errors)
                self.assertLessEqual(len(differing), len(workers))
                for case in differing:
                    self.assertEqual(case["verdict"], "crashed")
                    self.assertIn("died of SIGKILL", case["reason"])
                self.assertEqual(program.returncode, 1 if differing else 0, errors)
                self.assertEqual(self.processes(), {})
                self.assertLessEqual(leftovers(), before)
            killed += len(differing)
        self.assertGreater(killed, moments // 4)

    def test_kill_at_random_moments_costs_at_most_the_running_case(self):
        self.kill_workers(4)

    @unittest.skipUnless(os.environ.get("ASSAY_NIGHTLY"), "nightly: more of the same")
    def test_kill_at_100_random_moments_costs_at_most_the_running_case(self):
        self.kill_workers(100)

    def kill_starting_workers(self, count, code):
        """On a busy machine a worker may have started, or done its work, before it is seen. Then this starts anew."""
        for _ in range(20):
            program = self.start("verify", "echo/healthy", "--cases", "3", "--device", "cpu")
            left = count
            while left > 0 and program.poll() is None:
                for worker in workers_of(program.pid):
                    os.kill(worker, signal.SIGKILL)
                    left -= 1
                    while worker in workers_of(program.pid):
                        pass
            _, errors = program.communicate(timeout=60)
            if (left, program.returncode) == (0, code):
                return errors
        self.fail(f"of {count} workers {left} were not killed; exit code {program.returncode}: {errors}")

    def test_a_worker_that_is_killed_while_it_starts_is_started_again(self):
        self.kill_starting_workers(2, 0)
        self.assertIn("a worker did not start: the path's process died of SIGKILL", self.kill_starting_workers(3, 70))

    def test_processes_of_others_go_on(self):
        """A shell that becomes the program leaves it a child, whose own child is an orphan soon."""
        script = f"""(sh -c 'sleep 97.5 >/dev/null 2>&1 & echo $! > {self.work}/other; sleep 0.3') &
                     exec {self.program} verify echo/leaves_a_session echo/abort --cases 100 --device cpu -q"""
        subprocess.run(["sh", "-c", script], capture_output=True, cwd=self.work)
        os.kill(int((self.work / "other").read_text()), signal.SIGKILL)  # throws if it has ended
        self.assertEqual(self.processes(), {})

    def test_a_long_run_ends_at_once_and_is_rendered_later(self):
        out = self.work / "long"
        program = self.start("verify", "echo/healthy", "--cases", "1000000", "--max-elements", "64", "--out", out, "-q", "--device", "cpu")
        self.wait_for(lambda: (out / "journal.jsonl").exists() and (out / "journal.jsonl").stat().st_size > (9 << 20), 60)
        self.assertIn(f"process {program.pid} has been writing a run there since", self.assay("gate", out, out).stderr)
        begin = time.time()
        program.send_signal(signal.SIGINT)
        printed, errors = program.communicate(timeout=60)
        self.assertLess(time.time() - begin, 1)
        self.assertEqual((program.returncode, printed), (130, ""))
        self.assertRegex(errors, r"interrupted after [\d,]+ cases; .*long keeps them: `report` renders it, `\S+ verify --resume \S+` goes on")
        self.assertEqual([path.name for path in out.iterdir()], ["journal.jsonl"])
        self.assertEqual(self.assay("gate", out, out).returncode, 5)
        self.assertEqual(self.assay("report", out).returncode, 0)

if __name__ == "__main__":
    unittest.main()
