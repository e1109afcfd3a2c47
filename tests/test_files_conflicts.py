"""Labels that contradict each other in files are refused or overruled as they are in memory, bit for bit."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.cluster import crowds, parts, settle
from monolayer.cluster.memorize import memorize_files
from monolayer.cluster.spill import Spill
from monolayer.construct.line import separate
from monolayer.data import read
from tests.test_files import example, same, small_pieces, stopped, write

KINDS = ["ids", "positions", "sequences", "causal", "next tokens"]


def contradicting(kind: str, share: float = 0.3) -> tuple[Any, Any, dict[str, Any]]:
    """Data of a kind with rows that come back, up to three times, with other labels and, where it is seen, in order."""
    X, Y, options = example(kind)
    random = np.random.default_rng(1)
    again = random.choice(len(X), int(share * len(X))).tolist()
    ordered = options.get("positions") or options.get("causal")
    for row in again:
        order = np.arange(len(X[row])) if ordered else random.permutation(len(X[row]))
        X.append([X[row][i] for i in order])
        if Y is None:  # the next token is another one
            X[-1][-1] = X[int(random.integers(len(X)))][-1]
        elif isinstance(Y[row], list):
            other = Y[int(random.integers(len(Y)))]
            Y.append([other[0] if random.random() < 0.5 else Y[row][i] for i in order])
        else:
            Y.append(Y[int(random.integers(len(Y)))])
    mixed = random.permutation(len(X)).tolist()
    return [X[i] for i in mixed], None if Y is None else [Y[i] for i in mixed], options


@pytest.mark.parametrize(
    ("kind", "on_conflict"), [*((kind, "majority") for kind in KINDS), ("ids", "first"), ("sequences", "first")]
)
def test_the_same_labels_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, on_conflict: Any) -> None:
    X, Y, options = contradicting(kind)
    pattern = write(tmp_path, X, Y, [80, 81, 200] if on_conflict == "first" else [150])
    small_pieces(monkeypatch, 700, 900)
    options["on_conflict"] = on_conflict
    model = ml.memorize(read(pattern), **options)
    assert model.summary is not None
    assert model.summary.conflicts > 10
    model.save(tmp_path / "memory")
    same(memorize_files(pattern, tmp_path / "files", engine="threads", workers=2, **options), tmp_path / "memory")


def test_few_stretches_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = contradicting("ids")
    pattern = write(tmp_path, X, Y, [150])
    small_pieces(monkeypatch, 1000, 1000)
    monkeypatch.setattr(parts, "NEAR", 2)
    monkeypatch.setattr(parts, "MANY", 3)
    monkeypatch.setattr(settle, "STRETCH", 100)
    ml.memorize(read(pattern), on_conflict="first").save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, on_conflict="first")
    same(out, tmp_path / "memory")


@pytest.mark.parametrize("many", [2, 10**6])
def test_overruled_and_then_too_crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(parts, "MANY", many)
    X, Y, _ = contradicting("ids", 0.1)
    pattern = write(tmp_path, X, Y, [150])
    small_pieces(monkeypatch, 500, 300)
    for module in (separate, crowds):
        monkeypatch.setattr(module, "SLACK", 1e11)
    model = ml.memorize(read(pattern), on_conflict="majority")
    assert model.summary is not None
    assert model.summary.rank > 1
    model.save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, on_conflict="majority")
    same(out, tmp_path / "memory")


rows = st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.integers(0, 2)), min_size=2)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.sampled_from(["majority", "first"]), st.sampled_from([1, 3, 100]), st.booleans())
def test_data_that_are_nothing_but_contradictions(
    tmp_path: Path, data: list[tuple[list[int], int]], on_conflict: Any, size: int, by_token: bool
) -> None:
    X = [tokens for tokens, _ in data]
    Y: list[Any] = [[label] * (len(tokens) - 1) + [0] if by_token else label for tokens, label in data]
    for old in tmp_path.glob("s*.jsonl"):
        old.unlink()
    pattern = write(tmp_path, X, Y, [len(X) // 2])
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch, size, size)
        options: dict[str, Any] = {"on_conflict": on_conflict, "per": "token" if by_token else "sequence"}
        ml.memorize(read(pattern, per=options["per"]), on_conflict=on_conflict).save(
            tmp_path / "memory", overwrite=True
        )
        out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, overwrite=True, **options)
    same(out, tmp_path / "memory")


@pytest.mark.parametrize("kind", ["alike", "mended"])
def test_a_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    X, Y, _ = contradicting("ids")
    pattern = write(tmp_path, X, Y, [150, 300])
    small_pieces(monkeypatch, 300, 500)
    words: dict[str, Any] = {"engine": "threads", "workers": 1, "on_conflict": "majority"}
    with monkeypatch.context() as patch:
        stopped(patch, kind, OSError(errno.ENOSPC, "full"))
        with pytest.raises(OSError, match="full"):
            memorize_files(pattern, tmp_path / "files", **words)
    with pytest.raises(ml.DataError, match="began with on_conflict='majority'"):
        memorize_files(pattern, tmp_path / "files", **{**words, "on_conflict": "first"}, resume=True)
    ml.memorize(read(pattern), on_conflict="majority").save(tmp_path / "memory")
    same(memorize_files(pattern, tmp_path / "files", resume=True, **words), tmp_path / "memory")


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_names_file_and_row_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    X, Y, options = contradicting(kind)
    cuts = [0, 100, 250]
    pattern = write(tmp_path, X, Y, cuts[1:])
    small_pieces(monkeypatch, 700, 900)
    with pytest.raises(ml.ContradictionError) as memory:
        ml.memorize(read(pattern), **options)
    with pytest.raises(ml.ContradictionError) as files:
        memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, **options)
    assert not list(tmp_path.glob(".files*"))
    words = str(files.value)
    for i, first in enumerate(cuts):  # numbers in a file as numbers in all
        for row in range(401):
            words = words.replace(f"sequence {row} of {tmp_path}/s{i}.jsonl", f"sequence {row + first}")
    assert words == str(memory.value)


def test_signatures_keep_all_their_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = contradicting("ids")
    pattern = write(tmp_path, X, Y, [])
    stopped(monkeypatch, "mended", OSError(errno.ENOSPC, "full"))
    small_pieces(monkeypatch, 300, 10**6)
    with pytest.raises(OSError, match="full"):
        memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, on_conflict="first")
    piece = tmp_path / ".files.building" / "alike-00000"
    words = np.fromfile(piece.with_suffix(".bin"), np.uint64).reshape(6, -1)
    assert words.shape[1] == int(Spill(str(piece.parent)).facts(piece.stem)["pairs"])
    assert np.bitwise_or.reduce(words[0]) == np.bitwise_or.reduce(words[1]) == np.uint64(2**64 - 1)


def test_a_wrong_winner_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = contradicting("ids")
    pattern = write(tmp_path, X, Y, [150])
    ml.memorize(read(pattern), on_conflict="majority").save(tmp_path / "memory")
    monkeypatch.setattr(settle, "_best", lambda which, *keys: np.unique(which, return_index=True)[1])
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, on_conflict="majority")
    with pytest.raises(AssertionError):
        same(out, tmp_path / "memory")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = write(tmp_path, [[1, 2], [2, 1], [1, 2]], [["a", "b"], ["b", "c"], ["c", "b"]], [1])
    words = ["memorize-files", pattern, "--out", str(tmp_path / "files"), "--memory", "2GB", "--engine", "threads"]
    assert run(words) == 2
    assert "--on-conflict majority" in " ".join(capsys.readouterr().err.split())
    assert run([*words, "--on-conflict", "majority", "--rank", "1"]) == 0
    ml.memorize(read(pattern), on_conflict="majority").save(tmp_path / "memory")
    same(tmp_path / "files", tmp_path / "memory")
    with pytest.raises(ml.DataError, match="on_conflict must be one of"):
        memorize_files(pattern, tmp_path / "other", on_conflict="last")  # type: ignore[arg-type]
