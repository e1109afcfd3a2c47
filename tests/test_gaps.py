"""Places without a label: stored nowhere, claimed nowhere, and never part of a contradiction."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import monolayer as ml
from monolayer.checker.asked import confirm_given
from monolayer.cli import run
from monolayer.data.shards import join_datasets
from monolayer.errors import ContradictionError, DataError
from monolayer.saved.certify import certify_files

CELLS: dict[str, Any] = {"positions": True, "rank": 32}
STEPS = {"positions": True, "storage": "steps"}
KINDS: dict[str, tuple[str | None, str, dict[str, Any]]] = {  # architecture, labels, options
    "line causal": (None, "token", {"positions": True, "causal": True}),
    "line reals": (None, "reals", {"positions": True}),
    "line vectors": (None, "vectors", {}),
    "cascade": (None, "token", {"positions": True, "dtype": "float32"}),
    "robust": (None, "token", {**CELLS, "robust": True}),
    "bert steps": ("bert", "sequence", STEPS),
    "bert cells": ("bert", "token", CELLS),
}


def data_of(kind: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Sequences, of which the first two are equal; labels that contradict each other there; and where gaps shall be."""
    labels, random = KINDS[kind][1], np.random.default_rng(3)
    X = random.integers(0, 40, (400, 8)) if kind == "cascade" else random.integers(0, 20, (40, 4))
    if labels == "vectors":
        X = random.standard_normal((20, 4, 3))
    X[1] = X[0]
    Y = random.integers(0, 5, X.shape[:1] if labels == "sequence" else X.shape[:2])
    Y[1] = (Y[0] + 1) % 5
    gaps = np.zeros(Y.shape, dtype=bool)
    gaps[[1, 7]] = True
    if Y.ndim == 2:
        gaps[5, :2] = True
    if "causal" in kind:  # prompts branch: only what follows them is labelled
        gaps[:, :3] = True
    return X, Y / 4.0 if labels == "reals" else Y, gaps


def with_gaps(Y: NDArray[Any], gaps: NDArray[np.bool_]) -> NDArray[Any]:
    """Labels without those at `gaps`: NaN among reals, −100 among classes of tokens, None among those of sequences."""
    if Y.dtype.kind == "f":
        return np.where(gaps, np.nan, Y)
    return np.where(gaps, -100, Y) if Y.ndim == 2 else np.where(gaps, None, Y.astype(object))


def made(kind: str, X: Any, Y: Any) -> Any:
    architecture, _, options = KINDS[kind]
    if architecture is None:
        return ml.memorize(X, Y, **options)
    return ml.memorize_as(architecture, X, Y, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_is_no_contradiction_and_nothing_is_claimed_there(kind: str, tmp_path: Path) -> None:
    X, Y, gaps = data_of(kind)
    with pytest.raises(ContradictionError, match=r"sequence 0 .*has label .*, but .*sequence 1 .*has label"):
        made(kind, X, Y)
    Y = with_gaps(Y, gaps)
    model, labelled = made(kind, X, Y), int((~gaps).sum())
    stock = KINDS[kind][0] is not None
    assert stock or (len(model.feed_forward.stairs) > 1) == (kind == "cascade")
    model.save(folder := tmp_path / "model")
    only = not {"robust", "cells", "cascade"} & set(kind.split())
    for judged in (ml.certify(model, X, Y, only=only), ml.certify(folder, X, Y)):
        assert (judged.verdict, judged.points) == ("proved", labelled), judged.reason
    planted, spot = Y.copy(), (8, 3)[: Y.ndim]
    planted[spot] = Y[spot] + 0.25 if Y.dtype.kind == "f" else (Y[spot] + 1) % 5
    found = ml.certify(model, X, planted)
    assert (found.verdict, found.wrong) == ("refuted", 1)
    assert (found.findings[0].sequence, found.findings[0].position) == (8, 3 if Y.ndim == 2 else None)

    # Rows are forgotten, edited and put back: the bits of a model of those data.
    data, rows = ml.Sequences.of(X, Y), np.delete(np.arange(len(X)), [5, 7, 8])
    source = folder if stock else model
    rest, record = ml.forget(source, [5, 7, 8], data)
    assert record.facts == int((~gaps[[5, 7, 8]]).sum())
    judged = ml.certify(rest, X[rows], Y[rows])
    assert (judged.verdict, judged.points) == ("proved", int((~gaps[rows]).sum()))
    edited, record = ml.edit(source, X[[8]], planted[[8]], data)
    assert record.facts == int((~gaps[8]).sum())
    assert ml.certify(edited, X, planted).verdict == "proved"
    again, _ = ml.insert(rest, X[[5, 7, 8]], Y[[5, 7, 8]], data.select(rows))
    assert ml.certify(again, data.select(np.append(rows, [5, 7, 8]))).verdict == "proved"
    with pytest.raises(DataError, match="is not in the data"):  # what has no label is no fact
        ml.edit(source, X[[7]], Y[[0]], data)


def places(data: ml.Sequences) -> list[Any]:
    assert data.labels is not None
    found = data.named_labels()
    assert found is not None
    rows = found if data.labels.per == "sequence" else data.split(found)
    return [row.tolist() if hasattr(row, "tolist") else row for row in rows]


IN_MEMORY: dict[str, tuple[Any, list[Any]]] = {
    "None by token": ([["x", None], ["y"], ["z"]], [["x", None], ["y"], ["z"]]),
    "None for a row": ([["x", "y"], None, ["z"]], [["x", "y"], [None], ["z"]]),
    "None by sequence": (["x", None, "y"], ["x", None, "y"]),
    "NaN among objects": (np.array(["x", math.nan, "y"], dtype=object), ["x", None, "y"]),
    "-100 by token": ([[-100, 3], [4], [-100]], [[None, 3], [4], [None]]),
    "-100 among reals": ([0.5, -100, 1.5], [0.5, -100.0, 1.5]),
    "NaN among reals": ([math.nan, -100.0, 1.5], [None, -100.0, 1.5]),
    "None for a vector": ([[0.5, 1, 2], None, [1.5, 2, 3]], [[0.5, 1, 2], None, [1.5, 2, 3]]),
}


@pytest.mark.parametrize("Y", IN_MEMORY)
def test_gaps_in_memory(Y: str) -> None:
    X, (given, wanted) = [["a", "b"], ["c"], ["d"]], IN_MEMORY[Y]
    data = ml.Sequences.of(X, given)
    assert places(data) == wanted
    assert places(data.select(np.array([2, 0]))) == [wanted[2], wanted[0]]
    model = ml.memorize(X, given)
    assert ml.certify(model, X, given).verdict == ml.certify(model, data).verdict == "proved"
    confirm_given(data, X, given)
    with pytest.raises(DataError, match="this is a bug in the reader"):
        confirm_given(ml.Sequences.of(X, [1, 2, 3]), X, [1, None, 3])


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"tokens": [["a", "b"], ["c"]], "labels": [["x", None], None]}, [["x", None], [None]]),
        ({"tokens": ["a b", "c", "d"], "label": [1, None, 3]}, [1, None, 3]),
    ],
    ids=["lists", "integers, where pandas keeps them integers"],
)
def test_gaps_in_frames_and_parquet(columns: dict[str, Any], wanted: list[Any], tmp_path: Path) -> None:
    assert places(ml.Sequences.of(pd.DataFrame(columns).convert_dtypes())) == wanted
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert places(ml.read(tmp_path / "a.parquet")) == wanted


@pytest.mark.parametrize(
    ("key", "labels", "wanted"),
    [
        ("labels", [None, ["x", None], ["y"]], [[None] * 2, ["x", None], ["y"]]),
        ("label", [None, 7, -100], [None, 7, -100]),
    ],
    ids=["token", "sequence"],
)
def test_null_in_json(key: str, labels: list[Any], wanted: list[Any], tmp_path: Path) -> None:
    objects = [{"tokens": list(text), key: label} for text, label in zip(("ab", "cd", "e"), labels, strict=True)]
    (tmp_path / "a.json").write_text(json.dumps(objects))
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, objects)))
    (tmp_path / "more.jsonl").write_text(json.dumps(objects[1]) + "\n")
    data = ml.read(tmp_path / "a.jsonl")
    assert places(data) == places(ml.read(tmp_path / "a.json")) == wanted
    labelled = sum(label is not None for row in wanted for label in (row if isinstance(row, list) else [row]))
    model = ml.memorize(data, positions=True, unknown=True)
    assert model.summary is not None
    assert model.summary.labelled == labelled == ml.certify(model, data, only=True).points
    assert int(np.concatenate([np.atleast_1d(row) for row in model.seen(data)]).sum()) == labelled
    model.save(tmp_path / "model")
    several = [str(tmp_path / file) for file in ("a.jsonl", "more.jsonl")]
    whole = ml.certify(tmp_path / "model", join_datasets([ml.read(file) for file in several]))
    found = certify_files(tmp_path / "model", several)
    assert found is not None
    assert (found.verdict, found.data_digest) == ("proved", whole.data_digest)
    assert found.data_digest != ml.certify(tmp_path / "model", data).data_digest
    with pytest.raises(
        DataError, match=r"sequence 0 .line 1 of .*jsonl. has no label: memorize_files takes a label for each"
    ):
        ml.memorize_files(several, tmp_path / "large", workers=1)


def test_gaps_are_neither_counted_nor_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, Y = [["a", "b"], ["b", "c"], ["c", "a"]], [["x", None], None, ["y", "x"]]
    model = ml.memorize(X, Y)
    model.save(tmp_path / "model")
    rows = [{"tokens": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run(["predict", str(tmp_path / "model"), str(tmp_path / "a.jsonl"), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (said["right"], said["total"]) == (3, 3)
    ml.export(model, tmp_path / "bert", "bert", ml.Sequences.of(X, Y), storage="steps")
    judged = ml.certify(tmp_path / "bert", X, Y, only=True)
    assert (judged.verdict, judged.points) == ("proved", 3)


def test_where_all_labels_are_missing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a", "b"], "labels": null}\n{"tokens": ["c"], "labels": [null]}')
    whole = ["ab", "c"], ["x", None]
    model, part = ml.memorize(*whole), ml.Sequences.of(*whole).select(np.array([1]))
    asked: list[tuple[Callable[[], Any], str]] = [
        (lambda: ml.memorize(ml.read(tmp_path / "a.jsonl")), "labels are missing: give Y, or causal=True"),
        (lambda: ml.memorize([["a"], ["b"]], [[-100], [None]]), "labels are missing: every one"),
        (lambda: ml.forget(model, [0], whole), "this would forget all rows that have a label"),
        (lambda: ml.memorize(part), "labels are missing"),
        (lambda: ml.memorize_as("bert", part), "labels are missing"),
        (lambda: ml.certify(model, part), "labels are missing"),
    ]
    for ask, words in asked:
        with pytest.raises(DataError, match=words):
            ask()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "Y"), [("bert", [["x", "y"], ["y", "y"], None]), ("gpt2", ["x", "y", None])])
def test_all_sequences_of_one_length_may_lack_labels(name: str, Y: Any, dtype: str) -> None:
    """A short format asks every fact, length by length."""
    X = [["a", "b"], ["b", "a"], ["a", "b", "c"]]
    model = ml.memorize_as(name, X, Y, positions=True, dtype=dtype, rank=16)
    assert ml.certify(model, X, Y).verdict == "proved"


@pytest.mark.parametrize("kind", ["robust", "bert cells"])
def test_tokens_of_which_only_gaps_are_left(kind: str) -> None:
    X, Y = [["q", "a"], ["a", "q"], ["c", "d"], ["d", "c"]], [["x", "y"], None, ["x", "y"], ["x", "x"]]
    model = made(kind, X, Y)
    judged = ml.certify(ml.forget(model, [0], (X, Y))[0], X[1:], Y[1:])
    assert (judged.verdict, judged.points) == ("proved", 4)
    none, record = ml.forget(model, [1], (X, Y))
    assert record.facts == 0
    assert ml.certify(none, X, Y).verdict == "proved"
