"""Ids and classes on a device become the line that the same numbers on a processor become, to the bit.

There is no device here: tensors on the processor take the same path, with NumPy kept out of their sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import monolayer as ml
from monolayer import kernels
from monolayer.construct import memorize as memorizing
from monolayer.construct import rectangle
from monolayer.construct.rectangle import on_device
from monolayer.kernels import counts_of
from monolayer.model import contexts
from monolayer.model.contexts import added

RANDOM = np.random.default_rng(12)
X = np.stack([RANDOM.permutation(50)[:7] for _ in range(120)])
TOKENS, SEQUENCES = RANDOM.integers(0, 5, X.shape), RANDOM.integers(0, 5, len(X))
DIFFERENT = RANDOM.permutation(840).reshape(120, 7)

KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a label per token": (X, TOKENS, {}),
    "a label per sequence": (X, SEQUENCES, {}),
    "a label per sequence, asked for": (X, SEQUENCES, {"per": "sequence"}),
    "one label": (X, np.zeros_like(X), {}),
    "positions": (X, TOKENS, {"positions": True}),
    "causal": (DIFFERENT, TOKENS, {"causal": True, "positions": True}),
    "next tokens": (DIFFERENT[:20], None, {"causal": True}),
    "a temperature and a seed": (X, TOKENS, {"temperature": 1.5, "seed": 3}),
    "float32": (X, TOKENS, {"dtype": "float32"}),
    "ids with gaps": (3 * X, 2 * TOKENS, {}),
    "short integers": (X.astype(np.int16), TOKENS.astype(np.uint8), {}),
    "more columns than NumPy adds side by side": (RANDOM.integers(0, 50, (3, 300)), RANDOM.integers(0, 2, 3), {}),
}


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ml.Monolayer]:
    """`memorize` as if these arrays lay on a device; an error if they are read like other data all the same."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("these were read on the processor")

    def memorize(X: Any, Y: Any, **options: Any) -> ml.Monolayer:
        tensors = [None if part is None else torch.from_numpy(part) for part in (X, Y)]
        with monkeypatch.context() as patch:
            patch.setattr(memorizing, "elsewhere", lambda X: True)
            patch.setattr(memorizing, "sequences_of", never)
            patch.setattr(contexts, "readable", lambda x: False)
            patch.setattr(kernels, "LAST", 100)  # few enough that some token is met only further back
            return ml.memorize(*tensors, **options)

    return memorize


def same(ours: ml.Monolayer, usual: ml.Monolayer) -> bool:
    """Whether two models have the same weights, to the bit, and say the same of themselves."""
    for one, two in zip(ours.state_dict().values(), usual.state_dict().values(), strict=True):
        if one.dtype != two.dtype or one.numpy().tobytes() != two.numpy().tobytes():
            return False
    return ours.summary == usual.summary and ours.card.draw == usual.card.draw


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_summary_are_the_processors(kind: str, there: Callable[..., ml.Monolayer]) -> None:
    X, Y, options = KINDS[kind]
    assert same(there(X, Y, **options), ml.memorize(X, Y, **options))


@pytest.mark.parametrize(("kind", "slack"), [("a label per token", 1e11), ("a label per sequence", 2e11)])
def test_points_too_close_get_the_processors_stages(
    kind: str, slack: float, there: Callable[..., ml.Monolayer], demanding: Callable[[float], None]
) -> None:
    demanding(slack)
    X, Y, options = KINDS[kind]
    ours = there(X, Y, **options)
    assert ours.summary is not None
    assert ours.summary.rank > 1
    assert same(ours, ml.memorize(X, Y, **options))


@pytest.mark.parametrize("on_conflict", ["first", "majority", "error"])
@pytest.mark.parametrize("positions", [False, True])
def test_contradictions_are_settled_as_on_the_processor(
    on_conflict: Any, positions: bool, there: Callable[..., ml.Monolayer]
) -> None:
    rows = np.concatenate([X, X[:9], X[:5]])
    labels = np.concatenate([TOKENS, TOKENS[:9] + (np.arange(63).reshape(9, 7) % 4 == 0), TOKENS[:5]])
    options = {"on_conflict": on_conflict, "positions": positions}
    if on_conflict != "error":
        ours = there(rows, labels, **options)
        assert ours.summary is not None
        assert ours.summary.conflicts == 16
        assert same(ours, ml.memorize(rows, labels, **options))
        return
    with pytest.raises(ml.ContradictionError) as usual:
        ml.memorize(rows, labels, **options)
    with pytest.raises(ml.ContradictionError) as found:
        there(rows, labels, **options)
    assert str(found.value) == str(usual.value)
    assert "sequence 120" in str(found.value)


def test_data_that_rank_1_cannot_hold_are_named_as_on_the_processor(
    there: Callable[..., ml.Monolayer], demanding: Callable[[float], None]
) -> None:
    demanding(1e11)
    with pytest.raises(ml.PrecisionError) as usual:
        ml.memorize(X, TOKENS, rank=1)
    with pytest.raises(ml.PrecisionError) as found:
        there(X, TOKENS, rank=1)
    assert str(found.value) == str(usual.value)


@pytest.mark.parametrize(
    ("X", "Y", "options"),
    [
        pytest.param([[1, 2]], [[0, -100]], {}, id="a label is missing"),
        pytest.param([[-1, 2]], [[0, 1]], {}, id="an id below 0"),
        pytest.param([[10**9, 2]], [[0, 1]], {}, id="ids far apart"),
        pytest.param([[1, 2]], [[0, 10**9]], {}, id="classes far apart"),
        pytest.param([[1, 2]], [[0.5, 1.5]], {}, id="real labels"),
        pytest.param([[1, 2]], [[True, False]], {}, id="yes or no"),
        pytest.param([[1, 2]], [[0, 1, 2]], {}, id="too many labels"),
        pytest.param([[[0.5], [1.5]]], [[0, 1]], {}, id="vectors"),
        pytest.param([[1, 2]], [[0, 1]], {"per": "sequence"}, id="labels of another shape than asked for"),
        pytest.param([[1, 2]], [0], {"causal": True}, id="a causal label per sequence"),
        pytest.param([[1], [2]], None, {"causal": True}, id="no next token"),
        pytest.param([[1, 2]], None, {}, id="no labels"),
        pytest.param([[]], [[]], {}, id="nothing"),
    ],
)
def test_what_is_not_plain_is_read_like_other_data(X: Any, Y: Any, options: dict[str, Any]) -> None:
    labels = None if Y is None else torch.tensor(Y)
    assert on_device(torch.tensor(X), labels, options.get("per"), options.get("causal", False)) is None


def test_too_little_memory_says_how_much_and_what_to_do(
    there: Callable[..., ml.Monolayer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(rectangle.IdsOnDevice, "lengths", property(full))
    words = r"840 labels need about .* GiB on cpu .* split the data over several"
    with pytest.raises(ml.OutOfMemoryError, match=words):
        there(X, TOKENS)


@given(rows=st.integers(1, 4), columns=st.integers(1, 400), seed=st.integers(0, 10**6))
def test_columns_are_added_in_the_order_of_numpy(rows: int, columns: int, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=(rows, columns)) * 10.0 ** (np.arange(columns) % 9)
    usual = np.add.reduceat(table.reshape(-1), columns * np.arange(rows))
    assert added(torch.from_numpy(table)).tolist() == usual.tolist()


def test_another_order_of_columns_gives_other_bits() -> None:
    """So that the test above can fail."""
    table = np.random.default_rng(0).normal(size=(16, 400))
    usual = np.add.reduceat(table.reshape(-1), 400 * np.arange(16))
    assert added(torch.from_numpy(table[:, ::-1].copy())).tolist() != usual.tolist()


@pytest.mark.parametrize("size", [1, 2, 16, 20, 21, 300])
@pytest.mark.parametrize("count", [0, 1, 2, 1001])
def test_numbers_are_counted_alike(size: int, count: int) -> None:
    values = np.random.default_rng(size).integers(0, size, count)
    assert counts_of(torch.from_numpy(values), size).tolist() == np.bincount(values, minlength=size).tolist()
