"""The smallest construction, readout and kind of folder, which docs/extending.md walks through and mypy checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import monolayer as ml
from monolayer.arrays import Ints
from monolayer.checker import format as checker_side
from monolayer.checker.certificate import Certificate, Claims
from monolayer.checker.codes import read_attention
from monolayer.checker.labelled import LoadPoints
from monolayer.checker.line import judge_stairs
from monolayer.checker.network import Stored
from monolayer.checker.readout import CheckedStaircase
from monolayer.construct import again
from monolayer.construct.line.alphabet import Ids, Proposal
from monolayer.construct.line.assemble import assemble, staircase, table_lift
from monolayer.construct.line.draw import Draw
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.line.points import contextual_points, ramps_at
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.task import Construction, Task
from monolayer.construct.task import StoredDraw as StoredDraw
from monolayer.data.folder import FolderKind, OpenFolder
from monolayer.data.layout import Manner
from monolayer.data.objects import Config
from monolayer.model import readouts as model_side
from monolayer.model.attention import CODE, LABEL, RankOneAttention, onto
from monolayer.model.card import Card
from monolayer.model.cascade import Cascade
from monolayer.model.fields import Shape
from monolayer.model.staircase import Readout
from monolayer.saved import kinds
from monolayer.saved.asking import Asking, Wanted
from monolayer.saved.saved import Inspected, Saved, Sealed
from monolayer.table import Progress

# -- a construction, and its draw ------------------------------------------------------------------------


@dataclass(frozen=True)
class Even:
    """A toy construction: keys at equal distances, nothing drawn. `jumps`: with the toy readout."""

    jumps: bool = False

    by_token = False

    def build(
        self, task: Task, report: Progress, model: ml.Monolayer | None = None, only: Ints | None = None
    ) -> ml.Monolayer:
        task, conflicts = task.settled()
        data, target, rows = task.data, task.target, task.context.rows
        if data.vocabulary is None or target.classes is None or task.context.positions or task.context.causal:
            raise ml.DataError("this toy takes ids or strings with classes, without positions, not causal")
        count = np.bincount(rows, minlength=len(data.vocabulary))
        code = np.arange(len(count), dtype=np.float64)
        key = 2.0 * code / len(count) - 1.0
        draw = Draw(Proposal(key, code), None, None, 0.123, 1.0, "cells", True)
        tokens = Tokens(rows, data.lengths, Ids(len(count)), None, False)
        points = contextual_points(Encoded(draw, tokens), target)
        runs = target.runs(points.order)
        changes, level = runs.changes, runs.level
        slope, start = ramps_at(points.z, changes)
        readout: Readout
        if self.jumps:
            readout = Jumps(torch.from_numpy(start + 0.5 / slope), torch.from_numpy(np.ascontiguousarray(level)))
        else:
            readout = Cascade([staircase(slope, start, level, classes=True)])
        card = task.card({"construction": "even", **asdict(self)})
        built = assemble(draw, points.kappa, table_lift(draw, count, readout.labels), readout, card)
        if model is None:  # an edited model has no summary
            facts = {"temperature": 1.0, "layout": "cells", "runs": len(changes) + 1, "conflicts": conflicts}
            built.card = card.with_summary(task.summary(built, target, 1, **facts))
        return built

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Self:
        return cls(known["jumps"])

    def fits(self, model: ml.Monolayer) -> bool:
        return model.card.vocabulary is not None


CONSTRUCTION: Construction = Even()
DRAW: type[StoredDraw] = Even

# -- a readout in the model ------------------------------------------------------------------------------


class Jumps(Readout):
    """A toy readout: where `j` of the `edge` `(R,)` are at most `z`, the label is `level[:, j]`, of `(m, R + 1)`."""

    readout = "jumps"

    def __init__(self, edge: Tensor, level: Tensor) -> None:
        super().__init__()
        self.edge, self.level, self.labels = nn.Parameter(edge), nn.Parameter(level), len(level)

    def forward(self, Z: Tensor) -> Tensor:
        passed = (Z[..., CODE, None] >= self.edge).sum(-1)
        return onto(Z, self.level.T[passed], LABEL)

    @property
    def step_count(self) -> int:
        return len(self.edge)

    def to_json(self) -> dict[str, Any]:
        return {"steps": [len(self.edge)]}

    @classmethod
    def stored(cls, config: Config, tensors: Mapping[str, Tensor]) -> Self:
        return cls(tensors["edge"], tensors["level"])


def shapes(config: Config) -> dict[str, Shape]:
    (steps,) = config["steps"]
    return {**model_side.ATTENTION, "feed_forward.edge": (steps,), "feed_forward.level": ("m", steps + 1)}


# -- the readout in the checker, which shares nothing with the model ---------------------------------------


def examine(config: dict[str, Any]) -> None:
    if config["width"] != 3 + config["labels"] or len(config["steps"]) != 1:
        raise ml.ModelFileError("jumps have one stage, and width is 3 + labels")


def checked_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    (steps,) = config["steps"]
    return {"feed_forward.edge": (steps,), "feed_forward.level": (config["labels"], steps + 1)}


def judge(stored: Stored, parts: list[LoadPoints], question: Certificate, claims: Claims) -> Certificate:
    """A comparison of floats does not round: below an edge nothing is passed, from it on it is."""
    read_attention(stored)
    edge, level = stored["feed_forward.edge"], stored["feed_forward.level"]
    stairs = CheckedStaircase(np.nextafter(edge, -np.inf), edge, level)
    return judge_stairs(stored, [stairs], parts, question, claims)


# -- a kind of folder --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableModel:
    """A toy model: a dict."""

    table: dict[str, str]
    card = Card(None, None, "sequence")

    def predict(self, X: Any) -> list[str]:
        return [self.table[key] for key in X]

    def save(self, folder: Path) -> Path:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"toy": self.table}))
        return folder


@dataclass(frozen=True)
class TableFolder(Saved):
    """A toy kind of folder: `config.json` holds a table of keys and values, and nothing else is needed."""

    path: Path
    table: dict[str, str]

    @classmethod
    def recognizes(cls, config: object) -> bool:
        return isinstance(config, dict) and "toy" in config

    @classmethod
    def read(cls, opened: OpenFolder) -> TableFolder:
        return cls(opened.path, json.loads(opened.read("config.json"))["toy"])

    @property
    def manner(self) -> Manner:
        return Manner("whole", "sequence")

    @property
    def sealed(self) -> Sealed:
        return Sealed.of("", {"config.json": (self.path / "config.json").read_bytes()})

    def check(self, claims: Claims) -> None:
        if claims != Claims():
            raise ml.DataError("a table is claimed to hold its keys, and nothing else can be claimed about it")

    def prove(self, data: ml.Sequences, claims: Claims, report: Progress) -> Certificate:
        assert data.vocabulary is not None
        assert data.labels is not None
        assert data.labels.classes is not None
        keys = data.vocabulary.decode(data.tokens).tolist()
        values = data.labels.classes.decode(data.labels.values).tolist()
        wrong = sum(self.table.get(key) != value for key, value in zip(keys, values, strict=True))
        return Certificate("refuted" if wrong else "proved", "the table has these keys", points=len(keys), wrong=wrong)

    def locate(self, data: ml.Sequences) -> NoReturn:
        raise ml.DataError("a table has no neurons")

    def load(self, device: object = None) -> TableModel:
        return TableModel(self.table)

    def asking(self, model: TableModel, wanted: Wanted) -> Asking:
        def values(data: ml.Sequences) -> list[str | None]:
            assert data.vocabulary is not None
            return [*model.predict(data.vocabulary.decode(data.tokens))]

        return Asking(lambda data: {}, values)

    def inspected(self) -> Inspected:
        return Inspected({"kind": "table", "keys": len(self.table)})

    @property
    def replaces(self) -> FolderKind:
        return FolderKind("table", "toy", frozenset({"config.json"}))

    def monolayer(self, verb: str) -> NoReturn:
        raise ml.DataError(f"{verb} shows networks, and this is a table")


@contextmanager
def known() -> Iterator[None]:
    """The toys in the tables of the library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "KINDS", [TableFolder, *kinds.KINDS])
        patch.setitem(again.CONSTRUCTIONS, "even", DRAW)
        patch.setitem(model_side.READOUTS, "jumps", model_side.ReadoutKind(Jumps, RankOneAttention, shapes))
        patch.setitem(checker_side.READOUTS, "jumps", checker_side.ReadoutRow(checked_shapes, examine, judge))
        yield
