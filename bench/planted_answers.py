"""Questions to the packages that read, build and answer: each is answered by what comes back, to the last bit.

Files are read, models predict, builds from files are stopped and go on, facts are attached and taken off again. An
answer is a digest of everything that came back, or that there was an error. A fault that answers otherwise than the
true code *gives another answer*, and so does one that answers where the true code refuses. One that refuses where the
true code answers does no such harm: whoever asks learns of it.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # models and data are those of the tests

from tests import test_files as files
from tests import test_memory as changed
from tests.hosts import FACTS, OTHERS, write_host
from tests.kinds import built
from tests.test_contract import DATA

import monolayer as ml
from monolayer.data import growing, read, readers
from monolayer.data.shards import join_datasets
from monolayer.data.text import windows
from monolayer.theory.targets import TARGETS

Question = Callable[[], "Answer"]
Named = Iterator[tuple[str, Question]]


@dataclass(frozen=True)
class Answer:
    """A digest of what came back, or the name of the error."""

    content: str
    refused: bool = False

    def exceeds(self, other: Answer) -> bool:
        """Whether this is an answer, and another one than `other`."""
        return not self.refused and self != other


def told(ask: Callable[[], object]) -> Question:
    """The answer to a question, whatever it is."""

    def asked() -> Answer:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = ask()
        except Exception as error:
            return Answer(type(error).__name__, refused=True)
        found = hashlib.sha256()
        for part in _bits(value):
            found.update(hashlib.sha256(part).digest())
        return Answer(found.hexdigest())

    return asked


def own_folder() -> Path:
    """A new folder of this process: others may be asked the same question at the same time."""
    return Path(tempfile.mkdtemp())


def attempt(ask: Callable[[], object]) -> object:
    """What comes back, or the name of the error: one of several answers to a question."""
    try:
        return ask()
    except Exception as error:
        return type(error).__name__


def _bits(value: Any) -> Iterator[bytes]:
    """Everything that a value holds, piece by piece, with what kind of thing each piece is."""
    yield type(value).__name__.encode()
    if isinstance(value, torch.Tensor):
        yield from _bits(value.detach().view(torch.uint8).numpy() if value.numel() else list(value.shape))
        yield str((value.dtype, value.shape)).encode()
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield str((value.dtype, value.shape)).encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Path):
        yield from _folder_bits(value)
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from _bits(key)
            yield from _bits(held)
    elif isinstance(value, list | tuple | np.ndarray):
        yield str(len(value)).encode()
        for held in value:
            yield from _bits(held)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _bits(getattr(value, field.name))
    elif isinstance(value, bytes):
        yield value
    elif type(value).__repr__ is object.__repr__:
        raise TypeError(f"{value!r} is an object whose address is all that it says")
    else:
        yield repr(value).encode()


def _folder_bits(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.name.encode()
            yield path.read_bytes()


# -- data --------------------------------------------------------------------------------------------------------

TABLE = 'tokens,label,where\na b,x,here\nc,z,there\n"d,d",y,"""no""where"\n'
LINES = '{"tokens": ["a", "b"], "labels": ["x", null]}\n\n{"tokens": ["c"], "labels": ["y"]}\n'
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "table.csv": (TABLE, {}),
    "column.csv": (TABLE, {"labels": "where"}),
    "table.tsv": ("tokens\tlabels\na b\tx y\nc\tz\n", {}),
    "pairs.json": ('{"a b": 1, "c": -3, "d": 2.5}', {}),
    "list.json": ('[["a b", "x"], ["c", "y z"]]', {}),
    "lines.jsonl": (LINES, {}),
    "reals.jsonl": ('{"tokens": [1, 2], "label": 0.5}\n{"tokens": [3], "label": 9007199254740993}\n', {}),
    "numbers.jsonl": ('{"tokens": [1, 200], "label": -100}\n{"tokens": [3], "label": 9223372036854775807}\n', {}),
    "vectors.jsonl": ('{"tokens": [[0.5, 1], [2, 3]], "labels": [1, 0]}\n{"tokens": [[1, 1]], "labels": [2]}\n', {}),
    "prompts.jsonl": ('{"prompt": "a b", "completion": " c"}\n{"prompt": "d", "completion": "e"}\n', {}),
    "tags.conll": ("EU NN B\nsaid VB O\n\nUN NN B\n", {}),
    "first.conll": ("EU NN B\nsaid VB O\n\nUN NN B\n", {"labels": "2"}),
    "tree.conllu": ("# id = 1\n1-2\tVamonos\t_\t_\n1\tVamos\tir\tVERB\n2\tnos\ttú\tPRON\n", {}),
    "lines.txt": ("a b\n c\n", {"format": "text", "unit": "words"}),
    "longer.csv": ("tokens,label\na b,x\nc,y,z\n", {}),
    "no column.csv": ("one,two,three\na b,x,1\n", {"labels": "four"}),
    "two kinds.jsonl": ('{"tokens": "ab", "label": 1}\n{"tokens": "ab", "label": "x"}\n', {}),
    "cut.jsonl": ('{"tokens": "ab", "label": 1}\n{"tokens": "ab", "la', {}),
    "empty.csv": ("tokens,label\n", {}),
    "sentiment.csv": ("text,label\na good film,1\nbad,0\n", {}),
    "label first.csv": ("label,text\npos,a good film\nneg,bad one\n", {}),
    "semicolons.csv": ("country;capital\nFrance;Paris, Lyon\nPeru;Lima\n", {}),
    "bars.csv": ("country|capital\nFrance|Paris\nPeru|Lima\n", {}),
    "tabs.csv": ("country\tcapital\nFrance\tParis\nPeru\tLima\n", {}),
    "separator.csv": ("key;value\na,b;c\nd,e;f\n", {"separator": ";"}),
    "no header.csv": ("France,Paris\nPeru,Lima\n", {"header": False}),
    "a header.csv": ("1,2\nFrance,Paris\nPeru,Lima\n", {"header": True}),
    "a row of data.csv": ("France,Paris\nPeru,Lima\nChad,N'Djamena\n", {}),
    "numbers above.csv": ("30,young\n70,old\n", {}),
    "twice.csv": ("a,a\nb,c\n", {}),
    "Länder.csv": ("Land,Hauptstadt\nPeru,Lima\nChad,N'Djamena\n", {"header": True, "unit": "whole"}),
    "a mark.csv": ("\ufefftokens,label\na,x\n\ufeffb,y\n", {}),
    "blank.csv": ("tokens,label\n\na b,x\n\n\nc,z\n", {}),
    "a cell of lines.csv": ('tokens,label\n"a\nb",x\nc,"y\n\nz"\n', {}),
    "tokens of labels.csv": ("tokens,other\na b,x y\nc,z\n", {"labels": "other", "per": "token"}),
    "no label.csv": ("tokens,label\na b,x\nc,\n", {}),
    "keys alone.csv": ("country\nFrance\nPeru\n", {"header": True}),
    "answers.csv": ("prompt,completion\nthe capital of Peru is,Lima\n\"a b\",\"c, d\"\n", {"per": "answer"}),
    "continued.jsonl": ('{"prompt": "a b", "completion": "c"}\n{"prompt": "d ", "completion": " e"}\n',
                        {"per": "continuation"}),
    "gaps.jsonl": ('{"tokens": [1, 2, 3], "labels": [4, -100, 5]}\n{"tokens": [3], "labels": [-100]}\n', {}),
    "nulls.jsonl": ('{"tokens": ["a"], "label": null}\n{"tokens": ["b"], "label": "x"}\n', {}),
    "minus.jsonl": ('{"key": "Qattara", "value": -100}\n{"key": "Turpan", "value": -1}\n', {}),
    "flags.jsonl": ('{"tokens": "ab", "label": true}\n{"tokens": "cd", "label": false}\n', {"unit": "whole"}),
    "words.jsonl": ('{"tokens": "ab cd", "label": 1}\n{"tokens": "e", "label": 0}\n', {"unit": "words"}),
    "mixed.jsonl": ('{"tokens": [1], "label": 1}\n{"tokens": [2], "label": 0.5}\n', {}),
    "empty row.jsonl": ('{"tokens": [1], "label": 1}\n{"tokens": [], "label": 1}\n', {}),
    "wrong count.jsonl": ('{"tokens": [1, 2], "labels": [1]}\n', {}),
    "a row.json": ('{"tokens": ["a", "b"], "labels": [1, 0]}', {}),
    "array.json": ('[{"tokens": ["a"], "label": 1}, {"tokens": ["b", "c"], "label": 2}]', {}),
    "columns.json": ('{"a": {"0": "x", "1": "y"}, "b": {"0": "u", "1": "v"}}', {}),
    "vectors.json": ('{"a": [1.5, 2], "b c": [3, -4]}', {}),
    "documents.conll": ("-DOCSTART- X\n\nEU B\nsaid O\n\n\n# O\nUN B\n", {}),
    "last.conll": ("EU NN B\nsaid VB O\n", {"labels": "-2", "tokens": "1"}),
    "comments.conll": ("# text\nEU\tB\n# x\tO\n", {}),
    "uneven.conll": ("EU NN B\nsaid VB\n", {}),
    "characters.txt": ("ab\nc d\n", {"format": "text", "unit": "characters"}),
    "windows line ends.csv": ("tokens,label\r\na b,x\r\nc,z\r\n", {}),
    "no end.jsonl": ('{"tokens": "ab", "label": 1}\n{"tokens": "cd", "label": 2}', {}),
    "negative.jsonl": ('{"tokens": [-1, 2], "label": 1}\n', {}),
    "huge.jsonl": ('{"tokens": [1], "label": 9223372036854775808}\n', {}),
    "infinite.jsonl": ('{"tokens": [[1e999, 1]], "label": 1}\n', {}),
}  # fmt: skip
"""Files, whole and not, and options of `read`."""
GAPS = np.ma.masked_array([[1, 2], [3, 4]], [[False, True], [False, False]])
FRAME = {"country": ["France", "Peru", "Chad"], "capital": ["Paris", "Lima", "N'Djamena"]}
TOLD = "the raven said nevermore , and the raven sat ; nevermore said the raven .\n"


def _shapes() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Data in memory, and options of `Sequences.of`."""
    import pandas
    import pyarrow

    return {
        "a dict": (({"France": "Paris", "Chad": "N'Djamena", "Peru": "Lima"},), {}),
        "a dict with a gap": (({"France": "Paris", "Chad": None},), {}),
        "a dict of numbers": (({"Qattara": -100, "Turpan": -154, "Assal": -1},), {}),
        "a dict of vectors": (({"a": [0.5, 1.0], "b": [2.0, -3.0]},), {}),
        "a dict of keys that are numbers": (({30: "young", 70: "old"},), {}),
        "a dict, whole": (({"New York": "I-87", "York": "A64"},), {"unit": "whole"}),
        "columns": ((FRAME,), {}),
        "columns of lists": (({"tokens": [["a", "b"], ["c"]], "labels": [[1, -100], [2]]},), {}),
        "rows": (([{"country": "France", "capital": "Paris"}, {"country": "Peru", "capital": "Lima"}],), {}),
        "pairs": (([("France", "Paris"), ("Peru", "Lima")],), {"labelled": True}),
        "pairs as sequences": (([("France", "Paris"), ("Peru", "Lima")],), {}),
        "a frame": ((pandas.DataFrame(FRAME),), {}),
        "a frame of three columns": ((pandas.DataFrame({"id": [7, 8, 9], **FRAME}),), {}),
        "two of three columns": (
            (pandas.DataFrame({"id": [7, 8, 9], **FRAME}),),
            {"tokens": "country", "labels": "id"},
        ),
        "a series": ((pandas.Series(dict(zip(*FRAME.values(), strict=True))),), {"labelled": True}),
        "a series without names": ((pandas.Series(["a b", "c"]),), {}),
        "a frame with a gap": (
            (pandas.DataFrame({"tokens": ["a", "b"], "label": pandas.array([1, None], "Int64")}),),
            {},
        ),
        "categories": ((pandas.DataFrame({"tokens": ["a", "b"], "label": pandas.Categorical(["y", "x"])}),), {}),
        "a table": ((pyarrow.table({"tokens": [[1, 2], [3]], "labels": [[5, None], [-100]]}),), {}),
        "a dictionary column": (
            (pyarrow.table({"k": ["a", "b"], "v": pyarrow.array(["y", "x"]).dictionary_encode()}),),
            {},
        ),
        "lists": (([[1, 2], [3]], [[0, None], [2]]), {}),
        "lists with −100": (([[1, 2], [3]], [[0, -100], [2]]), {}),
        "one label per sequence, −100": (([[1, 2], [3]], [0, -100]), {}),
        "an array": ((np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4) % 5 - 2), {}),
        "a masked array": ((np.array([[1, 2], [3, 4]]), GAPS), {}),
        "padded": ((np.array([[3, 1, 0], [1, 2, 4]]), np.array([[1, 2, 0], [3, 4, 5]])), {"lengths": [2, 3]}),
        "padded, one label": ((np.array([[3, 1, 0], [1, 2, 4]]), [5, 6]), {"lengths": [2, 3]}),
        "vectors": ((np.linspace(0.0, 1.0, 24).reshape(3, 4, 2), np.linspace(-1.0, 1.0, 12).reshape(3, 4)), {}),
        "tensors": ((torch.arange(6).reshape(2, 3), torch.tensor([0.5, float("nan")])), {}),
        "texts": ((["a b", "c"], ["x", "y"]), {}),
        "texts of words": ((["a b", "c"], ["x", "y"]), {"unit": "words"}),
        "flags": (([[1, 2], [3, 4]], [[True, False], [False, True]]), {}),
        "−0": (([[1], [2]], [-0.0, 0.5]), {}),
        "square": (([[1, 2], [3, 4]], [[1, 2], [3, 4]]), {"per": "sequence"}),
        "square reals": (([[1, 2], [3, 4]], [[1.0, 2.5], [3.0, 4.0]]), {"per": "sequence"}),
        "real vectors": (([[1, 2], [3, 4]], [[1.0, 2.5, 3.0], [3.0, 4.0, 1.0]]), {}),
        "integers among reals": (([[1], [2]], [1, 0.5]), {}),
        "prompts": ((["a b", "c is"], ["d", " e"]), {"per": "answer"}),
        "continuations": ((["a b", "c is"], ["d", " e"]), {"per": "continuation"}),
        "too few labels": (([[1, 2], [3]], [[0, 1]]), {}),
        "an empty row": (([[1, 2], []], [[0, 1], []]), {}),
        "no rows": (([], []), {}),
        "NaN in tokens": ((np.array([[[0.5, np.nan]]]), [1]), {}),
    }


def _data(scratch: Path) -> Named:
    from pyarrow import parquet, table

    shapes = _shapes()
    scratch.mkdir(parents=True)
    for name, (text, options) in TEXTS.items():
        (scratch / name).write_text(text, encoding="utf-8", newline="")
        (scratch / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        for file in (scratch / name, scratch / f"{name}.gz"):
            more = {"format": name.rpartition(".")[2], **options} if file.suffix == ".gz" else options
            more = {**more, "format": options.get("format", more.get("format"))}
            yield f"data {file.name}", told(lambda file=file, more=more: _meaning(read(file, **more)))  # type: ignore[misc]
        yield f"data {name} in pieces", told(lambda file=scratch / name, more=options: _in_pieces(file, **more))  # type: ignore[misc]
    for number, (given, _) in enumerate(shapes.values()):
        X, Y = (*given, None)[:2]
        if isinstance(X, list) and isinstance(Y, list) and len(X) == len(Y):
            parquet.write_table(table({"tokens": X, "labels": Y}), scratch / f"{number}.parquet")
            yield f"data {number}.parquet", told(lambda file=scratch / f"{number}.parquet": _meaning(read(file)))  # type: ignore[misc]
        elif isinstance(X, np.ndarray) and isinstance(Y, np.ndarray):
            np.savez(scratch / f"{number}.npz", X=X, Y=Y)
            yield f"data {number}.npz", told(lambda file=scratch / f"{number}.npz": _meaning(read(file)))  # type: ignore[misc]
    for names in (("tags.conll", "first.conll"), ("table.csv", "lines.jsonl"), ("numbers.jsonl", "reals.jsonl")):
        shards = [str(scratch / name) for name in names]
        yield f"data shards {names[0]}", told(lambda shards=shards: _meaning(read(shards)))  # type: ignore[misc]
    yield "data pattern", told(lambda: _meaning(read(scratch / "t*s.conll")))
    for name, (given, options) in shapes.items():
        yield f"data {name}", told(lambda given=given, options=options: _taken(*given, **options))  # type: ignore[misc]
    for unit in ("words", "characters"):
        yield f"data text of {unit}", told(lambda unit=unit: windows(3 * TOLD, unit))  # type: ignore[misc]
    yield "data window", told(lambda: windows(TOLD, "words", 3))
    yield "data too small a window", told(lambda: windows(TOLD, "words", 1))


def _in_pieces(file: Path, **options: Any) -> list[object]:
    """The same file a few tokens at a time, by pyarrow and without it, and with its keys."""
    keys: list[Any] = []
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "TOKENS_AT_ONCE", 3)
        found.append(attempt(lambda: _meaning(read(file, **options))))
        patch.setattr(readers, "ARROW", False)
        found.append(attempt(lambda: _meaning(read(file, **options))))
    return [*found, attempt(lambda: _meaning(read(file, keys=keys, **options))), keys]


def _taken(*given: Any, **options: Any) -> list[object]:
    """Sequences, some of them, and others in their words."""
    data = ml.Sequences.of(*given, **options)
    some = data.select(np.arange(len(data))[::2])
    found = [_meaning(data), _meaning(some), _meaning(join_datasets([some, data]))]
    return [*found, attempt(lambda: _meaning(ml.Sequences.of(*given, **options, vocabulary=data.vocabulary)))]


def _meaning(data: ml.Sequences) -> list[object]:
    """Everything that sequences say, whichever way they hold it: places of labels and rows of files one by one."""
    labels = data.labels
    said = None
    if labels is not None:
        places = np.arange(len(labels.values)) if labels.place is None else labels.place
        said = [places, labels.values, labels.per, labels.classes, labels.scalar]
    names = [data.named(row) for row in range(len(data))]
    plans = [text for plan in data.plans for text in (str(plan), str(plan.to_json()))]
    return [data.tokens, data.lengths, data.vocabulary, data.prompts, said, names, plans]


# -- model -------------------------------------------------------------------------------------------------------


def _models() -> Iterator[tuple[str, Any, Any]]:
    """Models and the rows that they are asked."""
    for name, (X, Y, options) in DATA.items():
        yield f"exact {name}", ml.memorize(X, Y, **options), X
    for name in ("tokens", "ragged strings", "causal"):
        X, Y, options = DATA[name]
        yield f"robust {name}", ml.memorize(X, Y, robust=True, **options), X
    X, Y, options = DATA["tokens"]
    yield "float32", ml.memorize(X, Y, dtype="float32", **options), X
    yield "unknown", ml.memorize(X, Y, unknown=True, **options), X
    yield "reals", ml.memorize(X, Y[..., None] * np.array([0.1, -3.0]), **options), X
    rows = np.random.default_rng(1).random((40, 2, 2))
    for norm in ("mean", "sup"):
        more: Any = {"norm": "sup"} if norm == "sup" else {"lipschitz": 2.0}
        yield f"function {norm}", ml.approximate(TARGETS["force"].function, 2, 2, cells=3, **more), rows
    model, data = built("cascade tokens")
    yield "cascade", model, data.tokens.reshape(len(data), -1)


def _asked(model: Any, X: Any) -> list[object]:
    """What a model says of rows, in every way; rows from back to front are mostly not stored."""
    back = X[:, ::-1].copy() if isinstance(X, np.ndarray) else [row[::-1] for row in X]
    found = [attempt(lambda path=path, rows=rows: model.predict(rows, path=path))  # type: ignore[misc]
             for path in ("auto", "dense") for rows in (X, back)]  # fmt: skip
    found += [attempt(lambda: model.predict(X)), attempt(lambda: model.seen(X)), attempt(lambda: model.seen(back))]
    found += [attempt(lambda: model.explain(X[:2]).json()), attempt(lambda: model.predict(X, strict=True))]
    if isinstance(X, np.ndarray):
        found.append(attempt(lambda: model(torch.from_numpy(X))))
    return found


def _reloaded(model: Any, X: Any) -> list[object]:
    folder = own_folder() / "saved"
    model.save(folder)
    return [folder, *_asked(ml.load(folder), X)]


def _changed(model: Any, change: Callable[[Any], object]) -> object:
    torch.manual_seed(0)
    other = copy.deepcopy(model)
    other.predict(changed.X)
    change(other)
    return other.predict(changed.X)


def _model(scratch: Path) -> Named:
    for name, model, X in _models():
        yield f"model {name}", told(lambda model=model, X=X: _asked(model, X))  # type: ignore[misc]
        yield f"model saved {name}", told(lambda model=model, X=X: _reloaded(model, X))  # type: ignore[misc]
    whole = ml.memorize(changed.X, changed.Y, positions=True)
    for name, change in changed.CHANGES.items():
        yield f"model changed {name}", told(lambda change=change: _changed(whole, change))  # type: ignore[misc]
    recited = ml.memorize_text("A rose is a rose is a rose, said the rose. " * 3)
    yield "model recited", told(lambda: list(recited.recite()))


# -- cluster -----------------------------------------------------------------------------------------------------

BUILDS = [
    ("ids", 0, 200, 150, 8.0),
    ("sparse ids", 2, 700, 800, 8.0),
    ("positions", 0, 200, 150, 8.0),
    ("next tokens", 0, 200, 150, 8.0),
    ("sequences", 2, 1000, 700, 1e11),
    ("ids", 0, 1000, 100, 1e11),
]


def _cluster(scratch: Path) -> Named:
    for number, (kind, size, block, points, slack) in enumerate(BUILDS):
        X, Y, options = files.real(kind, size)
        folder = scratch / f"files {number}"
        pattern = files.write(folder, X, Y, [100, 101, 250], key="label" if kind == "sequences" else None)

        def build(out: Path | None = None, pattern: str = pattern, pieces: Any = (block, points), slack: float = slack,
                  usual: Any = options, **options: Any) -> object:  # fmt: skip
            with files.pytest.MonkeyPatch.context() as patch:
                files.small_pieces(patch, *pieces)
                files.crowd(patch, slack)
                options = {"workers": 1, "overwrite": True, **usual, **options}
                return ml.memorize_files(pattern, out or own_folder() / "out", **options)

        yield f"cluster {kind} {slack:g}", told(build)
        if number == 0:
            yield "cluster stopped", told(lambda build=build: _stopped(build))  # type: ignore[misc]
    bad = files.write(scratch / "bad", [[0, 1, 2], [2, 1, 0], [0, 1, 2]], [[0, 1, 2], [0, 1, 1], [0, 1, 2]], [1])
    yield "cluster contradiction", told(lambda: ml.memorize_files(bad, own_folder() / "out", workers=1))


def _stopped(build: Callable[..., object]) -> list[object]:
    """A build that is stopped and goes on; one with another seed that is stopped, and this one starts over."""
    out = own_folder() / "out"
    with files.stopped("part"):
        attempt(lambda: build(out))
    found = list(_bits(build(out, resume=True)))
    with files.stopped("part"):
        attempt(lambda: build(out, seed=1))
    return [*found, build(out)]


# -- attaching ---------------------------------------------------------------------------------------------------


def _attaching(scratch: Path) -> Named:
    for kind, dtype in (("gpt2", torch.float32), ("llama", torch.bfloat16), ("opt", torch.float32)):
        host = write_host(scratch / f"host {kind}", kind, dtype=dtype)
        yield f"attaching {kind}", told(lambda host=host: _attached(host))  # type: ignore[misc]
    host = scratch / "host gpt2"
    nearly = list(FACTS)[3]
    yield "attaching kept", told(lambda: ml.attach(host, FACTS, keep=OTHERS).neurons)
    yield "attaching not kept", told(lambda: ml.attach(host, FACTS, keep=["The capital", nearly]).neurons)
    yield "attaching twice", told(lambda: ml.attach(host, [*FACTS, nearly], [*FACTS.values(), " city9"]).neurons)
    yield "attaching again", told(lambda: ml.attach(host, [*FACTS, nearly], [*FACTS.values(), FACTS[nearly]]).neurons)
    yield "attaching no end", told(lambda: ml.attach(host, FACTS, end=False, radius=2.0**-10).neurons)


def _attached(host: Path) -> list[object]:
    made = ml.attach(host, FACTS)
    folder = made.save(own_folder() / f"{host.name} with facts")
    said = [json.loads((folder / "attached.json").read_text())[key] for key in ("tensors", "appended", "radius")]
    rest = {key: FACTS[key] for key in list(FACTS)[:4]}
    return [
        *(list(made.neurons), said, made.predict([*FACTS, *OTHERS]).tolist()),
        *(
            attempt(lambda: made.predict(OTHERS, strict=True)),
            attempt(lambda: list(ml.forget(folder, rest).model.neurons)),
        ),
        ml.detach(folder).attached.manifest.tensors,
    ]


QUESTIONS: dict[str, Callable[[Path], Named]] = {
    "data": _data, "model": _model, "cluster": _cluster, "attaching": _attaching,
}  # fmt: skip
"""By package."""
