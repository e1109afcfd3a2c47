"""Stock folders without a fault that tests of the checker share: their data, and each built and proved once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.huggingface.architecture import BEGIN
from tests import plain_stock
from tests.plain_stock import Stock
from tests.verdicts import expect

RANDOM = np.random.default_rng(11)
IDS = np.stack([RANDOM.permutation(25)[:6] for _ in range(40)])
LABELS = RANDOM.integers(0, 5, IDS.shape)
CAUSAL = np.cumsum(IDS * IDS, axis=1) % 5
"""Labels that the tokens so far determine."""


SAYING = np.random.default_rng(5)
WORDS = [f"w{number}" for number in range(60)]
USUAL = 1.0 / np.arange(3.0, 63.0)
SENTENCES = [
    [f"s{row}", *(WORDS[i] for i in SAYING.choice(60, size=SAYING.integers(7, 20), p=USUAL / USUAL.sum()))]
    for row in range(10)
]
"""Of 8 to 20 words; each begins with one of its own, so that every prefix has one continuation."""
TAGS = [["NVAD"[SAYING.integers(4)] for _ in sentence] for sentence in SENTENCES]
TOPICS = ["xyz"[SAYING.integers(3)] for _ in SENTENCES]
BY_TASK: dict[str, Any] = {"token": TAGS, "sequence": TOPICS, "lm": None}


def with_begin(facts: Any) -> Any:
    return np.insert(IDS + len(facts.architecture.special), 0, BEGIN, axis=1)


TEXTS = ["abracadabra", "cab, a car"]
WHOLE: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "bert": ("bert", IDS, LABELS, {}),
    "bert places": ("bert", IDS, LABELS, {"positions": True}),
    "gpt2 ids": ("gpt2", IDS, CAUSAL, {}),
    "two": ("bert", IDS, LABELS % 2, {}),
    "sequences": ("bert", IDS, np.arange(len(IDS)) % 6, {}),
    "relu pooler": ("distilbert", IDS, np.arange(len(IDS)) % 6, {}),
    "gpt2": ("gpt2", TEXTS, None, {"positions": True}),
    "opt": ("opt", TEXTS, None, {"positions": True}),
    "starcoder2": ("starcoder2", TEXTS, None, {}),
    "gpt_neox": ("gpt_neox", TEXTS, None, {}),
    "robust": ("bert", SENTENCES, TAGS, {"positions": True, "storage": "cells"}),
    "letters": ("gpt2", TEXTS, [list(text[::-1]) for text in TEXTS], {"positions": True}),
}
BUILT = ["bert", "bert places", "gpt2 ids"]


@cache
def whole(which: str) -> Stock:
    """A folder without a fault."""
    name, rows, labels, options = WHOLE[which]
    with TemporaryDirectory() as place:
        folder = ml.memorize_as(name, rows, labels, **{"storage": "steps"} | options).save(Path(place) / "model")
        expect("proved", "", folder, rows, labels)
        return plain_stock.read(folder)


def threshold(f: Callable[[float], bool], low: float, high: float, steps: int = 80) -> float:
    """Where something becomes true."""
    assert not f(low)
    assert f(high)
    for _ in range(steps):
        middle = (low + high) / 2.0
        low, high = (low, middle) if f(middle) else (middle, high)
    return high
