"""The draw of a line as plain data: with it, a model is a function of its data, bit for bit (docs/editing.md).

Keys, codes and values of ids, places and begin token follow from a seed and a few numbers, whatever ids come later; so
these numbers are stored and the tables are not. Weights of vectors were scaled to data that may be gone, and the order
of codes came from their labels: both are stored as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, Self, get_args

import numpy as np
from torch import nn

from monolayer.arrays import Floats, Ints
from monolayer.construct.line.alphabet import Alphabet, Ids
from monolayer.construct.line.draw import (
    CodeLayout,
    Draw,
    check_stored,
    check_temperature,
    drawn,
    positive,
    whole_from,
)
from monolayer.construct.line.tokens import Tokens
from monolayer.data import Sequences
from monolayer.data.objects import JsonFields, JsonObject
from monolayer.errors import DataError
from monolayer.model.fields import Test
from monolayer.model.monolayer import Monolayer

OUTSIDE = 1.001
"""Keys and values of a draw's own data lie in [−1, 1], but for rounding; the bounds on errors have room for that."""


@dataclass(frozen=True, eq=False)
class LineDraw:
    """The numbers from which the draw of a line follows.

    `rank`: the largest value rank that is allowed. `longest`: how many positions there are; None without positions.
    For ids, `tokens` is how many there were, and `order` the rank of each among the codes; None: its own number. For
    vectors, `lift` `(2, d + 1)` holds the weights and biases for key and code.
    """

    seed: int
    layout: CodeLayout
    number: int
    temperature: float
    kappa: float
    dtype: Literal["float64", "float32"]
    rank: int | Literal["auto"]
    longest: int | None
    tokens: int | None
    order: Ints | None
    lift: Floats | None

    by_token = False
    """A step depends on its neighbours on the line, whatever their tokens are: edits build all steps again."""

    @classmethod
    def of(
        cls,
        draw: Draw,
        kappa: float,
        alphabet: Alphabet,
        dtype: Literal["float64", "float32"] = "float64",
        rank: int | Literal["auto"] = "auto",
    ) -> LineDraw:
        """The stored form of a draw, with the κ and the alphabet that its model was built with."""
        ids, lift = (alphabet, None) if isinstance(alphabet, Ids) else (None, np.column_stack(draw.proposal.lift))
        return cls(
            seed=draw.seed,
            layout=draw.layout,
            number=draw.number,
            temperature=draw.temperature,
            kappa=kappa,
            dtype=dtype,
            rank=rank,
            longest=None if draw.position_key is None else len(draw.position_key),
            tokens=None if ids is None else ids.size if ids.first is None else ids.first,
            order=None if ids is None else ids.order,
            lift=lift,
        )

    def drawn(self, tokens: Tokens, data: Sequences) -> Draw:
        """The draw with keys and codes for `tokens`, which are the tokens of `data`."""
        draw = replace(drawn(tokens, self.layout, self.number, self.seed), kappa=self.kappa)
        self._check_inside(draw.proposal.key, tokens, data)
        return draw

    def _check_inside(self, numbers: Floats, tokens: Tokens, data: Sequences) -> None:
        """Refuse keys outside [−1, 1], or half of it with positions: the error bounds hold only inside."""
        if self.lift is None:
            return
        each = numbers[tokens.rows]
        far = np.flatnonzero(~(np.abs(each) <= OUTSIDE * (1.0 if self.longest is None else 0.5)))
        if len(far):
            raise DataError(
                f"{data.where(int(far[0]))} lies outside the data that this draw was made for, where its bounds on "
                "rounding do not hold: memorize all the data again, without draw="
            )

    def fits(self, model: Monolayer) -> bool:
        """Whether `model` could have been built with this draw. A stored draw is not trusted."""
        same = self.longest == (None if model.positions is None else model.positions.num_embeddings)
        if self.lift is None or not isinstance(model.lift, nn.Linear):
            return same and self.lift is None and (self.tokens or 0) <= len(model.card.vocabulary or ())
        return same and self.lift.shape[1] == model.lift.in_features + 1

    # -- the file ----------------------------------------------------------------------------------------

    def to_json(self) -> JsonObject:
        """The draw as an object that JSON can hold; `from_json` reads it back."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        known["order"] = None if self.order is None else " ".join(map(str, self.order.tolist()))
        known["lift"] = None if self.lift is None else self.lift.tolist()
        return {"construction": "line", **known}

    @classmethod
    def from_json(cls, known: JsonFields) -> Self:
        """Read what `to_json` wrote; a `ValueError`, `KeyError` or `TypeError` if it is not a draw."""
        check_stored(known, _LINE_FIELDS)
        check_temperature(known["temperature"])
        order = None if known["order"] is None else np.array(known["order"].split(), dtype=np.int64)
        lift = None if known["lift"] is None else np.array(known["lift"], dtype=np.float64)
        if (known["tokens"] is None) == (lift is None):
            raise ValueError("it is neither one of ids nor one of vectors")
        if order is not None and (
            len(order) != known["tokens"] or not np.array_equal(np.sort(order), np.arange(len(order)))
        ):
            raise ValueError("order does not give every token a rank of its own")
        if lift is not None and not (lift.ndim == 2 and len(lift) == 2 and np.isfinite(lift).all()):
            raise ValueError("lift is not a matrix with two rows")
        return cls(**{each.name: known[each.name] for each in fields(cls)} | {"order": order, "lift": lift})


_LINE_FIELDS: dict[str, Test] = {
    "seed": whole_from(0),
    "layout": get_args(CodeLayout).__contains__,
    "number": whole_from(0),
    "temperature": lambda value: value is not None,
    "kappa": positive,
    "dtype": ("float64", "float32").__contains__,
    "rank": lambda value: value == "auto" or whole_from(1)(value),
    "longest": lambda value: value is None or whole_from(1)(value),
    "tokens": lambda value: value is None or whole_from(1)(value),
}
