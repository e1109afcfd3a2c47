"""Neurons that disturb each other are refused, and no others: `check_apart` against a slow reference, pair by pair."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import monolayer as ml
from monolayer.attaching import apart
from monolayer.attaching.apart import Around, Duties, FiringCaps, check_apart
from monolayer.huggingface.cutting import FactIds

CLOSE = 1e-5
"""Angles that are so near to what is needed decide nothing here: `check_apart` leaves room for rounding."""


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    """The angle between unit vectors, without cancellation."""
    return float(2.0 * np.arctan2(np.linalg.norm(a - b), np.linalg.norm(a + b)))


def _room(caps: FiringCaps, around: Around, heights: np.ndarray, i: int, j: int) -> float:
    """How much farther apart two keys are than they must be so that neither neuron wakes around the key of the other.

    Around key `b` lie the states up to `half` from it and up to `longest` long; neuron `a` wakes above its height.
    """
    far = _angle(caps.keys[i], caps.keys[j])
    return min(far - float(around.half[b] + np.arccos(heights[a] / around.longest[b])) for a, b in ((i, j), (j, i)))


def _disturbing(caps: FiringCaps, duties: Duties, first: int) -> tuple[set[tuple[int, int]], bool]:
    """Pairs of neurons that disturb each other, and whether some pair is too near to that to say."""
    found, unsure = set[tuple[int, int]](), False
    for i, j in combinations(range(len(caps.keys)), 2):
        block, token = (field[i] == field[j] for field in (duties.block, duties.tokens))
        far = _angle(caps.keys[i], caps.keys[j])
        if j < first or (token and (block or 1.0 - np.cos(far) <= 2.0**-20)):
            continue
        room = _room(caps, caps.wanted, caps.silent, i, j)
        if caps.short:
            weak = block and not caps.own_radii
            room = max(room, _room(caps, caps.own, caps.hardly if weak else caps.silent, i, j))
        unsure |= abs(room) < CLOSE
        if room < 0.0:
            found.add((i, j))
    return found, unsure


def _planted(seed: int) -> tuple[FiringCaps, Duties, int]:
    """Keys in clusters, so that some are near and some are the same; facts of one or two tokens; blocks of four."""
    random = np.random.default_rng(seed)
    count, short = int(random.integers(2, 12)), bool(seed % 2)
    centres = random.normal(size=(count, 5))
    keys = centres[random.integers(0, count, count)]
    keys = keys + random.normal(size=keys.shape) * random.choice([0.0, 1e-5, 0.2, 0.6, 1.0], (count, 1))
    keys = np.ascontiguousarray(keys / np.linalg.norm(keys, axis=1, keepdims=True))
    longest, half = random.uniform(1.0, 1.2, count), random.uniform(0.01, 0.3, count)
    silent = random.uniform(0.7, 0.99, count)
    own = Around(half / 8.0, random.uniform(1.0, 1.1, count))
    hardly = np.minimum(0.995, silent + random.uniform(0.0, 0.1, count))
    caps = FiringCaps(
        keys, Around(half, longest), own, silent, hardly, short, bool(seed % 4 == 1), np.full(count, 0.1), 0.01
    )
    tokens = random.integers(0, 3, count)
    facts = [FactIds((7,), (int(token),), row, f"row {row}") for row, token in enumerate(tokens)]
    return caps, Duties(tokens, facts, np.arange(count) // 4), int(random.choice([0, 0, count // 2]))


@pytest.mark.parametrize("at_once", [1, 30, 1 << 24])
def test_exactly_the_pairs_that_disturb_each_other_are_refused(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cosines are looked at together. The rows to remove leave no pair; the worst pair is named."""
    monkeypatch.setattr(apart, "PAIRS_AT_ONCE", at_once)
    seen: Counter[tuple[bool, bool]] = Counter()
    for seed in range(400):
        caps, duties, first = _planted(seed)
        wanted, unsure = _disturbing(caps, duties, first)
        if unsure:
            continue
        seen[caps.short, bool(wanted)] += 1
        if not wanted:
            check_apart(caps, duties, str, first)
            continue
        with pytest.raises(ml.PrecisionError) as refused:
            check_apart(caps, duties, str, first)
        rows = refused.value.rows
        assert rows is not None
        assert all({i, j} & set(rows) for i, j in wanted)
        assert all(any(row == j and i not in rows for i, j in wanted) for row in rows)  # each for a row that stays
        words = str(refused.value)
        assert any(words.startswith(f"row {i} and row {j} continue with '{duties.tokens[i]}' and ") for i, j in wanted)
        assert ("in all" in words) == (len(rows) > 1)
    assert all(seen[short, bad] >= 20 for short in (False, True) for bad in (False, True)), seen


def test_no_neurons_disturb_nobody() -> None:
    caps, duties, _ = _planted(0)
    none = FiringCaps(
        *(Around(part.half[:0], part.longest[:0]) if isinstance(part, Around) else part[:0] for part in caps[:5]),
        *caps[5:],
    )._replace(radii=caps.radii[:0])
    check_apart(none, Duties(duties.tokens[:0], [], duties.block[:0]), str)
