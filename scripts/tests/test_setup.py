#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/setup, with stand-ins for dpkg-query, id, sudo and apt-get so that nothing is installed."""

import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parents[1] / "setup"
ALL_INSTALLED = 'shift 2; for p; do echo "installed $p"; done'
ALL_BUT_TWO = 'shift 2; for p; do case $p in g++ | libhwy-dev) ;; *) echo "installed $p" ;; esac; done; exit 1'


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = Path(folder.name)
        for tool in ("sh", "sed", "mktemp", "rm", "grep", "tail", "env"):
            os.symlink(f"/usr/bin/{tool}", self.bin / tool)
        self.log = self.bin / "log"
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", f'echo "$DEBIAN_FRONTEND $*" >>{self.log}')

    def stand_in(self, tool, body):
        file = self.bin / tool
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def setup(self, *arguments):
        done = subprocess.run([SETUP, *arguments], capture_output=True, text=True, env={"PATH": str(self.bin)})
        self.assertEqual(done.stdout, "")
        self.assertLessEqual(len(done.stderr.splitlines()), 2)
        return done.returncode, done.stderr

    def apt_calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_silent_and_quick_when_all_is_there(self):
        self.stand_in("dpkg-query", ALL_INSTALLED)
        begin = time.monotonic()
        self.assertEqual(self.setup("test"), (0, ""))
        self.assertLess(time.monotonic() - begin, 2)
        self.assertEqual(self.apt_calls(), [])

    def test_installs_just_what_is_missing(self):
        self.stand_in("dpkg-query", ALL_BUT_TWO)
        status, said = self.setup("run")
        self.assertEqual((status, said), (0, "scripts/setup: installing g++ libhwy-dev to build and run Assay\n"))
        self.assertEqual(
            self.apt_calls(),
            ["noninteractive -qq update", "noninteractive -qq install --yes --no-install-recommends g++ libhwy-dev"],
        )

    def test_neither_root_nor_sudo(self):
        self.stand_in("dpkg-query", ALL_BUT_TWO)
        self.stand_in("id", "echo 1000")
        self.assertEqual(self.setup(), (1, "scripts/setup: needs root or sudo to install g++ libhwy-dev\n"))

    def test_sudo(self):
        self.stand_in("dpkg-query", ALL_BUT_TWO)
        self.stand_in("id", "echo 1000")
        self.stand_in("sudo", 'exec "$@"')
        self.assertEqual(self.setup()[0], 0)
        self.assertEqual(len(self.apt_calls()), 2)

    def test_apt_fails(self):
        self.stand_in("dpkg-query", ALL_BUT_TWO)
        self.stand_in("apt-get", 'echo "E: no network"; exit 100')
        status, said = self.setup()
        self.assertEqual(status, 1)
        self.assertIn("apt-get update failed: E: no network (could not install g++ libhwy-dev)", said)

    def test_other_distribution(self):
        status, said = self.setup()
        self.assertEqual(status, 0)
        self.assertIn("not a Debian or Ubuntu machine", said)

    def test_unknown_argument(self):
        self.assertEqual(self.setup("nonsense")[0], 1)


if __name__ == "__main__":
    unittest.main()
