"""Pictures: what they draw is what the network computes, and a page of one loads nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.model.plot import MOST_NEURONS


def wave(X: Any) -> Any:
    return np.sin(5.0 * X)


@pytest.mark.parametrize(("dim", "length", "norm"), [(1, 1, "mean"), (2, 1, "mean"), (1, 2, "sup"), (1, 3, "mean")])
def test_function_network_and_error_are_drawn(dim: int, length: int, norm: Any) -> None:
    model = ml.approximate(lambda X: wave(X).sum(-1), dim, length, cells=4, norm=norm)
    figure = model.plot(lambda X: torch.sin(5.0 * X).sum(-1), name="<wave>")  # tensors, too
    drawn = {each.name.lower(): np.asarray(each.y if dim * length == 1 else each.z) for each in figure.data}
    assert set(drawn) == {"function", "network", "error"}
    assert np.array_equal(drawn["error"], np.abs(drawn["network"] - drawn["function"]))
    assert "&lt;wave&gt;" in figure.layout.title.text
    if dim * length > 1:
        line, place = np.asarray(figure.data[0].x), (7, 99)
        X = np.full((1, length, dim), 0.625)  # the centre of the third of four cells
        X[0, 0, 0] = line[place[1]]
        X[0, *((1, 0) if length > 1 else (0, 1))] = line[place[0]]
        assert drawn["network"][place] == pytest.approx(np.asarray(model.predict(X)).reshape(-1)[0])
    assert {each.name.lower() for each in model.plot().data} == {"network"}


def test_a_staircase_is_drawn_as_the_labels_over_z() -> None:
    X = np.arange(24).reshape(12, 2)
    model = ml.memorize(X, np.arange(12) % 3, per="sequence")
    (drawn,) = model.plot().data
    (steps,) = model.feed_forward.tables()
    assert len(drawn.x) == 2 * len(steps.start) + 2
    middle = (np.asarray(drawn.x)[::2] + np.asarray(drawn.x)[1::2]) / 2  # of every plateau
    assert np.array_equal(np.asarray(drawn.y)[::2], steps(torch.tensor(middle))[:, 0].numpy())


def test_half_spaces_are_those_that_a_context_can_wake() -> None:
    X = [["a", "b"], ["a", "c"], ["b", "c"], ["c", "d"], ["a", "d"]]
    model = ml.memorize(X, [["x", "y"], ["y", "x"], ["x", "y"], ["y", "y"], ["x", "x"]], robust=True)
    bars, dots = model.plot(token="a").data
    assert 0 < len(bars.y) <= MOST_NEURONS
    ends = np.asarray(bars.base) + np.asarray(bars.x)
    assert np.allclose(ends, 1.0)
    assert (np.asarray(bars.base) < 1.0).all()
    assert len(dots.x) == len(bars.y) * (len(bars.y) - 1)
    for given, words in (({"token": "e"}, "no token 'e'"), ({"f": wave}, "only an approximator")):
        with pytest.raises(ml.DataError, match=words):
            model.plot(**given)


def test_pages_of_commands_load_nothing(tmp_path: Path, monkeypatch: Any, said: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ml.memorize({"a": "x", "b": "y"}).save("model")
    for command in ("inspect model --plot out.html", "approximate sort --cells 4 --plot out.html --overwrite"):
        said(command)
        page = Path("out.html").read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|link)\b[^>]*\s(?:src|href)=", page)
    for command, words in (
        ("inspect model --plot out.html", "exists already"),
        ("inspect model --token a", "--token chooses what --plot draws"),
        ("inspect model --plot new.html --token a", "a staircase is shared by all tokens"),
        ("approximate sort --cells 4 --plot out.html", "exists already"),
    ):
        assert words in said(command, code=2, errors=True)
    assert not Path("new.html").exists()
