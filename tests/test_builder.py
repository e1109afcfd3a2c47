"""The page that builds: its weights are Python's to the bit, and what it says of them is true."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.cli import run
from monolayer.construct.line.exponential import exponential
from monolayer.page import write
from tests.browser import Opened, opened, unnamed

FACTS = "Saudi Arabia → Riyadh\nSouth Korea => Seoul\nKorea South → ?\n𐐀 z = Ünï, 1\n\t\nNew Zealand\tWellington"
LONG = "\n".join(f"{'abcdefghij' * 31:.{size}}{size % 7},{size % 4}" for size in [*range(2, 34, 3), 140, 301])
"""Sums of more than 8 and more than 128 terms are added in an order of their own."""
NAMES = "tea,drink\neat,verb\nate,past\naye,yes\n￿𐐀,odd"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    path = write(None, tmp_path_factory.mktemp("page") / "builder.html")
    with opened(path) as view:
        yield view
        assert view.messages == []
        assert view.requests == []


def type_in(view: Opened, source: str, unit: str = "words", order: bool = True) -> None:
    view.page.select_option("#unit", unit)
    view.page.set_checked("#order", order)
    # Not by `fill`, which takes long over many lines.
    view.page.evaluate(
        "(text) => { const field = document.getElementById('source'); field.value = text; "
        "field.dispatchEvent(new Event('input')); }",
        source,
    )


def in_python(view: Opened) -> tuple[dict[str, Any], str]:
    """What the lines that the page shows define and print, run as they are."""
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(view.page.text_content("#python"), "#python", "exec"), names)
    return names, out.getvalue()


def tensors(page: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The page's model under the names of a `state_dict`."""
    drawn, width = page["draw"], 4
    lift = np.full((len(page["names"]), width), np.nan)
    kept = np.array(page["kept"])
    lift[kept, 0], lift[kept, 3] = 1.0, 0.0
    lift[kept, 1], lift[kept, 2] = np.array(drawn["key"])[kept], np.array(page["code"])[kept]
    W = {name: np.zeros((width, width)) for name in ("W_Q", "W_K", "W_V", "W_O")}
    W["W_Q"][1, 0], W["W_K"][1, 1], W["W_V"][1, 1], W["W_O"][2, 1] = drawn["temperature"], 1.0, 1.0, 1.0
    number = np.arange(len(page["classes"]), dtype=np.float64)
    head = np.zeros((len(number), width))
    head[:, 3] = 2.0 * number
    found = {
        "bos": np.array([1.0, drawn["begin"], 0.0, 0.0]),
        "lift.weight": lift,
        "feed_forward.weight_1": np.array(page["slope"], float),
        "feed_forward.bias_1": np.array(page["bias"], float),
        "feed_forward.weight_2": np.array(page["jump"], float)[None],
        "feed_forward.bias_2": np.array(page["level"][-1:], float),
        "head.weight": head,
        "head.bias": -number * number,
        **{f"attention.{name}": value for name, value in W.items()},
    }
    if page["positions"]:
        place = found["positions.weight"] = np.zeros((len(drawn["place"]), width))
        place[:, 1], place[:, 2] = drawn["place"], np.arange(len(place))
    return found


def built(view: Opened) -> dict[str, Any]:
    known = "kept: [...builder.now().model.present].sort((a, b) => a - b)"
    model: dict[str, Any] = view.call(f"({{...builder.now().model, {known}}})")
    return model


def differing(view: Opened, model: ml.Monolayer) -> list[str]:
    """Tensors whose bits on the page are not those of the model."""
    ours, theirs = tensors(built(view)), {name: value.numpy() for name, value in model.state_dict().items()}
    assert ours.keys() == theirs.keys()
    return [name for name in ours if ours[name].tobytes() != theirs[name].tobytes()]


@pytest.mark.parametrize(
    ("source", "unit", "order"),
    [
        (FACTS, "words", True),
        (NAMES, "characters", True),
        ("ab,1\nabc,2\naab,2\nd,1", "characters", False),
        (LONG, "characters", True),
    ],
    ids=["words", "characters", "without order", "long"],
)
def test_facts_become_the_weights_that_python_builds(view: Opened, source: str, unit: str, order: bool) -> None:
    type_in(view, source, unit=unit, order=order)
    assert view.page.text_content("#trouble") == ""
    names, printed = in_python(view)
    model = names["model"]
    assert differing(view, model) == []
    assert printed == "proved\n"
    page = built(view)
    assert (page["margin"], page["parameters"]) == (model.summary.margin, model.summary.parameters)
    assert [page["names"], page["classes"]] == [list(model.card.vocabulary.names), list(model.card.classes.names)]
    told = view.call("monolayer.given.examples.tokens.map((row) => monolayer.run(row).answers[0].label)")
    assert told == names["Y"] == model.predict(names["X"]).tolist()
    # The comparison can fail: another seed gives other keys.
    other = ml.memorize(names["X"], names["Y"], per="sequence", positions=order, seed=1)
    assert "lift.weight" in differing(view, other)


def test_forgetting_is_pythons_and_shows_the_weights_that_went(view: Opened) -> None:
    type_in(view, FACTS.replace("Korea South → ?", "Korea South → Seoul"))
    before = in_python(view)[0]["model"]
    view.page.select_option("#which", "0")
    view.page.click("#forget")
    names, printed = in_python(view)
    after = names["model"]
    assert differing(view, after) == []
    assert printed == "proved\nproved\n"

    def steps(model: ml.Monolayer) -> set[tuple[float, ...]]:
        weights = dict(model.feed_forward.named_parameters())
        return set(zip(*(weights[name].flatten().tolist() for name in ("weight_1", "bias_1", "weight_2")), strict=True))

    gone, came = steps(before) - steps(after), steps(after) - steps(before)
    rows = view.call(
        "[...document.querySelectorAll('#weights tbody tr')].map((row) => [...row.cells].map((one) => one.textContent))"
    )
    for word, wanted in (("went", gone), ("came", came)):
        assert {tuple(map(float, row[2:])) for row in rows if row[0] == word} == wanted
    assert "Without a vector now: Arabia, Saudi." in view.page.text_content("#went")
    assert "Saudi" not in view.page.input_value("#source")
    view.page.fill("#text", "Saudi Arabia")
    assert "Saudi is not in the vocabulary" in view.page.text_content("#problem")
    assert "stale" in view.page.get_attribute("body", "class")
    for _ in range(3):
        view.page.click("#forget")
    assert view.page.is_disabled("#forget")
    assert "no step" in view.page.text_content("#built")
    assert differing(view, in_python(view)[0]["model"]) == []
    type_in(view, "ab,1\nba,1\nc,2\nd,3", unit="characters", order=False)
    view.page.click("#forget")  # without order, ab and ba are one fact
    assert view.page.input_value("#source") == "c → 2\nd → 3"
    assert differing(view, in_python(view)[0]["model"]) == []


@pytest.mark.parametrize(
    ("source", "order", "said"),
    [
        ("a → 1\nb", True, r"line 2 \(b\) has no arrow: write key → value"),
        ("a → ", True, r"line 1 .* has no value"),
        ("a b → 1\n\na  b → 2", True, r"line 1 \(a b → 1\) and line 3 \(a b → 2\) contradict .* Change one of them"),
        ("a b → 1\nb a → 2", False, r"in another order, different values. Let their order matter"),
        ("  ", True, "type a fact"),
        ("\n".join(f"k{i} → {i}" for i in range(1001)), True, "up to 1,000 facts, and these are 1,001"),
    ],
)
def test_what_cannot_be_built_is_named_and_the_old_model_is_dimmed(
    view: Opened, source: str, order: bool, said: str
) -> None:
    type_in(view, "x → y")
    type_in(view, source, order=order)
    assert re.search(said, view.page.text_content("#trouble"))
    assert float(view.call("getComputedStyle(document.querySelector('#ask')).opacity")) < 1
    type_in(view, "x → y")
    assert view.page.text_content("#trouble") == ""
    assert float(view.call("getComputedStyle(document.querySelector('#ask')).opacity")) == 1


def test_the_numbers_below_are_numpys_and_pythons(view: Opened) -> None:
    for seed in (0, 7, 2**32 - 1):
        drawn = view.call(f"(() => {{ const next = generator([{seed}, 0, 3]); return [next(), next(), next()]; }})()")
        assert drawn == np.random.default_rng([seed, 0, 3]).random(3).tolist()
    scores = np.random.default_rng(1).uniform(-709, 709, 500)
    told = view.call(f"{json.dumps(scores.tolist())}.map(exponential)")
    assert list(map(float, told)) == exponential(torch.from_numpy(scores)).tolist()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1000, "light")])
def test_on_a_phone_and_a_desk(tmp_path: Path, width: int, scheme: Any) -> None:
    """As the command writes it."""
    out = tmp_path / "builder.html"
    assert run(["page", "--out", str(out)]) == 0
    with opened(out, width=width, scheme=scheme) as view:
        assert view.call("document.documentElement.scrollWidth") <= width
        view.page.click("#forget")
        assert view.call("document.documentElement.scrollWidth") <= width
        assert view.page.locator("#points circle").count() == 9
        assert unnamed(view) == []
        assert (view.messages, view.requests) == ([], [])
