"""Where a model goes: a device that is not there is a mistake to name before any work, not a traceback after it."""

from __future__ import annotations

import torch

from monolayer.errors import DataError


def check_device(device: torch.device | str | None) -> None:
    """Refuse a device that PyTorch does not know or cannot use here."""
    if device is None:
        return
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"device {str(device)!r} cannot be used here ({reason}); leave it out for the CPU") from None
