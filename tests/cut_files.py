"""Data that are cut into several files, and memorized in pieces so small that there are several of these, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monolayer.cluster import memorize
from monolayer.cluster.room import Room
from monolayer.construct.line import points as line_points
from monolayer.construct.line import separate


def write(folder: Path, X: Any, Y: Any, cuts: list[int], name: str = "s", key: str | None = None) -> str:
    """Rows in several JSONL files; their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    key = key or ("labels" if Y is not None and isinstance(Y[0], list) else "label")
    for i, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(X)], strict=True)):
        rows = [{"tokens": X[j]} | ({} if Y is None else {key: Y[j]}) for j in range(first, last)]
        (folder / f"{name}{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / f"{name}*.jsonl")


def small_pieces(monkeypatch: pytest.MonkeyPatch, block: int, points: int) -> None:
    """Pieces so small that there are several, whatever the memory."""

    def fitting(memory: object, workers: int | None, *_: object) -> Room:
        return Room(block, points, workers=workers or 1)

    monkeypatch.setattr(memorize, "Room", type("Small", (), {"fitting": staticmethod(fitting)}))


def crowd(monkeypatch: pytest.MonkeyPatch, slack: float) -> None:
    """Steps that need more, or as much, room."""
    for module in (separate, line_points):
        monkeypatch.setattr(module, "SLACK", slack)


def data_of(kind: str) -> tuple[Any, Any, dict[str, Any]]:
    random = np.random.default_rng(7)
    if kind == "ids":
        X = np.array([random.permutation(80)[:6] for _ in range(400)])
        return X.tolist(), random.integers(0, 5, X.shape).tolist(), {}
    if kind == "sparse ids":  # names are no row numbers, labels are negative
        X = np.array([random.permutation(90)[:5] * 10**7 for _ in range(300)])
        return X.tolist(), random.integers(-3, 3, X.shape).tolist(), {}
    words = [[f"w{i}" for i in random.integers(0, 60, n)] for n in random.integers(1, 9, 300)]
    words = [[f"v{i}", *row] for i, row in enumerate(words)]
    if kind == "positions":
        return words, [[random.choice(["x", "y"]) for _ in row] for row in words], {"positions": True}
    if kind == "sequences":
        return words, [str(label) for label in random.integers(0, 9, 300)], {"temperature": 2.0, "seed": 3}
    return words, None, {"causal": True, "positions": True}
