#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`assay exec` against NumPy.

usage: test_exec.py ASSAY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

from tensors import read_tensors, write_tensors

ASSAY = sys.argv.pop(1)


def to_bf16(values):
    """The bits of float32 values rounded to bf16, ties to even."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def from_bf16(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def mix(x, residual, post, comb):
    return post[:, :, None] * x[:, None, :] + numpy.einsum("nji,njh->nih", comb, residual)


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


TRIMUL = "trimul/cpu/f32/b=2/n=3/c=4/h=5/mask={}"


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

    def refused(self, message, case, tensors):
        result = self.run_case(case, tensors)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(message, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertFalse((self.dir / "out.safetensors").exists())

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

    def mixes(self, *shape):
        """Numbers of f32 that bf16 and f16 would round."""
        return (self.random.integers(-8, 9, shape) + 2.0**-10).astype(numpy.float32)

    def test_tensors_with_a_dtype_of_their_own(self):
        storages = {
            "f32": (lambda values: values.astype(numpy.float32), lambda stored: stored),
            "f16": (lambda values: values.astype(numpy.float16), lambda stored: stored),
            "bf16": (to_bf16, from_bf16),
        }
        for name, (store, load) in storages.items():
            for n, hc, h in ((3, 4, 10), (1, 1, 1), (2, 16, 5)):
                with self.subTest(dtype=name, shape=(n, hc, h)):
                    x, residual = self.draw(float, n, h), self.draw(float, n, hc, h)
                    post, comb = self.mixes(n, hc), self.mixes(n, hc, hc)
                    inputs = {"x": store(x), "residual": store(residual), "post": post, "comb": comb}
                    case = f"mhc_post/cpu/{name}/n={n}/hc={hc}/h={h}"
                    want = load(store(mix(x, residual, post.astype(float), comb.astype(float))))
                    numpy.testing.assert_array_equal(load(self.outputs(case, inputs)["out"]), want)
                    column = inputs | {"post": post.reshape(n, hc, 1)}
                    numpy.testing.assert_array_equal(load(self.outputs(case, column)["out"]), want)
                    write_tensors(self.dir / "capsule.safetensors", inputs, case=case)
                    replay = subprocess.run([ASSAY, "replay", self.dir / "capsule.safetensors"], text=True, capture_output=True)
                    self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)

    def test_refuses_tensors_without_the_dtype_of_their_own(self):
        inputs = {
            "x": self.draw(numpy.float16, 2, 5),
            "residual": self.draw(numpy.float16, 2, 3, 5),
            "post": self.mixes(2, 3),
            "comb": self.mixes(2, 3, 3),
        }
        for message, tensors in [
            ("post has dtype f16, expected f32", {"post": inputs["post"].astype(numpy.float16)}),
            ("comb has dtype bf16, expected f32", {"comb": to_bf16(inputs["comb"])}),
            ("x has dtype f32, expected f16", {"x": inputs["x"].astype(numpy.float32)}),
            ("post has shape (1, 2, 3), expected (2, 3)", {"post": inputs["post"].reshape(1, 2, 3)}),
            ("post has shape (2, 3, 2), expected (2, 3)", {"post": self.mixes(2, 3, 2)}),
        ]:
            with self.subTest(message=message):
                result = self.run_case("mhc_post/cpu/f16/n=2/hc=3/h=5", inputs | tensors)
                self.assertEqual(result.returncode, 2)
                self.assertIn(message, result.stderr)

    def test_list_names_the_dtype_of_a_tensor(self):
        ops = json.loads(subprocess.run([ASSAY, "list", "mhc_post", "--json"], text=True, capture_output=True).stdout)
        dtypes = {tensor["name"]: tensor.get("dtype") for tensor in ops[0]["inputs"]}
        self.assertEqual(dtypes, {"x": None, "residual": None, "post": "f32", "comb": "f32"})
        text = subprocess.run([ASSAY, "list", "mhc_post"], text=True, capture_output=True).stdout
        self.assertIn("x (n h), residual (n hc h), post (n hc) f32, comb (n hc hc) f32 -> out (n hc h)", text)

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

    def test_booleans_are_0_and_1_in_the_dtype_of_the_tensor(self):
        dims = "b=2/t=5/d=3/w=4"
        x, k = self.random.random((2, 5, 3)) < 0.5, self.random.random((2, 5, 3, 4)) < 0.5
        for name, load in (("f32", lambda stored: stored), ("f16", lambda stored: stored), ("bf16", from_bf16)):
            with self.subTest(dtype=name):
                got = self.outputs(f"dynamic_conv/cpu/{name}/{dims}", {"x": x, "k": k})
                numpy.testing.assert_array_equal(load(got["out"]), forward(x, k))
        mixed = self.draw(numpy.float32, 2, 5, 3, 4)
        got = self.outputs(f"dynamic_conv/cpu/f32/{dims}", {"x": x, "k": mixed})
        numpy.testing.assert_array_equal(got["out"], forward(x, mixed))

    def trimul_tensors(self):
        shapes = {"x": (2, 3, 3, 4), "norm.weight": (4,), "norm.bias": (4,)}
        shapes |= {f"{name}.weight": (5, 4) for name in ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate")}
        shapes |= {"to_out_norm.weight": (5,), "to_out_norm.bias": (5,), "to_out.weight": (4, 5)}
        return {name: self.random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}

    def test_a_boolean_mask_is_one_of_0_and_1(self):
        tensors, mask = self.trimul_tensors(), self.random.random((2, 3, 3)) < 0.5
        case = TRIMUL.format(1)
        want = self.outputs(case, tensors | {"mask": mask.astype(numpy.float32)})["out"]
        for shape in (2, 3, 3), (2, 3, 3, 1):
            with self.subTest(shape=shape):
                numpy.testing.assert_array_equal(self.outputs(case, tensors | {"mask": mask.reshape(shape)})["out"], want)
        other = self.outputs(case, tensors | {"mask": ~mask})["out"]
        self.assertTrue((other != want).any())

    def test_axes_of_size_1_may_be_missing_at_the_end(self):
        x, k = self.draw(numpy.float32, 2, 5, 3), self.draw(numpy.float32, 2, 5, 3, 1)
        case = "dynamic_conv/cpu/f32/b=2/t=5/d=3/w=1"
        got = self.outputs(case, {"x": x, "k": k.reshape(2, 5, 3)})
        numpy.testing.assert_array_equal(got["out"], forward(x, k))
        (self.dir / "out.safetensors").unlink()
        for shape in (5, 2, 3), (1, 2, 5, 3), (30,):
            self.refused(f"k has shape {shape},".replace(",)", ")"), case, {"x": x, "k": k.reshape(shape)})

    def test_refuses_booleans_that_are_neither_0_nor_1(self):
        bytes_of_mask = numpy.zeros(18, numpy.uint8)
        for value in 2, 255:
            with self.subTest(value=value):
                bytes_of_mask[7] = value
                mask = bytes_of_mask.view(numpy.bool_).reshape(2, 3, 3)
                message = f"in.safetensors: tensor 'mask': element 7 of its BOOL is {value}, expected 0 or 1"
                self.refused(message, TRIMUL.format(1), self.trimul_tensors() | {"mask": mask})

    def test_a_tensor_without_elements_may_be_absent(self):
        tensors = self.trimul_tensors()
        ones = numpy.ones((2, 3, 3), numpy.float32)
        want = self.outputs(TRIMUL.format(1), tensors | {"mask": ones})["out"]
        numpy.testing.assert_array_equal(self.outputs(TRIMUL.format(0), tensors)["out"], want)
        for dtype in numpy.float32, numpy.bool_:
            empty = numpy.ones((2, 3, 3, 0), dtype)
            numpy.testing.assert_array_equal(self.outputs(TRIMUL.format(0), tensors | {"mask": empty})["out"], want)
        self.assertEqual(self.outputs("dynamic_conv/cpu/f32/b=0/t=4/d=3/w=2", {})["out"].shape, (0, 4, 3))
        (self.dir / "out.safetensors").unlink()
        self.refused("the tensor mask of trimul is missing", TRIMUL.format(1), tensors)
        self.refused("mask has shape (2, 3, 3), expected (2, 3, 3, 0)", TRIMUL.format(0), tensors | {"mask": ones})

    def test_refuses_tensors_that_the_op_does_not_have(self):
        tensors = self.trimul_tensors()
        mask = numpy.zeros((2, 3, 3), numpy.float32)
        takes = (
            "which takes x, mask, norm.weight, norm.bias, left_proj.weight, right_proj.weight, left_gate.weight, "
            "right_gate.weight, out_gate.weight, to_out_norm.weight, to_out_norm.bias, to_out.weight"
        )
        for name, case in (("maks", TRIMUL.format(0)), ("extra", TRIMUL.format(1)), ("Mask", TRIMUL.format(1))):
            with self.subTest(name=name):
                given = tensors | {name: mask} | ({"mask": mask} if name == "extra" else {})
                self.refused(f"'{name}' is no tensor of trimul, {takes}\n", case, given)

    def test_takes_the_outputs_of_a_capsule_without_reading_them(self):
        x, k = self.draw(numpy.float32, 1, 4, 3), self.draw(numpy.float32, 1, 4, 3, 2)
        capsule = {"x": x, "k": k, "out": numpy.zeros_like(x)}
        got = self.outputs("dynamic_conv/cpu/f32/b=1/t=4/d=3/w=2", capsule)
        numpy.testing.assert_array_equal(got["out"], forward(x, k))

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
