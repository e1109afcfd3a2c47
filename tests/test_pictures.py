"""Pictures: what they draw is what the network computes, and a page of one loads nothing from elsewhere."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.model import plot
from monolayer.model.plot import MOST_NAMED_KEYS, MOST_NEURONS, MOST_TICKS, picture_page
from tests.browser import opened


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


def test_keys_of_a_table_are_dots_on_the_staircase() -> None:
    table = {"<b>": "x", "c d": "y", "e f g": "x", **{f"k{i}": f"v{i % 3}" for i in range(20)}}
    model = ml.memorize(table)
    line, dots = model.plot().data
    keys = list(table)
    shown = [html.unescape(each).split(": ") for each in dots.hovertext]
    assert dict(shown) == table
    assert "&lt;b&gt;: x" in dots.hovertext
    z = dict(zip(keys, model.explain(keys).z, strict=True))
    assert np.array_equal(dots.x, [z[key] for key, _ in shown])
    names = model.card.classes.names
    assert np.array_equal(dots.y, [names.index(table[key]) for key, _ in shown])
    assert line.x[0] < min(dots.x) <= max(dots.x) < line.x[-1]
    written = [place for place, text in zip(dots.x, dots.text, strict=True) if text]
    assert 1 < len(written) <= MOST_NAMED_KEYS
    assert min(np.diff(written)) >= (line.x[-1] - line.x[0]) / MOST_NAMED_KEYS


def test_only_keys_on_the_steps_that_are_drawn_are_dots_and_no_more_than_a_browser_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ml.memorize({f"k{i}": i * 7 % 101 for i in range(300)})
    monkeypatch.setattr(plot, "MOST_DRAWN_STEPS", 100)
    line, dots = model.plot().data
    assert line.x[0] <= min(dots.x) <= max(dots.x) <= line.x[-1]
    z = np.asarray(model.explain([f"k{i}" for i in range(300)]).z)
    assert set(dots.x) == set(z[(line.x[0] <= z) & (z <= line.x[-1])])
    monkeypatch.setattr(plot, "MOST_DRAWN_KEYS", 9)
    figure = model.plot()
    assert len(figure.data[1].x) == 9
    assert "9 of the 300 keys" in figure.layout.title.text


def test_a_long_staircase_is_seen_through_a_window_and_few_labels_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ml.memorize({f"k{i}": f"v{i * 7 % 101:03}" for i in range(300)})
    (steps,) = model.feed_forward.tables()
    whole = model.plot()
    assert "window" not in whole.layout.title.text
    assert whole.layout.yaxis.ticktext == tuple(model.card.classes.names[tick] for tick in whole.layout.yaxis.tickvals)
    assert 2 < len(whole.layout.yaxis.ticktext) <= MOST_TICKS
    monkeypatch.setattr(plot, "MOST_SEEN_STEPS", 200)
    figure = model.plot()
    assert len(figure.data[0].x) == 2 * len(steps.start) + 2  # all of it is drawn
    low, high = figure.layout.xaxis.range
    start, end = steps.start.numpy(), steps.end.numpy()
    assert ((low <= start) & (end <= high)).sum() == plot.WINDOW_STEPS
    assert f"drawn, 1 to {len(start)}" in figure.layout.title.text.replace("</sub><br><sub>", " ")


def test_keys_that_fingerprints_do_not_give_back_are_counted_and_models_without_them_have_none() -> None:
    figure = ml.memorize({("a", "b"): 1, ("a", "a"): 2, ("c",): 3}).plot()  # a token twice is not looked for
    assert len(figure.data[1].x) == 2
    assert "2 of the 3 keys" in figure.layout.title.text
    assert len(ml.memorize({"a": 1, "b": 2}, unknown=False).plot().data) == 1
    changed = ml.memorize({"a": 1, "b": 2})
    changed.head.register_forward_hook(lambda *_: None)
    assert len(changed.plot().data) == 1  # where its keys lie is no longer known


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


def test_the_page_of_a_picture_is_dark_where_its_reader_is_and_light_on_paper(tmp_path: Path) -> None:
    file = tmp_path / "staircase.html"
    file.write_text(picture_page(ml.memorize({"France": "Paris", "Peru": "Lima"}).plot()), encoding="utf-8")
    colours = """['.main-svg', '.gtitle', '.ytick text', '.textpoint text'].map((name) => {
      const style = getComputedStyle(document.querySelector(name));
      return (name === '.main-svg' ? style.backgroundColor : style.fill).match(/\\d+/g).map(Number)[0] < 128;
    })"""  # whether each is dark
    with opened(file, width=390, scheme="dark") as view:
        # One thing changes at a time, since the page hears of each by itself.
        for change, chosen in (
            ({}, "dark"),
            ({"color_scheme": "light"}, "light"),
            ({"color_scheme": "dark"}, "dark"),
            ({"media": "print"}, "light"),
        ):
            view.page.emulate_media(**change)
            view.page.wait_for_selector(f"html[data-colours={chosen}]", state="attached")
            assert view.call(colours) == [chosen == "dark", *[chosen == "light"] * 3]
        assert view.call("document.documentElement.scrollWidth") <= 390
        assert (view.messages, view.requests) == ([], [])
