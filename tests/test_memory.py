"""What is remembered about a model's weights is forgotten when the model changes, in whatever way."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

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


def _in_place(model: Any) -> None:
    with torch.no_grad():
        model.feed_forward.stages[0].weight_2[0, 3] += 1.0


class Halved(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return -self.inner(*inputs)


def _wrap(part: str) -> Callable[[Any], object]:
    return lambda model: setattr(model, part, Wrapped(getattr(model, part)))


def _subclass(part: str) -> Callable[[Any], object]:
    """The part keeps its weights and gets a class of its own, whose forward pass returns minus what it did."""

    def change(model: Any) -> None:
        found = model.get_submodule(part)
        usual = type(found)
        found.__class__ = type("Contrary", (usual,), {"forward": lambda self, *given: -usual.forward(self, *given)})

    return change


def _wrap_stage(model: ml.Monolayer) -> None:
    stages: Any = model.feed_forward.stages
    stages[0] = Wrapped(stages[0])


CHANGES: dict[str, Callable[[Any], object]] = {
    "in place": _in_place,
    "new parameter": lambda m: setattr(
        m.feed_forward.stages[0], "weight_2", nn.Parameter(-m.feed_forward.stages[0].weight_2.detach())
    ),
    "new data": lambda m: setattr(
        m.feed_forward.stages[0].weight_2, "data", -m.feed_forward.stages[0].weight_2.detach()
    ),
    "past the version counter": lambda m: m.feed_forward.stages[0].weight_2.data.neg_(),
    "new module": lambda m: setattr(m, "head", nn.Linear(m.head.in_features, 4, dtype=torch.float64)),
    "hook": lambda m: m.feed_forward.register_forward_hook(lambda module, inputs, output: -output),
    "pre-hook": lambda m: m.attention.register_forward_pre_hook(lambda module, given: (2.0 * given[0], given[1])),
    "method": lambda m: setattr(m.head, "forward", lambda Z: -nn.functional.linear(Z, m.head.weight)),
    "parametrized": lambda m: parametrize.register_parametrization(m.lift, "weight", Halved()),
    "clipped": lambda m: setattr(m.lift, "max_norm", 1.0),
    "wrapped head": _wrap("head"),
    "wrapped lift": _wrap("lift"),
    "wrapped positions": _wrap("positions"),
    "wrapped readout": _wrap("feed_forward"),
    "wrapped stage": _wrap_stage,
    "hook on a stage": lambda m: m.feed_forward.stages[0].register_forward_hook(lambda *given: -given[2]),
    "clipped positions": lambda m: setattr(m.positions, "max_norm", 0.1),
    **{
        f"another class of {part}": _subclass(part)
        for part in ("lift", "positions", "attention", "feed_forward", "feed_forward.stages.0", "head")
    },
    "another model": lambda m: setattr(
        m, "__class__", type("C", (ml.Monolayer,), {"forward": lambda s, X, n=None: -ml.Monolayer.forward(s, X, n)})
    ),
    "W_Q": lambda m: m.attention.W_Q.data[1, 2].fill_(0.5),
    "W_K": lambda m: m.attention.W_K.data[1, 2].fill_(0.5),
    "W_O": lambda m: m.attention.W_O.data[3, 1].fill_(9.0),
    "one": lambda m: m.lift.weight.data[:20, 0].fill_(2.0),
    "label slot": lambda m: m.positions.weight.data[0, 3].fill_(1.0),
    "slope": lambda m: m.feed_forward.stages[0].weight_1.data[0].neg_(),
    "order": lambda m: m.feed_forward.stages[0].bias_1.data.copy_(m.feed_forward.stages[0].bias_1.data.flip(0)),
}
"""Ways to change a model so that it answers differently."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(model: ml.Monolayer, change: str) -> None:
    CHANGES[change](model)
    answers = model.predict(X)
    assert np.array_equal(answers, model(torch.from_numpy(X)).argmax(-1).numpy())
    assert not np.array_equal(answers, Y)


@pytest.mark.parametrize("part", ["head", "lift", "attention", "feed_forward", "a hook"])
def test_a_robust_model_with_a_wrapped_part_answers_by_its_dense_form(part: str) -> None:
    model = ml.memorize(X[:9], Y[:9], positions=True, robust=True)
    CHANGES["hook"](model) if part == "a hook" else _wrap(part)(model)
    assert np.array_equal(model.predict(X[:9]), model.predict(X[:9], path="dense"))
    assert not np.array_equal(model.predict(X[:9]), Y[:9])


def _cascade() -> ml.Monolayer:
    """A line on which many points are too close, because steps ask for more room."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("points", "separate"):
            patch.setattr(f"monolayer.construct.line.{module}.SLACK", 2e12)
        model = ml.memorize(X[:30], Y[:30], positions=True)
    assert len(model.feed_forward.stairs) > 1
    return model


EVERYWHERE: dict[str, tuple[Callable[[], Any], Any]] = {
    "tokens": (lambda: ml.memorize(X[:5], Y[:5], positions=True), X[:5]),
    "causal": (lambda: ml.memorize(X[:5], X[:5].cumsum(axis=1) % 4, causal=True, positions=True), X[:5]),
    "sequences": (lambda: ml.memorize(X[:5], Y[:5, 0]), X[:5]),
    "reals": (lambda: ml.memorize(X[:5], Y[:5, :, None] * np.array([0.5, -3.0]), positions=True), X[:5]),
    "vectors": (
        lambda: ml.memorize(np.sin(X[:5, :, None] * [1.0, 2.0]), Y[:5], positions=True),
        np.sin(X[:5, :, None] * [1.0, 2.0]),
    ),
    "cascade": (_cascade, X[:30]),
    "a function": (lambda: ml.approximate(lambda X: X.sum(axis=2), 2, 2, cells=3), RANDOM.random((5, 2, 2))),
}


@pytest.mark.parametrize(
    ("kind", "new"),
    # Models that differ only in who answers and who sees whom hold the same numbers.
    [(kind, new) for kind in EVERYWHERE for new in (0.75, np.nan) if new > 0 or kind not in ("causal", "sequences")],
)
def test_whatever_number_is_changed_predict_is_the_network(kind: str, new: float) -> None:
    """Every number of every column of small tensors, and some rows of large ones; a NaN anywhere, too."""
    build, rows = EVERYWHERE[kind]
    model = build()
    assert np.allclose(model.predict(rows, path="fast"), model.predict(rows, path="dense"), rtol=1e-9, atol=1e-9)
    whole = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, tensor in model.named_parameters():
        for place in _places(tensor.shape):
            with torch.no_grad():
                tensor[place] += new
            found, wanted = _answers(model, rows)
            assert (found is None) == (wanted is None), (name, place)
            assert found is None or np.allclose(found.reshape(wanted.shape), wanted, rtol=1e-9, atol=1e-9), (
                name,
                place,
            )
            with torch.no_grad():
                tensor.copy_(whole[name])


def _places(shape: torch.Size) -> Iterator[tuple[int, ...]]:
    """Places of a tensor: all columns of up to eight; of more, of rows, or of neurons, two, the middle and the last."""
    most = [6] * (len(shape) - 1) + [8]
    return product(
        *(range(size) if size <= few else (0, 1, size // 2, size - 1) for size, few in zip(shape, most, strict=True))
    )


def _answers(model: ml.Monolayer, rows: Any) -> tuple[Any, Any]:
    """What a model answers, and what its network does; None where it refuses, because there is no number to give."""
    found = wanted = None
    with suppress(ml.DataError):
        found = model.labels(model.encode(rows))
    with suppress(ml.DataError), torch.no_grad():
        out = model(torch.from_numpy(rows))
        answer = out if model.card.classes is None else out.argmax(-1, keepdim=True)
        wanted = None if out.isnan().any() else answer.numpy().reshape(-1, answer.shape[-1])
    return found, wanted


def test_an_approximator_with_another_quantizer_answers_by_its_dense_form() -> None:
    model = ml.approximate(lambda X: X.sum(axis=2), 2, 2, cells=3)
    rows = RANDOM.random((20, 2, 2))
    usual = model.predict(rows)
    _subclass("quantizer")(model)
    assert np.array_equal(model.predict(rows), model.predict(rows, path="dense"))
    assert not np.array_equal(model.predict(rows), usual)


def test_hooks_on_any_part_and_everywhere_are_called_by_predict(
    model: ml.Monolayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where weights are not looked at again."""
    monkeypatch.setattr(shortcut, "SCAN", 0)
    calls: list[str] = []
    for part in ("lift", "positions", "attention", "feed_forward", "head", "", "everywhere"):
        add = nn.modules.module.register_module_forward_hook
        add = add if part == "everywhere" else model.get_submodule(part).register_forward_hook
        handle = add(lambda *_, part=part: calls.append(part))
        try:
            model.predict(X)
        finally:
            handle.remove()
        assert part in calls
    assert np.array_equal(model.predict(X, path="fast"), Y)  # once they are gone, the shortcut is back


def _unseen(weight: torch.Tensor) -> int:
    """A number of a tensor that is not among those that are compared."""
    return next(i for i in range(weight.numel()) if i % max(1, weight.numel() // memory.SAMPLED_NUMBERS))


def test_one_number_changed_behind_the_counters_is_noticed_by_many_answers_and_else_by_looking_again(
    model: ml.Monolayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit that `memory.py` states, and the way out."""
    weight = model.feed_forward.stages[0].weight_2
    with monkeypatch.context() as patched:
        patched.setattr(shortcut, "SCAN", 0)  # as if the model were large beside the question
        weight.data[0, _unseen(weight)] += 1.0
        assert np.array_equal(model.predict(X), Y)
        look_again(model)
        assert not np.array_equal(model.predict(X), Y)
        patched.setattr(shortcut, "_plan", lambda model: pytest.fail("the weights were scanned again"))
        model.predict(X[:1])
    weight.data[0, _unseen(weight)] -= 1.0
    assert np.array_equal(model.predict(X), Y)


def test_inference_tensors_have_no_counters_and_are_not_remembered() -> None:
    with torch.inference_mode():
        model = ml.memorize(X, Y, positions=True)
        assert np.array_equal(model.predict(X), Y)
        model.feed_forward.stages[0].weight_2.neg_()
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
    remembered(other, lambda: 1)
    gone = ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_the_dense_path_never_takes_the_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers by the network are what the shortcut is compared with: they must not come from it."""
    model = ml.memorize([["a", "b"], ["b", "c"]], [["x", "y"], ["y", "x"]])
    asked = model.encode([["a", "b"], ["b", "c"]])
    wanted = model.labels(asked).tolist()

    def asked_shortcut(*_: object) -> None:
        raise AssertionError("the shortcut was asked")

    monkeypatch.setattr("monolayer.model.monolayer.fast_labels", asked_shortcut)
    with pytest.raises(AssertionError, match="the shortcut was asked"):
        model.labels(asked)
    assert model.labels(asked, path="dense").tolist() == wanted
