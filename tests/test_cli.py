"""The command line as people use it: outputs, verdicts, exit codes, messages, and nothing lost."""

from __future__ import annotations

import inspect
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import app, run
from monolayer.cli.memorize import memorize
from monolayer.cli.reading import Reading

ROWS = [{"tokens": ["a", "b"], "labels": ["x", "y"]}, {"tokens": ["b", "a", "c"], "labels": ["y", "y", "z"]}]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS)
PROGRAM = [sys.executable, "-c", "from monolayer.cli import main; main()"]
Capture = pytest.CaptureFixture[str]


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data.jsonl` and its model `m`, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "data.jsonl").write_text(TEXT)
    ml.memorize(ml.read(folder / "data.jsonl")).save(folder / "m")
    return folder


@pytest.fixture
def here(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the working folder."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_memorize_then_predict_then_inspect(here: Path, capsys: Capture) -> None:
    assert run(["memorize", "data.jsonl", "--out", "new"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in ("sequences", "vocabulary", "label runs", "5 of 5", "seconds"))
    after = ("predict new data.jsonl", "verify new data.jsonl", "inspect new")
    assert table.splitlines()[-4:] == ["saved to new; next:", *(f"  monolayer {each}" for each in after)]
    assert not any(name in table for name in ("1/M²", "Corollary 1"))  # for inspect
    for way in ([], ["--dense"]):
        assert run(["predict", "new", "data.jsonl", *way]) == 0
        captured = capsys.readouterr()
        assert lines(captured.out) == ROWS
        assert "5 of 5 labels are right" in captured.err
    assert run(["inspect", "new"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("W_Q 1, W_K 1, W_V 1, W_O 1", "1/M²", "Corollary 1", "per parameter"))


def test_json_is_for_machines(here: Path, capsys: Capture) -> None:
    def said(*arguments: str) -> Any:
        assert run([*arguments, "--json"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return json.loads(captured.out)

    new = said("memorize", "data.jsonl", "--out", "new")
    assert (new["folder"], new["accuracy"], new["sequences"], new["labelled"]) == ("new", 1.0, 2, 5)
    assert said("inspect", "m")["ranks"] == {"W_Q": 1, "W_K": 1, "W_V": 1, "W_O": 1}
    found = said("predict", "m", "data.jsonl")
    assert (found["answers"], found["right"], found["total"], found["sequences"]) == (ROWS, 5, 5, 2)
    mask = os.umask(0o022)
    os.umask(mask)
    found = said("predict", "m", "data.jsonl", "--out", "deep/er/answers.jsonl")
    assert "answers" not in found
    assert lines(Path(found["out"]).read_text()) == ROWS
    assert Path(found["out"]).stat().st_mode & 0o777 == 0o666 & ~mask  # others can read it, if they may anything


def test_labels_of_sequences_next_tokens_and_single_labels(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    np.savez("d.npz", X=np.array([[1, 2, 3], [3, 2, 1]]), Y=np.array([0, 1]))
    assert run(["memorize", "d.npz", "--out", "order", "--positions"]) == 0
    assert "2 of 2 labels" in capsys.readouterr().out
    assert run(["predict", "order", "d.npz"]) == 0
    assert [row["label"] for row in lines(capsys.readouterr().out)] == [0, 1]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"tokens": ["a", "b", "c"]}\n')))
    assert run(["memorize", "-", "--out", "next", "--causal"]) == 0
    Path("one.jsonl").write_text('{"tokens": ["a"], "labels": ["b"]}\n')
    assert run(["memorize", "one.jsonl", "--out", "one"]) == 0
    assert "1 labels" not in capsys.readouterr().out
    assert run(["predict", "one", "one.jsonl"]) == 0
    assert "1 of 1 label is right" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", [], "empty"),
        ('{"tokens": ["a"], "labels": ["x"]}\n{"tokens": ["a"', [], "ends in the middle"),
        ('{"tokens": "ab", "labels": [0, 1]}\n{"tokens": "ba", "labels": [0, 1]}\n', [], "pass --positions"),
        ('{"tokens": "ab", "labels": [0, 1]}\n{"tokens": "ba", "labels": [0, 1]}\n', [], "-conflict majority or first"),
        ('{"tokens": ["a"]}\n', [], "labels are missing: add labels, or pass --causal"),
        ('{"words": ["a"]}\n', [], "tokens"),
        (TEXT, ["--dtype", "best"], "best"),
        (TEXT, ["--per", "page"], "page"),
        (TEXT, ["--seed", "-1"], "--seed"),
    ],
)
def test_mistakes_get_a_message_exit_code_2_and_no_output(
    tmp_path: Path, capsys: Capture, content: str, arguments: list[str], message: str
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    assert run(["memorize", str(path), "--out", str(tmp_path / "m"), *arguments]) == 2
    captured = capsys.readouterr()
    assert message in words(captured.err)
    assert not any(word in captured.err for word in ("Traceback", "=True", "on_conflict"))
    assert captured.out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["memorize", "no such file", "--out", "precious"], "exists already"),
        (["memorize", "data.jsonl", "--out", "precious", "--overwrite"], "holds no model"),
        (["predict", "m", "data.jsonl", "--out", "data.jsonl"], "exists already"),
        (["predict", "nothing", "data.jsonl", "--out", "m", "--overwrite"], "is a folder"),
        (["predict", "nothing", "data.jsonl", "--out", "data.jsonl/x"], "cannot be made"),
        (["predict", "m", "strange.jsonl"], "'nobody'"),
        (["verify", "cut", "data.jsonl"], "model.safetensors"),
        (["inspect", "deep"], "config.json"),
        (["memorise"], "memorize"),
        (["theorem", "data.jsonl", "--seed", "-1"], "--seed"),
        (["refute-hardmax", "--length", "3"], "4"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_work(
    arguments: list[str], message: str, here: Path, capsys: Capture
) -> None:
    Path("precious").mkdir()
    Path("precious/thing").touch()
    Path("strange.jsonl").write_text('{"tokens": ["a", "nobody"]}\n')
    weights = Path(shutil.copytree("m", "cut")) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    (Path(shutil.copytree("m", "deep")) / "config.json").write_text("[" * 100_000)
    assert run(arguments) == 2
    assert message in words(capsys.readouterr().err)
    assert Path("precious/thing").exists()
    assert Path("data.jsonl").read_text() == TEXT


@pytest.mark.parametrize("command", [["memorize", "data.jsonl", "--out"], ["approximate", "max", "--cells=2", "--out"]])
def test_a_place_that_cannot_be_written_is_named_as_it_was_given(
    here: Path, command: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(here / ".x.1234.saving"))

    monkeypatch.setattr("monolayer.data.folder._make", refuse)
    assert run([*command, str(here / "x")]) == 2
    assert f"No such file or directory: {here / 'x'}" in words(capsys.readouterr().err)


def test_interruption_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("monolayer.model.save.save_file", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    assert run(["memorize", "data.jsonl", "--out", "new"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert sorted(p.name for p in here.iterdir()) == ["data.jsonl", "m"]


def test_the_tour_on_built_in_phrases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """`make demo` takes it on the whole dictionary; without that, it says so."""
    monkeypatch.setitem(sys.modules, "pypinyin_dict.phrase_pinyin_data", None)
    assert run(["demo", "--out", str(tmp_path / "m")]) == 0
    shown = words(capsys.readouterr().out)
    assert "pip install pypinyin-dict" in shown
    assert "银行 yín háng" in shown
    assert "行 is háng in 银行 and xíng in 行走" in shown
    assert "says it word for word, proved" in shown
    assert (tmp_path / "m" / "certificate.json").exists()
    assert run(["demo", "--tiny", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["right"] == found["total"] > 0
    assert (found["verdict"], found["answers"]["快乐"]) == ("proved", ["kuài", "lè"])
    assert found["poem"]["recited"]


def test_labels_of_another_kind_are_not_compared(here: Path, capsys: Capture) -> None:
    for labels in ({"label": "x"}, {"labels": [1.5, 2.0]}, {"labels": [[1.5, 2.0], [0.5, 1.0]]}):
        Path("other.jsonl").write_text(json.dumps({"tokens": ["a", "b"], **labels}))
        assert run(["predict", "m", "other.jsonl"]) == 0
        captured = capsys.readouterr()
        assert lines(captured.out) == ROWS[:1]
        assert "are of another kind than the model's answers: they are not compared" in words(captured.err)


def test_a_terminal_that_cannot_write_a_character_gets_its_code(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"tokens": ["\ud800", "é"], "labels": ["行", "y"]}
    Path("d.jsonl").write_text(json.dumps(row))
    assert run(["memorize", "d.jsonl", "--out", "new", "--json"]) == 0
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    assert run(["predict", "new", "d.jsonl"]) == 0
    assert json.loads(narrow.buffer.getvalue()) == row  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [["-h"], ["verify", "m", "data.jsonl"]])
def test_a_reader_that_leaves_gets_no_verdict(command: list[str], built: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*PROGRAM, *command], stdout=writer, stderr=subprocess.PIPE, text=True, cwd=built, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_commands_share_their_options_and_show_them_plainly(capsys: Capture) -> None:
    names = {each.name for each in fields(Reading)}
    taking = [command.callback for command in app.registered_commands if hasattr(command.callback, "__wrapped__")]
    assert len(taking) == 15
    assert all(names <= set(inspect.signature(each).parameters) for each in taking if each is not None)
    assert len(set(inspect.signature(memorize).parameters) - {"data"}) <= 18
    assert run(["memorize", "--help"]) == 0
    assert capsys.readouterr().out.count("<bool>") <= 1  # typer's own --help; ours are plain flags
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert 0 < shown.index(" memorize ") < shown.index(" predict ") < shown.index(" recite ")


# -- verdicts ----------------------------------------------------------------------------------------------


def test_proved_is_0_refuted_is_1_undecided_is_3(here: Path, capsys: Capture) -> None:
    assert run(["verify", "m", "data.jsonl"]) == 0
    assert "proved" in capsys.readouterr().out
    assert not Path("m/certificate.json").exists()
    assert run(["verify", "m", "data.jsonl", "--save", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "proved"
    assert json.loads(Path("m/certificate.json").read_text())["points"] == 5
    Path("data.jsonl").write_text(TEXT.replace('"z"', '"x"'))
    assert run(["verify", "m", "data.jsonl"]) == 1
    shown = words(capsys.readouterr().out)
    for said in ("refuted", "token 2 ('c') of sequence 1", "the data are not those of certificate.json"):
        assert said in shown
    changed = ml.load("m")
    changed.attention.W_Q.data[1, 2] = 1e-3  # a query that depends on the token: outside the proof
    changed.save("m", overwrite=True)
    assert run(["verify", "m", "data.jsonl"]) == 3
    assert "undecided" in capsys.readouterr().out


def test_theorem_and_hardmax_print_constants_and_verdicts(here: Path, capsys: Capture) -> None:
    random = np.random.default_rng(0)
    np.savez("d.npz", X=random.normal(size=(6, 3, 2)))
    np.savez("w.npz", **{f"W_{name}": random.normal(size=(1, 3, 3)) for name in "QKVO"})
    for command, said, verdict in (
        (["theorem", "d.npz"], ("worst case: δ", "measured direction: δ", "Theorem A"), "proved"),
        (["refute-hardmax", "--heads", "2", "--dim", "3", "--length", "6"], ("refuted",), "refuted"),
        (["refute-hardmax", "--weights", "w.npz"], ("refuted",), "refuted"),
    ):
        assert run(command) == 0
        shown = capsys.readouterr().out
        assert all(part in shown for part in said)
        assert run([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["verdict"] == verdict
