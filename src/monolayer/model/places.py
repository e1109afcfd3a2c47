"""The stream of a robust model, and its attention, whose logits depend on places only.

Coordinates of the stream, from the left:

token   code of the token, and constant ones    `(t,)`
place   code of the position                    `(p,)`      none without positions
context value of the token, plus what attention adds  `(k,)`
key     cosine and sine of the position         `(2,)`      read by attention only
label   code of a class                         `(m,)`

With `a = softmax(q_i · k_l)` over the places that place `i` may see (place 0 is the begin token), the head returns
`Σ_l a_l v_l`. One matrix `a` serves all sequences of a length; without positions it is a mean, by sums or running sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from monolayer.data.labelling import LABELLINGS, Labelling
from monolayer.data.sequences import Per
from monolayer.model.attention import RankOneAttention
from monolayer.model.contexts import of_one_length

_WEIGHTS_AT_ONCE = 1 << 22
"""Attention weights held at a time: 16 MiB in float32."""
NORM_EPSILON = 2.0**-20
"""Added to the mean square before its root, as usual; far below any context that is built."""
SequencePart = tuple[Tensor, Tensor]
"""Sequences `(B,)` of one length, and the flat places of their tokens `(B, n)`."""
KEY_WIDTH = 2
"""Coordinates of the stream that only attention reads: logits have rank 2."""


@dataclass(frozen=True)
class StreamWidths:
    """Widths of the parts of the stream."""

    token: int
    place: int
    rank: int
    label: int

    @property
    def reads(self) -> int:
        """`R`: coordinates that the readout reads."""
        return self.token + self.place + self.rank

    @property
    def context(self) -> slice:
        """The coordinates of the stream that attention writes the context onto."""
        return slice(self.token + self.place, self.reads)

    @property
    def key(self) -> slice:
        """The coordinates of the stream that hold the key."""
        return slice(self.reads, self.reads + KEY_WIDTH)

    @property
    def width(self) -> int:
        """`D`, the width of the whole stream."""
        return self.reads + KEY_WIDTH + self.label

    def to_json(self) -> dict[str, int]:
        """What a file says of it; the label part is known from elsewhere."""
        return {"token": self.token, "place": self.place, "rank": self.rank}


def unit(z: Tensor) -> Tensor:
    """`z` `(…, w)` scaled to mean square 1, up to `NORM_EPSILON`; its length is then about `√w`."""
    return z * torch.rsqrt(z.square().mean(-1, keepdim=True) + NORM_EPSILON)


@dataclass(frozen=True, eq=False)
class Places:
    """Queries and keys of the places `(L + 1, 2)`, or None where all logits are equal; and the rules of the model."""

    query: Tensor | None
    key: Tensor | None
    causal: bool
    per: Per

    @property
    def labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence."""
        return LABELLINGS[self.per]


def mixtures(
    places: Places, values: Tensor, begin: Tensor, lengths: Tensor, rows: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of answering places `(P',)`, as numbers of tokens or sequences, and what attention returns there `(P', k)`.

    `values` `(T, k)` a token, or `(V, k)` with the `rows` `(T,)` of the tokens; `begin` `(k,)`: the begin token.
    """
    for part in mixed_together(places, values.shape[1], lengths):
        yield from mixtures_of(places, values, begin, part, rows)


def mixed_together(places: Places, width: int, lengths: Tensor) -> Iterator[SequencePart]:
    """Sequences of one length, a bounded number at a time, whose `mixtures_of` are asked for together."""
    longest = int(lengths.max()) + 1 if places.query is not None else 0
    return of_one_length(lengths, max(longest, width))


def mixtures_of(
    places: Places, values: Tensor, begin: Tensor, sequences: SequencePart, rows: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The `mixtures` of some sequences of one length."""
    part, at = sequences
    v = values[at if rows is None else rows[at]]
    if places.query is None:
        yield _means(places, part, at, v, begin)
        return
    for first, weights in _attention_weights(places, at.shape[1]):
        # One product per sequence: what comes out for it is the same bits whatever stands beside it.
        mixed = weights[:, 1:].to(v).expand(len(v), -1, -1).bmm(v) + weights[:, :1].to(v) * begin
        where = at[:, first : first + mixed.shape[1]] if places.labelling.at_tokens else part[:, None]
        yield where.reshape(-1), mixed.reshape(-1, mixed.shape[-1])


def _means(places: Places, part: Tensor, at: Tensor, v: Tensor, begin: Tensor) -> tuple[Tensor, Tensor]:
    """Equal weights: sums over the sequence, or running sums over what came before."""
    n = at.shape[1]
    if places.causal:
        count = torch.arange(2, n + 2, device=v.device, dtype=v.dtype)[:, None]
        return at.reshape(-1), ((v.cumsum(1) + begin) / count).reshape(-1, v.shape[-1])
    mean = (v.sum(1) + begin) / (n + 1)
    if not places.labelling.at_tokens:
        return part, mean
    return at.reshape(-1), mean[:, None].expand(-1, n, -1).reshape(-1, v.shape[-1])


def _attention_weights(places: Places, n: int) -> Iterator[tuple[int, Tensor]]:
    """The first answering token and attention weights `(q, n + 1)`, a bounded number of queries at a time."""
    assert places.query is not None  # the caller knows
    assert places.key is not None
    key = places.key[: n + 1]
    step = max(1, _WEIGHTS_AT_ONCE // (n + 1))
    for begin in range(0, n if places.labelling.at_tokens else 1, step):
        place = torch.arange(begin + 1, min(n, begin + step) + 1, device=key.device)
        if not places.labelling.at_tokens:
            place = torch.zeros_like(place[:1])
        logits = places.query[place] @ key.T
        if places.causal:
            logits = logits.masked_fill(torch.arange(n + 1, device=key.device) > place[:, None], -torch.inf)
        yield begin, logits.softmax(-1)


def read_places(
    positions: nn.Embedding | None,
    bos: Tensor,
    attention: RankOneAttention,
    layout: StreamWidths,
    causal: bool,
    per: Per,
) -> Places:
    """Queries and keys of all places, from the weights; None where there are no positions."""
    if positions is None:
        return Places(None, None, causal, per)
    key = torch.cat([bos[None, layout.key], positions.weight[:, layout.key]]).detach()
    wide = key.to(torch.promote_types(key.dtype, torch.float32))
    query, read = (wide @ matrix.detach()[:, layout.key].to(wide).T for matrix in (attention.W_Q, attention.W_K))
    return Places(query, read, causal, per)
