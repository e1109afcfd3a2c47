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
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # models and data are those of the tests

from tests import test_files as files
from tests import test_memory as changed
from tests.hosts import FACTS, OTHERS, write_host
from tests.kinds import built
from tests.test_contract import DATA

import monolayer as ml
from monolayer.data import read
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
}  # fmt: skip
"""Files, whole and not, and options of `read`."""
SHAPES: dict[str, tuple[Any, ...]] = {
    "a dict": ({"France": "Paris", "Chad": None, "Peru": "Lima"},),
    "a dict of numbers": ({"Qattara": -133, "Turpan": -154, "Assal": -155},),
    "lists": ([[1, 2], [3]], [[0, None], [2]]),
    "an array": (np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4) % 5 - 2),
    "vectors": (np.linspace(0.0, 1.0, 24).reshape(3, 4, 2), np.linspace(-1.0, 1.0, 12).reshape(3, 4)),
    "texts": (["a b", "c"], ["x", "y"]),
    "too few labels": ([[1, 2], [3]], [[0, 1]]),
    "an empty row": ([[1, 2], []], [[0, 1], []]),
}


def _data(scratch: Path) -> Named:
    from pyarrow import parquet, table

    scratch.mkdir(parents=True)
    for name, (text, options) in TEXTS.items():
        (scratch / name).write_text(text, encoding="utf-8")
        (scratch / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        for file in (scratch / name, scratch / f"{name}.gz"):
            more = {"format": name.rpartition(".")[2], **options} if file.suffix == ".gz" else options
            yield f"data {file.name}", told(lambda file=file, more=more: read(file, **more))  # type: ignore[misc]
    for number, (X, Y) in enumerate(given for given in SHAPES.values() if len(given) == 2):
        if isinstance(X, list) and all(map(len, X)) and len(X) == len(Y):
            parquet.write_table(table({"tokens": X, "labels": Y}), scratch / f"{number}.parquet")
            yield f"data {number}.parquet", told(lambda file=scratch / f"{number}.parquet": read(file))  # type: ignore[misc]
        elif isinstance(X, np.ndarray):
            np.savez(scratch / f"{number}.npz", X=X, Y=Y)
            yield f"data {number}.npz", told(lambda file=scratch / f"{number}.npz": read(file))  # type: ignore[misc]
    shards = [str(scratch / name) for name in ("tags.conll", "first.conll")]
    yield "data shards", told(lambda: read(shards))  # type: ignore[arg-type]
    for name, given in SHAPES.items():
        yield f"data {name}", told(lambda given=given: ml.Sequences.of(*given))  # type: ignore[misc]


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
