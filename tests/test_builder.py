"""The page that builds: its weights are Python's to the bit, and what it says of them is true."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.page import page
from tests.browser import Opened, opened
from tests.scripts import ROOT

FACTS = "Saudi Arabia → Riyadh\nSouth Korea => Seoul\nKorea South → ?\n𐐀 z = Ünï, 1\n\t\nNew Zealand\tWellington"
LONG = "\n".join(f"{'abcdefghij' * 31:.{size}}{size % 7},{size % 4}" for size in [*range(2, 34, 3), 140, 301])
"""Sums of more than 8 and more than 128 terms are added in an order of their own."""
NAMES = "tea,drink\neat,verb\nate,past\naye,yes\n￿𐐀,odd"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    path = tmp_path_factory.mktemp("page") / "builder.html"
    path.write_text(page(), encoding="utf-8")
    with opened(path) as view:
        yield view
        assert view.messages == []
        assert view.requests == []


def type_in(view: Opened, source: str, unit: str = "words") -> None:
    view.page.select_option("#unit", unit)
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


def differing(view: Opened, model: ml.Monolayer) -> list[str]:
    """Columns of the model's weights whose bits on the page are others; all that it holds besides is 0 and 1."""
    page, state = view.call("builder.now().model"), {name: value.numpy() for name, value in model.state_dict().items()}
    drawn, lift = page["draw"], state["lift.weight"]
    kept = np.flatnonzero(~np.isnan(lift[:, 0]))
    assert sorted(view.call("[...builder.now().model.present]")) == kept.tolist()
    pairs = {
        "begin": ([1.0, drawn["begin"], 0.0, 0.0], state["bos"]),
        "key": ([drawn["key"][row] for row in kept], lift[kept, 1]),
        "code": ([page["code"][row] for row in kept], lift[kept, 2]),
        "temperature": ([drawn["temperature"]], state["attention.W_Q"][1, :1]),
        "slope": (page["slope"], state["feed_forward.stages.0.weight_1"]),
        "bias": (page["bias"], state["feed_forward.stages.0.bias_1"]),
        "jump": (page["jump"], state["feed_forward.stages.0.weight_2"][0]),
        "level": (page["level"][-1:], state["feed_forward.stages.0.bias_2"]),
        "place": (drawn["place"], state["positions.weight"][:, 1]),
    }
    return [name for name, (ours, theirs) in pairs.items() if np.array(ours, float).tobytes() != theirs.tobytes()]


@pytest.mark.one_seed
@pytest.mark.parametrize("source", [FACTS, NAMES, LONG], ids=["words", "characters", "long"])
def test_facts_become_the_weights_that_python_builds(view: Opened, source: str) -> None:
    type_in(view, source, "words" if source == FACTS else "characters")
    assert view.page.text_content("#trouble") == ""
    names, printed = in_python(view)
    model = names["model"]
    assert differing(view, model) == []
    assert printed == "proved\n"
    page = view.call("builder.now().model")
    assert (page["margin"], page["parameters"]) == (model.summary.margin, model.summary.parameters)
    assert [page["names"], page["classes"]] == [list(model.card.vocabulary.names), list(model.card.classes.names)]
    told = view.call("monolayer.given.examples.tokens.map((row) => monolayer.run(row).answers[0].label)")
    assert told == names["Y"] == model.predict(names["X"]).tolist()
    # The comparison can fail: another seed gives other keys.
    other = ml.memorize(names["X"], names["Y"], per="sequence", positions=True, seed=1)
    assert "key" in differing(view, other)


@pytest.mark.one_seed
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
        weights = dict(model.feed_forward.stages[0].named_parameters())
        return set(zip(*(weights[name].flatten().tolist() for name in ("weight_1", "bias_1", "weight_2")), strict=True))

    gone, came = steps(before) - steps(after), steps(after) - steps(before)
    assert re.search(rf"\. {len(gone)} steps? removed, {len(came)} added, ", view.page.text_content("#went"))
    lines = re.findall("([−+]) weight_1 (.*), bias_1 (.*), weight_2 (.*)", view.page.text_content("#weights"))
    for sign, wanted in (("−", gone), ("+", came)):
        assert {tuple(map(float, numbers)) for found, *numbers in lines if found == sign} == wanted
    assert "Embedding removed: Arabia, Saudi." in view.page.text_content("#went")
    assert "Saudi" not in view.page.input_value("#source")
    view.page.fill("#text", "Saudi Arabia")
    assert "Saudi is not in the vocabulary" in view.page.text_content("#problem")
    assert "stale" in view.page.get_attribute("body", "class")
    for _ in range(3):
        view.page.click("#forget")
    assert view.page.is_disabled("#forget")
    assert "no step" in view.page.text_content("#built")
    assert differing(view, in_python(view)[0]["model"]) == []


def test_what_cannot_be_built_is_named_and_the_old_model_is_dimmed(view: Opened) -> None:
    for source, said in (
        ("a → 1\nb", r"line 2 \(b\) has no arrow: write key → value"),
        ("a → ", r"line 1 .* has no value"),
        ("a b → 1\n\na  b → 2", r"line 1 \(a b → 1\) and line 3 \(a b → 2\) contradict .* Change one of them"),
        ("  ", "type a fact"),
        ("\n".join(f"k{i} → {i}" for i in range(1001)), "up to 1,000 facts, and these are 1,001"),
    ):
        type_in(view, source)
        assert re.search(said, view.page.text_content("#trouble"))
        assert float(view.call("getComputedStyle(document.querySelector('#ask')).opacity")) < 1
        type_in(view, "x → y")
        assert view.page.text_content("#trouble") == ""
        assert float(view.call("getComputedStyle(document.querySelector('#ask')).opacity")) == 1


@pytest.mark.parametrize(("width", "height"), [(358, 860), (640, 480), (760, 480), (940, 480)])
def test_inside_another_page_it_fits_the_frame_until_a_fact_is_forgotten(
    width: int, height: int, tmp_path: Path
) -> None:
    """The heights are those of docs/figures/site.css. What is shown there works; the rest is one link away."""
    style = (ROOT / "docs" / "figures" / "site.css").read_text(encoding="utf-8")
    assert f"iframe.builder {{ {'' if width < 640 else 'width: 100%; '}height: {height}px;" in style
    (tmp_path / "builder.html").write_text(page(), encoding="utf-8")
    (tmp_path / "home.html").write_text('<iframe src="builder.html#short"></iframe>')
    with opened(tmp_path / "home.html", width=width + 40) as view:
        view.page.locator("iframe").evaluate(f"frame => frame.style = 'width: {width}px; height: {height}px'")
        frame = view.page.frame_locator("iframe")
        body = frame.locator("body.short")
        shown = [
            name
            for name in ("source", "which", "text", "noise", "weights", "line", "examples", "temperature")
            if frame.locator(f"#{name}").is_visible()
        ]
        assert shown == ["source", "which", "text", "noise"]
        assert body.evaluate("body => body.ownerDocument.documentElement.scrollHeight") <= 1.1 * height  # fonts differ
        assert body.evaluate("body => body.scrollWidth") <= width
        frame.locator("#forget").click()
        assert "Forgot" in frame.locator("#went").inner_text()
