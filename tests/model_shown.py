"""Questions to what is shown of models: the numbers behind pictures and explanations, and the words beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import monolayer as ml
from monolayer.model import plot
from tests.kinds import built
from tests.record import Ask, attempt

WORDS = [["a", "b"], ["a", "c"], ["b", "c"], ["c", "d"], ["a", "d"]]
LABELS = [["x", "y"], ["y", "x"], ["x", "y"], ["y", "y"], ["x", "x"]]
ODD = {"<b>": "x", "c d": "y", "e f g": "<i>", "a key that is too long to be shown whole, in a picture": "x" * 90}


def questions() -> Iterator[tuple[str, Ask]]:
    """Each with its name."""
    for name, picture in _pictures().items():
        yield f"picture {name}", (lambda picture=picture: _drawn(picture()))  # type: ignore[misc]
    yield "picture refused", _refused
    for name, (model, rows) in _explained().items():
        yield f"explained {name}", (lambda model=model, rows=rows: _explanation(model, rows))  # type: ignore[misc]


# -- pictures ------------------------------------------------------------------------------------------------------


def _wave(X: Any) -> Any:
    return (torch if isinstance(X, torch.Tensor) else np).sin(5.0 * X).sum(-1)


def _tensors_only(X: Any) -> Any:
    return torch.sin(X).sum(-1)


def _pictures() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for dim, length, norm, cells in ((1, 1, "mean", 4), (2, 1, "mean", 3), (1, 2, "sup", 4), (1, 3, "mean", 3)):
        more: Any = {"norm": "sup"} if norm == "sup" else {"lipschitz": 10.0}
        model = ml.approximate(_wave, dim, length, cells=cells, domain=(-1.0, 2.0), **more)
        for what, f in (("", None), (" beside a wave", _wave), (" beside tensors", _tensors_only)):
            found[f"{dim} {length}{what}"] = lambda model=model, f=f: model.plot(f, name="<wave>")  # type: ignore[misc]
    table = {**ODD, **{f"k{i}": f"v{i * 7 % 101:03}" for i in range(60)}}
    longer, words = ml.memorize({f"k{i}": i * 7 % 101 for i in range(120)}), ml.memorize(table)
    sizes: dict[str, dict[str, int]] = {
        "whole": {}, "some steps": {"MOST_DRAWN_STEPS": 50, "WINDOW_STEPS": 20}, "an odd number of steps": {
            "MOST_DRAWN_STEPS": 71},
        "a window": {"MOST_SEEN_STEPS": 60, "WINDOW_STEPS": 20}, "few keys": {"MOST_DRAWN_KEYS": 9},
        "many names": {"MOST_NAMED_KEYS": 40, "LONGEST_NAME": 30}, "few ticks": {"MOST_TICKS": 3},
    }  # fmt: skip
    for name, size in sizes.items():
        found[f"numbers, {name}"] = lambda size=size: _with(size, lambda: longer.plot())  # type: ignore[misc]
        found[f"words, {name}"] = lambda size=size: _with(size, lambda: words.plot())  # type: ignore[misc]
    cascade, _ = built("cascade tokens")
    robust, places = ml.memorize(WORDS, LABELS, robust=True), ml.memorize(WORDS, LABELS, robust=True, positions=True)
    numbers = ml.memorize([[1, 2], [2, 3], [3, 1]], [0, 1, 0], robust=True, per="sequence")
    tokens = ml.memorize([[1, 2], [2, 3], [3, 1]], [[0, 1], [1, 0], [1, 1]], robust=True)
    ordered = ml.memorize({("a", "b"): 1, ("a", "a"): 2, ("c",): 3})
    hooked = ml.memorize({"a": 1, "b": 2})
    hooked.head.register_forward_hook(lambda *_: None)
    return found | {
        "one step": lambda: ml.memorize({"a": 1, "b": 2}, unknown=False).plot(),
        "no step": lambda: ml.memorize([[1, 2]], [3]).plot(),
        "stages": lambda: cascade.plot(),
        "stages, through windows": lambda: _with({"MOST_SEEN_STEPS": 5, "WINDOW_STEPS": 4}, lambda: cascade.plot()),
        "reals": lambda: ml.memorize([[1, 2], [2, 1]], [[0.5, 1.5], [2.5, -1.0]], positions=True).plot(),
        "lost keys": lambda: ordered.plot(),
        "hooked": lambda: hooked.plot(),
        "half-spaces": lambda: robust.plot(token="a"),
        "half-spaces of the first": lambda: robust.plot(),
        "half-spaces at places": lambda: places.plot(token="b"),
        "few half-spaces": lambda: _with({"MOST_NEURONS": 2}, lambda: robust.plot(token="c")),
        "half-spaces of sequences": lambda: numbers.plot(),
        "half-spaces of a number": lambda: tokens.plot(token=2),
        "half-spaces of a number in words": lambda: tokens.plot(token="3"),
    }


def _with(sizes: Mapping[str, int], ask: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sizes.items():
            patch.setattr(plot, name, value)
        return ask()


def _drawn(figure: Any) -> list[object]:
    """What is drawn, where, and in which words: all but Plotly's own template of colours."""
    said = figure.to_dict()
    said["layout"].pop("template", None)
    return [said["data"], said["layout"]]


def _refused() -> list[object]:
    robust = ml.memorize(WORDS, LABELS, robust=True)
    model, sequences = ml.memorize(WORDS, LABELS), ml.memorize(WORDS, list("xyxyx"), robust=True, per="sequence")
    curve = ml.approximate(_wave, 1, 1, cells=2, lipschitz=10.0)
    short: list[Callable[[], Any]] = [
        lambda: robust.plot(token="e"), lambda: robust.plot(token="7"), lambda: model.plot(token="a"),
        lambda: model.plot(_wave), lambda: sequences.plot(token="a"), lambda: curve.plot(lambda X: X.sum()),
        lambda: curve.plot(lambda X: X.missing), lambda: curve.plot(lambda X: X[:1]),
    ]  # fmt: skip
    return [attempt(lambda ask=ask: _drawn(ask())) for ask in short]  # type: ignore[misc]


def page() -> str:
    """A page less Plotly's script, and the name that it draws for its picture."""
    page = plot.picture_page(ml.memorize({"a": 1, "b": 2}).plot())
    page = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", page)
    return re.sub(r"<script[^>]*>.{100000,}?</script>", "<script>plotly</script>", page, flags=re.DOTALL)


# -- explanations --------------------------------------------------------------------------------------------------


def _explained() -> dict[str, tuple[Any, Any]]:
    numbers = np.random.RandomState(2).randint(0, 9, (12, 4))
    odd = [[" ", "\x1b[2J"], ["a\u202eb", "<b>"], ["", "x" * 99]]
    found: dict[str, tuple[Any, Any]] = {
        "tokens": (ml.memorize(WORDS, LABELS), WORDS),
        "places": (ml.memorize(numbers, numbers % 3, positions=True), numbers[:3]),
        "causal": (ml.memorize(numbers, numbers.cumsum(axis=1) % 5, positions=True, causal=True), numbers[:3]),
        "sequences": (ml.memorize(WORDS, list("xyxyx"), per="sequence"), WORDS[:3]),
        "reals": (ml.memorize(numbers, numbers[..., None] * np.array([0.1, -3.0])), numbers[:2]),
        "vectors": (ml.memorize(np.linspace(0.0, 1.0, 24).reshape(3, 4, 2), [0, 1, 2]), np.full((1, 4, 2), 0.3)),
        "next tokens": (ml.memorize(np.arange(9)[None], causal=True), np.arange(9)[None]),
        "odd names": (ml.memorize(odd, [["-", "—"], [" ", ""], ["\t", "y"]]), odd),
        "a table": (ml.memorize(ODD), list(ODD)),
        "robust": (ml.memorize(WORDS, LABELS, robust=True), WORDS),
    }
    rows = ["银行", "行走", "音乐", "快乐"]
    ramp = ml.memorize(rows, [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"]])
    steps: Any = ramp.feed_forward.stages[0]
    z, ends = np.sort(ramp.explain(rows).z), steps.steps()
    with torch.no_grad():
        steps.bias_1[1] -= steps.weight_1[1] * (float(z[1]) - float(ends.start[1] + ends.end[1]) / 2)
    found["a ramp"] = ramp, rows
    wide = ml.memorize(WORDS, LABELS)
    with torch.no_grad():
        wide.attention.W_K.mul_(1e8)
    found["wide scores"] = wide, WORDS
    return found


def _explanation(model: Any, rows: Any) -> list[object]:
    found = model.explain(rows)
    text = StringIO()
    Console(width=160, file=text, color_system=None).print(found.table())
    return [found.json(), found.margin, repr(found), text.getvalue()]
