"""Certificates of stock folders: bounds against evaluations that try to break them, and planted faults.

No folder that errs is proved, none that is right is refuted. The plain evaluation of `stock/answers.py` is asked, which
tests/test_stock_transformers.py holds against transformers. Every fault in texts changes what a user gets.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.checker.certificate import Certificate
from monolayer.checker.rounding import EXP_ULPS, PADDING, UnhandledError
from monolayer.checker.stock.bounds import MEAN, SOFTMAX_BLOCK, UNIT_64, VARIANCE, bounds
from monolayer.checker.stock.check import _check_steps, _stock_findings, _written
from monolayer.checker.stock.evaluate import _check_stock_sizes, batches
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stock.places import places_of
from monolayer.checker.stock.readout import (
    Arrivals,
    StockSteps,
    _exact_sums,
    _signs_decide,
    bent,
    coordinates,
    read_steps,
    step_classes,
)
from monolayer.checker.stock.structure import _check_plain, _owners, read_structure, without_silent_neurons
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.opened import stock_files
from monolayer.theory.balls import precision
from tests import plain_stock, stock_attack
from tests.plain_stock import Stock
from tests.test_enclosed import MOMENTS, Net, blocks, moments
from tests.verdicts import expect, written

RANDOM = np.random.default_rng(11)
IDS = np.stack([RANDOM.permutation(25)[:6] for _ in range(40)])
LABELS = RANDOM.integers(0, 5, IDS.shape)
CAUSAL = np.cumsum(IDS * IDS, axis=1) % 5
"""Labels that the tokens so far determine."""


SAYING = np.random.default_rng(5)
WORDS = [f"w{number}" for number in range(60)]
USUAL = 1.0 / np.arange(3.0, 63.0)
SENTENCES = [
    [f"s{row}", *(WORDS[i] for i in SAYING.choice(60, size=SAYING.integers(7, 20), p=USUAL / USUAL.sum()))]
    for row in range(10)
]
"""Of 8 to 20 words; each begins with one of its own, so that every prefix has one continuation."""
TAGS = [["NVAD"[SAYING.integers(4)] for _ in sentence] for sentence in SENTENCES]
TOPICS = ["xyz"[SAYING.integers(3)] for _ in SENTENCES]
BY_TASK: dict[str, Any] = {"token": TAGS, "sequence": TOPICS, "lm": None}


def evaluate(model: Stock, labels: Any) -> int:
    """How many labels the plain evaluator gets wrong."""
    network = model.evaluation()
    found = network.logits(with_begin(model["facts"]), network.asked).numpy()
    best = np.array([int(name) for name in model["facts"].classes])[found.argmax(axis=-1)]
    return int(((best != labels) | np.isnan(found).any(axis=-1)).sum())


def with_begin(facts: Any) -> Any:
    return np.insert(IDS + len(facts.architecture.special), 0, BEGIN, axis=1)


def tensor(part: str, change: Callable[[Any], Any]) -> Callable[[Stock], None]:
    """Change the tensor whose name ends so: in place, or by what is returned."""

    def apply(model: Stock) -> None:
        array = next(array for name, array in model["tensors"].items() if name.endswith(part))
        changed = change(array)
        array[: len(array if changed is None else changed)] = array if changed is None else changed

    return apply


def config(**values: Any) -> Callable[[Stock], None]:
    return lambda model: model["config"].update(values)


def first(value: float) -> Callable[[Any], Any]:
    return lambda array: array.reshape(-1).__setitem__(0, value)


def swap(one: int, two: int) -> Callable[[Any], Any]:
    return lambda array: array.__setitem__([one, two], array[[two, one]])


def _lopsided(model: Stock) -> None:
    """Label coordinates keep their signs, but the last norm subtracts a mean, and the pooler sees other signs."""
    written = model["tensors"]["distilbert.transformer.layer.0.ffn.lin2.weight"]
    written[np.flatnonzero(written.any(axis=1))[2]] *= 64.0


def put(row: Any, columns: Any, values: Any) -> Callable[[Any], Any]:
    return lambda array: array.__setitem__((row, columns), values)


def moved(source: Any, target: Any) -> Callable[[Any], Any]:
    """A token's numbers in other columns: the norm of its row is the same, and what is read of it another."""

    def change(array: Any) -> None:
        array[5, target], array[5, source] = array[5, source], 0.0

    return change


def _longer(array: Any) -> None:
    array[5, 2:4] *= 1.00001


def _one_word(array: Any) -> None:
    array[0, 4:12] = array[5, 4:12]


def _loud(model: Stock) -> None:
    for part in ("query", "key"):
        tensor(f"self.{part}.weight", first(2.0**19))(model)


def _another_class(model: Stock) -> None:
    """One more class, which no point has, with the word of the first: their logits are equal."""
    for part in ("weight", "bias"):
        array = model["tensors"][f"classifier.{part}"]
        model["tensors"][f"classifier.{part}"] = np.append(array, array[:1], axis=0)
    model["config"]["id2label"]["5"], model["config"]["label2id"]["new"] = "new", 5


def _far_place(model: Stock) -> None:
    """A row that no sequence of the data reaches, and padding may."""
    name = "bert.embeddings.position_embeddings.weight"
    more = np.tile([[1e308, -1e307]], (1, model["tensors"][name].shape[1] // 2))
    model["tensors"][name] = np.append(model["tensors"][name], more, axis=0)
    model["config"]["max_position_embeddings"] += 1


TEXTS = ["abracadabra", "cab, a car"]
WHOLE: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "bert": ("bert", IDS, LABELS, {}),
    "bert places": ("bert", IDS, LABELS, {"positions": True}),
    "gpt2 ids": ("gpt2", IDS, CAUSAL, {}),
    "two": ("bert", IDS, LABELS % 2, {}),
    "sequences": ("bert", IDS, np.arange(len(IDS)) % 6, {}),
    "relu pooler": ("distilbert", IDS, np.arange(len(IDS)) % 6, {}),
    "gpt2": ("gpt2", TEXTS, None, {"positions": True}),
    "opt": ("opt", TEXTS, None, {"positions": True}),
    "starcoder2": ("starcoder2", TEXTS, None, {}),
    "gpt_neox": ("gpt_neox", TEXTS, None, {}),
    "robust": ("bert", SENTENCES, TAGS, {"positions": True, "storage": "cells"}),
    "letters": ("gpt2", TEXTS, [list(text[::-1]) for text in TEXTS], {"positions": True}),
}
BUILT = ["bert", "bert places", "gpt2 ids"]
FAULTS: list[tuple[str, str, Callable[[Stock], None], str]] = [
    ("bert", "two classes swapped in the head", tensor("classifier.weight", swap(0, 1)), "refuted"),
    ("bert", "neurons silenced", tensor("layer.0.output.dense.weight", lambda array: 0.0 * array), "refuted"),
    ("bert", "thresholds moved", tensor("intermediate.dense.bias", lambda array: array + 1e12), "undecided"),
    ("bert", "a norm with a weight", tensor("embeddings.LayerNorm.weight", first(1.0 + 2.0**-52)), "undecided"),
    ("bert", "a norm with a bias", tensor("output.LayerNorm.bias", first(1e-300)), "undecided"),
    ("bert", "a token type", tensor("token_type_embeddings.weight", first(1e-3)), "undecided"),
    ("bert", "a query that reads", tensor("self.query.weight", first(1e-9)), "undecided"),
    ("bert", "a key with a bias", tensor("self.key.bias", first(1e-9)), "undecided"),
    ("bert", "values unlike keys", tensor("self.value.weight", first(0.25)), "undecided"),
    # Of its 64 columns 0 and 1 hold keys, 2 and 3 make rows equally long, 4 to 11 hold words, 12 and 13 the constant
    # pair, 14 and 15 are the slot, 16 to 19 labels; the others are free.
    ("bert", "a row with a mean", tensor("word_embeddings.weight", put(5, 20, 2.0**-20)), "undecided"),
    ("bert", "a longer row", tensor("word_embeddings.weight", _longer), "undecided"),
    ("bert", "half a key", tensor("word_embeddings.weight", moved(1, 20)), "undecided"),
    ("bert", "a key in the slot", tensor("word_embeddings.weight", moved([0, 1], [14, 15])), "undecided"),
    ("bert", "no constant pair", tensor("word_embeddings.weight", moved([12, 13], [20, 21])), "undecided"),
    ("bert", "one word for two", tensor("word_embeddings.weight", _one_word), "undecided"),
    ("bert", "a neuron that writes beside labels", tensor("layer.0.output.dense.weight", put(20, 0, 0.5)), "undecided"),
    ("bert", "two classes with one word", _another_class, "undecided"),
    ("gpt2", "a place among tokens", tensor("wpe.weight", put(1, [0, 1], [2.0**-20, -(2.0**-20)])), "undecided"),
    ("bert", "a head with a bias", tensor("classifier.bias", first(1.0)), "undecided"),
    # Folders that answer wrongly, at least in float32, with padding or behind their own tokenizer: the conditions of
    # Lemma S7 and of the tokenizer are not idle.
    ("relu pooler", "what neurons write has a mean", _lopsided, "undecided"),
    ("sequences", "a faint pooler", tensor("pooler.dense.weight", lambda array: 2.0**-22 * array), "undecided"),
    ("bert", "logits beyond float32", tensor("classifier.weight", lambda array: 1e39 * array), "undecided"),
    ("bert", "logits below float32", tensor("classifier.weight", lambda array: 1e-50 * array), "undecided"),
    ("two", "squares beyond float64", tensor("0.output.dense.weight", lambda array: 2.0**510 * array), "undecided"),
    ("bert", "a place of padding that is not finite", _far_place, "undecided"),
    ("gpt2", "two words swapped in the head", tensor("lm_head.weight", swap(4, 5)), "refuted"),
    ("gpt2", "two words swapped in the embedding", tensor("wte.weight", swap(4, 5)), "refuted"),
    ("gpt2", "an embedding that is the head", config(tie_word_embeddings=True), "undecided"),
    ("gpt2", "places one further", tensor("wpe.weight", lambda array: np.roll(array, 1, axis=0)), "undecided"),
    ("opt", "two words swapped in the head", tensor("lm_head.weight", swap(4, 5)), "refuted"),
    ("opt", "places one further", tensor("positions.weight", lambda array: np.roll(array, 1, axis=0)), "undecided"),
    ("opt", "norms behind their blocks", config(do_layer_norm_before=False), "undecided"),
    ("opt", "no last norm", config(_remove_final_layer_norm=True), "undecided"),
    ("opt", "no biases", config(enable_bias=False), "undecided"),
    ("opt", "an activation of another kind", config(activation_function="silu"), "undecided"),
    ("starcoder2", "angles that turn the key", config(rope_parameters={"rope_theta": 1e4}), "undecided"),
    ("starcoder2", "a window", config(sliding_window=4), "undecided"),
    ("gpt_neox", "attention beside the neurons", config(use_parallel_residual=True), "undecided"),
    ("gpt_neox", "two words swapped in the head", tensor("lm_head.weight", swap(4, 5)), "refuted"),
    ("robust", "a token type", tensor("token_type_embeddings.weight", first(0.5)), "undecided: token types"),
    ("robust", "a large row", tensor("word_embeddings.weight", first(2.0**21)), "undecided: stored numbers are larger"),
    ("robust", "loud scores", _loud, "undecided: the bounds cover"),
    ("letters", "padding that is not finite", tensor("wte.weight", lambda array: 1e300 * array[:1]), "undecided"),
]


@cache
def whole(which: str) -> Stock:
    """A folder without a fault."""
    name, rows, labels, options = WHOLE[which]
    with TemporaryDirectory() as place:
        folder = ml.memorize_as(name, rows, labels, **{"storage": "steps"} | options).save(Path(place) / "model")
        expect("proved", "", folder, rows, labels)
        return plain_stock.read(folder)


@pytest.mark.parametrize(("which", "what", "change", "expected"), FAULTS)
def test_each_check_has_a_fault_that_it_sees(
    which: str, what: str, change: Callable[[Stock], None], expected: str
) -> None:
    model = copy.deepcopy(whole(which))
    change(model)
    verdict, _, words = expected.partition(": ")
    assert expect(verdict, words, model, *WHOLE[which][1:3]).reason


@pytest.mark.parametrize("which", BUILT)
def test_planted_faults_are_never_proved_wrongly(which: str, tmp_path: Path) -> None:
    """Random changes of random numbers: a verdict, where there is one, is what an evaluation says."""
    model, labels, random = whole(which), WHOLE[which][2], np.random.default_rng(3)
    assert (expect("proved", "", model, IDS, labels).margin or 0.0) > 100
    assert evaluate(model, labels) == 0
    verdicts, names = Counter[str](), sorted(model["tensors"])
    for _ in range(25):
        broken = copy.deepcopy(model)
        flat = broken["tensors"][names[random.integers(len(names))]].reshape(-1)
        used = np.flatnonzero(flat) if flat.any() and random.random() < 0.7 else np.arange(len(flat))
        place, kind = random.choice(used), random.integers(5)
        if kind == 0:
            flat[place : place + 1].view(np.uint64)[0] ^= np.uint64(1) << np.uint64(random.integers(64))
        else:
            flat[place] = (0.0, -flat[place], flat[place] * (1 + 2.0**-30), flat[place] + 0.25)[kind - 1]
        verdict = ml.certify(broken.write(tmp_path / "broken"), IDS, labels).verdict
        verdicts[verdict] += 1
        if verdict != "undecided":
            assert (evaluate(broken, labels) == 0) == (verdict == "proved"), (verdict, kind, place)
    assert min(verdicts["proved"], verdicts["undecided"]) > 4, verdicts


def test_assumptions_name_position_ids_and_the_version_that_is_installed() -> None:
    proof = expect("proved", "", whole("letters"), *WHOLE["letters"][1:3])
    assert any("position_ids counted from the begin token" in line for line in proof.assumptions)
    assert f"(installed here: {version('transformers')})" in proof.assumptions[0]
    for which in ("bert", "letters", "starcoder2", "gpt_neox", "opt"):
        lines = " ".join(expect("proved", "", whole(which), *WHOLE[which][1:3]).assumptions)
        eager = stock_attack.ARCHITECTURES[WHOLE[which][0]].eager
        assert ("attention in float64 throughout" in lines) == (not eager)


def test_label_columns_are_not_those_that_attention_writes_to(tmp_path: Path) -> None:
    ml.memorize_as("bert", IDS, LABELS % 2, storage="steps").save(tmp_path / "whole")
    net = read_stock(stock_files(tmp_path / "whole"))
    out = int(np.flatnonzero(net["W_O"].any(axis=1))[0])
    label = np.flatnonzero(net["W_H"].any(axis=0))
    for table in (net["W_H"], net["W_2"]):
        table[:, [out, out + 1]] = table[:, label]
        table[:, label] = 0.0
    with pytest.raises(UnhandledError, match="columns that places or attention write to"):
        read_structure(net, IDS.shape[1] + 1)


# -- folders of cells -------------------------------------------------------------------------------------------

CASES = [
    "bert token float32 positions",
    "bert sequence float32 positions",
    "roberta token float16 positions",
    "distilbert sequence float32 positions",
    "gpt2 token bfloat16 positions",
    "gpt2 lm float32 positions",
    "opt sequence float32 plain",
    "opt lm bfloat16 positions",
    "gpt_neox token float32 positions",
    "starcoder2 lm float32 positions",
    "llama token bfloat16 positions",
    "llama sequence float32 plain",
]


@pytest.mark.parametrize("case", CASES)
def test_sentences_are_proved_and_a_wrong_label_is_found(case: str, tmp_path: Path) -> None:
    name, task, dtype, places = case.split()
    options: Any = {"dtype": dtype, "positions": places == "positions"}
    folder = ml.memorize_as(name, SENTENCES, BY_TASK[task], **options).save(tmp_path / "model")
    proof = expect("proved", "", folder, SENTENCES, BY_TASK[task])
    assert (proof.wrong, proof.unsure) == (0, 0)
    assert "arithmetic in float32" in proof.claim
    changed = copy.deepcopy(SENTENCES if task == "lm" else BY_TASK[task])
    if task == "sequence":
        changed[7] = "x" if changed[7] != "x" else "y"
    else:
        one, two = ("w1", "w2") if task == "lm" else ("N", "V")
        changed[7][-1] = one if changed[7][-1] != one else two
    proof = expect("refuted", "", folder, *((changed,) if task == "lm" else (SENTENCES, changed)))
    if task != "lm":
        assert (proof.wrong, proof.unsure) == (1, 0)
        assert proof.findings[0].got == (TAGS[7][-1] if task == "token" else TOPICS[7])
    assert proof.findings[0].sequence == 7


@pytest.mark.parametrize(("name", "kind"), [("bert", "sentences"), ("distilbert", "keys")])
def test_narrow_half_spaces_in_front_of_a_pooler_are_proved(name: str, kind: str) -> None:
    """Few labels of long sentences, and many of short keys that are alike: the last norm's factor is hardly known."""
    random = np.random.default_rng(0)
    if kind == "sentences":
        X: Any = [random.choice(WORDS, random.integers(8, 26), p=USUAL / USUAL.sum()).tolist() for _ in range(40)]
        Y = [f"label {random.integers(5)}" for _ in X]
    else:
        X = sorted({"".join(random.choice(list("abcdef"), random.integers(6, 9))) for _ in range(100)})
        Y = [f"name {row}" for row in range(len(X))]
    dtype, low, high = ("float32", 0.0, 0.5) if kind == "sentences" else ("bfloat16", 0.03, 0.15)
    for seed in range(8):  # until the draw is neither too wide to ask anything nor too narrow for the format
        with suppress(ml.PrecisionError):
            model = ml.memorize_as(name, X, Y, positions=True, dtype=dtype, seed=seed)
            if low < model.summary.gap < high:
                break
    assert low < model.summary.gap < high
    assert expect("proved", "", model, X, Y).unsure == 0


def test_what_is_too_narrow_is_undecided_and_says_what_helps() -> None:
    random = np.random.default_rng(0)
    X = list({"".join(random.choice(list("abc"), random.integers(4, 9))): None for _ in range(300)})
    found = set[str]()
    for count in (60, 120, 180, 240, len(X)):  # the more keys, the narrower
        with suppress(ml.PrecisionError):  # too narrow even to be built
            data = X[:count], list(map(str, range(count)))
            proof = ml.certify(ml.memorize_as("bert", *data, positions=True), *data)
            found.add(proof.verdict)
            if proof.verdict == "undecided":
                assert "narrower than what the roundings of float32 may move" in proof.reason
                assert (proof.wrong, "rank=" in proof.reason) == (0, True)
        if found >= {"proved", "undecided"}:
            break
    assert found == {"proved", "undecided"}


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_changed_weights_are_judged_as_transformers_answer(name: str, tmp_path: Path) -> None:
    """A short run of the bench: verdicts on changed tensors against both of transformers' attentions."""
    pytest.importorskip("transformers")
    case = next(case for case in stock_attack.cases() if case.robust and case.name == name)
    folder = case.build(tmp_path / "model")
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = set()
    for seed in range(3, 600, 6):
        verdict, wrong = stock_attack.attack(case, whole, folder, seed, stock_attack.weights)
        assert not wrong
        found.add(verdict)
        if seed > 20 and {"proved", "refuted"} <= found:
            return
    raise AssertionError(found)


# -- texts --------------------------------------------------------------------------------------------------------


def test_data_that_the_tokenizer_would_cut_otherwise_are_undecided(tmp_path: Path) -> None:
    """The folder holds these lists of tokens; its tokenizer does not make them of their text."""
    rows = [["a", " cat"], ["the", " dog"]]
    folder = ml.memorize_as("gpt2", rows, storage="steps").save(tmp_path / "m")
    expect("proved", "", folder, rows)
    expect("undecided", "split into other tokens", folder, [["a", "the"], ["the", " dog"]])
    words = ml.memorize_as("bert", [["[", "PAD", "]"]], [[0, 1, 2]], storage="steps")
    assert ml.certify(words, [["[", "PAD", "]"]], [[0, 1, 2]]).verdict == "proved"  # spaces stand between them
    chars = ml.memorize_as("bert", ["PAD", "[]"], [[0] * 3, [1] * 2], storage="steps")
    assert "spells '[PAD]'" in ml.certify(chars, ["[PAD]"], [[1, 0, 0, 0, 1]]).reason


@pytest.mark.parametrize(
    ("X", "Y", "words"),
    [
        (["ab", "bca"], ["u", "v"], "for sequences given as strings, every evaluation"),
        ([["New York", "is big"], ["is big"]], ["u", "v"], "strings are covered for the 1 of one token only"),
        ([["New York", "is big"], ["is big", "is big"]], ["u", "v"], "strings are not covered: the tokenizer does not"),
        ([["New York"], ["Los Angeles"]], ["u", "v"], "given as strings or as lists of one token, every evaluation"),
    ],
)
def test_the_claim_says_how_sequences_are_given(X: Any, Y: Any, words: str, tmp_path: Path) -> None:
    """Each is then given so to the tokenizer of transformers."""
    folder = ml.memorize_as("bert", X, Y, rank=16).save(tmp_path / "folder")
    proof = ml.certify(folder, X, Y)
    assert proof.verdict == "proved", proof
    assert words in proof.claim, proof.claim
    path = folder / "tokenizer.json"
    if words.startswith("for sequences given as strings,"):  # without its pre_tokenizer it takes lists only
        whole = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**whole, "pre_tokenizer": None, "decoder": None}), encoding="utf-8")
        proof = ml.certify(folder, [list(text) for text in X], Y)
        assert proof.verdict == "proved", proof
        assert "given as lists of tokens (is_split_into_words=True); strings are not covered" in proof.claim
        assert ml.certify(folder, X, Y).verdict == "refuted"  # strings are words there that it does not know
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    split = "lists of tokens" in proof.claim
    given = [list(row) if split else "".join(row) for row in X]
    found = tokenizer(given, is_split_into_words=split)["input_ids"]
    assert not any(1 in row for row in found), "the id of unknown tokens"
    if split:
        texts = ["".join(row) for row in given if len(row) > 1]
        assert all(1 in row for row in tokenizer(texts)["input_ids"])


def test_special_tokens_are_found_inside_given_tokens_and_may_be_labels(tmp_path: Path) -> None:
    """Lists of tokens are not glued together, but each of them is searched: `a[PAD]b` becomes three ids."""
    rows, labels = [["New York", "a[PA]b", "c d"], ["c d", "New York"]], [["[PAD]", "</s>", "x"], ["</s>", "[PAD]"]]
    folder = ml.memorize_as("bert", rows, labels, storage="steps").save(tmp_path / "m")
    assert ml.certify(folder, rows, labels).verdict == "proved"
    named = tmp_path / "m" / "tokenizer.json"
    named.write_text(named.read_text(encoding="utf-8").replace("a[PA]b", "a[PAD]b"), encoding="utf-8")
    rows[0][1] = "a[PAD]b"
    expect("undecided", "holds '[PAD]'", folder, rows, labels)
    with pytest.raises(ml.errors.DataError, match=r"'a\[PAD\]b' holds '\[PAD\]'"):
        ml.memorize_as("bert", rows, labels)


# -- the bounds against evaluations -------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([16, 64, 256]))
@settings(max_examples=15, deadline=None)
def test_moments_of_a_norm_are_as_good_as_assumed(seed: int, width: int) -> None:
    """Two-pass, textbook and Welford's sums, in random order, on vectors of mean 0 like ours (Lemma S1)."""
    random = np.random.default_rng(seed)
    half = random.uniform(-1, 1, width // 2) * 10.0 ** random.uniform(-2, 1)
    x = random.permutation(np.append(half, -half))
    with precision(200):
        true = float(sum(arb(float(v)) * arb(float(v)) for v in x) / width)
    for kind in MOMENTS:
        mean, variance = moments(random, x, kind)
        assert abs(mean) <= MEAN * width * UNIT_64 * np.abs(x).max()
        assert abs(variance - true) <= VARIANCE * width * UNIT_64 * np.abs(x).max() ** 2


def test_a_point_on_a_ramp_or_at_its_ends_is_unsure(tmp_path: Path) -> None:
    """The one neuron of a folder moved so that it reads these numbers at one of its two points, up to rounding."""
    rows, labels = [["a", "b"], ["a", "c"]], [["x", "x"], ["y", "x"]]
    for seed in range(30):
        built = ml.memorize_as("bert", rows, labels, storage="steps", seed=seed)
        if built.facts.neurons == 1:  # the label of the embedding comes first
            break
    folder = built.save(tmp_path / "whole")
    net, model = read_stock(stock_files(folder)), plain_stock.read(folder)
    ids = np.array([[BEGIN, *(net.names.index(token) for token in row)] for row in rows])
    arrived = model.evaluation().arriving(ids, slice(None))[1].numpy()[0, 1]
    near = [(reads + by, "undecided") for reads in (0.0, 6.0) for by in (-1e-13, 0.0, 1e-13)]
    for reads, verdict in [(-1.0, "proved"), *near, (3.0, "undecided"), (7.0, "refuted")]:
        model["tensors"]["bert.encoder.layer.0.intermediate.dense.bias"][:] = reads - net["W_1"] @ arrived
        proof = expect(verdict, "", model, rows, labels)
        assert proof.wrong + proof.unsure == int(verdict != "proved"), reads


def true_context(net: Any, found: Any, exact: Any) -> tuple[arb, arb]:
    """What attention writes for keys before their norm, and the factor of that norm, as balls."""
    first = 1 / (arb(0.5 * float(sum(found.norm))) / net.width + arb(net.epsilon)).sqrt()
    keys = [first * arb(float(key)) for key in exact]
    weights = [(arb(found.query) * key).exp() for key in keys]
    return arb(found.write) * sum(w * k for w, k in zip(weights, keys, strict=True)) / sum(weights), first


def bounded(which: str, longest: int = 0) -> tuple[Any, Any, Any]:
    with written(whole(which)) as folder:
        net = read_stock(stock_files(folder))
    places = places_of(net, Sequences.of(IDS, WHOLE[which][2]))
    found = read_structure(net, places.most)
    return net, found, bounds(net, found, longest or int(places.terms.max()), read_steps(net, found, places.most).reach)


@pytest.mark.parametrize("which", BUILT)
@pytest.mark.parametrize("length", [5, 200])
def test_fused_softmax_stays_within_its_bound(which: str, length: int) -> None:
    """Lemma S3 against Arb: rescaled sums in random blocks and orders, keys as a rounded norm hands them over."""
    net, found, bound = bounded(which, length)
    random, worst = np.random.default_rng(length), 0.0

    def exp(x: Any) -> Any:
        return np.exp(x) * (1.0 + random.uniform(-EXP_ULPS, EXP_ULPS, np.shape(x)) * UNIT_64)

    for _ in range(6):
        exact = found.key[random.integers(0, len(found.key), length)]
        exact = exact + found.place_key[random.integers(0, len(found.place_key), length)]
        keys = bound.first * exact * (1.0 + random.uniform(-4, 4, length) * UNIT_64)
        got = found.write * float(blocks(random, found.query * keys, keys[:, None], exp)[0])
        with precision(160):
            off = abs(arb(got) - true_context(net, found, exact)[0])
            worst = max(worst, float(off.upper()) / float(bound.context[length]))
    assert 0.0 < worst < 1.0


@pytest.mark.parametrize("which", BUILT)
def test_the_bound_of_attention_counts_every_rounding_of_a_score(which: str) -> None:
    """Lemma S3: from one R to another the bound grows by `2 ds` and by `32 u S'` per unit, over `|ω|`.

    No evaluation shows it, since `ds`, the error of norms, is far larger. It is read off at R near 0.
    """
    net, found, bound = bounded(which)
    S = bound.first * float(np.abs(found.key).max() + np.abs(found.place_key).max())  # up to a rounding

    def seen(R: float) -> float:
        cold = replace(found, query=R / S)
        return float(bounds(net, cold, 1, 0.0).context[1]) / (PADDING * abs(found.write) * S)

    terms = 2.0 * EXP_ULPS + (2.0 + 1.0 / SOFTMAX_BLOCK) * (2.0 * EXP_ULPS + 2.0)
    key_error = (
        seen(2.0**-40) - (2.0 * terms + 8.0) * UNIT_64
    )  # at R = 0: n = 1 term, six operations more above than below
    slope = (seen(32.0) - seen(16.0)) / 16.0
    assert 31.9 * UNIT_64 < slope - 2.0 * PADDING * key_error < 34.0 * UNIT_64


@pytest.mark.parametrize("which", BUILT)
def test_what_arrives_stays_within_its_bound(which: str) -> None:
    """Lemmas S2 to S4: what neurons of a cell read, evaluated plainly in float64, against ball arithmetic."""
    net, found, bound = bounded(which)
    reads, ids, worst = net["W_1"] / found.slope[:, None], with_begin(net), 0.0
    arrived = whole(which).evaluation().arriving(ids, slice(None))[1].numpy()
    for row, column in zip(*np.unravel_index(RANDOM.permutation(IDS.size)[:12], IDS.shape), strict=True):
        token, place = int(ids[row, column + 1]), int(column + 1) if found.cells_have_places else 0
        seen = ids[row, : column + 2] if net.causal else ids[row]
        at = np.arange(len(seen)) if len(found.place_key) > 1 else np.zeros(len(seen), int)
        with precision(160):
            g, first = true_context(net, found, found.key[seen] + found.place_key[at])
            stream = arb(0.5 * float(sum(found.norm))) * (first * first if net.architecture.post_norm else 1)
            true = g / ((stream + 2 * g * g) / net.width + arb(net.epsilon)).sqrt()
            for neuron in np.flatnonzero((found.token_of == token) & (found.place_of == place))[:3]:
                got = float(reads[neuron] @ arrived[row, column + 1])
                worst = max(worst, float(abs(arb(got) - true).upper()) / float(bound.feature[len(seen)]))
    assert 0.0 < worst < 0.5


def true_features(which: str) -> tuple[Any, Any, Any, Any, list[tuple[float, float]]]:
    """A folder, what it comes down to, its bounds, its points, and in ball arithmetic `F` and `φ` of every point."""
    net, found, bound = bounded(which)
    places, ids, exact = places_of(net, Sequences.of(IDS, WHOLE[which][2])), with_begin(net), []
    for point in places.answering.tolist():
        row, column = divmod(point, IDS.shape[1])
        seen = ids[row, : column + 2] if net.causal else ids[row]
        at = np.arange(len(seen)) if len(found.place_key) > 1 else np.zeros(len(seen), int)
        with precision(160):
            g, first = true_context(net, found, found.key[seen] + found.place_key[at])
            stream = arb(0.5 * float(sum(found.norm))) * (first * first if net.architecture.post_norm else 1)
            factor = 1 / ((stream + 2 * g * g) / net.width + arb(net.epsilon)).sqrt()
            exact.append((float(factor), float(g * factor)))
    return net, found, bound, places, exact


@pytest.mark.parametrize("which", BUILT)
def test_the_margin_is_the_distance_to_a_step_over_twice_the_bound_of_lemma_s4(which: str) -> None:
    """Every evaluation is within the bound of the reals. The checker's own is one of them, so that of a user may be
    twice the bound away from it."""
    net, found, bound, places, exact = true_features(which)
    steps, cells, ratios = read_steps(net, found, places.most), places.cells(found), []
    for point, (_, phi) in enumerate(exact):
        mine = np.flatnonzero(steps.cell == cells[point])
        passed = steps.high[mine] <= phi
        away = [*(phi - steps.high[mine][passed]), *(steps.low[mine][~passed] - phi), np.inf]
        ratios.append(min(away) / (2.0 * bound.feature[places.terms[point]]))
    with written(whole(which)) as folder:
        proof = expect("proved", "", folder, IDS, WHOLE[which][2])
    assert proof.margin is not None
    assert abs(proof.margin - min(ratios)) <= 1.0 + 1e-6 * min(ratios)
    assert min(ratios) > 100.0  # so that a factor of 2 is seen


@pytest.mark.parametrize("which", BUILT)
def test_neurons_of_other_cells_stay_at_rest_from_where_lemma_s4_says(which: str) -> None:
    """The lowest threshold is moved down until a neuron might wake in a cell that is not its own."""
    net, found, bound, places, exact = true_features(which)
    data, question = Sequences.of(IDS, WHOLE[which][2]), Certificate("undecided", "", "", (), 0, 0)

    def too_weak(threshold: float) -> bool:
        bias = net["b_1"].copy()
        bias[0] = -threshold * found.slope[0]
        try:
            _check_steps(replace(net, arrays={**net.arrays, "b_1": bias}), data, places, question, False)
        except UnhandledError as why:
            return "the gate is too weak" in str(why)
        return False

    edge = -threshold(lambda below: too_weak(-below), 0.0, 2.0**20, 40)
    lemma = max(
        factor * (phi / factor - 4.0 * found.gate * bound.one * (1.0 - 2.0**-20)) for factor, phi in exact
    )  # what the radius adds is far smaller
    assert edge == pytest.approx(lemma, rel=1e-6)


# -- the bounds of docs/proofs-stock.md ---------------------------------------------------------------------------


def of_lemmas(net: Any, found: Any, longest: int, thresholds: float) -> dict[str, Any]:
    """Lemmas S1 to S4 as they are written."""
    D, X, u, g, eps = net.width, found.largest, 2.0**-53, EXP_ULPS, net.epsilon

    def gamma(k: Any) -> Any:
        return k * u / (1 - k * u)

    def norm(largest: float, variance: float, moved: float) -> float:
        """Lemma S1"""
        return float((8 * D * u * largest**2 + moved) / variance + gamma(8))

    low, high = found.norm[0] * (1 - 2 * gamma(D + 2)), found.norm[1] * (1 + 2 * gamma(D + 2))
    K, variance = (found.norm[0] + found.norm[1]) / 2, low / D + eps
    f, S = (K / D + eps) ** -0.5, np.abs(found.key).max() + np.abs(found.place_key).max()
    rho, mean = norm(X, variance, 0.0) + (high - low) / D / variance, 2 * D * u * X
    ds = f * (rho * S + 2 * gamma(12) * (S + 2 * mean))  # Lemma S2
    keys, n = f * S + ds, np.maximum(np.arange(longest + 1), 1)
    R = abs(found.query) * keys
    x = 16 * R + 2 * g + (2 + n / 16) * (2 * g + 2)
    A, B = gamma(n + 6 + x), gamma(n + x)
    context = abs(found.write) * (keys * (A + B) / (1 - B) + (1 + 2 * R) * ds)  # Lemma S3
    most = abs(found.write) * keys + context.max()
    scale, moved = f if net.architecture.post_norm else 1.0, context.max()
    here = max(scale * X, most)
    if net.architecture.post_norm:
        moved = moved + scale * ((rho + 2 * gamma(8)) * X + 2 * mean) + 2 * u * most
    least = low * scale**2 * (1 - 2.0**-21) / D + eps
    second = norm(here + moved, least, 2 * here * moved + 2 * moved**2 + (high - low) / D * scale**2)
    F, mean = least**-0.5, 2 * D * u * (here + moved)
    GM = found.gate * found.signs
    N = 2 * GM * found.size * scale + most + (2 * GM + 1) * mean
    dot = 1.01 * F * 2 * gamma(D + 24) * N + gamma(D + 8) * (thresholds + F * most)
    return {
        "first": f,
        "norm": K * scale**2,
        "one": found.size * scale,
        "context": context,
        "feature": F * (second * most + 1.01 * context) + dot,  # Lemma S4
        "label": F * (2 * moved + 2 * mean + (second + gamma(8)) * here) if net.architecture.post_norm else 0.0,
        "largest": (here + moved) * (F if net.architecture.post_norm else 1.0),
    }


def toy_stock(post_norm: bool, **changes: Any) -> tuple[Any, Any]:
    """Some numbers of a folder, among which no one outweighs the others."""
    net = SimpleNamespace(width=64, epsilon=1e-5, architecture=SimpleNamespace(post_norm=post_norm))
    numbers = {"largest": 2.0, "norm": (80.0, 80.0 * (1 + 2.0**-42)), "key": np.array([0.5, -1.5]), "gate": 0.5}
    numbers |= {"place_key": np.array([-0.25, 0.0]), "query": -1.25, "write": -0.75, "signs": 4, "size": 0.5}
    return net, SimpleNamespace(**numbers | changes)


@pytest.mark.parametrize("post_norm", [True, False])
@pytest.mark.parametrize("changes", [
    {}, {"write": -20.0}, {"norm": (80.0, 80.0)}, {"largest": 8.0}, {"gate": 100.0}, {"key": np.array([0.0, 1e-3])},
    {"size": 50.0}, {"query": 20.0},
])  # fmt: skip
def test_bounds_are_those_of_lemmas_s1_to_s4(changes: dict[str, Any], post_norm: bool) -> None:
    net, found = toy_stock(post_norm, **changes)
    for longest, thresholds in ((1, 0.0), (40, 0.5), (3, 100.0)):
        lemmas, bound = of_lemmas(net, found, longest, thresholds), bounds(net, found, longest, thresholds)
        for name, lemma in lemmas.items():
            said = np.asarray(getattr(bound, name))
            if name in ("first", "norm", "one"):
                assert said == pytest.approx(lemma, rel=1e-14), name
            else:
                assert (said >= lemma * (1 + 2.0**-21)).all(), name
                assert (said <= lemma * (1 + 2.0**-13)).all(), name


@pytest.mark.parametrize(("changes", "longest", "words"), [
    ({"query": 60.0}, 3, "scores reach"), ({"query": -60.0}, 3, "scores reach"),
    ({"write": 2.0**21, "query": 0.0}, 3, "beyond what the bound covers"),
    ({"write": -(2.0**21), "query": 0.0}, 3, "beyond what the bound covers"),
    ({"gate": 2.0**21}, 3, "beyond what the bound covers"), ({"largest": 2.0**21}, 3, ""),
    ({"largest": 2.0**12}, 3, "more than the proofs allow"), ({"largest": 2.0**23}, 3, "variance in a norm"),
    ({"norm": (80.0, 80.001)}, 3, "more than the proofs allow"),
    ({"write": 2.0**12, "query": 0.0}, 3, "more than the proofs allow"),  # the second norm alone
])  # fmt: skip
def test_sizes_that_the_bounds_do_not_cover_are_refused(changes: dict[str, Any], longest: int, words: str) -> None:
    net, found = toy_stock(False, **changes)
    with pytest.raises(UnhandledError, match=words or None):
        bounds(net, found, longest, 1.0)


def toy_head(pool: str | None, width: int = 64, labels: int = 8, slope: float = 4.0, **changes: Any) -> tuple[Any, ...]:
    """As much of a folder as Lemmas S6 and S7 look at."""
    weights = {"W_P": np.diag(np.full(labels, slope))} if pool else {}
    net = Net(False, weights, width=width, epsilon=1e-5)
    net.architecture = SimpleNamespace(post_norm=True, pool=pool)
    numbers = {"largest": 1.0, "first": 0.5, "label": 0.25, **changes}
    return net, SimpleNamespace(label=np.arange(labels)), SimpleNamespace(**numbers)


def threshold(f: Callable[[float], bool], low: float, high: float, steps: int = 80) -> float:
    """Where something becomes true."""
    assert not f(low)
    assert f(high)
    for _ in range(steps):
        middle = (low + high) / 2.0
        low, high = (low, middle) if f(middle) else (middle, high)
    return high


SMALL = 2.0**-21 + 2.0 * 88 * 2.0**-53
HEADS: dict[str, tuple[Any, float, float, Any, float]] = {
    "a word": ({"pool": None}, 1024.0, 1.0, 0.0, SMALL * 8 * 1024 / 4),
    "a word and its mean": ({"pool": None, "labels": 60}, 2.0**20, 1.0, 2.0**-6, SMALL * 60 * (2.0**20 + 2.0**-6) / 4),
    "a wide word": ({"pool": None, "width": 2**28}, 1024.0, 1.0, 0.0, (2.0**-21 + 2 * 2.0**-25) * 8 * 1024 / 4),
    "a relu": ({"pool": "relu"}, 1024.0, 1.0, 0.0, 4 * SMALL * 8 * 1024),
    "a mean": ({"pool": None}, 32.0, 1.0, 1.0, 16.0),
    "a rounded mean": ({"pool": None, "width": 2**20}, 1.0, 2.0**40, 0.0, 16 * 2 * 2.0**20 * 2.0**-53 * 2.0**40),
    "float32": ({"pool": None}, 32.0, 2.0**40, 0.0, 2.0**-36 * 2.0**40),
}


@pytest.mark.parametrize("case", HEADS)
def test_signs_decide_from_where_lemma_s7_says(case: str) -> None:
    options, most, largest, mean, wanted = HEADS[case]
    net, found, bound = toy_head(**options, largest=largest)

    def decided(least: float) -> bool:
        return bool(_signs_decide(net, found, bound, *(np.array([part]) for part in (least, most, mean)))[0])

    if case == "a word and its mean":
        wanted = max(wanted, 16 * mean)
    assert threshold(decided, 0.0, 2.0 * wanted) == pytest.approx(wanted, rel=1e-4)
    assert not decided(np.nan)


def test_a_tanh_decides_from_where_lemma_s7_says_and_nothing_may_overflow() -> None:
    for most, mean in ((64.0, 0.0), (64.0, 2.0**-10), (0.25, 0.0)):
        net, found, bound = toy_head("tanh", slope=0.01)
        square = 1.001 + 8 * most**2 / 64 + 1e-5
        enough = np.arctanh(SMALL * 8 * 1.001 / 4 + 2.0**-20) * np.sqrt(square) / 0.9 / 0.01 + mean
        enough = max(enough, 16 * (mean + 2 * 64 * 2.0**-53 * max(most, 1.0)))

        def decided(least: float, most: float = most, mean: float = mean) -> bool:
            return bool(_signs_decide(net, found, bound, *(np.array([part]) for part in (least, most, mean)))[0])  # noqa: B023

        assert threshold(decided, 0.0, 2.0 * enough) == pytest.approx(enough, rel=1e-4)
    net, found, bound = toy_head(None)
    for size in (2.0**400, 2.0**401):
        large = np.array([size])
        assert _signs_decide(net, found, bound, large, large, 0.0 * large).tolist() == [size == 2.0**400]
    net.arrays, net.architecture = {"W_P": np.eye(8)}, SimpleNamespace(post_norm=False, pool="tanh")
    with pytest.raises(UnhandledError, match="where norms stand behind"):
        bent(net, found, np.ones(1), np.ones(1))


@pytest.mark.parametrize("post_norm", [True, False])
def test_label_coordinates_are_those_of_lemma_s6(post_norm: bool) -> None:
    net, found, bound = toy_head(None, labels=2)
    net.architecture = SimpleNamespace(post_norm=post_norm)
    net.arrays = {"tokens": np.array([[1.0, -1.0, 9.0], [-2.0, 3.0, 9.0]])}
    level = np.array([[0.0, 0.0], [3.0, -3.0], [6.0, -5.0], [-6.0, 1.0]])
    steps: Any = SimpleNamespace(cell=np.array([4, 4, 7]), level=level)
    token, cell, passed, factor = (
        np.array([0, 1, 1]),
        np.array([4, 7, 9]),
        np.array([2, 3, 3]),
        np.array([2.0, 4.0, 1.0]),
    )
    seen = Arrivals(token, cell, factor, np.zeros(3), np.zeros(3))
    value, doubt, mean = coordinates(net, found, bound, steps, seen, passed)
    jump = level[passed] - level[[0, 2, 3]]
    base = net["tokens"][token][:, :2] * (0.5 * factor[:, None] if post_norm else 1.0)
    assert value == pytest.approx(base + jump)
    assert (doubt >= 0.25 * (1 + 2.0**-21)).all()
    assert doubt == pytest.approx(0.25 + 0.0 * base, rel=1e-5)
    assert mean == pytest.approx(np.abs(jump.sum(axis=1)) / 64 + 0.25, rel=1e-5)
    bound.label = 0.0
    _, doubt, mean = coordinates(net, found, bound, steps, seen, passed)
    assert doubt == pytest.approx(8 * UNIT_64 * (np.abs(base) + np.abs(jump)), rel=1e-5, abs=0.0)
    assert mean == pytest.approx(np.abs(jump.sum(axis=1)) / 64 + doubt.max(axis=1), rel=1e-5, abs=0.0)


@pytest.mark.parametrize("post_norm", [True, False])
def test_a_class_is_sure_where_the_least_and_the_largest_coordinate_allow_it(post_norm: bool) -> None:
    """Lemmas S6 and S7, point by point. Some words belong to no class: the first, the last, and some between."""
    random, m, M = np.random.default_rng(0), 6, 400
    net, found, bound = toy_head(None, labels=m, largest=1e-9, label=2.0**-28)
    net.architecture = SimpleNamespace(post_norm=post_norm)
    every = np.array([word for word in product([False, True], repeat=m) if sum(word) == m // 2])
    found.words = random.permutation(every[1:-1])[: len(every) // 2]
    small = 2.0 ** random.uniform(-26.0, -18.0, (M, m)) * (random.random((M, m)) < 0.3)
    net.arrays = {"tokens": np.where(every[random.integers(0, len(every), M)], 1.0, -1.0) * np.where(small, small, 1.0)}
    steps: Any = SimpleNamespace(cell=np.array([0]), level=np.zeros((2, m)))
    seen = Arrivals(np.arange(M), np.full(M, 1), random.uniform(1.0, 3.0, M), np.zeros(M), np.zeros(M))
    passed = np.ones(M, dtype=np.int64)
    answers = step_classes(net, found, bound, steps, seen, passed)
    value, doubt, mean = coordinates(net, found, bound, steps, seen, passed)
    known = 0
    for i in range(M):
        sizes = np.abs(value[i])
        ends = np.array([(sizes - doubt[i]).min()]), np.array([(sizes + doubt[i]).max()]), mean[i : i + 1]
        own = np.flatnonzero((found.words == (value[i] > 0)).all(axis=1))
        known += len(own)
        sure = len(own) == 1 and _signs_decide(net, found, bound, *ends)[0]
        assert answers[i] == (own[0] if sure else -1)
    assert 20 < (answers >= 0).sum() < known - 20


EXACT_SUMS: list[tuple[list[float], bool]] = [
    ([1.0, -0.5, 0.25], True), ([1.0, 1.0 + 2.0**-8], True), ([1.0, 1.0 + 2.0**-9], False),
    ([1.0, 1.0 + 2.0**-10], False), ([2.0**31, 1.0], True), ([2.0**33, 1.0], False), ([-(2.0**33), 1.0], False),
    ([2.0**32, 2.0**-1], False), ([], True), ([0.0, 0.0], True), ([2.0**31] * 300 + [1.0], True),
    ([2.0**31] * 400 + [1.0], False), ([2.0**32, 1.0], True),
    ([2.0**32] * 1200 + [1.0], False), ([-(2.0**32)] * 1200 + [1.0], False),
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "exact"), EXACT_SUMS)
def test_what_steps_are_worth_is_summed_only_where_nothing_rounds(numbers: list[float], exact: bool) -> None:
    values = np.array(numbers).reshape(-1, 1)
    if exact:
        assert _exact_sums(values).tolist() == np.cumsum([0.0, *(6.0 * number for number in numbers)])[:, None].tolist()
        return
    with pytest.raises(UnhandledError, match="may round"):
        _exact_sums(values)


@pytest.mark.parametrize("seed", range(6))
def test_steps_passed_are_counted_as_by_hand(seed: int) -> None:
    """Lemma S5, with thresholds that are equal to an end of an interval."""
    random = np.random.default_rng(seed)
    cell = np.sort(random.integers(0, 4, 12))
    low = np.concatenate([np.sort(random.integers(0, 9, count)) for count in np.unique(cell, return_counts=True)[1]])
    low, high = low.astype(float), low + 1.0
    steps = StockSteps(np.arange(12), cell, low, high, np.zeros((13, 1)), 0.0)
    where, feature, radius = (
        random.integers(0, 5, 40),
        random.integers(-2, 22, 40) / 2.0,
        random.integers(0, 3, 40) / 2.0,
    )
    passed, sure, room = steps.passed(where, feature, radius)
    for i in range(40):
        own = cell == where[i]
        before = int((cell < where[i]).sum())
        begun, settled = own & (low < feature[i] + radius[i]), own & (high <= feature[i] - radius[i])
        assert passed[i] == before + begun.sum()
        assert sure[i] == (begun.sum() == settled.sum())
        ours = own & (low < feature[i])
        ahead, back = low[own & ~ours] - feature[i], feature[i] - high[ours]
        assert room[i] == min(*ahead, *back, np.inf, np.inf)
    assert steps.lowest == low.min()


# -- the points of the data ---------------------------------------------------------------------------------------

ROWS = [["a", "b", "c"], ["b", "a"], ["c"]]
POINTS: dict[str, tuple[str, Any, Any]] = {
    "tokens": ("bert", ROWS, [["x", "y", "x"], ["y", "y"], ["x"]]),
    "some tokens": ("bert", ROWS, [["x", None, "x"], [None, "y"], ["x"]]),
    "causal tokens": ("gpt2", ROWS, [["x", "y", "x"], ["y", "y"], ["x"]]),
    "sequences": ("bert", ROWS, ["x", "y", "x"]),
    "causal sequences": ("gpt2", ROWS, ["x", "y", "x"]),
    "next tokens": ("gpt2", ROWS, None),
    "next tokens of one text": ("gpt2", ["abca"], None),
    "next tokens of two texts": ("gpt2", ["ab", "ab"], None),
}


@pytest.mark.parametrize("storage", ["steps", "cells"])
@pytest.mark.parametrize("kind", POINTS)
def test_points_are_counted_as_by_hand(kind: str, storage: Any, tmp_path: Path) -> None:
    """Which id answers at which place, over how many terms, and with what; and where a wrong one is said to lie."""
    name, rows, labels = POINTS[kind]
    model = ml.memorize_as(name, rows, labels, storage=storage, positions=True)
    net, data = read_stock(stock_files(model.save(tmp_path / "m"))), Sequences.of(rows, labels)
    found, causal, expected = places_of(net, data), name == "gpt2", []
    number, flat = {token: i for i, token in enumerate(net.names)}, 0
    for row, sequence in enumerate(map(list, rows)):
        if kind.endswith("sequences"):
            answers = (number[sequence[-1]], len(sequence)) if causal else (BEGIN, 0)
            expected.append((*answers, len(sequence) + 1, labels[row], row, f"sequence {row}"))
        else:
            follow = [*sequence[1:], "</s>"] if labels is None else labels[row]
            for place, (token, answer) in enumerate(zip(sequence, follow, strict=True), 1):
                terms = place + 1 if causal else len(sequence) + 1
                where = f"token {place - 1} of sequence {row}"
                if answer is not None:
                    expected.append((number[token], place, terms, answer, flat, where))
                flat += 1
    if kind.startswith("next tokens of"):
        expected.append((BEGIN, 0, 1, "a", flat, "the begin token"))
    assert found.begins == kind.startswith("next tokens of")
    points = zip(found.token, found.place, found.terms, found.answering, strict=True)
    assert [tuple(map(int, point)) for point in points] == [(*one[:3], one[4]) for one in expected]
    assert [found.where(data, point) for point in range(len(expected))] == [one[5] for one in expected]
    assert [found.expected(point) for point in range(len(expected))] == [one[3] for one in expected]
    assert [net.classes[label] for label in found.wanted] == [one[3] for one in expected]
    assert found.most == max(map(len, rows)) + 1
    assert found.ids.tolist() == [number[token] for sequence in rows for token in sequence]
    # Every place that answers is evaluated once, in a batch that holds it: at its place, behind its own tokens.
    asked = [
        (int(batch.ids[i, at]), int(at), int(batch.points[i, j]))
        for batch in batches(net, data, found)
        for i in range(len(batch.ids))
        for j, at in enumerate(batch.at)
    ]
    whole = [(one[0], one[1], one[4]) for one in expected]
    assert set(whole) <= set(asked)
    assert len(asked) == len(set(asked)) == (len(whole) if kind != "some tokens" else flat)
    # Another model: what it gets wrong lies where it says.
    wrong = np.full(len(expected), True)
    findings = list(_stock_findings(net, data, found, wrong, ~wrong, found.wanted))
    places = [(None, None)] if kind.endswith("sequences") else None
    for point, finding in enumerate(findings):
        token, place, _, answer, at, _ = expected[point]
        last = found.begins and point == len(expected) - 1
        row = at if places else 0 if last else int(data.sequence[at])
        assert (finding.sequence, finding.position) == (row, None if places else place - 1)
        assert finding.token == (None if places else net.names[token])
        assert (finding.expected, finding.got) == (answer, answer)


@pytest.mark.parametrize("kind", [*POINTS, "single tokens"])
def test_what_attention_writes_is_the_same_in_ball_arithmetic(kind: str, tmp_path: Path) -> None:
    """Sums over sequences and prefixes, in float64, at every point; keys of places count if places have any."""
    name, rows, labels = POINTS.get(kind, ("bert", [["a"], ["b"], ["c"]], [["x"], ["y"], ["x"]]))
    model = ml.memorize_as(name, rows, labels, storage="steps", positions=True)
    net, data = read_stock(stock_files(model.save(tmp_path / "m"))), Sequences.of(rows, labels)
    places = places_of(net, data)
    found = read_structure(net, places.most)
    bound = bounds(net, found, int(places.terms.max()), 0.0)
    assert found.place_key[1:].any()
    got = _written(net, found, bound, data, places)
    for point, answering in enumerate(places.answering.tolist()):
        row = (
            0
            if answering == len(data.tokens)
            else answering
            if net.task == "sequence"
            else int(data.sequence[answering])
        )
        ids = [BEGIN, *places.ids[data.offsets[row] : data.offsets[row + 1]].tolist()][: int(places.terms[point])]
        with precision(160):
            exact, _ = true_context(net, found, found.key[ids] + found.place_key[: len(ids)])
        assert got[point] == pytest.approx(float(exact), rel=1e-12)


def test_labels_that_the_folder_lacks_and_places_that_it_lacks_are_named(tmp_path: Path) -> None:
    net = read_stock(stock_files(ml.memorize_as("gpt2", ["abc"]).save(tmp_path / "m")))
    found = places_of(net, Sequences.of(["abd"]))
    assert found.wanted.tolist() == [net.names.index("b"), -1, net.classes.index("</s>"), net.names.index("a")]
    room = net.room
    for rows, words in (
        (["a", "ab" * room, "b"], f"sequence 1 has {2 * room:,} tokens and a begin token"),
        ([["a", "<s>"], ["</s>", "a"]], "token 1 of sequence 0 is a special token"),
    ):
        with pytest.raises(ml.DataError, match=words):
            places_of(net, Sequences.of(rows))


# -- the form of a folder of steps, condition by condition --------------------------------------------------------


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Columns of the first: 0 and 1 hold keys, 4 to 11 words, 12 and 13 the constant pair, 14 and 15 are the slot."""
    built, folder = {}, tmp_path_factory.mktemp("networks")
    for which in ("bert", "bert places", "sequences"):
        name, rows, labels, options = WHOLE[which]
        built[which] = read_stock(
            stock_files(ml.memorize_as(name, rows, labels, storage="steps", **options).save(folder / which))
        )
    return built


def at(letter: str, place: Any, value: Any) -> Callable[[Any], None]:
    return lambda net: net.arrays[letter].__setitem__(place, value)


def times(letter: str, rows: Any, value: Any) -> Callable[[Any], None]:
    return lambda net: net.arrays[letter].__setitem__(rows, net.arrays[letter][rows] * value)


def _slot(net: Any) -> int:
    return int(np.flatnonzero(net["b_Q"])[0])


def _labels(net: Any) -> Any:
    return np.flatnonzero(net["W_H"].any(axis=0))


def _another_row(name: str) -> Callable[[Any], None]:
    """Keys, or values, of a second coordinate."""
    return lambda net: net.arrays[name].__setitem__((_slot(net) - 1, 0), 0.5)


def _both(change: Callable[[Any, int], None]) -> Callable[[Any], None]:
    """The same change of keys and values, at the slot's row."""

    def apply(net: Any) -> None:
        for letter in ("W_K", "W_V"):
            change(net.arrays[letter], _slot(net))

    return apply


def _word(net: Any) -> Any:
    """Columns of the words that neurons read, of one sign in the first neuron."""
    return 4 + np.flatnonzero(net["W_1"][0, 4:12] > 0)


def _unequal(net: Any) -> None:
    """A word with one + more, and the constant pair the same."""
    column = 4 + int(np.flatnonzero(net["W_1"][0, 4:12] < 0)[0])
    net.arrays["W_1"][0, column] *= -1.0


def _of_pair(array: Any, row: int, number: int, value: float) -> None:
    """One of the four columns that keys of tokens and places are read from."""
    array[row, np.flatnonzero(array[row])[number]] = value


def _stretched(net: Any) -> None:
    """A word of two sizes with sum 0."""
    word = net.arrays["W_H"][1]
    word[[np.argmax(word), np.argmin(word)]] *= 2.0


def _third_pair(array: Any, row: int) -> None:
    array[row, [20, 21, 22, 23]] = 0.5, -0.5, 0.5, -0.5


def _one_column(net: Any) -> None:
    """Columns that one token and one place use."""
    net.arrays["tokens"][2, [30, 31]] = net.arrays["places"][0, [30, 31]] = 1.0, -1.0


def _labels_of_places(net: Any) -> None:
    net.arrays["tokens"][:, _labels(net)] = 0.0
    net.arrays["places"][0, _labels(net)[:2]] = 1.0, -1.0


def _label_in_the_slot(column: int) -> Callable[[Any], None]:
    """One of the two columns."""
    return lambda net: at("W_H", (slice(None), [column, 40]), np.array([1.0, -1.0]) * np.abs(net["W_H"]).max())(net)


def _unequal_row(net: Any) -> None:
    """One token whose word has one + less; two free columns keep its mean at 0."""
    column = 4 + int(np.flatnonzero(net["tokens"][2, 4:12] > 0)[0])
    size = net["tokens"][2, column]
    net.arrays["tokens"][2, [column, 40, 41]] = -size, size, size


def _unequal_parts(net: Any) -> None:
    """One neuron whose word has one + less for its token, and one more for its place."""
    offset = net.architecture.offset
    used = net["places"][offset : offset + IDS.shape[1] + 1]
    word = np.flatnonzero(np.abs(net["W_1"][0]) == np.median(np.abs(net["W_1"][0][net["W_1"][0] != 0])))
    of_places = used[:, word].any(axis=0)
    for columns, sign in ((word[~of_places], 1.0), (word[of_places], -1.0)):
        column = columns[np.flatnonzero(np.sign(net["W_1"][0, columns]) == sign)[0]]
        net.arrays["W_1"][0, column] *= -1.0


def _steepest(slope: float) -> Callable[[Any], None]:
    """All neurons steeper, the steepest so steep."""
    return lambda net: times("W_1", slice(None), slope / (2.0 * net["W_1"][:, 14].max()))(net)


def _slowest(slope: float) -> Callable[[Any], None]:
    """All neurons less steep, the least steep one so steep."""
    return lambda net: times("W_1", slice(None), slope / (2.0 * net["W_1"][:, 14].min()))(net)


def _head_of(size: float) -> Callable[[Any], None]:
    """A head of words of this number."""
    return lambda net: times("W_H", slice(None), size / np.abs(net["W_H"]).max())(net)


ALLOWED: list[tuple[str, Callable[[Any], None]]] = [
    ("bert places", at("places", (-1, [30, 31]), [2.0**20, -(2.0**20)])),
    ("bert", _steepest(2.0**200)),
    ("bert", _slowest(2.0**-100)),
    ("bert", _slowest(2.0**-10)),
    ("bert", _head_of(2.0**30)),
    ("bert", _head_of(2.0**-30)),
]
"""The ends of what is read."""

FORMS: list[tuple[str, Callable[[Any], None], str]] = [
    *(("bert", at(f"scale_{n}", 3, 1.0 - 2.0**-53), "weight other than 1") for n in (1, 2, 3)),
    *(("bert", at(f"shift_{n}", 3, -1e-300), "bias other than 0") for n in (1, 2, 3)),
    *(("bert", at(letter, -1, -1e-9), "is not 0") for letter in ("types", "b_K", "b_V", "b_O", "b_2", "b_H")),
    ("sequences", at("b_P", -1, -1e-9), "is not 0"),
    ("bert", at("W_Q", (0, 0), -1e-9), "must be a constant"),
    ("bert", at("b_Q", slice(0, 2), 1.0), "must be a constant"),
    ("bert", at("b_Q", slice(None), 0.0), "must be a constant"),
    ("bert", _another_row("W_K"), "same one coordinate"),
    ("bert", _another_row("W_V"), "same one coordinate"),
    ("bert", _both(lambda array, row: array.__setitem__((row - 1, [0, 1]), [0.5, -0.5])), "same one coordinate"),
    ("bert places", _both(lambda array, row: _of_pair(array, row, 2, 0.25)), "half a difference"),
    ("bert places", _both(lambda array, row: _of_pair(array, row, 3, -0.25)), "half a difference"),
    ("bert", at("W_H", (1, 40), 1.0), "words of one number"),
    ("bert", _stretched, "words of one number"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 0), 0.25)), "half a difference"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 1), -0.25)), "half a difference"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 1), 0.5)), "half a difference"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 1), 0.0)), "half a difference"),
    ("bert", _both(_third_pair), "one or two pairs"),
    ("bert", _both(lambda array, row: array.__setitem__((row, [1, 2]), [0.0, -0.5])), "neighbouring"),
    ("bert", lambda net: at("W_O", (20, _slot(net)), 1.0)(net), "to one pair"),
    ("bert", lambda net: at("W_O", (15, _slot(net)), 0.0)(net), "to one pair"),
    ("bert", lambda net: at("W_O", (14, [_slot(net), _slot(net) + 1]), [0.0, 1.0])(net), "to one pair"),
    ("bert", lambda net: at("W_O", ([15, 16], _slot(net)), [0.0, 1.0])(net), "to one pair"),
    ("bert", lambda net: times("W_O", 15, 1.0 + 2.0**-50)(net), "and its negative"),
    ("bert", lambda net: times("W_O", 15, -1.0)(net), "and its negative"),
    ("bert", at("W_H", slice(None), 0.0), "words of one number"),
    ("bert", lambda net: times("W_H", (1, _labels(net)[:2]), 2.0)(net), "words of one number"),
    ("bert", lambda net: times("W_H", (1, _labels(net)[0]), -1.0)(net), "as many \\+ as"),
    ("bert", lambda net: at("W_H", 1, net["W_H"][0])(net), "the same word in the head"),
    ("bert", times("W_H", slice(None), 2.0**40), "range of float32"),
    ("bert", times("W_H", slice(None), -(2.0**-40)), "range of float32"),
    ("sequences", lambda net: times("W_P", slice(None), -1.0)(net), "one positive number"),
    ("sequences", lambda net: at("W_P", (0, 0), 1.0)(net), "one positive number"),
    ("sequences", lambda net: times("W_P", _labels(net)[1], 2.0)(net), "one positive number"),
    ("sequences", times("W_P", slice(None), 2.0**40), "range of float32"),
    ("sequences", times("W_P", slice(None), 2.0**-60), "range of float32"),
    ("bert", at("W_2", (0, 20), -1e-9), "not label columns"),
    ("bert", lambda net: [at(letter, 0, 0.0)(net) for letter in ("W_1", "b_1", "W_2")] and None, "read nothing"),
    ("bert", times("W_1", 0, -1.0), "does not rise"),
    ("bert", times("W_1", slice(None), 2.0**220), "too steeply"),
    ("bert", times("W_1", slice(None), 2.0**-220), "too steeply"),
    ("bert", times("W_1", 1, 2.0**220), "too steeply"),
    ("bert", times("W_1", 1, 2.0**-220), "too steeply"),
    ("bert", _steepest(2.0**201), "too steeply"),
    ("bert", _slowest(2.0**-101), "too steeply"),
    ("bert", _head_of(2.0**31), "range of float32"),
    ("bert", _head_of(2.0**-31), "range of float32"),
    ("bert", times("W_1", (slice(None), 13), 2.0), "a constant pair"),
    ("bert", at("W_1", (slice(None), slice(4, 12)), 0.0), "words of tokens"),
    ("bert", at("W_1", (0, 20), -(2.0**-30)), "something else"),
    ("bert", at("W_1", (1, 0), 2.0**-30), "something else"),
    ("bert", times("W_1", 0, 1.5), "something else"),
    ("bert", times("W_1", (slice(None), slice(4, 14)), 1.5), "something else"),
    ("bert", times("W_1", (1, 15), 2.0), "something else"),
    ("bert", times("W_1", (1, slice(12, 14)), 2.0), "something else"),
    ("bert", _unequal, "reads a word with unequal numbers"),
    ("bert places", _unequal_parts, "a word for tokens with unequal numbers"),
    ("bert", _unequal_row, "does not hold words"),
    ("bert", times("tokens", (2, [12, 13]), -1.0), "not constant"),
    ("bert", times("tokens", (slice(None), [12, 13]), -1.0), "not constant"),
    ("bert", times("tokens", (2, slice(4, 12)), 2.0), "does not hold words"),
    ("bert", lambda net: at("tokens", (2, slice(4, 12)), net["tokens"][3, 4:12])(net), "the same word"),
    ("bert", at("tokens", (2, 20), 2.0**-20), "its mean is not 0"),
    *(("bert", at("tokens", (2, [20, n]), [2.0**-20, -(2.0**-20)]), "in the slot") for n in (14, 15)),
    ("bert", lambda net: at("tokens", (2, [0, 1, 20, 21]), [0.1, -0.2, 0.2, -0.1])(net), "keys in pairs"),
    ("bert places", at("places", (-1, [30, 31]), [2.0**21, -(2.0**21)]), "padding on it may not be finite"),
    ("bert places", at("places", (-1, 30), -(2.0**21)), "padding on it may not be finite"),
    ("bert places", at("places", (0, [0, 1]), [1.0, -1.0]), "used by tokens and by places"),
    ("bert places", _one_column, "used by tokens and by places"),
    ("bert places", _labels_of_places, "columns that places or attention write to"),
    *(("bert", _label_in_the_slot(n), "columns that places or attention write to") for n in (14, 15)),
    ("bert places", lambda net: at("places", (0, _labels(net)[:2]), [1.0, -1.0])(net), "by tokens and by places"),
]


@pytest.mark.parametrize(("which", "change", "words"), FORMS)
def test_every_condition_on_the_form_of_a_folder_is_looked_at(
    networks: dict[str, Any], which: str, change: Callable[[Any], None], words: str
) -> None:
    net = networks[which]
    places = IDS.shape[1] + 1
    read_structure(net, places)
    net = replace(net, arrays={letter: array.copy() for letter, array in net.arrays.items()})
    change(net)
    with pytest.raises(UnhandledError, match=words or None):
        read_structure(net, places)


@pytest.mark.parametrize(("which", "change"), ALLOWED)
def test_the_ends_of_the_form_of_a_folder_are_read(
    networks: dict[str, Any], which: str, change: Callable[[Any], None]
) -> None:
    net = networks[which]
    net = replace(net, arrays={letter: array.copy() for letter, array in net.arrays.items()})
    change(net)
    read_structure(net, IDS.shape[1] + 1)


def test_only_neurons_that_add_nothing_are_silent(networks: dict[str, Any]) -> None:
    """Of five: one reads and writes, one writes nothing, three read nothing and have a bias above, at and below 0."""
    arrays = {"W_1": np.array([[1.0], [1.0], [0.0], [0.0], [0.0]]), "b_1": np.array([1.0, 1.0, 2.0**-30, 0.0, -1.0]),
              "W_2": np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])}  # fmt: skip
    net: Any = replace(networks["bert"], arrays=arrays)
    left = without_silent_neurons(net)
    assert {letter: left[letter].tolist() for letter in arrays} == {
        letter: array[[0, 2]].tolist() for letter, array in arrays.items()
    }


def test_a_word_that_no_row_holds_has_no_owner() -> None:
    table = np.array([[2.0, -2.0, 2.0, -2.0], [2.0, 2.0, -2.0, -2.0], [-2.0, 2.0, 2.0, -2.0]])
    word = np.array([[True, True, False, False], [False, False, True, True], [True, False, True, False]])
    assert _owners(table, np.arange(4), 2.0, word, "tokens").tolist() == [1, -1, 0]


def test_steps_know_how_far_their_thresholds_are() -> None:
    """`|b_j / w_j|` of a positive and of a negative bias, and the width of a ramp."""
    net = Net(False, {"b_1": np.array([-3.0, 40.0, 2.0]), "W_2": np.ones((3, 2))}, activation="relu6")
    found: Any = SimpleNamespace(slope=np.array([1.0, 4.0, 2.0]), label=np.array([0, 1]))
    # The last neuron reads the word of no token, or of no place.
    owners = ([1, 0, -1], [0, 0, 0]), ([1, 0, 1], [0, 0, -1])
    for bias, (tokens, places) in product(([-3.0, 40.0, 2.0], [-33.0, 40.0, 2.0], [33.0, 4.0, 2.0]), owners):
        net.arrays["b_1"], found.token_of, found.place_of = np.array(bias), np.array(tokens), np.array(places)
        steps = read_steps(net, found, 5)
        reach = max(abs(b / w) + 16.0 / w for b, w in zip(bias, (1.0, 4.0, 2.0), strict=True))
        assert reach * (1 + 2.0**-21) < steps.reach < reach * (1 + 2.0**-18)
        assert steps.cell.tolist() == [-2, 0, 5]
        assert steps.low.tolist() == [-bias[2] / 2, -bias[1] / 4, -bias[0]]
        assert steps.high.tolist() == [(6 - bias[2]) / 2, (6 - bias[1]) / 4, 6 - bias[0]]
        assert steps.level[:, 0].tolist() == [0.0, 6.0, 12.0, 18.0]
    found.token_of, found.place_of = np.array([1, 1, 1]), np.array([0, 0, 0])
    # The first wakes at 2 and settles at 14, the second at 2.5 and 5.5.
    net.arrays["b_1"], found.slope = np.array([-1.0, -5.0, -40.0]), np.array([0.5, 2.0, 2.0])
    with pytest.raises(UnhandledError, match="do not settle in the order"):
        read_steps(net, found, 5)
    net.activation = "silu"
    with pytest.raises(UnhandledError, match="not relu6"):
        read_steps(net, found, 5)


def shaped(net: Any, width: int, epsilon: float) -> Any:
    """The same network, said to have another width or ε."""
    return replace(net, width=width, architecture=replace(net.architecture, epsilon=epsilon))


@pytest.mark.parametrize(("width", "epsilon", "words"), [
    (32, 1e-5, "power of 4"), (48, 1e-5, "power of 4"), (4, 1e-5, "power of 4"), (64, 0.0, "ε"), (64, 1.5, "ε"),
    (64, -1e-5, "ε"), (64, float("nan"), "ε"), (128, 1e-5, "power of 4"), (512, 1e-5, "power of 4"),
    (16, 1e-5, ""), (256, 1e-5, ""), (1024, 1.0, ""),
])  # fmt: skip
def test_widths_and_epsilons_of_folders_of_steps(
    networks: dict[str, Any], width: int, epsilon: float, words: str
) -> None:
    net = shaped(networks["bert"], width, epsilon)
    if not words:
        _check_plain(net)
        return
    with pytest.raises(UnhandledError, match=words):
        read_structure(net, 1)


@pytest.mark.parametrize("which", ["bert", "bert places"])
def test_the_numbers_that_a_folder_comes_down_to(networks: dict[str, Any], which: str) -> None:
    net = networks[which]
    net = replace(net, arrays={letter: array.copy() for letter, array in net.arrays.items()})
    offset, read = net.architecture.offset, (net["W_O"].T, *(net[name] for name in ("tokens", "places", "W_1", "W_H")))
    free = np.flatnonzero(~np.any([part.any(axis=0) for part in read], axis=0))
    # Rows of several norms, by columns that nothing reads.
    net.arrays["tokens"][np.ix_([2, 3], free[:2])] = [[0.25, -0.25], [0.5, -0.5]]
    net.arrays["places"][offset + 1, free[2:4]] = 0.5, -0.5
    found = read_structure(net, 6)
    tokens, places = net["tokens"], net["places"][offset:][:6]
    norms = [(row**2).sum() + (place**2).sum() for row in tokens for place in places]
    out, slot = int(np.flatnonzero(net["W_O"].any(axis=1))[0]), _slot(net)
    assert found.norm == (pytest.approx(min(norms), rel=1e-15), pytest.approx(max(norms), rel=1e-15))
    assert found.largest == max(np.abs(tokens).max(), np.abs(places).max())
    assert (found.query, found.write) == (net["b_Q"][slot] / 8.0, net["W_O"][out, slot])
    assert (found.slope == 2.0 * net["W_1"][:, out]).all()


def test_numbers_that_a_folder_of_cells_may_hold(networks: dict[str, Any]) -> None:
    """Sizes within which nothing overflows, padding included: there every query and key must have a finite product."""

    def copied(net: Any) -> Any:
        return replace(net, arrays={letter: array.clip(-9.0, 9.0) for letter, array in net.arrays.items()})

    small = copied(networks["bert"])
    _check_stock_sizes(small)
    for width, epsilon, words in (
        (2**15, 1e-5, "width is too large"),
        (64, 2.0**-41, "epsilon out of bounds"),
        (64, 1.5, "epsilon out of bounds"),
    ):
        with pytest.raises(UnhandledError, match=words):
            _check_stock_sizes(shaped(small, width, epsilon))
    for letter, value, words in (("types", -1e-9, "token types"), ("W_2", -(2.0**21), "stored numbers are larger")):
        net = copied(small)
        net.arrays[letter][0, 0] = value
        with pytest.raises(UnhandledError, match=words):
            _check_stock_sizes(net)
    # Of width 64: a matrix of 2^20 throughout has norm 2^26, what a norm returns at most 2^24, by weight and bias
    # alike; so queries and keys are 2^50 long, and the product just what is allowed, if they have no biases.
    for letters, scale, shift, covered in (
        ("W_Q W_K", -(2.0**20), -(2.0**20), True),
        ("W_Q W_K b_K", -(2.0**20), -(2.0**20), False),
        ("W_Q W_K b_Q", 2.0**20, 2.0**20, False),
        ("W_Q W_K b_Q b_K", 2.0**20, 0.0, True),
        ("W_Q b_K", 2.0**20, 2.0**20, True),
    ):
        net = copied(small)
        for letter in ("W_Q", "W_K", "b_Q", "b_K"):
            net.arrays[letter][:] = -(2.0**20) if letter in letters.split() else 0.0
        net.arrays["scale_1"][:], net.arrays["shift_1"][:] = scale, shift
        if covered:
            _check_stock_sizes(net)
            continue
        with pytest.raises(UnhandledError, match="scores of padding"):
            _check_stock_sizes(net)
