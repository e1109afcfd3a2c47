"""What a certificate says of the data: they were read as they were given, and the model holds nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import monolayer as ml
from monolayer.checker import asked
from monolayer.checker.asked import confirm_given
from monolayer.checker.only import _misplaced, leftover_in_line
from monolayer.checker.readout import CheckedStaircase
from monolayer.checker.rounding import BINARY64
from monolayer.checker.stages import StagePoints
from monolayer.data import Names, Sequences, read, tabular
from monolayer.data.layout import TableLayout
from monolayer.errors import DataError
from tests.datasets import DATA, READINGS, WORDS
from tests.kinds import LINES, built
from tests.read_files import FAULTS, needed, put, rename, rename_classes
from tests.stored_models import Saved
from tests.verdicts import expect

IDS = [[3, 1, 4], [1, 5, 9]]
LABELS = [[0, 1, 2], [2, 0, 1]]
VECTORS = [[[0.5, 1.0], [2.0, 0.25]], [[1.5, 1.0], [0.125, 3.0]]]
KINDS: dict[str, tuple[Any, Any]] = {
    "array": (np.array(IDS), np.array(LABELS)),
    "lists": (IDS, LABELS),
    "ragged lists": ([[3, 1, 4], [1, 5]], [[0, 1, 2], [2, 0]]),
    "strings": (["abc", "bad"], [["x", "y", "z"], ["z", "x", "y"]]),
    "words": ([["to", "be"], ["be", "or"]], [["A", "B"], ["C", "B"]]),
    "string array": (np.array([["to", "be"], ["be", "or"]]), np.array([["A", "B"], ["C", "B"]])),
    "tensor": (torch.tensor(IDS), torch.tensor(LABELS)),
    "vectors": (np.array(VECTORS), np.array([[0, 1], [2, 0]])),
    "rows of arrays": ([np.array([3, 1, 4]), np.array([1, 5])], [np.array([0, 1, 2]), np.array([2, 0])]),
    "real labels": (IDS, [[0.5, 1.0, 2.0], [3.0, 4.0, 5.5]]),
    "real vectors": (np.array(IDS), np.random.default_rng(0).random((2, 3, 2))),
    "one per sequence": (IDS, ["yes", "no"]),
    "one real a sequence": (IDS, np.array([0.25, 0.75])),
    "truth": (IDS, [[True, False, True], [False, True, False]]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_in_the_shared_reader_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the reader that builder and checker share: wrong data are memorized without a flaw."""
    X, Y = KINDS[kind]
    expect("proved", "", ml.memorize(X, Y), X, Y)
    of = Sequences.of
    for fault in [*FAULTS, rename, rename_classes] if kind == "words" else FAULTS:
        monkeypatch.setattr(Sequences, "of", lambda X, Y=None, fault=fault, **options: fault(of(X, Y, **options)))
        with pytest.raises(DataError, match="this is a bug in the reader"):
            ml.certify(ml.memorize(X, Y), X, Y)
        if kind == "words":
            with pytest.raises(DataError, match="this is a bug in the reader"):
                ml.certify(ml.memorize_as("bert", X, Y, positions=True), X, Y)


TEXTS, TAGS = ["to be", "be or", "or"], ["yes", "no", "no"]
COLUMNS = {"key": TEXTS, "value": TAGS}
LISTED = {"tokens": [["to", "be"], ["be"], ["or", "to"]], "labels": [["A", None], ["B"], ["A", "C"]]}
NUMBERS = {"tokens": [[1, 2], [2], [3, 1]], "labels": [[0.5, 1.0], [2.0], [0.25, 4.0]]}
OBJECTS = [dict(zip(LISTED, row, strict=True)) for row in zip(*LISTED.values(), strict=True)]
WORDS_OF = {"tokens": [" ".join(row) for row in LISTED["tokens"]], "labels": ["A B", "B", "A C"]}
TABLES: dict[str, Callable[[Path], Any]] = {
    "a dict": lambda folder: dict(zip(TEXTS, TAGS, strict=True)),
    "pandas": lambda folder: pd.DataFrame(COLUMNS),
    "pandas, numbered columns": lambda folder: pd.DataFrame([*zip(TEXTS, TAGS, strict=True)]),
    "Polars, lists": lambda folder: needed("polars").DataFrame(LISTED),
    "Arrow, lists": lambda folder: needed("pyarrow").table(LISTED),
    "Hugging Face": lambda folder: needed("datasets").Dataset.from_dict(LISTED),
    "csv": lambda folder: put(folder / "a.csv", pd.DataFrame(COLUMNS).to_csv(index=False)),
    "parquet of numbers": lambda folder: put(folder / "a.pq", NUMBERS),
    "npz": lambda folder: np.savez(folder / "a.npz", X=np.array(IDS), Y=np.array(LABELS)) or folder / "a.npz",
    "npz of strings": lambda folder: np.savez(folder / "a.npz", X=[["a", "b"], ["c", ""]], lengths=[2, 1], Y=["x", "y"])
    or folder / "a.npz",
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_a_fault_in_the_reader_of_dicts_tables_and_files_is_caught(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of three sequences at a time, so that places are counted across parts."""
    X = TABLES[kind](tmp_path)
    monkeypatch.setattr("monolayer.checker.given.CHUNK", 1)
    expect("proved", "", ml.memorize(X, positions=True), X)
    for fault in FAULTS:
        with monkeypatch.context() as patch:
            if isinstance(X, Path):
                patch.setattr(asked, "read", lambda *rest, fault=fault, **options: fault(read(*rest, **options)))
            else:
                of = Sequences.of
                patch.setattr(Sequences, "of", lambda X, Y=None, fault=fault, of=of, **more: fault(of(X, Y, **more)))
            with pytest.raises(DataError, match="this is a bug in the reader"):
                ml.certify(ml.memorize(X, positions=True), X)


@pytest.mark.parametrize("kind", ["csv", "pandas"])
def test_two_columns_of_one_name_would_be_seen(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader once took the first of two columns for both: France for the capital of France."""
    X = put(tmp_path / "a.csv", "c,c\nFrance,Paris\n") if kind == "csv" else pd.DataFrame([["France", "Paris"]])
    if kind == "pandas":
        X.columns = ["c", "c"]
    layout = TableLayout("c", "c", "words", "sequence", pairs=True, numbers=(0, 0))
    monkeypatch.setattr(TableLayout, "of", lambda *_, **__: layout)
    monkeypatch.setattr(tabular, "check_header", lambda *_: None)
    with pytest.raises(DataError, match="the column 'c' was read, and 2 columns have this name: this is a bug"):
        ml.certify(ml.memorize(X), X)


@pytest.mark.parametrize(
    ("read_as", "given", "words"),
    [
        ([1, 2], [1.0, 2.0], "the label of sequence 0 was given as 1.0 and read as another"),
        ([1.0, 2.0], [1, 2], "labels were given as integers and read as real numbers"),
        ([2.0**53, 0.5], [2**53 + 1, 0.5], "the label of sequence 0 was given as 9007199254740993 and read as another"),
        ([1, 2], [1, None], "sequence 1 was given with none label and read with one"),
        (None, [1, 2], "sequence 0 was given with a label and no labels were read"),
    ],
)
def test_kinds_are_compared_too(read_as: Any, given: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        confirm_given(Sequences.of([["a"], ["b"]], read_as), [["a"], ["b"]], given)


def test_the_words_name_the_place() -> None:
    """Padding is cut by the checker itself, and data that can be walked through once are judged too."""
    X, Y, lengths = np.array([[1, 2, 0], [2, 1, 3]]), np.array([[0, 1, 9], [1, 0, 2]]), [2, 3]
    assert ml.certify(ml.memorize(X, Y, lengths=lengths), X, Y, lengths=lengths).verdict == "proved"
    assert ml.certify(ml.memorize(IDS, LABELS), iter(IDS), iter(LABELS)).verdict == "proved"
    data = Sequences.of(IDS, LABELS)
    for given, words in (
        (([[3, 1, 4], [1, 5, 8]], LABELS), "token 2 of sequence 1 was given as 8"),
        ((IDS, [[0, 1, 2], [7, 0, 1]]), "the label of token 0 of sequence 1 was given as 7"),
        (([*IDS, [1]], None), "3 or more sequences were given and 2 were read"),
        ((IDS, LABELS, [3, 2]), "sequence 1 has 2 tokens and 3 were read"),
    ):
        with pytest.raises(DataError, match=words):
            confirm_given(data, *given)


# -- nothing else --------------------------------------------------------------------------------------------

REST = [WORDS[i] for i in (0, 2, 3, 4)], [READINGS[i] for i in (0, 2, 3, 4)]


@pytest.fixture(scope="module")
def words() -> ml.Monolayer:
    return ml.memorize(WORDS, READINGS, positions=True)


def refuted(model: Any, *data: Any) -> str:
    """The reason, where every label comes back and the model holds more."""
    expect("proved", "", model, *data)
    return expect("refuted", "the model holds more than the data", model, *data, only=True).reason


def test_that_nothing_else_is_held_is_proved_or_refuted(words: ml.Monolayer) -> None:
    """After forgetting the rest is all there is; before, the forgotten plateaus are found and named."""
    less = ml.forget(words, ["行走"], DATA)[0]
    claim = expect("proved", "", less, *REST, only=True).claim
    assert claim.startswith(ml.certify(less, *REST).claim)
    assert "nothing else" in claim
    before = refuted(words, *REST)
    assert "holds no labelled point" in before
    assert "zǒu" in before or "xíng" in before


def test_faults_planted_in_an_edit_are_refuted(words: ml.Monolayer) -> None:
    """Each leaves something of a forgotten fact."""
    saved = Saved.of(ml.forget(words, ["行走"], DATA)[0])
    w, b = (saved.tensors[f"feed_forward.stages.0.{name}"] for name in ("weight_1", "bias_1"))
    start, width = -b[1] / w[1], 1.0 / w[1]
    moved = saved.edited("feed_forward.stages.0.bias_1", 1, -(start + width / 2.0) * w[1])
    wider = saved.edited("feed_forward.stages.0.weight_1", 1, w[1] / 2.0)
    wider = wider.edited("feed_forward.stages.0.bias_1", 1, -(start - width / 2.0) * w[1] / 2.0)
    parts = {"weight_1": w[1], "bias_1": b[1], "weight_2": 0.0}  # a step that changes nothing
    more = {
        f"feed_forward__stages__0__{k}": np.insert(saved.tensors[f"feed_forward.stages.0.{k}"], 2, x, -1)
        for k, x in parts.items()
    }
    nothing = saved.changed(**more)
    nothing.config["steps"] = [nothing.config["steps"][0] + 1]
    # A plateau whose number only rounds to its label: what it is off by could say something.
    label = saved.edited("feed_forward.stages.0.bias_2", 0, saved.tensors["feed_forward.stages.0.bias_2"][0] + 2.0**-10)
    faults = {"moved": "from the middle of its gap", "wider": "too wide", "label": "a plateau writes", "nothing": ""}
    for (name, reason), fault in zip(faults.items(), (moved, wider, label, nothing), strict=True):
        assert reason in refuted(fault, *REST), name
    wrong = saved.edited(
        "feed_forward.stages.0.weight_2", (0, 1), saved.tensors["feed_forward.stages.0.weight_2"][0, 1] + 1.0
    )
    assert "holds more" not in expect("refuted", "", wrong, *REST, only=True).reason


@pytest.mark.parametrize(("left", "right"), [(-64.0, 1.0), (-1.0, 64.0), (-64.0, -32.0), (32.0, 64.0)])
@pytest.mark.parametrize("radius", [0.0, 2.0**-30])
def test_a_step_stands_where_its_points_put_it_to_within_their_rounding(
    left: float, right: float, radius: float
) -> None:
    """A step as wide as an eighth or a quarter of its gap; where the points are exact, 16 roundings of the larger."""
    stored: Any = SimpleNamespace(format=BINARY64, classes=None)
    room = 2 * radius + 16.0 * BINARY64.unit * 64.0
    middle, gap = (left + right) / 2.0, right - left

    def accepted(middle: float, width: float) -> bool:
        ends = np.array([middle - width / 2.0]), np.array([middle + width / 2.0])
        stairs = CheckedStaircase(*ends, np.array([[0.0, 1.0]]))
        own, no = np.array([left, right]), np.zeros(2)
        stage = StagePoints(stairs, own, np.full(2, radius), np.array([0, 1]), no == 0, no, np.array([[0.0, 1.0]]))
        return _misplaced(stored, stage) is None

    for way in (1.0, -1.0):
        assert accepted(middle + way * 0.75 * room, gap / 4.0)
        assert not accepted(middle + way * 1.25 * room, gap / 4.0)
    for share, way in ((0.25, 1.0), (0.125, -1.0)):
        most = (1.0 + share) * room
        assert accepted(middle, share * gap + way * 0.75 * most)
        assert not accepted(middle, share * gap + way * 1.25 * most)


def on_stairs(plateau: list[int], level: list[float], wanted: list[float]) -> tuple[StagePoints, Any]:
    """Points in the middle of plateaus that are 1 wide and a quarter of that apart, and the labels that they want."""
    ends = np.arange(1.0, len(level))
    stairs, points = CheckedStaircase(ends - 0.125, ends + 0.125, np.array([level])), np.array(plateau)
    value = np.array([level])[:, points]
    zero = np.zeros(len(points))
    return StagePoints(stairs, points + 0.5, zero, points, zero == 0, zero, value), np.array([wanted])


LEFT: dict[str, tuple[list[int], list[float], list[float], str]] = {
    "nothing": ([0, 1, 2], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], ""),
    "the last plateau": ([0, 1], [0.0, 1.0, 2.0], [0.0, 1.0], "from 2.125 to inf, with the label 'z', .*; 1 such"),
    "the first plateau": ([1, 2], [7.0, 1.0, 2.0], [1.0, 2.0], "from -inf to 0.875, with the label 'z', .*; 1 such"),
    "two plateaus": ([0, 2], [0.0, -5.0, 1.0, 2.0], [0.0, 1.0], "from 1.125 to 1.875, with the label 'x', .*; 2 such"),
    "a plateau between labels": ([0, 2], [0.0, 1.4, 2.0], [0.0, 2.0], "from 1.125 to 1.875, with the label 'y', .*; 1"),
    "other numbers": ([0, 1, 2], [0.0, 1.25, 2.5], [0.0, 1.0, 2.0], r"writes .1.25., and .1.0. is .*; 2 such"),
    "a step that changes nothing": ([0, 1, 2], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0], "at 1.875 changes nothing; 1"),
}  # fmt: skip
"""By name: plateaus of points, labels of all plateaus, labels that the points want, and what is said."""


@pytest.mark.parametrize("kind", LEFT)
def test_what_steps_hold_besides_the_data_is_named(kind: str) -> None:
    plateau, level, wanted, words = LEFT[kind]
    stored: Any = SimpleNamespace(format=BINARY64, classes=Names(("x", "y", "z")), vocabulary=None)
    found = leftover_in_line(stored, *on_stairs(plateau, level, wanted), None)
    assert re.search(words, found or "") if words else found is None


def test_a_step_that_changes_one_number_of_a_label_changes_something() -> None:
    stage, _ = on_stairs([0, 1], [0.0, 1.0], [0.0, 1.0])
    stairs = CheckedStaircase(stage.stairs.low, stage.stairs.high, np.array([[0.0, 1.0], [5.0, 5.0]]))
    stored: Any = SimpleNamespace(format=BINARY64, classes=None)
    assert _misplaced(stored, stage._replace(stairs=stairs)) is None


def test_a_row_that_the_data_do_not_use_is_named() -> None:
    """A row is gone if all of it is NaN; a token that the model lacks has the number −1, and is not the last row."""
    lift = np.zeros((5, 3))
    lift[1], lift[2, 1:] = np.nan, np.nan
    held: Any = {"lift.weight": lift}
    names = Names(("a", "b", "c", "d", "e"))
    stage, wanted = on_stairs([0, 1], [0.0, 1.0], [0.0, 1.0])
    for rows, words in (
        ([0, 2, 3, 4], None),
        ([0, 3, 4], "the token 'c' has a row, and does not occur in the data; 1 such token"),
        ([-1, 0, 2, 3], "the token 'e' has a row, and does not occur in the data; 1 such token"),
        ([0, 2], "the token 'd' has a row, and does not occur in the data; 2 such tokens"),
    ):
        stored: Any = _Tensors(held, format=BINARY64, classes=Names(("x", "y")), vocabulary=names)
        assert leftover_in_line(stored, stage, wanted, np.array(rows)) == words


class _Tensors(SimpleNamespace):
    """Some tensors of a model, by name, and what else is asked of it."""

    def __init__(self, tensors: dict[str, Any], **fields: Any) -> None:
        super().__init__(**fields)
        self.tensors = tensors

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]


@pytest.mark.parametrize("columns", [slice(None), slice(1, 3)], ids=["a row", "key and code alone"])
def test_a_token_that_should_be_gone_is_found(words: ml.Monolayer, columns: slice) -> None:
    new, _ = ml.forget(words, [0, 1], DATA)
    with torch.no_grad():
        new.lift.weight[:, columns] = words.lift.weight[:, columns]
    assert "has a row, and does not occur in the data" in refuted(new, WORDS[2:], READINGS[2:])


def test_a_fingerprint_of_a_forgotten_fact_is_found() -> None:
    """The readout may hold nothing else, and the model still know that it has seen a fact."""
    X, Y = [[0, 1], [1, 2], [0, 2], [2, 2]], [0, 0, 0, 0]
    model = ml.memorize(X, Y, unknown=True)
    expect("proved", "", model, X, Y, only=True)
    assert "of 4 fingerprints, 1 is not of the data" in refuted(model, X[:3], Y[:3])
    expect("proved", "", ml.forget(model, [3], (X, Y))[0], X[:3], Y[:3], only=True)


@pytest.mark.parametrize("kind", LINES)
def test_what_was_forgotten_is_gone_and_what_was_not_is_seen(kind: str) -> None:
    model, data = built(kind)
    expect("proved", "", model, data, only=True)
    refuted(model, data.select(np.arange(1, len(data))))


def test_what_is_no_line_is_refused() -> None:
    for kind, words in (
        ("cascade tokens", "this model has 2 stages"),
        ("robust positions", "do not show which facts they hold"),
    ):
        model, data = built(kind)
        with pytest.raises(ml.DataError, match=rf"only= asks what the steps of one line hold; .*{words}.*draw=model"):
            ml.certify(model, data, only=True)
