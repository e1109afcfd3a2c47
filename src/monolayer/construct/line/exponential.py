"""`exp` by sums, products and one quotient, which every machine rounds alike: so does the page that builds.

Libraries differ in the last bit of `exp`, and a model must not depend on them. The method is fdlibm's, with an error
below one unit in the last place: `x = k ln 2 + r` with a whole number `k` and `|r| ≤ ln 2 / 2`;
`e^r = 1 + r + r c / (2 − c)` with `c = r − r² (P1 + P2 r² + …)`; then `2^k` by its exponent, in two halves.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Floats, Ints, slices

PER_LN_2 = 1.44269504088896338700
HIGH, LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""`ln 2 = HIGH + LOW`; `HIGH` has 33 bits, so that `k HIGH` is exact."""
SERIES = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
"""`P1` to `P5`."""


def exponential(x: Floats) -> Floats:
    """`e^x` of float64 numbers of any shape, up to 1,400 in size: infinity above 709.8, as in any library."""
    flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
    powers = np.empty_like(flat)
    with np.errstate(over="ignore", under="ignore"):
        for part in slices(len(flat)):
            powers[part] = _exponential(flat[part])
    return powers.reshape(np.shape(x))


def _exponential(x: Floats) -> Floats:
    power = np.rint(x * PER_LN_2)
    high, low = x - power * HIGH, power * LOW
    rest = high - low
    square = rest * rest
    series = square * SERIES[-1]
    for factor in SERIES[-2::-1]:
        series += factor
        series *= square
    curve = rest - series
    result: Floats = 1.0 - ((low - (rest * curve) / (2.0 - curve)) - high)
    whole = power.astype(np.int64)
    half = whole >> 1
    result *= _power_of_two(half)
    result *= _power_of_two(whole - half)
    return result


def _power_of_two(exponent: Ints) -> Floats:
    return ((exponent + 1023) << 52).view(np.float64)


def boltzmann_terms(key: Floats, temperature: float) -> tuple[Floats, Floats]:
    """`e^{λ s}` and `s e^{λ s}`: the weight and the moment of every key."""
    weight = exponential(temperature * key)
    return weight, key * weight


def boltzmann_term(key: float, temperature: float) -> tuple[float, float]:
    """`e^{λ s}` and `s e^{λ s}` of one key `s`, with the bits that `boltzmann_terms` gives it in an array."""
    weight, moment = boltzmann_terms(np.array([key]), temperature)
    return float(weight[0]), float(moment[0])
