"""Where an architecture puts the parts of a model: found by following numbers through its own words.

`kind.tensors(frame)` names, turns and joins matrices without changing a number. So what stands where is seen by giving
it frames of marked numbers, and no list of names has to be kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from monolayer.data.distinct import distinct_rows
from monolayer.data.names import Ints
from monolayer.errors import DataError
from monolayer.stock.architecture import Architecture, Attention, Frame, Task
from monolayer.stock.codes import Floats
from monolayer.stock.gates import Neurons
from monolayer.stock.tokenizer import DECODER, ENCODER


def blank(
    kind: Architecture, task: Task, rows: int, classes: tuple[str, ...], width: int, activation: str, places: int
) -> Frame:
    """A frame of zeros with `rows` ids and one neuron."""
    zero = np.zeros((width, width))
    return Frame(
        task=task,
        tokens=np.zeros((rows, width)),
        places=None,
        label=np.zeros(0, np.int64),
        epsilon=kind.epsilon,
        attention=Attention(zero, zero[0], zero, zero[0], zero, zero),
        neurons=no_neurons(width, 1),
        head=np.zeros((len(classes), width)),
        activation=activation,
        positions=places,
        special={name: number for number, name in enumerate(DECODER if kind.causal else ENCODER)},
        classes=classes,
        offset=kind.offset,
        hidden_rows=kind.hidden_rows,
    )


def no_neurons(width: int, count: int = 0) -> Neurons:
    """A block of neurons that never fire."""
    return Neurons(np.zeros((count, width)), np.zeros(count), np.zeros((count, width)), 0)


def neuron_axes(kind: Architecture, frame: Frame) -> Iterator[tuple[str, int]]:
    """Tensors that hold neurons, with the axis along which one more neuron makes them longer."""
    one, two = (kind.tensors(replace(frame, neurons=no_neurons(frame.width, count))) for count in (1, 2))
    for name, part in one.items():
        for axis, (few, many) in enumerate(zip(part.shape, two[name].shape, strict=True)):
            if few != many:
                yield name, axis


def size_keys(kind: Architecture, frame: Frame) -> list[str]:
    """Keys of `config.json` that count neurons."""
    one, two = (kind.config(replace(frame, neurons=no_neurons(frame.width, count))) for count in (1, 2))
    return [key for key, value in one.items() if value != two[key]]


def embedding(kind: Architecture, frame: Frame) -> str:
    """The tensor of the tokens."""
    return next(name for name, part in kind.tensors(frame).items() if part is frame.tokens)


def block_matrix(kind: Architecture, frame: Frame, letter: Literal["W_1", "W_2"]) -> str:
    """The tensor of `W_1` or of `W_2`."""
    still, ones = no_neurons(frame.width, 1), np.ones((1, frame.width))
    loud = replace(still, W_1=ones) if letter == "W_1" else replace(still, W_2=ones)
    before, after = (kind.tensors(replace(frame, neurons=block)) for block in (still, loud))
    return next(name for name, part in after.items() if not np.array_equal(part, before[name]))


def attention(kind: Architecture, frame: Frame, tensors: Mapping[str, Tensor], letter: str) -> Floats:
    """`W_V`, `W_O` `(D, D)` or `b_Q` `(D,)` of attention, read from `tensors`; `frame` is blank."""
    shape = getattr(frame.attention, letter).shape
    size = int(np.prod(shape))
    marks: dict[str, Any] = {letter: np.arange(1.0, size + 1.0).reshape(shape)}
    new = replace(frame.attention, **marks)
    found, plain = np.zeros(size), kind.tensors(frame)
    for name, part in kind.tensors(replace(frame, attention=new)).items():
        there = part != plain[name]
        if there.any():
            check_shape(tensors, name, part)
            found[part[there].astype(np.int64) - 1] = tensors[name].double().numpy()[there]
    return found.reshape(shape)


def places(kind: Architecture, frame: Frame, tensors: Mapping[str, Tensor]) -> Floats | None:
    """Embeddings of the places `(L, D)`, read from `tensors`; None where there is no table, or nothing in it."""
    some = np.ones((frame.positions + frame.hidden_rows - frame.offset, frame.width))
    plain = kind.tensors(frame)
    for name, part in kind.tensors(replace(frame, places=some)).items():
        if not np.array_equal(part, plain[name]):
            check_shape(tensors, name, part)
            table: Floats = tensors[name].double().numpy()[frame.offset :]
            return table if table.any() else None
    return None


def spelled(rows: Floats, words: Floats) -> Ints:
    """The number of the word that the signs of each row spell; −1: none."""
    _, group = distinct_rows(np.sign(np.concatenate([words, rows])))
    number = np.full(group.max() + 1, -1)
    number[group[: len(words)]] = np.arange(len(words))
    found: Ints = number[group[len(words) :]]
    return found


def check_shape(tensors: Mapping[str, Tensor], name: str, part: Floats) -> None:
    if name not in tensors or tuple(tensors[name].shape) != part.shape:
        raise DataError(f"{name} is missing, or has another shape than config.json says")
