# SPDX-License-Identifier: Apache-2.0
"""What the tests of projects on the installed package share. The build that is installed is their first argument."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent
BUILD = sys.argv.pop(1)


class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = Path(folder.name) / "prefix"
        cls.work = Path(folder.name)

    @classmethod
    def install(cls):
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def run_ok(cls, *command, **env):
        done = subprocess.run(command, capture_output=True, text=True, cwd=cls.work, env=os.environ | env)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @classmethod
    def configure(cls, source, build):
        options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={cls.prefix}"]
        return subprocess.run(["cmake", "-S", source, "-B", build, *options], capture_output=True, text=True)

    @classmethod
    def build(cls, source, build):
        configured = cls.configure(source, build)
        assert configured.returncode == 0, configured.stderr
        cls.run_ok("cmake", "--build", build)
