"""A stock model as one ONNX graph, for onnxruntime and transformers.js: the network of `answers.py`, node by node.

Norms are written out, since ONNX stores the ε of its own in float32. Weights of steps stay in float64, all others are
float32; logits leave in float32. Places are counted by the attention mask, so padding may stand on either side. A
language model has the inputs and outputs of a cache, `past_key_values.0.key` and `present.0.key`, `(B, 1, n, D)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import ModuleType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer.huggingface.files import FolderFacts
from monolayer.model.chain import LARGEST, import_onnx, onnx_file

_LAST = np.array([np.iinfo(np.int64).max])
Real: TypeAlias = type[np.float64] | type[np.float32]
Input: TypeAlias = str | ArrayLike
"""The name of a node, or a constant."""
POOLS = {"tanh": "Tanh", "relu": "Relu"}
"""The nodes of the activations after a pooler."""


class _Nodes:
    """Nodes in the order of evaluation, and constants; floating ones get the type `real`."""

    def __init__(self, onnx: ModuleType, real: Real) -> None:
        self.onnx, self.real = onnx, real
        self.nodes: list[object] = []
        self.constants: list[object] = []

    def __call__(self, op: str, *inputs: Input, name: str | None = None, **attributes: object) -> str:
        """Add a node, and return the name of its output: `name`, or one with a number.

        `inputs`: names of outputs of other nodes, or constants.
        """
        names = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        output = name or f"{op}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(op, names, [output], **attributes))
        return output

    def _constant(self, value: ArrayLike) -> str:
        array = np.asarray(value)
        array = np.ascontiguousarray(array, dtype=self.real if array.dtype.kind == "f" else None).reshape(array.shape)
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name


def onnx_model(facts: FolderFacts, arrays: Mapping[str, Floats]) -> bytes:
    """The bytes of the ONNX file; `arrays` by their letters (`huggingface/architecture.py`)."""
    onnx = import_onnx()
    real: Real = np.float64 if facts.format.long else np.float32
    size = real(0).itemsize * sum(array.size for array in arrays.values())
    if size > LARGEST:
        raise DataError(
            f"the weights take {size:,} bytes, and an ONNX file ends at {LARGEST:,}: leave the ONNX file out, or "
            "memorize less data per folder"
        )
    node = _Nodes(onnx, real)
    network = _Network(node, facts, arrays)
    network.add()

    def value(name: str, kind: DTypeLike, *shape: str | int) -> object:
        return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)

    B, n, past, D = "batch_size", "sequence_length", "past_sequence_length", facts.width
    inputs = [value("input_ids", np.int64, B, n), value("attention_mask", np.int64, B, "total_sequence_length")]
    inputs += [value(f"past_key_values.0.{name}", real, B, 1, past, D) for name in network.cached]
    places = (n,) if facts.labelling.at_tokens else ()
    outputs = [value("logits", np.float32, B, *places, len(facts.classes))]
    outputs += [value(f"present.0.{name}", real, B, 1, "total_sequence_length", D) for name in network.cached]
    return onnx_file(node.nodes, facts.architecture.models[facts.task], inputs, outputs, node.constants)


class _Network:
    """The nodes of a stock network, in the order of evaluation."""

    def __init__(self, node: _Nodes, facts: FolderFacts, arrays: Mapping[str, Floats]) -> None:
        self.node, self.facts, self.arrays, self.kind = node, facts, arrays, facts.architecture
        self.cached = ("key", "value") if facts.labelling.generates else ()
        """The parts of a cache that the network reads and writes."""
        self.tokens_in_all, self.tokens_given = (
            node("Gather", node("Shape", name), np.array([1])) for name in ("attention_mask", "input_ids")
        )

    def add(self) -> None:
        """Add all nodes, up to `logits`."""
        node = self.node
        x, place = self.embedded()
        here = self.norm(node("Add", x, self.arrays["types"][0]) if "types" in self.arrays else x, 1)
        x = here if self.kind.post_norm else x
        averages, positions = self.averages(here, place)
        x = node("Add", x, self.linear(node("Squeeze", averages, np.array([1])), "O"))
        x = self.answering(x, positions)
        here = self.norm(x, 2)
        x = here if self.kind.post_norm else x
        x = self.norm(node("Add", x, self.fed_forward(here)), 3)
        if "W_P" in self.arrays:
            x = node(POOLS[self.kind.pool], self.linear(x, "P"))
        node("Cast", self.linear(x, "H"), to=node.onnx.TensorProto.FLOAT, name="logits")

    def embedded(self) -> tuple[str, str]:
        """The stream before the block, and the place of every token, counted by the mask."""
        node = self.node
        x = node("Gather", self.arrays["tokens"], "input_ids")
        counted = node("Sub", node("CumSum", "attention_mask", np.array(1)), np.array(1))
        place = self.newest(node("Max", counted, np.array(0)), 1)
        if self.kind.has_places:
            x = node("Add", x, node("Gather", self.arrays["places"][self.kind.offset :], place))
        return x, place

    def averages(self, x: str, place: str) -> tuple[str, str]:
        """The averages that the head computes, and the number of every token, those in the cache included."""
        node, facts = self.node, self.facts
        q, k, v = (node("Unsqueeze", self.linear(x, letter), np.array([1])) for letter in "QKV")
        if facts.rotary is not None:
            q, k = _rotated(node, facts, place, q, k)
        if self.cached:
            k = node("Concat", "past_key_values.0.key", k, axis=2, name="present.0.key")
            v = node("Concat", "past_key_values.0.value", v, axis=2, name="present.0.value")
        scores = node("Div", node("MatMul", q, node("Transpose", k, perm=[0, 1, 3, 2])), facts.width**0.5)
        seen = node("Unsqueeze", node("Cast", "attention_mask", to=node.onnx.TensorProto.BOOL), np.array([1, 2]))
        number = node("Range", np.array(0), node("Squeeze", self.tokens_in_all), np.array(1))
        if self.kind.causal:
            before = node("LessOrEqual", number, node("Unsqueeze", self.newest(number, 0), np.array([1])))
            seen = node("And", seen, before)
        scores = node("Where", seen, scores, float(np.finfo(node.real).min))
        return node("MatMul", node("Softmax", scores, axis=-1), v), number

    def answering(self, x: str, number: str) -> str:
        """The tokens that answer: all of them, the first, or the last that is not padding."""
        node = self.node
        if self.facts.labelling.at_tokens:
            return x
        if not self.kind.causal:
            return node("Gather", x, np.array(0), axis=1)
        end = node("ReduceMax", node("Mul", "attention_mask", number), axes=[1], keepdims=1)
        return node("GatherND", x, end, batch_dims=1)

    def fed_forward(self, x: str) -> str:
        """The feed-forward block."""
        node = self.node
        hidden = self.linear(x, "1")
        silu = self.facts.activation == "silu"
        hidden = node("Mul", hidden, node("Sigmoid", hidden)) if silu else node("Clip", hidden, 0.0, 6.0)
        hidden = node("Mul", hidden, self.linear(x, "3")) if "W_3" in self.arrays else hidden
        return self.linear(hidden, "2")

    def linear(self, x: str, letter: str) -> str:
        """x W + b, with the weights of this letter."""
        arrays = self.arrays
        product = self.node("MatMul", x, arrays[f"W_{letter}"] if letter == "2" else arrays[f"W_{letter}"].T)
        return self.node("Add", product, arrays[f"b_{letter}"]) if f"b_{letter}" in arrays else product

    def norm(self, x: str, number: int) -> str:
        """The norm with this number: RMSNorm or LayerNorm."""
        node, arrays, rms = self.node, self.arrays, self.kind.rms
        x = x if rms else node("Sub", x, self._mean(x))
        length = node("Sqrt", node("Add", self._mean(node("Mul", x, x)), self.facts.epsilon))
        x = node("Mul", node("Div", x, length), arrays[f"scale_{number}"])
        return x if rms else node("Add", x, arrays[f"shift_{number}"])

    def _mean(self, x: str) -> str:
        return self.node("ReduceMean", x, axes=[-1], keepdims=1)

    def newest(self, x: str, axis: int) -> str:
        """The part of `x` along `axis` that belongs to tokens which are not in the cache."""
        return self.node("Slice", x, self.node("Neg", self.tokens_given), _LAST, np.array([axis]))


def _rotated(node: _Nodes, facts: FolderFacts, place: str, *parts: str) -> list[str]:
    """Rotary positions: pairs of coordinates of `(B, 1, n, D)`, turned by their place."""
    assert facts.rotary is not None  # the caller checked
    theta, count = facts.rotary
    kind = node.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(node.real))
    there = node("Unsqueeze", node("Cast", place, to=kind), np.array([1, 3]))
    angle = node("Mul", there, theta ** (-np.arange(0, count, 2) / count))
    cos, sin = node("Cos", angle), node("Sin", angle)

    def turned(x: str) -> str:
        ends = (0, count // 2, count, facts.width)
        one, two, rest = (
            node("Slice", x, np.array([first]), np.array([end]), np.array([3])) for first, end in pairwise(ends)
        )
        left = node("Sub", node("Mul", one, cos), node("Mul", two, sin))
        right = node("Add", node("Mul", two, cos), node("Mul", one, sin))
        return node("Concat", left, right, rest, axis=3)

    return [turned(x) for x in parts]
