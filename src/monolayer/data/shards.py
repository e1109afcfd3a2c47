"""Read one dataset from several files: a list of paths, or a pattern such as `shards/*.parquet`, in order of names.

The dataset does not depend on how its rows are distributed over files: tokens and labels get the numbers that one file
with all rows would have given them.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from reprlib import repr as short
from typing import NamedTuple

import numpy as np

from monolayer.arrays import NUMBERS_IN_CACHE, Array, Ints
from monolayer.data.growing import Growing
from monolayer.data.names import Names
from monolayer.data.npz import array_sizes
from monolayer.data.origin import Origin
from monolayer.data.plain import check_not_open
from monolayer.data.sequences import Sequences
from monolayer.errors import DataError
from monolayer.table import plural

LETTERS, PACKED = 3, 5
"""Rough guesses: the least bytes of text per token with its label and punctuation, and how much gzip shrinks text."""


def files(data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files that a path, a pattern (`*`, `?`, `[…]`, `**`) or a list of these names. A duplicate is an error."""
    if isinstance(data, str | os.PathLike):
        return _matching(os.fspath(data))
    check_not_open(data)
    if not hasattr(data, "__iter__"):
        raise DataError(f"a {type(data).__name__} is neither the path of a data file nor a list of paths")
    paths = list(data)
    odd = next((each for each in paths if not isinstance(each, str | os.PathLike)), None)
    if odd is not None:
        check_not_open(odd)
        raise DataError(f"the list of files holds {short(odd)} ({type(odd).__name__}), which is not a path")
    names = [name for each in paths for name in _matching(os.fspath(each))]
    if not names:
        raise DataError("the list of files is empty: give at least one")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{twice} is given twice: its rows would be in the data twice")
    if "-" in names and len(names) > 1:
        raise DataError("standard input (-) is one dataset: give it alone, or give files")
    return names


def names_files(data: str) -> bool:
    """Whether a string stands for files: a path that exists, a pattern, or standard input (`-`).

    `Where is Oz?` is a question: what ends with `?` or has white space in it is a pattern only if it matches a file.
    """
    if data == "-" or os.path.exists(data):  # noqa: PTH110  (a text may be too long a path)
        return True
    is_text = data.endswith("?") or any(letter.isspace() for letter in data)
    return glob.has_magic(data) and not (is_text and next(glob.iglob(data, recursive=True), None) is None)  # noqa: PTH207


def _matching(data: str) -> list[str]:
    """The files that a path or a pattern stands for, in order of names. A file of that exact name is no pattern."""
    if data == "-" or not glob.has_magic(data) or Path(data).exists():
        return [data]
    matching = sorted(name for name in glob.glob(data, recursive=True) if not Path(name).is_dir())  # noqa: PTH207
    if not matching:
        raise DataError(f"the pattern {data!r} matches no file: check the path, and put quotes around the pattern")
    return matching


def read_shards(names: list[str], read: Callable[[str], Sequences]) -> Sequences:
    """Read the files `names` one after the other with `read`, and join them. Files of different kinds are an error."""
    parts: list[Sequences] = []
    for name in names:
        parts.append(read(name))
        one, two = kinds(parts[0]), kinds(parts[-1])
        if one != two:
            raise strangers(names[0], one, name, two)
    return join_datasets(parts)


def join_datasets(parts: list[Sequences]) -> Sequences:
    """Join datasets of one kind (`kinds`) into one, in order."""
    growing = Growing("the files", "arrays")
    # Strings are split alike in all parts (`kinds`); integers are whole only if they are so in every part.
    units = {None if part.vocabulary is None else part.vocabulary.unit for part in parts}
    growing.cut = units.pop() if len(units) == 1 else None
    for part in parts:
        tokens = part.tokens if part.vocabulary is None else part.vocabulary.decode(part.tokens)
        labelling = None if part.labels is None else part.labels.labelling
        growing.rows(range(len(part)), tokens, part.lengths, part.named_labels(), labelling)
        growing.prompts += [] if part.prompts is None else part.prompts.tolist()
    origin = Origin.joined((part.origin, len(part)) for part in parts)
    plans = tuple(plan for part in parts for plan in part.plans)
    return Sequences(*growing.finish()._replace(origin=origin, plans=plans))


class UsedNames(NamedTuple):
    """The `names` that occur `(U,)`, which of them each value has (`rows` `(P,)`), and how often each occurs `(U,)`."""

    names: list[str] | Ints
    rows: Array
    counts: Ints


def used(names: Names | None, rows: Ints) -> UsedNames:
    """The names of a table that occur in `rows` `(P,)`, and `rows` renumbered for these names alone.

    The new row numbers have the smallest integer type that holds them.
    """
    assert names is not None  # the parts are of one kind
    count, numbers = np.zeros(len(names), np.int64), np.empty(len(rows), np.min_scalar_type(max(len(names) - 1, 0)))
    at_once = max(NUMBERS_IN_CACHE, 4 * len(names))
    for start in range(0, len(rows), at_once):  # what was just counted lies in the cache when it is shortened
        part = slice(start, start + at_once)
        count += np.bincount(rows[part], minlength=len(names))
        numbers[part] = rows[part]
    there = np.flatnonzero(count)
    kind = np.min_scalar_type(max(len(there) - 1, 0))
    if len(there) and there[-1] == len(there) - 1:  # no name below the last is missing: all keep their numbers
        numbers = numbers.astype(kind, copy=False)
    else:
        place = np.zeros(len(names), kind)
        place[there] = np.arange(len(there))
        numbers = place.take(numbers)
    if names.integers:
        return UsedNames(np.asarray(names.decode(there), dtype=np.int64), numbers, count[there])
    return UsedNames([str(names.names[row]) for row in there.tolist()], numbers, count[there])


def numbered(parts: Sequence[list[str] | Ints]) -> tuple[Names, list[Ints]]:
    """One table with the names of all parts, and for each part the row numbers of its names in that table.

    The table is the one that a single file with all rows would have given.
    """
    if isinstance(parts[0], np.ndarray):
        values = np.unique(np.concatenate(parts))
        names, rows = Names.of_integers(values)
        return names, [rows[np.searchsorted(values, part)] for part in parts]
    names = Names(tuple(sorted({str(name) for part in parts for name in part})))
    return names, [np.array([names.rows[name] for name in part], dtype=np.int64) for part in parts]


def tokens_at_most(name: str, format: str | None = None) -> int:
    """An estimate, rather too high, of how many tokens a file holds; 0 if there is no telling.

    Without a `format`, the suffix of the name decides. Nothing is raised for a file that cannot be read.
    """
    file = Path(name)
    estimate = ESTIMATES.get(format or file.suffix.lower().removeprefix("."), _tokens_of_text)
    with suppress(Exception):  # the reader reports whatever is wrong with the file
        return estimate(file)
    return 0


def _tokens_of_text(file: Path) -> int:
    return file.stat().st_size * (PACKED if file.suffix.lower() == ".gz" else 1) // LETTERS


def _tokens_of_arrays(file: Path) -> int:
    return max(min(size.values, size.most_bytes) for size in array_sizes(file).values())


def _tokens_of_parquet(file: Path) -> int:
    from pyarrow.parquet import read_metadata

    meta = read_metadata(file)
    groups = [meta.row_group(group) for group in range(meta.num_row_groups)]
    return int(max(sum(group.column(at).num_values for group in groups) for at in range(meta.num_columns)))


ESTIMATES = {"npz": _tokens_of_arrays, "parquet": _tokens_of_parquet, "pq": _tokens_of_parquet}
"""How to estimate the tokens in a file that is not text, by its format or suffix."""


def strangers(one: str, its: str, other: str, theirs: str) -> DataError:
    """The error to raise if two files hold data of different kinds, `its` and `theirs` in words."""
    return DataError(
        f"{one} and {other} do not go together: the first has {its}, the second {theirs}. Files of one dataset have "
        "tokens of one kind, split in the same way (unit=, --unit), and labels of one kind or none"
    )


def _kind_in_words(values: Array, names: Names | None) -> str:
    """What kind of tokens or labels these are, such as 'integers' or 'strings split into words'."""
    if names is None:
        return f"vectors of {plural(values.shape[1], 'number')}"
    return "integers" if names.integers else "strings" if names.unit is None else f"strings split into {names.unit}"


def kinds(data: Sequences) -> str:
    """The kinds of tokens and labels in a dataset, in words. They must be the same in all of its files."""
    if data.prompts is not None:
        return "prompts and answers"
    tokens, labels = _kind_in_words(data.tokens, data.vocabulary), data.labels
    if labels is None:
        return f"{tokens} as tokens and no labels"
    kind = "real numbers" if labels.scalar else _kind_in_words(labels.values, labels.classes)
    return f"{tokens} as tokens and {kind} as labels, one per {labels.per}"
