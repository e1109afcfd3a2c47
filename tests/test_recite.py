"""A text, memorized, is said word for word; a prompt that is not in it, or not enough, is told apart."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

import monolayer as ml
from monolayer.cli import run
from monolayer.data.text import MARK, read_text, split, windows
from monolayer.data.text import raven as raven_text
from monolayer.model.load import model_from
from monolayer.model.save import described

RAVEN = raven_text()


@pytest.fixture(scope="module")
def raven() -> ml.Monolayer:
    return ml.memorize_text(RAVEN)


@settings(max_examples=25)
@given(st.text(max_size=60), st.sampled_from(["words", "characters"]))
def test_tokens_add_up_to_the_text(text: str, unit: str) -> None:
    assert "".join(split(text, unit)) == text  # type: ignore[arg-type]
    assert MARK not in split(text, unit)  # type: ignore[arg-type]


def _slow_window(tokens: list[str]) -> int:
    """The least window by trying each one: the reference of the search by hashes."""
    rows = [MARK, *tokens, MARK]
    for width in count(1):
        following: dict[tuple[str, ...], str] = {}
        pairs = [(tuple(rows[max(0, k - width) : k]), rows[k]) for k in range(1, len(rows))]
        if all(following.setdefault(window, after) == after for window, after in pairs):
            return width
    raise AssertionError


@settings(max_examples=20)
@given(st.lists(st.sampled_from("ab c"), min_size=1, max_size=40).map("".join))
def test_the_window_is_the_smallest_that_tells(text: str) -> None:
    data, script = windows(text, "characters")
    assert script.window == _slow_window(list(text))
    assert data.lengths.max() <= script.window


@settings(max_examples=6)
@given(st.lists(st.sampled_from(["a", "b", " ", "\n", "é", "x y"]), min_size=1, max_size=30).map("".join))
def test_every_text_is_recited_from_its_beginning(text: str) -> None:
    for unit in ("words", "characters"):
        model = ml.memorize_text(text, unit=unit)
        assert model.generate() == text


def test_short_windows_are_those_that_always_go_on_alike() -> None:
    data, script = windows("one two one three one two one four", "words")
    assert data.vocabulary is not None
    seen = data.split(data.vocabulary.decode(data.tokens))
    short = {
        "".join(window): label
        for window, label in zip(seen, data.named_labels(), strict=True)
        if MARK not in window and len(window) < script.window
    }
    assert (short["two"], short["three"], short["four"]) == (" ", " ", MARK)
    assert " two" in short
    assert " " not in short  # four words may follow


def test_the_raven_is_recited_from_any_place_and_proved(raven: ml.Monolayer) -> None:
    assert raven.generate() == RAVEN
    assert ml.certify(raven, windows(RAVEN)[0]).verdict == "proved"
    script, tokens = raven.card.script, split(RAVEN, "words")
    assert script is not None
    for start in range(0, len(tokens) - script.window, 397):
        prompt = "".join(tokens[start : start + script.window])
        assert raven.generate(prompt, max_tokens=20) == "".join(tokens[start + script.window :][:20])
    assert raven.generate("Once upon", max_tokens=4) == " a midnight"  # short prompts do where they tell
    assert raven.generate("Open here I", max_tokens=6) == " flung the shutter"
    assert RAVEN.endswith(raven.generate("Open here I"))


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("Quoth the Raven", "goes on in several ways there"),
        ("Once a Raven", "does not stand in the text"),
        ("Lenoree", r"no 'Lenoree' \(did you mean 'Lenore'\?\)"),
    ],
)
def test_a_prompt_that_does_not_tell_is_an_error(raven: ml.Monolayer, prompt: str, words: str) -> None:
    with pytest.raises(ml.DataError, match=words):
        raven.generate(prompt)


def test_changed_weights_recite_by_the_network_itself(raven: ml.Monolayer) -> None:
    """The quick way asks whether the weights are as built: with another head, the dense network answers."""
    model = ml.memorize_text("to be or not to be, that is the question")
    said = model.generate()
    model.head.bias.data[:] = 0.0
    model.head.weight.data[:] = 0.0
    model.head.bias.data[model.card.vocabulary.rows["be"]] = 1.0  # type: ignore[union-attr]
    assert model.generate(max_tokens=3) == "bebebe"
    assert said.startswith("to be")


def test_texts_that_cannot_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from monolayer.data import text

    with pytest.raises(ml.DataError, match="does not recite"):
        ml.memorize([[0, 1]], [[0, 1]]).generate()
    with pytest.raises(ml.DataError, match="empty"):
        ml.memorize_text("")
    with pytest.raises(ml.DataError, match="window must be a whole number"):
        ml.memorize_text("a b", window=0)
    with pytest.raises(ml.DataError, match="words or characters"):
        ml.memorize_text("a b", unit="lines")
    monkeypatch.setattr(text, "MOST", 4)
    with pytest.raises(ml.DataError, match=r"repeats itself: the 4 tokens up to line 1 stand again up to line 2"):
        ml.memorize_text("a b c d e f\n a b c d e g")
    with pytest.raises(ml.DataError, match="stand again up to line 1, and then it ends"):
        ml.memorize_text("la " * 20)
    with pytest.raises(ml.DataError, match="must be a string, not a list"):
        ml.memorize_text(["la"])  # type: ignore[arg-type]
    latin = tmp_path / "latin.txt"
    latin.write_bytes("é".encode("latin-1"))
    with pytest.raises(ml.DataError, match="no UTF-8 text: byte 0 is 0xe9"):
        read_text(latin)


# -- was it seen? ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [{}, {"positions": True}, {"causal": True, "positions": True}])
def test_what_was_seen_is_known_and_nothing_else(rules: dict[str, bool]) -> None:
    random = np.random.default_rng(5)
    X = random.integers(0, 50, (80, 6))
    model = ml.memorize(X, random.integers(0, 3, (80, 6)), fingerprint=True, on_conflict="first", **rules)
    assert model.seen(X).all()
    other = np.arange(50, 80)
    changed = X.copy()
    changed[other, 2] = (changed[other, 2] + 1 + random.integers(0, 48, len(other))) % 50
    seen = model.seen(changed)
    assert seen[:50].all()
    assert not seen[50:, 2:].any()
    if "causal" in rules:
        assert seen[50:, :2].all()
    turned = model.seen(X[:, ::-1])
    assert turned.all() != bool(rules)  # order counts only where the model sees it
    assert np.array_equal(model.predict(X, strict=True), model.predict(X))
    with pytest.raises(ml.DataError, match="of sequence 50 is no point that the model was built from"):
        model.predict(changed, strict=True)


def test_sequences_are_seen_as_a_whole_and_without_fingerprints_nobody_can_tell() -> None:
    model = ml.memorize(["ab", "ba", "abc"], [0, 0, 1], fingerprint=True)
    assert model.seen(["ba", "abc", "bc", "abb"]).tolist() == [True, True, False, False]
    assert model.card.fingerprint is not None
    assert model.card.fingerprint.false_positives == 2 / 2.0**64
    bare = ml.memorize([[0, 1]], [[0, 1]])
    for ask in (lambda: bare.seen([[0, 1]]), lambda: bare.predict([[0, 1]], strict=True)):
        with pytest.raises(ml.DataError, match="keeps no fingerprints"):
            ask()
    with pytest.raises(ml.DataError, match="vectors have none"):
        ml.memorize(np.ones((1, 1, 2)), [[0]], fingerprint=True)


# -- files -----------------------------------------------------------------------------------------------


def test_a_saved_model_still_recites_and_knows(raven: ml.Monolayer, tmp_path: Path) -> None:
    raven.save(tmp_path / "raven")
    loaded = ml.load(tmp_path / "raven")
    assert loaded.card.script == raven.card.script
    assert loaded.generate() == RAVEN
    plain = ml.load(ml.memorize(["ab", "ba"], [0, 0], fingerprint=True).save(tmp_path / "plain"))
    assert plain.seen(["ab", "aa"]).tolist() == [True, False]
    assert plain.card.script is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (save({"fingerprints": np.array([3, 3], np.uint64)}), "each larger than the one before"),
        (b"no", "cannot be read"),
    ],
)
def test_a_garbled_memory_is_refused(raven: ml.Monolayer, content: bytes, complaint: str) -> None:
    config, names = described(raven)
    with pytest.raises(ml.ModelFileError, match=complaint):
        model_from(config, names, dict(raven.state_dict()), content)


# -- the command line ------------------------------------------------------------------------------------


def test_a_book_on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_bytes(b"Peter Piper picked a peck.\r\nA peck of peppers Peter Piper picked.\n")
    assert run(["memorize-text", "book.txt", "--out", "book"]) == 0
    assert "word for word" in capfd.readouterr().out
    assert run(["recite", "book"]) == 0
    assert capfd.readouterr().out.encode() == Path("book.txt").read_bytes()  # `cmp` of the two is silent
    assert run(["recite", "book", "A peck of", "--tokens", "2", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"prompt": "A peck of", "text": " peppers"}
    assert run(["recite", "book", "Peter Pepper"]) == 2
    assert "the text has no 'Pepper'" in capfd.readouterr().err
    assert run(["memorize-text", "book.txt", "--unit", "characters", "--out", "letters", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["unit"] == "characters"
    assert run(["memorize-text", "nothing.txt", "--out", "x"]) == 2
    assert not Path("x").exists()


def test_a_text_file_is_cut_as_the_model_cuts_its_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("Peter Piper picked a peck.\n", encoding="utf-8")
    Path("other.txt").write_text("Peter Pepper picked", encoding="utf-8")
    assert run(["memorize-text", "book.txt", "--out", "book"]) == 0
    capfd.readouterr()
    assert run(["predict", "book", "book.txt", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["right"] == found["total"] > 0
    assert run(["predict", "book", "other.txt", "--strict", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [answer["seen"] for answer in found["answers"]].count(False) == found["unseen"] == 3
    monkeypatch.setattr("monolayer.model.load.load", lambda *_: pytest.fail("the checker has its own reader"))
    assert run(["verify", "book", "book.txt"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len([line for line in lines if re.fullmatch(r"(weights|data) +[0-9a-f]{64}", line.strip())]) == 2
    assert run(["verify", "book", "other.txt"]) == 1


def test_strict_on_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("known.jsonl").write_text('{"tokens": ["a", "b"], "labels": [1, 2]}\n{"tokens": ["b"], "labels": [3]}\n')
    Path("unknown.jsonl").write_text('{"tokens": ["c"]}\n')
    assert run(["memorize", "known.jsonl", "--out", "model", "--fingerprint"]) == 0
    guess = ml.load("model").predict([["a"]])[0].tolist()  # right, but not counted: it was never seen
    rows = [(["a"], guess), (["b", "a"], [2, 1]), (["a", "c"], [1, 1])]
    Path("other.jsonl").write_text("\n".join(json.dumps({"tokens": x, "labels": y}) for x, y in rows))
    capfd.readouterr()
    assert run(["predict", "model", "known.jsonl", "other.jsonl", "--strict"]) == 0
    said = capfd.readouterr()
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [(row["labels"], row["seen"]) for row in found] == [
        *([([1, 2], [True, True]), ([3], [True])]),
        *([([None], [False]), ([2, 1], [True, True]), (None, False)]),
    ]
    assert "'c', which the model has never seen" in found[4]["error"]
    assert "5 of 5 labels are right" in said.err
    assert "not seen: 2 of 5 sequences" in said.err
    assert run(["predict", "model", "unknown.jsonl", "--strict", "--json"]) == 0  # also where no row is known
    assert json.loads(capfd.readouterr().out)["unseen"] == 1
