"""Where two models differ: in weights, in steps or neurons of the readout, and in answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from monolayer.data import Sequences
from monolayer.editing.gated import Neuron, described, only_in
from monolayer.editing.readout import Floats
from monolayer.editing.words import label_name
from monolayer.errors import DataError
from monolayer.model.gates import Gates
from monolayer.model.monolayer import Monolayer

SHOWN = 100
"""Steps and answers that a comparison names; the rest it counts."""


@dataclass(frozen=True)
class Step:
    """A step that one model has and the other has not: its ramp, and the labels left and right of it."""

    start: float
    end: float
    left: Any
    right: Any


@dataclass(frozen=True)
class Answer:
    """A labelled place where answers differ; `position` is None for a label of a whole sequence."""

    sequence: int
    position: int | None
    one: Any
    two: Any


@dataclass(frozen=True)
class Comparison:
    """`weights`: tensors that differ, with how many of their numbers do (None: another shape).

    `only_one`, `only_two`: how many steps, or neurons of robust models, only one of the models has; None where the
    readouts are of different kinds, or no staircase.
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
            rows += [(f"only in the {which}", f"{s.left!r} → {s.right!r} at {s.start:.17g}") for s in steps[:5]]
        for which, neurons in zip(("first", "second"), self.neurons, strict=True):
            rows += [(f"only in the {which}", str(neuron)) for neuron in neurons[:5]]
        if self.asked is not None:
            rows.append(("answers", f"{self.answers:,} of {self.asked:,} differ"))
        for answer in self.differing[:10]:
            place = f"sequence {answer.sequence}"
            place = place if answer.position is None else f"token {answer.position} of {place}"
            rows.append(("differs", f"{place}: {answer.one!r} → {answer.two!r}"))
        return rows

    def to_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}


def compare(one: Monolayer, two: Monolayer, X: Any = None, *, lengths: Any = None) -> Comparison:
    """Where two models differ: in weights, in steps or neurons, and, with `X`, in answers."""
    weights = _weights(one, two)
    first, second = _steps(one), _steps(two)
    only: list[int | None] = [None, None]
    listed: list[list[Step]] = [[], []]
    neurons: list[list[Neuron]] = [[], []]
    if isinstance(one.feed_forward, Gates) and isinstance(two.feed_forward, Gates):
        for which, (model, other) in enumerate(((one, two), (two, one))):
            extra = only_in(model, other)
            only[which], neurons[which] = len(extra), described(model, extra[:SHOWN])
    if first is not None and second is not None:
        for which, (model, mine, theirs) in enumerate(((one, first, second), (two, second, first))):
            extra = _missing(mine, theirs)
            only[which] = len(extra)
            listed[which] = [_step(model, mine[i]) for i in extra[:SHOWN]]
    asked = answers = None
    differing: list[Answer] = []
    if X is not None:
        asked, answers, differing = _answers(one, two, X, lengths)
    names = one.card.vocabulary == two.card.vocabulary and one.card.classes == two.card.classes
    lists = (listed[0], listed[1]), (neurons[0], neurons[1])
    return Comparison(weights, names, only[0], only[1], *lists, asked, answers, differing)


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


def _steps(model: Monolayer) -> Floats | None:
    """Steps `(R, 2 + 2m)`: start, end, labels left and right; None where there is no staircase."""
    with torch.no_grad():
        steps = model.feed_forward.steps()
        if steps is None:
            return None
        start = -steps.bias / steps.slope
        columns = [start[:, None], (start + 1.0 / steps.slope)[:, None], steps.level[:-1], steps.level[1:]]
        table: Floats = torch.cat(columns, dim=1).cpu().double().numpy()
        return table


def _missing(mine: Floats, theirs: Floats) -> Any:
    """Rows of `mine` that `theirs` lacks."""
    if mine.shape[1] != theirs.shape[1]:
        return np.arange(len(mine))
    kind = [("", np.float64)] * mine.shape[1]
    rows = [np.ascontiguousarray(table + 0.0).view(kind)[:, 0] for table in (mine, theirs)]
    # Starts rise, so candidates are found by them; a row is the same only if all of it is.
    place = np.searchsorted(theirs[:, 0], mine[:, 0])
    there = place < len(theirs)
    there[there] = rows[1][place[there]] == rows[0][there]
    return np.flatnonzero(~there)


def _step(model: Monolayer, row: Floats) -> Step:
    m = (len(row) - 2) // 2
    ends = [label_name(model.card, row[2 + i * m : 2 + (i + 1) * m]) for i in range(2)]
    return Step(float(row[0]), float(row[1]), *ends)


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
    differ = np.flatnonzero(found[0] != found[1])
    listed = []
    for place in differ[:SHOWN].tolist():
        row, position = (place, None) if one.card.per == "sequence" else asked.place(place)
        listed.append(Answer(row, position, found[0][place], found[1][place]))
    return len(found[0]), len(differ), listed


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
