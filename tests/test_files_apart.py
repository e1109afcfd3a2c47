"""Gates of files, where one line is too crowded and rank 1 is asked for, are the gates of memory, bit for bit."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.cluster import apart, crowds
from monolayer.cluster.memorize import memorize_files
from monolayer.construct.line import apart as in_memory
from monolayer.construct.line import separate
from monolayer.data import read
from tests.test_files import example, same, small_pieces, stopped, write
from tests.test_files_conflicts import contradicting


@pytest.fixture(autouse=True)
def crowded_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line is soon too crowded, and cells are not."""
    for module in (separate, crowds):
        monkeypatch.setattr(module, "SLACK", 1e11)


@pytest.mark.parametrize(
    ("kind", "cuts", "block", "points"),
    [
        *[("ids", [100, 101, 250], 1000, 700), ("ids", [], 1 << 20, 1 << 20), ("sparse ids", [100], 300, 600)],
        *[("positions", [100], 500, 900), ("causal", [99, 250], 800, 900), ("next tokens", [100], 1000, 500)],
    ],
)
def test_cells_of_files_are_cells_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, cuts: list[int], block: int, points: int
) -> None:
    X, Y, options = example(kind)
    pattern = write(tmp_path, X, Y, cuts)
    small_pieces(monkeypatch, block, points)
    data = read(pattern)
    model = ml.memorize(data, rank=1, **options)
    assert model.summary is not None
    assert model.summary.layout == "apart"
    model.save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=2, rank=1, **options)
    same(out, tmp_path / "memory")
    assert ml.certify(out, data).verdict == "proved"
    assert not list(tmp_path.glob(".*"))


def test_overruled_labels_behind_gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = contradicting("ids")
    pattern = write(tmp_path, X, Y, [150])
    small_pieces(monkeypatch, 300, 200)
    ml.memorize(read(pattern), rank=1, on_conflict="majority").save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=1, rank=1, on_conflict="majority")
    same(out, tmp_path / "memory")


@pytest.mark.parametrize("slack", [3e9, 1e13])
def test_a_draw_that_does_not_serve_and_none_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slack: float
) -> None:
    X, Y, _ = example("ids")
    pattern = write(tmp_path, X, Y, [150])
    small_pieces(monkeypatch, 1000, 500)
    for module in (apart, in_memory):
        monkeypatch.setattr(module, "SLACK", slack)
    words: dict[str, Any] = {"engine": "threads", "workers": 1, "rank": 1}
    if slack > 1e12:
        with pytest.raises(ml.PrecisionError, match="fell closer together"):
            ml.memorize(read(pattern), rank=1)
        with pytest.raises(ml.PrecisionError, match="would hold them, or rank='auto'"):
            memorize_files(pattern, tmp_path / "files", **words)
        return
    model = ml.memorize(read(pattern), rank=1)
    assert model.summary is not None
    assert model.summary.draws == 1 + 4  # one line, and the fourth draw of cells
    model.save(tmp_path / "memory")
    same(memorize_files(pattern, tmp_path / "files", **words), tmp_path / "memory")


@pytest.mark.parametrize("kind", ["codes", "steps"])
def test_a_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    X, Y, _ = example("ids")
    pattern = write(tmp_path, X, Y, [150, 300])
    small_pieces(monkeypatch, 300, 500)
    words: dict[str, Any] = {"engine": "threads", "workers": 1, "rank": 1}
    with monkeypatch.context() as patch:
        stopped(patch, kind, OSError(errno.ENOSPC, "full"))
        with pytest.raises(OSError, match="full"):
            memorize_files(pattern, tmp_path / "files", **words)
    ml.memorize(read(pattern), rank=1).save(tmp_path / "memory")
    same(memorize_files(pattern, tmp_path / "files", resume=True, **words), tmp_path / "memory")


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    X, Y, _ = example("ids")
    pattern, out = write(tmp_path, X, Y, [100, 250]), str(tmp_path / "files")
    small_pieces(monkeypatch, 1000, 500)
    words = ["memorize", pattern, "--out", out, "--memory", "2GB", "--engine", "threads", "--rank", "1"]
    assert run(words) == 0
    assert run(["predict", out, pattern, "--out", str(tmp_path / "answers.jsonl")]) == 0
    assert "2,400 of 2,400 labels are right" in capsys.readouterr().err
    assert run(["verify", out, pattern]) == 0
    Y[7][0] = (Y[7][0] + 1) % 5
    write(tmp_path, X, Y, [100, 250])
    assert run(["verify", out, pattern]) == 1
