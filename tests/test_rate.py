"""The rate–noise theorem: disjoint boxes counted one by one, and a channel's capacity by Blahut and Arimoto."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from monolayer.errors import DataError
from monolayer.theory.rate import bits_under_any_change, bits_under_random_noise, mean_log

RANGES = [(1.0, 1.0), (0.5, 4.0), (2.0**-8, 2.0**3)]


@pytest.mark.parametrize("eta", [0.01, 0.2, 0.9])
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_one_weight_packs_no_more_disjoint_boxes_than_the_bound_and_nearly_as_many(
    low: float, high: float, eta: float
) -> None:
    count, next_free = 1, 0.0  # zero is a box of its own
    weight = low
    while weight <= high:  # of either sign, as close as disjoint boxes can be
        count, next_free = count + 2, math.nextafter(weight * (1 + eta), math.inf)
        weight = next_free / (1 - eta)
    bound = 2 ** bits_under_any_change(low, high, eta)
    assert count <= bound * (1 + 1e-12)
    assert count > bound - 4


@pytest.mark.parametrize(("low", "high", "sigma"), [(*RANGES[1], 0.02), (*RANGES[2], 0.3)])
def test_the_bound_on_random_noise_lies_above_the_capacity_of_the_channel(
    low: float, high: float, sigma: float
) -> None:
    """Blahut and Arimoto on a grid of inputs and bins of outputs: less than the channel holds, and not much less."""
    inputs = np.exp(np.linspace(math.log(low), math.log(high), 120))
    ends = np.exp(np.linspace(math.log(low) - 6 * sigma, math.log(high) + 6 * sigma, 400))
    edges = np.concatenate([[-np.inf], -ends[::-1], ends, [np.inf]])
    rows = [np.diff(norm.cdf(edges, loc=weight, scale=sigma * abs(weight))) for weight in (*-inputs, *inputs)]
    channel = np.zeros((len(rows) + 1, len(edges)))
    channel[:-1, :-1], channel[-1, -1] = rows, 1.0  # zero stays zero
    share = np.full(len(channel), 1 / len(channel))
    for _ in range(100):
        output = share @ channel
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.nansum(np.where(channel > 0, channel * np.log(channel / output), 0.0), axis=1)
        share = share * np.exp(gain)
        share /= share.sum()
    capacity, bound = float(share @ gain / math.log(2)), bits_under_random_noise(low, high, sigma)
    assert bound - 1.3 < capacity <= bound


def test_wrong_labels_and_known_values() -> None:
    exact = bits_under_random_noise(0.5, 4.0, 0.1, classes=16)
    assert bits_under_random_noise(0.5, 4.0, 0.1, error=0.01, classes=16) > exact
    assert bits_under_random_noise(0.5, 4.0, 0.1) == exact  # without errors the classes do not matter
    assert mean_log(1e-3) == pytest.approx(1e-3 * math.sqrt(2 / math.pi), rel=1e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bits_under_any_change(0.0, 1.0, 0.1), "0 < low ≤ high"),
        (lambda: bits_under_any_change(1.0, 2.0, 1.0), "share between 0 and 1"),
        (lambda: bits_under_random_noise(1.0, 2.0, 0.0), "positive number"),
        (lambda: bits_under_random_noise(1.0, 2.0, 0.1, error=0.5), "no better than guessing"),
    ],
)
def test_what_makes_no_sense_is_refused(call: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        call()  # type: ignore[operator]
