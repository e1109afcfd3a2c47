"""Describe one stock architecture, and convert between its tensors and arrays that are named by letters.

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
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np

from monolayer.arrays import Floats

ModelTask = Literal["token", "sequence", "lm"]
CLASS_SUFFIXES: dict[ModelTask, str] = {"token": "ForTokenClassification", "sequence": "ForSequenceClassification"}
CLASS_SUFFIXES["lm"] = "ForCausalLM"
ARRAY_SHAPES = {"tokens": "VD", "places": "LD", "types": "TD"}
ARRAY_SHAPES |= {**dict.fromkeys(("W_Q", "W_K", "W_V", "W_O", "W_P"), "DD"), "W_H": "CD"}
ARRAY_SHAPES |= dict.fromkeys(("W_1", "W_2", "W_3"), "HD")
ARRAY_SHAPES |= {f"b_{letter}": shape for letter, shape in zip("QKVO123PH", "DDDDHDHDC", strict=True)}
ARRAY_SHAPES |= {f"{part}_{number}": "D" for number in (1, 2, 3) for part in ("scale", "shift")}
"""The shape of every array, with one letter per axis; `T` is the number of token types."""
TYPES = 2
PAD, UNKNOWN, BEGIN, END = range(4)
ENCODER = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
DECODER = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
"""The special tokens of encoders, which see both ways, and of decoders, which see only what came before.

They are in the order of their ids."""


class ModelSetting(Enum):
    """A setting of `config.json` that depends on the model. Its value names the attribute of `FolderFacts` with it."""

    WIDTH = "width"
    NEURONS = "neurons"
    PLACES = "max_positions"
    ACTIVATION = "activation"
    EPSILON = "epsilon"
    THETA = "theta"
    TURNED = "turned"


Setting: TypeAlias = "ModelSetting | str | float | Mapping[str, Setting] | None"
"""A value in `config.json` that is fixed for an architecture, or a `ModelSetting` that depends on the model."""


@dataclass(frozen=True)
class Architecture:
    """What is particular to one architecture: the names of its tensors, its settings, and how it computes."""

    name: str
    word: str
    """The word that the names of its classes begin with."""
    tables: Mapping[str, str]
    """The tensors of the embedding tables, by `tokens`, `places` and `types`."""
    layers: Mapping[str, str]
    """The names of linear layers by their letters. If query, key and value are one tensor, they share its name."""
    norms: tuple[str, ...]
    """The names of the three norms, in the order of evaluation."""
    heads: Mapping[ModelTask, str]
    """The name of the head for each task that the architecture has a class for."""
    settings: Mapping[str, Setting]
    """The keys of `config.json`, with their values, that not all architectures have."""
    activation: str = "relu6"
    causal: bool = True
    transposed: bool = False
    """Whether matrices are stored as `(in, out)`."""
    pooler: str | None = None
    """The layer before the head if labels belong to sequences; None if there is no such layer."""
    pool: Literal["tanh", "relu"] = "tanh"
    """The activation after the pooler."""
    rms: bool = False
    """Whether norms subtract no mean, have no bias, and compute in float32 whatever type the weights have."""
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
    eager: bool = False
    """Whether eager attention computes in float64 throughout. (sdpa does so in every architecture.)"""

    def __post_init__(self) -> None:
        letters = "".join(self.layers)
        if letters not in ("QKVO12", "QKVO123") or "tokens" not in self.tables or len(self.norms) != 3:
            raise ValueError(f"{self.name}: the table lacks a layer, a norm or the embedding of tokens")

    @property
    def models(self) -> dict[ModelTask, str]:
        """The name of the transformers class for each task."""
        known = {task: self.word + CLASS_SUFFIXES[task] for task in self.heads}
        return known | {"lm": "GPT2LMHeadModel"} if self.name == "gpt2" else known

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
        return "places" in self.tables

    def names(self, task: ModelTask) -> dict[str, str]:
        """The name of the tensor that holds each array, in a model for this task."""
        found = dict(self.tables)
        pooler = {"P": self.pooler} if self.pooler and task == "sequence" else {}
        for letter, name in {**self.layers, **pooler, "H": self.heads[task]}.items():
            found |= {f"W_{letter}": f"{name}.weight", f"b_{letter}": f"{name}.bias"}
        if self.causal and task != "token":  # such heads have no bias
            del found["b_H"]
        for number, name in enumerate(self.norms, start=1):
            found[f"scale_{number}"] = f"{name}.weight"
            if not self.rms:
                found[f"shift_{number}"] = f"{name}.bias"
        return found

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

        found = {}
        for name, letters in self._stored(task).items():
            whole = part(letters[0]) if len(letters) == 1 else np.concatenate([part(letter) for letter in letters])
            found[name] = whole.T if self._turned(letters[0]) else whole
        return found

    def arrays(self, task: ModelTask, tensors: Mapping[str, Floats]) -> dict[str, Floats]:
        """The arrays by their letters, from the tensors of a model for this task: the inverse of `tensors`.

        A `KeyError` names a missing tensor, and a `ValueError` an unknown one or one of a wrong shape.
        """
        rest, found = dict(tensors), dict[str, Floats]()
        for name, letters in self._stored(task).items():
            whole = rest.pop(name)
            parts = np.split(whole.T if self._turned(letters[0]) else whole, len(letters))
            found |= dict(zip(letters, parts, strict=True))
        if rest:
            raise ValueError(f"tensors unknown to {self.name}: {', '.join(sorted(rest)[:3])}")
        sizes = {size: len(found[name]) for size, name in (("V", "tokens"), ("H", "W_1"), ("C", "W_H"))}
        sizes |= {"T": TYPES, "D": found["tokens"].shape[1], "L": max(len(found.get("places", ())), self.offset + 1)}
        for letter, array in found.items():
            shape = tuple(sizes[size] for size in ARRAY_SHAPES[letter])
            if array.shape != shape:
                raise ValueError(f"{letter} has shape {array.shape} where the others say {shape}")
        return found

    def _stored(self, task: ModelTask) -> dict[str, list[str]]:
        """The letters of the arrays that each tensor holds, by the name of the tensor."""
        found: dict[str, list[str]] = {}
        for letter, name in self.names(task).items():
            found.setdefault(name, []).append(letter)
        return found

    def _turned(self, letter: str) -> bool:
        """Whether the tensor is the transpose of the array. Arrays have one row per neuron, also in `W_2`."""
        if letter[:2] != "W_" or letter[2] in "PH":
            return False
        return self.transposed != (letter == "W_2")
