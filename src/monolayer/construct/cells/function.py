"""The function to approximate, as it is given: any callable on batches. Called in blocks, and never trusted.

`f` maps `(B, n, d)` to `(B, n, m)`, or to `(B, n)` for `m = 1`; NumPy or PyTorch, in and out. Its answers must
have that shape, be finite, and be the same whenever it is asked the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from monolayer.arrays import Array, Floats, Ints, Numbers
from monolayer.construct.cells.grid import Box
from monolayer.errors import DataError
from monolayer.model.torch_settings import callers_settings
from monolayer.table import plural

BatchFunction = Callable[[Numbers], Numbers]
"""A function of batches `(B, n, d)`, arrays or tensors."""
_ENTRIES_AT_ONCE = 1 << 18
"""Numbers handed to `f` at a time, n times over: what it computes for pairs of tokens stays in cache."""


class Function:
    """`f` on the domain `box`: NumPy float64 in, `(B, n, m)` float64 out."""

    def __init__(
        self, f: BatchFunction, box: Box, out_dim: int | None, device: torch.device | str | None = None
    ) -> None:
        if not callable(f):
            raise DataError(f"f is a {type(f).__name__}: it must be a function of batches (B, n, d)")
        self._f, self.box, self._device = f, box, device
        probe = box.uniform(8, np.random.default_rng(0))
        self._torch = self._wants_torch(probe)
        once = self._call(probe)
        self.scalar = once.ndim == 2
        self.out_dim = 0 if out_dim is None else out_dim
        answers = self(probe)
        self.out_dim = answers.shape[2]
        self.rounding = float(np.finfo(once.dtype).eps) if once.dtype.kind == "f" else 2.0**-52
        """Spacing of the numbers that `f` computes with, relative to them."""
        self._check_repeats(probe, answers)

    def __call__(self, X: Floats) -> Floats:
        """Ask `f` at sequences `X` `(B, n, d)`, block by block, and check its answers `(B, n, m)`."""
        parts = [self._checked(X[start : start + self.batch]) for start in range(0, len(X), self.batch)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def batch(self) -> int:
        """How many sequences `f` is given at a time."""
        return max(1, _ENTRIES_AT_ONCE // (self.box.length**2 * max(self.box.dim, self.out_dim)))

    def _checked(self, X: Floats) -> Floats:
        answer = self._call(X)
        wanted = X.shape[:2]
        if answer.shape[:2] != wanted or answer.ndim != (2 if self.scalar else 3) or answer.dtype.kind not in "fiub":
            raise DataError(
                f"f returned {answer.dtype} of shape {answer.shape} for a batch of shape {X.shape}: it must return "
                f"real numbers, one per token {wanted} or m per token ({wanted[0]}, {wanted[1]}, m)"
            )
        answer = answer.astype(np.float64, copy=False).reshape(*wanted, -1)
        if self.out_dim and answer.shape[2] != self.out_dim:
            raise DataError(f"f returned {plural(answer.shape[2], 'number')} per token, and out_dim is {self.out_dim}")
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not np.isfinite(answer.sum())  # one number that tells nearly always; a huge sum may be innocent
        if suspect and not np.isfinite(answer).all():
            row = int(np.flatnonzero(~np.isfinite(answer).all(axis=(1, 2)))[0])
            raise DataError(
                f"f is not finite at {shown(X[row])}: it returned {shown(answer[row])}. It must be a real function on "
                "the whole domain; choose another domain, or fix it there"
            )
        return answer

    def _call(self, X: Floats) -> Array:
        """Call `f` once, on a copy of `X` that it may overwrite; its failure becomes a `DataError`."""
        try:
            return self._answer(X, self._torch)
        except Exception as error:  # whatever the function of the caller raises is about that function
            raise DataError(f"f failed on a batch of shape {X.shape}: {type(error).__name__}: {error}") from error

    def _answer(self, X: Floats, as_torch: bool) -> Array:
        batch: Numbers = X.copy()
        if as_torch:
            kind = next(self._f.parameters(), None) if isinstance(self._f, nn.Module) else None
            batch = torch.from_numpy(batch).to(
                device=self._device if kind is None else kind.device, dtype=None if kind is None else kind.dtype
            )
        with callers_settings(), torch.no_grad():
            answer = self._f(batch)
        if isinstance(answer, torch.Tensor):
            answer = answer.detach().cpu().numpy()
        if not isinstance(answer, np.ndarray | list | tuple | float | int | np.number):
            raise TypeError(f"it returned a {type(answer).__name__}, not an array")
        return np.asarray(answer)

    def _wants_torch(self, probe: Floats) -> bool:
        """Whether `f` takes tensors: a module does; else NumPy is tried first."""
        if isinstance(self._f, nn.Module):
            return True
        try:
            self._answer(probe, False)
        except Exception as first:  # whatever a function of tensors raises when it is given an array
            try:
                self._answer(probe, True)
            except Exception as second:  # the function fails either way: the error tells both
                raise DataError(
                    f"f fails on a batch of shape {probe.shape}: with a NumPy array, {type(first).__name__}: {first}; "
                    f"with a tensor, {type(second).__name__}: {second}"
                ) from first
            return True
        return False

    def _check_repeats(self, probe: Floats, before: Floats) -> None:
        """Refuse an `f` that answers differently when it is asked again, as a batch or one sequence at a time."""
        # Other batches may be summed in another order: differences of some hundred roundings are none.
        room = 2.0**12 * self.rounding * float(np.abs(before).max())
        again = self(probe)
        alone = np.concatenate([self(row[None]) for row in probe])
        for other, how in ((again, "asked again"), (alone, "when called with that sequence alone, not in a batch")):
            apart = np.abs(other - before).max(axis=(1, 2))
            row = int(apart.argmax())
            if apart[row] > room:
                raise DataError(
                    f"f returns different values on equal input: at {shown(probe[row])} first {shown(before[row])}, "
                    f"and {how} {shown(other[row])}. Only a function can be approximated"
                )


def shown(values: Floats) -> str:
    """An array of numbers as one line of text, for messages."""
    text = np.array2string(values, precision=4, threshold=24, separator=", ", max_line_width=10**6)
    return " ".join(text.split())


TRIED = 32
"""Sequences of either kind, and permutations (all of them, where there are fewer)."""


def check_equivariance(f: Function, seed: int) -> None:
    """An error that shows a sequence and a permutation, if `f(X π) = f(X) π` fails for one that is tried.

    A Transformer without positions has it for any weights, so a function without it cannot be approximated by one.
    Half of the sequences repeat tokens: swapping two equal ones changes nothing, so `f` must give both the same.
    """
    random = np.random.default_rng([seed, 10])
    X = f.box.uniform(2 * TRIED, random)
    repeat = random.integers(0, max(1, f.box.length - 1), (TRIED, f.box.length))
    X[:TRIED] = np.take_along_axis(X[:TRIED], repeat[:, :, None], axis=1)
    before = f(X)
    orders = _orders(f.box.length, random)
    # Sums in another order differ by roundings, and an ill-conditioned f by more: half of its digits must agree.
    room = math.sqrt(f.rounding) * float(np.abs(before).max())
    after = f(X[:, orders].reshape(-1, *X.shape[1:])).reshape(len(X), len(orders), *before.shape[1:])
    apart = np.abs(after - before[:, orders]).max(axis=(2, 3))
    row, order = np.unravel_index(int(apart.argmax()), apart.shape)
    if apart[row, order] > room:
        raise _not_equivariant(X[row], orders[order], before[row], after[row, order])


def _orders(n: int, random: np.random.Generator) -> Ints:
    """Permutations `(K, n)` other than the identity: all if they are few, else random ones."""
    if math.factorial(n) <= TRIED:
        rows = list(itertools.permutations(range(n)))[1:] or [tuple(range(n))]
        return np.array(rows)
    swap = np.arange(n)
    swap[[0, 1]] = 1, 0
    return np.stack([swap, *(random.permutation(n) for _ in range(TRIED - 1))])


def _not_equivariant(X: Floats, order: Ints, before: Floats, after: Floats) -> DataError:
    return DataError(
        f"f is not permutation equivariant: it maps {shown(X)} to {shown(before)}; with the tokens in the order "
        f"{tuple(order.tolist())} it should give {shown(before[order])}, and it gives {shown(after)}. A Transformer "
        "without positions cannot do that; with positions=True it approximates any continuous function, at the price "
        "of all sequences of cells in place of all multisets"
    )
