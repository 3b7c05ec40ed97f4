#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each repository check sees the violation that is planted here, and passes without it."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKS = Path(__file__).resolve().parents[1] / "checks"
TOP = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = TOP + "#pragma once\n"

# A small project that keeps all rules.
CLEAN = {
    "kernels/core/tensor.h": HEADER + "#include <vector>\n",
    "kernels/core_cuda/buffer.h": HEADER + "#include <cuda_runtime.h>\n",
    "kernels/conv/conv.h": HEADER + '#include "kernels/core/tensor.h"\n',
    "kernels/conv/cpu.cpp": TOP + '#include "hwy/highway.h"\n#include "kernels/conv/conv.h"\n',
    "kernels/conv/march.cu": TOP + '#include <cuda_bf16.h>\n\n#include "kernels/core_cuda/buffer.h"\n',
    "kernels/other/other.h": HEADER,
    "oracles/core/ball.h": HEADER + '#include "kernels/core/tensor.h"\n',
    "oracles/conv/conv.cpp": TOP + '#include "kernels/conv/conv.h"\n\n#include "oracles/core/ball.h"\n',
    "properties/core/problem.h": HEADER,
    "properties/core/law.cpp": TOP + '#include "kernels/conv/conv.h"\n#include "oracles/core/ball.h"\n',
    "properties/conv.h": HEADER,
    "bench/core/timer.cpp": TOP + '#include "properties/core/problem.h"\n',
    "study/axis.cpp": TOP + '#include "bench/core/timer.h"\n',
    "reports/main.cpp": TOP + '#include "bench/core/timer.h"\n#include "properties/conv.h"\n',
}


class Check(unittest.TestCase):
    def run_check(self, check, planted):
        """Exit status and output of a check on the clean project with the lines of `planted` appended."""
        with tempfile.TemporaryDirectory() as folder:
            for name in {**CLEAN, **planted}:
                file = Path(folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(CLEAN.get(name, "") + planted.get(name, ""))
            done = subprocess.run([sys.executable, CHECKS / check, folder], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def assert_clean(self, check):
        status, output = self.run_check(check, {})
        self.assertEqual(status, 0, output)

    def assert_found(self, check, name, text, message):
        status, output = self.run_check(check, {name: text})
        self.assertEqual(status, 1, output)
        self.assertIn(message, output)

    def assert_empty_fails(self, check):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(subprocess.run([sys.executable, CHECKS / check, folder], capture_output=True).returncode, 1)


class Layers(Check):
    def assert_refused(self, name, header):
        self.assert_found("layers.py", name, f'#include "{header}"\n', f"{Path(name).parent} may not include {header}")

    def test_clean(self):
        self.assert_clean("layers.py")

    def test_no_sources(self):
        self.assert_empty_fails("layers.py")

    def test_who_may_include_whom(self):
        self.assert_refused("kernels/core/tensor.h", "kernels/core_cuda/buffer.h")
        self.assert_refused("kernels/core/tensor.h", "kernels/conv/conv.h")
        self.assert_refused("kernels/core_cuda/buffer.h", "kernels/conv/conv.h")
        self.assert_refused("kernels/conv/conv.h", "kernels/other/other.h")
        self.assert_refused("kernels/conv/cpu.cpp", "oracles/core/ball.h")
        self.assert_refused("kernels/conv/cpu.cpp", "properties/core/problem.h")
        self.assert_refused("oracles/core/ball.h", "kernels/conv/conv.h")
        self.assert_refused("oracles/conv/conv.cpp", "kernels/other/other.h")
        self.assert_refused("oracles/conv/conv.cpp", "kernels/conv/tiles.h")
        self.assert_refused("oracles/conv/conv.cpp", "properties/core/problem.h")
        self.assert_refused("oracles/conv/self/audit.cpp", "oracles/conv/conv.h")
        self.assert_refused("oracles/conv/self/audit.cpp", "oracles/core/ball.h")
        self.assert_refused("properties/core/law.cpp", "bench/core/timer.h")
        self.assert_refused("bench/core/timer.cpp", "properties/conv.h")
        self.assert_refused("bench/core/timer.cpp", "study/axis.h")
        self.assert_refused("study/axis.cpp", "properties/conv.h")
        for layer in ("kernels/conv/cpu.cpp", "oracles/conv/conv.cpp", "properties/conv.h", "bench/core/timer.cpp", "study/axis.cpp"):
            self.assert_refused(layer, "reports/record/record.h")

    def test_angle_brackets_hide_nothing(self):
        text = "#include <reports/record/record.h>\n"
        self.assert_found("layers.py", "bench/core/timer.cpp", text, "bench/core may not include reports/record/record.h")

    def test_relative_path(self):
        message = '"../other/other.h" must be written as a path from the root'
        self.assert_found("layers.py", "kernels/conv/cpu.cpp", '#include "../other/other.h"\n', message)

    def test_cuda_outside_cuda_sources(self):
        include = "#include <cuda_runtime.h>\n"
        for name in ("kernels/core/tensor.h", "kernels/conv/cpu.cpp", "bench/core/timer.cpp", "oracles/conv/wide.cu"):
            self.assert_found("layers.py", name, include, "only CUDA sources may see cuda_runtime.h")

    def test_cuda_through_a_header(self):
        text = '#include "kernels/core_cuda/buffer.h"\n'
        message = "only CUDA sources may see cuda_runtime.h, included through kernels/core_cuda/buffer.h"
        self.assert_found("layers.py", "kernels/conv/cpu.cpp", text, message)


class Text(Check):
    def test_clean(self):
        self.assert_clean("text.py")

    def test_no_files(self):
        self.assert_empty_fails("text.py")

    def test_machine_path(self):
        text = '// see /home' + '/someone/notes\n'
        self.assert_found("text.py", "kernels/core/tensor.h", text, "tensor.h:4: a path of one machine: /home" + "/")

    def test_no_toggle(self):
        self.assert_found("text.py", "bench/conv-inl.h", TOP, "has no guard with HWY_TARGET_TOGGLE")

    def test_unfinished(self):
        self.assert_found("text.py", "README.md", "TO" + "DO: write\n", "README.md:1: unfinished: TO" + "DO")

    def test_disabled_code(self):
        self.assert_found("text.py", "kernels/conv/cpu.cpp", "#if " + "0\n#endif\n", "cpu.cpp:4: disabled code")

    def test_typed_tolerance(self):
        for name in ("properties/core/law.cpp", "oracles/conv/conv.cpp"):
            self.assert_found("text.py", name, "EXPECT_NEAR(a, b, 1e-6);\n", "a typed tolerance: EXPECT_NEAR")

    def test_long_comment(self):
        comment = "    // " + 93 * "x"
        status, output = self.run_check("text.py", {"kernels/conv/cpu.cpp": comment + "\n"})
        self.assertEqual(status, 0, output)
        for name in ("kernels/conv/march.cu", "oracles/conv/conv.h", "properties/conv.h", "bench/core/timer.cpp"):
            self.assert_found("text.py", name, comment + "x\n", "a comment over 100 columns:     // x")

    def test_long_comment_behind_code(self):
        code = "int x;  // " + 89 * "x"
        self.assertEqual(self.run_check("text.py", {"properties/conv.h": code + "\n"})[0], 0)
        self.assert_found("text.py", "properties/conv.h", code + "x\n", "conv.h:3: a comment over 100 columns: int x;  // x")
        url = "const char* kUrl = \"https://" + 80 * "x" + "\";\n"
        self.assertEqual(self.run_check("text.py", {"properties/conv.h": url})[0], 0, "the text of a string")

    def test_long_comment_of_a_script(self):
        names = ("CMakeLists.txt", "scripts/cmake/a.cmake", "scripts/a.py", "scripts/run", "reports/self/a.py", ".ci/run")
        for name in names:
            for code in "", "x()  ":
                line = code + "# " + (98 - len(code)) * "x"
                self.assertEqual(self.run_check("text.py", {name: line + "\n"})[0], 0, name)
                self.assert_found("text.py", name, line + "x\n", f"{name}:1: a comment over 100 columns: {code}# x")
        self.assertEqual(self.run_check("text.py", {"README.md": "# " + 99 * "x" + "\n"})[0], 0, "a title")

    def test_no_licence_line(self):
        self.assert_found("text.py", "bench/conv.cpp", "int x;\n", "bench/conv.cpp has no SPDX line at its top")

    def test_no_pragma_once(self):
        self.assert_found("text.py", "bench/conv.h", TOP, "bench/conv.h has no #pragma once")


class Format(Check):
    def test_clean(self):
        self.assert_clean("format.py")

    def test_no_sources(self):
        self.assert_empty_fails("format.py")

    def test_misformatted(self):
        self.assert_found("format.py", "bench/core/timer.cpp", "int  x ;\n", "timer.cpp:3:4: error: code should be clang-formatted")


if __name__ == "__main__":
    unittest.main()
