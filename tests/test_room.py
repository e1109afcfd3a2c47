"""Memory of the dense pass: blocked by sequences and queries, equal to the pass in one piece, counted beforehand."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import monolayer as ml
from monolayer.model import attention, room


class Peak(TorchDispatchMode):
    """Bytes of the tensors that are made inside, as many as live at one time, and the largest of them."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, int] = {}
        self.now = self.most = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.hold(leaf, leaf.untyped_storage()._cdata in before)
        return out

    def hold(self, tensor: Tensor, old: bool) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if old and key not in self.live:
            return  # a view of what was there before
        if key not in self.live:
            self.live[key] = 0
            self.now += size
            self.most, self.largest = max(self.most, self.now), max(self.largest, size)
        self.live[key] += 1
        weakref.finalize(tensor, self.drop, key, size)

    def drop(self, key: int, size: int) -> None:
        self.live[key] -= 1
        if self.live[key] == 0:
            del self.live[key]
            self.now -= size


def long_model(causal: bool, per: str = "token") -> ml.Monolayer:
    X = [[0, 1, 2, 1], [2, 2, 0]]
    return ml.memorize(X, [[0, 1, 2, 1], [2, 2, 0]] if per == "token" else [1, 0], causal=causal)


@torch.no_grad()
def peak(model: ml.Monolayer, X: Tensor, lengths: Tensor | None = None) -> Peak:
    model(X, lengths)  # what is remembered from the first call is no memory of the pass
    with Peak() as found:
        model(X, lengths)
    return found


@pytest.mark.parametrize("causal", [False, True])
def test_one_long_sequence_takes_memory_for_its_tokens_not_for_their_pairs(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", 1 << 14)
    model = long_model(causal)
    size = {n: peak(model, torch.randint(0, 3, (1, n))) for n in (500, 2000)}
    assert size[2000].largest <= 8 << 14, "no tensor is larger than a block"
    assert size[2000].most < 4.2 * size[500].most, "pairs would take sixteen times as much"


@pytest.mark.parametrize("per", ["token", "sequence"])
@pytest.mark.parametrize(("sequences", "length"), [(1, 1500), (100, 20), (7, 1)])
def test_what_is_counted_is_what_is_held(
    per: str, sequences: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", 1 << 15)
    monkeypatch.setattr(room, "SCORES_AT_ONCE", 1 << 15)
    for causal in (False, True) if per == "token" else (False,):
        model = long_model(causal, per)
        X = torch.randint(0, 3, (sequences, length))
        for lengths in (None, torch.randint(1, length + 1, (sequences,))):
            held, counted = peak(model, X, lengths).most, room.dense_bytes(model, sequences, length)
            # A sequence too long for its scores goes in linear time, and takes less than the block that is counted.
            assert held <= counted <= 6 * held, (held, counted)


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_give_what_one_piece_gives_and_so_do_their_gradients(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = long_model(causal)
    X, lengths = torch.randint(0, 3, (5, 40)), torch.tensor([40, 1, 17, 39, 2])

    def both() -> tuple[np.ndarray, Tensor]:
        model.zero_grad()
        out = model(X, lengths)
        out[:, :1].sum().backward()
        gradient = model.attention.W_O.grad
        assert gradient is not None
        return out.detach().numpy()[np.arange(40) < lengths.numpy()[:, None]], gradient.clone()

    whole, slope = both()
    for scores in (1, 100, 41 * 7, 41 * 41 + 1, 3 * 41 * 41):
        monkeypatch.setattr(attention, "SCORES_AT_ONCE", scores)
        parts, gradient = both()
        assert np.allclose(parts, whole, rtol=0, atol=1e-12)
        assert torch.allclose(gradient, slope, rtol=1e-9, atol=1e-12)
        with torch.no_grad():
            assert np.allclose(model(X, lengths).numpy()[np.arange(40) < lengths.numpy()[:, None]], whole, atol=1e-12)
