"""The labelled places of a dataset in the model's numbers, their names for people, and the digest of the data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.certificate import Finding
from monolayer.checker.stored import Stored
from monolayer.data import Names, Sequences
from monolayer.errors import DataError


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

    def place(self, answering: int) -> str:
        """The token or sequence that answers, in words."""
        return self.data.where(answering) if self.per_token else f"sequence {answering}"

    def finding(self, kind: Any, label: int, answering: int, got: Any, doubt: str | None = None) -> Finding:
        """Label number `label`, read at token or sequence `answering`, by the names that users know."""
        data, token, sequence, position = self.data, None, answering, None
        if self.per_token:
            sequence, position = int(data.sequence[answering]), int(data.position[answering])
            token = None if data.vocabulary is None else data.vocabulary.names[data.tokens[answering]]
        if self.names is None:
            expected = real(self.given[label], data.labels is not None and data.labels.scalar)
        else:
            expected = self.names.names[self.given[label]]
        why = "the stored weights say so"
        if kind == "unsure":
            why = doubt or "too close to a step, or to a tie, for the error bound"
        elif self.names is not None and self.wanted[label] < 0:
            why = "the model has no such class"
        elif got is None:
            why = "the model has no finite vector for a token here"
        return Finding(kind, sequence, position, token, expected, got, why)


def real(values: Any, scalar: bool) -> Any:
    """A real label as users write it."""
    return float(values[0]) if scalar else [float(x) for x in values]


def labelled(stored: Stored, data: Sequences) -> Labelled:
    """What the model must answer, and where; data that it cannot be asked about are an error."""
    config, labels, per_token = stored.config, data.labels, stored.config["per"] == "token"
    rows: Ints | None = None
    if config["tokens"] == "ids":
        if data.vocabulary is None or stored.vocabulary is None:
            raise DataError("the model takes ids or strings as tokens, and the data hold vectors")
        _same_kind(data.vocabulary, stored.vocabulary, "tokens")
        rows = _translation(data.vocabulary, stored.vocabulary)[data.tokens]
    elif data.vocabulary is not None or data.tokens.shape[1] != stored["lift.weight"].shape[1]:
        raise DataError(f"the model takes vectors of {stored['lift.weight'].shape[1]} numbers; the data hold others")
    if stored.raw and (data.lengths != config["grid"]["length"]).any():
        row = int(np.flatnonzero(data.lengths != config["grid"]["length"])[0])
        raise DataError(f"sequence {row} has not the {config['grid']['length']} tokens that this model answers for")
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
        answers = f"{config['target']}, one a {config['per']}"
        raise DataError(f"the labels are {kind}, one a {labels.per}; the model answers with {answers}")
    if labels.classes is None or stored.classes is None:
        if labels.values.shape[1] != config["labels"]:
            raise DataError(f"labels have {labels.values.shape[1]} numbers, answers {config['labels']}")
        return Labelled(data, per_token, rows, None, labels.values, labels.values, None)
    _same_kind(labels.classes, stored.classes, "labels")
    wanted = _translation(labels.classes, stored.classes)[labels.values]
    return Labelled(data, per_token, rows, None, wanted, labels.values, labels.classes)


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


def data_digest(data: Sequences) -> str:
    """SHA-256 of what the data say, whatever numbers stand for their names (docs/certificate.md)."""
    labels = data.labels
    token_names, tokens = _used(data.vocabulary, data.tokens)
    label_names, values = (None, None) if labels is None else _used(labels.classes, labels.values)
    dimension = None if data.vocabulary is not None else int(data.tokens.shape[1])
    per, scalar = (None, False) if labels is None else (labels.per, labels.scalar)
    digest = hashlib.sha256(digest_head(token_names, dimension, per, label_names, scalar))
    for array in (data.lengths, tokens, values):
        if array is not None:
            # Adding 0 turns −0.0 into 0.0; little-endian whatever the machine.
            digest.update(np.ascontiguousarray(array + 0, dtype=array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def digest_head(tokens: Any, dimension: int | None, per: str | None, classes: Any, scalar: bool) -> bytes:
    """What the digest begins with: names and kinds; no `per`: no labels."""
    labels = None if per is None else {"per": per, "classes": classes, "scalar": scalar}
    head = {"tokens": tokens, "dimension": dimension, "labels": labels}
    return json.dumps(head, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _used(names: Names | None, rows: Any) -> tuple[list[Any] | None, Any]:
    """Names that occur, in order, and the place of each row among them; vectors and reals as they are."""
    if names is None:
        return None, rows
    used: Ints = np.flatnonzero(np.bincount(rows, minlength=len(names)))
    found = names.decode(used).tolist()
    order = sorted(range(len(found)), key=lambda i: (isinstance(found[i], str), found[i]))
    place = np.zeros(len(names), dtype=np.int64)
    place[used[order]] = np.arange(len(used))
    return [found[i] for i in order], place[rows]
