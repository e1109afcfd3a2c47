"""Contradictions, out of core: equal token and context with different labels, refused or overruled.

Equal points lie within two rounding errors of each other, in whatever order their sums are taken. So between two of
them with different labels there is a label change too close for a step, and all their equals lie within four errors of
it (`near`). Places near such changes are looked at, and no others.

    alike-B    of block B: the different pairs of signature and label, how many places have each, which is the first
    chosen-K   all pairs with signatures in one share of the numbers below 2^64: the label that wins
    mended-B   places of block B that have another label now (`blocks.load`)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.cluster import crowds, tables
from monolayer.cluster.blocks import Block, Raw, Rules, label_of, load, mended_name, named, stretches
from monolayer.cluster.shares import Counted, new_rows, rows_of, sums
from monolayer.cluster.spill import Spill
from monolayer.cluster.tables import for_workers
from monolayer.cluster.work import Work
from monolayer.construct.consistency import Context, OnConflict, contradiction, signatures
from monolayer.construct.target import Target
from monolayer.data import Sequences

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import Found


STRETCH = 1 << 17
"""Tokens whose signatures are held at a time."""


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
            label_count=found.label_count + (0 if rules.reals else sum(facts["change"] for facts in seen)),
            conflicts=sum(int(facts["overruled"]) for facts in seen),
        )
    spill.drop(*names, *chosen_names)
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
    del z  # places may be all there are: what is not needed any more goes, here and below
    if len(there) == 0:
        spill.write(name, [], pairs=0)
        return
    columns, place = _columns(here, rules, there)
    place = places[place]
    if not rules.next_token:
        there = place
    del here, places
    order = np.lexsort(columns[::-1])  # stable: of equal ones the first stays the first
    for i in range(len(columns)):
        columns[i] = columns[i][order]
    new = new_rows(columns)
    start = np.flatnonzero(new)
    for i in range(len(columns)):
        columns[i] = columns[i][start]
    columns.append(np.diff(np.append(start, len(order))).astype(np.uint64))
    columns.append((begin + place[order[start]]).astype(np.uint64))
    pair = np.empty(len(order), dtype=np.int64)
    pair[order] = np.cumsum(new) - 1
    spill.write(name, columns, pairs=len(start), place=there, pair=pair)


def _columns(here: Raw, rules: Rules, there: Ints) -> tuple[list[NDArray[np.uint64]], Ints]:
    """Signatures and labels of labelled places `there` `(Q,)`, and the tokens or sequences that they are.

    Some sequences at a time: signatures of all tokens of a block would take more memory than all else.
    """
    held, places, done = [], [], 0
    for rows, tokens in stretches(here.lengths, STRETCH):
        labels = None if here.labels is None else here.labels[rows if rules.per == "sequence" else tokens]
        some = replace(here, tokens=here.tokens[tokens], lengths=here.lengths[rows], labels=labels)
        data, target = named(some, rules)
        begin, end = np.searchsorted(there, [done, done + len(target.number)])
        mine, done = there[begin:end] - done, done + len(target.number)
        if len(mine) == 0:
            continue
        context = Context(data, data.tokens, rules.positions, rules.causal)
        seen = signatures(context, target, rules.vocabulary, rules.longest)
        held.append([column[mine].astype(np.uint64) for column in seen] + _words(label_of(target)[mine]))
        first = rows.start if rules.per == "sequence" else tokens.start
        places.append(first + (mine if target.place is None else target.place[mine]))
    return [np.concatenate([part.pop(0) for part in held]) for _ in range(len(held[0]))], np.concatenate(places)


def _words(label: NDArray[Any]) -> list[NDArray[np.uint64]]:
    """Labels, `(P,)` numbers or `(P, m)` reals, as columns that are equal where they are."""
    return [label.astype(np.uint64)] if label.ndim == 1 else list(np.ascontiguousarray(label).view(np.uint64).T)


def chosen(spill: Spill, name: str, share: int, shares: int, pairs: Counted, rules: Rules, on_conflict: str) -> None:
    """The label that wins of every pair in a share, piece after piece; and how many labels there are overruled."""
    key, size = 2 + (rules.per == "token") * (1 + rules.positions), max(1, rules.reals)
    held, starts = [np.zeros((key + size + 2, 0), dtype=np.uint64)], [0]
    for piece, count in pairs:
        held.append(rows_of(spill, piece, count, key + size + 2, share, shares))
        starts.append(starts[-1] + held[-1].shape[1])
    rows = np.concatenate(held, axis=1)
    order = np.lexsort((rows[-1], *rows[:-2][::-1]))
    rows = rows[:, order]
    new = new_rows(list(rows[: key + size]))
    pair, start = np.cumsum(new) - 1, np.flatnonzero(new)
    # Of each different pair of signature and label: its signature, how many places it has, and the first of them.
    which = (np.cumsum(new_rows(list(rows[:key]))) - 1)[start]
    often, least = sums(rows[-2].astype(np.int64), start), rows[-1][start].astype(np.int64)
    earliest = _best(which, least)[which]
    winner = _best(which, least, -often)[which] if on_conflict == "majority" else earliest
    every = np.arange(len(start))
    odd, overruled = np.flatnonzero(every != earliest), np.flatnonzero(every != winner)
    value = rows[key : key + size, start]
    won = np.empty((len(order), size), dtype=np.uint64)
    won[order] = value.T[winner[pair]]
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
    return order[new_rows([which[order]])]


def mended(spill: Spill, name: str, block: Block, rules: Rules, number: int, alike: str, chosen: list[str]) -> None:
    """The places of a block, its `number` among all, whose labels are overruled, and their labels now."""
    facts, label = spill.facts(alike), label_of(load(spill, block, rules)[1])
    if int(facts["pairs"]) == 0:
        spill.write(name, [], place=np.zeros(0, np.int64), label=label[:0])
        return
    won, width = [], max(1, rules.reals)
    for share in chosen:
        begin, end = spill.facts(share)["starts"][number : number + 2].tolist()
        found = np.fromfile(spill.numbers(share), np.uint64, (end - begin) * width, offset=8 * begin * width)
        won.append(found.reshape(-1, width))
    place, now = facts["place"], np.concatenate(won)[facts["pair"]]
    now = now.view(np.float64) if rules.reals else now[:, 0].astype(np.int64)
    other = np.flatnonzero((now != label[place]).reshape(len(place), -1).any(axis=1))
    spill.write(name, [], place=place[other], label=now[other])


def _shown(work: Work, found: Found, pieces: list[Block], base: list[int], two: list[int], odd: int) -> Exception:
    """The error that names two places, by their numbers among all files."""
    rules, rows, named, places, labels = found.rules, [], [], [], []
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
