"""An architecture with one layer: what its classes need, and its tensors as arrays that are named by letters.

Arrays have the same letters in every architecture. Sizes are `V` tokens, `L` places, width `D`, `H` neurons and `C`
classes:

    tokens, places, types                       tables of embeddings
    W_Q b_Q  W_K b_K  W_V b_V  W_O b_O          attention
    W_1 b_1  W_2 b_2  W_3 b_3                   neurons: what they read, what they write, what multiplies them (Llama)
    scale_1 shift_1  …  scale_3 shift_3         norms, in the order of evaluation
    W_P b_P  W_H b_H                            pooler and head
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from monolayer.arrays import Floats
from monolayer.huggingface.architecture import (
    DECODER,
    ENCODER,
    TASK_LABELLINGS,
    TYPES,
    Architecture,
    ModelSetting,
    ModelTask,
    Setting,
)

ARRAY_SHAPES = {"tokens": "VD", "places": "LD", "types": "TD"}
ARRAY_SHAPES |= {**dict.fromkeys(("W_Q", "W_K", "W_V", "W_O", "W_P"), "DD"), "W_H": "CD"}
ARRAY_SHAPES |= dict.fromkeys(("W_1", "W_2", "W_3"), "HD")
ARRAY_SHAPES |= {f"b_{letter}": shape for letter, shape in zip("QKVO123PH", "DDDDHDHDC", strict=True)}
ARRAY_SHAPES |= {f"{part}_{number}": "D" for number in (1, 2, 3) for part in ("scale", "shift")}
"""The shape of every array, with one letter per axis; `T` is the number of token types."""
HEADS_WITHOUT_BIAS: frozenset[ModelTask] = frozenset({"sequence", "lm"})
"""The tasks for which the heads of decoders have no bias."""


@dataclass(frozen=True)
class StockKind:
    """What one architecture is with one layer, as `memorize_as` builds it: its heads, and how it computes."""

    architecture: Architecture
    heads: Mapping[ModelTask, str]
    """The name of the head for each task that the architecture has a class for."""
    activation: str = "relu6"
    pooler: str | None = None
    """The layer before the head if labels belong to sequences; None if there is no such layer."""
    pool: Literal["tanh", "relu"] = "tanh"
    """The activation after the pooler: each way of evaluation has a table of these."""
    epsilon: float = 2.0**-17
    """ε of the norms. The default, for architectures whose `config.json` may set it, is near the 1e-5 of GPT-2, and is
    a float32 number, since ONNX stores it in float32."""
    offset: int = 0
    """How many rows the table of places has before the row of the first place."""
    hidden_rows: int = 0
    """How many more rows the table of places has than `config.json` says."""
    still: Callable[[int], tuple[int, tuple[float, int]]] | None = None
    """How to choose rotary positions that have no effect in a head of a given width; None without rotary positions.

    Returns the coordinate that carries the key, and then the base of the angles with the number of rotated coordinates.
    The coordinate of the key is not rotated, or so slowly that its cosine is 1."""
    counts_padding: bool = False
    """Whether padding on the left takes places unless the caller gives `position_ids`."""
    eager: bool = False
    """Whether eager attention computes in float64 throughout. (sdpa does so in every architecture.)"""

    @property
    def pool_keeps_scale(self) -> bool:
        """Whether a positive factor passes through the activation after the pooler, as through ReLU."""
        return self.pool == "relu"

    @property
    def name(self) -> str:
        """The name of the architecture."""
        return self.architecture.name

    @property
    def causal(self) -> bool:
        """Whether a token sees only itself and the tokens before it."""
        return self.architecture.causal

    @property
    def transposed(self) -> bool:
        """Whether matrices are stored as `(in, out)`."""
        return self.architecture.transposed

    @property
    def rms(self) -> bool:
        """Whether norms subtract no mean, have no bias, and compute in float32 whatever type the weights have."""
        return self.architecture.rms

    @property
    def settings(self) -> Mapping[str, Setting]:
        """The keys of `config.json`, with their values, that not all architectures have."""
        return self.architecture.settings

    @property
    def models(self) -> dict[ModelTask, str]:
        """The name of the transformers class for each task."""
        return {task: self.architecture.class_for(task) for task in self.heads}

    @property
    def generates(self) -> bool:
        """Whether the architecture has a class that generates text."""
        return any(TASK_LABELLINGS[task].generates for task in self.heads)

    @property
    def post_norm(self) -> bool:
        """Whether the stream continues with the output of a norm (encoders) rather than with its input (decoders)."""
        return not self.causal

    @property
    def special(self) -> Mapping[str, str]:
        """The special tokens by their roles (`pad`, `unk`, …), in the order of their ids."""
        return DECODER if self.causal else ENCODER

    @property
    def has_places(self) -> bool:
        """Whether the architecture has a table of positions."""
        return "places" in self.architecture.tables

    @property
    def rotates_a_share(self) -> bool:
        """Whether `config.json` says which share of the coordinates is rotated; otherwise all are."""
        return self.architecture.key_of(ModelSetting.TURNED) is not None

    @property
    def tables(self) -> dict[str, str]:
        """The tensors of the embedding tables, by `tokens`, `places` and `types`."""
        return {key: f"{self.architecture.root}{table}.weight" for key, table in self.architecture.tables.items()}

    @property
    def layers(self) -> dict[str, str]:
        """The full names of the linear layers by their letters."""
        return {letter: self._block + name for letter, name in self.architecture.layers.items()}

    @property
    def norms(self) -> tuple[str, ...]:
        """The full names of the three norms, in the order of evaluation."""
        inner = tuple(self._block + norm for norm in self.architecture.norms)
        outer = self.architecture.root + self.architecture.outer_norm
        return (outer, *inner) if self.post_norm else (*inner, outer)

    @property
    def _block(self) -> str:
        """The prefix of the names of the tensors of the one block."""
        return f"{self.architecture.root}{self.architecture.blocks}.0."

    def names(self, task: ModelTask) -> dict[str, str]:
        """The name of the tensor that holds each array, in a model for this task."""
        names_by_letter = dict(self.tables)
        pooler = {"P": self.pooler} if self.pooler and not TASK_LABELLINGS[task].at_tokens else {}
        for letter, name in {**self.layers, **pooler, "H": self.heads[task]}.items():
            names_by_letter |= {f"W_{letter}": f"{name}.weight", f"b_{letter}": f"{name}.bias"}
        if task in HEADS_WITHOUT_BIAS and self.causal:
            del names_by_letter["b_H"]
        for number, name in enumerate(self.norms, start=1):
            names_by_letter[f"scale_{number}"] = f"{name}.weight"
            if not self.rms:
                names_by_letter[f"shift_{number}"] = f"{name}.bias"
        return names_by_letter

    def tensors(self, task: ModelTask, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
        """The tensors of a model for this task, by their names, from arrays by their letters.

        Arrays that are left out are filled with 0, except scales and `b_3`, which are filled with 1.
        """
        sizes = {"T": TYPES, "D": arrays["tokens"].shape[1], "H": len(arrays["W_1"]), "C": len(arrays["W_H"])}

        def part(letter: str) -> Floats:
            """The array of this letter, or the constant that it is filled with."""
            if letter in arrays:
                return arrays[letter]
            one = letter.startswith("scale") or letter == "b_3"
            return np.full([sizes[size] for size in ARRAY_SHAPES[letter]], float(one))

        named = {}
        for name, letters in self._stored(task).items():
            whole = part(letters[0]) if len(letters) == 1 else np.concatenate([part(letter) for letter in letters])
            named[name] = whole.T if self._turned(letters[0]) else whole
        return named

    def arrays(self, task: ModelTask, tensors: Mapping[str, Floats]) -> dict[str, Floats]:
        """The arrays by their letters, from the tensors of a model for this task: the inverse of `tensors`.

        A `KeyError` names a missing tensor, and a `ValueError` an unknown one or one of a wrong shape.
        """
        rest, by_letter = dict(tensors), dict[str, Floats]()
        for name, letters in self._stored(task).items():
            whole = rest.pop(name)
            parts = np.split(whole.T if self._turned(letters[0]) else whole, len(letters))
            by_letter |= dict(zip(letters, parts, strict=True))
        if rest:
            raise ValueError(f"tensors unknown to {self.name}: {', '.join(sorted(rest)[:3])}")
        sizes = {size: len(by_letter[name]) for size, name in (("V", "tokens"), ("H", "W_1"), ("C", "W_H"))}
        sizes |= {
            "T": TYPES,
            "D": by_letter["tokens"].shape[1],
            "L": max(len(by_letter.get("places", ())), self.offset + 1),
        }
        for letter, array in by_letter.items():
            shape = tuple(sizes[size] for size in ARRAY_SHAPES[letter])
            if array.shape != shape:
                raise ValueError(f"{letter} has shape {array.shape} where the others say {shape}")
        return by_letter

    def _stored(self, task: ModelTask) -> dict[str, list[str]]:
        """The letters of the arrays that each tensor holds, by the name of the tensor."""
        stored_as: dict[str, list[str]] = {}
        for letter, name in self.names(task).items():
            stored_as.setdefault(name, []).append(letter)
        return stored_as

    def _turned(self, letter: str) -> bool:
        """Whether the tensor is the transpose of the array. Arrays have one row per neuron, also in `W_2`."""
        if letter[:2] != "W_" or letter[2] in "PH":
            return False
        return self.transposed != (letter == "W_2")
