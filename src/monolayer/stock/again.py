"""A stock folder and its data: the draw behind it found again, and what the same draw makes of other data.

A folder holds no seed, but its data and a seed determine it. So the draw is found by building the model once more and
comparing every tensor bit for bit; then embedding, attention, gates and head stay, and only neurons change.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from monolayer.data import Labels, Names, Sequences
from monolayer.data.names import Ints
from monolayer.errors import DataError, ModelFileError, PrecisionError
from monolayer.stock.architecture import Architecture, Tensors, choose
from monolayer.stock.build import ARCHITECTURES, SLACK, Found, _separate, measured, model_of
from monolayer.stock.folder import StockModel
from monolayer.stock.labelled import Work, work
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
        activation = next((str(config[key]) for key in _ACTIVATION if key in config), kind.own_activation)
        if data.vocabulary is None:
            raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
        special = DECODER if kind.causal else ENCODER
        width = next(int(config[key]) for key in _WIDTH if key in config)
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
        began, old = time.perf_counter(), self.job
        if int(data.lengths.max()) > int(self.data.lengths.max()) and self.found.layout.places is not None:
            raise DataError(f"a sequence of {int(data.lengths.max())} tokens is longer than this model has places for")
        positions = old.task.context.positions
        job = work(self.kind, data, old.names, self.special, positions=positions, on_conflict="error")
        target, _ = job.task.settle(job.task.target)
        kept = self.found.reach, self.found.gate
        layout, usual = self.found.layout, self.found.usual
        found = measured(self.kind, job, target, layout, usual, self.found.temperature, 0, kept)
        if found.gap is not None and found.gap < SLACK * found.common:
            raise PrecisionError(
                f"two facts of one token would have different labels and lie {found.gap / found.common:.2g} rounding "
                f"errors apart; {SLACK:g} are needed. Give both one label, or memorize the edited data anew"
            )
        model = model_of(self.kind, job, found, self.activation, self.special, began, self.places)
        return replace(self, job=job, found=found, model=model)

    def adopt(self, data: Sequences) -> Sequences:
        """`data` in the numbers of this draw's tokens and classes; what it lacks is an error that names it."""
        own = self.data
        assert own.vocabulary is not None
        if data.vocabulary is None:
            raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
        tokens, labels = _numbers(own.vocabulary, data.vocabulary, data.tokens, "token"), data.labels
        if labels is not None and own.labels is not None and own.labels.classes is not None:
            if labels.classes is None or labels.per != own.labels.per:
                raise DataError(f"the labels must be classes, one a {own.labels.per}, as those of the model")
            values = _numbers(own.labels.classes, labels.classes, labels.values, "label")
            labels = Labels(values, labels.per, own.labels.classes)
        return Sequences(tokens, data.lengths, own.vocabulary, labels)


_ACTIVATION = ("hidden_act", "activation", "activation_function")
_WIDTH = ("hidden_size", "dim", "n_embd")
_PLACES = ("position_embeddings", "wpe", "embed_positions")


def read_folder(folder: Path) -> tuple[dict[str, Any], Tensors]:
    """`config.json` and the tensors of a stock folder."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        short = config.get("dtype") != "float64"
        tensors = {} if short else load_file(folder / "model.safetensors")
    except (OSError, ValueError, AttributeError, SafetensorError) as error:
        raise ModelFileError(f"{folder} cannot be read as a stock folder: {error}") from None
    if short:
        raise DataError(
            f"{folder} is a robust model, and only steps of a line can be taken out and put in: memorize the edited "
            "data anew with robust=True"
        )
    return config, tensors


def _same(one: Tensors, two: Tensors) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def _numbers(ours: Names, theirs: Names, rows: Ints, what: str) -> Ints:
    number = ours.find(theirs)[rows]
    if (number < 0).any():
        name = theirs.names[int(rows[np.flatnonzero(number < 0)[0]])]
        raise DataError(
            f"the {what} {name!r} is new to this model, whose embedding and head have a row for each name: memorize "
            "the edited data anew"
        )
    return number
