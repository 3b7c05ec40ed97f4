#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed package, as other projects use it: `test_install.py BUILD` installs that build and builds on it."""

import shutil
import unittest

from installed import TESTS, InstalledTest


class Install(InstalledTest):
    def test_program(self):
        self.assertIn("dynamic_conv", self.run_ok(self.prefix / "bin" / "assay", "list"))

    def test_only_a_kernel(self):
        build = self.work / "convolve"
        self.build(TESTS / "external_kernels", build)
        self.assertEqual(self.run_ok(build / "convolve"), "1 3 5\n")

    def test_own_op(self):
        source, build = self.work / "external", self.work / "axpy"
        shutil.copytree(TESTS / "external", source)
        self.build(source, build)
        program = build / "axpy_assay"
        listed = self.run_ok(program, "list")
        self.assertIn("axpy", listed)
        self.assertNotIn("dynamic_conv", listed)
        self.run_ok(program, "verify", "--device", "cpu", "--out", self.work / "verify")
        self.run_ok(program, "verify", "--specimens", "--device", "cpu")

        for part in ("kernels/axpy/axpy.h", "oracles/axpy/axpy.h", "properties/axpy.cpp", "bench/axpy.cpp"):
            with self.subTest(part):
                (source / part).rename(self.work / "aside")
                configured = self.configure(source, build)
                (self.work / "aside").rename(source / part)
                self.assertNotEqual(configured.returncode, 0)
                self.assertIn(f"The op 'axpy' is incomplete: {part} is missing.", configured.stderr)


if __name__ == "__main__":
    unittest.main()
