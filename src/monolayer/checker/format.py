"""Checks whether the parts of a folder make a model of docs/format.md. It shares no code with the loader.

Letters: `D` width of the stream, `m` label coordinates, `H` steps, `C` outputs, `d` coordinates of a vector. All that
depends on the readout, here and in judging a model, is in its row of `READOUTS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from monolayer.arrays import NamedArrays
from monolayer.checker.certificate import Certificate, Claims
from monolayer.checker.labelled import Labelled, LoadPoints
from monolayer.checker.line import judge_line
from monolayer.checker.network import Stored
from monolayer.checker.robust import judge_gates
from monolayer.checker.rounding import EXP_ULPS
from monolayer.data import Names
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE
from monolayer.data.labelling import LABELLINGS, SEQUENCE, TOKEN
from monolayer.data.model_kinds import MODEL_KINDS, kind_of
from monolayer.data.number_formats import FLOAT32, FLOAT64, FORMATS
from monolayer.data.objects import Config
from monolayer.data.plan import FileFormat
from monolayer.errors import ModelFileError

if TYPE_CHECKING:
    from monolayer.checker.locating.writers import Writers

FORMAT_VERSION = 3
_NUMBERED = re.compile(r"model-([0-9]{5})-of-([0-9]{5})\.safetensors")
WORDS = {
    "format": ("monolayer",),
    "kind": tuple(name for name, kind in MODEL_KINDS.items() if kind.has_readout),
    "tokens": ("ids", "vectors"),
    "per": (TOKEN.name, SEQUENCE.name),
    "target": ("classes", "reals"),
    "dtype": tuple(FORMATS),
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
    "form",
    "grid",
    "draw",
    "summary",
    "files",
    "digest",
)
FORMS = ({*get_args(FileFormat)} - {"windows"}) | {"objects", "columns", "table", "structs"}
"""What a form of data may call its format: that of a file, or of a table in memory."""
_SURROGATE = re.compile("[\ud800-\udfff]")
GRID_COUNTS = ("dim", "length", "cells")
GRID_REALS = ("low", "high", "ramp", "error", "spread")


def examine_config(config: Config) -> None:
    """Raise an error unless every field is there, has a value that it may have, and all fit together."""
    readout = config.get("readout")
    _demand(isinstance(readout, str) and readout in READOUTS, f"readout is not one of {', '.join(READOUTS)}")
    row = READOUTS[str(readout)]
    known = {*WORDS, *SWITCHES, *COUNTS, *OTHER_FIELDS, *([str(readout)] if row.own_field else [])}
    _demand(set(config) == known, f"fields {sorted(set(config) ^ known)} are missing or unknown")
    _examine_fields(config)
    _examine_files(config, row)
    _examine_labels(config)
    _demand((config["grid"] is not None) == kind_of(config).has_grid, "approximators, and only they, have a grid")
    if config["grid"] is not None:
        _examine_grid(config, config["grid"])
    row.examine(config)


def _examine_fields(config: Config) -> None:
    """Raise an error unless each field by itself has a value that it may have."""
    for key, words in WORDS.items():
        _demand(isinstance(config[key], str) and config[key] in words, f"{key} is not one of {', '.join(words)}")
    for key in SWITCHES:
        _demand(config[key] is True or config[key] is False, f"{key} is not true or false")
    for key, least in COUNTS.items():
        _demand(_is_count(config[key], least), f"{key} is not a whole number, {least} or more")
    steps, summary, files = (config[key] for key in ("steps", "summary", "files"))
    whole = isinstance(steps, list) and len(steps) > 0 and all(_is_count(each, 0) for each in steps)
    _demand(whole, "steps is not a list of whole numbers, one per stage")
    _demand(summary is None or isinstance(summary, dict), "summary is not an object")
    _demand(config["draw"] is None or isinstance(config["draw"], dict), "draw is not an object")
    _demand(isinstance(files, dict) and all(isinstance(x, str) for x in files.values()), "files must hold digests")


def _examine_files(config: Config, row: ReadoutRow) -> None:
    """Raise an error unless names, units and the list of files fit the kind of tokens and labels."""
    files, reads_ids = config["files"], config["tokens"] == "ids"
    listed = {WEIGHTS_FILE}
    if INDEX_FILE in files:
        listed = {INDEX_FILE, *numbered_weights(list(files))}
        plain = row.split and kind_of(config).holds_facts
        plain = plain and FORMATS[config["dtype"]].long and len(listed) > 2
        _demand(plain, "weights in several files are the numbered files of a line of a memorizer in float64")
    for key, needed in (("vocabulary", reads_ids), ("classes", config["target"] == "classes")):
        entry = config[key]
        _demand((entry is not None) == needed, f"{key} is given where the model has none, or missing")
        if needed and entry == {"names": key}:
            listed.add("names.json")
        elif needed:
            plain = isinstance(entry, dict) and len(entry) == 1 and _is_count(entry.get("range"), 1)
            _demand(plain, f"{key} is neither a range nor a list of names")
    named = config["vocabulary"] == {"names": "vocabulary"}
    # Integers that are their own row numbers are not split, but may have been given without lists around them.
    units = UNITS if named else (None, "whole") if reads_ids else (None,)
    _demand(config["unit"] in units, "unit is not a way to split strings, or is given without names")
    script = config["script"]
    if script is not None:
        cut = named and isinstance(script, dict) and set(script) == {"unit", "window"}
        cut = cut and script["unit"] in ("words", "characters") and _is_count(script["window"], 1)
        _demand(cut, "script does not say how to split a text into named tokens")
    form = config["form"]
    _demand(form is None or _is_form(form), "form is not the form of files or tables")
    optional = {"memory.safetensors"} if reads_ids else set()
    _demand(listed <= set(files) <= listed | optional, f"files must be {sorted(listed)}")


def _is_form(form: Any) -> bool:
    """Whether this is how a source of data was read: the fields of a plan that hold for other sources as well."""
    if not isinstance(form, dict) or set(form) != {"format", "separator", "header", "key", "label", "pair"}:
        return False
    mark, texts = form["separator"], [form[key] for key in ("separator", "key", "label")]
    return (
        isinstance(form["format"], str)
        and form["format"] in FORMS
        and all(text is None or (isinstance(text, str) and not _SURROGATE.search(text)) for text in texts)
        and (mark is None or len(mark) == 1)
        and (form["header"] is None or isinstance(form["header"], bool))
        and isinstance(form["pair"], bool)
    )


def _examine_labels(config: Config) -> None:
    """Raise an error unless the fields about labels and answers fit together."""
    names_classes = config["target"] == "classes"
    _demand(not (names_classes and config["scalar"]), "classes are not numbers, so scalar must be false")
    _demand(not config["scalar"] or config["labels"] == 1, "scalar answers have one label slot")
    at_tokens = LABELLINGS[config["per"]].at_tokens
    _demand(at_tokens or not config["causal"], "a causal model has no answer for a sequence")
    if config["next_token"]:
        of_ids = config["causal"] and config["tokens"] == "ids" and names_classes
        _demand(of_ids, "next tokens are classes of a causal model of ids")


def numbered_weights(names: list[str]) -> list[str]:
    """The names `model-K-of-N.safetensors` among `names`, in order; `[]` unless `K` runs from 1 to `N`, 2 or more."""
    numbered = sorted(name for name in names if _NUMBERED.fullmatch(name))
    wanted = [f"model-{number:05d}-of-{len(numbered):05d}.safetensors" for number in range(1, len(numbered) + 1)]
    return numbered if numbered == wanted and len(numbered) > 1 else []


def _examine_line(config: Config) -> None:
    """Raise an error unless the fields of a line fit together."""
    _demand(config["target"] == "reals" or config["labels"] == 1, "classes have one label slot")
    stages, raw = len(config["steps"]), 0 if config["grid"] is None else config["grid"]["dim"]
    _demand(stages == 1 or config["grid"] is None, "an approximator has one stage")
    fits = config["width"] == 3 + config["labels"] + raw + 2 * (stages - 1)
    _demand(fits, "width is not 3 + labels + dim + 2 (stages − 1)")


def _examine_gates(config: Config) -> None:
    """Raise an error unless the fields of a robust model fit together."""
    parts, least = config["gates"], {"token": 1, "place": 0, "rank": 1}
    whole = isinstance(parts, dict) and set(parts) == set(least)
    whole = whole and all(_is_count(parts[key], count) for key, count in least.items())
    _demand(whole, "gates must have the widths token, place and rank")
    _demand(config["target"] == "classes", "gates answer with classes")
    _demand(kind_of(config).holds_facts and config["tokens"] == "ids", "gates belong to a memorizer of ids")
    _demand(len(config["steps"]) == 1, "gates have one stage")
    fits = config["width"] == sum(parts.values()) + 2 + config["labels"]
    _demand(fits, "width is not token + place + rank + 2 + labels")


def _examine_grid(config: Config, grid: Any) -> None:
    """Raise an error unless the grid of an approximator is one, and fits the other fields."""
    known = {*GRID_COUNTS, *GRID_REALS, "guaranteed"}
    _demand(isinstance(grid, dict) and set(grid) == known, f"grid must have the fields {sorted(known)}")
    _demand(all(_is_count(grid[key], 1) for key in GRID_COUNTS), "grid: dim, length and cells must be whole, from 1")
    reals = [grid[key] for key in GRID_REALS]
    _demand(
        all(isinstance(x, int | float) and not isinstance(x, bool) for x in reals),
        "grid holds something other than numbers",
    )
    _demand(all(-(2**1023) <= x <= 2**1023 for x in reals), "grid holds NaN, or a number beyond 2^1023")
    _demand(isinstance(grid["guaranteed"], bool), "grid: guaranteed is not true or false")
    spread = float(grid["high"]) - float(grid["low"])
    _demand(0 < spread < math.inf and grid["ramp"] > 0, "grid: low must be below high, and the ramp positive")
    plain = config["tokens"] == "vectors" and LABELLINGS[config["per"]].at_tokens and not config["causal"]
    _demand(plain, "an approximator takes vectors, answers at tokens and is not causal")


def examine_memory(tensors: NamedArrays) -> None:
    """Raise an error unless `memory.safetensors` holds rising 64-bit words."""
    where = "memory.safetensors"
    _demand(set(tensors) == {"fingerprints"}, "it must hold fingerprints and nothing else", where)
    words = tensors["fingerprints"]
    _demand(words.ndim == 1 and words.dtype.str == "<u8", "fingerprints must be one row of 64-bit words", where)
    _demand(bool((words[1:] > words[:-1]).all()), "fingerprints must rise", where)


def examine_names(config: Config, lists: dict[str, Any]) -> dict[str, Names | None]:
    """The names of tokens and classes; an error unless `names.json` (`lists`) holds these and nothing else."""
    tables: dict[str, Names | None] = {}
    for key in ("vocabulary", "classes"):
        entry = config[key]
        if entry is None:
            tables[key] = None
        elif "range" in entry:
            tables[key] = Names(range(entry["range"]), config["unit"] if key == "vocabulary" else None)
        else:
            names = lists.pop(key, None)
            good = isinstance(names, list) and len(names) > 0 and all(_is_name(name) for name in names)
            good = good and len({type(name) for name in names}) == 1
            _demand(good, f"{key} in names.json is neither a list of strings nor one of integers", "names.json")
            assert isinstance(names, list)  # just demanded
            _demand(len(set(names)) == len(names), f"{key} in names.json holds a name twice", "names.json")
            tables[key] = Names(tuple(names), config["unit"] if key == "vocabulary" else None)
    _demand(not lists, f"it holds {sorted(lists)}, which no field refers to", "names.json")
    return tables


def examine_tensors(config: Config, names: dict[str, Names | None], tensors: NamedArrays) -> None:
    """Raise an error unless exactly the tensors that the config needs are there, with their shapes and types."""
    wanted = _shapes(config, names, tensors)
    odd = sorted(set(tensors) ^ set(wanted))
    _demand(not odd, f"tensors {odd} are missing or unknown", WEIGHTS_FILE)
    fmt = FORMATS[config["dtype"]]
    dtype = FLOAT32.name if fmt.widened else fmt.name
    for name, shape in wanted.items():
        tensor = tensors[name]
        _demand(tensor.shape == shape, f"{name} has shape {tensor.shape}, not {shape}", WEIGHTS_FILE)
        _demand(tensor.dtype == dtype, f"{name} is {tensor.dtype}", WEIGHTS_FILE)


def _shapes(config: Config, names: dict[str, Names | None], tensors: NamedArrays) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors by name.

    The config does not say how many positions a memorizer has, nor how many coordinates its vectors: these two sizes
    are taken from the tensors.
    """
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


def _line_shapes(config: Config, more: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the stages of a line; `weight_2` has `more` columns more than there are steps."""
    wanted: dict[str, tuple[int, ...]] = {}
    for stage, count in enumerate(config["steps"]):
        # Every stage but the last writes the number of a stretch beside the label.
        writes = config["labels"] + (stage < len(config["steps"]) - 1)
        wanted |= _block_shapes(f"feed_forward.stages.{stage}", (count,), count + more, writes)
    return wanted


def _gates_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Shapes of the half-spaces of a robust model, and of its attention."""
    D, (H,), k = config["width"], config["steps"], config["gates"]["rank"]
    wanted = {"attention.W_Q": (2, D), "attention.W_K": (2, D), "attention.W_V": (k, D), "attention.W_O": (D, k)}
    return wanted | _block_shapes("feed_forward", (H, sum(config["gates"].values())), H, config["labels"])


def _block_shapes(name: str, first: tuple[int, ...], columns: int, writes: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a block of neurons: `first` is that of `weight_1`; `weight_2` is `(writes, columns)`."""
    shapes = {"weight_1": first, "bias_1": first[:1], "weight_2": (writes, columns), "bias_2": (writes,)}
    return {f"{name}.{part}": shape for part, shape in shapes.items()}


def _size(tensors: NamedArrays, name: str, axis: int) -> int:
    """The size of a tensor along an axis; an error unless it is 1 or more."""
    shape = tensors[name].shape if name in tensors else ()
    _demand(len(shape) > axis and shape[axis] > 0, f"{name} is missing, or has too few axes or rows", WEIGHTS_FILE)
    return int(shape[axis])


@dataclass(frozen=True)
class ReadoutRow:
    """What a folder with some readout must hold, and what may be claimed about it. The defaults allow nothing extra.

    `shapes`: of its tensors, and of those of attention that are not `(D, D)`. `examine`: raises an error where its
    fields do not fit together. `own_field`: whether the config has a field of its name. `judge`: the certificate for
    labelled points, in one part or, if `in_parts`, in several. `writers`: which neurons write at which facts, for
    `locate`; None if it cannot say. `only`: whether a model of one stage shows what it holds besides the data. `noise`:
    whether noise and short formats may be claimed. `split`: whether its steps may lie in several files. `assumes`: what
    is assumed of an evaluation beyond what is assumed for all readouts.
    """

    shapes: Callable[[Config], dict[str, tuple[int, ...]]]
    examine: Callable[[Config], None]
    judge: Callable[[Stored, list[LoadPoints], Certificate, Claims], Certificate]
    own_field: bool = False
    writers: Callable[[Stored, Labelled], Writers] | None = None
    in_parts: bool = False
    only: bool = False
    noise: bool = False
    split: bool = False
    assumes: tuple[str, ...] = ()


def _line_writers(stored: Stored, asked: Labelled) -> Writers:
    from monolayer.checker.locating.writers import line_writers  # only `locate` needs it

    return line_writers(stored, asked)


def _robust_writers(stored: Stored, asked: Labelled) -> Writers:
    from monolayer.checker.locating.writers import robust_writers

    return robust_writers(stored, asked)


_LINE = ReadoutRow(
    partial(_line_shapes, more=0),
    _examine_line,
    judge_line,
    writers=_line_writers,
    in_parts=True,
    only=True,
    split=True,
)
# `model/readouts.py` has a table by this name too: one row per readout on each side, and the checker imports no model.
READOUTS: dict[str, ReadoutRow] = {
    "exact": _LINE,
    "runs": replace(_LINE, shapes=partial(_line_shapes, more=1)),
    "gates": ReadoutRow(
        _gates_shapes,
        _examine_gates,
        judge_gates,
        own_field=True,
        writers=_robust_writers,
        noise=True,
        assumes=(f"reciprocal square root within {EXP_ULPS} units in the last place",),
    ),
}
"""The rows, by the name of the readout in `config.json`."""

INTERPOLATOR_FIELDS = {
    "dim",
    "length",
    "cells",
    "low",
    "high",
    "positions",
    "first_block",
    "error",
    "scalar",
    "format",
    "version",
    "kind",
}
MOST_STORED_KNOTS = 1 << 48
BENDS = ("square", "total", "root")
"""The bends of a network for the maximum norm with a first block and without positions."""
WITHOUT_POSITIONS = {True: ((1, 3),), False: ((1, 2), (2, 2), (1, 3), (1, 4))}
"""By whether it has a first block, coordinates and tokens of a network for the maximum norm without positions."""


def several_heads(config: Config) -> bool:
    """Whether a network for the maximum norm has several heads in place of a first block."""
    return not config["first_block"] and config["length"] > 2


def examine_interpolator(config: Config) -> None:
    """Raise an error unless the fields of a network for the maximum norm have values that they may have."""
    known = {*INTERPOLATOR_FIELDS, "files", "digest"}
    _demand(set(config) == known, f"fields {sorted(set(config) ^ known)} are missing or unknown")
    dim, length, cells, low, high, error = (config[key] for key in ("dim", "length", "cells", "low", "high", "error"))
    for flag in ("positions", "first_block"):
        _demand(type(config[flag]) is bool, f"{flag} is not true or false")
    whole = all(type(value) is int for value in (dim, length, cells)) and 1 <= cells < 1 << 24
    if config["positions"]:
        whole = (
            whole
            and config["first_block"]
            and dim >= 1
            and length >= 2
            and dim * length <= 48
            and (cells + 1) ** (dim * length) < MOST_STORED_KNOTS
        )
    else:
        whole = whole and (dim, length) in WITHOUT_POSITIONS[config["first_block"]]
    _demand(whole, "no network has this dim, length and cells")
    ends = [low, high] if error is None else [low, high, error]
    _demand(
        all(type(end) in (int, float) and abs(end) <= 2.0**1000 for end in ends),
        "an end of the domain, or the error, is not a number",
    )
    _demand(float(low) < float(high), "low must be below high")
    _demand(type(config["scalar"]) is bool, "scalar is not true or false")
    files = config["files"]
    _demand(isinstance(files, dict) and set(files) == {WEIGHTS_FILE}, "files must be model.safetensors")
    _demand(isinstance(files[WEIGHTS_FILE], str), "files must hold digests")


def examine_interpolation(config: Config, tensors: NamedArrays) -> None:
    """Raise an error unless a network for the maximum norm has its tensors, finite and in float64."""
    dim, length, stream = config["dim"], config["length"], 2 * (config["length"] - 1) * config["dim"]
    shapes: dict[str, tuple[int, ...]] = {f"attention.W_{letter}": (stream, stream) for letter in "QKVO"}
    if several_heads(config):
        shapes = dict.fromkeys(shapes, (length - 1, length + 1, length + 1))
        shapes |= {"others.temperatures": (length - 1,), "others.gain": (3,)}
    parts = BENDS if config["first_block"] and not config["positions"] else ()
    bends = [f"{part}.{name}" for part in parts for name in ("knots", "values")]
    odd = sorted(set(tensors) ^ {*shapes, *bends, "interpolation.values"})
    _demand(not odd, f"tensors {odd} are missing or unknown", WEIGHTS_FILE)
    for name, tensor in tensors.items():
        _demand(
            tensor.dtype == FLOAT64.name and bool(np.isfinite(tensor).all()),
            f"{name} is not float64, or not finite",
            WEIGHTS_FILE,
        )
    values = tensors["interpolation.values"]
    places = length if config["positions"] else 1
    fits = values.ndim == 2 and len(values) == places * (config["cells"] + 1) ** (dim * length)
    fits = fits and (values.shape[1] == 1 if config["scalar"] else values.shape[1] > 0)
    fits = fits and all(tensors[name].shape == shape for name, shape in shapes.items())
    for part in parts:
        knots, at = tensors[f"{part}.knots"], tensors[f"{part}.values"]
        fits = fits and knots.ndim == 1 and knots.shape == at.shape and len(knots) > 1
        fits = fits and bool((knots[1:] > knots[:-1]).all())
    _demand(fits, "the shapes are not those that the fields ask for, or knots do not rise", WEIGHTS_FILE)


def _is_count(value: object, least: int) -> bool:
    """Whether a JSON value is a whole number from `least` to 2^48."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 48


def _is_name(value: Any) -> bool:
    """Whether a JSON value may be a name: a string, or a 64-bit integer."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) or (whole and -(1 << 63) <= value < 1 << 63)


def _demand(holds: bool, complaint: str, file: str = "config.json") -> None:
    """Raise an error about `file` unless `holds`."""
    if not holds:
        raise ModelFileError(f"{file} does not keep to the format: {complaint}")
