"""What JSON files hold, as Python has it."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, object]
"""What `json.loads` makes of a JSON object, or what `json.dumps` takes for one.

A value is looked at before it is used."""
JsonFields: TypeAlias = dict[str, Any]
"""A JSON object whose values are used as they are: they were checked before, or the caller catches what they raise."""
Config: TypeAlias = JsonFields
"""The fields of a `config.json` that were checked when it was read."""
