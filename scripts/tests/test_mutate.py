#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate on a small project that is written here."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MUTATE = Path(__file__).resolve().parents[1] / "mutate"

PROJECT = {
    "CMakePresets.json": json.dumps({
        "version": 6,
        "configurePresets": [{"name": "cpu", "generator": "Ninja", "binaryDir": "${sourceDir}/build/cpu",
                              "cacheVariables": {"CMAKE_RUNTIME_OUTPUT_DIRECTORY": "${sourceDir}/build/cpu/bin"}}],
        "buildPresets": [{"name": "cpu", "configurePreset": "cpu"}],
    }),
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(small CXX)\nadd_executable(assay_sum_test sum.cpp)\n"
                      "add_executable(assay product.cpp)\n"
                      "set_property(TARGET assay assay_sum_test PROPERTY INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR})\n",
    # Prints what GoogleTest would.
    "sum.cpp": """#include <cstdio>
#include <string_view>

int sum(int a, int b) { return a + b; }
int main(int, char** arguments) {
  const bool knows = std::string_view(arguments[1]) == "--gtest_filter=Sum.*";
  if (sum(1, 2) == 3) return std::printf("[  PASSED  ] %d tests.\\n", knows ? 1 : 0), 0;
  return std::puts("[  FAILED  ] Sum.Adds (0 ms)"), 1;
}
""",
    # assay verify PATHS --device cpu --seed N --max-failures 1 --no-shrink --json --quiet
    "product.cpp": """#include <cstdio>
#include <cstdlib>

int product(int a, int b) { return a * b; }
int main(int, char** arguments) {
  if (product(std::atoi(arguments[6]), 2) == 2 * std::atoi(arguments[6])) return std::puts("{\\"cases\\": []}"), 0;
  std::puts("{\\"cases\\": [{\\"verdict\\": \\"pass\\", \\"reason\\": \\"all\\", \\"seconds\\": 0.25},");
  std::puts("{\\"verdict\\": \\"fail\\", \\"reason\\": \\"1 of 2 compared elements of y\\", \\"seconds\\": 0.5}]}");
  return 1;
}
""",
    "answer.py": "ANSWER = 42\nOTHER = 7\n",
    "test_answer.py": "import unittest\nfrom answer import ANSWER\n\n\nclass Answer(unittest.TestCase):\n"
                      "    def test_it(self):\n        self.assertEqual(ANSWER, 42)\n\n\nunittest.main()\n",
}


def fault(name, file, old, new, *tests):
    return (f"[{name}]\nwrong = 'it is {name}'\nfile = '{file}'\nold = '{old}'\nnew = '{new}'\n"
            f"tests = {json.dumps(tests)}\n")


WRONG_SUM = fault("wrong_sum", "sum.cpp", "return a + b;", "return a + b + (MUTANT ? 1 : 0);", "sum_test Sum.*")
SAME_SUM = fault("same_sum", "sum.cpp", "int sum(int a, int b)", "int sum(int a, int b, int = MUTANT)", "sum_test Sum.*")
DYING = fault("dying", "sum.cpp", "const bool knows", "if (MUTANT) return 9; const bool knows", "sum_test Sum.*")
ENDLESS = fault("endless", "sum.cpp", "if (sum(1, 2) == 3)", "while (MUTANT) {} if (sum(1, 2) == 3)", "sum_test Sum.*")
WRONG_ANSWER = fault("wrong_answer", "answer.py", "42", "43", "test_answer.py")


def kernel_fault(name, new, more=""):
    return fault(name, "product.cpp", "return a * b;", new).replace("tests = []", "paths = 'product/cpu'\n" + more)


WRONG_PRODUCT = kernel_fault("wrong_product", "return a * b + (MUTANT ? 1 : 0);")
RARE_PRODUCT = kernel_fault("rare_product", "return a * b + (MUTANT && a < 3 ? 1 : 0);")
SAME_PRODUCT = kernel_fault("same_product", "return MUTANT ? b * a : a * b;", "survives = 'it is the same'\n")
OTHER_ANSWER = fault("other_answer", "answer.py", "OTHER = 7", "OTHER = 8", "test_answer.py Answer")


class Mutate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "scripts" / "mutants").mkdir(parents=True)
        (self.root / "scripts" / "mutate").write_text(MUTATE.read_text().replace("LIMIT = 600", "LIMIT = 2"))
        for name, text in PROJECT.items():
            (self.root / name).write_text(text)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        subprocess.run(["git", "-C", self.root, "add", *PROJECT, "scripts"], check=True)

    def mutate(self, catalogue, *arguments):
        (self.root / "scripts" / "mutants" / "all.toml").write_text(catalogue)
        done = subprocess.run([sys.executable, self.root / "scripts" / "mutate", *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def refused(self, message, catalogue, *arguments):
        status, _, said = self.mutate(catalogue, *(arguments or ["--check"]))
        self.assertEqual(status, 1)
        self.assertEqual(said.splitlines()[-1], f"scripts/mutate: {message}")

    def test_says_what_is_caught_and_what_survives(self):
        table = self.root / "table.md"
        faults = WRONG_SUM + SAME_SUM + DYING + ENDLESS + WRONG_ANSWER + OTHER_ANSWER
        status, printed, said = self.mutate(faults, "--table", table)
        self.assertEqual(status, 1, said)
        found = [(line.split()[:2], line.split(" s  ")[1]) for line in printed.splitlines()[:-1]]
        self.assertEqual(found, [(["caught", "wrong_sum"], "Sum.Adds"), (["SURVIVED", "same_sum"], "it is same_sum"),
                                 (["caught", "dying"], "sum_test Sum.* (exits with 9)"),
                                 (["caught", "endless"], "sum_test Sum.* (longer than 2 s)"),
                                 (["caught", "wrong_answer"], "Answer.test_it"),
                                 (["SURVIVED", "other_answer"], "it is other_answer")])
        self.assertEqual(printed.splitlines()[-1], "4 of 6 faults are caught")
        self.assertIn("| `wrong_sum` | it is wrong_sum | Sum.Adds |", table.read_text())
        self.assertIn("| `same_sum` | it is same_sum | **survived** |", table.read_text())
        self.assertEqual((self.root / "sum.cpp").read_text(), PROJECT["sum.cpp"])
        # Another time, without what is no longer there.
        (self.root / "answer.py").rename(self.root / "kept.py")
        self.assertEqual(self.mutate(WRONG_SUM + SAME_SUM, "wrong_sum")[:2][0], 0)
        self.assertFalse((self.root / "build" / "mutants" / "answer.py").exists())

    def test_tests_must_be_green_and_run(self):
        self.refused("no test ran: sum_test Product.*", WRONG_SUM.replace("Sum.*", "Product.*"), "wrong_sum")
        (self.root / "answer.py").write_text("ANSWER = 41\nOTHER = 7\n")
        self.refused("red without any fault: Answer.test_it", OTHER_ANSWER, "other_answer")

    def test_a_copy_that_does_not_build(self):
        broken = WRONG_SUM.replace("MUTANT ? 1 : 0", "MUTANT ? 1 :")
        self.refused("the copy with the faults does not build", broken, "wrong_sum")

    def test_says_how_verify_sees_faults_of_kernels(self):
        table = self.root / "table.md"
        status, printed, said = self.mutate(WRONG_PRODUCT + WRONG_SUM, "--verify", "--table", table)
        self.assertEqual(status, 0, said)
        self.assertEqual(printed.splitlines()[0].split(None, 2), ["caught", "wrong_product", "; ".join(3 * ["value, 2, 0.8 s"])])
        self.assertIn("| `wrong_product` | product/cpu | it is wrong_product |" + 3 * " value, 2, 0.8 s |", table.read_text())
        # The program of that build, maybe on another machine.
        (self.root / "build" / "verify_mutants" / "build" / "cpu" / "bin" / "assay").rename(self.root / "program")
        printed = self.mutate(WRONG_PRODUCT, "--verify", "--seeds", "7", "--program", self.root / "program")[1]
        self.assertEqual(printed.splitlines()[1], "1 of 1 faults are caught with each of the seeds 7; the median takes "
                                                  "0.8 s, the slowest 0.8 s")

    def test_faults_that_verify_does_not_see(self):
        status, printed, _ = self.mutate(RARE_PRODUCT, "--verify")
        self.assertEqual((status, printed.splitlines()[0].split(None, 2)),
                         (1, ["SURVIVED", "rare_product", "value, 2, 0.8 s; value, 2, 0.8 s; -"]))
        self.assertEqual(printed.splitlines()[-1], "not as the catalogue says: rare_product")
        self.assertEqual(self.mutate(RARE_PRODUCT, "--verify", "--seeds", "1,2")[0], 0)
        table = self.root / "table.md"
        self.assertEqual(self.mutate(SAME_PRODUCT, "--verify", "--table", table)[0], 0)
        self.assertIn("- `same_product`: it is the same", table.read_text())
        equal = SAME_PRODUCT.replace("survives", "equivalent")
        status, printed, _ = self.mutate(equal, "--verify", "--table", table)
        self.assertEqual((status, printed.splitlines()[0].split(None, 2)), (0, ["equal", "same_product", "-; -; -"]))
        self.assertIn("0 of 0 faults", printed)
        self.assertIn("not counted:\n\n- `same_product`: it is the same", table.read_text())
        status, printed, _ = self.mutate(RARE_PRODUCT + "equivalent = 'so small'\n", "--verify")
        self.assertEqual((status, printed.splitlines()[-1]), (1, "not as the catalogue says: rare_product"))
        status, printed, _ = self.mutate(WRONG_PRODUCT + "survives = 'nobody looks'\n", "--verify")
        self.assertEqual((status, printed.splitlines()[-1]), (1, "not as the catalogue says: wrong_product"))
        (self.root / "product.cpp").write_text(PROJECT["product.cpp"].replace("== 2 *", "== 3 *"))
        self.refused("red without any fault: product/cpu", WRONG_PRODUCT, "--verify")

    def test_faults_that_only_a_build_with_delays_sees(self):
        program = self.root / "program"
        program.write_text("#!/bin/sh\n[ \"$MUTANT\" = late ] || { echo '{\"cases\": []}'; exit 0; }\n"
                           "echo '{\"cases\": [{\"verdict\": \"timeout\", \"reason\": \"\", \"seconds\": 2}]}'; exit 1\n")
        program.chmod(0o755)
        late = kernel_fault("late", "return a * b + (MUTANT ? 1 : 0);", "survives = 'a race'\n").replace("product/cpu", "product/cuda")
        never = late.replace("late", "never")
        of_gpu = ("--verify", "--device", "cuda", "--program", program)
        # Seen, though the catalogue says that it survives.
        self.assertEqual(self.mutate(late, *of_gpu)[0], 1)
        self.assertEqual(self.mutate(late, *of_gpu, "--delays")[0], 1)
        self.assertEqual(self.mutate(never, *of_gpu, "--delays")[0], 0)
        must_be_seen = "delayed = true\n"
        status, printed, _ = self.mutate(late + must_be_seen, *of_gpu, "--delays")
        self.assertEqual((status, printed.split()[:2]), (0, ["caught", "late"]))
        status, printed, _ = self.mutate(never + must_be_seen, *of_gpu, "--delays")
        self.assertEqual((status, printed.splitlines()[-1]), (1, "not as the catalogue says: never"))
        # Only survivors are looked for.
        status, _, said = self.mutate(late.replace("survives = 'a race'\n", ""), *of_gpu, "--delays")
        self.assertEqual((status, said), (1, "scripts/mutate: none of the named faults is of these paths and survives\n"))
        status, _, said = self.mutate(late, "--verify", "--delays", "--program", program)
        self.assertEqual((status, said.splitlines()[-1]), (2, "mutate: error: --delays needs --verify --device cuda"))

    def test_lists(self):
        status, printed, _ = self.mutate(WRONG_SUM + WRONG_ANSWER, "--list")
        self.assertEqual((status, [line.split()[0] for line in printed.splitlines()]), (0, ["wrong_sum", "wrong_answer"]))
        self.refused("there is no fault right_sum; --list names all", WRONG_SUM, "right_sum")

    def test_check(self):
        self.assertEqual(self.mutate(WRONG_SUM + WRONG_ANSWER, "--check")[:2], (0, "2 faults can be planted\n"))
        self.refused("wrong_sum: its old text stands 0 times in sum.cpp", WRONG_SUM.replace("a + b;", "a - b;"))
        self.refused("wrong_sum: its old text stands 2 times in sum.cpp", WRONG_SUM.replace("return a + b;", "sum("))
        self.refused("wrong_sum: there is no quotient.cpp", WRONG_SUM.replace("sum.cpp", "quotient.cpp"))
        self.refused("wrong_sum: its new text has no MUTANT", WRONG_SUM.replace("MUTANT", "true"))
        self.refused("same_sum changes what another fault changes in sum.cpp",
                     WRONG_SUM + WRONG_SUM.replace("wrong_sum", "same_sum"))
        self.refused("wrong_sum: it has file, new, old, tests; expected file, new, old, tests, wrong",
                     WRONG_SUM.replace("wrong = 'it is wrong_sum'\n", ""))
        (self.root / "scripts" / "mutants" / "more.toml").write_text(WRONG_SUM)
        self.refused("wrong_sum stands twice", WRONG_SUM)


if __name__ == "__main__":
    unittest.main()
