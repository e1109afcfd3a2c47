"""A sentence encoder that questions were stored in: a classifier that answers near them, and else says `unknown`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from monolayer.huggingface.marks import QUESTIONS_MARK
from monolayer.saved.asking import Asking, Wanted
from monolayer.saved.extended import SavedExtension
from monolayer.saved.saved import Sealed
from monolayer.table import plural

if TYPE_CHECKING:
    import torch

    from monolayer.attaching.questions.folder import Recognizer
    from monolayer.checker.certificate import Certificate, Claims
    from monolayer.checker.locating.location import Location
    from monolayer.data import Sequences
    from monolayer.data.folder import FolderKind, OpenFolder
    from monolayer.huggingface.questions import QuestionsManifest
    from monolayer.table import Progress


@dataclass(frozen=True, eq=False)
class WithQuestions(SavedExtension):
    """An encoder with questions (docs/understand.md)."""

    mark: ClassVar = QUESTIONS_MARK
    called: ClassVar = "an encoder with questions"
    is_a: ClassVar = "a classifier"
    checking: ClassVar = "checking every question"

    @classmethod
    def read(cls, opened: OpenFolder) -> WithQuestions:
        """The files of an open folder; its weights are mapped into memory."""
        from monolayer.huggingface.questions import read_question_files

        return cls(opened.path, read_question_files(opened))

    @classmethod
    def manifest(cls) -> type[QuestionsManifest]:
        """The class of `questions.json`."""
        from monolayer.huggingface.questions import QuestionsManifest

        return QuestionsManifest

    @property
    def sealed(self) -> Sealed:
        """Every file of the folder that transformers reads, and the list of questions."""
        from monolayer.checker.questions.files import read_questions

        return Sealed.of(read_questions(self.opened).digest(), self.opened.content)

    def judged(self, data: Sequences, claims: Claims) -> tuple[Certificate, Callable[[Progress], Any]]:
        """What the files prove about every embedding, and the measurement of every question."""
        from monolayer.checker.questions.check import judge_questions

        judged = judge_questions(self.opened, data, only=claims.only, host=claims.host)

        def ask(report: Progress) -> Any:
            from monolayer.attaching.questions.measuring import measure

            return measure(self.opened, data, judged.reach, judged.length, report)

        return judged.certificate, ask

    def weighed(self, proof: Certificate, measured: Any, claims: Claims) -> Certificate:
        """The certificate after asking."""
        proof = replace(proof, recall=f"asked: {measured.asked - measured.wrong:,} of {measured.asked:,}")
        if measured.wrong:
            return replace(proof, verdict="refuted", reason=f"asked here, it answers differently: {measured.examples}")
        if proof and measured.outside:
            why = f"the embeddings of {plural(measured.outside, 'question')} are farther from the keys of their neurons"
            return replace(proof, verdict="undecided", reason=f"{why} here than the proof covers")
        return proof

    def locate(self, data: Sequences) -> Location:
        """The neuron of each question."""
        from monolayer.checker.locating.questions import locate_questions

        return locate_questions(self.opened, data)

    def load(self, device: torch.device | str | None = None) -> Recognizer:
        """The encoder and the neurons of its questions; `predict` of the model takes the device."""
        from monolayer.attaching.questions.folder import Recognizer

        return Recognizer.load(self.opened)

    def asking(self, model: Any, wanted: Wanted) -> Asking:
        """Texts are classified by transformers; `unknown` is an answer like others, unless marks are asked for."""

        def values(data: Sequences) -> list[str | None]:
            answers: list[str | None] = model.answers(data, device=wanted.device)
            return answers

        seen = (lambda _, answers: model.known(answers)) if wanted.told else None
        return Asking(model.unanswerable, values, seen)

    @property
    def replaces(self) -> FolderKind:
        """Other encoders with questions."""
        from monolayer.huggingface.questions import QUESTIONS

        return QUESTIONS
