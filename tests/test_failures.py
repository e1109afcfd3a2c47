"""Failures on the command line: one clear line, never exit code 1, which says refuted; no commands to a terminal."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError

import monolayer as ml
from monolayer.cli import run
from monolayer.cli.console import json_text, visible

PROGRAM = [sys.executable, "-c", "from monolayer.cli import main; main()"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return ml.memorize([["a", "b"]], [["x", "y"]]).save(tmp_path / "m")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text('{"tokens": ["a", "b"], "labels": ["x", "y"]}\n')
    return path


def one_line(capsys: Capture) -> str:
    """What was said on standard error: a line, and no traceback."""
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0, said
    assert "Traceback" not in said
    return said


# -- what nobody thought of --------------------------------------------------------------------------------


def test_an_unexpected_failure_is_70_and_a_line(
    model: Path, data: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RecursionError("deep \x1b[31minside")

    monkeypatch.setattr("monolayer.checker.check.judge_line", fail)
    assert run(["verify", str(model), str(data)]) == 70
    said = one_line(capsys)
    assert "unexpected failure, which is no verdict: RecursionError: " in said
    assert said.endswith("--debug shows where")
    assert "\x1b[31m" not in said
    for words in (["--debug", "verify", str(model), str(data)], ["verify", str(model), "--debug", str(data)]):
        assert run(words) == 70
        assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_users_function_that_leaves_or_is_transposed_is_no_verdict(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    ml.approximate(np.copy, 1, 2, cells=4).save("m")
    Path("leaving_module.py").write_text("raise SystemExit(1)\n")
    assert run(["verify", "m", "leaving_module:f"]) == 70
    assert "something called exit(1): this is no verdict" in one_line(capsys)
    Path("transposed_module.py").write_text("def f(X):\n    return X.transpose(1, 0, 2)\n")
    assert run(["verify", "m", "transposed_module:f"]) == 2
    assert "returned an array of shape (2, 10, 1)" in one_line(capsys)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (SafetensorError("I/O error: No space left on device"), "No space left on device"),
        (MemoryError(), "out of memory"),
    ],
)
def test_a_full_disk_or_memory_is_70_and_leaves_nothing(
    error: Exception, why: str, data: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("monolayer.model.save.save_file", fail)
    assert run(["memorize", str(data), "--out", str(tmp_path / "new")]) == 70
    said = one_line(capsys)
    assert why in said
    assert "nothing is half-written" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_70(model: Path, data: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*PROGRAM, "verify", str(model), str(data)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 70, done.stderr
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


# -- what users give ---------------------------------------------------------------------------------------


OLD_CERTIFICATES: dict[str, Callable[[Path], Any]] = {
    "not UTF-8": lambda folder: (folder / "certificate.json").write_bytes(b"\xff\xfe"),
    "deep": lambda folder: (folder / "certificate.json").write_text("[" * 100_000),
    "a FIFO": lambda folder: os.mkfifo(folder / "certificate.json"),
    "a device": lambda folder: (folder / "certificate.json").symlink_to("/dev/zero"),
    "a folder": lambda folder: (folder / "certificate.json").mkdir(),
    "an invented verdict": lambda folder: (folder / "certificate.json").write_text(
        json.dumps(json.loads(ml.certify(folder, [["a", "b"]], [["x", "y"]]).to_json()) | {"verdict": "\x1b[2Jtwice"})
    ),
}


@pytest.mark.parametrize("kind", list(OLD_CERTIFICATES))
def test_a_broken_certificate_does_not_hide_the_verdict(kind: str, model: Path, data: Path, capsys: Capture) -> None:
    OLD_CERTIFICATES[kind](model)
    assert run(["verify", str(model), str(data)]) == 0
    shown = capsys.readouterr().out
    assert "certificate.json in this folder is passed over" in " ".join(shown.split())
    assert "\x1b" not in shown


def test_strings_against_integers_are_a_question_that_does_not_fit(tmp_path: Path, capsys: Capture) -> None:
    folder = ml.memorize([[0, 1]], [[5, 6]]).save(tmp_path / "m")
    for number, row in enumerate(({"tokens": ["a"], "labels": [5]}, {"tokens": [0, 1], "labels": ["x", "y"]})):
        data = tmp_path / f"{number}.jsonl"
        data.write_text(json.dumps(row))
        assert run(["verify", str(folder), str(data)]) == 2
        assert "strings against integers" in capsys.readouterr().err
    assert ml.certify(folder, [[0, 7]], [[5, 6]]).verdict == "refuted", "an unknown token of the right kind still is"


GOOD = {
    "data.jsonl": b'{"tokens": ["a", "b"], "labels": ["x", "y"]}\n',
    "data.csv": b"tokens,labels\na b,x y\n",
    "data.conll": b"a x\nb y\n\n",
    **dict.fromkeys(["data.npz", "data.parquet", "w.safetensors"], b"PK\x03\x04PAR1"),
}


@pytest.mark.parametrize("name", GOOD)
def test_garbage_is_never_a_verdict(name: str, model: Path, tmp_path: Path, capsys: Capture) -> None:
    rng = np.random.default_rng(len(name))
    for number in range(4):
        start = bytearray(GOOD[name])
        for _ in range(int(rng.integers(1, 6))):
            place = int(rng.integers(len(start) + 1))
            start[place : place + int(rng.integers(3))] = rng.bytes(int(rng.integers(4)))
        path = tmp_path / f"{number}{name}"
        path.write_bytes(start)
        weights = ["refute-hardmax", "--weights", str(path)]
        code = run(weights if name == "w.safetensors" else ["verify", str(model), str(path)])
        said = capsys.readouterr()
        assert code in (0, 1, 2), said.err
        assert (code == 2) == ("error: " in said.err), "a verdict is given on data that could be read"


# -- what is shown -----------------------------------------------------------------------------------------


NASTY = "a\x1b[2J\x9b31m\x07\u202etxt\u2028\x7f\ud800\0"


def test_nothing_that_is_shown_commands_the_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, label = "m\x1b[31m[red]", NASTY + "1"
    for name, tokens, labels in (
        ("data", [NASTY, "b"], [label, "y"]),
        ("other", [NASTY, "b"], ["y", label]),
        ("unknown", [NASTY + "2"], ["y"]),
    ):
        Path(name + ".jsonl").write_text(json.dumps({"tokens": tokens, "labels": labels}))
    assert run(["memorize", "data.jsonl", "--out", folder]) == 0
    for words, code in (
        (["verify", folder, "data.jsonl"], 0),
        (["verify", folder, "other.jsonl"], 1),
        (["verify", folder, "other.jsonl", "--json"], 1),
        (["verify", folder + "\x1b[2J", "data.jsonl"], 2),
        (["inspect", folder], 0),
        (["predict", folder, "unknown.jsonl"], 2),
        (["theorem", "data.jsonl"], 0),
        (["explain", folder, "data.jsonl"], 0),
        (["explain", folder, "data.jsonl", "--json"], 0),
        (["predict", folder, "data.jsonl"], 0),
    ):
        assert run(words) == code
        shown = capsys.readouterr()
        for character in set(NASTY) - set("a[2J31mtxt"):
            assert character not in shown.out + shown.err, (words, character)
    assert json.loads(shown.out)["labels"] == [label, "y"], "escaped, not changed"


def test_what_is_harmless_stays_as_it_is() -> None:
    plain = "yín 行 e\u0301 👩\u200d👧 ½\nnext line"
    assert visible(plain) == plain
    assert visible("\x1b[2J\ud800") == "\\x1b[2J\\ud800"
    assert json.loads(json_text({"\x9b": "\u202e é"}, sys.stdout)) == {"\x9b": "\u202e é"}
