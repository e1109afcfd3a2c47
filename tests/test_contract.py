"""Every construction keeps the same promises: each label, one function on every path, a file, a proof, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.cli import run
from monolayer.model.readouts import READOUTS
from tests.toys import Even, Jumps, TableModel, known

CONSTRUCTIONS: dict[str, dict[str, Any]] = {
    "exact": {},
    "robust": {"robust": True},
    "float32": {"dtype": "float32"},
    "a toy": {"construction": Even()},
    "a toy readout": {"construction": Even(jumps=True)},
}
"""Options, as `memorize` takes them, that choose each construction."""


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


SMALL = {"sequences", "ragged strings"}
"""What the toys take."""
PAIRS = [
    (c, d)
    for c in CONSTRUCTIONS
    for d in DATA
    if (d in SMALL if c.startswith("a toy") else c == "exact" or d != "vectors")
]


@pytest.fixture(scope="module", autouse=True)
def tables() -> Iterator[None]:
    with known():
        yield


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: " on ".join(pair))
def built(request: pytest.FixtureRequest) -> tuple[ml.Monolayer, Any, Any]:
    X, Y, rules = DATA[request.param[1]]
    return ml.memorize(X, Y, **rules, **CONSTRUCTIONS[request.param[0]]), X, Y


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
    with pytest.raises(ml.ContradictionError, match=r"token 0 .* of sequence 2"):
        ml.memorize(X, Y, **options)
    settled = ml.memorize(X, Y, on_conflict="first", **options)
    assert [row.tolist() for row in settled.predict(X)] == [[0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize("jumps", [False, True])
def test_edits_of_a_new_construction_fall_out(jumps: bool) -> None:
    """It says how its draw is read and built with; an edit is a build."""
    X, Y, _ = DATA["sequences"]
    model = ml.memorize(X, Y, construction=Even(jumps))
    assert ml.compare(ml.memorize(X, Y, draw=model), model).same
    edited, record = ml.forget(model, [0], (X, Y))
    assert ml.certify(edited, X[1:], Y[1:]).verdict == "proved"
    assert ml.compare(record.undo(edited), model).same


def test_what_a_readout_does_not_allow_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """Its row allows nothing that it does not name: a claim that no judge was written for is no verdict."""
    X, Y, _ = DATA["sequences"]
    model = ml.memorize(X, Y, construction=Even(jumps=True))
    assert isinstance(ml.load(model.save(tmp_path / "model")).feed_forward, Jumps)
    asked: dict[str, Callable[[], Any]] = {
        "do not show which facts they hold": lambda: ml.certify(model, X, Y, only=True),
        "claims about robust models": lambda: ml.certify(model, X, Y, noise=0.1),
        "does not say which neurons write": lambda: ml.locate(model, X),
        "the readout 'jumps' of this model has none": lambda: model.explain(X),
        "fast path": lambda: model.predict(X, path="fast"),
        "is not a chain of affine maps": lambda: ml.export(model, tmp_path / "a.onnx", "onnx", part="readout"),
    }
    for words, question in asked.items():
        with pytest.raises(ml.DataError, match=words):
            question()
    with known(), pytest.MonkeyPatch.context() as patch:
        patch.delitem(READOUTS, "jumps")
        with pytest.raises(ml.DataError, match=r"cannot store this model.*a kind of readout that this version knows"):
            model.save(tmp_path / "unknown")
    with pytest.raises(ml.DataError, match="a construction has its own options: leave seed out"):
        ml.memorize(X, Y, construction=Even(), seed=1)


def test_a_kind_of_folder_is_one_file_and_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every verb takes a folder of a kind that it has never heard of, or refuses it with a sentence of that kind."""
    table = {"France": "Paris", "Japan": "Tokyo"}
    folder, data = TableModel(table).save(tmp_path / "table"), tmp_path / "data.csv"
    data.write_text("key,value\nFrance,Paris\nJapan,Tokyo\n")
    assert ml.certify(folder, table).verdict == "proved"
    assert ml.certify(TableModel(table), {"France": "Lyon"}).verdict == "refuted"
    assert ml.load(folder).predict(["Japan"]) == ["Tokyo"]
    refused: dict[str, Callable[[], Any]] = {
        "nothing else can be claimed": lambda: ml.certify(folder, table, only=True),
        "a table has no neurons": lambda: ml.locate(folder, table),
        "TableModel is neither a model of monolayer": lambda: ml.forget(folder, ["France"], table),
    }
    for words, question in refused.items():
        with pytest.raises(ml.DataError, match=words):
            question()
    for code, command, words in (
        (0, ["verify", str(folder), str(data), "--per", "sequence"], "proved"),
        (0, ["inspect", str(folder)], "table"),
        (2, ["explain", str(folder), str(data)], "explain shows networks, and this is a table"),
        (2, ["page", "--out", str(tmp_path / "a.html"), str(folder)], "page shows networks, and this is a table"),
    ):
        assert run(command) == code, command
        said = capsys.readouterr()
        assert words in said.out + said.err
