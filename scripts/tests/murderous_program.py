# SPDX-License-Identifier: Apache-2.0
"""What the tests of workers share: scripts/tests/murderous, built once on the build that is their first argument."""

import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

from installed import BUILD, TESTS, InstalledTest

SHORT = ["--timeout", "300ms", "--device", "cpu"]


class MurderousTest(InstalledTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        built = Path(BUILD).resolve() / "murderous"
        built.mkdir(exist_ok=True)
        with open(built / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cls.prefix = built / "prefix"
            cls.install()
            cls.build(TESTS / "murderous", built / "build")
        # A copy, so that processes() tells it from another test's.
        cls.program = Path(shutil.copy(built / "build/murderous", cls.work))

    def assay(self, *args, **kwargs):
        return subprocess.run([self.program, *args], text=True, capture_output=True, timeout=300, cwd=self.work, **kwargs)

    def start(self, *args):
        program = subprocess.Popen([self.program, *args], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.work)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)  # the first of both
        return program

    def processes(self):
        """The processes of the program, by id: that of the process that started each."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.path.samefile(folder / "exe", self.program):
                    found[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass  # ended, or of another user
        return found

    def worker_of(self, program):
        return self.wait_for(lambda: [pid for pid, parent in self.processes().items() if parent == program.pid])[0]

    def wait_for(self, condition, seconds=20):
        end = time.time() + seconds
        while time.time() < end:
            if found := condition():
                return found
            time.sleep(0.02)
        self.fail("nothing came of it")
