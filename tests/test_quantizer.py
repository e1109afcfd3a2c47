"""The first feed-forward block rounds to cells: exactly off its ramps, in any order of summation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.construct.cells.grid import Box, Lattice
from monolayer.construct.line.alphabet import GridCells
from monolayer.errors import DataError
from monolayer.model.quantizer import Quantizer


def block(
    dim: int, cells: int, low: float = 0.0, high: float = 1.0, seed: int = 0
) -> tuple[Quantizer, Lattice, torch.Tensor]:
    """A quantizer as the construction makes it, its grid, and its tables `(2, d, D)`."""
    lattice = Lattice.of(Box(dim, 1, low, high, False), cells, 2.0**-20)
    (codes,) = GridCells(dim, cells).propose(np.random.default_rng(seed), 1.0, 1).lift
    table = torch.from_numpy(codes)
    return Quantizer.from_steps(1.0 / lattice.width, torch.from_numpy(lattice.start), table), lattice, table


def exact(part: Quantizer, x: list[float]) -> list[Fraction]:
    """Key and code of one token, in rational arithmetic."""
    out = [Fraction(bias) for bias in part.bias_2.tolist()]
    weights = zip(part.weight_1.tolist(), part.bias_1.tolist(), part.weight_2.T.tolist(), strict=True)
    for row, bias, writes in weights:
        hidden = sum((Fraction(w) * Fraction(each) for w, each in zip(row, x, strict=True)), Fraction(bias))
        hidden = max(Fraction(0), 1 - max(Fraction(0), hidden))
        out = [total + Fraction(write) * hidden for total, write in zip(out, writes, strict=True)]
    return out


boxes = st.tuples(st.floats(-50, 50), st.floats(0.01, 100)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 3), st.integers(1, 9), boxes, st.integers(0, 10**6))
def test_off_the_ramps_key_and_code_are_those_of_the_cell_exactly_and_on_them_both_forms_are_the_network(
    dim: int, cells: int, box: tuple[float, float], seed: int
) -> None:
    part, lattice, table = block(dim, cells, *box, seed)
    random = np.random.default_rng(seed)
    which = random.integers(0, cells, (40, dim))
    # Anywhere on the plateaus, their two ends included.
    share = np.where(random.random((40, dim)) < 0.4, random.integers(0, 2, (40, dim)), random.random((40, dim)))
    x = lattice.left[which] + share * (lattice.right - lattice.left)[which]
    x = np.clip(x, lattice.left[which], lattice.right[which])
    wanted = table[:, torch.arange(dim), torch.from_numpy(which)].sum(2).T
    steps = part.steps()
    assert steps is not None
    assert torch.equal(part.dense(torch.from_numpy(x)), wanted)
    assert torch.equal(steps(torch.from_numpy(x)), wanted)
    assert exact(part, x[0].tolist()) == [Fraction(value) for value in wanted[0].tolist()]
    if cells > 1:
        x = lattice.start[random.integers(0, cells - 1, (20, dim))] + lattice.width * random.random((20, dim))
        dense, fast = part.dense(torch.from_numpy(x)), steps(torch.from_numpy(x))
        scale = max(1.0, *map(abs, box)) / (box[1] - box[0])  # what rounding of x makes of a ramp
        assert torch.allclose(dense, fast, rtol=0, atol=1e-7 * scale)
        assert np.allclose(dense[0].detach().numpy(), [float(x) for x in exact(part, x[0].tolist())], atol=1e-7 * scale)


def test_sums_do_not_depend_on_the_order_of_the_neurons_and_would_off_the_grid() -> None:
    part, _, _ = block(2, 64)
    x = torch.from_numpy(np.random.default_rng(1).random((200, 2)))
    orders = [torch.from_numpy(np.random.default_rng(seed).permutation(len(part.bias_1))) for seed in range(20)]

    def answers(weight_2: torch.Tensor) -> list[torch.Tensor]:
        parts = [(part.weight_1[order], part.bias_1[order], weight_2[:, order], part.bias_2) for order in orders]
        return [Quantizer(*each).dense(x).detach() for each in parts]

    assert all(torch.equal(answer, part.dense(x)) for answer in answers(part.weight_2))
    first, *others = answers(part.weight_2 * (1.0 + 1e-3))
    assert not all(torch.equal(answer, first) for answer in others)


FAULTS: dict[str, tuple[str, Any, float]] = {
    "two coordinates": ("weight_1", (0, 1), 1.0),
    "overlap": ("bias_1", 1, 0.0),
    "negative": ("weight_1", (0, 0), -1.0),
    "nan": ("bias_1", 0, torch.nan),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_are_no_grid_have_no_tables(fault: str) -> None:
    part, _, _ = block(2, 5)
    assert part.steps() is not None
    tensor, at, value = FAULTS[fault]
    with torch.no_grad():
        getattr(part, tensor)[at] = value
    assert part.steps() is None


# -- the grid itself -----------------------------------------------------------------------------------


def off_ramps(part: Quantizer, x: np.ndarray) -> np.ndarray:
    """The numbers `(P,)` that lie on no ramp."""
    steps = part.steps()
    assert steps is not None
    return x[~steps.on_ramp(torch.from_numpy(x[:, None])).numpy()]


@settings(max_examples=8, deadline=None)
@given(boxes, st.integers(1, 40), st.integers(0, 10**6))
def test_round_numbers_are_off_the_ramps_and_no_point_there_is_further_from_its_centre_than_the_reach(
    box: tuple[float, float], cells: int, seed: int
) -> None:
    part, lattice, _ = block(1, cells, *box)
    edges = np.linspace(*box, cells + 1)
    single = edges.astype(np.float32).astype(np.float64)
    if 2.0**-24 * max(abs(box[0]), abs(box[1])) > 2.0**-12 * (box[1] - box[0]) / cells:
        single = edges  # a grid too fine for float32
    for x in (edges, single, np.nextafter(edges, -np.inf)):
        assert len(off_ramps(part, x)) == len(x)
    random = np.random.default_rng(seed)
    x = off_ramps(part, np.concatenate([lattice.box.uniform(200, random), lattice.corners(200, random)]).reshape(-1))
    assert len(x) >= 390  # corners are off the ramps
    away = np.abs(x - lattice.rounded(x))
    assert 0.99 * lattice.reach <= away.max() <= lattice.reach
    half = (box[1] - box[0]) / cells / 2
    assert half * (1 - 2.0**-19) <= lattice.reach <= half * (1 + 2.0**-11)
    assert (np.diff(lattice.start) > lattice.width).all()


def test_a_domain_too_narrow_for_float64_is_refused() -> None:
    with pytest.raises(DataError, match="too narrow for 100 cells"):
        Lattice.of(Box(1, 1, 1e9, 1e9 + 1.0, False), 100, 2.0**-20)
