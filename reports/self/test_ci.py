#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workflow in reports/ci: its jobs are run here, step by step, as GitHub would run them.   usage: test_ci.py ASSAY"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from program import ASSAY, ProgramTest

try:
    import yaml
except ImportError:
    sys.exit("test_ci.py needs python3-yaml")

WORKFLOW = pathlib.Path(__file__).resolve().parents[2] / "reports/ci/github.yml"
KNOWN = {"actions/checkout", "actions/upload-artifact", "actions/download-artifact"}
# Few and small cases; everything else is the program.
PROGRAM = """#!/bin/sh
case $1 in
  verify) exec {assay} "$@" mhc_post/cpu --cases 8 --dtype {dtype} ;;
  bench) exec {assay} "$@" mhc_post/cpu --dtype bf16 ;;
  *) exec {assay} "$@" ;;
esac
"""


class Job:
    """Runs the steps of a job in a folder. Actions are played by copies of folders."""

    def __init__(self, workflow, name, root, matrix=None, dtype="f32"):
        self.job, self.matrix, self.dtype = workflow["jobs"][name], matrix or {}, dtype
        self.folder, self.artifacts = root / f"{name}{'-'.join(map(str, self.matrix.values()))}", root / "artifacts"
        self.folder.mkdir()
        self.summary, self.log = self.folder / "summary.md", ""
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "gh").write_text(f"#!/bin/sh\necho \"$@\" > {self.folder}/gh.log\n")
        (tools / "gh").chmod(0o755)
        self.env = dict(os.environ) | {k: str(v) for k, v in workflow["env"].items()} | {
            "BUILD": "true", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(self.summary), "ASSAY_REPEAT": "1",
            "PATH": f"{tools}:{os.environ['PATH']}"}

    def fill(self, text):
        values = {f"matrix.{k}": v for k, v in self.matrix.items()} | {
            "github.token": "secret", "github.repository": "o/r", "github.event.pull_request.number": 7,
            "github.event.pull_request.base.sha": "abc"}
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: str(values[match[1]]), str(text))

    def checkout(self, path):
        program = self.folder / path / self.env["PROGRAM"]
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM.format(assay=ASSAY, dtype=self.dtype))
        program.chmod(0o755)

    def action(self, uses, given):
        name = uses.split("@")[0]
        if name == "actions/checkout":
            self.checkout(given.get("path", "."))
        elif name == "actions/upload-artifact":
            if (self.folder / given["path"]).exists():  # else GitHub warns
                shutil.copytree(self.folder / given["path"], self.artifacts / self.fill(given["name"]))
        elif name == "actions/download-artifact":
            for artifact in self.artifacts.glob(given["pattern"]):
                shutil.copytree(artifact, self.folder / given["path"] / artifact.name)
        else:
            raise KeyError(uses)

    def run(self):
        code = 0
        for step in self.job["steps"]:
            if code and "always()" not in str(step.get("if", "")):
                continue
            if "uses" in step:
                self.action(step["uses"], step.get("with", {}))
                continue
            env = self.env | {key: self.fill(value) for key, value in step.get("env", {}).items()}
            result = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", self.fill(step["run"])], cwd=self.folder, env=env,
                                    text=True, capture_output=True)
            self.log += result.stdout + result.stderr
            code = code or result.returncode
        return code


class Workflow(ProgramTest):
    def setUp(self):
        super().setUp()
        self.workflow = yaml.safe_load(WORKFLOW.read_text())

    def test_it_uses_what_the_runner_here_knows(self):
        uses = {step["uses"].split("@")[0] for job in self.workflow["jobs"].values() for step in job["steps"] if "uses" in step}
        self.assertEqual(uses, KNOWN)

    def verify(self, dtypes):
        for shard, dtype in enumerate(dtypes, 1):
            job = Job(self.workflow, "verify", self.dir, {"shard": shard}, dtype)
            self.assertEqual(job.run(), 0, job.log)
        merge = Job(self.workflow, "merge", self.dir)
        return merge, merge.run()

    def test_four_shards_become_one_report(self):
        self.assertEqual(self.workflow["jobs"]["verify"]["strategy"]["matrix"]["shard"], [1, 2, 3, 4])
        merge, code = self.verify(["f32"] * 4)
        self.assertEqual(code, 0, merge.log)
        self.assertIn("8 judged cases", merge.log)
        self.assertIn("# Assay", merge.summary.read_text())
        self.assertTrue((self.dir / "artifacts/report/report.html").exists())

    def test_a_missing_shard_fails_the_merge(self):
        merge, code = self.verify(["f32"] * 3)
        self.assertEqual(code, 5, merge.log)
        self.assertIn("missing: shard 4/4", merge.log)

    def test_a_foreign_shard_fails_the_merge(self):
        merge, code = self.verify(["f32"] * 3 + ["bf16"])
        self.assertEqual(code, 2, merge.log)
        self.assertIn("are not shards of one run", merge.log)

    def test_the_gate_comments(self):
        gate = Job(self.workflow, "gate", self.dir)
        code = gate.run()
        self.assertIn(code, (0, 3), gate.log)  # the clock of a busy machine
        self.assertTrue((gate.folder / "comment.md").read_text().startswith("## Assay\n"), gate.log)
        self.assertIn("## Assay", gate.summary.read_text())
        self.assertIn("pr comment 7 --repo o/r --edit-last --create-if-none --body-file comment.md", (gate.folder / "gh.log").read_text())
        self.assertEqual({path.name for path in (self.dir / "artifacts/times").iterdir()}, {"before", "after"})


if __name__ == "__main__":
    unittest.main()
