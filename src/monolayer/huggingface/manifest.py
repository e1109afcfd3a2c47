"""`attached.json`: what lies beside the weights of a folder that facts were attached to.

It says what the host was (its `config.json`, the digest of every tensor), how many neurons were appended, which of them
hold which fact, by digests of its token ids, and what was measured. transformers do not read it; the checker does, and
believes only what it can find in the weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from monolayer.data.aside import read_regular
from monolayer.data.objects import JsonFields
from monolayer.errors import ModelFileError
from monolayer.huggingface.host import COPIED, TOKENIZER
from monolayer.huggingface.hosts import ATTACHED_MARK
from monolayer.huggingface.strict import ForeignError, read_json

FILE = "attached.json"
FORMAT, MANIFEST_VERSION = "monolayer-attached", 1
ATTACHED_WEIGHTS = "attached.safetensors"
"""The file with the appended blocks, and the zero biases that some hosts get."""
FARTHEST = 1e9
"""More than any number that a state can have moved by."""
MOST_STORED_TOKENS = 2**31
HOST_WEIGHTS = "host.safetensors"
"""What `model.safetensors` of the host is called in the folder: transformers would read it alone under its own name."""


@dataclass(frozen=True)
class StoredFact:
    """A fact by digests of its ids: the prompt, prompt and answer; `places`: its neurons, one per token of the answer.

    `moved`: how much of the state's cosine with its key was lost, at most, in the evaluations that were tried.
    """

    prompt: str
    fact: str
    places: int
    moved: float | None = None


@dataclass(frozen=True)
class Manifest:
    """`config`, `index`: those files of the host, as text. `files`: digests of files that were copied. `tensors`:
    digests of the host's tensors, `appended`: of all others. `radius`: ρ. `end`: the id that ends answers, if any."""

    config: str
    index: str | None
    files: Mapping[str, str]
    tensors: Mapping[str, str]
    appended: Mapping[str, str]
    radius: float
    end: int | None
    facts: tuple[StoredFact, ...] = ()
    measured: Mapping[str, object] = field(default_factory=dict)

    @property
    def neurons(self) -> int:
        """The number of neurons of all facts: one per token of an answer."""
        return sum(fact.places for fact in self.facts)

    def starts(self) -> list[int]:
        """The number of each fact's first neuron."""
        found, start = [], 0
        for fact in self.facts:
            found.append(start)
            start += fact.places
        return found

    def longest_by_prompt(self) -> dict[str, int]:
        """The number of the fact with the longest answer, by the digest of its prompt.

        Several facts of one prompt do not contradict each other, so the other answers are beginnings of that one.
        """
        found: dict[str, int] = {}
        for number, fact in enumerate(self.facts):
            known = found.setdefault(fact.prompt, number)
            if fact.places > self.facts[known].places:
                found[fact.prompt] = number
        return found

    def to_json(self) -> str:
        """The file."""
        said = {"format": FORMAT, "version": MANIFEST_VERSION, **asdict(self)}
        return json.dumps(said, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, content: bytes) -> Manifest:
        """The manifest in the bytes of the file; a `ModelFileError` for anything else."""
        try:
            said: JsonFields = read_json(Path(FILE), content)  # `_check` looks at them below
            if said.pop("format") != FORMAT:
                raise ValueError("it does not say that it is one")
            version = said.pop("version")
            if version != MANIFEST_VERSION:
                raise ModelFileError(f"{FILE} has version {version!r}; this monolayer reads {MANIFEST_VERSION}")
            found = cls(**said | {"facts": tuple(StoredFact(**fact) for fact in said["facts"])})
            _check(found)
        except (ForeignError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{FILE} is not one that attach wrote: {error!r:.120}") from None
        return found


def _check(found: Manifest) -> None:
    """The types of what is used; a `ValueError` names what is wrong."""
    texts: list[tuple[str, Any, type | tuple[type, ...]]] = [
        ("config", found.config, str),
        ("index", found.index, (str, type(None))),
        ("radius", found.radius, float),
        ("end", found.end, (int, type(None))),
        ("measured", found.measured, dict),
    ]
    for name in ("files", "tensors", "appended"):
        table = getattr(found, name)
        texts.append((name, table, dict))
        texts += [(name, part, str) for part in (table.values() if isinstance(table, dict) else ())]
    for fact in found.facts:
        texts += [("facts", fact.prompt, str), ("facts", fact.fact, str), ("facts", fact.places, int)]
        texts.append(("facts", fact.moved, (float, int, type(None))))
    odd = next((name for name, value, kind in texts if not isinstance(value, kind) or isinstance(value, bool)), None)
    if odd is not None or not 0.0 < found.radius < 1.0 or any(fact.places < 1 for fact in found.facts):
        raise ValueError(odd or "radius or places")
    if any(abs(fact.moved) > FARTHEST for fact in found.facts if fact.moved is not None):
        raise ValueError("moved")
    if found.end is not None and not 0 <= found.end < MOST_STORED_TOKENS:
        raise ValueError("end")
    if TOKENIZER not in found.files or not set(found.files) <= set(COPIED):
        raise ValueError("files")


def is_attached(folder: Any) -> bool:
    """Whether a folder's `config.json` says that facts were attached to it."""
    try:
        config = json.loads(read_regular(Path(folder) / "config.json"))
    except (OSError, ValueError, RecursionError, TypeError):
        return False
    return isinstance(config, dict) and ATTACHED_MARK.items() <= config.items()


def prompt_digest(prompt: Sequence[int]) -> str:
    """SHA-256 of the ids of a prompt."""
    return hashlib.sha256(json.dumps(list(prompt)).encode()).hexdigest()


def fact_digest(prompt: Sequence[int], answer: Sequence[int]) -> str:
    """SHA-256 of the ids of a prompt and of its answer, the end token among them."""
    return hashlib.sha256(json.dumps([list(prompt), list(answer)]).encode()).hexdigest()
