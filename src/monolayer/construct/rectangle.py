"""Ids that lie on a device, all sequences of one length, and the classes that belong to them.

They stay there: the line is built where they lie, and only the few sequences that must be looked at one by one are
brought home.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Ints, beside, home
from monolayer.construct.target import Target
from monolayer.data import Names, Sequences
from monolayer.data.labelling import LABELLINGS, SEQUENCE, TOKEN, Labelling, LabelUnit
from monolayer.data.sequences import Per
from monolayer.errors import OutOfMemoryError
from monolayer.kernels import fused_passes

BYTES_PER_LABEL, WITHOUT_KERNELS = 53, 105
"""Bytes per label that a build on a device needs, at the most (bench/a_hundred_million_labels_in_30_ms_…)."""


@dataclass(frozen=True, eq=False)
class IdsOnDevice:
    """Ids `(N, n)`, which are their own row numbers, with what a construction asks of `Sequences`."""

    ids: Tensor
    vocabulary: Names
    per: Per

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence."""
        return LABELLINGS[self.per]

    @cached_property
    def tokens(self) -> Tensor:
        """All ids, sequence after sequence `(T,)`."""
        return self.ids.reshape(-1)

    @cached_property
    def lengths(self) -> Tensor:
        """The length of every sequence `(N,)`: all are `n`."""
        return torch.full((len(self),), self.ids.shape[1], device=self.ids.device)

    @cached_property
    def position(self) -> Tensor:
        """The place of each token in its sequence `(T,)`, from 0."""
        return torch.arange(self.ids.shape[1], device=self.ids.device).repeat(len(self))

    def sequences_of(self, flat: Ints) -> Ints:
        """The sequence that each of the tokens `flat` belongs to."""
        return flat // self.ids.shape[1]

    def starts_of(self, sequences: Ints) -> Ints:
        """The first token of each of the sequences, among all tokens."""
        return sequences * self.ids.shape[1]

    def select(self, sequences: Ints) -> Sequences:
        """Some sequences, copied to the processor."""
        rows = home(self.ids[beside(sequences, self.ids)])
        return Sequences(rows.reshape(-1), np.full(len(rows), rows.shape[1]), self.vocabulary)

    def labelled(self, place: int) -> str:
        """A token, or a sequence where labels are those of sequences, in words."""
        row, position = divmod(place, self.ids.shape[1])
        return f"token {position} of sequence {row}" if self.labelling.at_tokens else f"sequence {place}"


@contextmanager
def explained(device: torch.device, labels: int) -> Iterator[None]:
    """Turn PyTorch's error about lacking memory into one that says what to do. `labels`: how many are built."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
        each = BYTES_PER_LABEL if fused_passes() else WITHOUT_KERNELS
        raise OutOfMemoryError(
            f"{labels:,} labels need about {each * labels / 2**30:,.1f} GiB on {device} to be built there, "
            f"and {free / 2**30:,.1f} GiB are free: pass arrays of the processor, which are built in its own memory, "
            "or split the data over several models"
        ) from error


def on_device(X: Any, Y: Any, per: Per | None, causal: bool) -> tuple[IdsOnDevice, Target] | None:
    """Ids `X` `(N, n)` and classes `Y` `(N, n)` or `(N,)`, each their own row numbers, as data and labels.

    Without `Y`, of a causal model, the label of a token is the next one. None: these are something else, or have gaps
    or names, for which they are read like any other data.
    """
    if not _whole(X) or X.ndim != 2 or not X.numel() or (Y is None and not (causal and X.shape[1] > 1)):
        return None
    if Y is not None and (not _whole(Y) or X.device != Y.device or Y.shape not in (X.shape, X.shape[:1])):
        return None
    labelled: LabelUnit = SEQUENCE if Y is not None and Y.ndim == 1 else TOKEN
    names = _own_numbers(X)
    classes = names if Y is None else _own_numbers(Y)
    if names is None or classes is None or per not in (None, labelled.name) or (causal and not labelled.at_tokens):
        return None
    ids, place = X.long(), None
    if Y is None:
        place = torch.arange(X.numel(), device=X.device).view(X.shape)[:, :-1].reshape(-1)
    number = (ids[:, 1:] if Y is None else Y.long()).reshape(-1)
    table = np.arange(len(classes), dtype=np.float64)[:, None]
    return IdsOnDevice(ids, names, labelled.name), Target(
        number, table, labelled.name, classes, False, place, Y is None
    )


def _whole(values: Any) -> bool:
    """Whether these are whole numbers on a device that computes in float64."""
    whole = isinstance(values, Tensor) and not (values.is_floating_point() or values.is_complex())
    return whole and values.layout == torch.strided and values.dtype != torch.bool and values.device.type != "mps"


def _own_numbers(values: Tensor) -> Names | None:
    """Names for whole numbers that are nearly gapless from 0, as `Names.of_integers` has it; else None."""
    low, high = (int(end) for end in values.aminmax())
    if low < 0 or (high >= 1024 and high >= 4 * values.numel() + 1024):
        return None
    if high >= 1024 and high >= 4 * int(values.reshape(-1).bincount().count_nonzero()) + 1024:
        return None
    return Names(range(high + 1))
