# SPDX-License-Identifier: Apache-2.0
"""What mhc_post is timed beside on a GPU; scripts/gpu_peers.py reads OPS."""
import importlib

import torch

SIZES = [
    ("bf16", 4096, 4, 4096),
    ("bf16", 4096, 8, 4096),
    ("bf16", 4096, 2, 4096),
    ("bf16", 4096, 3, 2560),
    ("bf16", 512, 4, 4096),
    ("bf16", 4096, 4, 1280),
    ("bf16", 4096, 16, 4096),
    ("f32", 4096, 4, 4096),
]


def inputs(dtype, n, hc, h):
    x = torch.randn(n, h, dtype=dtype, device="cuda")
    residual = torch.randn(n, hc, h, dtype=dtype, device="cuda")
    post = torch.randn(n, hc, device="cuda")
    comb = torch.randn(n, hc, hc, device="cuda")
    return x, residual, post, comb


def mhc_post(x, residual, post, comb):
    # Stream by stream, which torch.compile fuses into one kernel; it does not fuse torch.bmm.
    out = post.unsqueeze(-1) * x.unsqueeze(1)
    for j in range(residual.shape[1]):
        out = out + comb[:, j].unsqueeze(-1) * residual[:, j].unsqueeze(1)
    return out.to(x.dtype)


OPS = {
    "mhc_post": {
        "problems": [(dtype, {"n": n, "hc": hc, "h": h}) for dtype, n, hc, h in SIZES],
        "inputs": inputs,
        "formula": mhc_post,
        "source": lambda: importlib.import_module("mhc_post_seed").mhc_post,
        "source_dtypes": ["bf16"],  # it rounds to bf16 whatever the dtype of x is
    },
}
