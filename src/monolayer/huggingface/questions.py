"""Read and write `questions.json`, which lies beside the weights of an encoder that questions were stored in.

It says what the encoder was (its `config.json`, the headers of its files, the digest of every tensor), which neuron
stands at which question (by digests of token ids), and what was measured. transformers does not read it. The checker
does, and believes only what it also finds in the weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

from monolayer.data.folder import FolderKind, OpenFolder
from monolayer.data.layout import Manner
from monolayer.data.objects import JsonFields
from monolayer.errors import ModelFileError
from monolayer.huggingface.encoders import Encoder, Pooling, encoder_of
from monolayer.huggingface.host import COPIED
from monolayer.huggingface.manifest import prompt_digest
from monolayer.huggingface.marks import QUESTIONS_MARK
from monolayer.huggingface.original import OriginalManifest
from monolayer.huggingface.strict import read_json
from monolayer.huggingface.tensors import ModelFiles, Tensor, read_tensors, tensors_of
from monolayer.huggingface.versioned import Typed, Versioned, table_of_texts

FILE = "questions.json"
AS_THEY_ARE = Manner(per="continuation")
"""Reads two columns of text as questions and answers, and puts no space in front of answers."""
BESIDE_WEIGHTS = "questions.safetensors"
"""The file with what transformers does not read: tensors of the encoder that the classifier lacks, and states of the
texts that radii were chosen by."""
SPARE, KEPT, REWORDED = "encoder.", "draw.keep", "draw.rewordings"
"""The prefix of the encoder's own tensors in that file, and the names of the states of `keep` and `rewordings`."""
QUESTIONS = FolderKind(
    "encoder with questions",
    next(iter(QUESTIONS_MARK)),
    frozenset((*COPIED, "config.json", "model.safetensors", FILE, BESIDE_WEIGHTS, "README.md", "certificate.json")),
)
"""The kind of folder that `recognize` writes, and may replace with `overwrite=True`."""


@dataclass(frozen=True)
class StoredQuestion:
    """A stored question, known by the digest of its ids.

    `question`: the digest. `answer`: the number of its class, above 0. `threshold`: τ, the cosine from which it
    answers. `moved`: how far ⟨key, state⟩ fell below 1 in the evaluations that were tried; None if none was.
    """

    question: str
    answer: int
    threshold: float
    moved: float | None = None


@dataclass(frozen=True)
class Draw:
    """What a classifier is made of besides its questions.

    `seed`: of the words of answers. `floor`: the least threshold. `room`: in how many directions words are written.
    `reach`: how far 1 − cos(k, û) may be above 0 at a stored question.
    """

    seed: int
    floor: float
    room: int
    reach: float


@dataclass(frozen=True, kw_only=True)
class QuestionsManifest(OriginalManifest):
    """What `questions.json` says, besides what the encoder was.

    - `spare`: digests of the encoder's tensors that the classifier lacks.
    - `pooling`, `draw`, `unknown`: of which states û is the direction; the draw; the answer to all other texts.
    - `rewordings`: for each state in `draw.rewordings`, the digest of its question.
    - `questions`: in the order of their neurons.
    """

    spare: Mapping[str, str]
    pooling: Pooling
    draw: Draw
    unknown: str
    rewordings: tuple[str, ...] = ()
    questions: tuple[StoredQuestion, ...] = ()
    stored_as: ClassVar = Versioned(FILE, "monolayer-questions", 2, "recognize")
    plain: ClassVar = AS_THEY_ARE
    mark: ClassVar = QUESTIONS_MARK

    @property
    def manner(self) -> Manner:
        """Questions and answers as they are, in files of the form that they were read from."""
        return replace(AS_THEY_ARE, form=self.form)

    @property
    def places(self) -> dict[str, int]:
        """The number of the neuron of each question, by its digest."""
        return {each.question: number for number, each in enumerate(self.questions)}

    @classmethod
    def _parts(cls, fields: JsonFields) -> dict[str, Any]:
        """Questions, their rewordings and the draw."""
        questions = tuple(StoredQuestion(**each) for each in fields["questions"])
        return {"questions": questions, "draw": Draw(**fields["draw"]), "rewordings": tuple(fields["rewordings"])}

    def _typed(self) -> list[Typed]:
        """The fields with the types that they must have."""
        fields: list[Typed] = [
            ("unknown", self.unknown, str),
            *(("draw", number, float) for number in (self.draw.floor, self.draw.reach)),
            *(("draw", number, int) for number in (self.draw.seed, self.draw.room)),
            *(("rewordings", name, str) for name in self.rewordings),
            *table_of_texts("spare", self.spare),
        ]
        for each in self.questions:
            fields += [("questions", each.question, str), ("questions", each.answer, int)]
            fields += [("questions", each.threshold, float), ("questions", each.moved, (float, type(None)))]
        return [*super()._typed(), *fields]

    def _check(self) -> None:
        """Check the types and ranges of all values that are used later; a `ValueError` names the field."""
        super()._check()
        draw = self.draw
        if self.pooling not in get_args(Pooling):
            raise ValueError("pooling")
        if not 1 <= draw.room <= 1 << 12 or not -1.0 < draw.floor < 1.0 or not 0.0 < draw.reach < 1.0:
            raise ValueError("draw")
        if any(each.answer < 1 or not -1.0 < each.threshold < 1.0 for each in self.questions):
            raise ValueError("questions")


def read_question_files(opened: OpenFolder) -> ModelFiles:
    """The files of an encoder with questions in a folder that is open; `questions.json` may be missing."""
    files = read_tensors(opened, if_there=(FILE, *COPIED))
    if BESIDE_WEIGHTS not in files.sizes:
        return files
    beside = opened.map(BESIDE_WEIGHTS)
    stamps = opened.stamps()
    content = {**files.content, BESIDE_WEIGHTS: beside}
    stamped = {name: stamps[name] for name in content if name in stamps}
    return replace(files, content=content, stamps=stamped)


def beside_weights(opened: ModelFiles) -> dict[str, Tensor]:
    """The tensors that transformers does not read; a `ModelFileError` if their file is missing."""
    if BESIDE_WEIGHTS not in opened.content:
        raise ModelFileError(f"{BESIDE_WEIGHTS} is missing")
    return tensors_of(opened.content[BESIDE_WEIGHTS], BESIDE_WEIGHTS)


def restored_encoder(opened: ModelFiles, manifest: QuestionsManifest) -> Encoder:
    """The encoder in a folder with questions; a `KeyError` names a tensor that is gone."""
    beside = beside_weights(opened)
    tensors = {name: opened.tensors[name] for name in manifest.tensors}
    spare = {name: beside[f"{SPARE}{name}"] for name in manifest.spare}
    encoder = encoder_of(read_json(Path("config.json"), manifest.config.encode()), tensors)
    encoder.check_pooling(manifest.pooling)
    return replace(encoder, spare=spare)


def classes_in(opened: ModelFiles) -> list[str]:
    """The names of the classes in `config.json`, by their numbers."""
    try:
        labels = json.loads(opened.content["config.json"])["id2label"]
        names = [labels[str(number)] for number in range(len(labels))]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError("names are different strings")
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"id2label in config.json is not a list of classes: {error!r}") from None
    return names


def question_digest(ids: Sequence[int]) -> str:
    """SHA-256 of the ids of a question."""
    return prompt_digest(ids)
