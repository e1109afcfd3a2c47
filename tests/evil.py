"""Evaluations of saved models as unkind as the assumptions of the certificate allow, after docs/format.md.

An `Evil` evaluation adds up in the worst orders it can think of, pushes every `exp` and reciprocal root by the 4 units
in the last place that are assumed, and flushes subnormal numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.stored_models import CODE, LABEL, Case

TOLERANCE = 1e-5
ULPS = 4
EPSILON = 2.0**-20
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

    @classmethod
    def plain(cls, rng: Random) -> Evil:
        """Sums in random order, and nothing else."""
        return cls(rng, "random", "none", False, int(rng.integers(3)))

    def normal(self, values: np.ndarray) -> np.ndarray:
        return np.where(np.abs(values) < np.finfo(values.dtype).tiny, 0, values) if self.flush else values

    def add(self, terms: np.ndarray) -> np.ndarray:
        """Sum over the last axis."""
        while self.order == "pairs" and terms.shape[-1] > 1:
            half = terms.shape[-1] // 2
            both = self.normal(terms[..., :half] + terms[..., half : 2 * half])
            terms = np.concatenate([both, terms[..., 2 * half :]], axis=-1)
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

    def unit(self, vectors: np.ndarray) -> np.ndarray:
        """`vectors` `(n, w)` at mean square 1, the root off by as much as `exp` may be."""
        mean = self.add(self.normal(vectors * vectors)) / vectors.dtype.type(vectors.shape[1])
        root = 1 / np.sqrt(mean + vectors.dtype.type(EPSILON))
        sign = {"up": 1, "large up": 1, "down": -1, "large down": -1}.get(self.push, 0)
        root = root + vectors.dtype.type(sign * (ULPS - 2)) * np.spacing(root)  # its own roundings are less than 2
        return self.normal(vectors * root[:, None])


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
    if saved.config["readout"] == "gates":
        Z[:, -m:] = how.normal(Z[:, -m:] + _half_spaces(saved, Z, how))
    else:
        code = CODE
        for stage in range(len(saved.config["steps"])):
            how.met += [Z[:, code]] * (stage > 0)
            written = _written(t, f"feed_forward.stages.{stage}", saved.config["readout"], Z[:, code], how)
            Z[:, LABEL : LABEL + m] = how.normal(Z[:, LABEL : LABEL + m] + written[:, :m])
            code = LABEL + m + 2 * stage + 1
            later = slice(code, code + written.shape[1] - m)
            Z[:, later] = how.normal(Z[:, later] + written[:, m:])
    return z, how.normal(how.times(t["head.weight"], Z) + t["head.bias"])


def _half_spaces(saved: Any, Z: np.ndarray, how: Evil) -> np.ndarray:
    """What the neurons of a robust model add to the label part."""
    t, widths = saved.tensors, saved.config["gates"]
    token, place, context = np.split(
        Z[:, : sum(widths.values())], np.cumsum([widths["token"], widths["place"]]), axis=1
    )
    one = np.ones((len(Z), 1), Z.dtype)
    read = np.concatenate([token, place, how.unit(context), one], axis=1)
    first = np.concatenate([t["feed_forward.weight_1"], t["feed_forward.bias_1"][:, None]], axis=1)
    last = np.concatenate([t["feed_forward.weight_2"], t["feed_forward.bias_2"][:, None]], axis=1)
    return how.times(last, np.concatenate([np.maximum(how.times(first, read), 0), one], axis=1))


def _written(t: dict[str, np.ndarray], block: str, form: str, z: np.ndarray, how: Evil) -> np.ndarray:
    """What a staircase adds to the stream at each `z` `(n,)`."""
    dtype = z.dtype
    hidden = np.maximum(how.normal(how.normal(z[:, None] * t[f"{block}.weight_1"]) + t[f"{block}.bias_1"]), 0)
    hidden = np.maximum(1 - hidden, 0)
    if form == "runs":
        ends = np.zeros((len(z), 1), dtype), np.ones((len(z), 1), dtype)
        hidden = np.maximum(np.diff(np.concatenate([ends[0], hidden, ends[1]], axis=1), axis=1), 0)
    terms = np.concatenate([hidden, np.ones((len(z), 1), dtype)], axis=1)
    last = np.concatenate([t[f"{block}.weight_2"], t[f"{block}.bias_2"][:, None]], axis=1)
    return how.times(last, terms)


def noisy(case: Case, noise: float, rng: Random) -> Case:
    """Every stored weight moved by at most the share `noise` of itself, most of them by nearly as much."""
    saved, reach = case.saved.changed(), noise * 0.998  # the product is rounded: that must not go beyond the share
    for name, tensor in saved.tensors.items():
        signs = rng.choice([-1.0, 1.0], tensor.shape if rng.integers(3) else ())
        moved = tensor * (1.0 + reach * signs)
        saved.tensors[name] = np.ascontiguousarray(moved.astype(tensor.dtype))
    return Case(case.X, case.Y, saved)


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
