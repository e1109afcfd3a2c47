"""The sequences of the data as the head sees them: tokens, their places, and what the model may see of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from monolayer.arrays import Ints, Numbers, beside, fetched, found_at, home, whole_numbers
from monolayer.construct.line.alphabet import Alphabet
from monolayer.model.contexts import same_length, spread

SAMPLE = 1 << 20
"""About how many tokens draws are compared by."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """What the contexts are made of: `rows` `(T,)` of the alphabet, `lengths` `(N,)`, and the rules of the model.

    `position` `(T,)` is None without positions; `temperature` is the λ of every draw, or None: as it is drawn.
    `most`: the longest of all sequences, where these are some of them. `dtype`: the format of the weights, so that what
    is drawn are numbers of that format.
    """

    rows: Numbers
    lengths: Numbers
    alphabet: Alphabet
    position: Numbers | None
    causal: bool
    temperature: float | None = None
    most: int | None = None
    dtype: Literal["float64", "float32"] = "float64"

    @property
    def unit(self) -> float:
        """`u`, the unit roundoff of the format."""
        return float(np.finfo(self.dtype).eps) / 2.0

    @cached_property
    def longest(self) -> int:
        """The number of tokens of the longest sequence that the draw must allow."""
        return int(self.lengths.max()) if self.most is None else self.most

    @cached_property
    def width(self) -> int | None:
        """The length that all sequences have; None if they differ."""
        return same_length(self.lengths)

    @cached_property
    def offsets(self) -> Numbers:
        """Where each sequence begins among the tokens `(N,)`."""
        return self.lengths.cumsum(0) - self.lengths

    def sample(self) -> Tokens:
        """The sequences by which draws are compared: all of them, or some at random."""
        rows = sample_rows(len(self.lengths), len(self.rows))
        return self if len(rows) == len(self.lengths) else self.some(rows)

    def some(self, sequences: Ints) -> Tokens:
        """The same tokens restricted to these sequences, given by their numbers."""
        chosen, width = beside(sequences, self.rows), self.width
        if width is not None:
            rows = self.rows.reshape(-1, width)[chosen].reshape(-1)
            position = None if self.position is None else self.position.reshape(-1, width)[chosen].reshape(-1)
            return replace(self, rows=rows, lengths=self.lengths[: len(chosen)], position=position, most=self.longest)
        lengths, starts = self.lengths[chosen], self.offsets[chosen]
        places = whole_numbers(int(lengths.sum()), lengths) + spread(starts - (lengths.cumsum(0) - lengths), lengths)
        position = None if self.position is None else self.position[places]
        return replace(self, rows=self.rows[places], lengths=lengths, position=position, most=self.longest)

    def located(self, flat: Ints) -> tuple[Ints, Ints]:
        """Which sequence each of a few tokens belongs to, and its place there, as arrays on the processor."""
        sequence = found_at(self.offsets, flat + 1) - 1
        return sequence, flat - fetched(self.offsets, sequence)

    def at_home(self) -> Tokens:
        """The same tokens as arrays on the processor."""
        position = None if self.position is None else home(self.position)
        return replace(self, rows=home(self.rows), lengths=home(self.lengths), position=position, most=self.longest)


def sample_rows(sequences: int, tokens: int) -> Ints:
    """Which of so many sequences are compared: all, or one at random of each of as many equal stretches."""
    count = max(1, min(sequences, sequences * SAMPLE // tokens))
    begin = np.arange(count + 1) * sequences // count
    # The largest number below 1 times a whole number rounds to one below that.
    return begin[:-1] + (np.random.default_rng(0).random(count) * np.diff(begin)).astype(np.int64)
