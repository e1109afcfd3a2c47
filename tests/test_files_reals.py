"""Real labels of files are the real labels of memory, bit for bit."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.cluster import parts
from monolayer.cluster.memorize import memorize_files
from monolayer.construct.target import entropy_bits
from monolayer.data import read
from monolayer.model.mapped import load_mapped
from tests.test_files import both, crowd, example, same, small_pieces, stopped, write
from tests.test_files_conflicts import contradicting
from tests.test_verify_files import both as both_certificates


def real(kind: str, size: int = 1, data: Any = example) -> tuple[Any, Any, dict[str, Any]]:
    """Data of a kind with real labels instead of classes, many of them equal; vectors of `size` numbers."""
    X, Y, options = data(kind)
    values = np.random.default_rng(2).normal(size=(60, size))
    values[0] = -0.0
    values[1, 0] = 1e300

    def one(label: Any) -> Any:
        found = values[hash(str(label)) % 7 if isinstance(label, str) else int(label) % 7].tolist()
        return found if size > 1 else found[0]

    if Y is None:
        Y = [list(range(len(row))) for row in X]
    order = {label: i for i, label in enumerate(sorted({str(y) for row in Y for y in np.atleast_1d(row)}))}
    flat = [[order[str(y)] for y in np.atleast_1d(row)] for row in Y]
    rows = [[one(y) for y in row] for row in flat]
    return X, rows if isinstance(Y[0], list) else [row[0] for row in rows], options


KINDS = [("ids", 1), ("sparse ids", 2), ("positions", 1), ("sequences", 1), ("sequences", 3), ("causal", 2)]


@pytest.mark.parametrize(
    ("kind", "size", "cuts", "block", "points"),
    [*((*kind, [100, 101, 250], 700, 800) for kind in KINDS), ("ids", 2, [], 1 << 20, 1 << 20)],
)
def test_bits_of_files_are_bits_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int, cuts: list[int], block: int, points: int
) -> None:
    X, Y, options = real(kind, size)
    pattern = write(tmp_path, X, Y, cuts, key="label" if kind == "sequences" else None)
    small_pieces(monkeypatch, block, points)
    data = read(pattern)
    assert data.labels is not None
    assert data.labels.classes is None
    out = both(tmp_path, pattern, **options)
    assert ml.certify(out, data).verdict == "proved"
    answers_as_mapped(out, data)


def answers_as_mapped(out: Path, data: Any) -> None:
    mapped, whole = load_mapped(out), ml.load(out)
    assert mapped is not None
    assert mapped.labels(mapped.encode(data)).tobytes() == whole.labels(whole.encode(data)).tobytes()


def test_labels_that_are_all_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _, _ = example("ids")
    Y = np.random.default_rng(0).normal(size=(len(X), 6))
    small_pieces(monkeypatch, 300, 200)
    both(tmp_path, write(tmp_path, X, Y.tolist(), [100]))


@pytest.mark.parametrize(("kind", "size"), [("ids", 1), ("sequences", 2), ("positions", 1)])
def test_crowds_of_files_are_crowds_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int
) -> None:
    X, Y, options = real(kind, size)
    pattern = write(tmp_path / "data", X, Y, [100, 250], key="label" if kind == "sequences" else None)
    small_pieces(monkeypatch, 1000, 700)
    with monkeypatch.context() as patch:
        patch.setattr(parts, "MANY", 20 if kind == "ids" else parts.MANY)
        crowd(patch, 1e10 if kind == "positions" else 1e11)
        out = both(tmp_path, pattern, **options)
    summary = ml.load(out).summary
    assert summary is not None
    assert summary.rank > 1
    assert both_certificates(out, pattern).verdict == "proved"
    answers_as_mapped(out, read(pattern))


@pytest.mark.parametrize(("kind", "size", "on_conflict"), [("ids", 1, "majority"), ("sequences", 2, "first")])
def test_the_same_labels_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int, on_conflict: Any
) -> None:
    X, Y, options = real(kind, size, contradicting)
    pattern = write(tmp_path, X, Y, [80, 200], key="label" if kind == "sequences" else None)
    small_pieces(monkeypatch, 700, 900)
    with pytest.raises(ml.ContradictionError) as memory:
        ml.memorize(read(pattern), **options)
    with pytest.raises(ml.ContradictionError) as files:
        memorize_files(pattern, tmp_path / "files", workers=1, **options)
    assert str(files.value).split(" so no such model ")[1] == str(memory.value).split(" so no such model ")[1]
    both(tmp_path, pattern, on_conflict=on_conflict, **options)


@pytest.mark.parametrize("kind", ["part", "tally"])
def test_a_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    X, Y, _ = real("ids")
    pattern = write(tmp_path, X, Y, [150, 300])
    small_pieces(monkeypatch, 400, 500)
    with monkeypatch.context() as patch:
        stopped(patch, kind, OSError(errno.ENOSPC, "full"))
        with pytest.raises(OSError, match="full"):
            memorize_files(pattern, tmp_path / "files", workers=1)
    ml.memorize(read(pattern)).save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", workers=1, resume=True)
    same(out, tmp_path / "memory")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, Y, _ = real("ids")
    pattern, out = write(tmp_path, X, Y, [100, 250]), str(tmp_path / "files")
    assert run(["memorize-files", pattern, "--out", out, "--memory", "2GB", "--workers", "1"]) == 0
    assert run(["predict", out, pattern, "--out", str(tmp_path / "answers.jsonl")]) == 0
    assert "2,400 of 2,400 labels are right" in capsys.readouterr().err


@given(st.lists(st.integers(1, 9), min_size=1), st.randoms())
def test_the_entropy_does_not_depend_on_the_order_of_labels(count: list[int], random: Any) -> None:
    share = np.array(count) / sum(count)
    found = entropy_bits(np.array(count))
    assert found == pytest.approx(float(-(share * np.log2(share)).sum()), abs=1e-12)
    random.shuffle(count)
    assert entropy_bits(np.array([*count, 0])) == found
