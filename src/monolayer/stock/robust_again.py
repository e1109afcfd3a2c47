"""The draw of a robust stock folder, read from its files: then only what its tokens' own facts say changes.

A *draw* is here: names of tokens and classes, codes, places, attention with the values' mixture, format, activation and
tokenizer. All of it stands in the folder, and is compared with what the construction writes, number by number. What is
left, the neurons and the usual label in each embedding, the facts decide: those of a token are a function of the facts
of that token (docs/editing.md). Where the begin token answers, all facts are its facts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from monolayer.data import Names, Sequences
from monolayer.data.names import Ints
from monolayer.errors import ContradictionError, DataError, PrecisionError
from monolayer.stock import tracing
from monolayer.stock.architecture import Architecture, Frame, Task, choose
from monolayer.stock.build import ARCHITECTURES
from monolayer.stock.codes import Floats
from monolayer.stock.folder import STOCK, StockModel
from monolayer.stock.gates import Neurons
from monolayer.stock.halves import ACTS, rounded
from monolayer.stock.labelled import Answer, Work, work
from monolayer.stock.mirror import Kept, Mirror, contexts, lay_out
from monolayer.stock.reading import adopted, check_cut, check_room, named, read_folder, read_key, read_tokenizer
from monolayer.stock.robust import Draw, Dtype, covered, frame_around, points_of, robust_model, usual_labels
from monolayer.stock.tokenizer import DECODER, ENCODER

NOT_OURS = (
    "{} has no draw to use again: {} is not such as memorize_as(robust=True) of this version writes it (changed, "
    "trained, or built by another version). Memorize the edited data anew"
)


@dataclass(frozen=True, eq=False)
class Cells:
    """Neurons of some tokens, in order of these: the token of each `(H,)`, and the block."""

    cell: Ints
    block: Neurons


@dataclass(frozen=True, eq=False)
class RobustStock:
    """A robust stock folder: its draw, its tensors, and its data in the numbers of its names."""

    folder: Path
    kind: Architecture
    tensors: dict[str, Tensor]
    dtype: Dtype
    activation: str
    ids: tuple[str, ...]
    vocabulary: Names
    classes: Names | None
    positions: bool
    draw: Draw
    data: Sequences

    @classmethod
    def of(cls, folder: Path, data: Sequences) -> RobustStock:
        """The draw of a folder, and its data, all of them and no others, which is left to the caller to check."""
        config, tensors = read_folder(folder)
        kind = choose(str(config.get("model_type")), ARCHITECTURES)
        dtype: Any = config.get("dtype")
        if dtype not in get_args(Dtype) or any(t.dtype != getattr(torch, dtype) for t in tensors.values()):
            raise DataError(NOT_OURS.format(folder, f"the format {dtype!r} of its tensors"))
        special = DECODER if kind.causal else ENCODER
        ids, cut = read_tokenizer(folder, special)
        vocabulary, classes = named(data, config, ids[len(special) :])
        own = adopted(data, vocabulary, classes)
        width, places, activation = (read_key(folder, config, what) for what in ("width", "places", "activation"))
        longest = places - 1 - kind.offset + kind.hidden_rows
        draw = Draw(Kept(longest, np.zeros((0, 0)), 0.0), cut, places)
        found = cls(folder, kind, tensors, dtype, activation, ids, vocabulary, classes, False, draw, own)
        W_V, W_O = (tracing.attention(kind, found.blank(width), tensors, name) for name in ("W_V", "W_O"))
        rank, code = int(W_V.any(axis=1).sum()), int(W_V.any(axis=0).sum())
        kept = Kept(longest, W_V[:rank, :code], float(W_O.max(initial=0.0)))
        found = replace(found, draw=replace(draw, kept=kept))
        for positions in (False, True):
            one = replace(found, positions=positions)
            odd = one._oddities(config) if rank >= 2 else "attention"
            if odd is None:
                return one
        raise DataError(NOT_OURS.format(folder, odd))

    # -- parts -----------------------------------------------------------------------------------------

    @property
    def special(self) -> dict[str, str]:
        return DECODER if self.kind.causal else ENCODER

    def adopt(self, data: Sequences) -> Sequences:
        """`data` in the numbers of this draw's tokens and classes; what it lacks is an error that names it."""
        data = adopted(data, self.vocabulary, self.classes, None if self.data.labels is None else self.data.labels.per)
        check_room(data, self.draw.kept.longest)
        check_cut(data, self.ids, self.special, self.draw.cut)
        return data

    def work(self, data: Sequences) -> Work:
        return work(self.kind, data, self.ids, self.special, positions=self.positions, on_conflict="error", robust=True)

    def usual(self, data: Sequences) -> Ints:
        """The label `(V,)` that the embedding of each id shall hold."""
        job = self.work(data)
        return usual_labels(job, job.task.target)

    @cached_property
    def stream(self) -> Mirror:
        """The stream, with class 0 in every embedding."""
        job, none = self.work(self.data), np.zeros(len(self.ids), np.int64)
        return lay_out(self.kind, job, none, 0, 0, lambda array: rounded(array, self.dtype), self.draw.kept)

    def mirror(self, usual: Ints) -> Mirror:
        """The stream with these labels in the embeddings."""
        tokens, word = self.stream.tokens.copy(), self.stream.words[usual]
        tokens[:, self.stream.both(self.stream.label)] = np.concatenate([word, -word], axis=1)
        return replace(self.stream, tokens=tokens)

    def touched(self, asked: Sequences) -> Ints:
        """Ids whose facts come or go with these sequences."""
        job = self.work(asked)
        begin = [job.begin] if job.kind == "lm" else []
        return np.unique(np.append(points_of(job).token, begin).astype(np.int64))

    # -- what the facts decide ---------------------------------------------------------------------------

    def cells(self, data: Sequences, usual: Ints, touched: Ints) -> Cells:
        """The neurons of some ids, from the facts of `data`; only sequences with one of them are looked at."""
        job = self.work(data)
        rows = np.arange(len(data))
        if not job.at_begin:
            rows = np.unique(data.sequence[np.isin(data.tokens + job.shift, touched)])
        if len(rows) == 0:
            return Cells(rows, tracing.no_neurons(self.stream.width))
        only = np.zeros(len(self.ids), dtype=bool)
        only[touched] = True
        try:
            return self._cover(self.work(data.select(rows)), usual, only)
        except (PrecisionError, ContradictionError):
            return self._cover(job, usual, only)  # the same error, with the rows by their own numbers

    def _cover(self, job: Work, usual: Ints, only: Any) -> Cells:
        target, _ = job.task.settle(job.task.target)
        mirror = self.mirror(usual)
        half, block = covered(job, target, mirror, usual, self.dtype, self.activation, only=only)
        return Cells(half.cell, block)

    def with_data(self, data: Sequences) -> StockModel:
        """The model of other rows or labels with this draw, built from the start: what an edit must be equal to."""
        began = time.perf_counter()
        job, nothing = self.work(self.adopt(data)), (lambda stage, share: None)
        return robust_model(
            self.kind, job, None, self.dtype, self.activation, self.special, 0, nothing, began, self.draw
        )

    def answers(self, data: Sequences, usual: Ints, cells: Cells) -> list[Answer]:
        """What neurons of the tokens of `data` say there, in float64, fact by fact; other tokens' are silent."""
        job = self.work(data)
        mirror, points = self.mirror(usual), points_of(job)
        act, block = ACTS[self.activation], cells.block
        label = mirror.both(mirror.label)
        found = np.zeros(len(points.token), np.int64)
        for point, context in contexts(job, mirror):
            x = mirror.scale * mirror.tokens[points.token[point]]
            if mirror.places is not None:
                x = x + mirror.scale * mirror.places[points.place[point]]
            c = context.double().numpy()
            x[:, mirror.slot], x[:, mirror.slot.start + mirror.half : mirror.slot.stop + mirror.half] = c, -c
            z = mirror.factor((c * c).sum(axis=1))[:, None] * x
            hidden = act(torch.from_numpy(z @ block.W_1.T + block.b_1)).numpy()
            word = ((z if self.kind.post_norm else x) + hidden @ block.W_2)[:, label]
            found[point] = (word @ np.concatenate([mirror.words, -mirror.words], axis=1).T).argmax(axis=1)
        return [Answer(name) for name in job.class_names.decode(found).tolist()]

    # -- its files ---------------------------------------------------------------------------------------

    def frame(self, data: Sequences, usual: Ints, block: Neurons | None = None) -> Frame:
        """The folder as the construction would have it; without a block, with one silent neuron."""
        mirror = self.mirror(usual)
        block = block or tracing.no_neurons(mirror.width)
        frame = frame_around(self.kind, self.work(data), mirror, block, self.activation, self.special)
        return replace(frame, positions=self.draw.places)

    def stored(self, array: Floats) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(getattr(torch, self.dtype))

    @cached_property
    def axes(self) -> dict[str, int]:
        """The tensors that hold neurons, and the axis that counts them."""
        return dict(tracing.neuron_axes(self.kind, self.blank(2)))

    @cached_property
    def table(self) -> str:
        """The tensor of the embedding."""
        return tracing.embedding(self.kind, self.blank(2))

    def blank(self, width: int) -> Frame:
        """A frame of zeros with the names of this folder."""
        task: Task = "lm" if self.data.labels is None else self.data.labels.per
        classes = self.ids if self.classes is None else tuple(map(str, self.classes.names))
        return tracing.blank(self.kind, task, len(self.ids), classes, width, self.activation, self.draw.places)

    @cached_property
    def held(self) -> Ints:
        """The label that each embedding holds `(V,)`; a word that no label has is −1, and found odd."""
        mirror = self.stream
        return tracing.spelled(self.tensors[self.table].double().numpy()[:, mirror.label], mirror.words)

    @cached_property
    def neurons(self) -> Ints:
        """The token of every stored neuron `(H,)`; −1: it has none, and never fires."""
        mirror = self.stream
        name = tracing.block_matrix(self.kind, self.blank(2), "W_1")
        rows = np.moveaxis(self.tensors[name].double().numpy(), self.axes[name], 0)
        cell = tracing.spelled(rows[:, mirror.code], mirror.tokens[:, mirror.code])
        if (np.diff(cell) < 0).any() or ((cell < 0) & rows.any(axis=1)).any():
            raise DataError(NOT_OURS.format(self.folder, "the order or the code of its neurons"))
        return cell

    @cached_property
    def speaks(self) -> Ints:
        """The class that every stored neuron speaks for `(H,)`."""
        name = tracing.block_matrix(self.kind, self.blank(2), "W_2")
        rows = np.moveaxis(self.tensors[name].double().numpy(), self.axes[name], 0)
        found: Ints = (rows[:, self.stream.label] @ self.stream.words.T).argmax(axis=1)
        return found

    def _oddities(self, config: dict[str, Any]) -> str | None:
        """The first key or tensor that is not what the draw, with the folder's own labels, would have there."""
        try:
            frame = self.frame(self.data, self.held)
        except (DataError, ValueError, IndexError):
            return "its layout"
        wanted: dict[str, Any] = {**self.kind.config(frame), STOCK.key: STOCK.value, "dtype": self.dtype}
        wanted |= {"architectures": [self.kind.models[frame.task]], "tie_word_embeddings": False}
        odd = [key for key, value in wanted.items() if key not in self.size_keys and config.get(key) != value]
        tensors = self.kind.tensors(frame)
        if tensors.keys() != self.tensors.keys():
            return "the list of its tensors"
        for name, part in tensors.items():
            if name not in self.axes and not same_bits(self.tensors[name], self.stored(part)):
                odd.append(name)
        return odd[0] if odd else None

    @property
    def size(self) -> int:
        """Neurons that the folder has, the one that never fires aside."""
        return int((self.neurons >= 0).sum())

    @cached_property
    def size_keys(self) -> list[str]:
        """Keys of `config.json` that count neurons."""
        return tracing.size_keys(self.kind, self.blank(2))


def same_bits(one: Tensor, two: Tensor) -> bool:
    whole = torch.int16 if one.element_size() == 2 else torch.int32
    return one.shape == two.shape and one.dtype == two.dtype and torch.equal(one.view(whole), two.view(whole))
