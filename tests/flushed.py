"""Subnormal numbers flushed to 0, as processors do that are told so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch


@contextmanager
def flushing() -> Iterator[None]:
    """While this is entered, and no longer; a test on a processor that cannot is skipped."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
