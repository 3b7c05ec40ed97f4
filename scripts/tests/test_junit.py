#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The count at the end of scripts/test, on results written here."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

JUNIT = Path(__file__).resolve().parents[1] / "checks" / "junit.py"
PASSED = '<testcase name="a" status="run"/>'
FAILED = '<testcase name="b" status="fail"><failure message=""/></testcase>'
SKIPPED = '<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
REASON = "<system-out>a_test.cpp:22: Skipped\nno NVIDIA driver\n</system-out>"
MISSING = '<testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>'


def lines(*steps):
    """Exit status and lines for steps given as (test cases or None, exit status)."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for i, (cases, status) in enumerate(steps):
            file = Path(folder) / f"step{i}.xml"
            if cases is not None:
                file.write_text(f"<testsuite>{cases}</testsuite>")
            arguments.append(f"{file}={status}")
        done = subprocess.run([sys.executable, JUNIT, *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()


def last_line(*steps):
    status, printed = lines(*steps)
    return status, printed[-1]


class Count(unittest.TestCase):
    def test_sums_steps(self):
        self.assertEqual(last_line((PASSED, 0), (PASSED + PASSED, 0)), (0, "3 passed, 0 failed"))

    def test_skipped_is_named(self):
        self.assertEqual(last_line((PASSED + SKIPPED, 0)), (0, "1 passed, 0 failed, 1 skipped"))

    def test_reasons_are_counted(self):
        told = SKIPPED.replace("</testcase>", REASON + "</testcase>")
        self.assertEqual(lines((PASSED + told + SKIPPED, 0), (told, 0))[1],
                         ["2 skipped: no NVIDIA driver", "1 skipped: no reason given", "1 passed, 0 failed, 3 skipped"])

    def test_failure(self):
        self.assertEqual(last_line((PASSED + FAILED, 8)), (1, "1 passed, 1 failed"))

    def test_missing_program_is_a_failure(self):
        self.assertEqual(last_line((PASSED + MISSING, 8)), (1, "1 passed, 1 failed"))

    def test_step_without_results_is_a_failure(self):
        self.assertEqual(last_line((PASSED, 0), (None, 1)), (1, "1 passed, 1 failed"))

    def test_step_that_ran_nothing_is_a_failure(self):
        self.assertEqual(last_line((PASSED, 0), ("", 0)), (1, "1 passed, 1 failed"))

    def test_status_without_a_failed_test_is_a_failure(self):
        self.assertEqual(last_line((PASSED, 8)), (1, "1 passed, 1 failed"))

    def test_only_skipped_is_not_enough(self):
        self.assertEqual(last_line((SKIPPED, 0)), (1, "0 passed, 0 failed, 1 skipped"))


if __name__ == "__main__":
    unittest.main()
