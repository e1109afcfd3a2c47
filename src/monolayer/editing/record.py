"""What an edit changed: neurons before and after, in a form that can be applied, undone, saved and shown."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from monolayer.data import Names
from monolayer.data.aside import new_file
from monolayer.editing.splice import Array, Splice, array_of, tensor_of
from monolayer.errors import DataError, ModelFileError
from monolayer.model.card import Card, Summary
from monolayer.model.gates import Gates
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.parts import staircase_of
from monolayer.model.staircase import Staircase

Kind = Literal["forget", "edit", "insert"]
FORMAT, VERSION = "monolayer-edit", 1
FINGERPRINTS = "fingerprints"
"""Stands for the tensor of what a model was built from, which is no weight."""
SHOWN = 100
"""Facts that a record names; the rest it counts."""


@dataclass(frozen=True)
class Change:
    """One fact: its tokens, which of them (None: the sequence), and the answers before and after.

    `after` is what the model now answers there: the label of the plateau it falls on. Where it falls on a ramp between
    two plateaus, `ramp` has their labels and `after` is None: the answer there is in between and means nothing. Where a
    token of the sequence occurs nowhere any more, the model has no row for it and refuses to answer: `refused`.
    """

    tokens: list[Any]
    position: int | None
    z: float
    before: Any
    after: Any
    ramp: list[Any] | None = None
    refused: bool = False

    def __str__(self) -> str:
        tokens = "".join(self.tokens) if all(isinstance(t, str) and len(t) == 1 for t in self.tokens) else self.tokens
        place = f"{tokens!r}" if self.position is None else f"{self.tokens[self.position]!r} in {tokens!r}"
        after = repr(self.after) if self.ramp is None else f"on the ramp from {self.ramp[0]!r} to {self.ramp[1]!r}"
        after = "refused: a token is gone" if self.refused else after
        return f"{place}: {self.before!r} → {after}"


@dataclass(frozen=True, eq=False)
class Renamed:
    """Names of tokens or classes before and after, as far as they differ: `size` old ones, and the `added`."""

    size: int
    was_range: bool
    is_range: bool
    new_size: int
    added: list[Any]

    @classmethod
    def of(cls, old: Names | None, new: Names | None) -> Renamed | None:
        if old is None or new is None or old == new:
            return None
        added = [] if new.identity else list(new.names[len(old) :])
        return cls(len(old), old.identity, new.identity, len(new), added)

    def apply(self, names: Names | None) -> Names:
        if names is None or len(names) != self.size or names.identity != self.was_range:
            raise DataError("the names of the model are not as this record found them")
        return Names(range(self.new_size)) if self.is_range else Names((*names.names, *self.added))

    def undo(self, names: Names | None) -> Names:
        if names is None or len(names) != self.new_size or names.identity != self.is_range:
            raise DataError("the names of the model are not as this record left them")
        return Names(range(self.size)) if self.was_range else Names(tuple(names.names[: self.size]))


@dataclass(frozen=True, eq=False)
class Record:
    """An edit: what it claims, what it changed (`splices`, names), and the facts it was asked for.

    `informed`: the data were given. `changes`: the first facts, `facts`: how many there were; `shared`: of those to be
    forgotten, how many stay because other rows teach them too.
    """

    kind: Kind
    informed: bool
    claim: str
    facts: int
    shared: int
    changes: tuple[Change, ...]
    splices: tuple[Splice, ...]
    intervals: tuple[tuple[float, float], ...] = ()
    """Without the data: where points may have changed, by their numbers `z`."""
    vocabulary: Renamed | None = None
    classes: Renamed | None = None
    config: dict[str, list[Any]] | None = None
    """For a stock folder: what of its `config.json` changes, before and after."""
    summary: dict[str, Any] | None = None
    """What the builder of the old model measured; an edited model has no summary."""

    def apply(self, model: Monolayer, *, known: bool = False) -> Monolayer:
        """The edited model; an error if `model` is not the one that this record was made for (`known`: it is)."""
        self._check_kind()
        card = replace(
            model.card,
            vocabulary=model.card.vocabulary
            if self.vocabulary is None
            else self.vocabulary.apply(model.card.vocabulary),
            classes=model.card.classes if self.classes is None else self.classes.apply(model.card.classes),
            summary=None,
        )
        return _with(model, self.splices, card, known)

    def undo(self, model: Monolayer) -> Monolayer:
        """The model as it was, bit for bit, from the edited one."""
        self._check_kind()
        card = replace(
            model.card,
            vocabulary=model.card.vocabulary
            if self.vocabulary is None
            else self.vocabulary.undo(model.card.vocabulary),
            classes=model.card.classes if self.classes is None else self.classes.undo(model.card.classes),
            summary=None if self.summary is None else Summary(**self.summary),
        )
        return _with(model, [splice.inverse() for splice in self.splices], card)

    def _check_kind(self) -> None:
        if self.config is not None:
            raise DataError("this record is one of a stock folder: monolayer record --apply or --undo FOLDER")

    def with_changes(self, changes: tuple[Change, ...]) -> Record:
        return replace(self, changes=changes)

    @property
    def neurons(self) -> tuple[int, int]:
        """Neurons of the readout that were taken out or changed, and those that took their place."""
        weights = ("feed_forward.weight_1", "feed_forward.weight_2")
        touched = [splice for splice in self.splices if self.config is not None or splice.tensor in weights]
        old = max((int(splice.taken.sum()) for splice in touched), default=0)
        return old, max((int(splice.put.sum()) for splice in touched), default=0)

    # -- words -----------------------------------------------------------------------------------------

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        old, new = self.neurons
        rows = [("edit", self.kind), ("facts", f"{self.facts:,}"), ("claim", self.claim)]
        rows.append(("neurons of the readout", f"{old:,} out or changed, {new:,} in their place"))
        ours = self.config is None
        other = sorted({s.tensor for s in self.splices if ours and not s.tensor.startswith("feed_forward.")})
        if other:
            counts = [f"{name} ({sum(int(s.put.sum()) for s in self.splices if s.tensor == name):,})" for name in other]
            rows.append(("rows elsewhere", ", ".join(counts)))
        if self.shared:
            rows.append(("still taught by other rows", f"{self.shared:,} of the facts to be forgotten"))
        rows += [("fact", str(change)) for change in self.changes[:10]]
        if self.facts > 10:
            rows.append(("", f"… {self.facts:,} in all"))
        return rows

    def explain(self) -> str:
        """The record in plain words."""
        return "\n".join(f"{name}: {text}" for name, text in self.rows())

    def __str__(self) -> str:
        return self.explain()

    def to_json(self) -> dict[str, Any]:
        """All but the contents of the neurons."""
        return {
            "kind": self.kind,
            "informed": self.informed,
            "claim": self.claim,
            "facts": self.facts,
            "shared": self.shared,
            "neurons": list(self.neurons),
            "intervals": [list(interval) for interval in self.intervals],
            "changes": [asdict(change) for change in self.changes],
        }

    # -- files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record as one JSON file: all of it, or nothing."""
        parts = ("at", "taken", "put", "before", "after")
        content = {
            "format": FORMAT,
            "version": VERSION,
            **self.to_json(),
            "splices": [
                {
                    "tensor": splice.tensor,
                    "axis": splice.axis,
                    "whole": splice.whole,
                    **{name: _to_json(getattr(splice, name)) for name in parts},
                }
                for splice in self.splices
            ],
            "vocabulary": None if self.vocabulary is None else asdict(self.vocabulary),
            "classes": None if self.classes is None else asdict(self.classes),
            "config": self.config,
            "summary": self.summary,
        }
        path = Path(path)
        with new_file(path) as file:
            json.dump(content, file, ensure_ascii=True, allow_nan=False)
            file.write("\n")
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """The record in a file that `save` wrote."""
        try:
            known = json.loads(Path(path).read_text(encoding="utf-8"))
            if known["format"] != FORMAT or known["version"] != VERSION:
                raise ModelFileError(f"{path} has version {known['version']!r}; this monolayer reads {VERSION}")
            parts = ("at", "taken", "put", "before", "after")
            return cls(
                kind=known["kind"],
                informed=known["informed"],
                claim=known["claim"],
                facts=known["facts"],
                shared=known["shared"],
                changes=tuple(Change(**change) for change in known["changes"]),
                intervals=tuple((low, high) for low, high in known["intervals"]),
                splices=tuple(
                    Splice(
                        tensor=entry["tensor"],
                        axis=entry["axis"],
                        whole=entry["whole"],
                        **{name: _from_json(entry[name]) for name in parts},
                    )
                    for entry in known["splices"]
                ),
                vocabulary=None if known["vocabulary"] is None else Renamed(**known["vocabulary"]),
                classes=None if known["classes"] is None else Renamed(**known["classes"]),
                config=known["config"],
                summary=known["summary"],
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{path} is no record of an edit: {error}") from None


def _to_json(array: Array) -> dict[str, Any]:
    """An array in numbers that people can read and floats survive; NaN, which JSON lacks, as null."""
    flat = array.reshape(-1).tolist()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": [None if x != x else x for x in flat]}


def _from_json(entry: dict[str, Any]) -> Array:
    flat = [np.nan if x is None else x for x in entry["values"]]
    return np.array(flat, dtype=entry["dtype"]).reshape(entry["shape"])


def _with(model: Monolayer, splices: Iterable[Splice], card: Card, known: bool = False) -> Monolayer:
    """A copy of `model` with other tensors where `splices` say so."""
    tensors = {name: value.detach() for name, value in model.state_dict().items()}
    changed: dict[str, torch.Tensor] = {}
    for splice in splices:
        if splice.tensor == FINGERPRINTS and card.fingerprint is not None:
            words = splice.apply(card.fingerprint.words, known=known)
            card = replace(card, fingerprint=replace(card.fingerprint, words=words))
            continue
        if splice.tensor not in tensors:
            raise DataError(f"the model has no {splice.tensor}, which this record changes: it belongs to another model")
        old = changed.get(splice.tensor, tensors[splice.tensor])
        changed[splice.tensor] = tensor_of(splice.apply(array_of(old), known=known), old.dtype)

    def part(name: str) -> torch.Tensor:
        # By NumPy: it copies a million numbers in a millisecond, where PyTorch first wakes its threads.
        own = tensors[name]
        return changed[name] if name in changed else tensor_of(array_of(own).copy(), own.dtype)

    one, two, three, four = (part(f"feed_forward.{name}") for name in ("weight_1", "bias_1", "weight_2", "bias_2"))
    lift = linear(part("lift.weight"), part("lift.bias")) if "lift.bias" in tensors else embedding(part("lift.weight"))
    readout: Staircase | Gates
    if isinstance(model.feed_forward, Gates):
        readout = Gates(one, two, three, four, model.feed_forward.layout, model.feed_forward.even)
    else:
        readout = Staircase(one, two, three, four, staircase_of(model).readout)
    new = Monolayer(
        lift,
        None if model.positions is None else embedding(part("positions.weight")),
        part("bos"),
        type(model.attention)(*(part(f"attention.{name}") for name in ("W_Q", "W_K", "W_V", "W_O"))),
        readout,
        linear(part("head.weight"), part("head.bias")),
        card,
    )
    return new.to(model.bos.device)
