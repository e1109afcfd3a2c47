"""Blocks: some sequences of an encoded file, as what the construction works on: `Sequences` and their labels.

Every pass but the first goes over blocks of at most some number of tokens, whatever the files are like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monolayer.arrays import Array, Ints
from monolayer.cluster.spill import Spill
from monolayer.construct.line.alphabet import Ids
from monolayer.construct.line.separate import inside
from monolayer.construct.line.tokens import Tokens, sample_rows
from monolayer.construct.target import Target
from monolayer.data import Names, Sequences
from monolayer.data.choices import Per
from monolayer.data.labelling import LABELLINGS, Labelling


@dataclass(frozen=True, eq=False)
class Rules:
    """What all blocks share: what a model may see, the longest sequence, the sizes of the tables."""

    per: Per
    positions: bool
    causal: bool
    next_token: bool
    longest: int
    vocabulary: int
    labels: int
    """How many classes there are; 0 for real labels."""
    reals: int
    """`m`, the size of real labels; 0 for classes."""
    temperature: float | None
    order: Ints | None = None
    """The rank of each token among the codes (`construct/line/build.py`)."""

    @property
    def labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence."""
        return LABELLINGS[self.per]

    @property
    def label_type(self) -> np.dtype[Any]:
        """The smallest type that holds the numbers of classes; that of real labels."""
        return np.min_scalar_type(self.labels) if self.labels else np.dtype(np.float64)

    def tokens(self, data: Sequences) -> Tokens:
        """The sequences as the construction sees them."""
        position = data.position if self.positions else None
        alphabet = Ids(self.vocabulary, self.order)
        return Tokens(data.tokens, data.lengths, alphabet, position, self.causal, self.temperature, self.longest)

    def places(self, data: Sequences) -> Ints | None:
        """The tokens that have a label: those with a next one, where that is the label; None: all."""
        if not self.next_token:
            return None
        return np.flatnonzero(data.position < np.repeat(data.lengths, data.lengths) - 1)

    def target(self, place: Ints | None) -> Target:
        """The target with the labelled places `place` only; the labels themselves are kept in files."""
        return Target(np.zeros(0, np.int64), np.zeros((0, 1)), self.per, None, False, place)


@dataclass(frozen=True)
class Block:
    """Sequences `first` to `last` of file `shard`, which are its tokens `start` to `stop`."""

    shard: int
    first: int
    last: int
    start: int
    stop: int
    row: int
    """The number of the block's first sequence among the sequences of all files."""
    token: int
    """The number of the block's first token among the tokens of all files."""
    sequences: int
    """How many sequences the whole file has."""
    tokens: int
    """How many tokens the whole file has."""
    types: tuple[str, ...]
    """The types in which the file holds token codes and labels."""
    width: int | None
    """The length of every sequence of the file; None if they differ."""

    @property
    def piece(self) -> str:
        """The name of the piece that holds the encoded file of this block."""
        return f"encoded-{self.shard:05}"

    def lengths(self, spill: Spill) -> Ints:
        """The lengths of the block's sequences `(N,)`."""
        if self.width is not None:
            return np.full(self.last - self.first, self.width)
        return np.fromfile(spill.numbers(self.piece), np.int64, self.last - self.first, offset=8 * self.first)

    def data(self, spill: Spill, rules: Rules, rows: Ints | None = None) -> Sequences:
        """The block's sequences, or only the sequences `rows`; tokens are numbered as in all files together."""
        kind = np.dtype(self.types[0])
        offset, count = 8 * self.sequences + self.start * kind.itemsize, self.stop - self.start
        codes: Array = np.asarray(np.memmap(spill.numbers(self.piece), kind, "r", offset, count))
        lengths = self.lengths(spill)
        if rows is not None:
            begin, lengths = self.starts(spill, rows), lengths[rows]
            codes = codes[inside(begin, begin + lengths)]
        tokens = _looked_up(spill.facts(f"table-{self.shard:05}")["token"], codes)
        return Sequences(tokens, lengths, Names(range(rules.vocabulary)))

    def starts(self, spill: Spill, rows: Ints) -> Ints:
        """Where the sequences `rows` begin among the block's tokens."""
        if self.width is not None:
            return rows * self.width
        lengths = self.lengths(spill)
        return (np.cumsum(lengths) - lengths)[rows]

    def first_place(self, rules: Rules) -> int:
        """The number of the block's first place among those of all files: a token, or a sequence."""
        return self.token if rules.labelling.at_tokens else self.row

    def labels(self, spill: Spill, rules: Rules, data: Sequences) -> Array:
        """The block's labels: `(P,)` class numbers, numbered as in all files together, or `(P, m)` reals.

        Numbers of classes have the smallest type that holds them all.
        """
        place = rules.places(data)
        if place is not None:
            following: Array = data.tokens[place + 1].astype(rules.label_type)
            return following
        kind, size = np.dtype(self.types[1]), max(1, rules.reals)
        begin, end = (self.start, self.stop) if rules.labelling.at_tokens else (self.first, self.last)
        offset = 8 * self.sequences + self.tokens * np.dtype(self.types[0]).itemsize + begin * size * kind.itemsize
        label = np.fromfile(spill.numbers(self.piece), kind, (end - begin) * size, offset=offset)
        if rules.reals:
            return label.reshape(-1, size)
        return _looked_up(spill.facts(f"table-{self.shard:05}")["label"].astype(rules.label_type), label)

    def parts(self, spill: Spill, tokens: int) -> Iterator[Block]:
        """Split the block into smaller ones of at most `tokens` tokens, unless one sequence alone has more.

        They are about equally large if sequences are much shorter.
        """
        ends = np.cumsum(self.lengths(spill))
        first = start = 0
        total = self.stop - self.start
        tokens = min(tokens, -(-total // -(-total // tokens)) + int(ends[0]))
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, start + tokens, side="right")))
            stop = int(ends[last - 1])
            yield replace(
                self,
                first=self.first + first,
                last=self.first + last,
                start=self.start + start,
                stop=self.start + stop,
                row=self.row + first,
                token=self.token + start,
            )
            first, start = last, stop


def _looked_up(table: Array, codes: Array) -> Array:
    """`table[codes]`. A file in which all names occur has a table of its own row numbers, which need no look-up."""
    if np.array_equal(table, np.arange(len(table))):
        return codes.astype(table.dtype, copy=False)
    rows: Array = table[codes]  # `take` would make long integers of the codes first
    return rows


def blocks(spill: Spill, shards: int, tokens: int | None) -> list[Block]:
    """Split all files into blocks of at most `tokens` tokens, unless one sequence alone has more; None: a file each."""
    cut, row, token = list[Block](), 0, 0
    for shard in range(shards):
        facts = spill.facts(f"encoded-{shard:05}")
        sizes = int(facts["sequences"]), int(facts["tokens"])
        longest, types = int(facts["longest"]), tuple(facts["types"].tolist())
        width = longest if longest * sizes[0] == sizes[1] else None
        whole = Block(shard, 0, sizes[0], 0, sizes[1], row, token, *sizes, types, width)
        cut += [whole] if tokens is None else whole.parts(spill, tokens)
        row, token = row + sizes[0], token + sizes[1]
    return cut


def sample(spill: Spill, shards: int, rules: Rules) -> Sequences:
    """The sample by which draws are compared: the same sequences that a build in memory would take."""
    pieces = blocks(spill, shards, None)
    rows = sample_rows(
        pieces[-1].row + pieces[-1].last - pieces[-1].first, pieces[-1].token + pieces[-1].stop - pieces[-1].start
    )
    cuts = np.searchsorted(rows, [*(block.row for block in pieces), np.inf])
    parts = [
        block.data(spill, rules, rows[begin:end] - block.row)
        for block, begin, end in zip(pieces, cuts, cuts[1:], strict=False)
        if begin < end
    ]
    tokens, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "lengths"))
    return Sequences(tokens, lengths, Names(range(rules.vocabulary)))
