"""Softmax attention with scores of rank one, in time linear in the sequence.

Notation: query `λ_k`, key `s_l` and value `v_l` of a token; the score is `λ_k s_l`, and the answer

    A(λ_k) = G(λ_k) / F(λ_k),    F(λ) = Σ_l e^{λ (s_l − s*)},    G(λ) = Σ_l v_l e^{λ (s_l − s*)}

with any `s*`, which cancels: the middle of the keys, so that no exponent passes half of `|λ| spread`, where `spread =
max s − min s`; where that would overflow, all scores are computed. `F` and `G` are functions of one variable: `n`
answers need `n` values of them, not `n²` scores. Cut the range of the queries into pieces, and that of the keys too, so
that on each the exponent moves by at most `PIECE_WIDTH / 2` to either side of its middle; on each piece interpolate at
`NODES` Chebyshev points.

*Error.* On a piece of queries a term is, up to a factor, `e^{c x}` or a slower exponential on [−1, 1], where
`c = PIECE_WIDTH / 2`. Chebyshev interpolation in `p` points errs by at most `4 Σ_{j≥p} I_j(c)` (`I_j` the modified
Bessel functions, the coefficients of `e^{cx}`), and the term itself is at least `e^{−c}`. So the error is a share
`ε = 4 e^c Σ_{j≥p} I_j(c)` of the term: 2·10⁻¹⁷ for
`c = 2`, `p = 20`. The same holds for a piece of keys. With both, the error of the second passes through the first,
which multiplies the largest value on a piece by at most 2.9 (the Lebesgue constant of 20 points), and values on a piece
differ by at most `e^{2c} = 55`: a share of `160 ε` in all, below 10⁻¹⁴, of every term, so of `F`, and of
`Σ |v_l| e^{…}` for `G`: numerator and denominator apart. (Their quotient has poles near the real line, and
interpolating it fails.) What is left is rounding: some dozens of roundings, and as many as the largest `|λ| spread`, of
the size of `max |v|`.

*Cost.* Every key gives its `NODES` polynomials to the nodes of its own piece, the nodes of keys meet those of queries,
some hundreds of either, in one matrix of exponentials, and every query takes its `NODES` polynomials times the
coefficients of its piece: products of matrices on either side, and no exponential of a token at all.
A causal layer has another sum for every query: running sums where all queries are equal, else all scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from monolayer.errors import DataError

PIECE_WIDTH, NODES = 4.0, 20
FEW_QUERIES = 512
"""Up to this many queries the scores themselves are cheaper, by measurement."""
_REACH = 600.0
"""Largest `|λ| spread` that is interpolated: no exponent passes half of it, so every sum is far from 0 and infinity."""
_RUN = 128
_NUMBERS_PER_BLOCK = 1 << 15
"""Numbers times pieces looked at together on a processor, for its cache; 64 times as many elsewhere, for fewer
launches."""
_NUMBERS_PER_PRODUCT = 1 << 10
"""Numbers in one product of matrices on a device."""
_SCORES = 1 << 22
"""Scores held at a time where they are computed: 32 MiB."""


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
    """`softmax(q kᵀ) v` for queries and keys of one number per token, in O(n + l).

    - `q`: queries `(…, n)`.
    - `k`: keys `(…, l)`. Scores are not scaled.
    - `v`: values `(…, l)` or `(…, l, m)`; the result is `(…, n)` or `(…, n, m)`, in the type of `v`.
    - `causal`: True lets query `i` see keys up to `i` only, so `n = l`; this takes O(n²) unless all queries are equal.

    It is computed in float64, and has gradients with respect to all three.

    Example:

        >>> q, k, v = torch.zeros(1), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
        >>> ml.attention(q, k, v)
        tensor([4.])
    """
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point() and q.ndim and k.ndim):
        raise DataError("attention takes tensors of floats: q (…, n), k (…, l), v (…, l) or (…, l, m)")
    values = v if v.ndim == k.ndim + 1 else v[..., None]
    if q.shape[:-1] != k.shape[:-1] or values.shape[:-1] != k.shape or k.shape[-1] == 0:
        shapes = ", ".join(str(tuple(part.shape)) for part in (q, k, v))
        raise DataError(f"q, k and v have shapes {shapes}: give one value per key, at least one, in equal batches")
    if causal and q.shape != k.shape:
        raise DataError(f"a causal layer has one query per key; here are {q.shape[-1]} queries and {k.shape[-1]} keys")
    batch, m = k.shape[:-1].numel(), values.shape[-1]
    queries, keys = (part.double().reshape(batch, part.shape[-1]) for part in (q, k))
    rows = zip(queries, keys, values.double().reshape(batch, -1, m), strict=True)
    answer = torch.cat([queries.new_zeros(0, m), *(_one_sequence(*row, causal) for row in rows)]).to(v.dtype)
    return answer.reshape(*q.shape, m) if values is v else answer.reshape(q.shape)


def _one_sequence(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """One sequence: queries `(n,)`, keys `(l,)`, values `(l, m)`, answers `(n, m)`."""
    terms = torch.cat([torch.ones_like(v[:, :1]), v], dim=1)
    low, high, least, most = torch.stack([*k.detach().aminmax(), *q.detach().aminmax()]).tolist()
    largest = max(abs(least), abs(most), 1e-150)
    spread = max(high - low, PIECE_WIDTH / largest)
    reach, middle = largest * spread, (low + high) / 2.0
    if least == most and not q.requires_grad:
        # One query, asked n times: sums of the very terms of softmax.
        if not causal:
            return _direct(q[:1], k, v, False).expand(len(q), -1)
        if reach <= _REACH:
            total = _running_sums(terms * torch.exp(q[0] * (k - (high if least >= 0 else low)))[:, None])
            return total[:, 1:] / total[:, :1]
    exponentials = 8.0 * (NODES * (reach / PIECE_WIDTH + 2.0)) ** 2
    if causal or len(q) <= FEW_QUERIES or not exponentials < len(q) * len(k) or reach > _REACH:
        return _direct(q, k, v, causal)
    both = _sums_over_keys(q, k - middle, terms, PIECE_WIDTH / largest, 2.0 * PIECE_WIDTH / spread)
    return both[:, 1:] / both[:, :1]


def _sums_over_keys(q: Tensor, delta: Tensor, terms: Tensor, key_width: float, query_width: float) -> Tensor:
    """`Σ_l terms_l e^{λ_k δ_l}` over all keys: `(n, 1 + m)`, by pieces of keys and pieces of queries."""
    keys, queries = _Pieces(delta, key_width), _Pieces(q, query_width)
    coefficients = (_coefficients().to(q).T @ keys.gathered(terms)).flatten(0, 1)
    rows = max(1, _SCORES // len(coefficients))
    met = [torch.exp(some[:, None] * keys.nodes) @ coefficients for some in queries.nodes.split(rows)]
    return queries.evaluated(_coefficients().to(q) @ torch.cat(met).view(-1, NODES, terms.shape[1]))


class _Pieces:
    """Numbers `x` `(n,)` in `J` pieces of one width; `nodes` `(J p,)`: the Chebyshev points of all pieces.

    Every number meets the polynomials of all pieces, in one product of matrices for a block of numbers, and takes those
    of its own: pieces are few, and products are fast.
    """

    def __init__(self, x: Tensor, width: float) -> None:
        piece = (x.detach() / width).floor()
        first, last = torch.stack(piece.aminmax()).tolist()
        start = torch.arange(last - first + 1.0, dtype=x.dtype, device=x.device) + first
        self.nodes = (start[:, None] + _chebyshev_points().to(x)).flatten() * width
        self.count, self.block = (
            len(start),
            max(1, (_NUMBERS_PER_BLOCK if x.device.type == "cpu" else 64 * _NUMBERS_PER_BLOCK) // len(start)),
        )
        self.number, self.within = (piece - first).long(), 2.0 * (x / width - piece) - 1.0

    def gathered(self, terms: Tensor) -> Tensor:
        """`Σ ±T_i(x) terms` over the numbers of each piece, for terms `(n, 1 + m)`: `(J, p, 1 + m)`."""
        total = terms.new_zeros(NODES, self.count * terms.shape[1])
        for number, x, some in self._blocks(terms):
            place = torch.arange(len(x), device=x.device), number
            inside = terms.new_zeros(len(x), self.count, terms.shape[1]).index_put(place, some)
            left, right = _chebyshev(x), inside.flatten(1)
            if x.device.type != "cpu":
                # Many short products keep a device busier than a long one.
                pad = -len(x) % _NUMBERS_PER_PRODUCT
                left = torch.nn.functional.pad(left, (0, pad)).view(NODES, -1, _NUMBERS_PER_PRODUCT).transpose(0, 1)
                right = torch.nn.functional.pad(right, (0, 0, 0, pad)).view(len(left), _NUMBERS_PER_PRODUCT, -1)
            total = total + (left @ right).view(-1, *total.shape).sum(0)
        return total.view(NODES, self.count, -1).transpose(0, 1)

    def evaluated(self, table: Tensor) -> Tensor:
        """`Σ_i ±T_i(x) table_i` at each number, for tables of coefficients `(J, p, 1 + m)`: `(n, 1 + m)`."""
        values, flat = [], table.transpose(0, 1).flatten(1)
        for number, x, _ in self._blocks(self.within):
            every = (_chebyshev(x).T @ flat).view(len(x), self.count, -1)
            values.append(every[torch.arange(len(x), device=x.device), number])
        return torch.cat(values)

    def _blocks(self, more: Tensor) -> Iterator[tuple[Tensor, ...]]:
        return zip(*(part.split(self.block) for part in (self.number, self.within, more)), strict=True)


def _running_sums(terms: Tensor) -> Tensor:
    """Running sums of the rows of `(n, 1 + m)`: runs, then sums of runs, so that each is made of few roundings."""
    runs = torch.nn.functional.pad(terms, (0, 0, 0, -len(terms) % _RUN)).view(-1, _RUN, terms.shape[1]).cumsum(1)
    before = torch.cat([torch.zeros_like(runs[:1, -1]), runs[:-1, -1].cumsum(0)])
    return (runs + before[:, None]).flatten(0, 1)[: len(terms)]


def _direct(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """The answers `(n, m)` from all scores, of which a bounded number is held at a time."""
    rows, place = max(1, _SCORES // len(k)), torch.arange(len(k), device=k.device)
    answers = []
    for start in range(0, len(q), rows):
        scores = q[start : start + rows, None] * k
        if causal:
            scores = scores.masked_fill(place > place[start : start + rows, None], -torch.inf)
        answers.append(scores.softmax(dim=-1) @ v)
    return torch.cat(answers)


def _chebyshev(x: Tensor) -> Tensor:
    """`±T_0 … ±T_{p−1}` at `x` `(n,)`, with the signs + + − − + + …: `(p, n)`, by their recurrence.

    The recurrence has a derivative at ±1 too, and with these signs each row is one operation.
    """
    rows = [torch.ones_like(x), x]
    table = None if x.requires_grad else x.new_empty(NODES, len(x))  # written in place, unless there is a gradient
    if table is not None:
        rows = [table[0].fill_(1.0), table[1].copy_(x)]
    for degree in range(2, NODES):
        sign, out = 2.0 if degree % 2 else -2.0, None if table is None else table[degree]
        rows.append(torch.addcmul(rows[-2], x, rows[-1], value=sign, out=out))
    return torch.stack(rows) if table is None else table


@cache
def _chebyshev_points() -> Tensor:
    """Chebyshev points of the unit interval `(p,)`."""
    angles = [(2 * j + 1) * math.pi / (2 * NODES) for j in range(NODES)]
    return torch.tensor([(1.0 + math.cos(angle)) / 2.0 for angle in angles], dtype=torch.float64)


@cache
def _coefficients() -> Tensor:
    """From values at the points to coefficients of `±T_0 … ±T_{p−1}`: the matrix `(p, p)` of a cosine transform."""
    rows = [
        [
            (-1.0) ** (i // 2) * (2.0 - (i == 0)) / NODES * math.cos(i * (2 * j + 1) * math.pi / (2 * NODES))
            for j in range(NODES)
        ]
        for i in range(NODES)
    ]
    return torch.tensor(rows, dtype=torch.float64)
