"""A stock folder and its data: the draw behind it found again, and what the same draw makes of other data.

A folder holds no seed, but its data and a seed determine it. So the draw is found by building the model once more and
comparing every tensor bit for bit; then embedding, attention, gates and head stay, and only neurons change.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from monolayer.data import Sequences
from monolayer.errors import DataError, PrecisionError
from monolayer.stock.architecture import Architecture, Tensors, choose
from monolayer.stock.build import ARCHITECTURES, SLACK, Found, _separate, measured, model_of
from monolayer.stock.folder import StockModel
from monolayer.stock.gates import ACTIVATIONS, ramp
from monolayer.stock.labelled import Answer, Work, work
from monolayer.stock.reading import adopted, check_cut, check_room, read_folder, read_key
from monolayer.stock.tokenizer import DECODER, ENCODER, token_names


@dataclass(frozen=True, eq=False)
class StockDraw:
    """A stock model with all that went into it but the labels."""

    kind: Architecture
    job: Work
    found: Found
    activation: str
    special: Mapping[str, str]
    places: int
    model: StockModel

    @classmethod
    def of(cls, folder: Path, data: Sequences, seed: int = 0) -> StockDraw:
        """The draw of a folder, from the data it was built from; other data, or another seed, are refused."""
        config, tensors = read_folder(folder)
        kind = choose(str(config.get("model_type")), ARCHITECTURES)
        activation = str(read_key(folder, config, "activation"))
        if data.vocabulary is None:
            raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
        special = DECODER if kind.causal else ENCODER
        width = int(read_key(folder, config, "width"))
        table = [tensor for name, tensor in tensors.items() if any(part in name for part in _PLACES)]
        positions = bool(table) and bool(table[0].any())
        names = token_names(data.vocabulary, special)
        job = work(kind, data, names, special, positions=positions, on_conflict="error")
        found = _separate(kind, job, seed, width)
        model = model_of(kind, job, found, activation, special, time.perf_counter())
        if not _same(model.tensors, tensors):
            raise DataError(
                f"{folder} is not what memorize_as makes of these data with seed={seed}: give all the data that it was "
                "built from, and its seed"
            )
        return cls(kind, job, found, activation, special, model.longest, model)

    @property
    def data(self) -> Sequences:
        return self.job.data

    def with_data(self, data: Sequences) -> StockDraw:
        """The same draw with other rows or labels, in the numbers of its own names."""
        began = time.perf_counter()
        check_room(data, self.places - 1 - self.kind.offset + self.kind.hidden_rows)
        job = self.work(data)
        target, _ = job.task.settle(job.task.target)
        kept = self.found.reach, self.found.gate
        layout, usual = self.found.layout, self.found.usual
        found = measured(self.kind, job, target, layout, usual, self.found.temperature, 0, kept)
        if found.gap is not None and found.gap < SLACK * found.common:
            raise PrecisionError(
                f"two facts of one token would have different labels and lie {found.gap / found.common:.2g} rounding "
                f"errors apart; {SLACK:g} are needed. Give both one label, or memorize the edited data anew"
            )
        model = model_of(self.kind, job, found, self.activation, self.special, began, self.places, self.model.cut)
        return replace(self, job=job, found=found, model=model)

    def answers(self, data: Sequences) -> list[Answer]:
        """What the steps say at the facts of `data`, one after the other; a few hundred at most."""
        job, found = self.work(data), self.found
        asked = measured(self.kind, job, job.task.target, found.layout, found.usual, found.temperature, 0)
        own, names = found.changes, job.class_names.names
        cell = found.points.cells(found.layout)[own.order]
        feature = np.empty(len(asked.points.token))
        feature[asked.changes.order] = asked.changes.feature
        theirs = asked.points.cells(found.layout)
        first, last = (np.searchsorted(cell, theirs, side=side) for side in ("left", "right"))
        answers = []
        for phi, token, begin, end in zip(feature, asked.points.token, first, last, strict=True):
            passed = begin + int(np.searchsorted(own.feature[begin:end], phi, side="right"))
            left = own.label[passed - 1] if passed > begin else found.usual[token]
            right = own.label[passed] if passed < end else left
            if passed == begin < end:  # in front of the first point: the step there stands at a distance of its own
                middle, gap = own.feature[begin] - found.reach / 4.0, found.reach / 4.0
            elif passed < end:
                gap = own.feature[passed] - own.feature[passed - 1]
                middle = own.feature[passed - 1] + gap / 2.0
            if left == right:
                answers.append(Answer(names[left]))
                continue
            shape = ACTIVATIONS[self.activation]
            slope, bias = ramp(shape, np.array(middle), np.array(gap))
            value = float(slope * phi + bias)
            if shape.low < value < shape.high:
                answers.append(Answer(None, [names[left], names[right]]))
            else:
                answers.append(Answer(names[left if value <= shape.low else right]))
        return answers

    def work(self, data: Sequences) -> Work:
        """What a model of other data, in the numbers of these names, must answer."""
        positions = self.job.task.context.positions
        return work(self.kind, data, self.job.names, self.special, positions=positions, on_conflict="error")

    def adopt(self, data: Sequences) -> Sequences:
        """`data` in the numbers of this draw's tokens and classes; what it lacks is an error that names it."""
        own = self.data
        assert own.vocabulary is not None
        labels = own.labels
        known = (None, None) if labels is None else (labels.classes, labels.per)
        found = adopted(data, own.vocabulary, *known)
        check_cut(found, self.job.names, self.special, self.model.cut)
        return found


_PLACES = ("position_embeddings", "wpe", "embed_positions")


def _same(one: Tensors, two: Mapping[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(
        two[name].dtype == torch.float64 and np.array_equal(one[name], two[name].numpy()) for name in one
    )
