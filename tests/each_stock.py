"""A folder of each architecture and each task, in float64 or in bfloat16, with sequences that no model holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.huggingface.architecture import END
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.stock.folder import StockModel

RANDOM = np.random.default_rng(5)
WORDS = np.stack([RANDOM.permutation(12)[:6] for _ in range(6)])
ROWS = [[f"w{word}" for word in row[: 3 + number % 4]] for number, row in enumerate(WORDS)]
"""Of 3 to 6 words, so that padding counts."""
LABELS = [[f"c{total % 5}" for total in np.cumsum(row * row)[: 3 + number % 4]] for number, row in enumerate(WORDS)]
"""Labels that the words so far determine, whatever their order."""
OTHERS = RANDOM.choice(sorted({word for row in ROWS for word in row}), (4, 5)).tolist()
"""Sequences that no model holds: what it answers there is compared with our own evaluation."""
TEXTS = [list("ab ä\U0001f600b"), list("ca\tcb")]
SHORT: dict[str, Any] = {"positions": True, "dtype": "bfloat16", "rank": 32}


def built(name: str, task: str, tmp_path: Path) -> tuple[StockModel, Path, list[str]]:
    """Each architecture and each task in float64 or in bfloat16, and the attention that it is to be asked with."""
    kind = ARCHITECTURES[name]
    count = list(kind.models).index(task)
    short = kind.rms or (list(ARCHITECTURES).index(name) + count) % 2 == 1
    exact = {"storage": "steps", "positions": kind.has_places and count == 0}
    rows, labels = (TEXTS, None) if task == "lm" else (ROWS, LABELS if task == "token" else [r[-1] for r in LABELS])
    model = ml.memorize_as(name, rows, labels, **(SHORT if short else exact))
    folder = model.save(tmp_path / "folder", onnx=True)
    proof = ml.certify(folder, rows, labels)
    assert proof.verdict == "proved", proof
    assert "nothing is said about onnx/" in " ".join(proof.assumptions), proof
    said = [np.asarray(row).tolist() for row in ml.load(folder).predict(rows)]
    end = model.facts.names[END]
    assert said == (labels or [[*row[1:], end] for row in rows]), "our own evaluation says the same"
    return model, folder, ["eager", "sdpa"] if kind.eager and not short else ["sdpa"]
