"""`load`: from a folder of any kind to a model in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from monolayer.model.torch_settings import own_settings
from monolayer.saved.kinds import open_model

if TYPE_CHECKING:
    import torch

    from monolayer.attaching.folder import Attached
    from monolayer.attaching.questions.folder import Recognizer
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform
    from monolayer.stock.folder import StockModel


@own_settings()
def load(
    folder: str | os.PathLike[str], *, device: torch.device | str | None = None
) -> Monolayer | Uniform | StockModel | Attached | Recognizer:
    """Read the model in `folder`; a truncated, foreign, changed or newer one is a `ModelFileError` that says so.

    - `folder`: a saved model. A folder that `memorize_as` or `export` wrote gives a `StockModel`, and one with attached
      facts an `Attached`, an encoder with questions a `Recognizer`.
    - `device`: where the model should be, by default the CPU. Stock models and attached facts take no `device`.

    Example:

        >>> folder = ml.memorize({"France": "Paris", "Japan": "Tokyo"}).save("capitals")
        >>> print(ml.load("capitals").predict("Japan"))
        Tokyo
    """
    model: Monolayer | Uniform | StockModel | Attached | Recognizer = open_model(folder).load(device)
    return model
