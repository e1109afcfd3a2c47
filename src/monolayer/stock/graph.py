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
    cached = _network(node, facts, arrays)

    def value(name: str, kind: DTypeLike, *shape: str | int) -> object:
        return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)

    B, n, past, D = "batch_size", "sequence_length", "past_sequence_length", facts.width
    inputs = [value("input_ids", np.int64, B, n), value("attention_mask", np.int64, B, "total_sequence_length")]
    inputs += [value(f"past_key_values.0.{name}", real, B, 1, past, D) for name in cached]
    places = (n,) if facts.labelling.at_tokens else ()
    outputs = [value("logits", np.float32, B, *places, len(facts.classes))]
    outputs += [value(f"present.0.{name}", real, B, 1, "total_sequence_length", D) for name in cached]
    return onnx_file(node.nodes, facts.architecture.models[facts.task], inputs, outputs, node.constants)


def _network(node: _Nodes, facts: FolderFacts, arrays: Mapping[str, Floats]) -> tuple[str, ...]:
    """Add the nodes of the network up to `logits`; return the parts of a cache that it reads and writes."""
    kind, ids, mask = facts.architecture, "input_ids", "attention_mask"
    total, n = (node("Gather", node("Shape", name), np.array([1])) for name in (mask, ids))

    def linear(x: str, letter: str) -> str:
        product = node("MatMul", x, arrays[f"W_{letter}"] if letter == "2" else arrays[f"W_{letter}"].T)
        return node("Add", product, arrays[f"b_{letter}"]) if f"b_{letter}" in arrays else product

    def mean(x: str) -> str:
        return node("ReduceMean", x, axes=[-1], keepdims=1)

    def norm(x: str, number: int) -> str:
        x = x if kind.rms else node("Sub", x, mean(x))
        length = node("Sqrt", node("Add", mean(node("Mul", x, x)), facts.epsilon))
        x = node("Mul", node("Div", x, length), arrays[f"scale_{number}"])
        return x if kind.rms else node("Add", x, arrays[f"shift_{number}"])

    def last(x: str, axis: int) -> str:
        """The part of `x` along `axis` that belongs to tokens which are not in the cache."""
        return node("Slice", x, node("Neg", n), _LAST, np.array([axis]))

    x = node("Gather", arrays["tokens"], ids)
    counted = node("Sub", node("CumSum", mask, np.array(1)), np.array(1))
    place = last(node("Max", counted, np.array(0)), 1)
    if kind.has_places:
        x = node("Add", x, node("Gather", arrays["places"][kind.offset :], place))
    here = norm(node("Add", x, arrays["types"][0]) if "types" in arrays else x, 1)
    x = here if kind.post_norm else x

    q, k, v = (node("Unsqueeze", linear(here, letter), np.array([1])) for letter in "QKV")
    if facts.rotary is not None:
        q, k = _rotated(node, facts, place, q, k)
    cached = ("key", "value") if facts.labelling.generates else ()
    if cached:
        k = node("Concat", "past_key_values.0.key", k, axis=2, name="present.0.key")
        v = node("Concat", "past_key_values.0.value", v, axis=2, name="present.0.value")
    scores = node("Div", node("MatMul", q, node("Transpose", k, perm=[0, 1, 3, 2])), facts.width**0.5)
    seen = node("Unsqueeze", node("Cast", mask, to=node.onnx.TensorProto.BOOL), np.array([1, 2]))
    number = node("Range", np.array(0), node("Squeeze", total), np.array(1))
    if kind.causal:
        before = node("LessOrEqual", number, node("Unsqueeze", last(number, 0), np.array([1])))
        seen = node("And", seen, before)
    scores = node("Where", seen, scores, float(np.finfo(node.real).min))
    averages = node("MatMul", node("Softmax", scores, axis=-1), v)
    x = node("Add", x, linear(node("Squeeze", averages, np.array([1])), "O"))

    if not facts.labelling.at_tokens and kind.causal:  # the last token that is not padding answers
        end = node("ReduceMax", node("Mul", mask, number), axes=[1], keepdims=1)
        x = node("GatherND", x, end, batch_dims=1)
    elif not facts.labelling.at_tokens:
        x = node("Gather", x, np.array(0), axis=1)
    here = norm(x, 2)
    x = here if kind.post_norm else x
    hidden = linear(here, "1")
    silu = facts.activation == "silu"
    hidden = node("Mul", hidden, node("Sigmoid", hidden)) if silu else node("Clip", hidden, 0.0, 6.0)
    hidden = node("Mul", hidden, linear(here, "3")) if "W_3" in arrays else hidden
    x = norm(node("Add", x, linear(hidden, "2")), 3)
    if "W_P" in arrays:
        x = node("Tanh" if kind.pool == "tanh" else "Relu", linear(x, "P"))
    node("Cast", linear(x, "H"), to=node.onnx.TensorProto.FLOAT, name="logits")
    return cached


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
