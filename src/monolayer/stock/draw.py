"""A draw: the numbers of a stock model that its data do not decide. They are stored in `config.json`, as one text.

With a draw, the names in the folder and data, every number of a folder is determined: the same construction with the
same draw gives the same bits. Labels are not part of it, and neither is the label that an embedding holds: both are
read from the data. transformers keeps the text where it saves the configuration again, and ignores it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import numpy as np

from monolayer.arrays import Floats
from monolayer.data import Names
from monolayer.data.choices import PerAnswer
from monolayer.data.form import SourceForm
from monolayer.data.objects import JsonFields
from monolayer.errors import ModelFileError
from monolayer.huggingface.files import DRAW_KEY, FolderFacts
from monolayer.huggingface.reading import stored_draw
from monolayer.huggingface.tensors import ModelFiles
from monolayer.stock.columns import token_words

Storage = Literal["cells", "steps"]
"""How facts are stored: half-spaces with margins, for short formats, or steps of a line in float64."""
MOST_RANK = 4096
"""Columns that a context may have, at most."""


@dataclass(frozen=True, eq=False)
class StepsDraw:
    """The draw of steps in float64: random keys of tokens `(V,)` and of places `(L,)`, None without positions.

    `reach`, `silence`: how far apart contexts may lie, and how strongly a neuron reads the code of its cell, so that
    within that reach neurons of other cells stay silent.
    """

    temperature: float
    reach: float
    silence: float
    keys: Floats
    place_keys: Floats | None

    def check(self, facts: FolderFacts) -> None:
        """Raise a `ValueError` that says why, unless this is a draw for a folder with these facts."""
        if len(self.keys) != len(facts.names):
            raise ValueError(f"{DRAW_KEY} is for another number of tokens than the tokenizer has")


@dataclass(frozen=True, eq=False)
class CellsDraw:
    """The draw of cells: what neither names nor labels decide.

    `longest`: tokens of the longest sequence. `rank`: `k`, columns of a context. `start`: which word of the code is the
    first token's. `mixture`: `R` `(k, t)`, all entries of one size, which makes values of the words of tokens; None
    where the begin token answers, and values are these words. `gain`: what attention multiplies values by.
    """

    longest: int
    rank: int
    start: int
    mixture: Floats | None
    gain: float

    def check(self, facts: FolderFacts) -> None:
        """Raise a `ValueError` that says why, unless this is a draw for a folder with these facts."""
        begin_answers = not facts.labelling.at_tokens and not facts.architecture.causal
        if (self.mixture is None) != begin_answers:
            raise ValueError(f"{DRAW_KEY} is for another task than the {facts.task!r} of config.json")
        length = token_words(len(facts.names), self.rank, self.start, begin_answers=begin_answers).shape[1]
        if length != (self.rank if self.mixture is None else self.mixture.shape[1]):
            raise ValueError(f"{DRAW_KEY} is for another number of tokens than the tokenizer has")


@dataclass(frozen=True, eq=False)
class StockDraw:
    """All numbers of a stock model that its data do not decide.

    `numbers`: what the construction drew. `integers`: whether the names of tokens, and those of labels, are integers in
    the data. `head`: the size of the numbers in the head, a power of two (`stock/assemble.py`). `per_answer`: how the
    data are read if they are prompts and answers, else None. `unknown`: the class that answers what the data do not
    hold, if there is one. `form`: that of the files or tables that the model was built from.
    """

    numbers: StepsDraw | CellsDraw
    integers: tuple[bool, bool]
    head: float
    per_answer: PerAnswer | None = None
    unknown: str | None = None
    form: SourceForm | None = None

    @property
    def prompts(self) -> bool:
        """Whether the data are prompts and answers."""
        return self.per_answer is not None

    @property
    def storage(self) -> Storage:
        """How facts are stored: as cells or as steps."""
        return "cells" if isinstance(self.numbers, CellsDraw) else "steps"

    @property
    def longest(self) -> int | None:
        """Tokens of the longest sequence that the numbers are for; None: as many as the model has places for."""
        if isinstance(self.numbers, CellsDraw):
            return self.numbers.longest
        return None if self.numbers.place_keys is None else len(self.numbers.place_keys) - 1

    def names(self, texts: tuple[str, ...], labels: bool = False) -> Names:
        """Names of tokens, or of labels, as the data have them."""
        if not self.integers[labels]:
            return Names(texts)
        whole = tuple(map(int, texts))
        return Names(range(len(whole))) if whole == tuple(range(len(whole))) else Names(whole)

    def check(self, facts: FolderFacts) -> None:
        """Raise a `ValueError` that says why, unless this is a draw for a folder with these facts."""
        self.names(facts.names[len(facts.architecture.special) :])
        if not facts.labelling.generates:
            self.names(facts.classes, labels=True)
        elif self.integers[1]:
            raise ValueError(f"{DRAW_KEY} says that labels are integers, and a language model has none")
        self.numbers.check(facts)
        if self.longest is not None and self.longest >= facts.room:  # the begin token has a place too
            raise ValueError(
                f"{DRAW_KEY} is for sequences of {self.longest:,} tokens, and config.json has places for "
                f"{facts.room - 1:,}"
            )
        if self.per_answer not in (None, *get_args(PerAnswer)):
            raise ValueError(f"{DRAW_KEY} says per_answer = {self.per_answer!r}")
        if self.prompts and not facts.labelling.generates:
            raise ValueError(f"{DRAW_KEY} is for prompts and answers, and config.json for labels")
        if self.unknown is not None and self.unknown not in facts.classes:
            raise ValueError(f"{DRAW_KEY} names a class {self.unknown!r} that config.json lacks")
        if (self.storage == "steps") != facts.format.long:
            raise ValueError(f"{DRAW_KEY} is for another format than {facts.dtype!r}, which config.json names")

    def to_json(self) -> str:
        """The text in `config.json`. The mixture of a draw of cells is stored as its signs and their common size."""
        fields = {**asdict(self), **asdict(self.numbers), "storage": self.storage}
        del fields["numbers"]
        if isinstance(self.numbers, CellsDraw) and self.numbers.mixture is not None:
            fields["size"] = float(np.abs(self.numbers.mixture).max())
            fields["mixture"] = ["".join("-+"[int(one > 0)] for one in row) for row in self.numbers.mixture]
        return json.dumps(fields, allow_nan=False, default=np.ndarray.tolist)

    @classmethod
    def read(cls, files: ModelFiles) -> StockDraw:
        """The draw of a folder; one that `memorize_as` did not write is an error that says so."""
        content = stored_draw(files)
        if content is None:
            raise ModelFileError(
                f"{files.path} has no draw to reuse: config.json lacks {DRAW_KEY}, which memorize_as writes and "
                "save_pretrained keeps. Copy it from the config.json that the folder was made from, or memorize the "
                "data anew"
            )
        try:
            fields = json.loads(content)
            numbers = {"cells": _cells_draw, "steps": _steps_draw}[fields["storage"]](fields)
            tokens, labels = map(bool, fields["integers"])
            unknown = None if fields["unknown"] is None else str(fields["unknown"])
            form = SourceForm.from_json(fields["form"])
            return cls(numbers, (tokens, labels), _positive(fields, "head"), fields["per_answer"], unknown, form)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ModelFileError(
                f"{DRAW_KEY} in {files.path / 'config.json'} is not a draw that memorize_as wrote: {error}"
            ) from None


def _positive(said: JsonFields, name: str) -> float:
    value = float(said[name])
    if not 0.0 < value < np.inf:
        raise ValueError(f"{name} must be a number above 0")
    return value


def _steps_draw(said: JsonFields) -> StepsDraw | CellsDraw:
    keys = [None if said[name] is None else np.array(said[name], dtype=np.float64) for name in ("keys", "place_keys")]
    if keys[0] is None or not all(key is None or (key.ndim == 1 and (np.abs(key) <= 1.0).all()) for key in keys):
        raise ValueError("keys must be numbers from −1 to 1")
    temperature, reach, silence = (_positive(said, name) for name in ("temperature", "reach", "silence"))
    return StepsDraw(temperature, reach, silence, keys[0], keys[1])


def _cells_draw(said: JsonFields) -> StepsDraw | CellsDraw:
    longest, start = _whole_number(said, "longest", 1, 2**31), _whole_number(said, "start", 0, 2**31)
    rank = _whole_number(said, "rank", 2, MOST_RANK)
    mixture = None
    if said["mixture"] is not None:
        signs = np.array([[{"+": 1.0, "-": -1.0}[sign] for sign in row] for row in said["mixture"]])
        if signs.ndim != 2 or len(signs) != rank:
            raise ValueError("the mixture must be rows of signs, as many as the rank")
        mixture = _positive(said, "size") * signs
    return CellsDraw(longest, rank, start, mixture, _positive(said, "gain"))


def _whole_number(said: JsonFields, name: str, least: int, most: int) -> int:
    value = said[name]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}")
    return value
