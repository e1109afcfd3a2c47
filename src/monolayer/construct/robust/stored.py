"""The draw of a robust model as plain data: with it, the neurons of a token follow from the facts of that token alone.

Codes, values, places and attention follow from a seed and a few numbers, whatever tokens and classes come later; so
these numbers are stored. Of vectors also how they were scaled, and the class that all of them start from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import nn

from monolayer.arrays import Floats
from monolayer.construct.line.draw import check_stored, positive, whole
from monolayer.construct.robust.codes import code_for
from monolayer.construct.robust.linear import class_codes, digits
from monolayer.construct.task import Task
from monolayer.data import Names
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer

ONES = 32
"""Coordinates that hold the constant 1: noise on many weights averages out, noise on one bias does not. With 16 a gate
would have its largest weights here, and they set the scale of its row in int8."""
Dtype = Literal["float64", "float32", "bfloat16", "float16"]
FULL = "{!r} would be {} {:,}: the code of this draw has no word left for more {}, so memorize all the data anew"


@dataclass(frozen=True, eq=False)
class RobustDraw:
    """`tokens`, `classes`: how many there were, which chose their codes; `longest`: positions, None without.

    Facts are covered by half-spaces, with slabs of half-width `margin` where that can be; or by linear cells, with
    digits in base `base`. Of vectors `centre` `(d,)` and `size` scale them; without neurons their class is `usual`.
    """

    seed: int
    rank: int
    dtype: Dtype
    tokens: int
    classes: int
    longest: int | None
    by_token: bool
    """Whether every neuron depends on one token's facts: gates of vectors depend on each other, and where the begin
    token answers, all facts are its own."""
    margin: float | None = None
    base: int | None = None
    centre: Floats | None = None
    size: float = 1.0
    usual: int = 0

    @classmethod
    def of(cls, task: Task, rank: int, seed: int, dtype: Dtype, base: int | None = None) -> RobustDraw:
        """A draw for these data."""
        data, target, vectors = task.data, task.target, task.vectors
        assert target.classes is not None  # reals were refused before
        longest = int(data.lengths.max()) if task.context.positions else None
        by_token = vectors is None and target.per == "token"
        draw = cls(seed, rank, dtype, len(data.vocabulary or ()), len(target.classes), longest, by_token, base=base)
        if vectors is None:
            return draw
        centre = vectors.mean(axis=0)
        size = math.sqrt(float(((vectors - centre) ** 2).sum(axis=1).mean()) / ONES) or 1.0
        return cls(**{**vars(draw), "centre": centre, "size": size, "usual": int(np.bincount(target.number).argmax())})

    def token_words(self, names: Names) -> NDArray[np.float64]:
        """Words `(V, n)` of all tokens; new ones get the next words as long as the code has any."""
        code = code_for(self.tokens)
        if len(names) >= 2 ** len(code.generator) and len(names) > self.tokens:
            raise DataError(FULL.format(names.names[self.tokens], "token", self.tokens, "tokens"))
        return code.words(len(names))

    def class_words(self, names: Names) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Rows of the head `(C, m)` and its bias `(C,)`."""
        full = DataError(FULL.format(names.names[min(self.classes, len(names) - 1)], "class", self.classes, "classes"))
        if self.base is not None:
            if digits(len(names), self.base).shape[1] != digits(self.classes, self.base).shape[1]:
                raise full
            return class_codes(len(names), self.base)
        code = code_for(self.classes)
        if len(names) >= 2 ** len(code.generator) and len(names) > self.classes:
            raise full
        return code.words(len(names)), np.zeros(len(names))

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """Ids, or vectors, as the model sees them."""
        return tokens

    def fits(self, model: Monolayer) -> bool:
        """Whether a model could be made of it: a file may say anything."""
        width = model.lift.in_features if isinstance(model.lift, nn.Linear) else None
        return (
            self.longest == (None if model.positions is None else model.positions.num_embeddings)
            and self.rank == len(model.attention.W_V)
            and self.tokens <= len(model.card.vocabulary or ())
            and self.usual < self.classes <= len(model.card.classes or ())
            and width == (None if self.centre is None else len(self.centre))
        )

    def to_json(self) -> dict[str, Any]:
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"construction": "robust", **known, "centre": None if self.centre is None else self.centre.tolist()}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> RobustDraw:
        """The draw that `to_json` wrote; a `ValueError`, `KeyError` or `TypeError` where it is none."""
        check_stored(known, _KINDS)
        given = {each.name: known[each.name] for each in fields(cls)}
        if (given["margin"] is None) == (given["base"] is None):
            raise ValueError("facts are covered by half-spaces with a margin, or by digits in a base")
        centre = None if known["centre"] is None else np.array(known["centre"], np.float64)
        if centre is not None and not (centre.ndim == 1 and np.isfinite(centre).all()):
            raise ValueError("centre is no vector")
        return cls(**given | {"centre": centre})


_KINDS: dict[str, Callable[[Any], bool]] = {
    "seed": whole(0),
    "rank": whole(1),
    "dtype": get_args(Dtype).__contains__,
    "tokens": whole(0),
    "classes": whole(1),
    "longest": lambda value: value is None or whole(1)(value),
    "by_token": lambda value: type(value) is bool,
    "margin": lambda value: value is None or positive(value),
    "base": lambda value: value is None or whole(2)(value),
    "size": positive,
    "usual": whole(0),
}
