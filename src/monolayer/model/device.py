"""Where a model goes: a device that is not there is a mistake to name before any work, not a traceback after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def one_thread() -> Iterator[None]:
    """On one thread of PyTorch's: small products wait for each other otherwise, and how a product is cut into threads
    may show in its last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
