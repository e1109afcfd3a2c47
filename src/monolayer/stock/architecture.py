"""What an architecture has to say: its names for the same matrices, and its own words in `config.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.errors import DataError, nearest
from monolayer.stock.gates import Neurons
from monolayer.stock.norms import EPSILON

Task = Literal["token", "sequence", "lm"]
Tensors = dict[str, Floats]


@dataclass(frozen=True, eq=False)
class Attention:
    """`W_Q`, `W_K`, `W_V`, `W_O` `(D, D)`, `b_Q` and `b_K` `(D,)`; other biases are 0."""

    W_Q: Floats
    b_Q: Floats  # noqa: N815
    W_K: Floats
    b_K: Floats  # noqa: N815
    W_V: Floats
    W_O: Floats
    theta: float | None = None
    """Base of rotary angles, where they are to turn the logits; None: they shall do nothing."""


@dataclass(frozen=True, eq=False)
class Frame:
    """All that every architecture needs: the stream, attention, neurons and head; sizes and special tokens."""

    task: Task
    tokens: Floats
    """The embedding of tokens `(V, D)`, and of places `(L, D)`, None without positions."""
    places: Floats | None
    label: Ints
    """Columns of the label."""
    epsilon: float
    attention: Attention
    neurons: Neurons
    head: Floats
    activation: str
    positions: int
    """Places that the model takes."""
    special: Mapping[str, int]
    classes: tuple[str, ...]
    offset: int = 0
    """Rows of the position table in front of the first place."""
    hidden_rows: int = 0
    """Rows that the position table has beyond what `config.json` says."""

    @property
    def width(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def room(self) -> int:
        """Tokens that a sequence may have, the begin token among them."""
        return self.positions + self.hidden_rows - self.offset

    def place_table(self) -> Floats:
        """Places behind `offset` rows of zeros; zeros throughout without positions."""
        table = np.zeros((self.positions + self.hidden_rows, self.width))
        if self.places is not None:
            table[self.offset : self.offset + len(self.places)] = self.places
        return table

    def linear(self, name: str, weight: Floats, bias: Floats | None = None) -> Tensors:
        """A `nn.Linear` by name, `weight` `(out, in)`."""
        return {f"{name}.weight": weight, f"{name}.bias": np.zeros(len(weight)) if bias is None else bias}

    def head_as(self, token_head: str) -> Tensors:
        """The head of a causal model: only the one for labels of tokens has a bias, and a name of its own."""
        if self.task == "token":
            return self.linear(token_head, self.head)
        return {"lm_head.weight" if self.task == "lm" else "score.weight": self.head}

    def norm(self, name: str) -> Tensors:
        """A LayerNorm that adds nothing of its own."""
        return {f"{name}.weight": np.ones(self.width), f"{name}.bias": np.zeros(self.width)}

    def labels(self) -> dict[str, Any]:
        """`id2label` and back; nothing for a language model, whose classes are its tokens."""
        if self.task == "lm":
            return {}
        names = {str(number): name for number, name in enumerate(self.classes)}
        return {"id2label": names, "label2id": {name: int(number) for number, name in names.items()}}


@dataclass(frozen=True)
class Architecture:
    """A stock architecture. `models`: its class for each task; `config`, `tensors`: a frame in its own words."""

    name: str
    models: Mapping[Task, str]
    causal: bool
    post_norm: bool
    own_activation: str
    config: Callable[[Frame], dict[str, Any]]
    tensors: Callable[[Frame], Tensors]
    block: tuple[str, str]
    """Names of the two matrices of its feed-forward block."""
    epsilon: float = EPSILON
    """ε of its norms, where it is not one that `config.json` may set."""
    offset: int = 0
    hidden_rows: int = 0
    places: bool = True
    """Whether it has a table of positions."""
    slot: Callable[[int], int] = lambda width: 0
    """The coordinate of the head that carries the key; rotary positions leave few of them alone."""
    attention: tuple[str, ...] = ("eager", "sdpa")
    """Attention that computes in float64 throughout."""
    activation: str = "relu6"
    """The activation that a folder has where none is asked for."""
    short: bool = False
    """Whether a part of it computes in float32 whatever the weights are, so that only a robust model fits."""
    turned: bool = False
    """Whether matrices are stored as `(in, out)`."""

    def neurons(self, tensors: Mapping[str, Floats]) -> Neurons:
        """The feed-forward block, read back from its tensors."""
        first, second = (tensors[f"{name}.weight"] for name in self.block)
        W_1, W_2 = (first.T, second) if self.turned else (first, second.T)
        return Neurons(W_1, tensors[f"{self.block[0]}.bias"], W_2, len(W_1))


def choose(name: str, known: Mapping[str, Architecture]) -> Architecture:
    """The architecture of this name, or an error with the nearest name."""
    if isinstance(name, str) and name in known:  # what is no string may have no hash
        return known[name]
    near = nearest(str(name).lower().replace("-", "_"), known)
    hint = f"did you mean {near[0]!r}? Known" if near else "known"
    raise DataError(f"architecture {name!r} is not known: {hint} are {', '.join(known)}")
