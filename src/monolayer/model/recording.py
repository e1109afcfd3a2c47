"""Whether the network is being recorded (traced, exported, compiled) rather than run."""

from __future__ import annotations

import torch
from torch.jit import is_tracing  # type: ignore[attr-defined]


def recording() -> bool:
    """Then tensors have no values to look at, and sizes may change from run to run of what is recorded."""
    return is_tracing() or torch.compiler.is_compiling()  # type: ignore[no-untyped-call]
