# SPDX-License-Identifier: Apache-2.0
"""What dynamic_conv and its gradient are timed beside on a GPU; scripts/gpu_peers.py reads OPS."""
import importlib

import torch
from torch.nn.functional import pad

PROBLEMS = [
    (dtype, {"b": b, "t": t, "d": d, "w": 4}) for b, t, d in ((8, 2048, 2048), (1, 16384, 4096)) for dtype in ("bf16", "f32")
]


def inputs(dtype, b, t, d, w):
    return torch.randn(b, t, d, dtype=dtype, device="cuda"), torch.randn(b, t, d, w, dtype=dtype, device="cuda")


def dynamic_conv(x, k):
    t, w = x.shape[1], k.shape[3]
    padded = pad(x, (0, 0, w - 1, 0))
    return sum(padded[:, i : i + t] * k[..., i] for i in range(w))


def inputs_grad(dtype, b, t, d, w):
    x, k = inputs(dtype, b, t, d, w)
    return torch.randn_like(x), x, k


def dynamic_conv_grad(dout, x, k):
    t, w = x.shape[1], k.shape[3]
    padded = pad(x, (0, 0, w - 1, 0))
    dk = torch.stack([dout * padded[:, i : i + t] for i in range(w)], dim=-1)
    terms = pad(dout.unsqueeze(-1) * k, (0, 0, 0, 0, 0, w - 1))
    dx = sum(terms[:, w - 1 - i : w - 1 - i + t, :, i] for i in range(w))
    return dx, dk


OPS = {
    "dynamic_conv": {
        "problems": PROBLEMS,
        "inputs": inputs,
        "formula": dynamic_conv,
        "source": lambda: importlib.import_module("dynamic_conv_seed").fwd,
    },
    "dynamic_conv_grad": {
        "problems": PROBLEMS,
        "inputs": inputs_grad,
        "formula": dynamic_conv_grad,
        "source": lambda: importlib.import_module("dynamic_conv_seed").bwd,
    },
}
