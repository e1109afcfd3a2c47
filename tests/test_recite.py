"""A memorized text is recited word for word; a prompt that does not occur in it, or is too short, is refused."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

import monolayer as ml
from monolayer.data import text as text_module
from monolayer.data.text import MARK, split, windows
from monolayer.data.text import raven as raven_text
from monolayer.model.load import model_from
from monolayer.model.save import described

RAVEN = raven_text()
Said = Callable[..., str]


@pytest.fixture(scope="module")
def raven() -> ml.Monolayer:
    return ml.memorize_text(RAVEN)


def _slow_window(tokens: list[str]) -> int:
    """The least window by trying each one: the reference of the search by hashes."""
    rows = [MARK, *tokens, MARK]
    for width in count(1):
        following: dict[tuple[str, ...], str] = {}
        pairs = [(tuple(rows[max(0, k - width) : k]), rows[k]) for k in range(1, len(rows))]
        if all(following.setdefault(window, after) == after for window, after in pairs):
            return width
    raise AssertionError


@settings(max_examples=12)
@example("a" * 12 + "b")  # windows of more than a few tokens, which are found by bisection
@example("ab" * 7 + "a" + "ab" * 11)
@given(st.lists(st.sampled_from(["a", "b", " ", "\n", "é", "x y"]), min_size=1, max_size=30).map("".join))
def test_every_text_is_cut_by_the_least_window_that_tells_and_recited(text: str) -> None:
    for unit in ("words", "characters"):
        tokens = split(text, unit)  # type: ignore[arg-type]
        assert "".join(tokens) == text
        assert MARK not in tokens
        model = ml.memorize_text(text=text, unit=unit)
        assert model.card.script is not None
        assert model.card.script.window == _slow_window(tokens)
        assert model.generate() == text


def test_powers_of_the_base_of_hashes_are_never_0() -> None:
    """It is odd: the 64th power of an even number is 0 modulo 2^64, and older tokens of a window would not count."""
    assert int(text_module._BASE) % 2 == 1


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(["a", "b", " ", "é"]), min_size=2, max_size=40).map("".join),
    st.sampled_from([None, 5, 13]),
)
def test_short_prompts_are_those_that_the_text_continues_in_one_way(text: str, window: int | None) -> None:
    """Beside the windows themselves: of 1, 2, 3, 4, 6, 8, 12 … tokens, each once."""
    data, script = windows(text, "characters", window)
    tokens = [MARK, *text]
    assert script.window == min(window or script.window, len(tokens))
    following: dict[tuple[str, ...], set[str]] = {}
    for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        for end in range(size, len(tokens)) if size < script.window else ():
            known = following.setdefault(tuple(tokens[end - size + 1 : end + 1]), set())
            known.add(tokens[end + 1] if end + 1 < len(tokens) else MARK)
    wanted = [(key, *after) for key, after in following.items() if len(after) == 1]
    assert data.labels is not None
    assert data.labels.classes is not None
    assert data.vocabulary is not None
    keys = [tuple(row.tolist()) for row in data.split(data.vocabulary.decode(data.tokens))]
    found = list(zip(keys, data.labels.classes.decode(data.labels.values).tolist(), strict=True))
    assert sorted(found[len(tokens) :]) == sorted(wanted)


def test_the_raven_is_recited_from_any_place_also_from_its_file_and_proved(raven: ml.Monolayer, tmp_path: Path) -> None:
    loaded = ml.load(raven.save(tmp_path / "raven"))
    assert loaded.card.script == raven.card.script
    assert loaded.generate() == raven.generate() == RAVEN
    assert ml.certify(raven, windows(RAVEN)[0]).verdict == "proved"
    script, tokens = raven.card.script, split(RAVEN, "words")
    assert script is not None
    for start in range(0, len(tokens) - script.window, 397):
        prompt = "".join(tokens[start : start + script.window])
        assert raven.generate(prompt, max_tokens=20) == "".join(tokens[start + script.window :][:20])
    assert raven.generate("Once upon", max_tokens=4) == " a midnight"  # short prompts do where they tell
    assert RAVEN.endswith(raven.generate("Open here I"))
    for prompt, words in (
        ("Quoth the Raven", "continues in several ways there"),
        ("Once a Raven", "does not occur in the text"),
        ("Lenoree", r"no 'Lenoree' \(did you mean 'Lenore'\?\)"),
    ):
        with pytest.raises(ml.DataError, match=words):
            raven.generate(prompt)


def test_changed_weights_recite_by_the_network_itself() -> None:
    """The quick way asks whether the weights are as built: with another head, the dense network answers."""
    model = ml.memorize_text("to be or not to be, that is the question")
    assert model.generate(max_tokens=3) == "to be"
    model.head.bias.data[:] = 0.0
    model.head.weight.data[:] = 0.0
    model.head.bias.data[model.card.vocabulary.rows["be"]] = 1.0  # type: ignore[union-attr]
    assert model.generate(max_tokens=3) == "bebebe"


REFUSED: dict[str, tuple[Any, str]] = {
    "no text": (lambda: ml.memorize([[0, 1]], [[0, 1]]).generate(), "does not recite"),
    "empty": (lambda: ml.memorize_text(""), "empty"),
    "window": (lambda: ml.memorize_text("a b", window=0), "window must be a whole number"),
    "unit": (lambda: ml.memorize_text("a b", unit="lines"), "words or characters"),
    "again": (
        lambda: ml.memorize_text("a b c d e f\n a b c d e g"),
        "the 4 tokens up to line 1 occur again up to line 2",
    ),
    "ends": (lambda: ml.memorize_text("la " * 20), "occur again up to line 1, and then it ends"),
    "list": (lambda: ml.memorize_text(["la"]), "a string, or the path of a file, not a list"),  # type: ignore[arg-type]
    "no file": (lambda: ml.memorize_text("gpl.txt"), "there is no file 'gpl.txt'. If it is a path, check it; .* text="),
    "no folder": (lambda: ml.memorize_text("texts/gpl"), "there is no file 'texts/gpl'"),
    "no path": (lambda: ml.memorize_text(Path("gpl.txt")), "gpl.txt cannot be read"),
    "nothing": (lambda: ml.memorize_text(), "give a text in one way"),
    "both": (lambda: ml.memorize_text("a", text="b"), "give a text in one way"),
    "no fingerprints": (lambda: ml.memorize([[0, 1]], [[0, 1]]).seen([[0, 1]]), "has no fingerprints"),
    "strict": (lambda: ml.memorize([[0]], [[0]]).predict([[0]], strict=True), "has no fingerprints"),
    "vectors": (lambda: ml.memorize(np.ones((1, 1, 2)), [[0]], unknown=True), "vectors have none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monolayer.data.text.LARGEST_WINDOW", 4)
    with pytest.raises(ml.DataError, match=REFUSED[name][1]):
        REFUSED[name][0]()


@pytest.mark.parametrize("rules", [{}, {"positions": True}, {"causal": True, "positions": True}])
def test_what_was_seen_is_known_and_nothing_else(rules: dict[str, bool]) -> None:
    random = np.random.default_rng(5)
    X = random.integers(0, 50, (80, 6))
    model = ml.memorize(X, random.integers(0, 3, (80, 6)), unknown=True, on_conflict="first", **rules)
    changed = X.copy()
    changed[50:, 2] = (changed[50:, 2] + 1 + random.integers(0, 48, 30)) % 50
    seen = model.seen(changed)
    assert model.seen(X).all()
    assert seen[:50].all()
    assert not seen[50:, 2:].any()
    assert seen[50:, :2].all() == ("causal" in rules)
    assert model.seen(X[:, ::-1]).all() != bool(rules)  # order counts only where the model sees it
    assert np.array_equal(model.predict(X, strict=True), model.predict(X))
    assert np.array_equal(model.predict(X, strict=False), model.predict(X))
    for strict in (True, None):
        with pytest.raises(
            ml.DataError, match=r"of sequence 50, \[.*\], is not in the data that the model was built from"
        ):
            model.predict(changed, strict=strict)
    assert model.predict(changed, strict=False).shape == changed.shape
    answers = np.stack(model.predict(changed, unknown="?"))
    assert ((answers != "?") == seen).all()
    assert (answers[seen] == model.predict(changed, strict=False)[seen]).all()


def test_sequences_are_seen_as_a_whole(tmp_path: Path) -> None:
    model = ml.memorize(["ab", "ba", "abc"], [0, 0, 1], unknown=True)
    for each in (model, ml.load(model.save(tmp_path / "m"))):
        assert each.seen(["ba", "abc", "bc", "abb"]).tolist() == [True, True, False, False]
        assert each.card.fingerprint is not None
        assert each.card.fingerprint.false_positives == 2 / 2.0**64


def test_a_garbled_memory_is_refused(raven: ml.Monolayer) -> None:
    config, names = described(raven)
    twice = save({"fingerprints": np.array([3, 3], np.uint64)})
    for content, complaint in ((twice, "each larger than the one before"), (b"no", "cannot be read")):
        with pytest.raises(ml.ModelFileError, match=complaint):
            model_from(config, names, dict(raven.state_dict()), content)


def test_a_book_on_the_command_line(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_bytes(b"Peter Piper picked a peck.\r\nA peck of peppers Peter Piper picked.\n")
    Path("other.txt").write_text("Peter Pepper picked", encoding="utf-8")
    assert "word for word" in said("memorize-text", "book.txt", "--out", "book")
    assert said("recite", "book").encode() == Path("book.txt").read_bytes()  # `cmp` of the two is silent
    part = json.loads(said("recite", "book", "A peck of", "--tokens", "2", "--json"))
    assert part == {"prompt": "A peck of", "text": " peppers"}
    assert "the text has no 'Pepper'" in said("recite", "book", "Peter Pepper", code=2)
    letters = said("memorize-text", "book.txt", "--unit", "characters", "--out", "letters", "--json")
    assert json.loads(letters)["unit"] == "characters"
    Path("latin.txt").write_bytes("é".encode("latin-1"))
    assert "not UTF-8 text: byte 0 is 0xe9" in said("memorize-text latin.txt --out x", code=2)
    assert "nothing.txt" in said("memorize-text", "nothing.txt", "--out", "x", code=2)
    assert not Path("x").exists()
    # A text file is cut as the model cuts its text.
    found = json.loads(said("predict", "book", "book.txt", "--json"))
    assert found["right"] == found["total"] > 0
    found = json.loads(said("predict book other.txt --strict --json"))
    assert [answer["seen"] for answer in found["answers"]].count(False) == found["unseen"] > 0
    monkeypatch.setattr("monolayer.model.load.load_model", lambda *_: pytest.fail("the checker has its own reader"))
    proof = said("verify", "book", "book.txt").splitlines()
    assert len([line for line in proof if re.fullmatch(r"(weights|data) +[0-9a-f]{64}", line.strip())]) == 2
    said("verify", "book", "other.txt", code=1)


def test_a_file_and_a_text_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is read, also as a string; what looks like one is not memorized by mistake; text= is always the text."""
    monkeypatch.chdir(tmp_path)
    words = "Peter Piper picked\r\na peck."
    for name in ("gpl.txt", "COPYING", "two words"):
        Path(name).write_bytes(words.encode())
        assert ml.memorize_text(Path(name)).generate() == words
        assert ml.memorize_text(name).generate() == words
        assert ml.memorize_text(text=name).generate() == name
    for text in ("LICENSE", "two\nlines.txt", "to be, or not to be.", "a" * 5000, "\0"):
        assert ml.memorize_text(text).generate() == text


@pytest.mark.parametrize("name", ["book", "book.md", "book.csv", "book.json", "-"])
def test_the_next_commands_work_whatever_the_file_is_called(
    name: str, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = b"Peter Piper picked\r\na peck."
    Path("book" if name == "-" else name).write_bytes(text)

    def typed() -> None:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text), encoding="utf-8"))

    typed()
    table = said("memorize-text", name, "--out", "model")
    after = [line.removeprefix("  monolayer ") for line in table.splitlines() if line.startswith("  monolayer ")]
    assert [line.split()[0] for line in after] == ["recite", "verify"]
    assert said(*after[0].split()).encode() == text
    typed()
    assert "proved" in said(*after[1].split())


def test_strict_on_the_command_line(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("known.jsonl").write_text('{"tokens": ["a", "b"], "labels": [1, 2]}\n{"tokens": ["b"], "labels": [3]}\n')
    Path("unknown.jsonl").write_text('{"tokens": ["c"]}\n')
    said("memorize known.jsonl --out model --unknown")
    guess = ml.load("model").predict([["a"]], strict=False)[0].tolist()  # right, but not counted: it was never seen
    rows = [(["a"], guess), (["b", "a"], [2, 1]), (["a", "c"], [1, 1])]
    Path("other.jsonl").write_text("\n".join(json.dumps({"tokens": x, "labels": y}) for x, y in rows))
    found = [json.loads(line) for line in said("predict model known.jsonl other.jsonl --strict").splitlines()]
    assert [(row["labels"], row["seen"]) for row in found] == [
        *([([1, 2], [True, True]), ([3], [True])]),
        *([([None], [False]), ([2, 1], [True, True]), (None, False)]),
    ]
    assert "'c', which the model has never seen" in found[4]["error"]
    counted = said("predict model known.jsonl other.jsonl --strict", errors=True)
    assert counted.endswith("5 of 5 labels are right not seen: 2 of 5 sequences")
    assert json.loads(said("predict model unknown.jsonl --strict --json"))["unseen"] == 1  # also where no row is known
    # A row of which only the beginning was seen counts as not seen.
    said("memorize known.jsonl --out causal --causal --unknown")
    Path("partly.jsonl").write_text('{"tokens": ["a", "a"]}\n')
    partly = json.loads(said("predict causal partly.jsonl --strict --json"))
    assert (partly["answers"][0]["seen"], partly["unseen"]) == ([True, False], 1)
