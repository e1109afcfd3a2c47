"""Vectors of files are the vectors of memory, bit for bit: as tokens, with classes and with real labels."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.cluster import crowds
from monolayer.cluster.memorize import memorize_files
from monolayer.cluster.room import Room
from monolayer.cluster.vectors import check_room
from monolayer.construct.line import separate
from monolayer.data import read
from monolayer.model.mapped import load_mapped
from tests.test_files import example, same, small_pieces, stopped, write
from tests.test_files_conflicts import contradicting


def as_vectors(kind: str, size: int, data: Any = example) -> tuple[Any, Any, dict[str, Any]]:
    """Data of a kind with a vector for each token."""
    X, Y, options = data(kind)
    table = np.random.default_rng(3).normal(size=(2000, size)).round(6)
    table[5] = -0.0
    rows = {word: i for i, word in enumerate(sorted({str(token) for row in X for token in row}))}
    return [[table[rows[str(token)]].tolist() for token in row] for row in X], Y, options


KINDS = [("ids", 2), ("positions", 3), ("sequences", 2), ("causal", 4), ("ids", 1)]


@pytest.mark.parametrize(
    ("kind", "size", "cuts", "block", "points"),
    [*((*kind, [100, 101, 250], 700, 800) for kind in KINDS), ("positions", 3, [], 1 << 20, 1 << 20)],
)
def test_bits_of_files_are_bits_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int, cuts: list[int], block: int, points: int
) -> None:
    X, Y, options = as_vectors(kind, size)
    pattern = write(tmp_path, X, Y, cuts)
    small_pieces(monkeypatch, block, points)
    data = read(pattern)
    assert data.vocabulary is None
    ml.memorize(data, **options).save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=2, **options)
    same(out, tmp_path / "memory")
    assert ml.certify(out, data).verdict == "proved"
    mapped, whole = load_mapped(out), ml.load(out)
    assert mapped is not None
    assert mapped.labels(mapped.encode(data)).tobytes() == whole.labels(whole.encode(data)).tobytes()


def test_with_real_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = as_vectors("ids", 2)
    pattern = write(tmp_path, X, [[label / 3 for label in row] for row in Y], [100])
    small_pieces(monkeypatch, 400, 300)
    ml.memorize(read(pattern)).save(tmp_path / "memory")
    same(memorize_files(pattern, tmp_path / "files", engine="threads", workers=1), tmp_path / "memory")


@pytest.mark.parametrize(("kind", "size"), [("ids", 3), ("sequences", 5), ("positions", 2)])
def test_crowds_of_files_are_crowds_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int
) -> None:
    X, Y, options = as_vectors(kind, size)
    pattern = write(tmp_path, X, Y, [100, 250])
    small_pieces(monkeypatch, 1000, 600)
    for module in (separate, crowds):
        monkeypatch.setattr(module, "SLACK", 1e10 if kind == "sequences" else 1e9)
    model = ml.memorize(read(pattern), **options)
    assert model.summary is not None
    assert model.summary.rank > 1
    model.save(tmp_path / "memory")
    same(memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, **options), tmp_path / "memory")


def test_contradictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, options = as_vectors("ids", 2, contradicting)
    pattern = write(tmp_path, X, Y, [80, 200])
    small_pieces(monkeypatch, 700, 900)
    with pytest.raises(ml.ContradictionError, match=r"of sequence \d+ of .*s\d.jsonl \(vector \[.*\]\) has label"):
        memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, **options)
    ml.memorize(read(pattern), on_conflict="majority").save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, on_conflict="majority")
    same(out, tmp_path / "memory")


def test_a_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, options = as_vectors("positions", 2)
    pattern = write(tmp_path, X, Y, [150, 250])
    small_pieces(monkeypatch, 400, 500)
    for kind in ("places", "points"):
        with monkeypatch.context() as patch:
            stopped(patch, kind, OSError(errno.ENOSPC, "full"))
            words: dict[str, Any] = {"resume": kind == "points", **options}
            with pytest.raises(OSError, match="full"):
                memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, **words)
    ml.memorize(read(pattern), **options).save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, resume=True, **options)
    same(out, tmp_path / "memory")


def test_bad_input(tmp_path: Path) -> None:
    two = write(tmp_path / "two", [[[1.0, 2.0]]], [[1]], [])
    write(tmp_path / "two", [[[1.0, 2.0, 3.0]]], [[1]], [], "t")
    bare = write(tmp_path / "bare", [[[1.0, 2.0], [3.0, 4.0]]], None, [])
    wide = write(tmp_path / "wide", [[[1e308, 2.0], [-1e308, 4.0]]], [[1, 2]], [])
    wrong: list[tuple[str, dict[str, Any], str]] = [
        (str(tmp_path / "two" / "*.jsonl"), {}, "vectors of 2 numbers as tokens .* vectors of 3 numbers as tokens"),
        (bare, {}, "no labels: add them"),
        (bare, {"causal": True}, "the next token of vectors is no class"),
        (two, {"fingerprint": True}, "tokens that are vectors have none"),
        (wide, {}, "coordinate 0 of the vectors runs from"),
    ]
    for files, options, words in wrong:
        with pytest.raises(ml.DataError, match=words):
            memorize_files(files, tmp_path / "files", engine="threads", workers=1, **options)
    with pytest.raises(ml.DataError, match=r"1,000 different vectors of 4 numbers .* need memory='2MB'"):
        check_room(np.zeros((1000, 4)), Room(1, 1, 10**6))


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, Y, _ = as_vectors("ids", 2)
    pattern, out = write(tmp_path, X, Y, [100, 250]), str(tmp_path / "files")
    assert run(["memorize", pattern, "--out", out, "--memory", "2GB", "--engine", "threads"]) == 0
    assert run(["predict", out, pattern, "--out", str(tmp_path / "answers.jsonl")]) == 0
    assert "2,400 of 2,400 labels are right" in capsys.readouterr().err
    assert run(["verify", out, pattern]) == 0
