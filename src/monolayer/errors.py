"""The few kinds of error. Each message says what failed, where, and what to do about it.

Every error of ours is a `MonolayerError`, so one `except` (and one exit code of the command line) covers
them; each is also the built-in kind that a caller would expect (`ValueError`, `MemoryError`).
"""

from __future__ import annotations

from collections.abc import Iterable

NEAR = 0.6
"""How alike two words must be for the one to be offered in place of the other: 1 is equal."""


class MonolayerError(Exception):
    """Anything that monolayer refuses to do, with its reason."""


class DataError(MonolayerError, ValueError):
    """The data, a file or an argument is not what it must be. Nothing was changed."""


class ContradictionError(DataError):
    """Two points have equal token and equal context but different labels: no equivariant map fits both."""


class PrecisionError(MonolayerError, ArithmeticError):
    """The data are consistent, but the floating-point format cannot tell their points apart."""


class ModelFileError(MonolayerError, ValueError):
    """A saved model is truncated, foreign, changed after it was written, or of a newer version."""


class OutOfMemoryError(MonolayerError, MemoryError):
    """The computation would need more memory than there is; the message says how much."""


def nearest(word: str, known: Iterable[object], count: int = 1) -> list[str]:
    """Known words that are spelt most like `word`, for an error message: at most `count`, none where none is near."""
    from difflib import get_close_matches

    return get_close_matches(word, [str(name) for name in known], n=count, cutoff=NEAR)
