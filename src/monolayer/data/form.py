"""The form of the data that a model was built from: what its folder keeps of a `ReadPlan`, to read more data like them.

    plan    capitals.csv: CSV separated by semicolons, without a header; key '1', label '2'; 196 rows
    form    CSV separated by semicolons, without a header; key '1', label '2'

A form belongs to the model, so edits keep it; the name of the file, its rows and gaps belong to the file. How strings
are split and what labels belong to is not repeated here, since the model says both of itself. A form settles what the
caller and the data leave open (`Manner.form`). The plan of data that are read then says what was taken from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import get_args

from monolayer.data.objects import JsonObject
from monolayer.data.plan import FileFormat, Format, ReadPlan

FORMATS = ({*get_args(FileFormat)} - {"windows"}) | {"objects", "columns", "table", "structs"}
"""Formats with a form: those of files, and tables in memory. Other data in memory have nothing to choose, and how a
text was cut into windows is the model's `Script`."""


@dataclass(frozen=True)
class SourceForm:
    """The form of a source: the fields are those of `ReadPlan`, with columns by their names.

    `pair`: whether its only columns are a key and its value, so that a table with another value beside the key is
    another table.
    """

    format: Format
    separator: str | None = None
    header: bool | None = None
    key: str | None = None
    label: str | None = None
    pair: bool = False

    @classmethod
    def of(cls, plans: Sequence[ReadPlan]) -> SourceForm | None:
        """The form that all these sources have; None if they differ, or are data in memory without columns."""
        forms = [form for plan in plans if (form := cls._of_plan(plan)) is not None]
        pair = all(form.pair for form in forms)  # some files may have more columns than others
        alike = {replace(form, pair=pair) for form in forms}
        return alike.pop() if len(alike) == 1 and len(forms) == len(plans) else None

    @classmethod
    def _of_plan(cls, plan: ReadPlan) -> SourceForm | None:
        """The form of one source; None if it has none."""
        if plan.format not in FORMATS or plan.apart:
            return None
        key, label = (None if column is None else column.name for column in (plan.key, plan.label))
        if not all(name is None or _is_text(name) for name in (key, label)):
            return None  # columns of a table in memory may have any names
        return cls(plan.format, plan.separator, plan.header, key, label, plan.keyed and plan.width <= 2)

    @classmethod
    def from_json(cls, value: object) -> SourceForm | None:
        """The form in JSON values that `to_json` gave, or None; a `ValueError` if it is no form."""
        if value is None:
            return None
        if not isinstance(value, dict) or set(value) != set(cls.__dataclass_fields__):
            raise ValueError("form")
        texts = [value[name] for name in ("separator", "key", "label")]
        fits = isinstance(value["format"], str) and value["format"] in FORMATS
        fits = fits and all(text is None or _is_text(text) for text in texts)
        fits = fits and (value["separator"] is None or len(value["separator"]) == 1)
        if not fits or type(value["pair"]) is not bool or type(value["header"]) not in (bool, type(None)):
            raise ValueError("form")
        return cls(**value)

    def to_json(self) -> JsonObject:
        """The fields as JSON values."""
        return asdict(self)

    def columns_in(self, there: Sequence[str]) -> list[str] | None:
        """Which columns of a table are the key and, if it is there, the label; None if the table is of another form.

        A key and its value are both needed, or the key alone; in a larger table the column of keys is enough.
        """
        if self.key is None or self.key not in there:
            return None
        both = self.label is not None and self.label in there
        if self.pair and self.label is not None and not both and len(there) > 1:
            return None
        return [self.key, *([self.label] if both and self.label is not None else [])]


def _is_text(name: object) -> bool:
    """Whether a name is text that any JSON file can hold."""
    return isinstance(name, str) and not any("\ud800" <= character <= "\udfff" for character in name)
