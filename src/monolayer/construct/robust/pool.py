"""Threads that each work on batches of their own.

The batches of this construction are small. Threads that share one batch wait for one another at every product, which
costs more than it saves, and much more on a busy machine. A batch alone on one thread also gives the same bits
whatever the number of threads is.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

_AT_ONCE = 1 << 20
"""Numbers in a batch on the processor: 4 MiB, which stays in the cache through the iterations."""
_ON_DEVICE = 1 << 25
"""On a GPU, which has many more units to keep busy."""


def at_once(points: Tensor) -> int:
    """Numbers in a batch of points."""
    return _ON_DEVICE if points.is_cuda else _AT_ONCE


@contextmanager
def one_thread_each(points: Tensor) -> Iterator[ThreadPoolExecutor]:
    """As many workers as torch has threads, or one that feeds a GPU; inside, torch itself uses one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(
            1 if points.is_cuda else threads, initializer=torch.set_num_threads, initargs=(1,)
        ) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)
