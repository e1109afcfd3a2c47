"""Where two models differ: in weights, configuration and names, in neurons of the readout, and in answers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from monolayer.arrays import Ints
from monolayer.construct.again import draw_of
from monolayer.construct.robust.again import cells_of
from monolayer.data import Sequences
from monolayer.editing.difference import REFUSED, UNHASHED, Content, config_change, difference, same
from monolayer.editing.subject import Subject, subject_of
from monolayer.errors import DataError
from monolayer.model.card import Card
from monolayer.model.monolayer import Monolayer
from monolayer.table import as_table

SHOWN = 100
"""Neurons and answers that a comparison names; the rest it counts."""
NAMED = frozenset({"vocabulary", "classes", "id2label", "label2id"})
"""Keys of a configuration that only say names."""


@dataclass(frozen=True)
class Answer:
    """A labelled place where answers differ; `position` is None for a label of a whole sequence.

    An answer is None where the model does not know a token of the sequence.
    """

    sequence: int
    position: int | None
    one: Any
    two: Any

    def __str__(self) -> str:
        place = f"sequence {self.sequence}"
        place = place if self.position is None else f"token {self.position} of {place}"
        return f"{place}: {self.one!r} → {self.two!r}"


@dataclass(frozen=True)
class Comparison:
    """`weights`: tensors that differ, with how many of their numbers do (None: another shape, or one lacks it).

    `config`: keys of the configuration that differ, with both values. `names`: whether both have the same tokens and
    classes. `only_one`, `only_two`: how many neurons only one of the models has; `neurons`: the first of them in words,
    a step by its ramp and the labels beside it. `answers`: how many of `asked` differ; None without data.
    """

    weights: dict[str, int | None]
    config: dict[str, list[Any]]
    names: bool
    only_one: int
    only_two: int
    neurons: tuple[list[str], list[str]]
    asked: int | None
    answers: int | None
    differing: list[Answer]

    @property
    def same(self) -> bool:
        """Whether the two are one model, bit for bit."""
        return not self.weights and not self.config and self.names

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        counts = [f"{name}: {'another shape' if n is None else f'{n:,} numbers'}" for name, n in self.weights.items()]
        rows = [("weights", "the same bits" if not counts else "; ".join(counts))]
        rows += [("configuration", f"{key}: {_short(one)} → {_short(two)}") for key, (one, two) in self.config.items()]
        if not self.names:
            rows.append(("names", "tokens or classes are not the same"))
        rows.append(("neurons", f"{self.only_one:,} only in the first, {self.only_two:,} only in the second"))
        for which, neurons in zip(("first", "second"), self.neurons, strict=True):
            rows += [(f"only in the {which}", neuron) for neuron in neurons[:5]]
        if self.asked is not None:
            rows.append(("answers", f"{self.answers:,} of {self.asked:,} differ"))
            rows += [("differs", str(answer)) for answer in self.differing[:10]]
        return rows

    def to_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}


def compare(one: Any, two: Any, X: Any = None, *, lengths: Any = None) -> Comparison:
    """Where two models, or folders of models, differ: in weights and neurons and, with `X`, in answers.

    Answers of stock models are those of a plain evaluation in float64.
    """
    subjects = [subject_of(each) for each in (one, two)]
    if type(subjects[0]) is not type(subjects[1]):
        raise DataError("one of the two is a stock model, the other is not: their weights have nothing in common")
    old, new = (subject.content for subject in subjects)
    found = difference(old.tensors, new.tensors, {**old.blocks, **new.blocks})
    listed: tuple[list[str], list[str]] = [], []
    for name, pair in found.only.items():
        for subject, numbers, words in zip(subjects, pair, listed, strict=True):
            words += _described(subject.model, name, numbers[: SHOWN - len(words)])
    config = config_change(old.config, new.config)
    names = old.names == new.names and not config.keys() & NAMED
    asked = answers = None
    differing: list[Answer] = []
    if X is not None:
        card = subjects[0].model.card
        given = Sequences.of(X, lengths=lengths, per="answer" if card.prompts else None, like=card.manner)
        asked, answers, differing = _answers(subjects, given)
    return Comparison(
        weights=_weights(old, new),
        config={
            key: [values.get("before"), values.get("after")]
            for key, values in config.items()
            if key not in {*NAMED, *UNHASHED}
        },
        names=names,
        only_one=sum(len(out) for out, _ in found.only.values()),
        only_two=sum(len(put) for _, put in found.only.values()),
        neurons=listed,
        asked=asked,
        answers=answers,
        differing=differing,
    )


def _weights(old: Content, new: Content) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name in sorted({*old.tensors, *new.tensors}):
        a, b = old.tensors.get(name), new.tensors.get(name)
        if not same(a, b):
            found[name] = None
            if a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype:
                found[name] = int(np.count_nonzero((a != b) & ((a == a) | (b == b))))
    return found


def _answers(subjects: list[Subject], asked: Sequences) -> tuple[int, int, list[Answer]]:
    per = [subject.per for subject in subjects]
    if per[0] != per[1]:
        raise DataError(f"one model answers per {per[0]}, the other per {per[1]}: their answers cannot be compared")
    one, two = ([None if each is REFUSED else each for each in subject.answers(asked)] for subject in subjects)
    differ = [place for place, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]]
    listed = []
    for place in differ[:SHOWN]:
        row, position = (place, None) if per[0] == "sequence" else asked.place(place)
        listed.append(Answer(row, position, one[place], two[place]))
    return len(one), len(differ), listed


# -- neurons in words --------------------------------------------------------------------------------------


@torch.no_grad()
def _described(model: Any, block: str, numbers: Ints) -> list[str]:
    """Neurons of one block of a model of ours; of others, and where weights were changed, nothing is said."""
    if not isinstance(model, Monolayer) or len(numbers) == 0:
        return []
    stage = int(block.rpartition(".stages.")[2]) if ".stages." in block else None
    tables = model.feed_forward.tables()
    if tables is None:
        return _half_spaces(model, numbers) if model.feed_forward.readout == "gates" else []
    steps = tables[stage or 0]
    if int(numbers[-1]) >= len(steps.start):
        return []
    start, level = steps.start.cpu().double().tolist(), steps.level.cpu().double()
    found = []
    for i in numbers.tolist():
        left, right = (
            side.tolist() if stage is not None else _label(model.card, side.numpy())
            for side in (level[i], level[i + 1])
        )
        where = "" if stage is None else f"stage {stage + 1}: "
        found.append(f"{where}{left!r} → {right!r} at {start[i]:.17g}")
    return found


def _half_spaces(model: Monolayer, numbers: Ints) -> list[str]:
    """Neurons of a robust readout: the token that wakes each, its class, and the half-width of its slab."""
    gates: Any = model.feed_forward
    card = model.card
    token: list[str] = [""] * len(numbers)
    if card.vocabulary is not None and card.per == "token":
        with suppress(DataError):  # weights that no construction made: whose they are is not known
            draw: Any = draw_of(model)
            token = [f" of {card.vocabulary.names[row]!r}" for row in cells_of(model, draw)[numbers].tolist()]
    rows = torch.from_numpy(numbers)
    normal = gates.weight_1[rows, gates.layout.token :].double().norm(dim=1)
    label = gates.weight_2.T[rows].double() @ model.head.weight[:, -gates.layout.label :].double().T
    digital = card.draw is not None and card.draw.get("base") is not None
    found = []
    for i, size in enumerate(normal.tolist()):
        assert card.classes is not None
        what = "a digit" if digital else repr(card.classes.names[int(label[i].argmax())])
        wide = "" if digital or size == 0.0 else f", half-width {1.0 / size:.3g}"
        found.append(f"a neuron{token[i]} for {what}{wide}")
    return found


def _label(card: Card, level: Any) -> Any:
    """A label as users write it."""
    if card.classes is None:
        return float(level[0]) if card.scalar else [float(x) for x in level]
    return card.classes.names[int(np.clip(np.rint(level[0]), 0, len(card.classes) - 1))]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
