"""The model: lift, one rank-1 attention layer, a staircase readout, a linear head. An ordinary `nn.Module`.

An approximator has one more part, a feed-forward block between lift and attention that rounds tokens to cells.

`forward` is the network, by dense operations. `predict` takes what people have (strings, ragged lists,
arrays) and may use the shortcut, which computes the same function by segment sums and binary search.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Array
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.asked import check_lengths, encoded
from monolayer.model.card import Summary
from monolayer.model.device import elsewhere, no_notice_of_kernels
from monolayer.model.explain import Explanation, explain
from monolayer.model.inputs import check_input
from monolayer.model.parts import Parts
from monolayer.model.plot import Domain, Figure, plot_approximator, plot_memory
from monolayer.model.recital import recite
from monolayer.model.save import save
from monolayer.model.shortcut import fast_labels, labels_there, values
from monolayer.model.torch_settings import own_settings
from monolayer.model.unknown import REFUSE, filled, refusal, seen_points, tells_unknown, unknown_rows
from monolayer.table import as_html, number, plural

Path_ = Literal["auto", "fast", "dense"]


class Monolayer(Parts):
    """A one-layer, one-head Transformer with rank-1 attention and a staircase readout; `Parts` says what it holds."""

    # -- the network -----------------------------------------------------------------------------------

    def forward(self, X: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits `(N, n, C)`, or `(N, C)` for a model with one label per sequence; real labels come as they are.

        `X`: rows of the vocabulary `(N, n)` (the ids themselves when they are gapless from 0; `encode` gives
        them in every case) or vectors `(N, n, d)`. `lengths` `(N,)` tells padding from tokens: what stands
        there may be any number, and what comes out there means nothing.
        """
        check_input(self, X, lengths)
        Z, seen = self.stream(X, lengths)
        Z = self.feed_forward(self._answering(self.attention(Z, seen, self.card.causal)))
        logits: Tensor = self.head(Z)
        return logits

    def stream(self, X: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The residual stream before attention `(N, 1 + n, D)`, and which keys there are `(N or 1, 1, 1 + n)`."""
        if lengths is not None and self.card.vocabulary is not None:
            X = X.masked_fill(torch.arange(X.shape[1], device=X.device) >= lengths.to(X.device)[:, None], 0)
        Z = self.lift(X)
        if self.positions is not None:
            Z = Z + self.positions(torch.arange(X.shape[1], device=Z.device))
        Z = torch.cat([self.bos.expand(Z.shape[0], 1, -1), Z], dim=1)
        place = torch.arange(Z.shape[1], device=Z.device)
        seen = torch.ones_like(place, dtype=torch.bool)[None, None]
        if lengths is not None:
            real = place <= lengths.to(Z.device)[:, None]
            # Padding may have no vector, or any: zero it, since 0 times NaN is NaN.
            Z = torch.where(real[:, :, None], Z, 0.0)
            seen = real[:, None, :]
        return Z if self.quantizer is None else self.quantizer(Z), seen

    def _answering(self, Z: Tensor) -> Tensor:
        """The places where the model answers: the tokens, or the begin-of-sequence token."""
        return Z[:, 1:] if self.card.labelling.at_tokens else Z[:, 0]

    # -- answers ---------------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        *,
        lengths: object = None,
        path: Path_ = "auto",
        strict: bool | None = None,
        unknown: Any = REFUSE,
    ) -> Any:
        """The labels of `X`, by their names.

        Arrays `(N, n, …)` give an array `(N, n)` (or `(N, n, m)`); sequences of different lengths give a
        list of arrays; a model with one label per sequence gives `(N,)`. A tensor on an accelerator gives a
        tensor there, where labels are numbers. One string, or one integer, gives one answer.

        - `X`: everything that `memorize` takes, except the path of a file; of a table, one column or the usual ones.
        - `lengths` `(N,)`: how many tokens each row of a padded array has.
        - `path`: `fast` (segment sums and binary search), `dense` (the network as it stands), or `auto`: fast
          where the weights allow it.
        - `strict`: whether a point that the model was not built from (`seen`) is refused, with an error that names it.
          By default it is, if the model has fingerprints to tell; a model of keys and values has them. False gives
          the answer of the network, which is meaningless there.
        - `unknown`: a value, such as None, that takes the place of the answer where it would be refused, so that the
          other rows of a batch are answered. Answers are then objects.
        """
        if isinstance(X, str | int):
            return self.predict([X], path=path, strict=strict, unknown=unknown)[0]
        recognizes = tells_unknown(self.card.fingerprint, strict, unknown)
        if unknown is not REFUSE:
            return self._answers_or(unknown, X, lengths, path, recognizes)
        there = lengths is None and path != "dense" and not recognizes and type(self) is Monolayer
        labels_of_tensor = labels_there(self, X) if there and elsewhere(X) else None
        if labels_of_tensor is not None:
            return labels_of_tensor
        data = self._known(X, lengths) if recognizes else self.encode(X, lengths=lengths)
        labels = self.card.shaped(self.card.decode(self.labels(data, path=path)), data, X, lengths)
        # Names, and rows of different lengths, stay what they are.
        numbers = isinstance(labels, np.ndarray) and labels.dtype != object
        return torch.from_numpy(labels).to(X.device) if numbers and elsewhere(X) else labels

    def _known(self, X: Any, lengths: object) -> Sequences:
        """`X` encoded; an error that names the rows that the model was not built from, if there are any."""
        read = self._read(X, lengths)
        try:
            data = self.encode(read)
        except DataError:
            if not len(unknown_rows(self, read, told=False).unknown):
                raise  # for another reason, such as vectors in place of ids
        else:
            if self.known(data).all():
                return data
        raise refusal(self, read, unknown_rows(self, read, told=True).unknown)

    def _answers_or(self, unknown: Any, X: Any, lengths: object, path: Path_, told: bool) -> Any:
        """The answers to `X` as objects, with `unknown` where the model was not built from it, or cannot answer."""
        read = self._read(X, lengths)
        rows, labelling = unknown_rows(self, read, told=False).answerable, self.card.labelling
        answers = filled(np.empty(0), np.empty(0, np.int64), labelling.count(read), unknown)
        if len(rows):
            data = self.encode(read.select(rows))
            places = labelling.places(read, rows)
            values, known = self.card.decode(self.labels(data, path=path)), self.known(data) if told else slice(None)
            answers = filled(values[known], places[known], labelling.count(read), unknown)
        return self.card.shaped(answers, read, X, lengths)

    def _read(self, X: Any, lengths: object) -> Sequences:
        """`X` as sequences with its own names, read as this model reads data."""
        return Sequences.of(X, lengths=lengths, like=self.card.manner)

    def seen(self, X: object, *, lengths: object = None) -> Any:
        """Whether each answer is one that the model was built to give: booleans in the shape of `predict`.

        Needs fingerprints, which a model of keys and values has, and any other with `memorize(..., unknown=True)`. What
        was seen is always found, and `card.fingerprint.false_positives` is the chance that something else is taken for
        it. `X`, `lengths`: as in `predict`.
        """
        data = self.encode(X, lengths=lengths)
        return self.card.shaped(self.known(data), data, X, lengths)

    def known(self, data: Sequences) -> NDArray[np.bool_]:
        """Which answering places `(P,)` of encoded data are points that the model was built from."""
        return seen_points(self, data)

    def recite(self, prompt: str = "") -> Iterator[str]:
        """Yield the memorized text after `prompt`, one token at a time, to its end; '' starts at its beginning."""
        return recite(self, prompt, self.labels)

    def generate(self, prompt: str = "", *, max_tokens: int | None = None) -> str:
        """The memorized text after `prompt` as one string: at most `max_tokens` tokens of it, or all."""
        return "".join(islice(self.recite(prompt), max_tokens))

    @own_settings()
    def explain(self, X: object, *, lengths: object = None) -> Explanation:
        """Explain the answers: key, attention weight, context, `z`, step, neighbours and margin of every token of `X`.

        The result has `.json()` for machines and `.table()` for a terminal. For models of rank 1, not for robust ones.
        `X`, `lengths`: as in `predict`.
        """
        return explain(self, self.encode(X, lengths=lengths))

    @torch.no_grad()
    @own_settings()
    def on_ramp(self, X: object) -> NDArray[np.bool_]:
        """Sequences `(N,)` of an approximator with a coordinate on a ramp, where its error bound does not hold."""
        cells = None if self.quantizer is None else self.quantizer.steps()
        if cells is None:
            raise DataError("only an approximator with the weights that it was built with has ramps between cells")
        data = self.encode(X)
        token = cells.on_ramp(torch.from_numpy(data.tokens).to(self.bos)).cpu().numpy()
        return np.asarray(token.reshape(len(data), -1).any(axis=1))

    def encode(self, X: object, *, lengths: object = None) -> Sequences:
        """`X` with the model's own row numbers; a token that the model never saw is an error that names it."""
        if self.card.vocabulary is not None:
            return encoded(self, X, lengths)
        data = Sequences.of(X, lengths=lengths, like=self.card.manner)
        dim = getattr(self.lift, "in_features", None)  # a module that was put in its place may lack the attribute
        if data.vocabulary is not None or data.tokens.shape[1] != (dim or data.tokens.shape[1]):
            raise DataError(f"the model takes vectors of {dim or 'real'} numbers")
        check_lengths(self, data.lengths)
        return data

    @torch.no_grad()
    @own_settings()
    def labels(self, data: Sequences, *, path: Path_ = "auto") -> Array:
        """Label values of encoded data, flat: class numbers `(P,)` or reals `(P, m)`."""
        if path not in get_args(Path_):
            raise DataError(f"path must be one of {', '.join(map(repr, get_args(Path_)))}, not {path!r}")
        with no_notice_of_kernels(self.bos.dtype):
            # A subclass may compute something else.
            label = fast_labels(self, data) if path != "dense" and type(self) is Monolayer else None
            if label is not None:
                return self._values(label, data)
            if path == "fast":
                raise DataError(
                    "the fast path needs the network as it was built, and scores within the range of its format: "
                    "weights or parts were changed, hooks registered, or temperature is too high. Use path='dense'"
                )
            return self._dense_labels(data)

    def _values(self, label: Tensor, data: Sequences) -> Array:
        if bool(label.isnan().any()):
            self._check_numbers(label.isnan().any(dim=1).cpu().numpy(), data)
        return _numpy(values(self.card, label))

    def _check_numbers(self, lacking: NDArray[np.bool_], data: Sequences) -> None:
        """Refuse to answer where the network gave NaN, as `lacking` `(P,)` says: argmax would still name a class."""
        if lacking.any():
            flat = int(np.flatnonzero(lacking)[0])
            where = self.card.labelling.describe(data, flat)
            raise DataError(f"the network gives no number at {where}: its weights hold NaN, or the input overflows it")

    def _dense_labels(self, data: Sequences) -> Array:
        """Labels by the network itself, sequences of like length together, a bounded number of logits at a time."""
        labelling = self.card.labelling
        order = np.argsort(data.lengths, kind="stable")
        outputs = 1 if self.card.classes is None else len(self.card.classes)
        logits = max(1, (1 << 24) // max(outputs, 5 * self.bos.numel()))  # or as many numbers of five streams
        where, labels, lacking = [], [], []
        while len(order):
            width = int(data.lengths[order[0]])
            block = order[: max(1, logits // max(width, 1) // 2)]
            block = block[data.lengths[block] <= 2 * width]
            order = order[len(block) :]
            part = data.select(block)
            inside = np.arange(int(part.lengths.max())) < part.lengths[:, None]
            X = np.zeros((*inside.shape, *data.tokens.shape[1:]), dtype=data.tokens.dtype)
            X[inside] = part.tokens
            inputs = torch.from_numpy(X).to(self.bos.device)
            if self.card.vocabulary is None:
                inputs = inputs.to(self.bos.dtype)
            out = self(inputs, torch.from_numpy(part.lengths).to(self.bos.device))
            out = out[torch.from_numpy(inside).to(out.device)] if labelling.at_tokens else out
            where.append(labelling.places(data, block))
            labels.append(_numpy(out if self.card.classes is None else out.argmax(-1)))
            lacking.append(out.isnan().any(-1).cpu().numpy())
        back = np.argsort(np.concatenate(where))
        self._check_numbers(np.concatenate(lacking)[back], data)
        return np.concatenate(labels)[back]

    # -- files and words -------------------------------------------------------------------------------

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the model as a folder of safetensors and JSON, all at once or not at all; returns its path.

        `overwrite`: True replaces a folder that exists.
        """
        return save(self, folder, overwrite=overwrite)

    @property
    def summary(self) -> Summary | None:
        """The measurements of the construction; None if the file has none, or the model was built from a draw."""
        return self.card.summary

    def counts(self) -> dict[str, int]:
        """`parameters` in the file; `dense_numbers`: those, and the later hidden layers, which no file need hold."""
        stored = sum(parameter.numel() for parameter in self.parameters())
        cells = 0 if self.quantizer is None else len(self.quantizer.bias_1)
        return {"parameters": stored, "dense_numbers": stored + self.feed_forward.later_numbers + 2 * cells}

    def plot(self, f: Callable[[Any], Any] | None = None, *, name: str = "function", token: object = None) -> Figure:
        """A picture, as a Plotly figure, which notebooks show and whose `write_html` makes a page.

        Of an approximator: the function `f` beside the network and the error over it, for the first two coordinates;
        without `f`, the network alone. Of other models: the staircase, or the half-spaces that are awake at `token`.
        `name`: of the function, for the title.
        """
        if (grid := self.card.grid) is not None:
            domain = Domain(grid.dim, grid.length, grid.low, grid.high, grid.cells)
            return plot_approximator(self.predict, domain, f, name)
        if f is not None:
            raise DataError("only an approximator can be drawn beside a function; this model is a memorizer")
        return plot_memory(self, token)

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows of the model."""
        card = self.card
        labels = "real numbers" if card.classes is None else plural(len(card.classes), "class")
        order = "causal" if card.causal else "permutation equivariant" if self.positions is None else "with positions"
        grid, what = card.grid, "step" if self.feed_forward.stairs else "neuron"
        return [
            ("kind", card.kind),
            ("tokens", "vectors" if card.vocabulary is None else plural(len(card.vocabulary), "id")),
            ("labels", f"{labels} per {card.per}"),
            ("order", order),
            *(
                []
                if grid is None
                else [("cells", f"{grid.cells:,} per coordinate, {plural(grid.length, 'token')} per sequence")]
            ),
            ("readout", f"{self.feed_forward.readout}, {plural(self.feed_forward.step_count, what)}"),
            ("parameters", number(sum(each.numel() for each in self.parameters()))),
            *([] if card.fingerprint is None else [("unknown input", str(card.fingerprint))]),
            ("dtype", str(self.bos.dtype).removeprefix("torch.")),
        ]

    _repr_html_ = as_html

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        card = self.card
        tokens = "vectors" if card.vocabulary is None else plural(len(card.vocabulary), "token id")
        labels = "real labels" if card.classes is None else plural(len(card.classes), "class")
        kind = " causal," if card.causal else ""
        if card.grid is not None:
            cells, length = plural(card.grid.cells, "cell"), plural(card.grid.length, "token")
            kind = f" {cells} per coordinate, {length} per sequence,"
        return f"{tokens},{kind} {labels} per {card.per}, {sum(p.numel() for p in self.parameters()):,} parameters"


def _numpy(value: Tensor) -> Array:
    array: Array = (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()  # NumPy lacks it
    return array
