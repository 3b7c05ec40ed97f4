#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the source of the Cheri block says about itself, measured: a table beside our answers.

usage: gpu_claims.py OUT.md PEERS_DIR    (PEERS_DIR holds cheri_seed.py, the source's kernels)

Each claim is measured in a process of its own, in which the source has tuned nothing before: its first call is its first
call. A claim whose process takes longer than its limit gets a row that says so. OUT.md grows row by row. Errors are the
largest absolute ones against float64. Ours come from `assay exec`, on the same tensors.
"""
import importlib
import importlib.util
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
ASSAY = ROOT / "build/gpu/bin/assay"


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().cpu().numpy().tobytes())


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).view(entry["shape"])
    return tensors


def ours(case, tensors):
    """The outputs of our path for these tensors."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = (pathlib.Path(folder) / name for name in ("in.safetensors", "out.safetensors"))
        write_safetensors(given, tensors)
        subprocess.run([ASSAY, "exec", case, "--in", given, "--out", got], check=True, stdout=subprocess.DEVNULL)
        return read_safetensors(got)


def error(got, want):
    return (got.double().cpu() - want.double().cpu()).abs().max().item()


def first_call(seed, peer):
    n, l, c, dilation = 4, 500, 64, 4
    torch.manual_seed(0)
    dy, x, w, _ = peer.grad_inputs(torch.float32, n, l, c, dilation)
    want = peer.conv_norm_grad(dy.double(), x.double(), w.double(), dilation)
    source = peer.source_backward()
    line = "cheri_conv_norm_grad/{}/f32/" + f"n={n}/l={l}/c={c}/dilation={dilation}/state={{}}"

    def judged(calls):
        """The errors of two calls, and what they say."""
        errors = [[error(got, exact) for got, exact in zip(outputs, want)] for outputs in calls]
        text = [", ".join(f"{name} {value:.1e}" for name, value in zip(("dx", "dw"), values)) for values in errors]
        if all(torch.equal(a, b) for a, b in zip(*calls)):
            verdict = "the same bits"
        else:
            first, second = (max(values) for values in errors)
            verdict = f"the first is {first / second if second else float('inf'):.3g} times as wrong"
        return f"first call {text[0]}; second {text[1]}: {verdict}"

    theirs = judged([tuple(value.cpu() for value in source(dy, x, w, dilation)) for _ in range(2)])
    for path in ("cuda.two_pass", "cuda.ring"):
        ours_in = (ours(line.format(path, state), {"dy": dy, "x": x, "w": w}) for state in ("first_call", "second_call"))
        yield theirs, f"`{path}`: " + judged([(got["dx"], got["dw"]) for got in ours_in])


def agreement(seed, peer):
    n, l, c, dilation = 16, 1000, 64, 4
    scales = {"0.02 (as initialised)": (0.02, 0.02), "unit scale": (1.0, c**-0.5), "4 times that": (1.0, 4 * c**-0.5)}

    def judged(value):
        holds = [limit for limit in (1e-5, 1e-2) if value <= limit]
        return f"{value:.1e}, " + (f"within {holds[0]:.0e}" if holds else "beyond 1e-02")

    for name, (taps, weights) in scales.items():
        torch.manual_seed(0)
        x, w, _ = peer.conv_norm_inputs(torch.float32, n, l, c, dilation)
        w = w * taps
        w1 = torch.randn(2 * c, c, device="cuda") * weights
        w2 = torch.randn(c, 2 * c, device="cuda") * weights
        want = peer.block(x.double(), w.double(), w1.double(), w2.double(), dilation)
        theirs = error(peer.source_inference()(x, w, w1, w2, dilation), want)
        tensors = {"x": x, "w": w, "w1": w1, "w2": w2}
        line = "cheri_block/{}/f32/" + f"n={n}/l={l}/c={c}/dilation={dilation}/hidden={2 * c}"
        mine = {path: error(ours(line.format(path), tensors)["out"], want)
                for path in ("cuda.fused", "cuda.fused_bf16x3", "cuda.train")}
        yield (f"weights {name}: {judged(theirs)}", "; ".join(f"`{path}` {judged(value)}" for path, value in mine.items()))


def median_us(record, path):
    for case in record["cases"]:
        if case["op"] == "cheri_block" and case["path"] == path and case["dtype"] == "f32" and case["perf"]:
            return case["perf"]["median_ns"] / 1e3
    raise SystemExit(f"gpu_claims.py: no time of cheri_block/{path}")


def speed(seed, peer):
    n, l, c, dilation = 64, 2114, 128, 4
    timer = load("gpu_peers", ROOT / "scripts/gpu_peers.py").Timer()
    inputs = peer.block_inputs(torch.float32, n, l, c, dilation, 2 * c)
    source = peer.source_inference()

    def train(x, w, w1, w2, dilation):
        y = seed.train_fwd(x, w, dilation)[0]
        return x + torch.nn.functional.linear(
            torch.nn.functional.gelu(torch.nn.functional.linear(y, w1), approximate="tanh"), w2) * peer.SCALE

    times = [timer.microseconds(lambda call=call: call(*inputs)) for call in (train, source)]
    products = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "f32"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ASSAY, "bench", "cheri_block/cuda.*", "--dtype", "f32", "--quiet", "--out", folder], stdout=subprocess.DEVNULL)
        record = json.loads((pathlib.Path(folder) / "run.json").read_text())
    mine = {path: median_us(record, path) for path in ("cuda.train", "cuda.fused", "cuda.fused_bf16x3")}
    yield (f"{times[0] / times[1]:.1f} times ({times[0]:.0f} and {times[1]:.0f} us; products of training in {products})",
           f"{mine['cuda.train'] / mine['cuda.fused']:.1f} times (" +
           ", ".join(f"`{path}` {value:.0f} us" for path, value in mine.items()) + ")")


def hidden_multiple(seed, peer):
    line = "cheri_block/{}/f32/n=2/l=40/c=12/dilation=3/hidden=24"
    answers = []
    for path in ("cuda.fused", "auto"):
        got = subprocess.run([ASSAY, "replay", line.format(path)], capture_output=True, text=True)
        answers.append(f"`{path}`: " + (got.stdout or got.stderr).splitlines()[0])
    yield "not measured: its caller chooses, not its kernels", "; ".join(answers)


# What the source says, how it is measured, and how long that may take. [s] A tuner of the source
# tries every configuration for every new shape, and compiles each one.
CLAIMS = {
    "first_call": ("the first gradient after autotuning is off by about 7e-2, because atomics are not reset", first_call, 180),
    "agreement": ("the paths agree to 1e-5 (elsewhere: to 1e-2); N16 L1000 C64 f32", agreement, 180),
    "hidden_multiple": ("hidden % 16 != 0 falls back to the training path", hidden_multiple, 60),
    "speed": ("inference is about 2 times as fast as training; N64 L2114 C128 f32", speed, 180),
}


def measure(name, folder):
    """In a process of its own: prints each row as a line of JSON."""
    sys.path.insert(0, folder)
    seed = importlib.import_module("cheri_seed")
    peer = load("bench_cheri", ROOT / "bench/cheri.py")
    for row in CLAIMS[name][1](seed, peer):
        print(json.dumps(row), flush=True)


def rows(name, folder, command=(sys.executable, __file__)):
    """The rows of a claim as they are measured; the last one says so if its process failed or took too long."""
    _, _, limit = CLAIMS[name]
    with (tempfile.TemporaryFile("w+") as complaints,
          subprocess.Popen([*command, "--measure", name, folder], stdout=subprocess.PIPE, stderr=complaints, text=True,
                           start_new_session=True) as process):
        late = threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), os.killpg(process.pid, signal.SIGKILL)))
        timer.start()
        for line in process.stdout:
            if line.startswith("["):
                yield tuple(json.loads(line))
        code = process.wait()
        timer.cancel()
        if late.is_set():
            yield f"not measured: no answer within {limit} s", "–"
        elif code != 0:
            complaints.seek(0)
            yield "not measured: " + (complaints.read().strip().splitlines() or [f"exit code {code}"])[-1], "–"


def write_table(file, folder, measured=rows):
    lines = [f"# What the source of the Cheri block claims, on {torch.cuda.get_device_name()}", "",
             f"`scripts/gpu_claims.py`; PyTorch {torch.__version__}; largest absolute errors against float64.", "",
             "| the source says | the source does | Assay |", "|---|---|---|"]
    for name, (claim, _, _) in CLAIMS.items():
        for theirs, mine in measured(name, folder):
            lines.append(f"| {claim} | {theirs} | {mine} |")
            print(lines[-1], flush=True)
            pathlib.Path(file).write_text("\n".join(lines) + "\n")


def main():
    if sys.argv[1] == "--measure":
        measure(*sys.argv[2:])
    else:
        write_table(*sys.argv[1:])


if __name__ == "__main__":
    main()
