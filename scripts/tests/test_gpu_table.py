#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of our times beside the peers', on a record and peers written here."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "gpu_table.py"


def case(op, path, dims, median, floor, dtype="bf16"):
    return {
        "id": f"{op}/{path}/{dtype}/{dims}/data=normal/state=first_call/seed=0",
        "op": op,
        "path": path,
        "dtype": dtype,
        "perf": median and {"median_ns": median, "floor_ns": floor},
        "numerics": {"outputs": [{"rel_l2": 1.5e-3}]},
    }


def peer(op, name, dtype="bf16", **result):
    return {"op": op, "dims": {"n": 8, "hc": 4}, "dtype": dtype, "peer": name, **result}


class Table(unittest.TestCase):
    def table(self, cases, peers, *paths):
        """Exit status, lines after the heading, and messages."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "run.json").write_text(json.dumps({"cases": cases}))
            (Path(folder) / "peers.json").write_text(json.dumps(peers))
            done = subprocess.run([sys.executable, TABLE, folder, *paths], capture_output=True, text=True)
            return done.returncode, done.stdout.splitlines()[2:], done.stderr

    def test_joins_by_op_dtype_and_dims(self):
        cases = [
            case("mix", "cuda", "n=8/hc=4", 110_000, 100_000),
            case("mix", "cuda", "n=8/hc=4", 220_000, 200_000, dtype="f32"),
            case("mix", "cuda", "n=9/hc=4", 1000, 1000),
            case("sum", "cuda", "n=8/hc=4", 1000, 1000),
        ]
        peers = [
            peer("mix", "torch.compile", us=150, rel_l2=[1e-3, 2e-3]),
            peer("mix", "source", failed="no"),
            peer("mix", "torch.compile", dtype="f32", us=300, rel_l2=[1e-7]),
        ]
        status, lines, _ = self.table(cases, peers)
        self.assertEqual(status, 0)
        self.assertEqual(lines, [
            "| `mix` bf16 N8 HC4 | 100 | **110 (1.10)** | 150 (1.50) | failed | 1.5e-03 | 1.0e-03 2.0e-03 | – |",
            "| `mix` f32 N8 HC4 | 200 | **220 (1.10)** | 300 (1.50) | – | 1.5e-03 | 1.0e-07 | – |",
        ])

    def test_the_fastest_path_stands_for_us(self):
        cases = [case("mix", path, "n=8/hc=4", time, 1000) for path, time in (("cuda", 3000), ("cuda.tiled", 2000), ("cuda.a", 4000))]
        _, lines, _ = self.table(cases, [peer("mix", "torch.compile", us=4, rel_l2=[1e-3])])
        self.assertIn("**2 (2.00)**", lines[0])

    def test_only_paths_that_the_pattern_matches(self):
        cases = [case("mix", path, "n=8/hc=4", time, 1000) for path, time in (("cuda", 3000), ("cuda.tiled", 2000))]
        _, lines, _ = self.table(cases, [peer("mix", "torch.compile", us=4, rel_l2=[1e-3])], "mix/cuda")
        self.assertIn("**3 (3.00)**", lines[0])

    def test_a_problem_without_our_time_is_named(self):
        cases = [case("mix", "cuda", "n=8/hc=4", None, None)]
        status, lines, message = self.table(cases, [peer("mix", "torch.compile", us=4, rel_l2=[1e-3])])
        self.assertEqual((status, lines), (1, []))
        self.assertIn("run.json holds no time of `mix` bf16 N8 HC4", message)

    def test_a_folder_without_peers_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "run.json").write_text(json.dumps({"cases": []}))
            done = subprocess.run([sys.executable, TABLE, folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, f"gpu_table.py: {folder} has no peers.json\n"))


if __name__ == "__main__":
    unittest.main()
