"""From a dataset to a one-layer Transformer that returns every label. No training.

`memorize` reads the data and chooses a construction; `line/build.py`, the paper's, reads like the proof.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal

import torch

from monolayer.construct.again import adopted, rebuilt
from monolayer.construct.consistency import OnConflict, check_conflict
from monolayer.construct.line import tensors
from monolayer.construct.line.build import Line
from monolayer.construct.line.steps import Choice
from monolayer.construct.robust.build import RANK, Robust
from monolayer.construct.robust.stored import Dtype
from monolayer.construct.task import Construction, Progress, Task
from monolayer.data.dtypes import dtype_name
from monolayer.data.examples import sample
from monolayer.data.names import Unit as Cut
from monolayer.data.readers import sequences_of
from monolayer.data.sequences import Per
from monolayer.data.text import Unit, windows
from monolayer.errors import DataError
from monolayer.model.card import Fingerprint
from monolayer.model.device import check_device
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer

NO_FINGERPRINT = "fingerprints are kept for ids and strings; tokens that are vectors have none: leave it out"


def memorize(
    X: Any,
    Y: Any = None,
    *,
    lengths: Any = None,
    per: Per | None = None,
    unit: Cut | None = None,
    positions: bool = False,
    causal: bool = False,
    readout: Choice = "exact",
    temperature: float | None = None,
    robust: bool | float = False,
    rank: int | Literal["auto"] | None = None,
    neurons: int | None = None,
    dtype: Dtype | torch.dtype | None = None,
    device: torch.device | str | None = None,
    seed: int | None = None,
    on_conflict: OnConflict = "error",
    fingerprint: bool = False,
    draw: Monolayer | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Monolayer:
    """A `Monolayer` that gives every token, or every sequence, of the data its label.

    `X`: ids `(N, n)`, vectors `(N, n, d)`, lists of any lengths, strings, a table (pandas, Polars), a dict, a data
    file, or `Sequences`; `Y`: one label per token or one per sequence, as `per` or else their shape says
    (`Sequences.of`); classes (integers, strings) or reals. `unit`: what a string is, its `characters`, its `words`, or
    one token, `whole`; the model remembers it. `positions=True` makes order matter;
    without it the model is permutation equivariant. `causal=True` hides what comes later; without `Y` it
    memorizes each next token. `readout`: `exact` or `paper`. `temperature`: the λ of the head, 0 for the mean of
    the keys; None: chosen by measurement. `on_conflict`: what to do where equal token and context have different
    labels. `fingerprint=True` keeps 8 bytes per point, so that `seen` and `predict(strict=True)` can tell what the
    model was built from. On one platform the same seed gives the same bits; None is 0.

    `rank`: the largest value rank allowed; the least that holds the data is taken, nearly always 1, the paper's
    (`auto`, the default: any up to 8; docs/construction.md). `dtype`: `float64`, or `float32`, in which the model then
    computes; as a name or as PyTorch's.

    `draw`: a model, or the folder of one, whose names, keys, codes, positions, temperature, format and rank are used
    again: only what follows from the labels is then built from the data (docs/editing.md). The draw decides `seed`,
    `dtype`, `rank`, `neurons`, `robust`, `temperature`, `readout`, `positions` and `causal`: leave them out. Such a
    model has no summary.

    `robust=True` builds another network, which survives noise and short formats (docs/robust.md); a number is the share
    of itself by which every weight may change. Its `rank` is a number (64) or `auto`, the least that does; its `dtype`
    `float32`, `bfloat16`, `float16` or `float64`. For it alone `neurons`: how many there may be. `device`: also where
    to build.

    `device`: where the model goes. Ids and classes that are tensors on an accelerator become a line there, without
    coming back to the processor; its bits may differ from those of a model built here, its labels do not.
    """
    report = progress or (lambda stage, share: None)
    check_conflict(on_conflict)
    for name, value in (("positions", positions), ("causal", causal), ("fingerprint", fingerprint)):
        if not isinstance(value, bool):
            raise DataError(f"{name} must be True or False, not {value!r}")
    check_device(device)
    dtype = dtype_name(dtype)

    if isinstance(draw, str | os.PathLike):
        draw = load_monolayer(draw)
    if draw is not None:
        _check_draw(
            seed=seed is not None,
            dtype=dtype is not None,
            rank=rank is not None,
            neurons=neurons is not None,
            robust=robust is not False,
            temperature=temperature is not None,
            readout=readout != "exact",
            positions=positions,
            causal=causal,
        )
    seed = 0 if seed is None else seed
    construction: Construction = _choose(readout, temperature, robust, rank, neurons, dtype, seed, device)
    given = lengths is None and per is None and draw is None and not (positions or causal or fingerprint)
    if given and construction == Line(seed=seed, temperature=temperature):
        built = _on_device(X, Y, device, seed, temperature)
        if built is not None:
            report("done", 1.0)
            return built

    report("reading the data", 0.0)
    like = None if draw is None else draw.card.manner
    data = sequences_of(X, Y, lengths=lengths, per=per, unit=unit, like=like)
    if draw is not None:
        data, positions, causal = adopted(draw, data), draw.positions is not None, draw.card.causal
    data.check_labelled()
    task = Task.of(data, positions=positions, causal=causal, on_conflict=on_conflict)
    model = construction.build(task, report) if draw is None else rebuilt(draw, task, report)
    if draw is None:  # two ways to one model must give one folder
        model.card = replace(model.card, examples=sample(data))
    if fingerprint:
        model.card = replace(model.card, fingerprint=_fingerprint(task))
    report("done", 1.0)
    return model if device is None else model.to(device)


def _check_draw(**given: bool) -> None:
    """Refuse an option that is given beside a draw, which decides it."""
    for name, there in given.items():
        if there:
            raise DataError(f"a draw decides {name}: leave {name} out, or the draw")


def _on_device(
    X: Any, Y: Any, device: torch.device | str | None, seed: int, temperature: float | None
) -> Monolayer | None:
    """The line of ids and classes that lie on an accelerator, built there; None: build it the ordinary way."""
    if not (isinstance(X, torch.Tensor) and isinstance(Y, torch.Tensor)) or X.device.type == "cpu":
        return None
    if device is not None and torch.device(device).type != X.device.type:
        return None
    return tensors.build(X, Y, seed, temperature)


def _fingerprint(task: Task) -> Fingerprint:
    data, context = task.data, task.context
    if data.vocabulary is None:
        raise DataError(NO_FINGERPRINT)
    return Fingerprint.of(data, task.target.per, positions=context.positions, causal=context.causal)


def _choose(
    readout: Choice,
    temperature: float | None,
    robust: bool | float,
    rank: int | Literal["auto"] | None,
    neurons: int | None,
    dtype: Any,
    seed: int,
    device: torch.device | str | None,
) -> Construction:
    """The construction that the wishes ask for."""
    if robust is False:
        if neurons is not None:
            raise DataError("neurons= goes with robust=True; the line has as many steps as there are label changes")
        return Line(readout, seed, temperature, "auto" if rank is None else rank, dtype or "float64")
    if readout != "exact" or temperature is not None:
        raise DataError("readout and temperature belong to the line; a robust model has its own: leave them out")
    if not isinstance(robust, bool | int | float):
        raise DataError(f"robust must be True, or a share of each weight between 0 and 0.25, not {robust!r}")
    noise = None if robust is True else float(robust)
    return Robust(noise, RANK if rank is None else rank, neurons, dtype or "float32", seed, device)


def memorize_text(text: str, *, unit: Unit = "words", window: int | None = None, **options: Any) -> Monolayer:
    """A model of `text` whose `recite` and `generate` return it word for word from any place.

    `unit`: tokens are `words` (with spaces and signs between them) or `characters`. `window`: how many tokens tell what
    comes next; by default the fewest that do so everywhere in the text. `options`: as for `memorize`.
    """
    if not isinstance(text, str):
        raise DataError(f"the text must be a string, not a {type(text).__name__}; sequences are for memorize")
    data, script = windows(text, unit, window)
    model = memorize(data, positions=True, fingerprint=True, **options)
    model.card = replace(model.card, script=script)
    return model
