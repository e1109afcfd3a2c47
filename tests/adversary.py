"""An attack on the certificate: faults planted in small models, and evaluations as unkind as the assumptions allow.

What is proved must withstand all evaluations of `evil.py`; what bounds refute must err in all of them, and what an
evaluation of the checker refutes, in some of them or in PyTorch. Run at length by
bench/no_false_proof_in_100000_faults.py, shortly by tests/test_attack.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import monolayer as ml
from monolayer.checker.tried import SEEN
from monolayer.errors import DataError, ModelFileError, MonolayerError
from monolayer.saved.certify import certify
from tests.evil import TOLERANCE, Evil, Random, errs, evaluate, noisy
from tests.stored_models import CODE, KEY, Case, Saved, random_case

LINE = "monolayer.construct.line"
EVALUATIONS = 6
EACH = 50
"""Faults that a model serves for: it is slow to build."""


# -- faults ------------------------------------------------------------------------------------------------


def number(case: Case, rng: Random) -> Case:
    """One number that is in use: a bit of it flipped, a share of it added, or another number in its place."""
    saved = case.saved.changed()
    used = [name for name, t in saved.tensors.items() if (np.isfinite(t) & (t != 0)).any()]
    tensor = saved.tensors[used[rng.integers(len(used))]]
    places = np.argwhere(np.isfinite(tensor) & (tensor != 0))
    place, kind = tuple(places[rng.integers(len(places))]), rng.integers(3)
    if kind == 0:
        word = tensor.view(f"u{tensor.dtype.itemsize}")
        word[place] ^= word.dtype.type(1) << word.dtype.type(rng.integers(8 * tensor.dtype.itemsize))
    elif kind == 1:
        tensor[place] *= 1 + 10.0 ** rng.uniform(-16, 1) * rng.normal()
    else:
        tensor[place] = rng.choice([0.0, -tensor[place], np.nan, np.inf, 1e-310, 1.0, 1e300, 2.0**-140])
    return replace(case, saved=saved)


def _blocks(case: Case) -> list[str]:
    """The blocks of the readout, one per stage."""
    if case.saved.config["readout"] == "gates":
        return ["feed_forward"]
    return [f"feed_forward.stages.{stage}" for stage in range(len(case.saved.config["steps"]))]


def swapped_neurons(case: Case, rng: Random) -> Case:
    saved = case.saved.changed()
    tensor = saved.tensors[f"{rng.choice(_blocks(case))}.{rng.choice(['weight_1', 'bias_1', 'weight_2'])}"]
    if tensor.shape[-1] > 1:
        i, j = rng.integers(tensor.shape[-1], size=2)
        tensor[..., [i, j]] = tensor[..., [j, i]]
    return replace(case, saved=saved)


def rewired(case: Case, rng: Random) -> Case:
    """Every value averages some coordinate of the stream and goes onto some other, not always its own."""
    value, write = (case.saved.tensors[f"attention.W_{letter}"] for letter in "VO")
    values, writes = np.zeros_like(value), np.zeros_like(write)
    reads, onto = np.nonzero(value)[1], np.nonzero(write)[0]
    for row in np.unique(np.nonzero(value)[0]):
        values[row, rng.choice(reads)] = value[row][value[row] != 0][0]
        writes[rng.choice(onto), row] = write[:, row][write[:, row] != 0][0]
    return replace(case, saved=case.saved.changed(attention__W_V=values, attention__W_O=writes))


def crossed(case: Case, rng: Random) -> Case:
    """Two stages or two coordinates of the stream have changed places."""
    saved = case.saved.changed()
    t, blocks = saved.tensors, _blocks(case)
    if len(blocks) > 1 and rng.integers(3) == 0:
        one, two = rng.permutation(blocks)[:2]
        part = str(rng.choice(["weight_1", "bias_1", "weight_2", "bias_2"]))
        if t[f"{one}.{part}"].shape == t[f"{two}.{part}"].shape:
            t[f"{one}.{part}"], t[f"{two}.{part}"] = t[f"{two}.{part}"], t[f"{one}.{part}"]
    else:
        i, j = rng.integers(len(t["bos"]), size=2)
        name = str(rng.choice([name for name in ("bos", "lift.weight", "positions.weight") if name in t]))
        table = t[name].T if name == "lift.weight" and saved.config["tokens"] == "vectors" else t[name]
        table[..., [i, j]] = table[..., [j, i]]
    return replace(case, saved=saved)


def without_a_neuron(case: Case, rng: Random) -> Case:
    """One step fewer, of a line."""
    saved = case.saved.changed()
    steps, (block, *more) = saved.config["steps"], _blocks(case)
    if saved.config["readout"] == "gates" or more or steps == [0]:
        return case
    gone = rng.integers(steps[0])
    for name in ("weight_1", "bias_1", "weight_2"):
        saved.tensors[f"{block}.{name}"] = np.delete(saved.tensors[f"{block}.{name}"], gone, axis=-1)
    saved.config["steps"] = [steps[0] - 1]
    return replace(case, saved=saved)


def jolted(case: Case, rng: Random) -> Case:
    """Every number of one tensor moved by a random share: far from any grid, ramps anywhere."""
    saved = case.saved.changed()
    name = str(rng.choice(sorted(saved.tensors)))
    moved = 1 + 10.0 ** rng.uniform(-12, 0) * rng.normal(size=saved.tensors[name].shape)
    saved.tensors[name] = (saved.tensors[name] * moved).astype(saved.tensors[name].dtype)
    return replace(case, saved=saved)


def another_token(case: Case, rng: Random) -> Case:
    X = [list(x) for x in case.X]
    i, j = rng.integers(len(X), size=2)
    X[i][rng.integers(len(X[i]))] = X[j][rng.integers(len(X[j]))]
    return replace(case, X=X)


def relabelled(case: Case, rng: Random) -> Case:
    """Two different labels changed for each other; the case itself if all are alike."""
    assert case.Y is not None
    rows = [row if isinstance(row, list) else [row] for row in case.Y]
    flat = [label for row in rows for label in row]
    pairs = [(a, b) for a in range(len(flat)) for b in range(a) if flat[a] != flat[b]]
    if not pairs:
        return case
    a, b = pairs[rng.integers(len(pairs))]
    flat[a], flat[b] = flat[b], flat[a]
    new = iter(flat)
    return replace(case, Y=[[next(new) for _ in row] if isinstance(row, list) else next(new) for row in case.Y])


def threshold(case: Case, rng: Random) -> Case:
    """A step that begins or ends within some floats of a point; labels as one evaluation gives them."""
    if case.saved.config["readout"] == "gates":
        return tie(case, rng)
    t, blocks = case.saved.tensors, _blocks(case)
    stage = int(rng.integers(len(blocks)))
    block = blocks[stage]
    H = len(t[f"{block}.weight_1"])
    if H == 0:
        return case
    x, how = case.X[rng.integers(len(case.X))], Evil.plain(rng)
    evaluate(case.saved, x, how)
    z = how.met[stage]
    z = z[0] if case.saved.config["per"] == "sequence" else z[1 + rng.integers(len(x))]
    saved = case.saved.changed()
    w, b = saved.tensors[f"{block}.weight_1"], saved.tensors[f"{block}.bias_1"]
    j = int(np.argmin(np.abs(-b / w - z))) if rng.integers(2) else rng.integers(H)  # steps in order stay in order
    edge = z + float(rng.integers(-8, 9)) * 2.0 ** rng.integers(5) * np.spacing(np.abs(z))
    if rng.integers(2):
        w[j] = 2.0 ** np.floor(np.log2(1 / np.spacing(np.abs(z)))) * rng.choice([1.0, 0.5, 0.75])
    b[j] = (-w[j] * edge) if rng.integers(2) else 1 - w[j] * edge
    return _as_answered(replace(case, saved=saved), rng)


def tie(case: Case, rng: Random) -> Case:
    """A robust model whose two largest logits at a point are nearly equal, by some share of their difference."""
    per_token, x = case.saved.config["per"] == "token", case.X[rng.integers(len(case.X))]
    output = evaluate(case.saved, x, Evil.plain(rng))[1]
    logits = output[1 + rng.integers(len(x))] if per_token else output[0]
    second, first = np.argsort(logits)[-2:]
    more = (logits[first] - logits[second]) * (1 - rng.choice([-1, 1]) * 10.0 ** rng.uniform(-8, 0))
    saved = case.saved.edited("head.bias", second, case.saved.tensors["head.bias"][second] + more)
    return _as_answered(replace(case, saved=saved), rng)


def _as_answered(case: Case, rng: Random) -> Case:
    """The labels that the model gives by one evaluation: the question is whether all others agree."""
    per_token, reals = case.saved.config["per"] == "token", case.saved.config["target"] == "reals"
    labels: list[Any] = []
    for x in case.X:
        output = evaluate(case.saved, x, Evil.plain(rng))[1]
        if not np.isfinite(output).all():
            return case
        row = (output[:, 0].astype(float) if reals else output.argmax(axis=1)).tolist()
        labels.append(row[1:] if per_token else row[0])
    return replace(case, Y=labels)


def scale(case: Case, rng: Random) -> Case:
    """Keys times 2^a and codes times 2^b, undone where they are read: the same function at extreme scales."""
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
    return replace(case, saved=saved)


def rescaled(case: Case, rng: Random) -> Case:
    """A robust model whose keys, values and hidden numbers have other scales, undone where they are read."""
    a, b, c = (2.0 ** float(rng.integers(-12, 13)) if rng.integers(4) else 1.0 for _ in range(3))
    saved = case.saved.changed()
    parts = {"attention": {"W_Q": a, "W_K": 1 / a, "W_V": b, "W_O": 1 / b}}
    parts["feed_forward"] = {"weight_1": c, "bias_1": c, "weight_2": 1 / c}
    for part, factors in parts.items():
        for name, factor in factors.items():
            saved.tensors[f"{part}.{name}"] *= factor
    return replace(case, saved=saved)


def scaled_and_faulty(case: Case, rng: Random) -> Case:
    scaled = (rescaled if case.saved.config["readout"] == "gates" else scale)(case, rng)
    return FAULTS[rng.integers(len(FAULTS))](scaled, rng) if rng.integers(2) else scaled


FAULTS = [number] * 3 + [
    swapped_neurons, without_a_neuron, jolted, another_token, relabelled, rewired, crossed
]  # fmt: skip
FAMILIES: dict[str, Callable[[Case, Random], Case]] = {
    "planted faults": lambda case, rng: FAULTS[rng.integers(len(FAULTS))](case, rng),
    "thresholds at a point": threshold,
    "extreme scales": scaled_and_faulty,
}


@cache
def built_case(seed: int, dtype: str, robust: bool) -> Case:
    """A robust model of small random data, or a cascade, one line being said to be too narrow for them."""
    for attempt in range(1000):
        rng = np.random.default_rng([seed, attempt])
        reals, vectors, sequences = (bool(rng.integers(4) == 0) for _ in range(3))
        X = rng.integers(0, 5, (int(rng.integers(3, 12)), int(rng.integers(2, 5))))
        X.flat[:5] = range(5)
        Y = rng.integers(0, 4, len(X) if sequences else X.shape)
        Y.flat[:3] = range(3)
        given = rng.standard_normal((5, 3)).astype(dtype).astype(float)[X] if vectors else X
        labels: Any = Y * 0.25 if reals and not robust else Y
        options: Any = {"positions": bool(rng.integers(3)), "causal": bool(rng.integers(2)) and not sequences}
        options |= {"robust": True, "rank": int(rng.choice([16, 32]))} if robust else {}
        options |= {"dtype": dtype, "on_conflict": "first", "seed": attempt}
        with ExitStack() as stack:
            try:
                model = ml.memorize(given, labels, **options)
                if not robust:  # more room than a line has
                    room = model.summary.margin * 2.0 ** rng.integers(1, 6)
                    for module in ("points", "separate"):
                        stack.enter_context(patch(f"{LINE}.{module}.SLACK", room))
                    model = ml.memorize(given, labels, **options)
            except MonolayerError:
                continue
        case = Case(given.tolist(), labels.tolist(), Saved.of(model))
        wanted = case.saved.config["readout"] == "gates" if robust else len(case.saved.config["steps"]) > 1
        if wanted and not case.saved.names:
            return _as_answered(case, rng)
    raise AssertionError(f"no such data of seed {seed}")


def attack(family: str, seed: int, folder: Path, cases: dict[int, Case]) -> tuple[str, bool]:
    """One fault: the verdict, and whether an evaluation contradicts it. `cases` keeps models for the next fault."""
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    kind = seed // EACH
    if kind not in cases:
        cases.clear()
        dtype = "float32" if kind % 3 == 0 else "float64"
        plain = kind % 5 not in (2, 4)
        cases[kind] = random_case(kind, dtype=dtype) if plain else built_case(kind, dtype, kind % 5 == 2)
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
        if proof.verdict == "refuted" and proof.reason.startswith(SEEN.split("{", maxsplit=1)[0]):
            # One evaluation is wrong, and where a point lies at a step few others may be.
            drawn = any(errs(case, how(rng)) for _ in range(32) for how in (Evil.plain, Evil.draw))
            return proof.verdict, not (drawn or _errs_in_torch(case, folder))
        if proof.verdict == "refuted":
            return proof.verdict, not all(errs(case, Evil.draw(rng)) for _ in range(2))
        # The largest noise that is said to be borne, where a certificate says one, must be borne.
        borne = proof.noise if proof.noise is not None and proof.noise > 1e-4 else 0.0
        evil = [errs(noisy(case, borne, rng) if borne else case, Evil.draw(rng)) for _ in range(EVALUATIONS)]
    return proof.verdict, any(evil)


def _errs_in_torch(case: Case, folder: Path) -> bool:
    """Whether the library itself returns another answer than its label, layer by layer in PyTorch.

    That fuses products and sums, which no evaluation of `evil.py` does, and the checker's own may do.
    """
    assert case.Y is not None
    model, reals = ml.load(folder), case.saved.config["target"] == "reals"
    for x, y in zip(case.X, case.Y, strict=True):
        got, wanted = np.ravel(np.asarray(model.predict([x], path="dense")[0])), np.ravel(np.asarray(y))
        if not (np.abs(got - wanted) <= TOLERANCE if reals else got == wanted).all():
            return True
    return False
