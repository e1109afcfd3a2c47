"""Folders that are replaced: what is not ours stays, what is ours is there at every moment, nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import monolayer as ml
from monolayer.data import folder as folders
from monolayer.data import snapshot
from monolayer.data.exchange import exchange, rename_new
from tests import killing

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def models() -> tuple[ml.Monolayer, ml.Monolayer]:
    return ml.memorize(["ab"], [["x", "y"]]), ml.memorize(["abc", "b"], [["y", "z", "z"], ["x"]])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what is not ours --------------------------------------------------------------------------------------


def thesis(folder: Path) -> str:
    (folder / "thesis.tex").write_text("ten years")
    return "thesis.tex"


def history(folder: Path) -> str:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    return ".git"


def folder_with_a_good_name(folder: Path) -> str:
    (folder / "certificate.json").mkdir()
    return "certificate.json"


@pytest.mark.parametrize("put", [thesis, history, folder_with_a_good_name])
def test_a_model_with_something_foreign_beside_it_is_not_replaced(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path, put: Callable[[Path], str]
) -> None:
    folder = models[0].save(tmp_path / "m")
    foreign = put(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ml.DataError, match=f"holds '{foreign}', which is no part of a model"):
        models[1].save(folder, overwrite=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize("config", ['{"model_type": "bert"}', "[]", '"format"', "{", "", '{"format": ["monolayer"]}'])
def test_a_folder_with_the_config_of_another_program_is_not_replaced(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path, config: str
) -> None:
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_text(config)
    with pytest.raises(ml.DataError, match="holds no model"):
        models[0].save(folder, overwrite=True)
    assert (folder / "config.json").read_text() == config


def test_a_model_with_a_certificate_and_a_half_written_one_is_replaced(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path
) -> None:
    folder = models[0].save(tmp_path / "m")
    ml.certify(folder, ["ab"], [["x", "y"]]).save(folder)
    (folder / ".certificate.json.1a2b3c4d").write_text('{"verd')
    models[1].save(folder, overwrite=True)
    assert names(folder) == ["config.json", "model.safetensors", "names.json"]


def test_what_comes_in_the_last_moment_is_not_lost(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = models[0].save(tmp_path / "m")

    def late(one: Path, two: Path) -> bool:
        if not (two / "thesis.tex").exists() and not (one / "thesis.tex").exists():
            (two / "thesis.tex").write_text("just in time")
        return exchange(one, two)

    monkeypatch.setattr(folders, "exchange", late)
    with pytest.raises(ml.DataError, match=r"'thesis\.tex' was put into it"):
        models[1].save(folder, overwrite=True)
    assert (folder / "thesis.tex").read_text() == "just in time"
    assert ml.load(folder).card == models[0].card


# -- at every moment ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [[], ["no-exchange"]])
def test_killed_at_any_step_the_old_or_the_new_folder_is_there(tmp_path: Path, how: list[str]) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.killing", str(tmp_path / "m"), *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps, old, new, aside = map(int, done.stdout.split())
    assert steps > 50
    assert min(old, new) > 10, "kills before and after the new folder was in place"
    assert (aside > 0) == bool(how), "only two renames leave a moment without a folder, and then it comes back"


def test_the_kills_would_notice_a_moment_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the way back, the same kills find nothing there."""
    monkeypatch.setattr(folders, "exchange", lambda one, two: False)
    for module in (folders, snapshot):
        monkeypatch.setattr(module, "recover", lambda final: False)

    def stop(source: Path, target: Path) -> None:
        if source.with_suffix(".old").exists():
            raise KeyboardInterrupt
        rename_new(source, target)

    killing.save(tmp_path / "m", b"old")
    monkeypatch.setattr(folders, "rename_new", stop)
    with pytest.raises(KeyboardInterrupt):
        killing.save(tmp_path / "m", b"new")
    with pytest.raises(FileNotFoundError):
        killing.content(tmp_path / "m")


@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt(), OSError("the disk went away")])
@pytest.mark.parametrize("exchanging", [True, False])
def test_stopped_in_the_moment_of_moving_the_old_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_by: BaseException, exchanging: bool
) -> None:
    killing.save(tmp_path / "m", b"old")
    moved: list[Path] = []

    def stop(source: Path, target: Path) -> None:
        if source.suffix == ".saving":
            if target.exists():
                raise FileExistsError
            moved.append(source)
            raise stopped_by
        rename_new(source, target)

    def stop_exchange(one: Path, two: Path) -> bool:
        if exchanging:
            moved.append(one)
            raise stopped_by
        return False

    monkeypatch.setattr(folders, "rename_new", stop)
    monkeypatch.setattr(folders, "exchange", stop_exchange)
    with pytest.raises(type(stopped_by)):
        killing.save(tmp_path / "m", b"new")
    assert moved
    assert killing.content(tmp_path / "m") == b"old"
    assert names(tmp_path) == ["m"]


@pytest.mark.parametrize("exchanging", [True, False])
def test_two_savers_and_a_reader_at_once(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanging: bool
) -> None:
    if not exchanging:
        monkeypatch.setattr(folders, "exchange", lambda one, two: False)
    monkeypatch.setattr(folders, "_sync", lambda path: None)
    folder = models[0].save(tmp_path / "m")
    failures: list[BaseException] = []

    def saver(model: ml.Monolayer) -> None:
        try:
            for _ in range(60):
                model.save(folder, overwrite=True)
        except BaseException as error:
            failures.append(error)

    savers = [threading.Thread(target=saver, args=(model,)) for model in models]
    for thread in savers:
        thread.start()
    seen = []
    try:
        while any(thread.is_alive() for thread in savers):
            seen.append(len(ml.load(folder).card.vocabulary or ()))
            ml.certify(folder, ["b"], [["x"]])
    finally:
        for thread in savers:
            thread.join()
    assert failures == []
    assert set(seen) <= {2, 3}, "the reader saw one model or the other, whole"
    assert names(tmp_path) == ["m"]


def test_a_new_folder_that_another_process_makes_first_is_not_replaced_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_first(path: Path) -> None:
        killing.save(tmp_path / "m", b"first")

    def second() -> None:
        with folders.new_folder(tmp_path / "m") as scratch:
            (scratch / "config.json").write_text(json.dumps({"format": "monolayer"}))
            make_first(scratch)

    with pytest.raises(ml.DataError, match="exists already"):
        second()
    assert killing.content(tmp_path / "m") == b"first"
    assert names(tmp_path) == ["m"]


def test_workshops_of_the_living_and_of_strangers_stay(tmp_path: Path) -> None:
    killing.save(tmp_path / "m", b"old")
    stranger = tmp_path / ".m.0123abcd.saving"
    stranger.mkdir()
    (stranger / "photo.jpg").touch()
    with folders.new_folder(tmp_path / "m", overwrite=True) as scratch:
        killing.save(tmp_path / "m", b"between")
        assert scratch.exists(), "a save clears what the dead left, not what the living use"
        (scratch / "model.safetensors").write_bytes(b"new")
        (scratch / "config.json").write_bytes(b'{"format": "monolayer", "is": "new"}')
    assert killing.content(tmp_path / "m") == b"new"
    assert names(tmp_path) == [".m.0123abcd.saving", "m"]
    assert (stranger / "photo.jpg").exists()


def test_workshops_of_a_longer_name_stay(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`m.v2`, replaced by two renames and killed between them, exists beside its place alone."""
    monkeypatch.setattr(folders, "exchange", lambda one, two: False)
    models[1].save(tmp_path / "m.v2").rename(tmp_path / ".m.v2.0123abcd.old")
    with pytest.raises(ml.ModelFileError, match="does not exist"):
        ml.load(tmp_path / "m")
    models[0].save(tmp_path / "m")
    models[0].save(tmp_path / "m", overwrite=True)
    assert len(ml.load(tmp_path / "m").card.vocabulary or ()) == 2
    assert len(ml.load(tmp_path / "m.v2").card.vocabulary or ()) == 3


def test_renames_that_the_system_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")
    if exchange(one, two):
        assert (one.read_text(), two.read_text()) == ("2", "1")
        with pytest.raises(FileNotFoundError):
            exchange(one, tmp_path / "none")
    for lacking in (False, True):
        if lacking:
            monkeypatch.setattr("monolayer.data.exchange._rename", None)
            assert not exchange(one, two)
        with pytest.raises(FileExistsError):
            rename_new(one, two)
        rename_new(one, tmp_path / "three")
        rename_new(tmp_path / "three", one)
        full = tmp_path / f"full{lacking}"
        full.mkdir()
        (full / "file").touch()
        with pytest.raises(FileExistsError):
            rename_new(tmp_path / f"full{lacking}", tmp_path / "two")


def test_a_new_folder_has_the_permissions_that_the_user_asks_for(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path
) -> None:
    mask = os.umask(0o027)
    try:
        models[0].save(tmp_path / "m")
    finally:
        os.umask(mask)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()} == {0o640}


def test_what_a_killed_library_left_is_cleared(tmp_path: Path) -> None:
    """safetensors writes `.tmp…` and renames it; a random kill found one that stayed."""
    left = tmp_path / ".m.0123abcd.saving"
    left.mkdir()
    (left / ".tmpU5q9Sn").touch()
    killing.save(tmp_path / "m", b"new")
    assert names(tmp_path) == ["m"]


def test_a_short_run_of_the_random_kills() -> None:
    command = [sys.executable, "bench/no_model_lost_in_5000_kills.py", "--kills", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-2:] for line in done.stdout.splitlines()[1:]] == [["0", "0"], ["0", "0"]]


def test_a_folder_that_vanishes_while_it_is_looked_at_is_looked_at_again(
    models: tuple[ml.Monolayer, ml.Monolayer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two renames replace a folder, another save may find it missing between them."""
    folder = models[0].save(tmp_path / "m")
    listing, calls = folders.Kind.foreign, []

    def vanishing(kind: folders.Kind, inside: Path, **options: bool) -> str | None:
        calls.append(inside)
        if len(calls) == 1:
            raise FileNotFoundError(2, "No such file or directory", str(inside))
        return listing(kind, inside, **options)

    monkeypatch.setattr(folders.Kind, "foreign", vanishing)
    models[1].save(folder, overwrite=True)
    assert len(ml.load(folder).card.vocabulary or ()) == len(models[1].card.vocabulary or ())
