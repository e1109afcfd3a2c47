"""Questions about what cannot be read: damaged files, objects without values, long lines, and files of a folder that
change, are missing, or are no files; and to standard input."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch
from safetensors import SafetensorError

from monolayer.data import Names, Sequences, folder, lines, read
from monolayer.data.aside import map_regular, new_bytes, read_regular
from monolayer.data.delimited import is_cut_by
from monolayer.data.folder import OpenFolder, check_output, new_folder, read_together
from monolayer.data.form import SourceForm
from monolayer.data.layout import Manner
from monolayer.data.names import check_utf8
from monolayer.data.phrases import phrases, tiny_phrases
from monolayer.data.readers import sequences_of
from monolayer.data.subnormal import check_subnormals_count
from monolayer.data.text import read_text
from monolayer.data.unused import unused_names
from tests.asked import Bare, Question, attempt, meaning
from tests.read_files import needed

polars = needed("polars")

TABLE = "text,label\na b,x\nc,y\n"
ROWS = '{"tokens": "ab", "label": 1}\n{"tokens": "c", "label": 2}\n'
DAMAGED: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "a file of another encoding": ("a.csv", TABLE.replace("c", "é").encode("latin-1"), {}),
    "a file in UTF-16": ("a.csv", ("\ufeff" + TABLE).encode("utf-16-le"), {}),
    "a file in UTF-16 without a mark": ("a.jsonl", ROWS.encode("utf-16-le"), {}),
    "a text of another encoding": ("a.txt", "é\n".encode("latin-1"), {"format": "text"}),
    "a file that is cut inside a character": ("a.jsonl", '{"tokens": "é"}\n'.encode()[:13], {}),
    "a packed file that is cut": ("a.csv.gz", gzip.compress(TABLE.encode())[:-9], {}),
    "a packed file that is none": ("a.csv.gz", TABLE.encode(), {}),
    "Parquet that is none": ("a.parquet", TABLE.encode(), {}),
    "packed Parquet": ("a.parquet.gz", gzip.compress(TABLE.encode()), {}),
    "npz that is none": ("a.npz", TABLE.encode(), {}),
    "a spreadsheet": ("a.xlsx", b"PK", {}),
    "YAML": ("a.yaml", b"a: b\n", {}),
    "a file of an unknown kind": ("a.unknown", TABLE.encode(), {}),
    "a file without a suffix": ("a", TABLE.encode(), {}),
    "a file called in capitals": ("A.CSV", TABLE.encode(), {}),
}
"""Files by their names and bytes, and options."""
INPUT: dict[str, tuple[str, dict[str, Any]]] = {
    "rows": (ROWS, {}),
    "a table": (TABLE, {"format": "csv"}),
    "a table that is not said to be one": (TABLE, {}),
    "an array": ('[{"tokens": "ab", "label": 1}]', {"format": "json"}),
    "lines of JSON": (ROWS, {"format": "json"}),
    "a long array": ('[{"tokens": "ab", "label": 1}' + 99 * " " + "]", {"format": "json"}),
    "Parquet": (ROWS, {"format": "parquet"}),
    "nothing": ("", {}),
}
"""What standard input holds, and options."""


def questions() -> Iterator[tuple[str, Question]]:
    for name, (file, content, options) in DAMAGED.items():
        yield f"refused {name}", lambda f=file, c=content, o=options: _damaged(f, c, o)  # type: ignore[misc]
    for name, (text, options) in INPUT.items():
        yield f"standard input with {name}", lambda t=text, o=options: _input(t, o)  # type: ignore[misc]
    yield "files that break", _breaking
    yield "files that are none", _no_files
    yield "arrays that are none", _no_arrays
    yield "long lines", _long_lines
    yield "objects without values", _without_values
    yield "names that are none", _no_names
    yield "prompts that are none", _no_prompts
    yield "subnormal numbers", _subnormal
    yield "phrases", _phrases
    yield "unused names", _unused
    yield "files aside", _aside
    yield "folders that cannot be", _no_folders
    yield "folders that change", _changing


def _damaged(name: str, content: bytes, options: dict[str, Any]) -> dict[str, object]:
    Path(name).write_bytes(content)
    held = Bare("packed") if content.startswith(b"\x1f\x8b") else content  # libraries pack in different ways
    return {name: held, **options, "read": attempt(lambda: meaning(read(name, **options)))}


def _input(text: str, options: dict[str, Any]) -> dict[str, object]:
    """Standard input, which can be read once; a document there is no longer than a line may be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        patch.setattr(lines, "LONGEST_LINE", 99)
        return {"text": text, **options, "read": attempt(lambda: meaning(read("-", **options)))}


class Broken:
    """A file that cannot be read to its end."""

    def read(self, *_: int) -> bytes:
        raise OSError(5, "no answer")

    readline = read


def _breaking() -> dict[str, object]:
    """Files that break while they are read, or do not fit into memory."""
    Path("a.bin").write_bytes(b"abc")

    @contextlib.contextmanager
    def opened(path: str, inside: int | None) -> Iterator[object]:
        def read() -> bytes:
            raise MemoryError

        with Path(path).open("rb") as file:
            yield SimpleNamespace(read=read, fileno=file.fileno)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", SimpleNamespace(buffer=Broken()))
        patch.setattr("monolayer.data.aside._opened", opened)
        broken = attempt(lambda: meaning(read("-")))
        document = attempt(lambda: meaning(read("-", format="json")))
        return {"rows": broken, "a document": document, "too large a file": attempt(lambda: read_regular("a.bin"))}


def _no_files() -> dict[str, object]:
    """What is given in place of the name of a file."""
    Path("a.csv").write_text(TABLE)
    Path("folder").mkdir()
    given: list[Any] = ["https://example.org/a.csv", "folder", "gone.csv", {"a": 1}, ["a.csv", "a.csv"], ""]
    found = {f"{one!r}": attempt(lambda one=one: meaning(read(one))) for one in given}  # type: ignore[misc]
    found["a DataFrame"] = attempt(lambda: read(pandas.DataFrame({"a": [1]})))  # type: ignore[arg-type]
    with Path("a.csv").open() as file:
        found["an open file"] = attempt(lambda: Sequences.of(file))
    found["an open file without a name"] = attempt(lambda: Sequences.of(io.StringIO(TABLE)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        found["a file of somebody else"] = attempt(lambda: read("a.csv"))
        found["a folder of somebody else"] = attempt(lambda: check_output("new"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "monolayer.data.arrow", None)
        found["Parquet without pyarrow"] = attempt(lambda: read(_write("a.parquet", b"PAR1")))
    found["a file that is not UTF-8"] = attempt(lambda: read_text(_write("b.txt", "é".encode("latin-1"))))
    found["a string that names none"] = attempt(lambda: sequences_of("gone.csv"))
    return found


def _write(name: str, content: bytes) -> Path:
    Path(name).write_bytes(content)
    return Path(name)


def _no_arrays() -> dict[str, object]:
    """Files of arrays that claim too much, name an array twice, hold other files, or what cannot be tokens."""
    np.savez("whole.npz", X=np.array([[1, 2]]))
    member = zipfile.ZipFile("whole.npz").read("X.npy")
    contents: dict[str, list[tuple[str, bytes]]] = {
        "whole": [("X.npy", member)],
        "twice": [("X.npy", member), ("X.npy", member)],
        "claims too much": [("X.npy", member.replace(b"(1, 2)", b"(9, 9)"))],
        "another file beside": [("X.npy", member), ("read.me", b"hello")],
        "no arrays": [("read.me", b"hello")],
        "a name without a suffix": [("X", member)],
        "a damaged header": [("X.npy", member.replace(b"shape", b"shade"))],
        "cut": [("X.npy", member[:-4])],
    }
    found: dict[str, object] = {}
    for name, members in contents.items():
        with zipfile.ZipFile(f"{name}.npz", "w") as stored:
            for inside, content in members:
                stored.writestr(inside, content)
        found[name] = attempt(lambda name=name: meaning(read(f"{name}.npz")))  # type: ignore[misc]
    np.savez("below.npz", X=np.array([[-1, 2]]))
    np.savez("reals.npz", X=np.array([[0.5, 2]]))
    for name in ("below", "reals"):
        found[name] = attempt(lambda name=name: meaning(read(f"{name}.npz")))  # type: ignore[misc]
    found["prompts"] = attempt(lambda: meaning(read("whole.npz", per="answer")))
    return found


def _long_lines() -> dict[str, object]:
    """Lines and documents as long as they may be, and longer."""
    found: dict[str, object] = {}
    for name, text in {
        "a.jsonl": ROWS,
        "rows.json": ROWS,
        "array.json": f"[{ROWS.splitlines()[0]}, {ROWS.splitlines()[1]}]",
        "on lines.json": "[" + ROWS.strip().replace("\n", ",\n") + "]",
        "a.csv": TABLE,
    }.items():
        Path(name).write_text(text)
        for most in (99, 50, 29, 28, 20, 5):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lines, "LONGEST_LINE", most)
                said = attempt(lambda name=name: meaning(read(name))["sequences"])  # type: ignore[misc]
            found[f"{name}, lines of {most} bytes"] = said
    return found


class Quantized:
    """A tensor whose numbers stand for others."""

    is_quantized = True

    def detach(self) -> None: ...


def _without_values() -> dict[str, object]:
    """Objects whose values cannot be read without a choice that only their owner can make."""
    frame = polars.DataFrame({"text": ["a"], "label": ["x"]})
    given = {
        "a query": frame.lazy(),
        "a sparse array": scipy.sparse.eye(2),
        "a sparse tensor": torch.eye(2).to_sparse(),
        "a tensor on the device meta": torch.zeros((1, 2), device="meta"),
        "a nested tensor": torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
        "a quantized tensor": Quantized(),
        "a dict of tables": {"a": pandas.DataFrame({"b": [1]})},
        "a dict of dicts": {"a": {"b": 1}},
    }
    found = {name: attempt(lambda X=X: meaning(Sequences.of(X))) for name, X in given.items()}  # type: ignore[misc]
    labels = {name: attempt(lambda Y=Y: meaning(Sequences.of([[1], [2]], Y))) for name, Y in given.items()}  # type: ignore[misc]
    return {**found, "as labels": labels}


def _no_names() -> dict[str, object]:
    """Names that stand twice, are not their own numbers, or that UTF-8 cannot encode."""
    return {
        "a twice": attempt(lambda: Names(("a", "b", "a"))),
        "1 and 2": attempt(lambda: Names(range(1, 3))),
        "half of a pair": attempt(lambda: check_utf8("tokens", ["a", "\ud800"])),
        "whole characters": attempt(lambda: check_utf8("tokens", ["a", "\U0001f600", 3])),
        "a form that has no separator": is_cut_by(["a,b\n", "c,d\n"], SourceForm("csv", None, True, "a", "b", True)),
    }


def _no_prompts() -> dict[str, object]:
    """Prompts and answers that are not two lists of as many texts."""
    given: list[tuple[Any, Any, dict[str, Any]]] = [
        (["a"], ["b"], {"lengths": [1]}), (["a"], ["b", "c"], {}),
        ("a", ["b"], {}), (["a"], "b", {}), (["a"], [""], {}),
        (["a"], [None], {}), (["a"], [1], {}), ([1], ["a"], {}), ([""], ["a"], {}), (["a"], ["b"], {"unit": "words"}),
        (["a "], ["b"], {}), (["a"], [", b"], {}), (["銀行"], ["b"], {}), (["a"], ["銀行"], {}), (["a"], None, {}),
    ]  # fmt: skip
    found: dict[str, object] = {}
    for X, Y, options in given:
        said = attempt(lambda X=X, Y=Y, o=options: meaning(Sequences.of(X, Y, per="answer", **o)))  # type: ignore[misc]
        found[f"{X} {Y} {options or ''}".strip()] = said
    lengths = attempt(lambda: meaning(Sequences.of(["a"], lengths=[1], like=Manner(per="answer"))))
    return {**found, "lengths for a model of prompts": lengths}


def _subnormal() -> dict[str, object]:
    """Numbers near 0, where these count and where they are flushed to 0."""
    labels = np.array([2.0**-140, 1.0], np.float32)
    found: dict[str, object] = {"labels": attempt(lambda: meaning(Sequences.of([[1], [2]], labels)))}
    found["checked"] = attempt(lambda: check_subnormals_count("a test needs them")) is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monolayer.data.subnormal.subnormals_are_flushed", lambda: True)
        found["labels, flushed"] = attempt(lambda: meaning(Sequences.of([[1], [2]], labels)))
        found["normal labels, flushed"] = attempt(lambda: meaning(Sequences.of([[1], [2]], [0.5, 1.0])))
        found["checked, flushed"] = attempt(lambda: check_subnormals_count("a test needs them"))
    return found


def _phrases() -> dict[str, object]:
    """The dictionary of phrases, in place of which a small one is given here; without it; and the one that is ours."""
    package, small, large = "pypinyin_dict.phrase_pinyin_data", ModuleType("data"), ModuleType("large_pinyin")
    small.large_pinyin = large  # type: ignore[attr-defined]
    large.phrases_dict = {"银行": [["yín"], ["háng"]], "行走": [["xíng", "háng"], ["zǒu"]]}  # type: ignore[attr-defined]
    found: dict[str, object] = {"tiny": meaning(tiny_phrases())}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, package.partition(".")[0], ModuleType("pypinyin_dict"))
        patch.setitem(sys.modules, package, small)
        patch.setitem(sys.modules, f"{package}.large_pinyin", large)
        found["given"] = meaning(phrases())
        patch.setitem(sys.modules, package, None)
        found["without the package"] = attempt(phrases)
    return found


def _unused() -> dict[str, object]:
    """Names of tokens and labels that some rows of data do not use."""
    data = Sequences.of([["a", "b"], ["c"]], [["x", "y"], ["z"]])
    some = data.select(np.array([1]))
    found = unused_names(some)
    return {
        "of all": unused_names(data),
        "of the second row": found,
        "how many": found.total,
        "texts": [found.texts(some, most) for most in (0, 1, 9)],
        "y is always used": unused_names(some, "y"),
        "of integers": unused_names(Sequences.of([[1], [5]], [2, 7]).select(np.array([0]))),
    }


def _aside() -> dict[str, object]:
    """Files that cannot be written or read."""
    os.mkfifo("pipe")
    Path("empty").write_bytes(b"")
    Path("there").write_bytes(b"abc")
    header = b'{"a": {"dtype": "I8", "shape": [16777217], "data_offsets": [0, 16777217]}}'
    with Path("large.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 16777217)
    for name, text in {"array": b"[1]", "number": b'{"a": 1}', "no JSON": b"{"}.items():
        with Path(f"{name}.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(1 << 25)

    def write() -> None:
        with new_bytes(Path("none/file")) as file:
            file.write(b"x")

    return {
        "written where there is no folder": attempt(write),
        "a pipe": attempt(lambda: read_regular("pipe")),
        "an empty file": [read_regular("empty"), attempt(lambda: map_regular("empty"))],
        "a file": [read_regular("there"), bytes(map_regular("there")[:])],
        "a large file begins with": attempt(lambda: read_regular("large.safetensors")[:90]),
        "a large file is mapped from": attempt(lambda: bytes(map_regular("large.safetensors")[:20])),
        **{name: attempt(lambda n=name: read_regular(f"{n}.safetensors")) for name in ("array", "number", "no JSON")},  # type: ignore[misc]
    }


def _there() -> Bare:
    return Bare(" ".join(sorted(str(path) for path in Path().rglob("*") if not path.is_dir())))


def _no_folders() -> dict[str, object]:
    """Folders that cannot be made, and a save that cannot be finished."""
    Path("file").write_text("x")

    def full() -> None:
        with new_folder("full"):
            raise SafetensorError("no space left")

    def too_long() -> None:
        with new_folder("x" * 250):
            pass

    def with_a_file_of_others(into: str) -> None:
        """A file is put into the folder after it was checked, and before it is replaced."""
        with pytest.MonkeyPatch.context() as patch, new_folder("m", overwrite=True) as inside:
            (inside / "config.json").write_text('{"format": "monolayer", "is": "new"}')
            patch.setattr(folder, "_check_replaceable", lambda *_: None)
            Path(into).write_text("x")

    Path("m").mkdir()
    Path("m/config.json").write_text('{"format": "monolayer", "is": "old"}')
    found: dict[str, object] = {
        "below a file": attempt(lambda: check_output("file/deeper")),
        "a full disk": attempt(full),
        "too long a name": attempt(too_long),
        "a photo is put into it": attempt(lambda: with_a_file_of_others("m/photo.jpg")),
        "the old one is still there": [Path("m/config.json").read_text(), _there()],
    }
    Path("m/photo.jpg").unlink()
    with_a_file_of_others("photo.jpg")
    return {**found, "a photo beside it: the new one is there": [Path("m/config.json").read_text(), _there()]}


def _changing() -> dict[str, object]:
    """Folders that are replaced or removed while they are read."""
    Path("m").mkdir()
    Path("m/config.json").write_text("0")
    saved = [0]

    def replaced(times: int) -> Callable[[OpenFolder], object]:
        """Reads a folder that is replaced so many times after its file was read, and looks what else is there."""
        end = saved[0] + times

        def reader(opened: OpenFolder) -> object:
            first = opened.read("config.json")
            if saved[0] < end:
                saved[0] += 1
                Path("m").rename(f"m{saved[0]}")
                Path("m").mkdir()
                Path("m/config.json").write_text(f"{saved[0]}")
            return [first, list(opened.sizes())]

        return reader

    def removed(opened: OpenFolder) -> object:
        opened.read("config.json")
        (Path("m") / "config.json").unlink()
        Path("m").rmdir()
        return opened.read("names.json")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "_TRIES", 4)
        found: dict[str, object] = {
            f"replaced {times} times": attempt(lambda times=times: read_together(Path("m"), replaced(times)))  # type: ignore[misc]
            for times in (0, 1, 2, 3)
        }
        found["replaced again and again"] = attempt(lambda: read_together(Path("m"), replaced(99)))
    found["removed"] = attempt(lambda: read_together(Path("m"), removed))
    return found
