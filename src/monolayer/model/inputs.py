"""What `forward` takes: tensors, looked at before PyTorch does, so that mistakes are named and NaN answers nothing.

While someone records the network (`torch.jit.trace`, `torch.export`, `torch.onnx.export`, `torch.compile`) the values
of tensors are not there to be looked at, and blocks of a fixed size would become part of the recording. Then all checks
are left out, and every layer computes in one piece (`recording`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.errors import DataError
from monolayer.model.asked import check_lengths, no_vector
from monolayer.model.device import recording
from monolayer.model.parts import Parts
from monolayer.table import plural


def check_input(model: Parts, X: object, lengths: object) -> None:
    """Refuse what is not ids `(N, n)` that the model knows, or finite vectors `(N, n, d)` of its own type."""
    if recording():
        return
    if not isinstance(X, Tensor) or not (lengths is None or isinstance(lengths, Tensor)):
        raise DataError("forward takes tensors, X and lengths; predict takes lists and arrays too")
    ids, dim = model.card.vocabulary is not None, getattr(model.lift, "in_features", "d")
    if X.ndim != (2 if ids else 3):
        shape = "ids (N, n)" if ids else f"vectors (N, n, {dim})"
        raise DataError(f"forward takes {shape}, not a tensor of shape {tuple(X.shape)}; predict takes lists too")
    inside = torch.ones(1, X.shape[1], dtype=torch.bool, device=X.device)
    if lengths is not None:
        if lengths.shape != X.shape[:1]:
            raise DataError(f"X has {plural(len(X), 'sequence')}, but lengths has shape {tuple(lengths.shape)}")
        low, high = (int(each) for each in lengths.aminmax()) if len(lengths) else (0, 0)
        if lengths.is_floating_point() or low < 0 or high > X.shape[1]:
            raise DataError(
                f"lengths go from {low} to {high} as {lengths.dtype}, and must be whole numbers from 0 to "
                f"{X.shape[1]}, the tokens that X has per sequence"
            )
        check_lengths(model, lengths.cpu().numpy())
        inside = torch.arange(X.shape[1], device=X.device) < lengths.to(X.device)[:, None]
    check_lengths(model, np.array([X.shape[1]]))
    if ids:
        _check_ids(model, X, inside)
        return
    if X.shape[2] != (X.shape[2] if dim == "d" else dim):
        raise DataError(f"X has vectors of {plural(X.shape[2], 'number')}, and the model takes {dim}")
    if X.dtype != model.bos.dtype:
        name, ours = (str(kind).removeprefix("torch.") for kind in (X.dtype, model.bos.dtype))
        raise DataError(
            f"X is {name} and the model {ours}: pass X.to(torch.{ours}). (A copy of the model in {name} has rounded "
            "weights, and may answer differently: certify it)"
        )
    for row, place in _first_place(inside & ~X.isfinite().all(2)):
        raise DataError(f"token {place} of sequence {row} is not finite: NaN and infinity are not allowed")


def _check_ids(model: Parts, X: Tensor, inside: Tensor) -> None:
    if X.dtype not in (torch.int64, torch.int32):
        raise DataError(
            f"X is {X.dtype}, and ids are int64 or int32: pass X.long(), or encode(...) for the ids of names"
        )
    assert model.card.vocabulary is not None  # the caller saw to it
    rows = len(model.card.vocabulary)
    for row, place in _first_place(inside & ((X < 0) | (rows <= X))):
        raise DataError(
            f"token {place} of sequence {row} is {int(X[row, place])}: ids go from 0 to {rows - 1}; padding is told "
            "from tokens by lengths, and may then be any number"
        )
    if isinstance(model.lift, nn.Embedding):
        vectors = model.lift.weight.detach()[X.clamp(0, rows - 1)]
        for row, place in _first_place(inside & ~vectors.isfinite().all(-1)):
            raise DataError(no_vector(model, f"token {place} of sequence {row}", int(X[row, place])))


def _first_place(bad: Tensor) -> list[list[int]]:
    """Row and place of the first True in `bad` `(N, n)`, as a list of one pair; an empty list without any."""
    first: list[list[int]] = torch.nonzero(bad)[:1].tolist()
    return first
