"""What a question to the code is answered with: a digest of what came back, or that there was an error, or a claim."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # questions about data are those of the tests

from tests.asked import Refused, attempt

import monolayer as ml
from monolayer.errors import MonolayerError

__all__ = ["Answer", "Claim", "Named", "attempt", "bits_of", "claimed", "own_folder", "told"]

Question = Callable[[], "Answer"]
Named = Iterator[tuple[str, Question]]


@dataclass(frozen=True)
class Answer:
    """A digest of what came back, or the name of the error."""

    content: str
    refused: bool = False

    def exceeds(self, other: Answer) -> bool:
        """Whether this is an answer, and another one than `other`."""
        return not self.refused and self != other


@dataclass(frozen=True)
class Claim:
    """A verdict, and what it says in numbers, larger being more."""

    verdict: str
    numbers: tuple[float, ...] = ()

    def exceeds(self, other: Claim) -> bool:
        if self.verdict != other.verdict or len(self.numbers) != len(other.numbers):
            return self.verdict in ("proved", "refuted") or self.verdict.startswith("found")
        return any(mine > its + 1e-9 * abs(its) + 1e-300 for mine, its in zip(self.numbers, other.numbers, strict=True))


def claimed(model: Any, *data: Any, **options: Any) -> Claim:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            proof = ml.certify(model, *data, **options)
    except MonolayerError as error:
        return Claim(type(error).__name__)
    if proof.verdict == "undecided":
        return Claim("undecided", (-float(proof.unsure),))
    within = [-float(number) for number in re.findall(r"ω\((\S+)\) \+ (\S+) of", proof.claim) for number in number]
    within += [-float(number) for number in re.findall(r"1 − cos < (\S+) of", proof.claim)]
    within += [float(number) for number in re.findall(r"1 − ⟨k, û⟩ ≤ (\S+) of", proof.claim)]
    numbers = [proof.margin or 0.0, proof.noise or 0.0, -(proof.label_error or 0.0), -proof.unsure, *within]
    return Claim(proof.verdict, tuple(map(float, numbers)))


def told(ask: Callable[[], object]) -> Question:
    """The answer to a question, whatever it is."""

    def asked() -> Answer:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = ask()
        except Exception as error:
            return Answer(type(error).__name__, refused=True)
        found = hashlib.sha256()
        for part in bits_of(value):
            found.update(hashlib.sha256(part).digest())
        return Answer(found.hexdigest())

    return asked


def own_folder() -> Path:
    """A new folder of this process: others may be asked the same question at the same time."""
    return Path(tempfile.mkdtemp())


def bits_of(value: Any) -> Iterator[bytes]:
    """Everything that a value holds, piece by piece, with what kind of thing each piece is."""
    yield type(value).__name__.encode()
    if isinstance(value, torch.Tensor):
        flat = value.detach().clone(memory_format=torch.contiguous_format).view(-1)
        yield from bits_of(flat.view(torch.uint8).numpy() if value.numel() else list(value.shape))
        yield str((value.dtype, value.shape)).encode()
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield str((value.dtype, value.shape)).encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Path):
        yield from _folder_bits(value)
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from bits_of(key)
            yield from bits_of(held)
    elif isinstance(value, list | tuple | np.ndarray):
        yield str(len(value)).encode()
        for held in value:
            yield from bits_of(held)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from bits_of(getattr(value, field.name))
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, Refused):
        yield b"an error, of whatever kind"
    elif type(value).__repr__ is object.__repr__:
        raise TypeError(f"{value!r} is an object whose address is all that it says")
    else:
        yield repr(value).encode()


def _folder_bits(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name.encode()
            yield path.read_bytes()
