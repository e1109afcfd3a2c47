"""Read and write `attached.json`, which lies beside the weights of a folder that facts were attached to.

It says what the host was (its `config.json`, and the digest of every tensor), how many neurons were appended, which of
them hold which fact (by digests of its token ids), and what was measured. transformers does not read it. The checker
does, and believes only what it also finds in the weights.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

from monolayer.data.choices import PerAnswer
from monolayer.data.folder import OpenFolder
from monolayer.data.layout import Manner
from monolayer.data.objects import JsonFields
from monolayer.errors import ModelFileError
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.host import COPIED
from monolayer.huggingface.marks import ATTACHED_MARK, said_by_config
from monolayer.huggingface.original import OriginalManifest
from monolayer.huggingface.templates import PLAIN, Template, read_templates
from monolayer.huggingface.tensors import ModelFiles, opened_files, read_tensors
from monolayer.huggingface.versioned import Typed, Versioned, table_of_texts

FILE = "attached.json"
PER_ANSWER = Manner(per="answer")
"""Reads two columns of text as prompts and their answers."""
ATTACHED_WEIGHTS = "attached.safetensors"
"""The file with the appended blocks, and with the zero biases that some hosts get."""
FARTHEST = 1e9
"""The largest `moved` and `length` that are accepted. No state can move by that much, and proofs end far below."""
MOST_STORED_TOKENS = 2**31
HOST_WEIGHTS = "host.safetensors"
"""The new name of the host's `model.safetensors`. Under its own name transformers would read that file alone."""


@dataclass(frozen=True)
class StoredFact:
    """An attached fact, known by digests of its ids.

    - `prompt`: the digest of the prompt.
    - `fact`: the digest of the prompt with its answer.
    - `places`: how many neurons the fact has, one per token of the answer.
    - `number`: which of the facts that were given it is, from 0. A fact has an entry in every template, all with the
      same number.
    - `moved`: the largest loss of the state's cosine with its key in the evaluations that were tried; None if none was.
    - `length`: the length of the longest of these states; None if none was measured.
    - `fell`: by which share of T the input of a neuron of the fact fell at most; None if none was measured.
    """

    prompt: str
    fact: str
    places: int
    number: int
    moved: float | None = None
    length: float | None = None
    fell: float | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest(OriginalManifest):
    """What `attached.json` says, besides what the host was.

    If the host is a Llama under another name (`kin.py`), `tensors` are those of the Llama.

    - `texts`: the files that were copied and are small, as text. transformers rewrites some when it saves a folder.
    - `tokenizer`: a digest of what `tokenizer.json` means, whichever way it is written.
    - `radius`: ρ of all neurons, or the least of them.
    - `own_radii`: whether each neuron has a radius of its own.
    - `state`: the length of a state that what neurons write was sized to outweigh.
    - `end`: the id that ends answers, if there is one.
    - `templates`: the texts in which every prompt stands.
    - `per`: how to read answers so that they are those of the facts (`Sequences.per_answer`).
    - `facts`: the attached facts, each of them once per template, in the order of their neurons.
    """

    texts: Mapping[str, str]
    tokenizer: str
    radius: float
    own_radii: bool
    state: float
    end: int | None
    templates: tuple[Template, ...] = (PLAIN,)
    per: PerAnswer = "answer"
    facts: tuple[StoredFact, ...] = ()
    stored_as: ClassVar = Versioned(FILE, "monolayer-attached", 6, "attach")
    way_out: ClassVar = (
        ": copy it from the folder that attach wrote, or make the folder again from its host and its facts, "
        "attach(host, facts, stored=folder)"
    )
    plain: ClassVar = PER_ANSWER
    mark: ClassVar = ATTACHED_MARK

    @property
    def manner(self) -> Manner:
        """Prompts and answers, as the facts were given."""
        return Manner(per=self.per, form=self.form)

    @property
    def neurons(self) -> int:
        """The number of neurons of all facts: one per token of an answer."""
        return sum(fact.places for fact in self.facts)

    @property
    def count(self) -> int:
        """The number of facts that were given, each of them counted once, however many templates there are."""
        return len({fact.number for fact in self.facts})

    @property
    def longest(self) -> float | None:
        """The length of the longest state that was measured at a place of an answer; None if none was measured."""
        return max((fact.length for fact in self.facts if fact.length is not None), default=None)

    def starts(self) -> list[int]:
        """The number of each fact's first neuron."""
        found, start = [], 0
        for fact in self.facts:
            found.append(start)
            start += fact.places
        return found

    def longest_by_prompt(self) -> dict[str, int]:
        """For each prompt, by its digest, the number of its fact with the longest answer.

        Facts of one prompt do not contradict each other, so its other answers are beginnings of the longest one.
        """
        longest: dict[str, int] = {}
        for number, fact in enumerate(self.facts):
            known = longest.setdefault(fact.prompt, number)
            if fact.places > self.facts[known].places:
                longest[fact.prompt] = number
        return longest

    @classmethod
    def _parts(cls, fields: JsonFields) -> dict[str, Any]:
        """Facts and templates."""
        facts = tuple(StoredFact(**fact) for fact in fields["facts"])
        return {"facts": facts, "templates": read_templates(fields["templates"])}

    def _typed(self) -> list[Typed]:
        """The fields with the types that they must have."""
        fields: list[Typed] = [
            ("radius", self.radius, float),
            ("state", self.state, float),
            ("tokenizer", self.tokenizer, str),
            ("end", self.end, (int, type(None))),
            *table_of_texts("texts", self.texts),
        ]
        for fact in self.facts:
            fields += [("facts", fact.prompt, str), ("facts", fact.fact, str), ("facts", fact.places, int)]
            fields.append(("facts", fact.number, int))
            fields += [("facts", number, (float, int, type(None))) for number in (fact.moved, fact.length, fact.fell)]
        return [*super()._typed(), *fields]

    def _check(self) -> None:
        """Check the types and ranges of all values that are used later; a `ValueError` names the field."""
        super()._check()
        if type(self.own_radii) is not bool:
            raise ValueError("own_radii")
        if not 0.0 < self.radius < 1.0 or any(fact.places < 1 for fact in self.facts):
            raise ValueError("radius or places")
        if not 0.0 < self.state <= FARTHEST:
            raise ValueError("state")
        if self.per not in get_args(PerAnswer):
            raise ValueError("per")
        if any(abs(fact.moved) > FARTHEST for fact in self.facts if fact.moved is not None):
            raise ValueError("moved")
        if any(not 0.0 <= fact.length <= FARTHEST for fact in self.facts if fact.length is not None):
            raise ValueError("length")
        if self.end is not None and not 0 <= self.end < MOST_STORED_TOKENS:
            raise ValueError("end")
        # A file that is not among `files` has no digest, and no text has the digest None.
        if any(hashlib.sha256(text.encode()).hexdigest() != self.files.get(name) for name, text in self.texts.items()):
            raise ValueError("texts")


def open_attached(folder: str | os.PathLike[str] | ModelFiles) -> ModelFiles:
    """Open the files of a folder that facts were attached to, all from one save; one that is open stays as it is."""
    try:
        return opened_files(folder, _checked_files)
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    except OSError as error:
        why = "there is no such folder" if isinstance(error, FileNotFoundError) else f"{error.strerror}"
        if error.filename is not None and Path(error.filename) != Path(str(folder)):
            why = f"{Path(error.filename).name} cannot be read: {error.strerror}"
        raise ModelFileError(f"{folder} is not a folder that facts were attached to: {why}") from None


def _checked_files(opened: OpenFolder) -> ModelFiles:
    """The files of an open folder, whose `config.json` must say that facts were attached."""
    if not Manifest.recognizes(said_by_config(opened)):
        raise ModelFileError("not a folder that facts were attached to: its config.json does not say so")
    return read_attached_files(opened)


def read_attached_files(opened: OpenFolder) -> ModelFiles:
    """The files of a folder that is open, and that facts were attached to; `attached.json` may be missing."""
    return read_tensors(opened, if_there=(FILE, *COPIED))


def tokenizer_digest(content: bytes) -> str:
    """SHA-256 of what a `tokenizer.json` with these bytes means.

    Padding and truncation do not count: every call sets both anew. Merges are pairs, which some versions write as one
    text; and what a model does not say is what newer versions write as false or null.
    """
    tokenizer = json.loads(content)
    model = {key: value for key, value in tokenizer["model"].items() if value is not None and value is not False}
    if "merges" in model:
        model["merges"] = [each.split(" ") if isinstance(each, str) else each for each in model["merges"]]
    kept = {key: value for key, value in tokenizer.items() if key not in ("padding", "truncation", "version", "model")}
    return hashlib.sha256(json.dumps([kept, model], sort_keys=True).encode()).hexdigest()


def prompt_digest(prompt: Sequence[int]) -> str:
    """SHA-256 of the ids of a prompt."""
    return hashlib.sha256(json.dumps(list(prompt)).encode()).hexdigest()


def fact_digest(fact: FactIds) -> str:
    """SHA-256 of the ids of a prompt and of its answer, including the end token."""
    return hashlib.sha256(json.dumps([list(fact.prompt), list(fact.answer)]).encode()).hexdigest()
