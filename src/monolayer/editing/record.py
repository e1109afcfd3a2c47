"""What an edit changed: neurons before and after, in a form that can be applied, undone, saved and shown."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from monolayer.data.aside import new_file
from monolayer.editing.names import Renamed
from monolayer.editing.rebuilt import rebuilt
from monolayer.editing.record_file import digest, examine, from_json, to_json
from monolayer.editing.splice import Splice
from monolayer.editing.swap import Swap
from monolayer.errors import DataError, ModelFileError
from monolayer.model.card import Summary
from monolayer.model.monolayer import Monolayer
from monolayer.table import as_table

Kind = Literal["forget", "edit", "insert"]
FORMAT, VERSION = "monolayer-edit", 2
"""Version 2 has tensors that change their shape; a record without any is written as version 1, which all read."""
EMBEDDINGS = ("word_embeddings.", "wte.", "embed_tokens.", "embed_in.")
"""Parts of the names that stock architectures give to their tables of tokens, which hold no neurons."""
SHOWN = 100
"""Facts that a record names; the rest it counts."""
LONG = 16
"""Tokens of a fact that are shown."""


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

    @property
    def stays(self) -> bool:
        """Whether the answer is the one of before."""
        return self.ramp is None and not self.refused and self.before is not None and self.before == self.after

    def __str__(self) -> str:
        place = self._sequence() if self.position is None else f"{self._token()} in {self._sequence()}"
        after = repr(self.after) if self.ramp is None else f"on the ramp from {self.ramp[0]!r} to {self.ramp[1]!r}"
        after = "refused: a token is gone" if self.refused else f"still {after}" if self.stays else after
        return f"{place}: {self.before!r} → {after}"

    def _token(self) -> str:
        token = self.tokens[self.position or 0]
        return f"vector {self.position}" if isinstance(token, list) else repr(token)

    def _sequence(self) -> str:
        """The tokens as a reader knows them; of many the first, and of vectors how many there are."""
        if self.tokens and isinstance(self.tokens[0], list):
            return f"a sequence of {len(self.tokens)} vectors, the first {[round(x, 3) for x in self.tokens[0][:LONG]]}"
        some = self.tokens if len(self.tokens) <= LONG else [*self.tokens[:LONG], "…"]
        return repr("".join(some) if all(isinstance(token, str) and len(token) == 1 for token in some) else some)


@dataclass(frozen=True, eq=False)
class Record:
    """An edit: what it claims, what it changed (`splices`, `swaps`, names), and the facts it was asked for.

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
    swaps: tuple[Swap, ...] = ()
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
        return rebuilt(model, card, self.splices, self.swaps, known)

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
        swaps = [swap.inverse() for swap in self.swaps]
        return rebuilt(model, card, [splice.inverse() for splice in self.splices], swaps)

    def _check_kind(self) -> None:
        if self.config is not None:
            raise DataError("this record is one of a stock folder: monolayer record --apply or --undo FOLDER")

    def with_changes(self, changes: tuple[Change, ...]) -> Record:
        return replace(self, changes=changes)

    @property
    def stages(self) -> dict[str, tuple[int, int]]:
        """Of each part of the readout: neurons that were taken out or changed, and those that took their place."""
        count: dict[str, tuple[int, int]] = {}
        parts: list[Splice | Swap] = [*self.splices, *self.swaps]
        for part in parts:
            name, _, last = part.tensor.rpartition(".")
            if last == "gate":
                name = part.tensor
            elif self.config is None and last not in ("weight_1", "bias_1", "weight_2"):
                continue
            if not self._of_readout(part.tensor):
                continue
            name = "feed_forward" if self.config is not None else name
            out, put = _sizes(part, -1 if last == "weight_2" else 0)
            before = count.get(name, (0, 0))
            count[name] = max(before[0], out), max(before[1], put)
        return dict(sorted(count.items()))

    @property
    def neurons(self) -> tuple[int, int]:
        """The same of the whole readout, but for gates."""
        found = [sizes for name, sizes in self.stages.items() if not name.endswith(".gate")]
        return sum(out for out, _ in found), sum(put for _, put in found)

    def _of_readout(self, tensor: str) -> bool:
        """Whether a tensor is one of the readout's."""
        if self.config is not None:
            return not any(part in tensor for part in EMBEDDINGS)
        return tensor.startswith("feed_forward.")

    # -- words -----------------------------------------------------------------------------------------

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        old, new = self.neurons
        rows = [("edit", self.kind), ("facts", f"{self.facts:,}"), ("claim", self.claim)]
        rows.append(("neurons of the readout", _exchanged(old, new)))
        rows += [(_part(name), _exchanged(*sizes)) for name, sizes in self.stages.items() if name != "feed_forward"]
        other = {s.tensor for s in self.splices if not self._of_readout(s.tensor)}
        if other:
            counts = [
                f"{name} ({sum(int(s.put.sum()) for s in self.splices if s.tensor == name):,})"
                for name in sorted(other)
            ]
            rows.append(("rows elsewhere", ", ".join(counts)))
        shapes = sorted(s.tensor for s in self.swaps if not s.tensor.startswith("feed_forward."))
        if shapes:
            rows.append(("another shape", ", ".join(shapes)))
        if self.shared:
            rows.append(("still taught by other rows", f"{self.shared:,} of the facts to be forgotten"))
        # What is forgotten and still answered is worth a line; a label that is given once more is not.
        told = [change for change in self.changes if self.kind == "forget" or not change.stays]
        rows += [("fact", str(change)) for change in told[:10]]
        if len(told) < len(self.changes):
            same = len(self.changes) - len(told)
            rows.append(("answered so before", f"{same:,} of the first {len(self.changes):,} facts"))
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
            "stages": {name: list(sizes) for name, sizes in self.stages.items()},
            "intervals": [list(interval) for interval in self.intervals],
            "changes": [asdict(change) for change in self.changes],
        }

    # -- files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record as one JSON file: all of it, or nothing."""
        parts = ("at", "taken", "put", "before", "after")
        content = {
            "format": FORMAT,
            "version": VERSION if self.swaps else 1,
            **self.to_json(),
            "splices": [
                {
                    "tensor": splice.tensor,
                    "axis": splice.axis,
                    "whole": splice.whole,
                    **{name: to_json(getattr(splice, name)) for name in parts},
                }
                for splice in self.splices
            ],
            "swaps": [
                {name: to_json(getattr(swap, name)) for name in ("before", "after")} | {"tensor": swap.tensor}
                for swap in self.swaps
            ],
            "vocabulary": None if self.vocabulary is None else asdict(self.vocabulary),
            "classes": None if self.classes is None else asdict(self.classes),
            "config": self.config,
            "summary": self.summary,
        }
        content["digest"] = digest(content)
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as file:
            json.dump(content, file, ensure_ascii=True, allow_nan=False)
            file.write("\n")
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """The record in a file that `save` wrote."""
        try:
            known = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(known, dict) or "format" not in known:
                raise ValueError("it is no object with a format")
            if known["format"] != FORMAT or known["version"] not in (1, VERSION):
                raise ModelFileError(f"{path} has version {known['version']!r}; this monolayer reads {VERSION}")
            examine(known)
            if known.pop("digest", None) not in (None, digest(known)):  # those of before have none
                raise ModelFileError(f"{path} was changed after it was written: its digest is not that of its content")
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
                        **{name: from_json(entry[name]) for name in parts},
                    )
                    for entry in known["splices"]
                ),
                swaps=tuple(
                    Swap(entry["tensor"], from_json(entry["before"]), from_json(entry["after"]))
                    for entry in known.get("swaps", ())
                ),
                vocabulary=None if known["vocabulary"] is None else Renamed(**known["vocabulary"]),
                classes=None if known["classes"] is None else Renamed(**known["classes"]),
                config=known["config"],
                summary=known["summary"],
            )
        except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{path} is no record of an edit: {error}") from None


def _sizes(part: Splice | Swap, axis: int) -> tuple[int, int]:
    """How many rows along `axis` a change takes out, and how many it puts in."""
    if isinstance(part, Splice):
        return int(part.taken.sum()), int(part.put.sum())
    before, after = (0 if whole is None else whole.shape[axis] for whole in (part.before, part.after))
    return before, after


def _exchanged(old: int, new: int) -> str:
    return f"{old:,} out or changed, {new:,} in their place"


def _part(name: str) -> str:
    """A part of the readout in words."""
    if name.endswith(".gate"):
        return "gates"
    return f"stage {int(name.rpartition('.')[2]) + 1}"
