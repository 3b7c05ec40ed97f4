# SPDX-License-Identifier: Apache-2.0
"""What the tests of the program share: how to call it, and what its errors look like. The program is their first argument."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ASSAY = os.path.abspath(sys.argv.pop(1))
CASE = "dynamic_conv/cpu/f32/b=2/t=5/d=3/w=4/data=normal/state=first_call/seed=7"
# Without options of whoever runs the tests. The cache is said by scripts/cmake/assay_tests.cmake.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_") or k == "ASSAY_CACHE_BYTES"}
WRONG = "dynamic_conv/specimen.tap_dropped/f32/b=2/t=5/d=3/w=4"


def assay(*args, env=None, cwd=None, stdout=subprocess.PIPE):
    return subprocess.run([ASSAY, *args], text=True, stdout=stdout, stderr=subprocess.PIPE, env=ENVIRONMENT | (env or {}), cwd=cwd)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def fails(self, code, message, *args, **kwargs):
        result = assay(*args, **({"cwd": self.dir} | kwargs))
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(message, result.stderr)
        self.assertEqual(result.stderr.strip().count("\n"), 0, f"more than one line: {result.stderr}")
        return result
