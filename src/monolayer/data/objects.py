"""Types of what JSON files hold."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, object]
"""A JSON object as `json.loads` returns it. The type of a value must be checked before it is used."""
JsonFields: TypeAlias = dict[str, Any]
"""A JSON object whose values are used without a check: they were checked before, or the caller catches the errors."""
Config: TypeAlias = JsonFields
"""The fields of a `config.json` that were checked when it was read."""
