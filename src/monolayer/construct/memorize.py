"""From a dataset to a one-layer Transformer that returns every label. No training.

`memorize` reads the data and chooses a construction; `line/build.py`, the paper's, reads like the proof.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal

import torch

from monolayer.arrays import dtype_name
from monolayer.bar import reporting, shows_progress
from monolayer.construct.again import adopted, rebuilt
from monolayer.construct.consistency import Context, OnConflict, check_conflict
from monolayer.construct.line.build import Line
from monolayer.construct.rectangle import explained, on_device
from monolayer.construct.robust.build import ROBUST_RANK, Robust
from monolayer.construct.robust.stored import RobustFormat
from monolayer.construct.task import Construction, Task
from monolayer.data.names import Unit
from monolayer.data.readers import sequences_of
from monolayer.data.sequences import Per, Sequences
from monolayer.data.text import TextUnit, text_of, windows
from monolayer.errors import DataError
from monolayer.model.card import Fingerprint
from monolayer.model.device import check_device, elsewhere
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer
from monolayer.model.torch_settings import own_settings
from monolayer.table import Progress


@shows_progress
@own_settings()
def memorize(
    X: Any,
    Y: Any = None,
    *,
    lengths: Any = None,
    per: Per | None = None,
    unit: Unit | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    positions: bool = False,
    causal: bool = False,
    temperature: float | None = None,
    robust: bool = False,
    rank: int | Literal["auto"] | None = None,
    dtype: RobustFormat | torch.dtype | None = None,
    device: torch.device | str | None = None,
    seed: int | None = None,
    on_conflict: OnConflict = "error",
    unknown: bool | None = None,
    draw: Monolayer | str | os.PathLike[str] | None = None,
    construction: Construction | None = None,
    progress: Progress | bool | None = None,
) -> Monolayer:
    """Build a `Monolayer` that returns the label of every token, or of every sequence, of the data.

    The data:

    - `X`: ids `(N, n)`, vectors `(N, n, d)`, lists of any lengths, strings, a table (pandas, Polars), a dict, pairs of
      a key and its value, a list of dicts, a Series with an index, a data file, or `Sequences`.
    - `Y`: one label per token or one per sequence; classes (integers, strings) or real numbers.
    - `lengths` `(N,)`: how many tokens each row of a padded array has; the rest of the row is ignored.
    - `per`: whether labels belong to a `token` or to a `sequence`; None: decided by their shape (`Sequences.of`).
    - `unit`: how to split strings, into `characters`, into `words`, or not at all (`whole`); the model remembers it.
    - `tokens`, `labels`: names of the columns to read, if `X` is a table or a file with other columns besides.
    - `on_conflict`: what to do where equal tokens in equal contexts have different labels: `error`, or the `majority`
      or the `first` label wins.

    The model:

    - `positions`: True makes the order of tokens matter; without it the model is permutation equivariant.
    - `causal`: True hides later tokens from earlier ones. Without `Y`, a causal model memorizes each next token.
    - `temperature`: the λ of the head, 0 for the mean of the keys; None: chosen by measurement.
    - `robust`: True builds another network, for ids and classes, that survives noise and short formats
      (docs/robust.md). Its `rank` is a number (64 by default).
    - `rank`: the largest value rank allowed; the least that holds the data is taken, nearly always 1, the paper's.
      `auto`, the default, allows up to 8 (docs/construction.md).
    - `dtype`: the format that the model computes in, as a name or as PyTorch's: `float64` (the default) or `float32`;
      of a robust model `float32` (the default), `bfloat16`, `float16` or `float64`.
    - `device`: where the model goes; None: to where `X` is, if that is a tensor. Ids `(N, n)` and classes that lie on a
      device, each nearly gapless from 0, are built there; everything else is built on the processor.
    - `seed`: on one platform the same seed gives the same bits; None is 0.
    - `unknown`: whether to keep a fingerprint of 8 bytes per point, so that `predict` recognizes what the model was not
      built from, and refuses it (docs/lookup.md). By default it does so for keys and values (dicts, pairs, tables of
      two columns), where there are no other keys.

    The way to build it:

    - `draw`: a model, or the folder of one, whose names, keys, codes, positions, temperature, format and rank are used
      again: only what follows from the labels is built from the data (docs/editing.md). The draw decides `seed`,
      `dtype`, `rank`, `robust`, `temperature`, `positions` and `causal`, so leave these out. Such a model has no
      summary.
    - `construction`: another way from data to weights, an object with `build(task, report)` (docs/extending.md). It has
      its own options, so leave `seed`, `dtype`, `rank`, `robust`, `temperature` and `draw` out.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    Example:

        >>> model = ml.memorize({"France": "Paris", "Japan": "Tokyo"})
        >>> print(model.predict("Japan"))
        Tokyo
    """
    report = reporting(progress)
    check_conflict(on_conflict)
    for name, value in (("positions", positions), ("causal", causal), ("robust", robust)):
        if not isinstance(value, bool):
            raise DataError(f"{name} must be True or False, not {value!r}")
    check_unknown(unknown)
    if device is None and isinstance(X, torch.Tensor):
        device = X.device
    check_device(device)

    if isinstance(draw, str | os.PathLike):
        draw = load_monolayer(draw)
    options: dict[str, Any] = {"seed": seed, "dtype": dtype, "rank": rank, "temperature": temperature}
    options |= {"positions": positions or None, "causal": causal or None, "robust": robust or None}
    for name, option in options.items():
        if draw is not None and option is not None:
            raise DataError(f"a draw decides {name}: leave {name} out, or the draw")
    if construction is None:
        construction = _construction(temperature, robust, rank, dtype_name(dtype), 0 if seed is None else seed)
    else:
        own = options | {"positions": None, "causal": None, "draw": draw}
        for name in (name for name, option in own.items() if option is not None):
            raise DataError(f"a construction has its own options: leave {name} out, or the construction")

    # Ids and classes that lie on a device are built there; everything else is read like any other data.
    plain = lengths is None and draw is None and not (robust or unknown) and elsewhere(X)
    plain = plain and tokens is None and labels is None
    there = on_device(X, Y, per, causal) if plain else None
    if there is not None:
        ids, target = there
        task = Task(Context(ids, ids.tokens, positions, causal), target, None, on_conflict)
        with explained(X.device, ids.ids.numel()):
            model = construction.build(task, report).to(device)
        report("done", 1.0)
        return model

    report("reading the data", 0.0)
    next_token = causal if draw is None else draw.card.next_token
    data = sequences_of(
        X,
        Y,
        lengths=lengths,
        per=per,
        unit=unit,
        tokens=tokens,
        labels=labels,
        like=None if draw is None else draw.card.manner,
        labelled=not next_token,
    )
    if draw is not None:
        data, positions, causal = adopted(draw, data), draw.positions is not None, draw.card.causal
    data.check_labelled()
    task = Task.of(data, positions=positions, causal=causal, on_conflict=on_conflict)
    model = construction.build(task, report) if draw is None else rebuilt(draw, task, report)
    if unknown and task.vectors is not None:
        raise DataError("fingerprints are kept for ids and strings; vectors have none: leave unknown out")
    if unknown is None:
        unknown = keeps_fingerprints(data) if draw is None else draw.card.fingerprint is not None
    if unknown:
        words = Fingerprint.of(data, task.target.per, positions=positions, causal=causal)
        model.card = replace(model.card, fingerprint=words)
    report("done", 1.0)
    return model if device is None else model.to(device)


def check_unknown(unknown: bool | None) -> None:
    """Refuse a value of `unknown=` that is neither True nor False nor None."""
    if not isinstance(unknown, bool | None):
        raise DataError(
            f"unknown must be True, False or None, not {unknown!r}: what stands in place of an answer is an option of "
            "predict(…, unknown=)"
        )


def keeps_fingerprints(data: Sequences) -> bool:
    """Whether a model of `data` keeps fingerprints unless told otherwise: keys that stand for themselves are closed."""
    return data.keyed and data.vocabulary is not None


def _construction(temperature: float | None, robust: bool, rank: Any, dtype: Any, seed: int) -> Construction:
    """The construction that the options ask for; it checks its own options."""
    if not robust:
        return Line(seed, temperature, "auto" if rank is None else rank, dtype or "float64")
    if temperature is not None:
        raise DataError("temperature belongs to the line; a robust model has its own: leave it out")
    return Robust(ROBUST_RANK if rank is None else rank, dtype or "float32", seed)


@own_settings()
def memorize_text(
    source: str | os.PathLike[str] | None = None,
    *,
    text: str | None = None,
    unit: TextUnit = "words",
    window: int | None = None,
    **options: Any,
) -> Monolayer:
    """Build a model of a text whose `recite` and `generate` return it word for word from any place.

    - `source`: the path of a text file in UTF-8, or the text itself. A string is a path if a file has this name. A
      string that looks like the name of a file, such as `book.txt`, and names none is an error. Every other string is
      the text.
    - `text`: the text, whatever it looks like, in place of `source`.
    - `unit`: tokens are `words` (and the spaces and signs between them) or `characters`.
    - `window`: how many tokens decide what comes next; None: the fewest that do so everywhere in the text.
    - `options`: options of `memorize`.

    Example:

        >>> model = ml.memorize_text("to be or not to be")
        >>> print(model.generate("or not"))
         to be
    """
    data, script = windows(text_of(source, text), unit, window)
    model = memorize(data, positions=True, unknown=True, **options)
    model.card = replace(model.card, script=script)
    return model
