"""A folder that facts were attached to: a causal language model with blocks of facts behind its last layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from monolayer.huggingface.marks import ATTACHED_MARK
from monolayer.saved.asking import Asking, Wanted
from monolayer.saved.extended import SavedExtension
from monolayer.saved.saved import Sealed

if TYPE_CHECKING:
    import torch

    from monolayer.attaching.folder import Attached
    from monolayer.checker.certificate import Certificate, Claims
    from monolayer.checker.locating.location import Location
    from monolayer.data import Sequences
    from monolayer.data.folder import FolderKind, OpenFolder
    from monolayer.huggingface.bare import LanguageModel
    from monolayer.huggingface.manifest import Manifest
    from monolayer.table import Progress


@dataclass(frozen=True, eq=False)
class WithFacts(SavedExtension):
    """A host with attached facts (docs/attach.md)."""

    needs_folder: ClassVar = True  # transformers load it by its path
    mark: ClassVar = ATTACHED_MARK
    called: ClassVar = "a folder with attached facts"
    is_a: ClassVar = "a language model"
    checking: ClassVar = "checking every answer"

    @classmethod
    def read(cls, opened: OpenFolder) -> WithFacts:
        """The files of an open folder; its weights are mapped into memory."""
        from monolayer.huggingface.manifest import read_attached_files

        return cls(opened.path, read_attached_files(opened))

    @classmethod
    def manifest(cls) -> type[Manifest]:
        """The class of `attached.json`."""
        from monolayer.huggingface.manifest import Manifest

        return Manifest

    @property
    def sealed(self) -> Sealed:
        """Every file of the folder that transformers reads, and the list of facts."""
        from monolayer.checker.attached.files import read_attached

        return Sealed.of(read_attached(self.opened).digest(), self.opened.content)

    def judged(self, data: Sequences, claims: Claims) -> tuple[Certificate, Callable[[Progress], Any]]:
        """What the files prove, and the measurement of every answer."""
        from monolayer.checker.attached.check import judge_attached

        def ask(report: Progress) -> Any:
            from monolayer.attaching.measuring import measure_answers

            return measure_answers(self.opened, data, progress=report)

        return judge_attached(self.opened, data, only=claims.only, host=claims.host), ask

    def weighed(self, proof: Certificate, measured: Any, claims: Claims) -> Certificate:
        """The certificate after asking.

        With `only`, every fact must come back by its own neurons: elsewhere these would be a fact that nobody asks for.
        """
        proof = replace(proof, recall=f"asked: {measured.returned:,} of {measured.facts:,}")
        if measured.wrong:
            why = f"asked here, it answers differently: {'; '.join(measured.examples)}"
            return replace(proof, verdict="refuted", reason=why)
        if proof and proof.longest is not None and measured.longest > proof.longest:
            states = f"states of the host were up to {measured.longest:.4g} long here"
            return replace(proof, verdict="undecided", reason=f"{states}, and the proof covers {proof.longest:,.0f}")
        if proof and claims.only and measured.outside:
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

    def asking(self, model: Any, wanted: Wanted) -> Asking:
        """Prompts are continued, by transformers if it is installed; a stored prompt is known by its digest."""
        told = (lambda data, _: model.known(data)) if wanted.told else None
        answers = partial(model.answers, device=wanted.device)
        return Asking(model.unanswerable, answers, told, notes=model.notes)

    @property
    def sizes(self) -> dict[str, object]:
        """The sizes of host and facts, and what its tensors show of them."""
        language = self.language
        sizes = super().sizes if language is None or language.manifest is not None else language.sizes
        return {**sizes, **({} if language is None else language.shown)}

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
