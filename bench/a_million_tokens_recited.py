"""Claim: a million tokens are memorized in ten seconds and recited without an error.

The text is random words with the frequencies of a natural language (Zipf), spaces between them: half a million words,
a million tokens. The yardstick is one argsort of as many numbers, in the same run.
"""

from __future__ import annotations

import resource

import numpy as np
import torch

import monolayer as ml
from workload import claim, cpu_seconds, run, seconds


def main() -> None:
    random = np.random.default_rng(0)
    words = random.zipf(1.3, 2_000_000)
    text = " ".join(f"w{word}" for word in words[words < 30_000][:500_000])
    torch.set_num_threads(1)  # waiting threads of PyTorch would count as work
    built, model = cpu_seconds(lambda: ml.memorize_text(text), repeats=1)
    said, right = seconds(lambda: model.generate() == text, repeats=1)
    keys = np.random.default_rng(1).random(1_000_000)
    sort = cpu_seconds(lambda: np.argsort(keys))[0]
    script, summary = model.card.script, model.summary
    assert script is not None
    assert summary is not None
    print(f"{summary.labelled:,} tokens, {summary.vocabulary:,} different, windows of {script.window}")
    print(f"built in {built:.1f} s of processor, {built / sort:.0f} sorts; margin {summary.margin:.0f} errors")
    verdict = "without an error" if right else "WRONG"
    print(f"recited {verdict} in {said:.1f} s, {1e6 * said / summary.labelled:.0f} µs a token")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")
    claim("processor time to memorize a million tokens", built, at_most=10.0, idle=True, unit=" s")
    assert right, "the text that is recited is another"


if __name__ == "__main__":
    run(main)
