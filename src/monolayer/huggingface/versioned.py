"""A JSON file that says its format and version, as `attached.json` and `questions.json` do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from monolayer.data.objects import JsonFields
from monolayer.errors import ModelFileError
from monolayer.huggingface.strict import ForeignError, read_json

Content = TypeVar("Content")
Typed = tuple[str, object, type | tuple[type, ...]]
"""A field: its name, its value, and the types that it may have."""


@dataclass(frozen=True)
class Versioned:
    """The file `name`, which says that it has this `format` and `version`; `writer`: the verb that writes it."""

    name: str
    format: str
    version: int
    writer: str

    def text(self, fields: dict[str, Any]) -> str:
        """The text of the file with these fields."""
        whole = {"format": self.format, "version": self.version, **fields}
        return json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def read(self, content: bytes, made_of: Callable[[JsonFields], Content]) -> Content:
        """What `made_of` makes of the fields in these bytes; a `ModelFileError` where it raises, or the format differs.

        `made_of` may raise what wrong types and values lead to: ValueError, KeyError, TypeError or AttributeError.
        """
        try:
            fields: JsonFields = read_json(Path(self.name), content)
            if fields.pop("format") != self.format:
                raise ValueError("it does not say that it is one")
            version = fields.pop("version")
            if version != self.version:
                raise ModelFileError(f"{self.name} has version {version!r}; this monolayer reads {self.version}")
            return made_of(fields)
        except (ForeignError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{self.name} is not one that {self.writer} wrote: {error!r:.120}") from None


def table_of_texts(name: str, table: object) -> list[Typed]:
    """A field that is an object of strings, and each of its values."""
    return [(name, table, dict), *((name, part, str) for part in (table.values() if isinstance(table, dict) else ()))]


def check_types(fields: Iterable[Typed]) -> None:
    """Raise a `ValueError` that names a field whose value has another type. `True` and `False` are no numbers."""
    for name, value, kind in fields:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(name)
