"""Read data as the model that is asked has them, where neither the caller nor the data say what labels belong to.

A column called `label` looks like one label per sequence, and a list of numbers like one per token. A model may have
been built from such data with another `per`, and its folder says which. So data that look like another kind than the
model's, or that cannot be read as they look, are read once more with the model's `per`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from monolayer.arrays import Ints
from monolayer.data.choices import Belongs
from monolayer.data.labelling import LABELLINGS, generates
from monolayer.data.labels import Labels
from monolayer.data.layout import Manner
from monolayer.errors import DataError


class _Read(Protocol):
    """The part of `Sequences` used here; `sequences.py` imports this file."""

    @property
    def labels(self) -> Labels | None: ...

    @property
    def prompts(self) -> Ints | None: ...


Data = TypeVar("Data", bound=_Read)


def read_matching(read: Callable[[Belongs | None], Data], per: Belongs | None, like: Manner | None) -> Data:
    """The data as `read(per)` returns them, or with the `per` of the model if only so they are of its kind.

    `read`: may be called twice. `per`: what the caller says, which is final. `like`: how the model reads data. If its
    `per` does not fit either, the result, or the error, is that of the data as they look.
    """
    if per is not None or like is None or like.per is None or like.leans:
        return read(per)
    looks, refused = None, None
    try:
        looks = read(None)
    except DataError as error:
        refused = error
    if looks is not None and _is_of_kind(looks, like.per):
        return looks
    try:
        return read(like.per)
    except DataError:
        if looks is None:
            assert refused is not None
            raise refused from None
        return looks


def _is_of_kind(data: Data, per: Belongs) -> bool:
    """Whether data are prompts if `per` says so, and otherwise have labels that belong to what it says, or none."""
    if generates(per):
        return data.prompts is not None
    return data.labels is None or data.labels.labelling is LABELLINGS[per]
