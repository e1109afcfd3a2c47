"""Every construction keeps the same promises: each label, one function on every path, a file, a proof, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.construct.again import CONSTRUCTIONS as CONSTRUCTIONS_BY_NAME
from monolayer.construct.line.alphabet import Ids, Proposal
from monolayer.construct.line.assemble import assemble, staircase
from monolayer.construct.line.build import table_lift
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.line.points import contextual_points, ramps_at
from monolayer.construct.task import Progress, Task
from monolayer.model.card import Summary

CONSTRUCTIONS: dict[str, dict[str, Any]] = {"exact": {}, "robust": {"robust": True}, "float32": {"dtype": "float32"}}
"""Options, as `memorize` takes them, that choose each construction."""


class Even:
    """A toy construction, the one that docs/extending.md walks through: keys at equal distances, nothing drawn."""

    by_token = False

    def build(self, task: Task, report: Progress) -> ml.Monolayer:
        task, conflicts = task.settled()
        data, target, rows = task.data, task.target, task.context.rows
        if data.vocabulary is None or target.classes is None or task.context.positions or task.context.causal:
            raise ml.DataError("this toy takes ids or strings with classes, without positions, not causal")
        count = np.bincount(rows, minlength=len(data.vocabulary))
        code = np.arange(len(count), dtype=np.float64)
        key = 2.0 * code / len(count) - 1.0
        draw = Draw(Proposal(key, code), None, None, 0.123, 1.0, "cells", True)
        tokens = Tokens(rows, data.lengths, Ids(len(count)), None, False)
        points = contextual_points(draw, tokens, target)
        changes, level, _ = target.runs(points.order)
        readout = staircase(*ramps_at(points.z, changes), level, True)
        card = task.card({"construction": "even"})
        model = assemble(draw, points.kappa, table_lift(draw, count, readout.labels), readout, card)
        known = {"sequences": len(data), "labelled": len(points.z), "points": len(points.z), "vocabulary": len(count)}
        unknown = dict.fromkeys(("gap", "expected_gap", "margin"))
        known |= {"draws": 1, "runs": len(changes) + 1, "corollary_1": 0, "conflicts": conflicts} | model.counts()
        bits = len(points.z) * target.entropy_bits()
        model.card = card.with_summary(Summary(**known, **unknown, temperature=1.0, layout="cells", label_bits=bits))
        return model


RANDOM = np.random.default_rng(11)


def _ragged() -> tuple[list[list[int]], list[list[str]]]:
    X = [RANDOM.integers(0, 12, size).tolist() for size in RANDOM.permutation(np.arange(1, 25))]
    return X, [[str((token * len(row)) % 5) for token in row] for row in X]


def _rectangle(labels: Any) -> tuple[Any, Any]:
    return RANDOM.integers(0, 30, (40, 6)), RANDOM.integers(0, 4, labels)


def _prefixes() -> tuple[Any, Any]:
    """Labels that depend on what came before, and on nothing else: prefixes repeat."""
    X = RANDOM.integers(0, 30, (40, 6))
    return X, (X.cumsum(axis=1) * (1 + np.arange(6))) % 4


DATA: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "tokens": (*_rectangle((40, 6)), {"positions": True}),
    "sequences": (*_rectangle(40), {}),
    "ragged strings": (*_ragged(), {}),
    "causal": (*_prefixes(), {"positions": True, "causal": True}),
    "next token": (RANDOM.permutation(200)[None], None, {"causal": True}),
    "vectors": (RANDOM.standard_normal((20, 5, 3)), RANDOM.integers(0, 4, (20, 5)), {}),
}


def _labels(model: ml.Monolayer, X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
    """What the model answers and what it should, flat; the last token has no next token."""
    answers = model.predict(X)
    if Y is None:
        return answers[:, :-1].ravel().tolist(), np.asarray(X)[:, 1:].ravel().tolist()
    flat = [label for row in Y for label in np.ravel(row).tolist()]
    return [label for row in answers for label in np.ravel(row).tolist()], flat


PAIRS = [(c, d) for c in CONSTRUCTIONS for d in DATA if c == "exact" or d != "vectors"]
PAIRS += [("a toy", "sequences"), ("a toy", "ragged strings")]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: " on ".join(pair))
def built(request: pytest.FixtureRequest) -> tuple[ml.Monolayer, Any, Any]:
    X, Y, rules = DATA[request.param[1]]
    if request.param[0] == "a toy":
        return toy(X, Y), X, Y
    return ml.memorize(X, Y, **rules, **CONSTRUCTIONS[request.param[0]]), X, Y


def toy(X: Any, Y: Any) -> ml.Monolayer:
    task = Task.of(ml.Sequences.of(X, Y), positions=False, causal=False, on_conflict="error")
    return Even().build(task, lambda stage, share: None)


def test_every_label_comes_back_on_either_path_and_from_a_file(built: Any, tmp_path: Path) -> None:
    model, X, Y = built
    got, wanted = _labels(*built)
    assert got == wanted
    data = model.encode(X)
    assert np.array_equal(model.labels(data, path="auto"), model.labels(data, path="dense"))
    loaded = ml.load(model.save(tmp_path / "model"))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))
    assert _labels(loaded, X, Y)[0] == wanted


def test_the_certificate_proves_right_labels_and_refutes_a_wrong_one(built: Any) -> None:
    model, X, Y = built
    assert ml.certify(model, X, Y).verdict == "proved"
    if Y is not None:
        wrong = [np.asarray(row).tolist() for row in Y]
        other = next(label for row in wrong for label in np.ravel(row).tolist() if label != np.ravel(wrong[0])[0])
        wrong[0] = [other, *wrong[0][1:]] if isinstance(wrong[0], list) else other
        assert ml.certify(model, X, wrong).verdict == "refuted"


def test_the_summary_says_what_was_built(built: Any) -> None:
    model, X, Y = built
    assert model.summary.labelled == len(_labels(model, X, Y)[1])
    assert model.summary.parameters == sum(parameter.numel() for parameter in model.parameters())
    ranks = [int(torch.linalg.matrix_rank(matrix.double())) for matrix in model.attention.parameters()]
    assert model.feed_forward.readout == "gates" or ranks == [1, 1, model.summary.rank, model.summary.rank]


@pytest.mark.parametrize("options", CONSTRUCTIONS.values(), ids=CONSTRUCTIONS)
def test_contradictions_are_named_and_can_be_settled(options: dict[str, Any]) -> None:
    X, Y = [[1, 2], [2, 1], [1, 2]], [[0, 1], [1, 0], [3, 1]]
    with pytest.raises(ml.ContradictionError, match="token 0 of sequence 2"):
        ml.memorize(X, Y, **options)
    settled = ml.memorize(X, Y, on_conflict="first", **options)
    assert [row.tolist() for row in settled.predict(X)] == [[0, 1], [1, 0], [0, 1]]


def test_edits_of_a_new_construction_fall_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how its draw is read and built with; an edit is a build."""
    build = lambda draw, task, report, model, only: draw.build(task, report)  # noqa: E731
    monkeypatch.setitem(CONSTRUCTIONS_BY_NAME, "even", (lambda stored: Even(), build))
    X, Y, _ = DATA["sequences"]
    model = toy(X, Y)
    assert ml.compare(ml.memorize(X, Y, draw=model), model).same
    edited, record = ml.forget(model, [0], (X, Y))
    assert ml.certify(edited, X[1:], Y[1:]).verdict == "proved"
    assert ml.compare(record.undo(edited), model).same
