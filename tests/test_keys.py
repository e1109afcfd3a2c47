"""Points as whole numbers: the order, the bits and the bound that keeps them apart, and what is looked for by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.cluster import keys
from monolayer.cluster.blocks import Rules
from monolayer.cluster.crowds import candidates
from monolayer.cluster.encode import last_of_each
from monolayer.cluster.keys import Packing
from monolayer.cluster.measure import Extent
from monolayer.cluster.ranges import Form, Packed, Plain, form_of, in_order
from monolayer.construct.line.alphabet import Ids
from monolayer.construct.line.draw import Tokens
from monolayer.construct.line.draw import candidates as draws
from monolayer.construct.line.points import Points, scale
from monolayer.construct.line.separate import SLACK, alike, hopeless

NUMBER = st.floats(-600, 600).map(lambda z: z if abs(z) >= 2.0**-50 else 0.0)


@given(st.lists(st.tuples(NUMBER, st.integers(0, 15)), max_size=60), st.integers(1, 20))
def test_keys_have_the_order_and_the_bits_of_points(points: list[tuple[float, int]], block: int) -> None:
    z, label = np.array([z for z, _ in points]), np.array([label for _, label in points], dtype=np.uint8)
    packing = Packing.of(2.0**-50, 600.0, 16)
    assert packing is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "BLOCK", block)
        found = packing.keys(z, label)
    assert packing.z(found).tobytes() == (z + 0.0).tobytes()  # −0 is no number of a point
    assert packing.label(found, label.dtype).tolist() == label.tolist()
    assert sorted(points) == [points[i] for i in np.argsort(found, kind="stable")]


def test_what_64_bits_do_not_hold() -> None:
    assert Packing.of(2.0**-119, 511.0, 16) is not None
    assert Packing.of(2.0**-120, 511.0, 16) is None
    assert Packing.of(2.0**-50, 511.0, 300) is None
    label = np.zeros(2, dtype=np.uint16)
    assert isinstance(in_order([Plain(np.array([510.5, 500.0]), label)], Form(300, None)), Packed)
    assert isinstance(in_order([Plain(np.array([510.5, 2.0**-50]), label)], Form(300, None)), Plain)


@given(
    st.lists(
        st.tuples(st.sampled_from([-3.5, -(2.0**-40), 0.0, 2.0**-40, 0.1, 3.5]), st.integers(0, 999)), max_size=40
    ),
    st.sampled_from([1000, 2**20]),
)
def test_points_of_any_form_come_in_order(points: list[tuple[float, int]], labels: int) -> None:
    z, label = np.array([z for z, _ in points]), np.array([label for _, label in points], dtype=np.uint32)
    found = in_order([Plain(z, label)], Form(labels, None))
    columns = found.columns(0, len(found))
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == sorted(points)
    assert found.new().sum() == len(set(points))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(-999, 900).map(lambda low: low / 1000), st.floats(2.0**-12, 0.2))
def test_magnitudes_of_points_have_room_in_their_keys(seed: int, low: float, width: float) -> None:
    random = np.random.default_rng(seed)
    context = np.append(random.uniform(low, min(1.0, low + width), 50), [low, 0.0 if low < 0 < low + width else low])
    rules = Rules("token", False, False, False, 4, 40, 16, None, None)
    draw = next(iter(draws(Tokens(None, None, Ids(40), None, False, None, 4), "cells", 1, seed)))  # type: ignore[arg-type]
    extent = Extent.of(context)
    kappa = scale(1.0, extent.last - extent.first, 0.0)
    # As close to 0 as a point can come: a context that nearly makes up for a code.
    near = np.round(kappa * context) / kappa
    context = np.append(context, near[(near >= extent.first) & (near <= extent.last)])
    more = np.nextafter(context[np.abs(context) > 2.0**-60], 2.0)
    context = np.append(context, more[more <= extent.last])
    packing = form_of(draw, kappa, Extent.of(context), rules).packing
    assert packing is not None
    z = (draw.proposal.code.numpy()[:, None] + kappa * context).reshape(-1)
    assert packing.z(packing.keys(z, np.zeros(len(z), np.uint8))).tobytes() == z.tobytes()


def test_a_packing_that_is_too_narrow_loses_points() -> None:
    packing = Packing.of(2.0**-10, 8.0, 16)
    assert packing is not None
    assert packing.z(packing.keys(np.array([2.0**-12]), np.zeros(1, np.uint8))).tolist() == [0.0]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 1e-9, 0.01, 0.7, 2.0]))
def test_sequences_with_a_point_in_a_stretch_are_found(seed: int, whole: bool, width: float) -> None:
    random = np.random.default_rng(seed)
    moved = random.uniform(-0.3, 6.0, 200)
    code = random.integers(-500, 500, 200) if whole else np.zeros(200)
    z = code + moved
    chosen = random.choice(200, 5, replace=False)
    low = z[chosen] - width * random.random(5)
    found = candidates(moved, low, low + width, whole=whole)
    inside = (low <= z[:, None]) & (z[:, None] <= low + width)
    assert set(np.flatnonzero(inside.any(axis=1))) <= set(found)
    if width < 0.01:
        assert len(found) < 20


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=30), st.integers(1, 7))
def test_the_last_value_of_each_token(pairs: list[tuple[int, int]], block: int) -> None:
    tokens, values = (np.array([pair[i] for pair in pairs], dtype=np.uint8) for i in (0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monolayer.cluster.encode.BLOCK", block)
        last = last_of_each(10, tokens, values)
    assert last.tolist() == [dict(pairs).get(token, -1) for token in range(10)]


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(0.0, 1e-12), st.integers(1, 10**9))
def test_many_points_are_hopeless_wherever_they_lie(low: float, reach: float, error: float, count: int) -> None:
    points = Points(np.zeros(0), np.zeros(0), 1.0, error)
    if alike(count):
        assert hopeless(10**9, count, points, (low, low + reach))
    assert alike(10**8)
    assert not alike(9 * 10**7)
    assert SLACK == 8.0  # the figures above, and in docs/construction.md, are for this one


def test_packed_points_are_the_points() -> None:
    packing = Packing.of(0.5, 8.0, 4)
    assert packing is not None
    z, label = np.array([-2.0, 1.0, 1.0]), np.array([3, 0, 0], dtype=np.uint8)
    line = Packed(packing.keys(z, label), packing, np.dtype(np.uint8))
    assert line.new().tolist() == [True, True, False]
    assert line.some(slice(1, None)).columns(0, 1)[0].tolist() == [1.0]
