"""A model with other tensors: what a record makes of a model, and of the edited one when it is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor

from monolayer.editing.splice import Splice, array_of, tensor_of
from monolayer.editing.swap import Swap
from monolayer.errors import DataError
from monolayer.model.card import Card
from monolayer.model.cascade import Cascade
from monolayer.model.gates import Gates
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.staircase import Form, Staircase

FINGERPRINTS = "fingerprints"
"""Stands for the tensor of what a model was built from, which is no weight."""


def rebuilt(
    model: Monolayer, card: Card, splices: Iterable[Splice], swaps: Iterable[Swap], known: bool = False
) -> Monolayer:
    """A copy of `model` with other tensors where `splices` and `swaps` say so, and another `card`.

    An error where `model` is not the one that they were found for (`known`: it is).
    """
    dtype = model.bos.dtype
    tensors = {name: value.detach() for name, value in model.state_dict().items()}
    changed: dict[str, Tensor] = {}
    for splice in splices:
        if splice.tensor == FINGERPRINTS and card.fingerprint is not None:
            words = splice.apply(card.fingerprint.words, known=known)
            card = replace(card, fingerprint=replace(card.fingerprint, words=words))
            continue
        if splice.tensor not in tensors:
            raise DataError(f"the model has no {splice.tensor}, which this record changes: it belongs to another model")
        old = changed.get(splice.tensor, tensors[splice.tensor])
        changed[splice.tensor] = tensor_of(splice.apply(array_of(old), known=known), old.dtype)
    for swap in swaps:
        mine = tensors.pop(swap.tensor, None)
        new = swap.apply(None if mine is None else array_of(mine))
        if new is not None:
            tensors[swap.tensor] = changed[swap.tensor] = tensor_of(new, dtype)

    def part(name: str) -> Tensor:
        # By NumPy: it copies a million numbers in a millisecond, where PyTorch first wakes its threads.
        own = tensors[name]
        return changed[name] if name in changed else tensor_of(array_of(own).copy(), own.dtype)

    lift = linear(part("lift.weight"), part("lift.bias")) if "lift.bias" in tensors else embedding(part("lift.weight"))
    readout = _readout(model, card, tensors.keys(), part)
    new_model = Monolayer(
        lift,
        None if model.positions is None else embedding(part("positions.weight")),
        part("bos"),
        type(model.attention)(*(part(f"attention.{name}") for name in ("W_Q", "W_K", "W_V", "W_O"))),
        readout,
        linear(part("head.weight"), part("head.bias")),
        card,
    )
    return new_model.to(model.bos.device)


def _readout(
    model: Monolayer, card: Card, names: Iterable[str], part: Callable[[str], torch.Tensor]
) -> Staircase | Gates | Cascade:
    """The readout that the names of its tensors tell: one staircase, or one per stage."""
    own = model.feed_forward

    def block(prefix: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        one, two, three, four = (part(f"{prefix}.{name}") for name in ("weight_1", "bias_1", "weight_2", "bias_2"))
        return one, two, three, four

    form: Form = "runs" if card.classes is None else "exact"
    stages = sum(name.startswith("feed_forward.stages.") and name.endswith(".bias_2") for name in names)
    if stages:
        stairs = [Staircase(*block(f"feed_forward.stages.{number}"), form) for number in range(stages)]
        return Cascade(stairs, len(stairs[-1].bias_2))
    four = block("feed_forward")
    if isinstance(own, Gates):
        return Gates(*four, own.layout, own.even)
    return Staircase(*four, own.readout if isinstance(own, Staircase) else form)
