"""The commands that edit: folders compared byte for byte; bad input named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml

ROWS: list[dict[str, Any]] = [
    {"tokens": ["银", "行"], "labels": ["yín", "háng"]},
    {"tokens": ["行", "走"], "labels": ["xíng", "zǒu"]},
    {"tokens": ["音", "乐"], "labels": ["yīn", "yuè"]},
    {"tokens": ["快", "乐"], "labels": ["kuài", "lè"]},
]
FILES = {
    "data": ROWS,
    "rest": [ROWS[0], *ROWS[2:]],
    "part": ROWS[:2],
    "fact": [{"tokens": ROWS[1]["tokens"], "label": 0.5}],  # to be forgotten, whatever its labels
    "changed": [{"tokens": ["行", "走"], "labels": ["háng", "zǒu"]}],
    "more": [{"tokens": ["快", "跑"], "labels": ["kuài", "pǎo"]}],
    "strange": [{"tokens": ["走", "行", "行"], "labels": ["a", "b", "b"]}],
    "asked": [*ROWS, {"tokens": ["天", "乐"], "labels": ["tiān", "lè"]}],
}
Said = Callable[..., str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder: `FILES`, and a model of the data in `old`."""
    monkeypatch.chdir(tmp_path)
    for name, rows in FILES.items():
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ml.memorize(ml.read("data.jsonl")).save("old")


def same_folders(one: str, two: str) -> bool:
    first, second = ({path.name: path.read_bytes() for path in Path(each).iterdir()} for each in (one, two))
    return first == second


@pytest.mark.parametrize("how", ["fact.jsonl", "--rows 1", "fact.jsonl robust"])
def test_forgetting_gives_the_folder_of_a_model_that_never_knew(how: str, said: Said) -> None:
    way, robust = how.removesuffix(" robust"), how.endswith("robust")
    if robust:
        said("memorize data.jsonl --robust --dtype bfloat16 --out old --overwrite")
    said(f"forget old {way} --data data.jsonl --out new --record deep/record.json")
    said("memorize rest.jsonl --draw old --out never")
    assert same_folders("new", "never")
    if robust:
        assert "shown by equality" in said("verify new rest.jsonl --only", code=2)
        assert ", 0 only in the second" in said("compare old new rest.jsonl")
    else:
        said("verify new rest.jsonl --only")
        said("verify old rest.jsonl --only", code=1)
    record = ml.Record.load("deep/record.json")
    record.undo("new").save("back")
    record.apply("old").save("again")
    assert same_folders("back", "old")
    assert same_folders("again", "new")


def test_names_are_dropped_where_that_is_asked_for(said: Said) -> None:
    """The weights are those of the plain edit; "走" and its readings are in no file."""
    told = " ".join(said("forget old --rows 1 --data data.jsonl --out plain").split())
    assert "3 that no fact uses stay in the files: '走', 'xíng', 'zǒu'. forget(…, names=True), --names, drops" in told
    told = json.loads(said("forget old --rows 1 --names --data data.jsonl --out new --record record.json --json"))
    assert told["names"] == {"count": 3, "first": ["走", "xíng", "zǒu"], "dropped": True}
    assert "走" in Path("plain/names.json").read_text("utf-8")
    assert "走" not in Path("new/names.json").read_text("utf-8")
    found = json.loads(said("compare plain new rest.jsonl --json"))
    assert (found["weights"], found["config"], found["names"], found["answers"]) == ({}, {}, False, 0)
    ml.Record.load("record.json").undo("new").save("back")
    assert ml.compare("back", "old").same


def test_edit_insert_and_compare(said: Said) -> None:
    found = json.loads(said("edit old changed.jsonl --data data.jsonl --out exact --json"))
    assert found["proof"]["verdict"] == "proved"
    assert "nothing else" in found["proof"]["claim"]
    assert found["changes"][0]["after"] == "háng"
    said("insert old more.jsonl --data data.jsonl --out more")
    found = json.loads(said("compare old exact data.jsonl --json"))
    assert found["answers"] == 1
    assert not found["same"]
    assert "2 of 2 differ" in said("compare old more more.jsonl")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("forget old --data data.jsonl", "in exactly one way"),
        ("forget old --data data.jsonl --rows x", "valid integer"),
        ("forget old --data data.jsonl --rows 9", "no row 9"),
        ("forget old --data data.jsonl --rows 0 --rows 1 --rows 2 --rows 3", "forget all rows"),
        ("forget old --data data.jsonl fact.jsonl --out old", "exists already"),
        # An output that may not be written is known before anything else is looked at, let alone worked on.
        ("forget old --data nothing.jsonl nothing.jsonl --out old", "exists already"),
        ("edit old nothing.jsonl --data nothing.jsonl --out data.jsonl --overwrite", "is not replaced"),
        ("edit nothing nothing.jsonl --data nothing.jsonl", "nothing: this folder does not exist"),
        ("insert old nothing.jsonl --data nothing.jsonl --record data.jsonl", "exists already"),
        ("forget old --rows 1", "that the model was built from (--data)"),
        ("edit old strange.jsonl --data data.jsonl", "use insert"),
        ("insert old data.jsonl --data part.jsonl", "4 sequences with 8 labels, and these are 2"),
        ("memorize data.jsonl --draw old --seed 0", "a draw decides seed"),
        ("memorize data.jsonl --draw old --dtype float64", "a draw decides dtype"),
    ],
)
def test_bad_input_leaves_nothing_behind(command: str, message: str, said: Said) -> None:
    verb, *rest = command.split()
    assert message in said(verb, "--out", "new", *rest, code=2)
    assert not Path("new").exists()


def test_a_row_with_a_forgotten_token_does_not_block_the_others(said: Said) -> None:
    said("forget old --rows 0 --rows 1 --data data.jsonl --out new")
    answers = [json.loads(line) for line in said("predict", "new", "asked.jsonl").splitlines()]
    assert [answer.get("labels") for answer in answers] == [None, None, ROWS[2]["labels"], ROWS[3]["labels"], None]
    assert "token 0 is '行', which the model has forgotten" in answers[1]["error"]
    assert "token 0 is '天', which the model has never seen" in answers[4]["error"]
    counted = said("predict", "new", "asked.jsonl", errors=True)
    assert counted.endswith("5 rows with 10 tokens 4 of 4 labels are right unknown tokens in 3 of 5 sequences")
    assert "fingerprints" in said("predict", "new", "asked.jsonl", "--strict", code=2)
    assert "'银', which the model has forgotten" in said("predict", "new", "part.jsonl", code=2)  # none can be answered
