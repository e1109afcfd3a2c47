"""A sentence encoder that questions were stored in: a classifier that answers near them, and else says `unknown`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from monolayer.checker.certificate import Certificate, Claims
from monolayer.checker.questions.check import judge_questions
from monolayer.checker.questions.files import read_questions
from monolayer.data import Sequences
from monolayer.data.folder import FolderKind, OpenFolder
from monolayer.data.layout import Manner
from monolayer.errors import DataError
from monolayer.huggingface.questions import QUESTIONS, QuestionsManifest, read_question_files
from monolayer.huggingface.tensors import ModelFiles
from monolayer.saved.asking import Asking, Wanted
from monolayer.saved.measured import asked_here
from monolayer.saved.saved import Inspected, Saved, Sealed
from monolayer.saved.stock import explained
from monolayer.table import Progress, plural

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from monolayer.attaching.questions.folder import Recognizer
    from monolayer.checker.locating.location import Location
    from monolayer.model.monolayer import Monolayer


@dataclass(frozen=True, eq=False)
class WithQuestions(Saved):
    """An encoder with questions (docs/understand.md)."""

    path: Path
    opened: ModelFiles

    @classmethod
    def recognizes(cls, config: object) -> bool:
        """A `config.json` with the mark of stored questions."""
        return QuestionsManifest.recognizes(config)

    @classmethod
    def read(cls, opened: OpenFolder) -> WithQuestions:
        """The files of an open folder; its weights are mapped into memory."""
        return cls(opened.path, read_question_files(opened))

    @property
    def manner(self) -> Manner:
        """Questions and answers, as they are, in files of the form that they were read from."""
        return QuestionsManifest.manner_in(self.opened)

    @property
    def sealed(self) -> Sealed:
        """Every file of the folder that transformers reads, and the list of questions."""
        return Sealed.of(read_questions(self.opened).digest(), self.opened.content)

    def check(self, claims: Claims) -> None:
        """Only `only` and `host` are claims about stored questions."""
        given = [name for name, value in claims._asdict().items() if name not in ("only", "host") and value is not None]
        if given:
            raise DataError(f"{given[0]} does not apply to an encoder with questions: leave it out")

    def prove(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """What the files prove about every embedding, and what was measured when questions were stored."""
        report("checking every question", 0.0)
        return judge_questions(self.opened, data, only=claims.only, host=claims.host).certificate

    def judge(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """What the files prove and, if transformers is installed, what asking the model here shows."""
        report("checking every question", 0.0)
        judged = judge_questions(self.opened, data, only=claims.only, host=claims.host)
        proof = judged.certificate
        if find_spec("transformers") is None:
            return replace(proof, measured=(*proof.measured, "not measured here: transformers is not installed"))
        if proof.verdict == "refuted":
            return proof
        from monolayer.attaching.questions.measuring import measure

        part: Progress = lambda stage, share: report(stage, 0.2 + 0.8 * share)  # noqa: E731
        proof, measured = asked_here(proof, lambda: measure(self.opened, data, judged.reach, judged.length, part))
        if measured is None:
            return proof
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

    def extended(self) -> Recognizer:
        """The model in memory, with its encoder."""
        return self.load()

    def asking(self, model: Any, wanted: Wanted) -> Asking:
        """Texts are classified by transformers; `unknown` is an answer like others, unless marks are asked for."""

        def values(data: Sequences) -> list[str | None]:
            answers: list[str | None] = model.answers(data, device=wanted.device)
            return answers

        seen = (lambda _, answers: model.known(answers)) if wanted.told else None
        return Asking(model.unanswerable, values, seen)

    def inspected(self) -> Inspected:
        """The sizes of encoder and questions."""
        stored: Mapping[str, int] = {name: size for name, size in self.opened.sizes.items() if size is not None}
        return Inspected({**self.load().sizes, "bytes": dict(stored), "bytes_in_all": sum(stored.values())})

    @property
    def replaces(self) -> FolderKind:
        """Other encoders with questions."""
        return QUESTIONS

    def monolayer(self, verb: str) -> Monolayer:
        """Refused: this is a model of transformers."""
        if verb == "page":
            raise DataError(f"a page runs models of monolayer's own, and {self.path} is a classifier: use transformers")
        raise DataError(explained(verb, self.path))
