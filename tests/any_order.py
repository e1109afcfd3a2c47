"""Sums, norms and attention as any kernel may compute them, and as much of a network as a lemma looks at."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


def summed(random: np.random.Generator, terms: Any) -> Any:
    """A sum over the last axis in the format of its terms, in some order: one after the other, or in pairs."""
    terms = np.take(terms, random.permutation(terms.shape[-1]), axis=-1)
    if random.random() < 0.5:
        total = np.zeros(terms.shape[:-1], terms.dtype)
        for i in range(terms.shape[-1]):
            total = total + terms[..., i]
        return total
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = np.append(terms, np.zeros((*terms.shape[:-1], 1), terms.dtype), axis=-1)
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def moments(random: np.random.Generator, x: Any, kind: str) -> tuple[Any, Any]:
    """Mean and variance in the format of the numbers, by one of three formulas."""
    D = x.dtype.type(x.shape[-1])
    if kind == "welford":
        x = np.take(x, random.permutation(x.shape[-1]), axis=-1)
        mean, square = np.zeros(x.shape[:-1], x.dtype), np.zeros(x.shape[:-1], x.dtype)
        for k in range(x.shape[-1]):
            off = x[..., k] - mean
            mean = mean + off / x.dtype.type(k + 1)
            square = square + off * (x[..., k] - mean)
        return mean[..., None], (square / D)[..., None]
    mean = (summed(random, x) / D)[..., None]
    if kind == "two passes":
        return mean, (summed(random, (x - mean) * (x - mean)) / D)[..., None]
    return mean, (summed(random, x * x) / D)[..., None] - mean * mean


MOMENTS = ["two passes", "textbook", "welford"]


def blocks(random: np.random.Generator, score: Any, values: Any, exp: Callable[[Any], Any] = np.exp) -> Any:
    """A softmax that rescales its sums from block to block, of at least 16 keys, as fused kernels do."""
    best, total, over, begin = -np.inf, score.dtype.type(0), np.zeros(values.shape[1], score.dtype), 0
    while begin < len(score):
        end = begin + int(random.integers(16, 40))
        top = max(best, score[begin:end].max())
        shrink, weight = score.dtype.type(exp(best - top)), exp(score[begin:end] - top)
        total = total * shrink + summed(random, weight[None])[0]
        over = over * shrink + summed(random, (weight[:, None] * values[begin:end]).T)
        best, begin = top, end
    return over * (score.dtype.type(1) / total)


class Net(SimpleNamespace):
    """As much of a network as a lemma looks at."""

    def __init__(self, rms: bool, arrays: dict[str, Any], **facts: Any) -> None:
        super().__init__(architecture=SimpleNamespace(rms=rms), arrays=arrays, **facts)

    __getitem__: Any = lambda self, letter: self.arrays[letter]
    __contains__: Any = lambda self, letter: letter in self.arrays
