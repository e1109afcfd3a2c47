"""What an edit changed: the difference of two models, in a form that can be applied, undone, saved and shown."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from monolayer.arrays import Array
from monolayer.data.aside import new_file
from monolayer.editing.difference import ConfigChange, Content, Splice
from monolayer.editing.subject import Answered, GivenModel, Subject, subject_of
from monolayer.errors import DataError, ModelFileError
from monolayer.model.save import config_digest
from monolayer.model.torch_settings import own_settings
from monolayer.table import as_html, as_table

EditKind = Literal["forget", "edit", "insert"]
RECORD_FORMAT, RECORD_VERSION = "monolayer-edit", 1
FACTS_SHOWN = 100
"""How many facts a record lists, and how many answers a comparison lists; they count the others."""
_BACK = {"before": "after", "after": "before"}
ARRAYS = ("out", "put", "before", "after")
"""Fields of a splice that are arrays."""
SAID = ("kind", "claim", "facts", "shared", "source", "result")
"""Fields of a record that its file holds unchanged."""
NAMES_SHOWN = 6
"""How many leftover names a table shows."""
TOKENS_SHOWN = 16
"""How many tokens of a fact are shown."""
NUMBERS = ("float64", "float32", "float16", "int64", "int16", "uint64")
"""Types of arrays in a record; bfloat16 stands there as the bits of int16."""


@dataclass(frozen=True)
class Change:
    """One fact: its tokens, the position of the answer (None: the whole sequence), and the answers before and after.

    `after` of a forgotten fact is what the model answers there now. `refused`: the model no longer has a row for one of
    the tokens, and does not answer.
    """

    tokens: list[Any]
    position: int | None
    before: Answered
    after: Answered
    refused: bool = False

    def __post_init__(self) -> None:
        place = self.position
        _check_field(type(self.tokens) is list, "changes: tokens")
        _check_field(place is None or (type(place) is int and 0 <= place < len(self.tokens)), "changes: position")

    @property
    def stays(self) -> bool:
        """Whether the answer is the same as before."""
        return not self.refused and self.before is not None and self.before == self.after

    def __str__(self) -> str:
        after = "refused: a token was removed" if self.refused else f"{'still ' if self.stays else ''}{self.after!r}"
        return f"{self._where()}: {self.before!r} → {after}"

    def _where(self) -> str:
        """The token and its sequence in words: of long sequences the first tokens, of vectors only their number."""
        if self.tokens and isinstance(self.tokens[0], list):
            what = "a sequence" if self.position is None else f"vector {self.position}"
            return f"{what} of {len(self.tokens)} vectors"
        some = self.tokens if len(self.tokens) <= TOKENS_SHOWN else [*self.tokens[:TOKENS_SHOWN], "…"]
        words = all(isinstance(token, str) for token in some)
        glued = words and (all(len(token) == 1 for token in some) or any(token[:1].isspace() for token in some))
        shown = repr("".join(some) if glued else some)
        return shown if self.position is None else f"{self.tokens[self.position]!r} in {shown}"


@dataclass(frozen=True)
class LeftoverNames:
    """Names of tokens and labels that no fact uses after an edit: how many, the `first` of them, and whether they went.

    Unless they were `dropped`, they stay in `names.json`, or in the tokenizer and the labels of a stock folder.
    """

    count: int = 0
    first: tuple[str, ...] = ()
    dropped: bool = False

    def __post_init__(self) -> None:
        good = type(self.count) is int and type(self.dropped) is bool and all(type(one) is str for one in self.first)
        _check_field(good, "names")

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.first[:NAMES_SHOWN])) + (", …" if self.count > NAMES_SHOWN else "")
        if self.dropped:
            return f"dropped {self.count:,} that no fact uses any more: {shown}. This record still holds them"
        return (
            f"{self.count:,} that no fact uses stay in the files: {shown}. forget(…, names=True), --names, drops them"
        )


@dataclass(frozen=True, eq=False)
class Record:
    """An edit: what it claims, the facts it was asked for, and the difference of the two models.

    `kind`: forget, edit or insert. `claim`: what is true of the result, in words. `facts`: how many facts the edit was
    asked for, and `changes`: the first of them. `shared`: of those to be forgotten, how many stay because other rows
    teach them too. `source`, `result`: digests of the models before and after the edit. `splices`: rows of tensors that
    were replaced. `blocks`: for each block of the readout, how many neurons were removed and how many added. `config`:
    keys of the configuration that change, with their values `before` and `after`; the lists of names are one of them.
    `names`: those that no fact uses any more.
    """

    kind: EditKind
    claim: str
    facts: int
    shared: int
    changes: tuple[Change, ...]
    source: str
    result: str
    splices: tuple[Splice, ...]
    blocks: dict[str, tuple[int, int]]
    config: ConfigChange
    names: LeftoverNames = field(default_factory=LeftoverNames)

    def __post_init__(self) -> None:
        _check_field(self.kind in get_args(EditKind), "kind")
        for name in ("claim", "source", "result"):
            _check_field(type(getattr(self, name)) is str, name)
        for name in ("facts", "shared"):
            _check_field(type(getattr(self, name)) is int, name)
        _check_field(type(self.changes) is tuple and all(isinstance(one, Change) for one in self.changes), "changes")
        _check_field(type(self.splices) is tuple and all(map(_is_splice, self.splices)), "splices")
        _check_field(type(self.blocks) is dict and all(map(_is_block, self.blocks.items())), "blocks")
        _check_field(type(self.config) is dict and all(map(_is_setting, self.config.items())), "config")
        _check_field(isinstance(self.names, LeftoverNames), "names")

    @own_settings()
    def apply(self, model: GivenModel) -> Any:
        """The edited model. `model`: the one that this record was made from, or its folder."""
        return self._carried(subject_of(model), "was made from").model

    @own_settings()
    def undo(self, model: GivenModel) -> Any:
        """The model as it was before the edit, bit for bit. `model`: the edited one, or its folder."""
        back = replace(
            self,
            source=self.result,
            result=self.source,
            splices=tuple(splice.inverse() for splice in self.splices),
            config=_exchanged(self.config),
        )
        return back._carried(subject_of(model), "led to").model

    def _carried(self, subject: Subject, origin: str) -> Subject:
        """The model after the edit; `origin`: how the model before it relates to this record, for an error."""
        old = subject.content
        if old.digest != self.source:
            raise DataError(
                f"this record belongs to another model: it {origin} the one with digest {self.source[:12]}…, and this "
                f"one has {old.digest[:12]}…"
            )
        odd = sorted(self.config.keys() - subject.may_change)
        if odd:
            raise DataError(
                f"this record would change {odd[0]!r} in the configuration; an edit changes sizes and nothing else"
            )
        try:
            tensors = dict(old.tensors)
            for splice in self.splices:
                new = splice.apply(tensors.pop(splice.tensor, None))
                tensors |= {} if new is None else {splice.tensor: new}
            config = {key: value for key, value in old.config.items() if key not in self.config}
            config |= {key: entry["after"] for key, entry in self.config.items() if "after" in entry}
            made = Content(tensors, config, old.blocks)
            fits = made.digest == self.result
        except (LookupError, TypeError, ValueError, OverflowError, MemoryError, AttributeError) as error:
            raise DataError(f"the record was changed: its parts do not fit together ({error})") from None
        if not fits:
            raise DataError("the record was changed: it does not lead to the model that it names")
        return subject.with_content(made)

    @property
    def neurons(self) -> tuple[int, int]:
        """How many neurons of the whole readout were removed or changed, and how many were added."""
        return sum(out for out, _ in self.blocks.values()), sum(put for _, put in self.blocks.values())

    # -- words -----------------------------------------------------------------------------------------

    __repr__ = as_table
    _repr_html_ = as_html

    def rows(self) -> list[tuple[str, str]]:
        """Rows for the table that commands print."""
        rows = [("edit", self.kind), ("facts", f"{self.facts:,}"), ("claim", self.claim)]
        rows.append(("neurons of the readout", "{:,} removed or changed, {:,} added".format(*self.neurons)))
        other_splices = [
            part for part in self.splices if not any(part.tensor.startswith(f"{name}.") for name in self.blocks)
        ]
        count = [f"{part.tensor} ({'whole' if part.axis is None else f'{len(part.put):,}'})" for part in other_splices]
        if count:
            rows.append(("rows elsewhere", ", ".join(count)))
        if self.shared:
            rows.append(("still stated by other rows", f"{self.shared:,} of the facts to be forgotten"))
        if self.names.count:
            rows.append(("names", str(self.names)))
        # A forgotten fact that is still answered gets a line; a label that an edit leaves as it was does not.
        shown = [change for change in self.changes if self.kind == "forget" or not change.stays]
        rows += [("fact", str(change)) for change in shown[:10]]
        if self.facts > 10:
            rows.append(("", f"… {self.facts:,} in all"))
        return rows

    def explain(self) -> str:
        """The record in plain words."""
        return "\n".join(f"{name}: {text}" for name, text in self.rows())

    def to_json(self) -> dict[str, object]:
        """What the record says of the edit, for JSON; the difference of the models is left out."""
        fields: dict[str, object] = {name: getattr(self, name) for name in SAID}
        fields |= {"neurons": list(self.neurons), "blocks": {name: list(sizes) for name, sizes in self.blocks.items()}}
        names = {"count": self.names.count, "first": list(self.names.first), "dropped": self.names.dropped}
        return fields | {"changes": [asdict(change) for change in self.changes], "names": names}

    # -- files -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record to `path` as one JSON file, all of it or nothing; return the path."""
        content = {
            "format": RECORD_FORMAT,
            "version": RECORD_VERSION,
            **self.to_json(),
            "splices": [
                {"tensor": part.tensor, "axis": part.axis} | {name: _to_json(getattr(part, name)) for name in ARRAYS}
                for part in self.splices
            ],
            "config": self.config,
        }
        content["digest"] = config_digest(content)
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as file:
            json.dump(content, file, ensure_ascii=True, allow_nan=False)
            file.write("\n")
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """Read the record from a file that `save` wrote; any other file is a `ModelFileError` that says why."""
        try:
            known = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(known, dict) or known.get("format") != RECORD_FORMAT:
                raise ValueError("it does not say that it is one")
            if known["version"] != RECORD_VERSION:
                raise ModelFileError(f"{path} has version {known['version']!r}; this monolayer reads {RECORD_VERSION}")
            if known.get("digest") != config_digest(known):
                raise ModelFileError(f"{path} was changed after it was written: its digest is not that of its content")
            return cls._read(known)
        except (OSError, LookupError, TypeError, ValueError, OverflowError, RecursionError, AttributeError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{path} is not a record of an edit: {error}") from None

    @classmethod
    def _read(cls, known: dict[str, Any]) -> Record:
        return cls(
            **{name: known[name] for name in SAID},
            changes=tuple(Change(**change) for change in known["changes"]),
            splices=tuple(
                Splice(entry["tensor"], entry["axis"], *(_from_json(entry[name]) for name in ARRAYS))
                for entry in known["splices"]
            ),
            blocks={name: tuple(sizes) for name, sizes in known["blocks"].items()},
            config=known["config"],
            names=LeftoverNames(**{**known["names"], "first": tuple(known["names"]["first"])}),
        )


def _exchanged(changes: ConfigChange) -> ConfigChange:
    """Changes of the configuration with `before` and `after` exchanged."""
    return {key: {_BACK[side]: value for side, value in entry.items()} for key, entry in changes.items()}


def _check_field(holds: bool, field: str) -> None:
    """Refuse a record in which this field is not what an edit writes."""
    if not holds:
        raise DataError(f"{field} of this record is damaged: not what an edit writes there")


def _is_splice(part: object) -> bool:
    """Whether this is a splice, its rows numbered by integers."""
    if not (isinstance(part, Splice) and type(part.tensor) is str and part.axis in (None, 0, 1)):
        return False
    return all(
        isinstance(rows, np.ndarray) and rows.dtype == np.int64 and rows.ndim == 1 for rows in (part.out, part.put)
    )


def _is_block(entry: tuple[object, object]) -> bool:
    """Whether this is the name of a block, and how many neurons were taken out of it and put in."""
    name, sizes = entry
    return type(name) is str and type(sizes) is tuple and [type(size) for size in sizes] == [int, int]


def _is_setting(entry: tuple[object, object]) -> bool:
    """Whether this is a key of the configuration, and its values before and after, or one of the two."""
    name, sides = entry
    return type(name) is str and type(sides) is dict and sides.keys() <= _BACK.keys()


def _to_json(array: Array | None) -> dict[str, object] | None:
    """An array as decimal numbers that give the same floats when read; NaN, which JSON lacks, is null."""
    if array is None:
        return None
    flat = array.reshape(-1).tolist()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": [None if x != x else x for x in flat]}


def _from_json(entry: dict[str, Any] | None) -> Any:
    """The array that `_to_json` wrote."""
    if entry is None:
        return None
    _check_field(entry["dtype"] in NUMBERS, "an array: dtype")
    flat = [np.nan if x is None else x for x in entry["values"]]
    with np.errstate(over="ignore"):  # a number too large for its format: the digest then differs
        return np.array(flat, dtype=entry["dtype"]).reshape(entry["shape"])
