"""The data that a claim is about: read by the reader of the builder, then compared with what the caller gave."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Unpack

from monolayer.checker.files import confirm_files
from monolayer.checker.given import confirm, repeatable
from monolayer.checker.rows import ReadOptions, confirm_table
from monolayer.data import Sequences, read
from monolayer.data.layout import Manner
from monolayer.data.prompts import are_texts
from monolayer.data.readers import ReadKeywords, sequences_of
from monolayer.data.shards import files


def asked_data(
    X: object, Y: object, lengths: object, like: Manner, *, labelled: bool = False, **options: Unpack[ReadKeywords]
) -> Sequences:
    """The data that the caller gave, read as the builder reads them and compared with what was given (`given.py`).

    `X`, `Y`, `lengths`, and `per`, `unit`, `tokens`, `labels` among `options`: as for `memorize`. `like`: how the model
    reads data, for what is left out. `labelled`: whether labels are needed, so that pairs are keys and values.
    """
    per, unit = options.get("per"), options.get("unit")
    answers = like.per in ("answer", "continuation")
    tokens, labels = options.get("tokens"), options.get("labels")
    if isinstance(X, str | os.PathLike):
        if Y is None and lengths is None:
            return asked_files(X, like=like, **options)
        return sequences_of(X, Y, lengths=lengths)  # raises an error: a path comes without Y and lengths
    X, Y = repeatable(X), repeatable(Y)
    if per is None and answers and Y is None and are_texts(X, X):
        per = like.per  # prompts without answers are split like those with answers
    data = Sequences.of(
        X, Y, lengths=lengths, per=per, unit=unit, like=like, labelled=labelled, tokens=tokens, labels=labels
    )
    cut = unit or like.unit
    read_as = ReadOptions(cut, tokens=tokens, labels=labels, per=per or like.per, pairs=labelled and Y is None)
    if not confirm_table(data, X, Y, read_as):
        confirm(data, X, Y, lengths, cut or "characters", verbatim=(per or like.per) == "continuation")
    return data


def asked_files(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    like: Manner | None = None,
    **options: Unpack[ReadKeywords],
) -> Sequences:
    """The data in the files of `path`, read by `monolayer.data.read` and compared with the files.

    `like`: how the model reads data, for what is left out. `options`: those of `read`.
    """
    data = read(path, like=like, **options)
    manner, per = like or Manner(), options.get("per")
    if per is None and manner.per == "continuation":
        per = manner.per
    columns = options.get("format"), options.get("tokens"), options.get("labels")
    confirm_files(data, files(path), ReadOptions(options.get("unit") or manner.unit, *columns, per=per))
    return data
