"""What the parts of a network are called in its file, and which coordinates of the stream they read and write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from monolayer.arrays import Bools, Floats
from monolayer.checker.labelled import Labelled
from monolayer.checker.locating.line import read_steps
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.places import Places
from monolayer.checker.stored import CODE, LABEL, Stored


@dataclass(frozen=True, order=True)
class Neuron:
    """A hidden neuron: slice `index` along `axis` of `tensor`, the matrix that it writes with.

    Setting that slice to 0, and setting to 0 what the neuron returns in a forward pass, is the same ablation.
    """

    tensor: str
    index: int
    axis: int

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join([':'] * self.axis + [str(self.index)])}]"


@dataclass(frozen=True, order=True)
class Row:
    """A row of a table of embeddings; without an index, a vector as a whole."""

    tensor: str
    index: int | None = None

    def __str__(self) -> str:
        return self.tensor if self.index is None else f"{self.tensor}[{self.index}]"


@dataclass(frozen=True, eq=False)
class Block:
    """The neurons of one feed-forward block: `tensor` and `axis` as in `Neuron`; `reads`, `writes` `(H, D)`."""

    tensor: str
    axis: int
    reads: Floats
    writes: Floats


@dataclass(frozen=True, eq=False)
class Anatomy:
    """Blocks of neurons, numbered one after the other; coordinates `(D,)` that tables, attention and head use.

    `rows` of a fact; `scores`: which of query, key and value depend on the stream; `constant`: whether the bias of a
    block writes anything.
    """

    blocks: tuple[Block, ...]
    rows: Callable[[int], tuple[Row, ...]]
    embeds: Bools
    attends: Bools
    head: Bools
    scores: dict[str, bool]
    constant: bool

    @property
    def width(self) -> int:
        return len(self.embeds)

    def neuron(self, number: int) -> Neuron:
        """By its number among those of all blocks."""
        for block in self.blocks:
            if number < len(block.writes):
                return Neuron(block.tensor, number, block.axis)
            number -= len(block.writes)
        raise IndexError(number)

    def number(self, neuron: Neuron) -> int:
        """The other way."""
        first = 0
        for block in self.blocks:
            if block.tensor == neuron.tensor:
                if not 0 <= neuron.index < len(block.writes):
                    break
                return first + neuron.index
            first += len(block.writes)
        raise KeyError(neuron)

    @cached_property
    def reads(self) -> Floats:
        """Of all neurons `(H, D)`."""
        return np.concatenate([block.reads for block in self.blocks])

    @cached_property
    def writes(self) -> Floats:
        return np.concatenate([block.writes for block in self.blocks])


def own_anatomy(stored: Stored, points: Labelled) -> Anatomy:
    """Of a model of monolayer."""
    D = int(stored.config["width"])
    if stored.config["readout"] == "gates":
        weight_1, weight_2 = (stored[f"feed_forward.weight_{n}"].astype(np.float64) for n in (1, 2))
        reads, writes = np.zeros((2, len(weight_1), D))
        reads[:, : weight_1.shape[1]], writes[:, D - len(weight_2) :] = weight_1, weight_2.T
        blocks = [Block("feed_forward.weight_2", 1, reads, writes)]
    else:
        blocks = [_stage(stored, number, D) for number in range(stored.stages)]
    table = [stored[name] for name in ("lift.weight", "positions.weight") if name in stored.tensors]
    vectors = stored.config["tokens"] == "vectors"
    if vectors:
        table[0] = table[0].T
    embeds = np.any([np.nan_to_num(part).any(axis=0) for part in table], axis=0) | (stored["bos"] != 0)
    if vectors:
        embeds |= stored["lift.bias"] != 0

    biases = [block.tensor.replace("weight", "bias") for block in blocks]
    constant = tuple(Row(bias) for bias in biases if stored[bias].any())

    def rows(fact: int) -> tuple[Row, ...]:
        place = int(fact if points.places is None else points.places[fact])
        if not points.per_token:
            return (Row("bos"), *constant)
        token = Row("lift.weight", None if points.rows is None else int(points.rows[place]))
        position = int(points.data.position[place])
        return (token, *((Row("positions.weight", position),) if stored.config["positions"] else ()), *constant)

    letters = {letter: bool(stored[f"attention.W_{letter.upper()}"].any()) for letter in "qkv"}
    attends = (stored["attention.W_O"] != 0).any(axis=1)
    return Anatomy(
        tuple(blocks), rows, embeds, attends, (stored["head.weight"] != 0).any(axis=0), letters, bool(constant)
    )


def _stage(stored: Stored, number: int, width: int) -> Block:
    """A stage of a line: one coordinate is read, a label and maybe the number of a stretch are written."""
    steps, labels = read_steps(stored)[number], int(stored.config["labels"])
    name = f"feed_forward.stages.{number}" if stored.config["readout"] == "cascade" else "feed_forward"
    reads, writes = np.zeros((2, steps.neurons, width))
    reads[:, CODE if number == 0 else stored.value(number + 1) + 1] = steps.weight_1 if steps.form != "runs" else 1.0
    writes[:, LABEL : LABEL + labels] = steps.weight_2[:labels].T
    if len(steps.weight_2) > labels:
        writes[:, stored.value(number + 2) + 1] = steps.weight_2[labels]
    return Block(f"{name}.weight_2", 1, reads, writes)


def stock_anatomy(net: Network, places: Places) -> Anatomy:
    """Of a Hugging Face folder."""
    kind, names = net.architecture, net.architecture.names(net.task)
    block = Block(names["W_2"], int(not kind.transposed), net.W_1, net.W_2)

    def rows(fact: int) -> tuple[Row, ...]:
        token = Row(names["tokens"], int(places.token[fact]))
        return (
            (token, Row(names["places"], net.offset + int(places.place[fact]))) if net.places is not None else (token,)
        )

    tables = [net.tokens, *(() if net.places is None else (net.places,))]
    read = net.head if net.W_P is None else net.head @ net.W_P
    return Anatomy(
        (block,),
        rows,
        (np.concatenate(tables) != 0).any(axis=0),
        (net.attention["W_O"] != 0).any(axis=1),
        (read != 0).any(axis=0),
        {letter: bool(net.attention[f"W_{letter.upper()}"].any()) for letter in "qkv"},
        bool(net.b_2.any()),
    )
