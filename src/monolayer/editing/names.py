"""What goes with an edit besides the readout: names, rows of tokens, rows of the head for new classes, fingerprints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from monolayer.construct.line.reuse import Reused
from monolayer.data import Names, Sequences
from monolayer.data.fingerprint import Words
from monolayer.editing.readout import Bools
from monolayer.editing.rebuilt import FINGERPRINTS
from monolayer.editing.splice import Splice
from monolayer.errors import DataError
from monolayer.model.card import Fingerprint
from monolayer.model.monolayer import Monolayer
from monolayer.model.shortcut import plain_head


@dataclass(frozen=True, eq=False)
class Renamed:
    """Names of tokens or classes before and after, as far as they differ: `size` old ones, and the `added`."""

    size: int
    was_range: bool
    is_range: bool
    new_size: int
    added: list[Any]

    @classmethod
    def of(cls, old: Names | None, new: Names | None) -> Renamed | None:
        if old is None or new is None or old == new:
            return None
        added = [] if new.identity else list(new.names[len(old) :])
        return cls(len(old), old.identity, new.identity, len(new), added)

    def apply(self, names: Names | None) -> Names:
        if names is None or len(names) != self.size or names.identity != self.was_range:
            raise DataError("the names of the model are not as this record found them")
        return Names(range(self.new_size)) if self.is_range else Names((*names.names, *self.added))

    def undo(self, names: Names | None) -> Names:
        if names is None or len(names) != self.new_size or names.identity != self.is_range:
            raise DataError("the names of the model are not as this record left them")
        return Names(range(self.size)) if self.was_range else Names(tuple(names.names[: self.size]))


def name_splices(model: Monolayer, draw: Reused, used: Bools | None) -> Iterable[Splice]:
    """From the rows of `model` to those of `draw`, NaN where an id is not `used` `(V,)`; None for vectors."""
    if draw.table is not None and used is not None and isinstance(model.lift, nn.Embedding):
        old, new = model.lift.weight.detach().numpy(), draw.table
        rows = np.flatnonzero(used[: len(old)] != ~np.isnan(old[:, 0]))
        after = np.where(used[rows, None], new[rows], np.nan)
        tail = np.where(used[len(old) :, None], new[len(old) :], np.nan)
        one = np.ones(len(rows), np.int64)
        at, taken, put = np.append(rows, len(old)), np.append(one, 0), np.append(one, len(tail))
        found = Splice.of("lift.weight", 0, old, at, taken, put, np.concatenate([after, tail]))
        if found is not None:
            yield found
    classes = draw.card.classes
    have = 0 if model.card.classes is None else len(model.card.classes)
    if classes is not None and len(classes) > have:
        weight, bias = plain_head(len(classes), 1, model.bos.numel())
        for name, part, own in (("weight", weight, model.head.weight), ("bias", bias, model.head.bias)):
            at, taken, put = (np.array([size]) for size in (have, 0, len(classes) - have))
            found = Splice.of(f"head.{name}", 0, own.detach().numpy(), at, taken, put, part[have:].numpy())
            if found is not None:
                yield found


def words_of(model: Monolayer, data: Sequences) -> Words | None:
    """Fingerprints of all points of `data`, sorted, if the model keeps fingerprints of what it was built from."""
    card = model.card
    if card.fingerprint is None:
        return None
    return Fingerprint.of(data, card.per, positions=model.positions is not None, causal=card.causal).words


def words_without_data(model: Monolayer, asked: Sequences, kind: str) -> Words | None:
    """What the model shall take for seen after an edit that knows no data but what is asked; None: as before."""
    own, words = model.card.fingerprint, words_of(model, asked)
    if own is None or words is None or kind == "edit":
        return None
    return np.setdiff1d(own.words, words) if kind == "forget" else np.union1d(own.words, words)


def fingerprint_splices(model: Monolayer, words: Words | None) -> Iterable[Splice]:
    """From the fingerprints that `model` keeps to `words`; None: it keeps none, or they stay."""
    if model.card.fingerprint is not None and words is not None:
        found = Splice.sorted(FINGERPRINTS, model.card.fingerprint.words, words)
        if found is not None:
            yield found
