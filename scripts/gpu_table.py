#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the README's tables from what scripts/gpu_check left: ours beside the peers, each over the same floor.

usage: gpu_table.py DIR [PATHS]    (with run.json and peers.json; PATHS: a pattern, "trimul/cuda.f16")

Of several paths of an op that the pattern matches the fastest stands for us. Where these differ in their factors, floors do, too.
"""
import fnmatch
import json
import pathlib
import sys


def problem_of(case):
    dims = case["id"].split("/data=")[0].split("/")[3:]
    return case["op"], case["dtype"], tuple(sorted(dims))


def fastest(record, pattern):
    """{problem: the case}."""
    found = {}
    timed = [case for case in record["cases"] if case["perf"] and fnmatch.fnmatch(f"{case['op']}/{case['path']}", pattern)]
    for case in sorted(timed, key=lambda case: case["perf"]["median_ns"]):
        found.setdefault(problem_of(case), case)
    return found


def cell(microseconds, floor):
    return f"{microseconds:.0f} ({microseconds / floor:.2f})"


def peer_cell(row, floor):
    if row is None:
        return "–"
    return cell(row["us"], floor) if "us" in row else "failed"


def errors(values):
    return " ".join(f"{value:.1e}" for value in values) or "–"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("gpu_table.py: usage: gpu_table.py DIR [PATHS]")
    folder = pathlib.Path(sys.argv[1])
    for name in ("run.json", "peers.json"):
        if not (folder / name).is_file():
            sys.exit(f"gpu_table.py: {folder} has no {name}")
    ours = fastest(json.loads((folder / "run.json").read_text()), sys.argv[2] if len(sys.argv) > 2 else "*")
    rows = json.loads((folder / "peers.json").read_text())
    names = list(dict.fromkeys(row["peer"] for row in rows))
    problems = {}  # {problem: (dims in the order of the op, {peer: row})}
    for row in rows:
        problem = row["op"], row["dtype"], tuple(sorted(f"{key}={size}" for key, size in row["dims"].items()))
        problems.setdefault(problem, (row["dims"], {}))[1][row["peer"]] = row
    print("| problem | floor | Assay | " + " | ".join(names) + " | error of Assay | " + " | ".join(f"of {n}" for n in names) + " |")
    print("|---|--:|--:|" + "--:|" * len(names) + "---|" + "---|" * len(names))
    untimed = []
    for problem, (dims, peers) in problems.items():
        op, dtype, _ = problem
        label = f"`{op}` {dtype} " + " ".join(f"{key.upper()}{size}" for key, size in dims.items())
        if problem not in ours:
            untimed.append(label)
            continue
        perf = ours[problem]["perf"]
        floor = perf["floor_ns"] / 1e3
        cells = [label, f"{floor:.0f}", f"**{cell(perf['median_ns'] / 1e3, floor)}**"]
        cells += [peer_cell(peers.get(name), floor) for name in names]
        cells.append(errors(output["rel_l2"] for output in ours[problem]["numerics"]["outputs"]))
        cells += [errors(peers.get(name, {}).get("rel_l2", [])) for name in names]
        print("| " + " | ".join(cells) + " |")
    for label in untimed:
        print(f"gpu_table.py: run.json holds no time of {label}", file=sys.stderr)
    return 1 if untimed else 0


if __name__ == "__main__":
    sys.exit(main())
