#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The count at the end of scripts/test, on results written here."""

import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

COUNT = Path(__file__).resolve().parents[1] / "checks" / "count.py"
PASSED = '<testcase name="a" status="run" time="1"/>'
FAILED = '<testcase name="b" status="fail"><failure message=""/></testcase>'
SKIPPED = '<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
TOLD = SKIPPED.replace("</testcase>", "<system-out>skipped: no nvcc\n</system-out></testcase>")
MISSING = '<testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>'

# What GoogleTest writes.
G_PASSED = '<testcase classname="A" name="p" status="run" result="completed" time="0.5"/>'
G_FAILED = '<testcase classname="A" name="f" status="run" result="completed"><failure message="no"/></testcase>'
G_SKIPPED = ('<testcase classname="A" name="s" status="run" result="skipped">'
             '<skipped message="a_test.cpp:22&#x0A;no NVIDIA driver"/></testcase>')


def lines(*steps, shards=None, files=None):
    """Exit status and lines for steps given as (test cases or None, exit status); shards: {test: test cases}; files of each
    step's folder: {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for i, (cases, status) in enumerate(steps):
            results = Path(folder) / f"step{i}" / "test-results"
            results.mkdir(parents=True)
            if cases is not None:
                (results / "ctest.xml").write_text(f"<testsuite>{cases}</testsuite>")
            for name, parts in (shards or {}).items():
                (results / f"{name}.xml").write_text(f"<testsuites>{parts}</testsuites>")
            for path, text in (files or {}).items():
                (results.parent / path).parent.mkdir(parents=True, exist_ok=True)
                (results.parent / path).write_text(text)
            arguments.append(f"{results.parent}={status}:60:30")
        done = subprocess.run([sys.executable, COUNT, *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()


def ninja_log(*steps):
    """A file of that name for steps given as (seconds, output, seconds since it was written)."""
    rows = [f"0\t{took}000\t{time.time_ns() - ago * 10**9}\t{output}\tx\n" for took, output, ago in steps]
    return {".ninja_log": "# ninja log v5\n" + "".join(rows)}


def last_line(*steps, **options):
    status, printed = lines(*steps, **options)
    return status, printed[-1]


class Count(unittest.TestCase):
    def test_sums_steps(self):
        self.assertEqual(last_line((PASSED, 0), (PASSED + PASSED, 0)), (0, "3 passed, 0 failed"))

    def test_skipped_is_named(self):
        self.assertEqual(last_line((PASSED + SKIPPED, 0)), (0, "1 passed, 0 failed, 1 skipped"))

    def test_reasons_are_counted(self):
        printed = lines((PASSED + TOLD + SKIPPED, 0), (TOLD, 0))[1]
        self.assertEqual(printed[-3:], ["2 skipped: no nvcc", "1 skipped: no reason given", "1 passed, 0 failed, 3 skipped"])

    def test_names_what_took_longest_to_compile(self):
        log = ninja_log((2, "CMakeFiles/a.dir/kernels/a.cpp.o", 0), (1, "CMakeFiles/a.dir/kernels/b.cpp.o", 80))
        self.assertIn("longest to compile: kernels/a.cpp.o 2 s", lines((PASSED, 0), files=log)[1][0])

    def test_steps_of_earlier_builds_do_not_count(self):
        log = ninja_log((9, "CMakeFiles/a.dir/kernels/a.cpp.o", 200), (2, "CMakeFiles/a.dir/kernels/b.cpp.o", 0))
        self.assertIn("longest to compile: kernels/b.cpp.o 2 s", lines((PASSED, 0), files=log)[1][0])
        self.assertEqual(lines((None, 1), files=log)[1][0], "step0: build 60 s, tests 30 s")

    def test_names_a_file_of_several_that_are_compiled_together(self):
        unity = "CMakeFiles/a.dir/Unity/unity_0_cxx.cxx"
        files = ninja_log((9, f"{unity}.o", 0)) | {unity: '#include "/src/reports/render/b.cpp"\n#include "/src/c.cpp"\n'}
        self.assertIn("longest to compile: reports/render/b.cpp and 1 more 9 s", lines((PASSED, 0), files=files)[1][0])

    def test_failure(self):
        status, printed = lines((PASSED + FAILED, 8))
        self.assertEqual((status, printed[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("FAILED step0: b", printed)

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

    def test_tests_of_a_shard_count_in_its_place(self):
        printed = lines((PASSED, 0), shards={"a": G_PASSED + G_PASSED + G_SKIPPED})[1]
        self.assertEqual(printed[-2:], ["1 skipped: no NVIDIA driver", "2 passed, 0 failed, 1 skipped"])

    def test_failed_test_of_a_shard_counts_once(self):
        self.assertEqual(last_line((FAILED, 8), shards={"b": G_PASSED + G_FAILED}), (1, "1 passed, 1 failed"))

    def test_shard_that_crashed_is_a_failure(self):
        self.assertEqual(last_line((PASSED + FAILED, 8)), (1, "1 passed, 1 failed"))
        self.assertEqual(last_line((FAILED, 8), shards={"b": G_PASSED}), (1, "1 passed, 1 failed"))
        both = FAILED + FAILED.replace('"b"', '"e"')
        self.assertEqual(last_line((both, 8), shards={"b": G_PASSED}), (1, "1 passed, 2 failed"))

    def test_times_of_steps_and_of_the_slowest_tests(self):
        printed = lines((PASSED, 0), shards={"a": G_PASSED + G_PASSED.replace("0.5", "7.25")})[1]
        self.assertEqual(printed[0], "step0: build 60 s, tests 30 s")
        self.assertEqual(printed[1], "     7.2 s  step0: A.p")


if __name__ == "__main__":
    unittest.main()
