"""What `attach` was asked for, checked once; and what it read: the host, the facts as ids, the texts to keep."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from monolayer.attaching.chats import Forms, check_split, their_tokenizer, wanted_forms
from monolayer.attaching.facts import (
    KeptText,
    each_once,
    end_token,
    ids_of,
    read_facts,
    repeated_rows,
    texts_to_keep,
)
from monolayer.attaching.folder import copied_texts, host_headers
from monolayer.attaching.lengths import to_outweigh
from monolayer.attaching.neurons import Steepness, steepness
from monolayer.attaching.running import Running
from monolayer.data import Sequences
from monolayer.data.folder import unchanged
from monolayer.errors import DataError
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.host import TOKENIZER, Host, read_host
from monolayer.huggingface.manifest import (
    ATTACHED_WEIGHTS,
    Manifest,
    StoredFact,
    fact_digest,
    prompt_digest,
    tokenizer_digest,
)
from monolayer.huggingface.original import original_fields
from monolayer.huggingface.settings import unusual_generation
from monolayer.huggingface.tensors import ModelFiles
from monolayer.table import Progress


@dataclass(frozen=True)
class Request:
    """The options of `attach`, which says what each of them means."""

    folder: Path
    radius: float | None
    keep: Sequence[str] | str | os.PathLike[str] | None
    templates: Sequence[str] | str | None
    chat: bool | Sequence[str]
    end: bool
    special_tokens: bool
    stored: str | os.PathLike[str] | None
    device: Any

    @classmethod
    def of(cls, host: object, **options: Any) -> Request:
        """The request of a caller; a `DataError` if `host` is no path."""
        return cls(model_folder("host", host), **options | {"special_tokens": bool(options["special_tokens"])})

    def read(self, prompts: object, answers: object, report: Progress) -> Given:
        """Read the host, and the facts as the host reads them; raises what makes one of them unfit."""
        with unchanged(self.folder):
            host, source = read_host(self.folder)
            if ATTACHED_WEIGHTS in source.weights:
                raise DataError(
                    f"{self.folder} cannot be a host: a file of its weights is called {ATTACHED_WEIGHTS}, as that of "
                    "the facts is"
                )
            unusual_generation(source.content)  # if the file cannot be read, the error comes before the work
            steep = steepness(host, self.radius)
            data = read_facts(prompts, answers)
            end = end_token(host, source.content) if self.end else None
            theirs = their_tokenizer(source.path)
            forms = wanted_forms(theirs, self.templates, self.chat, self.special_tokens)
            stated = ids_of(host, source.content, data, end, forms.all)
            kept = None
            if self.keep is not None:
                kept = texts_to_keep(host, source.content, self.keep, self.special_tokens)
            report("loading the host", 0.05)
            running = Running(host, source, self.device)
            check_split(theirs, data, stated, forms)
            steep = replace(steep, state=to_outweigh(running, source.content[TOKENIZER]))
        return Given(host, source, steep, data, end, forms, each_once(stated), kept, running)


@dataclass(frozen=True, eq=False)
class Given:
    """What was read for a request: the host and how it runs, the data, their different facts, the texts to keep."""

    host: Host
    source: ModelFiles
    steep: Steepness
    data: Sequences
    end: int | None
    forms: Forms
    facts: list[FactIds]
    kept: list[KeptText] | None
    running: Running

    @property
    def repeated(self) -> int:
        """How many rows of the data only repeat others."""
        return repeated_rows(self.data, self.facts)

    @property
    def manifest(self) -> Manifest:
        """What `attached.json` will say, before anything about the facts was measured."""
        return Manifest(
            **original_fields(self.host, self.source, self.data),
            texts=copied_texts(self.source),
            headers=host_headers(self.source),
            tokenizer=tokenizer_digest(self.source.content[TOKENIZER]),
            radius=self.steep.radius,
            own_radii=self.steep.own,
            state=self.steep.state,
            end=self.end,
            templates=self.forms.all,
            per=self.data.per_answer,
            facts=stored_facts(self.facts),
        )


def model_folder(name: str, given: object) -> Path:
    """The path of the folder of a model; a `DataError` if `given`, which callers know as `name`, is no path."""
    if not isinstance(given, str | os.PathLike):
        raise DataError(
            f"the {name} is the folder of a model, and this is of type {type(given).__name__}: save the model and its "
            "tokenizer into a folder (save_pretrained), and pass that"
        )
    return Path(given)


def stored_facts(facts: Sequence[FactIds]) -> tuple[StoredFact, ...]:
    """The entries of different facts in the manifest, before anything about them was measured."""
    numbers: dict[int, int] = {}
    for fact in facts:
        numbers.setdefault(fact.row, len(numbers))
    return tuple(
        StoredFact(prompt_digest(fact.prompt), fact_digest(fact), len(fact.answer), numbers[fact.row]) for fact in facts
    )
