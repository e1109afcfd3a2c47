"""Context ids by segment sums: what attention with a constant query returns, in O(T) and for data of any lengths.

On arrays and on tensors wherever they lie (`monolayer/arrays.py`); PyTorch is not imported. The sum of a sequence has
the same bits whatever sequences stand beside it, which an edit of some of them relies on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from monolayer.arrays import Numbers, beside, distinct, is_array, pick, unfilled, whole_numbers
from monolayer.kernels import passes, stable_order

NUMBERS_AT_ONCE = 1 << 22
"""Numbers of tokens held at a time where sequences of one length are looked at together."""


def contexts(weight: Numbers, moment: Numbers, lengths: Numbers, bos: tuple[float, float], causal: bool) -> Numbers:
    """Boltzmann context ids, the quotients of two sums.

    `weight` `(T,)` is `e^{λ s_l}` and `moment` `(T,)` is `s_l e^{λ s_l}`, sequence after sequence, up to one
    common factor; `bos` is the pair for the begin-of-sequence token. Returns `(N,)`, one id per sequence, or
    `(T,)`, one per token, for a causal model, where token `k` sees only the tokens up to itself.
    """
    if readable(weight):
        averaged = contexts(weight.numpy(), moment.numpy(), lengths.numpy(), bos, causal)
        return beside(averaged, weight)
    if not causal:
        above, below = totals([moment, weight], lengths)
        return (above + bos[1]) / (below + bos[0])
    out = unfilled(weight)
    for _, at in of_one_length(lengths):
        # Sums start over in every row: one running sum over all the data would lose digits as it grows.
        out[at] = (moment[at].cumsum(1) + bos[1]) / (weight[at].cumsum(1) + bos[0])
    return out


def contexts_by_row(terms: Numbers, rows: Numbers, lengths: Numbers, causal: bool, width: int | None) -> Numbers:
    """`contexts` of tokens whose weights and moments stand in the table `terms` `(2, V + 1)`, the begin token's last.

    `rows` `(T,)`: the column of each token. `width`: the length that all sequences have; None if they differ.
    """
    fused = passes(rows)
    if fused and not causal and width is not None and width <= fused.WIDEST:
        return fused.contexts(rows, width, beside(terms, rows))
    weight, moment = (pick(table, rows) for table in terms)
    return contexts(weight, moment, lengths, (float(terms[0, -1]), float(terms[1, -1])), causal)


def readable(x: Numbers) -> bool:
    """Whether NumPy, which is several times faster at these sums on a processor, can read a tensor."""
    return not is_array(x) and x.device.type == "cpu" and x.dtype != sys.modules["torch"].bfloat16


def totals(flat: list[Numbers], lengths: Numbers) -> list[Numbers]:
    """For each of the `flat` `(T,)`, the sum of every sequence `(N,)`."""
    if is_array(lengths):
        starts = lengths.cumsum() - lengths
        return [np.add.reduceat(each, starts) for each in flat]
    width = same_length(lengths)
    if width is None:
        return [sys.modules["torch"].segment_reduce(each, "sum", lengths=lengths) for each in flat]
    return [added(each.view(-1, width)) for each in flat]


def added(table: Numbers) -> Numbers:
    """The sum of every row of a tensor `(N, n)` in the order in which NumPy adds it up: a device has its bits."""
    return table[:, 0] + _pairwise(table[:, 1:]) if table.shape[1] > 1 else table[:, 0]


def _pairwise(table: Numbers) -> Numbers:
    """NumPy's pairwise summation: eight sums side by side in up to 128 columns, and halves of more than that."""
    count = table.shape[1]
    if count > 128:
        half = count // 2 - count // 2 % 8
        return _pairwise(table[:, :half]) + _pairwise(table[:, half:])
    if count < 8:
        total, rest = table[:, 0], range(1, count)
    else:
        side, rest = table[:, :8], range(count - count % 8, count)
        for start in range(8, rest.start, 8):
            side = side + table[:, start : start + 8]
        for _ in range(3):
            side = side[:, 0::2] + side[:, 1::2]
        total = side[:, 0]
    for column in rest:
        total = total + table[:, column]
    return total


def same_length(lengths: Numbers) -> int | None:
    """The length that all sequences have; None if they differ."""
    width = int(lengths[0])
    return width if len(lengths) == 1 or bool((lengths == width).all()) else None


def spread(per_sequence: Numbers, lengths: Numbers) -> Numbers:
    """`(N,)` to `(T,)`: the number of its sequence for every token."""
    width = same_length(lengths)
    if is_array(per_sequence):
        return np.repeat(per_sequence, lengths if width is None else width)
    if width is None:
        return per_sequence.repeat_interleave(lengths)
    return per_sequence[:, None].expand(-1, width).reshape(-1)


def of_one_length(lengths: Numbers, numbers: int = 1) -> Iterator[tuple[Numbers, Numbers]]:
    """Sequences `(B,)` of one length `n` at a time, and the flat places of their tokens `(B, n)`.

    `numbers`: how many each token will take; a bounded number in all are looked at together.
    """
    starts = lengths.cumsum(0) - lengths
    order = stable_order(lengths)
    end = 0
    for width, count in zip(*distinct(lengths), strict=True):
        begin, end = end, end + count
        step = max(1, NUMBERS_AT_ONCE // (width * numbers))
        for first in range(begin, end, step):
            some = order[first : min(first + step, end)]
            yield some, starts[some][:, None] + whole_numbers(width, lengths)
