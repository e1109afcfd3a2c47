"""Points: their order, and ends of ranges that no crowd reaches over."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cluster.points import Piece, Range, in_order
from monolayer.cluster.spill import Spill
from monolayer.construct.line import points as line_points
from monolayer.construct.line.cascade import cut
from monolayer.construct.line.points import Points, token_major
from monolayer.construct.line.separate import SLACK, hopeless

near_zero = st.sampled_from([-3.5, -(2.0**-40), 0.0, 2.0**-40, 0.1, 3.5])
one_sign = st.sampled_from([-510.5, -510.25, -500.0, -3.5])


@settings(max_examples=30)
@given(
    st.one_of(*(st.lists(st.tuples(z, st.integers(0, 999)), max_size=40) for z in (near_zero, one_sign))),
    st.sampled_from([-1.0, 1.0]),
)
def test_points_come_in_order_of_z_then_of_label(points: list[tuple[float, int]], sign: float) -> None:
    points = [(sign * z, label) for z, label in points]
    z, label = np.array([z for z, _ in points]), np.array([label for _, label in points], dtype=np.uint16)
    found = in_order(z, label)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(points)
    reals = in_order(z, np.stack([label, label], axis=1).astype(np.float64))
    assert reals[1][:, 1].tolist() == [label for _, label in sorted(points)]


@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("strict", [False, True])
@given(data=st.data())
def test_ranges_are_cut_where_no_crowd_is(
    tmp_path_factory: pytest.TempPathFactory, strict: bool, data: st.DataObject
) -> None:
    """Ranges one after the other are all points, whatever the splitters; each has the crowds that all points have."""
    steps = data.draw(st.lists(st.sampled_from([0.0, 1.0, 1.0, 20.0]), min_size=1, max_size=60))
    z = 1.0 + 2.0**-52 * np.cumsum(steps)
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(z), max_size=len(z))), dtype=np.uint8)
    order = np.lexsort((label, z))
    z, label = z[order], label[order]
    spill, pieces = Spill(str(tmp_path_factory.mktemp("spill"))), np.arange(len(z)) % 3
    at = sorted(data.draw(st.lists(st.sampled_from(z.tolist()), max_size=4)))
    ends, whole = [-np.inf, *at, np.inf], np.unique(np.stack([z, label]), axis=1)
    for i in range(3):
        spill.write(f"points-{i}", [z[pieces == i], label[pieces == i]])
    rows = [Points(whole[0], whole[0], 1.0, 0.0)]
    found, count, crowds = [np.zeros((2, 0))], 0, list[tuple[float, float]]()
    for r, (since, until) in enumerate(pairwise(ends)):
        where = []
        for i in range(3):
            own = z[pieces == i]
            begin, end = (int(np.searchsorted(own, splitter)) for splitter in (since, until))
            where.append(Piece(f"points-{i}", len(own), begin, end))
        range_ = Range(r, since, until, where, np.dtype(np.uint8), 0, 1.0, 0.0, 10)
        some, labels, clean = range_.gather(spill, strict)
        assert clean or not strict
        begin = int(bool(count) and len(some) > 0)  # the point before
        if begin:
            assert (some[0], labels[0]) == tuple(whole[:, count - 1])
        if len(some):
            part = cut(range_.points(some), np.flatnonzero(labels[1:] != labels[:-1]))
            crowds += zip(some[part.begin].tolist(), some[part.end - 1].tolist(), strict=True)
        found.append(np.stack([some[begin:], labels[begin:]]))
        count += len(some) - begin
    assert np.concatenate(found, axis=1).tolist() == whole.tolist()
    all_cut = cut(rows[0], np.flatnonzero(whole[1, 1:] != whole[1, :-1]))
    if strict:
        assert crowds == list(zip(whole[0][all_cut.begin].tolist(), whole[0][all_cut.end - 1].tolist(), strict=True))


@settings(max_examples=10)
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(0.0, 1e-12))
def test_many_points_are_hopeless_wherever_they_lie(low: float, reach: float, error: float) -> None:
    points = Points(np.zeros(0), np.zeros(0), 1.0, error)
    assert hopeless(10**9, 10**8, points, (low, low + reach))
    assert SLACK == 8.0  # the figures in docs/construction.md are for this one


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.sampled_from([3, 1000, 70_000, 10**7]), st.booleans())
def test_contexts_then_codes_is_the_order_of_z(sequences: int, length: int, codes: int, partly: bool) -> None:
    random = np.random.default_rng(sequences)
    code = random.integers(-codes // 2, codes // 2, sequences * length).astype(np.float64)
    context = random.random(sequences)
    z = code + 0.5 * np.repeat(context, length)
    place = np.flatnonzero(random.random(len(z)) < 0.6) if partly else None
    order = token_major(code, context, place)
    assert order is not None
    chosen = z if place is None else z[place]
    assert sorted(order.tolist()) == list(range(len(chosen)))
    assert np.array_equal(chosen[order], np.sort(chosen))
    assert token_major(np.array([0.0, 2.0**33]), np.array([0.1, 0.2]), None) is None, "too far apart for a radix sort"


def test_both_orders_build_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    X, Y = random.integers(0, 30, (200, 6)), random.integers(0, 3, (200, 6))
    one = ml.memorize(X, Y, positions=True).state_dict()
    monkeypatch.setattr(line_points, "WORTH_IT", 10**9)
    two = ml.memorize(X, Y, positions=True).state_dict()
    assert all(np.array_equal(one[name].numpy(), two[name].numpy(), equal_nan=True) for name in one)
