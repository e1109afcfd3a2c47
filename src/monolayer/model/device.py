"""How PyTorch runs a model: on which device, on how many threads, and whether it records the network meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch.jit import is_tracing  # type: ignore[attr-defined]

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


def elsewhere(X: object) -> bool:
    """Whether `X` is a tensor that is not on a processor."""
    return isinstance(X, torch.Tensor) and X.device.type != "cpu"


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one PyTorch thread: threads that share small products wait for each other, and how a product is split
    among them may change its last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def one_thread_each() -> Iterator[ThreadPoolExecutor]:
    """A pool of as many threads as PyTorch may use here, each of which runs on one PyTorch thread.

    When the block fails or is interrupted, the pool begins nothing further: else it would do all of its work before it
    lets an exception through.
    """
    threads = torch.get_num_threads()
    with one_thread(), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def no_notice_of_kernels(dtype: torch.dtype) -> Iterator[None]:
    """Leave out PyTorch's warning that a processor lacks instructions for a short format and takes another kernel.

    It asks for nothing: answers are right either way. Other formats do not bring it about.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*mkldnn")
        yield


def recording() -> bool:
    """Whether the network is being recorded (traced, exported, compiled) rather than run.

    Then tensors have no values to look at, and sizes may change from run to run of what is recorded.
    """
    return is_tracing() or torch.compiler.is_compiling()  # type: ignore[no-untyped-call]
