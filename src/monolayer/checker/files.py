"""The certificate of data in many files, of which no more than one is held at a time: the same verdict, the same words.

Files are read once, and kept as numbers in a scratch folder. A point is judged by itself, given the staircase, so files
are judged one after the other; what a certificate says of all points together is joined in the end. A readout whose
weights lie in several files is not put together: what is needed of it lies in the scratch folder, mapped into memory.

Ids alone, and a head as it was built; `verify_files` is `verify` on all files at once wherever that is not
enough.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.checker.certificate import Certificate
from monolayer.checker.check import LABEL_CLAIM, compared_with_old, open_question
from monolayer.checker.codes import largest_numbers, read_attention, read_stream
from monolayer.checker.labelled import digest_head, labelled
from monolayer.checker.parts import Part, joined, judge_part
from monolayer.checker.readout import Staircase, copies, mapped_staircase, read_staircase
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stages import CLOSE_CALLS
from monolayer.checker.stock.files import is_stock
from monolayer.checker.stored import LABEL, Stored, read_in_parts
from monolayer.data import Labels, Names, Sequences
from monolayer.data import read as read_data
from monolayer.data.shards import kinds, strangers

Progress = Callable[[str, float], None]


def verify_files(
    folder: str | os.PathLike[str], files: list[str], *, progress: Progress | None = None, **options: Any
) -> Certificate | None:
    """`verify` of a saved model and the labelled data in `files`, read with `options`, a file at a time.

    None where that cannot be: then all of the data must be held at once.
    """
    report = progress or (lambda stage, share: None)
    if is_stock(Path(folder)):
        return None
    with tempfile.TemporaryDirectory() as scratch:
        stored = read_in_parts(folder)
        if not _plain(stored):
            return None
        kept = _keep(files, Path(scratch), report, options)
        if kept is None:
            return None
        found = _judge(stored, kept, Path(scratch), report)
    return None if found is None else compared_with_old(folder, found)


def _plain(stored: Stored) -> bool:
    """Whether points can be judged one by one: ids, and a head that answers with the nearest number, or copies."""
    config = stored.config
    if config["readout"] not in ("exact", "runs", "cascade") or config["tokens"] != "ids":
        return False
    if not stored.tensors:  # in a format that no proof covers
        return False
    if config["target"] == "reals":
        return copies(stored)
    number = np.arange(float(len(stored["head.bias"])))
    weight = stored["head.weight"].astype(np.float64)
    plain = np.array_equal(weight[:, LABEL], 2.0 * number) and not np.delete(weight, LABEL, 1).any()
    return plain and np.array_equal(stored["head.bias"].astype(np.float64), -number * number)


# -- the data ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """A file as numbers: its arrays lie in the scratch folder, its names are those that occur in it."""

    path: str
    tokens: Names
    classes: Names | None
    per: str | None
    scalar: bool
    sequences: int

    def load(self) -> Sequences:
        with np.load(self.path, allow_pickle=False) as stored:
            labels = None
            if self.per is not None:
                values = stored["values"] if self.classes is None else stored["values"].astype(np.int64)
                labels = Labels(values, self.per, self.classes, self.scalar)  # type: ignore[arg-type]
            return Sequences(stored["tokens"].astype(np.int64), stored["lengths"], self.tokens, labels)


def _keep(files: list[str], scratch: Path, report: Progress, options: dict[str, Any]) -> list[Kept] | None:
    kept: list[Kept] = []
    kind = ""
    for i, name in enumerate(files):
        report("reading", 0.4 * i / len(files))
        data = read_data(name, **options)
        own, kind = kinds(data), kind or kinds(data)
        if own != kind:
            raise strangers(files[0], kind, name, own)
        labels = data.labels
        if data.vocabulary is None:
            return None
        if labels is None and data.lengths.max() == 1:  # without a next token here: the others may have some
            return None
        names, tokens = _occurring(data.vocabulary, data.tokens)
        path, arrays, classes = str(scratch / f"{i:05}.npz"), {"tokens": tokens, "lengths": data.lengths}, None
        if labels is not None and labels.classes is not None:
            classes, arrays["values"] = _occurring(labels.classes, labels.values)
        elif labels is not None:
            arrays["values"] = labels.values
        with Path(path).open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        per, scalar = (None, False) if labels is None else (labels.per, labels.scalar)
        kept.append(Kept(path, names, classes, per, scalar, len(data)))
    return kept


def _occurring(names: Names, rows: Ints) -> tuple[Names, NDArray[Any]]:
    """The names that occur, in order, and the place of each row among them, in few bytes."""
    there = np.flatnonzero(np.bincount(rows, minlength=len(names)))
    place = np.zeros(len(names), dtype=np.min_scalar_type(max(1, len(there))))
    place[there] = np.arange(len(there))
    return Names(tuple(names.decode(there).tolist())), place[rows]


def _digest(kept: list[Kept]) -> str:
    """`data_digest` of all files as one: names first, then lengths, tokens and labels of file after file."""
    tokens, token_place = _all_names([one.tokens for one in kept])
    classes, class_place = None, None
    if kept[0].classes is not None:
        classes, class_place = _all_names([one.classes for one in kept if one.classes is not None])
    digest = hashlib.sha256(digest_head(tokens, None, kept[0].per, classes, kept[0].scalar))
    for key, places in (("lengths", None), ("tokens", token_place), ("values", class_place)):
        for i, one in enumerate(kept):
            with np.load(one.path, allow_pickle=False) as stored:
                if key in stored:
                    # Adding 0 turns −0.0 into 0.0.
                    array = stored[key] + 0 if places is None else places[i][stored[key]]
                    digest.update(np.ascontiguousarray(array, "<f8" if array.dtype.kind == "f" else "<i8").data)
    return digest.hexdigest()


def _all_names(tables: list[Names]) -> tuple[list[Any], list[Ints]]:
    every = sorted({name for table in tables for name in table.names}, key=lambda name: (isinstance(name, str), name))
    place = {name: i for i, name in enumerate(every)}
    return every, [np.array([place[name] for name in table.names], dtype=np.int64) for table in tables]


# -- the verdict -------------------------------------------------------------------------------------------


def _judge(stored: Stored, kept: list[Kept], scratch: Path, report: Progress) -> Certificate | None:
    question = open_question(stored, LABEL_CLAIM)
    try:
        with np.errstate(all="ignore"):  # NaN and overflow are looked for, not warned of
            points = sum(len(labelled(stored, one.load())) for one in kept)
            question = replace(
                question,
                claim=LABEL_CLAIM.format(points),
                points=points,
                unsure=points,
                data_digest=_digest(kept),
            )
            # In the order in which one pass over all of the data finds fault.
            some = kept if stored.config["positions"] or stored.stages > 1 else kept[:1]
            reach = tuple(map(max, zip(*(largest_numbers(stored, *_rows(stored, one)) for one in some), strict=True)))
            read_attention(stored)
            stairs = _stairs(stored, scratch)
            if stairs is None:
                return None
            limits = [CLOSE_CALLS] * stored.stages
            while True:
                parts = list(_parts(stored, kept, stairs, reach, report, limits))
                asked = [sum(counts) for counts in zip(*(part.asked for part in parts), strict=True)]
                crowded = [i for i, total in enumerate(asked) if total > CLOSE_CALLS and limits[i]]
                if not crowded:
                    return joined(question, parts)
                # Too many for ball arithmetic: then for none of them. What later stages ask may depend on it.
                limits[crowded[0]] = 0
    except UnhandledError as why:
        return replace(question, reason=f"the proof does not cover these weights: {why}")


def _stairs(stored: Stored, scratch: Path) -> list[Staircase] | None:
    """The staircase of every stage; None where the parts of the first cannot be looked at one by one."""
    first = read_staircase(stored) if stored.in_parts is None else mapped_staircase(stored, scratch)
    return None if first is None else [first, *(read_staircase(stored, stage) for stage in range(2, stored.stages + 1))]


def _rows(stored: Stored, one: Kept) -> tuple[Sequences, Ints]:
    data = one.load()
    rows = labelled(stored, data).rows
    assert rows is not None  # ids
    return data, rows


def _parts(
    stored: Stored,
    kept: list[Kept],
    stairs: list[Staircase],
    reach: tuple[float, ...],
    report: Progress,
    limits: list[int],
) -> Iterator[Part]:
    offset = 0
    for i, one in enumerate(kept):
        report("checking", 0.5 + 0.5 * i / len(kept))
        points = labelled(stored, one.load())
        stream = read_stream(stored, points.data, points.rows)
        stream = replace(stream, reach=max(stream.reach, reach[0]), values=reach[1:])
        yield judge_part(stored, points, stream, stairs=stairs, limits=limits, offset=offset)
        offset += one.sequences
