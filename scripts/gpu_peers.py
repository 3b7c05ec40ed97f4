#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times what else a user would pick for each op on this GPU: torch.compile, and the source's own kernels.

usage: gpu_peers.py OUT.json [PEERS_DIR [OPS]]    (OPS: only the ops whose names this pattern matches, "cheri_*")

Each bench/<op>.py declares OPS: by the name of each op of the family

    problems       [(dtype, dims)] as on a case line, ("bf16", {"n": 4096, "h": 1280}); the sweep has to time them, too
    inputs         inputs(dtype of torch, **dims): the inputs on the GPU, in the order of the op's table, and what else
                   formula takes
    formula        formula(*inputs) in plain PyTorch; given to torch.compile, and with float64 inputs the reference
    also_compiled  {name: function(*inputs)}, given to torch.compile, too; optional
    source         source(): a function with the source's kernels, from a module of PEERS_DIR, called as formula is;
                   optional
    source_dtypes  the dtypes that it serves; all when left out

Medians with a cold L2, timed as our own paths are. The error of each output is normwise against float64.
"""
import fnmatch
import functools
import importlib.util
import json
import pathlib
import statistics
import sys

import torch

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def declared(folder):
    """{op: what its family's file declares of it}."""
    ops = {}
    for file in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"bench_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        ops.update(module.OPS)
    return ops


def compiled(formula):
    # By default a function that was compiled for one problem is compiled for any size at the second
    # one, and slower.
    torch.compiler.reset()
    return torch.compile(formula, dynamic=False)


def peers(op, dtype, has_sources):
    """{name: how to get the function}."""
    formulas = {"torch.compile": op["formula"]} | op.get("also_compiled", {})
    found = {name: functools.partial(compiled, formula) for name, formula in formulas.items()}
    if has_sources and "source" in op and dtype in op.get("source_dtypes", DTYPES):
        found["source (Triton)"] = op["source"]
    return found


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def normwise_error(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


class Timer:
    """As our own (kernels/core_cuda/cuda_device.cu): before each call a kernel that reads twice the L2 and writes as much
    replaces what is in it, and the GPU waits until the host has enqueued the call."""

    def __init__(self):
        # Words of 4 bytes, twice the L2.
        words = torch.cuda.get_device_properties(0).L2_cache_size // 2
        self.memory = torch.ones(2, words, dtype=torch.int32, device="cuda")
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(self, call):
        torch.bitwise_not(self.memory[0], out=self.memory[1])
        torch.cuda._sleep(200_000)  # [cycles] 0.1 ms: torch launches slowly
        self.begin.record()
        call()
        self.end.record()
        torch.cuda.synchronize()
        return 1e3 * self.begin.elapsed_time(self.end)  # [us]

    def microseconds(self, call):
        # The first calls also compile, tune and allocate.
        first = [self.sample(call) for _ in range(5)]
        count = max(15, min(300, int(0.33e6 / first[-1])))  # as our own
        return statistics.median(self.sample(call) for _ in range(count))


def measure(timer, name, op, dtype, dims, has_sources):
    torch.manual_seed(0)
    drawn = op["inputs"](DTYPES[dtype], **dims)

    def each_tensor(change):
        return tuple(change(value) if isinstance(value, torch.Tensor) else value for value in drawn)

    want = as_tuple(op["formula"](*each_tensor(torch.Tensor.double)))
    copies = []  # held until the end: no memory goes to a second peer
    for peer, function_of in peers(op, dtype, has_sources).items():
        row = {"op": name, "dims": dims, "dtype": dtype, "peer": peer}
        try:
            # Tensors of its own: torch.compile's kernels may mark what they read as evict_last,
            # which stays in the L2 whatever passes through it, and the next peer would find it
            # there.
            inputs = each_tensor(torch.clone)
            copies.append(inputs)
            function = function_of()
            row["rel_l2"] = [normwise_error(*pair) for pair in zip(as_tuple(function(*inputs)), want, strict=True)]
            row["us"] = timer.microseconds(lambda: function(*inputs))
        except Exception as error:  # a peer that cannot run is a result, too
            row["failed"] = str(error)[:200]
        yield row


def main():
    has_sources = len(sys.argv) > 2
    if has_sources:
        sys.path.insert(0, sys.argv[2])
    timer = Timer()
    pattern = sys.argv[3] if len(sys.argv) > 3 else "*"
    rows = []
    for name, op in declared(BENCH).items():
        for dtype, dims in op["problems"] if fnmatch.fnmatch(name, pattern) else []:
            for row in measure(timer, name, op, dtype, dims, has_sources):
                rows.append(row)
                print(json.dumps(row), flush=True)
                pathlib.Path(sys.argv[1]).write_text(json.dumps(rows, indent=1))
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
