"""The report on labels that a model was built to return and does not return.

A construction leaves room for rounding at every label, so this can only be a fault of the program or of the machine.
The report has what tells the two apart: where answers are wrong, what is answered there when asked again, and digests
of weights and data, which another build of the same data must share.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from monolayer.checker.labelled import data_digest

if TYPE_CHECKING:
    from monolayer.arrays import Array, Ints
    from monolayer.data import Sequences
    from monolayer.model.monolayer import Monolayer

MOST_PLACES = 20
"""How many wrong answers a report shows; it only counts the others."""


def report_of_wrong_answers(model: Monolayer, data: Sequences, wrong: Ints, answers: Array) -> str:
    """Describe wrong answers for whoever looks for their cause.

    - `data`: labelled data that the model was built from.
    - `wrong` `(W,)`: which labels of the data do not come back, by their numbers.
    - `answers` `(W,)` or `(W, m)`: what came back, as `Monolayer.labels` gives it.
    """
    from monolayer.construct.target import Target

    target = Target.of(data, model.card.causal)
    some = wrong[:MOST_PLACES]
    place = some if target.place is None else target.place[some]
    labelling = target.labelling
    row = labelling.rows(data, place)
    chosen, which = np.unique(row, return_inverse=True)
    asked = model.encode(data.select(chosen))
    there = asked.offsets[which] + place - data.offsets[row] if labelling.at_tokens else which
    again, dense = (_named(model, model.labels(asked, path=path)[there]) for path in ("auto", "dense"))
    first = _named(model, answers[: len(some)])
    count = f"{len(wrong):,} of {len(target.number):,}"
    lines = [
        f"the model does not return the label that it was built to return at {count} places",
        "  this is a fault of the program or of the machine: please report it with these lines",
        f"  weights: {weights_digest(model)}",
        f"  data: {data_digest(data)}",
    ]
    for number, at in enumerate(place.tolist()):
        where = labelling.describe(data, at)
        wanted = target.name(int(target.number[some[number]]))
        lines.append(
            f"  {where}: {wanted} is right, {first[number]} came back; asked again, {again[number]}; asked by the "
            f"dense network, {dense[number]}"
        )
    return "\n".join(lines)


def _named(model: Monolayer, values: Array) -> list[str]:
    """Answers by the names that users know, as text."""
    return [repr(one) for one in np.asarray(model.card.decode(values)).tolist()]


def weights_digest(model: Monolayer) -> str:
    """SHA-256 of the weights of a model in memory: their names, types and bits."""
    import torch

    digest = sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
