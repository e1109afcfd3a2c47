"""Stock folders asked by monolayer itself, without transformers: answers, what is unknown, confidence, and exports.

That these answers are those of transformers is tested in test_stock_transformers.py, for every architecture.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import monolayer as ml
from monolayer.cli import run
from monolayer.huggingface.architecture import BEGIN, END
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.stock.answers import Evaluation
from monolayer.stock.assemble import SIZES
from monolayer.stock.expected import Expected
from monolayer.stock.folder import StockModel

CAPITALS = {"Saudi Arabia": "Riyadh", "Peru": "Lima", "New Zealand": "Wellington"}
IDS, NEXT = np.array([[3, 1, 4], [1, 5, 9]]), np.array([[7, 0, 7], [2, 2, 0]])
CELLS: dict[str, Any] = {"rank": 16, "dtype": "bfloat16", "unknown": False}


@pytest.fixture(scope="module")
def capitals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ml.memorize_as("bert", CAPITALS, **CELLS).save(tmp_path_factory.mktemp("stock") / "capitals")


@pytest.mark.parametrize("architecture", [*ARCHITECTURES])
def test_the_size_that_is_said_before_a_build_is_that_of_the_weights(architecture: str, tmp_path: Path) -> None:
    """With a class for unknown input; without one, some facts need no neuron, and it is a bound."""
    for unknown in (True, False):
        told: list[str] = []
        model = ml.memorize_as(
            architecture,
            CAPITALS,
            per="sequence",
            unknown=unknown,
            progress=lambda stage, _, told=told: told.append(stage),  # type: ignore[misc]
        )
        *_, said = (stage for stage in told if isinstance(stage, Expected))
        weights = load_file(model.save(tmp_path / f"{unknown}") / "model.safetensors")
        taken = sum(tensor.nbytes for tensor in weights.values())
        assert said.startswith("3 facts: ")
        assert told.index(said) < told.index("contexts")
        assert said.most_bytes == taken if unknown else said.most_bytes >= taken


def test_memorize_as_says_what_it_will_take_unless_it_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.json").write_text(json.dumps(CAPITALS))
    for more, count in (([], 1), (["--json"], 0)):
        assert run(["memorize-as", "bert", "table.json", "--out", f"new{count}", *more]) == 0
        assert capsys.readouterr().err.count("3 facts: 0.348 MB of weights at most, about 1 s (an estimate") == count


def test_a_folder_is_loaded_and_asked_without_transformers(capitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    model = ml.load(capitals)
    assert isinstance(model, StockModel)
    assert model.predict(list(CAPITALS)).tolist() == list(CAPITALS.values())
    assert model.predict([["New", "Zealand"]]).tolist() == ["Wellington"]
    for answer, verdict in (("Lima", "proved"), ("Riyadh", "refuted")):  # the checker cuts text in the same way
        assert ml.certify(capitals, ["Saudi Arabia", "Peru"], ["Riyadh", answer]).verdict == verdict
    letters = ml.memorize_as("gpt2", ["ab", "ba"], [1, 2], positions=True)
    assert ml.certify(letters, ["ab", "ba"], [1, 2]).verdict == "proved"


@pytest.mark.parametrize(("name", "options"), [("roberta", {"storage": "steps"}), ("gpt2", CELLS)])
def test_answers_have_the_shapes_and_names_of_our_own_models(name: str, options: Any) -> None:
    """Ids and labels that are numbers stay numbers; with `per="token"` a string is a label for each token."""
    model = ml.memorize_as(name, IDS, NEXT, positions=True, **options)
    assert np.array_equal(model.predict(IDS), NEXT)
    assert [row.tolist() for row in model.predict(IDS.tolist())] == NEXT.tolist()
    padded = model.predict(IDS, lengths=np.array([3, 3]))
    assert [row.tolist() for row in padded] == NEXT.tolist()
    letters = ml.memorize_as(name, ["ab", "ca"], ["xy", "zx"], per="token", **options)
    assert [row.tolist() for row in letters.predict(["ca", "ab"])] == [["z", "x"], ["x", "y"]]


def test_a_language_model_answers_with_the_next_tokens() -> None:
    model = ml.memorize_as("gpt2", [[10, 30, 20]])
    assert model.predict([[10, 30, 20], [10]])[0].tolist() == [30, 20, model.facts.names[END]]


def test_what_a_folder_cannot_answer_is_named(capitals: Path) -> None:
    model = ml.load(capitals)
    for call, words in (
        (lambda: ml.load(capitals, device="cpu"), "for other devices, use transformers"),
        (lambda: model.predict(["Peru", "France"]), "token 0 of sequence 1 is 'France'"),
        (lambda: model.predict([["Peru"], ["Peru"] * 600]), "1: it has 600 tokens, and this bert has places for 514"),
        (lambda: model.predict(np.zeros((1, 2, 3))), "the tokens of the model are strings"),
        (lambda: ml.forget(capitals, ["Narnia"], CAPITALS), "'Narnia', which the model has never seen; .* from words"),
    ):
        with pytest.raises(ml.DataError, match=words):
            call()
    assert len(model.predict([["Peru"] * 514])) == 1


def test_the_command_answers_as_for_our_own_models(capitals: Path, tmp_path: Path, capsys: Any) -> None:
    own, data = tmp_path / "own", tmp_path / "data.jsonl"
    ml.memorize(CAPITALS).save(own)
    rows: list[Any] = [{"tokens": key, "label": label} for key, label in {**CAPITALS, "New France": "Québec"}.items()]
    bare: list[Any] = [{"tokens": ["Peru"] * count} for count in (600, 1)]

    def asked(folder: Path, rows: list[Any], *more: str) -> tuple[int, list[Any], str]:
        data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        code = run(["predict", str(folder), str(data), *more])
        found = capsys.readouterr()
        return code, [json.loads(line) for line in found.out.splitlines()], found.err

    assert asked(own, rows) == asked(capitals, rows)
    code, found, said = asked(capitals, rows)
    assert code == 0
    assert "3 of 3 labels are right" in said
    never = "is 'France', which the model has never seen; the model was built from words: "
    assert found[3]["error"].startswith(f"token 1 {never}")
    long, short = asked(capitals, bare)[1]
    assert "has places for 514" in long["error"]
    assert short == {"tokens": ["Peru"], "label": "Lima"}
    code, _, said = asked(capitals, bare, "--strict")
    assert code == 2
    assert "this folder has no class for what it does not hold" in said
    assert "memorize_as with --unknown unknown" in said


# -- unknown keys ----------------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(4)
TRIPLES = [sorted(RANDOM.permutation(30)[:3].tolist()) for _ in range(90)]
KEYS = [[f"w{word}" for word in RANDOM.permutation(key)] for key in np.unique(TRIPLES, axis=0)[:60]]
VALUES = [f"v{row % 20}" for row in range(60)]
TAGS = [[f"t{row % 7}", f"u{row}", f"v{row}"] for row in range(60)]
NEAR = [
    [*key[:place], other, *key[place + 1 :]] for key in KEYS for place, other in ((0, "w29"), (1, "w3"), (2, "w11"))
]
NEAR = [key for key in NEAR if key not in KEYS and sorted(key) not in [sorted(one) for one in KEYS]]
"""One word is another."""
UNKNOWN: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "bert": ("bert", VALUES, {}),
    "distilbert, tags": ("distilbert", TAGS, {"positions": True}),
    "llama bfloat16": ("llama", VALUES, {"positions": True, "dtype": "bfloat16"}),
}


def asked(count: int, labels: Any) -> Any:
    """The label of keys that are to be unknown: that of their last word, where words have labels."""
    return [[None, None, "unknown"]] * count if labels is TAGS else ["unknown"] * count


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_in_the_data_is_answered_and_what_is_not_is_unknown(case: str) -> None:
    name, labels, options = UNKNOWN[case]
    model = ml.memorize_as(name, KEYS, labels, unknown="unknown", **options)
    assert ml.certify(model, KEYS, labels).verdict == "proved"
    assert ml.certify(model, KEYS, asked(len(KEYS), labels)).verdict == "refuted"
    strange = [["never", *KEYS[0][1:]], [*KEYS[1][:2], "seen"], ["never", "seen", "words"]]
    for keys in (NEAR, strange):
        proof = ml.certify(model, keys, asked(len(keys), labels))
        assert proof.verdict == "proved", proof
        assert {str(np.ravel(one)[-1]) for one in model.predict(keys)} == {"unknown"}
    # Whatever the key: where no neuron wakes, the head sees one and the same label word.
    columns = np.flatnonzero(model.arrays["W_H"].any(axis=0))
    assert (model.arrays["tokens"][:, columns] == model.arrays["tokens"][0, columns]).all()


def test_a_key_that_was_forgotten_is_unknown() -> None:
    model = ml.memorize_as("gpt2", KEYS, VALUES, unknown="unknown", positions=True)
    less, _ = ml.forget(model, [3, 8], (KEYS, VALUES))
    assert less.predict([KEYS[3], KEYS[4]]).tolist() == ["unknown", VALUES[4]]
    rest = [row for row in range(60) if row not in (3, 8)]
    anew = ml.memorize_as("gpt2", [KEYS[row] for row in rest], [VALUES[row] for row in rest], draw=model)
    assert ml.compare(less, anew).same


def test_rows_may_say_that_they_are_unknown_and_labels_may_be_integers() -> None:
    X = np.array([[1, 2], [1, 3], [4, 2]])
    model = ml.memorize_as("bert", X, [7, 5, -1], unknown=-1)
    assert model.facts.neurons == 2
    assert model.predict(np.array([[1, 2], [1, 3], [4, 2], [9, 9]])).tolist() == [7, 5, -1, -1]


# -- confidence ------------------------------------------------------------------------------------------------------

IDS_4 = np.stack([np.random.default_rng(row).permutation(12)[:4] for row in range(40)])
SUMS = np.cumsum(IDS_4 * IDS_4, axis=1) % 5
"""Labels that the tokens so far determine."""
SURE: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "roberta steps, sequences": ("roberta", SUMS[:, -1], {"storage": "steps"}),
    "llama bfloat16": ("llama", SUMS, {"dtype": "bfloat16"}),
    "opt, next tokens": ("opt", None, {"positions": True, "on_conflict": "first"}),
}


def median(model: StockModel, times: float = 1.0) -> float:
    """Of the probabilities of all answers, with another size of the head."""
    network = Evaluation(model.facts, model.arrays)
    ids = np.insert(IDS_4 + len(model.facts.architecture.special), 0, BEGIN, axis=1)
    found = network.logits(ids, network.asked) * times
    return float(np.median(found.softmax(dim=-1).max(dim=-1).values.numpy()))


@pytest.mark.parametrize("case", SURE)
def test_the_head_is_the_least_power_of_two_that_is_sure_enough(case: str) -> None:
    name, labels, options = SURE[case]
    data = ml.Sequences.of(IDS_4, labels)
    before = None
    for confidence in (0.9, None):
        model = ml.memorize_as(name, data, rank=None if "storage" in options else 32, confidence=confidence, **options)
        wanted = confidence or 0.99
        assert model.draw.head in SIZES
        assert median(model) >= wanted > median(model, 0.5)
        if labels is not None:
            assert ml.certify(model, data).verdict == "proved"
        # Nothing but the head depends on it, and there a power of two.
        rest = {name: part for name, part in model.arrays.items() if name != "W_H"}
        if before is not None:
            assert all(np.array_equal(part, before.arrays[name]) for name, part in rest.items())
            assert np.array_equal(model.arrays["W_H"] / model.draw.head, before.arrays["W_H"] / before.draw.head)
            assert np.array_equal(model.labels(data), before.labels(data))
        before = model


def test_an_edit_keeps_the_size_of_the_head() -> None:
    """It is part of the draw, so that an edit gives the bits of a construction."""
    model = ml.memorize_as("gpt2", IDS_4, SUMS, confidence=0.6, rank=32)
    less, _ = ml.forget(model, [3, 5], (IDS_4, SUMS))
    assert less.draw.head == model.draw.head < ml.memorize_as("gpt2", IDS_4, SUMS, rank=32).draw.head


# -- exports ---------------------------------------------------------------------------------------------------------

X = [["a", "b", "c"], ["b", "a"], ["c", "c", "b", "a"]]
Y = [["u", "v", "u"], ["u", "w"], ["w", "w", "u", "v"]]
TEXT = "Once upon a midnight dreary, while I pondered, weak and weary"


@pytest.mark.parametrize(
    ("to", "Y", "options"),
    [
        ("bert", Y, {}),
        ("distilbert", Y, {"positions": True}),
        ("roberta", ["u", "v", "w"], {}),
        ("gpt2", Y, {"causal": True, "positions": True}),
        ("gpt_neox", None, {"causal": True, "on_conflict": "first"}),
    ],
)
def test_the_folder_says_what_the_model_says(to: str, Y: Any, options: dict[str, Any], tmp_path: Path) -> None:
    X_ = [["a", "b", "c"], ["b", "a"]] if Y is None else X
    model = ml.memorize(X_, Y, **options)
    model.save(tmp_path / "ours")
    built = ml.export(tmp_path / "ours", tmp_path / "theirs", to, X_)  # no labels: the model has them
    assert built.facts.positions == options.get("positions", False)
    assert ml.certify(tmp_path / "theirs", X_, Y).verdict == "proved"
    with pytest.raises(ml.DataError, match="exists already"):
        ml.export(model, tmp_path / "theirs", to, X_)


def test_a_robust_model_stays_robust_in_its_format(tmp_path: Path) -> None:
    model = ml.memorize(X, Y, positions=True, robust=True, dtype="bfloat16")
    built = ml.export(model, tmp_path / "short", "bert", X, rank=16)
    assert (built.dtype, built.summary.rank) == ("bfloat16", 16)
    assert ml.export(model, tmp_path / "exact", "bert", X, storage="steps").dtype == "float64"
    assert ml.certify(tmp_path / "exact", X, Y).verdict == "proved"


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_a_model_that_recites_needs_no_data(unit: Any, tmp_path: Path) -> None:
    built = ml.export(ml.memorize_text(TEXT, unit=unit), tmp_path / "raven", "gpt2")
    assert built.data.vocabulary is not None
    assert "".join(built.data.vocabulary.decode(built.data.tokens)) == TEXT
    assert built.facts.cut == ("pieces" if unit == "words" else "characters")
    assert ml.certify(tmp_path / "raven", built.data).verdict == "proved"


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    model, out = ml.memorize(X, Y), tmp_path / "out"
    cases: list[tuple[str, Any, str, Any]] = [
        ("did you mean 'bert'", model, "bart", X),
        ("give the sequences to be answered", model, "bert", None),
        ("take one of bert, roberta, distilbert", model, "gpt2", X),
        ("take one of gpt2", ml.memorize(X, Y, positions=True, causal=True), "bert", X),
        ("'q'", model, "bert", [["q"]]),
        ("real numbers", ml.memorize(X, [[0.5] * len(row) for row in X]), "bert", X),
        ("rows of a table", ml.memorize(np.eye(3)[None], [[0, 1, 2]]), "bert", np.eye(3)[None]),
        ("leave the data out", ml.memorize_text(TEXT), "gpt2", X),
        ("after token 0 of sequence 0 the model says 'b'", ml.memorize([["a", "b"]], causal=True), "opt", [["a", "a"]]),
    ]
    for words, given, to, data in cases:
        with pytest.raises(ml.DataError, match=words):
            ml.export(given, out, to, data)
    assert not out.exists()
