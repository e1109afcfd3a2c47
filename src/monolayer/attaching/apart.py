"""Check that neurons do not disturb each other: where one fires, the neurons of other tokens must be silent.

Neuron `j` must fire at states û that lie within the half-angle ψ_j of its key and are no longer than ℓ_j; there its
input is between `narrow` T and `high` T (`HostFormat`). Neuron `i` is silent where ⟨k_i, û⟩ ≤ s_i. So the two do not
disturb each other if the angle between their keys is at least ψ_j + arccos(s_i/ℓ_j). If it is less, both must write
the same row, and must be in the same block or have the same key to within rounding: a neuron of an earlier block that
half fires would hide the state from the later blocks. Rounding is bounded as in Lemmas A1 to A3
(docs/proofs-attached.md), so
the checker can prove what passes here.

In short formats caps are wide, because lengths are rounded. There it is enough that each neuron is silent at the state
of the other itself, with some room for rounding: the core of its cap. Further out the checker claims the answer where
the other neuron is silent. With a radius that was asked for, neurons of one block may even be awake together in the
core, if the input of the other is at most T/4, because a length that is rounded up raises both inputs alike; no proof
covers that. `measuring.py` tests every answer afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.attaching.neurons import Neurons, Steepness, kept_from, least_radius
from monolayer.data.distinct import equal_rows
from monolayer.errors import PrecisionError
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.formats import SUM_UNIT
from monolayer.huggingface.host import Host
from monolayer.huggingface.outweighing import SeenBy, kept_of, may_wake
from monolayer.table import plural

PAIRS_AT_ONCE = 1 << 24
"""How many cosines are in memory at a time."""
NAMED_PAIRS = 5
"""How many pairs of rows an error names; it only counts the others."""
SAME_KEY = 2.0**-20
"""Two keys count as the same, to within rounding, if 1 − cos is at most this."""


class Around(NamedTuple):
    """The states around each key, by neuron `(N,)`: the largest angle to the key, and the largest length."""

    half: Floats
    longest: Floats


class FiringCaps(NamedTuple):
    """Where neurons must fire and where they are silent, in terms of the height ⟨k, û⟩.

    `keys` `(N, D)`: unit vectors. `wanted`: the caps on which neurons must fire. `own`: the cores of these caps, around
    the states that the keys were made from. `silent` `(N,)`: s, the height up to which a neuron is silent. `hardly`
    `(N,)`: the height up to which its input is at most T/4. `short`: whether the format is short. `own_radii`: whether
    each neuron has its own ρ. `radii` `(N,)`: ρ of each. `least_radius`: the smallest ρ that `attach` accepts.
    """

    keys: Floats
    wanted: Around
    own: Around
    silent: Floats
    hardly: Floats
    short: bool
    own_radii: bool
    radii: Floats
    least_radius: float

    def needed(self, around: Around, heights: Floats, i: Ints, j: Ints) -> Floats:
        """For each pair of neurons, the angle that their keys need between them.

        From that angle on, ⟨k, û⟩ of each neuron is at most its entry of `heights` at all states around the other.
        """
        angles = [around.half[b] + _angle(heights[a] / around.longest[b]) for a, b in ((i, j), (j, i))]
        return np.maximum(*angles)


class Duties(NamedTuple):
    """For each neuron `(N,)`: the token that it answers with, its fact, and its block."""

    tokens: Ints
    facts: list[FactIds]
    block: Ints

    @classmethod
    def of(cls, facts: Sequence[FactIds], per_block: int) -> Duties:
        """The duties of one neuron per token of the answers of `facts`, with `per_block` neurons in each block."""
        tokens = np.array([token for fact in facts for token in fact.answer])
        return cls(tokens, fact_of_neurons(facts), np.arange(len(tokens)) // per_block)


def fact_of_neurons(facts: Sequence[FactIds]) -> list[FactIds]:
    """The facts that the neurons `(N,)` of facts belong to; each token of an answer has one neuron."""
    return [fact for fact in facts for _ in fact.answer]


def _angle(cosines: Floats) -> Floats:
    """The angles with these cosines; numbers beyond ±1 count as ±1."""
    angle: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return angle


def firing_caps(neurons: Neurons, steep: Steepness, host: Host) -> FiringCaps:
    """The caps around the keys of `neurons`, with room for rounding. `steep`: the ρ and T that they were built with."""
    D, T, fmt = host.width, steep.response, host.format
    length = np.sqrt((neurons.W_1 * neurons.W_1).sum(axis=1))
    alpha = length * np.sqrt(D)
    eta, err = _rounding(neurons, host)
    longest = np.full(len(alpha), 1.0 + eta)
    if fmt.short:
        longest = np.minimum(longest, (fmt.high * T - neurons.b_1) / alpha / (1.0 - fmt.turn))
    turned = np.arccos(max(-1.0, 1.0 - fmt.turn))
    level = np.maximum(fmt.narrow * T, err + kept_from(steep, host))
    wanted = Around(np.minimum(_angle((level - neurons.b_1) / alpha / longest), turned), longest)
    # Between evaluations a state turns, but in D dimensions hardly ever towards another key. The least input over the
    # evaluations seen is T. This is the part of a cap that the checker allows no other neuron to reach.
    around_key = Around(
        np.minimum(wanted.half, 1.01 * np.arccos(max(-1.0, 1.0 - fmt.core))), (fmt.near * T - neurons.b_1) / alpha
    )
    silent = (-host.silence - neurons.b_1 - err) / alpha
    hardly = (T / 4.0 - neurons.b_1 - err) / alpha
    keys = neurons.W_1 / length[:, None]
    return FiringCaps(keys, wanted, around_key, silent, hardly, fmt.short, steep.own, T / alpha, least_radius(host))


class NearPairs(NamedTuple):
    """Pairs of neurons `(P,)` that disturb each other: 1 − cos of their keys is `far`, which is less than `needed`."""

    one: Ints
    two: Ints
    far: Floats
    needed: Floats


def check_apart(caps: FiringCaps, duties: Duties, name: Callable[[int], str], first: int = 0) -> None:
    """Raise a `PrecisionError` that names rows whose states the host does not tell apart well enough.

    `name`: returns the name of a token. `first`: the first new neuron; older neurons were compared with each other
    before.
    """
    if len(caps.keys) == 0:
        return
    keys = torch.from_numpy(caps.keys).float()
    # Float32 products of unit vectors are off by at most D u, so `_near_pairs` looks again at pairs that may be near.
    widest = caps.wanted.half.max() + float(_angle(caps.silent.min() / caps.wanted.longest.max()))
    near = float(np.cos(min(np.pi, widest))) - 2.0 * caps.keys.shape[1] * SUM_UNIT
    step, close = max(1, PAIRS_AT_ONCE // len(keys)), []
    for start in range(first, len(keys), step):
        stop = min(start + step, len(keys))
        cosines = keys[start:stop] @ keys[:stop].T
        two, one = np.nonzero(cosines.numpy() > near)
        two += start
        # Neurons of one block that write the same row may fire together.
        together = (duties.block[one] == duties.block[two]) & (duties.tokens[one] == duties.tokens[two])
        pair = (one < two) & ~together
        close.append(_near_pairs(caps, duties, one[pair], two[pair]))
    if any(len(part.one) for part in close):
        near_pairs = NearPairs(*(np.concatenate(parts) for parts in zip(*close, strict=True)))
        raise _refused(near_pairs, caps, duties, name)


def _near_pairs(caps: FiringCaps, duties: Duties, one: Ints, two: Ints) -> NearPairs:
    """The pairs among the neurons `one` and `two` `(P,)` that disturb each other."""
    gap = caps.keys[one] - caps.keys[two]
    far = 0.5 * (gap * gap).sum(axis=1)  # 1 − cos, without cancellation
    angle = _angle(1.0 - far) * (1.0 - 2.0**-19)
    same_key, same_block = far <= SAME_KEY, duties.block[one] == duties.block[two]
    needed = caps.needed(caps.wanted, caps.silent, one, two)
    if caps.short:
        to_be_silent = caps.needed(caps.own, caps.silent, one, two)
        to_be_weak = caps.needed(caps.own, caps.hardly, one, two)
        # With a radius that was asked for, it is enough that answers come back, and the verdict may be undecided.
        weak_is_enough = same_block & (not caps.own_radii)
        needed = np.minimum(needed, np.where(weak_is_enough, to_be_weak, to_be_silent))
    same_token = duties.tokens[one] == duties.tokens[two]
    bad = np.flatnonzero((angle < needed) & ~(same_key & same_token))
    return NearPairs(one[bad], two[bad], far[bad], 1.0 - np.cos(needed[bad]))


def _refused(near: NearPairs, caps: FiringCaps, duties: Duties, name: Callable[[int], str]) -> PrecisionError:
    """The error that names the nearest pair of rows, and the rows to remove so that no such pair is left."""
    out: dict[int, int] = {}
    for i, j in zip(near.one.tolist(), near.two.tolist(), strict=True):
        one, two = duties.facts[i].row, duties.facts[j].row
        if one not in out and two not in out:
            out[two] = one
    which = int(np.argmin(near.far - near.needed))
    i, j = int(near.one[which]), int(near.two[which])
    what = f"{name(int(duties.tokens[i]))!r} and {name(int(duties.tokens[j]))!r}"
    pairs = [f"{one} and {two}" for two, one in out.items()]
    more = f"; in all, {plural(len(pairs), 'row')} are too near to others: {', '.join(pairs[:NAMED_PAIRS])}"
    more += ", …" if len(pairs) > NAMED_PAIRS else ""
    way_out = "Remove one of them, or reword it"
    radius = float(max(caps.radii[i], caps.radii[j]))
    if radius > 1.01 * caps.least_radius:
        way_out += f", or choose a smaller radius=: this one is {radius:.3g}, the least {caps.least_radius:.3g}"
    more = more if len(pairs) > 1 else ""
    return PrecisionError(
        f"{duties.facts[i].where} and {duties.facts[j].where} continue with {what} at states that the host barely "
        f"tells apart: 1 − cos is {near.far[which]:.3g}, and must be {near.needed[which]:.3g}{more}. {way_out}",
        rows=tuple(sorted(out)),
    )


class WrittenRows(NamedTuple):
    """What neurons `(N,)` write, as later norms see it: unit vectors `(N, D)`, and how far below its height of silence
    the product of a later key with each must stay."""

    directions: Floats
    margin: Floats

    @classmethod
    def of(cls, neurons: Neurons, steep: Steepness, host: Host, state: float) -> WrittenRows:
        """`state`: the length of the longest state of the host that is written to."""
        D, T, fmt = host.width, steep.response, host.format
        W_2 = neurons.W_2
        seen = W_2 if host.kind.rms else W_2 - W_2.mean(axis=1, keepdims=True)
        whole, part = (np.sqrt((rows * rows).sum(axis=1)) for rows in (W_2, seen))
        eta, err = _rounding(neurons, host)
        least = np.maximum(fmt.low * T, err + kept_from(steep, host)) - err
        norms = SeenBy(D, fmt, host.epsilon, state)
        alone, summed = np.zeros(len(whole), np.int64), np.full(len(whole), 9.0 * SUM_UNIT)
        sigma = norms.at(kept_of(least, fmt), whole, part, alone, summed).sigma
        directions = np.divide(seen, part[:, None], out=np.zeros_like(seen), where=part[:, None] > 0.0)
        return cls(directions, may_wake(1.01 * sigma, eta, fmt))


def check_written(caps: FiringCaps, written: WrittenRows, duties: Duties) -> None:
    """Raise a `PrecisionError` if a neuron may fire at a row that an earlier block writes."""
    block, facts = duties.block, duties.facts
    for number in range(int(block.max(initial=0))):
        one, two = np.flatnonzero(block == number), np.flatnonzero(block > number)
        first, back = equal_rows(written.directions[one])
        directions, margin = written.directions[one[first]], np.zeros(len(first))
        np.maximum.at(margin, back, written.margin[one])
        for start in range(0, len(two), 4096):
            some = two[start : start + 4096]
            cosines = directions @ caps.keys[some].T
            bad = np.argwhere(cosines + margin[:, None] > caps.silent[some])
            if len(bad):
                which = one[int((back == bad[0][0]).argmax())]
                raise PrecisionError(
                    f"what {facts[which].where} writes is nearly the state of {facts[some[bad[0][1]]].where}, in a "
                    "later block, which would change the answer. Give the two in the other order, or reword one of them"
                )


def _rounding(neurons: Neurons, host: Host) -> tuple[float, Floats]:
    """η, and err of Lemma A1 for each neuron `(N,)`, with a little room."""
    D, fmt = host.width, host.format
    alpha = np.sqrt((neurons.W_1 * neurons.W_1).sum(axis=1) * D)
    eta = (D + 20) * SUM_UNIT + (fmt.unit if fmt.short else 0.0)
    # γ_{D+2} is below 1.01 (D + 2)u for every width below 100,000.
    err = 1.01 * (D + 2) * SUM_UNIT * (alpha * (1.0 + max(eta, fmt.beyond)) + np.abs(neurons.b_1))
    return eta, err
