"""What edits of models of texts share: a host with facts, and an encoder with questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from monolayer.construct.consistency import Context
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Names, Sequences
from monolayer.data.labelling import SEQUENCE, TOKEN, Labelling
from monolayer.errors import DataError

END_TEXT = "the end"
"""What comes behind the last token of an answer."""


@dataclass(frozen=True, eq=False)
class TextSubject:
    """A model whose names are those of somebody else's tokenizer; it holds texts and their answers in one order."""

    model: Any
    names: list[str] = field(default_factory=list)
    """Pieces of text that data have had so far, by their numbers; the model itself keeps no text."""
    ordered: ClassVar = True
    by_token: ClassVar = False
    only: ClassVar = True

    @property
    def labelling(self) -> Labelling:
        """An answer belongs to a whole text."""
        return SEQUENCE

    def adopt(self, data: Sequences) -> Sequences:
        """`data` with numbers that pieces of text keep from edit to edit; new ones are added to `names`."""
        if data.prompts is None or data.vocabulary is None:
            raise DataError("this folder holds prompts and answers: give both")
        data.check_labelled()
        number = {name: row for row, name in enumerate(self.names)}
        names = [str(name) for name in data.vocabulary.names]
        self.names.extend(name for name in dict.fromkeys(names) if name not in number)
        number = {name: row for row, name in enumerate(self.names)}
        tokens = np.array([number[name] for name in names], dtype=np.int64)[data.tokens]
        return Sequences(tokens, data.lengths, Names(tuple(self.names)), None, data.prompts, data.origin)

    def task(self, data: Sequences) -> Task:
        """How each adopted text goes on with its answer, piece by piece."""
        assert data.vocabulary is not None  # `adopt` saw to it
        names = (END_TEXT, *map(str, data.vocabulary.names))
        number = np.append(data.tokens[1:] + 1, 0)
        number[data.offsets[1:] - 1] = 0
        place = data.labelled_places
        table = np.arange(len(names), dtype=np.float64)[:, None]
        target = Target(number[place], table, TOKEN.name, Names(names), False, place, next_token=True)
        return Task(Context(data, data.tokens, True, True), target, None, "error")

    def answers(self, data: Sequences) -> list[Any]:
        """The answers of the model to the texts of `data`."""
        return list(self.model.answers(data))
