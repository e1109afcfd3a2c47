"""Keys of a table, found again in a model that stores none: their fingerprints tell which ones it holds.

A model of keys and values keeps its tokens, and a fingerprint of each key. So keys of one token are found by asking for
every token, keys of two by asking for every pair, and so on, as long as there are not too many. Where the order of
tokens does not count, the fingerprint does not know it either: such a key shows its words in the order of their names.
Keys that hold a token twice are not looked for.
"""

from __future__ import annotations

from itertools import combinations, islice, permutations
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.model.parts import Parts
from monolayer.model.shortcut import AskedTensors, labels_by, lines, plan, traced, values

EXAMPLES = 40
"""Keys to pick from on a page."""
LONGEST_KEY = 3
"""Tokens of the longest keys that are looked for."""
MOST_KEYS_TRIED = 1 << 20
"""Keys of one length that are tried at most; it takes about a second."""


def stored_keys(model: Parts, enough: int | None = EXAMPLES) -> Sequences | None:
    """Keys that the model was built from, short ones first; None if it does not tell, or none is found.

    Longer keys are looked for only until `enough` are found, and that many are chosen evenly from them. With None, all
    that can be found are returned.
    """
    fingerprint, names, ordered = model.card.fingerprint, model.card.vocabulary, model.positions is not None
    if fingerprint is None or names is None or model.card.labelling.at_tokens or model.card.script is not None:
        return None
    known = np.flatnonzero(~model.blank(np.arange(len(names))))
    wanted = len(fingerprint.words) if enough is None else min(enough, len(fingerprint.words))
    keys: list[Ints] = []
    for length in range(1, LONGEST_KEY + 1):
        chosen = (permutations if ordered else combinations)(known.tolist(), length)
        tried = np.array(list(islice(chosen, MOST_KEYS_TRIED + 1)), dtype=np.int64).reshape(-1, length)
        if len(tried) > MOST_KEYS_TRIED or len(tried) == 0 or _longer_than_places(model, length):
            break
        asked = Sequences(tried.reshape(-1), np.full(len(tried), length), names)
        keys.append(tried[fingerprint.seen(asked, ordered)])
        if sum(map(len, keys)) >= wanted:
            break
    lengths = np.concatenate([np.full(len(each), each.shape[1]) for each in keys] or [np.zeros(0, dtype=np.int64)])
    if len(lengths) == 0:
        return None
    sample = Sequences(np.concatenate([each.reshape(-1) for each in keys]), lengths, names)
    return sample if enough is None else sample.select(evenly(len(sample), enough))


def evenly(count: int, most: int) -> Ints:
    """At most `most` of the numbers below `count`, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))


def _longer_than_places(model: Parts, length: int) -> bool:
    """Whether the model has no place for a key of this length."""
    return model.positions is not None and length > model.positions.num_embeddings


class KeyPlaces(NamedTuple):
    """Keys with their answers, and stage by stage where they lie: `z` `(K,)`, and what the stage writes there, `(K,)`.

    `held`: how many keys the model has fingerprints of, found or not. `ordered`: whether the order of tokens counts.
    """

    held: int
    ordered: bool
    keys: Sequences
    answers: list[object]
    stages: list[tuple[Floats, Floats]]


@torch.no_grad()
def key_places(model: Parts) -> KeyPlaces | None:
    """Where all keys that can be found lie on the staircases; None if there are none, or the weights were changed."""
    way, fingerprint = plan(model), model.card.fingerprint
    keys = None if way is None else stored_keys(model, None)
    if way is None or keys is None or fingerprint is None:
        return None
    asked = AskedTensors.of(model, keys)
    met, label = traced(model, asked, way), labels_by(model, asked, way)
    if met is None or label is None:
        return None
    answers: list[object] = model.card.decode(values(model.card, label).cpu().numpy()).tolist()
    stages = [
        (z.double().cpu().numpy(), level[:, 0].double().cpu().numpy()) for z, level in lines(model, asked, way, met)
    ]
    return KeyPlaces(len(fingerprint.words), model.positions is not None, keys, answers, stages)
