"""Results about the weights of a model, cached until the model changes.

A look-up must not scan a million weights to learn once more that they are a staircase. So what such a scan found is
kept, together with the state that it was found in: every module and tensor of the model, the hooks, and PyTorch's
version counters, which count every change in place. Some changes go past the counters: by `.data`, or a NumPy view.
Those are noticed if they touch one of some numbers of each tensor, as a change of a whole tensor does; and whoever asks
for so many answers that a scan costs little beside them gets one (`look_again`). What is left: a few numbers changed in
such a way, and then a look-up of a few tokens on a large model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.nn.modules.module as everywhere
from torch import Tensor, nn

from monolayer.kernels import passes
from monolayer.model.parts import Parts

T = TypeVar("T")

SAMPLED_NUMBERS = 32
"""Numbers of each tensor that are compared, about, evenly spaced."""
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Remembered(NamedTuple):
    """A remembered result and the state it holds for: `some` views into the tensors, their numbers, a digest of all."""

    parts: list[object]
    marks: list[object]
    some: list[Tensor]
    numbers: list[Any]
    digest: int | None
    value: Any


_found: WeakKeyDictionary[Parts, Remembered] = WeakKeyDictionary()
"""By model, so that copies and pickles of a model do not carry it. Holds parts of the model, never the model."""


def _state(model: Parts) -> tuple[list[object], list[object]]:
    """Modules, tensors and attributes of a model, and marks: which they are, and the versions of the tensors.

    The parts are kept alive, so that no other one can get their place in memory. Inference tensors have no version
    counter: then a mark is NaN, which is equal to nothing.
    """
    modules = list(model.modules())
    tensors_and_options = [
        (*vars(module)["_parameters"].values(), *vars(module)["_buffers"].values()) for module in modules
    ]
    tensors = [tensor for some in tensors_and_options for tensor in some if tensor is not None]
    parts: list[object] = [*modules[1:], *tensors]
    for module in modules:
        # Everything else is an attribute, such as the readout's name or the card. Those of PyTorch begin with `_`.
        parts += [value for name, value in vars(module).items() if name[0] != "_" and name != "training"]
    if any(tensor.is_inference() for tensor in tensors):
        return parts, [float("nan")]
    marks: list[object] = [*map(id, parts)]
    for tensor in tensors:
        marks += (tensor._version, tensor.data_ptr(), tensor.dtype, tensor.device)
    marks += map(list, _hooks_everywhere())
    for module in modules:
        marks += (type(module), *map(list, _hooks(module)))
    return parts, marks


def remembered(model: Parts, find: Callable[[], T]) -> T:
    """`find()`, or what it returned last time if the model has not changed since."""
    parts, marks = _state(model)
    then = _found.get(model)
    if then is None or then.marks != marks or [view.tolist() for view in then.some] != then.numbers:
        some = [_some(part) for part in parts if isinstance(part, Tensor)]
        then = Remembered(parts, marks, some, [view.tolist() for view in some], _digest(parts), find())
        _found[model] = then
    value: T = then.value
    return value


def look_again(model: Parts) -> None:
    """Forget what was found about this model, so that its weights are scanned again when next asked about.

    Not where a digest of every bit says that they are what they were: on a GPU it takes less time than that scan.
    """
    then = _found.get(model)
    if then is not None and (then.digest is None or then.digest != _digest(then.parts)):
        del _found[model]


def _digest(parts: list[object]) -> int | None:
    """A digest of the tensors among the parts of a model; None where there are few numbers, or not on a GPU."""
    tensors = [part.detach().reshape(-1) for part in parts if isinstance(part, Tensor)]
    fused = passes(max(tensors, key=len))
    if not fused or any(tensor.device != tensors[0].device for tensor in tensors):
        return None
    digest: int = fused.digest(tensors)
    return digest


def hooked(model: Parts) -> bool:
    """Whether the user's hooks run inside the forward pass of a module; a shortcut would skip them."""
    changed = ("forward" in vars(module) or any(_hooks(module)) for module in model.modules())
    return any(_hooks_everywhere()) or any(changed)


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    """The hooks before and after the forward pass of a module."""
    fields = vars(module)
    return fields["_forward_hooks"], fields["_forward_pre_hooks"]


def _hooks_everywhere() -> tuple[Any, ...]:
    """The hooks that PyTorch calls for every module."""
    return everywhere._global_forward_hooks, everywhere._global_forward_pre_hooks


def _some(tensor: Tensor) -> Tensor:
    """A view of some numbers of a tensor as bits: NaN, which marks ids without a vector, is not equal to itself."""
    each = SAMPLED_NUMBERS if tensor.ndim == 1 else math.isqrt(SAMPLED_NUMBERS) + 1
    some = tensor.detach()[tuple(slice(None, None, max(1, size // each)) for size in tensor.shape)]
    return some.view(_BITS[tensor.element_size()])
