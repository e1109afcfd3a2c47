"""Answers of the code as text that a person can read, and that is compared number by number with what is recorded.

A record is a file with a paragraph for each question. Numbers with a point are compared up to a share of themselves,
or up to their last digit, so that a record holds on every machine; all else is compared as it is. Of long arrays the
ends are recorded, and sums of all numbers with weights, in which each counts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from monolayer.errors import MonolayerError
from tests.asked import alone

Ask = Callable[[], object]
TITLE = "# "
WIDTH, MOST = 110, 24
"""How long a line of values may be, and how many numbers of an array are written one by one."""
NUMBER = re.compile(r"(?<![\w.])(-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan))(?![\w])")
LEAST = 1e-9
"""Numbers that differ by less are the same: what is 0 but for rounding."""


def attempt(ask: Ask) -> object:
    """What comes back, or what the library says instead; errors of others are all alike."""
    try:
        return ask()
    except MonolayerError as error:
        return f"{type(error).__name__}: {words_of(error)}"
    except Exception:
        return "an error of Python or a library"


def own_folder() -> Path:
    """A new folder in the one that a question is asked in."""
    return Path(tempfile.mkdtemp(dir=Path.cwd()))


def words_of(error: Exception) -> str:
    """The words of an error, less names of folders, and less what another library said."""
    kept = str(error)
    for where_others_speak in (" cannot be read", ": open: embedded null", ": embedded null"):
        kept = kept.partition(where_others_speak)[0]
    return " ".join(word for word in kept.split() if "/" not in word)


# -- values as text ----------------------------------------------------------------------------------------------


def written(value: object) -> str:
    """A value as text, every line of which ends."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    held = _parts(value)
    if isinstance(held, str):
        yield from held.split("\n")
        return
    short = _inline(value)
    if len(short) <= WIDTH:
        yield short
        return
    for name, part in held:
        first, *rest = list(_lines(part)) or [""]
        yield f"{name}{first}"
        yield from (f"  {line}" for line in rest)


def _inline(value: Any) -> str:
    held = _parts(value)
    if isinstance(held, str):
        return held
    return f"[{', '.join(name.removeprefix('- ') + _inline(part) for name, part in held)}]"


def _parts(value: Any) -> str | list[tuple[str, Any]]:
    """A value as text, or its parts, each with what stands in front of it."""
    if isinstance(value, Mapping) and "bdata" in value:  # as Plotly keeps arrays
        shape = [int(size) for size in str(value.get("shape", "-1")).split(",")]
        return _array(np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).reshape(shape))
    if isinstance(value, Mapping):
        return [(f"{key}: ", part) for key, part in value.items()]
    if isinstance(value, torch.Tensor):
        wide = value.detach().double() if value.is_floating_point() else value.detach()
        return f"{str(value.dtype).removeprefix('torch.')} {_array(wide.cpu().numpy(), named=False)}"
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return _array(value)
    if isinstance(value, np.ndarray):
        return [("- ", part) for part in value.tolist()]
    if isinstance(value, Path):
        return [(f"{path.name}: ", _file(path)) for path in sorted(value.rglob("*")) if path.is_file()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f"{name}: ", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, list | tuple):
        plain = value and all(isinstance(part, float) for part in value) and len(value) > MOST
        return _array(np.array(value)) if plain else [("- ", part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [(f"{field.name}: ", getattr(value, field.name)) for field in fields(value)]
    return _single(value)


def _single(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes, {hashlib.sha256(value).hexdigest()[:12]}"
    if isinstance(value, str):
        return "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in value)
    if isinstance(value, bool | np.bool_ | None):
        return str(value)
    if isinstance(value, int | float | np.number):
        return _number(value)
    if type(value).__repr__ is object.__repr__:
        raise TypeError(f"{value!r} is an object whose address is all that it says")
    return repr(value)


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, int | np.integer) else f"{float(value) + 0.0:.9g}"


def _array(value: np.ndarray[Any, Any], *, named: bool = True) -> str:
    """The numbers, or the first and last of them and sums of all: of their sizes, and with weights that differ."""
    kind = f"{value.dtype.name} " if named else ""
    shape = "×".join(map(str, value.shape))
    flat = value.reshape(-1)
    if value.dtype.kind == "b":
        flat = flat.astype(np.int64)
    if len(flat) <= MOST:
        return f"{kind}{shape} ({' '.join(map(_number, flat))})"
    ends = f"{' '.join(map(_number, flat[:6]))} … {' '.join(map(_number, flat[-3:]))}"
    finite = np.isfinite(flat) if flat.dtype.kind == "f" else np.ones(len(flat), bool)
    known = np.where(finite, flat, flat.dtype.type(0))
    weights = 1 + 7919 * np.arange(len(flat)) % 101
    wide = known.astype(np.float64 if flat.dtype.kind == "f" else object)
    sums = [np.abs(wide).sum(), (np.maximum(wide, 0) * weights).sum(), (np.minimum(wide, 0) * weights).sum()]
    odd = f", {int((~finite).sum())} not finite" if not finite.all() else ""
    return f"{kind}{shape} ({ends}; sums {' '.join(map(_number, sums))}{odd})"


def few_digits(value: Any, digits: int = 3) -> str:
    """Numbers whose last digits may be others elsewhere: the largest, and all as shares of it, with so many digits
    behind the point; of long rows the first, the last, and sums in which each counts."""
    table = np.atleast_2d(np.asarray(value, dtype=np.float64))
    size = float(np.abs(table).max(initial=0.0))
    shares = table / (size or 1.0)
    if table.shape[1] > MOST:
        weights = 1.0 + 7919 * np.arange(table.shape[1]) % 101
        sums = [np.abs(shares).mean(axis=1), (shares * weights).mean(axis=1) / 50.0]
        shares = np.column_stack([shares[:, :2], shares[:, -1:], *sums])
    if len(shares) > MOST:
        weights = 1.0 + 7919 * np.arange(len(shares)) % 101
        shares = np.vstack([shares[:3], shares[-2:], (shares * weights[:, None]).mean(axis=0) / 50.0])
    rows = "; ".join(" ".join(f"{number:.{digits}f}" for number in row) for row in shares)
    return f"{'×'.join(map(str, np.shape(value))) or 1} of {size:.{digits}e} ({rows})"


def _file(path: Path) -> Any:
    """What a file of a model holds; digests, which hang on the last bits, are left out."""
    if path.suffix == ".safetensors":
        with safe_open(path, "pt") as tensors:
            return {name: tensors.get_tensor(name) for name in sorted(tensors.keys())}
    if path.suffix == ".json":
        return undigested(json.loads(path.read_text(encoding="utf-8")))
    return path.read_text(encoding="utf-8") if path.suffix in (".md", ".txt") else path.stat().st_size


def undigested(value: Any) -> Any:
    """JSON without digests and versions of libraries."""
    if isinstance(value, dict):
        gone = ("digest", "torch", "transformers", "transformers_version")
        return {key: undigested(part) for key, part in value.items() if key not in gone}
    if isinstance(value, list):
        return [undigested(part) for part in value]
    return "(a digest)" if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) else value


# -- records -----------------------------------------------------------------------------------------------------


def differences(said: str, recorded: str, within: float) -> list[str]:
    """Where two texts differ, numbers by more than a share of themselves; each with what was recorded."""
    found = []
    ours, theirs = said.rstrip("\n").split("\n"), recorded.rstrip("\n").split("\n")
    for number in range(max(len(ours), len(theirs))):
        one, two = ("".join(lines[number : number + 1]) for lines in (ours, theirs))
        if not _same(one, two, within):
            found.append(f"line {number + 1}: {one!r}, recorded: {two!r}")
    return found


def _same(one: str, two: str, within: float) -> bool:
    if one == two:
        return True
    ours, theirs = NUMBER.split(one), NUMBER.split(two)
    if len(ours) != len(theirs) or ours[::2] != theirs[::2]:
        return False
    return all(_close(a, b, within) for a, b in zip(ours[1::2], theirs[1::2], strict=True))


def _close(one: str, two: str, within: float) -> bool:
    if one == two or not any(sign in number for number in (one, two) for sign in ".e"):
        return one == two
    a, b = float(one), float(two)
    return abs(a - b) <= max(within * max(abs(a), abs(b)), 1.01 * min(_last(one), _last(two)), LEAST)


def _last(number: str) -> float:
    """One unit in the last digit that is written; of a whole number nothing, since zeros may be cut off."""
    digits, _, power = number.partition("e")
    after = len(digits.partition(".")[2])
    return float(10.0 ** (int(power or 0) - after)) if after else 0.0


def read_record(file: Path) -> dict[str, str]:
    """The paragraphs of a record by their titles."""
    paragraphs = ("\n" + file.read_text(encoding="utf-8")).split(f"\n{TITLE}")
    return {name: f"{said.rstrip()}\n" for name, _, said in (each.partition("\n") for each in paragraphs[1:])}


def answer(ask: Ask) -> str:
    """The answer to a question, asked in a folder of its own, as it is recorded."""
    return written(attempt(alone(lambda: written(ask()))))


def recorded(questions: Mapping[str, Ask]) -> str:
    """The record of the answers to some questions."""
    return "\n".join(f"{TITLE}{name}\n{answer(ask)}" for name, ask in questions.items())
