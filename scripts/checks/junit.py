#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums CTest runs: `junit.py FILE=STATUS...` prints `N passed, N failed`, and `, N skipped` if any were.

FILE is what `ctest --output-junit` wrote, STATUS the exit status of the step that should have written it. A step that
broke off, or that ran no test, counts as one failure. Exits with 0 iff nothing failed and something passed.
"""

import sys
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path


def outcome(test):
    skipped = test.find("skipped")
    # CTest also says "skipped" of a test whose program is not there.
    if test.get("status") == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_")):
        return "skipped"
    return "passed" if test.get("status") == "run" else "failed"


def count(file, status):
    counts = Counter()
    if Path(file).exists():
        counts.update(outcome(test) for test in xml.parse(file).iter("testcase"))
    if not counts:
        print(f"{Path(file).stem}: no test ran")
        counts["failed"] = 1
    elif status != "0" and not counts["failed"]:
        print(f"{Path(file).stem}: ended with status {status}")
        counts["failed"] = 1
    return counts


def main():
    counts = Counter()
    for step in sys.argv[1:]:
        counts += count(*step.rsplit("=", 1))
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
