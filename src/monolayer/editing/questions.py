"""What an edit needs of an encoder with questions: its neurons as one list, and what the manifest says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, final

import numpy as np
import torch

from monolayer.arrays import Ints
from monolayer.attaching.questions.folder import Recognizer
from monolayer.attaching.questions.layer import Neurons
from monolayer.attaching.questions.recognize import again
from monolayer.data import Sequences
from monolayer.editing.difference import Content, array_of, tensor_of
from monolayer.editing.texts import TextSubject
from monolayer.errors import DataError
from monolayer.huggingface.encoders import ENCODERS
from monolayer.huggingface.questions import FILE, StoredQuestion

ROWS = {"W_1": "questions.reads", "b_1": "questions.bias", "W_2": "questions.writes"}
"""Neurons are compared as one list, whatever layers they stand in."""
LEVEL = "questions.level"
"""The neuron of the first layer that levels: what it reads, its bias, and what it writes."""


@final
@dataclass(frozen=True, eq=False)
class QuestionSet(TextSubject):
    """A model that `recognize` built."""

    model: Recognizer
    may_change: ClassVar = frozenset({FILE, "id2label", "label2id", *(kind.depth for kind in ENCODERS.values())})
    way: ClassVar = "storing {} in this encoder with this draw"
    way_out: ClassVar = (
        "Give all of its questions in the order in which they were stored, with later edits applied; or, if it should "
        "hold only these, store them in its encoder again (detach restores it)"
    )

    @cached_property
    def content(self) -> Content:
        """The tensors and settings of the model that edits may change."""
        model, encoder = self.model, self.model.encoder
        others, count = dict(model.tensors), len(model.neurons.rows)
        stacks: dict[str, list[torch.Tensor]] = {name: [] for name in ROWS.values()}
        linear = encoder.kind.linear
        for block in range(model.blocks):
            start = encoder.layer(encoder.layers + block)
            rows, bias = others.pop(f"{start}{linear['W_1']}.weight"), others.pop(f"{start}{linear['W_1']}.bias")
            writes = others.pop(f"{start}{linear['W_2']}.weight").T
            stacks[ROWS["b_1"]].append(bias[: encoder.per_layer])
            stacks[ROWS["W_2"]].append(writes[: encoder.per_layer])
            if not block:
                others[LEVEL] = torch.cat([rows[-1], bias[-1:], writes[-1]])
            else:  # all else in a later layer is 0 or 1
                others = {name: part for name, part in others.items() if not name.startswith(start)}
        tensors = {name: array_of(torch.cat(parts)[:count].contiguous()) for name, parts in stacks.items() if parts}
        rows = torch.from_numpy(np.ascontiguousarray(model.neurons.rows)).to(getattr(torch, encoder.dtype))
        tensors[ROWS["W_1"]] = array_of(rows)
        tensors |= {name: array_of(part.contiguous()) for name, part in others.items()}
        questions = model.manifest
        manifest = {
            "draw": [questions.draw.floor, questions.draw.room, questions.draw.reach],
            "pooling": questions.pooling,
            "unknown": questions.unknown,
            "tensors": dict(questions.tensors),
            "spare": dict(questions.spare),
            "files": dict(questions.files),
            "seed": questions.draw.seed,
            "questions": [[each.question, each.answer, each.threshold] for each in questions.questions],
        }
        return Content(tensors, {**model.config, FILE: manifest}, {"questions": dict.fromkeys(ROWS.values(), 0)})

    def with_content(self, content: Content) -> QuestionSet:
        """The model with these tensors and settings in place of its own."""
        old = self.model
        try:
            said, named = content.config[FILE], content.config["id2label"]
            rows = tensor_of(content.tensors[ROWS["W_1"]], getattr(torch, old.encoder.dtype)).double().numpy()
            known = {each.question: each for each in old.manifest.questions}
            unmeasured = StoredQuestion("", 1, 0.0)
            stored = tuple(
                replace(known.get(question, unmeasured), question=question, answer=answer, threshold=threshold)
                for question, answer, threshold in said["questions"]
            )
            draw = replace(old.manifest.draw, seed=said["seed"])
            manifest = replace(old.manifest, questions=stored, draw=draw, appended={})
            classes = [str(named[str(number)]) for number in range(len(named))]
            tau = np.array([each.threshold for each in stored])
            neurons = Neurons(rows, tau, np.array([each.answer for each in stored], dtype=np.int64))
            model = replace(
                old, neurons=neurons, classes=classes, manifest=manifest, data=None, limits=(), repeated=0, given=None
            )
            made = QuestionSet(model, self.names)
            fits = len(rows) == len(stored) and not made.content.differing(content)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(f"the record does not lead to an encoder with questions: {error!r}") from None
        if not fits:
            raise DataError("the record does not lead to an encoder with questions")
        return made

    def again(self, data: Sequences, only: Ints | None = None) -> QuestionSet:
        """The same encoder with the questions of `data`; keys of questions that it has already are taken over."""
        return QuestionSet(again(self.model, data), self.names)
