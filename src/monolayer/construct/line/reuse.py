"""The draw of a model, used again for other data: then only the readout depends on them.

A *draw* is all of a model but its readout: names of tokens and classes with their numbers, keys and codes, positions,
the begin token, temperature and κ; of a cascade also what its further stages average. With it fixed, every point has
its number `z` before any label is known, and the readout is a function of the set of pairs (z, label) alone
(docs/editing.md). So two models with one draw can be compared neuron by neuron, and an edit is a change of a few.

Tokens that the draw lacks get the next free codes and keys and values of their own, a function of their row number; a
token that the data lack loses its row, as in every model. What is built with a draw is `again.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from monolayer.arrays import Ints
from monolayer.construct.adopt import adopted
from monolayer.construct.line.alphabet import UNIT, Alphabet, Ids, Proposal, Vectors, lift_error, lifted
from monolayer.construct.line.assemble import stream
from monolayer.construct.line.cascade import KAPPA
from monolayer.construct.line.draw import Draw, Tokens, in_format
from monolayer.construct.line.points import numbers
from monolayer.construct.line.values import Value
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.attention import CODE, KEY, ONE
from monolayer.model.card import Card
from monolayer.model.cascade import value_slot
from monolayer.model.memory import remembered
from monolayer.model.monolayer import Monolayer
from monolayer.model.parts import staircase_of
from monolayer.model.shortcut import as_built

_NEW_KEYS = (2307, 14023)
"""With the row number of a new token, the seed of its key; with the number of a stage, that of new values."""
OUTSIDE = 1.001
"""Keys and values of a draw's own data lie in [−1, 1], but for rounding; the bounds on errors have room for that."""
LARGEST_SCORE = 650.0
"""Scores `λ s` up to which sums of `e^{λ s}`, and of its products with keys, are floats: `e^709` is the largest."""


@dataclass(frozen=True, eq=False)
class Reused:
    """`table` `(V, D)`: stream vectors of all ids, NaN for those without one; None for vector tokens."""

    model: Monolayer
    card: Card
    table: NDArray[np.float64] | None
    temperature: float
    kappa: float

    @classmethod
    def of(cls, model: Monolayer) -> Reused:
        """The draw of `model`, if its weights are such as a construction on the line gives."""
        if model.quantizer is not None:
            raise DataError("an approximator stores a function, not facts: it has no draw to use again")
        if not model.feed_forward.stairs:
            staircase_of(model)  # the error that says that there is none
        why = "its weights are not such as memorize gives them (changed, trained, or in another format)"
        if model.bos.dtype not in (torch.float64, torch.float32) or model.bos.device.type != "cpu":
            raise DataError(f"this model has no draw to use again: {why}; a model on another device is moved by .cpu()")
        shortcut = _shortcut(model)
        if (
            shortcut is None
            or not remembered(model, "as built", lambda: as_built(model))
            or float(model.bos.detach()[CODE]) != 0.0
        ):
            raise DataError(f"this model has no draw to use again: {why}")
        table = model.lift.weight.detach().double().numpy() if isinstance(model.lift, nn.Embedding) else None
        return cls(model, replace(model.card, summary=None, fingerprint=None), table, *shortcut)

    # -- names -----------------------------------------------------------------------------------------

    def adopt(self, data: Sequences) -> tuple[Reused, Sequences]:
        """`data` in the numbers of this draw, and the draw with what they name and it lacks."""
        card, data = adopted(self.model, self.card, data)
        draw = replace(self, card=card)
        if card.vocabulary is not None:
            draw = replace(draw, table=draw._rows_for(data.tokens, len(card.vocabulary)))
        return draw, data

    def _rows_for(self, tokens: Ints, size: int) -> NDArray[np.float64]:
        """The table with a row for each of `tokens`, and `size` rows in all."""
        assert self.table is not None
        known = ~np.isnan(self.table[:, ONE])
        used = np.zeros(size, dtype=bool)
        used[tokens] = True
        new = np.flatnonzero(used & ~np.append(known, np.zeros(size - len(known), dtype=bool)))
        if len(new) == 0 and size == len(known):
            return self.table
        table = np.full((size, self.table.shape[1]), np.nan)
        table[: len(known)] = self.table
        places, share = self.model.positions, self._share
        # One cell a token, or one a (token, position) pair where positions have cells too.
        stride = 1.0
        if places is not None and float(places.weight.detach()[:, CODE].max()) >= 1.0:
            stride = float(places.num_embeddings)
        last = float(self.table[known, CODE].max()) if known.any() else -stride
        key = [np.random.default_rng([*_NEW_KEYS, row]).uniform(-share, share) for row in new.tolist()]
        code = last + stride * (1.0 + np.arange(len(new)))
        rounded = torch.tensor(key, dtype=torch.float64).to(self.dtype)
        table[new] = stream(rounded, torch.from_numpy(code), table.shape[1]).numpy()
        block = self.model.feed_forward
        for stage in range(2, self.rank + 1):
            values = torch.from_numpy(new_values(stage, size, share)[new]).to(self.dtype)
            table[new, value_slot(stage, block.labels)] = values.double().numpy()
        return table

    @property
    def dtype(self) -> torch.dtype:
        """The format that the model computes in."""
        return self.model.bos.dtype

    @property
    def format(self) -> str:
        """Its name."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def rank(self) -> int:
        """`k`, the value rank."""
        return len(self.model.feed_forward.stairs)

    # -- numbers ---------------------------------------------------------------------------------------

    def place(self, data: Sequences, target: Target) -> tuple[NDArray[np.float64], float]:
        """`z` of every labelled place of adopted `data` `(P,)`, and the bound on its error but for `u |z|`."""
        draw, tokens = self.drawn(data)
        return numbers(draw, self.kappa, tokens, target), draw.point_error(self.kappa, tokens)

    def drawn(self, data: Sequences) -> tuple[Draw, Tokens]:
        """Keys and codes as constructions know them, and what the contexts of adopted `data` are made of."""
        model = self.model
        positions: list[Tensor | None] = [None, None]
        if model.positions is not None:
            weight = model.positions.weight.detach()
            positions = [weight[:, KEY].contiguous(), weight[:, CODE].contiguous()]
        place = None if model.positions is None else torch.from_numpy(data.position)
        alphabet: Alphabet
        if self.table is not None:
            alphabet, rows = Ids(len(self.table)), torch.from_numpy(data.tokens)
        else:
            alphabet, rows = Vectors(self.rounded(data.tokens)), torch.arange(len(data.tokens))
        tokens = Tokens(rows, torch.from_numpy(data.lengths), alphabet, place, self.card.causal, dtype=self.dtype)
        bos_key = float(model.bos.detach()[KEY])
        proposal = self._proposal(tokens)
        draw = Draw(proposal, positions[0], positions[1], bos_key, self.temperature, "mixed", False, tokens.unit)
        return replace(draw, largest=self._largest(draw, tokens, data)), tokens

    def _largest(self, draw: Draw, tokens: Tokens, data: Sequences) -> float:
        """A bound on the keys of `data`, as that on rounding needs it: 1 for those that the draw was made for."""
        keys = draw.keys(tokens.rows, tokens.position).abs_()
        largest = max(abs(draw.bos_key), float(keys.max())) if len(keys) else 1.0
        if not abs(self.temperature) * largest <= LARGEST_SCORE:
            raise DataError(
                f"{data.where(int(keys.argmax()))} lies outside the data that this draw was made for: attention scores "
                f"there reach {abs(self.temperature) * largest:.3g}, and exp of {LARGEST_SCORE:g} is near the largest "
                "float. Memorize all the data anew, without draw="
            )
        return largest if largest > OUTSIDE else 1.0

    def rounded(self, tokens: NDArray[Any]) -> NDArray[np.float64]:
        """Vectors `(T, d)` in numbers of the format."""
        vectors = np.asarray(tokens, dtype=np.float64)
        return vectors if self.dtype == torch.float64 else vectors.astype(np.float32).astype(np.float64)

    def _proposal(self, tokens: Tokens) -> Proposal:
        if self.table is not None:
            key, code = (torch.from_numpy(self.table[:, slot].copy()).to(self.dtype) for slot in (KEY, CODE))
            return Proposal(key, code)
        assert isinstance(tokens.alphabet, Vectors)
        weight, bias = self._lift(slice(KEY, CODE + 1))
        vectors = tokens.alphabet.vectors
        error = lift_error(vectors, weight.numpy(), bias.numpy()) * (tokens.unit / UNIT)
        return Proposal(*lifted(vectors, weight.numpy(), bias.numpy()), (weight, bias), error)

    def _lift(self, slots: slice) -> tuple[Tensor, Tensor]:
        """Weights and biases of vectors for some coordinates of the stream."""
        lift = self.model.lift
        assert isinstance(lift, nn.Linear)
        return lift.weight.detach()[slots].double(), lift.bias.detach()[slots].double()

    def value(self, tokens: Tokens, stage: int) -> Value:
        """What stage `stage`, from 2, averages: as the model has it; where it has no such stage, drawn anew.

        Then values of ids, places and begin token are a function of the stage and the row alone; those of vectors are
        scaled to the data.
        """
        block, places, share = self.model.feed_forward, self.model.positions, self._share
        known = stage <= self.rank
        slot = value_slot(stage, block.labels)
        if known:
            position = None if places is None else places.weight.detach()[:, slot].contiguous()
            bos = float(self.model.bos.detach()[slot])
        else:
            place, begin = (np.random.default_rng([*_NEW_KEYS, stage, part]) for part in (1, 2))
            size = 0 if places is None else places.num_embeddings
            position = None if places is None else torch.from_numpy(place.uniform(-share, share, size)).to(self.dtype)
            bos = float(torch.tensor(begin.uniform(-1.0, 1.0), dtype=self.dtype))
        if self.table is not None:
            column = self.table[:, slot] if known else new_values(stage, len(self.table), share)
            return Value(torch.from_numpy(column.copy()).to(self.dtype), position, bos, None, 0.0)
        assert isinstance(tokens.alphabet, Vectors)
        if not known:
            random = np.random.default_rng([*_NEW_KEYS, stage, 0])
            proposal = in_format(tokens.alphabet.propose(random, share, 1), tokens)
            return Value(proposal.key, position, bos, (proposal.lift[0][0], proposal.lift[1][0]), proposal.lift_error)
        weight, bias = self._lift(slice(slot, slot + 1))
        both = np.repeat(weight.numpy(), 2, axis=0), np.repeat(bias.numpy(), 2)
        vectors = tokens.alphabet.vectors
        error = lift_error(vectors, weight.numpy(), bias.numpy()) * (tokens.unit / UNIT)
        return Value(lifted(vectors, *both)[0], position, bos, (weight[0], bias[0]), error)

    @property
    def _share(self) -> float:
        """With positions, keys and values are sums of two parts: each has half of [−1, 1]."""
        return 1.0 if self.model.positions is None else 0.5


def new_values(stage: int, size: int, share: float) -> NDArray[np.float64]:
    """Values of ids `(V,)` for a stage; that of a row does not depend on how many rows there are."""
    return np.random.default_rng([*_NEW_KEYS, stage, 0]).uniform(-share, share, size)


def _shortcut(model: Monolayer) -> tuple[float, float] | None:
    """`λ` and `κ` of the first stage, if attention is that of a construction with this readout."""
    found = model.attention.shortcuts(model.feed_forward.slots)
    return None if found is None or set(found[1][1:]) - {KAPPA} else (found[0], found[1][0])
