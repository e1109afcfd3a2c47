"""How much memory a dense pass takes, and whether there is so much: better known before than after.

Counted is what is held at one time (`tests/test_room.py` measures it): the stream `(N, 1 + n, D)` several times over,
the logits, and one block of attention scores, of neurons of the readout or of the quantizer.
"""

from __future__ import annotations

from pathlib import Path

import torch

from monolayer.errors import OutOfMemoryError
from monolayer.model.attention import SCORES_AT_ONCE
from monolayer.model.parts import Parts
from monolayer.model.staircase import CELLS_AT_ONCE

STREAMS = 5
"""Copies of the stream that are alive at once: with and without `bos`, masked, what attention writes, their sum."""
COPIES = 4
"""Copies of a block: scores, masked scores, weights and the mask; a hidden layer before and after each of its steps."""


def dense_bytes(model: Parts, sequences: int, length: int) -> int:
    """Bytes that `forward` holds at one time for `N` sequences of `n` tokens."""
    places = sequences * (1 + length)
    answers = sequences if model.card.per == "sequence" else sequences * length
    outputs = model.bos.numel() if model.card.classes is None else len(model.card.classes)
    blocks = [part for part in (model.feed_forward, model.quantizer) if part is not None]
    hidden = max(weight.shape[-1] for part in blocks for weight in part.parameters())
    block = max(min(places * (1 + length), SCORES_AT_ONCE), min(places * hidden, CELLS_AT_ONCE), 1 + length)
    stream = STREAMS * places * model.bos.numel()
    return model.bos.element_size() * (stream + COPIES * block + answers * (outputs + model.bos.numel()))


def afford(model: Parts, sequences: int, length: int) -> None:
    """Refuse a dense pass that cannot fit, before anything is allocated."""
    device = model.bos.device
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_bytes()
    needed = dense_bytes(model, sequences, length)
    if free is not None and needed > free:
        raise OutOfMemoryError(
            f"a dense pass over {sequences:,} sequences of {length:,} tokens needs {needed / 2**30:,.1f} GiB and "
            f"{free / 2**30:,.1f} GiB are free: pass fewer sequences at a time, or use predict(), which takes the fast "
            "path and keeps no logits"
        )


def available_bytes() -> int | None:
    """Memory that can still be had on this machine, or None where the system does not say."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
