#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the program says of files and arguments that are not what they should be.   usage: test_files.py ASSAY"""
import json
import os
import signal
import socket
import struct
import subprocess
import time
import unittest

from program import ASSAY, CASE, WRONG, ProgramTest, assay

HOSTILE = "a\x1b[2J\n\x7f\u009b"
LONG = "a" * 50_000


class FilesTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.path = self.dir / "file.safetensors"  # replay takes a file of this name for a capsule
        self.inputs = self.dir / "inputs.safetensors"
        self.assertEqual(assay("draw", CASE, "--out", self.inputs).returncode, 0)

    def is_refused(self, *args, message="", **kwargs):
        with self.subTest(args=[str(arg)[:80] for arg in args]):
            result = subprocess.run([ASSAY, *args], capture_output=True, timeout=60, **kwargs)
            line = result.stderr.decode()
            self.assertEqual(result.returncode, 2, line[:1000])
            self.assertTrue(line.endswith("\n"), line[:1000])
            self.assertTrue(line[:-1].isprintable(), line[:1000])
            self.assertLess(len(line), 400)
            self.assertIn(message, line)

    def every_command_refuses(self, message="", path=None, commands=("records", "tensors")):
        path = path or self.path
        if "records" in commands:
            self.is_refused("report", path, "--out", self.dir / "out", message=message)
            self.is_refused("compare", path, path, message=message)
            self.is_refused("gate", path, path, message=message)
        if "tensors" in commands:
            self.is_refused("replay", path, message=message)
            self.is_refused("judge", CASE, "--got", path, message=message)
            self.is_refused("judge", CASE, "--in", path, "--got", self.inputs, message=message)
            self.is_refused("exec", CASE, "--in", path, "--out", self.dir / "out.safetensors", message=message)


class BadFiles(FilesTest):
    def test_missing(self):
        self.every_command_refuses("No such file or directory")
        self.path.symlink_to("nowhere")
        self.every_command_refuses("No such file or directory")

    def test_a_loop_of_links(self):
        self.path.symlink_to(self.path)
        self.every_command_refuses("Too many levels of symbolic links")
        self.is_refused("draw", CASE, "--out", self.path, message="Too many levels of symbolic links")
        self.is_refused("verify", "--cases", "1", "--out", self.path, message="Too many levels of symbolic links")
        self.assertTrue(self.path.is_symlink())

    def test_pipes_devices_and_sockets(self):
        os.mkfifo(self.path)
        self.every_command_refuses("it is not a regular file")
        self.path.unlink()
        self.path.symlink_to("/dev/zero")
        self.every_command_refuses("it is not a regular file")
        self.path.unlink()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(self.path))
            self.every_command_refuses("cannot read")

    def test_files_of_the_kernel_that_never_end(self):
        self.path.symlink_to("/proc/kmsg")
        self.every_command_refuses("file.safetensors")

    def test_a_directory(self):
        self.path.mkdir()
        self.every_command_refuses("Is a directory", commands=("tensors",))
        self.is_refused("report", self.path, message="run.json: No such file or directory")
        self.is_refused("compare", self.path, self.path, message="holds no run.json")

    @unittest.skipIf(os.geteuid() == 0, "root reads all files")
    def test_unreadable(self):
        self.path.touch(mode=0)
        self.every_command_refuses("Permission denied")

    def test_larger_than_memory(self):
        self.path.touch()
        os.truncate(self.path, 1 << 42)
        self.every_command_refuses("bytes, which is the limit")

    def test_empty(self):
        self.path.touch()
        self.every_command_refuses("file.safetensors: not ")

    def test_deep(self):
        for text in b"[" * 200_000, b"[" * 100_000 + b"]" * 100_000:
            self.path.write_bytes(text)
            self.every_command_refuses("nests deeper than 32", commands=("records",))
            header = b'{"__metadata__": ' + text + b"}"
            self.path.write_bytes(struct.pack("<Q", len(header)) + header)
            self.every_command_refuses("the header: it nests deeper than 32", commands=("tensors",))

    def test_numbers_out_of_range(self):
        self.path.write_text('{"schema": "assay.run/1", "seconds": 1e999}')
        self.every_command_refuses("number overflow parsing '1e999'", commands=("records",))
        header = b'{"x": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}'
        self.path.write_bytes(struct.pack("<Q", len(header)) + header + b"1234")
        self.every_command_refuses("number overflow parsing '1e999'", commands=("tensors",))

    def test_a_capsule_whose_case_is_none(self):
        for case in "nonsense", HOSTILE, LONG:
            header = json.dumps({"__metadata__": {"case": case}}).encode()
            self.path.write_bytes(struct.pack("<Q", len(header)) + header)
            self.is_refused("replay", self.path, message="file.safetensors: '")

    def test_names_with_control_characters(self):
        hostile = self.dir / (HOSTILE + ".safetensors")
        self.every_command_refuses("a\\x1b[2J\\x0a\\x7f\\xc2\\x9b.safetensors", path=hostile)
        hostile.write_text("nothing")
        self.every_command_refuses("a\\x1b[2J\\x0a\\x7f\\xc2\\x9b.safetensors: not ", path=hostile)

    def test_long_names(self):
        self.every_command_refuses("File name too long", path=LONG + ".safetensors")


class Arguments(FilesTest):
    def test_are_escaped_and_cut(self):
        for text, shown in (HOSTILE, "a\\x1b[2J\\x0a"), (LONG, " bytes ...]"):
            for args in [
                [text], ["list", "--" + text], ["list", "--device", text], ["list", "--dtype", text], ["verify", "--cases", text],
                ["verify", "--budget", text], ["verify", "--shard", text], ["verify", "--seed", text],
                ["verify", "--max-elements", text], ["verify", "--cases", text, "--budget", "1s"],
                ["verify", "--max-failures", text], ["verify", "--out", f"/dev/null/{text}"],
                ["draw", CASE, "--out", f"/dev/null/{text}"], ["gate", "a", "b", "--slower", text],
                ["replay", text], ["replay", f"{text}/cpu/f32"], ["replay", f"trimul/{text}/f32"], ["replay", f"trimul/cpu/{text}"],
                ["replay", CASE + text], ["replay", f"{CASE}/{text}=1"], ["replay", f"{CASE}/{text}"], ["replay", f"{CASE}/{text}={text}"],
                ["replay", CASE.replace("normal", text)], ["replay", CASE.replace("first_call", f"forced:{text}:{text}")],
                ["replay", CASE.replace("first_call", f"after:{text}")], ["judge", CASE.replace("first_call", text), "--got", "a"],
            ]:  # fmt: skip
                self.is_refused(*args, message=shown)

    def test_a_filter(self):
        for text, shown in (HOSTILE, "a\\x1b[2J\\x0a"), (LONG, "a" * 100 + "[... 50000 bytes ...]"):
            self.fails(5, f"no path matches {shown}", "verify", text)
            assay("replay", CASE, "--out", self.dir)
            self.fails(5, f"matches {shown}", "gate", self.dir, self.dir, text)

    def test_long_values_that_are_no_longer_than_a_line_is_wide_stay_whole(self):
        self.is_refused("replay", "a" * 190, message=f"'{'a' * 190}' is not a case")


class StandardInput(FilesTest):
    def test_is_read_where_a_file_is(self):
        record = assay("replay", CASE, "--json").stdout
        report = [ASSAY, "report", "-", "--out", self.dir / "out"]
        self.assertEqual(subprocess.run(report, input=record, text=True, stdout=subprocess.DEVNULL).returncode, 0)
        self.assertTrue((self.dir / "out/report.html").exists())
        assay("replay", WRONG, "--out", self.dir)
        (capsule,) = (self.dir / "capsules").iterdir()
        result = subprocess.run([ASSAY, "replay", "-"], input=capsule.read_bytes(), stdout=subprocess.PIPE)
        self.assertEqual(result.returncode, 1, result.stdout)
        out = self.dir / "out.safetensors"
        with self.inputs.open() as given:
            self.assertEqual(subprocess.run([ASSAY, "exec", CASE, "--in", "-", "--out", out], stdin=given).returncode, 0)
        judged = subprocess.run([ASSAY, "judge", CASE, "--got", "-"], input=out.read_bytes(), stdout=subprocess.PIPE)
        self.assertEqual(judged.returncode, 0, judged.stdout)

    def test_ends_at_a_limit(self):
        with open("/dev/zero") as zeros:
            self.is_refused("report", "-", stdin=zeros, message="the standard input: it has more than")

    def test_that_is_closed(self):
        self.is_refused("report", "-", preexec_fn=lambda: os.close(0), message="cannot read")

    def test_is_not_waited_for_after_an_interrupt(self):
        process = subprocess.Popen([ASSAY, "report", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)
        self.assertEqual(process.returncode, 130, process.stderr.read())
        process.stdin.close()
        process.stderr.close()


if __name__ == "__main__":
    unittest.main()
