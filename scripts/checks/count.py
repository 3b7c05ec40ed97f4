#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums test runs: `count.py STEP=STATUS:BUILD_SECONDS:TEST_SECONDS...` prints where the time went, why tests were
skipped, and last `N passed, N failed`, with `, N skipped` if any were.

STEP is a build folder whose test-results/ holds ctest.xml, which `ctest --output-junit` wrote, and <test>.xml for each
CTest test that is a shard of a GoogleTest program: its tests count in its place. STATUS is the exit status of the step.
A step that broke off, and a shard without results, count as one failure. Exits with 0 iff nothing failed and something
passed.
"""

import re
import sys
import xml.etree.ElementTree as xml
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SLOWEST = 20  # tests that are named


@dataclass
class Test:
    step: str
    name: str
    outcome: str  # passed, failed, skipped
    seconds: float
    reason: str = ""  # why it was skipped


def of_googletest(step, file):
    """The tests of a shard; none if it broke off before it wrote them."""
    if not file.exists():
        return
    for case in xml.parse(file).iter("testcase"):
        skipped = case.find("skipped")
        failed = case.find("failure") is not None or case.get("status") != "run"
        outcome = "failed" if failed else "passed" if skipped is None else "skipped"
        # The message is "<file>:<line>\n<what GTEST_SKIP() << ... said>".
        reason = "" if skipped is None else skipped.get("message", "").partition("\n")[2].strip() or "no reason given"
        yield Test(step, f"{case.get('classname')}.{case.get('name')}", outcome, float(case.get("time", 0)), reason)


def of_ctest(step, case):
    skipped = case.find("skipped")
    # CTest also says "skipped" of a test whose program is not there.
    if case.get("status") == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_")):
        said = re.search(r"^skipped: (.+)", case.findtext("system-out", ""), re.MULTILINE)
        return Test(step, case.get("name"), "skipped", 0, said[1] if said else "no reason given")
    outcome = "passed" if case.get("status") == "run" else "failed"
    return Test(step, case.get("name"), outcome, float(case.get("time", 0)))


def tests_of(folder):
    results = folder / "test-results"
    if not (results / "ctest.xml").exists():
        return
    for case in xml.parse(results / "ctest.xml").iter("testcase"):
        whole = of_ctest(folder.name, case)
        parts = list(of_googletest(folder.name, results / f"{whole.name}.xml"))
        yield from parts
        # A shard fails without a failed test when it crashes or times out.
        if not parts or (whole.outcome == "failed" and all(part.outcome != "failed" for part in parts)):
            yield whole


def slowest_compiled(folder, seconds):
    """The longest step of the build in seconds and its output, from Ninja's log, or None. The log also has what earlier
    builds made; this build and its tests took `seconds`."""
    log, tested = folder / ".ninja_log", folder / "test-results" / "ctest.xml"
    if not log.exists() or not tested.exists():
        return None
    begin = (tested.stat().st_mtime - seconds - 1) * 1e9  # [ns] less what `seconds` was rounded by
    rows = [line.split("\t") for line in log.read_text().splitlines()[1:]]
    times = {row[3]: (int(row[1]) - int(row[0])) / 1000 for row in rows if len(row) > 3 and int(row[2]) > begin}
    return max(((seconds, output) for output, seconds in times.items()), default=None)


def named(folder, output):
    """An object by its source: CMake compiles several files together, and this names the first."""
    together = folder / output.removesuffix(".o")
    files = re.findall(r'#include "(.*)"', together.read_text()) if "/Unity/" in output and together.exists() else []
    if not files:
        return output.split("/", 2)[-1]
    return f"{'/'.join(Path(files[0]).parts[-3:])} and {len(files) - 1} more"


def main():
    counts, reasons, tests = Counter(), Counter(), []
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
        return 0
    for argument in sys.argv[1:]:
        folder, _, told = argument.rpartition("=")
        status, build_seconds, test_seconds = told.split(":")
        folder = Path(folder)
        of_step = list(tests_of(folder))
        print(f"{folder.name}: build {build_seconds} s, tests {test_seconds} s", end="")
        longest = slowest_compiled(folder, int(build_seconds) + int(test_seconds))
        print(f"; longest to compile: {named(folder, longest[1])} {longest[0]:.0f} s" if longest else "")
        if not of_step:
            print(f"{folder.name}: no test ran")
            counts["failed"] += 1
        elif status != "0" and all(test.outcome != "failed" for test in of_step):
            print(f"{folder.name}: ended with status {status}")
            counts["failed"] += 1
        tests += of_step
    for test in sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]:
        print(f"{test.seconds:8.1f} s  {test.step}: {test.name}")
    for test in tests:
        counts[test.outcome] += 1
        if test.outcome == "skipped":
            reasons[test.reason] += 1
        elif test.outcome == "failed":
            print(f"FAILED {test.step}: {test.name}")
    for why, number in reasons.most_common():
        print(f"{number} skipped: {why}")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
