#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay exec` against NumPy, through a reader and writer of .safetensors that shares nothing with ours.

usage: test_exec.py ASSAY
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

ASSAY = sys.argv.pop(1)
DTYPES = {"F32": numpy.float32, "F16": numpy.float16}


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        dtype = {value: key for key, value in DTYPES.items()}[array.dtype.type]
        begin = len(data)
        data += array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_tensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    return {
        name: numpy.frombuffer(data[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }


def forward(x, k):
    b, t, d = x.shape
    w = k.shape[3]
    padded = numpy.concatenate([numpy.zeros((b, w - 1, d)), x.astype(float)], axis=1)
    return sum(padded[:, i : i + t] * k[..., i].astype(float) for i in range(w))


def backward(dout, x, k):
    b, t, d = x.shape
    w = k.shape[3]
    padded = numpy.concatenate([numpy.zeros((b, w - 1, d)), x.astype(float)], axis=1)
    dk = numpy.stack([dout.astype(float) * padded[:, i : i + t] for i in range(w)], axis=-1)
    dpadded = numpy.zeros_like(padded)
    for i in range(w):
        dpadded[:, i : i + t] += dout.astype(float) * k[..., i].astype(float)
    return dpadded[:, w - 1 :], dk


class Exec(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.random = numpy.random.default_rng(0)

    def run_case(self, case, tensors):
        write_tensors(self.dir / "in.safetensors", tensors)
        command = [ASSAY, "exec", case, "--in", self.dir / "in.safetensors", "--out", self.dir / "out.safetensors"]
        return subprocess.run(command, text=True, capture_output=True)

    def outputs(self, case, tensors):
        result = self.run_case(case, tensors)
        self.assertEqual(result.returncode, 0, result.stderr)
        return read_tensors(self.dir / "out.safetensors")

    # Integers make every product and sum exact, so the right answer is equal, not near.
    def draw(self, dtype, *shape):
        return self.random.integers(-8, 9, shape).astype(dtype)

    def test_equals_numpy_on_exact_data(self):
        for name, dtype in (("f32", numpy.float32), ("f16", numpy.float16)):
            for b, t, d, w in ((2, 7, 5, 4), (1, 1, 1, 3), (3, 2, 9, 8), (1, 40, 33, 1)):
                with self.subTest(dtype=name, shape=(b, t, d, w)):
                    x, dout, k = self.draw(dtype, b, t, d), self.draw(dtype, b, t, d), self.draw(dtype, b, t, d, w)
                    dims = f"b={b}/t={t}/d={d}/w={w}"
                    got = self.outputs(f"dynamic_conv/cpu/{name}/{dims}", {"x": x, "k": k})
                    numpy.testing.assert_array_equal(got["out"], forward(x, k))
                    got = self.outputs(f"dynamic_conv_grad/cpu/{name}/{dims}", {"dout": dout, "x": x, "k": k})
                    dx, dk = backward(dout, x, k)
                    numpy.testing.assert_array_equal(got["dx"], dx)
                    numpy.testing.assert_array_equal(got["dk"], dk)

    def test_says_what_is_wrong_with_the_input(self):
        x, k = self.draw(numpy.float32, 1, 4, 3), self.draw(numpy.float32, 1, 4, 3, 2)
        case = "dynamic_conv/cpu/f32/b=1/t=4/d=3/w=2"
        for message, tensors in [
            ("k of dynamic_conv is missing", {"x": x}),
            ("x has shape (1, 3, 4), expected (1, 4, 3)", {"x": x.reshape(1, 3, 4), "k": k}),
            ("k has dtype f16, expected f32", {"x": x, "k": k.astype(numpy.float16)}),
        ]:
            with self.subTest(message=message):
                result = self.run_case(case, tensors)
                self.assertEqual(result.returncode, 2)
                self.assertIn(message, result.stderr)
                self.assertFalse((self.dir / "out.safetensors").exists())

    def test_broadcast_inputs_must_repeat(self):
        x, k = self.draw(numpy.float32, 1, 4, 3), self.draw(numpy.float32, 1, 4, 3, 2)
        case = "dynamic_conv/cpu/f32/b=2/t=4/d=3/w=2/layout=broadcast"
        twice = {"x": numpy.concatenate([x, x]), "k": numpy.concatenate([k, k])}
        numpy.testing.assert_array_equal(self.outputs(case, twice)["out"], forward(twice["x"], twice["k"]))
        (self.dir / "out.safetensors").unlink()
        result = self.run_case(case, twice | {"x": numpy.concatenate([x, x + 1])})
        self.assertEqual(result.returncode, 2)
        self.assertIn("repeats along its outermost dimension", result.stderr)
        self.assertFalse((self.dir / "out.safetensors").exists())

    def test_truncated_and_foreign_files(self):
        self.run_case("dynamic_conv/cpu/f32/b=1/t=1/d=1/w=1", {"x": self.draw(numpy.float32, 1, 1, 1)})
        whole = (self.dir / "in.safetensors").read_bytes()
        for content in (b"", b"PK\3\4 not tensors at all", whole[:-2], whole[:20]):
            with self.subTest(content=content[:12]):
                (self.dir / "in.safetensors").write_bytes(content)
                command = [ASSAY, "exec", "dynamic_conv/cpu/f32/b=1/t=1/d=1/w=1", "--in", self.dir / "in.safetensors"]
                command += ["--out", self.dir / "out.safetensors"]
                result = subprocess.run(command, text=True, capture_output=True)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("in.safetensors", result.stderr)


if __name__ == "__main__":
    unittest.main()
