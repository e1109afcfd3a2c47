"""Read and write `questions.json`, which lies beside the weights of an encoder that questions were stored in.

It says what the encoder was (its `config.json`, the headers of its files, the digest of every tensor), which neuron
stands at which question (by digests of token ids), and what was measured. transformers does not read it. The checker
does, and believes only what it also finds in the weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import get_args

from monolayer.data.folder import FolderKind, OpenFolder
from monolayer.data.form import SourceForm
from monolayer.data.layout import Manner
from monolayer.data.objects import JsonFields
from monolayer.errors import ModelFileError
from monolayer.huggingface.encoders import QUESTIONS_MARK, Encoder, Pooling, encoder_of
from monolayer.huggingface.host import COPIED, TOKENIZER
from monolayer.huggingface.manifest import prompt_digest
from monolayer.huggingface.strict import read_json
from monolayer.huggingface.tensors import ModelFiles, Tensor, read_tensors, tensors_of
from monolayer.huggingface.versioned import Typed, Versioned, check_types, table_of_texts

FILE = "questions.json"
STORED_AS = Versioned(FILE, "monolayer-questions", 2, "recognize")
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


@dataclass(frozen=True)
class QuestionsManifest:
    """What `questions.json` says.

    - `config`, `index`: the encoder's `config.json` and its index of shards, if it has one, as text.
    - `headers`: the headers of the encoder's files of weights, as text, by the names of the files.
    - `files`: digests of the files that were copied.
    - `tensors`, `spare`, `appended`: digests of the encoder's tensors by their names in the classifier, of those that
      the classifier lacks, and of all others.
    - `pooling`, `draw`, `unknown`: of which states û is the direction; the draw; the answer to all other texts.
    - `form`: the form of the files or tables that the questions were read from, if they were.
    - `rewordings`: for each state in `draw.rewordings`, the digest of its question.
    - `questions`: in the order of their neurons.
    - `measured`: what was measured when they were stored.
    """

    config: str
    index: str | None
    headers: Mapping[str, str]
    files: Mapping[str, str]
    tensors: Mapping[str, str]
    spare: Mapping[str, str]
    appended: Mapping[str, str]
    pooling: Pooling
    draw: Draw
    unknown: str
    form: SourceForm | None = None
    rewordings: tuple[str, ...] = ()
    questions: tuple[StoredQuestion, ...] = ()
    measured: Mapping[str, object] = field(default_factory=dict)

    @property
    def places(self) -> dict[str, int]:
        """The number of the neuron of each question, by its digest."""
        return {each.question: number for number, each in enumerate(self.questions)}

    def to_json(self) -> str:
        """The text of the file `questions.json`."""
        return STORED_AS.text(asdict(self))

    @classmethod
    def from_json(cls, content: bytes) -> QuestionsManifest:
        """Read the manifest from the bytes of `questions.json`; a `ModelFileError` if they are not a manifest."""
        return STORED_AS.read(content, cls._of)

    @classmethod
    def _of(cls, said: JsonFields) -> QuestionsManifest:
        """The manifest with these fields, which are checked."""
        questions = tuple(StoredQuestion(**each) for each in said["questions"])
        parts = {"questions": questions, "draw": Draw(**said["draw"]), "rewordings": tuple(said["rewordings"])}
        manifest = cls(**said | parts | {"form": SourceForm.from_json(said["form"])})
        _check(manifest)
        return manifest


def _check(found: QuestionsManifest) -> None:
    """Check the types and ranges of all values that are used later; a `ValueError` names the field that is wrong."""
    fields: list[Typed] = [
        ("config", found.config, str),
        ("index", found.index, (str, type(None))),
        ("unknown", found.unknown, str),
        ("measured", found.measured, dict),
        *(("draw", number, float) for number in (found.draw.floor, found.draw.reach)),
        *(("draw", number, int) for number in (found.draw.seed, found.draw.room)),
        *(("rewordings", name, str) for name in found.rewordings),
    ]
    for name in ("headers", "files", "tensors", "spare", "appended"):
        fields += table_of_texts(name, getattr(found, name))
    for each in found.questions:
        fields += [("questions", each.question, str), ("questions", each.answer, int)]
        fields += [("questions", each.threshold, float), ("questions", each.moved, (float, type(None)))]
    check_types(fields)
    if found.pooling not in get_args(Pooling):
        raise ValueError("pooling")
    if not 1 <= found.draw.room <= 1 << 12 or not -1.0 < found.draw.floor < 1.0 or not 0.0 < found.draw.reach < 1.0:
        raise ValueError("draw")
    if any(each.answer < 1 or not -1.0 < each.threshold < 1.0 for each in found.questions):
        raise ValueError("questions")
    if TOKENIZER not in found.files or not set(found.files) <= set(COPIED):
        raise ValueError("files")


def says_questions(config: object) -> bool:
    """Whether the content of a `config.json` says that questions were stored."""
    return isinstance(config, dict) and QUESTIONS_MARK.items() <= config.items()


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


def questions_in(opened: ModelFiles) -> QuestionsManifest:
    """What `questions.json` in a folder says; a `ModelFileError` if it is missing, or is not one that we wrote."""
    if FILE not in opened.content:
        raise ModelFileError(f"{FILE} is missing")
    return QuestionsManifest.from_json(opened.content[FILE])


def asked_as(opened: ModelFiles) -> Manner:
    """How to read the questions that a folder is asked about; what is wrong with `questions.json` is said elsewhere."""
    try:
        return Manner(per="continuation", form=questions_in(opened).form)
    except ModelFileError:
        return Manner(per="continuation")


def restored_encoder(opened: ModelFiles, manifest: QuestionsManifest) -> Encoder:
    """The encoder in a folder with questions; a `KeyError` names a tensor that is gone."""
    beside = beside_weights(opened)
    tensors = {name: opened.tensors[name] for name in manifest.tensors}
    spare = {name: beside[f"{SPARE}{name}"] for name in manifest.spare}
    encoder = encoder_of(read_json(Path("config.json"), manifest.config.encode()), tensors)
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
