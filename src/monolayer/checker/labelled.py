"""The labelled places of a dataset in the model's numbers, their names for people, and the digest of the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array, Bools, Floats, Ints, slices
from monolayer.checker.certificate import Finding, Kind
from monolayer.checker.network import Stored
from monolayer.data import Names, Sequences
from monolayer.data.labelling import Labelling
from monolayer.data.names import Name
from monolayer.data.subnormal import without_negative_zeros
from monolayer.errors import DataError
from monolayer.table import plural

Load = Callable[[], Sequences]
"""A function that reads one part of the data, anew at each call."""
WRONG, UNSURE = "according to the stored weights", "too close to a step, or to a tie, for the error bound"
NO_CLASS = "the model has no such class"


class PointVerdicts(NamedTuple):
    """What is known of `M` points: which surely get the wanted class, which surely another, and which other.

    `got`: a class whose logit is surely larger than that of the wanted class, −1 where none is.
    """

    right: Bools
    wrong: Bools
    got: Ints


class PointPlace(NamedTuple):
    """Where a point lies in the data: sequence, position and name of the token that answers.

    `position` and `token` are None where a whole sequence answers; `token` also where tokens are vectors.
    """

    sequence: int
    position: int | None
    token: object


@dataclass(frozen=True, eq=False)
class Labelled:
    """`M` labelled places of `data`.

    `labelling`: what labels belong to. `rows` `(T,)`: vocabulary row of each token,
    −1 for tokens that the model lacks; None for vectors. `places` `(M,)`: the tokens or sequences that have labels;
    None: all have one. `wanted`: class numbers `(M,)` of the model, −1 for classes that it lacks, or reals `(M, m)`.
    `given`: the labels as numbered in the data; `names`: their names there, None for reals.
    """

    data: Sequences
    labelling: Labelling
    rows: Ints | None
    places: Ints | None
    wanted: Any
    given: Any
    names: Names | None

    def __len__(self) -> int:
        return len(self.wanted)

    def place(self, answering: int, before: int = 0) -> str:
        """Name the token or sequence number `answering`, in words.

        `before`: how many sequences the parts of the data before this one have.
        """
        place = place_of(self.data, answering, self.labelling)
        token = "" if place.position is None else f"token {place.position} of "
        return f"{token}sequence {place.sequence + before}"

    def expected(self, label: int) -> Any:
        """Label number `label`, by its name in the data."""
        if self.names is not None:
            return self.names.names[self.given[label]]
        return real(self.given[label], self.data.labels is not None and self.data.labels.scalar)

    def finding(self, kind: Kind, label: int, answering: int, got: object, doubt: str = UNSURE) -> Finding:
        """The finding about label number `label`, which token or sequence `answering` answers for.

        `got`: what the model answers, None if nothing. `doubt`: why an unsure point is unsure.
        """
        why = doubt if kind == "unsure" else WRONG
        if kind == "wrong" and self.names is not None and self.wanted[label] < 0:
            why = NO_CLASS
        elif kind == "wrong" and got is None:
            why = "the model has no finite vector for a token here"
        where = place_of(self.data, answering, self.labelling)
        return Finding(kind, *where, self.expected(label), got, why)


LoadPoints = Callable[[], Labelled]
"""A function that reads one part of the labelled points, anew at each call."""


def place_of(data: Sequences, answering: int, labelling: Labelling) -> PointPlace:
    """Where the place number `answering` lies: a token, or a sequence."""
    row, position = labelling.place(data, answering)
    token = None
    if position is not None and data.vocabulary is not None:
        token = data.vocabulary.names[data.tokens[answering]]
    return PointPlace(row, position, token)


def real(values: Floats, scalar: bool) -> float | list[float]:
    """A real label as users write it: one number if labels are `scalar`, otherwise a list."""
    return float(values[0]) if scalar else [float(x) for x in values]


def labelled(stored: Stored, data: Sequences) -> Labelled:
    """The labelled places of `data`, in the numbers of the model; an error if the model cannot be asked about them.

    Without labels, the label of a token is the next token, if the model predicts next tokens.
    """
    config, labels, labelling = stored.config, data.labels, stored.labelling
    rows: Ints | None = None
    data.check_no_prompts()
    data.check_labelled()
    if config["tokens"] == "ids":
        if data.vocabulary is None or stored.vocabulary is None:
            raise DataError("the model takes ids or strings as tokens, and the data hold vectors")
        _same_kind(data.vocabulary, stored.vocabulary, "tokens")
        rows = _in_model(data.tokens, data.vocabulary, stored.vocabulary)
    elif data.vocabulary is not None or data.tokens.shape[1] != stored["lift.weight"].shape[1]:
        numbers = plural(stored["lift.weight"].shape[1], "number")
        raise DataError(f"the model takes vectors of {numbers}; the data hold others")
    if labels is None:
        predicts = config.get("next_token") and labelling.at_tokens
        if not predicts or data.vocabulary is None or stored.classes is None:
            raise DataError("the data have no labels, and the model does not predict next tokens: give Y")
        places = np.flatnonzero(np.diff(data.sequence, append=-1) == 0)
        if len(places) == 0:
            raise DataError("no sequence has a next token: every one has length 1")
        given = data.tokens[places + 1]
        wanted = _in_model(given, data.vocabulary, stored.classes)
        return Labelled(data, labelling, rows, places, wanted, given, data.vocabulary)
    kind = "reals" if labels.classes is None else "classes"
    if (labels.per, kind) != (config["per"], config["target"]):
        answers = f"{config['target']}, one per {config['per']}"
        raise DataError(f"the labels are {kind}, one per {labels.per}; the model answers with {answers}")
    if labels.classes is None or stored.classes is None:
        if labels.values.shape[1] != config["labels"]:
            raise DataError(f"labels have {labels.values.shape[1]} numbers, answers {config['labels']}")
        return Labelled(data, labelling, rows, labels.place, labels.values, labels.values, None)
    _same_kind(labels.classes, stored.classes, "labels")
    wanted = _in_model(labels.values, labels.classes, stored.classes)
    return Labelled(data, labelling, rows, labels.place, wanted, labels.values, labels.classes)


def _same_kind(theirs: Names, ours: Names, what: str) -> None:
    """Raise an error if the names of the data are strings and those of the model integers, or the other way round."""
    given, known = ({int} if names.identity else set(map(type, names.names)) for names in (theirs, ours))
    if given.isdisjoint(known):
        raise DataError(
            f"{what} of the data are like {theirs.names[-1]!r}, those of the model like {ours.names[-1]!r}: strings "
            "against integers, so the model cannot be asked about any of them"
        )


def _in_model(rows: Ints, theirs: Names, ours: Names) -> Ints:
    """The row numbers in the model, −1 where it lacks a name, for row numbers `rows` of the data (`theirs`)."""
    return _looked_up(_model_rows(theirs, ours), rows)


def _looked_up(table: Ints, rows: Ints) -> Array:
    """The numbers in these rows of a table, of its type: mostly they are the row numbers themselves."""
    same = np.array_equal(table, np.arange(len(table)))
    return rows.astype(table.dtype, copy=False) if same else np.asarray(table.take(rows))


def _model_rows(theirs: Names, ours: Names) -> Ints:
    """For each name of the data (`theirs`), its row number in the model (`ours`), −1 if the model lacks it."""
    if isinstance(theirs.names, range) and isinstance(ours.names, range):
        number = np.arange(len(theirs.names))
        return np.where(number < len(ours.names), number, -1)
    table = {name: row for row, name in enumerate(ours.names)}  # not the reader's own: it may be at fault
    return np.array([table.get(name, -1) for name in theirs.names], dtype=np.int64)


def data_digest(*given: Sequences | Load) -> str:
    """SHA-256 of the data, all parts together. It does not depend on which numbers stand for which names.

    It is the digest of a JSON line with the names, followed by five digests: of lengths, tokens, lengths of prompts,
    which places have labels, and labels, each over part after part (docs/certificate.md).
    """
    parts = [partial(lambda data: data, part) if isinstance(part, Sequences) else part for part in given]
    used = [_used_names(part()) for part in parts]
    tokens, classes = (_all_names(list(tables)) for tables in zip(*used, strict=True))
    columns = [hashlib.sha256() for _ in range(5)]
    for part, (of_tokens, of_classes) in zip(parts, used, strict=True):
        data = part()
        labels = data.labels
        hashed = [data.lengths, _renumbered(of_tokens, tokens, data.tokens), data.prompts]
        if labels is not None:
            hashed += [_places_with_labels(data), _renumbered(of_classes, classes, labels.values)]
        for column, values in zip(columns, hashed, strict=False):
            if values is not None:  # little-endian whatever the machine
                plain = without_negative_zeros(values.copy()) if values.dtype.kind == "f" else values
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


class _UsedNames(NamedTuple):
    """The names that occur in a part of the data, and their rows in its table of names."""

    rows: Ints
    names: list[Name]


def _used_names(data: Sequences) -> tuple[_UsedNames | None, _UsedNames | None]:
    """Names of the tokens and of the classes that occur in the data; None for vectors and for reals."""
    labels = data.labels
    return _used(data.vocabulary, data.tokens), None if labels is None else _used(labels.classes, labels.values)


def _used(names: Names | None, rows: Array) -> _UsedNames | None:
    """The names that occur in a column; None if it has none."""
    if names is None:
        return None
    there = np.zeros(len(names), dtype=bool)
    for part in slices(len(rows)):
        there[rows[part]] = True
        if there.all():
            break
    used = np.flatnonzero(there)
    return _UsedNames(used, names.decode(used).tolist())


def _all_names(tables: list[_UsedNames | None]) -> dict[Name, int] | None:
    """Number all names of these tables in order, integers before strings; None for vectors or reals."""
    if tables[0] is None:
        return None
    every = {name for table in tables if table is not None for name in table.names}
    return {name: i for i, name in enumerate(sorted(every, key=lambda name: (isinstance(name, str), name)))}


def _renumbered(used: _UsedNames | None, place: dict[Name, int] | None, rows: Array) -> Array:
    """Replace the rows of names by the numbers of these names in `place`, in as few bytes as these need.

    Vectors and reals stay as they are.
    """
    if used is None or place is None:
        return rows
    table = np.zeros(int(used.rows.max(initial=-1)) + 1, dtype=np.min_scalar_type(max(0, len(place) - 1)))
    table[used.rows] = [place[name] for name in used.names]
    return _looked_up(table, rows)
