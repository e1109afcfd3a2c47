"""One evaluation of a saved model, step by step after docs/format.md, in the arithmetic that a claim is about.

Products of matrices are NumPy's, so sums have the order of its library, which the assumptions leave open. Each block is
rounded to the format before the next one uses it, and softmax subtracts the largest score of its row. So what comes out
is one of the evaluations that a certificate speaks about: a wrong answer refutes the claim, a right one proves nothing.

Notation: `B` sequences of `n` tokens each, `D` the width of the stream, `C` outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monolayer.arrays import Array, Floats, Ints
from monolayer.checker.network import CODE, KEY, LABEL, Stored
from monolayer.checker.rounding import BINARY64

NORM_EPSILON = 2.0**-20
"""What a robust readout adds to the mean square of the context."""
HIDDEN_AT_ONCE = 1 << 22
"""How many numbers of hidden neurons are in memory at a time."""


class Evaluation:
    """A saved model as a function of sequences, in binary64 or binary32."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.dtype = np.dtype(np.float64 if stored.format == BINARY64 else np.float32)
        self.tensors = {name: tensor.astype(self.dtype, copy=False) for name, tensor in stored.tensors.items()}

    def work(self, length: int, answers: int) -> int:
        """About how many products an evaluation of one sequence of `length` tokens takes, at `answers` places."""
        width = self.stored.config["width"]
        neurons = sum(self.stored.config["steps"])
        reads = sum(self.stored.config["gates"].values()) if self._robust else 1
        quantizer = self.tensors["quantizer.weight_1"].size if self.stored.raw else 0
        outputs = len(self.tensors["head.bias"])
        each = neurons * (reads + self.stored.config["labels"] + 2) + outputs * width
        return int((length + 1) * (quantizer + 4 * width * width) + answers * ((length + 1) * width + each))

    def outputs(self, tokens: Array, at: Ints) -> Floats:
        """What the head returns `(B, len(at), C)` at the places `at`, of which 0 is the begin-of-sequence token.

        `tokens`: rows of the vocabulary `(B, n)`, −1 for tokens that the model lacks, or vectors `(B, n, d)`.
        """
        with np.errstate(all="ignore"):  # numbers that are not finite are the caller's to see
            Z = self._stream(tokens)
            Z = self._attended(Z, at).reshape(-1, Z.shape[-1])
            step = max(1, HIDDEN_AT_ONCE // max(1, *self.stored.config["steps"]))
            parts = [self._read_out(Z[start : start + step]) for start in range(0, len(Z), step)]
            logits = np.concatenate(parts) @ self.tensors["head.weight"].T + self.tensors["head.bias"]
            return logits.reshape(len(tokens), len(at), -1).astype(np.float64)

    @property
    def _robust(self) -> bool:
        return bool(self.stored.config["readout"] == "gates")

    def _stream(self, tokens: Array) -> Any:
        """The stream in front of attention `(B, 1 + n, D)`; NaN for tokens and places that have no vector."""
        t, config = self.tensors, self.stored.config
        if config["tokens"] == "ids":
            Z = np.where((tokens < 0)[..., None], self.dtype.type(np.nan), t["lift.weight"][tokens.clip(0)])
        else:
            Z = tokens.astype(self.dtype) @ t["lift.weight"].T + t["lift.bias"]
        if config["positions"]:
            place, table = np.arange(tokens.shape[1]), t["positions.weight"]
            beyond = (place >= len(table))[:, None]
            Z = Z + np.where(beyond, self.dtype.type(np.nan), table[place.clip(max=len(table) - 1)])
        Z = np.concatenate([np.broadcast_to(t["bos"], (len(tokens), 1, len(t["bos"]))), Z], axis=1)
        if self.stored.raw:
            x = Z[..., Z.shape[-1] - self.stored.raw :]
            hidden = np.maximum(x @ t["quantizer.weight_1"].T + t["quantizer.bias_1"], 0)
            Z[..., KEY : CODE + 1] += np.maximum(1 - hidden, 0) @ t["quantizer.weight_2"].T + t["quantizer.bias_2"]
        return Z

    def _attended(self, Z: Any, at: Ints) -> Any:
        """The stream behind attention at the places `at` `(B, len(at), D)`."""
        t = self.tensors
        Q, K, V = (part @ t[f"attention.W_{letter}"].T for letter, part in (("Q", Z[:, at]), ("K", Z), ("V", Z)))
        scores = Q @ K.swapaxes(1, 2)
        if self.stored.config["causal"]:
            scores = np.where(np.arange(Z.shape[1]) <= at[:, None], scores, self.dtype.type(-np.inf))
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        share = weights / weights.sum(axis=2, keepdims=True)
        return Z[:, at] + (share @ V) @ t["attention.W_O"].T

    def _read_out(self, Z: Any) -> Any:
        """The stream `(P, D)` behind the readout."""
        t, m = self.tensors, self.stored.config["labels"]
        Z = Z.copy()
        if self._robust:
            widths = self.stored.config["gates"]
            reads = sum(widths.values())
            context = Z[:, reads - widths["rank"] : reads]
            mean = (context * context).mean(axis=1, keepdims=True, dtype=self.dtype)
            unit = context * (1 / np.sqrt(mean + self.dtype.type(NORM_EPSILON)))
            z = np.concatenate([Z[:, : reads - widths["rank"]], unit], axis=1)
            hidden = np.maximum(z @ t["feed_forward.weight_1"].T + t["feed_forward.bias_1"], 0)
            Z[:, -m:] += hidden @ t["feed_forward.weight_2"].T + t["feed_forward.bias_2"]
            return Z
        code = CODE
        for stage in range(self.stored.stages):
            written = self._staircase(f"feed_forward.stages.{stage}", Z[:, code])
            Z[:, LABEL : LABEL + m] += written[:, :m]
            if stage + 1 < self.stored.stages:
                code = self.stored.value(stage + 2) + 1
                Z[:, code] += written[:, m]
        return Z

    def _staircase(self, block: str, z: Any) -> Any:
        """What a stage of a line adds to the stream at each `z` `(P,)`."""
        t = self.tensors
        hidden = np.maximum(z[:, None] * t[f"{block}.weight_1"] + t[f"{block}.bias_1"], 0)
        hidden = np.maximum(1 - hidden, 0)
        if self.stored.config["readout"] == "runs":
            ends = np.zeros((len(z), 1), self.dtype), np.ones((len(z), 1), self.dtype)
            hidden = np.maximum(np.diff(np.concatenate([ends[0], hidden, ends[1]], axis=1), axis=1), 0)
        return hidden @ t[f"{block}.weight_2"].T + t[f"{block}.bias_2"]
