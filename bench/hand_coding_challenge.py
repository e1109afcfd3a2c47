"""Claim: one gated layer holds all pairs of 64 tokens, each mapped to a random third, at 0.6 bits per parameter.

The hand-coding challenge of July 2026 (Linsefors, Bushnaq): weights without training for a random map from pairs of
tokens to a third. Published for the version without attention: 63,488 facts at ≥ 90 % recall, 3.0 bits per parameter,
d_model = 128 (from memory); with 8 bits per fact, of 256 tokens, that is about 169,000 parameters. Here the stream of a
pair is the code of its first token beside that of its second, each of width d/2, and a gated layer
(`monolayer_experiments/gated.py`) reads it; the answer is the value with the largest product. It is built without
training, by a margin on random gates and on gates that least squares fitted, and by gradient descent beside that; every
fact is certified by a bound on rounding. Bits: facts times log₂ V, over the 3dm numbers of the layer; codes and values
are given. Fewer neurons than enough lose many facts at once: `--bits` and `--fitted` ask for other numbers of them.

`--tokens 256 --width 128` is the size of the challenge; it wants a GPU (`--device cuda`).
"""

from __future__ import annotations

import argparse
import math
import time

import torch
from torch.nn import functional

from monolayer_experiments import gated
from monolayer_experiments.gated import Facts, Gated
from workload import claim, run

STEPS, TRAINING, RATE = 400, 1_500, 1e-2


def pairs(V: int, width: int, seed: int, device: str) -> Facts:
    """All pairs of V tokens as keys `(1, V², d)`, V random unit values, and a random value per pair."""
    random = torch.Generator().manual_seed(seed)
    first, second, values = (
        functional.normalize(torch.randn(V, size, generator=random, dtype=torch.float64), dim=1)
        for size in (width // 2, width // 2, width)
    )
    keys = torch.cat([first.repeat_interleave(V, 0), second.repeat(V, 1)], dim=1)
    answer = torch.randint(0, V, (V * V,), generator=random)
    return Facts(*(part[None].to(device) for part in (keys, values, answer)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--width", type=int, default=64, help="d_model")
    parser.add_argument(
        "--bits", type=float, nargs=2, default=(0.34, 1.3), help="bits per parameter of random gates, and of training"
    )
    parser.add_argument("--fitted", type=float, default=0.62, help="bits per parameter of fitted gates")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    V, d = options.tokens, options.width
    facts = pairs(V, d, 0, options.device)
    bits = V * V * math.log2(V)

    def margin(width: int) -> Gated:
        return gated.margin(facts, gated.whitened(facts, [width], [0]), STEPS)

    def fitted(width: int) -> Gated:
        return gated.margin(facts, gated.fitted(facts, [width], [0]), STEPS)

    def trained(width: int) -> Gated:
        return gated.trained(facts, [width], [0], RATE, TRAINING)

    ways = {
        "random, margin": (margin, options.bits[0]),
        "fitted, margin": (fitted, options.fitted),
        "trained": (trained, options.bits[1]),
    }
    print("published: 63,488 facts at >= 90 % recall, 3.0 bits per parameter, d_model 128")
    print(f"{V * V:,} facts, d_model {d}")
    print("way              neurons  parameters  bits/parameter    right  certified  seconds")
    for name, (build, wanted) in ways.items():
        width = math.floor(bits / (3 * d * wanted))
        began = time.perf_counter()
        network = build(width)
        seconds = time.perf_counter() - began
        sure, right = float(gated.certified(network, facts)), float(gated.recalled(network, facts))
        parameters = 3 * d * width
        row = f"{name:15}  {width:>7}  {parameters:>10,}  {bits / parameters:>14.3f}  {right:>7.2%}  {sure:>9.2%}"
        print(f"{row}  {seconds:>7.1f}", flush=True)
        if name == "fitted, margin":
            claim("facts that fitted gates and a margin lose", 1.0 - sure, at_most=0.0)
            claim("bits per parameter of fitted gates and a margin", bits / parameters, at_least=0.6)


if __name__ == "__main__":
    run(main)
