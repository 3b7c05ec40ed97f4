#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay new`: what it writes and refuses. scripts/tests/test_install.py builds it.   usage: test_new.py ASSAY"""
import pathlib
import shutil
import subprocess
import unittest

from program import ASSAY, ProgramTest, assay

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FORMULAS = {
    "scale_add": "y[n] = 0.5 * a[n] * x[n] + x[n]",
    "gemm": "c[m,n] = sum_k a[m,k] * b[k,n] + bias[n]",
    "contract": "out[i,j] = sum_{k,l} a[i,k,l] * b[k,l,j] - 0.1 * residual[i,j]",
}


class New(ProgramTest):
    def test_a_formula_becomes_a_project(self):
        for op, formula in FORMULAS.items():
            with self.subTest(op):
                result = assay("new", op, formula, cwd=self.dir)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(formula, result.stdout)
                self.assertIn(f"build/{op}_assay verify", result.stdout)
                files = {str(file.relative_to(self.dir / op)) for file in (self.dir / op).rglob("*") if file.is_file()}
                parts = ("kernels/{0}/{0}.h", "kernels/{0}/{0}.cpp", "kernels/{0}/cpu.cpp", "oracles/{0}/{0}.cpp",
                         "properties/{0}.cpp", "bench/{0}.cpp")
                self.assertEqual(files, {"CMakeLists.txt", "README.md", *(part.format(op) for part in parts)})
                self.assertLessEqual(len((self.dir / op / "README.md").read_text().splitlines()), 12)

    def test_the_code_has_our_format(self):
        for op, formula in FORMULAS.items():
            assay("new", op, formula, cwd=self.dir)
        sources = [file for file in self.dir.rglob("*") if file.suffix in (".h", ".cpp")]
        self.assertEqual(len(sources), 6 * len(FORMULAS))
        style = f"--style=file:{SOURCE / '.clang-format'}"
        subprocess.run(["clang-format-14", style, "--dry-run", "--Werror", *sources], check=True)

    def test_the_package_lies_beside_the_program(self):
        package = pathlib.Path(ASSAY).resolve().parents[1] / "package"
        self.assertIn(f"-Dassay_DIR='{package}'", assay("new", "gemm", FORMULAS["gemm"], cwd=self.dir).stdout)
        self.assertTrue((package / "assayConfig.cmake").exists())

    def test_a_program_without_its_package_says_what_to_install(self):
        shutil.copy(ASSAY, self.dir / "assay")
        result = subprocess.run([self.dir / "assay", "new", "gemm", FORMULAS["gemm"]], cwd=self.dir, text=True, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("cmake --install BUILD --prefix DIR", result.stdout)
        self.assertIn("-Dassay_DIR='DIR/lib", result.stdout)

    def test_nothing_is_overwritten(self):
        (self.dir / "gemm").mkdir()
        self.fails(2, "gemm is there already", "new", "gemm", FORMULAS["gemm"], cwd=self.dir)
        (self.dir / "link").symlink_to("nowhere")
        self.fails(2, "link is there already", "new", "link", FORMULAS["gemm"], cwd=self.dir)
        self.assertEqual(list((self.dir / "gemm").iterdir()), [])

    def test_what_is_wrong_leaves_nothing(self):
        for message, op, formula in [
            ("there is an op mhc_post already: out[n,i,h] = ", "mhc_post", FORMULAS["gemm"]),
            ("'Gemm' is not snake_case", "Gemm", FORMULAS["gemm"]),
            ("'int' cannot be the name of an op", "int", FORMULAS["gemm"]),
            ("the formula at character 12, 'k]': ", "scale", "y[n] = x[n,k]"),
        ]:
            with self.subTest(op):
                self.fails(2, message, "new", op, formula, cwd=self.dir)
        self.fails(2, "FORMULA is required", "new", "gemm", cwd=self.dir)
        self.assertEqual(list(self.dir.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
