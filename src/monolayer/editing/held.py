"""A model and all the data that it holds, for readouts that an edit builds anew: in part (`cells`) or `whole`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from monolayer.construct.line.reuse import Reused
from monolayer.construct.robust.again import RobustDraw
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows, distinct_runs
from monolayer.data.names import Ints
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer

DrawT = TypeVar("DrawT", RobustDraw, Reused)
STRANGE = (
    "the data hold a token or a label that the model has never seen, so they are not the data it holds: give those, "
    "and insert the new ones"
)


@dataclass(frozen=True, eq=False)
class Held(Generic[DrawT]):
    """`draw`: of the model; `data`: what it holds, with labels, in the numbers of the model."""

    draw: DrawT
    data: Sequences

    @property
    def model(self) -> Monolayer:
        return self.draw.model

    @property
    def parts(self) -> tuple[Sequences]:
        """The data, as `select` looks through them."""
        return (self.data,)

    @property
    def gone(self) -> NDArray[np.bool_]:
        """No row is: after an edit rows are counted anew."""
        return np.zeros(len(self.data), dtype=bool)

    @cached_property
    def rules(self) -> dict[str, bool]:
        return {"positions": self.model.positions is not None, "causal": self.draw.card.causal}

    @property
    def by_cell(self) -> bool:
        """Whether tokens have neurons of their own, so that only rows with a token of the edit matter."""
        return False

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """Ids, or vectors, as the model sees them."""
        return tokens

    def equal_rows(self, asked: Sequences) -> Ints:
        """Rows of the data that are one of these sequences; where order does not count, in any order."""
        ordered = self.rules["positions"] or self.rules["causal"]
        tokens = self.seen(np.concatenate([asked.tokens, self.data.tokens]))
        tokens = tokens if tokens.ndim == 1 else distinct_rows(tokens)[1]
        lengths = np.concatenate([asked.lengths, self.data.lengths])
        if not ordered:
            tokens = tokens[np.lexsort((tokens, np.repeat(np.arange(len(lengths)), lengths)))]
        runs = distinct_runs(tokens, lengths)  # equal iff the sequences are; without order, as multisets
        found = np.isin(runs[len(asked) :], runs[: len(asked)])
        missing = np.flatnonzero(~np.isin(runs[: len(asked)], runs[len(asked) :]))
        if len(missing):
            raise DataError(
                f"sequence {missing[0]} of what is to be forgotten is not in the data ({len(missing):,} such in all)"
            )
        return np.flatnonzero(found)


def adopted_whole(draw: DrawT, data: Sequences) -> Sequences:
    """All the data of a model in its numbers; an error if they name what it has never seen."""
    adopted, data = draw.adopt(data)
    own = draw.card.vocabulary, draw.card.classes
    if (adopted.card.vocabulary, adopted.card.classes) != own or adopted.table is not draw.table:
        raise DataError(STRANGE)
    return data


def answered_otherwise(model: Monolayer, data: Sequences) -> str | None:
    """That these are not the data which the model holds, and the first label that tells; None: it returns them all."""
    target, got = Target.of(data, model.card.causal), model.labels(data)
    got = got if target.place is None else got[target.place]
    odd = got != target.number if target.classes is not None else (got != target.table[target.number]).any(axis=1)
    wrong = np.flatnonzero(odd)
    if not len(wrong):
        return None
    return (
        f"these are not the data that the model holds: it answers {len(wrong):,} of their {len(got):,} labels "
        f"otherwise, the first of them that of {data.labelled(int(wrong[0]))}"
    )
