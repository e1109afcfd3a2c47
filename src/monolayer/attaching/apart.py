"""Whether neurons leave each other alone: where one fires, those of other tokens are silent.

On unit vectors, neuron `j` is wanted on the cap of half-angle ψ_j around its key where its input is at least T/2, and
neuron `i` is silent outside the cap of half-angle χ_i. They leave each other alone if the angle between their keys is
at least ψ_j + χ_i. Where it is less, both must write the same row, and stand in the same block or have, to within
rounding, the same key: a neuron of an earlier block that half fires would hide the state from the later ones. In
different blocks it is enough that the one is silent at the state of the other itself: this is asked for when facts are
attached, though no proof covers all of the cap then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.attaching.neurons import UNIT, Neurons, Steepness
from monolayer.errors import PrecisionError
from monolayer.huggingface.host import Host

AT_ONCE = 1 << 24
"""Cosines held at a time."""
SAME = 2.0**-20
"""Keys are the same, to within rounding, if this is more than 1 − cos."""


class Caps(NamedTuple):
    """Keys `(N, D)` of length 1, and the half-angles `(N,)` of the caps where neurons are wanted, and not silent.

    `own`: of the small caps around the states themselves, where the input is at least 15/16 T.
    """

    keys: Floats
    wanted: Floats
    awake: Floats
    own: Floats


def caps_of(neurons: Neurons, steep: Steepness, host: Host) -> Caps:
    """The caps of neurons, with room for rounding."""
    D = host.width
    length = np.sqrt((neurons.W_1 * neurons.W_1).sum(axis=1))
    alpha = length * np.sqrt(D)
    rounding = 2.0 * (D + 20) * UNIT
    lowest = (steep.response / 2.0 - neurons.b_1) / alpha - rounding
    asleep = (-host.silence - neurons.b_1) / alpha - 2.0 * rounding
    own = (0.9375 * steep.response - neurons.b_1) / alpha - rounding
    half = [np.arccos(np.clip(height, -1.0, 1.0)) for height in (lowest, asleep, own)]
    return Caps(neurons.W_1 / length[:, None], *half)


def check_apart(
    caps: Caps, tokens: Ints, rows: Ints, block: Ints, name: Callable[[int], str | None], first: int = 0
) -> None:
    """`PrecisionError` that names two rows whose states the host does not tell apart well enough.

    `tokens`, `rows`, `block` `(N,)`: what each neuron answers, for which fact, and where it stands. `first`: neurons
    from which on are new; pairs of older ones are known to be apart.
    """
    keys = torch.from_numpy(caps.keys).float()
    # Float32 products of unit vectors are off by at most D u: what may be near is looked at again below.
    near = float(np.cos(min(np.pi, caps.wanted.max(initial=0.0) + caps.awake.max(initial=0.0))))
    near -= 2.0 * caps.keys.shape[1] * UNIT
    step = max(1, AT_ONCE // max(1, len(keys)))
    for start in range(first, len(keys), step):
        cosines = keys[start : start + step] @ keys.T
        one, two = np.nonzero(cosines.numpy() > near)
        one += start
        keep = two < one
        for i, j in zip(one[keep].tolist(), two[keep].tolist(), strict=True):
            _check_pair(caps, tokens, rows, block, name, j, i)


def _check_pair(
    caps: Caps, tokens: Ints, rows: Ints, block: Ints, name: Callable[[int], str | None], i: int, j: int
) -> None:
    """`i < j`."""
    gap = caps.keys[i] - caps.keys[j]
    far = 0.5 * float(gap @ gap)  # 1 − cos, without cancellation
    angle = float(np.arccos(np.clip(1.0 - far, -1.0, 1.0)))
    needed = float(max(caps.wanted[i] + caps.awake[j], caps.wanted[j] + caps.awake[i]))
    if angle >= needed:
        return
    small = float(max(caps.own[i] + caps.awake[j], caps.own[j] + caps.awake[i]))
    if tokens[i] == tokens[j] and (block[i] == block[j] or far <= SAME or angle >= small):
        return
    said = f"rows {rows[i]} and {rows[j]}"
    what = f"{name(int(tokens[i]))!r} and {name(int(tokens[j]))!r}"
    raise PrecisionError(
        f"{said} go on with {what} at states that the host hardly tells apart: 1 − cos is {far:.3g}, and must be "
        f"{1.0 - np.cos(needed):.3g}. Take one of them out, reword it, or choose a smaller radius="
    )


def check_written(caps: Caps, written: Floats, block: Ints, rows: Ints) -> None:
    """`PrecisionError` if a neuron of a later block answers to what one of an earlier block writes, `(N, D)`."""
    for number in range(int(block.max(initial=0))):
        one, two = np.flatnonzero(block == number), np.flatnonzero(block > number)
        directions, back = np.unique(written[one], axis=0, return_inverse=True)
        directions = directions / np.sqrt((directions * directions).sum(axis=1, keepdims=True))
        for start in range(0, len(two), 4096):
            some = two[start : start + 4096]
            cosines = directions @ caps.keys[some].T
            bad = np.argwhere(cosines > np.cos(caps.awake[some]) - 2.0**-8)
            if len(bad):
                which = one[int((back == bad[0][0]).argmax())]
                raise PrecisionError(
                    f"what row {rows[which]} writes is nearly the state of row {rows[some[bad[0][1]]]}, in a later "
                    "block, which would change the answer. Give the two in the other order, or reword one of them"
                )
