"""The kernels for GPUs compute what is computed without them, to the bit: here in Triton's interpreter, on tensors.

`bench/a_hundred_million_labels_in_30_ms_on_a_device.py` asks the same of a GPU.
"""

from __future__ import annotations

import atexit
import math
import os
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import monolayer as ml
from monolayer import kernels
from monolayer.construct import memorize as memorizing
from monolayer.construct.line.points import SLACK, Points, ramps, too_narrow
from monolayer.kernels import MANY
from monolayer.model import contexts, monolayer, staircase
from monolayer.model.contexts import added
from monolayer.model.shortcut import plan
from monolayer.model.staircase import Plateaus, Steps
from tests.test_device_builds import KINDS, TOKENS, X, same

pytest.importorskip("triton", reason="Triton is made for Linux")
from monolayer import fused


def _be_quiet() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


# Triton's binding lists on standard error what it still holds when Python has ended: a page, which says nothing of us.
atexit.register(_be_quiet)
# The interpreter computes with NumPy, which warns where a kernel meets a NaN.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
RANDOM = np.random.default_rng(3)
X, TOKENS = X[:40], TOKENS[:40]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Tensors are treated as if they were many and lay on a GPU; how often each of the passes was called."""
    calls = Counter[str]()

    class Counted:
        def __getattr__(self, name: str) -> Any:
            calls[name] += 1
            return getattr(fused, name)

    def elsewhere(X: object) -> bool:
        return isinstance(X, Tensor)

    monkeypatch.setattr(kernels, "many_on_a_gpu", lambda x: elsewhere(x) and len(x) > 1)
    monkeypatch.setattr(kernels, "fused_passes", Counted)
    for module in (memorizing, monolayer):
        monkeypatch.setattr(module, "elsewhere", elsewhere)
    for module in (contexts, staircase):
        monkeypatch.setattr(module, "readable", lambda x: False)
    monkeypatch.setattr(staircase, "_MANY_ON_A_DEVICE", 1)
    monkeypatch.setattr(kernels, "LAST", 100)
    return calls


def tensor(x: Any) -> Tensor:
    return torch.from_numpy(np.asarray(x))


# -- whole models -------------------------------------------------------------------------------------------

KERNELS = {"contexts", "sums", "spaced", "least_room", "ramps", "falls"}
"""What a build needs, of one label per token."""


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_summary_are_the_processors(kind: str, used: Counter[str]) -> None:
    X, Y, options = KINDS[kind]
    usual = ml.memorize(X, Y, **options)
    ours = ml.memorize(tensor(X), None if Y is None else tensor(Y), **options)
    assert same(ours, usual)
    if kind in ("a label per token", "a temperature and a seed", "float32"):
        assert used.keys() >= KERNELS


@pytest.mark.parametrize("slack", [None, 1e11])
def test_every_answer_is_that_of_the_network(
    slack: float | None, used: Counter[str], demanding: Callable[[float], None]
) -> None:
    """Of sequences that were memorized and of others; in one stage, and in several."""
    if slack is not None:
        demanding(slack)
    model = ml.memorize(tensor(X), tensor(TOKENS))
    assert model.summary is not None
    assert (model.summary.rank > 1) == (slack is not None)
    assert model.predict(tensor(X)).tolist() == TOKENS.tolist()
    strange = RANDOM.permutation(X.reshape(-1)).reshape(X.shape)
    assert model.predict(tensor(strange)).tolist() == model.predict(strange, path="dense").tolist()
    assert used.keys() >= {*KERNELS, "largest", "places_on_line", "ramp_ends", "index_of", "plateau_labels", "digest"}


def test_an_id_without_a_vector_is_refused_by_name(used: Counter[str]) -> None:
    model = ml.memorize(tensor(np.array([[0, 2, 5]])), tensor(np.array([[0, 1, 0]])))
    with pytest.raises(ml.DataError, match="token 1 of sequence 0 is 3"):
        model.predict(torch.tensor([[0, 3, 5]]))


def test_weights_are_looked_at_again_only_if_their_digest_is_another(used: Counter[str]) -> None:
    model = ml.memorize(tensor(X), tensor(TOKENS))
    model.predict(tensor(X))
    first = plan(model)
    model.predict(tensor(X))
    assert plan(model) is first
    jumps = model.feed_forward.stages[0].weight_2.data[0]  # a change by .data is in no version counter
    other = int(torch.nonzero(jumps != jumps[1])[-1])
    jumps[[1, other]] = jumps[[other, 1]]
    changed = model.predict(tensor(X))
    assert plan(model) is not first
    assert changed.tolist() == model.predict(X, path="dense").tolist() != TOKENS.tolist()


def test_kernels_are_for_many_numbers_on_the_gpu_that_work_is_sent_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    for device, count, used in (("cuda:1", MANY, True), ("cuda:0", MANY, False), ("cuda:1", MANY - 1, False)):
        x = SimpleNamespace(device=torch.device(device))
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "len", lambda _, count=count: count, raising=False)
            assert kernels.many_on_a_gpu(x) == used
    assert not kernels.many_on_a_gpu(torch.zeros(MANY))
    assert not kernels.many_on_a_gpu(np.zeros(MANY))


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_without_triton_or_what_it_needs_all_goes_on_without_kernels(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> Any:
        raise error("no compiler")

    monkeypatch.setattr(kernels, "import_module", fail)
    monkeypatch.setattr(kernels, "many_on_a_gpu", lambda x: True)
    kernels.fused_passes.cache_clear()
    try:
        assert kernels.passes(torch.zeros(1)) is None
    finally:
        kernels.fused_passes.cache_clear()


# -- one by one ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [*range(1, 20), 24, 25, 33, fused.WIDEST])
def test_contexts_are_added_in_the_order_of_numpy(width: int) -> None:
    rows = tensor(RANDOM.integers(0, 50, 270 * width))
    terms = tensor(RANDOM.normal(size=(2, 51)) * 10.0 ** (np.arange(51) % 7))
    below, above = (added(each[rows].view(-1, width)) + each[-1] for each in terms)
    assert torch.equal(fused.contexts(rows, width, terms), above / below)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(2, 1500), st.sampled_from([0.0, 1e-16, 1e-3]))
def test_gaps_and_ramps_are_those_of_points(seed: int, count: int, fixed: float) -> None:
    """Among points far apart, equal ones, and some that are hardly apart."""
    random = np.random.default_rng(seed)
    near = random.choice(random.normal(size=count), count) + random.integers(0, 9, count) * 2.0**-52
    points = Points(tensor(np.sort(near)), torch.arange(count), 1.0, fixed)
    room, gap = points.room_between(points.z[:-1], points.z[1:]), points.z[1:] - points.z[:-1]
    seen = fused.spaced(points.z, fixed, points.unit, SLACK)
    wide = room > 2.0
    assert seen.wide == int(wide.sum())
    assert seen.least == (float(gap[wide].min()) if wide.any() else math.inf)
    assert torch.equal(seen.tight, too_narrow(room).nonzero().flatten())
    some = tensor(np.flatnonzero(random.random(count - 1) < 0.5))
    if len(some):
        least = fused.least_room(points.z, some, fixed, points.unit)
        assert least == float(room[some].min()) or (math.isnan(least) and room[some].isnan().any())
    there = (gap > 0.0).nonzero().flatten()
    if len(there):
        for ours, usual in zip(fused.ramps(points.z, there), ramps(points.z[there], points.z[there + 1]), strict=True):
            assert torch.equal(ours, usual)


def test_a_gap_that_is_no_number_is_tight_and_the_least() -> None:
    z = torch.tensor([0.0, 1.0, 2.0, math.nan, math.inf, math.inf], dtype=torch.float64)
    seen = fused.spaced(z, 1e-16, 2.0**-53, SLACK)
    assert (seen.wide, seen.least, seen.tight.tolist()) == (2, 1.0, [2, 3, 4])
    assert math.isnan(fused.least_room(z, torch.tensor([0, 2]), 1e-16, 2.0**-53))
    assert fused.least_room(z, torch.tensor([0, 1]), 0.0, 2.0**-53) == 2.0**52


def stairs(at: Any, columns: int = 1) -> Steps:
    """Ramps of slope 2 that begin at these whole numbers, between random levels."""
    start = tensor(np.asarray(at, np.float64))
    level = tensor(RANDOM.integers(0, 9, (len(start) + 1, columns)).astype(float))
    return Steps(torch.full_like(start, 2.0), -2.0 * start, level)


@pytest.mark.parametrize("kind", [Steps, Plateaus])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(
    "at",
    [range(16), [0, 1, 2, 10**15], [-(10**15), *range(12)], np.unique(RANDOM.integers(0, 10**6, 16)), [0, 1], [5]],
    ids=["even", "one far away", "most at one end", "uneven", "two", "one"],
)
def test_labels_are_found_by_the_index_of_the_steps(
    kind: type[Steps], columns: int, at: Any, used: Counter[str]
) -> None:
    steps = stairs(at, columns)
    steps = kind(steps.slope, steps.bias, steps.level)
    assert steps.rise
    edges = torch.cat([steps.start, steps.end, (steps.start + steps.end) / 2.0])
    z = torch.cat([edges, edges.nextafter(torch.tensor(math.inf)), edges.nextafter(torch.tensor(-math.inf))])
    z = torch.cat([z, torch.tensor([-1e300, 1e300, -math.inf, math.inf, math.nan, 0.0, -0.0], dtype=z.dtype)])
    wanted = steps.search(z).T.where(~z.isnan()[:, None], torch.nan)
    assert torch.equal(steps(z).nan_to_num(-7.0), wanted.nan_to_num(-7.0))
    assert used["plateau_labels"] == (0 if len(steps.end) == 1 else 1)  # one number has no extent


def test_ramps_that_do_not_rise_are_seen(used: Counter[str]) -> None:
    good = stairs(range(5))
    plain = -good.bias / good.slope
    start, end, rise = fused.ramp_ends(good.slope, good.bias)
    assert torch.equal(start, plain)
    assert torch.equal(end, plain + 0.5)
    assert rise
    for at, slope, bias in (
        (3, 2.0, -4.0),  # begins where the one before it does
        (3, 2.0, -4.9),  # begins on the one before it
        (0, 0.5, -0.0),  # ends behind the beginning of the next
        (2, -2.0, 4.0),  # falls
        (2, 2.0**60, -(2.0**61)),  # no wider than a rounding error
        (2, math.nan, -4.0),
        (4, 2.0, math.nan),
    ):
        slopes, biases = good.slope.clone(), good.bias.clone()
        slopes[at], biases[at] = slope, bias
        assert not fused.ramp_ends(slopes, biases)[2]


def test_falls_are_differences_of_labels_and_one_where_a_stretch_begins() -> None:
    label = RANDOM.integers(3, 200, 2500).astype(np.uint8)
    fall, least, largest = fused.falls(tensor(label), np.array([1, 7, 2499]))
    assert fall[0].tolist() == (label[:-1].astype(float) - label[1:]).tolist()
    assert (least, largest) == (label.min(), label.max())
    assert fall[1].nonzero().flatten().tolist() == [0, 6, 2498]
    assert fall[1].sum() == -3.0
    assert fused.falls(tensor(label[::-1].copy()), None)[1:] == (label.min(), label.max())


def test_a_digest_tells_every_bit_and_its_place() -> None:
    numbers = [tensor(RANDOM.normal(size=size)) for size in (3000, 5, 1100)] + [torch.arange(7, dtype=torch.float32)]
    whole = fused.digest(numbers)
    assert fused.digest([each.clone() for each in numbers]) == whole
    found = {whole}
    for at, place in ((0, 0), (0, 2999), (1, 4), (2, 500), (3, 1)):
        changed = [each.clone() for each in numbers]
        changed[at][place] = torch.nextafter(changed[at][place], torch.tensor(9.0, dtype=changed[at].dtype))
        found.add(fused.digest(changed))
        changed[at] = numbers[at].clone()
        changed[at][[place, 2]] = changed[at][[2, place]]
        found.add(fused.digest(changed))
    found.add(fused.digest([numbers[2], *numbers[1:2], numbers[0], numbers[3]]))
    assert len(found) == 12
