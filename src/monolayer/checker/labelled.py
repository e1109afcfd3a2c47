"""The labelled places of a dataset in the model's numbers, their names for people, and the digest of the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.certificate import Finding
from monolayer.checker.network import Stored
from monolayer.data import Names, Sequences
from monolayer.errors import DataError
from monolayer.table import plural

Load = Callable[[], Sequences]
"""A part of the data that is read anew every time it is asked for."""
WRONG, UNSURE = "the stored weights say so", "too close to a step, or to a tie, for the error bound"
NO_CLASS = "the model has no such class"


@dataclass(frozen=True, eq=False)
class Labelled:
    """`M` labelled places of `data`.

    `rows` `(T,)`: vocabulary rows, −1 for tokens that the model lacks; None for vectors. `places` `(M,)`: tokens or
    sequences; None: all. `wanted`: `(M,)` class numbers, −1 for classes that the model lacks, or `(M, m)` reals.
    `given`, `names`: the labels as the data number and name them.
    """

    data: Sequences
    per_token: bool
    rows: Ints | None
    places: Ints | None
    wanted: Any
    given: Any
    names: Names | None

    def __len__(self) -> int:
        return len(self.wanted)

    def place(self, answering: int, before: int = 0) -> str:
        """The token or sequence that answers, in words; `before`: sequences in the parts of the data before this."""
        sequence, position, _ = place_of(self.data, answering, self.per_token)
        return f"{'' if position is None else f'token {position} of '}sequence {sequence + before}"

    def expected(self, label: int) -> Any:
        """Label number `label` as the data call it."""
        if self.names is not None:
            return self.names.names[self.given[label]]
        return real(self.given[label], self.data.labels is not None and self.data.labels.scalar)

    def finding(self, kind: Any, label: int, answering: int, got: Any, doubt: str = UNSURE) -> Finding:
        """Label number `label`, read at token or sequence `answering`, by the names that users know."""
        why = doubt if kind == "unsure" else WRONG
        if kind == "wrong" and self.names is not None and self.wanted[label] < 0:
            why = NO_CLASS
        elif kind == "wrong" and got is None:
            why = "the model has no finite vector for a token here"
        where = place_of(self.data, answering, self.per_token)
        return Finding(kind, *where, self.expected(label), got, why)


Points = Callable[[], Labelled]
"""A part of the labelled points, read anew every time it is asked for."""


def place_of(data: Sequences, answering: int, per_token: bool) -> tuple[int, int | None, Any]:
    """Sequence, position and name of the token that answers; of a sequence that answers, its number alone."""
    if not per_token:
        return answering, None, None
    return *data.place(answering), None if data.vocabulary is None else data.vocabulary.names[data.tokens[answering]]


def real(values: Any, scalar: bool) -> Any:
    """A real label as users write it."""
    return float(values[0]) if scalar else [float(x) for x in values]


def labelled(stored: Stored, data: Sequences) -> Labelled:
    """What the model must answer, and where; data that it cannot be asked about are an error."""
    config, labels, per_token = stored.config, data.labels, stored.config["per"] == "token"
    rows: Ints | None = None
    data.check_no_prompts()
    data.check_labelled()
    if config["tokens"] == "ids":
        if data.vocabulary is None or stored.vocabulary is None:
            raise DataError("the model takes ids or strings as tokens, and the data hold vectors")
        _same_kind(data.vocabulary, stored.vocabulary, "tokens")
        rows = _translation(data.vocabulary, stored.vocabulary)[data.tokens]
    elif data.vocabulary is not None or data.tokens.shape[1] != stored["lift.weight"].shape[1]:
        numbers = plural(stored["lift.weight"].shape[1], "number")
        raise DataError(f"the model takes vectors of {numbers}; the data hold others")
    if labels is None:
        predicts = config.get("next_token") and per_token
        if not predicts or data.vocabulary is None or stored.classes is None:
            raise DataError("the data have no labels, and the model does not predict next tokens: give Y")
        places = np.flatnonzero(np.diff(data.sequence, append=-1) == 0)
        if len(places) == 0:
            raise DataError("no sequence has a next token: every one has length 1")
        given = data.tokens[places + 1]
        wanted = _translation(data.vocabulary, stored.classes)[given]
        return Labelled(data, per_token, rows, places, wanted, given, data.vocabulary)
    kind = "reals" if labels.classes is None else "classes"
    if (labels.per, kind) != (config["per"], config["target"]):
        answers = f"{config['target']}, one per {config['per']}"
        raise DataError(f"the labels are {kind}, one per {labels.per}; the model answers with {answers}")
    if labels.classes is None or stored.classes is None:
        if labels.values.shape[1] != config["labels"]:
            raise DataError(f"labels have {labels.values.shape[1]} numbers, answers {config['labels']}")
        return Labelled(data, per_token, rows, labels.place, labels.values, labels.values, None)
    _same_kind(labels.classes, stored.classes, "labels")
    wanted = _translation(labels.classes, stored.classes)[labels.values]
    return Labelled(data, per_token, rows, labels.place, wanted, labels.values, labels.classes)


def _same_kind(theirs: Names, ours: Names, what: str) -> None:
    """Strings against integers is a question that does not fit, and no point where the model errs."""
    given, known = ({int} if names.identity else set(map(type, names.names)) for names in (theirs, ours))
    if given.isdisjoint(known):
        raise DataError(
            f"{what} of the data are like {theirs.names[0]!r}, those of the model like {ours.names[0]!r}: strings "
            "against integers, so the model cannot be asked about any of them"
        )


def _translation(theirs: Names, ours: Names) -> Ints:
    """Our row number for each of their names, −1 where we lack it."""
    if isinstance(theirs.names, range) and isinstance(ours.names, range):
        number = np.arange(len(theirs.names))
        return np.where(number < len(ours.names), number, -1)
    table = {name: row for row, name in enumerate(ours.names)}  # not the reader's own: it may be at fault
    return np.array([table.get(name, -1) for name in theirs.names], dtype=np.int64)


def data_digest(*given: Sequences | Load) -> str:
    """SHA-256 of what the data say, all parts as one, whatever numbers stand for names (docs/certificate.md).

    Of `{"tokens": names, "labels": …}`, and of the digests of lengths, tokens, lengths of prompts, which places have
    labels, and labels, each of part after part.
    """
    parts = [partial(lambda data: data, part) if isinstance(part, Sequences) else part for part in given]
    names = [_used(part()) for part in parts]
    tokens, classes = (_all_names(list(tables)) for tables in zip(*names, strict=True))
    columns = [hashlib.sha256() for _ in range(5)]
    for part in parts:
        data = part()
        labels = data.labels
        found = [data.lengths, _renumbered(data.vocabulary, tokens, data.tokens), data.prompts]
        if labels is not None:
            found += [_places_with_labels(data), _renumbered(labels.classes, classes, labels.values)]
        for column, values in zip(columns, found, strict=False):
            if values is not None:  # little-endian whatever the machine; adding 0 turns −0.0 into 0.0
                plain = values + 0 if values.dtype.kind == "f" else values
                column.update(np.ascontiguousarray(plain, dtype=values.dtype.newbyteorder("<")).data)
    kind = None if labels is None else {"per": labels.per, "classes": classes and [*classes], "scalar": labels.scalar}
    dimension = None if data.vocabulary is not None else int(data.tokens.shape[1])
    head = {"tokens": tokens and [*tokens], "dimension": dimension, "labels": kind}
    line = json.dumps(head, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    return hashlib.sha256(line + b"".join(column.digest() for column in columns)).hexdigest()


def _places_with_labels(data: Sequences) -> Any:
    """A byte for each place, 1 with a label and 0 without."""
    there = np.ones(data.labellable, dtype=np.uint8)
    if data.prompts is not None or (data.labels is not None and data.labels.place is not None):
        there[:] = 0
        there[data.labelled_places] = 1
    return there


def _used(data: Sequences) -> tuple[list[Any] | None, list[Any] | None]:
    """Names of tokens and classes that occur; None for vectors and reals."""
    columns = [(data.vocabulary, data.tokens)]
    columns += [(None, data.tokens)] if data.labels is None else [(data.labels.classes, data.labels.values)]
    tokens, classes = (
        None if names is None else names.decode(np.flatnonzero(np.bincount(rows, minlength=len(names)))).tolist()
        for names, rows in columns
    )
    return tokens, classes


def _all_names(tables: list[list[Any] | None]) -> dict[Any, int] | None:
    """The place of every name among those of all tables, integers before strings, in order."""
    if tables[0] is None:
        return None
    every = {name for table in tables for name in table or ()}
    return {name: i for i, name in enumerate(sorted(every, key=lambda name: (isinstance(name, str), name)))}


def _renumbered(names: Names | None, place: dict[Any, int] | None, rows: Any) -> Any:
    """Rows by their places among the names that occur, in as few bytes as these need; vectors and reals as they are."""
    if names is None or place is None:
        return rows
    used = np.flatnonzero(np.bincount(rows, minlength=len(names)))
    table = np.zeros(len(names), dtype=np.min_scalar_type(max(0, len(place) - 1)))
    table[used] = [place[name] for name in names.decode(used).tolist()]
    return table.take(rows)
