"""Folders that are replaced: what is not ours stays, what is ours is there at every moment, nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path

import pytest

import monolayer as ml
from monolayer.data import folder as folders
from monolayer.errors import DataError
from tests import killing

ROOT = Path(__file__).parent.parent


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what is not ours --------------------------------------------------------------------------------------


@pytest.mark.parametrize("foreign", ["thesis.tex", ".git/HEAD", "certificate.json/of marriage"])
def test_a_model_with_something_foreign_beside_it_is_not_replaced(tmp_path: Path, foreign: str) -> None:
    killing.save(tmp_path / "m", b"old")
    (tmp_path / "m" / foreign).parent.mkdir(exist_ok=True)
    (tmp_path / "m" / foreign).write_text("ten years")
    with pytest.raises(DataError, match=f"holds '{foreign.split('/')[0]}', which is no part of a model"):
        killing.save(tmp_path / "m", b"new")
    assert (tmp_path / "m" / foreign).read_text() == "ten years"
    assert killing.content(tmp_path / "m") == b"old"
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize("config", ['{"model_type": "bert"}', "[]", '"format"', "{", "", '{"format": ["monolayer"]}'])
def test_a_folder_with_the_config_of_another_program_is_not_replaced(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(DataError, match=r'holds no model: no config\.json that says "format": "monolayer"'):
        killing.save(tmp_path, b"new")
    assert (tmp_path / "config.json").read_text() == config


def test_what_comes_in_the_last_moment_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killing.save(tmp_path / "m", b"old")
    objection = folders.Kind.objection

    def late(kind: folders.Kind, folder: Path) -> str | None:
        found = objection(kind, folder)
        if list(tmp_path.glob(".m.*.saving")):  # not the look before anything is written
            (folder / "thesis.tex").write_text("just in time")
        return found

    monkeypatch.setattr(folders.Kind, "objection", late)
    with pytest.raises(DataError, match=r"'thesis\.tex' was put into it"):
        killing.save(tmp_path / "m", b"new")
    assert (tmp_path / "m" / "thesis.tex").read_text() == "just in time"
    assert killing.content(tmp_path / "m") == b"old"


# -- at every moment ---------------------------------------------------------------------------------------


def test_killed_at_any_step_the_old_or_the_new_folder_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.killing", str(tmp_path / "m")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps, old, new, aside = map(int, done.stdout.split())
    assert steps > 50
    assert min(old, new) > 10, "kills before and after the new folder was in place"
    assert aside > 0, "between the renames there is no folder, and then it comes back"


@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt(), OSError("the disk went away")])
@pytest.mark.parametrize("at", [0, 1])
def test_stopped_at_a_rename_the_old_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_by: BaseException, at: int
) -> None:
    killing.save(tmp_path / "m", b"old")
    rename, calls = Path.rename, count()

    def stop_rename(source: Path, target: Path) -> Path:
        if next(calls) == at:
            raise stopped_by
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", stop_rename)
    with pytest.raises(type(stopped_by)):
        killing.save(tmp_path / "m", b"new")
    assert killing.content(tmp_path / "m") == b"old"
    assert names(tmp_path) == ["m"]


def test_two_savers_and_a_reader_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_sync", lambda path: None)
    killing.save(tmp_path / "m", b"one")
    failures: list[BaseException] = []

    def saver(text: bytes) -> None:
        try:
            for _ in range(20):
                killing.save(tmp_path / "m", text)
        except BaseException as error:
            failures.append(error)

    savers = [threading.Thread(target=saver, args=(text,)) for text in (b"one", b"another")]
    for thread in savers:
        thread.start()
    seen = set()
    while any(thread.is_alive() for thread in savers):
        seen.add(killing.content(tmp_path / "m"))  # an error here is a reader that mixed two saves, or found none
    assert failures == []
    assert seen <= {b"one", b"another"}
    assert names(tmp_path) == ["m"]


def test_a_folder_that_another_process_makes_first_is_not_replaced_unasked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exists already"), folders.new_folder(tmp_path / "m"):
        killing.save(tmp_path / "m", b"first")
    assert killing.content(tmp_path / "m") == b"first"
    assert names(tmp_path) == ["m"]


def test_what_the_dead_left_goes_and_what_the_living_and_strangers_have_stays(tmp_path: Path) -> None:
    killing.save(tmp_path / "m.v2", b"other")  # whose save was killed between its renames
    (tmp_path / "m.v2").rename(tmp_path / ".m.v2.0123abcd.old")
    with pytest.raises(ml.ModelFileError, match="does not exist"):
        ml.load(tmp_path / "m")
    killing.save(tmp_path / "m", b"old")
    (tmp_path / "m" / ".certificate.json.1a2b3c4d").write_text('{"verd')  # half of it
    stranger, dead = tmp_path / ".m.0123abcd.saving", tmp_path / ".m.4567abcd.saving"
    for left, name in ((stranger, "photo.jpg"), (dead, ".tmpU5q9Sn")):  # safetensors writes `.tmp…` and renames it
        left.mkdir()
        (left / name).touch()
    with folders.new_folder(tmp_path / "m", overwrite=True) as scratch:
        killing.save(tmp_path / "m", b"between")
        assert scratch.exists(), "a save clears what the dead left, not what the living use"
        killing.fill(scratch, b"new")
    assert killing.content(tmp_path / "m") == b"new"
    assert names(tmp_path / "m") == ["config.json", "model.safetensors"]
    assert names(tmp_path) == [stranger.name, ".m.v2.0123abcd.old", "m"]
    assert names(stranger) == ["photo.jpg"]
    assert killing.content(tmp_path / "m.v2") == b"other"


def test_a_new_folder_has_the_permissions_that_the_user_asks_for(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        ml.memorize(["ab"], [["x", "y"]]).save(tmp_path / "m")
    finally:
        os.umask(mask)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()} == {0o640}
