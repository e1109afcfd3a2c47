"""A model built from files, piece by piece, is the model that is built in memory, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cluster import build
from monolayer.cluster.build import memorize_files
from monolayer.cluster.room import Room
from monolayer.data import read


def write(folder: Path, X: Any, Y: Any, cuts: list[int], name: str = "s") -> str:
    """Rows in several JSONL files; their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    key = "labels" if Y is not None and isinstance(Y[0], list) else "label"
    for i, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(X)], strict=True)):
        rows = [{"tokens": X[j]} | ({} if Y is None else {key: Y[j]}) for j in range(first, last)]
        (folder / f"{name}{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / f"{name}*.jsonl")


def small_pieces(monkeypatch: pytest.MonkeyPatch, block: int, points: int) -> None:
    """Pieces so small that there are several, whatever the memory."""
    monkeypatch.setattr(build, "Room", type("Small", (), {"of": staticmethod(lambda *_: Room(block, points))}))


def same(files: Path, memory: Path) -> None:
    """Two folders hold equal tensors, and equal configs but for the clock and the names of their files."""
    one, two = ml.load(files), ml.load(memory)
    ours, theirs = one.state_dict(), two.state_dict()
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name].shape == theirs[name].shape
        assert ours[name].numpy().tobytes() == theirs[name].numpy().tobytes(), name
    configs = [json.loads((folder / "config.json").read_text()) for folder in (files, memory)]
    for config in configs:
        config["summary"].pop("seconds")
        config["files"] = {name: digest for name, digest in config["files"].items() if name == "names.json"}
        config.pop("digest")
    assert configs[0] == configs[1]


def example(kind: str) -> tuple[Any, Any, dict[str, Any]]:
    random = np.random.default_rng(7)
    if kind == "ids":
        X = np.array([random.permutation(80)[:6] for _ in range(400)])
        return X.tolist(), random.integers(0, 5, X.shape).tolist(), {}
    if kind == "sparse ids":  # names are no row numbers, labels are negative
        X = np.array([random.permutation(90)[:5] * 10**7 for _ in range(300)])
        return X.tolist(), random.integers(-3, 3, X.shape).tolist(), {}
    lengths = random.integers(1, 9, 300)
    words = [[f"w{i}" for i in random.integers(0, 60, n)] for n in lengths]
    if kind == "positions":
        words = [[f"v{i}", *row] for i, row in enumerate(words)]
        return words, [[random.choice(["x", "y"]) for _ in row] for row in words], {"positions": True}
    if kind == "sequences":
        words = [[f"v{i}", *row] for i, row in enumerate(words)]
        return words, [str(label) for label in random.integers(0, 9, 300)], {"temperature": 2.0}
    if kind == "causal":
        words = [[f"v{i}", *row] for i, row in enumerate(words)]
        labels = [[int(label) for label in random.integers(0, 4, len(row))] for row in words]
        return words, labels, {"causal": True, "seed": 3}
    text = [[f"v{i}", *row] for i, row in enumerate(words)]
    return text, None, {"causal": True, "positions": True}


KINDS = ["ids", "sparse ids", "positions", "sequences", "causal", "next tokens"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("cuts", "block", "points"), [([100, 101, 250], 200, 150), ([], 1 << 20, 1 << 20)])
def test_bits_of_files_are_bits_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, cuts: list[int], block: int, points: int
) -> None:
    X, Y, options = example(kind)
    pattern = write(tmp_path, X, Y, cuts)
    small_pieces(monkeypatch, block, points)
    out = memorize_files(pattern, tmp_path / "files", engine="threads", workers=2, **options)
    data = read(pattern)
    ml.memorize(data, **options).save(tmp_path / "memory")
    same(out, tmp_path / "memory")
    assert ml.certify(out, data).verdict == "proved"
    assert not list(tmp_path.glob(".*"))
