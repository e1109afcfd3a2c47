"""A draw of a stock folder is data in it: with it the data decide every bit, and what was forgotten is gone.

That an edit gives these bits, and that its record goes both ways, test_edit.py says of every kind of model.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import monolayer as ml
from monolayer.checker.stock import only as stock_only
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stock.only import DemandedSteps, StoredSteps, _misplaced_step
from monolayer.checker.stock.places import places_of
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.opened import stock_files
from monolayer.stock.build import memorize_again
from monolayer.stock.folder import StockModel
from tests.kinds import same_bits

PHRASES = ["银行", "行走", "音乐", "快乐"]
READINGS = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"]]
RANDOM = np.random.default_rng(5)
X = np.concatenate([12 + np.arange(16)[:, None], np.stack([RANDOM.permutation(12)[:4] for _ in range(16)])], axis=1)
Y = np.where(RANDOM.random(X.shape) < 0.5, X % 5, RANDOM.integers(0, 5, X.shape))
OTHER = np.where(np.arange(16)[:, None] == 3, (Y + 1) % 5, Y)
WHOLE = ml.Sequences.of(X, Y)
STEPS: dict[str, Any] = {"positions": True, "storage": "steps"}
SHORT: dict[str, Any] = {"positions": True, "rank": 32, "dtype": "bfloat16"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A BERT of steps, and one of cells."""
    home = tmp_path_factory.mktemp("both")
    return [ml.memorize_as("bert", WHOLE, **options).save(home / str(len(options))) for options in (STEPS, SHORT)]


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_the_same_draw_and_data_are_the_same_bits(name: str, tmp_path: Path) -> None:
    """Of every architecture and task, and of both constructions; read back from the folder, too. Some rows at a time,
    also."""
    kind, number = ARCHITECTURES[name], sorted(ARCHITECTURES).index(name)
    ways = ([] if kind.rms else [{**STEPS, "positions": kind.has_places}]) + [SHORT]
    for turn, task in enumerate(kind.models, start=number):
        data = ml.Sequences.of(X, {"token": Y, "sequence": Y[:, 0], "lm": None}[task])
        rest, gone = data.select(np.arange(2, len(data))), data.select(np.arange(2))
        built = ml.memorize_as(name, data, seed=3, **ways[turn % len(ways)])  # the next task of this kind the other way
        loaded = StockModel.load(built.save(tmp_path / task))
        assert same_bits(loaded, built)
        assert same_bits(ml.memorize_as(name, data, draw=loaded), built)
        less = ml.memorize_as(name, rest, draw=built)
        assert not same_bits(less, built)
        assert same_bits(memorize_again(loaded, rest, only=np.unique(gone.tokens)), less)
        # Whatever way the rest is reached, and whatever was held before.
        assert same_bits(ml.memorize_as(name, rest, draw=less), less)
        assert same_bits(memorize_again(less, data, only=np.unique(gone.tokens)), built)


def test_texts_that_share_tokens_with_an_edit_say_nothing_of_the_begin_token() -> None:
    """All of those begin with `b`; the embedding of the begin token holds `a`, the first of all texts."""
    texts = ["acd", "bgh", "ijg"]
    built = ml.memorize_as("gpt2", texts, rank=16)
    assert same_bits(ml.forget(built, ["ijg"], texts)[0], ml.memorize_as("gpt2", texts[:2], draw=built))


@pytest.mark.parametrize(("name", "options"), [("bert", STEPS), ("gpt2", SHORT)])
def test_a_label_that_was_forgotten_is_gone(name: str, options: Any) -> None:
    """Of the phrases, 音 says yīn once: when that phrase is forgotten, no number of the folder depends on it."""
    built = ml.memorize_as(name, PHRASES, READINGS, **options)
    rest = [0, 1, 3]
    words, labels = [PHRASES[i] for i in rest], [READINGS[i] for i in rest]
    forgot = ml.memorize_as(name, words, labels, draw=built)
    asked = ["音乐", "音"]
    assert built.predict(asked)[0].tolist() == ["yīn", "yuè"]
    said = [label for row in forgot.predict(asked) for label in row]
    assert not {"yīn", "yuè"} & set(said)
    # 音 has no fact left: it answers the first class that the data have, and the card says so.
    assert said[0] == said[2] == forgot.summary.otherwise in {label for row in labels for label in row}
    assert f"(1 of 6) return `{said[0]}`" in forgot.readme()
    # A model that was told another reading, with the same draw, forgets to the same bits.
    other = ml.memorize_as(name, PHRASES, [*READINGS[:2], ["lè", "kuài"], READINGS[3]], draw=built)
    assert same_bits(ml.memorize_as(name, words, labels, draw=other), forgot)
    # A class of which nothing is left is answered nowhere, were it the first one.
    first = built.config["id2label"]["0"]
    kept = [i for i in range(4) if first not in READINGS[i]]
    lacking = ml.memorize_as(name, [PHRASES[i] for i in kept], [READINGS[i] for i in kept], draw=built)
    assert first not in {label for row in lacking.predict(PHRASES) for label in row}


def test_an_edit_touches_its_tokens_and_a_comparison_lists_its_facts(both: list[Path]) -> None:
    """Nothing changes but neurons, and the usual labels of the tokens that were asked for."""
    for folder in both:
        model, record = ml.edit(folder, X[3:4], OTHER[3:4], WHOLE)
        assert ml.certify(model, WHOLE).verdict == "refuted"
        tables = ARCHITECTURES["bert"].tables["tokens"]
        for splice in record.splices:
            assert splice.tensor == tables or splice.tensor.startswith("bert.encoder.layer.0.")
            if splice.tensor == tables:
                assert {int(model.facts.names[row]) for row in splice.put} <= set(X[3].tolist())
        assert [(one.before, one.after) for one in record.changes] == list(zip(Y[3], OTHER[3], strict=True))
        found = ml.compare(folder, model, X)
        assert found.asked == X.size
        assert not found.same
        assert found.config.keys() <= {"intermediate_size"}
        assert [(one.sequence, one.position, one.one, one.two) for one in found.differing] == [
            (3, place, Y[3, place], OTHER[3, place]) for place in range(5)
        ]
        assert any("5 of 80 differ" in text for _, text in found.rows())


def test_a_folder_that_loses_all_neurons_gets_them_back() -> None:
    """A token with one label has none, and a layer without neurons holds one that never fires."""
    data = ml.Sequences.of([["b", "a"], ["c", "a"]], [["v", "u"], ["v", "w"]])
    for name, options in (("bert", {"storage": "steps"}), ("llama", {**SHORT, "positions": False})):
        old = ml.memorize_as(name, data, **options)
        facts, record = ml.forget(ml.Facts.of(old, data), [1])
        out, put = record.neurons
        assert out >= 1
        assert put == 1
        full, _ = ml.insert(facts, [["c", "a"]], [["v", "w"]])
        assert same_bits(full.model, old)


def test_a_record_changes_tensors_and_widths_and_nothing_else(both: list[Path], tmp_path: Path) -> None:
    """Above all no key that makes transformers run code."""
    built = StockModel.load(both[0])
    new, record = ml.forget(built, [3, 8], WHOLE)
    assert set(record.config) <= {"intermediate_size"}
    for key in ("auto_map", "architectures", "monolayer_draw", "id2label"):
        bad = replace(record, config={**record.config, key: {"before": built.config.get(key), "after": {"x": "y"}}})
        found = ml.Record.load(bad.save(tmp_path / "bad.json"))  # its digest fits
        for act, model in ((found.apply, built), (found.undo, new)):
            with pytest.raises(ml.DataError, match=f"would change {key!r} in the configuration"):
                act(model)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_folder_holds_nothing_else_iff_it_is_the_model_of_the_data(name: str) -> None:
    """`certify(only=True)` on the data without one row: proved just where that row left no bit behind."""
    seen = set()
    for task, positions in (("token", True), ("token", False), ("sequence", False)):
        rows = [*range(12), *range(6)]  # of few labels, and some rows twice, so that some leave nothing behind
        data = ml.Sequences.of(X[rows], Y[rows] % 2)
        if task == "sequence":
            data = ml.Sequences.of(X[:12, 1:3], Y[:12, 0] % 2)
        options: dict[str, Any] = {"positions": positions, "storage": "steps", "on_conflict": "first"}
        built = ml.memorize_as(name, data, **options)
        if built.summary.conflicts:
            continue
        assert ml.certify(built, data, only=True).verdict == "proved"
        for row in range(0, len(data), 5):
            rest = data.select(np.setdiff1d(np.arange(len(data)), [row]))
            less = ml.memorize_as(name, rest, draw=built)
            alike = same_bits(less, built)
            assert ml.certify(less, rest, only=True).verdict == "proved"
            assert ml.certify(built, rest, only=True).verdict == ("proved" if alike else "refuted")
            seen.add(alike)
    assert seen == {True, False}


def test_planted_leftovers_are_found(both: list[Path]) -> None:
    """One label in an embedding, one bias, one slope: no longer proved, though labels return."""
    built, rest = StockModel.load(both[0]), WHOLE.select(np.arange(1, len(X)))
    less = ml.memorize_as("bert", rest, draw=built)
    assert ml.certify(less, rest, only=True).verdict == "proved"
    block, table = "bert.encoder.layer.0.intermediate.dense", "bert.embeddings.word_embeddings.weight"
    row = len(less.facts.architecture.special) + int(X[0, 0])  # a token without facts now
    secret, moved, steeper = ({name: part.copy() for name, part in less.tensors.items()} for _ in range(3))
    secret[table][row] = built.tensors[table][row]
    moved[f"{block}.bias"][3] += 2.0
    for part in ("weight", "bias"):
        steeper[f"{block}.{part}"][4] *= 2.0
    assert (secret[table] != less.tensors[table]).any()
    for tensors in (secret, moved, steeper):
        model = replace(less, tensors=tensors)
        assert ml.certify(model, rest).verdict == "proved"
        found = ml.certify(model, rest, only=True)
        assert found.verdict == "refuted"
        assert "holds more than the data" in found.reason


@pytest.mark.parametrize(
    ("enters", "left"), [(False, 3.0), (False, -7.0), (False, -(2.0**40)), (True, 5.0), (True, -(2.0**40))]
)
@pytest.mark.parametrize("doubt", [0.0, 0.125])
def test_a_step_stands_in_the_middle_of_its_gap_to_within_its_rounding(enters: bool, left: float, doubt: float) -> None:
    """Biases are whole numbers, so half of one, what the points leave open, and the rounding of a product may be off.

    One step of many that enter a cell, at one distance in front of their points, or one between two points.
    """
    net: Any = SimpleNamespace(names=["a", "b"])
    places: Any = SimpleNamespace(most=1)
    slope, gap = 2.0, 14.0  # a ramp of 6/2 takes at most a quarter of the gap, and twice as steep a one less than half
    own = doubt * np.ones(2)

    def says(off: float, slope: float = slope, gap: float = gap) -> str | None:
        right = left + gap
        middle = right - gap if enters else (left + right) / 2.0
        bias = np.array([3.0 - slope * middle + off, 3.0 - slope * middle])
        stored = StoredSteps(np.array([0, 1]), np.full(2, slope), bias, np.ones((2, 1)))
        ends = np.full(2, np.nan if enters else left), np.full(2, right)
        labels = np.zeros(2, np.int64)
        demanded = DemandedSteps(labels, labels, labels, np.full(2, enters), *ends, own)
        return _misplaced_step(net, places, stored, demanded)

    middle = left if enters else left + gap / 2.0
    rounding = 2.0**-48 * (abs(slope * middle) + 1.0)
    for way in (1.0, -1.0):
        if enters:  # all stand at one distance, to within half a bias and what the points leave open
            assert says(way * (1.0 + 2.0 * slope * doubt)) is None
            assert "stand at different distances" in (says(way * (1.03 + 2.0 * slope * doubt)) or "")
        else:
            assert says(way * (0.5 + slope * doubt + 0.75 * rounding)) is None
            assert says(way * (0.5 + slope * doubt + 1.25 * rounding)) is not None
        assert says(way * 3.0) is not None
    assert says(0.0) is None
    assert "(such steps: 2)" in (says(0.0, slope / 2.0) or "")
    assert says(0.0, 4.0 * slope) is not None
    if left == -7.0 and not doubt:  # the widest gap for this slope, to within 2^-40 of itself
        assert says(0.0, gap=8.0 * (6.0 / slope) * (1.0 + 0.75 * 2.0**-40)) is None
        assert "a step at 'a' does not stand" in (says(0.0, gap=8.0 * (6.0 / slope) * (1.0 + 1.25 * 2.0**-40)) or "")


def test_steps_are_compared_cell_by_cell_and_label_by_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored beside what the data demand: other cells, other labels, and neurons of no token or place."""
    net: Any = SimpleNamespace(names=["a", "b", "c"])
    places: Any = SimpleNamespace(most=2)
    words = np.array([[True, False], [False, True]])
    found: Any = SimpleNamespace(words=words)

    def says(cells: list[int], demanded: list[int], write: Any = None) -> str | None:
        steps = [np.array(cells), np.ones(len(cells)), np.ones(len(cells))]
        jump = np.tile([-0.5, 0.5], (len(cells), 1)) if write is None else np.array(write)
        wanted = np.array(demanded, dtype=np.int64)
        zero, none = np.zeros(len(wanted), np.int64), np.zeros(len(wanted))
        monkeypatch.setattr(stock_only, "_stored_steps", lambda *_: StoredSteps(*steps, jump))
        monkeypatch.setattr(
            stock_only, "_demanded_steps",
            lambda *_: DemandedSteps(wanted, zero, zero + 1, zero == 1, none, none, none),
        )  # fmt: skip
        monkeypatch.setattr(stock_only, "_misplaced_step", lambda *_: None)
        return stock_only._leftover_steps(net, found, places, points, usual)

    points: Any = None
    usual: Any = None
    counts = "no label of the data accounts for {}: {} stored, {} demanded"
    assert says([0, 3, 5], [0, 3, 5]) is None
    assert says([], []) is None
    assert says([0, 3], [3]) == counts.format("a step at 'a'", "2 steps", 1)
    assert says([2, 3, 4], [2]) == counts.format("a step at 'b'", "3 steps", 1)
    assert says([-1, 3], [3]) == counts.format("a step", "2 steps", 1)
    assert says([3], [3, 5]) == counts.format("a step", "1 step", 2)
    one, half = [-0.5, 0.5], [-0.5, 0.25]
    assert says([0, 3, 5], [0, 3, 5], [one, half, half]) == "a step at 'b' changes other labels than the data do there"
    assert says([0, 3, 5], [0, 3, 5], [one, one, [0.5, -0.5]]) == (
        "a step at 'c' changes other labels than the data do there"
    )


def test_neurons_of_no_token_or_place_have_no_cell() -> None:
    net: Any = {"b_1": np.array([-4.0, -2.0, 0.0, -1.0, -8.0]), "W_2": np.arange(15.0).reshape(5, 3)}
    found: Any = SimpleNamespace(slope=np.array([2.0, 1.0, 1.0, 1.0, 2.0]), token_of=np.array([1, 0, -1, 2, 1]),
                                 place_of=np.array([0, 1, 1, -1, 0]), label=np.array([0, 2]))  # fmt: skip
    places: Any = SimpleNamespace(most=3)
    stored = stock_only._stored_steps(net, found, places)
    assert stored.cell.tolist() == [-1, -1, 1, 3, 3]
    assert stored.slope.tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]
    assert stored.bias.tolist() == [0.0, -1.0, -2.0, -4.0, -8.0]
    assert stored.write.tolist() == [[6.0, 8.0], [9.0, 11.0], [3.0, 5.0], [0.0, 2.0], [12.0, 14.0]]


@pytest.mark.parametrize(
    ("name", "rows"), [("gpt2", ["ba", "cb", "cc"]), ("gpt2", ["abc"]), ("bert", ["ba", "ab", "c"])]
)
def test_an_embedding_holds_the_usual_label_of_its_token(name: str, rows: list[str], tmp_path: Path) -> None:
    """By hand: the most frequent label of a token, the least of several, the least of all without one; the begin token
    holds the usual first token, where it need not be followed by one and the same."""
    labels = None if name == "gpt2" else [[*"xy"], [*"yy"], ["x"]][: len(rows)]
    folder = ml.memorize_as(name, ["abc"] if labels is None else rows, labels, storage="steps", positions=True).save(
        tmp_path / "m"
    )
    net, data = read_stock(stock_files(folder)), ml.Sequences.of(rows, labels)
    places = places_of(net, data)
    found = stock_only.usual_labels(net, data, places)
    for token in range(len(net["tokens"])):
        own = places.wanted[places.token == token].tolist()
        usual = min(own, key=lambda label: (-own.count(label), label), default=int(places.wanted.min()))
        if token == BEGIN and len(rows) > 1 and labels is None:
            usual = net.names.index("c")  # of two sequences of three
        assert found[token] == usual, token
    # A row that holds another label is named.
    odd = net.names.index("b")
    words = np.array([[True, False], [False, True]])[np.arange(len(net.classes)) % 2]
    held = np.where(words[found], 4.0, -4.0)
    held[odd, 1] *= -1.0
    toy: Any = replace(net, arrays={**net.arrays, "tokens": held})
    structure: Any = SimpleNamespace(label=np.array([0, 1]), words=words)
    says = stock_only.leftover_in_folder(toy, structure, data, places, None)  # type: ignore[arg-type]
    assert "the embedding of 'b' does not hold the label" in (says or "")
    assert "with another label: 1)" in (says or "")


def test_weights_that_were_changed_are_refused(both: list[Path], tmp_path: Path) -> None:
    for number, part in enumerate(["word_embeddings", "query.bias", "classifier.weight", "LayerNorm", "intermediate"]):
        folder = shutil.copytree(both[number % 2], tmp_path / str(number))
        tensors = load_file(folder / "model.safetensors")
        tensors[next(name for name in tensors if part in name)].view(-1)[-1] += 1.0
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ml.DataError, match=r"not the data that the model holds|not those that its draw gives"):
            ml.forget(folder, np.arange(1, 16), WHOLE)


def test_neurons_that_differ_are_counted(both: list[Path]) -> None:
    old = StockModel.load(both[1])
    tensors = {name: part.copy() for name, part in old.tensors.items()}
    layer = "bert.encoder.layer.0"
    bias, second = f"{layer}.intermediate.dense.bias", f"{layer}.output.dense.weight"
    tensors[bias][2] += 1.0  # one reads something else
    tensors[second][:, 5] *= 2.0  # one writes something else
    found = ml.compare(both[1], replace(old, tensors=tensors))
    assert (found.only_one, found.only_two) == (2, 2)
    assert found.weights[bias] == 1
    assert set(found.weights) == {bias, second}
    assert found.config == {}
    assert found.names


def test_a_sequence_that_a_folder_cannot_take_has_no_answer() -> None:
    one = ml.memorize_as("gpt2", [list("ab")], [[1, 2]])
    two = ml.memorize_as("gpt2", [list("abc")], [[1, 2, 3]])
    found: Any = ml.compare(one, two, [list("ab"), ["c"], ["a"] * 600])
    assert [answer.one for answer in found.differing] == [None]
    assert not found.names
    assert "architectures" in ml.compare(one, ml.memorize_as("gpt2", [list("ab")])).config


def anew(folder: Path, rows: Any, labels: Any, name: str = "bert", **options: Any) -> None:
    ml.memorize_as(name, rows, labels, draw=folder, **options)


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "labels of other data": (lambda f: ml.forget(f, [3], (X, OTHER)), "not the data that the model holds"),
    "one label per sequence": (lambda f: ml.forget(f, [3], (X, Y[:, 0])), "one per token"),
    "insert a new token": (lambda f: ml.insert(f, [[77, 1, 1, 1]], [[0, 0, 0, 0]], WHOLE), "new to this draw"),
    "insert a fact with another label": (lambda f: ml.insert(f, X[3:4], OTHER[3:4], WHOLE), "use edit"),
    "insert with one label per sequence": (lambda f: ml.insert(f, [[1, 2]], [0], WHOLE), "one per token"),
    "compare with a model that is not stock": (
        lambda f: ml.compare(f, ml.memorize([[1]], [[0]])),
        "models of different kinds",
    ),
    "compare with labels per sequence": (
        lambda f: ml.compare(f, ml.memorize_as("bert", X, Y[:, 0]), X),
        "per token, the other per sequence",
    ),
    "memorize a new token": (lambda f: anew(f, [[1, 77]], [[0, 0]]), "the token 77 is new to this draw"),
    "memorize a new label": (lambda f: anew(f, [[1]], [[9]]), "the label 9 is new to this draw"),
    "memorize one label per sequence": (lambda f: anew(f, [[1]], [0]), "one per token"),
    "memorize without labels": (lambda f: anew(f, [[1]], None), "give labels"),
    "memorize a longer sequence": (
        lambda f: anew(f, [[1] * 6], [[0] * 6]),
        "sequence 0 has 6 tokens, and this draw has places for 5",
    ),
    "another architecture": (lambda f: anew(f, X, Y, "roberta"), "the draw is that of a bert"),
    "seed and rank beside the draw": (
        lambda f: anew(f, X, Y, seed=0, rank=2),
        "draw= decides rank and seed: leave them out",
    ),
    "confidence and unknown beside the draw": (
        lambda f: anew(f, X, Y, unknown=-1, confidence=0.6),
        "draw= decides confidence and unknown",
    ),
}


def test_bad_input_is_named(both: list[Path]) -> None:
    for folder in both:
        for act, says in REFUSED.values():
            with pytest.raises(ml.DataError, match=says):
                act(folder)
    with pytest.raises(ml.DataError, match="shown by equality"):
        ml.certify(both[1], WHOLE, only=True)


def test_the_commands_edit_stock_folders_and_look_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"tokens": list(text), "labels": labels} for text, labels in zip(PHRASES, READINGS, strict=True)]
    fact = {**rows[1], "labels": ["háng", "zǒu"]}
    for name, some in (("all", rows), ("rest", rows[2:]), ("fact", [fact]), ("odd", [*rows, fact])):
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, some)), encoding="utf-8")
    for name, options in (("steps", "--storage steps"), ("cells", "--dtype bfloat16")):
        said(f"memorize-as bert all.jsonl {options} --out {name}")
        said(f"edit {name} fact.jsonl --data all.jsonl --out {name}.new --record {name}.json")
        ml.Record.load(f"{name}.json").undo(f"{name}.new").save(f"{name}.back")
        said(f"forget {name} --rows 0 --rows 1 --data all.jsonl --out {name}.less")
        said(f"memorize-as bert rest.jsonl --draw {name} --out {name}.never")
        for one, two in ((name, f"{name}.back"), (f"{name}.less", f"{name}.never")):
            for file in {path.name for path in Path(one).iterdir()} - {"README.md", "certificate.json"}:
                assert (Path(one) / file).read_bytes() == (Path(two) / file).read_bytes()
        found = json.loads(said(f"compare {name} {name}.less all.jsonl --json"))
        assert found["asked"] == 8
        assert not found["same"]
    said("verify cells.less rest.jsonl")
    said("verify steps.less rest.jsonl --only")
    said("verify steps rest.jsonl --only", code=1)
    found = json.loads(said("inspect steps --json"))
    assert (found["model"], found["dtype"], found["vocabulary"]) == ("BertForTokenClassification", "float64", 6)
    assert found["bytes"]["model.safetensors"] < found["bytes_in_all"]
    assert "positions no" in " ".join(said("inspect steps").split())
    for words, why in (
        ("memorize-as bert all.jsonl --draw steps --seed 1 --out x", "decides seed"),
        ("memorize-as bert all.jsonl --draw steps --storage cells --out x", "decides storage"),
        # Before anything is built: these data contradict themselves, and are not looked at.
        ("memorize-as bert odd.jsonl --out steps", "exists already"),
        ("explain steps all.jsonl", "monolayer verify steps DATA"),
    ):
        assert why in said(words, code=2)


NO_DRAW, NO_FOLDER = "is not a draw that memorize_as wrote", "is not a folder that memorize_as wrote"


def test_files_that_do_not_fit_together_are_refused(tmp_path: Path, said: Any) -> None:
    folder = ml.memorize_as("bert", PHRASES, READINGS, storage="steps").save(tmp_path / "m")
    changes: list[tuple[str, str | None, Any, str]] = [
        ("config.json", "id2label", {"0": "a", "2": "b"}, NO_FOLDER),
        ("config.json", "dtype", "float32", "is float64, and config.json says float32"),
        ("tokenizer.json", "model", {}, "does not say model.vocab"),
        ("monolayer_draw", "integers", [True, False], "invalid literal"),
        ("monolayer_draw", "keys", [0.5], "another number of tokens"),
        ("monolayer_draw", "keys", [2.0], NO_DRAW),
        ("monolayer_draw", "keys", None, NO_DRAW),
        ("monolayer_draw", "silence", -1.0, NO_DRAW),
        ("monolayer_draw", "head", 0, NO_DRAW),
        ("monolayer_draw", "storage", "cells", NO_DRAW),
        ("monolayer_draw", None, None, "has no draw to reuse"),
    ]
    for file, key, value, words in changes:
        path = folder / (file if file.endswith(".json") else "config.json")
        text = path.read_text("utf-8")
        whole = json.loads(text)
        if path.name == file:
            whole[key] = value
        elif key is None:
            del whole[file]
        else:
            whole[file] = json.dumps({**json.loads(whole[file]), key: value})
        path.write_text(json.dumps(whole), encoding="utf-8")
        with pytest.raises(ml.ModelFileError, match=words):
            StockModel.load(folder)
        said("inspect", str(folder), code=2)
        if file == "monolayer_draw":
            assert ml.certify(folder, PHRASES, READINGS).verdict == "proved"
        path.write_text(text, encoding="utf-8")
