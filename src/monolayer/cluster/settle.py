"""Contradictions, out of core: equal token and context with different labels, refused or overruled.

Equal points lie within two rounding errors of each other, in whatever order their sums are taken. So between two of
them with different labels there is a label change too close for a step, and all their equals lie within four errors of
it (`parts.near`). Places near such changes are looked at, and no others.

    alike-B    of places of block B: columns of their signature, label and number among all, in order of the signature
    chosen-K   of all places with signatures in one share of the numbers below 2^64: the label that wins
    mended-B   places of block B that have another label now (`Block.labels`)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints, Words
from monolayer.cluster.blocks import Block, Rules, label_of, load, mended_name
from monolayer.cluster.crowds import looked_up
from monolayer.cluster.labels import share_of, words
from monolayer.cluster.spill import Spill
from monolayer.cluster.work import Work
from monolayer.construct.consistency import Context, OnConflict, contradiction, signatures
from monolayer.construct.target import Target
from monolayer.data import Sequences

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import Found


def settle(work: Work, found: Found, pieces: list[Block], on_conflict: OnConflict) -> Found:
    """What was found, with labels that do not contradict each other; or an error that shows two that do."""
    spill, rules = work.spill, found.rules
    near = np.concatenate([part["near"] for part in found.parts], axis=1)
    names = [f"alike-{i:05}" for i in range(len(pieces))]
    tasks = {name: (pieces[i], rules, found.points(i), near) for i, name in enumerate(names)}
    work.do("looking for contradictions", (0.98, 0.983), alike, tasks)
    places = [(name, int(spill.facts(name)["places"])) for name in names]
    shares = max(1, -(-4 * sum(count for _, count in places) // work.room.range))
    share_names = [f"chosen-{k:05}" for k in range(shares)]
    joined = {name: (k, shares, places, rules, on_conflict) for k, name in enumerate(share_names)}
    work.do("looking for contradictions", (0.983, 0.986), chosen, joined)
    seen = [spill.facts(name) for name in share_names]
    odd = sum(int(facts["odd"]) for facts in seen)
    if odd and on_conflict == "error":
        two = min((facts["shown"].tolist() for facts in seen if len(facts["shown"])), key=lambda pair: pair[1])
        raise _shown(work, found, pieces, two, odd)
    if odd:
        mends = {mended_name(block): (block, rules, i, names[i], share_names) for i, block in enumerate(pieces)}
        work.do("overruling labels", (0.986, 0.99), mended, mends)
        found = replace(
            found,
            rules=replace(rules, mended=True),
            label_count=found.label_count + (0 if rules.reals else sum(facts["change"] for facts in seen)),
            conflicts=sum(int(facts["overruled"]) for facts in seen),
        )
    spill.drop(*names, *share_names)
    return found


def alike(spill: Spill, name: str, block: Block, rules: Rules, points: str, near: Floats) -> None:
    """The places of a block in stretches `near` `(2, J)`: columns, and which labelled places of the block they are."""
    held, number = list[list[Words]](), [np.zeros(0, np.int64)]
    first = block.row if rules.per == "sequence" else block.token
    for places in looked_up(spill, block, rules, points, near):
        context = Context(places.data, places.data.tokens, rules.positions, rules.causal)
        target = Target(np.zeros(0, np.int64), np.zeros((0, 1)), rules.per, None, False, places.place)
        columns = [*signatures(context, target, rules.vocabulary, rules.longest), *words(places.label)]
        held.append([column.astype(np.uint64) for column in (*columns, first + places.flat)])
        number.append(places.number)
    columns = [np.concatenate(parts) for parts in zip(*held, strict=True)]
    order = np.argsort(columns[0]) if columns else number[0]
    spill.write(name, [column[order] for column in columns], places=len(order), number=np.concatenate(number)[order])


def new_rows(columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Where rows in order begin to differ from the row before, of columns `(k, P)`."""
    return np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0))[: columns.shape[1]]


def chosen(
    spill: Spill, name: str, share: int, shares: int, pieces: list[tuple[str, int]], rules: Rules, on_conflict: str
) -> None:
    """The label that wins at every place in a share, piece after piece; and how many labels are overruled there."""
    key, size = 2 + (rules.per == "token") * (1 + rules.positions), max(1, rules.reals)
    held, starts = [np.zeros((key + size + 1, 0), dtype=np.uint64)], [0]
    for piece, count in pieces:
        if count:
            columns = np.memmap(spill.numbers(piece), np.uint64, "r", shape=(key + size + 1, count))
            held.append(np.array(columns[:, share_of(columns[0], share, shares)]))
        starts.append(starts[-1] + (held[-1].shape[1] if count else 0))
    rows = np.concatenate(held, axis=1)
    order = np.lexsort(rows[::-1])
    rows = rows[:, order]
    new = new_rows(rows[:-1])
    start = np.flatnonzero(new)
    # Of each different pair of signature and label: its signature, how many places it has, and the first of them.
    which = (np.cumsum(new_rows(rows[:key])) - 1)[start]
    often, least = np.diff(np.append(start, len(order))), rows[-1][start].astype(np.int64)
    earliest = _best(which, least)[which]
    winner = _best(which, least, -often)[which] if on_conflict == "majority" else earliest
    every = np.arange(len(start))
    odd, overruled = np.flatnonzero(every != earliest), np.flatnonzero(every != winner)
    value = rows[key : key + size, start]
    won = np.empty((len(order), size), dtype=np.uint64)
    won[order] = value.T[winner[np.cumsum(new) - 1]]
    change = np.zeros(rules.labels, dtype=np.int64)
    if rules.labels:
        np.add.at(change, value[0][winner[overruled]].astype(np.int64), often[overruled])
        np.subtract.at(change, value[0][overruled].astype(np.int64), often[overruled])
    shown = odd[[np.argmin(least[odd])]] if len(odd) else odd
    spill.write(
        name,
        [won],
        starts=starts,
        odd=int(often[odd].sum()),
        overruled=int(often[overruled].sum()),
        change=change,
        shown=np.concatenate([least[earliest[shown]], least[shown]]),
    )


def _best(which: Ints, *keys: Ints) -> Ints:
    """For each group, the first of its members by the last of `keys`, then by the one before."""
    order = np.lexsort((*keys, which))
    return order[new_rows(which[order][None])]


def mended(spill: Spill, name: str, block: Block, rules: Rules, number: int, alike: str, chosen: list[str]) -> None:
    """The places of a block, its `number` among all, whose labels are overruled, and their labels now."""
    place, label = spill.facts(alike)["number"], label_of(load(spill, block, rules)[1])
    won, size = [np.zeros((0, max(1, rules.reals)), np.uint64)], max(1, rules.reals)
    for share in chosen:
        begin, end = spill.facts(share)["starts"][number : number + 2].tolist()
        found = np.fromfile(spill.numbers(share), np.uint64, (end - begin) * size, offset=8 * begin * size)
        won.append(found.reshape(-1, size))
    now = np.concatenate(won)
    now = now.view(np.float64) if rules.reals else now[:, 0].astype(np.int64)
    other = np.flatnonzero((now != label[place]).reshape(len(place), size).any(axis=1))
    spill.write(name, [], place=place[other], label=now[other])


def _shown(work: Work, found: Found, pieces: list[Block], two: list[int], odd: int) -> Exception:
    """The error that names two places, by their numbers among all files."""
    rules, rows, named, places, labels = found.rules, [], [], [], []
    base = [block.row if rules.per == "sequence" else block.token for block in pieces]
    for flat in two:
        which = int(np.searchsorted(base, flat, side="right")) - 1
        block, inner = pieces[which], flat - base[which]
        data, target = load(work.spill, block, rules)
        row = inner if rules.per == "sequence" else data.place(inner)[0]
        name = f"sequence {block.first + row} of {found.shards[block.shard]['name']}"
        if name not in named:
            named.append(name)
            rows.append(data.select(np.array([row])).tokens)
        before = sum(len(row) for row in rows[: named.index(name)])
        place = inner if target.place is None else int(np.searchsorted(target.place, inner))
        labels.append(label_of(target)[place])
        places.append(named.index(name) if rules.per == "sequence" else before + inner - int(data.offsets[row]))
    tokens = np.concatenate(rows)
    context = Sequences(tokens, np.array([len(row) for row in rows]), found.vocabulary)
    number, table = (np.arange(2), np.stack(labels)) if rules.reals else (np.array(labels), np.zeros((0, 1)))
    target = Target(number, table, rules.per, found.classes, found.scalar, np.array(places))
    return contradiction(Context(context, tokens, rules.positions, rules.causal), target, 0, 1, odd, named)
