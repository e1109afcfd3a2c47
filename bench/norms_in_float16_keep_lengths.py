"""Claim: norms in float16 return vectors no longer than √D(1 + η), at states with one digit of difference, too.

    python bench/norms_in_float16_keep_lengths.py                  widths 48 to 8,192, 20,000 states each
    python bench/norms_in_float16_keep_lengths.py --states 1000    fewer

The proof of folders in float16 assumes it of every state (docs/attach.md, λ): η = (D + 16)u + v, u = 2^−24, v = 2^−11.
It is measured and not proved, because it depends on how a norm sums: LayerNorm subtracts a mean, and where that is
thousands of times as long as the rest, a sum in the wrong order loses all digits. States in float16 have 11 digits and
sums 24, so at most some 2^13 √D of the length may be mean. These are such states: all coordinates the same but for the
last digit of one, of two, of half, or of all but one of them; and random ones. Here and, if there is one, on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the states are a part of the tests, and stay with them

import numpy as np
import torch
from tests.hosts import flat_states, lengths

from workload import claim, run

WIDTHS = (48, 128, 512, 768, 1024, 2048, 4096, 8192)
AT_ONCE = 1000


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    """As Llama does it: in float32, rounded at the end."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)).to(x.dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=20_000, help="per width")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for width in WIDTHS:
            eta, longest = (width + 16) * 2.0**-24 + 2.0**-11, {"LayerNorm": 0.0, "RMSNorm": 0.0}
            for _ in range(0, options.states, AT_ONCE):
                drawn = torch.from_numpy(random.standard_normal((AT_ONCE // 10, width)) * 100.0).half()
                states = torch.cat([flat_states(width, random, AT_ONCE), drawn]).to(device)
                normed = torch.nn.functional.layer_norm(states, (width,), eps=1e-5)
                longest["LayerNorm"] = max(longest["LayerNorm"], lengths(normed).max())
                longest["RMSNorm"] = max(longest["RMSNorm"], lengths(rms_norm(states)).max())
            for name, length in longest.items():
                claim(f"{name}, width {width:,}, {device}: (|û| − 1)/η", (length - 1.0) / eta, at_most=1.0)


if __name__ == "__main__":
    run(main)
