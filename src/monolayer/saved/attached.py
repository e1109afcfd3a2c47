"""A folder that facts were attached to: a causal language model with blocks of facts behind its last layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from monolayer.checker.attached.check import judge_attached
from monolayer.checker.attached.files import read_attached
from monolayer.checker.certificate import Certificate, Claims
from monolayer.data import Sequences
from monolayer.data.folder import FolderKind, OpenFolder
from monolayer.data.layout import Manner
from monolayer.errors import DataError, needs_extra
from monolayer.huggingface.manifest import Manifest, read_attached_files
from monolayer.huggingface.tensors import ModelFiles
from monolayer.saved.asking import Asking, Wanted
from monolayer.saved.measured import asked_here
from monolayer.saved.saved import Inspected, Saved, Sealed
from monolayer.saved.stock import explained
from monolayer.table import Progress

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from monolayer.attaching.folder import Attached
    from monolayer.checker.locating.location import Location
    from monolayer.huggingface.bare import LanguageModel
    from monolayer.model.monolayer import Monolayer


@dataclass(frozen=True, eq=False)
class WithFacts(Saved):
    """A host with attached facts (docs/attach.md)."""

    path: Path
    opened: ModelFiles
    needs_folder: ClassVar = True  # transformers load it by its path

    @classmethod
    def recognizes(cls, config: object) -> bool:
        """A `config.json` with the mark of attached facts."""
        return Manifest.recognizes(config)

    @classmethod
    def read(cls, opened: OpenFolder) -> WithFacts:
        """The files of an open folder; its weights are mapped into memory."""
        return cls(opened.path, read_attached_files(opened))

    @property
    def manner(self) -> Manner:
        """Prompts and answers, as the facts were given."""
        return Manifest.manner_in(self.opened)

    @property
    def sealed(self) -> Sealed:
        """Every file of the folder that transformers reads, and the list of facts."""
        return Sealed.of(read_attached(self.opened).digest(), self.opened.content)

    def check(self, claims: Claims) -> None:
        """Only `only` and `host` are claims about attached facts. Asking needs transformers."""
        given = [
            name
            for name, value in claims._asdict().items()
            if name not in ("only", "host", "ask") and value is not None
        ]
        if given:
            raise DataError(f"{given[0]} does not apply to a folder with attached facts: leave it out")
        if claims.ask and not can_measure():
            raise needs_extra("ask=True asks the model in transformers", "stock")

    def prove(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """What the files prove about every text, and what was measured when facts were attached."""
        report("checking every answer", 0.0)
        return judge_attached(self.opened, data, only=claims.only, host=claims.host)

    def judge(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """What the files prove and, unless `claims` say otherwise, what asking the model here shows."""
        proof = self.prove(data, claims, report)
        return proof if claims.ask is False else self._measured(proof, data, claims.only, report)

    def _measured(self, proof: Certificate, data: Sequences, only: bool, report: Progress) -> Certificate:
        """The certificate with what asking the model here shows; a wrong answer refutes it.

        With `only`, every fact must come back by its own neurons: elsewhere these would be a fact that nobody asks for.
        """
        if not can_measure():
            return replace(proof, measured=(*proof.measured, "not measured here: transformers is not installed"))
        if proof.verdict == "refuted":
            return proof
        from monolayer.attaching.measuring import measure_answers

        part: Progress = lambda stage, share: report(stage, 0.2 + 0.8 * share)  # noqa: E731
        proof, measured = asked_here(proof, lambda: measure_answers(self.opened, data, progress=part))
        if measured is None:
            return proof
        proof = replace(proof, recall=f"asked: {measured.returned:,} of {measured.facts:,}")
        if measured.wrong:
            why = f"asked here, it answers differently: {'; '.join(measured.examples)}"
            return replace(proof, verdict="refuted", reason=why)
        if proof and proof.longest is not None and measured.longest > proof.longest:
            states = f"states of the host were up to {measured.longest:.4g} long here"
            return replace(proof, verdict="undecided", reason=f"{states}, and the proof covers {proof.longest:,.0f}")
        if proof and only and measured.outside:
            many = f"{measured.outside:,} of the facts were returned"
            why = f"{many}, but not by their own neurons, which may answer elsewhere"
            return replace(proof, verdict="undecided", reason=why)
        return proof

    def locate(self, data: Sequences) -> Location:
        """The neuron of each token of an answer."""
        from monolayer.checker.locating.attached import locate_attached

        return locate_attached(self.opened, data)

    def load(self, device: torch.device | str | None = None) -> Attached:
        """The host and the neurons of its facts; `predict` of the model takes the device."""
        from monolayer.attaching.folder import Attached

        return Attached.load(self.opened)

    def extended(self) -> Attached:
        """The model in memory, with its host."""
        return self.load()

    def asking(self, model: Any, wanted: Wanted) -> Asking:
        """Prompts are continued, by transformers if it is installed; a stored prompt is known by its digest."""
        told = (lambda data, _: model.known(data)) if wanted.told else None
        answers = partial(model.answers, device=wanted.device)
        return Asking(model.unanswerable, answers, told, notes=model.notes)

    def inspected(self) -> Inspected:
        """The sizes of host and facts, and what its tensors show of them."""
        stored = {name: size for name, size in self.opened.sizes.items() if size is not None}
        language = self.language
        sizes = self.load().sizes if language is None or language.manifest is not None else language.sizes
        sizes = {**sizes, **({} if language is None else language.shown)}
        return Inspected({**sizes, "bytes": stored, "bytes_in_all": sum(stored.values())})

    @property
    def replaces(self) -> FolderKind:
        """Other folders with attached facts."""
        from monolayer.attaching.folder import ATTACHED

        return ATTACHED

    @cached_property
    def language(self) -> LanguageModel | None:
        """The language model that facts were attached to, with its blocks of facts."""
        from monolayer.huggingface.bare import language_model

        return language_model(self.opened)

    @property
    def lists_facts(self) -> bool:
        """Whether its `attached.json` can be read."""
        return self.language is not None and self.language.manifest is not None

    def monolayer(self, verb: str) -> Monolayer:
        """Refused: this is a language model."""
        if verb == "page":
            raise DataError(
                f"a page runs models of monolayer's own, and {self.path} is a language model: use transformers"
            )
        raise DataError(explained(verb, self.path))


def can_measure() -> bool:
    """Whether the model can be asked here: transformers is installed."""
    return find_spec("transformers") is not None
