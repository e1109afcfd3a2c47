"""Words of good binary codes: tokens, places and classes that no noise confuses.

Extended BCH codes of length `2^m`, as signs. Two words of a code with least distance `δ` have cosine at most
`1 − 2δ/n`; a gate that tells tokens apart needs that to be small, for `A (1 − cos)` silences a neuron elsewhere.

A *balanced* word has as many + as −, so its mean is 0, and a LayerNorm leaves its signs where they are.
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
MOST_WORDS = 2**26
"""Balanced words are found by looking at all words of a code one after the other; this many would take minutes."""


@dataclass(frozen=True, eq=False)
class Code:
    """`2^dimension` words of length `n`, `generator` `(dimension, n)`; no two have a larger cosine than `cosine`."""

    generator: NDArray[np.int64]
    cosine: float

    def words(self, count: int) -> NDArray[np.float64]:
        """The first `count` words `(count, n)`, as signs."""
        dimension = len(self.generator)
        number = np.arange(1, count + 1) * _spread(dimension) % 2**dimension
        bits = (number[:, None] >> np.arange(dimension)) & 1
        return np.asarray(1.0 - 2.0 * ((bits @ self.generator) % 2))


def code_for(count: int) -> Code:
    """The shortest code that has `count` words, no two of them with a larger cosine than `COSINE`.

    The word of all ones, which is used for constants, is not counted if there is room.
    """
    for m in sorted(_PRIMITIVE):
        code = _widest(m, count + 1)
        if code is not None:
            return code
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


@lru_cache(maxsize=16)
def balanced_words(
    count: int, cosine: float, *, start: int = 0, least_length: int = 0, no_opposites: bool = False
) -> NDArray[np.float64]:
    """`count` balanced words `(count, n)` of signs, no two with a larger cosine than `cosine`.

    `n` is the least power of two from `least_length` on whose codes have so many. Beyond the longest code its words are
    repeated. `start`: where in the order of the code's words the search begins. `no_opposites`: of two opposite words
    only the one that begins with + is taken, so that no two words add up to 0.
    """
    longest = 2 ** max(_PRIMITIVE)
    for m in sorted(_PRIMITIVE):
        if 2**m < min(least_length, longest) or count > MOST_WORDS:
            continue
        # The larger the designed distance, the smaller the cosine, and the fewer words.
        for designed in range(2 ** (m - 1) - 1, 2, -2):
            if 1.0 - 2.0 * (designed + 1) / 2**m > cosine:
                break
            generator = _extended_bch(m, designed)
            words = _balanced(generator, count, start, no_opposites) if 2 ** len(generator) > count else None
            if words is not None:
                words = np.tile(words, (1, max(1, least_length // longest)))
                words.flags.writeable = False  # it is cached
                return words
    raise DataError(f"{count:,} tokens or classes are more than the codes of length {longest} hold at cosine {cosine}")


def _balanced(generator: NDArray[np.int64], count: int, start: int, no_opposites: bool) -> NDArray[np.float64] | None:
    """The first `count` balanced words of a code from message `start` on; None if it has fewer."""
    dimension, n = generator.shape
    rows, parts, have = np.packbits(generator.astype(np.uint8), axis=1), [], 0
    for begin in range(0, 2**dimension, 1 << 16):
        number = np.arange(begin, min(begin + (1 << 16), 2**dimension)) + start % 2**dimension + 1
        number = number * _spread(dimension) % 2**dimension
        packed = np.zeros((len(number), n // 8), dtype=np.uint8)
        for bit, row in enumerate(rows):
            packed ^= ((number >> bit) & 1).astype(np.uint8)[:, None] * row
        fits = np.bitwise_count(packed).sum(axis=1) == n // 2
        if no_opposites:
            fits &= packed[:, 0] < 128  # the first bit is 0, which stands for +
        parts.append(packed[fits])
        have += len(parts[-1])
        if have >= count:
            return np.asarray(1.0 - 2.0 * np.unpackbits(np.concatenate(parts)[:count], axis=1), dtype=np.float64)
    return None


def _spread(dimension: int) -> int:
    """An odd factor that permutes messages: neighbouring numbers would share most of their words."""
    return int(0.618 * 2**dimension) | 1


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
    rows, which = np.unique(rows, return_inverse=True)
    best = np.full(len(rows), -1.0)
    for begin in range(0, len(rows), 512):
        part = rows[begin : begin + 512]
        product = vectors[part] @ vectors.T / size
        product[np.arange(len(part)), part] = -1.0
        best[begin : begin + 512] = product.max(axis=1, initial=-1.0)
    return best[which]
