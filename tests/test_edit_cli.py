"""The commands that edit: folders compared byte for byte; bad input named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.cli import run

ROWS: list[dict[str, Any]] = [
    {"tokens": ["银", "行"], "labels": ["yín", "háng"]},
    {"tokens": ["行", "走"], "labels": ["xíng", "zǒu"]},
    {"tokens": ["音", "乐"], "labels": ["yīn", "yuè"]},
    {"tokens": ["快", "乐"], "labels": ["kuài", "lè"]},
]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in `old`, its data in a file, and this folder as the place to be."""
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "data.jsonl", ROWS)
    assert run(["memorize", path, "--out", "old"]) == 0
    return path


def same_folders(one: str, two: str) -> bool:
    first, second = ({path.name: path.read_bytes() for path in Path(each).iterdir()} for each in (one, two))
    return first == second


@pytest.mark.parametrize("way", [["facts.jsonl"], ["--rows", "1"]])
def test_forgetting_gives_the_folder_of_a_model_that_never_knew(data: str, way: list[str], tmp_path: Path) -> None:
    write(tmp_path / "facts.jsonl", ROWS[1:2])
    rest = write(tmp_path / "rest.jsonl", [ROWS[0], *ROWS[2:]])
    assert run(["forget", "old", *way, "--data", data, "--out", "new", "--record", "record.json"]) == 0
    assert run(["memorize", rest, "--draw", "old", "--out", "never"]) == 0
    assert same_folders("new", "never")
    assert run(["verify", "new", rest, "--only"]) == 0
    assert run(["verify", "old", rest, "--only"]) == 1
    record = ml.Record.load("record.json")
    record.undo("new").save("back")
    record.apply("old").save("again")
    assert same_folders("back", "old")
    assert same_folders("again", "new")


def test_robust_models_forget_and_are_compared_by_the_same_commands(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = write(tmp_path / "rest.jsonl", [ROWS[0], *ROWS[2:]])
    said = write(tmp_path / "said.jsonl", [{"tokens": ROWS[1]["tokens"], "label": 0.5}])  # whatever its labels
    assert run(["memorize", data, "--robust", "--dtype", "bfloat16", "--out", "tough"]) == 0
    assert run(["forget", "tough", said, "--data", data, "--out", "new", "--record", "deep/record.json"]) == 0
    assert run(["memorize", rest, "--draw", "tough", "--out", "never"]) == 0
    assert same_folders("new", "never")
    ml.Record.load("deep/record.json").undo("new").save("back")
    assert same_folders("back", "tough")
    capsys.readouterr()
    assert run(["verify", "new", rest, "--only"]) == 2
    assert "shown by equality" in capsys.readouterr().err
    facts = write(tmp_path / "facts.jsonl", [{"tokens": ["银", "行"], "labels": ["yín", "xíng"]}])
    assert run(["edit", "tough", facts, "--data", data, "--out", "edited"]) == 0
    capsys.readouterr()
    assert run(["compare", "tough", "edited", data]) == 0
    shown = capsys.readouterr().out
    assert "1 only in the first, 0 only in the second" in shown
    assert "1 of 8 differ" in shown


def test_edit_insert_and_compare(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = write(tmp_path / "facts.jsonl", [{"tokens": ["行", "走"], "labels": ["háng", "zǒu"]}])
    more = write(tmp_path / "more.jsonl", [{"tokens": ["快", "跑"], "labels": ["kuài", "pǎo"]}])
    capsys.readouterr()
    assert run(["edit", "old", facts, "--data", data, "--out", "exact", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proof"]["verdict"] == "proved"
    assert found["changes"][0]["after"] == "háng"
    assert run(["insert", "old", more, "--data", data, "--out", "more"]) == 0
    assert run(["compare", "old", "exact", data, "--json"]) == 0
    output = capsys.readouterr().out
    found = json.loads(output[output.index("{") :])
    assert (found["answers"], found["same"]) == (1, False)
    assert run(["compare", "old", "more", more]) == 0
    assert "2 of 2 differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["forget"], "in one way"),
        (["forget", "--rows", "x"], "valid integer"),
        (["forget", "--rows", "9"], "no row 9"),
        (["forget", *(f"--rows={row}" for row in range(4))], "forget all rows"),
        (["forget", "data.jsonl", "--out", "old"], "exists already"),
        (["edit", "new.jsonl"], "use insert"),
        (["insert", "data.jsonl", "--data", "part.jsonl"], "4 sequences with 8 labels, and these are 2"),
    ],
)
def test_bad_input_leaves_nothing_behind(
    data: str, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "new.jsonl", [{"tokens": ["走", "行", "行"], "labels": ["a", "b", "b"]}])
    write(tmp_path / "part.jsonl", ROWS[:2])
    capsys.readouterr()
    assert run([arguments[0], "old", "--data", "data.jsonl", "--out", "new", *arguments[1:]]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()


def test_options_that_do_not_go_together_are_named(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    draw = ["memorize", "data.jsonl", "--draw", "old", "--out", "new"]
    for arguments, message in (
        (["forget", "old", "--rows", "1", "--out", "new"], "that the model was built from (--data)"),
        ([*draw, "--seed", "0"], "a draw decides seed"),
        ([*draw, "--dtype", "float64"], "a draw decides dtype"),
    ):
        capsys.readouterr()
        assert run(arguments) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("new").exists()


def test_a_row_with_a_forgotten_token_does_not_block_the_others(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["forget", "old", "--rows", "0", "--rows", "1", "--data", data, "--out", "new"]) == 0
    asked = write(tmp_path / "asked.jsonl", [*ROWS, {"tokens": ["天", "乐"], "labels": ["tiān", "lè"]}])
    capsys.readouterr()
    assert run(["predict", "new", asked]) == 0
    found = capsys.readouterr()
    answers = [json.loads(line) for line in found.out.splitlines()]
    assert [answer.get("labels") for answer in answers] == [None, None, ROWS[2]["labels"], ROWS[3]["labels"], None]
    assert "token 0 is '行', which the model has forgotten" in answers[1]["error"]
    assert "token 0 is '天', which the model has never seen" in answers[4]["error"]
    assert "4 of 4 labels are right" in found.err
    assert "unknown tokens in 3 of 5 sequences" in " ".join(found.err.split())
    assert run(["predict", "new", asked, "--strict"]) == 2  # it was built without --fingerprint
    assert run(["predict", "new", write(tmp_path / "none.jsonl", ROWS[:2])]) == 2  # nothing could be answered
    assert "'银', which the model has forgotten" in " ".join(capsys.readouterr().err.split())
