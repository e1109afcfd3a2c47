"""PyTorch's settings while monolayer builds, loads or asks a model: always the same, whatever the caller has set.

A default type other than float32 would change the bits of a model, autocast its sums, the default device `meta` has no
numbers at all, inference mode makes weights that nobody can train, and a processor that flushes subnormal numbers to 0
loses labels. None of them is about the model. So each function that builds or asks one runs inside `own_settings`, and
what belongs to the caller, such as the function of `approximate`, runs inside `callers_settings`.

The default type is one for all threads of a process, so a count says how many calls are under way: the first one sets
it, the last one sets it back. The others belong to a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, local
from typing import NamedTuple

import torch

from monolayer.data.subnormal import subnormals_are_flushed

OWN_TYPE = torch.float32
_CASTING = ("cpu", "cuda", "xpu", "mps")
"""Kinds of devices that autocast knows."""


class _DefaultType:
    """PyTorch's default type for new tensors: the caller's, and how many calls of ours are under way."""

    lock = Lock()
    calls = 0
    callers = OWN_TYPE

    @classmethod
    def enter(cls) -> None:
        """Set our type, if no other call has done so."""
        with cls.lock:
            if cls.calls == 0:
                cls.callers = torch.get_default_dtype()
                _set_type(OWN_TYPE)
            cls.calls += 1

    @classmethod
    def leave(cls) -> None:
        """Set the type of the caller again, if no other call is under way."""
        with cls.lock:
            cls.calls -= 1
            if cls.calls == 0:
                _set_type(cls.callers)


def _set_type(dtype: torch.dtype) -> None:
    if torch.get_default_dtype() != dtype:
        torch.set_default_dtype(dtype)


class Settings(NamedTuple):
    """Settings of a thread in PyTorch, other than the default type.

    `device`: the default device. `casting`: the type that autocast casts to, by kind of device. `inference`: whether
    inference mode is on. `flushed`: whether subnormal numbers are flushed to 0.
    """

    device: torch.device
    casting: dict[str, torch.dtype]
    inference: bool
    flushed: bool

    @classmethod
    def current(cls) -> Settings:
        """The current settings of this thread."""
        casting = {kind: torch.get_autocast_dtype(kind) for kind in _CASTING if torch.is_autocast_enabled(kind)}
        return cls(torch.empty(0).device, casting, torch.is_inference_mode_enabled(), subnormals_are_flushed())

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Run with our settings in the place of these."""
        with ExitStack() as stack:
            if self.device.type != "cpu":
                stack.enter_context(torch.device("cpu"))
            for kind in self.casting:
                stack.enter_context(torch.autocast(kind, enabled=False))
            if self.inference:
                stack.enter_context(torch.inference_mode(False))
                stack.enter_context(torch.no_grad())  # which leaving inference mode would have ended
            if self.flushed and torch.set_flush_denormal(False):
                stack.callback(torch.set_flush_denormal, True)
            yield

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Run with these settings in the place of ours."""
        with ExitStack() as stack:
            if self.device.type != "cpu":
                stack.enter_context(self.device)
            for kind, dtype in self.casting.items():
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            if self.inference:
                stack.enter_context(torch.inference_mode())
            if self.flushed and torch.set_flush_denormal(True):
                stack.callback(torch.set_flush_denormal, False)
            yield


class _Thread(local):
    """The caller's settings, while a function of ours runs; None otherwise."""

    callers: Settings | None = None


_thread = _Thread()


@contextmanager
def own_settings() -> Iterator[None]:
    """Run with a default type of float32 on the processor, without autocast, inference mode or flushed numbers.

    It is a context, and with `@own_settings()` a decorator. Inside another one it changes nothing.
    """
    if _thread.callers is not None:
        yield
        return
    _DefaultType.enter()
    try:
        _thread.callers = Settings.current()
        with _thread.callers.undone():
            yield
    finally:
        _thread.callers = None
        _DefaultType.leave()


@contextmanager
def callers_settings() -> Iterator[None]:
    """Inside `own_settings`: run a function of the caller with the settings of the caller.

    While other threads build models too, the default type stays ours.
    """
    callers = _thread.callers
    if callers is None:
        yield
        return
    _thread.callers = None
    _DefaultType.leave()
    try:
        with callers.applied():
            yield
    finally:
        _DefaultType.enter()
        _thread.callers = callers
