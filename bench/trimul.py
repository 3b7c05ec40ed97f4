# SPDX-License-Identifier: Apache-2.0
"""What trimul is timed beside on a GPU; scripts/gpu_peers.py reads OPS."""
import importlib

import torch
import torch.nn.functional as F

EPSILON = 1e-5
HIDDEN = 128

SIZES = [
    (1, 1024, 128, 0),
    (1, 1024, 128, 1),
    (1, 768, 128, 0),
    (2, 256, 128, 0),
    (1, 1024, 384, 0),
    (2, 256, 384, 0),
]


def inputs(dtype, b, n, c, h, mask):
    def normal(*shape, scale=1.0):
        return torch.randn(*shape, dtype=dtype, device="cuda") * scale

    edges = normal(b, n, n, c), torch.randint(0, 2, (b, n, n, mask), device="cuda").to(dtype)
    projections = [normal(h, c, scale=c**-0.5) for _ in range(5)]
    norms = [normal(c), normal(c)], [normal(h), normal(h)]
    return *edges, *norms[0], *projections, *norms[1], normal(c, h, scale=h**-0.5)


def trimul(x, mask, norm_weight, norm_bias, left_proj, right_proj, left_gate, right_gate, out_gate, to_out_norm_weight,
           to_out_norm_bias, to_out):
    xn = F.layer_norm(x, x.shape[-1:], norm_weight, norm_bias, EPSILON)
    left = F.linear(xn, left_proj) * F.linear(xn, left_gate).sigmoid()
    right = F.linear(xn, right_proj) * F.linear(xn, right_gate).sigmoid()
    if mask.shape[-1] == 1:
        left, right = left * mask, right * mask
    hidden = torch.einsum("bikh,bjkh->bijh", left, right)
    y = F.layer_norm(hidden, hidden.shape[-1:], to_out_norm_weight, to_out_norm_bias, EPSILON)
    return F.linear(y * F.linear(xn, out_gate).sigmoid(), to_out)


def trimul_f16(*inputs):
    """What a user of PyTorch who gives up f32 factors would write."""
    with torch.autocast("cuda", torch.float16):
        return trimul(*inputs)


def source():
    """With its weights by name; it takes a mask into account only if it is told to."""
    kernel = importlib.import_module("trimul_seed").custom_kernel

    def run(x, mask, norm_weight, norm_bias, left_proj, right_proj, left_gate, right_gate, out_gate, to_out_norm_weight,
            to_out_norm_bias, to_out):
        weights = {
            "norm.weight": norm_weight,
            "norm.bias": norm_bias,
            "left_proj.weight": left_proj,
            "right_proj.weight": right_proj,
            "left_gate.weight": left_gate,
            "right_gate.weight": right_gate,
            "out_gate.weight": out_gate,
            "to_out_norm.weight": to_out_norm_weight,
            "to_out_norm.bias": to_out_norm_bias,
            "to_out.weight": to_out,
        }
        has_mask = mask.shape[-1] == 1
        config = {"dim": x.shape[-1], "hidden_dim": to_out.shape[-1], "nomask": not has_mask}
        return kernel((x, mask[..., 0] if has_mask else None, weights, config))

    return run


OPS = {
    "trimul": {
        "problems": [("f32", {"b": b, "n": n, "c": c, "h": HIDDEN, "mask": mask}) for b, n, c, mask in SIZES],
        "inputs": inputs,
        "formula": trimul,
        "also_compiled": {"torch.compile (f16 autocast)": trimul_f16},
        "source": source,
    },
}
