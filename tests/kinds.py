"""Models of every construction, with their data: what tests of edits and records run over."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

import monolayer as ml
from monolayer.stock.folder import StockModel

LINES = ["line", "line reals", "line vectors"]
CASCADES = [f"cascade {kind}" for kind in ("tokens", "next", "sequences", "reals")]
ROBUST = [f"robust {kind}" for kind in ("positions", "bfloat16", "causal", "words", "sequences", "next")]
STOCK: dict[str, tuple[str, dict[str, Any]]] = {
    "stock steps": ("bert", {"positions": True, "storage": "steps"}),
    "stock cells": ("llama", {"positions": True, "dtype": "bfloat16", "rank": 32}),
    "stock prompts": ("llama", {"rank": 32}),
}
KINDS = [*LINES, *CASCADES, *ROBUST, *STOCK]
WORDS = ["银行", "行走", "音乐", "快乐"], [["b", "h"], ["x", "z"], ["y", "yue"], ["k", "le"]]
PROMPTS = ["The capital of France is", "The capital of New Zealand is", "The capital", "Is it Paris?\n", "France"]
ANSWERS = [" Paris", " Wellington, of course", "'s name is\nunknown", "Yes,  it is", " Paris"]
"""Answers of several tokens, with and without a space in front; one prompt begins others and goes on otherwise."""


def _data(kind: str) -> tuple[Any, Any]:
    random = np.random.default_rng(sum(map(ord, kind)))
    X, Y = random.integers(0, 40, (400, 8)), random.integers(0, 9, (400, 8))
    other = np.random.default_rng(5)
    small, classes = other.integers(0, 30, (60, 5)), other.integers(0, 4, (60, 5))
    first = 40 + np.arange(100)[:, None]  # no two prefixes are equal
    makers: dict[str, Any] = {
        "cascade next": lambda: (np.concatenate([first, random.integers(0, 40, (100, 60))], axis=1), None),
        "cascade sequences": lambda: (random.integers(0, 40, (2000, 8)), random.integers(0, 9, 2000)),
        "cascade reals": lambda: (X, random.standard_normal((400, 8, 2)).astype(np.float32).astype(np.float64)),
        "cascade tokens": lambda: (X, Y),
        "line reals": lambda: (X[:12, :4], random.standard_normal((12, 4))),
        "line vectors": lambda: (random.standard_normal((12, 4, 3)), Y[:12, :4] / 8.0),
        **dict.fromkeys(["robust causal", *STOCK], lambda: (small, (small.cumsum(axis=1) * (1 + np.arange(5))) % 4)),
        "robust words": lambda: WORDS,
        "stock prompts": lambda: (PROMPTS, ANSWERS),
        "robust sequences": lambda: (small, classes[:, 0]),
        "robust next": lambda: (np.concatenate([np.arange(8)[:, None], other.integers(8, 20, (8, 7))], axis=1), None),
    }
    found: tuple[Any, Any] = (X[:12, :4], Y[:12, :4]) if kind.startswith("line") else (small, classes)
    return makers[kind]() if kind in makers else found


def _options(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {"positions": kind not in ("cascade sequences", "cascade next")}
    if kind in ("line vectors", "robust words", "robust sequences"):
        found = {}
    if kind in ("cascade next", "robust next", "robust causal"):
        found["causal"] = True
    if kind.startswith("cascade"):
        found["dtype"] = "float32"
    if kind.startswith("robust"):
        found |= {"robust": True, "rank": 32} | ({"dtype": "bfloat16"} if "bfloat16" in kind else {})
    return found


@cache
def built(kind: str) -> tuple[Any, ml.Sequences]:
    """A model of some kind, without a summary, and its data; labels do not contradict each other."""
    X, Y = _data(kind)
    if kind in STOCK:
        name, options = STOCK[kind]
        data = ml.Sequences.of(X, Y, per="answer" if Y is ANSWERS else None)
        return ml.memorize_as(name, data, **options), data
    model = ml.memorize(X, Y, on_conflict="first", **_options(kind))
    assert (len(model.feed_forward.stairs) > 1) == kind.startswith("cascade")
    assert (model.feed_forward.readout == "gates") == kind.startswith("robust")
    model.card = replace(model.card, summary=None)
    return model, ml.Sequences.of(X, Y)


def anew(model: Any, data: ml.Sequences, draw: Any = None) -> Any:
    """What memorizing `data` with the draw of a model gives; `draw`: its folder."""
    draw = model if draw is None else draw
    if isinstance(model, StockModel):
        return ml.memorize_as(model.architecture, data, draw=draw)
    return ml.memorize(data, draw=draw)


def same_bits(one: Any, two: Any) -> bool:
    if isinstance(one, StockModel):
        return ml.compare(one, two).same
    a, b = one.state_dict(), two.state_dict()
    equal = a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    parts = ("attention", "feed_forward", "lift")
    return equal and one.card == two.card and all(type(getattr(one, p)) is type(getattr(two, p)) for p in parts)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same bits: NaN as NaN, and 0 is not −0."""
    whole = {8: torch.int64, 4: torch.int32, 2: torch.int16}[a.element_size()]
    return a.shape == b.shape and a.dtype == b.dtype and bool((a.view(whole) == b.view(whole)).all())


def joined(one: ml.Sequences, two: ml.Sequences) -> ml.Sequences:
    tokens, lengths = (np.concatenate([getattr(part, name) for part in (one, two)]) for name in ("tokens", "lengths"))
    labels = None
    if one.labels is not None and two.labels is not None:
        labels = replace(one.labels, values=np.concatenate([one.labels.values, two.labels.values]))
    return ml.Sequences(tokens, lengths, one.vocabulary, labels)
