"""Questions to the packages that read, build and answer: each is answered by what comes back, to the last bit.

Files are read, models predict, builds from files are stopped and go on, facts are attached and taken off again. An
answer is a digest of everything that came back, or that there was an error. A fault that answers otherwise than the
true code *gives another answer*, and so does one that answers where the true code refuses. One that refuses where the
true code answers does no such harm: whoever asks learns of it.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # models and data are those of the tests

from tests import attached_answers, model_answers, model_shown, readings, test_templates
from tests import test_files as files
from tests import test_memory as changed
from tests.asked import alone
from tests.hosts import FACTS, OTHERS, tokenizer, write_host
from tests.kinds import built
from tests.record import written
from tests.test_contract import DATA

import monolayer as ml
import planted_recognized
from monolayer.theory.targets import TARGETS
from planted_told import Named, attempt, bits_of, own_folder, told

# -- data ---------------------------------------------------------------------------------------------------------


def _data(scratch: Path) -> Named:
    """The questions whose answers are recorded in `tests/readings.txt`."""
    for name, ask in readings.questions().items():
        yield name, told(ask)


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
    """What is saved, and the model that is read from it: one that is the same is saved alike."""
    folder = own_folder() / "saved"
    model.save(folder)
    again = ml.load(folder)
    return [
        folder,
        again.save(own_folder() / "again"),
        again.predict(X),
        attempt(lambda: again.predict(X, strict=True)),
        dict(again.state_dict()),
    ]


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
    for name, ask in model_answers.questions().items():
        yield f"model {name}", told(alone(lambda ask=ask: written(ask())))  # type: ignore[misc]
    yield "model picture page", told(model_shown.page)


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
    found = list(bits_of(build(out, resume=True)))
    with files.stopped("part"):
        attempt(lambda: build(out, seed=1))
    return [*found, build(out)]


# -- attaching ---------------------------------------------------------------------------------------------------


def _attaching(scratch: Path) -> Named:
    """The questions whose answers are recorded in `tests/attached_answers.txt`, and facts on further hosts."""
    for name, ask in attached_answers.questions(scratch / "recorded").items():
        yield name, told(alone(lambda ask=ask: written(ask())))  # type: ignore[misc]
    for kind, dtype in (("gpt2", torch.float32), ("llama", torch.bfloat16), ("opt", torch.float32)):
        host = write_host(scratch / f"host {kind}", kind, dtype=dtype)
        folder = ml.attach(host, FACTS).save(scratch / f"attached {kind}")
        rest = list(FACTS)[:4]
        yield f"attaching {kind}", told(lambda host=host: _made(ml.attach(host, FACTS)))  # type: ignore[misc]
        yield f"attached {kind} saved", told(lambda f=folder: ml.load(f).save(own_folder() / "again"))  # type: ignore[misc]
        yield f"attached {kind} asked", told(lambda f=folder: ml.load(f).predict([*list(FACTS)[:4], *OTHERS[:3]]))  # type: ignore[misc]
        yield f"attached {kind} known", told(lambda f=folder: ml.load(f).predict(OTHERS, strict=True))  # type: ignore[misc]
        yield f"attached {kind} forgotten", told(lambda f=folder, r=rest: _made(ml.forget(f, r, FACTS)[0]))  # type: ignore[misc]
        yield f"attached {kind} detached", told(lambda f=folder: ml.detach(f).attached.manifest.tensors)  # type: ignore[misc]
        yield f"attached {kind} host", told(lambda f=folder: ml.detach(f).save(own_folder() / "host"))  # type: ignore[misc]
    texts = tokenizer()
    texts.chat_template = test_templates.CHAT
    chatting = write_host(scratch / "host chatting", texts=texts)
    host, nearly = scratch / "host gpt2", list(FACTS)[3]
    values = [*FACTS.values()]
    for name, ask in {
        "kept": lambda: ml.attach(host, FACTS, keep=OTHERS),
        "not kept": lambda: ml.attach(host, FACTS, keep=["The capital", nearly]),
        "twice": lambda: ml.attach(host, [*FACTS, nearly], [*values, " city9"]),
        "again": lambda: ml.attach(host, [*FACTS, nearly], [*values, FACTS[nearly]]),
        "no end": lambda: ml.attach(host, FACTS, end=False, radius=2.0**-10),
        "in templates": lambda: ml.attach(host, test_templates.ROWS, templates=test_templates.TEMPLATES),
        "in chats": lambda: ml.attach(chatting, test_templates.ROWS, chat=["be far", ""]),
    }.items():
        yield f"attaching {name}", told(lambda ask=ask: _made(ask()))  # type: ignore[misc]
    yield "attaching near", told(lambda: _near(host))
    yield from planted_recognized.answers(scratch)


def _made(made: Any) -> list[object]:
    said = json.loads(made._finished().to_json())
    rows = attempt(lambda: made.rows())
    return [list(made.neurons), *(said[key] for key in ("tensors", "appended", "radius")), made.blocks, rows]


def _near(host: Path) -> list[object]:
    """Prompts that end with a stored one, or are too long, and what is said of them."""
    made = ml.attach(host, dict(list(FACTS.items())[:3]))
    rows = [f"Also, {next(iter(FACTS))}", list(FACTS)[1], "capital " * 90, ""]
    return [attempt(lambda row=row: made.predict([row], strict=True)) for row in rows]  # type: ignore[misc]


QUESTIONS: dict[str, Callable[[Path], Named]] = {
    "data": _data, "model": _model, "cluster": _cluster, "attaching": _attaching,
}  # fmt: skip
"""By package."""
