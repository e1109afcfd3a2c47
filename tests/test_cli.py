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
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from rich.table import Table

import monolayer as ml
from monolayer.cli import app, run
from monolayer.cli.examples import GREETING
from monolayer.cli.memorize import memorize
from monolayer.cli.reading import Reading
from monolayer.table import grid_lines, pairs
from monolayer.theory.targets import TARGETS

ROWS = [{"tokens": ["a", "b"], "labels": ["x", "y"]}, {"tokens": ["b", "a", "c"], "labels": ["y", "y", "z"]}]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS)
pytestmark = pytest.mark.usefixtures("here")
Said = Callable[..., str]


@pytest.mark.parametrize(
    "command",
    ["memorize d.jsonl --out new --robust", "memorize d.jsonl --out new", "memorize-as bert d.jsonl --out new"],
)
def test_the_bar_never_goes_back_and_is_not_full_before_the_end(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.jsonl").write_text(
        '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n{"tokens": ["a", "c"], "labels": ["y", "x"]}\n'
    )
    shares: list[float] = []

    @contextmanager
    def recorded(quiet: bool) -> Iterator[Any]:
        yield lambda stage, share: shares.append(share)

    for module in ("memorize", "stock"):
        monkeypatch.setattr(f"monolayer.cli.{module}.progress", recorded)
    said(command)
    assert shares == sorted(shares)
    assert len(shares) > 3
    assert shares[-1] < 1.0


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_memorize_then_predict_then_inspect(said: Said) -> None:
    table = said("memorize", "data.jsonl", "--out", "new")
    assert all(name in table for name in ("sequences", "vocabulary", "label runs", "5 of 5", "seconds"))
    after = ("predict new data.jsonl", "verify new data.jsonl", "inspect new")
    assert table.splitlines()[-4:] == ["saved to new; next:", *(f"  monolayer {each}" for each in after)]
    assert not any(name in table for name in ("1/M²", "Corollary 1"))  # for inspect
    for way in ([], ["--dense"]):
        assert lines(said("predict", "new", "data.jsonl", *way)) == ROWS
    read = "read data.jsonl: JSON Lines; tokens 'tokens', label 'labels'; one label per token; 2 rows with 5 tokens"
    assert said("predict", "new", "data.jsonl", errors=True) == f"{read} 5 of 5 labels are right"
    shown = said("inspect", "new")
    assert all(name in shown for name in ("W_Q 1, W_K 1, W_V 1, W_O 1", "1/M²", "Corollary 1", "per parameter"))


def test_keys_are_asked_from_the_shell(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """By --text, by lines of standard input, by files; a CSV file has each key as it was given, white space and all."""
    Path("d.csv").write_text("country,city\nBrazil,Brasília\nNew  York,Albany\nPeru,Lima of old\n")
    said("memorize", "d.csv", "-o", "table")
    asked = said("predict", "table", "--text", "Brazil", "--text", "New York")
    assert [row["label"] for row in lines(asked)] == ["Brasília", "Albany"]
    found = json.loads(said("predict", "table", "--text", "Nowhere", "--text", "Peru", "--json"))
    assert ("error" in found["answers"][0], found["answers"][1]["label"]) == (True, "Lima of old")

    def typed(text: str, model: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return said("predict", model, "-", "--format", "text", code=code)

    assert [row["label"] for row in lines(typed("Peru\nBrazil\n", "table"))][1] == "Brasília"
    assert "line 2 of standard input is an empty sequence" in typed("Peru\n\n", "table", 2)
    rows = 'key,answer,error\n New  York ,Albany,\n"a, b",,"token 0 is \'a,\', which'
    Path("keys.txt").write_text(" New  York \na, b\n")
    for name, content in (
        ("d.csv", None),
        ("d.jsonl", '{"key": " New  York "}\n{"key": "a, b"}\n'),
        ("d.json", '[{"key": " New  York "}, {"key": "a, b"}]'),
        ("d.parquet", None),
    ):
        wanted = rows
        if name == "d.csv":
            wanted = "key,answer,error\nBrazil,Brasília,\nNew  York,Albany,\nPeru,Lima of old,\n"
        elif name == "d.parquet":
            pq.write_table(pa.table({"key": [" New  York ", "a, b"]}), name)
        else:
            Path(name).write_text(str(content))
        said("predict", "table", name, "-o", "a.csv", "--overwrite")
        assert Path("a.csv").read_text().startswith(wanted), name
    said("predict", "table", "keys.txt", "--format", "text", "-o", "a.csv", "--overwrite")
    assert Path("a.csv").read_text().startswith(rows)
    said("predict", "m", "data.jsonl", "-o", "tokens.csv")  # lists of tokens and labels are JSON in their cells
    assert Path("tokens.csv").read_text().splitlines()[1] == '"[""a"", ""b""]","[""x"", ""y""]",'
    Path("ages.json").write_text("[[30, 1], [77, 2]]")
    said("memorize", "ages.json", "-o", "ages")
    assert [row["label"] for row in lines(said("predict", "ages", "--text", "77", "--text", "30"))] == [2, 1]
    assert [row["label"] for row in lines(typed("30\n77", "ages"))] == [1, 2]
    for wrong, words in (
        ("predict table", "exactly one way: DATA, or --text"),
        ("predict table d.csv --text Peru", "exactly one way: DATA, or --text"),
        ("predict ages --text Peru", "'Peru' is not a whole number"),
    ):
        assert words in said(wrong, code=2)


def test_completion_is_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out
    monkeypatch.setenv("_MONOLAYER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "monolayer pre")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run([]) == 0
    assert capsys.readouterr().out.split() == ["predict"]


def test_every_output_has_the_same_short_name() -> None:
    group: Any = typer.main.get_command(app)
    options = [option.opts for command in group.commands.values() for option in command.params]
    named = [names for names in options if {"--out", "-o"} & set(names)]
    assert len(named) > 10
    assert all(names == ["--out", "-o"] for names in named)


LONG = "bert.encoder.layer.0.output.dense.weight[17]"


@pytest.mark.parametrize("width", [None, 200, 90, 80, 60])
def test_tables_break_no_word_at_any_width_and_no_line_in_a_pipe(width: int | None) -> None:
    """Words stay whole; lines are as long as the terminal is wide, unless one word is longer."""
    sentence = "every evaluation returns the label at each of the three labelled points"
    rows = [("held by", LONG), ("digest", "0" * 64), ("a very long name of a number", LONG), ("claim", sentence)]
    shown = [line.plain for line in pairs("a/folder", rows, width)]
    grid = Table("fact", "held by", "answer", "without it", title="where each fact lives", box=None, pad_edge=False)
    grid.add_row("0", f"{LONG} + {LONG}", "Paris (proved)", sentence)
    several = [line.plain for line in grid_lines(grid, width)]
    for lines_shown in (shown, several):
        assert all(line == line.rstrip() for line in lines_shown)
        assert not width or all(len(line) <= max(width, 2 + 64) for line in lines_shown)
    words = {word for line in shown for word in line.split()}
    assert {LONG, "0" * 64, "a/folder", *sentence.split()} <= words
    assert {LONG, *sentence.split()} <= {word for line in several for word in line.split()}
    assert "where each fact lives" in several
    if width is None:
        assert f"claim                         {sentence}" in shown
        assert (len(shown), len(several)) == (5, 3)
    if width == 60:  # the columns do not fit side by side: a list of names and values
        assert "answer      Paris (proved)" in several
    if width == 80:  # a name stands above a value that does not fit beside it
        at = shown.index("digest")
        assert shown[at + 1 : at + 3] == [f"  {'0' * 64}", f"a very long name of a number  {LONG}"]


def test_piped_output_is_not_wrapped(said: Said) -> None:
    table = said("verify", "m", "data.jsonl")
    assert any(len(line) > 120 for line in table.splitlines())
    assert not any(line.endswith(" ") for line in table.splitlines())
    assert max(map(len, said("theorem", "data.jsonl").splitlines())) > 80


def test_every_error_has_one_style(said: Said) -> None:
    for wrong, words in (
        ("predict m data.jsonl --nonsense", "error: No such option: --nonsense"),
        ("memorize data.jsonl", "error: Missing option '--out'"),
        ("nonsense", "error: No such command 'nonsense'"),
        ("locate m data.jsonl --first none", "error: Invalid value for '--first'"),
        ("predict nothing data.jsonl", "error: nothing"),
    ):
        shown = said(wrong, code=2, errors=True)
        assert shown.startswith(words)
        assert len(shown.splitlines()) == 1
    assert "monolayer predict --help lists what it takes" in said("predict m --nonsense", code=2, errors=True)


def test_a_function_that_cannot_be_loaded_shows_the_users_own_line(said: Said) -> None:
    Path("works.py").write_text("import numpy as np\n\n\ndef f(x):\n    return np.square(x)\n")
    shown = said("approximate", "works.py:f", "--cells", "3", "-o", "sorter")
    steps = ["  monolayer verify sorter works.py:f", "  monolayer inspect sorter"]
    assert shown.splitlines()[-3:] == ["saved to sorter; next:", *steps]
    said("verify", "sorter", "works.py:f")
    for name, code, words in (
        (
            "broken",
            "import numpy\nimport no_such_module\n",
            "No module named 'no_such_module' (@, line 2: import no_such_module)",
        ),
        ("wrong", "x = 1\ny = x / 0\n", "ZeroDivisionError: division by zero (@, line 2: y = x / 0)"),
        ("unfinished", "def f(x):\n    return x +\n", "(unfinished.py, line 2)"),
        ("lacking", "g = 3\n", "module 'lacking' has no attribute 'f'"),
    ):
        file = Path(f"{name}.py")
        file.write_text(code)
        for given in (f"{name}.py:f", f"{name}:f"):
            shown = said("approximate", given, code=2, errors=True)
            assert words.replace("@", str(file.absolute())) in shown


def test_json_is_for_machines(said: Said) -> None:
    def told(*arguments: str) -> Any:
        return json.loads(said(*arguments, "--json"))

    new = told("memorize", "data.jsonl", "--out", "new")
    assert (new["folder"], new["accuracy"], new["sequences"], new["labelled"]) == ("new", 1.0, 2, 5)
    assert told("inspect", "m")["ranks"] == {"W_Q": 1, "W_K": 1, "W_V": 1, "W_O": 1}
    found = told("predict", "m", "data.jsonl")
    assert (found["answers"], found["right"], found["total"], found["sequences"]) == (ROWS, 5, 5, 2)
    assert [(plan["source"], plan["format"], plan["rows"]) for plan in found["read"]] == [("data.jsonl", "jsonl", 2)]
    assert said("predict", "m", "data.jsonl", "--json", errors=True) == ""
    mask = os.umask(0o022)
    os.umask(mask)
    found = told("predict", "m", "data.jsonl", "--out", "deep/er/answers.jsonl")
    assert "answers" not in found
    assert lines(Path(found["out"]).read_text()) == ROWS
    assert Path(found["out"]).stat().st_mode & 0o777 == 0o666 & ~mask  # others can read it, if they may anything


def test_labels_of_sequences_next_tokens_and_single_labels(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez("d.npz", X=np.array([[1, 2, 3], [3, 2, 1]]), Y=np.array([0, 1]))
    assert "2 of 2 labels" in said("memorize", "d.npz", "--out", "order", "--positions")
    assert [row["label"] for row in lines(said("predict", "order", "d.npz"))] == [0, 1]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"tokens": ["a", "b", "c"]}\n')))
    said("memorize", "-", "--out", "next", "--causal")
    Path("one.jsonl").write_text('{"tokens": ["a"], "labels": ["b"]}\n')
    assert "1 labels" not in said("memorize", "one.jsonl", "--out", "one")
    assert said("predict", "one", "one.jsonl", errors=True).endswith("1 row with 1 token 1 of 1 label is right")


FILES = {
    "empty": "",
    "half": '{"tokens": ["a"], "labels": ["x"]}\n{"tokens": ["a"',
    "order": '{"tokens": "ab", "labels": [0, 1]}\n{"tokens": "ba", "labels": [0, 1]}\n',
    "bare": '{"tokens": ["a"]}\n',
    "words": '{"words": ["a"]}\n',
    "strange": '{"tokens": ["a", "nobody"]}\n',
}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("memorize empty.jsonl --out new", "empty"),
        ("memorize half.jsonl --out new", "line 2 of half.jsonl"),
        ("memorize order.jsonl --out new", "pass --positions"),
        ("memorize order.jsonl --out new", "say which label wins: --on-conflict majority or first"),
        ("memorize bare.jsonl --out new", "labels are missing: add labels, or pass --causal"),
        ("memorize words.jsonl --out new", "has one column, 'words', and a table has two"),
        ("memorize data.jsonl --out new --dtype best", "best"),
        ("memorize data.jsonl --out new --per page", "page"),
        ("memorize data.jsonl --out new --seed -1", "--seed"),
        ("memorize no_such_file --out precious", "exists already"),
        ("memorize data.jsonl --out precious --overwrite", "holds no model"),
        ("predict m data.jsonl --out data.jsonl", "exists already"),
        ("predict nothing data.jsonl --out m --overwrite", "is a folder"),
        ("predict nothing data.jsonl --out data.jsonl/x", "cannot be created"),
        ("predict m strange.jsonl", "'nobody'"),
        ("verify cut data.jsonl", "model.safetensors"),
        ("inspect deep", "config.json"),
        ("memorise", "memorize"),
        ("theorem data.jsonl --seed -1", "--seed"),
        ("refute-hardmax --length 3", "4"),
        ("approximate nothing --cells 4", "not a built-in function"),
        ("approximate no_such_module:f --cells 4", "cannot be loaded"),
        ("approximate math:no_such_name --cells 4", "cannot be loaded"),
        ("approximate math:pi --cells 4", "must be a function"),
        ("approximate sort", "either cells"),
        ("approximate sort --cells 4 --error 0.1", "not both"),
        ("approximate sort --dim 2 --cells 4", "dimension 1 only"),
        ("approximate sort --length 9 --cells 400", "room for"),
        ("approximate sort --cells 4 --domain 1 0", "low < high"),
        ("approximate sort-in-place --cells 4", "positions"),
        ("approximate ranks --length 3 --error 0.1", "f is not continuous"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words_of_the_command_line(command: str, message: str, said: Said) -> None:
    for name, content in FILES.items():
        Path(f"{name}.jsonl").write_text(content)
    Path("precious").mkdir()
    Path("precious/thing").touch()
    weights = Path(shutil.copytree("m", "cut")) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    (Path(shutil.copytree("m", "deep")) / "config.json").write_text("[" * 100_000)
    before = sorted(Path().rglob("*"))
    shown = said(*command.split(), code=2)
    assert message in shown
    assert not any(word in shown for word in ("=True", "on_conflict"))
    assert sorted(Path().rglob("*")) == before
    assert Path("data.jsonl").read_text() == TEXT


def test_a_place_that_cannot_be_written_is_named_as_it_was_given(
    here: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", str(here / ".x.1234.saving"))

    monkeypatch.setattr("monolayer.data.folder._clear_leftovers", refuse)
    for command in (["memorize", "data.jsonl"], ["approximate", "max", "--cells=2"]):
        assert f"No such file or directory: {here / 'x'}" in said(*command, "--out", str(here / "x"), code=2)


def test_interruption_leaves_nothing(here: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monolayer.model.save.save_file", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    assert "interrupted" in said("memorize", "data.jsonl", "--out", "new", code=130, errors=True)
    assert sorted(path.name for path in here.iterdir()) == ["data.jsonl", "m"]


def test_no_arguments_greet_and_a_command_without_its_arguments_shows_its_help(said: Said) -> None:
    """`--debug` is taken out first, so that it counts as none."""
    assert said("--debug") == GREETING + "\n"
    assert "monolayer predict --help lists what it takes" in said("predict", code=2, errors=True)


CTRL_C = "import signal; signal.raise_signal(signal.SIGINT)"
WHILE_IMPORTING = {
    "an exception": ("raise KeyboardInterrupt", 130),
    "the signal": (CTRL_C, 130),
    "the signal in a module that catches everything": (f"try:\n    {CTRL_C}\nexcept BaseException:\n    pass", 130),
    "planted: neither": ("def __getattr__(name): raise ImportError(name)", 1),
}


@pytest.mark.parametrize("name", WHILE_IMPORTING)
@pytest.mark.parametrize("way", ["module", "script"])
def test_ctrl_c_is_quiet_while_modules_are_imported(way: str, name: str, tmp_path: Path) -> None:
    """A module that the command line imports is replaced by one that is interrupted."""
    content, code = WHILE_IMPORTING[name]
    (tmp_path / "typer.py").write_text(content + "\n")
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["monolayer"].partition(":")
    script = f"import sys; from {module} import {function}; sys.exit({function}())"  # what pip writes
    words = [sys.executable, *(["-m", "monolayer"] if way == "module" else ["-c", script]), "--version"]
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ended = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert ended.returncode == code
    if code == 130:
        assert (ended.stdout, ended.stderr) == ("", "error: interrupted; nothing is half-written\n")
    else:
        assert "Traceback" in ended.stderr


def test_the_tour_on_built_in_phrases(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make demo` takes it on the whole dictionary; without that, it says so."""
    monkeypatch.setitem(sys.modules, "pypinyin_dict.phrase_pinyin_data", None)
    shown = " ".join(said("demo", "--out", "new").split())
    assert "pip install 'monolayer[demo]'" in shown
    assert "银行 yín háng" in shown
    assert "行 is háng in 银行 and xíng in 行走" in shown
    assert "says it word for word, proved" in shown
    assert Path("new/certificate.json").exists()
    found = json.loads(said("demo", "--tiny", "--json"))
    assert found["right"] == found["total"] > 0
    assert (found["verdict"], found["answers"]["快乐"]) == ("proved", ["kuài", "lè"])
    assert found["poem"]["recited"]


def test_labels_of_another_kind_are_not_compared(said: Said) -> None:
    for labels in ({"label": "x"}, {"labels": [1.5, 2.0]}, {"labels": [[1.5, 2.0], [0.5, 1.0]]}):
        Path("other.jsonl").write_text(json.dumps({"tokens": ["a", "b"], **labels}))
        assert lines(said("predict", "m", "other.jsonl")) == ROWS[:1]
        assert "are of another kind" in said("predict", "m", "other.jsonl", errors=True)


def test_a_terminal_that_cannot_write_a_character_gets_its_code(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"tokens": ["\ud800", "é"], "labels": ["行", "y"]}
    Path("d.jsonl").write_text(json.dumps(row))
    said("memorize", "d.jsonl", "--out", "new", "--json")
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    assert run(["predict", "new", "d.jsonl"]) == 0
    assert json.loads(narrow.buffer.getvalue()) == row  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [["-h"], ["verify", "m", "data.jsonl"]])
def test_a_reader_that_leaves_gets_no_verdict(command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        program = [sys.executable, "-m", "monolayer", *command]
        done = subprocess.run(program, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_commands_share_their_options_and_show_them_plainly(said: Said) -> None:
    names = {each.name for each in fields(Reading)}
    taking = [command.callback for command in app.registered_commands if hasattr(command.callback, "__wrapped__")]
    assert len(taking) == 17
    assert all(names <= set(inspect.signature(each).parameters) for each in taking if each is not None)
    assert len(set(inspect.signature(memorize).parameters) - {"data"}) <= 20
    assert said("memorize", "--help").count("<bool>") <= 1  # typer's own --help; ours are plain flags
    shown = said("--help")
    assert 0 < shown.index(" memorize ") < shown.index(" predict ") < shown.index(" recite ")


@pytest.mark.parametrize("words", ["--help", "predict --help", "verify m data.jsonl --json", "predict --nope"])
def test_what_is_left_out_of_the_app_for_a_command_is_not_missed(
    words: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the list of commands typer builds none of their options, and for one command no other."""
    codes, printed = [run(words.split())], [capsys.readouterr()]
    monkeypatch.setattr("monolayer.cli._asked", lambda words: app)
    codes.append(run(words.split()))
    printed.append(capsys.readouterr())
    assert (codes[0], printed[0]) == (codes[1], printed[1])


# -- verdicts ----------------------------------------------------------------------------------------------


def test_proved_is_0_refuted_is_1_undecided_is_3(said: Said) -> None:
    assert "proved" in said("verify", "m", "data.jsonl")
    assert not Path("m/certificate.json").exists()
    assert json.loads(said("verify", "m", "data.jsonl", "--save", "--json"))["verdict"] == "proved"
    assert json.loads(Path("m/certificate.json").read_text())["points"] == 5
    Path("data.jsonl").write_text(TEXT.replace('"z"', '"x"'))
    shown = " ".join(said("verify", "m", "data.jsonl", code=1).split())
    for words in ("refuted", "token 2 ('c') of sequence 1", "the data are not those of certificate.json"):
        assert words in shown
    changed = ml.load("m")
    changed.attention.W_Q.data[1, 2] = 1e-3  # a query that depends on the token: outside the proof
    changed.save("m", overwrite=True)
    assert "in one evaluation in binary64" in " ".join(said("verify", "m", "data.jsonl", code=1).split())
    Path("data.jsonl").write_text(TEXT)
    changed.attention.W_Q.data[1, 2] = 1e-30  # too small to change an answer
    changed.save("m", overwrite=True)
    assert "undecided" in said("verify", "m", "data.jsonl", code=3)


def test_theorem_and_hardmax_print_constants_and_verdicts(said: Said) -> None:
    random = np.random.default_rng(0)
    np.savez("d.npz", X=random.normal(size=(6, 3, 2)))
    np.savez("w.npz", **{f"W_{name}": random.normal(size=(1, 3, 3)) for name in "QKVO"})
    for command, words, verdict in (
        ("theorem d.npz", ("worst case: δ", "measured direction: δ", "our Lemma 1: δ", "Theorem A"), "proved"),
        ("theorem d.npz --causal", ("the prefix that ends there", "worst case: δ"), "proved"),
        ("refute-hardmax --heads 2 --dim 3 --length 6", ("refuted",), "refuted"),
        ("refute-hardmax --weights w.npz", ("refuted",), "refuted"),
    ):
        shown = said(*command.split())
        assert all(part in shown for part in words)
        assert json.loads(said(*command.split(), "--json"))["verdict"] == verdict


# -- functions ---------------------------------------------------------------------------------------------


def test_approximate_says_what_was_built_predicted_and_measured(said: Said) -> None:
    for command, words in (
        ("sort --length 2 --cells 4 --norm sup", "value rank 1 = (n − 1)d|4 per coordinate|25|bound|with equal tokens"),
        ("sort --length 3 --cells 10", "10 per coordinate|550 on 220 multisets|predicted|measured|guaranteed by|ramps"),
    ):
        shown = " ".join(said("approximate", *command.split()).split())
        assert all(part in shown for part in words.split("|"))
    assert set(json.loads(said("approximate", "list", "--json"))) == set(TARGETS)
    known, wider = (json.loads(said(f"approximate max --cells 4 {more} --json")) for more in ("", "--lipschitz 2"))
    assert wider["predicted"]["sup"] == 2 * known["predicted"]["sup"]  # the library's constant is 1


def test_an_approximator_is_saved_answers_and_is_what_python_builds(said: Said) -> None:
    found = json.loads(said("approximate", "max", "--error", "0.06", "--seed", "3", "--out", "max", "--json"))
    assert found["cells"] == 9
    assert found["knots"] == 81
    assert found["guaranteed"]
    assert 0 < found["measured"]["l1"] <= found["measured"]["l2"] <= found["measured"]["sup"]
    assert found["measured"]["sup"] <= found["predicted"]["sup"] <= 0.06
    assert found["ramp_share"] < 2e-6
    one, two = ml.load("max"), ml.approximate(TARGETS["max"], 1, 2, error=0.06, lipschitz=1.0, seed=3)
    assert all(np.array_equal(one.state_dict()[name], value) for name, value in two.state_dict().items())
    rows = [{"tokens": [[0.2], [0.7]], "labels": [low, 0.7]} for low in (0.7, 0.1)]
    Path("d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert abs(lines(said("predict", "max", "d.jsonl"))[0]["labels"][0][0] - 0.7) <= 0.06
    assert "3 of 4 labels are right" in said("predict", "max", "d.jsonl", errors=True)
    assert "approximator" in said("inspect", "max")


def test_a_function_of_ones_own(said: Said) -> None:
    Path("my_functions.py").write_text("class Inside:\n    f = staticmethod(lambda X: X**2)\n")
    for more, guaranteed in ((["--domain", "-1", "1"], False), (["--lipschitz", "2"], True)):
        found = json.loads(said("approximate", "my_functions:Inside.f", "--error", "0.1", *more, "--json"))
        assert found["guaranteed"] == guaranteed
        assert found["measured"]["sup"] <= 0.1
