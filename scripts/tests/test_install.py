#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package, as other projects use it: `test_install.py BUILD` installs that build, and builds on it and on the build."""

import re
import shutil
import subprocess
import unittest
from pathlib import Path

from installed import BUILD, TESTS, InstalledTest


class Install(InstalledTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.install()

    def test_program(self):
        self.assertIn("dynamic_conv", self.run_ok(self.prefix / "bin" / "assay", "list"))

    def test_completion_and_manual_page(self):
        share = self.prefix / "share"
        for file, text in [("bash-completion/completions/assay", "complete -F _assay assay"), ("zsh/site-functions/_assay", "#compdef assay"),
                           ("fish/vendor_completions.d/assay.fish", "complete -c assay"), ("man/man1/assay.1", ".TH ASSAY 1")]:
            self.assertIn(text, (share / file).read_text(), file)

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

        for part in ("kernels/axpy/axpy.h", "oracles/axpy/axpy.cpp", "properties/axpy.cpp", "bench/axpy.cpp"):
            with self.subTest(part):
                (source / part).rename(self.work / "aside")
                configured = self.configure(source, build)
                (self.work / "aside").rename(source / part)
                self.assertNotEqual(configured.returncode, 0)
                self.assertIn(f"The op 'axpy' is incomplete: {part} is missing.", configured.stderr)

    def test_new_op(self):
        """The project of a formula on the build folder, by the very line that `assay new` prints."""
        printed = self.run_ok(Path(BUILD) / "bin/assay", "new", "gemm", "c[m,n] = sum_k a[m,k] * b[k,n] + bias[n]")
        line = printed.splitlines()[-1]
        verdict = self.run_ok("sh", "-c", line, CXXFLAGS="-Wall -Wextra -Wconversion -Wno-restrict -Werror")
        readme = (Path(__file__).parents[2] / "README.md").read_text()
        said = re.search(r"gemm_assay verify\n(.*?)```", readme, re.DOTALL).group(1)
        self.assertIn(said, verdict, "the README shows another table")
        program = self.work / "gemm/build/gemm_assay"
        self.assertRegex(self.run_ok(program, "verify", "--specimens"), r"(?m)^gemm/specimen\.\S+ +\d+ +caught\b")
        self.assertIn("m=128 n=128 k=128", self.run_ok(program, "bench", "--dtype", "f32"))

        loop = self.work / "gemm/kernels/gemm/cpu.cpp"
        loop.write_text(loop.read_text().replace("k < k_size", "k + 1 < k_size"))
        self.run_ok("cmake", "--build", "gemm/build")
        wrong = subprocess.run([program, "verify", "--dtype", "f32"], capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 1, wrong.stderr)
        self.assertIn("fail: ", wrong.stderr)

    def test_new_op_whose_terms_begin_with_a_number(self):
        """Each planted fault is one: it shows on a copy, whose only product is -1 * x[i], too."""
        printed = self.run_ok(Path(BUILD) / "bin/assay", "new", "negative", "y[i] = -x[i]")
        self.run_ok("sh", "-c", printed.splitlines()[-1])
        told = self.run_ok(self.work / "negative/build/negative_assay", "verify", "--specimens")
        self.assertRegex(told, r"All \d+ specimens are caught")

    def test_new_op_of_the_installed_program(self):
        printed = self.run_ok(self.prefix / "bin/assay", "new", "scale", "y[n] = 2 * x[n]")
        configure, _, build = printed.splitlines()[-1].partition(" && cmake --build ")
        self.assertIn(f"-Dassay_DIR='{self.prefix}/", configure)
        self.assertTrue(build)
        self.run_ok("sh", "-c", configure)


if __name__ == "__main__":
    unittest.main()
