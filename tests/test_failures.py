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

Capture = pytest.CaptureFixture[str]
Said = Callable[..., str]
pytestmark = pytest.mark.usefixtures("here")


def test_an_unexpected_failure_is_70_and_a_line(said: Said, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RecursionError("deep \x1b[31minside")

    monkeypatch.setattr("monolayer.checker.check.judge", fail)
    shown = said("verify m data.jsonl", code=70, errors=True)
    assert shown.startswith("error: internal error: RecursionError: ")
    assert shown.endswith("--debug shows the traceback")
    assert "\x1b[31m" not in shown
    for words in ("--debug verify m data.jsonl", "verify m --debug data.jsonl"):
        assert run(words.split()) == 70
        assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_users_function_that_leaves_or_is_transposed_is_no_verdict(said: Said) -> None:
    ml.approximate(np.copy, 1, 2, cells=4).save("grid")
    Path("leaving_module.py").write_text("raise SystemExit(1)\n")
    shown = said("verify grid leaving_module:f", code=70, errors=True)
    assert shown == "error: internal error: unexpected exit(1)"
    Path("transposed_module.py").write_text("def f(X):\n    return X.transpose(1, 0, 2)\n")
    assert "returned an array of shape (2, 10, 1)" in said("verify grid transposed_module:f", code=2)


@pytest.mark.parametrize(
    ("command", "module"), [("memorize", "monolayer.model.save"), ("memorize-as bert", "monolayer.stock.folder")]
)
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (SafetensorError("I/O error: No space left on device"), "No space left on device"),
        (MemoryError(), "out of memory"),
    ],
)
def test_a_full_disk_or_memory_is_70_and_leaves_nothing(
    error: Exception, why: str, command: str, module: str, here: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"{module}.save_file", fail)
    shown = said(f"{command} data.jsonl --out new", code=70, errors=True)
    assert why in shown
    assert "nothing is half-written" in shown
    assert sorted(path.name for path in here.iterdir()) == ["data.jsonl", "m"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_70() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "monolayer", "verify", "m", "data.jsonl"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 70, done.stderr
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


OLD_CERTIFICATES: dict[str, Callable[[Path], Any]] = {
    "not UTF-8": lambda old: old.write_bytes(b"\xff\xfe"),
    "deep": lambda old: old.write_text("[" * 100_000),
    "a FIFO": os.mkfifo,
    "a device": lambda old: old.symlink_to("/dev/zero"),
    "a folder": lambda old: old.mkdir(),
    "an invented verdict": lambda old: old.write_text(
        json.dumps(json.loads(ml.certify("m", [["a", "b"]], [["x", "y"]]).to_json()) | {"verdict": "\x1b[2Jtwice"})
    ),
}


@pytest.mark.parametrize("kind", list(OLD_CERTIFICATES))
def test_a_broken_certificate_does_not_hide_the_verdict(kind: str, said: Said) -> None:
    OLD_CERTIFICATES[kind](Path("m/certificate.json"))
    shown = said("verify m data.jsonl")
    assert "certificate.json in this folder is ignored" in " ".join(shown.split())
    assert "\x1b" not in shown


def test_strings_against_integers_are_a_question_that_does_not_fit(said: Said) -> None:
    ml.memorize([[0, 1]], [[5, 6]]).save("ids")
    for row in ({"tokens": ["a"], "labels": [5]}, {"tokens": [0, 1], "labels": ["x", "y"]}):
        Path("odd.jsonl").write_text(json.dumps(row))
        assert "strings against integers" in said("verify ids odd.jsonl", code=2)
    assert ml.certify("ids", [[0, 7]], [[5, 6]]).verdict == "refuted", "an unknown token of the right kind still is"


def test_garbage_is_never_a_verdict(capsys: Capture) -> None:
    rng = np.random.default_rng(10)
    files = {"csv": b"tokens,labels\na b,x y\n", "conll": b"a x\nb y\n\n", "jsonl": Path("data.jsonl").read_bytes()}
    for kind, good in [*files.items(), *((each, b"PK\x03\x04PAR1") for each in ("npz", "parquet", "safetensors"))] * 3:
        start = bytearray(good)
        for _ in range(int(rng.integers(1, 6))):
            place = int(rng.integers(len(start) + 1))
            start[place : place + int(rng.integers(3))] = rng.bytes(int(rng.integers(4)))
        Path(f"bad.{kind}").write_bytes(start)
        command = "refute-hardmax --weights" if kind == "safetensors" else "verify m"
        code = run([*command.split(), f"bad.{kind}"])
        said = capsys.readouterr()
        assert code in (0, 1, 2), said.err
        assert (code == 2) == ("error: " in said.err), "a verdict is given on data that could be read"


NASTY = "a\x1b[2J\x9b31m\x07\u202etxt\u2028\x7f\ud800\0"


def test_nothing_that_is_shown_commands_the_terminal(capsys: Capture) -> None:
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
