"""Whether the neurons of a stock model that stores cells tell its facts apart in the arithmetic of its own format.

A plain `from_pretrained` computes in the format that the weights are stored in, and no proof covers bfloat16 or float16
arithmetic. So the facts are asked: what arrives is computed as such an evaluation does it, sums in float32 and every
result rounded to the format, up to the neurons of the token that answers. Logits and weights of attention are not
rounded, as in the fused kernels that are the default (sdpa); eager attention rounds them, and may lose more. Kernels
sum and round in different orders, so a neuron must keep at least `LEFT` of its margin here, and a multiple of what
independent roundings of the numbers that it reads add up to, whose sizes may be thousands of margins. What comes behind
the neurons is sums of words with cosines of at most 1/4, which rounding does not turn; the neurons of other tokens are
below −1 whatever the context.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.stock.halves import ONE, Half, rounded
from monolayer.stock.labelled import Points, Work
from monolayer.stock.mirror import Mirror, contexts
from monolayer.stock.norms import factor

LEFT = 0.5
"""Share of a margin that must be left."""
UNIT = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
"""Half the distance of neighbouring numbers at most, as a share."""
ROUNDINGS = 2.0
"""A margin must also exceed so many times what independent roundings of all numbers that a neuron reads add up to."""


def misread(job: Work, mirror: Mirror, half: Half, points: Points, label: Ints, usual: Ints, dtype: str) -> Ints:
    """Numbers of the labelled points whose answer is wrong, or too close to it, in the arithmetic of `dtype`."""
    wrong: list[Ints] = []
    cuts = np.searchsorted(half.cell, np.arange(len(usual) + 1))
    weight = half.weight
    for point, feature in _arriving(job, _as_computed(mirror, dtype), points, dtype):
        token = points.token[point]
        order = np.argsort(token, kind="stable")
        names, first = np.unique(token[order], return_index=True)
        for name, rows in zip(names.tolist(), np.split(order, first[1:]), strict=True):
            own = slice(int(cuts[name]), int(cuts[name + 1]))
            if own.start == own.stop:
                continue
            value = rounded(feature[rows] @ weight[own].T + half.bias[own], dtype)
            noise = ROUNDINGS * UNIT[dtype] * np.sqrt(np.square(feature[rows]) @ np.square(weight[own]).T)
            need = np.maximum(LEFT, noise)
            mine = half.label[own] == label[point[rows], None]
            right = np.where(mine, value - need, -np.inf).max(axis=1) >= 0
            right |= label[point[rows]] == usual[name]
            quiet = np.where(mine, -np.inf, value + need).max(axis=1) <= 0
            wrong.append(point[rows[~(right & quiet)]])
    return np.sort(np.concatenate(wrong)) if wrong else np.zeros(0, np.int64)


def _as_computed(mirror: Mirror, dtype: str) -> Mirror:
    """What the first norm, queries, keys and values are when each of them is rounded."""
    norm = mirror.rest / mirror.scale**2
    exact = float(factor(norm, mirror.width, mirror.epsilon))  # of the first norm
    first = float(rounded(np.array([exact]), dtype)[0])
    scale = first if mirror.scale == exact else 1.0  # a norm in front of the stream rounds the stream
    gain = mirror.kept.gain
    return replace(
        mirror,
        query=None if mirror.query is None else rounded(mirror.query, dtype),
        key=None if mirror.key is None else rounded(mirror.key, dtype),
        values=gain * rounded(mirror.values / gain * (first / exact), dtype),
        scale=scale,
        rest=scale**2 * norm,
    )


def _arriving(job: Work, mirror: Mirror, points: Points, dtype: str) -> Iterator[tuple[Ints, Floats]]:
    """Numbers of labelled points, and what arrives there on the columns that half-spaces read, rounded step by step."""
    codes = mirror.place_codes(ONE[dtype])
    for point, context in contexts(job, mirror):
        written = rounded(context.double().numpy(), dtype)
        F = mirror.factor(np.square(written).sum(axis=1))[:, None]
        u = rounded(F * mirror.scale, dtype)
        yield point, np.concatenate([u * codes[points.place[point]], rounded(F * written, dtype)], axis=1)
