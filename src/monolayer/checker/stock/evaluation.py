"""One evaluation of a stock folder as transformers compute it, in the arithmetic that its claim is about.

    embedding → norm → attention → + → norm → neurons → + → norm → (pooler) → head

Steps are evaluated in float64, cells in float32. Like `checker/evaluation.py` it is one of the evaluations that a
certificate speaks about: a wrong answer refutes the claim, a right one proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.stock.files import Network

HIDDEN_AT_ONCE = 1 << 22
"""How many numbers of neurons, and of logits, are in memory at a time."""

POOLS: dict[str, Callable[[Any], Any]] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}
"""The activations after a pooler."""


class StockEvaluation:
    """The network of a stock folder as a function of sequences of ids."""

    def __init__(self, net: Network) -> None:
        self.net, self.kind = net, net.architecture
        self.dtype = np.dtype(np.float64 if net.format.long else np.float32)
        self.part = {letter: array.astype(self.dtype) for letter, array in net.arrays.items()}

    def work(self, length: int, answers: int) -> int:
        """About how many products an evaluation of one sequence of `length` tokens takes, at `answers` places."""
        width, neurons, classes = self.net.width, len(self.part["b_1"]), len(self.part["b_H"])
        each = (length + 1) * width + width * (3 * neurons + classes + 2 * width)
        return int((length + 1) * 3 * width * width + answers * each)

    def logits(self, ids: Ints, at: Ints) -> Floats:
        """Logits `(B, len(at), C)` of sequences of one length `(B, n)`, begin token in front, at the places `at`."""
        with np.errstate(all="ignore"):  # numbers that are not finite are the caller's to see
            stream = self._attended(ids, at).reshape(-1, self.net.width)
            step = max(1, HIDDEN_AT_ONCE // max(len(self.part["b_1"]), len(self.part["b_H"])))
            parts = [self._answered(stream[start : start + step]) for start in range(0, len(stream), step)]
            return np.concatenate(parts).reshape(len(ids), len(at), -1).astype(np.float64)

    def _attended(self, ids: Ints, at: Ints) -> Any:
        """The stream behind attention at the places `at` `(B, len(at), D)`."""
        part, n = self.part, ids.shape[1]
        x = part["tokens"][ids]
        if "places" in part:
            x = x + part["places"][self.kind.offset : self.kind.offset + n]
        here = self._norm(x + part["types"][0] if "types" in part else x, 1)
        q, k, v = (here @ part[f"W_{letter}"].T + part[f"b_{letter}"] for letter in "QKV")
        scores = self._turned(q)[:, at] @ self._turned(k).swapaxes(1, 2) * self.dtype.type(self.net.width**-0.5)
        if self.net.causal:
            scores = np.where(np.arange(n) <= at[:, None], scores, self.dtype.type(-np.inf))
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        share = weights / weights.sum(axis=2, keepdims=True)
        written = (share @ v) @ part["W_O"].T + part["b_O"]
        return (here if self.kind.post_norm else x)[:, at] + written

    def _answered(self, x: Any) -> Any:
        """The logits `(P, C)` where the stream `x` `(P, D)` leaves attention."""
        part = self.part
        here = self._norm(x, 2)
        value = here @ part["W_1"].T + part["b_1"]
        value = value / (1 + np.exp(-value)) if self.net.activation == "silu" else np.clip(value, 0, 6)
        if "W_3" in part:
            value = value * (here @ part["W_3"].T + part["b_3"])
        x = self._norm((here if self.kind.post_norm else x) + (value @ part["W_2"] + part["b_2"]), 3)
        if "W_P" in part:
            pooled = x @ part["W_P"].T + part["b_P"]
            x = POOLS[self.kind.pool](pooled)
        return x @ part["W_H"].T + part["b_H"]

    def _norm(self, x: Any, number: int) -> Any:
        """Norm `number`. RMSNorm computes in float32 whatever the weights are, as that of Llama does."""
        scale, epsilon = self.part[f"scale_{number}"], self.net.epsilon
        if self.kind.rms:
            short = x.astype(np.float32)
            mean = (short * short).mean(axis=-1, keepdims=True, dtype=np.float32)
            return scale * (short * (1 / np.sqrt(mean + np.float32(epsilon)))).astype(self.dtype)
        rest = x - x.mean(axis=-1, keepdims=True, dtype=self.dtype)
        variance = (rest * rest).mean(axis=-1, keepdims=True, dtype=self.dtype)
        return rest * (1 / np.sqrt(variance + self.dtype.type(epsilon))) * scale + self.part[f"shift_{number}"]

    def _turned(self, x: Any) -> Any:
        """Queries or keys `(B, n, D)` with pairs of coordinates turned by their place, if positions are rotary.

        Angles, cosines and sines are computed in float32 whatever the weights are.
        """
        if self.net.rotary is None:
            return x
        theta, count = self.net.rotary
        speed = 1 / np.float32(theta) ** (np.arange(0, count, 2, dtype=np.float32) / np.float32(count))
        angle = np.arange(x.shape[1], dtype=np.float32)[:, None] * speed
        cos, sin = np.cos(angle).astype(self.dtype), np.sin(angle).astype(self.dtype)
        one, two, rest = x[..., : count // 2], x[..., count // 2 : count], x[..., count:]
        return np.concatenate([one * cos - two * sin, two * cos + one * sin, rest], axis=-1)
