"""Whether neurons leave each other alone: where one fires, those of other tokens are silent.

Neuron `j` is wanted at states û within the half-angle ψ_j of its key, and no longer than ℓ_j; there its input is
between `low` T and `high` T (`HostFormat`). Neuron `i` is silent where ⟨k_i, û⟩ ≤ s_i. They leave each other alone if
the angle between their keys is at least ψ_j + arccos(s_i/ℓ_j). Where it is less, both must write the same row, and
stand in the same block or have, to within rounding, the same key: a neuron of an earlier block that half fires would
hide the state from the later ones.

In different blocks, and in short formats, it is enough that the one is silent at the state of the other itself, with
some room for rounding: this is asked for when facts are attached, though no proof covers the whole of the cap then. In
short formats neurons of one block may even be awake together, if the input of the other is no more than T/4: lengths
that are rounded up raise both inputs alike. Whether the answer comes back is asked afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.attaching.neurons import Neurons, Steepness
from monolayer.data.distinct import equal_rows
from monolayer.errors import PrecisionError
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.formats import SUM_UNIT
from monolayer.huggingface.host import Host

PAIRS_AT_ONCE = 1 << 24
"""Cosines held at a time."""
NORM_ERROR = {False: 2.0**-5, True: 2.0**-3}
"""How far the written direction is from what later norms return, at most: less in float32 than in a short format."""
SAME_KEY = 2.0**-20
"""Keys are the same, to within rounding, if this is more than 1 − cos."""


class Around(NamedTuple):
    """The states around keys, by neuron `(N,)`: within which angle of it they lie, and how long they are at most."""

    half: Floats
    longest: Floats


class FiringCaps(NamedTuple):
    """Keys `(N, D)` of length 1; ψ and ℓ of the caps where neurons are `wanted`, and of the states themselves, `own`;
    by neuron `(N,)`: s, up to which it is `silent`, and the height up to which its input is at most T/4, `hardly`.
    `short`: whether the format is."""

    keys: Floats
    wanted: Around
    own: Around
    silent: Floats
    hardly: Floats
    short: bool

    def needed(self, around: Around, heights: Floats, i: Ints, j: Ints) -> Floats:
        """By pair: the angle between keys from which on ⟨k, û⟩ of each is at most its height around the other."""
        angles = [around.half[b] + _angle(heights[a] / around.longest[b]) for a, b in ((i, j), (j, i))]
        return np.maximum(*angles)


class Duties(NamedTuple):
    """By neuron `(N,)`: the token that it answers with, the row of the fact that it belongs to, and its block."""

    tokens: Ints
    rows: Ints
    block: Ints

    @classmethod
    def of(cls, facts: Sequence[FactIds], per_block: int) -> Duties:
        """One neuron per token of the answers of `facts`, `per_block` of them in each block."""
        tokens = np.array([token for fact in facts for token in fact.answer])
        rows = np.repeat(np.arange(len(facts)), [len(fact.answer) for fact in facts])
        return cls(tokens, rows, np.arange(len(tokens)) // per_block)


def _angle(cosines: Floats) -> Floats:
    found: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return found


def firing_caps(neurons: Neurons, steep: Steepness, host: Host) -> FiringCaps:
    """The caps around the keys of `neurons`, with room for rounding. `steep`: ρ and T with which they were built."""
    D, T, fmt = host.width, steep.response, host.format
    length = np.sqrt((neurons.W_1 * neurons.W_1).sum(axis=1))
    alpha = length * np.sqrt(D)
    rounding = 2.0 * (D + 20) * SUM_UNIT
    longest = np.full(len(alpha), 1.0 + rounding + (fmt.unit if fmt.short else 0.0))
    if fmt.short:
        longest = np.minimum(longest, (fmt.high * T - neurons.b_1) / alpha / (1.0 - fmt.turn))
    turned = np.arccos(max(-1.0, 1.0 - fmt.turn))
    half = np.minimum(_angle((fmt.low * T - neurons.b_1) / alpha / longest - rounding), turned)
    wanted = Around(half, longest)
    own = Around(_angle((0.9375 * T - neurons.b_1) / alpha / longest - rounding), longest)
    if fmt.short:
        # States turn by less than `turn`, and in D dimensions hardly ever towards another key; the least of those that
        # were seen has the input T, and lengths are rounded up by another T/4 or so.
        own = Around(half / 8.0, (1.25 * T - neurons.b_1) / alpha)
    silent, hardly = ((height - neurons.b_1) / alpha - rounding for height in (-host.silence, T / 4.0))
    return FiringCaps(neurons.W_1 / length[:, None], wanted, own, silent, hardly, fmt.short)


def check_apart(caps: FiringCaps, duties: Duties, name: Callable[[int], str | None], first: int = 0) -> None:
    """Raise a `PrecisionError` that names two rows whose states the host does not tell apart well enough.

    `name`: the text of a token. `first`: the first new neuron; pairs of older ones are known to be apart.
    """
    if len(caps.keys) == 0:
        return
    keys = torch.from_numpy(caps.keys).float()
    # Float32 products of unit vectors are off by at most D u: what may be near is looked at again below.
    widest = caps.wanted.half.max() + float(_angle(caps.silent.min() / caps.wanted.longest.max()))
    near = float(np.cos(min(np.pi, widest))) - 2.0 * caps.keys.shape[1] * SUM_UNIT
    step = max(1, PAIRS_AT_ONCE // len(keys))
    for start in range(first, len(keys), step):
        stop = min(start + step, len(keys))
        cosines = keys[start:stop] @ keys[:stop].T
        two, one = np.nonzero(cosines.numpy() > near)
        two += start
        pair = one < two
        _check_pairs(caps, duties, name, one[pair], two[pair])


def _check_pairs(caps: FiringCaps, duties: Duties, name: Callable[[int], str | None], one: Ints, two: Ints) -> None:
    """Raise a `PrecisionError` for the first pair of neurons `one`, `two` `(P,)` that do not leave each other alone."""
    tokens, rows, block = duties
    gap = caps.keys[one] - caps.keys[two]
    far = 0.5 * (gap * gap).sum(axis=1)  # 1 − cos, without cancellation
    angle = _angle(1.0 - far)
    apart = angle >= caps.needed(caps.wanted, caps.silent, one, two)
    apart_there = angle >= caps.needed(caps.own, caps.silent, one, two)
    same, beside = tokens[one] == tokens[two], block[one] == block[two]
    good = apart | (same & (beside | (far <= SAME_KEY) | apart_there))
    if caps.short:
        good |= apart_there | (beside & (angle >= caps.needed(caps.own, caps.hardly, one, two)))
    bad = np.flatnonzero(~good)
    if len(bad) == 0:
        return
    pair = bad[:1]
    i, j = int(one[pair][0]), int(two[pair][0])
    around = caps.own if caps.short else caps.wanted
    needed = float(
        caps.needed(around, caps.hardly if caps.short and beside[pair][0] else caps.silent, one[pair], two[pair])[0]
    )
    what = f"{name(int(tokens[i]))!r} and {name(int(tokens[j]))!r}"
    raise PrecisionError(
        f"rows {rows[i]} and {rows[j]} go on with {what} at states that the host hardly tells apart: 1 − cos is "
        f"{far[pair][0]:.3g}, and must be {1.0 - np.cos(needed):.3g}. Take one of them out, reword it, or choose a "
        "smaller radius="
    )


def check_written(caps: FiringCaps, written: Floats, duties: Duties) -> None:
    """Raise a `PrecisionError` if a neuron fires at the row of `written` `(N, D)` of a neuron in an earlier block."""
    block, rows = duties.block, duties.rows
    for number in range(int(block.max(initial=0))):
        one, two = np.flatnonzero(block == number), np.flatnonzero(block > number)
        first, back = equal_rows(written[one])
        directions = written[one[first]]
        directions = directions / np.sqrt((directions * directions).sum(axis=1, keepdims=True))
        for start in range(0, len(two), 4096):
            some = two[start : start + 4096]
            cosines = directions @ caps.keys[some].T
            bad = np.argwhere(cosines > caps.silent[some] - NORM_ERROR[caps.short])
            if len(bad):
                which = one[int((back == bad[0][0]).argmax())]
                raise PrecisionError(
                    f"what row {rows[which]} writes is nearly the state of row {rows[some[bad[0][1]]]}, in a later "
                    "block, which would change the answer. Give the two in the other order, or reword one of them"
                )
