"""The page runs the model: in Chromium, every label of a dataset is Python's, and what is dragged does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.cli import run
from monolayer.errors import DataError
from monolayer.page import page, write
from tests.browser import Opened, opened, unnamed

X = ["银行", "行走", "音乐", "快乐", "行长", "长城"]
Y = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"], ["háng", "zhǎng"], ["cháng", "chéng"]]
RANDOM = np.random.default_rng(3)


def _prefixes() -> tuple[Any, Any]:
    tokens = RANDOM.integers(0, 9, (12, 5))
    return tokens, (tokens.cumsum(axis=1) * (1 + np.arange(5))) % 4


MODELS: dict[str, Any] = {
    "characters, in order": lambda: (X, ml.memorize(X, Y, positions=True)),
    "words": lambda: (
        [["the", "cat"], ["a", "cat", "a"], ["the"]],
        ml.memorize([["the", "cat"], ["a", "cat", "a"], ["the"]], [["x", "y"], ["z", "x", "z"], ["y"]]),
    ),
    "causal": lambda: ((pair := _prefixes())[0], ml.memorize(*pair, causal=True, positions=True)),
    "paper": lambda: ((T := RANDOM.integers(0, 20, (15, 4))), ml.memorize(T, T % 3, readout="paper")),
    "one real label per sequence": lambda: (
        (T := RANDOM.integers(0, 20, (15, 4))),
        ml.memorize(T, (10.0 ** RANDOM.integers(-200, 200, 15)).tolist()),
    ),
    "vectors, real labels": lambda: (
        (T := RANDOM.normal(size=(10, 3, 2))),
        ml.memorize(T, RANDOM.normal(size=(10, 3, 2))),
    ),
    "approximator": lambda: (
        RANDOM.uniform(size=(20, 2, 1)),
        ml.approximate(lambda x: x - x.mean(axis=1, keepdims=True), dim=1, length=2, cells=5),
    ),
    "the mean": lambda: ((T := RANDOM.integers(0, 20, (15, 4))), ml.memorize(T, T % 3, temperature=0.0)),
}


def answers(view: Opened, model: ml.Monolayer, X: Any) -> list[list[dict[str, Any]]]:
    """What the page's network says of every sequence of `X`."""
    encoded = model.encode(X)
    if model.card.vocabulary is None:
        sequences = [row.tolist() for row in encoded.split(encoded.tokens)]
        ask = f"const rows = {json.dumps(sequences)};"
    else:
        names = [[str(name) for name in model.card.vocabulary.decode(row)] for row in encoded.split(encoded.tokens)]
        ask = (
            "const table = new Map(monolayer.given.tokens.names.map((name, row) => [String(name), row]));"
            f"const rows = {json.dumps(names)}.map((row) => row.map((name) => table.get(name)));"
        )
    told: list[list[dict[str, Any]]] = view.call(
        f"(() => {{ {ask} return rows.map((row) => monolayer.run(row).answers); }})()"
    )
    return told


@pytest.mark.parametrize("kind", MODELS)
def test_every_label_is_pythons(kind: str, tmp_path: Path) -> None:
    X, model = MODELS[kind]()
    write(model, tmp_path / "page.html", model.encode(X))
    explained = model.explain(X)
    with opened(tmp_path / "page.html") as view:
        told = [one for row in answers(view, model, X) for one in row]
        assert [one["label"] for one in told] == explained.label
        assert [one["z"] for one in told] == pytest.approx(explained.z, rel=1e-14, abs=1e-14)
        assert [one["context"] for one in told] == pytest.approx(explained.context, rel=1e-13, abs=1e-14)
        assert [one["step"] for one in told] == explained.step.tolist()
        assert [one["left"] for one in told] == explained.left
        assert [one["right"] for one in told] == explained.right
        back = "monolayer.given.examples.tokens.map((row) => JSON.stringify(monolayer.parse(monolayer.spelled(row))))"
        assert view.call(back) == view.call("monolayer.given.examples.tokens.map((row) => JSON.stringify(row))")
        assert [one["margin"] or np.inf for one in told] == pytest.approx(explained.margin, rel=1e-3)
        assert view.messages == []
        assert view.requests == []


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = ml.memorize(X, Y)
    return write(model, tmp_path_factory.mktemp("page") / "page.html", ml.Sequences.of(X, Y), title="<b>phrases</b>")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1000])
def test_on_a_phone_and_a_desk_in_light_and_dark(path: Path, width: int, scheme: Any) -> None:
    with opened(path, width=width, scheme=scheme) as view:
        assert view.call("document.documentElement.scrollWidth") <= width
        assert view.messages == []
        assert view.requests == []
        background = view.call("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 25, 29)")
        assert "<b>phrases</b>" in view.call("document.querySelector('h1').textContent")
        assert view.call("document.querySelector('#line svg .stair').getBoundingClientRect().width") > 200
        for target in ("#text", "#pick", "#temperature", "#answer label", "#examples button"):
            assert view.call(f"document.querySelector('{target}').getBoundingClientRect().height") >= 32


def test_typed_and_picked_by_keyboard(path: Path) -> None:
    with opened(path) as view:
        page = view.page
        page.fill("#text", "音乐")
        assert page.locator("#answer .label").all_text_contents() == ["yīn", "yuè"]
        assert "yīn, yuè" in page.text_content("#said")
        page.fill("#text", "音x")
        assert "x is not in the vocabulary" in page.text_content("#problem")
        faded = "Number(getComputedStyle(document.querySelector('#answer')).opacity)"
        assert view.call(faded) < 1  # the answer to what was typed before
        page.fill("#text", "行走")
        assert page.text_content("#problem") == ""
        assert view.call(faded) == 1
        page.focus("#answer input:checked")
        assert "行 has z" in page.text_content("#where")
        page.keyboard.press("ArrowRight")
        assert "走 has z" in page.text_content("#where")
        assert "zǒu" in page.text_content("#beside") or "between" in page.text_content("#beside")
        page.select_option("#pick", "3")
        assert page.locator("#answer .label").all_text_contents() == ["kuài", "lè"]
        page.click("#examples button >> nth=0")
        assert page.input_value("#text") == "银行"
        assert page.get_attribute("#examples button >> nth=0", "aria-current") == "true"
        page.click("#closer")
        page.click("#wider")
        assert view.messages == []


def test_a_screen_reader_finds_names_for_everything(path: Path) -> None:
    with opened(path) as view:
        assert unnamed(view) == []
        assert view.call("document.querySelectorAll('[aria-live], [role=alert]').length") >= 3
        assert view.page.get_attribute("#temperature", "aria-valuetext").endswith("as built")


def slide(view: Opened, which: str, value: int) -> None:
    view.page.evaluate(
        f"(() => {{ const one = document.getElementById('{which}'); one.value = {value}; "
        "one.dispatchEvent(new Event('input')); })()"
    )


def test_contexts_collide_towards_hardmax_and_come_back(path: Path) -> None:
    with opened(path) as view:
        assert "6 told apart" in view.page.text_content("#apart")
        assert "12 of 12" in view.page.text_content("#score")
        slide(view, "temperature", 100)
        assert view.page.text_content("#temperature-said") == "λ = ∞, hardmax"
        model = ml.memorize(X, Y)
        keys = dict(zip("银行走音乐快长城", model.explain(["银行走音乐快长城"]).key, strict=True))
        largest = {max(float(model.bos.detach()[1]), *(keys[token] for token in row)) for row in X}
        assert len(largest) < 6  # what hardmax sees of a sequence is its largest key
        assert f"{len(largest)} told apart" in view.page.text_content("#apart")
        weights = view.call("monolayer.run(monolayer.given.examples.tokens[0]).answers[0].weights")
        assert sorted(weights) == [0, 0, 1]
        slide(view, "temperature", 0)
        weights = view.call("monolayer.run(monolayer.given.examples.tokens[0]).answers[0].weights")
        assert weights == pytest.approx([1 / 3] * 3)
        view.page.click("#reset")
        assert "6 told apart" in view.page.text_content("#apart")
        assert "12 of 12" in view.page.text_content("#score")
        assert view.messages == []


@pytest.mark.parametrize("readout", ["exact", "paper", "runs"])
def test_noise_flips_labels_and_little_noise_does_not(readout: str, tmp_path: Path) -> None:
    tokens = RANDOM.integers(0, 30, (40, 6))
    labels: Any = RANDOM.integers(0, 9, tokens.shape)
    if readout == "runs":
        labels = labels.astype(float)
    model = ml.memorize(tokens, labels, positions=True, **({"readout": "paper"} if readout == "paper" else {}))
    path = write(model, tmp_path / "page.html", ml.Sequences.of(tokens, labels))

    def right(view: Opened) -> int:
        return int(re.search(r"(\d+) of 240", view.page.text_content("#score"))[1])  # type: ignore[index]

    with opened(path) as view:
        assert right(view) == 240
        slide(view, "noise", 100)
        assert right(view) < 200
        assert view.call("document.querySelectorAll('#examples mark').length") > 0
        slide(view, "noise", 1)
        # A relative change of 10^-16 moves no class; a real label is changed by it in its last digit.
        assert right(view) == 240 or readout == "runs"
        view.page.click("#reset")
        assert right(view) == 240
        assert view.messages == []


def test_the_noisy_readout_without_noise_is_the_readout(tmp_path: Path) -> None:
    """Neuron by neuron and by search: the same labels, on the steps and on the ramps between them."""
    for readout, labels in (("exact", [0, 3, 1]), ("paper", [0, 3, 1]), ("exact", [0.5, -2.0, 1e9])):
        tokens = [[1, 2], [3], [2, 3, 3]]
        path = write(ml.memorize(tokens, labels, readout=readout), tmp_path / "page.html")
        with opened(path) as view:
            worst = view.call(
                """(() => {
                     const { given, Network } = monolayer, network = new Network(given);
                     const dense = neurons(network.readout, (x) => x);
                     const ends = network.readout.start.concat(network.readout.end);
                     const low = Math.min(...ends) - 1, high = Math.max(...ends) + 1;
                     let worst = 0;
                     for (let k = 0; k <= 400; k += 1) {
                       const z = low + (high - low) * k / 400, one = network.place(z);
                       worst = Math.max(worst, Math.abs(dense(z)[0] - one.level[0]) / (1 + Math.abs(one.level[0])));
                     }
                     return worst;
                   })()"""
            )
            assert worst < 1e-9


def test_a_large_model_is_shown_by_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = RANDOM.integers(0, 200, (300, 6))
    labels = RANDOM.integers(0, 50, tokens.shape)
    for options, wanted in (({"positions": True}, labels), ({}, labels[:, 0])):
        model = ml.memorize(tokens, wanted, **options)
        monkeypatch.setattr("monolayer.page.payload.MOST_STEPS", 900)
        monkeypatch.setattr("monolayer.page.payload.AROUND", 3)
        monkeypatch.setattr("monolayer.page.payload.MOST_TOKENS", 120)
        path = tmp_path / "page.html"
        path.write_text(page(model, ml.Sequences.of(tokens, wanted), examples=12), encoding="utf-8")
        with opened(path) as view:
            stored = view.call("monolayer.given")
            assert len(stored["readout"]["number"]) < stored["readout"]["steps"]
            assert len(stored["tokens"]["names"]) <= 120
            assert "a sample" in view.page.text_content("#facts")
            names = stored["tokens"]["names"]
            rows = [[names[each] for each in row] for row in stored["examples"]["tokens"]]
            assert rows
            told = [one["label"] for row in answers(view, model, rows) for one in row]
            assert told == [label for row in model.predict(rows) for label in np.ravel(row).tolist()]
            if options:  # any sequence of the sample's tokens has its answer here
                fresh = [RANDOM.choice(names, 6).tolist() for _ in range(50)]
                told = [one["label"] for row in answers(view, model, fresh) for one in row]
                assert told == [label for row in model.predict(fresh) for label in row.tolist()]
            view.page.fill("#text", str(next(token for token in range(200) if token not in names)))
            assert "not in the sample" in view.page.text_content("#problem")
            slide(view, "noise", 60)
            assert "the readout is a sample" in view.page.text_content("#score")
            assert view.messages == []


def test_the_labels_of_a_text_are_its_next_words(tmp_path: Path) -> None:
    text = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
    path = write(ml.memorize([text], causal=True), tmp_path / "page.html", ml.Sequences.of([text]))
    with opened(path) as view:
        assert "of the data: 9 of 9" in view.page.text_content("#score")
        assert view.call("monolayer.given.examples.labels[0]")[:-1] == text[1:]
        assert view.page.locator("#answer .label").all_text_contents()[:-1] == text[1:]


def test_places_without_a_label_are_not_counted(tmp_path: Path) -> None:
    tokens, labels = [[1, 2], [2, 3]], [[None, "x"], ["y", None]]
    with opened(write(ml.memorize(tokens, labels), tmp_path / "page.html")) as view:
        assert "of the data: 2 of 2" in view.page.text_content("#score")
        assert view.page.locator("#answer .wrong").count() == 0


def test_ids_with_gaps_are_no_sample(tmp_path: Path) -> None:
    with opened(write(ml.memorize([[2, 900]], [[1000, 7]]), tmp_path / "page.html")) as view:
        assert "a sample" not in view.page.text_content("#facts")
        assert view.page.text_content("#facts").startswith("2 tokens")
        view.page.fill("#text", "2 900")
        assert view.page.locator("#answer .label").all_text_contents() == ["1000", "7"]
        view.page.fill("#text", "3")
        assert "never seen it" in view.page.text_content("#problem")


def test_changed_weights_have_no_page(tmp_path: Path) -> None:
    model = ml.memorize(X, Y)
    with torch.no_grad():
        model.attention.W_Q[0, 1] = 1.0
    with pytest.raises(DataError, match="as they were built"):
        write(model, tmp_path / "page.html")
    with pytest.raises(DataError, match="robust"):
        write(ml.memorize(X, Y, robust=True), tmp_path / "page.html", model.encode(X))
    with pytest.raises(DataError, match="this model is in float32"):
        write(ml.memorize(X, Y).float(), tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


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


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps({"tokens": list(x), "labels": y}, ensure_ascii=False) for x, y in zip(X, Y, strict=True)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    model, data, out = (str(tmp_path / name) for name in ("phrases", "data.jsonl", "page.html"))
    assert run(["memorize", data, "--out", model]) == 0
    capsys.readouterr()
    assert run(["page", model, "--out", out, "--data", data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": model, "page": out, "verdict": "proved"}
    assert run(["page", model, "--out", out]) == 2
    assert "exists already" in capsys.readouterr().err
    (tmp_path / "data.jsonl").unlink()
    assert run(["page", model, "--out", out, "--overwrite"]) == 0
    with opened(Path(out)) as view:
        assert view.call("document.title").startswith("phrases")
        assert "of the data: 12 of 12" in view.page.text_content("#score")  # the folder keeps a sample
        assert view.page.text_content("#verdict") == "certificate: proved"
        assert "of 10" in view.page.text_content("#beside")
        assert " 10 steps" in view.page.text_content("#facts")
        slide(view, "noise", 1)
        assert view.page.text_content("#verdict s") == "certificate: proved"
        assert "not for these" in view.page.text_content("#verdict")
        view.page.click("#reset")
        assert view.page.locator("#verdict s").count() == 0


def test_no_examples_where_none_are_wanted_and_none_after_an_edit(tmp_path: Path) -> None:
    model = ml.memorize(X, Y)
    kept = model.save(tmp_path / "kept") / "examples.jsonl"
    assert [json.loads(line)["labels"] for line in kept.read_text(encoding="utf-8").splitlines()] == Y
    assert not (model.save(tmp_path / "bare", examples=False) / "examples.jsonl").exists()
    ml.forget(tmp_path / "kept", [X[0]], (X, Y))[0].save(tmp_path / "kept", overwrite=True)
    assert not kept.exists()
    assert run(["page", str(tmp_path / "kept"), "--out", str(tmp_path / "page.html")]) == 0
    with opened(tmp_path / "page.html") as view:
        assert "of the model as built" in view.page.text_content("#score")  # sequences are drawn
        assert view.call("monolayer.given.examples.tokens.length") == 40
        assert view.messages == []
