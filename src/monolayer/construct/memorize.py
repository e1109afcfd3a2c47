"""From a dataset to a one-layer Transformer that returns every label. No training.

`memorize` reads the data and has a construction build the model: `line/build.py`, the paper's, reads like the proof.
What a caller may ask for is checked in `request.py`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal

import torch

from monolayer.bar import reporting, shows_progress
from monolayer.construct.consistency import OnConflict
from monolayer.construct.request import Request
from monolayer.construct.robust.stored import RobustFormat
from monolayer.construct.task import Construction
from monolayer.data.choices import Unit
from monolayer.data.form import SourceForm
from monolayer.data.readers import sequences_of
from monolayer.data.sequences import Per
from monolayer.data.text import TextUnit, text_of, windows
from monolayer.model.device import elsewhere
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
    request = Request.of(
        positions=positions,
        causal=causal,
        on_conflict=on_conflict,
        unknown=unknown,
        device=X.device if device is None and isinstance(X, torch.Tensor) else device,
        draw=draw,
        construction=construction,
        robust=robust,
        seed=seed,
        dtype=dtype,
        rank=rank,
        temperature=temperature,
    )
    report = reporting(progress)
    model = None
    if elsewhere(X) and lengths is None and tokens is None and labels is None:
        model = request.build_there(X, Y, per, report)
    if model is None:
        report("reading the data", 0.0)
        reading = {"lengths": lengths, "per": per, "unit": unit, "tokens": tokens, "labels": labels}
        data = sequences_of(X, Y, **reading, like=request.manner, labelled=request.labelled)
        task = request.task(data)
        model = request.build(task, report)
        request.keep_fingerprints(model, task)
        model.card = replace(model.card, form=SourceForm.of(data.plans) or model.card.form)
    report("done", 1.0)
    return model if request.device is None else model.to(request.device)


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
