"""Neighbours with different labels that are too close: a contradiction of the data, or a collision of this draw.

They are few, so what stands around them is looked at exactly: token by token, and named by file and row.
"""

from __future__ import annotations

import numpy as np

from monolayer.cluster.blocks import Block, load
from monolayer.cluster.finish import Found
from monolayer.cluster.spill import Spill
from monolayer.construct.line.points import SLACK, Floats
from monolayer.construct.line.separate import DRAWS
from monolayer.errors import ContradictionError, PrecisionError


def around(found: Found) -> Floats:
    """Stretches `(2, K)`, in order and apart, around all neighbours that are too close.

    Equal points lie within two rounding errors of each other: if one of them is beside a narrow gap, the stretch holds
    all of them.
    """
    left, right = found.close
    reach = SLACK * found.errors(np.maximum(np.abs(left), np.abs(right)))
    low, high = left - reach, right + reach
    order = np.argsort(low)
    low, high = low[order], np.maximum.accumulate(high[order])
    new = np.ones(len(low), dtype=bool)
    new[1:] = low[1:] > high[:-1]
    last = np.append(new[1:], True)
    return np.stack([low[new], high[last]])


def contradiction(spill: Spill, found: Found, pieces: list[tuple[str, Block]]) -> None:
    """Raise an error if two places with equal token and context have different labels; `pieces` hold the places."""
    rules, seen = found.rules, dict[tuple[object, ...], tuple[int, str]]()
    for name, block in pieces:
        facts = spill.facts(name)
        if len(facts["there"]) == 0:
            continue
        data, target = load(spill, block, rules)
        for place, label in zip(facts["there"].tolist(), facts["number"].tolist(), strict=True):
            flat = place if target.place is None else int(target.place[place])
            row, position = (flat, None) if rules.per == "sequence" else data.place(flat)
            end = flat + 1 if rules.causal else int(data.offsets[row + 1])
            window = data.tokens[int(data.offsets[row]) : end]
            context = (window if rules.positions else np.sort(window)).tobytes()
            own = None if position is None else int(data.tokens[flat])
            key = (own, position if rules.positions else None, context)
            what = f"sequence {block.first + row} of {found.shards[block.shard]['name']}"
            if own is not None:
                what = f"token {position} ({found.vocabulary.names[own]!r}) of {what}"
            first = seen.setdefault(key, (label, what))
            if first[0] != label:
                advice = "Mend the data, or memorize them in memory, where on_conflict says which label wins."
                if not rules.positions:
                    advice = "If the order of tokens matters, pass positions=True. Otherwise: m" + advice[1:]
                raise ContradictionError(
                    f"the data contradict themselves: {first[1]} has label {found.classes.names[first[0]]!r}, but "
                    f"{what} has label {found.classes.names[label]!r}, and both see the same tokens"
                    f"{' in the same places' if rules.positions else ''}, so no such model can answer both. {advice}"
                )


def crowded(found: Found) -> PrecisionError:
    """The error for data that are consistent but that float64 with rank 1 cannot hold."""
    low, high = found.ends
    error = float(found.errors(np.array([max(abs(low), abs(high))]))[0])
    holds = int(np.sqrt((high - low) / (SLACK * error)))
    count = found.close.shape[1]
    return PrecisionError(
        f"{count:,} pair{'s' if count > 1 else ''} of points with different labels fell closer together than "
        f"{SLACK:g} rounding errors in every one of {2 * DRAWS} draws. They are different points, not a contradiction: "
        f"with rank 1 in float64 about {holds:,} points of this kind can be held, and there are {found.labelled:,}. "
        "Split the data over several models, or try another seed if few pairs collide"
    )
