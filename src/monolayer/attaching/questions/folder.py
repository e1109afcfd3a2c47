"""An encoder with questions stored in it: in memory, and saved as a folder that transformers load."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from monolayer.arrays import Bools, Floats
from monolayer.attaching.extended import ExtendedModel, WeightFile
from monolayer.attaching.questions.layer import Neurons, codes, constant_of, stored_basis, tensors
from monolayer.attaching.questions.running import Running, as_torch
from monolayer.attaching.written import tensor_digest, write_json
from monolayer.data import Sequences
from monolayer.data.folder import WEIGHTS_FILE, new_folder
from monolayer.data.labelling import SEQUENCE
from monolayer.data.shards import names_files
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface import tensors as stored
from monolayer.huggingface.cutting import split_text, tokenizer_of
from monolayer.huggingface.encoders import Encoder
from monolayer.huggingface.headers import read_header
from monolayer.huggingface.host import TOKENIZER
from monolayer.huggingface.questions import (
    BESIDE_WEIGHTS,
    FILE,
    KEPT,
    QUESTIONS,
    REWORDED,
    SPARE,
    QuestionsManifest,
    beside_weights,
    classes_in,
    question_digest,
    read_question_files,
    restored_encoder,
)
from monolayer.huggingface.strict import ForeignError
from monolayer.huggingface.tensors import ModelFiles, opened_files
from monolayer.model.card import Card
from monolayer.model.torch_settings import own_settings
from monolayer.model.unknown import REFUSE
from monolayer.table import plural


class Limit(NamedTuple):
    """What makes a threshold as large as it is, in words.

    `margin`: how far the threshold is above the cosine with the nearest text that has another answer, or is to stay
    unknown; None if there is no such text.
    """

    words: str
    margin: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Recognizer(ExtendedModel):
    """An encoder and the neurons of its questions. The folder that `save` writes can be used without monolayer."""

    encoder: Encoder
    source: ModelFiles
    """The folder that the encoder was read from: its own, or one with questions."""
    neurons: Neurons
    basis: Floats
    """R `(D, room)`, the directions in which words are written."""
    classes: list[str]
    """The answers by the numbers of their classes; the first is `unknown`."""
    manifest: QuestionsManifest
    kept: Floats
    """The states `(M, D)` of texts that must stay unknown."""
    reworded: Floats
    """The states of rewordings that thresholds go down to."""
    data: Sequences | None = None
    """The questions and answers that it was made from; None for a folder that was loaded."""
    limits: Sequence[Limit] = ()
    """For each question, what makes its threshold as large as it is; files do not keep this."""
    repeated: int = 0
    """How many rows of the data repeated others; files do not keep this."""
    given: Mapping[str, Tensor] | None = None
    """The added tensors as they lie in the folder that was loaded; None if they follow from the rest."""
    folders: ClassVar = QUESTIONS
    was_stored: ClassVar = "questions were stored"

    @classmethod
    @own_settings()
    def load(cls, folder: str | os.PathLike[str] | ModelFiles) -> Recognizer:
        """Read a folder that `save` wrote, which may be open already."""
        opened = opened_files(folder, read_question_files)
        try:
            manifest = QuestionsManifest.in_folder(opened)
            beside = beside_weights(opened)
            encoder = restored_encoder(opened, manifest)
            classes = classes_in(opened)
            dense = opened[f"{encoder.kind.pooler}.weight"].numbers()
            rows = _rows(encoder, opened, len(manifest.questions))
            kept, reworded = (beside[name].numbers() for name in (KEPT, REWORDED))
        except KeyError as error:
            raise ModelFileError(f"{opened.path} lacks {error.args[0]!r}") from None
        except (ForeignError, DataError) as error:
            raise ModelFileError(f"{opened.path} is not a folder that recognize wrote: {error}") from None
        tau = np.array([each.threshold for each in manifest.questions])
        answers = np.array([each.answer for each in manifest.questions], dtype=np.int64)
        if answers.max(initial=0) >= len(classes):
            raise ModelFileError(f"{FILE} gives a question a class that config.json does not name")
        basis = stored_basis(dense, manifest.draw.room)
        given = {name: as_torch(tensor) for name, tensor in opened.items() if name not in manifest.tensors}
        neurons = Neurons(rows, tau, answers)
        return cls(encoder, opened, neurons, basis, classes, manifest, kept, reworded, given=given)

    @property
    def original(self) -> Encoder:
        """The encoder without its questions."""
        return self.encoder

    def original_weights(self) -> Iterator[WeightFile]:
        """The encoder's files of weights."""
        for name, header in self.manifest.headers.items():
            yield WeightFile(name, header, read_header(header))

    def original_tensors(self) -> Iterator[tuple[str, str, stored.Tensor]]:
        """The encoder's tensors, each with the digest that it had; the classifier lacks some."""
        for name, digest in self.manifest.tensors.items():
            yield name, digest, self.encoder.tensors[name]
        for name, digest in self.manifest.spare.items():
            yield name, digest, self.encoder.spare[name]

    @property
    def weights(self) -> Mapping[str, stored.Tensor]:
        """The tensors of the encoder, also by the names that they have in files of the encoder alone."""
        root, tensors = self.encoder.kind.root, self.encoder.tensors
        bare = {name.removeprefix(root): tensor for name, tensor in tensors.items()}
        return {**bare, **tensors, **self.encoder.spare}

    @property
    def beside(self) -> dict[str, bytes]:
        """The files beside the weights, which `recognize` copied."""
        return {name: bytes(self.source.content[name]) for name in self.manifest.files}

    @property
    def card(self) -> Card:
        """How the model reads data: questions and answers as text, without a vocabulary of its own."""
        form = self.manifest.form
        return Card(None, None, SEQUENCE.name, causal=True, next_token=True, per_answer="continuation", form=form)

    @property
    def blocks(self) -> int:
        """How many layers are appended."""
        return self.encoder.blocks(len(self.neurons.rows))

    @property
    def config(self) -> dict[str, Any]:
        """The content of `config.json`."""
        return self.encoder.longer_config(self.blocks, self.classes)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors added to the encoder's, in its format: those of the appended layers and of the head."""
        if self.given is not None:
            return dict(self.given)
        draw = self.manifest.draw
        signs = codes(draw.seed, self.classes, draw.room)
        return tensors(self.encoder, self.neurons, self.basis, signs, self.manifest.pooling)

    def predict(
        self, X: object, *, strict: bool = False, unknown: Any = REFUSE, device: str | torch.device | None = None
    ) -> Any:
        """The answers to texts `X`, as text `(N,)`; `unknown` of the model where no stored question is near.

        With `strict`, a text that is not near a stored question is an error that names it. `unknown`: a value, such as
        None, in place of the model's own word. One string that names no file is one text, and has one answer.
        """
        if isinstance(X, str) and not names_files(X):
            return self.predict([X], strict=strict, unknown=unknown, device=device)[0]
        data = self.encode(X)
        answers = self.answers(data, device=device)
        unseen = [row for row, answer in enumerate(answers) if answer == self.manifest.unknown]
        if strict and unseen:
            text = data.texts(unseen[0])[0]
            raise DataError(f"{data.named(unseen[0])}: no stored question is near {text!r}")
        predicted = np.array(answers, dtype=object)
        if unknown is not REFUSE:
            predicted[unseen] = unknown
        return predicted

    def ids(self, data: Sequences) -> list[tuple[int, ...]]:
        """The ids of the texts in `data`."""
        tokenizer = tokenizer_of(self.source.content[TOKENIZER])
        rows = range(len(data))
        return [split_text(tokenizer, data.texts(row)[0], special_tokens=True, where=data.named(row)) for row in rows]

    def unanswerable(self, data: Sequences) -> dict[int, str]:
        """The rows of texts that cannot be answered, each with the reason in words."""
        misfits = {row: self.encoder.misfit(ids) for row, ids in enumerate(self.ids(data))}
        return {row: why for row, why in misfits.items() if why is not None}

    @own_settings()
    def answers(self, data: Sequences, device: str | torch.device | None = None) -> list[str | None]:
        """The answer to each text; None for texts that are `unanswerable`."""
        ids = self.ids(data)
        rows = [row for row, text in enumerate(ids) if self.encoder.misfit(text) is None]
        answers = list[str | None]([None] * len(data))
        classes = self.running(device).say([ids[row] for row in rows]).classes if rows else np.zeros(0, np.int64)
        for row, number in zip(rows, classes.tolist(), strict=True):
            answers[row] = self.classes[number]
        return answers

    def known(self, answers: Sequence[str | None]) -> Bools:
        """Which answers `(N,)` are those of a stored question."""
        return np.array([answer is not None and answer != self.manifest.unknown for answer in answers], dtype=bool)

    @cached_property
    def _on_processor(self) -> Running:
        return Running(self.encoder, self.config, self.tensors)

    def running(self, device: str | torch.device | None = None) -> Running:
        """The model in transformers."""
        return self._on_processor if device is None else Running(self.encoder, self.config, self.tensors, device)

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all. The numbers of the encoder are copied byte for byte."""
        with new_folder(folder, overwrite=overwrite, kind=QUESTIONS) as scratch:
            for name, content in self.beside.items():
                (scratch / name).write_bytes(content)
            tensors = {name: as_torch(tensor) for name, tensor in self.encoder.tensors.items()}
            save_file({**tensors, **self.tensors}, scratch / WEIGHTS_FILE, metadata={"format": "pt"})
            beside = {f"{SPARE}{name}": as_torch(tensor) for name, tensor in self.encoder.spare.items()}
            states = {KEPT: self.kept, REWORDED: self.reworded}
            beside |= {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in states.items()}
            save_file(beside, scratch / BESIDE_WEIGHTS)
            write_json(scratch / "config.json", self.config)
            (scratch / FILE).write_text(self._finished().to_json(), encoding="utf-8")
            (scratch / "README.md").write_text(self.readme(), encoding="utf-8")
        return Path(folder)

    def _finished(self) -> QuestionsManifest:
        """The manifest with the digests of the added tensors."""
        return replace(
            self.manifest, appended={name: tensor_digest(part) for name, part in sorted(self.tensors.items())}
        )

    def report(self) -> list[dict[str, object]]:
        """For each question: its threshold τ as a cosine, how wide it is (1 − τ), and what makes τ as large as it is.

        The margin is how far τ is above the cosine with the nearest text that must not have this answer.

        Only for a model that `recognize` or an edit has just returned, because folders keep no texts.
        """
        if self.data is None or not self.limits:
            raise DataError("folders keep no texts of questions: build the model again (recognize) for this report")
        tokenizer, places = tokenizer_of(self.source.content[TOKENIZER]), self.manifest.places
        thresholds: dict[int, dict[str, object]] = {}
        for row in range(len(self.data)):
            text, answer = self.data.texts(row)
            ids = split_text(tokenizer, text, special_tokens=True, where=self.data.named(row))
            number = places[question_digest(ids)]
            tau = float(self.neurons.thresholds[number])
            limit = self.limits[number]
            thresholds.setdefault(
                number,
                {
                    **{"row": row, "question": text, "answer": answer, "from": tau, "width": 1.0 - tau},
                    **{"limit": limit.words, "margin": limit.margin},
                },
            )
        return [thresholds[number] for number in sorted(thresholds)]

    @property
    def sizes(self) -> dict[str, object]:
        """Sizes of the model and what was measured, as the files give them."""
        base, tau = self.encoder, self.neurons.thresholds
        return {
            "kind": "encoder with questions",
            "architecture": base.kind.name,
            "dtype": base.dtype,
            "layers": base.layers,
            "blocks": self.blocks,
            "width": base.width,
            "neurons_per_block": base.neurons,
            "questions": len(tau),
            "answers": len(self.classes) - 1,
            "unknown": self.manifest.unknown,
            "pooling": self.manifest.pooling,
            "floor": self.manifest.draw.floor,
            "thresholds": {"least": float(tau.min()), "largest": float(tau.max())} if len(tau) else {},
            "above_the_floor": int((tau > self.manifest.draw.floor).sum()),
            "kept": len(self.kept),
            "rewordings": len(self.reworded),
            "parameters": sum(tensor.numel() for tensor in self.tensors.values()),
            "moved": self._moved,
            "measured": dict(self.manifest.measured),
        }

    @property
    def _moved(self) -> float | None:
        """How far states of stored questions were from their keys, at most, as 1 − cos; None if it was not measured."""
        return max((each.moved for each in self.manifest.questions if each.moved is not None), default=None)

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table that `repr` shows."""
        base, tau, floor = self.encoder, self.neurons.thresholds, self.manifest.draw.floor
        pooled = "the mean of all tokens" if self.manifest.pooling == "mean" else "the first token"
        above = int((tau > floor).sum())
        answers = f"{plural(len(self.classes) - 1, 'different answer')}, and {self.manifest.unknown!r}"
        near = f"; {plural(above, 'question')} from more, up to {tau.max():.3f}, because other texts are near"
        rows = [
            (
                "encoder",
                f"{base.kind.model}, {plural(base.layers, 'layer')}, width {base.width:,}, {base.dtype}; {pooled}",
            ),
            ("questions", f"{len(tau):,}, with {answers}"),
            ("appended", f"{plural(self.blocks, 'layer')} of {plural(base.neurons, 'neuron')}, and a head"),
            ("answers", f"from a cosine of {floor:.3f} on{near if above else ''}"),
        ]
        if self.repeated:
            rows.append(("repeated", f"{plural(self.repeated, 'row')} of the data repeat others"))
        for name, count in (("texts kept unknown", len(self.kept)), ("rewordings given", len(self.reworded))):
            rows += [(name, f"{count:,}")] if count else []
        if self._moved is not None:
            rows.append(("measured", f"states of stored questions within 1 − cos = {self._moved:.2g} of their keys"))
        return rows

    def json(self) -> dict[str, object]:
        """The numbers of `sizes`, how many rows repeated others and, where it is known, `report`, for JSON output."""
        numbers = {**self.sizes, "repeated": self.repeated}
        return numbers if self.data is None else {**numbers, "report": self.report()}

    def readme(self) -> str:
        """The text of the README.md in the folder."""
        table = "\n".join(f"| {name} | {value} |" for name, value in replace(self, repeated=0).rows())
        return f"""---
library_name: transformers
pipeline_tag: text-classification
tags: [monolayer]
---

# {self.encoder.kind.model} with {plural(len(self.neurons.rows), "question")}

monolayer appended the last {plural(self.blocks, "layer")} and the head: one neuron per question. All other weights are
the encoder's. `pipeline("text-classification", model=FOLDER)` answers questions, also in other words, and says
{self.manifest.unknown!r} where none is near. `monolayer verify FOLDER QUESTIONS` proves what the layers do with every
embedding, and `monolayer detach FOLDER --out ENCODER` takes them off.

| | |
|---|---|
{table}

The encoder decides which texts are near a question. What is proved is about embeddings, not about meanings.
"""


def class_names(unknown: str, answers: Iterable[str]) -> list[str]:
    """The names of classes: `unknown`, then the answers in the order in which they first occur."""
    return list(dict.fromkeys([unknown, *answers]))


def _rows(encoder: Encoder, opened: Mapping[str, stored.Tensor], count: int) -> Floats:
    """The rows of the neurons `(N, D)`, as `Neurons` has them."""
    H, parts = encoder.neurons, [np.zeros((0, encoder.width))]
    for block in range(encoder.blocks(count)):
        name = f"{encoder.layer(encoder.layers + block)}{encoder.kind.linear['W_1']}.weight"
        rows = opened[name].numbers()
        if rows.shape != (H, encoder.width):
            raise ModelFileError(f"{name} has shape {rows.shape}, not {(H, encoder.width)}")
        parts.append(rows[: encoder.per_layer] / (constant_of(encoder) if block else 1.0))
    return np.concatenate(parts)[:count]


__all__ = ["Recognizer", "class_names"]
