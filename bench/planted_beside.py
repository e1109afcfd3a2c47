"""Questions to what stands beside the readers of data: equal rows, fingerprints, names, formats of numbers, folders."""

from __future__ import annotations

import json
import struct
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
from monolayer.data.number_formats import FORMATS
from monolayer.data.text import windows
from planted_told import Named, attempt, own_folder, told

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
    {"separator": ""}, {"key": 1}, {"key": "\ud800"}, {"label": None}, {"label": b"x"}, {"keyed": 1},
    {"keyed": None}, {"header": 1}, {"header": None}, {"header": "yes"}, {"more": 1}, {"keyed": MISSING},
]  # fmt: skip
"""What is changed in the JSON of a form."""


def questions(scratch: Path) -> Named:
    scratch.mkdir(parents=True, exist_ok=True)
    for name, (text, options) in FORMS.items():
        (scratch / name).write_text(text)
        yield f"beside form of {name}", told(lambda n=name, o=options: _form(scratch, n, o))  # type: ignore[misc]
    yield "beside forms that are none", told(_no_forms)
    for name, table in TABLES.items():
        yield f"beside rows of {name}", told(lambda table=table: _rows(table))  # type: ignore[misc]
    yield "beside runs", told(lambda: distinct.distinct_runs(ROWS.tokens, ROWS.lengths))
    for per in ("token", "sequence"):
        for positions in (False, True):
            for causal in (False, True):
                yield (
                    f"beside fingerprints {per} {positions} {causal}",
                    told(
                        lambda per=per, p=positions, c=causal: fingerprint.fingerprints(
                            ROWS, per, positions=p, causal=c
                        )
                    ),  # type: ignore[misc]
                )
    stored = np.array([1, 5, 9], np.uint64)
    yield "beside contained", told(lambda: fingerprint.contained(np.array([0, 1, 5, 6, 9, 10], np.uint64), stored))
    yield "beside once", told(lambda: fingerprint.once(np.array([5, 1, 5, 9, 1], np.uint64)))
    for name, (names, more) in NAMES.items():
        yield f"beside names, {name}", told(lambda names=names, more=more: _named(names, more))  # type: ignore[misc]
    for name, each in FORMATS.items():
        yield f"beside {name}", told(lambda each=each: _format(each))  # type: ignore[misc]
    model = ml.memorize({"France": "Paris", "Peru": "Lima", "Chad": "N'Djamena"})
    yield "beside edits", told(lambda: _edited(model))
    folder = model.save(scratch / "model")
    yield "beside files", told(lambda: _files(folder))
    yield "beside sizes", told(_sizes)
    yield "beside folders", told(lambda: _folders(model))
    yield "beside what is left of saves", told(lambda: _left(model))
    for name, (one, like) in READ_AS.items():
        yield f"beside read as {name}", told(lambda one=one, like=like: _matching(one, like))  # type: ignore[misc]
    yield "beside windows", told(lambda: [windows("a b a c a b d", "words", width) for width in (2, 3, None)])


def _form(scratch: Path, name: str, options: dict[str, Any]) -> list[object]:
    """The form of a file, which columns of other tables it finds, and every file read as the form has it."""
    first = read_files(scratch / name, **options)
    form = SourceForm.of(first.plans)
    like = Manner(form=form)
    there = [
        ["key", "value"],
        ["en", "de"],
        ["de", "id", "en"],
        ["en"],
        ["1", "2"],
        ["country"],
        ["capital", "country"],
    ]
    others = [attempt(lambda n=n: _read(scratch / n, like)) for n in FORMS]  # type: ignore[misc]
    same = form is None or SourceForm.from_json(form.to_json()) == form
    return [form, same, others, [None if form is None else form.columns_in(names) for names in there]]


def _read(file: Path, like: Manner) -> list[object]:
    data = read_files(file, like=like)
    return [data.tokens, data.labels is None, *((str(plan), plan.remembered, plan.unlike) for plan in data.plans)]


def _no_forms() -> list[object]:
    """What is taken for the JSON of a form."""
    whole = SourceForm("csv", ";", False, "1", "2", True).to_json()
    changed = [{key: value for key, value in (whole | change).items() if value is not MISSING} for change in NO_FORMS]
    asked = [None, [], "csv", *changed]
    mixed = [
        SourceForm.of([]),
        *(SourceForm.of(ml.Sequences.of(*given).plans) for given in (([[1, 2]], [[0, 1]]), ({"a": 1},))),
    ]
    return [*mixed, *(attempt(lambda value=value: SourceForm.from_json(value)) for value in asked)]  # type: ignore[misc]


def _rows(table: Any) -> list[object]:
    found = [attempt(lambda: distinct.equal_rows(table)), attempt(lambda: distinct.distinct_rows(table))]
    many = np.concatenate([table] * 40)
    keys = attempt(lambda: distinct.row_keys(table.astype(np.float32)))
    return [*found, keys, attempt(lambda: distinct.distinct_rows(many))]


def _named(names: Names, more: list[Any]) -> list[object]:
    other = Names(tuple(dict.fromkeys(more)))
    found = [attempt(lambda: _told(names.extended(more))), names.find(other), other.find(names)]
    found += [names.decode(np.arange(len(names))[::-1]), [name in names for name in [*more, "z", 2]]]
    found += [_told(names.without(np.array([1]))), _told(names.cut_into("words")), _told(names.cut_into("whole"))]
    return [
        *found,
        names.cuts,
        names.built_from,
        names.meant("cd"),
        names.meant("aa"),
        names.without(np.array([1])).cuts,
    ]


def _told(names: Names) -> list[object]:
    return [list(names.names), isinstance(names.names, range), names.unit]


def _format(each: Any) -> list[object]:
    numbers = np.array([0.0, -0.0, 1.0, 1.0 + 2.0**-9, 3.14159, 1e-30, -70000.0, 2.0**-15])
    with np.errstate(all="ignore"):
        short = each.shortened(numbers)
        said = [each.unit, each.spacing_at_0, each.bytes, each.long, each.short, each.limited, each.widened]
        return [*said, short, attempt(lambda: each.numbers(each.raw(np.asarray(short).tobytes())))]


def _edited(model: Any) -> list[object]:
    data = {"France": "Paris", "Peru": "Lima", "Chad": "N'Djamena"}
    more, _ = ml.insert(model, {"Mali": "Bamako"}, data=data)
    less, _ = ml.forget(model, ["Peru"], data=data)
    asked = ["France", "Peru", "Mali", "Chad"]
    return [attempt(lambda m=m: m.predict(asked, unknown=None)) for m in (model, more, less)]  # type: ignore[misc]


def _files(folder: Path) -> list[object]:
    """Files of a saved model, whole and cut, read through the folder that is open and by path."""
    found: list[object] = [
        read_together(folder, lambda opened: [opened.read("config.json"), sorted(opened.sizes().items())])
    ]
    found.append(read_together(folder, lambda opened: bytes(opened.map("model.safetensors")[:])))
    found.append(attempt(lambda: read_together(folder, lambda opened: opened.read("none"))))
    weights = (folder / "model.safetensors").read_bytes()

    def places(content: bytes) -> object:
        rest = content[8:]
        return {
            name: tuple(at) for name, at in limits.tensor_places(content[:8], lambda n: rest[:n], len(content)).items()
        }

    length = struct.unpack("<Q", weights[:8])[0]
    header = json.loads(weights[8 : 8 + length])
    found.append(places(weights))
    for change in ("moved", "longer", "type", "negative", "none", "twice"):
        other = json.loads(json.dumps(header))
        first = next(name for name in other if name != "__metadata__")
        if change == "moved":
            other[first]["data_offsets"][0] += 8
        elif change == "longer":
            other[first]["shape"] = [*other[first]["shape"], 2]
        elif change == "type":
            other[first]["dtype"] = "F3"
        elif change == "negative":
            other[first]["shape"] = [-1 for _ in other[first]["shape"]]
        elif change == "none":
            del other[first]
        text = json.dumps(other).encode()
        text = text[:-1] + b', "x": 1, "x": 2}' if change == "twice" else text
        found.append(attempt(lambda text=text: places(struct.pack("<Q", len(text)) + text + weights[8 + length :])))  # type: ignore[misc]
    cut = (weights[:-1], weights + b"0", weights[:7], weights[:20])
    return [*found, *(attempt(lambda content=content: places(content)) for content in cut)]


def _sizes() -> list[object]:
    """Files that are larger than files of their names may be; they are holes, and take no room."""
    scratch, found = own_folder(), list[object]()
    for name, size in (
        ("certificate.json", 1 << 24),
        ("certificate.json", (1 << 24) + 1),
        ("config.json", (1 << 24) + 1),
        ("tokens.json", (1 << 30) + 1),
        ("model.safetensors", (1 << 24) + 9),
    ):
        with (scratch / name).open("wb") as file:
            file.truncate(size)

        def check(name: str = name) -> None:
            with (scratch / name).open("rb") as file:
                limits.check_size(file, scratch / name)

        found.append(attempt(check))
    return [*found, attempt(lambda: limits.check_written_sizes(scratch))]


def _folders(model: Any) -> list[object]:
    """Folders that are new, there already, half written, or somebody else's, and what lies in them then."""
    scratch, found = own_folder(), list[object]()
    new = scratch / "new"
    found.append([attempt(lambda: bool(model.save(new))), attempt(lambda: bool(model.save(new)))])
    found.append(
        [attempt(lambda: bool(model.save(new, overwrite=True))), sorted(path.name for path in scratch.iterdir())]
    )
    theirs = scratch / "theirs"
    theirs.mkdir()
    found.append([attempt(lambda: bool(model.save(theirs))), sorted(path.name for path in theirs.iterdir())])
    for name in ("photo.jpg", "config.json"):
        other = scratch / name / "folder"
        other.mkdir(parents=True)
        (other / name).write_text("{}")
        for overwrite in (False, True):
            found.append(attempt(lambda other=other, o=overwrite: bool(model.save(other, overwrite=o))))  # type: ignore[misc]
            found.append(sorted(path.name for path in other.iterdir()))
    (scratch / "file").write_text("x")
    for overwrite in (False, True, None):
        for folder in (new, scratch / "file", scratch / "none" / "deeper", scratch / "photo.jpg" / "folder"):
            found.append(attempt(lambda f=folder, o=overwrite: check_output(f, overwrite=o).name))  # type: ignore[misc]

    def broken() -> None:
        with new_folder(scratch / "broken", kind=MODEL) as inside:
            (inside / "config.json").write_text("{}")
            raise KeyError

    found.append([attempt(broken), sorted(path.name for path in scratch.iterdir())])
    with new_file(scratch / "a.txt") as text:
        text.write("one")
    with new_bytes(scratch / "b.bin") as binary:
        binary.write(b"two")
    found += [read_regular(scratch / "a.txt"), read_regular(scratch / "b.bin"), attempt(lambda: read_regular(scratch))]
    return [*found, sorted(path.name for path in scratch.iterdir())]


def _left(model: Any) -> list[object]:
    """What killed saves left behind, before and after the next save, and files that change while they are read."""
    scratch = own_folder()
    new, found = scratch / "new", list[object]()

    def there() -> list[str]:
        return sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*"))

    model.save(new)
    new.rename(scratch / ".new.0123abcd.old")
    found += [read_together(new, lambda opened: opened.read("config.json")), there()]
    new.rename(scratch / ".new.0123abcd.old")
    found += [attempt(lambda: bool(model.save(new))), there()]
    for left, file in (
        ("0123abcd.saving", "config.json"),
        ("0123abce.saving", ".tmpx"),
        ("0123abcf.saving", "photo.jpg"),
        ("0123abcd.old", "config.json"),
        ("0123abce.old", ".tmpx"),
        ("0123abcf.old", "photo.jpg"),
    ):
        (scratch / f".new.{left}").mkdir()
        (scratch / f".new.{left}" / file).write_text("{}")
    for _ in range(2):
        found += [attempt(lambda: bool(model.save(new, overwrite=True))), there()]
    found.append(attempt(lambda: bool(model.save(scratch / ".new.0123abcf.saving" / "model"))))
    found.append(attempt(lambda: read_together(scratch / "none", lambda opened: opened.read("config.json"))))
    for kind in ((lambda: (new / "config.json").write_text("{}")), (lambda: None)):

        def changing(kind: Any = kind) -> None:
            with unchanged(new):
                kind()

        found.append(attempt(changing))
    (new / "tokenizer").mkdir()
    found.append(MODEL.foreign(new))
    nested = FolderKind("model", "format", MODEL.files | {"tokenizer/a.json"}, MODEL.numbered)
    found.append(nested.foreign(new))
    (new / "tokenizer" / "a.json").write_text("{}")
    found += [nested.foreign(new), MODEL.foreign(new)]
    (new / "tokenizer" / "b.json").write_text("{}")
    return [*found, nested.foreign(new), attempt(lambda: bool(model.save(new, overwrite=True))), there()]


def _matching(one: Any, like: Any) -> list[object]:
    """Data that look like one kind, for a model of another."""
    model = ml.memorize(like) if isinstance(like, dict) else ml.memorize(like, positions=True)
    said = []
    for per in (None, "token", "sequence"):
        data = attempt(lambda per=per: ml.Sequences.of(one, per=per, like=model.card.manner))  # type: ignore[misc]
        said.append(data if isinstance(data, str) else [data.tokens, data.prompts is None, repr(data.labels)])
    return said
