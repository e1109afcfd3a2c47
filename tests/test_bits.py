"""Same seed, same bits, on every processor: a digest for each kind of model whose bits are promised.

A digest is taken over the values of the tensors, whatever their names: SHA-256 of the sorted digests of shape and
float64 bytes. A change of the table is a change for users and is named in the changelog. To write it anew:

    python -m tests.test_bits > tests/bits.txt
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.stock.folder import StockModel

TABLE = Path(__file__).with_name("bits.txt")


def ids(rows: int, length: int, names: int, seed: int = 0) -> Any:
    """Whole numbers: NumPy draws them alike everywhere, normal numbers it does not."""
    return np.random.default_rng(seed).integers(0, names, (rows, length))


def reals(*shape: int) -> Any:
    return np.random.default_rng(1).random(shape)


def spread(X: Any) -> Any:
    """A function of sequences that takes differences alone."""
    return X.max(axis=1, keepdims=True) - X


X, Y = ids(40, 5, 30), ids(40, 5, 4, 2)
MANY = ids(400, 8, 40)
FIRST = np.concatenate([40 + np.arange(100)[:, None], ids(100, 60, 40)], axis=1)  # no two prefixes are equal
SHORT: dict[str, Any] = {"dtype": "float32"}
KINDS: dict[str, Callable[[], Any]] = {
    "line": lambda: ml.memorize(X, Y, on_conflict="first"),
    "line, positions": lambda: ml.memorize(X, Y, positions=True, seed=3),
    "line, labels of sequences": lambda: ml.memorize(X, Y[:, 0]),
    "line, reals": lambda: ml.memorize(X, reals(40, 5, 2), positions=True),
    "line, next tokens": lambda: ml.memorize(FIRST, causal=True),
    "line, vectors": lambda: ml.memorize(reals(40, 5, 3), Y),
    "line, vectors of 24": lambda: ml.memorize(reals(40, 5, 24), Y),
    "line, a text": lambda: ml.memorize_text("to be or not to be, that is the question"),
    "line, hot": lambda: ml.memorize(X[:9], Y[:9], positions=True, temperature=40.0),
    "cascade": lambda: ml.memorize(MANY, ids(400, 8, 9, 2), positions=True, **SHORT),
    "cascade, labels of sequences": lambda: ml.memorize(ids(2000, 8, 40), ids(1, 2000, 9)[0], **SHORT),
    "cascade, reals": lambda: ml.memorize(MANY, reals(400, 8).astype(np.float32), positions=True, **SHORT),
    "cascade, next tokens": lambda: ml.memorize(FIRST, causal=True, **SHORT),
    "approximator": lambda: ml.approximate(spread, 1, 3, cells=6),
    "approximator, three coordinates": lambda: ml.approximate(spread, 3, 2, cells=3),
    "approximator, everywhere": lambda: ml.approximate(spread, 1, 2, cells=6, norm="sup"),
    "stock steps, bert": lambda: ml.memorize_as("bert", X, Y, positions=True, storage="steps"),
    "stock steps, gpt2": lambda: ml.memorize_as("gpt2", X, Y[:, 0], positions=True, storage="steps"),
    "stock steps, next tokens": lambda: ml.memorize_as("gpt2", FIRST[:9, :20], storage="steps"),
}


def digest(model: Any) -> str:
    tensors = model.tensors if isinstance(model, StockModel) else model.state_dict()
    each = []
    for tensor in tensors.values():
        values = torch.as_tensor(tensor).detach().double().numpy().copy()
        values[np.isnan(values)] = np.nan  # one pattern of bits
        each.append(hashlib.sha256(str(values.shape).encode() + values.tobytes()).digest())
    return hashlib.sha256(b"".join(sorted(each))).hexdigest()


@pytest.mark.one_seed
@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_bits_on_every_processor(kind: str) -> None:
    known = dict(line.rsplit(": ", 1) for line in TABLE.read_text().splitlines())
    assert list(known) == list(KINDS)
    assert digest(KINDS[kind]()) == known[kind]


def test_a_digest_sees_one_bit() -> None:
    model = KINDS["line"]()
    before = digest(model)
    with torch.no_grad():
        model.bos[1] = float(np.nextafter(float(model.bos[1]), 2.0))
    assert digest(model) != before


if __name__ == "__main__":
    for kind, make in KINDS.items():
        print(f"{kind}: {digest(make())}")
