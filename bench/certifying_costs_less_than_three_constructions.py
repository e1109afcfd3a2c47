"""Claim: a certificate for 1.6 million labels takes less than three times as long as building the model.

100,000 sequences of 16 tokens, 1,000 words, 16 random classes: nearly every point is a run of its own, the
hardest case for both. The certificate is made from the saved folder, its digests and that of the data included.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import monolayer as ml
from monolayer.checker import certify
from workload import seconds, sequences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=100_000)
    X, Y = sequences(parser.parse_args().sequences)
    build, model = seconds(lambda: ml.memorize(X, Y))
    with tempfile.TemporaryDirectory() as scratch:
        folder = model.save(Path(scratch) / "model")
        check, proof = seconds(lambda: certify(folder, X, Y))
    print(f"labels         {proof.points:,}, {model.summary.runs:,} runs")
    print(f"memorize       {build:.3f} s")
    print(f"certify        {check:.3f} s = {check / build:.2f} constructions (claim: < 3)")
    print(f"verdict        {proof.verdict}; the tightest point has {proof.margin:,.0f} error bounds of room")
    assert proof.verdict == "proved"


if __name__ == "__main__":
    main()
