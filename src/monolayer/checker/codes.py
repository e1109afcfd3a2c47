"""From stored weights and tokens to `z`, one number a point, and to how far other evaluations may be from it.

Notation: `T` tokens, keys `s` and codes `t` `(T,)`, `z = t + o v B(q k; s)`; `B` is one number a sequence, or one a
prefix in a causal model. Every condition on the weights that the proofs use is checked here, on the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.checker.cells import read_cells
from monolayer.checker.rounding import (
    BINARY64,
    Attention,
    Format,
    UnhandledError,
    code_error,
    context_error,
    lift_error,
)
from monolayer.checker.stored import CODE, KEY, LABEL, ONE, Stored
from monolayer.data import Sequences
from monolayer.theory.balls import precision


@dataclass(frozen=True, eq=False)
class Stream:
    """Keys and codes of all tokens `(T,)`, by our own evaluation, and what their rounding error depends on.

    Vectors: `terms` products and biases were added up for each, whose absolute values sum to at most `size`
    (key, code). Ids: `terms` is 0, since one addition, rounded to nearest, gives the same float everywhere; cells of
    an approximator likewise, since their sums do not round.
    A token that the model has no finite vector for has key and code NaN. `bos`: key and code of the begin token.
    `reach`: largest key in the vocabulary, also of ids that the data lack: a softmax by table may shift by its score.
    `values`: for each further stage the largest number that it averages, where these tokens are a part of the data.
    """

    key: Floats
    code: Floats
    bos: tuple[float, float]
    size: tuple[float, float] = (0.0, 0.0)
    terms: int = 0
    reach: float = 0.0
    values: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Codes:
    """`z` `(M,)` by our own evaluation; how far it, and any other evaluation, may be from the true `z`.

    `before`: the same for another evaluation before its last operation, the rounded sum `t + y`.
    """

    z: Floats
    own: Floats
    other: Floats
    before: Floats


def read_attention(stored: Stored) -> list[Attention]:
    """The four numbers of attention, if the matrices are as the proofs want them; one set a value.

    `W_Q` and `W_K` have one nonzero entry each, `W_V` and `W_O` one a stage of the readout. `W_Q` may be 0 throughout:
    all scores are then exactly 0, `q = 0`, and the head averages.
    """
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
    found = []
    for stage in range(1, stored.stages + 1):
        value, code = (KEY, CODE)
        if stage > 1:
            value, code = stored.value(stage), stored.value(stage) + 1
        pairs = [(v, entries["O"].get((code, row))) for (row, reads), v in entries["V"].items() if reads == value]
        # One a stage: two that read the same coordinate would add up on one code and leave another without a value.
        found += [Attention(q, k, v, o) for v, o in pairs if o is not None and len(pairs) == 1]
    rows = {row for row, _ in entries["V"]}
    if (q_reads, k_reads, a) != (ONE, KEY, b) or len(found) != stored.stages or len(rows) != stored.stages:
        raise UnhandledError("attention must read `one` as query, `key` as key and as value, and write onto `code`")
    return found


def read_stream(stored: Stored, data: Sequences, rows: Ints | None) -> Stream:
    """Keys and codes, after checking that every token has `one` = 1 and label slots 0.

    `rows` `(T,)` are vocabulary rows, −1 for a token that the model does not know; None for vectors.
    """
    _plain(stored, stored["bos"][None], 1.0, "bos")
    bos = float(stored["bos"][KEY]), float(stored["bos"][CODE])
    blank = np.full((1, stored.config["width"]), np.nan, dtype=stored["bos"].dtype)
    extra = None
    if stored.config["positions"]:
        _plain(stored, stored["positions.weight"], 0.0, "positions.weight")
        places = np.append(stored["positions.weight"], blank, axis=0)
        extra = places[np.minimum(data.position, len(places) - 1), KEY : CODE + 1]
    if rows is not None:
        table = np.append(stored["lift.weight"], blank, axis=0)
        # NaN or infinity anywhere in a row: 0 · NaN in the matrix products makes NaN of all that sees it.
        table[~np.isfinite(table).all(axis=1)] = np.nan
        _plain(stored, table[~np.isnan(table[:, ONE])], 1.0, "lift.weight")
        key, code = table[:, KEY][rows], table[:, CODE][rows]
        reach = 0.0
        if extra is not None:
            key, code = key + extra[:, 0], code + extra[:, 1]
        else:
            reach = _largest(stored["lift.weight"][:, KEY].astype(np.float64))
        return Stream(key.astype(np.float64, copy=False), code.astype(np.float64, copy=False), bos, reach=reach)
    weight, bias = stored["lift.weight"], stored["lift.bias"]
    _plain(stored, weight.T, 0.0, "lift.weight")
    _plain(stored, bias[None], 1.0, "lift.bias")
    if stored.raw:
        cell_key, cell_code, bos = read_cells(stored).numbers(data, bos)
        extra = np.zeros((1, 2)) if extra is None else extra
        return Stream(cell_key + extra[:, 0], cell_code + extra[:, 1], bos)
    tokens = data.tokens.astype(weight.dtype).astype(np.float64)
    reads, add = weight[KEY : CODE + 1].T.astype(np.float64), bias[KEY : CODE + 1].astype(np.float64)
    if ((reads != 0) & (np.abs(reads) < stored.format.tiny)).any():
        raise UnhandledError("lift.weight holds a subnormal number: it may be flushed to zero")
    value, size = tokens @ reads + add, np.abs(tokens) @ np.abs(reads) + np.abs(add)
    size += np.abs(reads).sum(axis=0) * (stored.format.tiny / stored.format.unit)  # coordinates of tokens flushed
    if extra is not None:
        value, size = value + extra, size + np.abs(extra)
    sizes = _largest(size[:, 0]), _largest(size[:, 1])
    return Stream(value[:, 0], value[:, 1], bos, sizes, weight.shape[1] + 2)


def _plain(stored: Stored, stream: NDArray[np.floating[Any]], one: float, name: str) -> None:
    """Finite; `one` as it must be; nothing in the label slots, where the readout's sums start, nor in later codes."""
    empty = [*range(LABEL, LABEL + stored.config["labels"])]
    empty += [stored.value(stage) + 1 for stage in range(2, stored.stages + 1)]
    if not (np.isfinite(stream).all() and (stream[:, ONE] == one).all() and (stream[:, empty] == 0).all()):
        raise UnhandledError(f"{name} must be finite, with {one:g} at `one` and 0 at every label slot and later code")


@dataclass(frozen=True, eq=False)
class Value:
    """What a further stage averages: of all tokens `(T,)`, of the begin token; `size` and `terms` as in `Stream`.

    `reach`: the largest in all of the data, where these tokens are a part of them.
    """

    flat: Floats
    bos: float
    slot: int
    size: float = 0.0
    terms: int = 0
    reach: float = 0.0

    @property
    def largest(self) -> float:
        """`T` of Lemma 13, before rounding."""
        return max(_largest(self.flat), abs(self.bos), self.reach)


def read_value(stored: Stored, data: Sequences, rows: Ints | None, slot: int) -> Value:
    """Coordinate `slot` of every token, after `read_stream` has looked at all of the stream."""
    bos, extra = float(stored["bos"][slot]), None
    if stored.config["positions"]:
        column = np.append(stored["positions.weight"][:, slot], stored["bos"].dtype.type(np.nan))
        extra = column[np.minimum(data.position, len(column) - 1)]
    if rows is not None:
        table = np.append(stored["lift.weight"][:, slot], stored["bos"].dtype.type(np.nan))
        flat = table[rows] if extra is None else table[rows] + extra
        return Value(flat.astype(np.float64, copy=False), bos, slot)
    weight, bias = stored["lift.weight"][slot].astype(np.float64), float(stored["lift.bias"][slot])
    if ((weight != 0) & (np.abs(weight) < stored.format.tiny)).any():
        raise UnhandledError("lift.weight holds a subnormal number: it may be flushed to zero")
    tokens = data.tokens.astype(stored["lift.weight"].dtype).astype(np.float64)
    flat, size = tokens @ weight + bias, np.abs(tokens) @ np.abs(weight) + abs(bias)
    size = size + np.abs(weight).sum() * (stored.format.tiny / stored.format.unit)  # coordinates of tokens flushed
    if extra is not None:
        flat, size = flat + extra, size + np.abs(extra)
    return Value(flat, bos, slot, _largest(size), len(weight) + 2)


def largest_numbers(stored: Stored, data: Sequences, rows: Ints) -> tuple[float, ...]:
    """The largest key of any token of the data, and of what each further stage averages."""
    slots = [stored.value(stage) for stage in range(2, stored.stages + 1)]
    key = _largest(read_stream(stored, data, rows).key)
    return (key, *(read_value(stored, data, rows, slot).largest for slot in slots))


def _largest(values: Floats) -> float:
    """Largest absolute value, unknown tokens (NaN) left out."""
    return float(np.max(np.abs(values), where=~np.isnan(values), initial=0.0))


def read_codes(
    stored: Stored,
    data: Sequences,
    stream: Stream,
    head: Attention,
    places: Ints | None,
    value: Value | None = None,
    number: Floats | None = None,
) -> Codes:
    """`z` at the labelled `places` `(M,)` (None: everywhere), by segment sums: O(T), since the query is constant.

    For a further stage: `value` in place of the keys, and `number` `(M,)`, exact, in place of the codes.
    """
    (bos_key, bos_code), key = stream.bos, stream.key
    causal, per_token = stored.config["causal"], stored.config["per"] == "token"
    if not max(_largest(stream.code), *stream.size, abs(bos_code)) <= stored.format.largest:
        raise UnhandledError(f"keys or codes go beyond {stored.format.largest:.3g}")
    # Terms in the softmax of each answer; the begin-of-sequence token of a causal model sees only itself.
    n: Ints = (2 + data.position if per_token else np.ones(len(data), np.int64)) if causal else 1 + data.lengths
    S = max(_largest(key), abs(bos_key), stream.reach)
    formats = (BINARY64, stored.format)
    bounds = [_error_before(int(n.max()), stream, head, S, per_token, value, fmt) for fmt in formats]

    averaged, bos_averaged = (key, bos_key) if value is None else (value.flat, value.bos)
    weight, weight_0 = np.exp(head.q * (head.k * key)), np.exp(head.q * (head.k * bos_key))
    if causal and not per_token:
        context = np.full(len(data), bos_averaged)
    else:
        above = _sums(weight * averaged, weight_0 * bos_averaged, data, causal)
        context = above / _sums(weight, weight_0, data, causal)
    y = head.o * (head.v * context)
    if per_token and not causal:
        y, n = np.repeat(y, data.lengths), np.repeat(n, data.lengths)
    if number is None:
        z: Floats = stream.code + y if per_token else bos_code + y
        z, n = (z, n) if places is None else (z[places], n[places])
    else:
        y, n = (y, n) if places is None else (y[places], n[places])
        z = number + y
    before = [bound[n] for bound in bounds]
    own = code_error(z, before[0], BINARY64)
    return Codes(z, own, own if stored.format is BINARY64 else code_error(z, before[1], stored.format), before[1])


def _error_before(
    longest: int, stream: Stream, head: Attention, S: float, per_token: bool, value: Value | None, fmt: Format
) -> Floats:
    """Bounds on the errors of `t` and `y` together, by the number of terms in the softmax `(1 + longest,)`."""
    ds, dt = (lift_error(size, stream.terms, fmt) for size in stream.size)
    n = np.maximum(np.arange(longest + 1.0), 1.0)
    if value is None:
        bound: Floats = context_error(n, head, S + 2.0 * ds, ds, fmt) + (dt if per_token else 0.0)
        return bound
    dv = lift_error(value.size, value.terms, fmt)
    further: Floats = context_error(n, head, S + 2.0 * ds, ds, fmt, (value.largest + 2.0 * dv, dv))
    return further


def _sums(terms: Floats, first: float, data: Sequences, causal: bool) -> Floats:
    """Sums over each sequence `(N,)`, or over each of its prefixes `(T,)`, with the begin-of-sequence term."""
    if not causal:
        whole: Floats = np.add.reduceat(terms, data.offsets[:-1]) + first
        return whole
    out = np.empty_like(terms)
    for length in np.unique(data.lengths):  # one running sum over all tokens would carry errors between sequences
        rows = data.offsets[:-1][data.lengths == length, None] + np.arange(length)
        out[rows] = np.cumsum(terms[rows], axis=1)
    out += first
    return out


def true_codes(
    stored: Stored,
    data: Sequences,
    stream: Stream,
    head: Attention,
    points: Ints,
    error: Floats,
    bits: int = 192,
    value: Value | None = None,
    number: Floats | None = None,
) -> tuple[Floats, Floats]:
    """The least and the largest binary64 number that `t + y` rounds to, if it is within `error` of the true `z`.

    By ball arithmetic; rounding is monotone, so the ends of the interval rounded are the ends of what it rounds
    to. `points` `(P,)` are tokens, or sequences for a model with one label a sequence: few, so a loop will do.
    `value` and `number` `(P,)`: as for `read_codes`.
    """
    causal, per_token = stored.config["causal"], stored.config["per"] == "token"
    low, high = np.empty(len(points)), np.empty(len(points))
    with precision(bits):
        bos_key, bos_code = (arb(value) for value in stream.bos)
        scale, kappa = arb(head.q) * arb(head.k), arb(head.o) * arb(head.v)
        for i, (point, e) in enumerate(zip(points.tolist(), error.tolist(), strict=True)):
            row = int(data.sequence[point]) if per_token else point
            start, stop = int(data.offsets[row]), int(data.offsets[row + 1])
            if causal:
                stop = point + 1 if per_token else start
            keys = [bos_key, *(_coordinate(stored, data, stream, token, KEY) for token in range(start, stop))]
            weights = [(scale * key).exp() for key in keys]
            if value is None:
                averaged = keys
            else:
                averaged = [arb(value.bos), *(_number(stored, data, value, token) for token in range(start, stop))]
            context = sum(w * each for w, each in zip(weights, averaged, strict=True)) / sum(weights)
            if number is not None:
                code = arb(float(number[i]))
            else:
                code = _coordinate(stored, data, stream, point, CODE) if per_token else bos_code
            z = code + kappa * context
            low[i], high[i] = float((z - arb(e)).lower()), float((z + arb(e)).upper())
    return low, high


def _coordinate(stored: Stored, data: Sequences, stream: Stream, token: int, which: int) -> Any:
    """Key or code of one token as a ball."""
    flat = stream.key if which == KEY else stream.code
    return _number(stored, data, Value(flat, 0.0, which, terms=stream.terms), token)


def _number(stored: Stored, data: Sequences, value: Value, token: int) -> Any:
    """A coordinate of one token as a ball."""
    if value.terms == 0:  # one float everywhere
        return arb(float(value.flat[token]))
    place = stored["positions.weight"][data.position[token], value.slot] if stored.config["positions"] else None
    row = stored["lift.weight"][value.slot]
    pairs = zip(row.tolist(), data.tokens[token].astype(row.dtype).tolist(), strict=True)
    start = arb(float(stored["lift.bias"][value.slot])) + arb(0.0 if place is None else float(place))
    return sum((arb(w) * arb(x) for w, x in pairs), start)
