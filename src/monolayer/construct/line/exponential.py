"""`exp` by sums, products and one quotient, which every machine rounds alike: so does the page that builds.

Libraries differ in the last bit of `exp`, and a model must not depend on them. The method is fdlibm's, with an error
below one unit in the last place: `x = k ln 2 + r` with a whole number `k` and `|r| ≤ ln 2 / 2`;
`e^r = 1 + r + r c / (2 − c)` with `c = r − r² (P1 + P2 r² + …)`; then `2^k` by its exponent, in two halves.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
AT_ONCE = 1 << 15
"""Numbers whose intermediate results fit into a processor's cache."""


def exponential(x: Tensor) -> Tensor:
    """`e^x` of float64 numbers of any shape, up to 1,400 in size: infinity above 709.8, as in any library."""
    if x.numel() > AT_ONCE:
        return torch.cat([exponential(part) for part in torch.split(x.flatten(), AT_ONCE)]).view(x.shape)
    power = torch.round(x * PER_LN_2)
    high, low = x - power * HIGH, power * LOW
    rest = high - low
    square = rest * rest
    series = square * SERIES[-1]
    for factor in SERIES[-2::-1]:
        series.add_(factor).mul_(square)
    curve = rest - series
    found = 1.0 - ((low - (rest * curve) / (2.0 - curve)) - high)
    whole = power.long()
    half = whole >> 1
    return found.mul_(_power_of_two(half)).mul_(_power_of_two(whole - half))


def _power_of_two(exponent: Tensor) -> Tensor:
    return (exponent + 1023).bitwise_left_shift_(52).view(torch.float64)


def boltzmann_terms(key: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """`e^{λ s}` and `s e^{λ s}`: the weight and the moment of every key."""
    weight = exponential(temperature * key)
    return weight, key * weight
