"""Facts on given keys: the constructions are what they say, and the certificate holds in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from monolayer_experiments import gated, keys
from monolayer_experiments.adam import Adam
from monolayer_experiments.experiment import Setting
from monolayer_experiments.gated import Facts, Gated
from monolayer_experiments.keys import WidthSearch

SEEDS = [0, 1]
FACTS = gated.draw(40, 10, SEEDS, spiked=False, device="cpu")


def test_keys_are_unit_vectors_and_spiked_ones_have_a_long_direction() -> None:
    spiked = gated.draw(400, 10, SEEDS, spiked=True, device="cpu")
    for facts, longest in ((gated.draw(400, 10, SEEDS, spiked=False, device="cpu"), 0.12), (spiked, 0.32)):
        assert torch.allclose(facts.table.norm(dim=2), torch.ones(2, 400, dtype=torch.float64))
        assert all(sorted(row.tolist()) == list(range(400)) for row in facts.answer)
        shares = torch.linalg.svdvals(facts.table) ** 2 / 400
        assert abs(float(shares[:, 0].mean()) - longest) < 0.05
    assert torch.equal(FACTS.values[1, 3], FACTS.table[1, FACTS.answer[1, 3]])


def test_constructions_solve_the_problems_that_they_name() -> None:
    widths = [14, 20]
    network = gated.whitened(FACTS, widths, SEEDS)
    assert not network.left[0, 14:].any()  # neurons beyond the width of the first
    shown = gated.features(FACTS.table, network.left, network.right)
    # Ridge regression: the slope of |W φ − v|²/F + ridge |W|² is 0.
    slope = (shown @ network.readout.mT - FACTS.values).mT @ shown / 40 + gated.RIDGE * network.readout
    assert float(slope.abs().max()) < 1e-9
    # The same neurons, one network at a time.
    for one, seed in enumerate(SEEDS):
        alone = gated.whitened(FACTS.some([one]), [widths[one]], [seed])
        assert torch.allclose(alone.readout[0], network.readout[one, :, : widths[one]], atol=1e-6)
    # The last gate of `fitted` minimizes what it should: scores against the identity, with the readout of the start.
    fitted = gated.fitted(FACTS, [20, 20], SEEDS)
    left, right = gated.random_gates(10, [20, 20], SEEDS, torch.device("cpu"))
    readout = FACTS.values.mT @ gated.features(FACTS.table, left, right) / 40

    def cost(gate: torch.Tensor) -> torch.Tensor:
        scores = gated.features(FACTS.table, gate, fitted.right) @ readout.mT @ FACTS.values.mT
        return ((scores - torch.eye(40)) ** 2).sum() + gated.RIDGE * (gate**2).sum()

    gate = fitted.left.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(cost(gate), gate)
    (before,) = torch.autograd.grad(cost(begun := left.clone().requires_grad_(True)), begun)
    assert float(slope.norm()) < 1e-4 * float(before.norm())


def test_a_margin_and_training_hold_facts_where_least_squares_does_not() -> None:
    widths = [18, 18]
    ridge = gated.whitened(FACTS, widths, SEEDS)
    assert float(gated.certified(ridge, FACTS).max()) < 1.0
    found = gated.margin(FACTS, ridge, 300)
    assert gated.certified(found, FACTS).tolist() == [1.0, 1.0]
    assert torch.equal(found.left, ridge.left)
    trained = gated.trained(FACTS, [8, 8], SEEDS, 3e-2, 300)
    assert gated.certified(trained, FACTS).tolist() == [1.0, 1.0]
    assert float(gated.recalled(trained, FACTS, sigma=1.0).max()) < 1.0  # noise is noticed
    assert gated.recalled(trained, FACTS).tolist() == [1.0, 1.0]


def test_slopes_are_those_of_the_cross_entropy_and_adam_steps_like_the_library() -> None:
    parts = [torch.randn(2, *shape, dtype=torch.float64) for shape in ((7, 10), (7, 10), (10, 7))]
    asked = [part.clone().requires_grad_(True) for part in parts]
    scores = Gated(*asked).scores(FACTS.keys, FACTS.table)
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), FACTS.answer.flatten(), reduction="sum")
    wanted = torch.autograd.grad(loss, asked)
    stacked = torch.stack([parts[0], parts[1], parts[2].mT], dim=1)
    found = gated.Networks(FACTS).slope(stacked)
    for one, other in zip(found.unbind(1), (wanted[0], wanted[1], wanted[2].mT), strict=True):
        torch.testing.assert_close(one, other)
    for rate in (0.01, torch.full((2,), 0.01, dtype=torch.float64)):  # one for all, and one per network
        ours, theirs = parts[0].clone(), torch.nn.Parameter(parts[0].clone())
        adam, library = Adam([ours], rate, epsilon=1e-12), torch.optim.Adam([theirs], lr=0.01, eps=1e-12)
        for _ in range(5):
            adam.step([torch.cos(ours)])
            theirs.grad = torch.cos(theirs.detach())
            library.step()
        torch.testing.assert_close(ours, theirs.detach())
        second = adam.some(torch.tensor([False, True]))
        second.step([torch.cos(second.weights[0])])
        adam.step([torch.cos(ours)])
        torch.testing.assert_close(second.weights[0][0], ours[1])  # it goes on as it would have beside the others


def exact_scores(network: Gated, facts: Facts) -> list[list[Fraction]]:
    """Scores of the first network in rational arithmetic."""
    table, left, right, readout = (
        [[Fraction(number) for number in row] for row in part[0].tolist()] for part in (facts.table, *network)
    )

    def times(rows: list[list[Fraction]], vector: list[Fraction]) -> list[Fraction]:
        return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in rows]

    outs = [times(readout, [a * b for a, b in zip(times(left, key), times(right, key), strict=True)]) for key in table]
    return [times(table, out) for out in outs]


def test_what_is_certified_is_true_in_rational_arithmetic_and_ties_are_not_certified() -> None:
    facts = gated.draw(6, 3, [4], spiked=False, device="cpu")
    network = gated.margin(facts, gated.whitened(facts, [8], [4]), 100)
    assert gated.certified(network, facts).tolist() == [1.0]
    exact = exact_scores(network, facts)
    own = facts.answer[0].tolist()
    assert all(max(range(6), key=row.__getitem__) == answer for row, answer in zip(exact, own, strict=True))
    # Two values that differ by less than rounding, and large weights that cancel: nothing is certain.
    table = facts.table.clone()
    table[0, own[1]] = table[0, own[0]] * (1 + 2.0**-50)
    near = Facts(facts.keys, table, facts.answer)
    assert float(gated.certified(network, near)[0]) < 1.0
    doubled = Gated(
        torch.cat([network.left] * 3, 1),
        torch.cat([network.right] * 3, 1),
        torch.cat([network.readout, 1e14 * network.readout, -1e14 * network.readout], 2),
    )
    assert exact_scores(doubled, facts) == exact
    assert gated.certified(doubled, facts).tolist() == [0.0]


def test_networks_leave_the_batch_when_they_are_right_and_the_others_go_on_as_they_would_alone() -> None:
    """In binary64, where another order of sums moves the weights by much less than 1e-6."""
    left, right = gated.random_gates(10, [40, 4], SEEDS, torch.device("cpu"))
    start = torch.stack([left, right, left], dim=1) / 4.0
    together = gated.descend(gated.Networks(FACTS), start, 3e-2, 4 * gated.LOOK, settle=False)
    shares = gated.certified(Gated.of(together), FACTS).tolist()
    assert shares[0] == 1.0 > shares[1]  # the first leaves, the second takes all steps
    for one in range(2):
        alone = gated.descend(gated.Networks(FACTS.some([one])), start[[one]], 3e-2, 4 * gated.LOOK, settle=False)
        assert torch.allclose(together[one], alone[0], atol=1e-6)


def test_rows_have_one_order_and_training_is_asked_of_few_facts_only() -> None:
    plan = {key: quick for key, (quick, _) in keys.PLAN.items()} | {"dims": (6,), "loads": (0.25, 0.5), "draws": 1}
    plan |= {"trained facts": 10, "noisy load": 0.25}
    cells = keys.cells_of(plan, Setting())
    rows = keys.measured_whole(next(cell for cell in cells if cell.part == "whitened"))
    found = keys.together(plan, rows[::-1])
    assert [(row["way"], row["kind"], row["load"]) for row in found["rows"]] == [
        ("whitened", kind, load) for kind in keys.KINDS for load in (0.25, 0.5)
    ]
    trained = next(cell for cell in cells if cell.part == "trained")
    assert trained.loads == [0.25]  # at 0.5 there are 18 facts, more than training is asked


@pytest.mark.parametrize(("least", "guess"), [(1, 40), (7, 40), (100, 40), (93, 93), (256, 3)])
def test_the_search_finds_the_least_width_to_its_precision(least: int, guess: int) -> None:
    search, asked = WidthSearch(guess, 256), []
    while not search.done:
        asked.append(search.next)
        search.hear(search.next >= least)
    assert search.high is not None
    assert least <= search.high <= np.ceil(1.06 * least)
    assert len(asked) < 15
    never = WidthSearch(guess, 256)
    while not never.done:
        never.hear(False)
    assert never.high is None
