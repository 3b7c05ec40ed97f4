#!/usr/bin/env python3
"""Times what else a user would pick for dynamic_conv on this GPU: torch.compile, and the source's Triton kernels.

usage: gpu_peers.py OUT.json [PEERS_DIR]

Medians with the L2 flushed between calls (triton.testing.do_bench). PEERS_DIR may hold dynamic_conv_seed.py with
fwd(x, k) and bwd(dout, x, k). The error is normwise against float64.
"""
import json
import sys

import torch
import triton

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
SHAPES = [(8, 2048, 2048, 4), (1, 16384, 4096, 4)]


def microseconds(call):
    return triton.testing.do_bench(call, warmup=50, rep=200, return_mode="median") * 1e3


def by_formula(x, k):
    t, w = x.shape[1], k.shape[3]
    padded = torch.nn.functional.pad(x, (0, 0, w - 1, 0))
    return sum(padded[:, i : i + t] * k[..., i] for i in range(w))


def gradients_by_formula(dout, x, k):
    t, w = x.shape[1], k.shape[3]
    padded = torch.nn.functional.pad(x, (0, 0, w - 1, 0))
    dk = torch.stack([dout * padded[:, i : i + t] for i in range(w)], dim=-1)
    terms = torch.nn.functional.pad(dout.unsqueeze(-1) * k, (0, 0, 0, 0, 0, w - 1))
    dx = sum(terms[:, w - 1 - i : w - 1 - i + t, :, i] for i in range(w))
    return dx, dk


def normwise_error(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def peers(folder):
    found = {"torch.compile": (torch.compile(by_formula), torch.compile(gradients_by_formula))}
    if folder:
        sys.path.insert(0, folder)
        import dynamic_conv_seed as source

        found["source (Triton)"] = (source.fwd, source.bwd)
    return found


def main():
    torch.manual_seed(0)
    rows = []
    for b, t, d, w in SHAPES:
        for name, dtype in DTYPES.items():
            x = torch.randn(b, t, d, device="cuda", dtype=dtype)
            k = torch.randn(b, t, d, w, device="cuda", dtype=dtype)
            dout = torch.randn_like(x)
            want = by_formula(x.double(), k.double())
            want_gradients = gradients_by_formula(dout.double(), x.double(), k.double())
            for peer, (forward, backward) in peers(sys.argv[2] if len(sys.argv) > 2 else None).items():
                row = {"peer": peer, "dtype": name, "b": b, "t": t, "d": d, "w": w}
                try:
                    row["rel_l2"] = normwise_error(forward(x, k), want)
                    row["forward_us"] = microseconds(lambda: forward(x, k))
                    row["backward_rel_l2"] = [normwise_error(*pair) for pair in zip(backward(dout, x, k), want_gradients)]
                    row["backward_us"] = microseconds(lambda: backward(dout, x, k))
                except Exception as error:  # a peer that cannot run is a result, too
                    row["failed"] = str(error)[:200]
                rows.append(row)
                print(json.dumps(row), flush=True)
            del x, k, dout, want, want_gradients
            torch.cuda.empty_cache()
    with open(sys.argv[1], "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
