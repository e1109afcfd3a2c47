"""`detach`: restores the model that facts were attached to, or that questions were stored in, byte for byte."""

from __future__ import annotations

import os

from monolayer.attaching.detach import Detached, detached
from monolayer.attaching.extended import ExtendedModel
from monolayer.errors import DataError
from monolayer.model.torch_settings import own_settings
from monolayer.saved.kinds import open_model


@own_settings()
def detach(folder: str | os.PathLike[str] | ExtendedModel) -> Detached:
    """Take attached facts or stored questions off their host again; `save` writes its files, byte for byte.

    - `folder`: the folder that facts were attached to, or that questions were stored in. If a tensor or a file of the
      host was changed since, a `ModelFileError` names it. A model in memory that `attach`, `recognize` or an edit
      returned is taken as it is.

    Example:

        >>> folder = ml.detach("with-facts").save("host-again")  # doctest: +SKIP
    """
    model = open_model(folder).extended() if isinstance(folder, str | os.PathLike) else folder
    if not isinstance(model, ExtendedModel):
        raise DataError(f"a {type(model).__name__} has no host: detach takes what attach or recognize returned")
    return detached(model)
