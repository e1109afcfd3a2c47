"""Find and refuse contradictions out of core: places with equal token and context and different labels.

Equal points lie within two rounding errors of each other, in whatever order their sums are taken. So between two of
them with different labels there is a label change too close for a step, and all their equals lie within four errors of
it (`parts.near`). Places near such changes are looked at, and no others.

    alike-B    of places of block B: columns of their signature, label and number among all, in order of the signature
    odd-K      of all places with signatures in one share of the numbers below 2^64: the first that contradicts another
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array, Floats
from monolayer.cluster.blocks import Block, Rules
from monolayer.cluster.crowds import looked_up
from monolayer.cluster.encode import place_in_file
from monolayer.cluster.executor import Work
from monolayer.cluster.spill import Spill
from monolayer.construct.consistency import Clash, Context, contradiction, signatures
from monolayer.construct.line.draw import Draw
from monolayer.construct.target import Target
from monolayer.data import Sequences

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import BuildState


def refuse_contradictions(work: Work, state: BuildState, pieces: list[Block]) -> None:
    """Raise an error that shows two places whose labels contradict each other, if there are such."""
    spill, rules = work.spill, state.rules
    near = np.concatenate([part["near"] for part in state.parts], axis=1)
    names = [f"alike-{i:05}" for i in range(len(pieces))]
    tasks = {name: (pieces[i], rules, state.draw, state.points(i), near) for i, name in enumerate(names)}
    work.do("looking for contradictions", (0.98, 0.985), alike, tasks)
    places = [(name, int(spill.facts(name)["places"])) for name in names]
    shares = max(1, -(-4 * sum(count for _, count in places) // work.room.range))
    joined = {f"odd-{k:05}": (k, shares, places, rules) for k in range(shares)}
    work.do("looking for contradictions", (0.985, 0.99), odd, joined)
    seen = [spill.facts(name) for name in joined]
    count = sum(int(facts["odd"]) for facts in seen)
    if count:
        two = min((facts["shown"].tolist() for facts in seen if len(facts["shown"])), key=lambda pair: pair[1])
        raise _shown(work, state, pieces, two, count)
    spill.drop(*names)


def alike(spill: Spill, name: str, block: Block, rules: Rules, draw: Draw, points: str, near: Floats) -> None:
    """Write, for the places of a block whose `z` lies in the stretches `near` `(2, J)`, signature, label and number."""
    looked = looked_up(spill, block, rules, draw, points, near)
    if looked is None:
        spill.write(name, [], places=0)
        return
    label, data = looked.label, looked.data
    context = Context(data, data.tokens, rules.positions, rules.causal)
    # Labels are numbers `(P,)`, or reals `(P, m)` as the words that they are.
    words = [label] if label.ndim == 1 else list(np.ascontiguousarray(label).view(np.uint64).T)
    key = signatures(context, rules.target(looked.place), rules.vocabulary, rules.longest)
    columns = [column.astype(np.uint64) for column in (*key, *words, block.first_place(rules) + looked.place_in_block)]
    order = np.argsort(columns[0])
    spill.write(name, [column[order] for column in columns], places=len(order))


def odd(spill: Spill, name: str, share: int, shares: int, pieces: list[tuple[str, int]], rules: Rules) -> None:
    """Among the places of one share, count those whose label differs from that of the first equal place.

    Writes the count `odd`, and `shown`, the first two places that contradict each other.
    """
    key, size = 2 + rules.labelling.at_tokens * (1 + rules.positions), max(1, rules.reals)
    halves = [np.zeros((key + size + 1, 0), dtype=np.uint64)]
    bounds = np.array([at * 2**64 // shares for at in range(share, share + 2) if at < shares], dtype=np.uint64)
    for piece, count in pieces:
        if count:
            columns = np.memmap(spill.numbers(piece), np.uint64, "r", shape=(key + size + 1, count))
            begin, *end = np.searchsorted(columns[0], bounds).tolist()
            halves.append(np.array(columns[:, slice(begin, *end) if end else slice(begin, None)]))
    rows = np.concatenate(halves, axis=1)
    rows = rows[:, np.lexsort(rows[::-1])]
    # Of each different pair of signature and label: its signature, how many places it has, and the first of them.
    start = np.flatnonzero(_new(rows[:-1]))
    which = (np.cumsum(_new(rows[:key])) - 1)[start]
    often, least = np.diff(np.append(start, rows.shape[1])), rows[-1][start].astype(np.int64)
    earliest = np.lexsort((least, which))[_new(which[None])][which]
    other = np.flatnonzero(np.arange(len(start)) != earliest)
    shown = other[[np.argmin(least[other])]] if len(other) else other
    shown = np.concatenate([least[earliest[shown]], least[shown]])
    spill.write(name, [], odd=int(often[other].sum()), shown=shown)


def _new(columns: Array) -> NDArray[np.bool_]:
    """A mask `(P,)` of the rows that differ from the row before, given the sorted rows as columns `(k, P)`."""
    return np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0))[: columns.shape[1]]


def _shown(work: Work, state: BuildState, pieces: list[Block], two: list[int], count: int) -> Exception:
    """The error that names the places `two`, which are given by their numbers among the places of all files."""
    rules, rows, named, places, labels = state.rules, [], [], [], []
    base = [block.first_place(rules) for block in pieces]
    for flat in two:
        which = int(np.searchsorted(base, flat, side="right")) - 1
        block, inner = pieces[which], flat - base[which]
        data = block.data(work.spill, rules)
        label = block.labels(work.spill, rules, data)
        row, position = rules.labelling.place(data, inner)
        file = state.shards[block.shard]["name"]
        place = place_in_file(work.spill, block.piece, file, block.first + row)
        name = f"sequence {block.row + row} ({place})"
        if name not in named:
            named.append(name)
            rows.append(data.select(np.array([row])).tokens)
        before = sum(len(row) for row in rows[: named.index(name)])
        known = rules.places(data)
        labels.append(label[inner if known is None else int(np.searchsorted(known, inner))])
        places.append(named.index(name) if position is None else before + position)
    tokens = np.concatenate(rows)
    context = Sequences(tokens, np.array([len(row) for row in rows]), state.vocabulary)
    number, table = (np.arange(2), np.stack(labels)) if rules.reals else (np.array(labels), np.zeros((0, 1)))
    target = Target(number, table, rules.per, state.classes, state.scalar, np.array(places))
    return contradiction(
        Context(context, tokens, rules.positions, rules.causal), target, Clash(0, 1, count), named, in_files=True
    )
