"""Files: what is saved comes back bit for bit; what is broken is refused; what was there is not lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.data.aside import new_file
from monolayer.model import save as store


@pytest.fixture
def model() -> ml.Monolayer:
    return ml.memorize([["a", "b"], ["b", "c", "c"]], [["x", "y"], ["y", "z", "z"]])


def top(X: Any) -> Any:
    return X.max(axis=1, keepdims=True) + 0 * X


ROWS: Any = (["ab", "b"], [["x", "y"], ["z"]])
BUILDS: dict[str, Callable[[], Any]] = {
    "line": lambda: ml.memorize(*ROWS),
    "robust": lambda: ml.memorize(*ROWS, robust=True),
    "paper": lambda: ml.memorize([[1, 2]], [[0.5, 1.5]], readout="paper", fingerprint=True),
    "text": lambda: ml.memorize_text("to be or not to be"),
    "approximator": lambda: ml.approximate(top, 1, 2, cells=4),
    "uniform": lambda: ml.approximate(top, 1, 2, cells=4, norm="sup"),
    "stock": lambda: ml.memorize_as("bert", *ROWS, storage="steps"),
    "stock cells": lambda: ml.memorize_as("gpt2", *ROWS),
}


@pytest.mark.parametrize("kind", BUILDS)
def test_one_seed_gives_one_folder_byte_for_byte(kind: str, tmp_path: Path) -> None:
    one, two = (
        {file.name: file.read_bytes() for file in BUILDS[kind]().save(tmp_path / name).iterdir()} for name in "ab"
    )
    assert one == two


def change(name: str, content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content((folder / name).read_bytes()))

    return damage


def edit(key: str, value: object) -> Callable[[Path], None]:
    return change(store.CONFIG, lambda raw: json.dumps(json.loads(raw) | {key: value}).encode())


def foreign(folder: Path) -> None:
    """Weights of another format, with digests that match."""
    (folder / store.WEIGHTS).write_bytes(b"not safetensors")
    config = json.loads((folder / store.CONFIG).read_text())
    config["files"][store.WEIGHTS] = store.file_digest(folder / store.WEIGHTS)
    config["digest"] = store.config_digest(config)
    (folder / store.CONFIG).write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change(store.WEIGHTS, lambda raw: raw[:-8]), "truncated or was changed"),
        (change(store.WEIGHTS, lambda raw: raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]), "truncated or was changed"),
        (change(store.CONFIG, lambda raw: b"{"), "cannot be read as JSON"),
        (foreign, "cannot be read as safetensors"),
        (edit("causal", True), "config.json was changed after it was written"),
        (edit("version", 99), "format version 99, and this monolayer reads version 1 alone"),
        (edit("format", "other"), "not written by monolayer"),
        (lambda folder: (folder / store.CONFIG).unlink(), "no saved model"),
        (lambda folder: (folder / store.WEIGHTS).unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / store.NAMES).unlink(), "names.json is missing"),
        (shutil.rmtree, "does not exist"),
    ],
)
def test_a_broken_folder_is_refused(
    model: ml.Monolayer, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    folder = model.save(tmp_path / "m")
    damage(folder)
    with pytest.raises(ml.ModelFileError, match=message):
        ml.load(folder)


def test_names_that_are_no_valid_text_come_back(tmp_path: Path) -> None:
    X, Y = ["\ud800é"], [["\udfff", "x"]]
    folder = ml.memorize(X, Y).save(tmp_path / "m")
    assert ml.load(folder).predict(X)[0].tolist() == Y[0]
    assert ml.verify(folder, X, Y).verdict == "proved"


def test_a_model_can_be_overwritten_from_inside_and_through_a_link(
    model: ml.Monolayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model.save(tmp_path / "m")
    link = tmp_path / "link"
    link.symlink_to(folder)
    model.save(link, overwrite=True)
    assert link.is_symlink()
    monkeypatch.chdir(folder)
    model.save(".", overwrite=True)
    ml.load(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "m"]
    with pytest.raises(ml.DataError, match="exists already"):
        model.save(folder)
    with pytest.raises(ml.DataError, match=r"config\.json is a file, not a folder"):
        model.save(folder / "config.json" / "a")


def test_a_new_file_appears_whole_with_the_users_permissions_or_not_at_all(tmp_path: Path) -> None:
    def interrupted() -> None:
        with new_file(tmp_path / "lost") as file:
            file.write("half")
            raise KeyboardInterrupt

    mask = os.umask(0o077)
    try:
        with new_file(tmp_path / "kept") as file:
            file.write("all of it")
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        os.umask(mask)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "all of it"
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o600
