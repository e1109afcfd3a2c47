"""Questions to what models are made of: staircases, rounding to cells, networks for the maximum norm, context ids,
readouts as ONNX files, what models say of themselves, and what is said of damaged folders and unknown keys."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.model import attention, contexts, keys, quantizer, staircase, uniform
from monolayer.model.attention import RankOneAttention
from monolayer.model.card import Grid, Summary
from monolayer.model.chain import write_readout
from monolayer.model.staircase import Plateaus, Staircase, Steps
from monolayer.theory.targets import TARGETS
from tests.kinds import built
from tests.record import Ask, attempt, own_folder
from tests.stored_models import resealed
from tests.test_contract import DATA

TABLES: dict[str, Any] = {
    "characters": ({"card": 1, "cart": 2, "dart": 3, "art": 4}, ["cark", "carf", "cat", "arts", "xyz", "d"]),
    "words": (
        ["new york", "york", "the old town", "new town"],
        ["new yorks", "yorck", "the new town", "town new", "old"],
    ),
    "whole": ({"New York": "I-87", "York": "A64"}, ["Yorck", "New Yorck", "Lima"]),
}
"""Tables of keys, and keys that are not in them."""
SIZES = ((1, 3, False), (1, 2, False), (2, 2, False), (2, 2, True), (1, 4, True))
"""Networks for the maximum norm: dimension, length, and whether with positions."""


def questions() -> Iterator[tuple[str, Ask]]:
    """Each with its name."""
    for dim, length, positions in SIZES:
        name = f"uniform {dim} {length} {positions}"
        yield name, (lambda d=dim, n=length, p=positions: _uniform(d, n, p))  # type: ignore[misc]
    yield "uniform refused", _outside
    for name in TABLES:
        yield f"nearest {name}", (lambda name=name: _nearest(name))  # type: ignore[misc]
    yield "contexts", _contexts
    for dtype in (torch.float64, torch.float32):
        yield f"stairs {dtype}", (lambda dtype=dtype: _stairs(dtype))  # type: ignore[misc]
    yield "stages", _stages
    yield "attention in blocks", _attention
    yield "cells", _cells
    yield "card", _card
    for name, model in _models().items():
        yield f"shown {name}", (lambda model=model: _shown(model))  # type: ignore[misc]
        yield f"damaged {name}", (lambda model=model: _damaged(model))  # type: ignore[misc]
    yield "no folder", _no_folder


@contextmanager
def sizes(*changes: tuple[Any, str, int]) -> Iterator[None]:
    """With other sizes of blocks: of which module, the name, and the size."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, size in changes:
            patch.setattr(module, name, size)
        yield


# -- networks for the maximum norm ---------------------------------------------------------------------------------


def _tokens(dim: int, length: int) -> Any:
    """Sequences in the domain, some at its ends and on knots, equal and nearly equal ones."""
    X = np.random.RandomState(dim).random_sample((40, length, dim))
    X[:8] = np.round(2 * X[:8]) / 2
    X[8:16, 1:] = X[8:16, :1]
    X[16:20, 1:] = X[16:20, :1] + 1e-9
    return 2.0 * X.clip(0.0, 1.0) - 1.0


def _uniform(dim: int, length: int, positions: bool) -> list[object]:
    f = (
        (lambda X: X[:, ::-1] * 3.0)
        if positions and dim > 1
        else (lambda X: np.abs(X - X.mean(axis=1)[:, None])[..., 0])
    )
    more: Any = {"lipschitz": 2.0} if dim == 1 else {}
    model: Any = ml.approximate(f, dim, length, cells=2, norm="sup", positions=positions, domain=(-1.0, 1.0), **more)
    X = _tokens(dim, length)
    found = [repr(model), model.extra_repr(), model.predict(X), model(torch.from_numpy(X)).detach(), model.error]
    with sizes((uniform, "_CELLS_AT_ONCE", 7)):
        found.append(model(torch.from_numpy(X)).detach())
    again: Any = ml.load(model.save(own_folder() / "saved"))
    return [*found, again.predict(X.tolist()), repr(again), dict(again.state_dict())]


def _outside() -> list[object]:
    model: Any = ml.approximate(TARGETS["sort"].function, 1, 3, cells=2, norm="sup")
    rows: list[Any] = [
        [[[0.1], [0.2], [1.5]]], [[[0.1], [0.2], [-0.5]]], [[[0.1], [0.2]]], [[[0.1, 0.2]] * 3], [[1, 2, 3]],
        [[[0.0], [1.0], [0.5]]], [[[0.0], [1.0]], [[0.0], [1.0], [0.5]]],
    ]  # fmt: skip
    asks: list[Callable[[], object]] = [
        model.check_strict, lambda: model.explain(rows[5]), lambda: model.float().save(own_folder() / "saved"),
    ]  # fmt: skip
    return [*(attempt(lambda row=row: model.predict(row)) for row in rows), *map(attempt, asks)]  # type: ignore[misc]


# -- keys ----------------------------------------------------------------------------------------------------------


def _nearest(name: str) -> list[object]:
    """What is said of keys that are not stored, and which keys are found again."""
    table, others = TABLES[name]
    found = []
    for positions in (False, True):
        labels = () if isinstance(table, dict) else ([1, 2, 3, 4],)
        unit: Any = {"unit": name} if name != "characters" else {}
        model = ml.memorize(table, *labels, positions=positions, per="sequence", **unit)
        for other in others:
            found += [attempt(lambda m=model, o=other: m.predict([o], strict=True)), attempt(  # type: ignore[misc]
                lambda m=model, o=other: m.predict([o]))]  # type: ignore[misc] # fmt: skip
        for enough in (None, 2, 3):
            stored = keys.stored_keys(model, enough)
            found.append(None if stored is None else [stored.tokens, stored.lengths])
        with sizes((keys, "MOST_KEYS_TRIED", 9)):
            few = keys.stored_keys(model, None)
            found.append(None if few is None else few.tokens)
        places = keys.key_places(model)
        found.append(None if places is None else [*places[:2], places.keys.tokens, *places[3:]])
    return [*found, [keys.evenly(count, most) for count in (0, 1, 2, 7, 100) for most in (1, 2, 5)]]


# -- sums, stairs and cells ----------------------------------------------------------------------------------------


def _contexts() -> list[object]:
    random = np.random.RandomState(0)
    found: list[object] = []
    for width in (1, 2, 7, 8, 9, 15, 16, 17, 127, 128, 129, 130, 300):
        table = torch.from_numpy(random.standard_normal((3, width)))
        found += [contexts.added(table), table.numpy().sum(axis=1)]
    for lengths in ([3, 3, 3], [1, 4, 2, 4], [5]):
        size = torch.tensor(lengths)
        flat = torch.from_numpy(random.random_sample(sum(lengths)))
        for some in (flat, flat.bfloat16(), flat.float()):
            for causal in (False, True):
                found.append(contexts.contexts(some, some * some, size, (0.5, 0.25), causal))
            found += [contexts.totals([some.double()], size), contexts.spread(torch.arange(len(lengths)), size)]
        found += [contexts.totals([flat.numpy()], size.numpy()), contexts.same_length(size)]
        found.append(contexts.spread(np.arange(len(lengths)), size.numpy()))
        with sizes((contexts, "NUMBERS_AT_ONCE", 4)):
            found += [[part.tolist() for part in pair] for pair in contexts.of_one_length(size, 2)]
    return found


def _stairs(dtype: Any) -> list[object]:
    """Labels of points between steps, on ramps and at their ends, by every way of looking them up."""
    random = np.random.RandomState(1)
    start = torch.from_numpy(np.sort(random.permutation(400)[:40]).astype(float)).to(dtype)
    slope = torch.full((40,), 2.0, dtype=dtype)
    steps = Steps(slope, -slope * start, torch.from_numpy(random.randint(0, 9, (41, 2)).astype(float)).to(dtype))
    z = torch.cat([start, start + 0.5, start + 0.25, start + 0.75, torch.linspace(-9.0, 500.0, 301)]).to(dtype)
    z = z[torch.from_numpy(random.permutation(len(z)))]
    found: list[object] = [steps(z), steps.search(z), steps._search_in_order(z), steps.rise, steps.start, steps.end]
    found += [Plateaus(steps.slope, steps.bias, steps.level)(z), steps(z[:0]), steps(torch.full((3,), torch.nan).to(z))]
    for many in (1, 100):
        with sizes((staircase, "_MANY_POINTS", many), (staircase, "_MANY_STEPS", many)):
            found.append(steps(z))
    for some in (z, z[:1], z * 0.0, torch.tensor([0.0, torch.inf, 1.0], dtype=dtype), torch.tensor([0.0, 1e-40])):
        found.append(staircase._rough_order(some))
    others = [(slope, steps.bias.flip(0), steps.level), (0.001 * slope, steps.bias, steps.level),
              (-slope, steps.bias, steps.level), (slope[:0], slope[:0], steps.level[:1])]  # fmt: skip
    for changed in others:
        other = Steps(*changed)
        found += [other.rise, attempt(lambda other=other: other(z))]  # type: ignore[misc]
    with_nan = steps.bias.clone()
    with_nan[3] = torch.nan
    return [*found, Steps(slope, with_nan, steps.level).rise]


def _stages() -> list[object]:
    """Stages of either kind: what they write, densely and by tables, and their layers."""
    slope, start = torch.tensor([1.0, 2.0, 4.0]).double(), torch.tensor([0.0, 3.0, 5.0]).double()
    z = torch.linspace(-2.0, 8.0, 101).double()
    last, fall = torch.tensor([7.0, 1.0]).double(), torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]]).double()
    level = torch.tensor([[1.0, 1e300, -1e300, 3.0]], dtype=torch.float64)
    found: list[object] = []
    for stage in (Staircase.from_steps(slope, start.clone(), fall, last), Staircase.from_runs(slope, start, level)):
        steps = stage.steps()
        assert steps is not None
        found += [dict(stage.state_dict()), steps(z), steps.level, stage.extra_repr(), stage.step_count]
        found += [[part.detach() for layer in stage.layers() for part in layer], stage.later_numbers]
        for at_once in (1 << 22, 10, 1):
            with sizes((staircase, "CELLS_AT_ONCE", at_once)):
                found.append(stage(z).detach())
        for value in (torch.nan, torch.inf):
            with torch.no_grad():
                stage.weight_2[0, 1] = value
            found.append(stage.steps() is None)
    return found


def _attention() -> list[object]:
    layer = RankOneAttention.constant_query(5, 0.7, (1.5, -2.0), ((1, 2), (3, 4)))
    Z = torch.from_numpy(np.random.RandomState(3).random_sample((6, 7, 5)))
    seen = torch.ones(6, 1, 7, dtype=torch.bool)
    seen[2:4, :, 4:] = False
    found: list[object] = [layer.extra_repr(), layer.shortcuts(((1, 2), (3, 4))), layer.shortcuts(((1, 2),))]
    for at_once in (1 << 22, 100, 15, 1):
        with sizes((attention, "SCORES_AT_ONCE", at_once)):
            found += [layer(Z, each, causal).detach() for each in (seen, seen[:1]) for causal in (False, True)]
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        for place in ((0, 0), (1, 3), (4, 4), (3, 0)):
            other = RankOneAttention.constant_query(5, 0.7, (1.5, -2.0), ((1, 2), (3, 4)))
            with torch.no_grad():
                getattr(other, name)[place] = 0.25
            found.append(other.shortcuts(((1, 2), (3, 4))))
    return [*found, layer.shortcuts(())]


def _cells() -> list[object]:
    start, table = torch.tensor([0.25, 0.75]).double(), torch.arange(12.0).double().reshape(2, 2, 3) ** 2
    part = quantizer.Quantizer.from_steps(16.0, start, table)
    x = torch.cartesian_prod(torch.linspace(-0.5, 1.5, 33).double(), torch.tensor([0.0, 0.25, 0.3, 0.8125]).double())
    Z = torch.cat([torch.zeros(len(x), 4), x], dim=1).view(4, -1, 6)
    steps = part.steps()
    assert steps is not None
    found: list[object] = [
        dict(part.state_dict()),
        part.extra_repr(),
        steps(x),
        steps.on_ramp(x),
        part.dense(x).detach(),
    ]
    for at_once in (9, 1):
        with sizes((quantizer, "CELLS_AT_ONCE", at_once)):
            found.append(part(Z).detach())
    for place, value in (((0, 1), 1.0), ((0, 0), 0.0), ((0, 0), -16.0)):
        other = quantizer.Quantizer.from_steps(16.0, start, table)
        with torch.no_grad():
            other.weight_1[place] = value
        found.append(other.steps() is None)
    return found


# -- what is said --------------------------------------------------------------------------------------------------


def _card() -> list[object]:
    grid = Grid(2, 3, 4, -1.0, 2.0, 1e-3, 0.25, True, 3.0)
    counts = {"runs": 3, "parameters": 40}
    options: Any = {"temperature": 1.0, "layout": "l"}
    summary = Summary.of(counts, sequences=5, labelled=9, vocabulary=4, dim=2, labels=3, entropy=1.5, **options)
    real = Summary.of(counts, sequences=5, labelled=9, vocabulary=4, dim=1, labels=1, entropy=None, **options)
    whole = asdict(summary)
    others = [{}, {**whole, "runs": 1.5}, {**whole, "gap": 1}, {**whole, "gap": "1"}, {**whole, "layout": 1},
              {**whole, "contested": [1, 2]}, {**whole, "contested": [1.5]}, {**whole, "contested": 3},
              {**whole, "runs": None}, {**whole, "more": 1}, {**whole, "runs": True}]  # fmt: skip
    found = [Summary.from_json(each) for each in (whole, *others)]
    model = ml.memorize({"a": 1, "b": 2})
    assert model.card.fingerprint is not None
    print_of = [str(model.card.fingerprint), model.card.fingerprint.false_positives]
    return [grid.ramp_share, grid.mean_error(1.0), grid.mean_error(2.0), summary, real, *found, print_of,
            summary.bits_per_parameter, real.bits_per_parameter]  # fmt: skip


def _models() -> dict[str, Any]:
    X, Y, options = DATA["tokens"]
    ragged, labels, _ = DATA["ragged strings"]
    reals = Y[..., None] * np.array([0.1, -3.0])
    cascade, _ = built("cascade sequences")
    return {
        "exact": ml.memorize(X, Y, **options), "reals": ml.memorize(X, reals, **options), "cascade": cascade,
        "robust": ml.memorize(X, Y, robust=True, **options), "text": ml.memorize_text("a rose is a rose " * 4),
        "bfloat16": ml.memorize(ragged, labels, robust=True, dtype="bfloat16"), "words": ml.memorize(ragged, labels),
        "function": ml.approximate(TARGETS["force"].function, 2, 2, cells=2, lipschitz=2.0),
        "uniform": ml.approximate(TARGETS["sort"].function, 1, 3, cells=2, norm="sup"),
    }  # fmt: skip


def _shown(model: Any) -> list[object]:
    """What a model says of itself, its readout as ONNX, and what it answers to tensors of ids, its own and others."""
    found = [repr(model), model.rows()]
    ours = [module for module in model.modules() if type(module).__module__.startswith("monolayer")]
    found.append([f"{type(module).__name__} {module.extra_repr()}" for module in ours])
    file = own_folder() / "deeper" / "a.onnx"
    readout = getattr(model, "feed_forward", None)
    if readout is not None:
        found += [readout.to_json(), readout.step_count, readout.later_numbers, readout.labels]
        found += [
            attempt(lambda o=over: _numbers(model, *_graph(write_readout(model, file, overwrite=o))))
            for over in (False, False, True)
        ]  # type: ignore[misc]
    for rows in (
        torch.arange(6).reshape(2, 3), torch.arange(200).reshape(2, 100), torch.tensor([[0, -1]]), torch.zeros(2, 2),
        torch.zeros(2, 2, dtype=torch.bool), torch.zeros(0, 2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64),
        torch.tensor([[1, 2, 0]], dtype=torch.int32), torch.tensor([[29, 0]]), torch.tensor([[30, 0]]),
    ):  # fmt: skip
        found += [attempt(lambda rows=rows: model.predict(rows)), attempt(lambda rows=rows: _logits(model, rows))]  # type: ignore[misc]
    return found


def _robust(model: Any) -> bool:
    """Whether the last bits of its weights hang on the machine, since equations were solved."""
    return getattr(getattr(model, "feed_forward", None), "readout", "") == "gates"


def _numbers(model: Any, tensors: Any, *more: object) -> list[object]:
    """The tensors by their names; of robust models their shapes, and which of their numbers are 0."""
    if _robust(model):
        tensors = {name: [list(each.shape), (torch.as_tensor(each) != 0).sum(0)] for name, each in tensors.items()}
    return [dict(tensors), *more]


def _logits(model: Any, rows: Any) -> object:
    """What the dense network returns; of a robust model the largest of each."""
    logits = model(rows).detach()
    return logits.argmax(-1) if _robust(model) else logits


def _graph(file: Path) -> tuple[dict[str, Any], list[object]]:
    """The numbers of an ONNX file, and its operations."""
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(file).graph
    nodes = [f"{node.op_type} {' '.join(node.input)} → {' '.join(node.output)}" for node in graph.node]
    shapes = [[size.dim_value for size in each.type.tensor_type.shape.dim] for each in (*graph.input, *graph.output)]
    return {each.name: np.array(onnx.numpy_helper.to_array(each)) for each in graph.initializer}, [nodes, shapes]


CHANGES: list[dict[str, Any]] = [
    {"version": 2}, {"version": True}, {"format": "other"}, {"kind": "other"}, {"tokens": "vectors"}, {"width": 3},
    {"labels": 0}, {"labels": 2}, {"per": "sequence"}, {"target": "reals"}, {"scalar": True}, {"readout": "other"},
    {"causal": True}, {"next_token": True}, {"positions": 1}, {"positions": True}, {"dtype": "float32"},
    {"dtype": "int8"}, {"vocabulary": None}, {"vocabulary": {"range": 0}}, {"vocabulary": {"range": 3}},
    {"vocabulary": {"names": "classes"}}, {"unit": "words"}, {"unit": "other"}, {"unit": "whole"}, {"classes": None},
    {"classes": {"range": 1}}, {"script": {"unit": "words", "window": 2}}, {"script": {"unit": "words"}},
    {"script": {"unit": "words", "window": 0}}, {"form": {"a": 1}}, {"grid": {}}, {"draw": 1}, {"summary": {}},
    {"files": {}}, {"files": {"model.safetensors": 1}}, {"digest": "0"}, {"more": 1}, {"steps": []}, {"steps": [1]},
    {"steps": [-1]}, {"dim": 2}, {"length": 4}, {"cells": 0}, {"low": 3.0}, {"error": "small"}, {"first_block": False},
    {"steps": True}, {"labels": True}, {"low": True}, {"low": 10**400}, {"dim": 26}, {"length": 1},
]  # fmt: skip
"""Fields of `config.json` that are changed, one at a time, with every digest put right."""


def _damaged(model: Any) -> list[object]:
    """What loading says of a folder with other fields, and of one whose files were changed or are gone."""
    folder = model.save(own_folder() / "whole")
    whole = json.loads((folder / "config.json").read_text())
    grid, found = whole.get("grid"), []
    inner = [{"grid": {**grid, name: value}} for name, value in (("ramp", 0), ("low", 9.0), ("dim", 0), ("spread", "1"),
             ("guaranteed", 1), ("high", 1e999), ("cells", 1.5))] if grid else []  # fmt: skip
    place = own_folder() / "changed"
    shutil.copytree(folder, place)
    for change in [*CHANGES, *inner]:
        if not set(change) <= {*whole, "more"}:
            continue
        (place / "config.json").write_text(json.dumps(whole))
        resealed(place, **change)
        found.append(attempt(lambda: _numbers(ml.load(place), ml.load(place).state_dict())))  # type: ignore[union-attr]
    (place / "config.json").write_text(json.dumps(whole))
    for name in sorted(path.name for path in folder.iterdir()):
        content = (folder / name).read_bytes()
        for changed in (content[:-1], content + b" ", b"", b"\x02" + bytes(9), b"[" * 100000, b"{}", b"[]", None):
            if changed is None:
                (place / name).unlink()
            else:
                (place / name).write_bytes(changed)
            found.append(attempt(lambda: bool(ml.load(place))))
            if changed is not None and name.endswith(".json") and name != "config.json":
                (place / "config.json").write_text(json.dumps(whole))
        (place / name).write_bytes(content)
    return found


def _no_folder() -> list[object]:
    file = own_folder() / "file"
    file.write_text("x")
    hub = own_folder()
    (hub / "config.json").write_text('{"model_type": "bert"}')
    places: list[Any] = [file, file / "deeper", own_folder() / "none", "a\0b", own_folder(), hub]
    return [attempt(lambda place=place: ml.load(place)) for place in places]  # type: ignore[misc]
