"""The file of a record: its digest, arrays in JSON, and whether it says what a record may say.

A record comes from elsewhere, and a model is made of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

import numpy as np

from monolayer.editing.splice import Array
from monolayer.model.card import Summary

KINDS = ("forget", "edit", "insert")
NUMBERS = ("float64", "float32", "float16", "int16", "uint64")
PLACES = ("int64", "int32")
CHANGE = {"tokens": list, "position": int | None, "z": float | int, "ramp": list | None, "refused": bool}
NAMES = {"size": int, "was_range": bool, "is_range": bool, "new_size": int, "added": list}


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of all else in the file, in one way to write it."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def to_json(array: Array | None) -> dict[str, Any] | None:
    """An array in numbers that people can read and floats survive; NaN, which JSON lacks, as null."""
    if array is None:
        return None
    flat = array.reshape(-1).tolist()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": [None if x != x else x for x in flat]}


def from_json(entry: dict[str, Any] | None) -> Any:
    if entry is None:
        return None
    flat = [np.nan if x is None else x for x in entry["values"]]
    with np.errstate(over="ignore"):  # a number that its format lacks is none of the model's: told when it is applied
        return np.array(flat, dtype=entry["dtype"]).reshape(entry["shape"])


def examine(known: Any) -> None:
    """A `ValueError` that names the first field that is none of a record."""
    _demand(isinstance(known, dict), "it is no object")
    for key, kind in (("informed", bool), ("claim", str), ("changes", list), ("splices", list), ("intervals", list)):
        _demand(isinstance(known[key], kind), key)
    _demand(known["kind"] in KINDS, "kind")
    _demand(all(_is_count(known[key]) for key in ("facts", "shared")), "facts, shared")
    _demand(
        all(isinstance(pair, list) and [*map(_is_number, pair)] == [True] * 2 for pair in known["intervals"]),
        "intervals",
    )
    for change in known["changes"]:
        _examine_change(change)
    for entry in known["splices"]:
        _examine_splice(entry)
    for entry in known.get("swaps", ()):
        _demand(isinstance(entry["tensor"], str), "swaps: tensor")
        for side in ("before", "after"):
            if entry[side] is not None:
                _examine_array(entry[side], NUMBERS)
    for key in ("vocabulary", "classes"):
        if known[key] is not None:
            _examine_names(key, known[key])
    config, summary = known["config"], known["summary"]
    pairs = config is None or (
        isinstance(config, dict) and all(isinstance(x, list) and len(x) == 2 for x in config.values())
    )
    _demand(pairs, "config")
    own = {field.name for field in fields(Summary)}
    _demand(summary is None or (isinstance(summary, dict) and set(summary) == own), "summary")


def _examine_change(change: Any) -> None:
    _demand(isinstance(change, dict), "changes")
    for key, kind in CHANGE.items():
        _demand(isinstance(change.get(key, False if key == "refused" else None), kind), f"changes: {key}")
    tokens, position, ramp = change["tokens"], change["position"], change.get("ramp")
    _demand(position is None or (_is_count(position) and position < len(tokens)), "changes: position")
    _demand(ramp is None or len(ramp) == 2, "changes: ramp")
    vectors = [isinstance(token, list) for token in tokens]
    plain = all(_is_number(x) for token in tokens for x in token) if any(vectors) and all(vectors) else not any(vectors)
    _demand(plain, "changes: tokens")


def _examine_splice(entry: Any) -> None:
    _demand(isinstance(entry["tensor"], str), "splices: tensor")
    _demand(
        entry["axis"] in (0, 1) and not isinstance(entry["axis"], bool) and _is_count(entry["whole"]),
        "splices: axis, whole",
    )
    for name in ("at", "taken", "put", "before", "after"):
        _examine_array(entry[name], NUMBERS if name in ("before", "after") else PLACES)
    _demand(all(len(entry[name]["shape"]) == 1 for name in ("at", "taken", "put")), "splices: at, taken, put")
    at, taken, put = (entry[name]["values"] for name in ("at", "taken", "put"))
    _demand(len(at) == len(taken) == len(put) and all(map(_is_count, [*at, *taken, *put])), "splices: at, taken, put")
    ends = [a + t for a, t in zip(at, taken, strict=True)]
    _demand(all(end <= a for end, a in zip(ends, at[1:], strict=False)), "splices: places that do not rise")
    before, after = (entry[name] for name in ("before", "after"))
    rows = [before["shape"][:1], after["shape"][:1]] == [[sum(taken)], [sum(put)]]
    alike = before["dtype"] == after["dtype"] and before["shape"][1:] == after["shape"][1:]
    _demand(rows and alike and len(before["shape"]) > entry["axis"], "splices: rows before and after")


def _examine_array(entry: Any, kinds: tuple[str, ...]) -> None:
    _demand(isinstance(entry, dict) and entry["dtype"] in kinds, "an array: dtype")
    shape, values = entry["shape"], entry["values"]
    _demand(isinstance(shape, list) and all(map(_is_count, shape)) and len(shape) <= 2, "an array: shape")
    _demand(isinstance(values, list) and all(x is None or _is_number(x) for x in values), "an array: values")
    size = 1
    for length in shape:
        size *= length
    _demand(len(values) == size, "an array: as many values as its shape says")


def _examine_names(key: str, entry: Any) -> None:
    _demand(isinstance(entry, dict) and set(entry) == set(NAMES), key)
    _demand(all(isinstance(entry[name], kind) for name, kind in NAMES.items()), key)
    _demand(_is_count(entry["size"]) and _is_count(entry["new_size"]), key)
    added = entry["added"]
    plain = all(isinstance(name, str) or (isinstance(name, int) and not isinstance(name, bool)) for name in added)
    _demand(plain and (entry["is_range"] or entry["new_size"] == entry["size"] + len(added)), f"{key}: added")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _demand(holds: bool, field: str) -> None:
    if not holds:
        raise ValueError(f"{field} is not such as an edit writes it")
