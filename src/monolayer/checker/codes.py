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

from monolayer.checker.cells import read_cells
from monolayer.checker.rounding import (
    BINARY64,
    Attention,
    Floats,
    Format,
    UnhandledError,
    code_error,
    context_error,
    lift_error,
)
from monolayer.checker.stored import CODE, KEY, LABEL, ONE, Stored
from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.theory.balls import precision


@dataclass(frozen=True, eq=False)
class Stream:
    """Keys and codes of all tokens `(T,)`, by our own evaluation, and what their rounding error depends on.

    Vectors: `terms` products and biases were added up for each, whose absolute values sum to at most `size`
    (key, code). Ids: `terms` is 0, since one addition, rounded to nearest, gives the same float everywhere; cells of
    an approximator likewise, since their sums do not round.
    A token that the model has no finite vector for has key and code NaN. `bos`: key and code of the begin token.
    `reach`: largest key in the vocabulary, also of ids that the data lack: a softmax by table may shift by its score.
    """

    key: Floats
    code: Floats
    bos: tuple[float, float]
    size: tuple[float, float] = (0.0, 0.0)
    terms: int = 0
    reach: float = 0.0


@dataclass(frozen=True, eq=False)
class Codes:
    """`z` `(M,)` by our own evaluation; how far it, and any other evaluation, may be from the true `z`.

    `before`: the same for another evaluation before its last operation, the rounded sum `t + y`.
    """

    z: Floats
    own: Floats
    other: Floats
    before: Floats


def read_attention(stored: Stored) -> Attention:
    """The four numbers of attention, if the matrices are as the proofs want them: one nonzero entry each.

    `W_Q` may be 0 throughout: all scores are then exactly 0, `q = 0`, and the head averages.
    """
    entry: list[tuple[int | None, int, float]] = []
    for letter in "QKVO":
        matrix = stored[f"attention.W_{letter}"]
        places = np.argwhere(matrix != 0)
        if letter == "Q" and len(places) == 0:
            entry.append((None, ONE, 0.0))
            continue
        if len(places) != 1 or not np.isfinite(matrix).all():
            raise UnhandledError(f"attention.W_{letter} must have one nonzero entry, a number; it has {len(places)}")
        if abs(matrix[tuple(places[0])]) < stored.format.tiny:
            raise UnhandledError(f"the entry of attention.W_{letter} is subnormal: it may be flushed to zero")
        entry.append((int(places[0, 0]), int(places[0, 1]), float(matrix[tuple(places[0])])))
    (a, q_reads, q), (b, k_reads, k), (c, v_reads, v), (o_writes, d, o) = entry
    if (q_reads, k_reads, v_reads, o_writes) != (ONE, KEY, KEY, CODE) or a not in (None, b) or c != d:
        raise UnhandledError("attention must read `one` as query, `key` as key and as value, and write onto `code`")
    return Attention(q, k, v, o)


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
    """Finite; `one` as it must be; nothing in the label slots, where the readout's sums start."""
    labels = stream[:, LABEL : LABEL + stored.config["labels"]]
    if not (np.isfinite(stream).all() and (stream[:, ONE] == one).all() and (labels == 0).all()):
        raise UnhandledError(f"{name} must be finite, with {one:g} at `one` and 0 at every label slot")


def _largest(values: Floats) -> float:
    """Largest absolute value, unknown tokens (NaN) left out."""
    return float(np.max(np.abs(values), where=~np.isnan(values), initial=0.0))


def read_codes(stored: Stored, data: Sequences, stream: Stream, head: Attention, places: Ints | None) -> Codes:
    """`z` at the labelled `places` `(M,)` (None: everywhere), by segment sums: O(T), since the query is constant."""
    (bos_key, bos_code), key = stream.bos, stream.key
    causal, per_token = stored.config["causal"], stored.config["per"] == "token"
    if not max(_largest(stream.code), *stream.size, abs(bos_code)) <= stored.format.largest:
        raise UnhandledError(f"keys or codes go beyond {stored.format.largest:.3g}")
    # Terms in the softmax of each answer; the begin-of-sequence token of a causal model sees only itself.
    n: Ints = (2 + data.position if per_token else np.ones(len(data), np.int64)) if causal else 1 + data.lengths
    S = max(_largest(key), abs(bos_key), stream.reach)
    formats = (BINARY64, stored.format)
    bounds = [_error_before(int(n.max()), stream, head, S, per_token, fmt) for fmt in formats]

    weight, weight_0 = np.exp(head.q * (head.k * key)), np.exp(head.q * (head.k * bos_key))
    if causal and not per_token:
        context = np.full(len(data), bos_key)
    else:
        above = _sums(weight * key, weight_0 * bos_key, data, causal)
        context = above / _sums(weight, weight_0, data, causal)
    y = head.o * (head.v * context)
    if per_token and not causal:
        y, n = np.repeat(y, data.lengths), np.repeat(n, data.lengths)
    z: Floats = stream.code + y if per_token else bos_code + y
    if places is not None:
        z, n = z[places], n[places]
    before = [bound[n] for bound in bounds]
    own = code_error(z, before[0], BINARY64)
    return Codes(z, own, own if stored.format is BINARY64 else code_error(z, before[1], stored.format), before[1])


def _error_before(longest: int, stream: Stream, head: Attention, S: float, per_token: bool, fmt: Format) -> Floats:
    """Bounds on the errors of `t` and `y` together, by the number of terms in the softmax `(1 + longest,)`."""
    ds, dt = (lift_error(size, stream.terms, fmt) for size in stream.size)
    n = np.maximum(np.arange(longest + 1.0), 1.0)
    bound: Floats = context_error(n, head, S + 2.0 * ds, ds, fmt) + (dt if per_token else 0.0)
    return bound


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
) -> tuple[Floats, Floats]:
    """The least and the largest binary64 number that `t + y` rounds to, if it is within `error` of the true `z`.

    By ball arithmetic; rounding is monotone, so the ends of the interval rounded are the ends of what it rounds
    to. `points` `(P,)` are tokens, or sequences for a model with one label a sequence: few, so a loop will do.
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
            context = sum(w * key for w, key in zip(weights, keys, strict=True)) / sum(weights)
            z = (_coordinate(stored, data, stream, point, CODE) if per_token else bos_code) + kappa * context
            low[i], high[i] = float((z - arb(e)).lower()), float((z + arb(e)).upper())
    return low, high


def _coordinate(stored: Stored, data: Sequences, stream: Stream, token: int, which: int) -> Any:
    """Key or code of one token as a ball."""
    if stream.terms == 0:  # one float everywhere
        return arb(float((stream.key if which == KEY else stream.code)[token]))
    place = stored["positions.weight"][data.position[token], which] if stored.config["positions"] else None
    row = stored["lift.weight"][which]
    pairs = zip(row.tolist(), data.tokens[token].astype(row.dtype).tolist(), strict=True)
    start = arb(float(stored["lift.bias"][which])) + arb(0.0 if place is None else float(place))
    return sum((arb(w) * arb(x) for w, x in pairs), start)
