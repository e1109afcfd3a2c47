"""The form of Proposition 1: one hidden layer a block, the same function, and a refusal where floats do not bear it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import monolayer as ml
from monolayer.errors import DataError, PrecisionError
from monolayer.model.one_hidden import OneHidden, one_hidden_error, one_hidden_layer
from monolayer.theory.targets import TARGETS


@pytest.mark.parametrize(("name", "dim", "length", "cells", "positions"), [
    ("sort", 1, 3, 6, False), ("force", 2, 2, 3, False), ("sort-in-place", 1, 2, 5, True),
])  # fmt: skip
def test_one_hidden_layer_a_block_is_the_same_function(
    name: str, dim: int, length: int, cells: int, positions: bool
) -> None:
    model = ml.approximate(TARGETS[name].function, dim, length, cells=cells, positions=positions, domain=(-1.0, 2.0))
    form = one_hidden_layer(model)
    for block in (form.quantize, form.readout):
        assert [type(layer) for layer in block] == [nn.Linear, nn.ReLU, nn.Linear]
    assert form.quantize[0].out_features == 2 * dim * (cells - 1)
    assert form.readout[0].out_features == 2 * model.feed_forward.step_count
    X = np.random.default_rng(0).uniform(-1.0, 2.0, (200, length, dim))
    exact = np.asarray(model.predict(X)).reshape(200, length, -1)
    assert np.abs(form(torch.from_numpy(X)).detach().numpy() - exact)[~model.on_ramp(X)].max() < 1e-8
    # On a ramp too: both are linear there.
    edge = model.quantizer.steps().coordinates[0].start[0].item() + model.card.grid.ramp / 2
    X[:, 0, 0] = edge
    assert model.on_ramp(X).all()
    dense = model(torch.from_numpy(X)).detach().numpy()
    assert np.median(np.abs(form(torch.from_numpy(X)).detach().numpy() - dense)) < 1e-6


def test_where_floats_do_not_bear_it_it_is_refused() -> None:
    model = ml.approximate(TARGETS["force"].function, 1, 3, cells=8)
    assert 1e-12 < one_hidden_error(model, OneHidden(model)) < 1e-6
    with pytest.raises(PrecisionError, match="Use fewer than 8 cells, a ramp wider"):
        one_hidden_layer(model, tolerance=1e-12)
    form = OneHidden(model)
    with torch.no_grad():
        form.readout[2].weight[0, 40] += 0.1  # a planted fault
    assert one_hidden_error(model, form) > 1e-3
    with pytest.raises(DataError, match="only an approximator"):
        one_hidden_layer(ml.memorize([[0, 1]], [[0, 1]]))
