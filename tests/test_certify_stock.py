"""Certificates of stock folders: planted faults, folders of cells, and texts.

No folder that errs is proved, none that is right is refuted. The plain evaluation of `stock/answers.py` is asked, which
tests/test_stock_transformers.py holds against transformers. Every fault in texts changes what a user gets.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stock.structure import read_structure
from monolayer.huggingface.opened import stock_files
from tests import stock_attack
from tests.plain_stock import Stock
from tests.verdicts import UNSURE, expect
from tests.whole_stock import (
    BUILT,
    BY_TASK,
    IDS,
    LABELS,
    SENTENCES,
    TAGS,
    TOPICS,
    USUAL,
    WHOLE,
    WORDS,
    whole,
    with_begin,
)

pytestmark = pytest.mark.usefixtures("bounds_alone")


def evaluate(model: Stock, labels: Any) -> int:
    """How many labels the plain evaluator gets wrong."""
    network = model.evaluation()
    found = network.logits(with_begin(model["facts"]), network.asked).numpy()
    best = np.array([int(name) for name in model["facts"].classes])[found.argmax(axis=-1)]
    return int(((best != labels) | np.isnan(found).any(axis=-1)).sum())


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
    model["tokenizer_config"]["model_max_length"] += 1


NO_WORDS = "the table of places does not hold words"
TURNING = {"rope_type": "default", "rope_theta": 1e4}
FAULTS: list[tuple[str, str, Callable[[Stock], None], str]] = [
    ("bert", "two classes swapped in the head", tensor("classifier.weight", swap(0, 1)), "refuted"),
    ("bert", "neurons silenced", tensor("layer.0.output.dense.weight", lambda array: 0.0 * array), "refuted"),
    ("bert", "thresholds moved", tensor("intermediate.dense.bias", lambda array: array + 1e12), "the gate is too weak"),
    ("bert", "a norm with a weight", tensor("embeddings.LayerNorm.weight", first(1.0 + 2.0**-52)), "a weight other"),
    ("bert", "a norm with a bias", tensor("output.LayerNorm.bias", first(1e-300)), "bias other than 0"),
    ("bert", "a token type", tensor("token_type_embeddings.weight", first(1e-3)), "a bias, or a table of token types"),
    ("bert", "a query that reads", tensor("self.query.weight", first(1e-9)), "the query must be a constant"),
    ("bert", "a key with a bias", tensor("self.key.bias", first(1e-9)), "a bias, or a table"),
    ("bert", "values unlike keys", tensor("self.value.weight", first(0.25)), "keys and values must be the same"),
    # Of its 64 columns 0 and 1 hold keys, 2 and 3 make rows equally long, 4 to 11 hold words, 12 and 13 the constant
    # pair, 14 and 15 are the slot, 16 to 19 labels; the others are free.
    ("bert", "a row with a mean", tensor("word_embeddings.weight", put(5, 20, 2.0**-20)), "its mean is not 0"),
    ("bert", "a longer row", tensor("word_embeddings.weight", _longer), "norms err by"),
    ("bert", "half a key", tensor("word_embeddings.weight", moved(1, 20)), "keys in pairs"),
    ("bert", "a key in the slot", tensor("word_embeddings.weight", moved([0, 1], [14, 15])), "in the slot"),
    ("bert", "no constant pair", tensor("word_embeddings.weight", moved([12, 13], [20, 21])), "pair is not constant"),
    ("bert", "one word for two", tensor("word_embeddings.weight", _one_word), "have the same word"),
    ("bert", "a neuron that writes beside labels", tensor("layer.0.output.dense.weight", put(20, 0, 0.5)), "not label"),
    ("bert", "two classes with one word", _another_class, "two classes have the same word"),
    ("gpt2", "a place among tokens", tensor("wpe.weight", put(1, [0, 1], [2.0**-20, -(2.0**-20)])), "used by tokens"),
    ("bert", "a head with a bias", tensor("classifier.bias", first(1.0)), "a bias, or a table"),
    # Folders that answer wrongly, at least in float32, with padding or behind their own tokenizer: the conditions of
    # Lemma S7 and of the tokenizer are not idle.
    ("relu pooler", "what neurons write has a mean", _lopsided, UNSURE),
    ("sequences", "a faint pooler", tensor("pooler.dense.weight", lambda array: 2.0**-22 * array), UNSURE),
    ("bert", "logits beyond float32", tensor("classifier.weight", lambda array: 1e39 * array), "the range of float32"),
    ("bert", "logits below float32", tensor("classifier.weight", lambda array: 1e-50 * array), "the range of float32"),
    ("two", "squares beyond float64", tensor("0.output.dense.weight", lambda array: 2.0**510 * array), UNSURE),
    ("bert", "a place of padding that is not finite", _far_place, "padding on it may not be finite"),
    ("gpt2", "two words swapped in the head", tensor("lm_head.weight", swap(4, 5)), "refuted"),
    ("gpt2", "two words swapped in the embedding", tensor("wte.weight", swap(4, 5)), "refuted"),
    ("gpt2", "an embedding that is the head", config(tie_word_embeddings=True), "tie_word_embeddings = True"),
    ("gpt2", "places one further", tensor("wpe.weight", lambda array: np.roll(array, 1, axis=0)), NO_WORDS),
    ("opt", "two words swapped in the head", tensor("lm_head.weight", swap(4, 5)), "refuted"),
    ("opt", "places one further", tensor("positions.weight", lambda array: np.roll(array, 1, axis=0)), NO_WORDS),
    ("opt", "norms behind their blocks", config(do_layer_norm_before=False), "do_layer_norm_before = False"),
    ("opt", "no last norm", config(_remove_final_layer_norm=True), "_remove_final_layer_norm = True"),
    ("opt", "no biases", config(enable_bias=False), "enable_bias = False"),
    ("opt", "an activation of another kind", config(activation_function="silu"), "activation_function = 'silu'"),
    ("starcoder2", "angles that turn the key", config(rope_theta=1e4, rope_parameters=TURNING), "turned by rotary"),
    ("starcoder2", "a window", config(sliding_window=4), "sliding_window = 4"),
    ("gpt_neox", "attention beside the neurons", config(use_parallel_residual=True), "use_parallel_residual = True"),
    ("gpt_neox", "two words swapped in the head", tensor("lm_head.weight", swap(4, 5)), "refuted"),
    ("robust", "a token type", tensor("token_type_embeddings.weight", first(0.5)), "token types"),
    ("robust", "a large row", tensor("word_embeddings.weight", first(2.0**21)), "stored numbers are larger"),
    ("robust", "loud scores", _loud, "the bounds cover"),
    ("letters", "padding that is not finite", tensor("wte.weight", put(0, [40, 41], [1e300, -1e300])), "the variance"),
]  # fmt: skip


@pytest.mark.parametrize(("which", "what", "change", "expected"), FAULTS)
def test_each_check_has_a_fault_that_it_sees(
    which: str, what: str, change: Callable[[Stock], None], expected: str
) -> None:
    model = copy.deepcopy(whole(which))
    change(model)
    verdict, words = ("refuted", "") if expected == "refuted" else ("undecided", expected)
    expect(verdict, words, model, *WHOLE[which][1:3])


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
    for count in (6, 60, 120, 180, 240, len(X)):  # the more keys, the narrower
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
