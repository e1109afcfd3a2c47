"""The draw of a stock folder of steps, read from its files, and what the same draw makes of other data.

A *draw* is here: names, codes, keys, temperature, the usual label in each embedding, tokenizer and places, all of
which stand in the folder's files, and two numbers in its `config.json`: `reach` and `gate`. With it the data determine
every tensor, so that they are the folder's own is seen by building it once more and comparing bit for bit. A folder of
before, which lacks the two numbers, must be what a seed makes of its data.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolayer.data import Sequences
from monolayer.data.names import Ints
from monolayer.errors import DataError, PrecisionError
from monolayer.stock import tracing
from monolayer.stock.architecture import Architecture, Frame, Tensors, choose
from monolayer.stock.build import ARCHITECTURES, DRAW, SLACK, TEMPERATURES, Found, _separate, measured, model_of
from monolayer.stock.codes import Floats
from monolayer.stock.folder import StockModel
from monolayer.stock.gates import ACTIVATIONS, ramp
from monolayer.stock.labelled import Answer, Work, work
from monolayer.stock.layout import Layout, lay_out
from monolayer.stock.reading import adopted, check_cut, check_room, named, read_folder, read_key, read_tokenizer
from monolayer.stock.tokenizer import DECODER, ENCODER, token_names

NOT_THESE = (
    "{} is not what its draw makes of these data: give all the data that it was built from, with later edits made in "
    "them. If these are all, its weights were changed, or it was built on another machine or by another version"
)
NOT_OURS = (
    "{} has no draw to use again: {} is not such as memorize_as of this version writes it (changed, trained, or built "
    "by another version). Memorize the edited data anew"
)


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
        """The draw of a folder, and its data; others are refused. `seed`: of a folder that does not say its draw."""
        config, tensors = read_folder(folder)
        kind = choose(str(config.get("model_type")), ARCHITECTURES)
        activation = str(read_key(folder, config, "activation"))
        if data.vocabulary is None:
            raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
        if DRAW not in config:
            return cls._again(folder, kind, activation, config, tensors, data, seed)
        special = DECODER if kind.causal else ENCODER
        ids, cut = read_tokenizer(folder, special)
        own = adopted(data, *named(data, config, ids[len(special) :]))
        width, places = (int(read_key(folder, config, what)) for what in ("width", "places"))
        kept = _numbers(folder, config)
        plain = work(kind, own, ids, special, positions=False, on_conflict="error")
        wanted = kind.models[plain.kind]
        if config.get("architectures") != [wanted]:
            raise DataError(f"{folder} is no {wanted}, which is what holds such data: give the data it was built from")
        blank = tracing.blank(kind, plain.kind, len(ids), plain.classes, width, activation, places)
        layout, usual, temperature = _read(folder, kind, blank, tensors)
        job = work(kind, own, ids, special, positions=layout.places is not None, on_conflict="error")
        try:
            check_room(own, places - 1 - kind.offset + kind.hidden_rows)
            found = measured(kind, job, job.task.settle(job.task.target)[0], layout, usual, temperature, 0, kept)
        except PrecisionError:
            raise DataError(NOT_THESE.format(folder)) from None
        model = model_of(kind, job, found, activation, special, time.perf_counter(), places, cut)
        said, sizes = json.loads(json.dumps(dict(model.config))), tracing.size_keys(kind, blank)
        odd = [key for key, value in said.items() if config.get(key) != value and key not in sizes]
        if odd:
            raise DataError(NOT_OURS.format(folder, f"{odd[0]} in config.json"))
        if not _same(model.tensors, tensors):
            raise DataError(NOT_THESE.format(folder))
        return cls(kind, job, found, activation, special, places, model)

    @classmethod
    def _again(
        cls,
        folder: Path,
        kind: Architecture,
        activation: str,
        config: dict[str, Any],
        tensors: dict[str, Tensor],
        data: Sequences,
        seed: int,
    ) -> StockDraw:
        """The draw of a folder that does not say it, by building the folder again from all of its data and its seed."""
        assert data.vocabulary is not None  # the caller asked
        special = DECODER if kind.causal else ENCODER
        width, places = (int(read_key(folder, config, what)) for what in ("width", "places"))
        names = token_names(data.vocabulary, special)
        blank = tracing.blank(kind, next(iter(kind.models)), len(names), (), width, activation, places)
        positions = tracing.places(kind, blank, tensors) is not None
        job = work(kind, data, names, special, positions=positions, on_conflict="error")
        model = model_of(
            kind, job, found := _separate(kind, job, seed, width), activation, special, time.perf_counter()
        )
        if not _same(model.tensors, tensors):
            raise DataError(
                f"{folder} is not what memorize_as makes of these data with seed={seed}: give all the data that it was "
                "built from, and its seed"
            )
        return cls(kind, job, found, activation, special, model.longest, model)

    @property
    def data(self) -> Sequences:
        return self.job.data

    def axes(self) -> dict[str, int]:
        """The tensors that hold neurons, and the axis that counts them."""
        task, classes = self.job.kind, self.job.classes
        blank = tracing.blank(self.kind, task, len(self.job.names), classes, 2, self.activation, self.places)
        return dict(tracing.neuron_axes(self.kind, blank))

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
            place = found.changes.change[int(np.argmin(found.changes.gap))]
            one, two = (job.where(int(found.changes.order[i])) for i in (place, place + 1))
            raise PrecisionError(
                f"{one} and {two} would have different labels and lie {found.gap / found.common:.2g} rounding errors "
                f"apart; {SLACK:g} are needed. Give both one label, or memorize the edited data anew"
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


def _numbers(folder: Path, config: Mapping[str, Any]) -> tuple[float, float]:
    """Reach and gate."""
    said = config[DRAW] if isinstance(config[DRAW], dict) else {}
    reach, gate = said.get("reach"), said.get("gate")
    if not (type(reach) is type(gate) is float and 0.0 < reach < np.inf and 0.0 < gate < np.inf):
        raise DataError(NOT_OURS.format(folder, f"{DRAW} in config.json"))
    return reach, gate


def _read(folder: Path, kind: Architecture, blank: Frame, tensors: Mapping[str, Tensor]) -> tuple[Layout, Ints, float]:
    """Layout, usual labels and temperature; that the rest of the tensors follows from them is seen later."""
    name = tracing.embedding(kind, blank)
    tracing.check_shape(tensors, name, blank.tokens)
    tokens = tensors[name].double().numpy()
    places = tracing.places(kind, blank, tensors)
    temperature = float(tracing.attention(kind, blank, tensors, "b_Q")[kind.slot(blank.width)] / np.sqrt(blank.width))
    if temperature not in TEMPERATURES:
        raise DataError(NOT_OURS.format(folder, "attention"))
    keys = tokens[:, 0], None if places is None else places[:, 4]
    if not all(np.abs(part).max(initial=0.0) <= 1.0 for part in keys if part is not None):
        raise DataError(NOT_OURS.format(folder, "a key"))

    def laid(usual: Ints) -> Layout:
        width, classes = blank.width, len(blank.classes)
        return lay_out(usual, keys, classes, post_norm=kind.post_norm, width=width, epsilon=kind.epsilon)

    first = laid(np.zeros(len(tokens), np.int64))
    usual = tracing.spelled(tokens[:, first.label], first.words)
    if (usual < 0).any():
        raise DataError(NOT_OURS.format(folder, f"row {int((usual < 0).argmax())} of the embedding"))
    return laid(usual), usual, temperature


def _same(one: Tensors, two: Mapping[str, Tensor]) -> bool:
    """Whether all tensors are the same bits."""
    return one.keys() == two.keys() and all(
        two[name].dtype == torch.float64 and same_bits(one[name], two[name].numpy()) for name in one
    )


def same_bits(one: Floats, two: Floats) -> bool:
    """Whether two arrays are the same bits; −0.0 is not 0.0."""
    a, b = (np.ascontiguousarray(part).view(np.int64) for part in (one, two))
    return np.array_equal(a, b)
