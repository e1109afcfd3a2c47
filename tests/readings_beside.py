"""Questions to what stands beside the readers of data: equal rows, fingerprints, names, formats of numbers, folders."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.data import distinct, fingerprint, limits
from monolayer.data import read as read_files
from monolayer.data.aside import new_bytes, new_file, read_regular
from monolayer.data.folder import MODEL, FolderKind, check_output, new_folder, read_together, unchanged
from monolayer.data.form import SourceForm
from monolayer.data.layout import Manner
from monolayer.data.names import Names
from monolayer.data.number_formats import BY_CODE, FORMATS
from tests.asked import Bare, Question, attempt, in_a_line, meaning

INTEGERS, WORDS = Names(range(3)), Names(("a", "b", "cc"))
TABLES: dict[str, Any] = {
    "integers": np.array([[1, 2], [3, 4], [1, 2], [0, 4], [3, 4]]),
    "floats": np.array([[0.0, 1.5], [-0.0, 1.5], [2.0, 0.5], [0.0, 1.5]]),
    "short floats": np.array([[1.0], [2.0], [1.0]], np.float32),
    "wide": np.arange(64.0).reshape(4, 16)[[0, 1, 2, 1, 3, 0]].astype(np.float32),
    "no rows": np.zeros((0, 2)),
}
ROWS = ml.Sequences.of([[1, 2, 1], [3], [2, 1], [1, 2, 1]], [[0, 1, 0], [2], [1, 0], [0, 1, 0]])
NAMES: dict[str, tuple[Names, list[Any]]] = {
    "words": (WORDS, ["d", "a", "cb", "d"]),
    "integers": (INTEGERS, [7, 1, 5]),
    "far integers": (INTEGERS, [5000]),
    "integers below": (INTEGERS, [-1]),
    "other integers": (Names((3, 70, 900)), [5, 3]),
    "integers and a word": (INTEGERS, [1, "a"]),
    "words and an integer": (WORDS, ["a", 1]),
    "nothing new": (WORDS, ["a", "b"]),
    "none before": (Names(()), ["a", "b"]),
}
READ_AS: dict[str, tuple[Any, Any]] = {
    "one label each": ({"key": ["a b", "c"], "value": ["x", "y"]}, {"a b": 1, "c": 2}),
    "tokens": ({"tokens": ["a b", "c"], "label": ["x y", "z"]}, ROWS),
    "longer labels": ({"tokens": ["a", "c d"], "label": ["x y", "z"]}, ROWS),
    "prompts": ({"prompt": ["a b"], "completion": ["c"]}, {"a b": "c"}),
}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "semicolons.csv": ("country;capital\nPeru;Lima\nChad;Paris\n", {}),
    "no header.csv": ("Peru,Lima\nChad,Paris\n", {"header": False}),
    "bars.csv": ("a,b|c\nd,e|f\n", {"separator": "|", "header": False}),
    "three.csv": ("id,en,de\n1,dog,Hund\n2,cat,Katze\n", {"tokens": "en", "labels": "de"}),
    "keys.csv": ("en\ndog\ncat\n", {"tokens": "en"}),
    "two.unknown": ("country;capital\nPeru;Lima\nChad;Paris\n", {"format": "csv"}),
    "first.conll": ("EU NN B\nsaid VB O\n", {"labels": "2"}),
    "usual.conll": ("EU NN B\nsaid VB O\n", {}),
    "four.conll": ("1 EU NN B\n2 said VB O\n", {"tokens": "2", "labels": "-2"}),
    "narrow.conll": ("EU B\nsaid O\n", {}),
    "tree.conllu": ("1\tVamos\tir\tVERB\n2\tnos\ttu\tPRON\n", {"labels": "3"}),
    "usual.conllu": ("1\tVamos\tir\tVERB\n2\tnos\ttu\tPRON\n", {}),
    "objects.jsonl": ('{"en": "dog", "de": "Hund"}\n{"en": "cat", "de": "Katze"}\n', {"tokens": "de", "labels": "en"}),
    "rows.json": ('[{"en": "dog", "de": "Hund"}, {"en": "cat", "de": "Katze"}]', {}),
    "lines.unknown": ('{"en": "dog", "de": "Hund"}\n{"en": "cat", "de": "Katze"}\n', {"format": "jsonl"}),
}
"""Files and the options that they are read with. Each is read as the form of the others has it as well."""
MISSING = object()
NO_FORMS: list[dict[str, Any]] = [
    {}, {"format": "excel"}, {"format": 3}, {"format": ["csv"]}, {"separator": 3}, {"separator": ";;"},
    {"separator": ""}, {"key": 1}, {"key": "\ud800"}, {"label": None}, {"label": b"x"}, {"pair": 1},
    {"pair": None}, {"header": 1}, {"header": None}, {"header": "yes"}, {"more": 1}, {"pair": MISSING},
]  # fmt: skip
"""What is changed in the JSON of a form."""
CAPITALS = {"France": "Paris", "Peru": "Lima", "Chad": "N'Djamena"}


def questions() -> Iterator[tuple[str, Question]]:
    for name in FORMS:
        yield f"form of {name}", lambda name=name: _form(name)  # type: ignore[misc]
    yield "files without a form", _without_forms
    yield "forms that are none", _no_forms
    for name, table in TABLES.items():
        yield f"equal rows of {name}", lambda table=table: _rows(table)  # type: ignore[misc]
    yield (
        "equal runs",
        lambda: {"of": meaning(ROWS)["sequences"], "runs": distinct.distinct_runs(ROWS.tokens, ROWS.lengths)},
    )
    yield "fingerprints", _fingerprints
    for name, (names, more) in NAMES.items():
        yield f"names, {name}", lambda names=names, more=more: _named(names, more)  # type: ignore[misc]
    for name in FORMATS:
        yield f"format {name}", lambda name=name: _format(name)  # type: ignore[misc]
    yield "an edit", _edited
    yield "files of a folder", _files
    yield "places of tensors", _places
    yield "sizes of files", _sizes
    yield "folders", _folders
    yield "what is left of saves", _left
    for name, (one, like) in READ_AS.items():
        yield f"read as {name}", lambda one=one, like=like: _matching(one, like)  # type: ignore[misc]


def _form(name: str) -> dict[str, object]:
    """The form of a file, which columns of other tables it finds, and files that are read otherwise because of it."""
    alone = _without_forms()
    text, options = FORMS[name]
    form = SourceForm.of(read_files(name, **options).plans)
    like = Manner(form=form)
    there = ["key, value", "en, de", "de, id, en", "en", "1, 2", "country", "capital, country"]
    others = {other: attempt(lambda other=other: _read(other, like)) for other in FORMS}  # type: ignore[misc]
    return {
        "file": text,
        **({"options": options} if options else {}),
        "form": form,
        "as JSON and back": form is None or SourceForm.from_json(form.to_json()) == form,
        "columns found": {names: None if form is None else form.columns_in(names.split(", ")) for names in there},
        **{f"reads {other}": said for other, said in others.items() if in_a_line(said) != in_a_line(alone[other])},
    }


def _without_forms() -> dict[str, object]:
    """Every file, read by its looks."""
    for name, (text, _) in FORMS.items():
        Path(name).write_text(text)
    return {name: attempt(lambda name=name: _read(name, Manner())) for name in FORMS}  # type: ignore[misc]


def _read(file: str, like: Manner) -> object:
    said = meaning(read_files(file, like=like))
    return Bare(f"{in_a_line(said['tokens'])} → {in_a_line(said.get('labels'))}; {in_a_line(said['read as'])}")


def _no_forms() -> dict[str, object]:
    """What is taken for the JSON of a form."""
    whole = SourceForm("csv", ";", False, "1", "2", True).to_json()
    asked: dict[str, Any] = {str(one): one for one in (None, [], "csv")}
    for change in NO_FORMS:
        said = ", ".join(f"{key} {'left out' if value is MISSING else repr(value)}" for key, value in change.items())
        asked[said or "all"] = {key: value for key, value in (whole | change).items() if value is not MISSING}
    return {
        "of no plans": SourceForm.of([]),
        "of lists": SourceForm.of(ml.Sequences.of([[1, 2]], [[0, 1]]).plans),
        "of a dict": SourceForm.of(ml.Sequences.of({"a": 1}).plans),
        **{said: attempt(lambda value=value: SourceForm.from_json(value)) for said, value in asked.items()},  # type: ignore[misc]
    }


def _rows(table: Any) -> dict[str, object]:
    many = np.concatenate([table] * 40)
    return {
        "table": table,
        "equal": attempt(lambda: distinct.equal_rows(table)),
        "distinct": attempt(lambda: distinct.distinct_rows(table)),
        "keys": attempt(lambda: distinct.row_keys(table.astype(np.float32))),
        "40 times": attempt(lambda: distinct.distinct_rows(many)),
    }


def _fingerprints() -> dict[str, object]:
    found: dict[str, object] = {"of": meaning(ROWS)["sequences"]}
    for per in ("token", "sequence"):
        for positions in (False, True):
            for causal in (False, True):
                said = f"per {per}{', positions' if positions else ''}{', causal' if causal else ''}"
                found[said] = fingerprint.fingerprints(ROWS, per, positions=positions, causal=causal)  # type: ignore[arg-type]
    stored, asked = np.array([1, 5, 9], np.uint64), np.array([0, 1, 5, 6, 9, 10], np.uint64)
    found["which of 0, 1, 5, 6, 9, 10 are in 1, 5, 9"] = fingerprint.contained(asked, stored)
    return found | {"5, 1, 5, 9, 1 once": fingerprint.once(np.array([5, 1, 5, 9, 1], np.uint64))}


def _named(names: Names, more: list[Any]) -> dict[str, object]:
    other, without = Names(tuple(dict.fromkeys(more))), names.without(np.array([1]))
    return {
        "names": names,
        "more": more,
        "extended": attempt(lambda: names.extended(more)),
        "found": names.find(other),
        "found back": other.find(names),
        "back to front": names.decode(np.arange(len(names))[::-1]),
        "in it": {repr(name): name in names for name in [*more, "z", 2]},
        "without the second": without,
        "cut into words": names.cut_into("words"),
        "cut into nothing": names.cut_into("whole"),
        "cuts": [names.cuts, without.cuts],
        "built from": names.built_from,
        "meant": [names.meant("cd"), names.meant("aa")],
    }


def _format(name: str) -> dict[str, object]:
    """What is known of a format, and numbers in it. The format is looked up now, not when the question was made."""
    numbers = np.array([0.0, -0.0, 1.0, 1.0 + 2.0**-9, 3.14159, 1e-30, -70000.0, 2.0**-15])
    each = FORMATS[name]
    short = each.shortened(numbers)
    said = ("unit", "spacing_at_0", "bytes", "long", "short", "limited", "widened")
    return {
        **{field.name: getattr(each, field.name) for field in fields(each)},
        **{name: getattr(each, name) for name in said},
        "found by its code": BY_CODE[each.code] is each,
        "numbers": numbers,
        "shortened": short,
        "from bytes": attempt(lambda: each.numbers(each.raw(np.asarray(short).tobytes()))),
    }


def _edited() -> dict[str, object]:
    model = ml.memorize(CAPITALS)
    more, _ = ml.insert(model, {"Mali": "Bamako"}, data=CAPITALS)
    less, _ = ml.forget(model, ["Peru"], data=CAPITALS)
    asked = ["France", "Peru", "Mali", "Chad"]
    models = {"as built": model, "with Mali": more, "without Peru": less}
    return {name: attempt(lambda m=m: m.predict(asked, unknown=None)) for name, m in models.items()}  # type: ignore[misc]


WEIGHTS = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    "c": {"dtype": "I64", "shape": [], "data_offsets": [32, 40]},
}
"""The header of a safetensors file."""


def _stored(header: str, rest: int = 40) -> bytes:
    """A safetensors file with this header."""
    return struct.pack("<Q", len(header)) + header.encode() + bytes(range(rest))


def _files() -> dict[str, object]:
    """Files of a folder, read together through the folder that is open, and files that are not there."""
    folder = Path("m")
    folder.mkdir()
    (folder / "config.json").write_text('{"format": "monolayer"}')
    (folder / "model.safetensors").write_bytes(_stored(json.dumps(WEIGHTS)))
    return {
        "config": read_together(folder, lambda opened: opened.read("config.json")),
        "sizes": sorted(read_together(folder, lambda opened: opened.sizes()).items()),
        "the last bytes of the weights": read_together(
            folder, lambda opened: bytes(opened.map("model.safetensors")[-8:])
        ),
        "a file that is not there": attempt(lambda: read_together(folder, lambda opened: opened.read("none"))),
        "a folder that is not there": attempt(lambda: read_together(Path("n"), lambda opened: opened.read("none"))),
    }


def _places() -> dict[str, object]:
    """Where tensors lie in safetensors files, whole, changed and cut."""

    def places(content: bytes) -> object:
        rest = content[8:]
        found = limits.tensor_places(content[:8], lambda n: rest[:n], len(content))
        return {name: tuple(place) for name, place in found.items()}

    def with_first(**change: Any) -> bytes:
        return _stored(json.dumps(WEIGHTS | {"a": WEIGHTS["a"] | change}))

    text = json.dumps(WEIGHTS)
    whole = _stored(text)
    files = {
        "whole": whole,
        "a tensor that begins later": with_first(data_offsets=[8, 24]),
        "a tensor with one more dimension": with_first(shape=[2, 3, 2]),
        "a type that is none": with_first(dtype="F3"),
        "a negative shape": with_first(shape=[-2, -3]),
        "a gap": _stored(json.dumps({name: place for name, place in WEIGHTS.items() if name != "a"})),
        "a name twice": _stored(text[:-1] + ', "x": 1, "x": 2}'),
        "a byte too few": whole[:-1],
        "a byte too many": whole + b"0",
        "7 bytes": whole[:7],
        "20 bytes": whole[:20],
    }
    return {name: attempt(lambda content=content: places(content)) for name, content in files.items()}  # type: ignore[misc]


def _sizes() -> dict[str, object]:
    """Files that are larger than files of their names may be; they are holes, and take no room."""
    found: dict[str, object] = {}
    for name, size in (
        ("certificate.json", 1 << 24),
        ("certificate.json", (1 << 24) + 1),
        ("config.json", (1 << 24) + 1),
        ("tokens.json", (1 << 30) + 1),
        ("model.safetensors", (1 << 24) + 9),
    ):
        with Path(name).open("wb") as file:
            file.truncate(size)

        def check(name: str = name) -> None:
            with Path(name).open("rb") as file:
                limits.check_size(file, Path(name))

        found[f"{name} of {size} bytes"] = _fate(check)
    return found | {"all, as they were written": _fate(lambda: limits.check_written_sizes(Path()))}


def _fate(ask: Any) -> object:
    """Whether there was an error, where nothing else comes back."""
    said = attempt(ask)
    return Bare("passes") if said is None else said


def _there() -> str:
    """What lies in the working folder, each folder with what is in it."""
    inside = {path.name: sorted(inner.name for inner in path.iterdir()) if path.is_dir() else None
              for path in sorted(Path().iterdir())}  # fmt: skip
    model = ["config.json", "memory.safetensors", "model.safetensors", "names.json"]
    words = [
        name if held is None else f"{name}/{'a model' if held == model else ' '.join(held)}"
        for name, held in inside.items()
    ]
    return Bare(", ".join(words))


def _save(model: Any, folder: str, **options: Any) -> object:
    """What comes of a save, and what lies there afterwards."""
    said = attempt(lambda: model.save(folder, **options))
    return {"comes of it": Bare("saved") if isinstance(said, Path) else said, "there": _there()}


def _folders() -> dict[str, object]:
    """Folders that are new, there already, half written, or somebody else's, and what lies in them then."""
    model, found = ml.memorize(CAPITALS), dict[str, object]()
    found["a new folder"] = _save(model, "new")
    found["the same again"] = _save(model, "new")
    found["again, overwriting"] = _save(model, "new", overwrite=True)
    Path("theirs").mkdir()
    found["a folder that is empty"] = _save(model, "theirs")
    for name in ("photo.jpg", "config.json"):
        Path(name).mkdir()
        (Path(name) / name).write_text("{}")
        for overwrite in (False, True):
            found[f"a folder with {name}, overwrite={overwrite}"] = _save(model, name, overwrite=overwrite)
    Path("file").write_text("x")
    for overwrite in (False, True, None):
        for folder in ("new", "file", "none/deeper", "photo.jpg"):
            said = attempt(lambda f=folder, o=overwrite: check_output(Path(f), overwrite=o).name)  # type: ignore[misc]
            found[f"is {folder} free, overwrite={overwrite}"] = said

    def broken() -> None:
        with new_folder(Path("broken"), kind=MODEL) as inside:
            (inside / "config.json").write_text("{}")
            raise KeyError

    found["a save that breaks off"] = [attempt(broken), _there()]
    with new_file(Path("a.txt")) as text:
        text.write("one")
    with new_bytes(Path("b.bin")) as binary:
        binary.write(b"two")
    found["files"] = [read_regular(Path("a.txt")), read_regular(Path("b.bin")), attempt(lambda: read_regular(Path()))]
    return {**found, "in the end": _there()}


def _left() -> dict[str, object]:
    """What killed saves left behind, before and after the next save, and files that change while they are read."""
    model, found, new = ml.memorize(CAPITALS), dict[str, object](), Path("new")
    model.save(new)
    new.rename(".new.0123abcd.old")
    config = read_together(new, lambda opened: opened.read("config.json"))
    found["read after a save that was killed"] = [json.loads(config)["format"], _there()]
    new.rename(".new.0123abcd.old")
    found["saved again"] = _save(model, "new")
    for left, file in (
        ("0123abcd.saving", "config.json"),
        ("0123abce.saving", ".tmpx"),
        ("0123abcf.saving", "photo.jpg"),
        ("0123abcd.old", "config.json"),
        ("0123abce.old", ".tmpx"),
        ("0123abcf.old", "photo.jpg"),
    ):
        Path(f".new.{left}").mkdir()
        (Path(f".new.{left}") / file).write_text("{}")
    found["with more left behind"] = _save(model, "new", overwrite=True)
    found["once more"] = _save(model, "new", overwrite=True)
    found["into what was left"] = _save(model, ".new.0123abcf.saving/model")

    def changing() -> None:
        with unchanged(new):
            (new / "config.json").write_text("{}")

    def still() -> None:
        with unchanged(new):
            pass

    found["a file that changes meanwhile"], found["none that changes"] = _fate(changing), _fate(still)
    nested = FolderKind("model", "format", MODEL.files | {"tokenizer/a.json"}, MODEL.numbered)

    def foreign() -> list[object]:
        return [MODEL.foreign(new), nested.foreign(new)]

    (new / "tokenizer").mkdir()
    found["what is foreign beside an empty tokenizer"] = foreign()
    (new / "tokenizer" / "a.json").write_text("{}")
    found["with a.json in it"] = foreign()
    (new / "tokenizer" / "b.json").write_text("{}")
    found["with b.json too"] = foreign()
    return {**found, "and overwritten": _save(model, "new", overwrite=True)}


def _matching(one: Any, like: Any) -> dict[str, object]:
    """Data that look like one kind, for a model of another."""
    model = ml.memorize(like) if isinstance(like, dict) else ml.memorize(like, positions=True)
    manner = model.card.manner
    said = {
        str(per): attempt(lambda per=per: meaning(ml.Sequences.of(one, per=per, like=manner)))  # type: ignore[misc]
        for per in (None, "token", "sequence")
    }
    model_of = meaning(like)["sequences"] if isinstance(like, ml.Sequences) else like
    return {"data": one, "model of": model_of, **{f"per {per}": value for per, value in said.items()}}
