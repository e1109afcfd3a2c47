"""The size of the head: how sure the model seems, so that its losses and gradients are numbers and not 0.

All logits are multiplied by it. It is a power of two, so answers stay and so do their proofs: no rounding changes but
that of the softmax behind the network.

The rule: of the powers of two from `2^-10` to `2^6` the least for which the median, over facts of the data, of the
probability of the right label is at least the confidence that was asked for. Of more than 256 facts every k-th is
asked. A probability grows with the size, since the right label has the largest logit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.files import Facts
from monolayer.stock.answers import Evaluation, batches

CONFIDENCE = 0.99
"""Where none is asked for: classifiers that were trained until they knew their data show a loss near 0.01."""
SIZES = tuple(2.0**exponent for exponent in range(-10, 7))
"""With the largest, logits are some ten thousand at most, which float16 holds."""
ASKED = 256


def check_confidence(confidence: float | None) -> float:
    """The confidence that is asked for, or an error that says which can be."""
    if confidence is None:
        return CONFIDENCE
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.0 < confidence < 1.0:
        raise DataError(f"confidence must be a probability between 0 and 1, such as {CONFIDENCE}, not {confidence!r}")
    return float(confidence)


def head_size(facts: Facts, arrays: Mapping[str, Any], data: Sequences, confidence: float) -> tuple[float, float]:
    """The size, and the median that it gives; the head among the `arrays` has size 1."""
    behind = torch.cat(_logits(facts, arrays, data))
    behind -= behind.max(dim=1, keepdim=True).values
    for size in SIZES:
        median = float(np.median((1.0 / (size * behind).exp().sum(dim=1)).numpy()))
        if median >= confidence:
            break
    return size, median


def _logits(facts: Facts, arrays: Mapping[str, Any], data: Sequences) -> list[torch.Tensor]:
    """Logits `(·, C)` at facts that lie evenly among all."""
    network, there = Evaluation(facts, arrays), data.labelled_places
    there = there[np.linspace(0, len(there) - 1, min(len(there), ASKED)).astype(np.int64)]
    whole = facts.task == "sequence"
    row = there if whole else data.sequence[there]
    ids, found = data.tokens + len(facts.architecture.special), []
    for some, length in batches(facts, np.unique(row), data.lengths):
        here = np.isin(row, some)
        at, column = np.unique(data.position[there[here]] + 1, return_inverse=True) if not whole else (None, 0)
        given = np.insert(ids[data.offsets[some][:, None] + np.arange(length)], 0, BEGIN, axis=1)
        logits = network.logits(given, network.asked if at is None else at)
        found.append(logits[np.searchsorted(some, row[here]), column])
    return found
