# SPDX-License-Identifier: Apache-2.0
"""What the Cheri ops are timed beside on a GPU; scripts/gpu_peers.py reads OPS."""
import importlib

import torch
import torch.nn.functional as F

EPSILON = 1e-3
SCALE = 0.15

SIZES = [
    ("f32", 64, 2114, 128, 4),
    ("bf16", 64, 2114, 128, 4),
    ("f32", 64, 2114, 64, 4),
]
BLOCK_SIZES = [*SIZES, ("f16", 64, 2114, 128, 4)]


def conv_norm_inputs(dtype, n, l, c, dilation):
    x = torch.randn(n, l, c, dtype=dtype, device="cuda")
    return x, torch.randn(3, c, dtype=dtype, device="cuda"), dilation


def grad_inputs(dtype, n, l, c, dilation):
    return (torch.randn(n, l, c, dtype=dtype, device="cuda"), *conv_norm_inputs(dtype, n, l, c, dilation))


def block_inputs(dtype, n, l, c, dilation, hidden):
    """All of them as our regime `normal` draws them, also the weights: errors beside ours come from equal data."""
    x, w, _ = conv_norm_inputs(dtype, n, l, c, dilation)
    return x, w, *(torch.randn(shape, dtype=dtype, device="cuda") for shape in ((hidden, c), (c, hidden))), dilation


def wide(tensor):
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def taps(x, dilation):
    """x[l-d], x[l], x[l+d], with zeros outside."""
    length = x.shape[1]
    padded = F.pad(wide(x), (0, 0, dilation, dilation))
    return [padded[:, k * dilation:k * dilation + length] for k in range(3)]


def statistics(x, w, dilation):
    conv = sum(tap * wide(w[k]) for k, tap in enumerate(taps(x, dilation)))
    variance, mean = torch.var_mean(conv, dim=(1, 2), keepdim=True, correction=0)
    rstd = torch.rsqrt(variance + EPSILON)
    return (conv - mean) * rstd, rstd


def conv_norm(x, w, dilation):
    return statistics(x, w, dilation)[0].to(x.dtype)


def conv_norm_grad(dy, x, w, dilation):
    y, rstd = statistics(x, w, dilation)
    dy = wide(dy)
    means = [term.mean(dim=(1, 2), keepdim=True) for term in (dy, dy * y)]
    dconv = rstd * (dy - means[0] - y * means[1])
    dx = sum(tap * wide(w[2 - k]) for k, tap in enumerate(taps(dconv, dilation)))
    dw = torch.stack([(dconv * tap).sum(dim=(0, 1)) for tap in taps(x, dilation)])
    return dx.to(x.dtype), dw.to(x.dtype)


def block(x, w, w1, w2, dilation):
    y = conv_norm(x, w, dilation)
    return x + SCALE * F.linear(F.gelu(F.linear(y, w1), approximate="tanh"), w2)


def seed():
    return importlib.import_module("cheri_seed")


def source_forward():
    return lambda x, w, dilation: seed().train_fwd(x, w, dilation)[0]


def source_backward():
    """As in training: the statistics are those that the forward pass has kept."""
    kept = {}

    def backward(dy, x, w, dilation):
        if not kept:
            _, kept["mean"], kept["rstd"] = seed().train_fwd(x, w, dilation)
        return seed().train_bwd(dy, x, w, kept["mean"], kept["rstd"], dilation)

    return backward


def source_inference():
    """With cast weights, which the source keeps."""
    kept = {}

    def inference(x, w, w1, w2, dilation):
        if not kept:
            dtype = torch.bfloat16 if x.dtype == torch.float32 else x.dtype
            kept["w1"], kept["w2"] = w1.to(dtype), (w2 * SCALE).to(dtype)
        return seed().inf_forward(x, w, dilation, kept["w1"], kept["w2"])

    return inference


def problems(sizes, **more):
    return [(dtype, {"n": n, "l": l, "c": c, "dilation": d} | {key: of(c) for key, of in more.items()})
            for dtype, n, l, c, d in sizes]


OPS = {
    "cheri_conv_norm": {
        "problems": problems(SIZES),
        "inputs": conv_norm_inputs,
        "formula": conv_norm,
        "source": source_forward,
    },
    "cheri_conv_norm_grad": {
        "problems": problems(SIZES),
        "inputs": grad_inputs,
        "formula": conv_norm_grad,
        "source": source_backward,
    },
    "cheri_block": {
        "problems": problems(BLOCK_SIZES, hidden=lambda c: 2 * c),
        "inputs": block_inputs,
        "formula": block,
        "source": source_inference,
    },
}
