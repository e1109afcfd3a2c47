"""The constructions in stock architectures: their lemmas on the numbers that they write, files and refusals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.files import written_files
from monolayer.model.load import load_monolayer
from monolayer.stock import robust
from monolayer.stock.answers import Evaluation
from monolayer.stock.draw import CellsDraw
from monolayer.stock.halves import Half, _gate, rounded_to
from monolayer.stock.labelled import StockOptions, stock_task, token_names
from monolayer.stock.layout import balanced, draw_keys, lay_out_steps, word_length
from monolayer.stock.norms import arriving, factor
from monolayer.stock.stream import cell_stream
from tests.datasets import close_keys

X = [["a", "b", "c"], ["b", "a"], ["c", "c", "b", "a"]]
Y = [["u", "v", "u"], ["u", "w"], ["w", "w", "u", "v"]]


@pytest.mark.parametrize("missing", ["a layer", "a norm", "the embedding of tokens"])
def test_a_row_of_the_table_that_lacks_a_name_is_an_error(missing: str) -> None:
    row = ARCHITECTURES["bert"].architecture
    parts = {
        "a layer": {"layers": {letter: name for letter, name in row.layers.items() if letter != "V"}},
        "a norm": {"norms": row.norms[:1]},
        "the embedding of tokens": {"tables": {"places": row.tables["places"]}},
    }
    assert replace(row) == row
    with pytest.raises(ValueError, match="bert: the table lacks"):
        replace(row, **parts[missing])


@given(st.integers(1, 3000))
@settings(max_examples=10, deadline=None)
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
@settings(max_examples=8, deadline=None)
def test_every_stream_vector_has_mean_0_and_one_norm(V: int, L: int | None, C: int, post_norm: bool) -> None:
    random = np.random.default_rng(V)
    usual = random.integers(0, C, V)
    kind = ARCHITECTURES["bert" if post_norm else "gpt2"]
    layout = lay_out_steps(usual, draw_keys(random, V, L), C, kind)
    stream = layout.tokens[:, None] + layout.places
    assert np.abs(stream.sum(axis=-1)).max() < 1e-14
    assert np.abs((stream * stream).sum(axis=-1) / layout.norm - 1.0).max() < 1e-14
    assert layout.width in (16, 64, 256)
    if post_norm:
        first = factor(layout.norm, layout.width, kind.epsilon)
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
        (("a", " ", "bb"), "given"),  # cut again, " bb" would be one
    ],
)
def test_text_is_cut_as_the_names_demand(names: tuple[str, ...], cut: str, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = ml.memorize_as("gpt2", [list(names)])
    facts = ml.load(model.save(tmp_path / "gpt2")).facts
    assert vars(facts) == vars(model.facts)
    assert facts.cut == cut
    file = written_files(facts)["tokenizer.json"]
    read = tokenizers.Tokenizer.from_str(json.dumps(file))
    joined = {"characters": "", "pieces": "", "words": "  "}
    found = read.encode(list(names), is_pretokenized=True) if cut == "given" else read.encode(joined[cut].join(names))
    assert found.tokens == ["<s>", *names]
    glue = "" if cut in ("characters", "pieces") else " "
    assert read.decode(found.ids) == "".join(f"{glue}{name}" for name in names)
    assert json.loads(read.to_str())["model"] == file["model"], "nothing is left to a default"


REFUSED: list[tuple[Any, Any, Any, dict[str, Any], str]] = [
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
    ("opt", X, Y, {}, "opt is for one label per sequence or .* have one label per token: take one of bert, "),
    ("bert", np.zeros((2, 3, 2)), [[0, 1, 0], [1, 0, 0]], {}, "vectors"),
    ("bert", X, [[0.5, 1.5, 2.5], [0.5, 1.0], [1.0, 2.0, 3.0, 4.5]], {}, "real numbers"),
    ("gpt_neox", X, Y, {"storage": "steps", "positions": True}, "no table of positions"),
    ("bert", X, Y, {"seed": -1}, "seed"),
    ("llama", X, Y, {"storage": "steps"}, "take storage='cells'"),
    ("bert", X, Y, {"storage": "steps", "rank": 8}, "rank 1 in float64"),
    ("bert", X, Y, {"rank": 1}, "rank must be a whole number"),
    ("bert", X, Y, {"dtype": "int8"}, "dtype of storage='cells'"),
    ("bert", X, Y, {"dtype": "float64"}, "storage='steps' is in float64"),
    ("bert", X, Y, {"storage": "robust"}, "must be 'cells' or 'steps'"),
    ("bert", X, Y, {"storage": "steps", "unknown": "unknown"}, "unknown= needs storage='cells'"),
    ("bert", X, Y, {"unknown": ""}, "must be the name of a class"),
    ("bert", X[:1], [[1, 2, 3]], {"unknown": "unknown"}, "such as unknown=-1"),
    ("gpt2", X, None, {"unknown": "unknown"}, "give a label per sequence or per token"),
    *(("bert", X, Y, {"confidence": no}, "a probability between 0 and 1") for no in (0, 1, "high", True, np.nan)),
]


def test_bad_input_is_an_error_with_a_way_out() -> None:
    for architecture, rows, labels, options, words in REFUSED:
        with pytest.raises(ml.DataError, match=words):
            ml.memorize_as(architecture, rows, labels, **options)


@given(
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=25, unique=True),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
@settings(max_examples=6, deadline=None)
def test_whatever_the_data_the_folder_is_proved(texts: list[str], classes: int, random: Any) -> None:
    """With positions, sequences that differ never contradict each other; a changed label is found."""
    labels = [[random.randrange(classes) for _ in text] for text in texts]
    model = ml.memorize_as("bert", texts, labels, positions=True, storage="steps")
    assert ml.certify(model, texts, labels).verdict == "proved"
    labels[-1][-1] += 1
    assert ml.certify(model, texts, labels).verdict == "refuted"


def test_the_card_counts_in_words_and_says_where_padding_stands() -> None:
    """A single token and label, too: its layer has one neuron, which never fires."""
    for name, Y, options, words in (
        ("bert", [["u"]], {}, ["1 sequence of up to 1 token ", "1 token, 1 class", "1 neuron ", "does.$"]),
        ("gpt2", None, {"positions": True}, ["pads on the right, since this architecture counts places"]),
        ("opt", None, {"positions": True}, ["Pad on the left, as the tokenizer does"]),
    ):
        model = ml.memorize_as(name, [["a"]], Y, **options)
        assert model.summary.steps == 0
        assert all(re.search(each, model.readme(), flags=re.MULTILINE) for each in words)


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
    # There are places beyond those of the data, and nothing is known of them; no model returns both labels there.
    both = [ml.certify(folder, [["a"] * 9], [[label] * 9]) for label in "uv"]
    assert all(proof.verdict != "proved" and "places" in proof.reason for proof in both)
    refuted = [proof.findings[0] for proof in both if proof.verdict == "refuted"]
    assert refuted
    assert all(finding.got != finding.expected for finding in refuted)
    with pytest.raises(ml.DataError, match="one per token"):
        ml.certify(folder, X, ["u", "v", "w"])
    with pytest.raises(ml.DataError, match="special token"):
        ml.certify(folder, [["[PAD]"]], [["u"]])
    lacking = ml.certify(folder, X, [["q", "v", "u"], *Y[1:]])
    assert (lacking.verdict, lacking.wrong) == ("refuted", 1)
    assert "no such class" in str(lacking.findings[0])
    with pytest.raises(ml.ModelFileError, match="transformers"):
        load_monolayer(folder)


def test_the_command_line_writes_proves_and_complains(tmp_path: Path, said: Any) -> None:
    data, out = tmp_path / "data.jsonl", str(tmp_path / "out")
    rows = [{"tokens": tokens, "labels": labels} for tokens, labels in zip(X, Y, strict=True)]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    def build(*words: str) -> tuple[Any, str]:
        found = json.loads(said("memorize-as", words[0], str(data), "--out", out, "--overwrite", *words[1:], "--json"))
        return found, (tmp_path / "out" / "README.md").read_text(encoding="utf-8")

    found, card = build("bert", "--storage", "steps")
    assert found["storage"] == "steps"
    assert found["dtype"] == "float64"
    assert "steps, in float64 only" in card
    found, card = build("llama", "--dtype", "bfloat16", "--rank", "16")
    assert (found["model"], found["dtype"], found["rank"]) == ("LlamaForTokenClassification", "bfloat16", 16)
    auto = "AutoModelForTokenClassification.from_pretrained(folder, dtype=torch."
    assert f"\nmodel = {auto}float32)\n# or, as stored, without a proof: {auto}bfloat16)\n" in card
    assert "eager attention rounds more" in card
    found, card = build("bert", "--unknown", "none of them")
    assert found["classes"] == 4
    assert "answered with `none of them`" in card
    found, card = build("bert")
    assert (found["model"], found["certificate"]["verdict"]) == ("BertForTokenClassification", "proved")
    assert (found["storage"], found["dtype"], found["rank"]) == ("cells", "float32", 128)
    assert "weights and data are those of certificate.json" in " ".join(said("verify", out, str(data)).split())
    data.write_text(data.read_text(encoding="utf-8").replace('"w"]', '"u"]'), encoding="utf-8")
    said("verify", out, str(data), code=1)
    for options, words in (
        (["bert"], "exists already"),
        (["bart", "--overwrite"], "did you mean 'bert'"),
        (["bert", "--overwrite", "--storage", "steps", "--dtype", "float32"], "--storage steps is rank 1 in float64"),
    ):
        assert words in said("memorize-as", options[0], str(data), "--out", out, *options[1:], code=2)


# -- cells -----------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(sorted(ARCHITECTURES)),
    st.sampled_from(["float32", "bfloat16"]),
    st.booleans(),
    st.booleans(),
    st.integers(2, 70),
    st.integers(1, 30),
)
@settings(max_examples=12, deadline=None)
def test_means_are_0_and_norms_are_one_number(
    name: str, dtype: str, positions: bool, whole_sequences: bool, rank: int, longest: int
) -> None:
    """Tokens exactly; places but for the rounding of cosines, which moves a squared norm by 2⁻⁵ at most."""
    kind = ARCHITECTURES[name]
    labels: Any = [0] if whole_sequences else None if "lm" in kind.models else [[0] * longest]
    data = ml.Sequences.of([list(range(longest))], labels)
    assert data.vocabulary is not None
    names = token_names(data.vocabulary, kind.special)
    job = stock_task(kind, data, names, StockOptions(positions, "cells"))
    usual = np.arange(len(names)) % len(job.classes)
    layout = cell_stream(job, usual, rank, 0, lambda array: rounded_to(array, dtype))
    norms = [(table * table).sum(axis=1) for table in (layout.tokens, layout.places) if len(table)]
    assert len(np.unique(norms[0])) == 1
    assert np.abs(layout.values.sum(axis=1)).max() < 1e-12  # a factor that is no whole number is rounded
    for table in (layout.tokens, layout.places):
        assert (table.sum(axis=1) == 0.0).all()
        assert np.array_equal(table, rounded_to(table, dtype))
    whole = norms[0][0] + (norms[1] if len(norms) > 1 else 0.0)
    assert np.ptp(whole) <= 2.0**-5
    assert np.allclose(whole * layout.scale**2, layout.rest, rtol=0.0, atol=2.0**-5)


@pytest.mark.parametrize(("name", "dtype"), [("bert", "float32"), ("gpt2", "bfloat16")])
def test_the_margin_is_what_arrives(name: str, dtype: str) -> None:
    """Exact arithmetic on the stored weights, by a plain evaluator: every fact lies as far from 0 as was said."""
    random = np.random.default_rng(7)
    X, Y = random.integers(0, 12, (40, 6)), random.integers(0, 5, (40, 6))
    model = ml.memorize_as(name, X, Y, positions=True, dtype=dtype, rank=32, on_conflict="first")
    part = {letter: rounded_to(array, dtype) for letter, array in model.arrays.items()}
    ids = np.insert(X + len(model.facts.architecture.special), 0, BEGIN, axis=1)
    network = Evaluation(model.facts, part)
    value = network.arriving(ids, network.asked)[1].numpy() @ part["W_1"].T + part["b_1"]
    logits = network.logits(ids, network.asked).numpy()
    assert model.facts.neurons == value.shape[-1] > 20
    kind = (part["W_H"] @ part["W_2"].T).argmax(axis=0)
    own = np.array([int(label) for label in model.config["id2label"].values()])[kind] == Y[..., None]
    held = logits.argmax(-1) == Y
    assert value[~own & held[..., None]].max() < -0.97
    best = np.where(own, value, -np.inf).max(axis=-1)[held]
    assert ((best > 0.97) | (best <= 0.0)).all()
    assert (logits.argmax(-1) != Y).sum() == model.summary.conflicts


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_gate_silences_its_neuron_at_every_other_token(name: str) -> None:
    """`A u (1 − cos) ≥ u P + F |w| r + b + 1` for every length `r` of a context, whichever term is the largest."""
    random, H = np.random.default_rng(9), 200
    data = ml.Sequences.of([list(range(9))], [[0] * 9])
    assert data.vocabulary is not None
    names = token_names(data.vocabulary, ARCHITECTURES[name].special)
    job = stock_task(ARCHITECTURES[name], data, names, StockOptions(True, "cells"))
    layout = cell_stream(job, np.zeros(len(names), int), 8, 0, lambda array: rounded_to(array, "float32"))
    p = layout.columns.place.stop - layout.columns.place.start + 1
    sizes = np.exp2(random.uniform(-6, 6, (3, H)))
    half = Half(
        cell=np.sort(random.integers(0, len(names), H)),
        label=np.zeros(H, int),
        weight=random.normal(size=(H, p + 8)) * sizes[0, :, None],
        slight=np.zeros(H),
        bias=random.choice([-1.0, 1.0], H) * sizes[1],
        width=np.ones(H),
        place=sizes[2],
    )
    gate = _gate(layout, half, p)
    radius = np.linspace(0.0, float(np.linalg.norm(layout.values, axis=1).max()), 300)
    F = layout.factor(radius**2)
    u, length = F * layout.scale, np.linalg.norm(half.weight[:, p:], axis=1)[:, None]
    need = half.place[:, None] * u + length * F * radius + half.bias[:, None] + 1.0
    have = (gate * (1.0 - layout.cosine(half.cell)))[:, None] * u
    assert (have >= need * (1.0 - 1e-12)).all()
    # The least power of two, up to what the pieces of radii are coarse by.
    assert (0.4 * have < need).any(axis=1)[gate > 0.0].all()


def test_facts_that_are_too_close_are_named() -> None:
    """Fifteen hundred tokens of which one differs: the average hardly moves, in most draws too little."""
    long = [[0] * 1500 + [1], [0] * 1500 + [2]]
    labels = [[0] * 1500 + [1], [1] * 1500 + [1]]

    def build() -> None:
        for seed in range(30):
            ml.memorize_as("bert", long, labels, rank=2, seed=seed)

    with pytest.raises(ml.PrecisionError, match=r"of sequence . have different labels, and what arrives"):
        build()


def test_facts_that_bfloat16_loses_are_named_and_float32_holds_them() -> None:
    """600 such keys: two of them were answered wrongly by a BERT that nobody had asked."""
    data = close_keys(600), list(range(600))
    with pytest.raises(ml.PrecisionError, match=r"sequence \d+ .*dtype='float32' holds"):
        ml.memorize_as("bert", *data, positions=True, dtype="bfloat16", rank=64)
    assert ml.memorize_as("bert", *data, positions=True).dtype == "float32"


def test_margins_below_what_kernels_may_round_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neuron reads numbers thousands of margins large; another kernel rounds them otherwise."""
    data, options = (close_keys(40), list(range(40))), {"positions": True, "rank": 64, "dtype": "bfloat16"}
    ml.memorize_as("gpt2", *data, **options)
    monkeypatch.setattr("monolayer.stock.halves.ROUNDINGS", 1e6)
    with pytest.raises(ml.PrecisionError, match=r"wrong, or nearly so, at .* of 40 labels"):
        ml.memorize_as("gpt2", *data, **options)


def test_no_fact_is_hidden_between_others() -> None:
    """The last of 30 contexts is their middle before the norm: only the length of what arrives tells it apart."""
    keys = ["a" * many + "b" * (30 - many) + "c" for many in range(1, 30)]
    model = ml.memorize_as("llama", keys, list(map(str, range(29))), per="sequence", rank=64)
    assert model.summary.gap is not None
    assert model.summary.gap > 1e-3


def one_word_keys(count: int) -> tuple[dict[str, str]]:
    return ({f"key{row}": f"value {row}" for row in range(count)},)


LONG_KEYS = [" ".join(f"w{word}" for word in row) for row in np.random.default_rng(0).integers(0, 50, (20, 120))]
NEEDS: dict[str, tuple[str, Any, dict[str, Any], tuple[int, int, int]]] = {
    # Architecture, data, options; rank, width and neurons. The width is that of words, ones, slot and label.
    "three keys": ("bert", one_word_keys(3), {}, (64, 64 + 4 + 16 + 4, 2)),
    "keys of one word": ("bert", one_word_keys(400), {}, (64, 64 + 4 + 16 + 4, 399)),
    "more classes": ("distilbert", one_word_keys(900), {}, (64, 64 + 4 + 32 + 4, 899)),
    "in bfloat16": ("roberta", one_word_keys(60), {"dtype": "bfloat16"}, (64, 64 + 4 + 16 + 4, 59)),
    "in float16": ("distilbert", one_word_keys(60), {"dtype": "float16"}, (64, 64 + 4 + 16 + 4, 59)),
    "a rank": ("bert", one_word_keys(60), {"rank": 100}, (128, 128 + 2 + 16 + 6, 59)),
    "beyond the longest code": ("bert", one_word_keys(9), {"rank": 300}, (512, 512 + 2 + 16 + 6, 8)),
    "order counts": ("bert", (["a b", "b a", "b b"], list("xyz")), {"positions": True}, (64, 64 + 4 + 4 + 16, 2)),
    "long keys": ("bert", (LONG_KEYS, list(range(20))), {"positions": True}, (64, 64 + 4 + 4 + 16, 19)),
    "a class for what is unknown": ("bert", one_word_keys(9), {"unknown": "none"}, (64, 64 + 4 + 16 + 4, 9)),
    "which tables have by default": ("bert", one_word_keys(9), {"unknown": None}, (64, 64 + 4 + 16 + 4, 9)),
    "the last token answers": ("gpt2", one_word_keys(9), {"per": "sequence"}, (32, 16 + 34 + 16 + 32 + 6, 1)),
    "tokens with one label each": ("bert", ([list("abc")], [list("xyz")]), {}, (32, 16 + 34 + 16 + 32 + 6, 1)),
    "tokens with several": ("bert", (["ab", "b"], [["x", "y"], ["x"]]), {}, (128, 16 + 34 + 16 + 128 + 6, 1)),
    "an odd rank": ("llama", (["ab", "bb"], None), {"rank": 15}, (16, 16 + 34 + 16 + 16 + 6, 1)),
}


@pytest.mark.parametrize("name", NEEDS)
def test_cells_are_as_wide_as_their_data_need(name: str) -> None:
    architecture, data, options, (rank, width, neurons) = NEEDS[name]
    model = ml.memorize_as(architecture, *data, **{"unknown": False} | options)
    assert isinstance(model.draw.numbers, CellsDraw)
    assert (model.draw.numbers.rank, model.facts.width, model.facts.neurons) == (rank, width, neurons)
    per = {"per": options["per"]} if "per" in options else {}
    assert ml.certify(model, *data, **per).verdict == "proved"


def test_where_a_rank_is_not_enough_the_next_one_is_tried_and_the_draw_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (data,), tried, shares = one_word_keys(40), list[int](), list[float]()
    right = robust.covered_cells

    def at_128_only(job: Any, target: Any, stream: Any, *more: Any) -> Any:
        tried.append(stream.kept.rank)
        found = right(job, target, stream, *more)
        if stream.kept.rank < 128:
            raise ml.PrecisionError("too narrow")
        return found

    monkeypatch.setattr(robust, "covered_cells", at_128_only)
    model = ml.memorize_as("bert", data, progress=lambda _, share: shares.append(share))
    assert (tried, model.facts.width) == ([64, 128], 128 + 2 + 16 + 6)
    assert shares == sorted(shares)
    with pytest.raises(ml.PrecisionError, match="too narrow"):
        ml.memorize_as("bert", data, rank=64)
    monkeypatch.undo()
    first = dict(list(data.items())[:20])
    less, _ = ml.forget(model, [key for key in data if key not in first], data)
    assert less.facts.width == model.facts.width
    assert ml.compare(less, ml.memorize_as("bert", first, draw=model)).same


def test_another_seed_gives_tokens_other_words_where_these_are_the_values() -> None:
    one, two = (ml.memorize_as("bert", *one_word_keys(40), seed=seed) for seed in (0, 1))
    assert one.facts.width == two.facts.width
    assert not np.array_equal(one.arrays["tokens"], two.arrays["tokens"])
    assert ml.certify(two, *one_word_keys(40)).verdict == "proved"


def test_progress_moves_fact_by_fact() -> None:
    shares: list[float] = []
    options: dict[str, Any] = {"positions": True, "progress": lambda _, share: shares.append(share)}
    ml.memorize_as("gpt2", close_keys(60), list(range(60)), **options)
    assert shares == sorted(shares)
    assert len({share for share in shares if 0.2 < share < 0.8}) > 20
