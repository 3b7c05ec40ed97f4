#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the format of all C++ and CUDA sources: `format.py ROOT` exits with 1 if clang-format would change any.

`format.py ROOT --fix` changes them. Only version 14 counts: others format differently.
"""

import subprocess
import sys
from pathlib import Path

FOLDERS = ("kernels", "oracles", "properties", "bench", "probe", "study", "reports", "scripts")


def main():
    root = Path(sys.argv[1])
    sources = [
        file
        for folder in FOLDERS
        for file in sorted((root / folder).rglob("*"))
        if file.suffix in (".h", ".cpp", ".cu", ".cuh")
    ]
    if not sources:
        print("no sources found")
        return 1
    mode = ["-i"] if "--fix" in sys.argv[2:] else ["--dry-run", "--Werror"]
    style = f"--style=file:{Path(__file__).resolve().parents[2] / '.clang-format'}"
    return subprocess.run(["clang-format-14", style, *mode, *sources]).returncode


if __name__ == "__main__":
    sys.exit(main())
