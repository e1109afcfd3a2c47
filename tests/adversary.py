"""An attack on the certificate: faults planted in small models, and evaluations as unkind as the assumptions allow.

What is proved must withstand all evaluations of `evil.py`; what is refuted must err in all of them. Run at length by
bench/no_false_proof_in_100000_faults.py, shortly by tests/test_attack.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import monolayer as ml
from monolayer.checker import certify
from monolayer.errors import DataError, ModelFileError, MonolayerError
from tests.evil import TOLERANCE, Evil, Random, errs, evaluate, noisy
from tests.stored_models import CODE, KEY, Case, Saved, random_case, relabelled

LINE = "monolayer.construct.line"
EVALUATIONS = 6
EACH = 50
"""Faults that a model serves for: it is slow to build."""


# -- faults ------------------------------------------------------------------------------------------------


def _tensor(case: Case, rng: Random, change: Callable[[np.ndarray, tuple[int, ...]], Any]) -> Case:
    """One number that is in use, of one tensor, changed."""
    used = [name for name, t in case.saved.tensors.items() if (np.isfinite(t) & (t != 0)).any()]
    name = used[rng.integers(len(used))]
    tensor = case.saved.tensors[name].copy()
    places = np.argwhere(np.isfinite(tensor) & (tensor != 0))
    change(tensor, tuple(places[rng.integers(len(places))]))
    return Case(case.X, case.Y, case.saved.changed(**{name.replace(".", "__"): tensor}))


def bit(case: Case, rng: Random) -> Case:
    def change(tensor: np.ndarray, place: tuple[int, ...]) -> None:
        size = tensor.dtype.itemsize * 8
        word = tensor.view(f"u{size // 8}")
        word[place] ^= word.dtype.type(1) << word.dtype.type(rng.integers(size))

    return _tensor(case, rng, change)


def share(case: Case, rng: Random) -> Case:
    def change(tensor: np.ndarray, place: tuple[int, ...]) -> None:
        tensor[place] *= 1 + 10.0 ** rng.uniform(-16, 1) * rng.normal()

    return _tensor(case, rng, change)


def value(case: Case, rng: Random) -> Case:
    def change(tensor: np.ndarray, place: tuple[int, ...]) -> None:
        tensor[place] = rng.choice([0.0, -tensor[place], np.nan, np.inf, 1e-310, 1.0, 1e300, 2.0**-140])

    with np.errstate(over="ignore"):
        return _tensor(case, rng, change)


def _blocks(case: Case) -> list[str]:
    """The blocks of the readout, one a stage."""
    stages = len(case.saved.config.get("cascade", {}).get("steps", []))
    return [f"feed_forward.stages.{stage}" for stage in range(stages)] or ["feed_forward"]


def swapped_neurons(case: Case, rng: Random) -> Case:
    t = case.saved.tensors
    name = f"{rng.choice(_blocks(case))}.{rng.choice(['weight_1', 'bias_1', 'weight_2'])}"
    tensor = t[name].copy()
    if tensor.shape[-1] > 1:
        i, j = rng.integers(tensor.shape[-1], size=2)
        tensor[..., [i, j]] = tensor[..., [j, i]]
    return Case(case.X, case.Y, case.saved.changed(**{name.replace(".", "__"): tensor}))


def rewired(case: Case, rng: Random) -> Case:
    """Every value averages some coordinate of the stream and goes onto some other, not always its own."""
    value, write = (case.saved.tensors[f"attention.W_{letter}"] for letter in "VO")
    values, writes = np.zeros_like(value), np.zeros_like(write)
    reads, onto = np.nonzero(value)[1], np.nonzero(write)[0]
    for row in np.unique(np.nonzero(value)[0]):
        values[row, rng.choice(reads)] = value[row][value[row] != 0][0]
        writes[rng.choice(onto), row] = write[:, row][write[:, row] != 0][0]
    return Case(case.X, case.Y, case.saved.changed(attention__W_V=values, attention__W_O=writes))


def crossed(case: Case, rng: Random) -> Case:
    """Two stages, two coordinates of the stream, or two cells have changed places."""
    saved = case.saved.changed()
    t, blocks = saved.tensors, _blocks(case)
    kind = rng.integers(3)
    if kind == 0 and len(blocks) > 1:
        one, two = rng.permutation(blocks)[:2]
        part = str(rng.choice(["weight_1", "bias_1", "weight_2", "bias_2"]))
        if t[f"{one}.{part}"].shape == t[f"{two}.{part}"].shape:
            t[f"{one}.{part}"], t[f"{two}.{part}"] = t[f"{two}.{part}"], t[f"{one}.{part}"]
    elif kind == 1 and "feed_forward.gate" in t:
        tensor = t[f"feed_forward.{rng.choice(['gate', 'base', 'count'])}"]
        i, j = rng.integers(len(tensor), size=2)
        tensor[[i, j]] = tensor[[j, i]]
    else:
        i, j = rng.integers(len(t["bos"]), size=2)
        name = str(rng.choice([name for name in ("bos", "lift.weight", "positions.weight") if name in t]))
        table = t[name].T if name == "lift.weight" and saved.config["tokens"] == "vectors" else t[name]
        table[..., [i, j]] = table[..., [j, i]]
    return Case(case.X, case.Y, saved)


def another_token(case: Case, rng: Random) -> Case:
    X = [list(x) for x in case.X]
    i, j = rng.integers(len(X), size=2)
    X[i][rng.integers(len(X[i]))] = X[j][rng.integers(len(X[j]))]
    return Case(X, case.Y, case.saved)


def threshold(case: Case, rng: Random) -> Case:
    """A step that begins or ends within a few floats of a point; labels as one evaluation gives them."""
    if case.saved.config["readout"] == "gates":
        return tie(case, rng)
    t, blocks = case.saved.tensors, _blocks(case)
    stage = int(rng.integers(len(blocks)))
    block = blocks[stage]
    H = len(t[f"{block}.weight_1"])
    if H == 0:
        return case
    x, how = case.X[rng.integers(len(case.X))], Evil(rng, "random", "none", False, 0)
    evaluate(case.saved, x, how)
    z = how.met[stage]
    z = z[0] if case.saved.config["per"] == "sequence" else z[1 + rng.integers(len(x))]
    w, b = t[f"{block}.weight_1"].copy(), t[f"{block}.bias_1"].copy()
    j = int(np.argmin(np.abs(-b / w - z))) if rng.integers(2) else rng.integers(H)  # steps in order stay in order
    edge = z + float(rng.integers(-8, 9)) * np.spacing(np.abs(z))
    if rng.integers(2):
        w[j] = 2.0 ** np.floor(np.log2(1 / np.spacing(np.abs(z)))) * rng.choice([1.0, 0.5, 0.75])
    b[j] = (-w[j] * edge) if rng.integers(2) else 1 - w[j] * edge
    name = block.replace(".", "__")
    close = Case(case.X, case.Y, case.saved.changed(**{f"{name}__weight_1": w, f"{name}__bias_1": b}))
    return _as_answered(close, rng)


def tie(case: Case, rng: Random) -> Case:
    """A robust model whose two largest logits at a point are nearly equal, by some share of their difference."""
    per_token, x = case.saved.config["per"] == "token", case.X[rng.integers(len(case.X))]
    output = evaluate(case.saved, x, Evil(rng, "random", "none", False, 0))[1]
    logits = output[1 + rng.integers(len(x))] if per_token else output[0]
    second, first = np.argsort(logits)[-2:]
    bias = case.saved.tensors["head.bias"].copy()
    bias[second] += (logits[first] - logits[second]) * (1 - rng.choice([-1, 1]) * 10.0 ** rng.uniform(-8, 0))
    return _as_answered(Case(case.X, case.Y, case.saved.changed(head__bias=bias)), rng)


def _as_answered(case: Case, rng: Random) -> Case:
    """The labels that the model gives by one evaluation: the question is whether all others agree."""
    per_token, reals = case.saved.config["per"] == "token", case.saved.config["target"] == "reals"
    labels: list[Any] = []
    for x in case.X:
        output = evaluate(case.saved, x, Evil(rng, "random", "none", False, 0))[1]
        if not np.isfinite(output).all():
            return case
        row = (output[:, 0].astype(float) if reals else output.argmax(axis=1)).tolist()
        labels.append(row[1:] if per_token else row[0])
    return Case(case.X, labels, case.saved)


def scale(case: Case, rng: Random) -> Case:
    """Keys times 2^a and codes times 2^b, undone where they are read: the same function at extreme scales."""
    if case.saved.config["readout"] == "gates":
        return rescaled(case, rng)
    wide = 300 if case.saved.config["dtype"] == "float64" else 40
    a, b = (2.0 ** float(rng.integers(-wide, wide + 1)) if rng.integers(4) else 1.0 for _ in range(2))
    saved = case.saved.changed()
    t = saved.tensors
    with np.errstate(all="ignore"):
        for name in ("bos", "lift.weight", "lift.bias", "positions.weight"):
            if name in t:
                table = t[name].T if name == "lift.weight" and saved.config["tokens"] == "vectors" else t[name]
                table[..., KEY] *= a
                table[..., CODE] *= b
        t["attention.W_Q"] *= 1 / a
        t["attention.W_V"][:, KEY] *= 1 / a
        t["attention.W_O"][CODE] *= b
        for stage, block in enumerate(_blocks(case)):
            t[f"{block}.weight_1"] /= b if stage == 0 else 1.0
    scaled = Case(case.X, case.Y, saved)
    return FAULTS[rng.integers(len(FAULTS))](scaled, rng) if rng.integers(2) else scaled


def rescaled(case: Case, rng: Random) -> Case:
    """A robust model whose keys, values and hidden numbers have other scales, undone where they are read."""
    a, b, c = (2.0 ** float(rng.integers(-12, 13)) if rng.integers(4) else 1.0 for _ in range(3))
    saved = case.saved.changed()
    by = {"W_Q": a, "W_K": 1 / a, "W_V": b, "W_O": 1 / b}
    for name, factor in {f"attention.{name}": factor for name, factor in by.items()}.items():
        saved.tensors[name] *= factor
    for name, factor in {"weight_1": c, "bias_1": c, "weight_2": 1 / c}.items():
        saved.tensors[f"feed_forward.{name}"] *= factor
    scaled = Case(case.X, case.Y, saved)
    return FAULTS[rng.integers(len(FAULTS))](scaled, rng) if rng.integers(2) else scaled


FAULTS = [bit, share, value, swapped_neurons, another_token, relabelled, rewired, crossed]
FAMILIES: dict[str, Callable[[Case, Random], Case]] = {
    "planted faults": lambda case, rng: FAULTS[rng.integers(len(FAULTS))](case, rng),
    "thresholds at a point": threshold,
    "extreme scales": scale,
}


@cache
def crowded_case(seed: int, dtype: str) -> Case:
    """A cascade of small data for which one line is said to be too narrow."""
    for attempt in range(1000):
        rng = np.random.default_rng([seed, attempt])
        reals = bool(rng.integers(3) == 0)
        vectors, sequences = (bool(rng.integers(4) == 0) for _ in range(2))
        X = rng.integers(0, 5, (int(rng.integers(3, 12)), int(rng.integers(2, 5))))
        X.flat[:5] = range(5)
        Y = rng.integers(0, 4, len(X) if sequences else X.shape)
        Y.flat[:4] = range(4)
        given = rng.standard_normal((5, 3)).astype(dtype).astype(float)[X] if vectors else X
        rules = {"positions": bool(rng.integers(2)), "causal": bool(rng.integers(2)) and not sequences}
        labels: Any = Y * 0.25 if reals else Y
        slack = 10.0 ** rng.uniform(3, 4.5) * (1.0 if dtype == "float32" else 2.0**29)
        try:
            with patch(f"{LINE}.points.SLACK", slack), patch(f"{LINE}.separate.SLACK", slack):
                model = ml.memorize(given, labels, dtype=dtype, on_conflict="first", seed=attempt, **rules)
        except MonolayerError:
            continue
        with TemporaryDirectory() as scratch:
            case = Case(given.tolist(), labels.tolist(), Saved.read(model.save(Path(scratch) / "model")))
        if case.saved.config["readout"] == "cascade" and not case.saved.names:
            return _as_answered(case, rng)
    raise AssertionError(f"no crowded data of seed {seed}")


@cache
def robust_case(seed: int, dtype: str) -> Case:
    """A robust model of small data, and the answers that it gives for them."""
    rng = np.random.default_rng([seed, 1])
    vectors, sequences = (bool(rng.integers(4) == 0) for _ in range(2))
    X = rng.integers(0, 5, (int(rng.integers(3, 10)), int(rng.integers(2, 5))))
    X.flat[:5] = range(5)
    Y = rng.integers(0, 4, len(X) if sequences else X.shape)
    Y.flat[:3] = range(3)
    given = rng.standard_normal((5, 3)).astype(dtype).astype(float)[X] if vectors else X
    rules = {"positions": bool(rng.integers(3)), "causal": bool(rng.integers(2)) and not sequences}
    rank, seed = int(rng.choice([16, 32])), int(rng.integers(100))
    with TemporaryDirectory() as scratch:
        model = ml.memorize(given, Y, dtype=dtype, robust=True, rank=rank, on_conflict="first", seed=seed, **rules)
        case = Case(given.tolist(), Y.tolist(), Saved.read(model.save(Path(scratch) / "model")))
    return _as_answered(case, rng)


def attack(family: str, seed: int, folder: Path, cases: dict[int, Case]) -> tuple[str, bool]:
    """One fault: the verdict, and whether an evaluation contradicts it. `cases` keeps models for the next fault."""
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    kind = seed // EACH
    if kind not in cases:
        cases.clear()
        dtype = "float32" if kind % 3 == 0 else "float64"
        make = {4: crowded_case, 2: robust_case}.get(kind % 5)
        cases[kind] = random_case(kind, dtype=dtype) if make is None else make(kind, dtype)
    with np.errstate(all="ignore"):
        case = FAMILIES[family](cases[kind], rng)
        robust = case.saved.config["readout"] == "gates"
        noise = 10.0 ** rng.uniform(-4, -2) if robust and rng.integers(2) else None
        try:
            proof = certify(case.saved.write(folder), case.X, case.Y, tolerance=TOLERANCE, noise=noise)
        except (DataError, ModelFileError):
            return "no question", False
        if proof.verdict == "undecided" or (proof.verdict == "refuted" and noise is not None):
            return proof.verdict, False  # noise refutes by one change of the weights, not by every evaluation
        if proof.verdict == "refuted":
            return proof.verdict, not all(errs(case, Evil.draw(rng)) for _ in range(2))
        # The largest noise that is said to be borne, where a certificate says one, must be borne.
        borne = proof.noise if proof.noise is not None and proof.noise > 1e-4 else 0.0
        evil = [errs(noisy(case, borne, rng) if borne else case, Evil.draw(rng)) for _ in range(EVALUATIONS)]
    return proof.verdict, any(evil)
