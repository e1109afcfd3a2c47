"""The kinds of error. Each message says what failed, where, and what to do about it.

Every error of monolayer is a `MonolayerError`, so one `except` (and one exit code of the command line) covers
them; each is also the built-in kind that a caller would expect (`ValueError`, `MemoryError`).
"""

from __future__ import annotations

from collections.abc import Iterable

LEAST_SIMILARITY = 0.6
"""Least similarity, from 0 to 1, at which one word is suggested in place of another; 1 means equal."""

INTERRUPTED, SAID_WHEN_INTERRUPTED = 130, "interrupted; nothing is half-written"
"""The exit code of a command that Ctrl-C ended, 128 and the number of the signal; and what it says."""


class MonolayerError(Exception):
    """Anything that monolayer refuses to do, with its reason."""


class DataError(MonolayerError, ValueError):
    """The data, a file or an argument is not what it must be. Nothing was changed."""


class ContradictionError(DataError):
    """Two points have equal token and equal context but different labels: no equivariant map fits both."""


class KeptTextError(DataError):
    """Attached facts would answer within texts that are to be kept as they are.

    `places`: every such place, as the number of the text, that of the token in it, and that of the fact.
    """

    def __init__(self, message: str, places: tuple[tuple[int, int, int], ...]) -> None:
        super().__init__(message)
        self.places = places


class PrecisionError(MonolayerError, ArithmeticError):
    """The data are consistent, but the floating-point format cannot tell their points apart.

    `rows`: rows of the data that could be taken out, where they are known.
    """

    def __init__(self, message: str, *, rows: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.rows = rows


class ModelFileError(MonolayerError, ValueError):
    """A saved model is truncated, foreign, changed after it was written, or of a newer version."""


class OutOfMemoryError(MonolayerError, MemoryError):
    """The computation would need more memory than there is; the message says how much."""


def needs_extra(what: str, extra: str) -> DataError:
    """The error where a package is missing: `what` needs it, and the `extra` of that name installs it."""
    return DataError(f"{what}: pip install 'monolayer[{extra}]'")


def similar_words(word: str, known: Iterable[object], count: int = 1) -> list[str]:
    """Up to `count` known words that are spelt most like `word`, for an error message; fewer if none is similar."""
    from difflib import get_close_matches

    return get_close_matches(word, [str(name) for name in known], n=count, cutoff=LEAST_SIMILARITY)
