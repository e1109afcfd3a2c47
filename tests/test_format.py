"""One format, read twice: loader and checker take the same folders, and what is proved also answers.

What is saved comes back bit for bit; what is broken is refused; what was there is not lost.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save as save_tensors

import monolayer as ml
from monolayer.checker import format as checker_format
from monolayer.checker import stored
from monolayer.data.aside import new_file, read_regular
from monolayer.data.folder import WEIGHTS_FILE
from monolayer.model import save as store
from monolayer.model import schema
from monolayer.model.readouts import READOUTS
from tests.adversary import number
from tests.evil import TOLERANCE
from tests.stored_models import Case, Saved, random_case, sealed
from tests.verdicts import refused

FORM = {"format": "csv", "separator": ";", "header": False, "key": "1", "label": "2", "pair": True}
"""The form of data that a model was built from, as `config.json` has it."""
PAGE = (Path(__file__).parent.parent / "docs" / "format.md").read_text()

WEIRD: list[Any] = [
    None, True, False, 0, 1, 2, 3, -1, 4.0, 0.5, 10**30, 1e308, float("nan"), float("inf"), "", "x", [], {}, [1],
    {"range": 3}, {"range": 4.0}, {"range": True}, {"range": 10**30}, {"range": -1}, {"names": "vocabulary"},
    {"names": "classes"}, {"names": "classes", "range": 3}, {"range": 2, "more": 1}, "ids", "vectors", "token",
    "words", "whole", "sequence", "classes", "reals", "exact", "runs", "float32", "float64", "float16",
    "memorizer", "approximator", "\x1b[31m", "\ud800",
]  # fmt: skip


# -- ways to break a folder --------------------------------------------------------------------------------


def some_fields(saved: Saved, rng: np.random.Generator) -> None:
    """One or two fields of the config or of its grid, with values that no field or some other has."""
    for _ in range(rng.integers(1, 3)):
        grid = saved.config.get("grid")
        fields = grid if isinstance(grid, dict) and rng.integers(2) else saved.config
        fields[str(rng.choice([*sorted(fields), "more"]))] = deepcopy(WEIRD[rng.integers(len(WEIRD))])
    if rng.integers(4) == 0:
        del saved.config[str(rng.choice(sorted(saved.config)))]


def related_fields(saved: Saved, rng: np.random.Generator) -> None:
    """Fields that depend on each other, with values that each of them may have."""
    choices = {
        "target": ["classes", "reals"],
        "classes": [None, {"range": 1}, {"range": 2}, {"range": 3}],
        "scalar": [True, False],
        "labels": [1, 2],
        "per": ["token", "sequence"],
        "causal": [True, False],
        "next_token": [True, False],
        "tokens": ["ids", "vectors"],
        "vocabulary": [None, {"range": 3}],
        "unit": [None, "words"],
        "script": [
            None,
            {"unit": "words", "window": 3},
            {"unit": "lines", "window": 3},
            {"unit": "words", "window": 0},
        ],
        "form": [None, FORM, {**FORM, "separator": ";;"}, {**FORM, "format": "arrays"}],
        "readout": ["exact", "runs"],
        "steps": [[0], [1], [3, 0], [], 3],
        "kind": ["memorizer", "approximator"],
        "positions": [True, False],
        "dtype": ["float32", "float64", "float16", "bfloat16"],
    }
    for key in rng.choice(sorted(choices), size=rng.integers(1, 4), replace=False):
        saved.config[str(key)] = choices[str(key)][rng.integers(len(choices[str(key)]))]


def one_tensor(saved: Saved, rng: np.random.Generator) -> None:
    name = str(rng.choice(sorted(saved.tensors)))
    tensor = saved.tensors.pop(name)
    ways: list[Callable[[], np.ndarray]] = [
        lambda: np.concatenate([tensor, tensor[:1]]),
        lambda: tensor.T.copy(),
        lambda: tensor[None],
        lambda: tensor.astype("float32" if tensor.dtype == "float64" else "float64"),
        lambda: tensor.astype("int64"),
        lambda: tensor[:0],
        lambda: tensor[..., :-1],
    ]
    kind = rng.integers(len(ways) + 2)
    if kind < len(ways):
        with np.errstate(all="ignore"):
            saved.tensors[name] = ways[kind]()
    elif kind == len(ways):
        saved.tensors |= {name: tensor, "more": np.zeros(2)}


def list_of_names(saved: Saved, rng: np.random.Generator) -> None:
    key = str(rng.choice(["vocabulary", "classes"]))
    entry = saved.config[key]
    if not (isinstance(entry, dict) and "range" in entry):
        saved.names["vocabulary"] = [1, 2]
        return
    size = entry["range"]
    lists: list[Any] = [
        [f"n{i}" for i in range(size)],
        [f"n{i // 2}" for i in range(size)],
        [2**63 + i for i in range(size)],
        [True, *range(2, size + 1)],
        "x" * size,
        [],
        [f"\x1b[{i}\ud800\0" for i in range(size)],
    ]
    saved.config[key] = {"names": key if rng.integers(6) else "other"}
    saved.names[key] = lists[rng.integers(len(lists))]


FAULTS = [some_fields, some_fields, some_fields, related_fields, related_fields, one_tensor, one_tensor, list_of_names]


# -- folders -----------------------------------------------------------------------------------------------


@cache
def approximators() -> tuple[Case, ...]:
    found = []
    for dim, length, positions in ((1, 2, False), (2, 1, False), (1, 2, True)):
        model = ml.approximate(lambda X: X[..., :1] ** 2, dim, length, cells=2, positions=positions)
        X = np.full((1, length, dim), 0.25)
        found.append(Case(X.tolist(), np.asarray(model.predict(X)).tolist(), Saved.of(model)))
    return tuple(found)


def any_case(seed: int) -> Case:
    if seed % 5 == 0:
        case = approximators()[seed // 5 % 3]
        return Case(case.X, case.Y, Saved(deepcopy(case.saved.config), case.saved.changed().tensors))
    options: dict[str, Any] = {"count": 2, "longest": 3, "vocabulary": 4, "classes": 3}
    if seed % 7 == 0:
        options |= {"tokens": "ids", "causal": True, "per": "token", "target": "classes", "readout": "exact"}
        options |= {"next_token": True, "vocabulary": 4, "classes": 4, "positions": True, "count": 1}
    return random_case(seed, dtype="float32" if seed % 3 == 0 else "float64", **options)


def answers_are_labels(model: ml.Monolayer, case: Case) -> bool:
    wanted = [row[1:] for row in case.X] if case.Y is None else case.Y
    for got, want in zip(model.predict(case.X), wanted, strict=True):
        two = np.ravel(want)
        one = np.ravel(got)[: len(two)]  # the last token of a sequence has no next one
        right = np.abs(one - two) <= TOLERANCE if model.card.classes is None else one == two
        if not np.all(right):
            return False
    return True


def look(case: Case, folder: Path) -> str:
    """`proved`, another verdict, `data` where the question does not fit, or `no model`; loader and checker agree."""
    taken = {}
    for name, reader in (("checker", stored.read_model), ("loader", ml.load)):
        with suppress(ml.ModelFileError):
            taken[name] = reader(folder)
    assert len(taken) != 1, f"only the {next(iter(taken))} takes {case.saved.config}"
    if not taken:
        return "no model"
    model = taken["loader"]
    try:
        verdict = ml.certify(folder, case.X, case.Y, tolerance=TOLERANCE).verdict
    except ml.DataError:
        return "data"
    if verdict == "proved":
        assert answers_are_labels(model, case), case.saved.config
    return verdict


def test_loader_and_checker_agree_and_what_is_proved_answers(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in range(180):
        rng = np.random.default_rng(seed)
        case = any_case(seed)
        with np.errstate(over="ignore"):
            case = number(case, rng) if seed % 9 == 0 else case  # the format does not care, the verdict does
        if seed % 9:
            FAULTS[seed % 9 - 1](case.saved, rng)
        try:
            folder = case.saved.write(tmp_path / str(seed))
        except ValueError:  # NumPy's safetensors cannot write this
            continue
        found[look(case, folder)] += 1
    assert min(found[kind] for kind in ("no model", "proved", "undecided", "refuted")) > 0, found


def test_the_fuzz_would_notice_a_reader_that_takes_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(1, target="reals", readout="exact", per="token", tokens="ids", causal=True, positions=False)
    case.saved.config["per"] = "sequence"
    folder = case.saved.write(tmp_path / "m")
    assert look(case, folder) == "no model"
    demand = checker_format._demand
    monkeypatch.setattr(
        checker_format,
        "_demand",
        lambda holds, why, *more: None if "no answer for a sequence" in why else demand(holds, why, *more),
    )
    with pytest.raises(AssertionError, match="only the checker takes"):
        look(case, folder)


# -- the edges of what is taken ----------------------------------------------------------------------------

TOP = 2**1023
PLACES = {"positions": True, "first_block": True}
EDGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "as it is": ("line", {}, ""),
    "steps: none": ("line", {"steps": []}, "steps is not a list"),
    "steps: below 0": ("line", {"steps": [-1]}, "steps is not a list"),
    "steps: 0": ("line", {"steps": [0]}, ""),
    "a digest that is a number": ("line", {"files": {"model.safetensors": "0", "names.json": 0}}, "must hold digests"),
    "a range of no classes": ("line", {"classes": {"range": 0}}, "classes is neither"),
    "a range of one class": ("line", {"classes": {"range": 1}}, ""),
    "a script": ("text", {"script": {"unit": "words", "window": 1}}, ""),
    "a script of characters": ("text", {"script": {"unit": "characters", "window": 7}}, ""),
    "a script of lines": ("text", {"script": {"unit": "lines", "window": 1}}, "script does not say"),
    "a script without a window": ("text", {"script": {"unit": "words", "window": 0}}, "script does not say"),
    "a script with more": ("text", {"script": {"unit": "words", "window": 1, "x": 1}}, "script does not say"),
    "a script with less": ("text", {"script": {"unit": "words"}}, "script does not say"),
    "a script of a line": ("reals", {"script": {"unit": "words", "window": 1}}, "script does not say"),
    "a form": ("line", {"form": FORM}, ""),
    "a form without columns": ("line", {"form": {**FORM, "format": "text", "key": None, "label": None}}, ""),
    "a form of data in memory": ("line", {"form": {**FORM, "format": "dict"}}, "form is not"),
    "a form of a text": ("line", {"form": {**FORM, "format": "windows"}}, "form is not"),
    "a form with a header of its own": ("line", {"form": {**FORM, "header": 1}}, "form is not"),
    "a form with no key or not": ("line", {"form": {**FORM, "pair": 0}}, "form is not"),
    "a form with two separators": ("line", {"form": {**FORM, "separator": ";;"}}, "form is not"),
    "a form with a number for a column": ("line", {"form": {**FORM, "key": 1}}, "form is not"),
    "a form with half a character": ("line", {"form": {**FORM, "label": "\ud800"}}, "form is not"),
    "a form with more": ("line", {"form": {**FORM, "rows": 3}}, "form is not"),
    "a form with less": ("line", {"form": {"format": "csv"}}, "form is not"),
    "gates: least": ("robust", {"gates": {"token": 1, "place": 0, "rank": 1}, "width": 4}, ""),
    "gates: no token": ("robust", {"gates": {"token": 0, "place": 0, "rank": 1}, "width": 3}, "gates must have"),
    "gates: no rank": ("robust", {"gates": {"token": 1, "place": 0, "rank": 0}, "width": 3}, "gates must have"),
    "gates: place below 0": ("robust", {"gates": {"token": 2, "place": -1, "rank": 1}, "width": 4}, "gates must have"),
    "grid: no cells": ("approximator", {"grid": {"cells": 0}}, "dim, length and cells"),
    "grid: no length": ("approximator", {"grid": {"length": 0}}, "dim, length and cells"),
    "grid: a word": ("approximator", {"grid": {"error": "0.5"}}, "something other than numbers"),
    "grid: true": ("approximator", {"grid": {"spread": True}}, "something other than numbers"),
    "grid: most": ("approximator", {"grid": {"low": -TOP, "high": 0, "error": TOP, "spread": -TOP}}, ""),
    "grid: too much": ("approximator", {"grid": {"error": TOP + 1}}, "beyond 2"),
    "grid: too little": ("approximator", {"grid": {"spread": -TOP - 1}}, "beyond 2"),
    "grid: NaN": ("approximator", {"grid": {"error": float("nan")}}, "holds NaN"),
    "grid: too wide": ("approximator", {"grid": {"low": -TOP, "high": TOP}}, "low must be below high"),
    "grid: of no width": ("approximator", {"grid": {"low": 0.5, "high": 0.5}}, "low must be below high"),
    "grid: the wrong way": ("approximator", {"grid": {"low": 0.5, "high": 0.25}}, "low must be below high"),
    "grid: no ramp": ("approximator", {"grid": {"ramp": 0.0}}, "the ramp positive"),
    "grid: a falling ramp": ("approximator", {"grid": {"ramp": -0.5}}, "the ramp positive"),
    "uniform: as it is": ("uniform", {}, ""),
    "uniform: no cells": ("uniform", {"cells": 0}, "no network has"),
    "uniform: one cell": ("uniform", {"cells": 1}, ""),
    "uniform: most cells": ("uniform", {"cells": 2**24 - 1}, ""),
    "uniform: more cells": ("uniform", {"cells": 2**24}, "no network has"),
    "uniform: most knots": ("uniform", {**PLACES, "cells": 1, "dim": 1, "length": 47}, ""),
    "uniform: more knots": ("uniform", {**PLACES, "cells": 1, "dim": 1, "length": 48}, "no network has"),
    "uniform: two places": ("uniform", {**PLACES, "dim": 1, "length": 2}, ""),
    "uniform: one place": ("uniform", {**PLACES, "dim": 1, "length": 1}, "no network has"),
    "uniform: no coordinate": ("uniform", {**PLACES, "dim": 0, "length": 3}, "no network has"),
    "uniform: places without a block": ("uniform", {"positions": True, "dim": 1, "length": 2}, "no network has"),
    "uniform: four": ("uniform", {"first_block": False, "dim": 1, "length": 4}, ""),
    "uniform: five": ("uniform", {"first_block": False, "dim": 1, "length": 5}, "no network has"),
    "uniform: four after a block": ("uniform", {"first_block": True, "dim": 1, "length": 4}, "no network has"),
    "uniform: a block for two": ("uniform", {"first_block": True, "dim": 1, "length": 2}, "no network has"),
    "uniform: ends": ("uniform", {"low": -(2.0**1000), "high": 2.0**1000, "error": 2.0**1000}, ""),
    "uniform: too low": ("uniform", {"low": -(2**1000) - 1}, "an end of the domain"),
    "uniform: too high": ("uniform", {"high": 2**1000 + 1}, "an end of the domain"),
    "uniform: too wrong": ("uniform", {"error": 2**1000 + 1}, "an end of the domain"),
    "uniform: of no width": ("uniform", {"low": 1.0, "high": 1}, "low must be below high"),
}  # fmt: skip
"""By name: a model of `BUILDS`, fields of its config, those of a grid one by one, and what the checker says."""


@pytest.mark.parametrize("edge", list(EDGES))
def test_what_a_config_may_hold_ends_where_the_page_says(edge: str) -> None:
    built, fields, words = EDGES[edge]
    config = deepcopy(config_of(built))
    for key, value in fields.items():
        config[key] = {**config[key], **value} if key == "grid" else value
    if built == "robust":
        config["width"] += config["labels"]
    examine = checker_format.examine_interpolator if built == "uniform" else checker_format.examine_config
    if not words:
        examine(config)
        return
    with pytest.raises(ml.ModelFileError, match=words):
        examine(config)


@cache
def config_of(built: str) -> dict[str, Any]:
    """The config of a saved model."""
    with TemporaryDirectory() as folder:
        found: dict[str, Any] = json.loads((BUILDS[built]().save(Path(folder) / "m") / "config.json").read_text())
    return found


def test_counts_names_and_numbered_files() -> None:
    for value, least, good in ((0, 0, True), (0, 1, False), (1, 1, True), (-1, 0, False), (2**48 - 1, 0, True),
                               (2**48, 0, False), (True, 0, False), (1.0, 0, False)):  # fmt: skip
        assert checker_format._is_count(value, least) is good
    for name in ("", "a", 0, -(2**63), 2**63 - 1):
        assert checker_format._is_name(name)
    for name in (-(2**63) - 1, 2**63, True, 1.0, None):
        assert not checker_format._is_name(name)
    files = [[f"model-{k:05d}-of-{n:05d}.safetensors" for k in range(1, n + 1)] for n in range(4)]
    assert [checker_format.numbered_weights(names) for names in files] == [[], [], files[2], files[3]]
    assert checker_format.numbered_weights(files[3][1:]) == []
    several = deepcopy(config_of("reals"))
    for names in files[1:]:
        several["files"] = dict.fromkeys([*names, checker_format.INDEX_FILE], "0")
        if len(names) > 1:
            checker_format.examine_config(several)
        else:
            with pytest.raises(ml.ModelFileError, match="numbered files of a line"):
                checker_format.examine_config(several)


def test_names_and_fingerprints_are_taken_whole() -> None:
    config = {"vocabulary": {"names": "vocabulary"}, "classes": {"range": 3}, "unit": "characters"}
    found = checker_format.examine_names(config, {"vocabulary": ["a", "b"]})
    vocabulary, classes = found["vocabulary"], found["classes"]
    assert vocabulary is not None
    assert classes is not None
    assert (vocabulary.names, vocabulary.unit, classes.names, classes.unit) == (
        ("a", "b"),
        "characters",
        range(3),
        None,
    )
    other = {"vocabulary": {"range": 2}, "classes": {"names": "classes"}, "unit": "whole"}
    found = checker_format.examine_names(other, {"classes": [-5, 5]})
    vocabulary, classes = found["vocabulary"], found["classes"]
    assert vocabulary is not None
    assert classes is not None
    assert (vocabulary.names, vocabulary.unit, classes.names, classes.unit) == (range(2), "whole", (-5, 5), None)
    for names in ([], [1, 2**63], ["a", 1], ["a", None], "ab", None):
        with pytest.raises(ml.ModelFileError, match="neither a list of strings nor one of integers"):
            checker_format.examine_names(config, {"vocabulary": names})
    for words in ([], [5], [1, 2], [1, 2, 3, 2**64 - 1]):
        checker_format.examine_memory({"fingerprints": np.array(words, dtype="<u8")})
    for words in ([2, 1], [1, 1], [1, 3, 2], [2, 1, 3], [1, 2, 3, 3], [1, 1, 2, 3]):
        with pytest.raises(ml.ModelFileError, match="fingerprints must rise"):
            checker_format.examine_memory({"fingerprints": np.array(words, dtype="<u8")})


def test_bfloat16_is_read_as_the_float32_that_it_is() -> None:
    """NumPy has no bfloat16: its bits are the upper half of a float32's."""
    numbers = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 3)) * 10.0 ** np.arange(-3, 3, 2)).bfloat16()
    found = stored._widened(save_tensors({"a": numbers, "b": numbers[:1].clone()}))
    for name, wanted in (("a", numbers), ("b", numbers[:1])):
        assert found[name].dtype == np.float32
        assert np.array_equal(found[name], wanted.float().numpy())
    with pytest.raises(ml.ModelFileError, match="b is F32, not bfloat16"):
        stored._widened(save_tensors({"a": numbers, "b": numbers.float()}))


def test_the_tensors_of_a_network_for_the_maximum_norm_are_taken_only_whole(tmp_path: Path) -> None:
    folder = ml.approximate(top, 1, 3, cells=2, norm="sup").save(tmp_path / "m")
    config, tensors = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    checker_format.examine_interpolation(config, tensors)
    head, knots = tensors["attention.W_K"], tensors["root.knots"]
    two = {"root.knots": np.array([0.0, 1.0]), "root.values": np.array([0.0, 1.0])}
    checker_format.examine_interpolation(config, tensors | two)
    odd = knots.copy()
    odd[7] = odd[6]
    nan = head.copy()
    nan[0, 0] = np.nan
    for change, words in (
        ({"attention.W_K": nan}, "not finite"),
        ({"attention.W_K": head.astype(np.float32)}, "not float64"),
        ({"attention.W_K": head[:, :-1]}, "shapes are not"),
        ({"attention.W_O": head[:-1]}, "shapes are not"),
        ({"root.knots": odd}, "shapes are not"),
        ({"root.knots": knots[::-1]}, "shapes are not"),
        ({"root.knots": knots[:1], "root.values": knots[:1]}, "shapes are not"),
        ({"root.values": knots[:-1]}, "shapes are not"),
    ):
        with pytest.raises(ml.ModelFileError, match=words):
            checker_format.examine_interpolation(config, tensors | change)


# -- bytes that are no JSON, and files that are no files --------------------------------------------------


def rewrite(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A config changed, its digest made to fit again."""
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_bytes(sealed(config))


@pytest.mark.parametrize("told", [0, 5, 11, 12])
def test_a_file_is_read_to_its_end_whatever_size_it_is_said_to_have(
    told: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may grow while it is read, or have no size at all, as what Linux says of processes."""
    path, fstat = tmp_path / "file", os.fstat
    path.write_bytes(b"eleven here")

    def status(handle: int) -> os.stat_result:
        return os.stat_result(
            [told if place == stat.ST_SIZE else each for place, each in enumerate(fstat(handle)[:10])]
        )

    monkeypatch.setattr(os, "fstat", status)
    assert read_regular(path) == b"eleven here"


def test_neither_a_fifo_nor_a_device_nor_a_folder_is_read(tmp_path: Path) -> None:
    """A FIFO without a writer would be waited for without end, /dev/zero read without end."""
    model = ml.memorize(["ab"], [["x", "y"]])
    kinds: list[Callable[[Path], Any]] = [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir]
    for kind, make in enumerate(kinds):
        for name in ("config.json", "model.safetensors", "names.json"):
            folder = model.save(tmp_path / f"{kind}{name}")
            (folder / name).unlink()
            make(folder / name)
            refused(name.replace(".", r"\."), folder)
    for path, words in (
        ("a\0b", "not the name of a folder"),
        ("a\ud800", "not the name of a folder"),
        ("/dev/null", "not a folder|Not a directory"),
        ("/dev/null/m", "not a folder|Not a directory"),
        ("none", "does not exist|No such file"),
    ):
        refused(words, path)


# -- the page ----------------------------------------------------------------------------------------------


def table(heading: str) -> list[list[str]]:
    """Rows of the first table behind a text of the page."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    rows: list[list[str]] = []
    for line in lines[1:]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            break
    return rows[2:]


def named(begin: str, end: str) -> set[str]:
    """Names of fields in a part of the page."""
    return set(re.findall(r"`(\w+)`", PAGE[PAGE.index(begin) : PAGE.index(end)]))


def test_the_page_names_every_field_and_every_tensor() -> None:
    fields = {row[0].strip("`"): row[1] for row in table("### config.json")}
    assert set(fields) == set(schema.FIELDS)
    ours = (checker_format.WORDS, checker_format.SWITCHES, checker_format.COUNTS, checker_format.OTHER_FIELDS)
    assert set(fields) == {key for part in ours for key in part}
    for key, words in {**checker_format.WORDS, "readout": checker_format.READOUTS}.items():
        assert set(re.findall(r'`"([^"]*)"`', fields[key])) == set(words)
    for key, least in checker_format.COUNTS.items():
        assert fields[key].startswith(f"whole, from {least}")
    assert set(schema.GRID) == {*checker_format.GRID_COUNTS, *checker_format.GRID_REALS, "guaranteed"}
    assert set(schema.GRID) <= named("`grid` is an object", "### names.json")
    tensors = set()
    for row in table("### model.safetensors"):
        first, *others = re.findall("`([^`]+)`", row[0])
        tensors |= {first, *(f"{first.split('.')[0]}.{name}" for name in others)}
    configs = [
        {"kind": "memorizer", "tokens": tokens, "readout": "exact", "steps": [3], "positions": True}
        for tokens in ("ids", "vectors")
    ]
    known = {name for config in configs for name in schema.shapes({**config, "grid": {"dim": 1}})}
    assert {name.replace(".j.", ".0.") for name in tensors} == known
    assert set(checker_format.READOUTS) == set(READOUTS)
    assert set(schema.INTERPOLATOR) - {"files", "digest"} == checker_format.INTERPOLATOR_FIELDS
    assert set(schema.INTERPOLATOR) <= named("### A network for the maximum norm", "Its tensors are finite")


@pytest.mark.parametrize("other", [{"label_error": 0.0}, {"points": "many"}])
def test_a_summary_with_other_fields_is_none(tmp_path: Path, other: dict[str, Any]) -> None:
    """Nothing depends on it: a summary that is not ours is left out, and the model is read."""
    model = ml.memorize(["ab", "ba"], [["x", "y"], ["y", "x"]])
    folder = model.save(tmp_path / "m")
    assert ml.load(folder).summary == model.summary
    rewrite(folder, lambda config: config["summary"].update(other))
    assert ml.load(folder).summary is None
    assert ml.certify(folder, ["ab"], [["x", "y"]]).verdict == "proved"


def test_a_model_that_has_no_place_in_the_format_is_not_saved(tmp_path: Path) -> None:
    model = ml.memorize(["ab"], [[0, 1]])
    model.head.half()
    with pytest.raises(ml.DataError, match=r"the format cannot store this model.*float16"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# -- saving and loading ------------------------------------------------------------------------------------


@pytest.fixture
def model() -> ml.Monolayer:
    return ml.memorize([["a", "b"], ["b", "c", "c"]], [["x", "y"], ["y", "z", "z"]])


def top(X: Any) -> Any:
    return X.max(axis=1, keepdims=True) + 0 * X


ROWS: Any = (["ab", "b"], [["x", "y"], ["z"]])
BUILDS: dict[str, Callable[[], Any]] = {
    "line": lambda: ml.memorize(*ROWS),
    "robust": lambda: ml.memorize(*ROWS, robust=True),
    "reals": lambda: ml.memorize([[1, 2]], [[0.5, 1.5]], unknown=True),
    "text": lambda: ml.memorize_text("to be or not to be"),
    "approximator": lambda: ml.approximate(top, 1, 2, cells=4),
    "uniform": lambda: ml.approximate(top, 1, 2, cells=4, norm="sup"),
    "stock": lambda: ml.memorize_as("bert", *ROWS, storage="steps"),
    "stock cells": lambda: ml.memorize_as("gpt2", *ROWS),
}


@pytest.mark.parametrize("kind", BUILDS)
def test_one_seed_gives_one_folder_byte_for_byte(kind: str, tmp_path: Path) -> None:
    one, two = ({file.name: file.read_bytes() for file in BUILDS[kind]().save(tmp_path / n).iterdir()} for n in "ab")
    assert one == two


def change(name: str, content: Callable[[bytes], bytes], fits: bool = False) -> Callable[[Path], None]:
    """Other bytes in a file; `fits`: digests are made to fit."""

    def damage(folder: Path) -> None:
        raw = content((folder / name).read_bytes())

        def new_digest(config: dict[str, Any]) -> None:
            if name != store.CONFIG:  # which has no digest of itself
                config["files"][name] = sha256(raw).hexdigest()

        (folder / name).write_bytes(raw)
        if fits:
            rewrite(folder, new_digest)

    return damage


def edit(key: str, value: object, fits: bool = False) -> Callable[[Path], None]:
    return change(store.CONFIG, lambda raw: json.dumps(json.loads(raw) | {key: value}).encode(), fits)


def bit(raw: bytes) -> bytes:
    return raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]


NO_JSON = [b"", b"[]", b"\xff\xfe{", b"{", "{}".encode("utf-16"), b"[" * 100_000, b'{"a": ' * 100_000, b"1" * 5000]
FILES: list[Any] = [[], {}, None, {"../../m/model.safetensors": ""}, {"model.safetensors": 1}, {"a\0b": "x"}, "x"]
DAMAGED = r"truncated or was changed|was changed after it was written"
MISSING = r"is missing|No such file"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *(
            (change(name, how), DAMAGED)
            for name in (WEIGHTS_FILE, store.NAMES_FILE)
            for how in (bit, lambda raw: raw[:-7])
        ),
        *((lambda folder, name=name: (folder / name).unlink(), MISSING) for name in (WEIGHTS_FILE, store.NAMES_FILE)),
        *((change(store.CONFIG, lambda raw, text=text: text), "config") for text in NO_JSON),
        *((change(store.NAMES_FILE, lambda raw, text=text: text, fits=True), "names") for text in NO_JSON),
        *((edit("files", files, fits=True), "files") for files in FILES),
        *((edit("version", value, fits=True), "version 3") for value in (0, 2, 3.0, True, None, "3")),
        (change(WEIGHTS_FILE, lambda raw: b"not safetensors", fits=True), "cannot be read"),
        (edit("causal", True), "config.json was changed after it was written"),
        (edit("format", "other"), "written by monolayer"),
        (edit("kind", "other", fits=True), "kind"),
        (edit("width", 5, fits=True), "width"),
        (edit("steps", [1000], fits=True), "weight_1"),
        (edit("dtype", "float32", fits=True), "float64"),
        (edit("positions", True, fits=True), "positions.weight"),
        (edit("classes", None, fits=True), "classes"),
        (lambda folder: (folder / store.CONFIG).unlink(), "not a saved model|No such file"),
        (shutil.rmtree, "does not exist|No such file"),
    ],
)
def test_a_broken_folder_is_refused(
    model: ml.Monolayer, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = model.save(tmp_path / "m")
    damage(folder)
    refused(message, folder)


def test_names_that_are_no_valid_text_come_back(tmp_path: Path) -> None:
    X, Y = ["\ud800é"], [["\udfff", "x"]]
    folder = ml.memorize(X, Y).save(tmp_path / "m")
    assert ml.load(folder).predict(X)[0].tolist() == Y[0]
    assert ml.certify(folder, X, Y).verdict == "proved"


def test_a_model_can_be_overwritten_from_inside_and_through_a_link(
    model: ml.Monolayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model.save(tmp_path / "m")
    link = tmp_path / "link"
    link.symlink_to(folder)
    model.save(link, overwrite=True)
    assert link.is_symlink()
    monkeypatch.chdir(folder)
    model.save(".", overwrite=True)
    ml.load(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "m"]
    with pytest.raises(ml.DataError, match="exists already"):
        model.save(folder)
    with pytest.raises(ml.DataError, match=r"config\.json is a file, not a folder"):
        model.save(folder / "config.json" / "a")


def test_a_new_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_file(tmp_path / "lost") as file:
            file.write("half")
            raise KeyboardInterrupt

    with new_file(tmp_path / "kept") as file:
        file.write("all of it")
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "all of it"
