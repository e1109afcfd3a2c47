"""A model built from files knows what it was built from as one built in memory does."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.cluster.memorize import memorize_files
from monolayer.data import read
from tests.test_files import example, same, small_pieces, stopped, write


def same_words(files: Path, memory: Path) -> None:
    one, two = (ml.load(folder).card.fingerprint for folder in (files, memory))
    assert one is not None
    assert two is not None
    assert one.words.tobytes() == two.words.tobytes()
    assert (one.per, one.causal) == (two.per, two.causal)


@pytest.mark.parametrize("kind", ["ids", "positions", "sequences", "next tokens"])
def test_the_same_fingerprints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    X, Y, options = example(kind)
    X, Y = X + X[:50], None if Y is None else Y + Y[:50]  # points that come back are kept once
    pattern = write(tmp_path, X, Y, [100, 250])
    small_pieces(monkeypatch, 900, 900)
    ml.memorize(read(pattern), fingerprint=True, **options).save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=2, fingerprint=True, **options)
    same(out, tmp_path / "memory")
    same_words(out, tmp_path / "memory")
    assert ml.certify(out, read(pattern)).verdict == "proved"


def test_a_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = example("ids")
    pattern = write(tmp_path, X, Y, [150, 300])
    small_pieces(monkeypatch, 300, 500)
    words: dict[str, Any] = {"engine": "threads", "workers": 1, "fingerprint": True}
    for kind in ("words", "points"):
        with monkeypatch.context() as patch:
            stopped(patch, kind, OSError(errno.ENOSPC, "full"))
            with pytest.raises(OSError, match="full"):
                memorize_files(pattern, tmp_path / "files", resume=kind == "points", **words)
    with pytest.raises(ml.DataError, match="began with fingerprint=True"):
        memorize_files(pattern, tmp_path / "files", **{**words, "fingerprint": False}, resume=True)
    ml.memorize(read(pattern), fingerprint=True).save(tmp_path / "memory")
    same_words(memorize_files(pattern, tmp_path / "files", resume=True, **words), tmp_path / "memory")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, Y, _ = example("ids")
    pattern, out = write(tmp_path / "data", X, Y, [100]), str(tmp_path / "files")
    words = ["memorize-files", pattern, "--out", out, "--memory", "2GB", "--engine", "threads"]
    assert run([*words, "--fingerprint"]) == 0
    assert run(["predict", out, pattern, "--strict", "--out", str(tmp_path / "answers")]) == 0
    assert run(["verify", out, pattern, "--only"]) == 0
    other = write(tmp_path / "other", [np.roll(X[0], 1).tolist(), [*X[0][:5], X[1][0]]], None, [])
    assert run(["predict", out, other, "--strict"]) == 2
    assert "sequence 1" in capsys.readouterr().err
    with pytest.raises(ml.DataError, match="fingerprint must be True or False"):
        memorize_files(pattern, tmp_path / "no", fingerprint=8)  # type: ignore[arg-type]
