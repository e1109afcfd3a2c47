"""The data that a claim is about: read by the reader of the builder, then compared with what the caller gave."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from monolayer.checker.files import confirm_files
from monolayer.checker.given import confirm, repeatable
from monolayer.checker.rows import ReadOptions, confirm_table
from monolayer.data import Names, Sequences, read
from monolayer.data.labels import Belongs
from monolayer.data.layout import Manner
from monolayer.data.names import Unit
from monolayer.data.plain import is_frame
from monolayer.data.prompts import are_texts
from monolayer.data.readers import sequences_of
from monolayer.data.shards import files


def asked_data(
    X: Any,
    Y: Any,
    lengths: Any,
    per: Belongs | None,
    unit: Unit | None,
    like: Manner,
    *,
    tokens: str | None = None,
    labels: str | None = None,
    labelled: bool = False,
) -> Sequences:
    """The data that the caller gave, read as the builder reads them and compared with what was given (`given.py`).

    `X`, `Y`, `lengths`, `per`, `unit`, `tokens`, `labels`: as for `memorize`. `like`: how the model reads data, for
    what is left out. `labelled`: whether labels are needed, so that pairs are keys and values.
    """
    columns: dict[str, Any] = {"tokens": tokens, "labels": labels}
    if isinstance(X, str | os.PathLike):
        if Y is None and lengths is None:
            return asked_files(X, per=per, unit=unit, like=like, **columns)
        return sequences_of(X, Y, lengths=lengths)  # raises an error: a path comes without Y and lengths
    X, Y = repeatable(X), repeatable(Y)
    if per is None and like.per == "answer" and Y is None and not _is_table(X) and are_texts(X, X):
        per = "answer"  # prompts without answers: the reader raises an error
    data = Sequences.of(X, Y, lengths=lengths, per=per, unit=unit, like=like, labelled=labelled, **columns)
    cut = unit or like.unit
    options = ReadOptions(cut, **columns, per=per or like.per, pairs=labelled and Y is None)
    if not confirm_table(data, X, Y, options):
        confirm(data, X, Y, lengths, cut or "characters", verbatim=per == "continuation")
    return data


def asked_files(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    like: Manner | None = None,
    unit: Unit | None = None,
    per: Belongs | None = None,
    format: str | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    vocabulary: Names | None = None,
) -> Sequences:
    """The data in files, read by `monolayer.data.read` and compared with the files. Options are those of `read`."""
    columns: dict[str, Any] = {"format": format, "tokens": tokens, "labels": labels}
    data = read(path, like=like, unit=unit, per=per, vocabulary=vocabulary, **columns)
    confirm_files(data, files(path), ReadOptions(unit or (like or Manner()).unit, **columns, per=per))
    return data


def _is_table(X: object) -> bool:
    """Whether data are a dict or a table, whose rows may have labels."""
    return isinstance(X, Mapping) or (is_frame(X) and not isinstance(X, Sequences))
