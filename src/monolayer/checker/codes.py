"""From stored weights and tokens to `z`, one number per point, and to how far other evaluations may be from it.

Notation: `T` tokens, `M` points; keys `s` and codes `t` `(T,)`, `z = t + o v B(q k; s)`; `B` is one number per
sequence, or one per prefix in a causal model. All conditions that the proofs put on these weights are checked here, on
the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import NUMBERS_IN_CACHE, Array, Floats, Ints
from monolayer.checker.cells import read_cells
from monolayer.checker.network import CODE, KEY, LABEL, ONE, Stored
from monolayer.checker.rounding import (
    BINARY64,
    Attention,
    BinaryFormat,
    UnhandledError,
    code_error,
    context_error,
    lift_error,
)
from monolayer.data import Sequences


class Column(NamedTuple):
    """A number for each token `(T,)`: the one at its row of `numbers`, or `numbers` themselves where there are no rows.

    What is computed of each number by itself is computed once for all tokens of a row. Rows must be those of numbers.
    """

    numbers: Floats
    rows: Ints | None = None

    def at(self, tokens: slice) -> Floats:
        """The numbers of some tokens."""
        return self.numbers[tokens] if self.rows is None else self.numbers.take(self.rows[tokens], mode="clip")

    def mapped(self, function: Callable[[Floats], Floats]) -> Column:
        """What a function makes of each number."""
        return Column(function(self.numbers), self.rows)

    def times(self, other: Column) -> Column:
        """The products of the numbers of each token in two columns."""
        if self.rows is other.rows:
            return Column(self.numbers * other.numbers, self.rows)
        return Column(self.at(slice(None)) * other.at(slice(None)))


@dataclass(frozen=True, eq=False)
class Coordinate:
    """One coordinate of the stream, computed in float64: of all tokens, a `column`, and of the begin token, `bos`.

    A token that the model has no finite vector for has NaN. `largest` bounds the absolute value before rounding. For
    ids it covers the whole vocabulary: other parts of the data may hold any id, and a softmax by table may shift by the
    score of any. For vectors, `terms` products and biases were added up, whose absolute values sum to at most `size`.
    For ids `terms` is 0: one addition, rounded to nearest, gives the same float everywhere. So it is for cells of an
    approximator, whose sums do not round.
    """

    column: Column
    bos: float
    largest: float
    size: float = 0.0
    terms: int = 0

    @property
    def flat(self) -> Floats:
        """The numbers of all tokens `(T,)`."""
        return self.column.at(slice(None))


class Stream(NamedTuple):
    """Keys and codes of all tokens."""

    key: Coordinate
    code: Coordinate


class Reads(NamedTuple):
    """What a stage reads: its four numbers of attention, and three coordinates.

    `averaged` is what attention averages, in the first stage the keys themselves. The average is added to `code`: the
    codes, or from the second stage on the exact number `(M,)` that the stage before wrote.
    """

    head: Attention
    key: Coordinate
    averaged: Coordinate
    code: Coordinate | Floats


class Codes(NamedTuple):
    """`z` `(M,)` in float64, and how far it (`own`) and any evaluation (`other`) may be from the exact one."""

    z: Floats
    own: Floats
    other: Floats


class Sums(NamedTuple):
    """`z` `(M,)` by our own evaluation, and how many terms its softmax has: `(M,)`, or `()` if all have as many.

    `before`: for each number of terms, how far its parts may be off in our evaluation, and in any other of `format`.
    """

    z: Floats
    terms: Ints
    before: tuple[Floats, Floats]
    format: BinaryFormat

    def at(self, places: Ints | slice) -> Sums:
        """The sums of some points, or of all points in another order."""
        terms = self.terms[places] if self.terms.ndim else self.terms
        return self._replace(z=self.z[places], terms=terms)

    def codes(self) -> Codes:
        """`z` with bounds on how far our evaluation, and any other of the format, may be from the exact sum."""
        in_binary64 = code_error(self.z, self.before[0][self.terms], BINARY64)
        if self.format is BINARY64:
            return Codes(self.z, in_binary64, in_binary64)
        return Codes(self.z, in_binary64, code_error(self.z, self.before[1][self.terms], self.format))


def read_attention(stored: Stored) -> list[Attention]:
    """The four numbers of attention, one set per stage, if the matrices are as the proofs need them.

    `W_Q` and `W_K` have one nonzero entry each, `W_V` and `W_O` one per stage of the readout. `W_Q` may be 0
    throughout: all scores are then exactly 0, `q = 0`, and the head averages.
    """
    if stored.short:
        raise UnhandledError(f"they are stored in {stored.config['dtype']}; a line is covered in float64 and float32")
    many = "one nonzero entry" if stored.stages == 1 else f"{stored.stages} nonzero entries"
    entries: dict[str, dict[tuple[int, int], float]] = {}
    for letter in "QKVO":
        matrix = stored[f"attention.W_{letter}"]
        places = np.argwhere(matrix != 0)
        wanted = stored.stages if letter in "VO" else 1
        if (len(places) != wanted and not (letter == "Q" and len(places) == 0)) or not np.isfinite(matrix).all():
            words = many if letter in "VO" else "one nonzero entry"
            raise UnhandledError(f"attention.W_{letter} must have {words}, numbers; it has {len(places)}")
        entries[letter] = {(int(row), int(column)): float(matrix[row, column]) for row, column in places}
        if any(abs(value) < stored.format.tiny for value in entries[letter].values()):
            raise UnhandledError(f"an entry of attention.W_{letter} is subnormal: it may be flushed to zero")
    ((b, k_reads), k) = next(iter(entries["K"].items()))
    ((a, q_reads), q) = next(iter(entries["Q"].items()), ((b, ONE), 0.0))
    heads = []
    for stage in range(1, stored.stages + 1):
        value, code = (KEY, CODE)
        if stage > 1:
            value, code = stored.value(stage), stored.value(stage) + 1
        pairs = [(v, entries["O"].get((code, row))) for (row, reads), v in entries["V"].items() if reads == value]
        # One per stage: two that read the same coordinate would add up on one code and leave another without a value.
        heads += [Attention(q, k, v, o) for v, o in pairs if o is not None and len(pairs) == 1]
    rows = {row for row, _ in entries["V"]}
    if (q_reads, k_reads, a) != (ONE, KEY, b) or len(heads) != stored.stages or len(rows) != stored.stages:
        raise UnhandledError("attention must read `one` as query, `key` as key and as value, and write onto `code`")
    return heads


def read_stream(stored: Stored, data: Sequences, rows: Ints | None) -> Stream:
    """Keys and codes of all tokens, once `check_stream` has checked the whole stream.

    `rows` `(T,)`: vocabulary rows, −1 for a token that the model does not know; None for vectors.
    """
    check_stream(stored)
    if stored.raw:
        stream, bos = read_cells(stored).numbers(data)
        if stored.config["positions"]:
            stream = stream + _at(stored["positions.weight"][:, KEY : CODE + 1], data.position).T
        return Stream(
            *(Coordinate(Column(x), x_0, max(_largest_value(x), abs(x_0))) for x, x_0 in zip(stream, bos, strict=True))
        )
    return Stream(*(read_coordinate(stored, data, rows, slot) for slot in (KEY, CODE)))


def check_stream(stored: Stored) -> None:
    """Check that every token has 1 at `one` and 0 at the label slots."""
    _check_rows(stored, stored["bos"][None], 1.0, "bos")
    if stored.config["positions"]:
        _check_rows(stored, stored["positions.weight"], 0.0, "positions.weight")
    if stored.config["tokens"] == "ids":
        table = stored["lift.weight"]
        _check_rows(stored, table[np.isfinite(table).all(axis=1)], 1.0, "lift.weight")
    else:
        _check_rows(stored, stored["lift.weight"].T, 0.0, "lift.weight")
        _check_rows(stored, stored["lift.bias"][None], 1.0, "lift.bias")


def _check_rows(stored: Stored, stream: NDArray[np.floating[Any]], one: float, name: str) -> None:
    """Check rows `(R, D)` of the tensor `name`: finite, `one` at its coordinate, 0 at label slots and later codes.

    The readout adds to the label slots and to the codes of later stages, so its sums must start at 0.
    """
    empty = [*range(LABEL, LABEL + stored.config["labels"])]
    empty += [stored.value(stage) + 1 for stage in range(2, stored.stages + 1)]
    if not (np.isfinite(stream).all() and (stream[:, ONE] == one).all() and (stream[:, empty] == 0).all()):
        raise UnhandledError(f"{name} must be finite, with {one:g} at `one` and 0 at every label slot and later code")


def read_coordinate(stored: Stored, data: Sequences, rows: Ints | None, slot: int) -> Coordinate:
    """Coordinate `slot` of every token of a memorizer. `check_stream` must have checked the stream before.

    `rows` `(T,)`: vocabulary rows, −1 for a token that the model does not know; None for vectors.
    """
    bos, lift = float(stored["bos"][slot]), stored["lift.weight"]
    place = stored["positions.weight"][:, slot] if stored.config["positions"] else np.zeros(1, lift.dtype)
    extra = _at(place, data.position) if stored.config["positions"] else place
    if rows is not None:
        # NaN or infinity anywhere in a row: 0 · NaN in the matrix products makes NaN of all that sees it.
        column = np.where(np.isfinite(lift).all(axis=1), lift[:, slot], np.nan).astype(lift.dtype)
        if stored.config["positions"] or not 0 <= rows.min() <= rows.max() < len(column):
            numbers = Column((_at(column, rows) + extra).astype(np.float64, copy=False))
        else:
            numbers = Column((column + place).astype(np.float64, copy=False), rows)
        every = lift[:, slot][~np.isnan(lift[:, slot])].astype(np.float64)
        ends = [float(end(every, initial=0.0) + end(place, initial=0.0)) for end in (np.max, np.min)]
        return Coordinate(numbers, bos, max(*map(abs, ends), abs(bos)))
    weight, bias = lift[slot].astype(np.float64), float(stored["lift.bias"][slot])
    if ((weight != 0) & (np.abs(weight) < stored.format.tiny)).any():
        raise UnhandledError("lift.weight holds a subnormal number: it may be flushed to zero")
    tokens = data.tokens.astype(lift.dtype).astype(np.float64)
    flat, size = tokens @ weight + bias + extra, np.abs(tokens) @ np.abs(weight) + abs(bias) + np.abs(extra)
    size = size + np.abs(weight).sum() * (stored.format.tiny / stored.format.unit)  # coordinates of tokens flushed
    return Coordinate(Column(flat), bos, max(_largest_value(flat), abs(bos)), _largest_value(size), len(weight) + 2)


def _at(table: Array, rows: Ints) -> Array:
    """The rows `rows` of a table; NaN for −1 and for rows beyond its end."""
    if len(rows) and len(table) > rows.max() >= rows.min() >= 0:
        return table.take(rows, axis=0)
    blank = np.full((1, *table.shape[1:]), np.nan, dtype=table.dtype)
    return np.append(table, blank, axis=0)[np.minimum(rows, len(table))]


def _largest_value(values: Floats) -> float:
    """Largest absolute value, not counting NaN, the value of unknown tokens."""
    return float(np.max(np.abs(values), where=~np.isnan(values), initial=0.0))


def read_sums(stored: Stored, data: Sequences, reads: Reads, places: Ints | None) -> Sums:
    """`z` at the labelled `places` `(M,)`, or everywhere if None.

    The query is constant, so sums over sequences suffice: O(T).
    """
    _, key, _, code = reads
    causal, per_token = stored.config["causal"], stored.labelling.at_tokens
    if isinstance(code, Coordinate) and not max(code.largest, key.size, code.size) <= stored.format.largest:
        raise UnhandledError(f"keys or codes go beyond {stored.format.largest:.3g}")
    n: Ints = 2 + data.position if causal else 1 + data.lengths  # terms in the softmax of each answer
    longest = int(n.max())
    in_binary64, other = (_error_before(longest, reads, per_token, fmt) for fmt in (BINARY64, stored.format))

    same = int(n.min()) == longest
    if per_token and not causal and not same:
        n = np.repeat(n, data.lengths)
    z = _over_prefixes(data, reads, per_token) if causal else _over_sequences(data, reads, per_token)
    terms = np.array(longest) if same else n
    if places is not None:
        z, terms = z[places], terms if same else terms[places]
    if not isinstance(code, Coordinate):
        z += code
    return Sums(z, terms, (in_binary64, other), stored.format)


def _over_sequences(data: Sequences, reads: Reads, per_token: bool) -> Floats:
    """`z` of all tokens or, unless `per_token`, sequences, where attention sees all of a sequence.

    What the stage before wrote is not added yet. Some sequences are summed at a time, whose numbers stay in the cache.
    """
    above, below = _weighted(reads)
    z = np.empty(len(data.tokens) if per_token else len(data))
    for some in _stretches(data):
        tokens = slice(int(data.offsets[some.start]), int(data.offsets[some.stop]))
        starts = data.offsets[some] - tokens.start
        over, under = (np.add.reduceat(column.at(tokens), starts) + first for column, first in (above, below))
        y = _written(reads.head, over, under)
        if per_token:
            y = np.repeat(y, data.lengths[some])
        if isinstance(reads.code, Coordinate):
            y += reads.code.column.at(tokens) if per_token else reads.code.bos
        z[tokens if per_token else some] = y
    return z


def _over_prefixes(data: Sequences, reads: Reads, per_token: bool) -> Floats:
    """`z` of all tokens of a causal model; what the stage before wrote is not added yet."""
    z = _written(reads.head, *(sums(column.at(slice(None)), first, data, True) for column, first in _weighted(reads)))
    if isinstance(reads.code, Coordinate):
        z += reads.code.flat if per_token else reads.code.bos
    return z


def _weighted(reads: Reads) -> tuple[tuple[Column, float], tuple[Column, float]]:
    """What attention adds up, of tokens and of the begin token: values times weights, and weights `exp(q k s)`."""
    head, key, averaged, _ = reads
    weight = key.column.mapped(lambda keys: np.exp(head.q * (head.k * keys)))
    weight_0 = float(np.exp(head.q * (head.k * key.bos)))
    return (weight.times(averaged.column), weight_0 * averaged.bos), (weight, weight_0)


def _written(head: Attention, above: Floats, below: Floats) -> Floats:
    """What attention writes, from the sums of weighted values and of weights."""
    y: Floats = head.o * (head.v * (above / below))
    return y


def _stretches(data: Sequences) -> Iterator[slice]:
    """Sequences one after the other, so many at a time that their tokens fit into the cache; at least one."""
    start = 0
    while start < len(data):
        most = int(np.searchsorted(data.offsets, data.offsets[start] + NUMBERS_IN_CACHE, side="right")) - 1
        yield slice(start, max(most, start + 1))
        start = max(most, start + 1)


def _error_before(longest: int, reads: Reads, per_token: bool, fmt: BinaryFormat) -> Floats:
    """Bounds on the errors of `t` and `y` together, an entry per number of terms of the softmax `(1 + longest,)`."""
    head, key, averaged, code = reads
    ds, dv = lift_error(key.size, key.terms, fmt), lift_error(averaged.size, averaged.terms, fmt)
    n = np.maximum(np.arange(longest + 1.0), 1.0)
    bound: Floats = context_error(n, head, key.largest + 2.0 * ds, ds, fmt, (averaged.largest + 2.0 * dv, dv))
    if isinstance(code, Coordinate) and per_token:  # else a stored number, or what the stage before wrote
        bound = bound + lift_error(code.size, code.terms, fmt)
    return bound


def sums(terms: Floats, first: float, data: Sequences, causal: bool) -> Floats:
    """Sums of `terms` `(T,)` over sequences `(N,)`, or if `causal` over prefixes `(T,)`, plus the number `first`."""
    if not causal:
        whole: Floats = np.add.reduceat(terms, data.offsets[:-1]) + first
        return whole
    out = np.empty_like(terms)
    for length in np.unique(data.lengths):  # one running sum over all tokens would carry errors between sequences
        rows = data.offsets[:-1][data.lengths == length, None] + np.arange(length)
        out[rows] = np.cumsum(terms[rows], axis=1)
    out += first
    return out
