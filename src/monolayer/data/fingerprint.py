"""64-bit fingerprints of points, to tell what a model was built from and what it never saw.

A point is a token in its context (and at its position, if the model sees positions), or a whole sequence if labels
belong to sequences. Every token, with its position, has a scrambled 64-bit word. The words of a context are added up
modulo 2^64, so order counts exactly as far as the model sees it. Equal points always have equal fingerprints. If the
scrambler were a random function, a new point would have one of `M` stored fingerprints with probability `M / 2^64`:
about 5·10⁻¹⁴ for a million points. This is no defence against somebody who looks for a collision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Words
from monolayer.data.choices import Per
from monolayer.data.distinct import scramble
from monolayer.data.labelling import LABELLINGS
from monolayer.data.sequences import Sequences

_TOKEN_SALT, _PLACE_SALT, _OWN_SALT = (
    np.uint64(salt) for salt in (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0)
)


def fingerprints(data: Sequences, per: Per, *, positions: bool, causal: bool) -> Words:
    """The fingerprints of the points in `data`, whose tokens are ids: one per token `(T,)` or per sequence `(N,)`.

    `per`: whether points are tokens or sequences. `positions`: whether the model sees the positions of tokens.
    `causal`: whether a token sees only itself and the tokens before it.
    """
    word = scramble(data.tokens.astype(np.uint64) ^ _TOKEN_SALT)
    if positions:
        word = scramble(word ^ scramble(data.position.astype(np.uint64) ^ _PLACE_SALT))
    context = context_sums(word, data, per, causal)
    per_token = LABELLINGS[per].at_tokens
    return scramble(context ^ scramble(word ^ _OWN_SALT)) if per_token else scramble(context)


def context_sums(word: Words, data: Sequences, per: Per, causal: bool) -> Words:
    """The sum modulo 2^64 of the words that each token sees, `(T,)`, or of those in each sequence, `(N,)`.

    `word` `(T,)` holds one word per token. `per="sequence"` asks for sums of sequences; `causal`: whether a token sees
    only itself and the tokens before it.
    """
    running = np.cumsum(word)  # modulo 2^64, so differences of running sums are exact
    first = data.offsets[:-1]
    start = running[first] - word[first]
    if causal:
        return running - np.repeat(start, data.lengths)
    whole = running[data.offsets[1:] - 1] - start
    return np.repeat(whole, data.lengths) if LABELLINGS[per].at_tokens else whole


def once(words: Words) -> Words:
    """The distinct values of `words` `(P,)`, sorted. The sort is many times faster than NumPy's hashing."""
    ordered = np.sort(words)
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def contained(asked: Words, stored: Words) -> NDArray[np.bool_]:
    """Which of `asked` `(P,)` are among `stored` `(M,)`, which must be sorted.

    A binary search is used because `asked` is usually much shorter than `stored`.
    """
    place = np.searchsorted(stored, asked)
    inside = place < len(stored)
    inside[inside] = stored[place[inside]] == asked[inside]
    return inside
