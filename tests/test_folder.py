"""Folders that are replaced: what is not ours stays, what is ours is there at every moment, nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.data import folder as folders
from monolayer.errors import DataError
from monolayer.saved.kinds import open_model
from tests.killed_saves import content, fill, save

ROOT = Path(__file__).parent.parent


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what is not ours --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "foreign",
    ["thesis.tex", ".git/HEAD", "certificate.json/of marriage", ".config.json.notes", ".config.json.0123ABCD"],
)
def test_a_model_with_something_foreign_beside_it_is_not_replaced(tmp_path: Path, foreign: str) -> None:
    save(tmp_path / "m", b"old")
    (tmp_path / "m" / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / "m" / foreign).write_text("ten years")
    with pytest.raises(DataError, match=f"holds '{foreign.split('/')[0]}', which is not part of a model"):
        save(tmp_path / "m", b"new")
    assert (tmp_path / "m" / foreign).read_text() == "ten years"
    assert content(tmp_path / "m") == b"old"
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize("config", ['{"model_type": "bert"}', "[]", '"format"', "{", "", '{"format": ["monolayer"]}'])
def test_a_folder_with_the_config_of_another_program_is_not_replaced(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(DataError, match=r'holds no model: no config\.json that says "format": "monolayer"'):
        save(tmp_path, b"new")
    assert (tmp_path / "config.json").read_text() == config


def test_what_comes_in_the_last_moment_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "m", b"old")
    objection = folders.FolderKind.objection

    def late(kind: folders.FolderKind, folder: Path) -> str | None:
        found = objection(kind, folder)
        if list(tmp_path.glob(".m.*.saving")):  # not the look before anything is written
            (folder / "thesis.tex").write_text("just in time")
        return found

    monkeypatch.setattr(folders.FolderKind, "objection", late)
    with pytest.raises(DataError, match=r"'thesis\.tex' was put into it"):
        save(tmp_path / "m", b"new")
    assert (tmp_path / "m" / "thesis.tex").read_text() == "just in time"
    assert content(tmp_path / "m") == b"old"


# -- at every moment ---------------------------------------------------------------------------------------


def test_killed_at_any_step_the_old_or_the_new_folder_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.killed_saves", str(tmp_path / "m")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt(), OSError("the disk went away")])
@pytest.mark.parametrize("at", [0, 1])
def test_stopped_at_a_rename_the_old_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_by: BaseException, at: int
) -> None:
    save(tmp_path / "m", b"old")
    rename, calls = Path.rename, count()

    def stop_rename(source: Path, target: Path) -> Path:
        if next(calls) == at:
            raise stopped_by
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", stop_rename)
    with pytest.raises(type(stopped_by)):
        save(tmp_path / "m", b"new")
    assert content(tmp_path / "m") == b"old"
    assert names(tmp_path) == ["m"]


def test_two_savers_and_a_reader_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_sync", lambda path: None)
    save(tmp_path / "m", b"one")
    failures: list[BaseException] = []

    def saver(text: bytes) -> None:
        try:
            for _ in range(20):
                save(tmp_path / "m", text)
        except BaseException as error:
            failures.append(error)

    savers = [threading.Thread(target=saver, args=(text,)) for text in (b"one", b"another")]
    for thread in savers:
        thread.start()
    seen = set()
    while any(thread.is_alive() for thread in savers):
        seen.add(content(tmp_path / "m"))  # an error here is a reader that mixed two saves, or found none
    assert failures == []
    assert seen <= {b"one", b"another"}
    assert names(tmp_path) == ["m"]


def test_a_folder_that_another_process_makes_first_is_not_replaced_unasked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exists already"), folders.new_folder(tmp_path / "m"):
        save(tmp_path / "m", b"first")
    assert content(tmp_path / "m") == b"first"
    assert names(tmp_path) == ["m"]


def test_what_the_dead_left_goes_and_what_the_living_and_strangers_have_stays(tmp_path: Path) -> None:
    save(tmp_path / "m.v2", b"other")  # whose save was killed between its renames
    (tmp_path / "m.v2").rename(tmp_path / ".m.v2.0123abcd.old")
    with pytest.raises(ml.ModelFileError, match="does not exist"):
        ml.load(tmp_path / "m")
    save(tmp_path / "m", b"old")
    (tmp_path / "m" / ".certificate.json.1a2b3c4d").write_text('{"verd')  # half of it
    stranger, dead = tmp_path / ".m.0123abcd.saving", tmp_path / ".m.4567abcd.saving"
    for left, name in ((stranger, "photo.jpg"), (dead, ".tmpU5q9Sn")):  # safetensors writes `.tmp…` and renames it
        left.mkdir()
        (left / name).touch()
    with folders.new_folder(tmp_path / "m", overwrite=True) as scratch:
        save(tmp_path / "m", b"between")
        assert scratch.exists(), "a save clears what the dead left, not what the living use"
        fill(scratch, b"new")
    assert content(tmp_path / "m") == b"new"
    assert names(tmp_path / "m") == ["config.json", "model.safetensors"]
    assert names(tmp_path) == [stranger.name, ".m.v2.0123abcd.old", "m"]
    assert names(stranger) == ["photo.jpg"]
    assert content(tmp_path / "m.v2") == b"other"


KEYS = ["Saudi Arabia", "Peru", "New Zealand"]
CAPITALS, WORDS = ["Riyadh", "Lima", "Wellington"], ["a", "b", "c"]
"""Labels of the keys: their numbers in the order of names differ, so classes of one model beside weights of the other
are wrong answers that no check of shapes would notice."""
REPLACED: dict[str, Callable[[Any], Any]] = {
    "memorize": ml.memorize,
    "memorize_as": partial(ml.memorize_as, "bert", rank=16),
}
Call = Callable[[Path], Any]


def shown(*words: Any) -> Call:
    """A command, with @ for the folder: its exit code and what it prints."""

    def call(folder: Path) -> Any:
        with redirect_stdout(StringIO()) as text:
            return run([str(folder) if word == "@" else str(word) for word in words]), text.getvalue()

    return call


def readers(data: Path, still: Path) -> dict[str, Call]:
    """Everything that reads several files of a folder; `still`: another folder, that nobody replaces."""
    rows = [{"tokens": key, "label": label} for key, label in zip(KEYS, CAPITALS, strict=True)]
    data.write_text("\n".join(map(json.dumps, rows)))
    return {
        "predict": lambda folder: ml.load(folder).predict(KEYS).tolist(),
        "certify": lambda folder: ml.certify(folder, KEYS, CAPITALS).to_json(),
        "locate": lambda folder: ml.locate(folder, KEYS, CAPITALS).to_json(),
        "compare": lambda folder: ml.compare(folder, still, KEYS).to_json(),
        "forget": lambda folder: ml.forget(folder, [1], (KEYS, CAPITALS))[1].to_json(),
        "monolayer verify": shown("verify", "@", data, "--json"),
        "monolayer inspect": shown("inspect", "@", "--json"),
    }


def mixtures(call: Call, saved: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `call` finds in the first of two saved folders that the second replaces before a file is opened, and finds
    in neither of them: once for each file that it opens."""

    def put(source: Path) -> None:
        with folders.new_folder(folder, overwrite=True, kind=open_model(source).replaces) as scratch:
            shutil.copytree(source, scratch, dirs_exist_ok=True)

    def found(replaced_at: int) -> tuple[str, int]:
        put(saved[0])
        opened, count = os.open, 0

        def interrupted(*given: Any, **options: Any) -> int:
            nonlocal count
            if count == replaced_at:
                with monkeypatch.context() as inner:
                    inner.setattr(os, "open", opened)
                    put(saved[1])
            count += 1
            return opened(*given, **options)

        with monkeypatch.context() as outer:
            outer.setattr(os, "open", interrupted)
            try:
                return repr(call(folder)), count
            except ml.MonolayerError as error:
                return str(error), count

    before, opens = found(-1)
    after, _ = found(0)
    assert before != after
    assert opens > 3
    results = [found(number)[0] for number in range(1, opens)]
    return [result for result in results if result not in (before, after)]


@pytest.mark.parametrize("kind", REPLACED)
def test_a_folder_that_is_replaced_while_it_is_read_is_one_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(folders, "_sync", lambda path: None)
    saved = [REPLACED[kind](KEYS, labels, unit="words").save(tmp_path / labels[0]) for labels in (CAPITALS, WORDS)]
    calls = readers(tmp_path / "data.jsonl", shutil.copytree(saved[0], tmp_path / "still"))
    ml.certify(saved[0], KEYS, CAPITALS).save(saved[0])  # one of them has a certificate beside it
    if kind == "memorize":
        del calls["monolayer inspect"]  # these two models have the same sizes
    for name, call in calls.items():
        assert mixtures(call, saved, tmp_path / "m", monkeypatch) == [], name
    # Read by their paths, the files of two models come together, and that is noticed.
    monkeypatch.setattr(folders.OpenFolder, "_file", lambda opened, reader, name: reader(opened.path / name))
    monkeypatch.setattr(folders.OpenFolder, "is_whole", lambda opened: True)
    for name in ("predict", "certify", "monolayer verify"):
        assert mixtures(calls[name], saved, tmp_path / "m", monkeypatch) != [], name


@pytest.mark.parametrize("kind", REPLACED)
@pytest.mark.parametrize("way", ["load", "certify", "inspect"])
def test_a_folder_that_a_killed_save_left_aside_is_found_at_once(tmp_path: Path, kind: str, way: str) -> None:
    REPLACED[kind](KEYS, CAPITALS, unit="words").save(tmp_path / "m").rename(tmp_path / ".m.0123abcd.old")
    if way == "load":
        assert ml.load(tmp_path / "m").predict(KEYS).tolist() == CAPITALS
    elif way == "certify":
        assert ml.certify(tmp_path / "m", KEYS, CAPITALS)
    else:
        assert shown("inspect", "@")(tmp_path / "m")[0] == 0
    assert names(tmp_path) == ["m"]


def test_a_save_inside_a_folder_that_is_being_saved_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    with folders.new_folder(tmp_path / "m") as scratch:
        for inner in (scratch / "inner", scratch / "onnx" / "inner"):
            with pytest.raises(
                DataError, match=r"inner cannot be created: \.m\.[0-9a-f]{8}\.saving is .* Save this one"
            ):
                save(inner, b"new")
        fill(scratch, b"whole")
    assert content(tmp_path / "m") == b"whole"
    assert names(tmp_path) == ["m"]


def test_a_new_folder_has_the_permissions_that_the_user_asks_for(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        ml.memorize(["ab"], [["x", "y"]]).save(tmp_path / "m")
    finally:
        os.umask(mask)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()} == {0o640}
