"""Words of good binary codes: tokens, places and classes that no noise confuses.

Extended BCH codes of length `2^m`, as signs. Two words of a code with least distance `δ` have cosine at most
`1 − 2δ/n`; a gate that tells tokens apart needs that to be small, for `A (1 − cos)` silences a neuron elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.errors import DataError

_PRIMITIVE = {4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10001001, 8: 0b100011101}
"""A primitive polynomial over GF(2) for each `m`."""
COSINE = 0.25
"""The largest cosine of two words that is asked for."""


@dataclass(frozen=True, eq=False)
class Code:
    """`2^dimension` words of length `n`, `generator` `(dimension, n)`; no two have a larger cosine than `cosine`."""

    generator: NDArray[np.int64]
    cosine: float

    def words(self, count: int) -> NDArray[np.float64]:
        """The first `count` words `(count, n)`, as signs."""
        dimension = len(self.generator)
        # Spread the messages: neighbouring numbers would share most of their words. An odd factor permutes them, but 0.
        number = (np.arange(1, count + 1) * (int(0.618 * 2**dimension) | 1)) % 2**dimension
        bits = (number[:, None] >> np.arange(dimension)) & 1
        return np.asarray(1.0 - 2.0 * ((bits @ self.generator) % 2))


def code_for(count: int) -> Code:
    """The shortest code that has `count` words, no two of them with a larger cosine than `COSINE`.

    The word of all ones, which is used for constants, is not counted if there is room.
    """
    for m in sorted(_PRIMITIVE):
        found = _widest(m, count + 1)
        if found is not None:
            return found
    raise DataError(f"{count:,} tokens or classes are more than the codes of length 256 hold at cosine {COSINE}")


def words(count: int) -> NDArray[np.float64]:
    """`count` words `(count, n)` of signs, no two with a larger cosine than `COSINE`; `n` is the least."""
    return code_for(count).words(count)


@lru_cache(maxsize=64)
def _widest(m: int, count: int) -> Code | None:
    """The code of length `2^m` with the largest designed distance that has `count` words."""
    best = None
    for designed in range(3, 2 ** (m - 1), 2):
        generator = _extended_bch(m, designed)
        if 2 ** len(generator) < count:
            break
        # Even weights: the parity bit raises the least distance to designed + 1.
        largest = 1.0 - 2.0 * (designed + 1) / 2**m
        if largest <= COSINE:
            best = Code(generator, largest)
    return best


def _extended_bch(m: int, designed: int) -> NDArray[np.int64]:
    """The binary BCH code of length `2^m − 1` with the roots `α, …, α^(designed−1)`, and a parity bit."""
    n = 2**m - 1
    power = [1]
    for _ in range(n - 1):
        value = power[-1] << 1
        power.append(value ^ _PRIMITIVE[m] if value >> m else value)
    log = {value: exponent for exponent, value in enumerate(power)}
    polynomial = np.array([1])
    seen: set[int] = set()
    for exponent in range(1, designed):
        coset = sorted({exponent * 2**i % n for i in range(m)})
        if coset[0] in seen:
            continue
        seen.add(coset[0])
        minimal = [1]
        for root in coset:  # minimal := minimal · (x + α^root) over GF(2^m)
            scaled = [0 if value == 0 else power[(log[value] + root) % n] for value in minimal]
            minimal = [a ^ b for a, b in zip([*scaled, 0], [0, *minimal], strict=True)]
        polynomial = np.convolve(polynomial, minimal) % 2
    rows = n - len(polynomial) + 1
    generator = np.zeros((rows, n + 1), dtype=np.int64)
    for row in range(rows):
        generator[row, row : row + len(polynomial)] = polynomial
        generator[row, n] = polynomial.sum() % 2
    return generator


def largest_cosine(vectors: NDArray[np.float64], rows: Ints) -> NDArray[np.float64]:
    """For some rows of `vectors` `(V, e)` of equal norm, the largest cosine of each with another."""
    size = float((vectors[0] ** 2).sum()) if len(vectors) else 1.0
    best = np.full(len(rows), -1.0)
    for begin in range(0, len(rows), 512):
        part = rows[begin : begin + 512]
        product = vectors[part] @ vectors.T / size
        product[np.arange(len(part)), part] = -1.0
        best[begin : begin + 512] = product.max(axis=1, initial=-1.0)
    return best
