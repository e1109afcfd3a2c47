"""Questions to parts of models by themselves: heads of rank one, their attention in linear time, weights in several
files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from torch import Tensor

import monolayer as ml
from monolayer.model import heads as rank_one_heads
from monolayer.model import rank_one, sharded
from monolayer.model.heads import OtherTokens, PowerSums, RankOneHeads
from monolayer.theory.heads import HEAD_TEMPERATURES
from monolayer.theory.targets import TARGETS
from tests.record import Ask, attempt, own_folder


def questions() -> Iterator[tuple[str, Ask]]:
    """Each with its name."""
    for length in (3, 4):
        yield f"heads {length}", (lambda n=length: _heads(n))  # type: ignore[misc]
        yield f"heads {length} series", (lambda n=length: _series(n))  # type: ignore[misc]
    for length in (2, 3):
        yield f"heads approximator {length}", (lambda n=length: _approximated(n))  # type: ignore[misc]
    for name, ask in _attention().items():
        yield f"attention {name}", (lambda ask=ask: _anew(ask))  # type: ignore[misc]
    for name, change in CHANGES.items():
        yield f"shards {name}", (lambda change=change: _shards(change))  # type: ignore[misc]
    yield "shards names", _names


# -- heads -------------------------------------------------------------------------------------------------------


def _heads(length: int) -> list[object]:
    """What heads show of sequences, and which other tokens are found; also from what no head shows.

    Tokens are apart: where two are nearly equal, rounding is magnified.
    """
    heads, others = RankOneHeads.at(HEAD_TEMPERATURES[length]), OtherTokens(length)
    X = torch.from_numpy(apart(60, length))
    shifts = (0.0, 1e-3, 0.5, -0.5)[: 4 if length == 3 else 2]
    with torch.no_grad():
        zeros = torch.zeros(len(X), length, length - 1, dtype=torch.float64)
        stream = heads(torch.cat([torch.ones_like(X), X, zeros], dim=-1))
        shown = stream[..., 2:]
        moved = [others(X, shown + shift * torch.arange(length - 1)) for shift in shifts]
    return [heads.extra_repr(), list(heads.parameters()), list(others.parameters()), stream, *moved]


def apart(count: int, length: int) -> Any:
    """Sequences `(count, length, 1)` of multiples of 1/8, all different."""
    random = np.random.RandomState(length)
    return np.stack([random.permutation(9)[:length] / 8.0 for _ in range(count)])[..., None]


def _series(length: int) -> list[object]:
    """What power sums make heads show, by the series, the numbers that have these sums, equal ones among them, and the
    first step of the search for sums: the last one is the same whatever steps lead there."""
    others, random = OtherTokens(length), np.random.RandomState(length)
    own = torch.from_numpy(random.uniform(-1.0, 1.0, (50, 1)))
    q, r = (torch.from_numpy(random.uniform(low, 0.3, (50, 1))) for low in (0.0, -0.2))
    q[:3], r[:3] = 0.0, 0.0
    low, high = (torch.exp(others.temperatures[at] * own) for at in (0, -1))
    with torch.no_grad():
        found = [others._shown(own, low, high, PowerSums(q, r)), others._roots(PowerSums(q, r))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rank_one_heads, "STEPS", 1)
            return [*found, others._power_sums(own, PowerSums(q, r))]


def _approximated(length: int) -> list[object]:
    options: Any = {"cells": 3, "norm": "sup", "first_block": False, "domain": (-1.0, 2.0), "lipschitz": 1.0}
    model: Any = ml.approximate(TARGETS["sort"].function, 1, length, **options)
    X = 3.0 * apart(30, length) - 1.0
    folder = model.save(own_folder() / "saved")
    again: Any = ml.load(folder)
    return [model.predict(X), model(torch.from_numpy(X)).detach(), folder, again.predict(X), repr(again)]


# -- attention of rank one -----------------------------------------------------------------------------------------


def _anew(ask: Callable[[], object]) -> object:
    """With the tables of this process made anew: they were made before a fault was planted."""
    rank_one._chebyshev_points.cache_clear()
    rank_one._coefficients.cache_clear()
    return ask()


def drawn(seed: int, reach: float, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values whose largest score is `reach`."""
    random = np.random.RandomState(seed)
    q, k, v = (torch.from_numpy(random.uniform(-1.0, 1.0, size)) for size in (shape, shape, (*shape, 2)))
    return q * (reach / float(q.abs().max() * k.abs().max())), k, v


@contextmanager
def _blocks(numbers: int, run: int, scores: int) -> Iterator[None]:
    """So few numbers in a block, a run and a table of scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_one, "_NUMBERS_PER_BLOCK", numbers)
        patch.setattr(rank_one, "_RUN", run)
        patch.setattr(rank_one, "_SCORES", scores)
        yield


def _attention() -> dict[str, Callable[[], object]]:
    """By name, ways to average: few queries, many, equal ones, narrow and wide scores, blocks of several sizes."""

    def average(reach: float, *shape: int, change: Any = None, **options: Any) -> Callable[[], object]:
        q, k, v = drawn(len(shape), reach, *shape)
        return lambda: ml.attention(*(change(q, k, v) if change else (q, k, v)), **options)

    def in_blocks(ask: Callable[[], object]) -> Callable[[], object]:
        def asked() -> list[object]:
            found = []
            for sizes in ((64, 8, 2000), (1, 1, 1), (1000, 700, 1 << 20)):
                with _blocks(*sizes):
                    found.append(attempt(ask))
            return found

        return asked

    def equal(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.full_like(q, 1.7), k, v

    def against(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.full_like(q, -1.7), k, v

    def edges() -> list[object]:
        """At the ends of what is computed in each way."""
        found: list[object] = []
        for count in (512, 513):
            for reach in (1.0, 299.0, 301.0, 599.0, 601.0):
                q, k, v = drawn(3, reach, count)
                found.append(ml.attention(q, k, v))
        queries = torch.zeros(600), torch.tensor([1e-200, -1e-200] * 300), torch.full((600,), 400.0)
        keys, values = torch.linspace(-1.0, 1.0, 600).double(), torch.arange(600.0)
        return found + [ml.attention(q.double(), keys, values) for q in queries]

    def short() -> list[object]:
        """A queries' range far narrower than that of keys, and the other way; fewer keys than queries."""
        _, k, v = drawn(4, 1.0, 900)
        found: list[object] = []
        for q in (torch.linspace(0.9, 1.0, 700), torch.linspace(-9.0, -8.0, 1100), torch.linspace(-30.0, 40.0, 800)):
            found += [ml.attention(q.double(), keys, v[: len(keys)]) for keys in (k, k[:5], 0.01 * k + 3.0, 0.0 * k)]
        return found

    def gradients(causal: bool, n: int) -> Callable[[], object]:
        def asked() -> object:
            parts = [part.requires_grad_() for part in drawn(6, 15.0, n)]
            return torch.autograd.grad(ml.attention(*parts, causal=causal).square().sum(), parts)

        return asked

    def refused() -> list[object]:
        q, k, v = drawn(9, 1.0, 5)
        cases: list[Any] = [
            (q.long(), k, v), (q, k.long(), v), (q, k, v.long()), (q[0], k, v), (q, k[0], v), (q, k, v[:-1]),
            (q.expand(2, 5), k.expand(3, 5), v.expand(3, 5, 2)), (q, k[:0], v[:0]), (q, k, v.expand(2, 5, 2)),
            (q[:0], k, v), (q.expand(0, 5), k.expand(0, 5), v.expand(0, 5, 2)), (q[:-1], k, v),
        ]  # fmt: skip
        return [attempt(lambda c=c, causal=causal: ml.attention(*c, causal=causal))  # type: ignore[misc]
                for c in cases for causal in (False, True)]  # fmt: skip

    return {
        "of many": average(40.0, 900), "of few": average(40.0, 300), "causal": average(20.0, 300, causal=True),
        "of equal queries": average(1.0, 700, change=equal), "against": average(1.0, 700, change=against),
        "of equal queries, causal": in_blocks(average(1.0, 700, change=equal, causal=True)),
        "against, causal": average(1.0, 700, change=against, causal=True), "wide": average(5000.0, 700),
        "wide and equal, causal": average(1.0, 300, change=lambda q, k, v: (0.0 * q + 900.0, k, v), causal=True),
        "batches": average(20.0, 2, 3, 600), "in blocks": in_blocks(average(40.0, 700)),
        "in blocks, causal": in_blocks(average(10.0, 90, causal=True)), "in single precision": average(
            20.0, 2, 600, change=lambda q, k, v: (q.float(), k, v[..., 0].float())),
        "edges": edges, "narrow": short, "gradients": gradients(False, 600), "gradients, causal": gradients(True, 40),
        "gradients of few": gradients(False, 40), "refused": refused,
    }  # fmt: skip


# -- weights in several files --------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Any, dict[str, bytes]], object]] = {
    "whole": lambda index, files: None,
    "another size": lambda index, files: index["metadata"].update(total_size=1),
    "a file missing": lambda index, files: files.pop("model-00002-of-00003.safetensors"),
    "another name": lambda index, files: files.update({"model-00009-of-00003.safetensors": files.popitem()[1]}),
    "a part cut": lambda index, files: files.update({"model-00002-of-00003.safetensors": _part(1, 3)[:-1]}),
    "a part longer": lambda index, files: files.update({"model-00002-of-00003.safetensors": _part(1, 3) + b"0"}),
    "another number": lambda index, files: _put(index, files, "model-00002-of-00003.safetensors", _part(2, 4)),
    "fewer columns": lambda index, files: _put(index, files, "model-00002-of-00003.safetensors", _part(1, 4, 3)),
    "fewer columns at the end": lambda index, files: _put(
        index, files, "model-00003-of-00003.safetensors", _part(2, 4, 3)),
    "other rows": lambda index, files: _put(index, files, "model-00002-of-00003.safetensors", _part(1, 4, rows=3)),
    "steps in the first file": lambda index, files: _put(
        index, files, "model-00001-of-00003.safetensors", save({sharded.SPLIT[0]: np.zeros(2)})),
    "a short bias": lambda index, files: _put(index, files, "model-00002-of-00003.safetensors", save(
        {f"{name}.1": np.zeros((2, 4), np.float32)[0 if number < 2 else slice(None)]
         for number, name in enumerate(sharded.SPLIT)})),
    "integers": lambda index, files: files.update(
        {"model-00001-of-00003.safetensors": save({"head.weight": np.arange(4)})}),
    "no safetensors": lambda index, files: files.update({"model-00001-of-00003.safetensors": b"\x02" + 9 * b"\0"}),
    "more about a tensor": lambda index, files: files.update({"model-00001-of-00003.safetensors": _raw(more=1)}),
    "a hole": lambda index, files: files.update({"model-00001-of-00003.safetensors": _raw(begin=8)}),
    "a negative length": lambda index, files: files.update({"model-00001-of-00003.safetensors": _raw(shape=[-1])}),
    "a length that is a flag": lambda index, files: files.update(
        {"model-00001-of-00003.safetensors": _raw(shape=[True])}),
    "one file": lambda index, files: [files.pop(name) for name in sorted(files)[1:]],
}  # fmt: skip
"""What is done to the index and the files before they are read."""


def _part(number: int, steps: int, columns: int | None = None, rows: int = 2, formats: Any = ("BF16", "F32")) -> bytes:
    """The file of a part with small whole numbers."""
    made = sharded.PartFormats(*formats)
    content = [sharded.part_header(number, steps, rows, made, columns), np.arange(steps, dtype=float).tobytes()]
    for shape, format in (((steps,), made.weight_1), ((rows, columns or steps), made.weight_2)):
        content.append(sharded.shortened(np.arange(np.prod(shape), dtype=float).reshape(shape), format).tobytes())
    return b"".join(content)


def _raw(begin: int = 0, shape: list[int] | None = None, **more: int) -> bytes:
    """A file of one tensor of one number, whose header says this of it."""
    said = {"a": {"dtype": "F64", "shape": [1] if shape is None else shape, "data_offsets": [begin, begin + 8], **more}}
    header = json.dumps(said).encode()
    return len(header).to_bytes(8, "little") + header + bytes(begin + 8)


def _put(index: Any, files: dict[str, bytes], name: str, content: bytes) -> None:
    """Another file, and the index that describes all of them."""
    files[name] = content
    held = {file: sharded.views(each, file) for file, each in files.items()}
    index["weight_map"] = {tensor: file for file, tensors in held.items() for tensor in tensors}
    index["metadata"]["total_size"] = sum(each.nbytes for tensors in held.values() for each in tensors.values())


def _shards(change: Callable[[Any, dict[str, bytes]], object]) -> list[object]:
    first = {"head.weight": np.arange(6.0).reshape(2, 3), "bos": np.arange(3, dtype=np.float32)}
    parts = [_part(1, 4), _part(2, 2, formats=("F64", "BF16"))]
    names = sharded.shard_names(3)
    files = dict(zip(names, [save(first), *parts], strict=True))
    folder = own_folder()
    sizes = []
    for name in names[1:]:
        (folder / name).write_bytes(files[name])
        sizes.append(sharded.part_bytes(folder / name))
    size = sum(each.nbytes for each in first.values()) + sum(sizes)
    index = json.loads(sharded.index_json(list(first), 2, size))
    change(index, files)
    read: list[Any] = [attempt(lambda f=f, c=c: sharded.views(c, f)) for f, c in files.items()]  # type: ignore[misc]
    joined = attempt(lambda: sharded.joined_tensors(index, dict(files)))
    return [sizes, index, read, attempt(lambda: sharded.check_index(index, dict(files))), joined]


def _names() -> list[object]:
    most = [0, 1, 255, 256, 257, 2**24, 2**24 + 1, 2**53, 2**53 + 1]
    numbers = np.array([[0.0, 1.0, -2.0], [0.5, 256.0, -0.0]])
    formats: Any = ("BF16", "F32", "F64")
    return [
        [sharded.format_of_whole_numbers(each) for each in most],
        [[sharded.stored_type(each), sharded.shortened(numbers, each)] for each in formats],
        [sharded._as_numbers(sharded.shortened(numbers, each)) for each in formats],
        [sharded.shard_names(count) for count in (1, 12)],
        [sharded.is_shard(name) for name in ("model-00001-of-00002.safetensors", "model.safetensors")],
        sharded.PartFormats(),
        sharded.part_header(12345, 10**9, 10**6, sharded.PartFormats()),
        sharded.index_json([], 0, 0),
    ]
