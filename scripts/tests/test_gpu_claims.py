#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of claims gets a row whatever the process that measures does. PyTorch and the GPU are stubs here."""
import importlib.util
import pathlib
import sys
import tempfile
import types
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "gpu_claims.py"

sys.modules["torch"] = types.SimpleNamespace(
    __version__="0", cuda=types.SimpleNamespace(get_device_name=lambda: "a GPU"))
spec = importlib.util.spec_from_file_location("gpu_claims", SCRIPT)
claims = importlib.util.module_from_spec(spec)
spec.loader.exec_module(claims)


class Rows(unittest.TestCase):
    def rows(self, program, limit=60):
        claims.CLAIMS = {"claim": ("it is so", None, limit)}
        return list(claims.rows("claim", "peers", command=(sys.executable, "-c", program)))

    def test_come_from_the_process_that_measures(self):
        self.assertEqual(self.rows("print('[\"a\", \"b\"]')\nprint('noise')\nprint('[\"c\", \"d\"]')"), [("a", "b"), ("c", "d")])

    def test_say_how_a_process_failed(self):
        self.assertEqual(self.rows("print('[1, 2]', flush=True)\nraise SystemExit('no kernel')"),
                         [(1, 2), ("not measured: no kernel", "–")])
        self.assertEqual(self.rows("import os; os._exit(3)"), [("not measured: exit code 3", "–")])

    def test_say_that_a_process_took_too_long(self):
        program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
        self.assertEqual(self.rows(program, 1), [("not measured: no answer within 1 s", "–")])

    def test_are_written_one_by_one(self):
        claims.CLAIMS = {"claim": ("it is so", None, 1)}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "claims.md"
            seen = []

            def measured(name, peers):
                yield "a", "b"
                seen.append(file.read_text())
                yield "c", "d"

            claims.write_table(file, "peers", measured)
            self.assertIn("| it is so | a | b |", seen[0])
            self.assertIn("| it is so | c | d |", file.read_text())


if __name__ == "__main__":
    unittest.main()
