#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents say that the program prints.   usage: test_documents.py ASSAY"""
import os
import pathlib
import re
import subprocess
import unittest

from program import ASSAY, ProgramTest, assay

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Times differ, a GPU may be absent; test_judge.py and scripts/tests/test_install.py have the rest.
NOT_RUN = re.compile(r"assay (bench|draw|judge|new|study|probe) |python3 |cd ")


def shown(document):
    """(command, lines shown as its output) of each command in the console blocks."""
    for block in re.findall(r"```console\n(.*?)```", (SOURCE / document).read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = re.sub(r"\\\n *", "", part).partition("\n")
            yield command, output.splitlines()


def squeezed(line):
    return " ".join(line.split())


def without_digits(line):
    return re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "#", line)


class Documents(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.dir / "reports").symlink_to(SOURCE / "reports")
        self.environment = os.environ | {"PATH": f"{pathlib.Path(ASSAY).parent}:{os.environ['PATH']}"}

    def output_of(self, command):
        return subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.dir, env=self.environment).stdout

    def assert_prints(self, document):
        """Each line that the document shows is printed, in this order. `...` stands for others, or for the rest of one. Sums
        of a production path have the order of the machine's vectors."""
        ran = 0
        for command, lines in shown(document):
            if NOT_RUN.match(command):
                continue
            ran += 1
            plain = without_digits if "/cpu/" in command else str
            printed = self.output_of(command)
            rest = iter(plain(squeezed(line)) for line in printed.splitlines())
            for line in lines:
                begin = plain(squeezed(line)).removesuffix("...")
                is_there = line.strip() == "..." or any(other.startswith(begin) if line.endswith("...") else other == begin for other in rest)
                self.assertTrue(is_there, f"{document}: `{command}` does not print\n{line}\n{printed}")
        return ran

    def test_readme(self):
        self.assertEqual(self.assert_prints("README.md"), 3)

    def test_residue_of_the_first_call(self):
        self.assertEqual(self.assert_prints("reports/transcripts/first_call_residue.md"), 5)

    def test_a_line_that_is_not_printed_shows(self):
        document = self.dir / "document.md"
        document.write_text("```console\n$ assay list\ndynamic_conv is no op\n```\n")
        with self.assertRaisesRegex(AssertionError, "does not print\ndynamic_conv is no op"):
            self.assert_prints(document)

    def test_reports_of_the_records(self):
        records = sorted((SOURCE / "reports").glob("[cg]pu/*/run.json"))
        self.assertGreater(len(records), 3)
        for record in records:
            with self.subTest(record.parent.name):
                result = assay("report", record.parent, "--out", self.dir / "out")
                self.assertEqual(result.returncode, 0, result.stderr)
                rendered = (self.dir / "out/report.md").read_text()
                self.assertTrue(rendered == record.with_name("report.md").read_text(),
                                f"{record.parent.name}/report.md: render it again, `assay report FOLDER`")


if __name__ == "__main__":
    unittest.main()
