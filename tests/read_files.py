"""What tests about reading share: writing files, reading them in every way, and faults of a reader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monolayer.data import Names, Sequences, growing, readers

needed = pytest.importorskip
"""Imports a library that not every machine has; without it, the test that asks is skipped."""

# -- writing -------------------------------------------------------------------------------------------


def put(file: Path, content: Any) -> Path:
    """Write text or bytes as they are; a dict as columns or arrays; a list as lines of JSON."""
    if isinstance(content, dict):
        np.savez_compressed(file, **content) if file.suffix == ".npz" else pq.write_table(pa.table(content), file)
    elif isinstance(content, list):
        file.write_text("".join(json.dumps(row) + "\n" for row in content))
    else:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


# -- reading -------------------------------------------------------------------------------------------


class Content(NamedTuple):
    """Everything that a dataset holds, to the bit."""

    names: Names | None
    unit: str | None
    lengths: list[int]
    dtype: np.dtype[Any]
    tokens: bytes
    prompts: list[int] | None
    labels: tuple[str, Names | None, bool, list[Any], list[int] | None] | None


def facts(data: Sequences) -> Content:
    names, labels = data.vocabulary, data.labels
    known = None
    if labels is not None:
        places = None if labels.place is None else labels.place.tolist()
        known = labels.per, labels.classes, labels.scalar, labels.values.tolist(), places
    return Content(
        names=names,
        unit=None if names is None else names.unit,
        lengths=data.lengths.tolist(),
        dtype=data.tokens.dtype,
        tokens=data.tokens.tobytes(),
        prompts=None if data.prompts is None else data.prompts.tolist(),
        labels=known,
    )


def values(data: Sequences) -> Content:
    """Everything except how strings were split, which a list of tokens does not tell."""
    return facts(data)._replace(unit=None)


def same(left: Sequences, right: Sequences) -> None:
    assert values(left) == values(right)


def ways() -> Iterator[str]:
    """Arrow or none; chunks that end everywhere, or one for all."""
    for by_arrow, chunk in ((False, 3), (True, 3), (True, growing.TOKENS_AT_ONCE)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(growing, "TOKENS_AT_ONCE", chunk)
            patch.setattr(readers, "ARROW", by_arrow)
            yield f"Arrow {by_arrow}, chunks of {chunk}"


# -- faults of a reader that builder and checker share ---------------------------------------------------


def swap_tokens(data: Sequences) -> Sequences:
    tokens = data.tokens.copy()
    tokens[[0, 1]] = tokens[[1, 0]]
    return replace(data, tokens=tokens)


def roll_labels(data: Sequences) -> Sequences:
    assert data.labels is not None
    return replace(data, labels=replace(data.labels, values=np.roll(data.labels.values, 1, axis=0)))


def without_the_last(data: Sequences) -> Sequences:
    return data.select(range(len(data) - 1))


def rename(data: Sequences) -> Sequences:
    assert data.vocabulary is not None
    return replace(data, vocabulary=Names(tuple(reversed(data.vocabulary.names))))


def rename_classes(data: Sequences) -> Sequences:
    assert data.labels is not None
    assert data.labels.classes is not None
    return replace(data, labels=replace(data.labels, classes=Names(tuple(reversed(data.labels.classes.names)))))


FAULTS: list[Callable[[Sequences], Sequences]] = [swap_tokens, roll_labels, without_the_last]


def faults_that_show(data: Sequences) -> Iterator[Sequences]:
    """The data as a reader with each of the faults would give them, where that makes a difference."""
    fits = {
        swap_tokens: len(data.tokens) > 1,
        roll_labels: data.labels is not None,
        without_the_last: len(data) > 1,
        rename: data.vocabulary is not None,
        rename_classes: data.labels is not None and data.labels.classes is not None,
    }
    for fault, possible in fits.items():
        changed = fault(data) if possible else data
        if values(changed) != values(data):
            yield changed
