"""A text as sequences to memorize: every window of it, labelled with what comes next.

Notation: `T` tokens, words or characters, behind one begin marker; the window at place `k` holds the last `w` tokens
up to `k`, or all of them where there are fewer. Its label is the next token; the last one's is the end marker. Both
markers are the empty string, which is no token of any text. The smallest `w` at which equal windows have equal labels
is found first: with it, any `w` tokens in a row tell how the text goes on.

Windows of 1, 2, 3, 4, 6, 8, 12 … tokens are there too, wherever so few already tell it, so that a short prompt can do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from monolayer.arrays import Ints, Words
from monolayer.data.distinct import scramble
from monolayer.data.names import NameBuilder
from monolayer.data.sequences import Labels, Sequences
from monolayer.errors import DataError

TextUnit = Literal["words", "characters"]

MARK = ""
"""Begins the text as a token and ends it as a label."""
LARGEST_WINDOW = 256
"""Tokens up to which a window is tried: a passage that long, repeated, makes a text ambiguous."""
SHORT_TEXT = 1 << 17
"""Tokens of a text up to which it gets short windows too; they make several points of every token."""
_WORDS = re.compile(r"\w+(?:['’]\w+)*|\s+|[^\w\s]")
_BASE = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Script:
    """How a text was cut: into words (spaces and signs are tokens of their own) or characters; `window` is `w`."""

    unit: TextUnit
    window: int

    def split(self, text: str) -> list[str]:
        """Tokens whose concatenation is the text."""
        return split(text, self.unit)

    def short(self, size: int) -> int:
        """The longest window for a prompt of `size ≥ 1` tokens from the middle of the text."""
        return (
            self.window if size >= self.window else max(short for short in _short_sizes(self.window) if short <= size)
        )


def split(text: str, unit: TextUnit) -> list[str]:
    """Tokens whose concatenation is the text."""
    if unit not in get_args(TextUnit):
        raise DataError(f"a text is split into words or characters, not {unit!r}")
    return list(text) if unit == "characters" else _WORDS.findall(text)


def read_text(path: str | Path) -> str:
    """A UTF-8 text file, line ends as they are."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def raven() -> str:
    """Edgar Allan Poe, *The Raven* (1845), in the public domain."""
    return files("monolayer.data").joinpath("texts/raven.txt").read_text(encoding="utf-8")


def windows(text: str, unit: TextUnit = "words", window: int | None = None) -> tuple[Sequences, Script]:
    """Every window of the text with its next token, and how it was cut. None: the smallest window that serves."""
    tokens = split(text, unit)
    if not tokens:
        raise DataError("the text is empty: there is nothing to recite")
    builder = NameBuilder()
    names, rows = builder.freeze(np.array(builder.encode([MARK, *tokens]), dtype=np.int64))
    rows = rows.astype(np.int64)
    label = np.append(rows[1:], rows[0])
    if window is not None and not (isinstance(window, int) and window >= 1):
        raise DataError(f"window must be a whole number from 1 on, not {window!r}")
    hashes = _hashes(rows)
    if window is None:
        window = _smallest(hashes, label, lambda place: _line_of_token(tokens, place))
    window = min(window, len(rows))
    place, lengths = np.arange(len(rows)), np.minimum(np.arange(1, len(rows) + 1), window)
    for size in _short_sizes(window) if len(rows) <= SHORT_TEXT else ():
        telling = _telling(_hash_of_windows(hashes, size), label, size)
        place, lengths = np.append(place, telling), np.append(lengths, np.full(len(telling), size))
    ends = np.cumsum(lengths)
    flat = rows[np.repeat(place, lengths) - (np.repeat(ends, lengths) - 1 - np.arange(ends[-1]))]
    data = Sequences(flat, lengths, names, Labels(label[place], "sequence", names))
    return data, Script(unit, window)


def _short_sizes(window: int) -> list[int]:
    """Sizes of short windows: powers of two and three halves of them, below `window`."""
    sizes = [1, *(size << i for i in range(window.bit_length()) for size in (2, 3))]
    return [size for size in sizes if size < window]


def _hashes(rows: Ints) -> list[Words]:
    """Hashes `(T + 1,)` of the windows of 1, 2, 4 … tokens that end at each place: sums of words times powers."""
    found = [scramble(rows.astype(np.uint64))]
    while (width := 1 << (len(found) - 1)) < min(LARGEST_WINDOW, len(rows)):
        found.append(_joined_hashes(found[-1], found[-1], width))
    return found


def _hash_of_windows(hashes: list[Words], size: int) -> Words:
    """Hashes of windows of any size below twice the largest."""
    power = size.bit_length() - 1
    rest = size - (1 << power)
    return hashes[power] if rest == 0 else _joined_hashes(hashes[power], _hash_of_windows(hashes, rest), 1 << power)


def _smallest(hashes: list[Words], label: Ints, line: Callable[[int], str]) -> int:
    """The least `w` at which windows that end alike go on alike: doubling, then halving."""
    power = next((i for i, key in enumerate(hashes) if _contradiction(key, label) is None), None)
    if power is None:
        one, two = sorted(_contradiction(hashes[-1], label) or (0, 0))
        after = "ends" if two == len(label) - 1 else "continues differently"
        raise DataError(
            f"the text repeats itself: the {1 << (len(hashes) - 1)} tokens up to {line(one)} occur again up to "
            f"{line(two)}, and then it {after}. No window of up to {LARGEST_WINDOW} tokens tells the two apart: give "
            "a larger one, or leave out one of the passages"
        )
    if power == 0:
        return 1
    least = 1 << (power - 1)  # ambiguous; twice as much is not
    for i in range(power - 2, -1, -1):
        if _contradiction(_hash_of_windows(hashes, least + (1 << i)), label) is not None:
            least += 1 << i
    return least + 1


def _telling(key: Words, label: Ints, width: int) -> Ints:
    """One place for every window of `width` tokens that always goes on alike and does not reach the begin marker."""
    order = np.argsort(key[width:], kind="stable") + width
    new = np.append(True, key[order][1:] != key[order][:-1])
    odd = np.append(False, (label[order][1:] != label[order][:-1]) & ~new[1:])
    group = np.cumsum(new) - 1
    places: Ints = order[new][np.bincount(group, weights=odd) == 0]
    return places


def _joined_hashes(late: Words, early: Words, width: int) -> Words:
    """Hashes of windows whose last `width` tokens have the hash `late` and the ones before them the hash `early`."""
    before = np.zeros_like(early)
    before[width:] = early[:-width]
    return late + before * np.uint64(pow(int(_BASE), width, 1 << 64))


def _contradiction(key: Words, label: Ints) -> tuple[int, int] | None:
    """Two places with equal keys and different labels, or None."""
    order = np.argsort(key, kind="stable")
    odd = np.flatnonzero((key[order][1:] == key[order][:-1]) & (label[order][1:] != label[order][:-1]))
    return (int(order[odd[0]]), int(order[odd[0] + 1])) if len(odd) else None


def _line_of_token(tokens: list[str], place: int) -> str:
    """'line 7' for the token before place `place` of the rows, which begin with the marker."""
    return f"line {1 + ''.join(tokens[:place]).count(chr(10))}"
