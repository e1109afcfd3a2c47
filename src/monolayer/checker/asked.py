"""The data that a claim is about: read by the reader of the builder, then compared with what the caller gave."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

from monolayer.checker.files import confirm_files
from monolayer.checker.given import (
    DataComparison,
    confirm_arrays,
    confirm_labels,
    confirm_rows,
    confirm_texts,
    plain,
    repeatable,
)
from monolayer.checker.rows import rows_of_memory, second_look
from monolayer.data import Sequences, read
from monolayer.data.layout import Manner
from monolayer.data.readers import ReadKeywords, sequences_of
from monolayer.data.shards import files, names_files


def asked_data(
    X: object, Y: object, lengths: object, like: Manner, *, labelled: bool = False, **options: Unpack[ReadKeywords]
) -> Sequences:
    """The data that the caller gave, read as the builder reads them and compared with what was given (`given.py`).

    `X`, `Y`, `lengths`, and `per`, `unit`, `tokens`, `labels` among `options`: as for `memorize`. `like`: how the model
    reads data, for what is left out. `labelled`: whether labels are needed, so that pairs are keys and values.
    """
    if isinstance(X, str | os.PathLike):
        if Y is None and lengths is None and (not isinstance(X, str) or names_files(X)):
            return asked_files(X, like=like, **options)
        return sequences_of(X, Y, lengths=lengths)  # raises an error: no file, or one with Y or lengths
    X, Y = repeatable(X), repeatable(Y)
    data = Sequences.of(
        X,
        Y,
        lengths=lengths,
        per=options.get("per"),
        unit=options.get("unit"),
        tokens=options.get("tokens"),
        labels=options.get("labels"),
        like=like,
        labelled=labelled,
    )
    confirm_given(data, X, Y, lengths)
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
    confirm_files(data, files(path))
    return data


def confirm_given(data: Sequences, X: Any, Y: Any = None, lengths: Any = None) -> None:
    """Raise an error unless `data` hold exactly the sequences of `X` and the labels of `Y`, read as their plan says."""
    if isinstance(X, Sequences):
        if Y is not None:
            confirm_labels(DataComparison(data), Y, data.lengths.tolist())
        return
    (plan,) = data.plans
    if plan.format == "arrays":
        comparison = DataComparison(data)
        confirm_arrays(comparison, X, Y, lengths, plan)
        comparison.finish()
        return
    with second_look(plan.source):
        if plan.format == "texts":
            prompts, answers = plain(X), plain(Y)
            rows = zip(prompts, [None] * len(prompts) if answers is None else answers, strict=True)
            confirm_texts(data, rows, data.plans)
        elif data.prompts is not None:
            confirm_texts(data, rows_of_memory(X, plan), data.plans)
        else:
            comparison = DataComparison(data)
            confirm_rows(comparison, rows_of_memory(X, plan), plan)
            if Y is not None:
                confirm_labels(comparison, Y, data.lengths.tolist())
            comparison.finish()
