"""Real labels over files: where each first stands, which orders them, and how often each comes, for their entropy.

They need not fit into memory: a label is compared by its bits, −0.0 being 0.0, and has no number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints, Words
from monolayer.cluster.blocks import Block, Rules, blocks, load
from monolayer.cluster.shares import Counted, new_rows, rows_of, sums
from monolayer.cluster.spill import Spill
from monolayer.cluster.work import Work
from monolayer.data.distinct import distinct_rows, scramble

NOWHERE = np.iinfo(np.int64).max


def first_places(work: Work, rules: Rules, wanted: Floats) -> Ints:
    """The token `(V,)` of all files at which each of the labels `wanted` `(V, m)` first stands."""
    table, rows = distinct_rows(wanted)
    tasks, begin = dict[str, Any](), 0
    for i in range(len(work.shards)):
        for block in blocks(work.spill, i, work.room.block):
            tasks[f"label-{len(tasks):05}"] = (block, rules, table, begin)
            begin += block.stop - block.start
    work.do("looking at labels", (0.2, 0.2), first_place, tasks)
    first = np.full(len(table), NOWHERE)
    for name in tasks:
        first = np.minimum(first, work.spill.facts(name)["first"])
    return first[rows]


def first_place(spill: Spill, name: str, block: Block, rules: Rules, wanted: Floats, begin: int) -> None:
    """The same for a block whose first token has number `begin`, and labels that are different."""
    table = load(spill, block, rules)[1].table
    if rules.reals == 1:
        order = np.argsort(wanted[:, 0])
        at = np.minimum(np.searchsorted(wanted[order, 0], table[:, 0]), len(wanted) - 1)
        own = np.where(wanted[order[at], 0] == table[:, 0], order[at], len(wanted))
    else:
        own = distinct_rows(np.concatenate([wanted, table]))[1][len(wanted) :]
    place = np.flatnonzero(own < len(wanted))[::-1]
    first = np.full(len(wanted), NOWHERE)
    first[own[place]] = begin + place  # backwards: the first stays
    spill.write(name, [], first=first)


def counts(work: Work, rules: Rules, pieces: list[Block]) -> tuple[Ints, Ints]:
    """How often labels come, in order, and how many labels come so often."""
    spill, names = work.spill, [f"tally-{i:05}" for i in range(len(pieces))]
    work.do("counting labels", (0.98, 0.99), tally, {name: (pieces[i], rules) for i, name in enumerate(names)})
    held = [(name, int(spill.facts(name)["rows"])) for name in names]
    shares = max(1, -(-4 * sum(rows for _, rows in held) // work.room.range))
    tasks = {f"often-{k:05}": (held, rules, k, shares) for k in range(shares)}
    work.do("counting labels", (0.99, 0.995), often, tasks)
    for name in names:
        spill.drop(name)
    found = np.concatenate([spill.facts(name)["often"] for name in tasks], axis=1)
    order = np.argsort(found[0], kind="stable")
    size, start = np.unique(found[0][order], return_index=True)
    return size, sums(found[1][order], start)


def tally(spill: Spill, name: str, block: Block, rules: Rules) -> None:
    """The different labels of a block, and how often each comes: columns, and then counts."""
    table = load(spill, block, rules)[1].table
    columns = _columns(np.ascontiguousarray(table).view(np.uint64))
    if len(columns) == 1:
        columns[0].sort()  # many times faster than to look for the order
    else:
        order = np.lexsort(columns[::-1])
        columns = [column[order] for column in columns]
    start = np.flatnonzero(new_rows(columns))
    size = np.diff(np.append(start, len(table))).astype(np.uint64)
    spill.write(name, [np.stack([*(column[start] for column in columns), size])], rows=len(start))


def _columns(words: Words) -> list[Words]:
    """A word that tells labels `(P, m)` apart, and where it may fail to, the labels themselves."""
    key: NDArray[np.uint64] = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        key = scramble(key ^ column)
    return [key] if words.shape[1] == 1 else [key, *words.T]


def often(spill: Spill, name: str, pieces: Counted, rules: Rules, share: int, shares: int) -> None:
    """How often labels of a share come in all pieces, and how many labels come so often `(2, …)`."""
    width = 2 if rules.reals == 1 else 2 + rules.reals
    rows = np.concatenate([rows_of(spill, *piece, width, share, shares) for piece in pieces], axis=1)
    rows = rows[:, np.lexsort(rows[:-1][::-1])]
    start = np.flatnonzero(new_rows(list(rows[:-1])))
    size, times = np.unique(sums(rows[-1].astype(np.int64), start), return_counts=True)
    spill.write(name, [], often=np.stack([size, times]))
