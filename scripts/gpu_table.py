#!/usr/bin/env python3
"""Prints the README's table from what scripts/gpu_check left: ours beside the peers, each over the same floor.

usage: gpu_table.py DIR    (with run.json and peers.json)
"""
import json
import pathlib
import sys


def times(record):
    found = {}
    for case in record["cases"]:
        if case["perf"]:
            dims = case["id"].split("/data=")[0].split("/", 3)
            found[(case["op"], case["dtype"], dims[3])] = case
    return found


def cell(microseconds, floor):
    return f"{microseconds:.0f} ({microseconds / floor:.2f})"


def error(case):
    return " ".join(f"{output['rel_l2']:.1e}" for output in case["numerics"]["outputs"])


def main():
    folder = pathlib.Path(sys.argv[1])
    record = json.loads((folder / "run.json").read_text())
    ours = times(record)
    peers = json.loads((folder / "peers.json").read_text())
    names = list(dict.fromkeys(row["peer"] for row in peers))
    print("| problem | floor | Assay | " + " | ".join(names) + " | error of Assay | " + " | ".join(f"of {n}" for n in names) + " |")
    print("|---|--:|--:|" + "--:|" * len(names) + "---|" + "---|" * len(names))
    for op, time, rel_l2 in (("dynamic_conv", "forward_us", "rel_l2"), ("dynamic_conv_grad", "backward_us", "backward_rel_l2")):
        problems = list(dict.fromkeys((row["dtype"], row["b"], row["t"], row["d"], row["w"]) for row in peers))
        for dtype, b, t, d, w in problems:
            case = ours[(op, dtype, f"b={b}/t={t}/d={d}/w={w}")]
            floor = case["perf"]["floor_ns"] / 1e3
            rows = {row["peer"]: row for row in peers if (row["dtype"], row["b"], row["t"], row["d"]) == (dtype, b, t, d)}
            peer_cells = [cell(rows[name][time], floor) if time in rows[name] else "failed" for name in names]
            peer_errors = []
            for name in names:
                value = rows[name].get(rel_l2, [])
                peer_errors.append(" ".join(f"{e:.1e}" for e in (value if isinstance(value, list) else [value])))
            cells = [f"`{op}` {dtype} B{b} T{t} D{d}", f"{floor:.0f}", f"**{cell(case['perf']['median_ns'] / 1e3, floor)}**"]
            print("| " + " | ".join(cells + peer_cells + [error(case)] + peer_errors) + " |")


if __name__ == "__main__":
    main()
