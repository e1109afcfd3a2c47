"""An attack on the certificate: faults planted in small models, and evaluations as unkind as the assumptions allow.

An `Evil` evaluation adds up in the worst orders it can think of, pushes every `exp` by the 4 units in the last place
that are assumed, and flushes subnormal numbers. What is proved must withstand all of them; what is refuted must err in
all of them. Run at length by bench/no_false_proof_in_100000_faults.py, shortly by tests/test_attack.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import monolayer as ml
from monolayer.checker import certify
from monolayer.errors import DataError, ModelFileError, MonolayerError
from tests.stored_models import CODE, KEY, LABEL, Case, Saved, random_case, relabelled

TOLERANCE = 1e-5
ULPS = 4
LINE = "monolayer.construct.line"
EVALUATIONS = 6
Random = np.random.Generator


@dataclass
class Evil:
    """How one evaluation goes: the order of sums, which way `exp` errs, whether subnormal numbers become 0.

    `met`: what the steps of every stage read in the last evaluation, `(1 + n,)` each.
    """

    rng: Random
    order: str
    push: str
    flush: bool
    softmax: int
    met: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def draw(cls, rng: Random) -> Evil:
        order = str(rng.choice(["random", "rising", "falling", "large first", "pairs"]))
        push = str(rng.choice(["none", "up", "down", "random", "large up", "large down"]))
        return cls(rng, order, push, bool(rng.integers(2)), int(rng.integers(3)))

    def normal(self, values: np.ndarray) -> np.ndarray:
        return np.where(np.abs(values) < np.finfo(values.dtype).tiny, 0, values) if self.flush else values

    def add(self, terms: np.ndarray) -> np.ndarray:
        """Sum over the last axis."""
        if self.order == "pairs" and terms.shape[-1] > 1:
            half = terms.shape[-1] // 2
            return self.normal(self.add(terms[..., :half]) + self.add(terms[..., half:]))
        if self.order == "random":
            terms = terms[..., self.rng.permutation(terms.shape[-1])]
        elif self.order in ("rising", "falling"):
            terms = np.sort(terms, axis=-1)[..., :: 1 if self.order == "rising" else -1]
        elif self.order == "large first":
            terms = np.take_along_axis(terms, np.argsort(-np.abs(terms), axis=-1), axis=-1)
        return self.normal(np.cumsum(terms, axis=-1, dtype=terms.dtype)[..., -1])

    def times(self, matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """`vectors` `(n, D)` times the transpose of `matrix` `(E, D)`."""
        return self.add(self.normal(vectors[:, None, :] * matrix[None, :, :]))

    def exp(self, exponents: np.ndarray) -> np.ndarray:
        true = np.exp(exponents)
        if self.push == "none":
            return true
        sign = {"up": 1, "down": -1}.get(self.push, 0) * np.ones_like(true)
        if self.push == "random":
            sign = self.rng.choice([-1, 1], true.shape).astype(true.dtype)
        elif self.push.startswith("large"):  # the heavier half one way, the rest the other: moves the mean most
            heavy = true > np.median(true, axis=-1, keepdims=True)
            sign = np.where(heavy, 1, -1) * (1 if self.push == "large up" else -1)
        # 3.4 ulps and the half that np.exp may be off itself are within the 4 that are assumed.
        return (true + sign * (ULPS - 0.6) * np.spacing(true)).astype(true.dtype)


def evaluate(saved: Any, x: Any, how: Evil) -> tuple[np.ndarray, np.ndarray]:
    """`z` `(1 + n,)` and outputs `(1 + n, C)` of one sequence, after docs/format.md."""
    t, dtype = saved.tensors, saved.tensors["bos"].dtype
    if saved.config["tokens"] == "ids":
        Z = t["lift.weight"][np.array(x)]
    else:
        products = how.normal(np.array(x, dtype=dtype)[:, None, :] * t["lift.weight"][None])
        bias = np.broadcast_to(t["lift.bias"], products.shape[:2])[..., None]
        Z = how.add(np.concatenate([products, bias], axis=-1))
    if saved.config["positions"]:
        Z = how.normal(Z + t["positions.weight"][: len(Z)])
    Z = how.normal(np.concatenate([t["bos"][None], Z]))
    Q, K, V = (how.times(t[f"attention.W_{letter}"], Z) for letter in "QKV")
    scores = how.times(K, Q)
    if saved.config["causal"]:
        scores = np.where(np.tri(len(Z), dtype=bool), scores, -np.inf).astype(dtype)
    shift = np.zeros((len(Z), 1), dtype) if how.softmax == 1 else scores.max(axis=1, keepdims=True)
    weights = how.normal(how.exp(scores - shift))
    total = how.add(weights)[:, None]
    if how.softmax == 1:
        written = how.times(V.T, weights) / total
    else:
        share = weights / total if how.softmax == 0 else weights * (1 / total).astype(dtype)
        written = how.times(V.T, how.normal(share))
    Z = how.normal(Z + how.times(t["attention.W_O"], how.normal(written)))
    z, m = Z[:, CODE], saved.config["labels"]
    how.met = [z]
    if saved.config["readout"] == "apart":
        how.met = [Z[:, LABEL + 1]]
        Z[:, LABEL : LABEL + 1] = how.normal(Z[:, LABEL : LABEL + 1] + _gated(t, z, Z[:, LABEL + 1], how))
    elif saved.config["readout"] == "cascade":
        form, code = "exact" if saved.config["target"] == "classes" else "runs", CODE
        for stage in range(len(saved.config["cascade"]["steps"])):
            how.met += [Z[:, code]] * (stage > 0)
            written = _written(t, f"feed_forward.stages.{stage}", form, Z[:, code], how)
            Z[:, LABEL : LABEL + m] = how.normal(Z[:, LABEL : LABEL + m] + written[:, :m])
            code = LABEL + m + 2 * stage + 1
            later = slice(code, code + written.shape[1] - m)
            Z[:, later] = how.normal(Z[:, later] + written[:, m:])
    else:
        written = _written(t, "feed_forward", saved.config["readout"], z, how)
        Z = np.concatenate([Z[:, :LABEL], how.normal(Z[:, LABEL:] + written)], axis=1)
    return z, how.normal(how.times(t["head.weight"], Z) + t["head.bias"])


def _gated(t: dict[str, np.ndarray], code: np.ndarray, context: np.ndarray, how: Evil) -> np.ndarray:
    """What steps behind gates add to the label, for codes and contexts `(n,)`."""
    gate, count = t["feed_forward.gate"], t["feed_forward.count"].astype(np.int64)
    sides = np.maximum(code[:, None] - gate, 0), np.maximum(gate - code[:, None], 0)
    gates = np.maximum(1 - how.normal(how.normal(sides[0]) + how.normal(sides[1])), 0)
    steep = how.normal(context[:, None] * t["feed_forward.weight_1"]) + t["feed_forward.bias_1"]
    before = np.maximum(1 - np.maximum(how.normal(steep), 0), 0)
    inside = np.maximum(gates[:, np.repeat(np.arange(len(gate)), count)] - before, 0)
    terms = np.concatenate([inside, gates, np.ones((len(code), 1), code.dtype)], axis=1)
    last = [t["feed_forward.weight_2"], t["feed_forward.base"][None], t["feed_forward.bias_2"][:, None]]
    return how.times(np.concatenate(last, axis=1), terms)


def _written(t: dict[str, np.ndarray], block: str, form: str, z: np.ndarray, how: Evil) -> np.ndarray:
    """What a staircase adds to the stream at each `z` `(n,)`."""
    dtype = z.dtype
    hidden = np.maximum(how.normal(how.normal(z[:, None] * t[f"{block}.weight_1"]) + t[f"{block}.bias_1"]), 0)
    if form != "paper":
        hidden = np.maximum(1 - hidden, 0)
    if form == "runs":
        ends = np.zeros((len(z), 1), dtype), np.ones((len(z), 1), dtype)
        hidden = np.maximum(np.diff(np.concatenate([ends[0], hidden, ends[1]], axis=1), axis=1), 0)
    terms = np.concatenate([hidden, np.ones((len(z), 1), dtype)], axis=1)
    last = np.concatenate([t[f"{block}.weight_2"], t[f"{block}.bias_2"][:, None]], axis=1)
    return how.times(last, terms)


def errs(case: Case, how: Evil) -> bool:
    """Whether some point gets another answer than its label."""
    assert case.Y is not None
    per_token, reals = case.saved.config["per"] == "token", case.saved.config["target"] == "reals"
    for x, y in zip(case.X, case.Y, strict=True):
        output = evaluate(case.saved, x, how)[1]
        output, wanted = (output[1:], np.array(y)) if per_token else (output[:1], np.array([y]))
        if np.isnan(output).any():
            return True
        wrong = ~(np.abs(output[:, 0] - wanted) <= TOLERANCE) if reals else output.argmax(axis=1) != wanted
        if wrong.any():
            return True
    return False


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
    wide = 300 if case.saved.config["dtype"] == "float64" else 40
    a, b = (2.0 ** float(rng.integers(-wide, wide + 1)) if rng.integers(4) else 1.0 for _ in range(2))
    saved = case.saved.changed()
    t, apart = saved.tensors, saved.config["readout"] == "apart"
    scaled_key, scaled_code = a, 1.0 if apart else b  # codes of cells are whole numbers; their contexts may be scaled
    with np.errstate(all="ignore"):
        for name in ("bos", "lift.weight", "lift.bias", "positions.weight"):
            if name in t:
                table = t[name].T if name == "lift.weight" and saved.config["tokens"] == "vectors" else t[name]
                table[..., KEY] *= scaled_key
                table[..., CODE] *= scaled_code
        t["attention.W_Q"] *= 1 / a
        t["attention.W_V"][:, KEY] *= 1 / a
        t["attention.W_O"][LABEL + 1 if apart else CODE] *= b
        for stage, block in enumerate(_blocks(case)):
            t[f"{block}.weight_1"] /= b if stage == 0 else 1.0
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
    """A cascade, or code and context apart, of small data for which one line is said to be too narrow."""
    for attempt in range(1000):
        rng = np.random.default_rng([seed, attempt])
        apart, reals = bool(rng.integers(3) == 0), bool(rng.integers(3) == 0)
        vectors, sequences = (bool(rng.integers(4) == 0) and not apart for _ in range(2))
        reals = reals and not apart
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
                rank: Any = 1 if apart else "auto"
                model = ml.memorize(given, labels, dtype=dtype, rank=rank, on_conflict="first", seed=attempt, **rules)
        except MonolayerError:
            continue
        with TemporaryDirectory() as scratch:
            case = Case(given.tolist(), labels.tolist(), Saved.read(model.save(Path(scratch) / "model")))
        if case.saved.config["readout"] == ("apart" if apart else "cascade") and not case.saved.names:
            return _as_answered(case, rng)
    raise AssertionError(f"no crowded data of seed {seed}")


def attack(family: str, seed: int, folder: Path, cases: dict[int, Case]) -> tuple[str, bool]:
    """One fault: the verdict, and whether an evaluation contradicts it. `cases` keeps models for the next fault."""
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    kind = seed // 50  # a model is slow to build, so it serves fifty times
    if kind not in cases:
        cases.clear()
        dtype = "float32" if kind % 3 == 0 else "float64"
        crowded = kind % 5 == 4
        cases[kind] = crowded_case(kind, dtype) if crowded else random_case(kind, dtype=dtype)
    with np.errstate(all="ignore"):
        case = FAMILIES[family](cases[kind], rng)
        try:
            verdict = certify(case.saved.write(folder), case.X, case.Y, tolerance=TOLERANCE).verdict
        except (DataError, ModelFileError):
            return "no question", False
        if verdict == "undecided":
            return verdict, False
        evil = [errs(case, Evil.draw(rng)) for _ in range(EVALUATIONS if verdict == "proved" else 2)]
    return verdict, any(evil) if verdict == "proved" else not all(evil)
