#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program on a terminal and in a shell: widths, progress, hints, variables, completion.   usage: test_terminal.py ASSAY"""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from program import ASSAY, CASE, ENVIRONMENT, ProgramTest, assay

CLEAR = "\r\x1b[2K"


def on_terminal(*args, columns=80, stop_after=None, **env):
    """Runs the program on a terminal. Returns its exit code and what the terminal received."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in ENVIRONMENT.items() if k not in ("COLUMNS", "NO_COLOR", "TERM")}
    process = subprocess.Popen([ASSAY, *args], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=environment | env)
    os.close(terminal)
    received, start = b"", time.time()
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        received += part
        if stop_after and time.time() - start > stop_after:
            process.send_signal(signal.SIGINT)
            stop_after = None
    os.close(main)
    return process.wait(), received.decode().replace("\r\n", "\n")


def left_on_screen(received):
    """The lines that stay, after what was taken back."""
    return [re.sub(r"\x1b\[[0-9;]*m", "", line.rsplit(CLEAR, 1)[-1]) for line in received.split("\n")]


class Width(ProgramTest):
    def test_tables_fit_the_terminal(self):
        for columns in (80, 60, 200):
            code, received = on_terminal("verify", "mhc_post", "dynamic_conv*", "--device", "cpu", "--cases", "3", "-q", columns=columns)
            self.assertEqual(code, 0, received)
            rows = [line for line in left_on_screen(received) if re.match(r"path |\w+/cpu ", line)]
            self.assertGreater(len(rows), 5, received)
            self.assertLessEqual(max(map(len, rows)), columns, received)
            self.assertIn("failed", rows[0])
            self.assertNotIn("median", rows[0])  # nothing was timed
            self.assertEqual("device" in rows[0], columns > 60, rows[0])

    def test_failures_and_specimens_fit_but_for_the_lines_to_copy(self):
        tall = "mhc_post/specimen.*", "dynamic_conv/specimen.t*"
        code, received = on_terminal("verify", "--specimens", *tall, "--device", "cpu", "-q", columns=60)
        self.assertEqual(code, 0, received)
        lines = "\n".join(left_on_screen(received)).splitlines()
        self.assertRegex(" ".join(lines), r" All \d+ specimens are caught")
        self.assertLessEqual(max(map(len, lines)), 60, received)
        code, received = on_terminal("demo", "-q", "--out", self.dir / "demo", columns=60)
        self.assertEqual(code, 0, received)
        blocks = "\n".join(left_on_screen(received)).rpartition("\npath ")[2].splitlines()
        reasons = [line for line in blocks[1:-1] if line.startswith("  ") and " replay " not in line and "its tensors" not in line]
        self.assertGreater(len(reasons), 10, received)
        self.assertLessEqual(max(map(len, reasons)), 60, received)
        self.assertRegex(" ".join(blocks), r" \d+ of \d+ judged cases did not pass \(.*\), on \d+ of \d+ paths: ")

    def test_lists_fit_the_terminal_and_columns_beats_it(self):
        for columns, env in (80, {}), (50, {"COLUMNS": "50"}):
            code, received = on_terminal("list", "mhc_post", "cheri_block", columns=80, **env)
            self.assertEqual(code, 0)
            self.assertLessEqual(max(map(len, left_on_screen(received))), columns, received)


    def test_help_fits_but_for_the_names_of_options(self):
        for command in ([], *([name] for name in re.findall(r"(?m)^  ([a-z]+) ", assay("--help").stdout))):
            lines = assay(*command, "--help", env={"COLUMNS": "80"}).stdout.splitlines()
            self.assertLessEqual(max(map(len, lines)), 80, (command, lines))


class Progress(ProgramTest):
    STEP = re.compile(r"verifying [\d,]+ of 1,500, [\d.]+ a second, \d+ s left: mhc_post/cpu")
    RUN = "verify", "mhc_post/cpu", "--cases", "1500", "--max-elements", "256"

    def test_says_how_far_it_is_and_leaves_nothing(self):
        code, received = on_terminal(*self.RUN, columns=100)
        self.assertEqual(code, 0, received)
        self.assertRegex(received, self.STEP)
        screen = "\n".join(left_on_screen(received))
        self.assertNotIn("verifying", screen)
        self.assertRegex(screen, r"All [\d,]+ judged cases on 1 path pass; the largest error is \S+ of its bound(; \d+ more cases? (was|were)\s+uninformative)?\.\n$")

    def test_of_specimens_says_the_same(self):
        code, received = on_terminal("verify", "--specimens", "dynamic_conv", "--device", "cpu", columns=100)
        self.assertEqual(code, 0, received)
        self.assertRegex(received, r"judging specimens \d+ of \d+(, [\d.]+ a second, \d+ s left)?: dynamic_conv/specimen\.")
        self.assertNotIn("judging", "\n".join(left_on_screen(received)))

    def test_a_line_is_no_longer_than_the_terminal_is_wide(self):
        code, received = on_terminal(*self.RUN, columns=30)
        steps = [step.split("\n")[0] for step in received.split(CLEAR) if step.startswith("verifying")]
        self.assertTrue(steps, received)
        self.assertLess(max(map(len, steps)), 30)

    def test_an_interrupted_run_leaves_nothing_either(self):
        code, received = on_terminal("verify", "mhc_post/cpu", "--budget", "1h", columns=100, stop_after=1.5)
        self.assertEqual(code, 130, received)
        self.assertRegex(received, r"[\d,]+ cases, [\d.]+ a second, 60 min left: mhc_post/cpu")
        screen = "\n".join(left_on_screen(received))
        self.assertNotIn("verifying", screen)
        self.assertRegex(" ".join(screen.split()), r"Interrupted after [\d,]+ cases(, in \S+)?\. All ")
        self.assertEqual(screen.count("nterrupted after"), 1)

    def test_a_terminal_that_cannot_take_lines_back_and_a_file_get_milestones(self):
        code, received = on_terminal(*self.RUN, TERM="dumb")
        self.assertEqual(code, 0)
        errors = assay(*self.RUN).stderr
        for text in received, errors:
            self.assertIn("verifying mhc_post/cpu\n", text)
            self.assertNotIn("a second", text)
            self.assertNotIn("\r", text)
            self.assertNotIn("\x1b[2K", text)

    def test_the_run_ends_with_one_sentence_beside_json_too(self):
        result = assay("verify", "mhc_post/cpu", "--cases", "2", "--json")
        self.assertRegex(result.stderr, r"\nAll 2 judged cases on 1 path pass; [^\n]*\n$")


class Readers(ProgramTest):
    """Of a pipe that holds less than the program says."""

    def start(self, reader, writer):
        process = subprocess.Popen([ASSAY, "verify", "dynamic_conv/cpu", "--cases", "100", "--device", "cpu", "--json", "--quiet"],
                                   stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        size = fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)
        end = time.time() + 60
        while self.bytes_in(reader) < size and time.time() < end:
            time.sleep(0.02)
        self.assertEqual(self.bytes_in(reader), size)
        return process

    @staticmethod
    def bytes_in(pipe):
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]

    def test_that_is_non_blocking_gets_all(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)  # for all who share it
        process = self.start(reader, writer)
        with open(reader, "rb") as pipe:
            record = json.loads(pipe.read())
        self.assertEqual((process.wait(), process.stderr.read()), (0, b""))
        process.stderr.close()
        self.assertEqual((record["complete"], len(record["cases"])), (True, 100))

    def test_nobody_reads_and_an_interrupt_ends_the_run_within_a_second(self):
        reader, writer = os.pipe()
        process = self.start(reader, writer)
        start = time.time()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 130)
        self.assertLess(time.time() - start, 1)
        process.stderr.close()
        os.close(reader)


class Hints(ProgramTest):
    def test_help_is_a_word_too(self):
        self.assertEqual(assay("help").stdout, assay("--help").stdout)
        self.assertEqual(assay("help", "judge").stdout, assay("judge", "--help").stdout)

    def test_a_mistyped_word_has_a_hint(self):
        for code, message, *args in [
            (2, "there is no command verfy; did you mean verify?", "verfy"),
            (2, "there is no command zzz; see --help", "zzz"),
            (2, "verify has no option --casess; did you mean --cases?", "verify", "--casess", "3"),
            (2, "verify has no option --casess; did you mean --cases?", "verify", "--casess=3"),
            (2, "gate has no option --certian; did you mean --certain?", "gate", "a", "--certian"),
            (2, "assay has no option --verson; did you mean --version?", "--verson"),
            (2, "not expected: x", "doctor", "x"),
            (2, "there is no op 'mhc_pots'; did you mean mhc_post?", "replay", CASE.replace("dynamic_conv", "mhc_pots")),
            (2, "there is no op 'zzz'; there are dynamic_conv, ", "replay", CASE.replace("dynamic_conv", "zzz")),
            (2, "has no path 'cpuu'; did you mean cpu?", "replay", CASE.replace("/cpu/", "/cpuu/")),
            (5, "no op matches mhc_pots (a pattern without / names ops); did you mean mhc_post?", "verify", "mhc_pots"),
            (5, "no path matches mhc_post/cpuu; did you mean mhc_post/cpu?", "list", "mhc_post/cpuu"),
            (5, "no op matches cpu (a pattern without / names ops); did you mean '*/cpu'?", "list", "cpu"),
            (5, "it names a specimen, which --specimens selects", "verify", "mhc_post/specimen.nondeterministic"),
            (5, "which verify --specimens --hostile selects", "verify", "--specimens", "dynamic_conv/hostile.nothing"),
            (5, "no op matches zz* (a pattern without / names ops); see assay list", "list", "zz*"),
            (5, "did you mean '*/specimen.tap*'?", "verify", "--specimens", "specimen.tap*"),
        ]:
            with self.subTest(args=args):
                self.fails(code, message, *args)


class Variables(ProgramTest):
    def verify(self, *args, **env):
        return assay("verify", "mhc_post/cpu", "-q", *args, env=env)

    def test_the_command_line_beats_them(self):
        for args, env in [
            (("--cases", "3"), {"ASSAY_CASES": "many"}),
            (("--cases", "3"), {"ASSAY_BUDGET": "1h"}),
            (("--cases", "3", "--max-failures", "1"), {"ASSAY_MAX_FAILURES": "many"}),
            (("--cases", "3", "--max-failures", "1"), {"ASSAY_SPECIMENS": "1"}),
            (("--budget=100ms",), {"ASSAY_CASES": "1000000"}),
            (("--cases", "3", "--no-isolate"), {"ASSAY_TIMEOUT": "5s"}),
            (("--cases", "3", "--timeout", "5s"), {"ASSAY_NO_ISOLATE": "1"}),
        ]:
            with self.subTest(args=args, env=env):
                result = self.verify(*args, **env)
                self.assertEqual(result.returncode, 0, result.stderr)
        result = assay("replay", CASE, env={"ASSAY_DEVICE": "cuda"})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_those_of_one_command_do_not_break_another(self):
        for env in {"ASSAY_CASES": "many"}, {"ASSAY_CASES": "3", "ASSAY_BUDGET": "1s"}, {"ASSAY_SLOWER": "much"}:
            self.assertEqual(assay("list", env=env).returncode, 0, env)
        self.assertEqual(self.verify("--cases", "3", ASSAY_SLOWER="much").returncode, 0)
        out = self.dir / "in.safetensors"
        self.assertEqual(assay("draw", CASE, "--out", out, env={"ASSAY_OUT": "/dev/null/x"}).returncode, 0)
        self.fails(2, "--out is required", "draw", CASE, env={"ASSAY_OUT": str(out)})

    def test_a_file_has_one_of_its_own(self):
        drawn, computed = self.dir / "in.safetensors", self.dir / "out.safetensors"
        self.assertEqual(assay("draw", CASE, env={"ASSAY_OUT_FILE": str(drawn)}).returncode, 0)
        result = assay("exec", CASE, env={"ASSAY_IN": str(drawn), "ASSAY_OUT_FILE": str(computed)})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(assay("judge", CASE, env={"ASSAY_IN": str(drawn), "ASSAY_GOT": str(computed)}).returncode, 0)

    def test_a_run_that_goes_on_takes_its_own_options(self):
        process = subprocess.Popen([ASSAY, "verify", "mhc_post/cpu", "--cases", "100000", "--out", self.dir, "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        process.kill()
        process.wait()
        process = subprocess.Popen([ASSAY, "verify", "--resume", self.dir, "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=os.environ | {"ASSAY_SEED": "9", "ASSAY_CASES": "4", "ASSAY_OUT": "elsewhere"})
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130, process.stderr.read())
        process.stderr.close()

    def test_a_wrong_one_is_named(self):
        result = self.verify(ASSAY_CASES="many")
        self.assertEqual(result.returncode, 2)
        self.assertIn("ASSAY_CASES many is not an integer", result.stderr)
        result = self.verify(ASSAY_MAX_FAILURES="0")
        self.assertIn("ASSAY_MAX_FAILURES 0 is not an integer", result.stderr)
        result = self.verify(ASSAY_CASES="3", ASSAY_BUDGET="1s")
        self.assertIn("--cases excludes --budget", result.stderr)


class Shells(ProgramTest):
    def script(self, shell):
        path = self.dir / ("_assay" if shell == "zsh" else f"assay.{shell}")
        if not path.exists():
            result = assay("completion", shell)
            self.assertEqual(result.returncode, 0, result.stderr)
            path.write_text(result.stdout)
        return path

    def bash(self, *words):
        line = " ".join(f"'{word}'" for word in ("assay", *words))
        command = f"source {self.script('bash')}; compopt() {{ :; }}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _assay; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        result = subprocess.run(["bash", "-c", command], text=True, capture_output=True, cwd=self.dir)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_bash_completes_commands_options_values_and_paths(self):
        (self.dir / "folder").mkdir()
        (self.dir / "file").write_text("")
        for words, completed in [
            (("ver",), ["verify"]),
            (("--v",), ["--version"]),
            (("verify", "--budg"), ["--budget"]),
            (("verify", "--dtype", "f"), ["f32", "f16"]),
            (("verify", "--dtype", "=", "b"), ["bf16"]),
            (("verify", "--cases", ""), []),
            (("verify", "mhc_post/"), None),
            (("verify", "--out", "f"), ["folder"]),
            (("draw", "--out", "f"), ["file", "folder"]),
            (("completion", "z"), ["zsh"]),
            (("doctor", "--dtype"), []),
        ]:
            with self.subTest(words=words):
                found = self.bash(*words)
                if completed is None:
                    self.assertIn("mhc_post/cpu", found)
                else:
                    self.assertEqual(sorted(found), sorted(completed))

    def test_every_command_and_option_of_the_help_is_completed(self):
        commands = re.findall(r"(?m)^  ([a-z]+) ", assay("--help").stdout)
        self.assertGreater(len(commands), 12)
        scripts = {shell: self.script(shell).read_text() for shell in ("bash", "zsh", "fish")}
        page = assay("manual").stdout.replace("\\-", "-")
        for command in commands:
            self.assertIn(command, self.bash(command))
            self.assertRegex(page, rf"(?m)^\.SS {command}\b")
            for option in re.findall(r"(?m)^  (?:-\w,)?(--[a-z-]+)", assay(command, "--help").stdout):
                self.assertIn(option, self.bash(command, option))
                self.assertRegex(scripts["zsh"], rf"(?m)^ *{command}\) .*'{option}[=\[]")
                self.assertRegex(scripts["fish"], rf"(?m)seen_subcommand_from {command}' -l {option[2:]} ")
                self.assertIn(option, page)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        script = self.script("fish")
        complete = lambda line: subprocess.run(["fish", "-c", f"source {script}; complete -C '{line}'"], text=True,
                                               capture_output=True, env=os.environ | {"HOME": str(self.dir)}).stdout
        self.assertRegex(complete("assay ver"), r"^verify\t")
        self.assertIn("mhc_post/cpu\n", complete("assay verify mhc"))
        self.assertIn("bf16\t", complete("assay verify --dtype "))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        result = subprocess.run(["zsh", "-n", self.script("zsh")], text=True, capture_output=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_an_unknown_shell_is_refused(self):
        self.fails(2, "tcsh not in {bash,zsh,fish}", "completion", "tcsh")

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_the_manual_page_is_one(self):
        result = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=assay("manual").stdout, text=True, capture_output=True)
        self.assertEqual(result.stderr, "")
        for text in "ASSAY_CASES", "130", "EXIT STATUS", "--more-wrong":
            self.assertIn(text, re.sub(r"\x1b\[[0-9;]*m|.\x08", "", result.stdout).replace("−", "-").replace("‐", "-"))


if __name__ == "__main__":
    unittest.main()
