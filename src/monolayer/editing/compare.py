"""Where two models differ: in weights, in steps or neurons of the readout, and in answers."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from monolayer.checker.stock.files import is_stock
from monolayer.data import Sequences
from monolayer.editing.differing import SHOWN, Answer, answer_rows, differing
from monolayer.editing.gated import Neuron, described, only_in
from monolayer.editing.readout import Floats
from monolayer.editing.stock_compare import StockComparison, compare_stock
from monolayer.editing.words import label_name
from monolayer.errors import DataError
from monolayer.model.gates import Gates
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer
from monolayer.table import as_table


@dataclass(frozen=True)
class Step:
    """A step that one model has and the other has not: its ramp, and the labels left and right of it.

    Of a cascade `stage`, from 1, and in place of labels the numbers that this stage adds there: the label's coordinates
    and, but for the last stage, the number of the stretch.
    """

    start: float
    end: float
    left: Any
    right: Any
    stage: int | None = None

    def __str__(self) -> str:
        where = "" if self.stage is None else f"stage {self.stage}: "
        return f"{where}{self.left!r} → {self.right!r} at {self.start:.17g}"


@dataclass(frozen=True)
class Comparison:
    """`weights`: tensors that differ, with how many of their numbers do (None: another shape).

    `only_one`, `only_two`: how many steps, of all stages, or neurons of robust models, only one of the models
    has; None where the readouts are of different kinds, or no staircases.
    `answers`: how many of `asked` answers differ; None without data. `names`: whether both number tokens and classes
    alike. The first few steps and answers are listed.
    """

    weights: dict[str, int | None]
    names: bool
    only_one: int | None
    only_two: int | None
    steps: tuple[list[Step], list[Step]]
    neurons: tuple[list[Neuron], list[Neuron]]
    asked: int | None
    answers: int | None
    differing: list[Answer]

    @property
    def same(self) -> bool:
        """Whether the two are one model, bit for bit."""
        return not self.weights and self.names

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        counts = [f"{name}: {'another shape' if n is None else f'{n:,} numbers'}" for name, n in self.weights.items()]
        rows = [("weights", "the same bits" if not counts else "; ".join(counts))]
        if not self.names:
            rows.append(("names", "tokens or classes are not numbered alike"))
        if self.only_one is not None and self.only_two is not None:
            what = "neurons" if any(self.neurons) else "steps"
            rows.append((what, f"{self.only_one:,} only in the first, {self.only_two:,} only in the second"))
        for which, steps in zip(("first", "second"), self.steps, strict=True):
            rows += [(f"only in the {which}", str(step)) for step in steps[:5]]
        for which, neurons in zip(("first", "second"), self.neurons, strict=True):
            rows += [(f"only in the {which}", str(neuron)) for neuron in neurons[:5]]
        return rows + answer_rows(self.asked, self.answers, self.differing)

    def to_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}


Folder = str | os.PathLike[str]


@overload
def compare(one: Monolayer, two: Monolayer, X: Any = None, *, lengths: Any = None) -> Comparison: ...


@overload
def compare(
    one: Monolayer | Folder, two: Monolayer | Folder, X: Any = None, *, lengths: Any = None
) -> Comparison | StockComparison: ...


def compare(
    one: Monolayer | Folder, two: Monolayer | Folder, X: Any = None, *, lengths: Any = None
) -> Comparison | StockComparison:
    """Where two models, or two folders of models, differ: in weights, in steps or neurons, and, with `X`, in answers.

    Answers of two stock folders are those of transformers: in float64, or in float32 where the folders are robust.
    """
    stock = [isinstance(each, str | os.PathLike) and is_stock(each) for each in (one, two)]
    if all(stock):
        return compare_stock(Path(one), Path(two), X, lengths=lengths)  # type: ignore[arg-type]
    if any(stock):
        raise DataError("one of the two is a stock folder, the other is not: their weights have nothing in common")
    models = [load_monolayer(each) for each in (one, two)]
    return _compared(models[0], models[1], X, lengths)


def _compared(one: Monolayer, two: Monolayer, X: Any, lengths: Any) -> Comparison:
    weights = _weights(one, two)
    only: list[int | None] = [None, None]
    listed: list[list[Step]] = [[], []]
    neurons: list[list[Neuron]] = [[], []]
    if isinstance(one.feed_forward, Gates) and isinstance(two.feed_forward, Gates):
        for which, (model, other) in enumerate(((one, two), (two, one))):
            extra = only_in(model, other)
            only[which], neurons[which] = len(extra), described(model, extra[:SHOWN])
    first, second = _tables(one), _tables(two)
    if first is not None and second is not None:
        for which, (model, mine, theirs) in enumerate(((one, first, second), (two, second, first))):
            only[which], listed[which] = _only_in(model, mine, theirs)
    asked = answers = None
    listed_answers: list[Answer] = []
    if X is not None:
        asked, answers, listed_answers = _answers(one, two, X, lengths)
    names = one.card.vocabulary == two.card.vocabulary and one.card.classes == two.card.classes
    lists = (listed[0], listed[1]), (neurons[0], neurons[1])
    return Comparison(weights, names, only[0], only[1], *lists, asked, answers, listed_answers)


def _weights(one: Monolayer, two: Monolayer) -> dict[str, int | None]:
    a, b = one.state_dict(), two.state_dict()
    found: dict[str, int | None] = dict.fromkeys(a.keys() ^ b.keys())
    for name in a.keys() & b.keys():
        x, y = a[name].cpu(), b[name].cpu()
        if x.shape != y.shape or x.dtype != y.dtype:
            found[name] = None
        else:
            differ = int((~((x == y) | (x.isnan() & y.isnan()))).sum())
            if differ:
                found[name] = differ
    return dict(sorted(found.items()))


@dataclass(frozen=True, eq=False)
class _Table:
    """Steps `(R,)` of a stage: ramps, and labels left and right of them `(R, m)`.

    `key` `(R, c)`: what makes two steps the same one. Of a line that is ramp and labels; of a stage of a cascade ramp
    and jump, since the numbers of stretches behind a new one are all others.
    """

    key: Floats
    left: Floats
    right: Floats

    @classmethod
    def of(cls, ramp: list[torch.Tensor], left: torch.Tensor, right: torch.Tensor, jumps: bool) -> _Table:
        sides = [part.detach().cpu().double().numpy() for part in (left, right)]
        ends = [part.detach().cpu().double().numpy()[:, None] for part in ramp]
        return cls(np.concatenate([*ends, *([sides[1] - sides[0]] if jumps else sides)], axis=1), *sides)

    def missing(self, other: _Table | None) -> Any:
        """Steps that `other` lacks."""
        if other is None or self.key.shape[1] != other.key.shape[1]:
            return np.arange(len(self.key))
        kind = [("", np.float64)] * self.key.shape[1]
        rows = [np.ascontiguousarray(table.key + 0.0).view(kind)[:, 0] for table in (self, other)]
        # Candidates are found by their starts; a step is the same only if all of it is.
        place = np.searchsorted(other.key[:, 0], self.key[:, 0])
        there = place < len(other.key)
        there[there] = rows[1][place[there]] == rows[0][there]
        return np.flatnonzero(~there)

    def step(self, model: Monolayer, i: int, stage: int | None) -> Step:
        ends = [side[i] for side in (self.left, self.right)]
        left, right = (end.tolist() if stage is not None else label_name(model.card, end) for end in ends)
        return Step(float(self.key[i, 0]), float(self.key[i, 1]), left, right, stage)


@torch.no_grad()
def _tables(model: Monolayer) -> list[_Table] | None:
    """The steps of each stage; None where there is no staircase."""
    stages = model.feed_forward.tables()
    if stages is None:
        return None
    staged = len(stages) > 1
    return [_Table.of([steps.start, steps.end], steps.level[:-1], steps.level[1:], staged) for steps in stages]


def _only_in(model: Monolayer, mine: list[_Table], theirs: list[_Table]) -> tuple[int, list[Step]]:
    """How many steps of `model` the other lacks, and the first of them."""
    count, listed = 0, list[Step]()
    for number, table in enumerate(mine):
        extra = table.missing(theirs[number] if number < len(theirs) else None)
        count += len(extra)
        stage = number + 1 if len(mine) > 1 else None
        listed += [table.step(model, int(i), stage) for i in extra[: SHOWN - len(listed)]]
    return count, listed


def _answers(one: Monolayer, two: Monolayer, X: Any, lengths: Any) -> tuple[int, int, list[Answer]]:
    if one.card.per != two.card.per:
        raise DataError(f"one model answers once a {one.card.per}, the other once a {two.card.per}: not comparable")
    asked = Sequences.of(X, lengths=lengths)
    found = []
    for model in (one, two):
        known = _known(model, asked)
        named = np.full(len(asked) if model.card.per == "sequence" else len(asked.tokens), None, dtype=object)
        if known.any():
            rows = np.flatnonzero(known)
            values = model.card.decode(model.labels(model.encode(asked.select(rows))))
            values = [tuple(v) if np.ndim(v) else v for v in values.tolist()]
            place = rows if model.card.per == "sequence" else asked.flat(rows)
            for i, value in zip(place.tolist(), values, strict=True):
                named[i] = value
        found.append(named)
    return differing(asked, found[0], found[1], per_token=one.card.per != "sequence")


def _known(model: Monolayer, asked: Sequences) -> Any:
    """Sequences `(N,)` whose every token the model has a vector for; it refuses the others, which is an answer too."""
    names, known = model.card.vocabulary, np.ones(len(asked), dtype=bool)
    if names is None or asked.vocabulary is None:
        return known
    table = model.lift.weight.detach().cpu().double().numpy()
    row = names.find(asked.vocabulary)[asked.tokens]
    good = (row >= 0) & ~np.isnan(table[np.maximum(row, 0), 0])
    known[asked.sequence[~good]] = False
    return known
