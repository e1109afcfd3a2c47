"""Loading whatever monolayer has saved: its own models, and stock folders."""

from __future__ import annotations

import os

import torch

from monolayer.errors import DataError
from monolayer.huggingface.reading import is_stock
from monolayer.model.load import load as load_own
from monolayer.model.monolayer import Monolayer
from monolayer.model.uniform import Uniform
from monolayer.stock.folder import StockModel


def load(
    folder: str | os.PathLike[str], *, device: torch.device | str | None = None
) -> Monolayer | Uniform | StockModel:
    """The model in `folder`; a truncated, foreign, changed or newer one is a `ModelFileError` that says so.

    A folder that `memorize_as` or `export` wrote gives a `StockModel`, which takes no `device`.
    """
    if not is_stock(folder):
        return load_own(folder, device=device)
    if device is not None:
        raise DataError(f"{folder} is a stock folder, which monolayer asks on the CPU: for a device use transformers")
    return StockModel.load(folder)
