"""Facts in the embedding: rows of largest margin, and the share of every weight that may change."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import monolayer as ml
from monolayer_experiments.embedded import Embedded, certain, least, memorize_embedded
from monolayer_experiments.perturbed import changed, recall
from monolayer_experiments.synthetic import without_repeats

X, Y = without_repeats(60, 6, 40, 16, seed=3)


@pytest.fixture(scope="module")
def model() -> Embedded:
    return memorize_embedded(X, Y, 16, 64)


def test_every_label_comes_back_from_one_head_and_fixed_neurons(model: Embedded) -> None:
    assert recall(model, X, Y) == 1.0
    assert torch.linalg.matrix_rank(model.W_V) == 16
    other = memorize_embedded(X, (Y + 1) % 16, 16, 64)
    same = [torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)]
    assert same.count(False) == 1  # other facts, other rows of the embedding, and nothing else


def test_an_edit_changes_one_row(model: Embedded) -> None:
    labels = Y.copy()
    labels[0, 0] = (labels[0, 0] + 5) % 16
    edited = memorize_embedded(X, labels, 16, 64)
    rows = (edited.embed != model.embed).any(1).nonzero()[:, 0].tolist()
    assert rows == [X[0, 0]]
    assert recall(edited, X, labels) == 1.0


def test_the_shortest_row_is_as_short_as_its_dual_says() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(30, 20))
    e = least(rows)
    assert (rows @ e).min() >= 1 - 1e-9
    # Strong duality: e is a sum of active rows with weights ≥ 0 that add up to |e|².
    active = rows[rows @ e < 1 + 1e-7]
    weights = np.linalg.lstsq(active.T, e, rcond=None)[0]
    assert (weights > -1e-9).all()
    assert np.isclose(weights.sum(), e @ e)


def test_rows_that_cannot_be_are_refused() -> None:
    rows = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert linprog(np.zeros(2), A_ub=-rows, b_ub=-np.ones(2), bounds=(None, None)).status == 2  # infeasible
    with pytest.raises(ml.PrecisionError, match="2 bits to hold, too many for 2 neurons"):
        least(rows)


def test_no_change_within_the_certain_share_loses_a_label(model: Embedded) -> None:
    share = certain(model, X, Y)
    assert share > 1e-4
    # The change that hurts one point most, to first order, for many points.
    wide = model.double()
    for point in range(0, len(X), 3):
        x, y = torch.from_numpy(X[point : point + 1]), torch.from_numpy(Y[point : point + 1])
        logits = wide(x)
        right = logits.gather(2, y[..., None])
        gap = (right - logits.scatter(2, y[..., None], -torch.inf).amax(2, keepdim=True)).min()
        slopes = torch.autograd.grad(gap, list(wide.parameters()), allow_unused=True)
        signs = iter(
            [torch.zeros(()) if s is None else (s * w).sign() for s, w in zip(slopes, wide.parameters(), strict=True)]
        )
        worse = changed(wide, lambda weight, signs=signs: weight * (1.0 - share * next(signs)))  # type: ignore[misc]
        assert recall(worse, X, Y) == 1.0
    lost = changed(wide, lambda weight: weight * (1.0 + 0.3 * torch.randn_like(weight)))
    assert recall(lost, X, Y) < 1.0  # the answers do depend on the weights
    assert certain(memorize_embedded(X, Y, 16, 128), X, Y) > share  # more room, more certain
