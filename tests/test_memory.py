"""What is remembered about a model's weights is forgotten when the model changes, in whatever way."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from torch import nn

import monolayer as ml
from monolayer.model import memory, shortcut
from monolayer.model.memory import look_again, remembered

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.integers(0, 40, (60, 7)), RANDOM.integers(0, 4, (60, 7))


@pytest.fixture
def model() -> ml.Monolayer:
    built = ml.memorize(X, Y, positions=True)
    assert np.array_equal(built.predict(X), Y)  # from here on the weights are known
    return built


def _in_place(model: ml.Monolayer) -> None:
    with torch.no_grad():
        model.feed_forward.weight_2[0, 3] += 1.0


def _optimizer(model: ml.Monolayer) -> None:
    step = torch.optim.SGD(model.parameters(), lr=0.25)
    model.feed_forward.weight_2.grad = torch.ones_like(model.feed_forward.weight_2)
    step.step()


def _state(model: ml.Monolayer) -> None:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["head.bias"][1] += 100.0
    model.load_state_dict(state)


def _new_parameter(model: ml.Monolayer) -> None:
    model.feed_forward.weight_2 = nn.Parameter(-model.feed_forward.weight_2.detach())


def _new_data(model: ml.Monolayer) -> None:
    model.feed_forward.weight_2.data = -model.feed_forward.weight_2.detach()


def _all_of_data(model: ml.Monolayer) -> None:
    model.feed_forward.weight_2.data.neg_()  # past the version counter


def _new_module(model: ml.Monolayer) -> None:
    other = nn.Linear(model.head.in_features, model.head.out_features, dtype=torch.float64)
    model.head = other


def _readout(model: ml.Monolayer) -> None:
    model.feed_forward.readout = "paper"


def _hook(model: ml.Monolayer) -> None:
    model.feed_forward.register_forward_hook(lambda module, inputs, output: -output)


def _pre_hook(model: ml.Monolayer) -> None:
    model.attention.register_forward_pre_hook(lambda module, inputs: (2.0 * inputs[0], inputs[1]))


def _method(model: ml.Monolayer) -> None:
    model.head.forward = lambda Z: -nn.functional.linear(Z, model.head.weight)  # type: ignore[method-assign]


CHANGES: list[Callable[[Any], None]] = [
    _in_place,
    _optimizer,
    _state,
    _new_parameter,
    _new_data,
    _all_of_data,
    _new_module,
    _readout,
    _hook,
    _pre_hook,
    _method,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_a_change_is_noticed(model: ml.Monolayer, change: Callable[[Any], None]) -> None:
    change(model)
    assert np.array_equal(model.predict(X), model.predict(X, path="dense"))
    assert not np.array_equal(model.predict(X), Y)


def test_a_hook_everywhere_is_noticed(model: ml.Monolayer) -> None:
    seen: list[type] = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, i, o: seen.append(type(module)))
    try:
        model.predict(X)
    finally:
        handle.remove()
    assert nn.Linear in seen


def test_a_hook_that_is_taken_away_lets_the_shortcut_back_in(model: ml.Monolayer) -> None:
    handle = model.head.register_forward_hook(lambda module, inputs, output: -output)
    with pytest.raises(ml.DataError, match="fast path"):
        model.predict(X, path="fast")
    handle.remove()
    assert np.array_equal(model.predict(X, path="fast"), Y)


def test_a_blanked_token_is_noticed(model: ml.Monolayer) -> None:
    with torch.no_grad():
        model.lift.weight[int(X[0, 0])] = torch.nan
    with pytest.raises(ml.DataError, match=r"token 0 of sequence 0 .* never seen"):
        model.predict(X)


def _unseen(weight: torch.Tensor) -> int:
    """A number of a tensor that is not among those that are compared."""
    return next(i for i in range(weight.numel()) if i % max(1, weight.numel() // memory.SAMPLES))


def test_one_number_changed_behind_the_counters_is_noticed_by_many_answers(model: ml.Monolayer) -> None:
    weight = model.feed_forward.weight_2
    weight.data[0, _unseen(weight)] += 1.0
    assert np.array_equal(model.predict(X), model.predict(X, path="dense"))
    assert not np.array_equal(model.predict(X), Y)


def test_and_by_few_only_after_looking_again(model: ml.Monolayer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit that `memory.py` states, and the way out."""
    monkeypatch.setattr(shortcut, "SCAN", 0)  # as if the model were large beside the question
    weight = model.feed_forward.weight_2
    weight.data[0, _unseen(weight)] += 1.0
    assert np.array_equal(model.predict(X), Y)
    look_again(model)
    assert not np.array_equal(model.predict(X), Y)


def test_the_weights_are_looked_at_once(model: ml.Monolayer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcut, "SCAN", 0)
    monkeypatch.setattr(shortcut, "_plan", lambda model: pytest.fail("the weights were scanned again"))
    model.predict(X)
    model.predict(X[:1])


def test_inference_tensors_have_no_counters_and_are_not_remembered() -> None:
    with torch.inference_mode():
        model = ml.memorize(X, Y, positions=True)
        assert np.array_equal(model.predict(X), Y)
        model.feed_forward.weight_2.neg_()
        assert not np.array_equal(model.predict(X), Y)


def test_copies_and_pickles_are_models_of_their_own(model: ml.Monolayer) -> None:
    size = len(pickle.dumps(model))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        _in_place(other)
        assert not np.array_equal(other.predict(X), Y)
        assert np.array_equal(model.predict(X), Y)
    assert len(pickle.dumps(model)) == size


def test_memory_does_not_keep_a_model_alive(model: ml.Monolayer) -> None:
    other = copy.deepcopy(model)
    remembered(other, "test", lambda: 1)
    gone = ref(other)
    del other
    gc.collect()
    assert gone() is None
