#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check runs the steps that it is asked for, and says how each ended. Its programs are stubs here."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "gpu_check"
# In which kernel each tool has to report a fault.
KERNELS = {"memcheck": "read_kernel", "racecheck": "hand_over_kernel", "initcheck": "read_kernel", "synccheck": "divergent_kernel"}


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        bin = self.dir / "build/gpu/bin"
        bin.mkdir(parents=True)
        for name, code in (("assay", 0), ("assay_properties_test", 1)):
            (bin / name).write_text(f'#!/bin/sh\necho "{name} $@"\nexit {code}\n')
            (bin / name).chmod(0o755)

    def check(self, *args, path=None, **variables):
        environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]} | variables
        return subprocess.run([SCRIPT, *args], cwd=self.dir, capture_output=True, text=True, env=environment)

    def make_sanitizer(self, then):
        tool = self.dir / "compute-sanitizer"
        tool.write_text(f'#!/bin/sh\necho "$@"\n{then}\n')
        tool.chmod(0o755)

    def test_runs_the_named_steps_and_no_others(self):
        result = self.check("out", "--only", "specimens,doctor")
        self.assertEqual(result.returncode, 0, result.stderr)
        states = [line for line in result.stdout.splitlines() if line.startswith("-- ")]
        self.assertEqual(states, ["-- doctor: ok", "-- specimens: ok"])
        self.assertIn("assay doctor --device cuda", (self.dir / "out/gpu_check.log").read_text())

    def test_sanitizers_see_the_process_that_runs_the_paths(self):
        for name, kernel in KERNELS.items():
            self.make_sanitizer(f'case "$*" in *SanitizerControl.$2) echo "at {kernel}(int *)"; exit 99 ;; esac')
            result = self.check("out", "--only", name, path=self.dir)
            self.assertEqual(result.returncode, 0, result.stderr)
            log = (self.dir / "out/gpu_check.log").read_text()
            options, commands = zip(*(line.split(" build/gpu/bin/") for line in log.splitlines() if line.startswith(f"--tool {name} ")))
            self.assertIn("assay verify --no-isolate --device cuda", commands[1])
            # The kernels that the tool is not to look at are the same ones for the planted fault.
            self.assertEqual(len(set(options)), 1)
            replayed = [command.removeprefix("assay replay --no-isolate --quiet ") for command in commands[2:]]
            cases = (SCRIPT.parent / "sanitized_cases").read_text().splitlines()
            self.assertEqual(replayed, cases if name in ("racecheck", "synccheck") else [])

    def test_a_list_without_cases_is_a_failure(self):
        (self.dir / "scripts").mkdir()
        shutil.copy(SCRIPT, self.dir / "scripts")
        self.make_sanitizer('case "$*" in *SanitizerControl*) echo hand_over_kernel; exit 99 ;; esac')
        environment = os.environ | {"PATH": f"{self.dir}:{os.environ['PATH']}"}
        for text in None, "":
            if text is not None:
                (self.dir / "scripts/sanitized_cases").write_text(text)
            result = subprocess.run(["scripts/gpu_check", "out", "--only", "racecheck"], cwd=self.dir, capture_output=True, text=True, env=environment)
            self.assertIn("names no case\n-- racecheck: FAILED (1)", result.stdout)

    def test_a_race_in_a_named_case_is_a_failure(self):
        self.make_sanitizer('case "$*" in *SanitizerControl*) echo hand_over_kernel; exit 99 ;; *trimul*) exit 99 ;; esac')
        self.assertIn("-- racecheck: FAILED (99)", self.check("out", "--only", "racecheck", path=self.dir).stdout)

    def test_the_planted_kernels_have_these_names(self):
        source = (SCRIPT.parents[1] / "properties/self/planted_kernels.cu").read_text()
        for kernel in KERNELS.values():
            self.assertIn(f"__global__ void {kernel}(", source)

    def test_a_sanitizer_that_misses_a_planted_fault_is_a_failure(self):
        no_gpu = "echo 'cudaErrorNoDevice (error 100) on CUDA API call to cudaGetDeviceCount'; exit 99"
        for name, kernel in KERNELS.items():
            for sees in "exit 0", "exit 1", f"echo {kernel}; exit 0", no_gpu:
                self.make_sanitizer(sees)
                result = self.check("out", "--only", name, path=self.dir)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"\n{name} does not report the fault that is planted for it in {kernel}\n", result.stdout)
                self.assertNotIn("assay verify", result.stdout)

    def test_a_machine_without_sanitizers_is_a_failure(self):
        result = self.check("out", "--only", "racecheck", PATH="/usr/bin:/bin", CUDA_HOME="/nowhere")
        self.assertEqual(result.returncode, 1)
        self.assertIn("\nracecheck has not run: there is no /nowhere/bin/compute-sanitizer\n", result.stdout)

    def test_what_a_sanitizer_reports_of_the_paths_is_a_failure(self):
        self.make_sanitizer("echo read_kernel; exit 99")
        self.assertIn("-- memcheck: FAILED (99)", self.check("out", "--only", "memcheck", path=self.dir).stdout)

    def test_delays_need_a_build_of_their_own(self):
        self.assertIn("-- delays: FAILED", self.check("out", "--only", "delays").stdout)
        (self.dir / "build/gpu").rename(self.dir / "build/delays")
        (self.dir / "build/delays/bin/assay_properties_test").write_text("#!/bin/sh\n")
        result = self.check("out", "--only", "delays")
        self.assertIn("assay verify --device cuda --quiet\n-- delays: ok", result.stdout)

    def test_goes_on_after_a_failure_and_reports_it(self):
        result = self.check("--only=tests,specimens", "out")
        self.assertEqual(result.returncode, 1)
        self.assertIn("-- tests: FAILED (1)\n", result.stdout)
        self.assertIn("-- specimens: ok\n", result.stdout)

    def test_refuses_what_it_does_not_know(self):
        for message, *args in [("usage", ), ("usage", "a", "b", "c"), ("--only dance is not one of doctor run", "out", "--only", "run,dance"),
                               ("unknown option '--fast'", "out", "--fast"), ("claims needs PEERS_DIR", "out", "--only", "claims")]:
            result = self.check(*args)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn(message, result.stderr)
            self.assertFalse((self.dir / "out").exists())


if __name__ == "__main__":
    unittest.main()
