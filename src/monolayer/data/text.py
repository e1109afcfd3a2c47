"""Turn a text into sequences to memorize: every window of it, labelled with the token that comes next.

Notation: the text has `T` tokens, words or characters, after one begin marker. The window at place `k` holds the last
`w` tokens up to `k`, or all of them if there are fewer. Its label is the next token; the label of the last window is
the end marker. Both markers are the empty string, which is never a token of a text. First, the smallest `w` is found at
which equal windows have equal labels: then any `w` consecutive tokens determine how the text goes on.

Windows of 1, 2, 3, 4, 6, 8, 12 … tokens are added wherever so few tokens already determine what comes next, so that a
short prompt is enough there.
"""

from __future__ import annotations

import os
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
from monolayer.data.plan import ReadPlan
from monolayer.data.sequences import Labels, Sequences
from monolayer.errors import DataError

TextUnit = Literal["words", "characters"]

MARK = ""
"""The begin marker, which is the first token, and the end marker, which is the last label."""
LARGEST_WINDOW = 256
"""The most tokens that are tried for a window. A text that repeats a passage of this length is called ambiguous."""
SHORT_TEXT = 1 << 17
"""A text of more tokens than this gets no short windows, since they add several points per token."""
_WORDS = re.compile(r"\w+(?:['’]\w+)*|\s+|[^\w\s]")
_FILE_NAME = re.compile(r".*[^\s.]\.[A-Za-z][A-Za-z0-9]{0,4}|\S*/\S*")
"""A text that looks like a file name: one line that ends in a short suffix, or has a slash and no blanks."""
LONGEST_PATH = 4096
"""A longer string is never taken for a path."""
_BASE = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Script:
    """How a text was split: into words (spaces and punctuation are tokens of their own) or into characters.

    `window` is `w`.
    """

    unit: TextUnit
    window: int

    def split(self, text: str) -> list[str]:
        """Split another text in the same way."""
        return split(text, self.unit)

    def short(self, size: int) -> int:
        """The size of the longest window that a prompt of `size ≥ 1` tokens from the middle of the text fills."""
        if size >= self.window:
            return self.window
        return max(short for short in _short_sizes(self.window) if short <= size)


def split(text: str, unit: TextUnit) -> list[str]:
    """Split a text into words or characters, as `unit` says. The tokens joined together are the text again."""
    if unit not in get_args(TextUnit):
        raise DataError(f"a text is split into words or characters, not {unit!r}")
    return list(text) if unit == "characters" else _WORDS.findall(text)


def read_text(path: str | Path) -> str:
    """Read a UTF-8 text file, and keep its line ends as they are."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def text_of(source: object, text: object = None) -> str:
    """The text that was given: as `text`, or as `source`, which is the path of a file or the text itself.

    A string is a path if a file has this name. One that looks like the name of a file and names none is an error.
    """
    if (source is None) == (text is None):
        raise DataError("give a text in one way: the path of a file, or text=")
    if isinstance(source, os.PathLike):
        return read_text(Path(source))
    content = source if text is None else text
    if not isinstance(content, str):
        raise DataError(
            f"a text is a string, or the path of a file, not a {type(content).__name__}; sequences are for memorize"
        )
    if text is not None or len(content) > LONGEST_PATH or "\n" in content:
        return content
    if os.path.isfile(content):  # noqa: PTH113  (a path that cannot be, such as one with a NUL, is no error here)
        return read_text(content)
    if _FILE_NAME.fullmatch(content):
        raise DataError(
            f"there is no file {content!r}. If it is a path, check it; if it is the text itself, pass it as text="
        )
    return content


def raven() -> str:
    """The text of Edgar Allan Poe's *The Raven* (1845), which is in the public domain."""
    return files("monolayer.data").joinpath("texts/raven.txt").read_text(encoding="utf-8")


def windows(text: str, unit: TextUnit = "words", window: int | None = None) -> tuple[Sequences, Script]:
    """Every window of the text with its next token, and how the text was split.

    `unit`: whether tokens are words or characters. `window`: `w`; by default the smallest one at which equal windows
    have equal labels.
    """
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
    plan = ReadPlan("the text", "windows", unit=unit, per="sequence", rows=len(place), places=len(place))
    data = Sequences(flat, lengths, names, Labels(label[place], "sequence", names), plans=(plan,))
    return data, Script(unit, window)


def _short_sizes(window: int) -> list[int]:
    """The sizes of short windows below `window`: the powers of two, and 1.5 times these."""
    sizes = [1, *(size << i for i in range(window.bit_length()) for size in (2, 3))]
    return [size for size in sizes if size < window]


def _hashes(rows: Ints) -> list[Words]:
    """Hashes `(T + 1,)` of the windows of 1, 2, 4 … tokens that end at each place.

    A hash is the sum of the scrambled tokens, each multiplied by a power of `_BASE`, modulo 2^64.
    """
    hashes = [scramble(rows.astype(np.uint64))]
    while (width := 1 << (len(hashes) - 1)) < min(LARGEST_WINDOW, len(rows)):
        hashes.append(_joined_hashes(hashes[-1], hashes[-1], width))
    return hashes


def _hash_of_windows(hashes: list[Words], size: int) -> Words:
    """Hashes of the windows of `size` tokens, which may be anything below twice the largest size in `hashes`."""
    power = size.bit_length() - 1
    rest = size - (1 << power)
    return hashes[power] if rest == 0 else _joined_hashes(hashes[power], _hash_of_windows(hashes, rest), 1 << power)


def _smallest(hashes: list[Words], label: Ints, line: Callable[[int], str]) -> int:
    """The smallest `w` at which equal windows have equal labels, found by doubling and then by bisection.

    `line` describes the place of a token in the text, for the error if there is no such `w`.
    """
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
    too_small = 1 << (power - 1)  # this size is ambiguous, and twice this size is not
    for i in range(power - 2, -1, -1):
        if _contradiction(_hash_of_windows(hashes, too_small + (1 << i)), label) is not None:
            too_small += 1 << i
    return too_small + 1


def _telling(key: Words, label: Ints, width: int) -> Ints:
    """One place of each different window of `width` tokens that always has the same label.

    Windows that reach back to the begin marker are left out. `key` holds the hashes of the windows.
    """
    order = np.argsort(key[width:], kind="stable") + width
    new = np.append(True, key[order][1:] != key[order][:-1])
    odd = np.append(False, (label[order][1:] != label[order][:-1]) & ~new[1:])
    group = np.cumsum(new) - 1
    places: Ints = order[new][np.bincount(group, weights=odd) == 0]
    return places


def _joined_hashes(late: Words, early: Words, width: int) -> Words:
    """Hashes of windows whose last `width` tokens have the hash `late`, and whose other tokens the hash `early`."""
    before = np.zeros_like(early)
    before[width:] = early[:-width]
    return late + before * np.uint64(pow(int(_BASE), width, 1 << 64))


def _contradiction(key: Words, label: Ints) -> tuple[int, int] | None:
    """Two places with equal keys and different labels; None if there are none."""
    order = np.argsort(key, kind="stable")
    odd = np.flatnonzero((key[order][1:] == key[order][:-1]) & (label[order][1:] != label[order][:-1]))
    return (int(order[odd[0]]), int(order[odd[0] + 1])) if len(odd) else None


def _line_of_token(tokens: list[str], place: int) -> str:
    """The line of the text, such as 'line 7', at which place `place` ends; place 0 is the begin marker."""
    return f"line {1 + ''.join(tokens[:place]).count(chr(10))}"
