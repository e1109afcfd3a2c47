"""Keys of a table as examples, found again in a model that stores none: their fingerprints tell which ones it holds.

A model of keys and values keeps its tokens, and a fingerprint of each key. So keys of one token are found by asking for
every token, keys of two by asking for every pair, and so on, as long as there are not too many. Where the order of
tokens does not count, the fingerprint does not know it either: such a key shows its words in the order of their names.
"""

from __future__ import annotations

from itertools import combinations, islice, permutations

import numpy as np

from monolayer.arrays import Ints
from monolayer.data import Sequences
from monolayer.model.inputs import blank
from monolayer.model.monolayer import Monolayer

EXAMPLES = 40
"""Sequences to pick from on a page."""
LONGEST_KEY = 3
"""Tokens of the longest keys that are looked for."""
MOST_KEYS_TRIED = 1 << 20
"""Keys of one length that are tried at most; it takes about a second."""


def stored_keys(model: Monolayer) -> Sequences | None:
    """Up to `EXAMPLES` keys that the model was built from, short ones; None if it does not tell, or none is found."""
    fingerprint, names, ordered = model.card.fingerprint, model.card.vocabulary, model.positions is not None
    if fingerprint is None or names is None or model.card.labelling.at_tokens or model.card.script is not None:
        return None
    known = np.flatnonzero(~blank(model, np.arange(len(names))))
    keys: list[Ints] = []
    for length in range(1, LONGEST_KEY + 1):
        chosen = (permutations if ordered else combinations)(known.tolist(), length)
        tried = np.array(list(islice(chosen, MOST_KEYS_TRIED + 1)), dtype=np.int64).reshape(-1, length)
        if len(tried) > MOST_KEYS_TRIED or len(tried) == 0 or _longer_than_places(model, length):
            break
        asked = Sequences(tried.reshape(-1), np.full(len(tried), length), names)
        keys += list(tried[fingerprint.seen(asked, ordered)])
        if len(keys) >= EXAMPLES:
            break
    if not keys:
        return None
    rows = np.unique(np.linspace(0, len(keys) - 1, min(EXAMPLES, len(keys))).round().astype(np.int64))
    some = [keys[row] for row in rows.tolist()]
    return Sequences(np.concatenate(some), np.array([len(key) for key in some]), names)


def _longer_than_places(model: Monolayer, length: int) -> bool:
    """Whether the model has no place for a key of this length."""
    return model.positions is not None and length > model.positions.num_embeddings
