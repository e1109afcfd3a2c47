"""A million tokens are memorized in seconds and recited without an error.

The text is random words with the frequencies of a natural language (Zipf), spaces between them: half a million words,
a million tokens. The yardstick is one argsort of as many numbers, in the same run.
"""

from __future__ import annotations

import resource

import numpy as np

import monolayer as ml
from workload import seconds, sort_seconds


def main() -> None:
    random = np.random.default_rng(0)
    words = random.zipf(1.3, 2_000_000)
    text = " ".join(f"w{word}" for word in words[words < 30_000][:500_000])
    built, model = seconds(lambda: ml.memorize_text(text), repeats=1)
    said, right = seconds(lambda: model.generate() == text, repeats=1)
    sort = sort_seconds(1_000_000)
    script, summary = model.card.script, model.summary
    assert script is not None
    assert summary is not None
    print(f"{summary.labelled:,} tokens, {summary.vocabulary:,} different, windows of {script.window}")
    print(f"built in {built:.1f} s, {built / sort:.0f} sorts of a million numbers; margin {summary.margin:.0f} errors")
    verdict = "without an error" if right else "WRONG"
    print(f"recited {verdict} in {said:.1f} s, {1e6 * said / summary.labelled:.0f} µs a token")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")
    raise SystemExit(0 if right else 1)


if __name__ == "__main__":
    main()
