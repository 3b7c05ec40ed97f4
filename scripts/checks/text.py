#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what no compiler sees: `text.py ROOT` prints each violation and exits with 1 if there is any.

Long files are named without failing.
"""

import re
import sys
from pathlib import Path

FOLDERS = ("kernels", "oracles", "properties", "bench", "probe", "study", "reports", "scripts", ".ci")
TEXT_SUFFIXES = ("", ".h", ".cpp", ".cu", ".cuh", ".py", ".cmake", ".in", ".txt", ".md", ".json")
LONG = 400  # [lines]
CPP = r"\.(h|cpp|cu|cuh)(\.in)?$"
SCRIPT = r"(\.py|\.cmake|\.txt)(\.in)?$|^(.*/)?[^./]+$"  # Python, CMake and the shell

# (what is wrong, names to look at, pattern). A bracket keeps a pattern from matching its own text.
RULES = [
    ("a path of one machine", "", re.compile(r"(?<![\w.])/(?:hom[e]|roo[t]|wor[k]|User[s])/")),
    ("unfinished", "", re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")),
    ("disabled code", "", re.compile(r"^\s*#\s*if\s+[0]\b")),
    ("a typed tolerance", "^properties/", re.compile(r"\b(?:EXPECT|ASSERT)_(?:NEAR|FLOAT_EQ|DOUBLE_EQ)\b|\bDoubleNear\b")),
    ("a typed tolerance", "^oracles/", re.compile(r"\b(?:EXPECT|ASSERT)_(?:NEAR|FLOAT_EQ|DOUBLE_EQ)\b|\bDoubleNear\b")),
    ("a comment over 100 columns", CPP, re.compile(r"^(?=(.*\s)?//).{101,}")),
    ("a comment over 100 columns", SCRIPT, re.compile(r"^(?=(.*\s)?# ).{101,}")),
]
TOGGLE = re.compile(r"^#if defined\(\w+\) == defined\(HWY_TARGET_TOGGLE\)$", re.MULTILINE)
HEADERS = [  # what stands in every file whose name ends like this
    ("has no SPDX line at its top", r"\.(h|cpp|cu|cuh)$", re.compile(r"\A// SPDX-License-Identifier: Apache-2\.0\n")),
    ("has no #pragma once", r"(?<!-inl)\.h$|\.cuh$", re.compile(r"^#pragma once$", re.MULTILINE)),
    # Highway includes such a header once per instruction set.
    ("has no guard with HWY_TARGET_TOGGLE", r"-inl\.h$", TOGGLE),
]


def project_files(root):
    yield from (file for file in sorted(root.iterdir()) if file.is_file())
    for folder in FOLDERS:
        yield from (file for file in sorted((root / folder).rglob("*")) if file.is_file())


def main():
    root = Path(sys.argv[1])
    checked = 0
    violations = []
    for file in project_files(root):
        if file.suffix not in TEXT_SUFFIXES or "__pycache__" in file.parts:
            continue
        checked += 1
        name = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            for fault, names, pattern in RULES:
                if re.search(names, name) and (match := pattern.search(line)):
                    violations.append(f"{name}:{number}: {fault}: {match[0]}")
        violations += [
            f"{name} {fault}" for fault, names, pattern in HEADERS if re.search(names, name) and not pattern.search(text)
        ]
        if len(lines) > LONG and file.suffix in (".h", ".cpp", ".cu", ".cuh", ".py"):
            print(f"note: {name} has {len(lines)} lines")
    print("\n".join(violations) if violations else f"{checked} files are clean")
    return 1 if violations or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
