"""Whether a folder's parts are a model of docs/format.md, worked out from the tensors. The loader has its own reading.

Letters: `D` the width of the stream, `m` label coordinates, `H` steps, `C` outputs, `d` coordinates of a vector. What
depends on the readout, here and in every judgement, is in its row of `READOUTS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.checker.certificate import Certificate, Claims
from monolayer.checker.labelled import Labelled, LoadPoints
from monolayer.checker.line import judge_line
from monolayer.checker.locating.writers import Writers, line_writers, robust_writers
from monolayer.checker.network import Stored
from monolayer.checker.robust import judge_gates
from monolayer.checker.rounding import EXP_ULPS
from monolayer.data import Names
from monolayer.errors import ModelFileError

Tensors = dict[str, NDArray[Any]]

FORMAT_VERSION = 2
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_NUMBERED = re.compile(r"model-([0-9]{5})-of-([0-9]{5})\.safetensors")
WORDS = {
    "format": ("monolayer",),
    "kind": ("memorizer", "approximator"),
    "tokens": ("ids", "vectors"),
    "per": ("token", "sequence"),
    "target": ("classes", "reals"),
    "dtype": ("float64", "float32", "float16", "bfloat16"),
}
SWITCHES = ("scalar", "causal", "next_token", "positions")
COUNTS = {"width": 4, "labels": 1}
UNITS = (None, "characters", "words", "whole")
OTHER_FIELDS = (
    "version",
    "readout",
    "steps",
    "vocabulary",
    "unit",
    "classes",
    "script",
    "grid",
    "draw",
    "summary",
    "files",
    "digest",
)
GRID_COUNTS = ("dim", "length", "cells")
GRID_REALS = ("low", "high", "ramp", "error", "spread")


def examine_config(config: dict[str, Any]) -> None:
    """Every field is there, with a value that it may have, and they fit together."""
    readout = config.get("readout")
    _demand(isinstance(readout, str) and readout in READOUTS, f"readout is not one of {', '.join(READOUTS)}")
    row = READOUTS[str(readout)]
    known = {*WORDS, *SWITCHES, *COUNTS, *OTHER_FIELDS, *([str(readout)] if row.own_field else [])}
    _demand(set(config) == known, f"fields {sorted(set(config) ^ known)} are missing or unknown")
    for key, words in WORDS.items():
        _demand(isinstance(config[key], str) and config[key] in words, f"{key} is not one of {', '.join(words)}")
    for key in SWITCHES:
        _demand(config[key] is True or config[key] is False, f"{key} is not true or false")
    for key, least in COUNTS.items():
        _demand(_is_count(config[key], least), f"{key} is no whole number from {least}")
    steps, grid, summary, files = (config[key] for key in ("steps", "grid", "summary", "files"))
    whole = isinstance(steps, list) and len(steps) > 0 and all(_is_count(each, 0) for each in steps)
    _demand(whole, "steps is no list of whole numbers, one for each stage")
    _demand(summary is None or isinstance(summary, dict), "summary is no object")
    _demand(config["draw"] is None or isinstance(config["draw"], dict), "draw is no object")  # no proof depends on it
    _demand(isinstance(files, dict) and all(isinstance(x, str) for x in files.values()), "files holds no digests")

    reads_ids, names_classes = config["tokens"] == "ids", config["target"] == "classes"
    listed = {WEIGHTS}
    if INDEX in files:
        listed = {INDEX, *numbered_weights(list(files))}
        plain = row.split and config["kind"] == "memorizer"
        plain = plain and config["dtype"] == "float64" and len(listed) > 2
        _demand(plain, "weights in several files are the numbered files of a line of a memorizer in float64")
    for key, needed in (("vocabulary", reads_ids), ("classes", names_classes)):
        entry = config[key]
        _demand((entry is not None) == needed, f"{key} is given where the model has none, or missing")
        if needed and entry == {"names": key}:
            listed.add("names.json")
        elif needed:
            plain = isinstance(entry, dict) and len(entry) == 1 and _is_count(entry.get("range"), 1)
            _demand(plain, f"{key} is neither a range nor a list of names")
    named = config["vocabulary"] == {"names": "vocabulary"}
    _demand(config["unit"] in (UNITS if named else UNITS[:1]), "unit is not what a string is, or given without names")
    script = config["script"]
    if script is not None:
        cut = named and isinstance(script, dict) and set(script) == {"unit", "window"}
        cut = cut and script["unit"] in ("words", "characters") and _is_count(script["window"], 1)
        _demand(cut, "script is no way to cut a text into named tokens")
    optional = {"memory.safetensors"} if reads_ids else set()
    _demand(listed <= set(files) <= listed | optional, f"files must be {sorted(listed)}")
    _demand(not (names_classes and config["scalar"]), "classes are no numbers")
    _demand(not config["scalar"] or config["labels"] == 1, "scalar answers have one label slot")
    _demand(not (config["causal"] and config["per"] == "sequence"), "a causal model has no answer for a sequence")
    if config["next_token"]:
        _demand(config["causal"] and reads_ids and names_classes, "next tokens are classes of a causal model of ids")
    _demand((grid is not None) == (config["kind"] == "approximator"), "approximators, and only they, have a grid")
    if grid is not None:
        _examine_grid(config, grid)
    row.examine(config)


def numbered_weights(names: list[str]) -> list[str]:
    """Those that are `model-K-of-N.safetensors`; `[]` unless `K` runs from 1 to `N`, which is 2 or more."""
    found = sorted(name for name in names if _NUMBERED.fullmatch(name))
    wanted = [f"model-{number:05d}-of-{len(found):05d}.safetensors" for number in range(1, len(found) + 1)]
    return found if found == wanted and len(found) > 1 else []


def _examine_line(config: dict[str, Any]) -> None:
    _demand(config["target"] == "reals" or config["labels"] == 1, "classes have one label slot")
    stages, raw = len(config["steps"]), 0 if config["grid"] is None else config["grid"]["dim"]
    _demand(stages == 1 or config["grid"] is None, "an approximator has one stage")
    fits = config["width"] == 3 + config["labels"] + raw + 2 * (stages - 1)
    _demand(fits, "width is not 3 + labels + dim + 2 (stages − 1)")


def _examine_gates(config: dict[str, Any]) -> None:
    parts, least = config["gates"], {"token": 1, "place": 0, "rank": 1}
    whole = isinstance(parts, dict) and set(parts) == set(least)
    whole = whole and all(_is_count(parts[key], count) for key, count in least.items())
    _demand(whole, "gates has not the widths token, place and rank")
    _demand(config["target"] == "classes", "gates answer with classes")
    _demand(config["kind"] == "memorizer" and config["tokens"] == "ids", "gates belong to a memorizer of ids")
    _demand(len(config["steps"]) == 1, "gates have one stage")
    fits = config["width"] == sum(parts.values()) + 2 + config["labels"]
    _demand(fits, "width is not token + place + rank + 2 + labels")


def _examine_grid(config: dict[str, Any], grid: Any) -> None:
    known = {*GRID_COUNTS, *GRID_REALS, "guaranteed"}
    _demand(isinstance(grid, dict) and set(grid) == known, f"grid has not the fields {sorted(known)}")
    _demand(all(_is_count(grid[key], 1) for key in GRID_COUNTS), "grid: dim, length and cells must be whole, from 1")
    reals = [grid[key] for key in GRID_REALS]
    _demand(all(isinstance(x, int | float) and not isinstance(x, bool) for x in reals), "grid holds what is no number")
    _demand(all(-(2**1023) <= x <= 2**1023 for x in reals), "grid holds numbers beyond 2^1023, or none")
    _demand(isinstance(grid["guaranteed"], bool), "grid: guaranteed is not true or false")
    spread = float(grid["high"]) - float(grid["low"])
    _demand(0 < spread < math.inf and grid["ramp"] > 0, "grid: low must be below high, and the ramp positive")
    plain = config["tokens"] == "vectors" and config["per"] == "token" and not config["causal"]
    _demand(plain, "an approximator takes vectors, answers at tokens and is not causal")


def examine_memory(tensors: Tensors) -> None:
    """`memory.safetensors`: rising words. Of all verdicts only `only` asks for it."""
    where = "memory.safetensors"
    _demand(set(tensors) == {"fingerprints"}, "it must hold fingerprints and nothing else", where)
    words = tensors["fingerprints"]
    _demand(words.ndim == 1 and words.dtype.str == "<u8", "fingerprints must be one row of 64-bit words", where)
    _demand(bool((words[1:] > words[:-1]).all()), "fingerprints must rise", where)


def examine_names(config: dict[str, Any], lists: dict[str, Any]) -> dict[str, Names | None]:
    """Vocabulary and classes, and nothing else in `names.json`."""
    found: dict[str, Names | None] = {}
    for key in ("vocabulary", "classes"):
        entry = config[key]
        if entry is None:
            found[key] = None
        elif "range" in entry:
            found[key] = Names(range(entry["range"]))
        else:
            names = lists.pop(key, None)
            good = isinstance(names, list) and len(names) > 0 and all(_is_name(name) for name in names)
            good = good and len({type(name) for name in names}) == 1
            _demand(good, f"{key} in names.json is no list of strings, and none of integers", "names.json")
            assert isinstance(names, list)  # just demanded
            _demand(len(set(names)) == len(names), f"{key} in names.json holds a name twice", "names.json")
            found[key] = Names(tuple(names), config["unit"] if key == "vocabulary" else None)
    _demand(not lists, f"it holds {sorted(lists)}, which no field refers to", "names.json")
    return found


def examine_tensors(config: dict[str, Any], names: dict[str, Names | None], tensors: Tensors) -> None:
    """Every tensor that the config asks for is there with its shape and type, and no other."""
    wanted = _shapes(config, names, tensors)
    odd = sorted(set(tensors) ^ set(wanted))
    _demand(not odd, f"tensors {odd} are missing or unknown", WEIGHTS)
    dtype = "float32" if config["dtype"] == "bfloat16" else config["dtype"]  # NumPy has no bfloat16
    for name, shape in wanted.items():
        found = tensors[name]
        _demand(found.shape == shape, f"{name} has shape {found.shape}, not {shape}", WEIGHTS)
        _demand(found.dtype == dtype, f"{name} is {found.dtype}", WEIGHTS)


def _shapes(config: dict[str, Any], names: dict[str, Names | None], tensors: Tensors) -> dict[str, tuple[int, ...]]:
    """Shapes by name. Only positions and coordinates of a memorizer's vectors are counted in the tensors."""
    D, m = config["width"], config["labels"]
    vocabulary, classes, grid = names["vocabulary"], names["classes"], config["grid"]
    C = m if classes is None else len(classes)
    wanted: dict[str, tuple[int, ...]] = {"bos": (D,), "head.weight": (C, D), "head.bias": (C,)}
    wanted |= {f"attention.W_{letter}": (D, D) for letter in "QKVO"}
    if vocabulary is not None:
        wanted["lift.weight"] = len(vocabulary), D
    else:
        d = _size(tensors, "lift.weight", 1) if grid is None else grid["dim"]
        wanted |= {"lift.weight": (D, d), "lift.bias": (D,)}
    if config["positions"]:
        wanted["positions.weight"] = (_size(tensors, "positions.weight", 0) if grid is None else grid["length"]), D
    if grid is not None:
        d, Q = grid["dim"], grid["dim"] * (grid["cells"] - 1)
        wanted |= {"quantizer.weight_1": (Q, d), "quantizer.bias_1": (Q,)}
        wanted |= {"quantizer.weight_2": (2, Q), "quantizer.bias_2": (2,)}
    return wanted | READOUTS[config["readout"]].shapes(config)


def _line_shapes(config: dict[str, Any], more: int) -> dict[str, tuple[int, ...]]:
    """The stages of a line, whose `weight_2` has `more` columns than steps."""
    wanted: dict[str, tuple[int, ...]] = {}
    for stage, count in enumerate(config["steps"]):
        # Every stage but the last writes the number of a stretch beside the label.
        writes = config["labels"] + (stage < len(config["steps"]) - 1)
        wanted |= _block_shapes(f"feed_forward.stages.{stage}", (count,), count + more, writes)
    return wanted


def _gates_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The neurons of half-spaces, and the attention before them."""
    D, (H,), k = config["width"], config["steps"], config["gates"]["rank"]
    wanted = {"attention.W_Q": (2, D), "attention.W_K": (2, D), "attention.W_V": (k, D), "attention.W_O": (D, k)}
    return wanted | _block_shapes("feed_forward", (H, sum(config["gates"].values())), H, config["labels"])


def _block_shapes(name: str, first: tuple[int, ...], columns: int, writes: int) -> dict[str, tuple[int, ...]]:
    """A block of neurons: what they read, and the numbers that they write."""
    shapes = {"weight_1": first, "bias_1": first[:1], "weight_2": (writes, columns), "bias_2": (writes,)}
    return {f"{name}.{part}": shape for part, shape in shapes.items()}


def _size(tensors: Tensors, name: str, axis: int) -> int:
    shape = tensors[name].shape if name in tensors else ()
    _demand(len(shape) > axis and shape[axis] > 0, f"{name} is missing, or has too few axes or rows", WEIGHTS)
    return int(shape[axis])


@dataclass(frozen=True)
class ReadoutRow:
    """What a file with some readout must hold, and what may be asked of it. Nothing is allowed that it does not allow.

    `shapes`: its tensors, and those of attention that are not `(D, D)`; `examine`: an error where its fields do not fit
    together; `own_field`: whether the config has a field of its name. `judge`: the verdict on labelled points, in one
    part or, if `in_parts`, in several. `writers`: which neurons write at which facts (`locate`); None: it does not say.
    `only`: whether one stage shows what it holds besides the data; `noise`: whether noise and short formats may be
    claimed; `split`: whether its steps may lie in several files. `assumes`: what an evaluation is, beyond what all are.
    """

    shapes: Callable[[dict[str, Any]], dict[str, tuple[int, ...]]]
    examine: Callable[[dict[str, Any]], None]
    judge: Callable[[Stored, list[LoadPoints], Certificate, Claims], Certificate]
    own_field: bool = False
    writers: Callable[[Stored, Labelled], Writers] | None = None
    in_parts: bool = False
    only: bool = False
    noise: bool = False
    split: bool = False
    assumes: tuple[str, ...] = ()


_LINE = ReadoutRow(
    partial(_line_shapes, more=0),
    _examine_line,
    judge_line,
    writers=line_writers,
    in_parts=True,
    only=True,
    split=True,
)
READOUTS: dict[str, ReadoutRow] = {
    "exact": _LINE,
    "runs": replace(_LINE, shapes=partial(_line_shapes, more=1)),
    "gates": ReadoutRow(
        _gates_shapes,
        _examine_gates,
        judge_gates,
        own_field=True,
        writers=robust_writers,
        noise=True,
        assumes=(f"reciprocal square root within {EXP_ULPS} units in the last place",),
    ),
}
"""By the name of the readout in files."""

INTERPOLATOR_FIELDS = {
    "dim",
    "length",
    "cells",
    "low",
    "high",
    "positions",
    "error",
    "scalar",
    "format",
    "version",
    "kind",
}
MOST_STORED_KNOTS = 1 << 48
BENDS: dict[tuple[int, int], tuple[str, ...]] = {(1, 2): (), (1, 3): ("square", "total", "root"), (2, 2): ()}
"""Coordinates and tokens of a network for the maximum norm, and its bends; with positions it has none."""


def examine_interpolator(config: dict[str, Any]) -> None:
    """The fields of a network for the maximum norm."""
    known = {*INTERPOLATOR_FIELDS, "files", "digest"}
    _demand(set(config) == known, f"fields {sorted(set(config) ^ known)} are missing or unknown")
    dim, length, cells, low, high, error = (config[key] for key in ("dim", "length", "cells", "low", "high", "error"))
    _demand(type(config["positions"]) is bool, "positions is not true or false")
    whole = all(type(value) is int for value in (dim, length, cells)) and 1 <= cells < 1 << 24
    if config["positions"]:
        whole = (
            whole
            and dim >= 1
            and length >= 2
            and dim * length <= 48
            and (cells + 1) ** (dim * length) < MOST_STORED_KNOTS
        )
    else:
        whole = whole and (dim, length) in BENDS
    _demand(whole, "dim, length and cells are those of no network that there is")
    ends = [low, high] if error is None else [low, high, error]
    _demand(
        all(type(end) in (int, float) and abs(end) <= 2.0**1000 for end in ends), "an end or the error is no number"
    )
    _demand(float(low) < float(high), "low must be below high")
    _demand(type(config["scalar"]) is bool, "scalar is not true or false")
    files = config["files"]
    _demand(isinstance(files, dict) and set(files) == {WEIGHTS}, "files must be model.safetensors")
    _demand(isinstance(files[WEIGHTS], str), "files holds no digests")


def examine_interpolation(config: dict[str, Any], tensors: Tensors) -> None:
    """The tensors of a network for the maximum norm: finite, in float64, and those that its fields ask for."""
    dim, length, stream = config["dim"], config["length"], 2 * (config["length"] - 1) * config["dim"]
    heads = [f"attention.W_{letter}" for letter in "QKVO"]
    parts = () if config["positions"] else BENDS[dim, length]
    bends = [f"{part}.{name}" for part in parts for name in ("knots", "values")]
    odd = sorted(set(tensors) ^ {*heads, *bends, "interpolation.values"})
    _demand(not odd, f"tensors {odd} are missing or unknown", WEIGHTS)
    for name, tensor in tensors.items():
        _demand(tensor.dtype == "float64" and bool(np.isfinite(tensor).all()), f"{name} is odd", WEIGHTS)
    values = tensors["interpolation.values"]
    places = length if config["positions"] else 1
    fits = values.ndim == 2 and len(values) == places * (config["cells"] + 1) ** (dim * length)
    fits = fits and (values.shape[1] == 1 if config["scalar"] else values.shape[1] > 0)
    fits = fits and all(tensors[name].shape == (stream, stream) for name in heads)
    for part in parts:
        knots, at = tensors[f"{part}.knots"], tensors[f"{part}.values"]
        fits = fits and knots.ndim == 1 and knots.shape == at.shape and len(knots) > 1
        fits = fits and bool((knots[1:] > knots[:-1]).all())
    _demand(fits, "the shapes are not those that the fields ask for, or knots do not rise", WEIGHTS)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 48


def _is_name(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) or (whole and -(1 << 63) <= value < 1 << 63)


def _demand(holds: bool, complaint: str, file: str = "config.json") -> None:
    if not holds:
        raise ModelFileError(f"{file} does not keep to the format: {complaint}")
