"""The construction in stock clothes: its lemmas on the numbers it writes, its files, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.huggingface.files import written
from monolayer.model.load import load_monolayer
from monolayer.stock.layout import balanced, draw_keys, lay_out, word_length
from monolayer.stock.norms import arriving, factor

X = [["a", "b", "c"], ["b", "a"], ["c", "c", "b", "a"]]
Y = [["u", "v", "u"], ["u", "w"], ["w", "w", "u", "v"]]


@given(st.integers(1, 3000))
@settings(max_examples=30, deadline=None)
def test_balanced_words_differ_in_two_places_at_least(count: int) -> None:
    words = balanced(count)
    assert words.shape == (count, word_length(count))
    assert set(np.unique(words)) <= {-1.0, 1.0}
    assert not words.sum(axis=1).any()
    assert len(np.unique(words, axis=0)) == count
    some = words[:: max(1, count // 50)]
    inner = some @ some.T
    np.fill_diagonal(inner, -np.inf)
    assert inner.max(initial=-np.inf) <= words.shape[1] - 4


@given(st.integers(5, 400), st.one_of(st.none(), st.integers(2, 40)), st.integers(1, 60), st.booleans())
@settings(max_examples=25, deadline=None)
def test_every_stream_vector_has_mean_0_and_one_norm(V: int, L: int | None, C: int, post_norm: bool) -> None:
    random = np.random.default_rng(V)
    usual = random.integers(0, C, V)
    layout = lay_out(usual, draw_keys(random, V, L), C, post_norm=post_norm, epsilon=2.0**-17)
    stream = layout.tokens[:, None] + layout.places
    assert np.abs(stream.sum(axis=-1)).max() < 1e-14
    assert np.abs((stream * stream).sum(axis=-1) / layout.norm - 1.0).max() < 1e-14
    assert layout.width in (16, 64, 256)
    if post_norm:
        first = factor(layout.norm, layout.width, layout.epsilon)
        assert np.abs(np.abs(layout.tokens[:, layout.label]) * first - 1.5).max() < 1e-12


@given(st.floats(-3, 3), st.floats(1e-6, 3), st.floats(10, 200), st.sampled_from([16, 64]))
def test_what_arrives_rises_with_the_context(g: float, more: float, norm: float, width: int) -> None:
    assert arriving(g + more, norm, width, 1e-5) > arriving(g, norm, width, 1e-5)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        ml.memorize_as("bert", X, Y, storage="steps", seed=seed).save(tmp_path / name)
    files = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three")}
    assert files["one"] == files["two"] != files["three"]


@pytest.mark.parametrize(
    ("names", "cut"),
    [
        (("a", "字", "\U0001f600", " "), "characters"),
        (("ab", "c"), "words"),
        (("ab", " c", "\n\n d", "  "), "pieces"),
        (("ab", "c\nd"), "given"),
    ],
)
def test_text_is_cut_as_the_names_demand(names: tuple[str, ...], cut: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    facts = ml.memorize_as("gpt2", [list(names)]).facts
    assert facts.cut == cut
    file = written(facts)["tokenizer.json"]
    read = tokenizers.Tokenizer.from_str(json.dumps(file))
    joined = {"characters": "", "pieces": "", "words": "  "}
    found = read.encode(list(names), is_pretokenized=True) if cut == "given" else read.encode(joined[cut].join(names))
    assert found.tokens == ["<s>", *names]
    glue = "" if cut in ("characters", "pieces") else " "
    assert read.decode(found.ids) == "".join(f"{glue}{name}" for name in names)
    assert json.loads(read.to_str())["model"] == file["model"], "nothing is left to a default"


def test_integers_are_tokens_and_labels_too() -> None:
    random = np.random.default_rng(1)
    ids = np.stack([random.permutation(40)[:6] for _ in range(10)])
    labels = random.integers(0, 5, ids.shape)
    model = ml.memorize_as("bert", ids, labels)
    assert model.config["id2label"]["3"] == "3"
    assert ml.certify(model, ids, labels).verdict == "proved"
    labels[3, 2] += 1
    proof = ml.certify(model, ids, labels)
    assert (proof.verdict, proof.wrong) == ("refuted", 1)
    assert (proof.findings[0].sequence, proof.findings[0].position) == (3, 2)


@pytest.mark.parametrize(
    ("architecture", "X", "Y", "options", "words"),
    [
        ("brt", X, Y, {}, "did you mean 'bert'"),
        ("GPT-2", X, Y, {}, "did you mean 'gpt2'"),
        ("zzz", X, Y, {}, "known are bert"),
        (["ab"], ["x"], None, {}, "is not known"),  # the name was left out
        ("bert", [["[CLS]", "b"]], [["x", "y"]], {}, "special token"),
        ("gpt2", ["so <s> it is"], None, {}, "sequence 0 spells '<s>'"),
        ("bert", [["", "b"]], [["x", "y"]], {}, "empty token"),
        ("bert", [["\ud800", "b"]], [["x", "y"]], {}, "the token .* holds half of a surrogate pair"),
        ("bert", X[:1], [["x", "y", "\ud800"]], {}, "the label .* holds half of a surrogate pair"),
        ("bert", X, None, {}, "one label per token or one label per sequence; the data have sequences without labels"),
        (
            "opt",
            X,
            Y,
            {},
            "opt is for one label per sequence or .* have one label per token: take one of bert, ",
        ),
        ("bert", np.zeros((2, 3, 2)), [[0, 1, 0], [1, 0, 0]], {}, "vectors"),
        ("bert", X, [[0.5, 1.5, 2.5], [0.5, 1.0], [1.0, 2.0, 3.0, 4.5]], {}, "real numbers"),
        ("bert", X, Y, {"activation": "swish"}, "activation must be relu6 or own"),
        ("bert", X, Y, {"storage": "steps", "activation": "own"}, "of relu6: leave rank, dtype and activation out"),
        ("gpt_neox", X, Y, {"storage": "steps", "positions": True}, "no table of positions"),
        ("bert", X, Y, {"seed": -1}, "seed"),
        ("llama", X, Y, {"storage": "steps"}, "take storage='cells'"),
        ("bert", X, Y, {"storage": "steps", "rank": 8}, "rank 1 in float64"),
        ("bert", X, Y, {"rank": 1}, "rank must be a whole number"),
        ("bert", X, Y, {"dtype": "int8"}, "dtype of storage='cells'"),
        ("bert", X, Y, {"dtype": "float64"}, "storage='steps' is in float64"),
        ("bert", X, Y, {"storage": "robust"}, "must be 'cells' or 'steps'"),
    ],
)
def test_bad_input_is_an_error_with_a_way_out(
    architecture: Any, X: Any, Y: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ml.DataError, match=words):
        ml.memorize_as(architecture, X, Y, **options)


@given(
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=25, unique=True),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
@settings(max_examples=15, deadline=None)
def test_whatever_the_data_the_folder_is_proved(texts: list[str], classes: int, random: Any) -> None:
    """With positions, sequences that differ never contradict each other; a changed label is found."""
    labels = [[random.randrange(classes) for _ in text] for text in texts]
    model = ml.memorize_as("bert", texts, labels, positions=True, storage="steps")
    assert ml.certify(model, texts, labels).verdict == "proved"
    labels[-1][-1] += 1
    assert ml.certify(model, texts, labels).verdict == "refuted"


@pytest.mark.parametrize(
    ("name", "Y", "options", "words"),
    [
        ("bert", [["u"]], {}, ["1 sequence of up to 1 token,", "1, 1 class; 0", "1 neuron,", "does.$"]),
        ("bert", ["u"], {}, ["does: the label is read at the first token.$"]),
        ("bert", [["u"]], {"positions": True}, ["does: places are counted from the left.$"]),
        ("gpt_neox", [["u"]], {}, ["Pad on the right, as the tokenizer does.$"]),
        ("gpt_neox", [["u"]], {"positions": True}, ["as the tokenizer does.$", "value rank|no token has"]),
        ("gpt2", None, {"positions": True}, ["pads on the right, since this architecture counts places"]),
        ("opt", None, {"positions": True}, ["pads on the left, where `generate` needs it"]),
    ],
)
def test_the_card_counts_in_words_and_gives_the_right_reason(name: str, Y: Any, options: Any, words: list[str]) -> None:
    """A single token and label, too: its layer has one neuron, which never fires."""
    model = ml.memorize_as(name, [["a"]], Y, **options)
    assert model.summary.steps == 0
    for each in words:
        assert re.search(each, model.readme(), flags=re.MULTILINE)


def test_contradictions_are_shown() -> None:
    with pytest.raises(ml.ContradictionError, match="positions=True"):
        ml.memorize_as("bert", ["ab", "ba"], [["x", "y"], ["z", "w"]])
    model = ml.memorize_as("bert", ["ab", "ba"], [["x", "y"], ["z", "w"]], on_conflict="first")
    assert model.summary.conflicts == 2
    with pytest.raises(ml.ContradictionError, match="'</s>'"):
        ml.memorize_as("gpt2", ["ab", "abc"])


def test_data_that_a_folder_cannot_be_asked_about(tmp_path: Path) -> None:
    folder = ml.memorize_as("bert", X, Y, positions=True, storage="steps").save(tmp_path / "m")
    with pytest.raises(ml.DataError, match="sequence 1 has 517 tokens"):
        ml.certify(folder, [["a"], ["a"] * 517], [["u"], ["u"] * 517])
    beyond = ml.certify(folder, [["a"] * 9], [["u"] * 9])  # there are places, and nothing is known of them
    assert (beyond.verdict, "places" in beyond.reason) == ("undecided", True)
    with pytest.raises(ml.DataError, match="one per token"):
        ml.certify(folder, X, ["u", "v", "w"])
    with pytest.raises(ml.DataError, match="special token"):
        ml.certify(folder, [["[PAD]"]], [["u"]])
    lacking = ml.certify(folder, X, [["q", "v", "u"], *Y[1:]])
    assert (lacking.verdict, lacking.wrong) == ("refuted", 1)
    assert "no such class" in str(lacking.findings[0])
    with pytest.raises(ml.ModelFileError, match="transformers"):
        load_monolayer(folder)


def test_the_command_line_writes_proves_and_complains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.jsonl"
    rows = [{"tokens": tokens, "labels": labels} for tokens, labels in zip(X, Y, strict=True)]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = str(tmp_path / "out")
    assert run(["memorize-as", "bert", str(data), "--out", out, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["certificate"]["verdict"]) == ("BertForTokenClassification", "proved")
    assert (said["storage"], said["dtype"]) == ("cells", "float32")
    assert run(["memorize-as", "bert", str(data), "--storage", "steps", "--out", str(tmp_path / "exact")]) == 0
    assert "steps, in float64 only" in " ".join(capsys.readouterr().out.split())
    assert "steps, in float64 only" in (tmp_path / "exact" / "README.md").read_text(encoding="utf-8")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "AutoModelForTokenClassification.from_pretrained" in card
    assert run(["verify", out, str(data)]) == 0
    assert "weights and data are those of certificate.json" in " ".join(capsys.readouterr().out.split())
    data.write_text(data.read_text(encoding="utf-8").replace('"w"]', '"u"]'), encoding="utf-8")
    assert run(["verify", out, str(data)]) == 1
    for options, words in (
        (["bert"], "exists already"),
        (["bart", "--overwrite"], "did you mean 'bert'"),
        (["bert", "--overwrite", "--storage", "steps", "--dtype", "float32"], "--storage steps is rank 1 in float64"),
    ):
        capsys.readouterr()
        assert run(["memorize-as", options[0], str(data), "--out", out, *options[1:]]) == 2
        assert words in " ".join(capsys.readouterr().err.split())
