"""Questions to the code, and their answers as text that a person can read and that is the same on every machine.

A question is a function without arguments. What it returns is written as nested lines (`written`): names of what is
said, then values. Floats are written to the last bit, long lists by their ends and a digest of what they hold.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from monolayer.data import Names, Sequences
from monolayer.data.plan import ReadPlan
from monolayer.errors import MonolayerError

Question = Callable[[], object]
WIDTH = 118
"""What is longer is written on several lines."""
MOST = 16
"""Longer lists of single values are written by their first and last ones."""


class Refused:
    """Stands for an answer that was an error. Errors of all kinds are one answer; `kind` is for people."""

    def __init__(self, error: Exception) -> None:
        self.kind = type(error).__name__ if isinstance(error, MonolayerError) else "an error of Python or a library"

    def __repr__(self) -> str:
        return "an error"


def attempt(ask: Question) -> object:
    """What comes back, or that there was an error, of whatever kind: one of several answers to a question."""
    try:
        return ask()
    except Exception as error:
        return Refused(error)


def alone(ask: Question) -> Question:
    """The question, asked in a new folder, which is the working folder meanwhile and then goes."""

    def asked() -> object:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"):
                return ask()

    return asked


def unlike(first: object, others: dict[str, object]) -> dict[str, object]:
    """Of other answers, what they say otherwise than the first, so that less is written."""
    found: dict[str, object] = {}
    for name, other in others.items():
        if in_a_line(other) == in_a_line(first):
            continue
        both = isinstance(first, dict) and isinstance(other, dict) and first.keys() == other.keys()
        if both and isinstance(first, dict) and isinstance(other, dict):
            other = {part: held for part, held in other.items() if in_a_line(held) != in_a_line(first[part])}
        found[name] = other
    return found


def shown(given: Any) -> object:
    """What is given, as text that no other library words."""
    kind = type(given).__name__
    if hasattr(given, "to_pydict"):
        return {kind: given.to_pydict()}
    if hasattr(given, "to_dict"):
        columns = given.columns if hasattr(given, "columns") else ()
        return {kind: {name: given[name].to_list() for name in columns} if len(columns) else given.to_dict()}
    if isinstance(given, np.ma.MaskedArray):
        return {"masked": given.tolist()}
    if kind == "Series":
        return {kind: given.to_list()}
    return {kind: given.tolist()} if kind == "Tensor" else given


# -- sequences ---------------------------------------------------------------------------------------------------


def meaning(data: Sequences) -> dict[str, object]:
    """What sequences say, whichever way they hold it: each with its place and its labels, names, and the plans."""
    labels, vocabulary = data.labels, data.vocabulary
    tokens = data.tokens if vocabulary is None else vocabulary.decode(data.tokens)
    rows = [row.tolist() for row in data.split(tokens)]
    names = data.named_labels()
    said = [""] * len(data)
    if labels is not None and names is not None:
        at_tokens = labels.labelling.at_tokens
        each = [part.tolist() for part in data.split(names)] if at_tokens else names.tolist()
        said = [f" → {label!r}" for label in each]
    prompts = [""] * len(data) if data.prompts is None else [f" after {count}" for count in data.prompts.tolist()]
    of_tokens = "vectors" if vocabulary is None else in_a_line(vocabulary)
    found: dict[str, object] = {
        "sequences": [
            Bare(f"{data.named(i).removeprefix('sequence ')}: {in_a_line(rows[i])}{prompts[i]}{said[i]}")
            for i in range(len(data))
        ],
        "tokens": Bare(f"{data.tokens.dtype.name}, {of_tokens}"),
    }
    if labels is not None:
        real = "numbers" if labels.scalar else "vectors"
        classes = real if labels.classes is None else in_a_line(labels.classes)
        found["labels"] = Bare(f"{labels.values.dtype.name}, {classes}, per {labels.per}")
    found["read as"] = [Bare(f"{plan}{_unsaid(plan)}") for plan in data.plans]
    return found


def _unsaid(plan: ReadPlan) -> str:
    """The fields of a plan that its sentence leaves out, where they are not the usual ones."""
    numbers = [column.number for column in (plan.key, plan.label) if column is not None]
    rows = 0 if plan.per is None else plan.rows
    usual = plan.places if plan.labels_tokens else rows  # the sentence says how many tokens there are
    parts = [f"columns {numbers}" if numbers not in ([], [0], [0, 1]) else ""]
    parts += [f"{plan.places} places" if plan.places != usual else "", "keyed" if plan.keyed and not numbers else ""]
    said = ", ".join(part for part in parts if part)
    return f" ({said})" if said else ""


# -- values as text ----------------------------------------------------------------------------------------------


def written(value: object) -> str:
    """A value as text, every line of which ends."""
    return "".join(f"{line}\n" for line in _lines(_plain(value)))


def in_a_line(value: object) -> str:
    """A value as text in one line."""
    return _inline(_plain(value))


def _lines(plain: Any) -> Iterator[str]:
    """The lines of a plain value; names of what it holds are followed by what they hold, further in if that is long."""
    short = _inline(plain)
    if isinstance(plain, dict) and plain:
        for name, held in plain.items():
            if len(name) + len(_inline(held)) + 2 <= WIDTH or not isinstance(held, dict | list):
                yield f"{name}: {_inline(held)}"
            else:
                yield f"{name}:"
                yield from (f"  {line}" for line in _lines(held))
    elif isinstance(plain, list) and len(short) > WIDTH:
        for held in plain:
            first, *rest = list(_lines(held)) or [""]
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield short


def _plain(value: object) -> Any:
    """A value as text, or as a dict or list of plain values."""
    if isinstance(value, Refused):
        return value.kind
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Names):
        names = value.names if isinstance(value.names, range) else list(value.names)
        return in_a_line(names) + (f" from {value.unit}" if value.unit else "")
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): _plain(held) for key, held in value.items()}
    if isinstance(value, tuple):
        return f"({', '.join(map(in_a_line, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return _shortened([_plain(held) for held in value])
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if type(value).__repr__ is object.__repr__:
        raise TypeError(f"{value!r} is an object whose address is all that it says")
    return str(value) if isinstance(value, Bare) else repr(value)


class Bare(str):
    """A string that is written without quotes."""


def _array(value: np.ndarray[Any, Any]) -> str:
    kind = {"U": "strings", "O": "objects"}.get(value.dtype.kind, value.dtype.name)
    shape = "" if value.ndim == 1 else f" {'×'.join(map(str, value.shape))}"
    return f"{kind}{shape} {_inline(_plain(value.tolist()))}"


def _shortened(items: list[Any]) -> list[Any]:
    """A list without its middle, if it is long; a digest says what was there."""
    if len(items) <= MOST or any(isinstance(item, dict) for item in items):
        return items
    digest = hashlib.sha256("\n".join(map(_inline, items)).encode()).hexdigest()[:12]
    return [*items[:6], f"… ({len(items)} in all, {digest})", *items[-3:]]


def _inline(plain: Any) -> str:
    if isinstance(plain, dict):
        return f"{{{', '.join(f'{name}: {_inline(held)}' for name, held in plain.items())}}}"
    return f"[{', '.join(map(_inline, plain))}]" if isinstance(plain, list) else str(plain)
