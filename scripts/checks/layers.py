#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom: `layers.py ROOT` prints each violation and exits with 1 if there is any.

An op's kernels include nothing of other ops, an oracle nothing but its op's contract, its audit nothing of the oracle,
nothing includes reports, and only CUDA sources see CUDA headers, directly or through a header of ours.
"""

import re
import sys
from pathlib import Path

LAYERS = ("kernels", "oracles", "properties", "bench", "probe", "study", "reports")
CORES = ("core", "core_cuda")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(r"^(cuda|cublas|cute/|cutlass/|cooperative_groups|nvtx|nvml|mma\.h|device_launch|thrust/|cub/)")


def allowed_folders(path):
    """The folders and files of ours that the file `path` may include."""
    layer, part = path.parts[0], path.parts[1]
    if layer == "kernels":
        own = {"core": [], "core_cuda": ["kernels/core_cuda"]}.get(part, ["kernels/core_cuda", f"kernels/{part}"])
        return ["kernels/core", *own]
    if layer == "oracles":
        contract = [f"kernels/{part}/{part}.h"]
        if "self" in path.parts:  # an audit shares nothing with the oracle
            return ["kernels/core", "oracles/core/self", *contract]
        own = [] if part == "core" else [f"oracles/{part}", *contract]
        return ["kernels/core", "oracles/core", *own]
    marks = ["properties/self/marks.h"] if "self" in path.parts else []
    return {
        "properties": ["kernels", "oracles", "properties"],
        "bench": ["kernels", "oracles", "properties/core", "bench", *marks],
        "probe": ["kernels" if marks else "kernels/core", "oracles", "properties/core", "probe", *marks],
        "study": ["kernels", "oracles", "properties/core", "bench/core", "study", *marks],
        "reports": list(LAYERS),
    }[layer]


def may_see_cuda(path):
    if path.parts[:2] == ("kernels", "core_cuda"):
        return True
    folders = (("bench", "core"), ("properties", "specimens"))
    is_placed = path.parts[0] == "kernels" or path.parts[:2] in folders or "self" in path.parts
    return path.suffix in (".cu", ".cuh") and is_placed


def is_within(path, folder):
    return path == folder or path.startswith(folder + "/")


class Sources:
    def __init__(self, root):
        self.root = root
        files = (file for layer in LAYERS for file in sorted((root / layer).rglob("*")))
        self.includes = {  # file -> [(line, header, is_quoted)]
            file.relative_to(root).as_posix(): list(self.read(file))
            for file in files
            if file.suffix in (".h", ".cpp", ".cu", ".cuh")
        }

    @staticmethod
    def read(file):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if match := INCLUDE.match(line):
                yield number, match[2], match[1] == '"'

    def cuda_header_of(self, header, seen):
        """The CUDA header that `header` is or includes, or None."""
        if CUDA_HEADER.match(header):
            return header
        if header in seen or header not in self.includes:
            return None
        seen.add(header)
        found = (self.cuda_header_of(inner, seen) for _, inner, _ in self.includes[header])
        return next((cuda for cuda in found if cuda), None)

    def violations(self):
        for name, includes in self.includes.items():
            path = Path(name)
            folders = allowed_folders(path)
            for line, header, is_quoted in includes:
                where = f"{name}:{line}"
                if header.split("/")[0] in LAYERS:
                    if not any(is_within(header, folder) for folder in folders):
                        yield f"{where}: {path.parent} may not include {header}"
                elif is_quoted and (self.root / path.parent / header).exists():
                    yield f"{where}: \"{header}\" must be written as a path from the root"
                cuda = None if may_see_cuda(path) else self.cuda_header_of(header, set())
                if cuda:
                    yield f"{where}: only CUDA sources may see {cuda}, included through {header}"


def main():
    sources = Sources(Path(sys.argv[1]))
    violations = list(sources.violations())
    print("\n".join(violations) if violations else f"{len(sources.includes)} files follow the layers")
    return 1 if violations or not sources.includes else 0


if __name__ == "__main__":
    sys.exit(main())
