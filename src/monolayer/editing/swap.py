"""A tensor that comes, goes or gets another shape: all of it, before and after."""

from __future__ import annotations

from dataclasses import dataclass

from monolayer.editing.splice import Array, same_rows
from monolayer.errors import DataError


@dataclass(frozen=True, eq=False)
class Swap:
    """`before` and `after`: the whole tensor; None: the model has none of that name, as of a stage that it lacks."""

    tensor: str
    before: Array | None
    after: Array | None

    def apply(self, old: Array | None) -> Array | None:
        """The new tensor, or None; an error where `old` is not what was recorded."""
        if not same(old, self.before):
            raise DataError(
                f"{self.tensor} is not as this record found it: a record belongs to the very model that was edited "
                "(undone: to the model that came out)"
            )
        return None if self.after is None else self.after.copy()

    def inverse(self) -> Swap:
        """The exchange that brings the old tensor back."""
        return Swap(self.tensor, self.after, self.before)


def same(one: Array | None, two: Array | None) -> bool:
    """Whether two tensors are the same bits, NaN as NaN; or neither is there."""
    if one is None or two is None:
        return one is two
    return one.shape == two.shape and one.dtype == two.dtype and bool(same_rows(one, two).all())
