"""Enclosed numbers against evaluations in binary32, in random order, against balls, and against the worst errors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock import enclosed
from monolayer.checker.stock.enclosed import UNIT_32, Enclosed, Linear
from monolayer.checker.stock.evaluate import Program
from monolayer.checker.stock.head import TANH_ERROR, StockHead, relu, tanh
from monolayer.checker.stock.neurons import RESTS, SLEEPING, FeedForward, Sway, activated
from tests.any_order import MOMENTS, Net, blocks, moments, summed

f32 = np.float32
SEEDS = st.integers(0, 2**32)


def some(random: np.random.Generator, *shape: int, shifted: bool = False) -> tuple[Enclosed, Any]:
    """An enclosure with common errors, and floats of binary32 that lie in it."""
    scale = np.exp2(random.integers(-6, 7, shape[-1]).astype(float))
    value = (random.normal(size=shape) * scale * (random.random(shape) < 0.8)).astype(f32)
    common, shift = (random.choice([0.0, 1e-5, 1e-3]) * np.ones((*shape[:-1], 1)) for _ in range(2))
    shift = shift if shifted else 0.0 * shift
    radius = scale * random.choice([0.0, 1e-6, 1e-3, 0.3]) * np.ones(shape)
    theta, sigma = (part * random.uniform(-1, 1, part.shape) for part in (common, shift))
    middle = value.astype(float) / (1.0 + theta) - sigma - radius * random.uniform(-0.999, 0.999, shape)
    return Enclosed.of(middle, radius, common, shift), value


def inside(found: Enclosed, value: Any) -> bool:
    """Whether one `θ` and one `σ` for each row put all of its numbers within their radii.

    With `a = 1/(1 + θ)` that is `a v − σ` within `r` of `m`: for which `σ`, if any, is a convex question in `a`.
    """
    value = np.append(np.asarray(value, dtype=float), np.zeros(found.shift.shape), axis=-1)
    low = np.append(found.middle - found.radius, -found.shift, axis=-1)
    high = np.append(found.middle + found.radius, found.shift, axis=-1)

    def missing(a: Any) -> Any:
        return (a * value - high).max(axis=-1, keepdims=True) - (a * value - low).min(axis=-1, keepdims=True)

    left, right = 1.0 / (1.0 + found.common), 1.0 / (1.0 - found.common)
    for _ in range(100):
        one, two = (2.0 * left + right) / 3.0, (left + 2.0 * right) / 3.0
        better = missing(one) <= missing(two)
        left, right = np.where(better, left, one), np.where(better, two, right)
    return bool((missing(left) <= 1e-13 * (1.0 + np.abs(value).max())).all())


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_sums_and_linear_maps(seed: int) -> None:
    random = np.random.default_rng(seed)
    (x, a), (y, b) = some(random, 3, 40, shifted=True), some(random, 3, 40, shifted=True)
    assert inside(enclosed.add(x, y), a + b)
    weight = (random.normal(size=(7, 40)) * (random.random((7, 40)) < 0.6)).astype(f32)
    bias = random.normal(size=7).astype(f32)
    for shift in (None, bias):
        linear = Linear(weight.astype(float), None if shift is None else shift.astype(float))
        terms = a[:, None, :] * weight
        if shift is not None:
            terms = np.append(terms, np.broadcast_to(shift[:, None], (3, 7, 1)), axis=-1)
        assert inside(linear(x), summed(random, terms))
        exact = a.astype(float) @ weight.astype(float).T + (0.0 if shift is None else shift.astype(float))
        assert inside(linear(x), exact)
    tight = Linear(weight.astype(float))(Enclosed.of(a.astype(float), np.zeros(a.shape)))
    assert (tight.radius <= 64 * UNIT_32 * (np.abs(a) @ np.abs(weight).T) + 1e-15).all()


def test_rounding_can_use_up_a_good_part_of_the_bound() -> None:
    """4,096 equal numbers one after the other: a bound ten times as small would be wrong."""
    x = np.full((1, 4096), f32(0.1))
    total = f32(0)
    for term in x[0]:
        total = total + term
    exact = Enclosed.of(x.astype(float), np.zeros(x.shape))
    found = Linear(np.ones((1, 4096)))(exact)
    assert 0.1 < abs(total - found.middle[0, 0]) / found.radius[0, 0] < 1.0
    less = x - total / f32(4096)  # what a norm scales
    assert inside(enclosed.centred(exact, False), less)
    assert np.abs(less).max() / enclosed.centred(exact, False).shift[0, 0] > 0.1


@pytest.mark.parametrize("kind", [*MOMENTS, "rms"])
@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_norms(kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, a = some(random, 4, 64, shifted=True)
    if random.random() < 0.5:  # a mean of 0, as every stream has
        a[:, 32:] = -a[:, :32]
        x = Enclosed.of(a.astype(float), np.abs(a) * 1e-6, np.full((4, 1), 1e-5), np.full((4, 1), 1e-5))
    weight, bias = random.normal(size=64).astype(f32), random.normal(size=64).astype(f32)
    weight = np.full_like(weight, weight[0]) if random.random() < 0.5 else weight
    epsilon = f32(2.0**-17)
    for shifts in (np.zeros(64, f32), bias):
        mean, variance = (
            moments(random, a, kind) if kind != "rms" else (f32(0), (summed(random, a * a) / f32(64))[:, None])
        )
        found = (a - mean) * (f32(1) / np.sqrt(np.maximum(variance, f32(0)) + epsilon)) * weight + shifts
        wide = (weight.astype(float), shifts.astype(float), float(epsilon), kind == "rms")
        assert found.dtype == f32
        assert inside(enclosed.norm(x, *wide), found)
        big = a.astype(float)
        centre = 0.0 if kind == "rms" else big.mean(axis=1, keepdims=True)
        exact = (big - centre) / np.sqrt(((big - centre) ** 2).mean(axis=1, keepdims=True) + float(epsilon))
        assert inside(enclosed.norm(x, *wide), exact * weight + shifts)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_attention(seed: int) -> None:
    """Scores of turned queries and keys, their softmax in one piece and in blocks, and sums of the average."""
    random = np.random.default_rng(seed)
    n, h, k = 37, 6, 5
    (q, a), (key, b) = some(random, 1, n, h), some(random, 1, n, h)
    a, b = (part / f32(2.0**8) for part in (a, b))
    q, key = (Enclosed(x.middle / 2**8, x.radius / 2**8, x.common, x.shift) for x in (q, key))
    (v, c), theta = some(random, 1, n, k), float(random.choice([0.5, 1.0, 14.0, 10000.0]))
    # Coordinates 0 to 3 are turned, 4 and 5 are not.
    partner, sign = np.array([2, 3, 0, 1, 4, 5]), np.array([-1.0, -1.0, 1.0, 1.0, 0.0, 0.0])
    exponent = np.array([0.0, 0.5, 0.0, 0.5, np.inf, np.inf])
    q, key = (enclosed.turned(x, enclosed.Rotary(partner, sign, exponent, theta)) for x in (q, key))
    speed = f32(1) / (f32(theta) ** (np.array([0, 2], f32) / f32(4)))
    angle = np.arange(n, dtype=f32)[:, None] * np.append(np.tile(speed, 2), [f32(0), f32(0)]).astype(f32)
    turn = [x * np.cos(angle) + x[..., partner] * (sign.astype(f32) * np.sin(angle)) for x in (a, b)]
    assert turn[0].dtype == f32
    assert inside(q, turn[0])
    scale = 1.0 / np.sqrt(h)
    score, off = enclosed.scores(q, key, scale)
    theirs = summed(random, turn[0][:, :, None] * turn[1][:, None]) * f32(scale)
    assert (np.abs(theirs - score) <= off).all()
    seen = np.tril(np.ones((n, n), dtype=bool))
    found = enclosed.average(score, off, seen, v)
    matrix = random.normal(size=(3, k))
    for place in random.integers(0, n, 4):
        row = theirs[0, place, : place + 1]
        weight = np.exp(row - row.max())
        weight = weight / summed(random, weight[None])[0]
        for value in (summed(random, (weight[:, None] * c[0, : place + 1]).T), blocks(random, row, c[0, : place + 1])):
            assert inside(found.found[:, place], value[None])
            along = found.along((np.array([0]), np.array([place])), matrix)[0]
            apart = np.abs(matrix @ (value - found.found.middle[0, place]))
            assert (apart <= along + 1e-12).all()


EXACT: dict[str, Callable[[arb], arb]] = {
    "relu6": lambda x: x.max(arb(0)).min(arb(6)),
    "silu": lambda x: x / (1 + (-x).exp()),
}


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_activations(name: str, seed: int) -> None:
    """Ends and points between them; PyTorch in binary32 too, where it is installed."""
    random = np.random.default_rng(seed)
    centre = random.choice([-40.0, -9.0, -8.6, -6.0, -1.28, -0.75, 0.0, 1.0, 6.0, 9.0, 60.0])
    width = random.choice([0.0, 1e-6, 1e-3, 1.0, 30.0])
    low = (centre + random.normal(size=8) * 0.1).astype(f32)
    high = (low + width).astype(f32)
    within = (low + random.random(8) * (high - low)).astype(f32).clip(low, high)
    least, most = activated(name, low.astype(float), high.astype(float))
    with ctx.workprec(128):
        for x, floor, ceiling in zip(within, least, most, strict=True):
            exact = EXACT[name](arb(float(x)))
            assert arb(float(floor)) <= exact <= arb(float(ceiling))
    there = torch.from_numpy(np.tile(within, 4))  # long enough for vector instructions
    found = getattr(torch.nn.functional, name)(there).numpy()[:8]
    assert ((least <= found) & (found <= most)).all()
    assert np.abs(activated(name, *np.full((2, 1), RESTS[name]))).max() <= SLEEPING[name]


def test_relu6_returns_what_lies_between_its_ends() -> None:
    least, most = activated(
        "relu6", np.array([-3.0, -1.0, 2.0, 4.0, 5.5, 7.0]), np.array([-1.0, 1.0, 5.0, 5.5, 8.0, 9.0])
    )
    assert (least.tolist(), most.tolist()) == ([0.0, 0.0, 2.0, 4.0, 5.5, 6.0], [0.0, 1.0, 5.0, 5.5, 6.0, 6.0])


# -- the formulas of docs/proofs-stock.md ----------------------------------------------------------------------

ERRORS = {
    "none": (0, 0, 0),
    "radii": (0.1, 0, 0),
    "common": (0, 2.0**-8, 0),
    "shift": (0, 0, 0.2),
    "all": (0.1, 0.01, 0.2),
}
TINY, MORE = 2.0**-60, 1.06


def enclosure(errors: str, *shape: int, seed: int = 0) -> Enclosed:
    random, (r, t, s) = np.random.default_rng(seed), ERRORS[errors]
    radius, common, shift = (random.uniform(0.5, 1.0, (*shape[:-1], n)) for n in (shape[-1], 1, 1))
    common[0] = 0.0  # of the first row alone
    return Enclosed(random.normal(size=shape), r * radius, t * common, s * shift)


def gamma(k: Any) -> Any:
    return k * UNIT_32 / (1 - k * UNIT_32)


def follows(found: Any, lemma: Any, more: float = TINY) -> None:
    """A radius is what the lemma says, with its own rounding, and no more."""
    assert (found >= lemma * (1 + 2.0**-21) + more * (1 - 2.0**-9)).all(), "less than the lemma says"
    assert (found <= lemma * (1 + 2.0**-14) + 4 * TINY).all(), "more than the lemma says"


def agrees(found: Enclosed, middle: Any, radius: Any, common: Any = 0.0, shift: Any = 0.0) -> None:
    assert found.middle == pytest.approx(middle, rel=1e-5, abs=1e-12)  # ends of intervals are padded
    follows(found.radius, radius)
    for one, lemma in ((found.common, common), (found.shift, shift)):
        follows(one, np.broadcast_to(lemma, one.shape), 0.0)


def spread(x: Enclosed) -> tuple[Any, Any]:
    """Middle and radius of all `(1 + θ)(m + e + σ)`."""
    low, high = x.middle - x.radius - x.shift, x.middle + x.radius + x.shift
    low, high = low - x.common * np.abs(low), high + x.common * np.abs(high)
    slip = 2.0**-50 * (np.abs(low) + np.abs(high)) if x.common.any() else 0.0  # of the middle between both
    return (low + high) / 2, (high - low) / 2 + slip


@pytest.mark.parametrize("errors", ERRORS)
def test_linear_maps_and_sums_are_those_of_lemmas_e1_and_e2(errors: str) -> None:
    x, y = enclosure(errors, 3, 5), enclosure(errors, 3, 5, seed=1)
    assert x.size == pytest.approx(np.abs(x.middle) + x.radius + x.shift)
    agrees(x.spread(), *spread(x))
    weight, bias = np.random.default_rng(2).normal(size=(4, 5)), np.array([0.0, 3.0, -2.0, 1.0])
    weight[:, 1], weight[2], weight[1, 2:4] = 0.0, 0.0, 0.0
    rounds = MORE * gamma(4 + 4)  # four numbers in a row
    radius = (x.radius + rounds * x.size) @ np.abs(weight).T + x.shift * np.abs(weight.sum(axis=1))
    agrees(Linear(weight)(x), x.middle @ weight.T, radius, x.common)
    middle, radius = spread(Enclosed(x.middle @ weight.T, radius, x.common, np.zeros((3, 1))))
    agrees(Linear(weight, bias)(x), middle + bias, radius + rounds * np.abs(bias))
    other, apart = spread(y)
    radius = x.radius + (1 + MORE * x.common) * apart + MORE * x.common * np.abs(other)
    radius = radius + MORE * UNIT_32 * (x.size + np.abs(other) + apart)
    agrees(enclosed.add(x, y), x.middle + other, radius, x.common, x.shift)


def of_lemma_e3(x: Enclosed, epsilon: float, rms: bool, along: Any = None) -> tuple[Any, Any, Any, Any, Any]:
    """What is scaled: middle, radius, shift; and the least and the largest factor."""
    D, size = x.middle.shape[-1], x.size
    mean, of_radius, of_size = (part.mean(axis=1, keepdims=True) for part in (x.middle, x.radius, size))
    off = (D + 16) * UNIT_32 * np.maximum(of_size, size.max(axis=1, keepdims=True) / 2)
    shift = of_radius + MORE**2 * off
    radius = x.radius + MORE * gamma(8) * (size + np.abs(mean) + shift)
    c, r, lowered = np.abs(x.middle - mean), x.radius, of_radius
    square = MORE**2 * (size**2).mean(axis=1, keepdims=True)
    w = gamma(D + 32) * square + (1.5 * D + 32) * UNIT_32 * MORE * size.max(axis=1, keepdims=True) * np.sqrt(square)
    w = w + 2 * (np.abs(mean) + of_radius + x.shift) * shift
    if rms:
        c, r, lowered, shift, w = np.abs(x.middle), x.radius + x.shift, 0.0, x.shift, gamma(D + 32) * square
        mean, radius = 0.0, x.radius + MORE * gamma(8) * size
    v, d = (c**2).mean(axis=1, keepdims=True), (c * r).mean(axis=1, keepdims=True) if along is None else along
    h = v + 2 * d + (r**2).mean(axis=1, keepdims=True) + epsilon
    w = MORE * w + 2.2 * x.common * epsilon + 4 * UNIT_32 * h
    least = (np.maximum(c - r - lowered, 0) ** 2).mean(axis=1, keepdims=True)
    low = np.maximum(v - 2 * d, least) + epsilon - w
    return x.middle - mean, radius, shift, 1 / np.sqrt(h + w), 1 / np.sqrt(low)


@pytest.mark.parametrize("errors", ["none", "radii", "common", "shift"])
@pytest.mark.parametrize("rms", [True, False])
def test_norms_are_those_of_lemma_e3(errors: str, rms: bool) -> None:
    y = enclosure(errors, 6, 8)
    far = Enclosed(y.middle + 3.0, y.radius / 16, y.common, y.shift / 16)
    for x, epsilon, along in (
        (y, 0.5, None),
        (y, 2.0**-10, None),
        (y, 0.1, np.full((6, 1), 2.0**-9)),
        (far, 0.1, None),
    ):
        middle, radius, shift, least, most = of_lemma_e3(x, epsilon, rms, along)
        agrees(enclosed.centred(x, rms), middle, radius, x.common, shift)
        factor, off = enclosed.norm_factor(x, epsilon, rms, along)
        # Small terms count for more, by (most/least)², where the variance may be nearly 0: these agree up to MORE.
        condition = (most / least) ** 2
        wanted, wanted_off = (most + least) / 2, (most - least) / (most + least)
        assert (np.abs(factor - wanted) <= 1e-7 * condition * wanted).all()
        assert (np.abs(off - wanted_off) <= 1e-6 * condition * wanted_off).all()
        uneven, shifts = np.linspace(-1, 2, 8), np.linspace(0, 1, 8)
        common = off + 2 * gamma(8)
        assert (common < 2.0**-6).all() or errors in ("radii", "shift")
        fit = (common < 2.0**-6)[:, 0]
        x, middle, radius, shift, factor, common = (part[fit] for part in (x, middle, radius, shift, factor, common))
        kept = None if along is None else along[fit]
        for weight in (uneven, np.full(8, -1.5)):
            even = bool(np.ptp(weight) == 0)
            plain = np.abs(factor * weight) * (radius + (0.0 if even else shift))
            moved = np.abs(factor * 1.5) * shift if even else 0.0 * shift
            scaled = enclosed.norm_factor(x, epsilon, rms, kept)
            agrees(
                enclosed.norm(x, weight, 0 * shifts, epsilon, rms, scaled),
                middle * factor * weight,
                plain,
                common,
                moved,
            )
            centre, apart = spread(Enclosed(middle * factor * weight, plain, common, moved))
            apart = apart + MORE * UNIT_32 * (np.abs(centre) + apart + np.abs(shifts))
            agrees(enclosed.norm(x, weight, shifts, epsilon, rms, scaled), centre + shifts, apart)


@pytest.mark.parametrize("errors", ["none", "radii", "common"])
def test_attention_is_that_of_lemmas_e4_and_e5(errors: str) -> None:
    q, k, v = (enclosure(errors, 2, 7, 4, seed=seed) for seed in range(3))
    partner, sign = np.array([1, 0, 2, 3]), np.array([-1.0, 1.0, 0.0, 0.0])
    exponent, u = np.array([0.5, 0.5, np.inf, np.inf]), UNIT_32
    for theta in (100.0, 0.01):
        angle = np.arange(7)[:, None] * np.array([theta**-0.5, theta**-0.5, 0.0, 0.0])
        cos, sin = np.cos(angle), sign * np.sin(angle)
        off = (abs(np.log(theta)) + 40) * u * angle + 32 * u
        radius = q.radius * np.abs(cos) + q.radius[..., partner] * np.abs(sin)
        radius = radius + (q.size + q.size[..., partner]) * (off + MORE * gamma(4))
        middle = q.middle * cos + q.middle[..., partner] * sin
        agrees(enclosed.turned(q, enclosed.Rotary(partner, sign, exponent, theta)), middle, radius, q.common)

    keys, sizes, radii = (part.swapaxes(1, 2) for part in (k.middle, k.size, k.radius))
    score = 0.5 * (q.middle @ keys)
    inner = MORE * (q.radius @ sizes + np.abs(q.middle) @ radii) + MORE * gamma(4 + 16) * (q.size @ sizes)
    common = (1 + q.common) * (1 + k.common.swapaxes(1, 2)) - 1
    found, apart = enclosed.scores(q, k, 0.5)
    assert found == pytest.approx(score, rel=1e-12)
    follows(apart, 0.5 * inner + common * (np.abs(score) + 0.5 * inner))

    seen, off = np.tril(np.ones((7, 7), bool)), np.full((2, 7, 7), 0.0 if errors == "none" else 0.02)
    off[:, :, 0] *= 2.0
    masked = np.where(seen, score, -np.inf)
    p = np.exp(masked - masked.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    exps = (4 * 32 + (2 + 7 / 16) * (2 * 32 + 2)) * u
    largest = np.where(seen, np.abs(score) + off, 0).max(axis=-1, keepdims=True)
    d = off.max(axis=-1, keepdims=True) + 8 * u * (1 + largest) + exps
    sway, grown, c = np.exp(d) * np.expm1(d), np.exp(2 * d), p @ v.middle
    apart = grown * (p @ ((v.radius + MORE * gamma(2 * 7 + 64) * v.size) * (1 + v.common)))
    deviation = np.sqrt(np.maximum(p @ v.middle**2 - c**2, 0) + 2.0**-40 * (p @ v.middle**2))
    said = enclosed.average(score, off, seen, v)
    agrees(said.found, c, sway * deviation + grown * (p @ (v.common * np.abs(v.middle))) + apart)
    follows(said.sway, sway, 0.0)
    follows(said.grown, grown, 0.0)
    matrix, points = np.random.default_rng(3).normal(size=(3, 4)), (np.array([0, 1, 1]), np.array([0, 3, 6]))
    along = said.along(points, matrix)
    for row, (b, at) in enumerate(zip(*points, strict=True)):
        height = v.middle[b] @ matrix.T
        swayed = sway[b, at] * (p[b, at] @ np.abs(height - p[b, at] @ height))
        whole = grown[b, at] * (p[b, at] @ (v.common[b] * np.abs(height)))
        follows(along[row], swayed + whole + apart[b, at] @ np.abs(matrix).T, 0.0)


def test_what_the_enclosures_do_not_cover_is_refused_or_unknown() -> None:
    for middle in (2.0**40, -(2.0**40)):
        Enclosed.of(np.array([[middle]]), np.zeros((1, 1)))
        with pytest.raises(UnhandledError, match="numbers beyond"):
            Enclosed.of(np.array([[1.0, 1.001 * middle]]), np.zeros((1, 2)))
    # A common error above 2^-6 is put into the radius, and one of 1 or more leaves nothing known.
    x = Enclosed.of(np.array([[4.0], [4.0], [4.0]]), np.ones((3, 1)), np.array([[2.0**-6 / 1.001], [0.5], [1.0]]))
    assert x.common.ravel() == pytest.approx([2.0**-6, 0.0, 0.0], rel=1e-2)
    assert x.radius.ravel() == pytest.approx([1.0, 3.0, np.inf], rel=1e-5)
    assert x.middle.ravel()[:2] == pytest.approx([4.0, 4.5])
    ends = np.array([[-4.0, 4.0, 0.0]])
    follows(Enclosed.between(ends, ends).radius, 2.0**-50 * 2 * np.abs(ends))
    one, v = np.ones((1, 1), bool), enclosure("none", 1, 1, 2)
    for score in (32.0, -32.0):
        enclosed.average(np.full((1, 1, 1), score * 0.999), np.zeros((1, 1, 1)), one, v)
        with pytest.raises(UnhandledError, match="scores reach"):
            enclosed.average(np.full((1, 1, 1), score * 0.999), np.full((1, 1, 1), 0.1), one, v)
    with np.errstate(invalid="ignore"):
        wide = enclosed.average(np.zeros((1, 1, 1)), np.full((1, 1, 1), 1.1), one, v)
    assert not np.isfinite(wide.found.radius).any()


def test_poolers() -> None:
    for seed in range(12):
        x, a = some(np.random.default_rng(seed), 3, 20, shifted=True)
        assert inside(tanh(x), np.tanh(a))
        assert inside(relu(x), np.maximum(a, f32(0)))
    wide = torch.linspace(-12.0, 12.0, 1 << 18)
    assert (torch.tanh(wide).double() - torch.tanh(wide.double())).abs().max() <= TANH_ERROR


def test_what_cannot_be_bounded_is_never_sure() -> None:
    """A norm of noise has an infinite radius, and so has what follows; nothing is compared as if it were a number."""
    x = Enclosed.of(np.ones((1, 8)) * 1e-3, np.ones((1, 8)))
    wide = enclosed.norm(x, np.ones(8), np.zeros(8), 1e-6, False)
    assert not np.isfinite(wide.radius).any()
    with np.errstate(invalid="ignore"):
        after = Linear(np.eye(8))(wide)
    assert not (after.radius < 1e300).any()


SOURCES = ("scores", "values as wholes", "values", "stream", "stream as a whole", "mean")


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("source", [*SOURCES, "all"])
def test_a_closer_look_holds_the_worst_errors_and_little_more(source: str, rms: bool) -> None:
    """Errors of one source, or of all, that push a neuron as far as they can, or the factor of the norm before it."""
    used = np.stack([closer(np.random.default_rng(seed), source, rms) for seed in range(20)])
    assert used.max() <= 1.0
    best = used.max(axis=0)
    if source in SOURCES[:4]:
        assert best[0] > 0.7  # so whatever the bound forgot would show
    if source in SOURCES[:3]:
        assert best[1] > 0.7


@pytest.mark.parametrize("first", [2.0**6, -(2.0**6)])
def test_a_closer_look_holds_the_worst_errors_behind_a_norm_of_uneven_weights(first: float) -> None:
    """The mean of all errors is then none that coordinates share: nothing may be taken away for it."""
    weight = np.append(first, np.ones(23))
    used = [closer(np.random.default_rng(seed), source, False, weight) for seed in range(5) for source in SOURCES]
    assert 0.0 < np.max(used) <= 1.0


def test_nothing_is_taken_away_where_the_factor_of_a_norm_is_hardly_known() -> None:
    """Its error is then no longer common to all coordinates, but among the radii."""
    random, n, k, D = np.random.default_rng(0), 7, 5, 24

    def about(middle: Any, radius: float) -> Enclosed:
        none = np.zeros((*middle.shape[:-1], 1))
        return Enclosed.of(middle, np.full(middle.shape, radius), none, none)

    v = about(random.normal(size=(1, n, k)), 1e-4)
    seen = enclosed.average(random.normal(size=(1, 1, n)), np.full((1, 1, n), 1e-4), np.ones((1, n), bool), v)
    write = random.normal(size=(D, k))
    net = Net(False, {"scale_2": np.full(D, 1.5), "shift_2": np.zeros(D)}, epsilon=1e-5, width=D)
    for radius, common in ((1e-4, True), (0.25, False)):
        stream = enclosed.add(about(random.normal(size=(1, D)), radius), Linear(write)(seen.found)[0])
        sway = Sway(net, seen, write, stream)
        moved = seen.found.radius.reshape(-1, k) @ np.abs(write).T
        assert (sway.rest.common > 0.0).all() == common
        least = 1.5 * sway.factor * (stream.radius - (moved if common else 0.0))
        assert (sway.rest.radius >= 0.999 * least).all()


def closer(random: np.random.Generator, source: str, rms: bool, weight: Any = 1.5) -> Any:
    """Shares of the bound that the worst errors use up: of neurons, and of one that only the norm's factor moves.

    `weight` `(D,)`: of the norm; neurons do not read its first coordinate if its weights differ.
    """
    n, k, D, epsilon = 7, 5, 24, 1e-5
    weight = np.broadcast_to(weight, D)
    size = {name: 4e-3 * (source in (name, "all")) for name in SOURCES}

    def about(middle: Any, radius: float, common: float, shift: float = 0.0) -> Enclosed:
        one = np.ones((*middle.shape[:-1], 1))
        return Enclosed.of(middle, np.full(middle.shape, radius), common * one, shift * one)

    v = about(random.normal(size=(1, n, k)), size["values"], size["values as wholes"])
    score, off = random.normal(size=(1, 1, n)), np.full((1, 1, n), size["scores"])
    seen = enclosed.average(score, off, np.ones((1, n), bool), v)
    own = about(random.normal(size=(1, D)), size["stream"], size["stream as a whole"], size["mean"])
    write = random.normal(size=(D, k))
    stream = enclosed.add(own, Linear(write)(seen.found)[0])
    centre = stream.middle[0] - (0.0 if rms else stream.middle.mean())
    unseen = write if rms else np.append(write, np.ones((D, 1)), axis=1)
    blind = centre - unseen @ np.linalg.lstsq(unseen, centre, rcond=None)[0]
    W_1 = np.stack([*random.normal(size=(3, D)), blind])
    W_1[:, weight != weight[-1]] = 0.0
    arrays = {"W_1": W_1, "b_1": np.full(4, 64.0), "W_2": np.eye(4), "tokens": np.ones((1, D))}
    net = Net(rms, {**arrays, "scale_2": weight, "shift_2": np.zeros(D)}, epsilon=epsilon, width=D, activation="silu")
    sway = Sway(net, seen, write, stream)
    normed = enclosed.norm(stream, weight, np.zeros(D), epsilon, rms)
    neurons, which = FeedForward(net), np.arange(4)
    values = neurons._values(normed, sway.rest.only(neurons.columns), which, sway, np.zeros(1, np.int64))
    middle, radius = neurons._write(values, which)
    used = np.zeros(4)
    for way in (sign * w for w in (*W_1[:3], centre) for sign in (1.0, -1.0)):
        read = way * weight
        read = read if rms else read - read.mean()
        along = read @ write
        height = v.middle[0] @ along
        p = np.exp(score[0, 0] + off[0, 0] * np.sign(height - seen.weight[0, 0] @ height))
        values = (1.0 + v.common[0] * np.sign(height)[:, None]) * (v.middle[0] + v.radius[0] * np.sign(along))
        theta, sigma = own.common[0] * np.sign(read @ own.middle[0]), own.shift[0] * np.sign(read.sum())
        x = (1.0 + theta) * (own.middle[0] + own.radius[0] * np.sign(read) + sigma) + write @ (p @ values / p.sum())
        x = x - (0.0 if rms else x.mean())
        found = W_1 @ (weight * x / np.sqrt((x * x).mean() + epsilon)) + 64.0
        used = np.maximum(used, np.abs(found - middle[0]) / radius[0])
    return np.array([used[:3].max(), used[3]])


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_classes_that_are_ruled_out_by_a_coarse_bound_change_no_verdict(seed: int) -> None:
    """Against every pair of classes at the worst corner of the box, in plain arithmetic."""
    random, C, D, P = np.random.default_rng(seed), 12, 10, 30
    head = random.choice([-1.0, 1.0], (C, D)) if random.random() < 0.5 else random.normal(size=(C, D))
    net = Net(True, {"W_H": head, "b_H": np.zeros(C), "scale_3": np.ones(D), "shift_3": np.zeros(D)})
    wanted = random.integers(-1, C, P)
    x = Enclosed.of(3.0 * head[random.integers(0, C, P)] + random.normal(size=(P, D)), random.uniform(0, 3, (P, D)))
    right, wrong, got = StockHead(net).compare(x, wanted)
    gap = (head[wanted][:, None] - head) @ x.middle[..., None]
    room = np.abs(head[wanted][:, None] - head) @ x.radius[..., None]
    low, high = ((gap + sign * room)[..., 0] for sign in (-1.0, 1.0))
    low[np.arange(P), wanted] = high[np.arange(P), wanted] = np.inf
    sure = np.minimum(np.abs(low.min(axis=1)), np.abs(high.min(axis=1))) > 1e-3
    assert np.array_equal(right[sure], ((low > 0.0).all(axis=1) & (wanted >= 0))[sure])
    assert np.array_equal(wrong[sure], ((high < 0.0).any(axis=1) & (wanted >= 0))[sure])
    assert np.allclose(high[wrong, got[wrong]], high.min(axis=1)[wrong])
    assert not (right | wrong)[wanted < 0].any()


def toy_network(activation: str, seed: int = 0, **more: Any) -> Any:
    """A feed-forward block and a head of few numbers."""
    random = np.random.default_rng(seed)
    shapes = {"W_1": (5, 6), "b_1": 5, "W_2": (5, 6), "b_2": 6, "tokens": (3, 6), "W_H": (4, 6), "b_H": 4}
    shapes |= {"scale_2": 6, "shift_2": 6, "scale_3": 6, "shift_3": 6} | more
    arrays = {name: random.normal(size=shape) for name, shape in shapes.items()}
    arrays["tokens"][:, 3:] = 0.0
    return Net(False, arrays, width=6, epsilon=1e-5, activation=activation)


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("activation", ["relu6", "silu"])
def test_neurons_return_and_write_what_lemmas_e1_and_e6_say(activation: str, errors: str) -> None:
    gated: Any = {"W_3": (5, 6), "b_3": 5} if activation == "silu" else {}
    net, x = toy_network(activation, **gated), enclosure(errors, 4, 6)
    net.arrays["scale_2"][0], net.arrays["b_2"][0] = -9.0, 0.0
    neurons, which = FeedForward(net), np.array([0, 2, 3])
    found = neurons._values(x, x, which, None, np.arange(4))
    w, b, rounds = net["W_1"][which], net["b_1"][which], MORE * gamma(6 + 4)
    middle = x.middle @ w.T
    radius = (x.radius + rounds * x.size) @ np.abs(w).T + x.shift * np.abs(w.sum(axis=1))
    radius = radius + x.common * (np.abs(middle) + radius) + rounds * np.abs(b)
    least, most = activated(activation, middle + b - radius, middle + b + radius)
    assert ((found.nonzero == ((least < 0) | (most > 0))) | (np.abs(most) < 1e-6)).all()
    assert (found.wakes == ((least < -SLEEPING[activation]) | (most > SLEEPING[activation]))).all()
    assert (found.above == (middle + b > 0)).all()
    value, off = (least + most) / 2, (most - least) / 2
    if gated:
        by = Linear(net["W_3"][which], net["b_3"][which])(x).spread()
        size = (np.abs(value) + off) * by.size
        value, off = value * by.middle, size - np.abs(value * by.middle) + 2 * UNIT_32 * size
    assert found.value.middle == pytest.approx(value, rel=1e-4, abs=1e-9)
    assert found.value.radius == pytest.approx(off, rel=1e-4, abs=1e-9)
    assert (found.value.radius >= off).all()
    nonzero = found.nonzero.sum(axis=1, keepdims=True) if activation == "relu6" else 5
    written = (found.value.radius + MORE * gamma(nonzero + 8.0) * found.value.size) @ np.abs(net["W_2"][which])
    middle, radius = neurons._write(found, which)
    assert middle == pytest.approx(found.value.middle @ net["W_2"][which])
    follows(radius, written, 0.0)
    length = np.sqrt(6) * np.abs(net["scale_2"]).max() + np.linalg.norm(net["shift_2"])
    size = MORE * (np.linalg.norm(net["W_3"], axis=1) * length + np.abs(net["b_3"])) if gated else np.ones(5)
    assert neurons.sleep == pytest.approx(2 * SLEEPING[activation] * (size @ np.abs(net["W_2"])), rel=1e-5)
    assert (neurons.sleep >= 2 * SLEEPING[activation] * (size @ np.abs(net["W_2"]))).all()
    # All neurons at once: those that rest, and the bias behind them, added.
    whole, every = neurons(x, np.array([0, 1, 2, 1]), None), np.arange(5)
    values = neurons._values(x, x, every, None, np.arange(4))
    middle, radius = neurons._write(values, every)
    radius = radius + neurons.sleep + MORE * UNIT_32 * (np.abs(middle) + radius + np.abs(net["b_2"]))
    assert whole.middle == pytest.approx(middle + net["b_2"], rel=1e-6)
    assert (whole.radius >= radius * (1 - 1e-6)).all()
    assert (whole.radius <= radius * 1.01 + 1e-6).all()


@pytest.mark.parametrize("activation", ["relu6", "silu"])
def test_a_neuron_that_may_wake_is_looked_at(activation: str) -> None:
    """Lemma E7: at every token, none that another evaluation might wake is left out."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        net = toy_network(activation, seed)
        net.arrays["b_1"] = RESTS[activation] - np.abs(random.normal(size=5)) * 2.0
        neurons, token = FeedForward(net), np.sort(random.integers(0, 3, 6))
        x = enclosure(str(random.choice(list(ERRORS))), 6, 6, seed=seed)
        share = random.uniform(-1, 2, (6, 1))
        x = Enclosed(share * net["tokens"][token] + 0.3 * x.middle, x.radius, x.common, x.shift)
        tokens, starts = np.unique(token, return_index=True)
        awake = neurons._awake(x, tokens, np.append(starts, 6))
        wakes = neurons._values(x, x, np.arange(5), None, np.arange(6)).wakes
        for row, here in enumerate(token):
            assert not (wakes[row] & ~awake[np.flatnonzero(tokens == here)[0]]).any()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("common", [0.0, 2.0**-10])
def test_a_neuron_that_roundings_alone_may_wake_is_looked_at(sign: float, common: float) -> None:
    """It reads 1000 less 1000, and as much less as its bias and its number, or their common error, may be off."""
    net = toy_network("relu6")
    for letter in ("W_1", "tokens"):
        net.arrays[letter][:] = 0.0
    net.arrays["W_1"][:, 4], net.arrays["tokens"][:, 0] = sign, 1.0
    net.arrays["b_1"][:] = -1000.0
    rounds = MORE * gamma(1 + 4)
    x = Enclosed(np.zeros((1, 6)), np.zeros((1, 6)), np.full((1, 1), common), np.zeros((1, 1)))
    for less, wakes in ((common / (1.0 + common) + 1.5 * rounds, True), (1.2 * common + 3.0 * rounds, False)):
        x.middle[0, 4] = sign * 1000.0 * (1.0 - less)
        neurons = FeedForward(net)
        rest = x.only(neurons.columns)
        assert neurons._awake(rest, np.array([0]), np.array([0, 1])).all() == wakes
        assert neurons._values(x, rest, np.arange(5), None, np.arange(1)).wakes.all() == wakes


@pytest.mark.parametrize("errors", ["none", "radii", "shift"])
def test_classes_are_compared_as_lemma_e8_says(errors: str) -> None:
    net, x = toy_network("relu6"), enclosure(errors, 5, 6)
    net.arrays["W_H"][:, 2] = net.arrays["W_H"][1:, 4] = 0.0  # columns that no class reads, and that one does
    head, wanted = StockHead(net), np.array([0, 1, 2, 3, 0])
    point, other, low, high = head._close_classes(x, wanted)
    assert len(point) >= 3
    rounds, W, b = MORE * gamma(5 + 24), net["W_H"], net["b_H"]
    logits = x.middle @ W.T + b
    for i, c, least, most in zip(point, other, low, high, strict=True):
        y = wanted[i]
        room = np.abs(W[y] - W[c]) @ x.radius[i] + x.shift[i, 0] * (abs(W[y].sum()) + abs(W[c].sum()))
        room += rounds * ((np.abs(W[y]) + np.abs(W[c])) @ x.size[i] + abs(b[y]) + abs(b[c]))
        gap = logits[i, y] - logits[i, c]
        follows(np.array([gap - least, most - gap]), np.array([room, room]))
    pairs = set(zip(point.tolist(), other.tolist(), strict=True))
    for i, y in enumerate(wanted):
        for c in {0, 1, 2, 3} - {int(y)}:
            alone = [np.abs(W[k]) @ x.radius[i] + x.shift[i, 0] * abs(W[k].sum()) for k in (y, c)]
            alone = [
                one + rounds * (np.abs(W[k]) @ x.size[i] + abs(b[k])) for one, k in zip(alone, (y, c), strict=True)
            ]
            assert ((i, c) in pairs) == (logits[i, c] + alone[1] >= logits[i, y] - alone[0]), (
                "ruled out too soon, or late"
            )


@pytest.mark.parametrize(("low", "high", "least", "most"), [
    (-3.0, -2.0, -2.0, -3.0), (-1.0, -0.5, -1.0, -0.5), (-0.1, 0.05, -0.1, 0.05), (1.0, 2.0, 1.0, 2.0),
    (-2.0, -0.5, None, -0.5), (-9.0, -1.0, None, -9.0), (-9.0, 8.0, None, 8.0),
])  # fmt: skip
def test_silu_lies_between_its_ends_and_its_minimum(low: float, high: float, least: float | None, most: float) -> None:
    """Lemma E6: where the least and the largest value is, and what exp and three more operations may do to it."""
    ends = [-0.2785 if x is None else x / (1 + np.exp(-x)) for x in (least, most)]
    off = (2 * 32 + 16) * UNIT_32 * max(map(abs, ends))
    found = activated("silu", np.array([low]), np.array([high]))
    assert [float(end[0]) for end in found] == pytest.approx([ends[0] - off, ends[1] + off], rel=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_biases_of_classes_are_rounded_too(sign: float) -> None:
    """Two that differ by less than what the roundings of both may be, and by more."""
    net, rounds = toy_network("relu6"), MORE * gamma(6 + 24)
    x = Enclosed(np.zeros((1, 6)), np.zeros((1, 6)), np.zeros((1, 1)), np.zeros((1, 1)))
    for apart, sure in ((1.5, False), (2.1, True)):
        net.arrays["b_H"][:] = -1e6
        net.arrays["b_H"][:2] = np.array([1000.0, 1000.0]) * sign + [apart * rounds * 1000.0, 0.0]
        right, wrong, _ = StockHead(net)._compare(x, np.array([0]))
        assert (bool(right[0]), bool(wrong[0])) == (sure, False)
        right, wrong, got = StockHead(net)._compare(x, np.array([1]))
        assert (bool(right[0]), bool(wrong[0]), int(got[0])) == (False, sure, 0 if sure else -1)


def test_ends_of_poolers() -> None:
    x = Enclosed(np.array([[0.5, -2.0, 0.0]]), np.array([[0.25, 0.5, 1.0]]), np.zeros((1, 1)), np.zeros((1, 1)))
    low, high = x.middle - x.radius, x.middle + x.radius
    for found, ends in (
        (tanh(x), (np.tanh(low) - TANH_ERROR, np.tanh(high) + TANH_ERROR)),
        (relu(x), (low.clip(0), high.clip(0))),
    ):
        assert found.middle == pytest.approx((ends[0] + ends[1]) / 2, abs=1e-6)
        follows(found.radius, (ends[1] - ends[0]) / 2)


@pytest.mark.parametrize(("pool", "nonzero", "plain"), [
    (None, (), True), (None, ("b_H",), False), (None, ("shift_3",), False), ("relu", (), True),
    ("relu", ("b_P",), False), ("relu", ("b_H",), False), ("relu", ("shift_3",), False), ("tanh", (), False),
])  # fmt: skip
def test_the_last_factor_is_left_out_only_where_nothing_behind_it_minds(
    pool: str | None, nonzero: tuple[str, ...], plain: bool
) -> None:
    """One bias is enough to make the factor of the last norm count."""
    net = toy_network("relu6", **({"W_P": (6, 6), "b_P": 6} if pool else {}))
    net.architecture = SimpleNamespace(rms=False, pool=pool, pool_keeps_scale=pool == "relu")
    for letter in ("b_H", "shift_3", "b_P"):
        if letter in net:
            net.arrays[letter][:] = 0.0
            net.arrays[letter][-1] = -1.0 if letter in nonzero else 0.0
    assert StockHead(net).plain == plain


def test_the_sum_of_a_token_and_its_place_is_rounded_where_both_are_there() -> None:
    net = Net(
        False, {"tokens": np.array([[0.0, -3.0, 1.0, 2.0]]), "places": np.array([[9.0] * 4, [1.0, -1.0, -5.0, 0.0]])}
    )
    net.architecture = SimpleNamespace(rms=False, offset=1)
    program: Any = SimpleNamespace(net=net)
    found = Program._embedded(program, np.array([0]), np.array([0]))
    assert found.middle.tolist() == [[1.0, -4.0, -4.0, 2.0]]
    follows(found.radius, MORE * UNIT_32 * np.array([[0.0, 4.0, 4.0, 0.0]]))
    del net.arrays["places"]
    follows(Program._embedded(program, np.array([0]), np.array([0])).radius, np.zeros((1, 4)))
