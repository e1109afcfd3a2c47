"""Weights in several files: loader and checker, whole or part by part, take the same folders.

Data in many files get the certificate that they get as one, word for word, a file at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

import monolayer as ml
from monolayer.cli import run
from monolayer.cluster.memorize import memorize_files
from monolayer.data import read
from monolayer.model.attention import LABEL
from monolayer.saved.certify import certify_files
from tests.cut_files import crowd, data_of, small_pieces, write
from tests.stored_models import sealed
from tests.verdicts import expect, refused

pytestmark = pytest.mark.usefixtures("bounds_alone")

INDEX = "model.safetensors.index.json"
Files = dict[str, bytes]
Part = dict[str, Any]


@pytest.fixture(scope="module", params=["line", "cascade", "reals"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, Y, _ = data_of("ids")
    if request.param == "reals":
        Y = [[label / 3 for label in row] for row in Y]
    place = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch, 1000, 700)
        crowd(patch, 1e10 if request.param == "cascade" else 8.0)
        return memorize_files(write(place, X, Y, [100]), place / "model", workers=1)


def shards(files: Files) -> list[str]:
    return sorted(name for name in files if name.startswith("model-"))


def parts(change: Callable[[list[Part]], Any]) -> Callable[[Files], None]:
    """Other tensors in some parts, and an index that tells the truth about them."""

    def fault(files: Files) -> None:
        names = shards(files)
        found = [load(files[name]) for name in names]
        change(found)
        size = sum(values.nbytes for part in found for values in part.values())
        where = {key: name for name, part in zip(names, found, strict=True) for key in part}
        files[INDEX] = json.dumps({"metadata": {"total_size": size}, "weight_map": where}).encode()
        files.update({name: save(part) for name, part in zip(names, found, strict=True)})

    return fault


def written(files: Files, folder: Path) -> Path:
    """With digests that fit."""
    config = json.loads(files["config.json"])
    config["files"] = {name: hashlib.sha256(files.get(name, b"")).hexdigest() for name in config["files"]}
    folder.mkdir()
    for name, content in (files | {"config.json": sealed(config)}).items():
        (folder / name).write_bytes(content)
    return folder


def index(change: Callable[[dict[str, Any]], Any]) -> Callable[[Files], None]:
    def fault(files: Files) -> None:
        said = json.loads(files[INDEX])
        change(said)
        files[INDEX] = json.dumps(said).encode()

    return fault


def first_also(tensor: str) -> Callable[[Files], None]:
    """One more tensor in the first file."""

    def change(found: list[Part]) -> None:
        found[0][f"feed_forward.stages.0.{tensor}"] = torch.zeros(1, dtype=torch.float64)

    return parts(change)


def renamed(part: Part, to: int) -> Part:
    return {f"{name.rsplit('.', 1)[0]}.{to}": values for name, values in part.items()}


def part_twice(found: list[Part]) -> None:
    other = next(i for i in range(2, len(found)) if len(save(found[i])) != len(save(found[1])))
    found[other] = renamed(found[1], other)


def moved(tensor: str) -> Callable[[Files], None]:
    """The last number of a tensor in the next part: together they are the same, but steps are torn apart."""

    def change(found: list[Part]) -> None:
        one, two = found[1:3]
        (mine,), (other,) = ([key for key in part if f".{tensor}." in key] for part in (one, two))
        both, cut = torch.cat([one[mine], two[other]], dim=-1), one[mine].shape[-1] - 1
        one[mine], two[other] = both[..., :cut].clone(), both[..., cut:].clone()

    return parts(change)


def other_type(tensor: str, dtype: torch.dtype) -> Callable[[Files], None]:
    """A tensor of the first part in another format."""

    def change(found: list[Part]) -> None:
        name = f"feed_forward.stages.0.{tensor}.1"
        found[1][name] = found[1][name].to(dtype)

    return parts(change)


def swapped(found: list[Part]) -> None:
    found[1], found[2] = renamed(found[2], 1), renamed(found[1], 2)


def header(**change: Any) -> Callable[[Files], None]:
    """The first tensor of the second file, described otherwise."""

    def fault(files: Files) -> None:
        raw = files[shards(files)[1]]
        end = 8 + int.from_bytes(raw[:8], "little")
        said = json.loads(raw[8:end])
        said[next(iter(said))] |= change
        text = json.dumps(said).encode()
        files[shards(files)[1]] = len(text).to_bytes(8, "little") + text + raw[end:]

    return fault


def second_file(content: bytes) -> Callable[[Files], None]:
    """Replace the content of the second file."""

    def fault(files: Files) -> None:
        files[shards(files)[1]] = content

    return fault


def swap_files(files: Files) -> None:
    """Exchange the contents of the second and the third file."""
    _, second, third, *_ = shards(files)
    files[second], files[third] = files[third], files[second]


def drop_last_file(files: Files) -> None:
    del files[shards(files)[-1]]


def wrong_total_size(said: dict[str, Any]) -> None:
    said["metadata"]["total_size"] = 8


def unknown_key(said: dict[str, Any]) -> None:
    said["more"] = 1


def file_outside_the_folder(said: dict[str, Any]) -> None:
    said["weight_map"]["head.bias"] = "../a.safetensors"


def missing_tensor(said: dict[str, Any]) -> None:
    del said["weight_map"]["head.bias"]


UNREADABLE = r"model-00002-of-\d+\.safetensors cannot be read"
OTHER_INDEX = r"index\.json does not"
TORN = "as many numbers of each|more of one of its tensors"
FAULTS: dict[str, tuple[Callable[[Files], Any], str]] = {
    "a bias that is rounded": (
        other_type("bias_1", torch.float32),
        r"bias_1\.1 .* must be F64|a bias that is not float64",
    ),
    "a format that parts do not have": (other_type("weight_2", torch.float16), r"weight_2\.1 is F16"),
    "steps that are no floats": (other_type("weight_1", torch.int64), r"weight_1\.1 is I64"),
    "steps in the first file too": (first_also("weight_1"), "model-00001-of-.* holds"),
    "a part in the first file too": (
        first_also("weight_1.1"),
        r"'feed_forward\.stages\.0\.weight_1\.1'|index\.json does not agree",
    ),
    "a tensor that nobody knows": (first_also("more"), r"'feed_forward\.stages\.0\.more'"),
    "a part twice": (parts(part_twice), "weight_1 (is float64|has shape) "),
    "a bias in the part behind its step": (moved("bias_1"), TORN),
    "a step in the part behind its bias": (moved("weight_1"), TORN),
    "a label in the part behind its step": (moved("weight_2"), TORN),
    "parts in each other's files": (swap_files, OTHER_INDEX),
    "a file missing": (drop_last_file, r"model-0000\d-of-.*(is missing|No such file)"),
    "an empty file": (second_file(b""), "model-00002-of-.* this file is empty"),
    "a header without end": (second_file((2**63).to_bytes(8, "little") + b"{}"), UNREADABLE),
    "a header nested deeply": (second_file((10**5 + 4).to_bytes(8, "little") + b'{"a":' + b"[" * 10**5), UNREADABLE),
    "a negative shape": (header(shape=[-1]), UNREADABLE),
    "no places": (header(data_offsets=None), UNREADABLE),
    "places that are no whole numbers": (header(data_offsets=[0.0, 8.0]), UNREADABLE),
    "a hole": (header(data_offsets=[8, 16]), UNREADABLE),
    "another size": (index(wrong_total_size), OTHER_INDEX),
    "more in the index": (index(unknown_key), OTHER_INDEX),
    "a tensor said to lie elsewhere": (index(file_outside_the_folder), OTHER_INDEX),
    "a tensor left out": (index(missing_tensor), OTHER_INDEX),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_folder_is_refused_by_all(folder: Path, fault: str, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(shards(files)) > 3
    plant, words = FAULTS[fault]
    plant(files)
    refused(words, written(files, tmp_path / "broken"))


@pytest.mark.parametrize("reader", [ml.load, lambda folder: ml.certify(folder, [[0]], [[0]])])
def test_sizes_are_compared_before_anything_is_hashed(
    folder: Path, reader: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part may be a sparse file of any length, which takes hours to hash."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    last, count = shards(files)[-1], 1 << 22
    large = written(files, tmp_path / "large")
    header = json.dumps({"w": {"dtype": "F64", "shape": [count], "data_offsets": [0, 8 * count]}}).encode()
    (large / last).write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(large / last, 8 + len(header) + 8 * count)
    real = hashlib.sha256

    def only_small(content: Any = b"") -> Any:
        assert len(content) < 8 * count, "a large file is hashed"
        return real(content)

    monkeypatch.setattr("monolayer.checker.stored.hashlib.sha256", only_small)
    monkeypatch.setattr("monolayer.model.load.sha256", only_small)
    with pytest.raises(ml.ModelFileError, match=OTHER_INDEX):
        reader(large)


def test_parts_in_another_order_are_answered_and_left_undecided(folder: Path, tmp_path: Path) -> None:
    """Steps that do not rise one after the other: no search, the same answers, and no proof."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    parts(swapped)(files)
    other = written(files, tmp_path / "other")
    X, Y, _ = data_of("ids")
    if ml.load(other).feed_forward.readout == "runs":
        Y = [[label / 3 for label in row] for row in Y]
    else:
        assert np.array_equal(ml.load(other).predict(X), Y)
    expect("undecided", "stand in order", other, X, Y)


# -- data in several files -----------------------------------------------------------------------------------

PARTS = ["s0.jsonl", "s1.jsonl", "s2.jsonl"]


def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, slack: float = 8.0) -> tuple[Path, str, Any, Any]:
    """A model in several files, the pattern of its data, and the data themselves."""
    X, Y, options = data_of(kind)
    pattern = write(tmp_path / "data", X, Y, [100, 250])
    with monkeypatch.context() as patch:
        small_pieces(patch, 500, 300)
        crowd(patch, slack)
        return memorize_files(pattern, tmp_path / "model", workers=1, **options), pattern, X, Y


def both(verdict: str, words: str, model: Path, pattern: str) -> ml.Certificate:
    """The certificate, after both ways gave the same one."""
    two = certify_files(model, [str(Path(pattern).parent / name) for name in PARTS])
    assert two is not None
    assert two.to_json() == ml.certify(model, read(pattern)).to_json()
    assert two.verdict == verdict, two.explain()
    assert words in two.reason, two.explain()
    return two


@pytest.mark.parametrize(
    ("kind", "slack"), [("positions", 8.0), ("sequences", 8.0), ("causal", 8.0), ("next tokens", 8.0), ("ids", 1e10)]
)
def test_the_same_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, slack: float) -> None:
    model, pattern, X, Y = built(tmp_path, monkeypatch, kind, slack)
    both("proved", "", model, pattern)
    ml.load(model).save(tmp_path / "one")  # in one file
    both("proved", "", tmp_path / "one", pattern)
    if Y is None:
        return
    classes = sorted({label for row in Y for label in row}) if isinstance(Y[0], list) else sorted(set(Y))
    for row in (3, 120, 121, 299):
        one = Y[row][0] if isinstance(Y[row], list) else Y[row]
        other = classes[(classes.index(one) + 1) % len(classes)]
        Y[row] = [other, *Y[row][1:]] if isinstance(Y[row], list) else "?"
    X[260] = ["never seen" if isinstance(X[0][0], str) else 999, *X[260][1:]]
    write(tmp_path / "data", X, Y, [100, 250])
    found = both("refuted", "", model, pattern)
    assert found.wrong >= 4
    assert [finding.sequence for finding in found.findings][:3] == [3, 120, 121]


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    model, pattern, X, Y = built(tmp_path, monkeypatch, "ids")
    monkeypatch.setattr("monolayer.cli.reading.Reading.read", lambda *_, **__: pytest.fail("all files at once"))
    assert json.loads(said("verify", str(model), pattern, "--json"))["points"] == 2400
    Y[0][0] = (Y[0][0] + 1) % 5
    write(tmp_path / "data", X, Y, [100, 250])
    said("verify", str(model), pattern, code=1)
    (tmp_path / "data" / "s1.jsonl").write_text('{"tokens": ["a"], "labels": [1]}\n')
    assert "do not go together" in said("verify", str(model), pattern, code=2)


def test_the_largest_value_of_a_later_stage_in_another_file(tmp_path: Path, demanding: Callable[[float], None]) -> None:
    demanding(1e11)
    random = np.random.default_rng(0)
    X, Y = random.integers(0, 30, (200, 6)), random.integers(0, 5, (200, 6))
    model = ml.memorize(X, Y, positions=True)
    order = np.argsort((X == 7).any(axis=1), kind="stable")
    pattern = write(tmp_path / "data", X[order].tolist(), Y[order].tolist(), [20, 100])
    with torch.no_grad():
        model.lift.weight[7, LABEL + 1] = 2.0**100  # every other point errs by its share at most
    model.save(tmp_path / "model")
    assert both("refuted", "", tmp_path / "model", pattern).unsure > 0


def test_short_formats_and_vectors_are_held_at_once(tmp_path: Path) -> None:
    X, Y = [[1, 2], [3, 4]], [[0, 1], [1, 0]]
    ml.memorize(X, Y).half().save(tmp_path / "half")
    assert run(["verify", str(tmp_path / "half"), write(tmp_path / "ids", X, Y, [1])]) == 3
    pattern = write(tmp_path / "vectors", [[[1.0, 2.0]], [[3.0, 4.0]]], [[1], [2]], [1])
    ml.memorize(read(pattern)).save(tmp_path / "model")
    assert certify_files(tmp_path / "model", [str(tmp_path / "vectors" / f"s{i}.jsonl") for i in range(2)]) is None


def test_real_labels_and_copies_of_a_sequence_in_several_files(tmp_path: Path) -> None:
    """The point with the least margin stands in each of them: the first in the data is named."""
    random = np.random.default_rng(0)
    X, Y = np.tile(random.integers(0, 90, (40, 6)), (4, 1)), np.tile(random.normal(size=40).round(1), 4)
    order = random.permutation(len(X))
    X, Y = X[order], Y[order]
    Y[(X[0] == X).all(axis=1)] = 0.0
    Y[0] = -0.0
    pattern = write(tmp_path / "data", X.tolist(), Y.tolist(), [50, 100])
    ml.memorize(read(pattern), positions=True).save(tmp_path / "model")
    both("proved", "", tmp_path / "model", pattern)
    Y[-1] += 1e-6
    write(tmp_path / "data", X.tolist(), Y.tolist(), [50, 100])
    both("refuted", "to within 1.01e-06 it would be proved", tmp_path / "model", pattern)
