#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a failing run leaves a person, and what `--specimens` and `demo` leave.   usage: test_failures.py ASSAY"""
import html
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import jsonschema

from program import ASSAY, CASE, WRONG, ProgramTest, assay

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((SOURCE / "reports/schema/assay.run-1.schema.json").read_text())


class FailureTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "out"

    def record(self):
        record = json.loads((self.out / "run.json").read_text())
        jsonschema.validate(record, SCHEMA)
        return record

    def capsules(self):
        folder = self.out / "capsules"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()


class Demo(FailureTest):
    """The demo is a run that fails."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.of_demo = pathlib.Path(folder.name) / "out"
        cls.result = assay("demo", "--out", cls.of_demo)

    def setUp(self):
        super().setUp()
        self.out = self.of_demo
        self.assertEqual(self.result.returncode, 0, self.result.stderr)

    def test_shows_right_and_wrong_paths(self):
        failing = {case["path"] for case in self.record()["cases"] if case["verdict"] == "fail"}
        passing = {case["path"] for case in self.record()["cases"] if case["verdict"] == "pass"}
        self.assertIn("cpu", passing - failing)
        self.assertGreater(len(failing), 3)
        self.assertTrue(all(path.startswith("specimen.") for path in failing))
        self.assertTrue(self.record()["complete"])

    def test_workers_say_what_one_process_says(self):
        # Workers run the next case while one is judged and shrunk.
        of_workers = self.record()
        self.out = self.dir / "one_process"
        assay("demo", "--no-isolate", "--out", self.out)
        said = [[(case["id"], case["verdict"], case.get("shrunk_from")) for case in record["cases"]] for record in (of_workers, self.record())]
        self.assertEqual(*said)

    def test_has_a_block_for_each_path_with_a_line_that_replays_it(self):
        blocks = re.findall(r"^fail: (\S+) on cpu: (\d+) of (\d+) judged cases\n((?: .*\n)+?) +(\S+ replay .*)\n +its tensors: (.*)$",
                            self.result.stdout, re.MULTILINE)
        cases = self.record()["cases"]
        self.assertEqual({path for path, *_ in blocks}, {f"{case['op']}/{case['path']}" for case in cases if case["verdict"] == "fail"})
        for path, count, judged, reason, line, capsule in blocks:
            reason = " ".join(reason.split())
            of_path = [case for case in cases if f"{case['op']}/{case['path']}" == path]
            self.assertEqual(int(count), sum(case["verdict"] == "fail" for case in of_path))
            self.assertEqual(int(judged), sum(case["verdict"] != "skipped" for case in of_path))
            (shown,) = [case for case in of_path if f"'{case['id']}'" in line]
            self.assertEqual((shown["reason"], self.out / shown["capsule"]), (reason, pathlib.Path(capsule)))
            self.assertTrue(shown["fails_alone"])
            self.assertIn("; it fails alone in a fresh process", reason)
            self.assertTrue(pathlib.Path(capsule).is_file())
            self.assertEqual(shlex.split(line)[0], ASSAY)
        replayed = subprocess.run(line, shell=True, text=True, capture_output=True)
        self.assertEqual(replayed.returncode, 1, replayed.stderr)
        self.assertEqual(assay("replay", capsule).returncode, 1)

    def test_prints_the_first_failure_of_a_kind_at_once(self):
        paths = {case["path"] for case in self.record()["cases"] if case["verdict"] == "fail"}
        self.assertEqual(self.result.stderr.count("fail: "), len(paths))

    def test_names_the_capsules_in_each_report(self):
        shown = re.findall(r"its tensors: (.*)$", self.result.stdout, re.MULTILINE)
        for name in "report.html", "report.md", "junit.xml":
            text = (self.out / name).read_text()
            for capsule in shown:
                self.assertIn(f"capsules/{pathlib.Path(capsule).name}", text, name)
        named = {pathlib.Path(case["capsule"]).name for case in self.record()["cases"] if "capsule" in case}
        self.assertEqual(named, self.capsules())

    def test_each_link_of_the_page_leads_somewhere(self):
        page = (self.out / "report.html").read_text()
        ids = set(re.findall(r"\bid=\"?([^\s\">]+)", page))
        links = set(re.findall(r"href=\"?#([^\s\">]+)", page))
        self.assertEqual(links - ids, set())
        self.assertTrue(any(link.startswith("failure-") for link in links))
        self.assertLess(page.index('id="paths"'), page.index('id="failures"'))
        text = (self.out / "report.md").read_text()
        for number in re.findall(r"\]\(#failure-(\d+)\)", text):
            self.assertEqual(text.count(f"\n### Failure {number}\n"), 1)
        self.assertIn("](#failure-1)", text)

    def test_each_test_of_junit_has_its_time(self):
        tests = list(xml.etree.ElementTree.parse(self.out / "junit.xml").iter("testcase"))
        self.assertEqual(len(tests), len(self.record()["cases"]))
        seconds = [float(test.attrib["time"]) for test in tests]
        self.assertGreater(min(seconds), 0)
        self.assertLessEqual(sum(seconds), self.record()["seconds"])

    def test_the_next_run_removes_its_capsules_and_nothing_else(self):
        self.out = self.dir / "copy"
        shutil.copytree(self.of_demo, self.out)
        others = self.out / "capsules/mine.safetensors", self.out / "capsules/001-notes.txt"
        for other in others:
            other.write_text("kept")
        self.assertGreater(len(self.capsules()), 10)
        self.assertEqual(assay("replay", CASE, "--out", self.out).returncode, 0)
        self.assertEqual(self.capsules(), {other.name for other in others})
        for other in others:
            other.unlink()
        self.assertEqual(assay("replay", WRONG, "--out", self.out).returncode, 1)
        self.assertEqual(self.capsules(), {"001-dynamic_conv-specimen.tap_dropped.safetensors"})
        self.assertEqual(assay("replay", CASE, "--out", self.out).returncode, 0)
        self.assertFalse((self.out / "capsules").exists())


class DefaultFolder(FailureTest):
    def test_the_demo_has_a_folder_of_its_own(self):
        self.assertEqual(assay("demo", "-q", cwd=self.dir).returncode, 0)
        self.assertTrue((self.dir / "assay-demo/report.html").exists())


class Specimens(FailureTest):
    def test_leave_a_record_and_reports(self):
        result = assay("verify", "--specimens", "mhc_post", "--device", "cpu", "--out", self.out, env={"COLUMNS": "200"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({path.name for path in self.out.iterdir()}, {"run.json", "report.html", "report.md", "junit.xml", "benchmark.json"})
        record = self.record()
        self.assertTrue(record["specimens"] and all(specimen["caught"] for specimen in record["specimens"]))
        self.assertEqual(len(record["cases"]), sum(specimen["cases"] for specimen in record["specimens"]))
        head, *lines, sentence = result.stdout.splitlines()
        self.assertEqual(head.split(), ["specimen", "cases", "outcome", "fault"])
        self.assertEqual([tuple(line.split(maxsplit=3)) for line in lines],
                         [(f"{one['op']}/{one['path']}", str(one["cases"]), "caught", one["fault"]) for one in record["specimens"]])
        self.assertRegex(sentence, f"^All {len(lines)} specimens are caught, after 1 to ")
        self.assertIn(f"judging {len(lines)} specimens\n", result.stderr)
        self.assertNotIn("fail", result.stderr)
        for name in "report.html", "report.md":
            text = html.unescape((self.out / name).read_text()).replace("\\", "")
            self.assertIn(f"All {len(lines)} specimens are caught, after 1 to ", text)
            self.assertTrue(all(one["fault"] in text for one in record["specimens"]), name)
        suites = xml.etree.ElementTree.parse(self.out / "junit.xml").getroot()
        self.assertEqual((suites.attrib["tests"], suites.attrib["failures"]), (str(len(lines)), "0"))

    def test_that_survive_fail_in_json_and_junit(self):
        result = assay("verify", "--specimens", "dynamic_conv/specimen.narrow_offsets", "--cases", "2", "--device", "cpu", "--json", "--out", self.out)
        self.assertEqual(result.returncode, 1, result.stderr)
        (specimen,) = json.loads(result.stdout)["specimens"]
        self.assertEqual((specimen["cases"], specimen["caught"]), (2, False))
        self.assertEqual(self.record()["specimens"], [specimen])
        suites = xml.etree.ElementTree.parse(self.out / "junit.xml").getroot()
        (failure,) = suites.iter("failure")
        self.assertEqual(failure.attrib["message"], "offsets are computed in 32 bits: 2 cases found nothing")

    def test_report_renders_them_again(self):
        assay("verify", "--specimens", "dynamic_conv/specimen.t*", "--device", "cpu", "--out", self.out, "-q")
        self.assertEqual(assay("report", self.out, "--out", self.dir / "copy").returncode, 0)
        for name in "run.json", "report.html", "report.md", "junit.xml":
            self.assertEqual((self.dir / "copy" / name).read_text(), (self.out / name).read_text(), name)


if __name__ == "__main__":
    unittest.main()
