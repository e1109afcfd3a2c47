"""A network for the maximum norm: powers, a head that averages, and a continuous piecewise linear readout.

Notation: `n` tokens in `R^d`, `m` outputs per token; coordinates run over `[low, low + width]` and are first brought to
`[0, 1]`. The stream of a token is `(what it writes, means)`, `(n − 1)d` numbers each.

    FF₁        x, and for n = 3 x² by a piecewise linear function; with positions x into the slot of its place
    attention  means of these over all tokens: equal weights, value rank (n − 1)d
    FF₂        means and x → the other tokens → f by interpolation

For n = 2 the other token is `y = 2 mean − x`. For n = 3 the other two have the sum `e = 3 mean(x) − x` and the sum of
squares `q = 3 mean(x²) − x²`, so they are `(e ∓ √(2q − e²))/2`, with piecewise linear square and root. With positions
token `l < n` writes `x_l` into slot `l`, and the last writes `−x_n` into all: `n` times the means are the differences
`x_j − x_n`, and the token's own number turns them into all tokens, in order, for any `n` and `d`. Interpolation is
over the triangulation of a grid by the order of fractional parts (Kuhn, Freudenthal): the hat of the knot at 0 is
`relu(1 + min(0, u_1, …) − max(0, u_1, …))`. Everything is ReLU, and nothing jumps: no ramps are left out.

Without a first block, for n = 3 and 4 scalar tokens, n − 1 heads of rank 1 at different temperatures take the place of
powers and averages, and the readout finds the other tokens by iteration (`model/heads.py`). For n = 2 without positions
there is no first block anyway.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from monolayer.data import Sequences
from monolayer.data.labelling import TOKEN
from monolayer.data.model_kinds import APPROXIMATOR, INTERPOLATOR
from monolayer.data.objects import Config
from monolayer.errors import DataError, ModelFileError
from monolayer.model.attention import RankOneAttention
from monolayer.model.card import Card
from monolayer.model.heads import OtherTokens, RankOneHeads
from monolayer.model.plot import Domain, Figure, plot_approximator
from monolayer.model.save import FolderContent, write
from monolayer.model.schema import VERSION
from monolayer.model.torch_settings import own_settings
from monolayer.table import as_html, number, plural
from monolayer.theory.heads import HEAD_TEMPERATURES

_CELLS_AT_ONCE = 1 << 21
"""Points times knots held at a time by the dense readout."""


class Bends(nn.Module):
    """A continuous piecewise linear function of one number: `v_0 + Σ_j c_j relu(x − t_j)`, constant outside its knots.

    `knots`, `values` `(K,)`.
    """

    def __init__(self, knots: Tensor, values: Tensor) -> None:
        super().__init__()
        self.knots, self.values = nn.Parameter(knots), nn.Parameter(values)

    def forward(self, x: Tensor) -> Tensor:
        """The function at `x`, any shape, by dense operations: every neuron is evaluated at every number."""
        slope = (self.values.diff() / self.knots.diff()).detach()
        bend = torch.cat([slope[:1], slope.diff(), -slope[-1:]])
        flat = x.reshape(-1)
        parts = torch.split(flat, max(1, _CELLS_AT_ONCE // len(bend)))
        return torch.cat([(part[:, None] - self.knots).relu() @ bend + self.values[0] for part in parts]).view(x.shape)

    def look_up(self, x: Tensor) -> Tensor:
        """The function at `x`, any shape, by binary search among the knots."""
        left = (torch.searchsorted(self.knots, x.contiguous(), right=True) - 1).clamp(0, len(self.knots) - 2)
        share = ((x - self.knots[left]) / (self.knots[left + 1] - self.knots[left])).clamp(0.0, 1.0)
        return self.values[left] + share * (self.values[left + 1] - self.values[left])


class Interpolation(nn.Module):
    """Piecewise linear interpolation on the grid `{0, …, D}^k`, scaled to `[0, 1]^k`.

    `values` `((D + 1)^k, m)`; with positions one such table after another, one per place.
    """

    def __init__(self, values: Tensor, cells: int, dimensions: int) -> None:
        super().__init__()
        self.values, self.cells, self.dimensions = nn.Parameter(values), cells, dimensions

    def _table(self, place: int) -> Tensor:
        knots = (self.cells + 1) ** self.dimensions
        return self.values[place * knots : (place + 1) * knots]

    def forward(self, u: Tensor, place: int = 0) -> Tensor:
        """Interpolate at points `u` `(P, k)`, giving `(P, m)`, by dense operations: every hat at every point."""
        values = self._table(place)
        at = u.clamp(0.0, 1.0) * self.cells
        axis = torch.arange(self.cells + 1, dtype=u.dtype, device=u.device)
        knots = torch.cartesian_prod(*[axis] * self.dimensions).view(-1, self.dimensions)
        total = torch.zeros(len(u), self.values.shape[1], dtype=u.dtype, device=u.device)
        block = max(1, _CELLS_AT_ONCE // max(1, len(u) * self.dimensions))
        for start in range(0, len(knots), block):
            away = at[:, None] - knots[start : start + block]
            hat = (1.0 + away.amin(-1).clamp(max=0.0) - away.amax(-1).clamp(min=0.0)).relu()
            total = total + hat @ values[start : start + block]
        return total

    def look_up(self, u: Tensor, place: int = 0) -> Tensor:
        """Interpolate at points `u` `(P, k)`, giving `(P, m)`, from the corners of the simplex around each point.

        The corners are found by a walk from the low corner of the cell, in order of falling fractional parts.
        """
        values = self._table(place)
        at = u.clamp(0.0, 1.0) * self.cells
        base = at.floor().clamp(max=self.cells - 1)
        fraction, order = (at - base).sort(dim=1, descending=True)
        stride = (self.cells + 1) ** torch.arange(self.dimensions - 1, -1, -1, device=u.device)
        knot = (base.long() * stride).sum(1)
        weight = torch.cat([1.0 - fraction[:, :1], -fraction.diff(dim=1), fraction[:, -1:]], dim=1)
        total = weight[:, :1] * values[knot]
        for step in range(self.dimensions):
            knot = knot + stride[order[:, step]]
            total = total + weight[:, step + 1 : step + 2] * values[knot]
        return total


class Uniform(nn.Module):
    """An approximator in the maximum norm (docs/uniform.md). `error`: bound on its error everywhere; None: no bound.

    The domain of every coordinate is `[low, high]`. `square`, `total`, `root`: the bends of n = 3 with a first block
    and without positions. `others`: what finds the other tokens where several heads take the place of a first block.
    """

    def __init__(
        self,
        interpolation: Interpolation,
        dim: int,
        length: int,
        low: float,
        high: float,
        error: float | None,
        positions: bool = False,
        first_block: bool = True,
    ) -> None:
        super().__init__()
        self.dim, self.length, self.low, self.high, self.error = dim, length, low, high, error
        self.width = high - low
        self.positions, self.first_block = positions, first_block
        self.scalar = False
        self.rank = (length - 1) * dim
        self.interpolation = interpolation
        self.square: Bends | None = None
        self.total: Bends | None = None
        self.root: Bends | None = None
        self.others: OtherTokens | None = None
        self.attention: RankOneAttention | RankOneHeads
        if not first_block and length > 2:
            self.attention, self.others = RankOneHeads.at(HEAD_TEMPERATURES[length]), OtherTokens(length)
            return
        stream = 2 * self.rank
        W_Q, W_K, W_V, W_O = (torch.zeros(stream, stream, dtype=torch.float64) for _ in range(4))
        W_V[: self.rank, : self.rank] = W_O[self.rank :, : self.rank] = torch.eye(self.rank)
        self.attention = RankOneAttention(W_Q, W_K, W_V, W_O)

    def forward(self, X: Tensor) -> Tensor:
        """The answers `(N, n, m)` to sequences `X` `(N, n, d)`, by dense operations."""
        return self._answers(X, dense=True)

    def predict(self, X: object) -> NDArray[np.float64]:
        """The answers `(N, n, m)`, or `(N, n)` for a scalar function, by look-ups.

        `X`: sequences of `length` vectors of `dim` numbers each, as an array, a tensor or lists.
        """
        data = self.encode(X)
        labels: NDArray[np.float64] = self.labels(data).reshape(len(data), self.length, -1)
        return labels[..., 0] if self.scalar else labels

    # -- what every model has ----------------------------------------------------------------------------

    @property
    def card(self) -> Card:
        """The card: it takes vectors, and answers with real numbers at every token."""
        return Card(None, None, TOKEN.name, self.scalar, kind=APPROXIMATOR.name)

    summary = None

    def encode(self, X: object) -> Sequences:
        """`X` as `Sequences`; an error unless length, dimension and range are those that the network is made for."""
        data = Sequences.of(X)
        if data.vocabulary is not None or data.tokens.shape[1] != self.dim:
            raise DataError(f"the network takes vectors of {plural(self.dim, 'number')} as tokens")
        if (data.lengths != self.length).any():
            row = int((data.lengths != self.length).argmax())
            raise DataError(f"{data.named(row)} has {data.lengths[row]} tokens: the network takes {self.length}")
        outside = ((data.tokens < self.low) | (data.tokens > self.high)).any(axis=1)
        if outside.any():
            raise DataError(
                f"{data.where(int(outside.argmax()))} lies outside [{self.low:g}, {self.high:g}], the domain of the "
                "network: approximate with a larger domain (--domain)"
            )
        return data

    def check_strict(self) -> None:
        """Refuse `strict`: a network for a function was not built from points."""
        raise DataError("strict asks what a model was built from, and this one was built from a function: drop strict")

    @torch.no_grad()
    @own_settings()
    def labels(self, data: Sequences, *, path: str = "auto") -> NDArray[np.float64]:
        """The answers `(T, m)` to encoded data. `path`: `dense` for dense operations; anything else for look-ups."""
        X = torch.from_numpy(data.tokens.reshape(len(data), self.length, self.dim)).to(self.interpolation.values)
        answers: NDArray[np.float64] = self._answers(X, dense=path == "dense").cpu().numpy()
        return answers.reshape(len(data.tokens), -1)

    def explain(self, X: object) -> NoReturn:
        """Refuse to explain: this network has no steps, whose neighbours an explanation would name."""
        raise DataError(
            "an explanation shows the step that an answer stands on; a network for the maximum norm interpolates "
            "between the knots of a grid, and its answers are within its bound everywhere (docs/uniform.md)"
        )

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the network as `folder`, all at once or not at all (docs/format.md); returns its path.

        `overwrite`: True replaces a folder that exists.
        """
        if any(parameter.dtype != torch.float64 for parameter in self.parameters()):
            raise DataError("a network for the maximum norm is saved in float64 only: its bound is about float64")
        named = ("dim", "length", "low", "high", "positions", "first_block", "error", "scalar")
        fields = {name: getattr(self, name) for name in named}
        fields |= {
            "format": "monolayer",
            "version": VERSION,
            "kind": INTERPOLATOR.name,
            "cells": self.interpolation.cells,
        }
        return write(folder, FolderContent(fields, dict(self.state_dict()), {}), overwrite=overwrite)

    @classmethod
    def stored(cls, config: Config, tensors: dict[str, Tensor]) -> Uniform:
        """The network that a file describes, whose fields and shapes have been checked."""
        for name, tensor in tensors.items():
            if not bool(torch.isfinite(tensor).all()):
                raise ModelFileError(f"{name} does not hold finite numbers")
        values = tensors["interpolation.values"]
        if not (values.shape[1] == 1 if config["scalar"] else values.shape[1] > 0):
            raise ModelFileError(f"config.json says scalar = {config['scalar']}, and knots hold {values.shape[1]} each")
        dim, length = config["dim"], config["length"]
        interpolation = Interpolation(values, config["cells"], dim * length)
        ends = float(config["low"]), float(config["high"])
        model = cls(interpolation, dim, length, *ends, config["error"], config["positions"], config["first_block"])
        for part in ("square", "total", "root") if "square.knots" in tensors else ():
            knots, values = tensors[f"{part}.knots"], tensors[f"{part}.values"]
            if len(knots) < 2 or not bool((knots.diff() > 0).all()):
                raise ModelFileError(f"the knots of {part} must be two or more, and rise")
            setattr(model, part, Bends(knots, values))
        model.load_state_dict(tensors)
        model.scalar = config["scalar"]
        return model

    # -- the network -------------------------------------------------------------------------------------

    def _answers(self, X: Tensor, dense: bool) -> Tensor:
        x = ((X - self.low) / self.width).clamp(0.0, 1.0)
        interpolate = self.interpolation if dense else self.interpolation.look_up
        if self.others is not None:
            flat = torch.cat([x, self.others(x, self._shown(x, dense))], dim=-1).flatten(0, 1)
            return interpolate(flat).view(*x.shape[:2], -1)
        Z = torch.cat([self._written(x, dense), x.new_zeros(*x.shape[:2], self.rank)], dim=-1)
        if dense:
            assert isinstance(self.attention, RankOneAttention)
            Z = self.attention(Z, torch.ones(1, 1, self.length, dtype=torch.bool, device=Z.device))
        else:
            Z[..., -self.rank :] = Z[..., : self.rank].mean(dim=1, keepdim=True)
        sums, token_itself = self.length * Z[..., -self.rank :], Z[..., : self.rank]
        if self.positions:
            every = self._in_order(x, sums)
            return torch.stack([interpolate(every[:, k], k) for k in range(self.length)], dim=1)
        flat = torch.cat([x, self._others(sums - token_itself, dense)], dim=-1).flatten(0, 1)
        return interpolate(flat).view(*x.shape[:2], -1)

    def _shown(self, x: Tensor, dense: bool) -> Tensor:
        """What n − 1 heads show every token `(N, n, n − 1)`: by attention, or one mean per sequence and temperature."""
        if dense:
            stream = torch.cat([torch.ones_like(x), x, x.new_zeros(*x.shape[:2], self.rank)], dim=-1)
            written: Tensor = self.attention(stream)[..., -self.rank :]
            return written
        assert self.others is not None  # the caller saw to it
        weights = (self.others.temperatures * x).softmax(dim=1)
        return (weights * x).sum(dim=1, keepdim=True).expand(-1, self.length, -1)

    def _written(self, x: Tensor, dense: bool) -> Tensor:
        """What a token writes for all to see, `(N, n, (n − 1)d)`: its powers, or itself into the slot of its place."""
        if self.positions:
            slots = torch.eye(self.length, self.length - 1, dtype=x.dtype, device=x.device)
            slots[-1] = -1.0
            return (slots[:, :, None] * x[:, :, None, :]).flatten(2)
        return x if self.square is None else torch.cat([x, self.square(x) if dense else self.square.look_up(x)], dim=-1)

    def _in_order(self, x: Tensor, sums: Tensor) -> Tensor:
        """All tokens in order, as every token finds them `(N, n, nd)`: `x_k + (x_j − x_n) − (x_k − x_n)`."""
        last = torch.zeros_like(x)  # x_n − x_n
        apart = torch.cat([sums, last], dim=-1).view(*x.shape[:2], self.length, self.dim)
        diagonal = torch.stack([apart[:, k, k] for k in range(self.length)], dim=1)
        return (x[:, :, None] + (apart - diagonal[:, :, None])).flatten(2)

    def _others(self, sums: Tensor, dense: bool) -> Tensor:
        """The other tokens from their sums `(N, n, (n − 1)d)`: the sum itself, or sum and sum of squares."""
        if self.total is None or self.root is None:
            return sums
        e, q = sums[..., :1], sums[..., 1:]
        squared = self.total(e) if dense else self.total.look_up(e)
        apart = (2.0 * q - squared).relu()
        apart = self.root(apart) if dense else self.root.look_up(apart)
        return torch.cat([e - apart, e + apart], dim=-1) / 2.0

    def plot(self, f: Callable[[Any], Any] | None = None, *, name: str = "function") -> Figure:
        """The function `f` beside the network and the error over it, as `Monolayer.plot`; without `f`, the network."""
        domain = Domain(self.dim, self.length, self.low, self.high, self.interpolation.cells)
        return plot_approximator(self.predict, domain, f, name)

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows of the model."""
        return [
            ("kind", "approximator in the maximum norm"),
            ("domain", f"[{self.low:g}, {self.high:g}], d = {self.dim}, n = {self.length}"),
            ("order", "with positions" if self.positions else "permutation equivariant"),
            ("first block", "yes" if self.first_block else f"none; {plural(self.head_count, 'head')}"),
            ("cells", f"{self.interpolation.cells:,} per coordinate"),
            ("bound on the error", "none" if self.error is None else f"{number(self.error)}, everywhere"),
            ("parameters", number(sum(each.numel() for each in self.parameters()))),
        ]

    @property
    def head_count(self) -> int:
        """How many heads the attention layer has."""
        return 1 if self.others is None else self.length - 1

    _repr_html_ = as_html

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        bound = "no bound" if self.error is None else f"error ≤ {self.error:g} everywhere"
        order = ", with positions" * self.positions + ", no first block" * (not self.first_block)
        return f"{self.length} tokens of dimension {self.dim}{order}, {self.interpolation.cells} cells, {bound}"
