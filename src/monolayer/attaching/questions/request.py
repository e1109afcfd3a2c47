"""What `recognize` was asked for, checked once; and what it read: the encoder, and all texts as ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

from monolayer.attaching.facts import listed_texts, read_facts
from monolayer.attaching.questions.background import TEXTS
from monolayer.attaching.questions.radii import NOBODY
from monolayer.attaching.questions.running import Running
from monolayer.attaching.request import model_folder
from monolayer.data import Sequences
from monolayer.data.folder import unchanged
from monolayer.errors import ContradictionError, DataError
from monolayer.huggingface.cutting import split_text, tokenizer_of
from monolayer.huggingface.encoders import Encoder, Pooling, pooling_of, read_encoder
from monolayer.huggingface.headers import header_of
from monolayer.huggingface.host import TOKENIZER
from monolayer.huggingface.original import original_fields
from monolayer.huggingface.questions import AS_THEY_ARE, Draw, QuestionsManifest, question_digest
from monolayer.huggingface.tensors import ModelFiles
from monolayer.table import Progress


class Question(NamedTuple):
    """A question as ids, with its answer; `row`: the row of the data, `where`: that row in words."""

    ids: tuple[int, ...]
    answer: str
    row: int
    where: str


class Text(NamedTuple):
    """The ids of a text that a threshold is chosen by, where it stands in words, and the question it belongs to."""

    ids: tuple[int, ...]
    where: str
    question: int = NOBODY


@dataclass(frozen=True)
class Request:
    """The options of `recognize`, which says what each of them means."""

    folder: Path
    unknown: str
    rewordings: object
    keep: Sequence[str] | str | os.PathLike[str] | None
    floor: float | None
    pooling: Pooling | None
    device: Any

    @classmethod
    def of(
        cls,
        encoder: object,
        unknown: str,
        rewordings: object,
        keep: Sequence[str] | str | os.PathLike[str] | None,
        floor: float | None,
        pooling: Pooling | None,
        device: Any,
    ) -> Request:
        """The request of a caller; a `DataError` names an option that makes no sense."""
        folder = model_folder("encoder", encoder)
        if floor is not None and not -1.0 < floor < 1.0:
            raise DataError(f"floor is a cosine between -1 and 1, not {floor}")
        if pooling is not None and pooling not in get_args(Pooling):
            raise DataError(f"pooling is 'mean' or 'first', not {pooling!r}")
        return cls(folder, unknown, rewordings, keep, floor, pooling, device)

    def read(self, questions: object, answers: object, report: Progress) -> Given:
        """Read the encoder, and all texts as it reads them; raises what makes one of them unfit."""
        with unchanged(self.folder):
            encoder, source = read_encoder(self.folder)
            pooling = self.pooling or pooling_of(self.folder) or "mean"
            encoder.check_pooling(pooling)
            data = read_facts(questions, answers, AS_THEY_ARE)
            stored = each_once(questions_of(encoder, source, data, self.unknown))
            reworded = _rewordings(encoder, source, self.rewordings, stored)
            kept = [] if self.keep is None else _texts(encoder, source, listed_texts(self.keep))
            report("loading the encoder", 0.05)
            running = Running(encoder, encoder.config, {}, self.device)
        others = _texts(encoder, source, ((text, "a text of another kind") for text in TEXTS))
        return Given(encoder, source, pooling, self.unknown, data, stored, reworded, kept, others, running)


@dataclass(frozen=True, eq=False)
class Given:
    """What was read for a request: the encoder and how it runs, the data, and texts as ids.

    `stored`: the different questions. `reworded`, `kept`: rewordings of them, and texts that must stay unknown.
    `others`: texts of other kinds, by which the floor is chosen.
    """

    encoder: Encoder
    source: ModelFiles
    pooling: Pooling
    unknown: str
    data: Sequences
    stored: list[Question]
    reworded: list[Text]
    kept: list[Text]
    others: list[Text]
    running: Running

    def manifest(self, draw: Draw) -> QuestionsManifest:
        """What `questions.json` will say, before the thresholds of the questions are known."""
        content = self.source.content
        return QuestionsManifest(
            **original_fields(self.encoder, self.source, self.data),
            headers={name: header_of(content[name]) for name in self.source.weights},
            spare={name: tensor.digest() for name, tensor in self.encoder.spare.items()},
            pooling=self.pooling,
            draw=draw,
            unknown=self.unknown,
            rewordings=tuple(question_digest(self.stored[each.question].ids) for each in self.reworded),
        )


def questions_of(encoder: Encoder, source: ModelFiles, data: Sequences, unknown: str) -> list[Question]:
    """The questions in `data` as ids. Raises an error that names the row of one that cannot be stored."""
    data.check_labelled()
    tokenizer, questions = tokenizer_of(source.content[TOKENIZER]), list[Question]()
    for row in range(len(data)):
        (text, answer), where = data.texts(row), data.named(row)
        if answer == unknown:
            raise DataError(
                f"{where}: its answer is {answer!r}, which is what the model says where it knows nothing: choose "
                "another word for that (unknown=)"
            )
        questions.append(Question(_ids(encoder, tokenizer, text, where), answer, row, where))
    return questions


def each_once(questions: Sequence[Question]) -> list[Question]:
    """The different questions, in the order of the first rows; a `ContradictionError` names two that contradict."""
    first: dict[tuple[int, ...], Question] = {}
    for each in questions:
        known = first.setdefault(each.ids, each)
        if known.answer != each.answer:
            raise ContradictionError(
                f"{known.where} and {each.where} contradict each other: the encoder reads the same question, and the "
                f"answers are {known.answer!r} and {each.answer!r}. Keep one of them"
            )
    return list(first.values())


def _rewordings(encoder: Encoder, source: ModelFiles, given: object, stored: Sequence[Question]) -> list[Text]:
    """The rewordings of stored questions, from a table of questions and rewordings."""
    if given is None:
        return []
    data = read_facts(given, None, AS_THEY_ARE)
    tokenizer, number = tokenizer_of(source.content[TOKENIZER]), {each.ids: place for place, each in enumerate(stored)}
    rewordings = []
    for row in range(len(data)):
        (text, other), where = data.texts(row), f"rewordings, {data.named(row)}"
        question = number.get(_ids(encoder, tokenizer, text, where))
        if question is None:
            raise DataError(f"{where}: the question {text!r} is not among the questions")
        rewordings.append(Text(_ids(encoder, tokenizer, other, where), where, question))
    return rewordings


def _texts(encoder: Encoder, source: ModelFiles, texts: Any) -> list[Text]:
    """Texts as ids; `texts`: pairs of a text and where it stands."""
    tokenizer = tokenizer_of(source.content[TOKENIZER])
    return [Text(_ids(encoder, tokenizer, text, where), where) for text, where in texts]


def _ids(encoder: Encoder, tokenizer: Any, text: str, where: str) -> tuple[int, ...]:
    """The ids of a text with its special tokens; a `DataError` if the encoder cannot read it."""
    ids = split_text(tokenizer, text, special_tokens=True, where=where)
    misfit = encoder.misfit(ids) if text.strip() and ids else f"there is no token in {text!r}"
    if misfit is not None:
        raise DataError(f"{where}: {misfit}")
    return ids
