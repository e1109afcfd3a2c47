"""64-bit fingerprints of points, to tell what a model was built from and what it never saw.

A point is a token in its context, and in its place where places count; or a whole sequence, for a label per sequence.
Every token, with its place, has a scrambled 64-bit word; the words of a context are added up modulo 2^64, so order
counts exactly as far as the model sees it. Equal points have equal fingerprints, always. Taking the scrambler for a
random function, a new point has one of `M` stored fingerprints with probability `M / 2^64`: about 5·10⁻¹⁴ for a
million points. It is no defence against somebody who looks for a collision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Words
from monolayer.data.distinct import scramble
from monolayer.data.labels import Per
from monolayer.data.sequences import Sequences

_TOKEN_SALT, _PLACE_SALT, _OWN_SALT = (
    np.uint64(salt) for salt in (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0)
)


def fingerprints(data: Sequences, per: Per, *, positions: bool, causal: bool) -> Words:
    """The fingerprint of every answering place of ids: `(T,)` tokens or `(N,)` sequences."""
    word = scramble(data.tokens.astype(np.uint64) ^ _TOKEN_SALT)
    if positions:
        word = scramble(word ^ scramble(data.position.astype(np.uint64) ^ _PLACE_SALT))
    context = context_sums(word, data, per, causal)
    return scramble(context) if per == "sequence" else scramble(context ^ scramble(word ^ _OWN_SALT))


def context_sums(word: Words, data: Sequences, per: Per, causal: bool) -> Words:
    """Sums modulo 2^64 of the words `(T,)` that each token sees, `(T,)`, or each sequence, `(N,)`."""
    running = np.cumsum(word)  # modulo 2^64, so differences of running sums are exact
    first = data.offsets[:-1]
    start = running[first] - word[first]
    if causal:
        return running - np.repeat(start, data.lengths)
    whole = running[data.offsets[1:] - 1] - start
    return whole if per == "sequence" else np.repeat(whole, data.lengths)


def once(words: Words) -> Words:
    """The different ones of `words` `(P,)`, in order: by a sort, which is many times faster than NumPy's hashing."""
    ordered = np.sort(words)
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def contained(found: Words, stored: Words) -> NDArray[np.bool_]:
    """Which of `found` `(P,)` are among `stored` `(M,)`, which is sorted: a search, for few are asked of many."""
    place = np.searchsorted(stored, found)
    inside = place < len(stored)
    inside[inside] = stored[place[inside]] == found[inside]
    return inside
