#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums CTest runs: `junit.py FILE=STATUS...` prints why tests were skipped, how many for each reason, then
`N passed, N failed`, and `, N skipped` if any were.

FILE is what `ctest --output-junit` wrote, STATUS the exit status of the step that should have written it. A step that
broke off, or that ran no test, counts as one failure. Exits with 0 iff nothing failed and something passed.
"""

import re
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


def reason(test):
    """What GTEST_SKIP() << ... said."""
    said = re.search(r": Skipped\n(.+)", test.findtext("system-out", ""))
    return said[1] if said else "no reason given"


def count(file, status, reasons):
    counts = Counter()
    if Path(file).exists():
        for test in xml.parse(file).iter("testcase"):
            counts[outcome(test)] += 1
            if outcome(test) == "skipped":
                reasons[reason(test)] += 1
    if not counts:
        print(f"{Path(file).stem}: no test ran")
        counts["failed"] = 1
    elif status != "0" and not counts["failed"]:
        print(f"{Path(file).stem}: ended with status {status}")
        counts["failed"] = 1
    return counts


def main():
    counts, reasons = Counter(), Counter()
    for step in sys.argv[1:]:
        counts += count(*step.rsplit("=", 1), reasons)
    for why, number in reasons.most_common():
        print(f"{number} skipped: {why}")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
