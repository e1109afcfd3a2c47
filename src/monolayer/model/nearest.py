"""The stored key that is spelt most like one that is not stored, for an error message.

A model keeps no keys, only their tokens and a fingerprint of each key. So the key that was asked is changed in every
way that takes one token (another in its place, one left out, one added), and the fingerprints
tell which of these are stored. With `n` tokens and `V` names this takes about `2 n V` fingerprints, an addition each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from monolayer.arrays import Ints
from monolayer.data import Sequences
from monolayer.data.names import is_forgotten
from monolayer.errors import similar_words
from monolayer.model.asked import AskedModel

MOST_TOKENS_TRIED = 1 << 22
"""Tokens of all changed keys together, at most, so that an error takes a fraction of a second to write."""
_JOINT = {"words": " ", "characters": "", "whole": " "}


def nearest_key(model: AskedModel, data: Sequences, row: int) -> str | None:
    """The stored key nearest to sequence `row` of `data`, which has its own names, as text; None if none is found."""
    names, theirs, fingerprint = model.card.vocabulary, data.vocabulary, model.card.fingerprint
    if names is None or theirs is None or fingerprint is None or names.integers or theirs.integers:
        return None
    asked = data.tokens[data.offsets[row] : data.offsets[row + 1]]
    key = names.find(theirs)[asked]
    if 2 * (len(key) + 1) ** 2 * len(names) > MOST_TOKENS_TRIED:
        return None
    known = np.flatnonzero(~model.blank(np.arange(len(names))))
    known = np.array([row for row in known.tolist() if not is_forgotten(names.names[row])], dtype=np.int64)
    longest = model.longest
    keys: set[str] = set()
    joint = _JOINT[names.cuts or "characters"]
    for changed in _changed_keys(key, known, ordered=model.ordered):
        if not len(changed) or (longest is not None and changed.shape[1] > longest) or (changed < 0).any():
            continue
        tried = Sequences(changed.reshape(-1), np.full(len(changed), changed.shape[1]), names)
        seen = fingerprint.seen(tried, model.ordered).reshape(len(changed), -1).all(axis=1)
        keys |= {joint.join(map(str, names.decode(one).tolist())) for one in changed[seen]}
    text = joint.join(map(str, theirs.decode(asked).tolist()))
    near = similar_words(text, sorted(keys - {text}))
    return near[0] if near else None


def _changed_keys(key: Ints, known: Ints, *, ordered: bool) -> Iterator[Ints]:
    """Keys that differ from `key` `(n,)` in one token, as arrays `(C, length)`; −1 is a token that is not known.

    `ordered`: whether the model sees the order of tokens; if not, it cannot tell where an added one belongs.
    """
    for place in range(len(key)):
        changed = np.repeat(key[None], len(known), axis=0)
        changed[:, place] = known
        yield changed
        yield np.delete(key, place)[None] if len(key) > 1 else key[None, :0].reshape(0, 0)
    for place in range(len(key) + 1) if ordered else ():
        yield np.insert(np.repeat(key[None], len(known), axis=0), place, known, axis=1)
