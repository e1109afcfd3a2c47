"""The first pass: a file becomes numbers, once, so that later passes neither parse it nor can see it change.

A piece `encoded-K` holds, one after the other, token codes `(T,)`, label codes `(P,)` or real labels `(P, m)`, and
lengths `(N,)` unless all are equal; a code is a place in the table of names that occur in this file. `Table` joins
these tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.cluster.spill import PausedError, Spill, identity
from monolayer.construct.line.points import BLOCK
from monolayer.data import Names, Sequences, read
from monolayer.data.shards import kinds
from monolayer.errors import DataError


@dataclass(frozen=True)
class Reading:
    """How files are read (`monolayer.data.read`), and whether labels may be the next tokens."""

    options: dict[str, Any]
    causal: bool


def encode(spill: Spill, name: str, shard: dict[str, Any], reading: Reading) -> None:
    """A file as the piece `name`."""
    if identity(shard["name"]) != shard:
        raise _changed(shard["name"])
    try:
        data = read(shard["name"], **reading.options)
        check(data, reading.causal, shard["name"])
    except DataError as error:
        raise PausedError(str(error)) from None
    if identity(shard["name"]) != shard:
        raise _changed(shard["name"])
    token_names, tokens, token_count = used(data.vocabulary, data.tokens)
    blocks, facts = [tokens], {"token_count": token_count, **_names("token", token_names)}
    labels = data.labels
    if labels is not None and labels.classes is None:
        values = labels.values + 0.0  # −0.0 is 0.0
        blocks.append(values)
        if labels.per == "token":
            facts["last"] = np.zeros((len(token_names), values.shape[1]))
            facts["last"][tokens] = values  # the label that comes last stays
    elif labels is not None:
        label_names, values, label_count = used(labels.classes, labels.values)
        blocks.append(values)
        facts |= {"label_count": label_count, **_names("label", label_names)}
        if labels.per == "token":
            facts["last"] = last_of_each(len(token_names), tokens, values)
    else:
        inner = data.position > 0
        # The label of a token is the next one: what comes last after each, and how often each is a label.
        before, after = tokens[np.flatnonzero(inner) - 1], tokens[inner]
        last = last_of_each(len(token_names), before, after)
        facts |= {"last": last, "label_count": np.bincount(after, minlength=len(token_names))}
    if not data.rectangular:
        blocks.append(data.lengths)
    spill.write(
        name,
        blocks,
        sequences=len(data),
        tokens=len(data.tokens),
        longest=int(data.lengths.max()),
        kinds=np.array([kinds(data)]),
        types=np.array([str(block.dtype) for block in blocks]),
        reals=labels.values.shape[1] if labels is not None and labels.classes is None else 0,
        scalar=labels is not None and labels.scalar,
        **facts,
    )


def _changed(name: str) -> DataError:
    return PausedError(f"{name} changed while it was read: wait until it is written")


def check(data: Sequences, causal: bool, name: str) -> None:
    """What is built out of core: ids and strings, with labels, or with the next token as the label."""
    if data.vocabulary is None:
        raise DataError(
            f"the tokens of {name} are vectors: memorize_files takes ids and strings, memorize takes vectors"
        )
    if data.labels is None and not causal:
        raise DataError(f"{name} has no labels: add them, or pass causal=True to memorize each next token")
    if data.labels is not None and data.labels.per == "sequence" and causal:
        raise DataError(
            f"{name} has a label a sequence, which is read at the begin-of-sequence token, and that sees nothing else "
            "in a causal model: drop causal=True, or give one label a token"
        )


def last_of_each(count: int, tokens: NDArray[Any], values: NDArray[Any]) -> Ints:
    """The value that comes last with each of `count` tokens `(V,)`, −1 where none does: from behind, till all do."""
    last = np.full(count, -1, dtype=np.int64)
    for end in range(len(tokens), 0, -BLOCK):
        here, found = slice(max(0, end - BLOCK), end), np.full(count, -1, dtype=np.int64)
        found[tokens[here]] = values[here]  # of several the last stays
        last = np.where(last < 0, found, last)
        if (last >= 0).all():
            break
    return last


def used(names: Names | None, rows: Ints) -> tuple[list[Any] | Ints, NDArray[Any], Ints]:
    """The names that occur, the places among them in the smallest type that holds these, and how often each occurs."""
    assert names is not None  # checked
    count = np.bincount(rows, minlength=len(names))
    there = np.flatnonzero(count)
    kind = np.min_scalar_type(max(len(there) - 1, 0))
    if len(there) == len(names):
        places = rows.astype(kind)
    else:
        place = np.zeros(len(names), dtype=kind)
        place[there] = np.arange(len(there))
        places = place.take(rows)
    if names.integers:
        return np.asarray(names.decode(there), dtype=np.int64), places, count[there]
    return [str(names.names[row]) for row in there.tolist()], places, count[there]


def _names(what: str, names: list[Any] | Ints) -> dict[str, Any]:
    """Names as an array that needs no pickle: integers, or JSON as bytes."""
    if isinstance(names, np.ndarray):
        return {f"{what}_names": names}
    return {f"{what}_names": np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)}


@dataclass(frozen=True, eq=False)
class Table:
    """The names of all files, and for each file the row of each of its codes."""

    names: Names
    rows: list[Ints]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, parts: list[NDArray[Any]]) -> Table:
        """As one file with all rows would have named and numbered them."""
        if parts[0].dtype == np.int64:
            values = np.unique(np.concatenate(parts))
            names, rows = Names.of_integers(values)
            return cls(names, [rows[np.searchsorted(values, part)] for part in parts])
        lists = [json.loads(part.tobytes()) for part in parts]
        every = sorted({name for part in lists for name in part})
        place = {name: i for i, name in enumerate(every)}
        return cls(Names(tuple(every)), [np.array([place[name] for name in part], dtype=np.int64) for part in lists])

    def total(self, counts: list[Ints]) -> Ints:
        """How often each name occurs in all files `(V,)`."""
        total = np.zeros(len(self), dtype=np.int64)
        for rows, count in zip(self.rows, counts, strict=True):
            total[rows] += count
        return total
