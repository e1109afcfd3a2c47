"""Softmax attention with scores of rank one, in time linear in the sequence.

Notation: query `λ_k`, key `s_l` and value `v_l` of a token; the score is `λ_k s_l`, and the answer

    A(λ_k) = G(λ_k) / F(λ_k),    F(λ) = Σ_l e^{λ (s_l − s*)},    G(λ) = Σ_l v_l e^{λ (s_l − s*)}

with `s*` the largest key for λ ≥ 0 and the smallest for λ < 0, so that no term exceeds 1. `F` and `G` are functions of
one variable: `n` answers need `n` values of them, not `n²` scores. Cut the range of the queries into pieces of width
`WIDTH / spread`, `spread = max s − min s`; on each piece interpolate both at `NODES` Chebyshev points.

*Error.* On a piece, a term is `e^{λ δ}` with `|δ| ≤ spread`: with `c = WIDTH / 2`, the exponential `e^{c x}` or a
slower one on [−1, 1], times its value in the middle. Chebyshev interpolation in `p` points errs by at most
`4 Σ_{j≥p} I_j(c)`
times that (`I_j` the modified Bessel functions, the coefficients of `e^{cx}`), and the term itself is at least `e^{−c}`
times it. So each term errs by a share of at most `4 e^c Σ_{j≥p} I_j(c)`, below 10⁻¹⁴ for `c = 2`, `p = 18`, and so do
`F`, prefixes of its sum, and `G` against `Σ |v_l| e^{…}`: numerator and denominator apart. (Their quotient has poles
near the real line, and interpolating it fails.) What is left is rounding: values on a piece differ by at most
`e^{2c} = 55`, so it is some dozens of roundings, of the size of `max |v|`.

*Cost.* A node is the end of a piece plus a share of its width, and exponentials of sums are products: all sums at all
nodes are one product of two matrices, `(pieces, l)` and `(l, nodes)`, with one exponential for each entry of these.
Prefixes: the same for every run of `_RUN` keys, added up, and scores of a query with the keys of its own run.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from monolayer.errors import DataError

WIDTH, NODES = 4.0, 18
SHORT = 512
"""Up to this many queries the scores themselves are cheaper, by measurement."""
_REACH = 600.0
"""Largest `|λ| spread` for prefixes: e^{−600} is still a normal number, so every prefix has a sum to divide by."""
_RUN = 128
_BLOCK = 1 << 13
"""Keys looked at together on a processor, for its cache; 32 times as many elsewhere, for fewer launches."""
_SCORES = 1 << 22
"""Scores held at a time where they are computed: 32 MiB."""


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None) -> Tensor:
    """`softmax(q kᵀ) v` for queries `q` `(…, n)` and keys `k` `(…, l)`, one number a token, in O(n + l).

    `v`: values `(…, l)` or `(…, l, m)`; the answer is `(…, n)` or `(…, n, m)`. `causal`: query `i` sees keys up to `i`,
    so `n = l`. `mask` `(…, l)`: keys that may be seen; a query that sees none gets NaN. Scores are not scaled.
    Computed in float64 and returned in the type of `v`; gradients with respect to all three.
    """
    shape, vectors = _check(q, k, v, causal, mask)
    exact = [part.to(torch.float64).expand(*shape, *part.shape[-1:]).reshape(-1, part.shape[-1]) for part in (q, k)]
    values = (v if vectors else v[..., None]).to(torch.float64)
    values = values.expand(*shape, *values.shape[-2:]).reshape(-1, *values.shape[-2:])
    seen = None if mask is None else mask.expand(*shape, k.shape[-1]).reshape(-1, k.shape[-1])
    rows = [
        _sequence(exact[0][row], exact[1][row], values[row], causal, None if seen is None else seen[row])
        for row in range(len(values))
    ]
    answer = torch.stack(rows) if rows else values.new_zeros(0, q.shape[-1], values.shape[-1])
    answer = answer.reshape(*shape, q.shape[-1], values.shape[-1]).to(v.dtype)
    return answer if vectors else answer[..., 0]


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None) -> tuple[torch.Size, bool]:
    """The common shape of batches, and whether values are vectors."""
    if q.ndim < 1 or k.ndim < 1 or not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise DataError("attention takes tensors of floats: q (…, n), k (…, l), v (…, l) or (…, l, m)")
    vectors = v.ndim == k.ndim + 1
    tokens = v.shape[-2] if vectors and v.ndim > 1 else v.shape[-1] if v.ndim else None
    if v.ndim not in (k.ndim, k.ndim + 1) or tokens != k.shape[-1] or k.shape[-1] == 0:
        raise DataError(f"k has shape {tuple(k.shape)} and v {tuple(v.shape)}: give one value a key, and at least one")
    if causal and q.shape[-1] != k.shape[-1]:
        raise DataError(f"a causal layer has one query a key; here are {q.shape[-1]} queries and {k.shape[-1]} keys")
    parts = [q.shape[:-1], k.shape[:-1], v.shape[: -2 if vectors else -1]]
    if mask is not None:
        if mask.dtype != torch.bool or mask.shape[-1:] != k.shape[-1:]:
            raise DataError("mask says of each key whether it may be seen: booleans (…, l)")
        parts.append(mask.shape[:-1])
    try:
        return torch.broadcast_shapes(*parts), vectors  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise DataError(f"the batches {', '.join(str(tuple(part)) for part in parts)} do not fit together") from None


def _sequence(q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None) -> Tensor:
    """One sequence: queries `(n,)`, keys `(l,)`, values `(l, m)`, answers `(n, m)`."""
    terms = torch.cat([torch.ones_like(v[:, :1]), v], dim=1)
    if mask is not None:
        # A masked key has weight 0 and must not widen the range of the keys.
        some = k.detach()[mask]
        k = torch.where(mask, k, some[0] if len(some) else 0.0)
        terms = torch.where(mask[:, None], terms, 0.0)
    low, high = float(k.detach().min()), float(k.detach().max())
    width = WIDTH / (high - low) if high > low else WIDTH
    piece = (q.detach() / width).floor()
    first, last = float(piece.min()), float(piece.max())
    reach = max(abs(first), abs(last)) * WIDTH
    if float(q.detach().min()) == float(q.detach().max()) and not q.requires_grad:
        # One query, asked n times: sums of the very terms of softmax.
        if not causal:
            return _direct(q[:1], k, terms, False).expand(len(q), -1)
        if reach <= _REACH:
            total = _running(terms * torch.exp(q[0] * (k - (high if q[0] >= 0 else low)))[:, None])
            return total[:, 1:] / total[:, :1]
    if len(q) <= SHORT or (last - first + 1.0) * NODES >= len(q) or (causal and reach > _REACH):
        return _direct(q, k, terms, causal)
    # (n, p): from values at the nodes to answers.
    weights = (_coefficients().to(q).T @ _chebyshev(2.0 * (q / width - piece) - 1.0)).T.contiguous()
    both = _own_runs(q, k, terms, low, high) if causal else torch.zeros_like(terms[:1]).expand(len(q), -1)
    for sign, end in ((1.0, high), (-1.0, low)):
        # Zero belongs to the pieces on the right.
        here = torch.nonzero(piece >= 0 if sign > 0 else piece < 0).flatten()
        if len(here):
            begin, stop = (max(first, 0.0), last) if sign > 0 else (first, min(last, -1.0))
            pieces = torch.arange(begin, stop + 1.0, dtype=q.dtype, device=q.device)
            sums = _sums(pieces, width, k - end, terms, _RUN if causal else len(k))
            for some in here.split(_SCORES // NODES):  # type: ignore[no-untyped-call]
                row, weight = (piece[some] - begin).long(), weights[some]
                row = row + some // _RUN * len(pieces) if causal else row
                columns = [(column.flatten(0, 1)[row] * weight).sum(1) for column in sums.unbind(1)]
                both = both.index_add(0, some, torch.stack(columns, dim=1))
    return both[:, 1:] / both[:, :1]


def _sums(pieces: Tensor, width: float, delta: Tensor, terms: Tensor, run: int) -> Tensor:
    """`Σ_l terms_l e^{λ δ_l}` at the nodes λ of some pieces, over the keys before each run: `(runs, 1 + m, J, p)`.

    One run of all keys: the sum over all of them. Pieces `(J,)` are all of one sign, and no `λ δ` is above 0.
    """
    right = bool(pieces[0] >= 0)
    start = (pieces if right else pieces + 1.0) * width
    share = (_points().to(delta) - (0.0 if right else 1.0)) * width
    block = _BLOCK if delta.device.type == "cpu" else 32 * _BLOCK
    whole, run = run == len(delta), min(run, block)
    pad = -len(delta) % run
    runs = torch.nn.functional.pad(delta, (0, pad)).view(-1, run)
    values = torch.nn.functional.pad(terms, (0, 0, 0, pad)).view(-1, run, terms.shape[1])
    parts = []
    step = max(1, block // run)
    for some in range(0, len(runs), step):
        here = slice(some, some + step)
        weight = torch.exp(start[:, None] * runs[here, None, :])  # (runs, J, run), then (runs, (1 + m) J, run)
        weight = torch.cat([weight * values[here, None, :, column] for column in range(values.shape[2])], dim=1)
        parts.append(weight @ torch.exp(runs[here, :, None] * share))
    sums = torch.cat(parts).view(len(runs), -1, len(start), NODES)
    return sums.sum(0, keepdim=True) if whole else torch.cat([torch.zeros_like(sums[:1]), sums[:-1].cumsum(0)])


def _own_runs(q: Tensor, k: Tensor, terms: Tensor, low: float, high: float) -> Tensor:
    """`Σ terms_l e^{λ_k (s_l − s*)}` over the keys of the query's own run up to the query: `(n, 1 + m)`."""
    pad = -len(k) % _RUN
    q, k = (torch.nn.functional.pad(part, (0, pad)).view(-1, _RUN) for part in (q, k))
    top = torch.where(q.detach() >= 0, q.new_tensor(high), q.new_tensor(low))
    terms = torch.nn.functional.pad(terms, (0, 0, 0, pad)).view(-1, _RUN, terms.shape[1])
    past = torch.ones(_RUN, _RUN, dtype=torch.bool, device=q.device).tril()
    parts = []
    step = _SCORES // _RUN**2
    for start in range(0, len(q), step):
        here = slice(start, start + step)
        weight = torch.exp((q[here, :, None] * (k[here, None, :] - top[here, :, None])).masked_fill(~past, -torch.inf))
        parts.append((weight @ terms[here]).flatten(0, 1))
    return torch.cat(parts)[: q.numel() - pad]


def _running(terms: Tensor) -> Tensor:
    """Running sums of the rows of `(n, 1 + m)`: runs, then sums of runs, so that each is made of few roundings."""
    runs = torch.nn.functional.pad(terms, (0, 0, 0, -len(terms) % _RUN)).view(-1, _RUN, terms.shape[1]).cumsum(1)
    before = torch.cat([torch.zeros_like(runs[:1, -1]), runs[:-1, -1].cumsum(0)])
    return (runs + before[:, None]).flatten(0, 1)[: len(terms)]


def _direct(q: Tensor, k: Tensor, terms: Tensor, causal: bool) -> Tensor:
    """The scores themselves, a bounded number at a time."""
    rows = max(1, _SCORES // len(k))
    answers = []
    seen = terms.detach()[:, 0] > 0
    place = torch.arange(len(k), device=k.device)
    for start in range(0, len(q), rows):
        allowed = seen & (place <= place[start : start + rows, None]) if causal else seen
        scores = (q[start : start + rows, None] * k).masked_fill(~allowed, -torch.inf)
        answers.append(scores.softmax(dim=-1) @ terms[:, 1:])
    return torch.cat(answers)


def _chebyshev(x: Tensor) -> Tensor:
    """`T_0 … T_{p−1}` at `x` `(n,)`: `(p, n)`, by their recurrence, which has a derivative at ±1 too."""
    rows = [torch.ones_like(x), x]
    for _ in range(NODES - 2):
        rows.append(torch.addcmul(-rows[-2], x, rows[-1], value=2.0))
    return torch.stack(rows)


@cache
def _points() -> Tensor:
    """Chebyshev points of the unit interval `(p,)`."""
    angles = [(2 * j + 1) * math.pi / (2 * NODES) for j in range(NODES)]
    return torch.tensor([(1.0 + math.cos(angle)) / 2.0 for angle in angles], dtype=torch.float64)


@cache
def _coefficients() -> Tensor:
    """From values at the points to coefficients of `T_0 … T_{p−1}`: the matrix `(p, p)` of a cosine transform."""
    rows = [
        [(2.0 - (i == 0)) / NODES * math.cos(i * (2 * j + 1) * math.pi / (2 * NODES)) for j in range(NODES)]
        for i in range(NODES)
    ]
    return torch.tensor(rows, dtype=torch.float64)
