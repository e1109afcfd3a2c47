"""A model of monolayer as a stock architecture: the answers of the model, memorized again.

Weights hold thresholds of contexts, not the sequences that had them, so the sequences must be given. Labels need not
be, for the model has them. A model that recites holds its text, and needs nothing.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monolayer.bar import shows_progress
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.folder import check_output
from monolayer.data.model_kinds import MODEL_KINDS
from monolayer.data.prompts import pieces
from monolayer.errors import DataError
from monolayer.huggingface.architectures import ARCHITECTURES, architecture_named
from monolayer.model.chain import write_readout
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer
from monolayer.model.torch_settings import own_settings
from monolayer.model.unknown import refusal
from monolayer.stock.build import memorize_as
from monolayer.stock.draw import Storage
from monolayer.stock.folder import STOCK, StockModel
from monolayer.table import Progress, plural


@shows_progress
@own_settings()
def export(
    model: Monolayer | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    to: str,
    X: Any = None,
    *,
    part: str | None = None,
    lengths: Any = None,
    storage: Storage | None = None,
    overwrite: bool = False,
    onnx: bool = False,
    progress: Progress | bool | None = None,
    **options: Any,
) -> StockModel | Path:
    """Write to `folder` a stock model that answers on `X` as `model` does, and return it.

    - `model`: a `Monolayer` of ids or strings and classes, or its folder.
    - `folder`: the folder to write.
    - `to`: the architecture (bert, gpt2, …; docs/stock.md).
    - `X`: the sequences, as for `predict`. If they have labels, these only choose the places (`verify` compares
      labels). A model that recites needs no `X`: its text is memorized by a causal architecture.
    - `part`: `to="onnx", part="readout"` writes a file instead, with the feed-forward block alone, for verifiers
      (docs/benchmarks.md), and returns its path.
    - `lengths`: how many tokens each row of a padded `X` has.
    - `storage`: `cells` by default, and `steps` for a recited text.
    - `overwrite`: True replaces a stock folder that is there already.
    - `onnx`: True adds `onnx/model.onnx`.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.
    - `options`: further options of `memorize_as`, such as `rank`, `dtype` or `seed`. Where the model recognizes what it
      was not built from, the folder has a class for it, unless `unknown=False`.

    Example:

        >>> model = ml.memorize({"France": "Paris", "Japan": "Tokyo"})
        >>> stock = ml.export(model, "bert", "bert", ["France", "Japan"])
        >>> print(stock.predict(["Japan"]))
        ['Tokyo']
    """
    if to == "onnx" or part is not None:
        if (to, part) != ("onnx", "readout"):
            raise DataError(
                "an ONNX file holds one part of a model, for verifiers: to='onnx', part='readout'. The whole network "
                "goes into a stock folder: to='bert', onnx=True"
            )
        chosen = {"X": X is not None, "storage": storage is not None, "onnx": onnx, **dict.fromkeys(options, True)}
        if more := [name for name, value in chosen.items() if value]:
            raise DataError(f"the readout is written as it is: leave {', '.join(more)} out")
        return write_readout(load_monolayer(model), folder, overwrite=overwrite)
    kind = architecture_named(to)
    check_output(Path(folder), overwrite=overwrite, kind=STOCK)
    model = load_monolayer(model)
    if not MODEL_KINDS[model.card.kind].holds_facts or model.card.vocabulary is None:
        raise DataError("only a memorizer of ids or strings fits a stock architecture: its tokens are rows of a table")
    if model.card.classes is None:
        raise DataError("the answers of this model are real numbers: a stock architecture answers with classes")
    if model.card.script is not None and X is None:
        sees, data = True, _recited(model)
        # A text is one long sequence. Steps hold hundreds of thousands of its places, and are proved in seconds; cells
        # need positions to keep contexts apart that differ in one token of thousands, and their proof takes minutes.
        storage = storage or ("cells" if kind.rms else "steps")
        positions = storage == "cells"
    else:
        if X is None:
            raise DataError(
                "the weights hold thresholds of contexts, not the sequences that had them: give the sequences to be "
                "answered (X, DATA). Their labels are not needed, for the model has them"
            )
        if model.card.script is not None:
            raise DataError("a model that recites is exported with its text, which it holds: leave the data out")
        sees, data, positions = model.card.causal, _labelled_by_model(model, X, lengths), model.positions is not None
    if sees != kind.causal:
        able = [name for name, each in ARCHITECTURES.items() if each.causal == sees]
        does = "only what came before" if sees else "all of its sequence"
        raise DataError(f"a token of this model sees {does}, and one of {to} does not: take one of {', '.join(able)}")
    if storage != "steps" and not model.feed_forward.stairs and options.get("dtype") is None:
        options["dtype"] = str(model.bos.dtype).removeprefix("torch.")  # a robust model stays in its format
    if storage != "steps" and model.card.fingerprint is not None and data.labels is not None:
        options.setdefault("unknown", True)  # the folder, too, recognizes what is not in the data
    built = memorize_as(to, data, positions=positions, storage=storage, progress=progress, **options)
    built.save(folder, overwrite=overwrite, onnx=onnx)
    return built


def _labelled_by_model(model: Monolayer, X: object, lengths: object) -> Sequences:
    """The sequences labelled by the model. Labels in the data only choose the places."""
    card = model.card
    read = Sequences.of(X, lengths=lengths, like=card.manner)
    data = model.encode(read)
    if card.fingerprint is not None and not card.next_token:
        known = model.known(data)
        places = np.arange(len(known)) if data.labels is None else data.labelled_places
        unknown = places[~known[places]]
        if len(unknown):
            raise refusal(model, read, np.unique(card.labelling.rows(data, unknown)))
    with torch.no_grad():
        values = model.labels(data)
    if card.next_token:
        data = replace(data, labels=None)
        target = Target.of(data, causal=True)
        wrong = np.flatnonzero(values[target.place] != target.number)
        if len(wrong):
            place = int(np.arange(len(values))[target.place][wrong[0]])
            raise DataError(
                f"after {data.where(place)} the model says {card.decode(values[place : place + 1])[0]!r}, and the data "
                f"go on otherwise; {plural(len(wrong), 'such place')} in all. Give the sequences that it was built from"
            )
        return data
    labels = card.labels(values)
    if data.labels is not None:
        labels = replace(labels.take(data.labelled_places, len(values)), place=data.labels.place)
    return replace(data, labels=labels)


def _recited(model: Monolayer) -> Sequences:
    """The text that a model recites, as one sequence of the pieces that a stock tokenizer cuts it into."""
    assert model.card.script is not None  # the caller checked
    text = model.generate()
    return Sequences.of([list(text) if model.card.script.unit == "characters" else pieces(text)])
