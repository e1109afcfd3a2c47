"""The draw of a model, used again for other data: then only the readout depends on them.

A *draw* is all of a model but its readout: names of tokens and classes with their numbers, keys and codes, positions,
the begin token, temperature and κ. With it fixed, every point has its number `z` before any label is known, and the
readout is a function of the set of pairs (z, label) alone (docs/editing.md). So two models with one draw can be
compared neuron by neuron, and an edit is a change of a few of them.

Tokens that the draw lacks get the next free codes and keys of their own, a function of their row number; a token that
the data lack loses its row, as in every model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from monolayer.construct.adopt import adopted
from monolayer.construct.consistency import Context
from monolayer.construct.construction import Progress
from monolayer.construct.line.alphabet import Ids, Proposal, lift_error, lifted
from monolayer.construct.line.assemble import stream
from monolayer.construct.line.draw import Draw, Tokens
from monolayer.construct.line.points import SLACK, Points, numbers
from monolayer.construct.line.separate import margins
from monolayer.construct.line.steps import Choice, dense_error, staircase
from monolayer.construct.target import Target
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.data.names import Ints
from monolayer.errors import DataError, PrecisionError
from monolayer.model.attention import CODE, KEY, ONE
from monolayer.model.card import Card
from monolayer.model.layers import embedding, linear
from monolayer.model.memory import remembered
from monolayer.model.monolayer import Monolayer
from monolayer.model.parts import staircase_of
from monolayer.model.shortcut import as_built, plain_head
from monolayer.model.staircase import Staircase

_NEW_KEYS = (2307, 14023)
"""With the row number of a new token, the seed of its key."""


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
        staircase_of(model)  # or the error that says that there is none
        why = "its weights are not such as memorize gives them (changed, trained, or in another format than float64)"
        if model.bos.dtype != torch.float64 or model.bos.device.type != "cpu":
            raise DataError(f"this model has no draw to use again: {why}; a model on another device is moved by .cpu()")
        shortcut = model.attention.shortcut()
        if (
            shortcut is None
            or not remembered(model, "as built", lambda: as_built(model))
            or float(model.bos.detach()[CODE]) != 0.0
        ):
            raise DataError(f"this model has no draw to use again: {why}")
        table = model.lift.weight.detach().numpy() if isinstance(model.lift, nn.Embedding) else None
        return cls(model, replace(model.card, summary=None, fingerprint=None), table, *shortcut)

    def rules(self, positions: bool, causal: bool, readout: str, temperature: float | None) -> tuple[bool, bool]:
        """Whether positions and order in time count in this draw; wishes other than the defaults must agree."""
        own = {"positions": self.model.positions is not None, "causal": self.card.causal}
        own_readout = self.model.feed_forward.readout
        for name, wish, default in (("positions", positions, False), ("causal", causal, False)):
            if wish != default and wish != own[name]:
                raise DataError(f"the draw was made with {name}={own[name]}: leave {name} out, or the draw")
        if readout == "paper" and own_readout != "paper":
            raise DataError(f"the draw belongs to the readout {own_readout!r}: leave readout out, or the draw")
        if temperature is not None and temperature != self.temperature:
            raise DataError(f"the draw has the temperature {self.temperature:g}: leave temperature out, or the draw")
        return own["positions"], own["causal"]

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
        places = self.model.positions
        share = 1.0 if places is None else 0.5
        # One cell a token, or one a (token, position) pair where positions have cells too.
        stride = 1.0
        if places is not None and float(places.weight.detach()[:, CODE].max()) >= 1.0:
            stride = float(places.num_embeddings)
        last = float(self.table[known, CODE].max()) if known.any() else -stride
        key = [np.random.default_rng([*_NEW_KEYS, row]).uniform(-share, share) for row in new.tolist()]
        code = last + stride * (1.0 + np.arange(len(new)))
        table[new] = stream(torch.tensor(key, dtype=torch.float64), torch.from_numpy(code), table.shape[1]).numpy()
        return table

    def context(self, data: Sequences) -> Context:
        """Adopted `data` as the model sees them, for telling facts apart exactly."""
        rows = data.tokens if data.vocabulary is not None else distinct_rows(data.tokens)[1]
        return Context(data, rows, self.model.positions is not None, self.card.causal)

    # -- numbers ---------------------------------------------------------------------------------------

    def place(self, data: Sequences, target: Target) -> tuple[NDArray[np.float64], float]:
        """`z` of every labelled place of adopted `data` `(P,)`, and the bound on its error but for `u |z|`."""
        model = self.model
        positions: list[Tensor | None] = [None, None]
        if model.positions is not None:
            weight = model.positions.weight.detach()
            positions = [weight[:, KEY].contiguous(), weight[:, CODE].contiguous()]
        proposal, rows = self._proposal(data)
        place = None if model.positions is None else torch.from_numpy(data.position)
        alphabet = Ids(len(proposal.key))
        tokens = Tokens(rows, torch.from_numpy(data.lengths), alphabet, place, self.card.causal)
        bos_key = float(model.bos.detach()[KEY])
        draw = Draw(proposal, positions[0], positions[1], bos_key, self.temperature, "mixed", False)
        return numbers(draw, self.kappa, tokens, target), draw.point_error(self.kappa, tokens)

    def _proposal(self, data: Sequences) -> tuple[Proposal, Tensor]:
        if self.table is not None:
            key, code = (torch.from_numpy(self.table[:, slot].copy()) for slot in (KEY, CODE))
            return Proposal(key, code), torch.from_numpy(data.tokens)
        lift = self.model.lift
        assert isinstance(lift, nn.Linear)
        weight, bias = (part.detach()[KEY : CODE + 1].numpy() for part in (lift.weight, lift.bias))
        vectors = np.asarray(data.tokens, dtype=np.float64)
        key, code = lifted(vectors, weight, bias)
        return Proposal(key, code, (), lift_error(vectors, weight, bias)), torch.arange(len(vectors))

    # -- the model -------------------------------------------------------------------------------------

    def around(self, feed_forward: Staircase, used: Ints | None) -> Monolayer:
        """The model with this draw and another readout; `used` are the ids that have a row, None for vectors."""
        model, labels = self.model, len(feed_forward.bias_2)
        copies = [part if part is None else part.detach().clone() for part in _parts(model)]
        lift: nn.Embedding | nn.Linear
        if self.table is not None and used is not None:
            kept = np.zeros(len(self.table), dtype=bool)
            kept[used] = True
            lift = embedding(torch.from_numpy(np.where(kept[:, None], self.table, np.nan)))
        else:
            assert isinstance(model.lift, nn.Linear)
            lift = linear(model.lift.weight.detach().clone(), model.lift.bias.detach().clone())
        classes = None if self.card.classes is None else len(self.card.classes)
        head = linear(*plain_head(classes, labels, model.bos.numel()))
        places = None if copies[1] is None else embedding(copies[1])
        assert copies[0] is not None
        attention = type(model.attention)(*(part for part in copies[2:] if part is not None))
        return Monolayer(lift, places, copies[0], attention, feed_forward, head, self.card)


def _parts(model: Monolayer) -> list[Tensor | None]:
    places = None if model.positions is None else model.positions.weight
    return [model.bos, places, *(getattr(model.attention, name) for name in ("W_Q", "W_K", "W_V", "W_O"))]


@dataclass(frozen=True)
class Again:
    """The line with a draw that is given: the construction behind `memorize(..., draw=model)`."""

    draw: Reused

    def build(self, task: Task, report: Progress) -> Monolayer:
        """The model of these data with that draw. It has no summary: two ways to one model must give one file."""
        report("placing every label", 0.1)
        target = task.target
        z, error = self.draw.place(task.data, target)
        order = np.argsort(z)
        points = Points(z.take(order), order, self.draw.kappa, error)
        changes, level = target.runs(points.order)
        close = margins(points, changes)[1]
        if len(close):
            target, _ = task.settle(target)
            changes, level = target.runs(points.order)
            close = margins(points, changes)[1]
        if len(close):
            place = int(close[0])
            one, two = (task.data.labelled(int(points.order[place + i])) for i in range(2))
            room = (points.z[place + 1] - points.z[place]) / float(points.error(points.z[place]))
            raise PrecisionError(
                f"with this draw {one} and {two} have different labels and lie {room:.2g} rounding errors apart; "
                f"{SLACK:g} are needed. They are different points, not a contradiction: another draw (memorize without "
                "draw=) will tell them apart"
            )
        report("building the staircase", 0.7)
        wish: Choice = "paper" if self.draw.model.feed_forward.readout == "paper" else "exact"
        feed_forward, label_error = staircase(points, changes, level, target.classes is not None, wish)
        if wish == "paper":
            dense_error(feed_forward, points, target, label_error)
        return self.draw.around(feed_forward, None if task.vectors is not None else np.unique(task.context.rows))
