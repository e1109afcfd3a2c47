"""Claim: norms return vectors no longer than proofs of attached facts assume, in every format of hosts.

    python bench/norms_keep_lengths.py                  widths 48 to 8,192, 20,000 states each
    python bench/norms_keep_lengths.py --states 1000    fewer

What is assumed (docs/proofs-attached.md, λ and R) depends on how a norm sums, so it is measured, not proved: LayerNorm
subtracts a mean, and where that is much longer than the rest of a state, a sum in the wrong order loses all digits. Let
κ be the length of a state over its length less its mean, u = 2^−24, v the unit roundoff of a short format, and η =
(D + 16)u, in short formats + v.

    float16, bfloat16   at any state: |û| ≤ 1 + η in float16, 1 + 2^−4 in bfloat16. States have 11 or 8 digits and norms
                        compute with 24, so that states which are the same number but for a digit are as flat as any.
    float32             at states with κ ≤ R, where 2(D + 16)u R² = 2^−4: |û| ≤ 1 + 2(D + 16)u κ²; with κ ≤ 16, where
                        answers are claimed: |û| ≤ 1 + η. Flatter states are not covered. Some are longer than any
                        bound, and the script shows how long.

RMSNorm subtracts no mean, so κ counts as 1 there. Here and, if there is one, on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the states are a part of the tests, and stay with them

import numpy as np
import torch
from tests.hosts import flat_states, lengths, ratios, tilted_states

from workload import claim, run

WIDTHS = (48, 128, 512, 768, 1024, 2048, 4096, 8192)
AT_ONCE = 1000
UNIT = 2.0**-24
FLATTEST = ((64, 2.0**18), (768, 8.9e10))
"""Widths and numbers c: states whose coordinates are c, but for one, which is the next float32."""


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """As PyTorch does it, with the ε of GPT-2."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-5)


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    """As Llama does it: in float32, rounded at the end."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)).to(x.dtype)


def short_formats(width: int, count: int, device: str, random: np.random.Generator) -> None:
    """The claims about float16 and bfloat16 at states of one width."""
    for dtype, bits in ((torch.float16, 11), (torch.bfloat16, 8)):
        eta, longest = (width + 16) * UNIT + 2.0**-bits, {layer_norm: 0.0, rms_norm: 0.0}
        for _ in range(0, count, AT_ONCE):
            drawn = torch.from_numpy(random.standard_normal((AT_ONCE // 10, width)) * 100.0).to(dtype)
            states = torch.cat([flat_states(width, random, AT_ONCE, dtype), drawn]).to(device)
            for norm in longest:
                longest[norm] = max(longest[norm], lengths(norm(states)).max())
        bound, words = (eta, "η") if dtype == torch.float16 else (2.0**-4, "2^−4")
        for norm, length in longest.items():
            name = f"{str(dtype).removeprefix('torch.')}, {norm.__name__}, width {width:,}, {device}"
            claim(f"{name}: (|û| − 1)/{words}", (length - 1.0) / bound, at_most=1.0)


def in_float32(width: int, count: int, device: str, random: np.random.Generator) -> None:
    """The claims about float32 at states of one width."""
    bound = 2.0 * (width + 16) * UNIT
    most = np.sqrt(2.0**-4 / bound)
    anywhere = near = plain = 0.0
    for _ in range(0, count, AT_ONCE):
        states = tilted_states(width, random, AT_ONCE, most).to(device)
        kappa, longer = ratios(states), lengths(layer_norm(states)) - 1.0
        covered, answering = kappa <= most, kappa <= 16.0
        anywhere = max(anywhere, (longer / (bound * kappa**2))[covered].max())
        near = max(near, longer[answering].max() / (bound / 2.0))
        plain = max(plain, (lengths(rms_norm(states)) - 1.0).max() / bound)
    name = f"float32, width {width:,}, {device}"
    claim(f"{name}: (|û| − 1)/2(D + 16)u κ², κ ≤ R = {most:.3g}", anywhere, at_most=1.0)
    claim(f"{name}: (|û| − 1)/η, κ ≤ 16", near, at_most=1.0)
    claim(f"{name}, rms_norm: (|û| − 1)/2(D + 16)u", plain, at_most=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=20_000, help="per width")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for width in WIDTHS:
            short_formats(width, options.states, device, random)
            in_float32(width, options.states, device, random)
        for width, number in FLATTEST:
            states = torch.full((width, width), number)
            states.fill_diagonal_(float(np.nextafter(np.float32(number), np.float32(np.inf))))
            length = lengths(layer_norm(states.to(device))).max()
            what = f"{width} coordinates {number:g}, one the next float"
            print(f"not covered: float32, {device}, {what}: |û| = {length:,.5g}")


if __name__ == "__main__":
    run(main)
