"""The page runs the model: in Chromium, every label of a dataset is Python's, and what is dragged does what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.data.text import windows
from monolayer.errors import DataError
from monolayer.page import page
from monolayer.page.payload import model_json
from tests.browser import Opened, opened, unnamed

X = ["银行", "行走", "音乐", "快乐", "行长", "长城"]
Y = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"], ["háng", "zhǎng"], ["cháng", "chéng"]]
RANDOM = np.random.default_rng(3)
IDS = RANDOM.integers(0, 20, (15, 4))
WORDS = [["the", "cat"], ["a", "cat", "a"], ["the"]]
TEXT = "The sea, the sea's\nown sea: a b a c\n"

MODELS: dict[str, Any] = {
    "characters, in order": lambda: (X, ml.memorize(X, Y, positions=True)),
    "words": lambda: (WORDS, ml.memorize(WORDS, [["x", "y"], ["z", "x", "z"], ["y"]])),
    "the mean": lambda: (IDS, ml.memorize(IDS, IDS % 3, temperature=0.0)),
    "windows of a text": lambda: (windows(TEXT)[0], ml.memorize_text(TEXT)),
}


def write(model: Any, path: Path, data: Any = None, **more: Any) -> Path:
    path.write_text(page(model, data, **more), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", MODELS)
def test_every_label_is_pythons(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monolayer.page.payload.EXAMPLES", 1000)  # all of them
    X, model = MODELS[kind]()
    write(model, tmp_path / "page.html", model.encode(X))
    explained = model.explain(X)
    with opened(tmp_path / "page.html") as view:
        told = view.call(
            "monolayer.given.examples.tokens.map((row) => monolayer.run(row))"
            ".flatMap(({ context, answers }) => answers.map((one) => ({ ...one, context })))"
        )
        assert [one["label"] for one in told] == list(map(str, explained.label))
        assert [one["z"] for one in told] == pytest.approx(explained.z, rel=1e-14, abs=1e-14)
        assert [one["context"] for one in told] == pytest.approx(explained.context, rel=1e-13, abs=1e-14)
        assert [one["step"] for one in told] == list(explained.step)
        for name in ("left", "right"):
            wanted = [None if label is None else str(label) for label in getattr(explained, name)]
            assert [one[name] for one in told] == wanted
        assert [one["margin"] or np.inf for one in told] == pytest.approx(explained.margin, rel=1e-3)
        back = "monolayer.given.examples.tokens.map((row) => JSON.stringify(monolayer.parse(monolayer.spelled(row))))"
        assert view.call(back) == view.call("monolayer.given.examples.tokens.map((row) => JSON.stringify(row))")
        assert (view.messages, view.requests) == ([], [])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = ml.Sequences.of(X, Y)
    return write(ml.memorize(data), tmp_path_factory.mktemp("page") / "page.html", data, title="<b>phrases</b>")


@pytest.fixture(scope="module")
def view(path: Path) -> Iterator[Opened]:
    with opened(path) as view:
        yield view
        assert view.messages == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1000, "light")])
def test_on_a_phone_and_a_desk_in_light_and_dark(path: Path, width: int, scheme: Any) -> None:
    for each in (path, write(None, path.with_name("builder.html"))):
        with opened(each, width=width, scheme=scheme) as view:
            if each != path:
                view.page.click("#forget")
                assert view.page.locator("#points circle").count() == 9
            background = view.call("getComputedStyle(document.body).backgroundColor")
            assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 25, 29)")
            assert view.call("document.querySelector('#line svg .stair').getBoundingClientRect().width") > 200
            for target in ("#text", "#temperature", "#answer label", "#examples button"):
                assert view.call(f"document.querySelector('{target}').getBoundingClientRect().height") >= 32
            assert view.call("document.querySelectorAll('[aria-live], [role=alert]').length") >= 3
            assert view.page.get_attribute("#temperature", "aria-valuetext").endswith("as built")
            assert view.call("document.documentElement.scrollWidth") <= width
            assert unnamed(view) == []
            assert (view.messages, view.requests) == ([], [])


def test_levels_between_two_classes_go_to_the_even_one(view: Opened) -> None:
    """As in PyTorch, whose `round` the fast path takes."""
    levels = [-1.5, -0.5, 0.25, 0.5, 0.75, 1.5, 2.5, 3.5, np.nextafter(2.5, 3), np.nextafter(3.5, 3), 4.5, 5.5]
    name = "monolayer.Network.prototype.name.call({ given: { classes: [0, 1, 2, 3, 4] } }, level)"
    told = view.call(f"{json.dumps(levels)}.map((level) => {name})")
    assert told == torch.tensor(levels, dtype=torch.float64).round().clamp(0, 4).tolist()


def test_typed_and_picked_by_keyboard(view: Opened) -> None:
    assert "<b>phrases</b>" in view.call("document.querySelector('h1').textContent")
    page, faded = view.page, "Number(getComputedStyle(document.querySelector('#answer')).opacity)"
    page.fill("#text", "音乐")
    assert page.locator("#answer .label").all_text_contents() == ["yīn", "yuè"]
    assert "yīn, yuè" in page.text_content("#said")
    page.fill("#text", "音x")
    assert "x is not in the vocabulary" in page.text_content("#problem")
    assert view.call(faded) < 1  # the answer to what was typed before
    page.fill("#text", "行走")
    assert page.text_content("#problem") == ""
    assert view.call(faded) == 1
    page.focus("#answer input:checked")
    assert "行 has z" in page.text_content("#where")
    page.keyboard.press("ArrowRight")
    assert "走 has z" in page.text_content("#where")
    assert "between" in page.text_content("#beside")
    page.click("#examples button >> nth=0")
    assert page.input_value("#text") == "银行"
    assert page.get_attribute("#examples button >> nth=0", "aria-current") == "true"


def slide(view: Opened, which: str, value: int) -> None:
    view.page.evaluate(
        f"(() => {{ const one = document.getElementById('{which}'); one.value = {value}; "
        "one.dispatchEvent(new Event('input')); })()"
    )


def test_contexts_collide_towards_hardmax_and_come_back(view: Opened) -> None:
    weights = "monolayer.run(monolayer.given.examples.tokens[0]).weights"
    assert "6 told apart" in view.page.text_content("#apart")
    slide(view, "temperature", 100)
    assert view.page.text_content("#temperature-said") == "λ = ∞, hardmax"
    model = ml.memorize(X, Y)
    keys = dict(zip("银行走音乐快长城", model.explain(["银行走音乐快长城"]).key, strict=True))
    largest = {max(float(model.bos.detach()[1]), *(keys[token] for token in row)) for row in X}
    assert len(largest) < 6  # what hardmax sees of a sequence is its largest key
    assert f"{len(largest)} told apart" in view.page.text_content("#apart")
    assert sorted(view.call(weights)) == [0, 0, 1]
    slide(view, "temperature", 0)
    assert view.call(weights) == pytest.approx([1 / 3] * 3)
    view.page.click("#reset")
    assert "6 told apart" in view.page.text_content("#apart")
    assert "12 of 12" in view.page.text_content("#score")


def test_noise_flips_labels_and_little_noise_does_not(view: Opened) -> None:
    for noise, lost in ((100, True), (1, False), (0, False)):
        slide(view, "noise", noise)
        right = int(re.search(r"(\d+) of 12", view.page.text_content("#score"))[1])  # type: ignore[index]
        assert (right < 12) == lost
        assert (view.page.locator("#examples mark").count() > 0) == lost
    # Neuron by neuron and by search: the same labels, on the steps and on the ramps between them.
    worst = view.call(
        """(() => {
             const { given, Network } = monolayer, network = new Network(given);
             const dense = neurons(network.readout, (x) => x);
             const ends = network.readout.start.concat(network.readout.end);
             return ends.reduce((worst, end, k) => {
               const z = (end + ends[(7 * k + 1) % ends.length]) / 2, one = network.place(z).level;
               return Math.max(worst, Math.abs(dense(z) - one) / (1 + Math.abs(one)));
             }, 0);
           })()"""
    )
    assert worst < 1e-9


def test_labels_may_be_missing(tmp_path: Path) -> None:
    data = ml.Sequences.of([[2, 900], [900, 3]], [[None, "x"], ["y", None]])  # of ids that never occur there is no row
    with opened(write(ml.memorize(data), tmp_path / "page.html", data)) as view:
        assert "of the data: 2 of 2" in view.page.text_content("#score")
        assert view.page.locator("#answer .wrong").count() == 0
        assert view.page.text_content("#facts").startswith("3 tokens")
        view.page.fill("#text", "4")
        assert "never seen it" in view.page.text_content("#problem")


def test_the_page_of_a_text_shows_places_of_it() -> None:
    text = "the cat sat on the mat , and the dog lay on the rug"
    model = ml.memorize_text(text)
    stored: Any = model_json(model, None, None)
    examples, names = stored["examples"], stored["tokens"]["names"]
    script = model.card.script
    assert script is not None
    words = ["", *script.split(text), ""]
    shown = [[names[token] for token in row] for row in examples["tokens"]]
    assert examples["given"]
    for row, label in zip(shown, examples["labels"], strict=True):
        assert any(words[at : at + len(row) + 1] == [*row, label] for at in range(len(words)))
    assert max(map(len, shown)) == script.window


def test_a_stock_folder_has_no_page_and_says_what_runs_it(tmp_path: Path, said: Any) -> None:
    folder = ml.memorize_as("bert", ["ab", "b"], ["x", "y"]).save(tmp_path / "bert")
    words = said("page", str(folder), "--out", str(tmp_path / "p.html"), code=2, errors=True)
    assert words.startswith("error: ")
    assert 'import { pipeline } from "@huggingface/transformers"; const ask = await pipeline("text-class' in words
    assert str(folder) in words
    assert not (tmp_path / "p.html").exists()


def test_what_has_no_page_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ml.memorize(X, Y)
    with torch.no_grad():
        changed.attention.W_Q[0, 1] = 1.0
    vectors = RANDOM.normal(size=(3, 2, 2))
    monkeypatch.setattr("monolayer.page.payload.MOST_PAGE_STEPS", 20)
    for model, words in (
        (changed, "as they were built"),
        (ml.memorize(X, Y, robust=True), "robust"),
        (ml.memorize(X, Y).float(), "this model is in float32"),
        (ml.memorize(vectors, vectors[..., 0]), "takes vectors"),
        (ml.memorize(IDS, IDS / 3), "shows classes"),
        (ml.memorize(IDS[:1], causal=True), "whole sequences"),
        (ml.memorize(IDS, np.arange(60).reshape(15, 4), positions=True), "up to 20 steps, and this model has 5"),
    ):
        with pytest.raises(DataError, match=words):
            page(model)


def test_integers_that_floats_cannot_tell_apart_keep_their_names(tmp_path: Path) -> None:
    """From 2^53 on, two neighbours are one number in JavaScript."""
    big = 2**53
    data = ml.Sequences.of([[big, big + 1], [big + 1, big + 3]], [[big + 1, big], [big, None]])
    model = ml.memorize(data)
    with opened(write(model, tmp_path / "page.html", data)) as view:
        assert "of the data: 3 of 3" in view.page.text_content("#score")
        for ids in ([big, big + 1], [big + 1, big + 3]):
            view.page.fill("#text", " ".join(map(str, ids)))
            shown = view.page.locator("#answer .label").all_text_contents()
            assert shown == [str(label) for label in model.predict([ids])[0]]
        view.page.fill("#text", str(big + 2))
        assert f"{big + 2} is not in the vocabulary" in view.page.text_content("#problem")
        assert view.messages == []


def test_half_of_a_surrogate_pair_is_refused_and_named(tmp_path: Path, said: Callable[..., str]) -> None:
    """A browser would show every one of them as the same replacement character."""
    for number, (tokens, labels) in enumerate(((["\ud800", "b"], ["x", "y"]), (["a", "b"], ["x", "\udfff"]))):
        model, data = tmp_path / f"m{number}", tmp_path / "data.jsonl"
        data.write_text(json.dumps({"tokens": tokens, "labels": labels}))
        ml.memorize(ml.read(data)).save(model)
        name = r"the token '\ud800'" if number == 0 else r"the label '\udfff'"
        for more in ([], ["--data", str(data)]):
            shown = said("page", str(model), "--out", str(tmp_path / "page.html"), *more, code=2)
            assert f"{name} holds half of a surrogate pair, no character: rename it" in shown
    assert not (tmp_path / "page.html").exists()
    assert r"<title>\udcff" in page(ml.memorize(X, Y), title="\udcff")


def test_names_are_text_whatever_they_hold(tmp_path: Path) -> None:
    names = ["<img src=x onerror=alert(1)>", "10^3", "New York", "</script>", "", "{{model}}", " ", "\n"]
    seen = [*names[:4], "⟨empty⟩", names[5], "␣", "↵"]
    path = write(ml.memorize([names], [names[::-1]]), tmp_path / "page.html", ml.Sequences.of([names], [names[::-1]]))
    with opened(path) as view:
        assert view.page.locator("#answer .token").all_text_contents() == seen
        assert view.page.locator("#answer .label").all_text_contents() == seen[::-1]
        view.page.fill("#text", "10^3| |↵")
        assert view.page.locator("#answer .token").all_text_contents() == ["10^3", "␣", "↵"]
        assert view.call("document.querySelectorAll('img, #answer sup').length") == 0
        assert view.messages == []


def test_the_command(tmp_path: Path, said: Callable[..., str]) -> None:
    model, data, out = (str(tmp_path / name) for name in ("phrases", "data.jsonl", "page.html"))
    rows = [json.dumps({"tokens": list(x), "labels": y}) for x, y in zip(X, Y, strict=True)]
    Path(data).write_text("\n".join(rows), encoding="utf-8")
    ml.memorize(X, Y).save(model)
    assert "drawn at random: --data takes" in " ".join(said("page", model, "--out", out).split())
    with opened(Path(out)) as view:
        assert "of the model as built" in view.page.text_content("#score")
        assert view.call("monolayer.given.examples.tokens.length") == 40
        assert view.messages == []
    assert "exists already" in said("page", model, "--out", out, code=2)
    assert "goes with a model" in said("page", "--out", out, "--overwrite", "--data", data, code=2)
    found = json.loads(said("page", model, "--out", out, "--data", data, "--overwrite", "--json"))
    assert [plan["source"] for plan in found.pop("read")] == [data]
    assert found == {"folder": model, "page": out, "verdict": "proved"}
    with opened(Path(out)) as view:
        assert view.call("document.title").startswith("phrases")
        assert "of the data: 12 of 12" in view.page.text_content("#score")
        assert view.page.text_content("#verdict") == "certificate: proved"
        assert "of 10" in view.page.text_content("#beside")
        slide(view, "noise", 1)
        assert view.page.text_content("#verdict s") == "certificate: proved"
        assert "not for these" in view.page.text_content("#verdict")
        view.page.click("#reset")
        assert view.page.locator("#verdict s").count() == 0
