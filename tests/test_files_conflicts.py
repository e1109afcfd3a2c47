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
from monolayer.cluster import crowds, parts, points
from monolayer.cluster.memorize import memorize_files
from monolayer.data import read
from tests.test_files import both, crowd, example, same, small_pieces, stopped, write

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


def conflicts(folder: Path) -> int:
    summary = ml.load(folder).summary
    assert summary is not None
    return summary.conflicts


@pytest.mark.parametrize(
    ("kind", "on_conflict"), [*((kind, "majority") for kind in KINDS), ("ids", "first"), ("sequences", "first")]
)
def test_the_same_labels_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, on_conflict: Any) -> None:
    X, Y, options = contradicting(kind)
    pattern = write(tmp_path, X, Y, [80, 81, 200] if on_conflict == "first" else [150])
    small_pieces(monkeypatch, 700, 900)
    assert conflicts(both(tmp_path, pattern, on_conflict=on_conflict, **options)) > 10


@pytest.mark.parametrize(("many", "looked_at", "slack"), [(3, 10, 8.0), (2, 1 << 12, 1e11), (10**6, 10**6, 1e11)])
def test_contradictions_that_are_many_or_crowded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, looked_at: int, slack: float
) -> None:
    """However few are looked at before labels are overruled, and with crowds that are left then."""
    X, Y, _ = contradicting("ids", 0.1)
    pattern = write(tmp_path, X, Y, [150])
    small_pieces(monkeypatch, 500, 300)
    for module, name, value in ((parts, "NEAR", 2), (parts, "MANY", many), (points, "LOOKED_AT", looked_at)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(crowds, "TOGETHER", 100)
    crowd(monkeypatch, slack)
    assert conflicts(both(tmp_path, pattern, on_conflict="majority")) > 10


rows = st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.integers(0, 2)), min_size=2)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.sampled_from(["majority", "first"]), st.sampled_from([1, 3, 100]), st.booleans(), st.booleans())
def test_data_that_are_nothing_but_contradictions(
    tmp_path: Path, data: list[tuple[list[int], int]], on_conflict: Any, size: int, by_token: bool, reals: bool
) -> None:
    X, value = [tokens for tokens, _ in data], [-0.0, 5e-324, -1e300] if reals else [0, 1, 2]
    Y: list[Any] = [
        [value[label]] * (len(tokens) - 1) + [value[0]] if by_token else value[label] for tokens, label in data
    ]
    pattern = write(tmp_path, X, Y, [len(X) // 2])
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch, size, size)
        both(tmp_path, pattern, on_conflict=on_conflict)


@pytest.mark.parametrize("kind", ["alike", "mended"])
def test_a_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    X, Y, _ = contradicting("ids")
    pattern = write(tmp_path, X, Y, [150, 300])
    small_pieces(monkeypatch, 300, 500)
    words: dict[str, Any] = {"workers": 1, "on_conflict": "majority"}
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
        memorize_files(pattern, tmp_path / "files", workers=1, **options)
    assert not list(tmp_path.glob(".files*"))
    words = str(files.value)
    for i, first in enumerate(cuts):  # numbers in a file as numbers in all
        for row in range(401):
            words = words.replace(f"sequence {row} of {tmp_path}/s{i}.jsonl", f"sequence {row + first}")
    assert words == str(memory.value)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = write(tmp_path, [[1, 2], [2, 1], [1, 2]], [["a", "b"], ["b", "c"], ["c", "b"]], [1])
    words = ["memorize-files", pattern, "--out", str(tmp_path / "files"), "--memory", "2GB", "--workers", "1"]
    assert run(words) == 2
    assert "--on-conflict majority" in " ".join(capsys.readouterr().err.split())
    assert run([*words, "--on-conflict", "majority", "--rank", "1"]) == 0
    assert conflicts(tmp_path / "files") == 1
    with pytest.raises(ml.DataError, match="on_conflict must be one of"):
        memorize_files(pattern, tmp_path / "other", on_conflict="last")  # type: ignore[arg-type]
