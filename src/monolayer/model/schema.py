"""The format of a saved model as the loader demands it: docs/format.md, line by line. The checker reads it on its own.

A new field is a line of `FIELDS`, a condition on several fields a line of `RULES`. What depends on the readout is in
its row (`readouts.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import get_args

from monolayer.data.choices import Per, Unit
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE
from monolayer.data.form import SourceForm
from monolayer.data.labelling import LABELLINGS
from monolayer.data.model_kinds import MODEL_KINDS, kind_of
from monolayer.data.number_formats import FLOAT64, FORMATS
from monolayer.data.objects import Config, JsonFields, JsonObject
from monolayer.data.text import TextUnit
from monolayer.errors import ModelFileError
from monolayer.model.fields import (
    BOOLEAN,
    DOMAIN_END,
    NUMBER,
    OBJECT,
    OBJECT_OR_NULL,
    Check,
    NameLists,
    Rule,
    Shape,
    one_of,
    whole_number,
    whole_number_list,
)
from monolayer.model.readouts import ATTENTION, READOUTS
from monolayer.model.sharded import shard_names

VERSION = 3
CONFIG, NAMES_FILE, MEMORY = "config.json", "names.json", "memory.safetensors"
_NAMES_OR_NULL = 'null, {"range": number} or {"names": its own name}'


def _fits_names(value: object, key: str) -> bool:
    if type(value) is not dict:
        return value is None
    return value == {"names": key} or (list(value) == ["range"] and whole_number(1)[0](value["range"]))


def _script(value: object) -> bool:
    if type(value) is not dict or set(value) != {"unit", "window"}:
        return value is None
    return value["unit"] in get_args(TextUnit) and whole_number(1)[0](value["window"])


def _form(value: object) -> bool:
    try:
        SourceForm.from_json(value)
    except ValueError:
        return False
    return True


def _digests(value: object) -> bool:
    return type(value) is dict and all(type(digest) is str for digest in value.values())


FIELDS: dict[str, Check] = {
    "format": one_of("monolayer"),
    "version": ((lambda value: value == VERSION), str(VERSION)),
    "kind": one_of(*(name for name, kind in MODEL_KINDS.items() if kind.has_readout)),
    "tokens": one_of("ids", "vectors"),
    "width": whole_number(4),
    "labels": whole_number(1),
    "steps": (whole_number_list, "a list of one or more whole numbers"),
    "per": one_of(*get_args(Per)),
    "target": one_of("classes", "reals"),
    "scalar": BOOLEAN,
    "readout": ((lambda value: type(value) is str and value in READOUTS), "a kind of readout that this version knows"),
    "causal": BOOLEAN,
    "next_token": BOOLEAN,
    "positions": BOOLEAN,
    "dtype": one_of(*FORMATS),
    "vocabulary": ((lambda value: _fits_names(value, "vocabulary")), _NAMES_OR_NULL),
    "unit": ((lambda value: value is None or value in get_args(Unit)), "null, characters, words or whole"),
    "classes": ((lambda value: _fits_names(value, "classes")), _NAMES_OR_NULL),
    "script": (_script, "null, or how a text was split: unit words or characters, and window"),
    "form": (_form, "null, or the form of the files or tables that it was built from"),
    "grid": OBJECT_OR_NULL,
    "draw": OBJECT_OR_NULL,
    "summary": OBJECT_OR_NULL,
    "files": (_digests, "an object of digests"),
    "digest": ((lambda value: type(value) is str), "a digest"),
}
INTERPOLATOR: dict[str, Check] = {
    **{key: FIELDS[key] for key in ("format", "version", "scalar", "files", "digest")},
    "kind": one_of(*(name for name, kind in MODEL_KINDS.items() if not kind.has_readout)),
    "dim": whole_number(1, 25),
    "length": whole_number(2, 49),
    "cells": whole_number(1, 2**24),
    "low": DOMAIN_END,
    "high": DOMAIN_END,
    "positions": BOOLEAN,
    "first_block": BOOLEAN,
    "error": ((lambda value: value is None or DOMAIN_END[0](value)), "null or a number up to 2^1000"),
}
"""All fields of a network for the maximum norm."""
GRID: dict[str, Check] = {
    **dict.fromkeys(("dim", "length", "cells"), whole_number(1)),
    **dict.fromkeys(("low", "high", "ramp", "error", "spread"), NUMBER),
    "guaranteed": BOOLEAN,
}
INTERPOLATOR_RULES: tuple[Rule, ...] = (
    (
        "such dim, length and cells are built",
        lambda c: _built(c["dim"], c["length"], c["cells"], c["positions"], c["first_block"]),
    ),
    ("low is below high", lambda c: float(c["low"]) < float(c["high"])),
    ("files are the weights", lambda c: set(c["files"]) == {WEIGHTS_FILE}),
)
RULES: tuple[Rule, ...] = (
    ("ids have a vocabulary, vectors have none", lambda c: (c["tokens"] == "ids") == (c["vocabulary"] is not None)),
    (
        "unit, how strings are split, is for named tokens; tokens that are their own numbers may be whole",
        lambda c: (
            c["unit"] is None
            or c["vocabulary"] == {"names": "vocabulary"}
            or (c["vocabulary"] is not None and c["unit"] == "whole")
        ),
    ),
    ("a text is split into named tokens", lambda c: c["script"] is None or c["vocabulary"] == {"names": "vocabulary"}),
    ("classes are named, reals are not", lambda c: (c["target"] == "classes") == (c["classes"] is not None)),
    ("scalar means reals with one label slot", lambda c: not c["scalar"] or (c["target"], c["labels"]) == ("reals", 1)),
    ("a causal model answers at tokens", lambda c: not c["causal"] or LABELLINGS[c["per"]].at_tokens),
    (
        "next_token means a causal model of ids that answers with classes",
        lambda c: not c["next_token"] or (c["causal"] and c["tokens"] == "ids" and c["target"] == "classes"),
    ),
    (
        "an approximator has a grid, a memorizer none",
        lambda c: kind_of(c).has_grid == (c["grid"] is not None),
    ),
    (
        "an approximator takes vectors, answers at tokens and is not causal",
        lambda c: (
            c["grid"] is None or (c["tokens"] == "vectors" and LABELLINGS[c["per"]].at_tokens and not c["causal"])
        ),
    ),
    ("low is below high, and the ramp is positive", lambda c: c["grid"] is None or _interval(c["grid"])),
    (
        "files are the weights, the names if there are any, and maybe, for ids, the memory of what was seen",
        lambda c: set(c["files"]) - ({MEMORY} if c["tokens"] == "ids" else set()) == _files_wanted(c),
    ),
)


def _built(dim: int, length: int, cells: int, positions: bool, first_block: bool) -> bool:
    """Whether there is a network for the maximum norm of these sizes."""
    if positions:
        return first_block and (cells + 1) ** (dim * length) < 1 << 48
    return (dim, length) in (((1, 3),) if first_block else ((1, 2), (2, 2), (1, 3), (1, 4)))


def _interval(grid: JsonFields) -> bool:
    return bool(grid["low"] < grid["high"] and grid["high"] - grid["low"] < math.inf and grid["ramp"] > 0)


def _files_wanted(config: Config) -> set[str]:
    named = any(type(config[key]) is dict and "names" in config[key] for key in ("vocabulary", "classes"))
    weights = {WEIGHTS_FILE}
    if INDEX_FILE in config["files"]:  # in several files: then they are numbered, and hold the steps of a line
        count = sum(name.startswith("model-") for name in config["files"])
        split = kind_of(config).holds_facts and READOUTS[config["readout"]].split
        fits = split and FORMATS[config["dtype"]].long and count > 1
        weights = {INDEX_FILE, *shard_names(count)} if fits else set()
    return weights | ({NAMES_FILE} if named else set())


# -- tensors -----------------------------------------------------------------------------------


def shapes(config: Config) -> dict[str, Shape]:
    """All tensors that a config asks for, and no others."""
    if not kind_of(config).has_readout:
        expected = dict(ATTENTION)
        if config["length"] > 2 and not config["first_block"]:
            expected = dict.fromkeys(ATTENTION, ("H", "D", "D"))
            expected |= {"others.temperatures": ("H",), "others.gain": (3,)}
        bends = ("square", "total", "root") if config["first_block"] and not config["positions"] else ()
        expected |= {f"{bend}.{name}": (bend,) for bend in bends for name in ("knots", "values")}
        knots = (config["cells"] + 1) ** (config["dim"] * config["length"])
        return expected | {"interpolation.values": (knots * (config["length"] if config["positions"] else 1), "m")}
    expected = READOUTS[config["readout"]].shapes(config)
    expected |= {"bos": ("D",), "head.weight": ("C", "D"), "head.bias": ("C",)}
    expected |= (
        {"lift.weight": ("V", "D")} if config["tokens"] == "ids" else {"lift.weight": ("D", "d"), "lift.bias": ("D",)}
    )
    if config["positions"]:
        expected["positions.weight"] = ("L", "D")
    if config["grid"] is not None:
        expected |= {"quantizer.weight_1": ("H", "d"), "quantizer.bias_1": ("H",)}
        expected |= {"quantizer.weight_2": (2, "H"), "quantizer.bias_2": (2,)}
    return expected


def check_tensors(config: Config, names: NameLists, tensors: dict[str, tuple[tuple[int, ...], str]]) -> None:
    """Refuse tensors, given as shape and dtype, that are not exactly those that the config asks for."""
    wanted = shapes(config)
    if set(wanted) != set(tensors):
        raise ModelFileError(f"{WEIGHTS_FILE}: missing or unknown tensors {sorted(set(wanted) ^ set(tensors))}")
    size, dtype = _letter_sizes(config, names), config.get("dtype", FLOAT64.name)
    for name, shape in wanted.items():
        stored_shape, stored_dtype = tensors[name]
        fits = len(stored_shape) == len(shape) and stored_dtype == dtype
        for part, number in zip(shape, stored_shape, strict=False):
            fits = fits and number == (size.setdefault(part, number) if isinstance(part, str) else part)
        if not fits or (name in ("lift.weight", "positions.weight") and 0 in stored_shape):
            meant = tuple(size.get(part, part) if isinstance(part, str) else part for part in shape)
            raise ModelFileError(
                f"{WEIGHTS_FILE}: {name} is {stored_dtype} {stored_shape}; the config asks for {dtype} {meant}"
            )


def _letter_sizes(config: Config, names: NameLists) -> dict[str, int]:
    """The letters of shapes that a config gives numbers to."""
    if not kind_of(config).has_readout:
        if config["length"] > 2 and not config["first_block"]:
            return {"D": config["length"] + 1, "H": config["length"] - 1}
        return {"D": (2 * config["length"] - 2) * config["dim"]}
    labels, grid = config["labels"], config["grid"]
    size = {"D": config["width"], "m": labels, "m + 1": labels + 1, "C": labels}
    for letter, key in (("V", "vocabulary"), ("C", "classes")):
        if config[key] is not None:
            size[letter] = config[key].get("range") or len(names[key])
    if grid is not None:
        size |= {"d": grid["dim"], "H": grid["dim"] * (grid["cells"] - 1), "L": grid["length"]}
    return size


# -- reading ------------------------------------------------------------------------------------------------


def parse(name: str, content: bytes) -> JsonObject:
    """The JSON object in the UTF-8 file `name` with this content."""
    try:
        value = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} cannot be read as JSON: {error}") from None
    if type(value) is not dict:
        raise ModelFileError(f"{name} does not hold a JSON object")
    return value


def check_config(config: Config, digest: str) -> None:
    """Refuse a parsed `config.json` that is not as docs/format.md says; its own digest should be `digest`."""
    if config.get("format") != "monolayer":
        raise ModelFileError(f"{CONFIG} was not written by monolayer")
    if config.get("version") != VERSION or type(config["version"]) is not int:
        raise ModelFileError(
            f"{CONFIG} has format version {config.get('version')!r}, and this monolayer reads version {VERSION} only: "
            "build the model again, or use the monolayer that wrote it"
        )
    if config.get("digest") != digest:
        raise ModelFileError(f"{CONFIG} was changed after it was written: its digest does not match")
    fields, rules = FIELDS, RULES
    if not kind_of(config).has_readout:
        fields, rules = INTERPOLATOR, INTERPOLATOR_RULES
    name = str(config.get("readout"))
    row = READOUTS.get(name)
    inner: dict[str, Mapping[str, Check]] = {} if row is None or not row.fields else {name: row.fields}
    _check_fields(CONFIG, config, fields | dict.fromkeys(inner, OBJECT))
    for key, known in (inner | {"grid": GRID}).items():
        if config.get(key) is not None:
            _check_fields(f"{key} in {CONFIG}", config[key], known)
    for rule, holds in rules if row is None else rules + row.rules:
        if not holds(config):
            raise ModelFileError(f"{CONFIG} contradicts itself: {rule}")


def _check_fields(where: str, value: JsonObject, fields: Mapping[str, Check]) -> None:
    if set(value) != set(fields):
        raise ModelFileError(f"{where} lacks or should not have the fields {sorted(set(value) ^ set(fields))}")
    for key, (fits, meaning) in fields.items():
        if not fits(value[key]):
            raise ModelFileError(f"{where}: {key} is {value[key]!r:.60}, and must be {meaning}")


def check_names(config: Config, names: Mapping[str, object]) -> None:
    """Refuse a `names.json` that does not hold exactly the lists of different names that the config refers to."""
    wanted = {key for key in ("vocabulary", "classes") if config[key] == {"names": key}}
    if set(names) != wanted:
        raise ModelFileError(f"{NAMES_FILE} must hold the lists {sorted(wanted)}, and holds {sorted(names)}")
    for key, values in names.items():
        if type(values) is not list or {type(name) for name in values} not in ({str}, {int}):
            raise ModelFileError(f"{NAMES_FILE}: {key} must be a list of strings, or of integers")
        if len(set(values)) < len(values) or any(type(name) is int and not -(2**63) <= name < 2**63 for name in values):
            raise ModelFileError(f"{NAMES_FILE}: the names of {key} must be different, and integers of 64 bits")
