"""Claim: a certificate for 1.6 million labels takes at most 1.5 times as long as building the model.

100,000 sequences of 16 tokens, 1,000 words, 16 random classes: nearly every point is a run of its own, the
hardest case for both. The certificate is made from the saved folder, its digests and that of the data included. Times
are of the processor, in one thread.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

import monolayer as ml
from monolayer.saved.certify import certify
from workload import SAME_RUN, claim, cpu_seconds, run, sequences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=100_000)
    X, Y = sequences(parser.parse_args().sequences)
    torch.set_num_threads(1)  # waiting threads of PyTorch would count as work
    build, model = cpu_seconds(lambda: ml.memorize(X, Y), 5)
    with tempfile.TemporaryDirectory() as scratch:
        folder = model.save(Path(scratch) / "model")
        check, proof = cpu_seconds(lambda: certify(folder, X, Y), 5)
    print(f"labels         {proof.points:,}, {model.summary.runs:,} runs")
    print(f"memorize       {build:.3f} s")
    print(f"certify        {check:.3f} s")
    print(f"verdict        {proof.verdict}; the tightest point has {proof.margin:,.0f} error bounds of room")
    assert proof.verdict == "proved"
    claim("processor time of certify, in constructions", check / build, at_most=1.5, busy=SAME_RUN)


if __name__ == "__main__":
    run(main)
