"""Claim: PyTorch sums products of bfloat16 and float16 in float32, and rounds each sum once, when it is complete.

    python bench/sums_in_short_formats_are_rounded_once.py                     widths 64 to 4,096
    python bench/sums_in_short_formats_are_rounded_once.py --without-onednn    the same with PyTorch's own code

The proof of facts attached in a short format assumes it (docs/proofs-attached.md, A1). It is measured: it depends on a
library: on ARM processors with bfloat16 instructions oneDNN has ARM's Compute Library cut long sums into pieces, which
are added up in the format; and the sum of values in attention with one query may lose its last term there. Then the
claim fails here, and holds with `--without-onednn`. Terms of a sum are of very different sizes and cancel, so rounding
before the end shows. Here and, if there is one, on a GPU, where the switches are set that a certificate asks for.
"""

from __future__ import annotations

import argparse
import contextlib

import numpy as np
import torch

from workload import claim, run

WIDTHS = (64, 256, 512, 768, 1024, 2048, 4096)
ROWS = (1, 4, 16)
"""One row alone goes to other code than several."""
NEURONS = 64
UNITS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
KEYS = (8, 9, 31, 64)
"""How many keys attention has: a sum of an odd number of terms ends in other code than one of an even number."""
TINY = {torch.bfloat16: 2.0**-126, torch.float16: 2.0**-24}


def error(dtype: torch.dtype, rows: int, width: int, device: str, random: np.random.Generator) -> float:
    """The largest error of products `(rows, width) (width, NEURONS)`, as a share of what is assumed:
    (D + 16)u Σ|x_i w_i| for a sum in float32, in any order, and v |sum| for one rounding."""
    sizes = 2.0 ** random.integers(-8, 9, (NEURONS, width)) * (random.random((NEURONS, width)) < 0.05)
    x = torch.from_numpy(random.standard_normal((rows, width))).to(device, dtype)
    weights = torch.from_numpy(random.standard_normal((NEURONS, width)) * sizes).to(device, dtype)
    found = torch.nn.functional.linear(x, weights).double()
    exact, magnitude = x.double() @ weights.double().T, x.double().abs() @ weights.double().abs().T
    assumed = (width + 16) * 2.0**-24 * magnitude + UNITS[dtype] * exact.abs() + TINY[dtype]
    return float(((found - exact).abs() / assumed).max())


def attention_error(dtype: torch.dtype, keys: int, device: str) -> float:
    """The error of attention with one query, as a share of four roundings. All keys have the same weight, and only the
    last value is not 0, so exactly 1 is to be returned: the last term of a sum is all there is."""
    zeros = torch.zeros(1, 1, keys, 16, dtype=dtype, device=device)
    values = zeros.clone()
    values[:, :, -1] = keys
    found = torch.nn.functional.scaled_dot_product_attention(zeros[:, :, :1], zeros, values).double()
    return float((found - 1.0).abs().max()) / (4.0 * UNITS[dtype])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without-onednn", action="store_true", help="torch.backends.mkldnn.enabled = False")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    own_code = torch.backends.mkldnn.flags(enabled=False) if options.without_onednn else contextlib.nullcontext()
    random = np.random.default_rng(0)
    with own_code:
        for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
            for dtype in UNITS:
                for width in WIDTHS:
                    largest = max(error(dtype, rows, width, device, random) for rows in ROWS for _ in range(3))
                    name = str(dtype).removeprefix("torch.")
                    claim(f"{name}, width {width:,}, {device}: error/assumed", largest, at_most=1.0)
                largest = max(attention_error(dtype, keys, device) for keys in KEYS)
                claim(f"{name}, attention with one query, {device}: error/assumed", largest, at_most=1.0)


if __name__ == "__main__":
    run(main)
