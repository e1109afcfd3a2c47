"""A readout as an ONNX file that verifiers of networks read: affine maps with relu between them, and nothing else.

The input `X`, `(1, R)`, is what the neurons read: the number `z` of a point, or of a robust model its token, place and
context at length `√k`. The output `Y`, `(1, m)`, is what they write onto the label coordinates. All numbers are those
of the model, in its own type, or float32 if that is shorter.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import Tensor

from monolayer.arrays import Array
from monolayer.data.aside import new_file
from monolayer.errors import DataError, needs_extra
from monolayer.model.monolayer import Monolayer

OPSET, IR_VERSION = 17, 8
"""Old enough for the readers of ONNX that are in use, transformers.js and verifiers among them."""
LARGEST = 2**31 - 2**20
"""Bytes: protobuf files end at 2 GiB, and beyond that the weights would have to lie in another file."""


def import_onnx() -> Any:
    """Import the package onnx, which is an optional dependency; an error says how to install it."""
    try:
        import onnx
    except ImportError:
        raise needs_extra("an ONNX file needs the package onnx", "onnx") from None
    return onnx


def onnx_file(
    nodes: list[object], name: str, inputs: list[object], outputs: list[object], constants: list[object]
) -> bytes:
    """The bytes of an ONNX file with one graph, checked by the package onnx."""
    onnx = import_onnx()
    graph = onnx.helper.make_graph(nodes, name, inputs, outputs, constants)
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="monolayer")
    onnx.checker.check_model(model)
    written: bytes = model.SerializeToString()
    return written


def write_readout(model: Monolayer, file: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write the readout of `model` to the ONNX file `file`, all at once or not at all; returns its path.

    `overwrite`: True replaces a file that exists.
    """
    onnx, path = import_onnx(), Path(file)
    if path.is_dir() or (path.exists() and not overwrite):
        raise DataError(f"{path} exists already: choose another file, or ask to overwrite it (overwrite=True)")
    readout = model.feed_forward
    number = model.bos.element_size()
    if readout.stairs and readout.step_count**2 * number > LARGEST:
        raise DataError(
            f"its {readout.step_count:,} steps would make a dense layer of as many rows and columns, and an ONNX file "
            f"ends at {LARGEST:,} bytes: verifiers need a smaller model"
        )
    layers = readout.layers()
    if layers is None:
        why = f"the readout {readout.readout!r} is not a chain of affine maps with relu between them"
        if readout.stairs:
            why = f"the readout has {len(readout.stairs)} stages, each of which reads what the one before wrote"
        raise DataError(f"{why}: a file for verifiers takes one stage of a line, or half-spaces. Build with rank=1")
    nodes, constants, seen = [], [], "X"
    for count, (weight, bias) in enumerate(layers):
        names = f"weight_{count + 1}", f"bias_{count + 1}"
        arrays = [_verifier_array(tensor) for tensor in (weight, bias)]
        constants += [onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)]
        last = count == len(layers) - 1
        sums = "Y" if last else f"sum_{count + 1}"
        nodes.append(onnx.helper.make_node("Gemm", [seen, *names], [sums], transB=1))
        if not last:
            seen = f"hidden_{count + 1}"
            nodes.append(onnx.helper.make_node("Relu", [sums], [seen]))
    kind, shapes = constants[0].data_type, {"X": layers[0][0].shape[1], "Y": len(layers[-1][0])}
    X, Y = (onnx.helper.make_tensor_value_info(name, kind, [1, size]) for name, size in shapes.items())
    content = onnx_file(nodes, "readout", [X], [Y], constants)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as written:
        written.buffer.write(content)
    return path


def _verifier_array(tensor: Tensor) -> Array:
    """A tensor as an array; short formats, which verifiers do not read, become float32."""
    tensor = tensor.detach().cpu()
    array: Array = (tensor.float() if tensor.element_size() < 4 else tensor).numpy()
    return array
