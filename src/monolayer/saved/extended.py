"""A model of somebody else in which facts or questions were stored: what both kinds of folders share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from monolayer.errors import DataError, needs_extra
from monolayer.huggingface.marks import has_mark
from monolayer.saved.saved import Inspected, Saved
from monolayer.saved.stock import explained

if TYPE_CHECKING:
    from pathlib import Path

    from monolayer.attaching.extended import ExtendedModel
    from monolayer.checker.certificate import Certificate, Claims
    from monolayer.data import Sequences
    from monolayer.data.layout import Manner
    from monolayer.huggingface.original import OriginalManifest
    from monolayer.huggingface.tensors import ModelFiles
    from monolayer.model.monolayer import Monolayer
    from monolayer.table import Progress


@dataclass(frozen=True, eq=False)
class SavedExtension(Saved):
    """A folder that `attach` or `recognize` wrote; transformers run it."""

    path: Path
    opened: ModelFiles
    mark: ClassVar[Mapping[str, object]]
    """What `config.json` says of such a folder."""
    called: ClassVar[str]
    """What errors call such a folder: 'a folder with attached facts'."""
    is_a: ClassVar[str]
    """What it is to transformers: 'a language model'."""
    checking: ClassVar[str]
    """What progress says while files are judged."""

    @classmethod
    def recognizes(cls, config: object) -> bool:
        """A `config.json` with the mark of what was stored."""
        return has_mark(config, cls.mark)

    @classmethod
    @abstractmethod
    def manifest(cls) -> type[OriginalManifest]:
        """The file that says what was stored."""

    @property
    def manner(self) -> Manner:
        """Texts and answers, as they were given, in files of the form that they were read from."""
        return self.manifest().manner_in(self.opened)

    def check(self, claims: Claims) -> None:
        """Only `only`, `host` and `ask` are claims about it. Asking needs transformers."""
        about = ("only", "host", "ask")
        given = [name for name, value in claims._asdict().items() if name not in about and value is not None]
        if given:
            raise DataError(f"{given[0]} does not apply to {self.called}: leave it out")
        if claims.ask and not can_ask():
            raise needs_extra("ask=True asks the model in transformers", "stock")

    @abstractmethod
    def judged(self, data: Sequences, claims: Claims) -> tuple[Certificate, Callable[[Progress], Any]]:
        """What the files prove about every text; and a function that asks the model, and returns what it measured."""

    @abstractmethod
    def weighed(self, proof: Certificate, measured: Any, claims: Claims) -> Certificate:
        """The certificate after asking: a wrong answer refutes it."""

    def prove(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """What the files prove about every text, and what was measured when the data were stored."""
        report(self.checking, 0.0)
        return self.judged(data, claims)[0]

    def judge(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """What the files prove and, unless `claims` say otherwise, what asking the model here shows."""
        report(self.checking, 0.0)
        proof, ask = self.judged(data, claims)
        if claims.ask is False:
            return proof
        if not can_ask():
            return replace(proof, measured=(*proof.measured, "not measured here: transformers is not installed"))
        if proof.verdict == "refuted":
            return proof
        from monolayer.saved.measured import asked_here

        part: Progress = lambda stage, share: report(stage, 0.2 + 0.8 * share)  # noqa: E731
        proof, measured = asked_here(proof, lambda: ask(part))
        return proof if measured is None else self.weighed(proof, measured, claims)

    def extended(self) -> ExtendedModel:
        """The model in memory, with what it was before."""
        model: ExtendedModel = self.load()
        return model

    def inspected(self) -> Inspected:
        """The sizes of the model, what was measured, and the sizes of its files."""
        stored = {name: size for name, size in self.opened.sizes.items() if size is not None}
        return Inspected({**self.sizes, "bytes": stored, "bytes_in_all": sum(stored.values())})

    @property
    def sizes(self) -> dict[str, object]:
        """The sizes of the model, and what was measured."""
        sizes: dict[str, object] = self.load().sizes
        return sizes

    def monolayer(self, verb: str) -> Monolayer:
        """Refused: this is a model of transformers."""
        if verb == "page":
            raise DataError(f"a page runs models of monolayer's own, and {self.path} is {self.is_a}: use transformers")
        raise DataError(explained(verb, self.path))


def can_ask() -> bool:
    """Whether the model can be asked here: transformers is installed."""
    return find_spec("transformers") is not None


__all__ = ["SavedExtension", "can_ask"]
