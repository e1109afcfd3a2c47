"""The weights of one attention layer: any number of heads, any shapes that fit, checked once and frozen.

Notation: `H` heads, `d` the dimension of a token, `s` the size of queries and keys, `s'` that of values;
`W_Q`, `W_K` are `(s, d)`, `W_V` is `(s', d)`, `W_O` is `(d, s')`, and the layer is

    SA(Z) = Z + Σ_h W_O (W_V Z) σ[(W_K Z)ᵀ (W_Q Z)]          σ = softmax or hardmax down each column.

A `.npz` file holds the four arrays `W_Q`, `W_K`, `W_V`, `W_O` with the heads along the first axis,
`(H, s, d)` and so on; a matrix is one head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array, Floats
from monolayer.data.npz import load_arrays
from monolayer.errors import DataError

MATRICES = ("W_Q", "W_K", "W_V", "W_O")


class HeadWeights(NamedTuple):
    """One head: `W_Q`, `W_K` `(s, d)`, `W_V` `(s', d)`, `W_O` `(d, s')`."""

    W_Q: Floats
    W_K: Floats
    W_V: Floats
    W_O: Floats


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """The heads of one layer, as read-only float64; every entry is finite and every shape fits."""

    heads: tuple[HeadWeights, ...]

    def __post_init__(self) -> None:
        if len(self.heads) == 0:
            raise DataError("the layer has no head: give at least one (W_Q, W_K, W_V, W_O)")
        heads = []
        for number, matrices in enumerate(self.heads):
            if not isinstance(matrices, Sequence | np.ndarray) or len(matrices) != 4:
                raise DataError(f"head {number} is not a list of four matrices {', '.join(MATRICES)}")
            heads.append(HeadWeights(*(_matrix(m, number, name) for name, m in zip(MATRICES, matrices, strict=True))))
        dim = heads[0].W_Q.shape[1]
        for number, head in enumerate(heads):
            size, value_size = len(head.W_Q), len(head.W_V)
            wanted = (size, dim), (size, dim), (value_size, dim), (dim, value_size)
            for name, matrix, shape in zip(MATRICES, head, wanted, strict=True):
                if matrix.shape != shape:
                    raise DataError(
                        f"{name} of head {number} has shape {matrix.shape}, but {shape} is needed: W_Q, W_K are (s, d)"
                        f", W_V is (s', d), W_O is (d, s'); d = {dim} from W_Q of head 0, s = {size}, s' = {value_size}"
                    )
        object.__setattr__(self, "heads", tuple(heads))

    @property
    def dim(self) -> int:
        """`d`, the dimension of a token."""
        return int(self.heads[0].W_Q.shape[1])

    @classmethod
    def random(cls, heads: int, dim: int, head_size: int | None = None, seed: int = 0) -> AttentionWeights:
        """Gaussian weights of variance 1/d; `head_size` defaults to max(1, d // heads)."""
        size = max(1, dim // max(heads, 1)) if head_size is None else head_size
        if heads < 1 or dim < 1 or size < 1:
            raise DataError(f"heads = {heads}, dim = {dim}, head size = {size}: each must be at least 1")
        generator, shapes = np.random.default_rng(seed), ((size, dim), (size, dim), (size, dim), (dim, size))
        return cls(tuple(HeadWeights(*(generator.normal(0.0, dim**-0.5, s) for s in shapes)) for _ in range(heads)))

    @classmethod
    def of(cls, source: object) -> AttentionWeights:
        """Weights from a file's path, named arrays or tensors as in a file, or a sequence of heads.

        A head is four matrices in the order W_Q, W_K, W_V, W_O.
        """
        if isinstance(source, AttentionWeights):
            return source
        if isinstance(source, str | Path):
            if not Path(source).is_file():
                raise DataError(f"there is no file {source}")
            try:
                return cls(_from_names(load_arrays(Path(source))[1]))
            except DataError as error:
                raise DataError(f"{source}: {error}") from None
        if isinstance(source, Mapping):
            return cls(_from_names(source))
        if isinstance(source, Sequence | np.ndarray) and len(source):
            return cls(tuple(source))
        raise DataError(
            f"weights are a {type(source).__name__}; give a file, a dict of arrays {', '.join(MATRICES)}, or a "
            "non-empty list of heads"
        )


def _from_names(arrays: Mapping[str, object]) -> tuple[HeadWeights, ...]:
    """Heads of stacked arrays `W_Q (H, s, d)`, ...; a matrix is one head."""
    missing, unknown = [n for n in MATRICES if n not in arrays], [str(n) for n in arrays if n not in MATRICES]
    if missing:
        raise DataError(
            f"{', '.join(missing)} missing: name the arrays {', '.join(MATRICES)} (heads along the first axis)"
        )
    if unknown:
        raise DataError(
            f"unknown arrays {', '.join(unknown[:4])}: leave them out. Biases too: they change no refutation, because "
            "they shift all scores of a query alike and all values alike"
        )
    stacks = {name: _real_array(arrays[name], name) for name in MATRICES}
    for name, stack in stacks.items():
        if stack.ndim not in (2, 3):
            raise DataError(f"{name} has shape {stack.shape}: it must be a matrix, or one per head (H, ., .)")
    parts = [stack if stack.ndim == 3 else stack[None] for stack in stacks.values()]
    counts = {name: len(part) for name, part in zip(MATRICES, parts, strict=True)}
    if len(set(counts.values())) != 1:
        raise DataError(f"the arrays disagree on the number of heads (their first axis): {counts}")
    return tuple(HeadWeights(*matrices) for matrices in zip(*parts, strict=True))


def _real_array(array: Any, where: str) -> Array:
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        array = (array.double() if array.is_floating_point() else array).numpy()  # NumPy lacks bfloat16
    try:
        numbers = np.asarray(array)
    except ValueError:
        raise DataError(f"{where} is ragged: it must be a matrix") from None
    if numbers.dtype.kind not in "iufb":
        raise DataError(f"{where} has type {numbers.dtype}: weights are real numbers")
    return numbers


def _matrix(array: object, number: int, name: str) -> Floats:
    """One matrix as read-only float64, its value unchanged."""
    where = f"{name} of head {number}"
    numbers = _real_array(array, where)
    if numbers.ndim != 2 or 0 in numbers.shape:
        raise DataError(f"{where} has shape {numbers.shape}: it must be a matrix with at least one entry")
    matrix = numbers.astype(np.float64)
    if not np.isfinite(matrix).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise DataError(f"{where}, shape {matrix.shape}, is not finite at row {row}, column {column}")
    # A claim about rounded weights would be a claim about another layer.
    if not np.array_equal(matrix.astype(numbers.dtype), numbers):
        raise DataError(f"{where} has entries of type {numbers.dtype} that float64 cannot hold exactly")
    matrix.setflags(write=False)
    return matrix
