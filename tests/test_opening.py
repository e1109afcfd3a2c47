"""Folders that somebody else wrote: each is opened once, and costs no more than what it holds."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.checker.attached.files import read_attached
from monolayer.data import aside, limits
from monolayer.data.folder import INDEX_FILE, OpenFolder
from monolayer.huggingface.bare import language_model
from monolayer.huggingface.manifest import open_attached
from tests.hosts import FACTS

CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima"}
TERABYTE = 1 << 40


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, with_facts: Path) -> dict[str, tuple[Path, Any]]:
    """A folder of each kind, and the data that it holds."""
    top = tmp_path_factory.mktemp("folders")
    own = ml.memorize(CAPITALS).save(top / "own")
    stock = ml.memorize_as("bert", CAPITALS).save(top / "stock")
    return {"own": (own, CAPITALS), "stock": (stock, CAPITALS), "attached": (with_facts, FACTS)}


def grow(path: Path, size: int) -> None:
    """Make a sparse file of `size` bytes, or make one longer."""
    with path.open("ab"):
        os.truncate(path, size)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """At most 8 GB more of address space than now, so that a read of more is a `MemoryError` on every machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + (8 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


# -- bounds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["own", "stock"])
def test_a_huge_certificate_is_ignored_without_being_read(
    folders: dict[str, tuple[Path, Any]], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, data = folders[kind]
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    grow(copy / "certificate.json", 3 << 30)
    monkeypatch.setattr("monolayer.checker.certificate.Certificate.from_json", None)  # nobody parses it
    proof = ml.certify(copy, data)
    assert proof.verdict == "proved"
    note = "certificate.json in this folder is ignored: it cannot be read: it has 3,221,225,472 bytes, and at most"
    assert any(note in said for said in proof.notes)
    assert ml.load(copy).predict(["Japan"]) == ["Tokyo"]


@pytest.mark.parametrize("kind", ["own", "stock", "attached"])
@pytest.mark.parametrize("name", ["config.json", "names.json", "tokenizer.json", "attached.json", INDEX_FILE])
@pytest.mark.parametrize("size", [limits.SMALL + 1, TERABYTE])
def test_a_huge_json_file_is_one_clear_error(
    folders: dict[str, tuple[Path, Any]], kind: str, name: str, size: int, tmp_path: Path, little_memory: None
) -> None:
    folder, data = folders[kind]
    if not (folder / name).exists():
        pytest.skip("this kind of folder does not have this file")
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    grow(copy / name, size)
    words = (
        "parts of it were never written" if size < TERABYTE else "1,099,511,627,776 bytes, and at most 1,073,741,824"
    )
    for verb in (lambda: ml.certify(copy, data), lambda: ml.load(copy), lambda: ml.locate(copy, data)):
        with pytest.raises(ml.ModelFileError, match=f"(?s){name}.*{words}"):
            verb()


@pytest.mark.parametrize("kind", ["own", "stock", "attached"])
def test_weights_that_are_longer_than_their_header_says_are_not_read(
    folders: dict[str, tuple[Path, Any]], kind: str, tmp_path: Path, little_memory: None
) -> None:
    folder, data = folders[kind]
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    weights = next(copy.glob("*.safetensors"))
    grow(weights, TERABYTE)
    words = "its length, 1,099,511,627,776 bytes, is not what its header says"
    for verb in (lambda: ml.certify(copy, data), lambda: ml.load(copy)):
        with pytest.raises(ml.ModelFileError, match=words):
            verb()


def test_weights_that_do_not_fit_into_memory_are_one_clear_error(tmp_path: Path, little_memory: None) -> None:
    header = json.dumps({"w": {"dtype": "U8", "shape": [TERABYTE], "data_offsets": [0, TERABYTE]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    grow(file, 8 + len(header) + TERABYTE)
    with pytest.raises(OSError, match=r"its 1,099,511,627,8.. bytes do not fit into memory"):
        aside.read_regular(file)


def test_a_header_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes((limits.LONGEST_HEADER + 1).to_bytes(8, "little"))
    grow(file, TERABYTE)
    with pytest.raises(OSError, match="its header is longer than the file, or than a header may be"):
        aside.map_regular(file)


def test_a_model_whose_names_cannot_be_read_again_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ml.memorize(CAPITALS)
    monkeypatch.setattr(limits, "LARGEST_FILE", 20)
    with pytest.raises(ml.DataError, match=r"the names of tokens and labels take .* bytes in .*json"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


# -- one folder, opened once ---------------------------------------------------------------------------


def test_attached_folders_are_not_read_by_path(
    folders: dict[str, tuple[Path, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a folder is open, its path may lead anywhere."""
    folder = folders["attached"][0]
    link, other = tmp_path / "link", folders["own"][0]
    link.symlink_to(folder)
    opened = open_attached(link)
    link.unlink()
    link.symlink_to(other)
    found = read_attached(opened)
    assert found.manifest.neurons > 0
    assert set(opened.sizes) == {path.name for path in folder.iterdir()}


def swapping(link: Path, folders: list[Path]) -> Callable[..., Any]:
    """A reader of files that swaps what `link` leads to before every file that is read, in turn."""
    real, turn = OpenFolder._file, 0

    def read(opened: OpenFolder, reader: Any, name: str) -> Any:
        nonlocal turn
        if turn < 8:  # then the link stays, so that somebody can read the folder
            turn += 1
            spare = link.with_name("spare")
            spare.symlink_to(folders[turn % len(folders)])
            spare.replace(link)
        return real(opened, reader, name)

    return read


@pytest.mark.parametrize("first", ["own", "stock", "attached"])
@pytest.mark.parametrize("second", ["own", "stock", "attached"])
def test_a_link_that_is_swapped_between_kinds_gives_one_of_them(
    folders: dict[str, tuple[Path, Any]], first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(folders[first][0])
    both = [folders[first][0], folders[second][0]]
    kinds = {type(ml.load(folder)).__name__ for folder in both}
    monkeypatch.setattr(OpenFolder, "_file", swapping(link, both))
    assert type(ml.load(link)).__name__ in kinds
    monkeypatch.setattr(OpenFolder, "_file", swapping(link, both))
    data = {**CAPITALS, **FACTS} if first == second == "attached" else CAPITALS
    if "attached" not in (first, second):
        assert ml.certify(link, data).verdict == "proved"


def test_transformers_must_load_what_was_opened(folders: dict[str, tuple[Path, Any]], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["attached"][0], tmp_path / "copy"))
    model = ml.load(copy)
    (copy / "README.md").write_text("transformers do not read this")
    ml.certify(copy, FACTS).save(copy)
    assert model.predict(list(FACTS)[:1]) == list(FACTS.values())[:1]
    weights = next(copy.glob("*.safetensors"))
    os.utime(weights, ns=(1, 1))
    with pytest.raises(ml.ModelFileError, match="changed while it was read"):
        model.predict(list(FACTS)[:1])


@pytest.mark.parametrize("metadata", [None, [], "absent"])
def test_an_index_that_transformers_cannot_load_is_not_proved(
    folders: dict[str, tuple[Path, Any]], metadata: object, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(folders["attached"][0], tmp_path / "copy"))
    index = json.loads((copy / INDEX_FILE).read_text())
    index["metadata"] = metadata
    if metadata == "absent":
        del index["metadata"]
    (copy / INDEX_FILE).write_text(json.dumps(index))
    for verb in (lambda: ml.certify(copy, FACTS), lambda: ml.load(copy), lambda: ml.locate(copy, FACTS)):
        with pytest.raises(ml.ModelFileError, match=rf"{INDEX_FILE} cannot be read.*metadata"):
            verb()


def test_an_index_with_a_format_of_its_own_is_not_proved(folders: dict[str, tuple[Path, Any]], tmp_path: Path) -> None:
    """With dtype='auto', transformers take the format from there."""
    copy = Path(shutil.copytree(folders["attached"][0], tmp_path / "copy"))
    index = json.loads((copy / INDEX_FILE).read_text())
    index["metadata"]["dtype"] = "float16"
    (copy / INDEX_FILE).write_text(json.dumps(index))
    proof = ml.certify(copy, FACTS)
    assert proof.verdict == "undecided"
    assert "metadata" in proof.reason


def test_config_may_claim_any_number_of_layers(folders: dict[str, tuple[Path, Any]], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["attached"][0], tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    config["n_layer"] = 10**15
    (copy / "config.json").write_text(json.dumps(config))
    found = language_model(open_attached(copy))
    assert found is not None
    assert found.bare
