"""Some sequences of an encoded file as what the construction works on: `Tokens` and a `Target`.

Every pass but the first goes over blocks of at most some number of tokens, whatever the files are like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.cluster.spill import Spill
from monolayer.construct.line.separate import inside
from monolayer.construct.target import Target
from monolayer.data import Names, Sequences
from monolayer.data.labels import Per

if TYPE_CHECKING:
    from monolayer.construct.line.draw import Tokens


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
    temperature: float | None
    order: Ints | None
    """The rank of each token among the codes (`construct/line/build.py`)."""
    reals: int = 0
    """`m`, the size of real labels; 0 for classes."""
    mended: bool = False
    """Whether labels that contradicted others are overruled (`settle.py`)."""

    def tokens(self, data: Sequences) -> Tokens:
        """The sequences as PyTorch sees them."""
        import torch

        from monolayer.construct.line.alphabet import Ids
        from monolayer.construct.line.draw import Tokens

        position = torch.from_numpy(data.position) if self.positions else None
        return Tokens(
            torch.from_numpy(data.tokens),
            torch.from_numpy(data.lengths),
            Ids(self.vocabulary, self.order),
            position,
            self.causal,
            self.temperature,
            self.longest,
        )


@dataclass(frozen=True)
class Layout:
    """How an encoded file lies: its tokens, its sequences, the tokens of the longest, and the types of its columns."""

    tokens: int
    sequences: int
    longest: int
    types: tuple[str, ...]

    @property
    def rectangular(self) -> bool:
        """Whether all sequences have the same length."""
        return self.tokens == self.sequences * self.longest


@dataclass(frozen=True)
class Block:
    """Sequences `first` to `last` of file `shard`, which are its tokens `start` to `stop`."""

    shard: int
    first: int
    last: int
    start: int
    stop: int
    layout: Layout

    def columns(self, spill: Spill, rules: Rules, read: Any = np.fromfile) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """The codes of its tokens, and of its labels unless these are the next tokens; real labels themselves.

        `read`: as NumPy reads files.
        """
        file, types = spill.numbers(f"encoded-{self.shard:05}"), [np.dtype(name) for name in self.layout.types]
        tokens = read(file, types[0], self.stop - self.start, offset=self.start * types[0].itemsize)
        if rules.next_token:
            return tokens, None
        begin, end = (self.start, self.stop) if rules.per == "token" else (self.first, self.last)
        size = max(1, rules.reals)
        offset = self.layout.tokens * types[0].itemsize + begin * size * types[1].itemsize
        labels: NDArray[Any] = read(file, types[1], (end - begin) * size, offset=offset)
        return tokens, labels.reshape(-1, size) if rules.reals else labels

    def lengths(self, spill: Spill) -> Ints:
        """Those of its sequences."""
        count, layout = self.last - self.first, self.layout
        if layout.rectangular:
            return np.full(count, layout.longest, dtype=np.int64)
        file = spill.numbers(f"encoded-{self.shard:05}")
        return np.fromfile(file, np.int64, count, offset=file.stat().st_size - 8 * (layout.sequences - self.first))


def mapped(file: Path, kind: np.dtype[Any], count: int, offset: int) -> NDArray[Any]:
    """Numbers of a file that are read when they are looked at."""
    return np.memmap(file, kind, "r", offset, count)


def blocks(spill: Spill, shard: int, tokens: int) -> Iterator[Block]:
    """The blocks of a file, of at most so many tokens unless one sequence alone has more."""
    facts = spill.facts(f"encoded-{shard:05}")
    tokens_in_all, sequences, longest = (int(facts[key]) for key in ("tokens", "sequences", "longest"))
    layout = Layout(tokens_in_all, sequences, longest, tuple(facts["types"].tolist()))
    whole = Block(shard, 0, layout.sequences, 0, layout.tokens, layout)
    for rows, places in stretches(whole.lengths(spill), tokens):
        yield Block(shard, rows.start, rows.stop, places.start, places.stop, layout)


def stretches(lengths: Ints, tokens: int) -> Iterator[tuple[slice, slice]]:
    """Sequences that have at most so many tokens together, or one that alone has more; and these tokens."""
    ends = np.cumsum(lengths)
    first = start = 0
    while first < len(ends):
        last = max(first + 1, int(np.searchsorted(ends, start + tokens, side="right")))
        stop = int(ends[last - 1])
        yield slice(first, last), slice(start, stop)
        first, start = last, stop


@dataclass(frozen=True, eq=False)
class Raw:
    """A block as it lies in its file: codes of tokens `(T,)` and labels `(P,)`, and the row of each code.

    Real labels lie there themselves `(P, m)`.
    """

    tokens: NDArray[Any]
    lengths: Ints
    labels: NDArray[Any] | None
    token_row: Ints
    label_row: Ints
    overruled: tuple[Ints, Ints] | None = None
    """Places, among the labelled ones, whose next token is not their label, and their labels."""

    def select(self, rows: Ints, per: Per) -> tuple[Raw, Ints]:
        """Some of the sequences, with their labels, and which of the labelled places these are."""
        assert self.labels is not None
        lengths, begin = self.lengths[rows], (np.cumsum(self.lengths) - self.lengths)[rows]
        flat = inside(begin, begin + lengths)
        places = rows if per == "sequence" else flat
        return replace(self, tokens=self.tokens[flat], lengths=lengths, labels=self.labels[places]), places


def raw(spill: Spill, block: Block, rules: Rules, read: Any = np.fromfile) -> Raw:
    """What the file of a block says about it."""
    table = spill.facts(f"table-{block.shard:05}")
    tokens, labels = block.columns(spill, rules, read)
    found = Raw(tokens, block.lengths(spill), labels, table["token"], table["label"])
    if not rules.mended:
        return found
    now = spill.facts(mended_name(block))
    if labels is None:
        return replace(found, overruled=(now["place"], now["label"]))
    labels = np.array(labels) if rules.reals else table["label"].take(labels)
    labels[now["place"]] = now["label"]  # maybe one that the file has no code for
    return replace(found, labels=labels, label_row=np.arange(rules.labels))


def mended_name(block: Block) -> str:
    """The piece with the labels of a block that are overruled."""
    return f"mended-{block.shard:05}-{block.first}"


def load(spill: Spill, block: Block, rules: Rules) -> tuple[Sequences, Target]:
    """The block in the row numbers of all files; its vocabulary is not looked at."""
    return named(raw(spill, block, rules), rules)


def named(block: Raw, rules: Rules) -> tuple[Sequences, Target]:
    """The same, of a block that is read already."""
    data = Sequences(block.token_row.take(block.tokens), block.lengths, Names(range(rules.vocabulary)))
    if rules.reals:
        assert block.labels is not None
        number = np.arange(len(block.labels))
        return data, Target(number, block.labels, rules.per, None, False, by_value=True)
    target = _target(data, rules, None if block.labels is None else block.label_row.take(block.labels))
    if block.overruled is not None:
        number = target.number.copy()
        number[block.overruled[0]] = block.overruled[1]
        target = replace(target, number=number)
    return data, target


def label_of(target: Target) -> NDArray[Any]:
    """The labels of a block: `(P,)` numbers of classes, or `(P, m)` reals."""
    return target.table if target.by_value else target.number


def _target(data: Sequences, rules: Rules, number: Ints | None) -> Target:
    """Label numbers as given, or the next tokens."""
    place: Ints | None = None
    if number is None:
        place = np.flatnonzero(data.position < np.repeat(data.lengths, data.lengths) - 1)
        number = data.tokens[place + 1]
    return Target(number, np.zeros((0, 1)), rules.per, None, False, place, rules.next_token)


def sample(spill: Spill, pieces: list[Block], rules: Rules, about: int) -> tuple[Sequences, Target]:
    """Some sequences of all blocks, with `about` so many tokens, and which places of them have labels.

    One of every so many, at random, for data may have a rhythm: of rows that alternate one kind alone would be seen.
    What is not taken is not read, nor are labels: all are 0.
    """
    every = max(1, sum(block.stop - block.start for block in pieces) // about)
    tables = {shard: spill.facts(f"table-{shard:05}") for shard in {block.shard for block in pieces}}
    codes, sizes = [], []
    for block in pieces:
        table, lengths = tables[block.shard], block.lengths(spill)
        rows = np.arange(0, len(lengths), every)
        random = np.random.default_rng([block.shard, block.first])  # the same when a build goes on
        rows = np.minimum(rows + random.integers(0, every, len(rows)), len(lengths) - 1)
        begin, some = (np.cumsum(lengths) - lengths)[rows], lengths[rows]
        flat = inside(begin, begin + some)
        token, _ = block.columns(spill, rules, mapped)
        sizes.append(some)
        codes.append(table["token"].take(token[flat]))
    data = Sequences(np.concatenate(codes), np.concatenate(sizes), Names(range(rules.vocabulary)))
    labels = None if rules.next_token else np.zeros(len(data.tokens if rules.per == "token" else data), dtype=np.int64)
    return data, _target(data, rules, labels)
