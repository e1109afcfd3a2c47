"""Proposition 1 as the paper has it: its three parts against exact arithmetic, and its error against the statement."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.theory.balls import precision
from monolayer.theory.corollary import prove, task_of
from monolayer.theory.proposition import Rounding, proposition1
from monolayer.theory.targets import TARGETS
from tests.plain_network import answers_of_matrices

largest = TARGETS["max"].function


@given(
    st.integers(1, 7), st.fractions(Fraction(0), Fraction(1), max_denominator=10**4), st.sampled_from([0.5, 2.0**-10])
)
@settings(max_examples=60)
def test_the_first_block_rounds_up_to_the_grid_off_ramps_and_stays_between_neighbours_on_them(
    cells: int, x: Fraction, ramp: float
) -> None:
    block = Rounding(cells, ramp)
    cell, on_ramp = (each.tolist() for each in block.cell(np.array([float(x)])))
    found = block(Fraction(float(x)))
    if on_ramp[0]:
        assert block.grid[cell[0] - 1] <= found <= block.grid[cell[0]]
    else:
        assert found == Fraction(block.grid[cell[0]])
    assert float(x) <= block.grid[cell[0]]
    assert block.grid[cell[0]] - float(x) <= 1 / cells + 1e-15
    assert 1 / block.slope <= ramp / cells


@pytest.mark.parametrize(("dim", "length", "cells"), [(1, 2, 2), (1, 2, 3), (1, 3, 3), (2, 2, 2)])
def test_the_papers_network_is_proved_with_its_own_temperature_and_keeps_the_statement(
    dim: int, length: int, cells: int
) -> None:
    found = proposition1(largest, dim, length, cells=cells, lipschitz=1.0, samples=4_000)
    size = cells**dim
    assert found.verdict == "proved"
    assert found.points == length * math.comb(size, length)
    assert found.neurons == (dim * (2 * cells - 1), dim * (found.points + 1))
    assert found.left_out == pytest.approx(1 - math.perm(size, length) / size**length)
    assert found.off_ramps <= 1 / cells + 2.0**-19
    assert found.off_ramps > 0.8 / cells, "the sample comes close to the bound"
    assert found.off_ramps / 2 < found.measured * 2
    assert found.measured < found.bound
    assert found.bits < found.delta_bits
    ours = proposition1(largest, dim, length, cells=cells, scale="sharper", lipschitz=1.0, samples=4_000)
    assert (ours.verdict, ours.parameters) == ("proved", found.parameters)
    assert ours.delta_bits < found.delta_bits / 40
    assert ours.log10_beta < found.log10_beta


def test_first_block_head_and_readout_in_one_are_f_on_the_grid_and_a_fault_is_seen() -> None:
    """Exact rational rounding, then plain matrices and neurons in balls, on random sequences with different cells."""
    cells, length = 3, 2
    block = Rounding(cells, 2.0**-10)
    sets = np.array([*itertools.combinations(block.grid, length)])[..., None]
    task = task_of(Sequences.of(sets, largest(sets)), "paper")
    proof = prove(task, closed=True)
    assert proof.network is not None
    random, tried = np.random.default_rng(0), 0
    weights = proof.network.readouts[0].weight
    for X in random.random((20, length, 1)):
        cell, on_ramp = block.cell(X)
        if on_ramp.any() or cell[0, 0] == cell[1, 0]:
            continue
        rounded = np.array([[float(block(Fraction(x)))] for x in X[:, 0].tolist()])
        tried += 1
        for fault in (0, 1):
            weights[2] = weights[2] + fault * arb(2) ** 20
            with precision(2 * proof.bits):
                off = max(
                    abs(row[0] - label)
                    for row, label in zip(
                        answers_of_matrices(proof.network, rounded),
                        largest(rounded[None])[0, :, 0].tolist(),
                        strict=True,
                    )
                )
                # Only tokens behind the changed neuron see it.
                assert fault or off < task.tolerance
                if fault and rounded.max() == 1.0:
                    assert off > task.tolerance
            weights[2] = weights[2] - fault * arb(2) ** 20
    assert tried > 5


def test_what_does_not_fit_is_said() -> None:
    found = proposition1(largest, cells=4, max_bits=1 << 10)
    assert (found.verdict, found.measured, found.off_ramps, found.bound) == ("undecided", None, None, math.inf)
    assert "max_bits = 1,024" in found.reason
    for options, words in (
        ({"cells": 1}, "hold no 2 different"),
        ({"cells": 300}, "89,700 points are more than"),
        ({"cells": 2, "ramp": 0.0}, "a ramp takes a share"),
    ):
        with pytest.raises(DataError, match=words):
            proposition1(largest, **options)
