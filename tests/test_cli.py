"""The command line as people use it: outputs, exit codes, messages, and nothing lost."""

from __future__ import annotations

import inspect
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monolayer.cli import app, run
from monolayer.cli.memorize import memorize
from monolayer.cli.reading import Reading

ROWS = [{"tokens": ["a", "b"], "labels": ["x", "y"]}, {"tokens": ["b", "a", "c"], "labels": ["y", "y", "z"]}]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_memorize_then_predict_then_inspect(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "m")
    assert run(["memorize", str(data), "--out", folder]) == 0
    table = capsys.readouterr().out
    for name in ("sequences", "vocabulary", "label runs", "5 of 5", "seconds"):
        assert name in table
    assert table.splitlines()[-4:] == [f"saved to {folder}; next:", *(
        f"  monolayer {verb} {folder}{f' {data}' * (verb != 'inspect')}" for verb in ("predict", "verify", "inspect")
    )]  # fmt: skip
    assert not any(name in table for name in ("ε", "1/M²", "Corollary 1"))  # for inspect
    assert run(["predict", folder, str(data)]) == 0
    captured = capsys.readouterr()
    assert lines(captured.out) == ROWS
    assert "5 of 5 labels are right" in captured.err
    assert run(["predict", folder, str(data), "--dense"]) == 0
    assert lines(capsys.readouterr().out) == ROWS
    assert run(["inspect", folder]) == 0
    shown = capsys.readouterr().out
    for name in ("W_Q 1, W_K 1, W_V 1, W_O 1", "ε", "1/M²", "Corollary 1", "per parameter"):
        assert name in shown


def test_json_is_for_machines(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "m")
    assert run(["memorize", str(data), "--out", folder, "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert (built["accuracy"], built["sequences"], built["labelled"]) == (1.0, 2, 5)
    assert run(["inspect", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == {"W_Q": 1, "W_K": 1, "W_V": 1, "W_O": 1}


def test_labels_a_sequence_and_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.npz"
    X = np.array([[1, 2, 3], [3, 2, 1]])
    np.savez(path, X=X, Y=np.array([0, 1]))
    assert run(["memorize", str(path), "--out", str(tmp_path / "m"), "--positions"]) == 0
    assert "2 of 2 labels" in capsys.readouterr().out
    assert run(["predict", str(tmp_path / "m"), str(path)]) == 0
    assert [row["label"] for row in lines(capsys.readouterr().out)] == [0, 1]


def test_next_tokens_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b'{"tokens": ["a", "b", "c"]}\n'))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run(["memorize", "-", "--out", str(tmp_path / "m"), "--causal"]) == 0


def test_predict_writes_a_file_only_when_it_is_complete(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, answers = str(tmp_path / "m"), tmp_path / "answers.jsonl"
    run(["memorize", str(data), "--out", folder])
    assert run(["predict", folder, str(data), "--out", str(answers)]) == 0
    assert lines(answers.read_text()) == ROWS
    assert run(["predict", folder, str(data), "--out", str(answers)]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", [], "empty"),
        ('{"tokens": ["a"], "labels": ["x"]}\n{"tokens": ["a"', [], "ends in the middle"),
        (
            '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n{"tokens": ["b", "a"], "labels": ["x", "y"]}\n',
            [],
            "positions",
        ),
        ('{"tokens": ["a"]}\n', [], "labels are missing"),
        ('{"words": ["a"]}\n', [], "tokens"),
        ('{"tokens": ["a"], "labels": ["x"]}\n', ["--dtype", "best"], "best"),
    ],
)
def test_mistakes_get_a_message_exit_code_2_and_no_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, arguments: list[str], message: str
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    assert run(["memorize", str(path), "--out", str(tmp_path / "m"), *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.jsonl"]


def test_an_output_folder_that_exists_is_refused_before_the_work(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "precious").touch()
    assert run(["memorize", str(tmp_path / "no such file"), "--out", str(folder)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(["memorize", str(data), "--out", str(folder), "--overwrite"]) == 2
    assert "holds no model" in capsys.readouterr().err
    assert (folder / "precious").exists()


def test_a_token_never_seen_is_named(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "m")
    run(["memorize", str(data), "--out", folder])
    data.write_text('{"tokens": ["a", "nobody"]}\n')
    assert run(["predict", folder, str(data)]) == 2
    assert "'nobody'" in capsys.readouterr().err


def test_unknown_commands_suggest_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memorise"]) == 2
    assert "memorize" in capsys.readouterr().err


def test_interruption_leaves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("monolayer.model.save.save_file", interrupt)
    assert run(["memorize", str(data), "--out", str(tmp_path / "m")]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.jsonl"]


def test_the_tour_on_built_in_phrases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--tiny", "--out", str(tmp_path / "m")]) == 0
    shown = capsys.readouterr().out
    assert "银行  yín háng" in shown
    assert "行 is háng in 银行 and xíng in 行走" in " ".join(shown.split())
    assert (tmp_path / "m" / "config.json").exists()


def test_the_tour_on_the_dictionary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sequences"], found["labelled"], found["right"]) == (411_957, 1_029_973, 1_029_973)
    assert found["runs"] < 40_000
    assert found["verdict"] == "proved"
    assert found["answers"]["快乐"] == ["kuài", "lè"]


def test_the_tour_without_the_dictionary_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pypinyin_dict.phrase_pinyin_data", None)
    assert run(["demo"]) == 0
    assert "pip install pypinyin-dict" in " ".join(capsys.readouterr().out.split())


def test_help_and_version_do_not_wait_for_torch() -> None:
    code = "import sys; from monolayer.cli import run; run(['--version']); sys.exit('torch' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert finished.returncode == 0
    assert finished.stdout.startswith("monolayer 0.")


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"tokens": ["a", "b"], "label": "x"}, "classes, one per sequence"),
        ({"tokens": ["a", "b"], "labels": [1.5, 2.0]}, "real numbers, one per token"),
        ({"tokens": ["a", "b"], "labels": [[1.5, 2.0], [0.5, 1.0]]}, "vectors of 2 numbers, one per token"),
    ],
)
def test_labels_of_another_kind_are_not_compared(
    row: dict[str, Any], kind: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["memorize", str(data), "--out", str(tmp_path / "m")]) == 0
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps(row))
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "m"), str(other)]) == 0
    captured = capsys.readouterr()
    assert lines(captured.out) == ROWS[:1]
    words = " ".join(captured.err.split())
    assert words == (
        f"the labels of the data are {kind}; the model answers with classes, one per token: they are not compared"
    )


def test_answers_go_to_new_folders_and_can_be_read_by_others(data: Path, tmp_path: Path) -> None:
    model, out = str(tmp_path / "m"), tmp_path / "new" / "folder" / "answers.jsonl"
    assert run(["memorize", str(data), "--out", model]) == 0
    mask = os.umask(0o022)
    try:
        assert run(["predict", model, str(data), "--out", str(out)]) == 0
    finally:
        os.umask(mask)
    assert out.stat().st_mode & 0o777 == 0o644
    assert lines(out.read_text()) == ROWS


@pytest.mark.parametrize(("place", "message"), [("m", "is a folder"), ("data.jsonl/x", "cannot be made")])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    place: str, message: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m").mkdir()  # no model: it is never looked at
    assert run(["predict", str(tmp_path / "m"), str(data), "--out", str(tmp_path / place), "--overwrite"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", [["memorize", "d", "--out", "m"], ["theorem", "d"], ["refute-hardmax"]])
def test_a_negative_seed_is_a_usage_error(command: list[str]) -> None:
    assert run([*command, "--seed", "-1"]) == 2


def test_half_a_surrogate_pair_and_a_narrow_terminal(data: Path, tmp_path: Path) -> None:
    data.write_text('{"tokens": ["\\ud800", "é"], "labels": ["行", "y"]}')
    program = [sys.executable, "-c", "from monolayer.cli import main; main()"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    model = str(tmp_path / "m")
    assert run(["memorize", str(data), "--out", model]) == 0
    done = subprocess.run([*program, "predict", model, str(data)], capture_output=True, env=environment, check=True)
    assert json.loads(done.stdout) == json.loads(data.read_text())


@pytest.mark.parametrize("command", [["-h"], ["verify", "m", "data.jsonl"], ["verify", "m", "data.jsonl", "--json"]])
def test_a_reader_that_leaves_gets_no_verdict(command: list[str], data: Path, tmp_path: Path) -> None:
    assert run(["memorize", str(data), "--out", str(tmp_path / "m")]) == 0
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-c", "from monolayer.cli import main; main()", *command]
    try:
        done = subprocess.run(program, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_every_command_reads_data_by_the_same_options() -> None:
    names = {each.name for each in fields(Reading)}
    taking = [command.callback for command in app.registered_commands if command.callback is not None]
    taking = [each for each in taking if hasattr(each, "__wrapped__")]
    assert len(taking) == 15
    assert all(names <= set(inspect.signature(each).parameters) for each in taking)


def test_memorize_has_few_options_and_flags_have_no_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(set(inspect.signature(memorize).parameters) - {"data"}) <= 18
    assert run(["memorize", "--help"]) == 0
    assert "<bool>" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [["memorize", "{data}", "--out"], ["approximate", "max", "--cells", "2", "--out"]])
def test_a_place_that_cannot_be_written_is_named_as_it_was_given(
    data: Path, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(tmp_path / ".x.1234.saving"))

    monkeypatch.setattr("monolayer.data.folder._make", refuse)
    assert run([*(word.format(data=data) for word in words), str(tmp_path / "x")]) == 2
    assert f"No such file or directory: {tmp_path / 'x'}" in " ".join(capsys.readouterr().err.split())


def test_one_label_is_one_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, model = tmp_path / "d.jsonl", str(tmp_path / "m")
    path.write_text('{"tokens": ["a"], "labels": ["b"]}\n')
    assert run(["memorize", str(path), "--out", model]) == 0
    assert "1 labels" not in capsys.readouterr().out
    assert run(["predict", model, str(path)]) == 0
    assert "1 of 1 label is right" in capsys.readouterr().err
