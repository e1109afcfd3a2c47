"""Claim: `exp` of common libraries is within the 4 units in the last place that the certificate assumes.

binary32: every float with a normal result, against binary64. binary64: random arguments, against Arb balls. The last
column is what the certificate allows. About a minute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from flint import arb

from monolayer.checker.rounding import EXP_ULPS
from monolayer.theory.balls import precision
from workload import claim, run

Exp = Callable[[Any], Any]
LIBRARIES: dict[str, Exp] = {"NumPy": np.exp, "PyTorch": lambda x: torch.from_numpy(x).exp().numpy()}


def every_binary32(exp: Exp) -> tuple[float, float]:
    """The largest error in ulps over all floats, and where it is. Below 2^-25 the result is 1 or next to it."""
    worst = 0.0, 0.0
    mantissas = np.arange(1 << 23, dtype=np.uint32)
    for exponent in range(-25, 7):
        for sign in (0, 1):
            x = (mantissas | np.uint32(exponent + 127 << 23) | np.uint32(sign << 31)).view(np.float32)
            x = x[(x > -87.3) & (x < 88.7)]  # normal results
            if not len(x):
                continue
            true = np.exp(x.astype(np.float64))
            error = np.abs(exp(x).astype(np.float64) - true) / np.spacing(true.astype(np.float32)).astype(np.float64)
            place = int(error.argmax())
            worst = max(worst, (float(error[place]), float(x[place])))
    return worst


def random_binary64(exp: Exp, count: int) -> tuple[float, float]:
    random = np.random.default_rng(0)
    x = np.concatenate([random.uniform(-128, 128, count // 2), random.normal(size=count // 2)])
    found, worst = exp(x), (0.0, 0.0)
    with precision(128):
        for a, b in zip(x.tolist(), found.tolist(), strict=True):
            error = float(abs(arb(a).exp() - arb(b)).upper()) / math.ulp(b)
            worst = max(worst, (error, a))
    return worst


def main() -> None:
    print(f"{'library':10} {'format':10} {'worst error':>12} {'at':>12} {'assumed':>8}")
    for name, exp in LIBRARIES.items():
        for form, (error, place) in (("binary32", every_binary32(exp)), ("binary64", random_binary64(exp, 400_000))):
            print(f"{name:10} {form:10} {error:7.3f} ulps {place:12.5g} {EXP_ULPS:8}", flush=True)
            claim(f"largest error of exp of {name} in {form}", error, at_most=EXP_ULPS, unit=" ulps")


if __name__ == "__main__":
    run(main)
