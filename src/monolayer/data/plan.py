"""What was read: `ReadPlan` states how a file, a table or a dict became sequences, so that people can see it.

Readers make one plan per source. It is printed by every command and stated in every certificate. The checker reads the
data a second time from the plan alone (`checker/replay.py`): nothing in it is left to guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from monolayer.data.choices import Unit
from monolayer.data.labelling import LABELLINGS, TOKEN, generates
from monolayer.table import plural

FileFormat = Literal[
    "jsonl", "json array", "json object", "json pairs", "json row", "csv", "tsv", "parquet", "npz", "conll", "conllu",
    "text", "windows",
]  # fmt: skip
MemoryFormat = Literal["arrays", "texts", "dict", "pairs", "series", "objects", "columns", "table", "structs"]
Format = Literal[FileFormat, MemoryFormat]
PlannedPer = Literal["token", "sequence", "answer", "continuation"]
SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}
_FORMAT_WORDS: dict[Format, str] = {
    "jsonl": "JSON Lines",
    "json array": "a JSON array of objects",
    "json object": "a JSON object of keys and values",
    "json pairs": "a JSON array of pairs",
    "json row": "a single JSON object",
    "csv": "CSV",
    "tsv": "TSV",
    "parquet": "Parquet",
    "npz": "npz",
    "conll": "CoNLL",
    "conllu": "CoNLL-U",
    "text": "lines of text",
    "windows": "the windows of a text, each with its next token",
    "arrays": "sequences",
    "texts": "texts",
    "dict": "a value for each key",
    "pairs": "pairs of key and value",
    "series": "a Series, its index as keys",
    "objects": "a list of dicts",
    "columns": "a dict of columns",
    "table": "a table",
    "structs": "a Series of structs",
}
_UNIT_WORDS = {"characters": "split into characters", "words": "split into words", "whole": "not split"}


class ReadColumn(NamedTuple):
    """A column that was read: its `name`, and its `number` from 0 where columns stand in an order."""

    name: str
    number: int


@dataclass(frozen=True)
class ReadPlan:
    """How one source was read.

    - `source`: a file by its name, or what was given, such as 'the dict'. `format`: how it holds rows.
    - `separator`, `header`: of CSV, TSV and CoNLL; None elsewhere. Without a header, columns are called 1, 2, 3 …
    - `key`, `label`: the columns of sequences and labels; None if the format has no columns, or no labels were read.
    - `width`: how many columns there are; 0 if the format has none.
    - `unit`: how strings were split into tokens; None if there were none to split.
    - `per`: what a label belongs to, or that rows are prompts and answers; None if there are no labels.
    - `keyed`: whether each row is a key with its value, so that the keys are all that can be asked.
    - `apart`: whether the labels came as `Y`, beside the source.
    - `rows`: the number of sequences. `places`: of tokens or sequences that can have a label. `gaps`: of those that
      have none. `spaced`: of answers that got a space in front. `chosen_from`: how many rows there were before some
      were chosen; None if these are all.
    """

    source: str
    format: Format
    separator: str | None = None
    header: bool | None = None
    key: ReadColumn | None = None
    label: ReadColumn | None = None
    width: int = 0
    unit: Unit | None = None
    per: PlannedPer | None = None
    keyed: bool = False
    apart: bool = False
    rows: int = 0
    places: int = 0
    gaps: int = 0
    spaced: int = 0
    chosen_from: int | None = None
    remembered: tuple[str, ...] = ()
    """What was taken from the form of the model's data (`data/form.py`), because the source left it open."""
    unlike: bool = False
    """Whether the source lacks the columns of the model's data, so that its own names of columns decided."""

    def __str__(self) -> str:
        """The plan as one line: source and format, columns, what was made of them, how many."""
        parts = [f"{self.source}: {self._format_words}", *self._column_words, *self._unit_words]
        parts += [*self._model_words, self.counts]
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The fields of the plan as JSON values."""
        return asdict(self) | {
            name: None if column is None else column._asdict()
            for name, column in (("key", self.key), ("label", self.label))
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ReadPlan:
        """The plan in JSON values that `to_json` gave."""
        columns = {name: value[name] and ReadColumn(**value[name]) for name in ("key", "label")}
        return cls(**value | columns | {"remembered": tuple(value["remembered"])})

    @property
    def labels_tokens(self) -> bool:
        """Whether there is one label per token."""
        return self.per is not None and LABELLINGS[self.per] is TOKEN

    @property
    def counts(self) -> str:
        """How many rows there are and how many lack a label: '4 rows, 1 of them without a label'."""
        rows = plural(self.rows, "sequence" if self.format in ("arrays", "conll", "conllu", "npz") else "row")
        if self.chosen_from is not None:
            rows = f"{rows} chosen from {self.chosen_from:,}"
        if self.per is None:
            return f"{rows}, no labels"
        if generates(self.per):
            return rows if not self.gaps else f"{rows}, {self.gaps:,} of them without an answer"
        counted = f"{rows} with {plural(self.places, 'token')}" if LABELLINGS[self.per].at_tokens else rows
        return counted if not self.gaps else f"{counted}, {self.gaps:,} of them without a label"

    @property
    def _format_words(self) -> str:
        words = _FORMAT_WORDS[self.format]
        if self.separator is not None:
            words += f" separated by {SEPARATOR_NAMES.get(self.separator, repr(self.separator))}"
        if self.header is not None:
            words += ", with a header" if self.header else ", without a header"
        return words

    @property
    def _column_words(self) -> list[str]:
        prompts = generates(self.per)
        words = []
        if self.key is not None:
            words.append(f"{'prompt' if prompts else 'key' if self.keyed else 'tokens'} {self.key.name!r}")
        if self.label is not None:
            words.append(f"{'answer' if prompts else 'label'} {self.label.name!r}")
        joined = [", ".join(words)] if words else []
        if self.apart:
            joined.append("answers from Y" if prompts else "labels from Y")
        if self.per is not None and not prompts:
            joined.append(LABELLINGS[self.per].words)
        return joined

    @property
    def _model_words(self) -> list[str]:
        """What was read as in the data that the model was built from, and what could not be."""
        if self.unlike:
            return ["not the columns that the model was built from"]
        if not self.remembered:
            return []
        *others, last = self.remembered
        named = f"{', '.join(others)} and {last}" if others else last
        return [f"{named} as when the model was built"]

    @property
    def _unit_words(self) -> list[str]:
        if generates(self.per) and self.spaced and self.chosen_from is not None:
            return ["a space put before answers"]  # before how many of those that were chosen is not known
        if generates(self.per):
            return (
                [f"a space put before {plural(self.spaced, 'answer')}"] if self.spaced else ["answers taken as given"]
            )
        return [] if self.unit is None else [f"text {_UNIT_WORDS[self.unit]}"]


def plan_lines(plans: Sequence[ReadPlan]) -> list[str]:
    """The plans in words, one line each. Files that were read alike share a line."""
    alike: dict[ReadPlan, list[ReadPlan]] = {}
    for plan in plans:
        chosen = None if plan.chosen_from is None else 0
        common = replace(plan, source="", rows=0, places=0, gaps=0, spaced=0, width=0, chosen_from=chosen)
        alike.setdefault(common, []).append(plan)
    return [str(group[0] if len(group) == 1 else joined(group)) for group in alike.values()]


def joined(group: Sequence[ReadPlan]) -> ReadPlan:
    """One plan for several files, as the first of them was read, with their counts added up."""
    counts = {name: sum(getattr(plan, name) for plan in group) for name in ("rows", "places", "gaps", "spaced")}
    more = f"{group[0].source} and {plural(len(group) - 1, 'file')} more"
    before = None
    if any(plan.chosen_from is not None for plan in group):
        before = sum(plan.rows if plan.chosen_from is None else plan.chosen_from for plan in group)
    return replace(group[0], source=more, keyed=all(plan.keyed for plan in group), chosen_from=before, **counts)


def left_out(plans: Sequence[ReadPlan]) -> str:
    """What a claim about the labels leaves out, as the end of its sentence; empty if every place has a label."""
    gaps, places = sum(plan.gaps for plan in plans), sum(plan.places for plan in plans)
    if not gaps:
        return ""
    what = "tokens" if any(plan.labels_tokens for plan in plans) else "rows"
    has, it = ("has", "it") if gaps == 1 else ("have", "them")
    return f"; {gaps:,} of the {places:,} {what} {has} no label, and nothing is claimed about {it}"
