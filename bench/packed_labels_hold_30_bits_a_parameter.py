"""Claim: a whole network, dense matrices and embeddings counted, holds 30 bits per parameter and returns every label.

Packed labels (docs/robust.md): one step of the line per sequence, whose whole numbers hold all labels of the sequence,
and a fixed ReLU network that unpacks the label of a place by exact doubling. First the random data of the experiment
`frontier` (16 classes), then sequences of 160 tokens with labels of 8,192 classes. Every label is asked for; the packed
numbers are proved by the certificate of the line. The yardstick: 3.6 bits per parameter of trained GPTs (Morris 2025).
"""

from __future__ import annotations

import time

import monolayer as ml
from monolayer_experiments.packed import memorize_packed, pack
from monolayer_experiments.synthetic import without_repeats
from workload import claim, run


def main() -> None:
    print("labels     classes  parameters  of them unpacking  bits per parameter  of the readout  right        numbers")
    density = 0.0
    for count, length, words, bits in ((2000, 16, 1000, 4), (4000, 160, 320, 13)):
        X, Y = without_repeats(count, length, words, 2**bits)
        began = time.perf_counter()
        model = memorize_packed(X, Y, bits)
        took = time.perf_counter() - began
        sizes = {name: p.numel() for name, p in model.named_parameters()}
        unpacking = sum(size for name, size in sizes.items() if name.startswith(("unpack", "place", "head")))
        readout = unpacking + sum(size for name, size in sizes.items() if "feed_forward" in name)
        wrong = int((model.predict(X) != Y).sum())
        verdict = ml.certify(model.body, X, pack(Y, bits)).verdict
        density = Y.size * bits / sum(sizes.values())
        print(
            f"{Y.size:>7,}  {2**bits:>9,}  {sum(sizes.values()):>10,}  {unpacking:>17,}  {density:>16.1f}  "
            f"{Y.size * bits / readout:>14.1f}  {Y.size - wrong:,}  {verdict}, built in {took:.1f} s",
            flush=True,
        )
        assert wrong == 0
        assert verdict == "proved"
        assert density > 3.6
    claim("bits that a parameter of the whole network holds", density, at_least=30.0)


if __name__ == "__main__":
    run(main)
