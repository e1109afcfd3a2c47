"""What an edit needs of a model, whichever construction built it; found from the model or from its folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
import torch

from monolayer.arrays import Ints
from monolayer.attaching.folder import Attached
from monolayer.attaching.questions.folder import Recognizer
from monolayer.construct.again import adopted, draw_of, rebuilt
from monolayer.construct.task import StoredDraw, Task
from monolayer.data import Sequences
from monolayer.data.labelling import SEQUENCE, Labelling
from monolayer.data.names import check_utf8
from monolayer.editing.attachment import Attachment
from monolayer.editing.difference import Content, array_of, tensor_of
from monolayer.editing.questions import QuestionSet
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.files import DRAW_KEY
from monolayer.model.asked import unanswerable
from monolayer.model.card import Fingerprint
from monolayer.model.load import load_monolayer, model_from
from monolayer.model.monolayer import Monolayer
from monolayer.model.save import described
from monolayer.model.uniform import Uniform
from monolayer.saved.load import load
from monolayer.stock.build import adopt, job_of, memorize_again
from monolayer.stock.folder import StockModel

NAMES_KEY = "names"
"""The key of the configuration of a `Content` that holds all names."""
PER_ANSWER = "per_answer"
"""The key of the configuration of a `Content` that says how the prompts and answers of a stock folder are read."""
Answered: TypeAlias = Any
"""What a model answers, as users write it: a class by its name, numbers, or text; None where it does not answer."""


MEMORIZING = "memorizing {} with this draw"
GIVE_ALL = (
    "Give all of its data, with later edits applied; or, if it should hold only these, memorize them with its draw "
    "(draw=)"
)


@final
@dataclass(frozen=True, eq=False)
class Stock:
    """A model that `memorize_as` built."""

    model: StockModel
    way: ClassVar = MEMORIZING
    way_out: ClassVar = GIVE_ALL
    may_change: ClassVar = frozenset({"intermediate_size", "n_inner", "ffn_dim", "hidden_dim", NAMES_KEY, PER_ANSWER})

    @property
    def unknown(self) -> str | None:
        """The class for what the model does not hold, if it has one."""
        return self.model.draw.unknown

    @property
    def labelling(self) -> Labelling:
        """Whether an answer belongs to a token, a sequence or a whole prompt."""
        return SEQUENCE if self.model.draw.prompts else self.model.facts.labelling

    @property
    def ordered(self) -> bool:
        """Whether the order of tokens counts."""
        return self.model.facts.positions or self.model.facts.causal

    @property
    def by_token(self) -> bool:
        """Whether every neuron depends on the facts of one token alone.

        Where the begin token answers for whole sequences, all facts are facts of that token.
        """
        model = self.model
        return model.draw.storage == "cells" and (model.facts.labelling.at_tokens or model.facts.causal)

    @property
    def only(self) -> bool:
        """Whether `certify(only=True)` can prove from the weights that the model holds nothing else."""
        return self.model.draw.storage == "steps"

    @cached_property
    def content(self) -> Content:
        """The tensors and settings of the model that edits may change."""
        model = self.model
        dtype = getattr(torch, model.dtype)
        parts = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in model.tensors.items()}
        tensors = {name: array_of(part.to(dtype)) for name, part in parts.items()}
        kind = model.facts.architecture
        names = kind.names(model.facts.task)
        axes = {"W_1": int(kind.transposed), "b_1": 0, "W_2": int(not kind.transposed)}
        blocks = {"feed_forward": {names[letter]: axis for letter, axis in axes.items()}}
        config: dict[str, Any] = {**model.config}
        for key in ("id2label", "label2id"):  # all names stand under one key
            config.pop(key, None)
        known_names = {"tokens": list(model.facts.names), "classes": list(model.facts.classes)}
        # How answers are read follows from the data, as names do, and the form of files stays; so does all else here.
        draw = replace(model.draw, per_answer=None, form=None).to_json()
        config |= {DRAW_KEY: draw, PER_ANSWER: model.draw.per_answer, NAMES_KEY: known_names}
        return Content(tensors, config, blocks)

    def with_content(self, content: Content) -> Stock:
        """The model with these tensors and settings in place of its own."""
        dtype = getattr(torch, self.model.dtype)
        tensors = {name: tensor_of(part, dtype).double().numpy() for name, part in content.tensors.items()}
        old = self.model
        try:
            known_names = content.config[NAMES_KEY]
            names, classes = (tuple(map(str, known_names[part])) for part in ("tokens", "classes"))
            neurons = len(old.facts.architecture.arrays(old.facts.task, tensors)["W_1"])
            check_utf8("name", (*names, *classes))
            facts = replace(old.facts, neurons=neurons, names=names, classes=classes)
            draw = replace(old.draw, per_answer=content.config[PER_ANSWER])
            draw.check(facts)
            made = Stock(replace(old, facts=facts, tensors=tensors, draw=draw, data=None, summary=None))
            sizes, special = (len(set(names)), len(set(classes))), len(old.facts.architecture.special)
            fits = sizes == (len(old.facts.names), len(old.facts.classes)) == (len(names), len(classes))
            fits &= names[:special] == old.facts.names[:special]
            fits &= draw.prompts == old.draw.prompts and made.content.config == content.config
        except (KeyError, ValueError, TypeError):
            fits = False
        if not fits:
            raise DataError("the record does not lead to a model of this architecture")
        return made

    def renamed(self, data: Sequences) -> Stock:
        """The model with other names for its rows; `data`: the adopted data that it holds, by these names."""
        facts, labels = self.model.facts, data.labels
        assert data.vocabulary is not None  # stock models take ids
        names = (*facts.architecture.special.values(), *map(str, data.vocabulary.names))
        classes = names if labels is None or labels.classes is None else tuple(map(str, labels.classes.names))
        return Stock(replace(self.model, facts=replace(facts, names=names, classes=classes), data=data))

    def adopt(self, data: Sequences) -> Sequences:
        """The data with tokens and classes numbered as in the model."""
        return adopt(self.model, data)

    def task(self, data: Sequences) -> Task:
        """What a model of the adopted `data` must answer, and where."""
        return job_of(self.model, data).task

    def again(self, data: Sequences, only: Ints | None = None) -> Stock:
        """The model of `data` with the draw of this one; `only`: the tokens whose facts changed, if known."""
        return Stock(memorize_again(self.model, data, only=only))

    def answers(self, data: Sequences) -> list[Answered]:
        """The answers of the model to `data`, by name; None where it has none."""
        if self.model.draw.prompts:
            return list(self.model.answers(data))
        classes = self.model.card.classes
        assert classes is not None  # stock models answer with classes
        return [None if number < 0 else classes.names[number] for number in self.model.labels(data).tolist()]


FINGERPRINTS = "fingerprints"
"""The name under which a `Content` holds the fingerprints of the data, a tensor that is not among the weights."""


@final
@dataclass(frozen=True, eq=False)
class Own:
    """A model that `memorize` built."""

    model: Monolayer
    way: ClassVar = MEMORIZING
    way_out: ClassVar = GIVE_ALL
    """How else one comes to the model of an edit."""
    unknown: ClassVar[str | None] = None
    """None: the model has no class for what it does not hold, and recognizes its data by fingerprints."""
    may_change: ClassVar = frozenset({"steps", "width", "vocabulary", "classes", NAMES_KEY, "draw", "summary"})
    """Keys of the configuration that an edit may change."""

    @property
    def labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence."""
        return self.model.card.labelling

    @property
    def ordered(self) -> bool:
        """Whether the order of tokens counts."""
        return self.model.positions is not None or self.model.card.causal

    @cached_property
    def _draw(self) -> StoredDraw:
        return draw_of(self.model)

    @property
    def by_token(self) -> bool:
        """Whether every neuron depends on the facts of one token alone."""
        return self._draw.by_token

    @property
    def only(self) -> bool:
        """Whether `certify(only=True)` can prove from the weights that the model holds nothing else."""
        return len(self.model.feed_forward.stairs) == 1

    @cached_property
    def content(self) -> Content:
        """The tensors and settings of the model that edits may change."""
        config, names = described(self.model)
        del config["format"], config["version"], config["form"]  # how files are read is no part of what is edited
        tensors = {name: array_of(part) for name, part in self.model.state_dict().items()}
        if self.model.card.fingerprint is not None:
            tensors[FINGERPRINTS] = self.model.card.fingerprint.words
        prefixes = [name.removesuffix(".weight_1") for name in tensors if name.endswith(".weight_1")]
        axes = {"weight_1": 0, "bias_1": 0, "weight_2": 1}
        blocks = {prefix: {f"{prefix}.{part}": axis for part, axis in axes.items()} for prefix in prefixes}
        return Content(tensors, config | {NAMES_KEY: names}, blocks)

    def with_content(self, content: Content) -> Own:
        """A model of this kind with other tensors, configuration and names."""
        card, config = self.model.card, dict(content.config)
        dtype = self.model.bos.dtype
        tensors = {name: tensor_of(part, dtype) for name, part in content.tensors.items() if name != FINGERPRINTS}
        try:
            model = model_from({**config, "form": None}, config.pop(NAMES_KEY), tensors)
        except (ModelFileError, LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise DataError(f"the record does not lead to a model: {error}") from None
        words = content.tensors.get(FINGERPRINTS)
        kept = None if card.fingerprint is None or words is None else replace(card.fingerprint, words=words)
        model.card = replace(model.card, fingerprint=kept, form=card.form)
        return Own(model.to(self.model.bos.device))

    def renamed(self, data: Sequences) -> Own:
        """Give the model, which no caller has seen yet, other names for its rows; `data`: what it holds, by them."""
        card, classes = self.model.card, None if data.labels is None else data.labels.classes
        if card.next_token:
            classes = data.vocabulary
        self.model.card = replace(card, vocabulary=data.vocabulary, classes=classes)
        return Own(self.model)

    def adopt(self, data: Sequences) -> Sequences:
        """`data` in the numbers of the model's names; new names are added after them, where that is possible."""
        _ = self._draw  # an error if the model has no draw
        return adopted(self.model, data)

    def task(self, data: Sequences) -> Task:
        """What a model of adopted data must answer, and where."""
        positions = self.model.positions is not None
        return Task.of(data, positions=positions, causal=self.model.card.causal, on_conflict="error")

    def again(self, data: Sequences, only: Ints | None = None) -> Own:
        """The model of other data with the draw of this one; `only`: the tokens whose facts changed, if known."""
        card, task = self.model.card, self.task(self.adopt(data))
        new = rebuilt(self.model, task, lambda stage, share: None, only)
        if card.fingerprint is not None:
            words = Fingerprint.of(task.data, card.per, positions=task.context.positions, causal=card.causal)
            new.card = replace(new.card, fingerprint=words)
        return Own(new.to(self.model.bos.device))

    def answers(self, data: Sequences) -> list[Answered]:
        """What the model answers at every token, or for every sequence, by name; of a prompt the text of its answer.

        None in sequences with a token that it does not know. A `DataError` where it cannot be asked here.
        """
        card = self.model.card
        answered: list[Answered] = [None] * card.labelling.count(data)
        rows = np.delete(np.arange(len(data)), list(unanswerable(self.model, data)))
        if len(rows):
            part = replace(data, labels=None).select(rows)
            values = card.decode(self.model.labels(self.model.encode(part))).tolist()
            places = card.labelling.places(data, rows)
            for place, value in zip(places.tolist(), values, strict=True):
                answered[place] = value
        return answered


Subject = Own | Stock | Attachment | QuestionSet
"""What an edit needs of a model, whatever its construction; `Own` says what the members are."""
GivenModel: TypeAlias = Monolayer | Uniform | StockModel | Attached | Recognizer | str | os.PathLike[str]
"""A model as callers give it, or the folder of one."""


SUBJECTS: dict[Any, Callable[[Any], Subject]] = {
    Attached: Attachment,
    Recognizer: QuestionSet,
    StockModel: Stock,
    Monolayer | Uniform: lambda model: Own(load_monolayer(model)),
}
"""What an edit needs of each kind of model in memory."""


def subject_of(model: GivenModel) -> Subject:
    """What an edit needs of a model, or of the model in a folder; anything else is an error."""
    if isinstance(model, str | os.PathLike):
        model = load(model)
    for kind, subject in SUBJECTS.items():
        if isinstance(model, kind):
            return subject(model)
    raise DataError(f"{type(model).__name__} is neither a model of monolayer nor the folder of one")
