"""A stock model before it is a folder, and the folder: configuration, weights, tokenizer, model card."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file

from monolayer.arrays import Bools, Floats, Ints
from monolayer.data import Names, Sequences
from monolayer.data.folder import SHARD_NAME, FolderKind, new_folder
from monolayer.data.names import MOST_SUGGESTED
from monolayer.data.objects import JsonObject
from monolayer.data.readers import prompts_of
from monolayer.data.unused import unused_names
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.architecture import UNKNOWN
from monolayer.huggingface.files import DRAW_KEY, FolderFacts, config, written_files
from monolayer.huggingface.opened import stock_files
from monolayer.huggingface.reading import read_folder
from monolayer.huggingface.strict import ForeignError
from monolayer.huggingface.tensors import ModelFiles
from monolayer.huggingface.texts import UNIT_OF
from monolayer.model.card import Card
from monolayer.model.torch_settings import own_settings
from monolayer.model.unknown import REFUSE, filled
from monolayer.stock.answers import answered_classes, continued
from monolayer.stock.card import StockSummary, loading, model_card
from monolayer.stock.draw import StockDraw
from monolayer.stock.graph import onnx_model
from monolayer.table import as_html, as_table, plural

ONNX = "onnx/model.onnx"
"""Where transformers.js looks for the network."""
_SAVED_FILES = "config.json model.safetensors tokenizer.json tokenizer_config.json generation_config.json README.md"
_RESAVED_FILES = "model.safetensors.index.json special_tokens_map.json"
STOCK = FolderKind(
    "stock model of monolayer",
    "built_by",
    frozenset([*_SAVED_FILES.split(), *_RESAVED_FILES.split(), "certificate.json", ONNX]),
    SHARD_NAME,
)
"""A folder that `save` may replace when asked to."""


class NeuronWeights(NamedTuple):
    """The feed-forward block: `W_1` `(H, D)`, `b_1` `(H,)`, `W_2` `(H, D)`."""

    W_1: Floats
    b_1: Floats
    W_2: Floats


@dataclass(frozen=True, eq=False)
class StockModel:
    """Weights and names of an unmodified architecture. What `save` writes can be used without monolayer.

    It differs from an `ExtendedModel` in that all of it was built here, from data and a draw.
    """

    facts: FolderFacts
    """All that its files say besides the weights."""
    tensors: Mapping[str, Floats]
    draw: StockDraw
    data: Sequences | None = None
    """The data that the model holds. They are not written, so a loaded model has none."""
    summary: StockSummary | None = None
    """The summary of its construction. It is not written to files, so a loaded model has none."""

    @classmethod
    @own_settings()
    def load(cls, folder: str | os.PathLike[str]) -> StockModel:
        """Read weights and draw from a `folder` that `save` wrote."""
        files = stock_files(folder)
        if files is None:
            raise ModelFileError(
                f"{folder} is not a folder that memorize_as wrote: it does not exist, or has no config.json that names "
                "a model_type"
            )
        return cls.of(files)

    @classmethod
    def of(cls, files: ModelFiles) -> StockModel:
        """The model in the files of a folder."""
        try:
            read, draw = read_folder(files), StockDraw.read(files)
            draw.check(read.facts)
        except (ForeignError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{files.path} is not a folder that memorize_as wrote: {error}") from None
        return cls(read.facts, read.tensors, draw)

    @property
    def architecture(self) -> str:
        """The name of the architecture."""
        return self.facts.kind

    @property
    def task(self) -> str:
        """What the model answers: `token`, `sequence` or `lm`."""
        return self.facts.task

    @property
    def dtype(self) -> str:
        """The format of the stored weights."""
        return self.facts.dtype

    @property
    def config(self) -> JsonObject:
        """What `config.json` says, besides the draw."""
        return config(self.facts)

    @property
    def arrays(self) -> dict[str, Floats]:
        """The tensors by their letters (`huggingface/architecture.py`)."""
        return self.facts.architecture.arrays(self.facts.task, self.tensors)

    @property
    def neurons(self) -> NeuronWeights:
        """The weights of the hidden neurons."""
        arrays = self.arrays
        return NeuronWeights(arrays["W_1"], arrays["b_1"], arrays["W_2"])

    @property
    def parameters(self) -> int:
        """The number of stored numbers."""
        return sum(tensor.size for tensor in self.tensors.values())

    @cached_property
    def card(self) -> Card:
        """What its tokens and answers are called; a language model answers with tokens, special ones among them."""
        facts, known = self.facts, self.vocabulary
        following, per = facts.labelling.generates, facts.labelling.belongs_to
        classes = self.draw.names(facts.classes, labels=True)
        if following:
            classes = Names((*facts.architecture.special.values(), *known.names))
        return Card(
            known,
            classes,
            per,
            causal=following,
            next_token=following,
            per_answer=self.draw.per_answer,
            form=self.draw.form,
        )

    @cached_property
    def vocabulary(self) -> Names:
        """Names of the tokens, special ones aside, as the data have them."""
        special = len(self.facts.architecture.special)
        return self.draw.names(self.facts.names[special:]).cut_into(UNIT_OF.get(self.facts.cut))

    def predict(self, X: object, *, lengths: object = None, strict: bool | None = None, unknown: Any = REFUSE) -> Any:
        """Labels of `X` by their names, in the shapes of `Monolayer.predict`; a language model returns the next tokens.

        `X`: sequences, with their `lengths` if they are padded. A folder that holds prompts and answers returns the
        answers to the prompts `X`, as text. The network is evaluated in float64, without transformers. A sequence that
        is too long for the folder is an error that names it, and so is an unknown token, unless the folder has a class
        for what it does not hold, which is then the answer. One string, or one integer, gives one answer.

        - `strict`: True makes it an error, which names the sequence, if that class is the answer.
        - `unknown`: a value, such as None, in place of that class, and for sequences that would be refused. A folder
          without the class needs `strict=False`, and recognizes only the latter. Answers are then objects.
        """
        if isinstance(X, str | int):
            return self.predict([X], strict=strict, unknown=unknown)[0]
        recognizes = strict is not False and (bool(strict) or unknown is not REFUSE)
        if recognizes:
            self.check_tells_unknown()
        if unknown is not REFUSE:
            return self._answers_or(unknown, X, lengths, recognizes)
        data = self.encode(X, lengths=lengths)
        if self.draw.prompts:
            return np.array(self.answers(data), dtype=object)
        labels = self.labels(data)
        if recognizes and not self.known(labels).all():
            place = int(self.known(labels).argmin())
            where = self.card.labelling.describe(data, place)
            raise DataError(f"{where} is not in the data of this folder: it is answered {self.draw.unknown!r}")
        return self.card.shaped(self.card.decode(labels), data, X, lengths)

    def _answers_or(self, unknown: Any, X: object, lengths: object, told: bool) -> Any:
        """The answers as objects, with `unknown` for what is refused and, if `told`, for the class of that name."""
        if self.draw.prompts:
            data = prompts_of(X, lengths=lengths, like=self.card.manner)
            return np.array([unknown if one is None else one for one in self.answers(data)], dtype=object)
        data = Sequences.of(X, lengths=lengths, like=self.card.manner)
        rows = np.setdiff1d(np.arange(len(data)), list(self.unanswerable(data)))
        labels, places = np.empty(0, dtype=np.int64), self.card.labelling.places(data, rows)
        if len(rows):
            labels = self.labels(data.select(rows))
        known = self.known(labels) if told else np.ones(len(labels), dtype=bool)
        count = self.card.labelling.count(data)
        answers = filled(self.card.decode(labels[known]), places[known], count, unknown)
        return self.card.shaped(answers, data, X, lengths)

    def check_tells_unknown(self) -> None:
        """Refuse a folder that has no class for what it does not hold."""
        if self.draw.unknown is None:
            raise DataError(
                "this folder has no class for what it does not hold, so it cannot tell what it was built from: "
                "memorize_as with unknown='unknown' (--unknown unknown); of prompts and answers, attach can tell"
            )

    def known(self, labels: Ints) -> Bools:
        """Which of these answers, as numbers of classes `(P,)`, are not the class for what the folder does not hold."""
        self.check_tells_unknown()
        assert self.draw.unknown is not None  # checked
        known: Bools = labels != self.facts.classes.index(self.draw.unknown)
        return known

    def encode(self, X: object, *, lengths: object = None) -> Sequences:
        """`X` in the row numbers of the folder's names; a sequence that the folder cannot answer is an error."""
        if self.draw.prompts:
            data = prompts_of(X, lengths=lengths, like=self.card.manner)
        else:
            known = self.card.vocabulary if self.draw.unknown is None else None
            data = Sequences.of(X, lengths=lengths, vocabulary=known, like=self.card.manner)
        refused = self.unanswerable(data)
        if refused:
            raise DataError(f"{data.named(min(refused))}: {refused[min(refused)]}")
        return data if self.draw.unknown is not None else Sequences.of(data, vocabulary=self.vocabulary)

    @own_settings()
    def labels(self, data: Sequences) -> Ints:
        """Numbers of the classes that the model answers, one per token or sequence; −1 where `unanswerable`."""
        return answered_classes(self.facts, self.arrays, data, self._ids(data))

    @own_settings()
    def answers(self, data: Sequences) -> list[str | None]:
        """How the model continues each prompt, as text; None where `unanswerable`."""
        data, names = data.only_prompts(), self.facts.names
        refused, ids = self.unanswerable(data), data.split(self._ids(data))
        rows = [row for row in range(len(data)) if row not in refused]
        texts: list[str | None] = [None] * len(data)
        for row, answer in zip(rows, continued(self.facts, self.arrays, [ids[row] for row in rows]), strict=True):
            texts[row] = "".join(names[one] for one in answer)
        return texts

    def unanswerable(self, data: Sequences, *, suggest: bool = False) -> dict[int, str]:
        """Sequences with a token that the folder does not know, or longer than its places, each with the reason.

        With `suggest`, the first few reasons name a known token that is spelt alike, which takes longer than the rest.
        """
        data = data.only_prompts()
        room, ids = self.facts.room - 1, self._ids(data)
        reasons = {
            row: f"it has {data.lengths[row]:,} tokens, and this {self.architecture} has places for {room:,}: shorten "
            "it, or memorize data with sequences of this length"
            for row in np.flatnonzero(data.lengths > room).tolist()
        }
        unknown = np.flatnonzero(ids < 0)
        for flat in unknown[::-1].tolist():  # the first unknown token of a sequence is the one that is named
            assert data.vocabulary is not None  # `_ids` checked
            row, place = data.place(flat)
            early = flat <= unknown[min(MOST_SUGGESTED, len(unknown)) - 1]
            name = data.vocabulary.names[int(data.tokens[flat])]
            reasons[row] = f"token {place} {self.vocabulary.never_seen(name, suggest=suggest and early)}"
        return reasons

    def _ids(self, data: Sequences) -> Ints:
        """The ids of the tokens; −1 for unknown tokens, or the id of the unknown token if a class answers it."""
        if data.vocabulary is None:
            raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
        row = self.vocabulary.find(data.vocabulary)
        missing = -1 if self.draw.unknown is None else UNKNOWN
        ids: Ints = np.where(row < 0, missing, row + len(self.facts.architecture.special))[data.tokens]
        return ids

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False, onnx: bool = False) -> Path:
        """Write `folder`, all at once or not at all; return its path.

        `overwrite`: replace a stock folder that is there. `onnx`: also write `onnx/model.onnx`, the same network for
        onnxruntime and transformers.js, steps in float64 and all else in float32; no certificate covers it.
        """
        with new_folder(folder, overwrite=overwrite, kind=STOCK) as scratch:
            dtype = getattr(torch, self.dtype)
            tensors = {
                name: torch.tensor(np.ascontiguousarray(tensor), dtype=dtype) for name, tensor in self.tensors.items()
            }
            save_file(tensors, scratch / "model.safetensors", metadata={"format": "pt"})
            files = written_files(self.facts)
            files["config.json"][DRAW_KEY] = self.draw.to_json()
            for name, value in files.items():
                (scratch / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            (scratch / "README.md").write_text(self.readme(onnx=onnx), encoding="utf-8")
            if onnx:
                (scratch / ONNX).parent.mkdir()
                (scratch / ONNX).write_bytes(onnx_model(self.facts, self.arrays))
        return Path(folder)

    def readme(self, *, onnx: bool = False) -> str:
        """README.md of the folder."""
        unused = 0 if self.data is None else unused_names(self.data, self.draw.unknown).total
        return model_card(self.facts, self.draw, self.rows(), self.summary, onnx=onnx, unused=unused)

    @property
    def sizes(self) -> JsonObject:
        """What is known from the files alone, without the summary of a construction."""
        facts = self.facts
        return {
            "architecture": facts.kind,
            "model": facts.architecture.models[facts.task],
            "task": facts.task,
            "storage": self.draw.storage,
            "dtype": facts.dtype,
            "vocabulary": len(self.vocabulary),
            "classes": len(facts.classes),
            "width": facts.width,
            "neurons": facts.neurons,
            "activation": facts.activation,
            "positions": facts.positions,
            "places": facts.max_positions,
            "parameters": self.parameters,
            "unknown": self.draw.unknown,
        }

    __repr__ = as_table
    _repr_html_ = as_html

    def rows(self) -> list[tuple[str, str]]:
        """Rows for the table that commands print."""
        facts, storage = self.facts, f"cells, in {self.dtype}: half-spaces with margins"
        if self.draw.storage == "steps":
            storage = "steps, in float64 only: loaded in float32 or less, it loses facts"
        order = "counts" if facts.positions else "does not count"
        network = f"width {facts.width:,}, {plural(facts.neurons, 'neuron')} ({facts.activation})"
        return [
            ("model", facts.architecture.models[facts.task]),
            ("vocabulary", f"{plural(len(self.vocabulary), 'token')}, {plural(len(facts.classes), 'class')}"),
            ("storage", storage),
            ("network", f"{network}, {self.parameters:,} parameters"),
            ("places", f"{facts.max_positions:,}; the order of tokens {order}"),
            *self._unknown_row(),
            *([] if self.summary is None else self.summary.rows()),
        ]

    def _unknown_row(self) -> list[tuple[str, str]]:
        """How input that is not in the data is answered, and what that costs; empty without such a class."""
        if self.draw.unknown is None:
            return []
        size = sum(part.size for part in self.neurons) * getattr(torch, self.dtype).itemsize
        return [("unknown input", f"answered {self.draw.unknown!r}; for this every fact has a neuron, {size:,} bytes")]

    def loads_with(self) -> str:
        """Lines of Python that load the folder."""
        return loading(self.facts)

    def json(self) -> JsonObject:
        """Sizes and summary for JSON."""
        return {**self.sizes, **({} if self.summary is None else asdict(self.summary))}
