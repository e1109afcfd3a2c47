"""The draw of a robust model as plain data: with it, the neurons of a token follow from the facts of that token alone.

Codes, values, places and attention follow from a seed and a few numbers, whatever tokens and classes come later; so
these numbers are stored.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Literal, Self, get_args

from monolayer.arrays import Floats
from monolayer.construct.line.draw import check_stored, whole_from
from monolayer.construct.robust.codes import code_for
from monolayer.construct.task import Task
from monolayer.data import Names
from monolayer.data.objects import JsonFields, JsonObject
from monolayer.errors import DataError
from monolayer.model.fields import Test
from monolayer.model.monolayer import Monolayer

ONES = 32
"""Coordinates that hold the constant 1: noise on many weights averages out, noise on one bias does not. With 16 a gate
would have its largest weights here, and they set the scale of its row in int8."""
RobustFormat = Literal["float64", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class RobustDraw:
    """`tokens`, `classes`: how many there were, which chose their codes; `longest`: positions, None without."""

    seed: int
    rank: int
    dtype: RobustFormat
    tokens: int
    classes: int
    longest: int | None
    by_token: bool
    """Whether every neuron depends on one token's facts: where the begin token answers, all facts are its own."""

    @classmethod
    def of(cls, task: Task, rank: int, seed: int, dtype: RobustFormat) -> RobustDraw:
        """A new draw for the data of `task`."""
        data, target = task.data, task.target
        longest = int(data.lengths.max()) if task.context.positions else None
        sizes = len(data.vocabulary or ()), len(target.classes or ())
        return cls(seed, rank, dtype, *sizes, longest, target.labelling.at_tokens)

    def token_words(self, names: Names) -> Floats:
        """Words `(V, n)` of all tokens; new ones get the next words as long as the code has any."""
        return _code_words(names, self.tokens, "token", "tokens")

    def class_words(self, names: Names) -> Floats:
        """Words `(C, m)` of all classes, the rows of the head."""
        return _code_words(names, self.classes, "class", "classes")

    def fits(self, model: Monolayer) -> bool:
        """Whether `model` could have been built with this draw. A stored draw is not trusted."""
        return (
            self.longest == (None if model.positions is None else model.positions.num_embeddings)
            and self.rank == len(model.attention.W_V)
            and self.tokens <= len(model.card.vocabulary or ())
            and self.classes <= len(model.card.classes or ())
        )

    def to_json(self) -> JsonObject:
        """The draw as an object that JSON can hold; `from_json` reads it back."""
        return {"construction": "robust", **asdict(self)}

    @classmethod
    def from_json(cls, known: JsonFields) -> Self:
        """Read what `to_json` wrote; a `ValueError`, `KeyError` or `TypeError` if it is not a draw."""
        check_stored(known, _ROBUST_FIELDS)
        return cls(**{each.name: known[each.name] for each in fields(cls)})


_ROBUST_FIELDS: dict[str, Test] = {
    "seed": whole_from(0),
    "rank": whole_from(2),
    "dtype": get_args(RobustFormat).__contains__,
    "tokens": whole_from(1),
    "classes": whole_from(1),
    "longest": lambda value: value is None or whole_from(1)(value),
    "by_token": lambda value: type(value) is bool,
}


def _code_words(names: Names, first: int, one: str, several: str) -> Floats:
    """The words of `names` in the code that was chosen for the `first` of them."""
    code = code_for(first)
    if len(names) >= 2 ** len(code.generator) and len(names) > first:
        raise DataError(
            f"{names.names[first]!r} would be {one} {first:,}: the code of this draw has no word left for more "
            f"{several}, so memorize all the data again"
        )
    return code.words(len(names))
