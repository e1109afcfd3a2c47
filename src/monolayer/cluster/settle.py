"""Contradictions, out of core: equal token and context with different labels, refused or overruled.

Equal points lie within two rounding errors of each other, in whatever order their sums are taken. So between two of
them with different labels there is a label change too close for a step, and all their equals lie within four errors of
it (`near`). Places near such changes are looked at, and no others.

    alike-B    of block B: the different pairs of signature and label, how many places have each, which is the first
    chosen-K   all pairs with signatures in one share of the numbers below 2^64: the label that wins
    mended-B   places of block B that have another label now (`blocks.load`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.cluster import crowds, tables
from monolayer.cluster.blocks import Block, Rules, load, mended_name, named
from monolayer.cluster.seen import share_of
from monolayer.cluster.spill import Spill
from monolayer.cluster.tables import for_workers
from monolayer.cluster.work import Work
from monolayer.construct.consistency import Context, OnConflict, contradiction, signatures
from monolayer.construct.line.points import Floats
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.names import Ints

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import Found

Words = NDArray[np.uint64]
Pairs = list[tuple[str, int]]
"""Pieces `alike-B`, and how many pairs each holds."""


def settle(work: Work, found: Found, pieces: list[Block], on_conflict: OnConflict) -> Found:
    """What was found, with labels that do not contradict each other; or an error that shows two that do."""
    spill, rules = work.spill, found.rules
    near = np.concatenate([part["near"] for part in found.parts], axis=1)
    draw, base = for_workers(found.draw, rules), _begin(pieces, rules)
    names = [f"alike-{i:05}" for i in range(len(pieces))]
    tasks = {
        name: (block, rules, draw, found.kappa, found.contexts(i), near, begin)
        for i, (name, block, begin) in enumerate(zip(names, pieces, base, strict=True))
    }
    work.do("looking for contradictions", (0.98, 0.983), alike, tasks)
    pairs = [(name, int(spill.facts(name)["pairs"])) for name in names]
    shares = max(1, -(-4 * sum(count for _, count in pairs) // work.room.range))
    chosen_names = [f"chosen-{k:05}" for k in range(shares)]
    work.do(
        "looking for contradictions",
        (0.983, 0.986),
        chosen,
        {name: (k, shares, pairs, rules, on_conflict) for k, name in enumerate(chosen_names)},
    )
    seen = [spill.facts(name) for name in chosen_names]
    odd = sum(int(facts["odd"]) for facts in seen)
    if odd and on_conflict == "error":
        two = min((facts["shown"].tolist() for facts in seen if len(facts["shown"])), key=lambda pair: pair[1])
        raise _shown(work, found, pieces, base, two, odd)
    if odd:
        mends = {mended_name(block): (block, rules, i, names[i], chosen_names) for i, block in enumerate(pieces)}
        work.do("overruling labels", (0.986, 0.99), mended, mends)
        found = replace(
            found,
            rules=replace(rules, mended=True),
            label_count=found.label_count + sum(facts["change"] for facts in seen),
            conflicts=sum(int(facts["overruled"]) for facts in seen),
        )
    for name in (*names, *chosen_names):
        spill.drop(name)
    return found


def _begin(pieces: list[Block], rules: Rules) -> list[int]:
    """The number, among all files, of the first token of every block, or of its first sequence."""
    sizes = [(block.last - block.first) if rules.per == "sequence" else block.stop - block.start for block in pieces]
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def alike(
    spill: Spill,
    name: str,
    block: Block,
    rules: Rules,
    draw: tables.Tables,
    kappa: float,
    contexts: str,
    near: Floats,
    begin: int,
) -> None:
    """The pairs of a block, in order of signature: columns of signatures, of the label, how many, and the first."""
    here, z, _, places = crowds.near(spill, block, rules, draw, kappa, contexts, near)
    there = crowds.within(z, near)
    if len(there) == 0:
        spill.write(name, [], pairs=0)
        return
    data, target = named(here, rules)
    context = Context(data, data.tokens, rules.positions, rules.causal)
    seen = signatures(context, target, rules.vocabulary, rules.longest)
    place = places[there if target.place is None else target.place[there]]
    columns = [column[there].astype(np.uint64) for column in (*seen, target.number)]
    labelled = there if target.place is not None else place
    order = np.lexsort(columns[::-1])  # stable: of equal ones the first stays the first
    columns = [column[order] for column in columns]
    new = _changes(columns)
    start = np.flatnonzero(new)
    pair = np.empty(len(order), dtype=np.int64)
    pair[order] = np.cumsum(new) - 1
    size = np.diff(np.append(start, len(order)))
    rows = np.stack([column[start] for column in columns] + [size.astype(np.uint64), begin + place[order[start]]])
    spill.write(name, [rows.astype(np.uint64)], pairs=len(start), columns=len(rows), place=labelled, pair=pair)


def chosen(spill: Spill, name: str, share: int, shares: int, pairs: Pairs, rules: Rules, on_conflict: str) -> None:
    """The label that wins of every pair in a share, piece after piece; and how many labels there are overruled."""
    width = 4 + (rules.per == "token") * (1 + rules.positions) + 1
    held, starts = [np.zeros((width, 0), dtype=np.uint64)], [0]
    for piece, count in pairs:
        held.append(_slice(spill, piece, count, width, share, shares))
        starts.append(starts[-1] + held[-1].shape[1])
    rows = np.concatenate(held, axis=1)
    first, label = rows[-1].astype(np.int64), rows[-3].astype(np.int64)
    order = np.lexsort((first, label, *rows[:-3][::-1]))
    ordered = rows[:, order]
    group = np.cumsum(_changes(list(ordered[:-3]))) - 1
    new = _changes(list(ordered[:-2]))
    pair, start = np.cumsum(new) - 1, np.flatnonzero(new)
    # Of each different pair of group and label: how many places, the first of them, and the label.
    size = np.add.reduceat(ordered[-2].astype(np.int64), start) if len(start) else start
    least, which, value = first[order][start], group[start], label[order][start]
    earliest = _best(which, least)
    winner = _best(which, least, -size) if on_conflict == "majority" else earliest
    odd = np.flatnonzero(value != value[earliest[which]])
    won = np.empty(len(order), dtype=np.int64)
    won[order] = value[winner[which]][pair]
    overruled = np.flatnonzero(value != value[winner[which]])
    change = np.zeros(rules.labels, dtype=np.int64)
    np.add.at(change, value[winner[which[overruled]]], size[overruled])
    np.subtract.at(change, value[overruled], size[overruled])
    shown = odd[np.argmin(least[odd])] if len(odd) else None
    spill.write(
        name,
        [won],
        starts=starts,
        odd=int(size[odd].sum()),
        overruled=int(size[overruled].sum()),
        change=change,
        shown=np.array([] if shown is None else [least[earliest[which[shown]]], least[shown]], dtype=np.int64),
    )


def _slice(spill: Spill, piece: str, count: int, width: int, share: int, shares: int) -> Words:
    """The pairs of a piece whose first column lies in a share of the numbers below 2^64."""
    if count == 0:
        return np.zeros((width, 0), dtype=np.uint64)
    rows = np.memmap(spill.numbers(piece), np.uint64, "r", shape=(width, count))
    return np.array(rows[:, share_of(rows[0], share, shares)])


def _best(which: Ints, *keys: Ints) -> Ints:
    """For each group, the first of its members by the last of `keys`, then by the one before."""
    order = np.lexsort((*keys, which))
    return order[_changes([which[order]])]


def _changes(columns: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Where rows of columns in order begin to differ from the row before."""
    new = np.zeros(len(columns[0]), dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def mended(spill: Spill, name: str, block: Block, rules: Rules, number: int, alike: str, chosen: list[str]) -> None:
    """The places of a block, its `number` among all, whose labels are overruled, and their labels now."""
    facts = spill.facts(alike)
    if int(facts["pairs"]) == 0:
        spill.write(name, [], place=np.zeros(0, np.int64), label=np.zeros(0, np.int64))
        return
    won = []
    for share in chosen:
        begin, end = spill.facts(share)["starts"][number : number + 2].tolist()
        won.append(np.fromfile(spill.numbers(share), np.int64, end - begin, offset=8 * begin))
    place, label = facts["place"], np.concatenate(won)[facts["pair"]]
    other = label != load(spill, block, rules)[1].number[place]
    spill.write(name, [], place=place[other], label=label[other])


def _shown(work: Work, found: Found, pieces: list[Block], base: list[int], two: list[int], odd: int) -> Exception:
    """The error that names two places, by their numbers among all files."""
    rules, rows, named, places, numbers = found.rules, [], [], [], []
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
        numbers.append(int(target.number[place]))
        places.append(named.index(name) if rules.per == "sequence" else before + inner - int(data.offsets[row]))
    tokens = np.concatenate(rows)
    context = Sequences(tokens, np.array([len(row) for row in rows]), found.vocabulary)
    target = Target(np.array(numbers), np.zeros((0, 1)), rules.per, found.classes, False, np.array(places))
    return contradiction(Context(context, tokens, rules.positions, rules.causal), target, 0, 1, odd, named)
