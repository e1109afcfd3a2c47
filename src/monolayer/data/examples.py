"""A few of the sequences that a model was built from, beside it as `examples.jsonl`: what its page shows.

They are no part of the model: nothing reads them but a page, and a model made by an edit has none.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from monolayer.data.sequences import Sequences

EXAMPLES = "examples.jsonl"
COUNT, NUMBERS = 40, 4000
"""Sequences that are kept, and tokens, or numbers in their vectors, of all of them together."""


def sample(data: Sequences, count: int = COUNT) -> Sequences | None:
    """Sequences from all over the data, short enough for a page; None where even the shortest of them is not."""
    rows = np.unique(np.linspace(0, len(data) - 1, min(count, len(data))).round().astype(np.int64))
    size = data.lengths[rows] * (1 if data.vocabulary is not None else data.tokens.shape[1])
    shortest = np.argsort(size, kind="stable")
    rows = np.sort(rows[shortest[np.cumsum(size[shortest]) <= NUMBERS]])
    return data.select(rows) if len(rows) else None


def write_examples(data: Sequences, path: Path) -> None:
    """JSON Lines as `read` takes them."""
    names = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    answers, labels = data.named_labels(), data.labels
    per_token = None if answers is None or labels is None or labels.per == "sequence" else data.split(answers)
    with path.open("w", encoding="utf-8") as file:
        for row, tokens in enumerate(data.split(names)):
            said = {"tokens": tokens.tolist()}
            if per_token is not None:
                said["labels"] = per_token[row].tolist()
            elif answers is not None:
                said["label"] = answers[row : row + 1].tolist()[0]
            file.write(json.dumps(said) + "\n")
