"""What every saved model can be asked, whichever kind of folder it lies in.

Each kind is one subclass in a file of its own, and one row of `KINDS` (`kinds.py`). Verbs such as `certify` and `load`
call these methods and never ask which kind it is. Methods import what they need when they are called, so that a verdict
on a model of monolayer does not wait for PyTorch.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from monolayer.data.objects import JsonObject
from monolayer.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from monolayer.attaching.extended import ExtendedModel
    from monolayer.checker.certificate import Certificate, Claims
    from monolayer.checker.labelled import Load
    from monolayer.checker.locating.location import Location
    from monolayer.data import Sequences
    from monolayer.data.folder import FolderKind, OpenFolder
    from monolayer.data.layout import Manner
    from monolayer.data.text import Script
    from monolayer.huggingface.bare import LanguageModel
    from monolayer.model.card import Summary
    from monolayer.model.monolayer import Monolayer
    from monolayer.saved.asking import Asking, Wanted
    from monolayer.table import Progress


class Inspected(NamedTuple):
    """The facts that `inspect` shows about a model.

    `sizes`: kind, sizes and formats. `built`: what its builder measured, if the folder keeps that. `plot`: draws its
    steps or half-spaces, those of a token; None if it has none that can be drawn.
    """

    sizes: JsonObject
    built: Summary | None = None
    plot: Callable[[str | None], Any] | None = None


class Sealed(NamedTuple):
    """The bytes that a verdict is about.

    `digest`: the digest of the model that certificates name. `files`: the SHA-256 of every file that it depends on.
    """

    digest: str
    files: dict[str, str]

    @classmethod
    def of(cls, digest: str, contents: Mapping[str, Any]) -> Sealed:
        """The digest of the model, and digests of the `contents` of its files: bytes, or maps of them."""
        return cls(digest, {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()})


class Saved(ABC):
    """A saved model, opened once: everything that it says comes from one save.

    It differs from a model in memory, which `load` makes of it, in that it knows its folder and what can be claimed,
    located and shown of it. Each kind holds its files in the form that its reader has (`OwnFiles`, `ModelFiles`).
    """

    path: Path
    """The folder."""
    needs_folder: ClassVar[bool] = False
    """Whether other libraries open the folder by its path later on."""

    @classmethod
    @abstractmethod
    def recognizes(cls, config: object) -> bool:
        """Whether a folder is of this kind; `config`: the content of its `config.json`, None if that is not JSON."""

    @classmethod
    @abstractmethod
    def read(cls, opened: OpenFolder) -> Saved:
        """Read a folder of this kind that is open."""

    @property
    @abstractmethod
    def manner(self) -> Manner:
        """How data about this model are read, where the caller leaves it open."""

    @property
    @abstractmethod
    def sealed(self) -> Sealed:
        """Which bytes a verdict on this model is about. What the checker cannot read is a `DataError`."""

    @property
    def next_token(self) -> bool:
        """Whether the label of each token is the next token, so that data need no labels."""
        return False

    @property
    def script(self) -> Script | None:
        """How the model recites a text; None if it does not."""
        return None

    @abstractmethod
    def check(self, claims: Claims) -> None:
        """Raise a `DataError` if these claims make no sense for this model."""

    @abstractmethod
    def prove(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """What the files prove about `data`: sequences or, if the model `takes` one, a function."""

    def judge(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """The verdict of `certify`: what `prove` says and, for some kinds, what asking the model here shows."""
        return self.prove(data, claims, report)

    def takes(self, X: object) -> bool:
        """Whether `X` itself is what the claim is about: a function, in place of data."""
        return False

    @property
    def in_parts(self) -> bool:
        """Whether `judge_parts` takes data in several parts."""
        return False

    def judge_parts(self, parts: list[Load]) -> Certificate:
        """The certificate for data in several parts, none of which needs the others in memory."""
        raise NotImplementedError  # unless `in_parts`

    def check_locates(self) -> None:  # noqa: B027 - most kinds hold facts
        """Raise a `DataError` if this model holds no facts that `locate` could find, before data are read."""

    @abstractmethod
    def locate(self, data: Sequences) -> Location:
        """Where the facts in `data` live."""

    @abstractmethod
    def load(self, device: torch.device | str | None = None) -> Any:
        """The model in memory: something with `predict`, `save` and a `card`."""

    def light(self, wanted: Wanted) -> Any:
        """A model for a few inputs, with what `asking` needs of it: one that does not wait for PyTorch, or `load()`."""
        return self.load()

    @abstractmethod
    def asking(self, model: Any, wanted: Wanted) -> Asking:
        """How `predict` asks `model`, which `load` or `light` returned.

        An error if the model cannot tell what it was built from, and is asked to.
        """

    @abstractmethod
    def inspected(self) -> Inspected:
        """What `inspect` shows."""

    @property
    @abstractmethod
    def replaces(self) -> FolderKind:
        """The folders that an edit of this model may replace when asked to."""

    @property
    def language(self) -> LanguageModel | None:
        """The causal language model in this folder, whoever made it; None if there is none."""
        return None

    @property
    def lists_facts(self) -> bool:
        """Whether a language model in this folder says which facts were attached to it."""
        return False

    def extended(self) -> ExtendedModel:
        """The model in memory, with the host that facts were attached to, or that questions were stored in."""
        raise ModelFileError(
            f"{self.path} is not a folder that facts were attached to, or that questions were stored in: its "
            "config.json does not say so"
        )

    def monolayer(self, verb: str) -> Monolayer:
        """The model for verbs that look at steps or half-spaces, `explain` and `page`; an error for other kinds.

        The `DataError` says what to use in place of `verb`.
        """
        raise NotImplementedError(verb)
