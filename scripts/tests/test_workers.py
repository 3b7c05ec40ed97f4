#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing that a path does costs more than one verdict: `test_workers.py BUILD` builds scripts/tests/murderous on that build."""

import json
import os
import subprocess
import time
import unittest
import xml.etree.ElementTree

from murderous_program import SHORT, MurderousTest

# What each path costs: the verdict on each of its cases, and what the reason says.
FATES = {
    "healthy": ("pass", ""),
    "exit": ("crashed", "ended its process with exit status 0 in the first run"),
    "_exit": ("crashed", "ended its process with exit status 0 in the first run"),
    "quick_exit": ("crashed", "ended its process with exit status 0 in the first run"),
    "abort": ("crashed", "died of SIGABRT in the first run"),
    "segv": ("crashed", "died of SIGSEGV in the first run"),
    "divides_by_zero": ("crashed", "died of SIGFPE in the first run"),
    "wild_write": ("fail", "100 bytes before the first element"),
    "double_free": ("crashed", "died of SIGABRT in the first run"),
    "heap_damage": ("crashed", "died of SIG"),
    "stack_overflow": ("crashed", "died of SIGSEGV in the first run"),
    "throws_int": ("crashed", "threw an object of the type int, in the first run"),
    "throws_in_a_thread": ("crashed", "died of SIGABRT in the first run"),
    "hang": ("timeout", "did not return within 0.3 s, in the first run"),
    "hang_deaf": ("timeout", "did not return within 0.3 s, in the first run"),
    "stops": ("timeout", "did not return within 0.3 s, in the first run"),
    "all_memory": ("crashed", "threw: std::bad_alloc, in the first run"),
    "keeps_all_memory": (None, ""),  # small cases find memory still
    "keeps_some_memory": ("pass", ""),
    "keeps_all_memory_and_files": (None, ""),
    "closes_files": ("crashed", "closed its process's connection to this program"),
    "closes_files_and_hangs": ("timeout", "closed its process's connection to this program, and did not end within 1 s, in the first run"),
    "says_nonsense": ("crashed", "damaged its process, whose answer makes no sense"),
    "sends_false_sizes": ("crashed", "damaged its process, whose answer makes no sense"),
    "grows_shared_memory": ("pass", ""),  # harms nobody
    "seals_shared_memory": ("pass", ""),
    "loses_shared_memory": ("crashed", "closed its process's connection to this program"),
    "limits_memory": ("crashed", "the path lowered its process's limits: "),
    "limits_private_memory_softly": (None, ""),
    "limits_files": ("crashed", "the path lowered its process's limits: "),
    "ends_its_thread": ("crashed", ""),
    "healthy_and_parallel": ("pass", ""),
    "healthy_with_scratch": ("pass", ""),
    "asks_for_more_than_exists": ("crashed", "cpu: nothing has 140737488355328 bytes, in the first run"),
    "throws_at_length": ("crashed", "the path threw: \\x1b"),
    "throws_without_a_word": ("crashed", "the path threw: (its what() is null)"),
    "answers_twice": ("crashed", "damaged its process, whose answer makes no sense"),
    "trickles": ("timeout", "did not return within 0.3 s, in the first run"),
    "promises_too_much": ("crashed", "damaged its process, whose answer makes no sense"),
    "returns_twice": ("pass", ""),  # from fork()
    "writes_to_closed_pipe": ("pass", ""),
    "refuses_odd_sizes": (None, ""),
    "refuses_with_a_result": ("fail", "the path refuses a problem that it says it serves: it is wrong, in the first run"),
    "outlives_its_program": ("timeout", "did not return within 0.3 s, in the first run"),
    "is_slow": (None, ""),
    "leaves_a_session": ("pass", ""),
    "leaves_a_child": ("pass", ""),
    "leaves_a_child_and_aborts": ("crashed", "died of SIGABRT in the first run"),
    "waits_for_its_children": ("pass", ""),
    "asks_to_be_traced": ("timeout", "did not return within 0.3 s, in the first run"),
    "leaves_its_group": ("timeout", "did not return within 0.3 s, in the first run"),
    "changes_folder": ("pass", ""),
    "rounds_up": ("fail", "changed the rounding mode"),
    "flushes_to_zero": ("fail", "changed what becomes of subnormal results (FTZ)"),
    "takes_zero_for_denormal": ("fail", "changed what becomes of subnormal inputs (DAZ)"),
    "changes_locale": ("pass", ""),
    "outliving_thread": (None, ""),  # may do harm, to its own cases
    "interrupts_its_group": ("crashed", "died of SIGINT in the first run"),
    "kills_itself": ("crashed", "died of SIGKILL"),
    "prints": ("pass", ""),
    "prints_and_ends": ("crashed", "ended its process with exit status 0 in the first run"),
    "dies_in_fortieth_call": (None, ""),
    "dies_near_its_timed_size": (None, ""),
    "refuses_from_hundredth_call_on": (None, ""),
    "exits_when_asked": ("crashed", "ended its process with exit status 0 in unsupported()"),
    "_exits_when_asked": ("crashed", "ended its process with exit status 0 in unsupported()"),
    "dies_when_asked": ("crashed", "died of SIGSEGV in unsupported()"),
    "throws_int_when_asked": ("crashed", "the path threw an object of the type int, in unsupported()"),
    "throws_when_asked": ("crashed", "the path threw: \\xff it is, in unsupported()"),
    "refuses_by_throwing": ("crashed", "n is odd, in unsupported()"),
    "hangs_when_asked": ("timeout", "did not return within 0.3 s, in unsupported()"),
    "answers_when_asked": ("crashed", "damaged its process, whose answer makes no sense"),
    "leaves_a_session_when_asked": ("pass", ""),
    "leaves_a_session_in_its_recipe": ("pass", ""),
    "throws_in_its_recipe": ("crashed", "the path threw an object of the type int, in recipe()"),
    "exits_in_its_recipe": ("crashed", "ended its process with exit status 0 in recipe()"),
    "hangs_in_its_recipe": ("timeout", "did not return within 0.3 s, in recipe()"),
    "has_its_recipe_in_workers": ("pass", ""),  # verify does not ask it elsewhere
    "keeps_all_addresses_when_asked": ("crashed", "the path took memory that was there before it was called: "),
    "rounds_up_when_asked": ("fail", "the path changed the rounding mode, in unsupported()"),
    "rounds_up_in_its_recipe": ("fail", "the path changed the rounding mode, in recipe()"),
    "healthy_too": ("pass", ""),
    "serves_even_sizes": (None, ""),
}
CASES = 2
SEED = "11"  # two cases without history, so that each path dies in its first run


class Workers(MurderousTest):
    def test_a_probe_goes_on_after_each_path(self):
        paths = {"healthy": None, "abort": "died of SIGABRT in a call", "exit": "crashed: the path ended its process",
                 "throws_int": "crashed: the path threw", "hang": "timeout: the path did not return within 0.3 s",
                 "wild_write": "bytes before the first element", "healthy_too": None}
        result = self.assay("probe", *[f"echo/{path}" for path in paths], *SHORT, "--json", "--quiet")
        self.assertEqual(result.returncode, 1, result.stderr)
        found = {path["path"]["path"]: path["sums"] for path in json.loads(result.stdout)["paths"]}
        self.assertEqual(set(found), set(paths))
        for path, why in paths.items():
            with self.subTest(path):
                self.assertEqual(len(found[path]), 1)
                if why is None:
                    self.assertEqual(found[path][0]["tree"]["shape"], "sequential")
                else:
                    self.assertIn(why, found[path][0]["why_not"])
        self.assertEqual(self.assay("probe", "echo/healthy", *SHORT, "--json").returncode, 0)

    def test_each_path_costs_its_own_verdicts(self):
        out = self.work / "out"
        result = self.assay("verify", "--cases", str(CASES), "--seed", SEED, "--json", "--out", out, *SHORT)
        self.assertEqual(result.returncode, 1, result.stderr)
        record = json.loads(result.stdout)  # what a path prints is not there
        self.assertTrue(record["complete"])
        self.assertEqual(record["cases"], json.loads((out / "run.json").read_text())["cases"])
        for name in ("report.html", "report.md", "junit.xml"):
            self.assertTrue((out / name).exists(), name)
        self.assertEqual([path for path in dict.fromkeys(case["path"] for case in record["cases"])], list(FATES))
        for path, (verdict, reason) in FATES.items():
            cases = [case for case in record["cases"] if case["path"] == path]
            with self.subTest(path):
                self.assertEqual(len(cases), 1 if verdict == "timeout" else CASES)
                if verdict:
                    self.assertEqual({case["verdict"] for case in cases}, {verdict})
                if verdict and verdict != "pass":
                    # three timeouts do not suffice to shrink a case
                    smallest = "" if verdict == "timeout" else "1/data=normal/state=first_call"
                    self.assertTrue(cases[0]["id"].startswith(f"echo/{path}/f32/n={smallest}"), cases[0]["id"])
                    self.assertIn(reason, cases[0]["reason"])
                    # of wrong results only the smallest case is judged again
                    self.assertIs(min(cases, key=lambda case: case["id"])["fails_alone"], True)
                for case in cases if verdict and verdict != "pass" else []:
                    self.assertIn(reason, case["reason"])
                    self.assertEqual("; it fails alone in a fresh process" in case["reason"], "fails_alone" in case)
        self.assertLess((out / "run.json").stat().st_size, 1e6)  # whatever a path says
        self.assertLess(len(max((result.stderr + (out / "report.md").read_text()).splitlines(), key=len)), 5000)
        self.assertIn("after 3 timeouts the path is judged no further", result.stderr)
        self.assertRegex(result.stderr, r"(?m)^timeout: echo/\w+/f32/n=")  # each at once
        for printed in '{"this": "is no record"}', "a line from where it ends\n":
            self.assertGreaterEqual(result.stderr.count(printed), CASES, printed)
        self.assertEqual(self.processes(), {})
        suites = xml.etree.ElementTree.parse(out / "junit.xml").getroot()
        kinds = [(element.tag, element.attrib["type"]) for test in suites.iter("testcase") for element in test.iter() if "type" in element.attrib]
        self.assertLessEqual(set(kinds), {("error", "crashed"), ("error", "timeout"), ("failure", "fail")})
        self.assertEqual(suites.attrib["errors"], str(sum(tag == "error" for tag, _ in kinds)))
        (line,) = [line for line in (out / "report.md").read_text().splitlines() if "replay 'echo/segv/" in line]
        again = subprocess.run(line.strip("`"), shell=True, text=True, capture_output=True)
        self.assertIn("died of SIGSEGV in the first run", again.stdout)

    def test_what_needs_history_is_said_and_not_shrunk(self):
        record = json.loads(self.assay("verify", "echo/dies_in_fortieth_call", "--cases", "30", "--json", "--device", "cpu").stdout)
        crashed = [case for case in record["cases"] if case["verdict"] == "crashed"]
        self.assertGreater(len(crashed), 0)
        self.assertTrue(all(case["reason"].endswith("; it needs what ran before") for case in crashed), crashed)
        self.assertTrue(all("shrunk_from" not in case for case in crashed))

    def test_what_is_wrong_only_with_history_is_said(self):
        result = self.assay("verify", "echo/refuses_from_hundredth_call_on", "--cases", "60", "--device", "cpu")
        self.assertRegex(result.stdout, r"fail: echo/refuses_from_hundredth_call_on on cpu: \d+ of \d+ judged cases\n.* it is enough, in [^;]+;\s+it needs what ran before\n")

    def test_the_end_of_the_thread_of_a_program_is_no_success(self):
        for command in ["verify", "echo/ends_its_thread", "--device", "cpu"], ["replay", "echo/ends_its_thread/f32/n=3"]:
            result = self.assay(*command, "--no-isolate")
            self.assertEqual((result.returncode, result.stderr.splitlines()[-1]), (1, "assay: a path called exit() or pthread_exit()"), command)

    def test_a_case_is_replayed_and_timed_in_workers(self):
        case = "echo/exit/f32/n=5"
        result = self.assay("replay", case)
        self.assertEqual(result.returncode, 1)
        self.assertIn("crashed: the path ended its process with exit status 0", result.stdout)
        bench = self.assay("bench", "echo/healthy", "echo/exit", "--json", "--device", "cpu")
        self.assertEqual(bench.returncode, 1, bench.stderr)
        healthy, murderous = json.loads(bench.stdout)["cases"]
        self.assertGreater(len(healthy["perf"]["samples_ns"]), 10)
        self.assertEqual(healthy["perf_warm"]["cache"], "warm")
        self.assertEqual((murderous["verdict"], murderous["perf"]), ("crashed", None))

    def test_a_path_that_dies_while_it_is_timed_has_no_time(self):
        bench = self.assay("bench", "echo/dies_in_fortieth_call", "--json", "--device", "cpu", "--out", self.work / "timed")
        (case,) = json.loads(bench.stdout)["cases"]
        self.assertEqual((case["verdict"], case["perf"], case["perf_warm"]), ("crashed", None, None))
        self.assertRegex(case["reason"], "died of SIGABRT in the timing with (cold|warm) caches")
        self.assertNotIn("capsule", case)

    def test_a_path_that_serves_the_timed_size_alone_has_no_time(self):
        self.assertEqual(self.assay("replay", "echo/dies_near_its_timed_size/f32/n=65536").returncode, 0)
        bench = self.assay("bench", "echo/dies_near_its_timed_size", "--json", "--device", "cpu", "--out", self.work / "timed_size")
        (case,) = json.loads(bench.stdout)["cases"]
        self.assertEqual((bench.returncode, case["verdict"], case["perf"]), (1, "crashed", None))
        self.assertRegex(case["reason"], r"^the path's process died of SIGABRT in a call of echo/dies_near_its_timed_size/f32/n=\d+/")

    def test_a_path_ends_after_so_many_failures(self):
        def cases(*args):
            record = json.loads(self.assay("verify", "echo/segv", "echo/healthy", "--cases", "6", "--json", "--device", "cpu", *args).stdout)
            return [(case["path"], case["verdict"]) for case in record["cases"]], record["cases"]

        all_of_them, _ = cases()
        self.assertEqual(sum(verdict == "crashed" for _, verdict in all_of_them), 6)
        limited, judged = cases("--max-failures", "2")
        self.assertEqual([path for path, _ in limited], ["healthy"] * 6 + ["segv"] * 2)
        self.assertTrue(judged[-1]["reason"].endswith("; after 2 failures the path is judged no further"))

    def test_a_failure_may_be_reported_as_it_was_drawn(self):
        def failure(*args):
            (case,) = json.loads(self.assay("verify", "echo/segv", "--max-failures", "1", "--json", *args).stdout)["cases"]
            return case

        shrunk, drawn = failure(), failure("--no-shrink")
        self.assertEqual(drawn["id"], shrunk["shrunk_from"])
        self.assertNotIn("shrunk_from", drawn)

    def test_nor_is_it_judged_once_more_then(self):
        def failure(*args):
            result = self.assay("verify", "echo/dies_in_fortieth_call", "--cases", "60", "--max-failures", "1", "--json", "--device", "cpu", *args)
            (case,) = (case for case in json.loads(result.stdout)["cases"] if case["verdict"] == "crashed")
            return case

        self.assertFalse(failure()["fails_alone"])
        self.assertNotIn("fails_alone", failure("--no-shrink"))

    def test_specimens_that_harm_their_process_are_caught(self):
        result = self.assay("verify", "--specimens", "--json", *SHORT)
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads(result.stdout)
        self.assertTrue(all(specimen["caught"] for specimen in record["specimens"]))
        caught = {case["path"]: case["verdict"] for case in record["cases"] if case["verdict"] not in ("pass", "skipped")}
        self.assertEqual(caught, {"specimen.copies_nothing": "fail", "specimen.segv": "crashed", "specimen.hang": "timeout"})

    @unittest.skipUnless(os.environ.get("ASSAY_NIGHTLY"), "nightly: it waits for all that hangs")
    def test_the_demo_waits_three_seconds_for_a_case(self):
        out = self.work / "demo"
        result = self.assay("demo", "-q", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        cases = {case["path"]: case for case in json.loads((out / "run.json").read_text())["cases"]}
        self.assertEqual(cases["specimen.segv"]["verdict"], "crashed")
        self.assertIn("did not return within 3 s", cases["specimen.hang"]["reason"])

    def test_one_process_is_enough_where_it_is_asked_for(self):
        ended = self.assay("verify", "echo/exit", "--cases", "1", "--no-isolate", "--out", self.work / "ended")
        self.assertEqual(ended.returncode, 1)
        self.assertNotIn("goes on", ended.stderr)  # the path would end the resumed run, too
        twin = self.assay("verify", "echo/healthy", "--cases", "3", env={**os.environ, "ASSAY_NO_ISOLATE": "1"})
        self.assertEqual(twin.returncode, 0, twin.stderr)
        result = self.assay("verify", "echo/rounds_up", "echo/healthy_too", "--cases", "2", "--no-isolate", "--json")
        self.assertEqual({(case["path"], case["verdict"]) for case in json.loads(result.stdout)["cases"]},
                         {("rounds_up", "fail"), ("healthy_too", "pass")})
        self.assertEqual(self.assay("verify", "--no-isolate", "--timeout", "1s").returncode, 2)

    def test_what_a_path_throws_is_a_verdict_in_one_process_too(self):
        for path in "throws_int_when_asked", "throws_when_asked", "refuses_by_throwing", "throws_in_its_recipe":
            with self.subTest(path):
                result = self.assay("verify", f"echo/{path}", "echo/healthy", "--cases", "2", "--no-isolate", "--json", "--device", "cpu")
                self.assertEqual(result.returncode, 1, result.stderr)
                verdicts = [(case["path"], case["verdict"]) for case in json.loads(result.stdout)["cases"]]
                self.assertEqual(verdicts, [("healthy", "pass")] * 2 + [(path, "crashed")] * 2)

    def test_a_path_that_ends_the_program_where_it_is_asked_is_no_success(self):
        drawn, got = self.work / "drawn.safetensors", self.work / "got.safetensors"
        self.assertEqual(self.assay("draw", "echo/healthy/f32/n=3", "--out", drawn).returncode, 0)
        self.assertEqual(self.assay("exec", "echo/healthy/f32/n=3", "--in", drawn, "--out", got).returncode, 0)
        exits = "crashed: the path ended its process with exit status 0 in "
        for path, said in {
            "exits_when_asked": exits + "unsupported()",
            "_exits_when_asked": exits + "unsupported()",
            "dies_when_asked": "crashed: the path's process died of SIGSEGV in unsupported()",
            "throws_int_when_asked": "crashed: the path threw an object of the type int, in unsupported()",
            "hangs_when_asked": "timeout: the path did not return within {} s, in unsupported()",
            "answers_when_asked": "crashed: the path damaged its process, whose answer makes no sense",
            "exits_in_its_recipe": exits + "recipe()",
            "rounds_up_in_its_recipe": "fail: the path changed the rounding mode, in recipe()",
        }.items():
            with self.subTest(path):
                case = f"echo/{path}/f32/n=3"
                for seconds, *command in [(5, "draw", case, "--out", drawn), (5, "judge", case, "--got", got),
                                          (0.3, "exec", case, "--in", drawn, "--out", self.work / "none.safetensors", *SHORT)]:
                    result = self.assay(*command)
                    self.assertEqual(result.returncode, 1, command)
                    self.assertIn(said.format(seconds), " ".join((result.stdout + result.stderr).split()))

    def test_exec_says_what_became_of_the_path(self):
        drawn, got = self.work / "drawn.safetensors", self.work / "none.safetensors"
        self.assertEqual(self.assay("draw", "echo/healthy/f32/n=3", "--out", drawn).returncode, 0)
        for path, said in {
            "exit": "crashed: the path ended its process with exit status 0 in the run",
            "_exit": "crashed: the path ended its process with exit status 0 in the run",
            "segv": "crashed: the path's process died of SIGSEGV in the run",
            "throws_int": "crashed: the path threw an object of the type int, in the run",
            "rounds_up": "fail: the path changed the rounding mode",
            "all_memory": "crashed: the path threw: std::bad_alloc, in the run",
            "loses_shared_memory": "crashed: the path closed its process's connection to this program",
            "closes_files": "crashed: the path closed its process's connection to this program",
            "answers_twice": "crashed: the path damaged its process, whose answer makes no sense",
            "hang": "timeout: the path did not return within 0.3 s, in the run",
        }.items():
            with self.subTest(path):
                result = self.assay("exec", f"echo/{path}/f32/n=3", "--in", drawn, "--out", got, *SHORT)
                self.assertEqual((result.returncode, result.stderr), (1, f"assay: echo/{path} {said}\n"))
                self.assertFalse(got.exists())
        for path, code, said in ("prints", 0, '{"this": "is no record"}'), ("prints_and_ends", 1, "a line from where it ends\n"):
            result = self.assay("exec", f"echo/{path}/f32/n=3", "--in", drawn, "--out", got)
            self.assertEqual((result.returncode, result.stdout), (code, ""))
            self.assertIn(said, result.stderr)
        result = self.assay("exec", "echo/exit/f32/n=3", "--in", drawn, "--out", got, "--no-isolate")
        self.assertEqual((result.returncode, result.stderr), (1, "assay: a path called exit() or pthread_exit()\n"))

    def test_what_a_path_does_where_it_is_asked_stays_in_a_copy(self):
        case = "echo/has_its_recipe_in_workers/f32/n=3"
        drawn, got = self.work / "drawn.safetensors", self.work / "got.safetensors"
        for command in [("draw", case, "--out", drawn), ("exec", case, "--in", drawn, "--out", got), ("judge", case, "--got", got)]:
            self.assertEqual(self.assay(*command).returncode, 0, command)
        bench = self.assay("bench", "echo/has_its_recipe_in_workers", "--json", "--device", "cpu")
        (timed,) = json.loads(bench.stdout)["cases"]
        self.assertEqual((bench.returncode, timed["verdict"]), (0, "pass"), bench.stderr)
        self.assertGreater(timed["perf"]["floor_ns"], 0)

    def test_what_a_path_leaves_behind_where_it_is_asked_ends(self):
        case = "echo/leaves_a_session_when_asked/f32/n=3"
        self.assertEqual(self.assay("draw", case, "--out", self.work / "drawn.safetensors").returncode, 0)
        self.assertEqual(self.assay("list", "echo/leaves_a_session_in_its_recipe", "--recipes").returncode, 0)
        self.assertEqual(self.processes(), {})

    def test_a_specimen_does_not_wait_for_the_recipes_of_paths(self):
        start = time.time()
        result = self.assay("replay", "echo/specimen.segv/f32/n=3", "--device", "cpu")
        self.assertIn("died of SIGSEGV", result.stdout)
        self.assertLess(time.time() - start, 4)  # hangs_in_its_recipe has five seconds

    def test_a_case_is_named_before_its_path_is_asked(self):
        out = self.work / "asked"
        program = self.start("verify", "echo/hangs_when_asked", "--out", out, "--device", "cpu")
        self.wait_for(lambda: (out / "journal.jsonl").exists() and "running" in (out / "journal.jsonl").read_text())
        program.kill()
        program.communicate()
        self.assertIn("interrupted after 0 of 200 cases, in echo/hangs_when_asked/f32/", self.assay("report", out).stderr)

    def test_a_list_goes_on_after_a_path_that_does_not_say_its_recipe(self):
        result = self.assay("list", "echo/exits_in_its_recipe", "echo/rounds_up_in_its_recipe", "echo/hangs_in_its_recipe", "echo/healthy", "--recipes", "--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
        self.assertIn("the path ended its process with exit status 0 in recipe()", lines)
        self.assertIn("the path changed the rounding mode, in recipe()", lines)
        self.assertIn("the path did not return within 5 s, in recipe()", lines)
        self.assertEqual(lines.count("outputs f32"), 1)

    def test_a_path_that_refuses_only_by_throwing_fails(self):
        result = self.assay("verify", "echo/refuses_odd_sizes", "--cases", "20", "--json", "--device", "cpu")
        self.assertEqual(result.returncode, 1)
        cases = json.loads(result.stdout)["cases"]
        self.assertEqual({case["verdict"] for case in cases}, {"pass", "fail"})
        failures = [case["reason"] for case in cases if case["verdict"] == "fail"]
        self.assertTrue(all("refuses a problem that it says it serves: " in reason for reason in failures), failures)

    def test_a_timeout_is_replayed_in_the_same_time(self):
        out = self.work / "slow"
        self.assertEqual(self.assay("verify", "echo/is_slow", "--cases", "1", "--timeout", "150ms", "--device", "cpu", "--out", out).returncode, 1)
        for report in "report.html", "report.md", "junit.xml":
            self.assertIn("--timeout 150ms", (out / report).read_text(), report)
        (line,) = [line.strip("`") for line in (out / "report.md").read_text().splitlines() if " replay 'echo/is_slow/" in line]
        again = subprocess.run(line, shell=True, text=True, capture_output=True)
        self.assertEqual(again.returncode, 1)
        self.assertIn("timeout: the path did not return within 0.15 s", again.stdout)
        self.assertEqual(subprocess.run(line.removesuffix(" --timeout 150ms"), shell=True, capture_output=True).returncode, 0)

    def test_a_spoiled_gpu_costs_the_verdicts_of_its_path(self):
        result = self.assay("verify", "echo/cuda*", "--cases", "6", "--device", "cuda", "--json")
        if result.returncode in (5, 77):
            self.skipTest("no GPU, or no CUDA in this build")
        verdicts = {}
        for case in json.loads(result.stdout)["cases"]:
            if not case["reason"].startswith("empty"):
                verdicts.setdefault(case["path"], []).append((case["verdict"], case["reason"]))
        for path in "cuda", "cuda.again":
            self.assertEqual({verdict for verdict, _ in verdicts[path]}, {"pass"}, verdicts[path])
        for path in "cuda.faults", "cuda.faults_elsewhere":
            self.assertEqual({verdict for verdict, _ in verdicts[path]}, {"crashed"}, verdicts[path])
            self.assertTrue(all("cuda" in reason for _, reason in verdicts[path]), verdicts[path])

    def test_nobody_else_starts_a_worker(self):
        started = subprocess.run(["sh", "-c", '"$0" --worker echo healthy cpu $$; exit $?', self.program], text=True, capture_output=True)
        self.assertEqual(started.returncode, 2)
        self.assertEqual(started.stderr, "assay: only the program itself starts a worker\n")


if __name__ == "__main__":
    unittest.main()
