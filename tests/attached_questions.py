"""Questions to encoders with questions stored in them: thresholds, words and neurons from given states, and folders.

Directions that a decomposition chooses may have either sign, so of these only what no sign changes is recorded.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.attaching.facts import read_facts
from monolayer.attaching.questions import layer, measuring, radii, recognize, running
from monolayer.attaching.questions.folder import Recognizer
from monolayer.huggingface.encoders import read_encoder
from monolayer.huggingface.formats import HOST_FORMATS
from monolayer.huggingface.questions import AS_THEY_ARE, Draw
from monolayer.huggingface.tensors import Tensor
from tests.attached_runs import attempt, noise
from tests.encoders import WORDS
from tests.plain_hosts import WIDTH, plain_encoder
from tests.record import Ask, few_digits, own_folder, undigested

FAQ = {
    "how do i reset my password": "Use the link.",
    "when are you open": "From 9 to 17.",
    "where is my order": "See the page.",
    "at what time do you close": "From 9 to 17.",
    "can i pay by card": "Yes.",
}
OTHERS = ["card card card", "open my order password", "what is where"]
KINDS = (("bert", "float32"), ("roberta", "bfloat16"), ("distilbert", "float16"), ("bert", "float16"))


def questions(folder: Path) -> Iterator[tuple[str, Ask]]:
    """Each with its name; encoders are written to `folder`, and questions stored there."""
    encoders = {f"{kind} {dtype}": plain_encoder(folder / f"{kind} {dtype}", kind, dtype) for kind, dtype in KINDS}
    for name, path in encoders.items():
        encoder = read_encoder(path)[0]
        yield f"sizes of {name}", partial(_sizes, encoder)
        yield f"thresholds of {name}", partial(_thresholds, encoder)
        yield f"tensors of {name}", partial(_tensors, encoder)
    bert, first = encoders["bert float32"], plain_encoder(folder / "first", "distilbert", pad=False)
    yield "sizes of other encoders", _other_sizes
    yield "codes", _codes
    yield "recognized", partial(_recognized, bert, {"floor": 0.9})
    yield (
        "recognized by the first token",
        partial(_recognized, first, {"floor": 0.9, "pooling": "first", "unknown": "?"}),
    )
    yield "recognized in layers", partial(_many, bert)
    for name, options in {
        "rewordings": {"rewordings": {next(iter(FAQ)): "reset password my"}},
        "kept": {"keep": OTHERS},
        "with a floor of its own": {},
    }.items():
        yield f"recognized {name}", partial(_recognized, bert, options)
    done = ml.recognize(bert, FAQ, floor=0.9).save(folder / "faq")
    yield "recognized saved", partial(_saved, done, bert)
    yield "recognized changed", partial(_changed, done)
    yield "recognized measured", partial(_measured, done)
    yield "recognized damaged", partial(_damaged, done)
    for name, ask in _refusals(bert).items():
        yield f"not recognized {name}", ask
    yield "recognized wrongly", partial(_wrongly, bert)
    yield "encoders run", partial(_run, bert)


# -- from given states ---------------------------------------------------------------------------------------------


def _sizes(encoder: Any) -> list[object]:
    """What follows from the encoder alone, and how wide strips are."""
    gains = (layer.GAIN, 0.25)
    near = np.array([[0.2, 0.4, -0.1], [0.9, 0.3, 0.7]])
    return [
        layer.room_of(encoder),
        layer.constant_of(encoder),
        layer.level_of(encoder),
        layer.steepness(encoder),
        layer.read_scale(np.zeros((encoder.width, layer.room_of(encoder)))),
        layer.read_scale(np.zeros((768, 64))),
        [radii.strip(encoder, number, gain) for number in range(4) for gain in gains],
        radii.strips(encoder, 3 * encoder.per_layer + 1),
        radii.default_floor(near, encoder),
        radii.default_floor(np.full((2 * encoder.per_layer, 1), 0.5), encoder),
        [recognize._in_float32(encoder, room) for room in (np.array([]), np.array([0.1, 0.3]), np.array([2.0]))],
        radii.reach_of(np.eye(3), np.eye(3), encoder),
        radii.reach_of(np.eye(2), np.array([[3.0, 1.0], [0.0, 2.0]]), encoder),
    ]


def _other_sizes() -> list[object]:
    """What follows from widths, activations and formats that encoders may have."""
    found: list[object] = []
    for width in (8, 24, 60, 200, 256, 384, 768, 1024, 1100):
        for dtype, identity, silence in (("float32", 3.5, 12.0), ("float16", 0.0, 0.0), ("bfloat16", 7.0, 128.0)):
            one: Any = SimpleNamespace(
                width=width,
                identity=identity,
                silence=silence,
                dtype=dtype,
                format=HOST_FORMATS[dtype],
                epsilon=1e-5,
                per_layer=4,
                blocks=lambda count: -(-count // 4),
            )
            sizes = (layer.room_of(one), layer.constant_of(one), layer.level_of(one), layer.steepness(one))
            found.append([*sizes, [radii.strip(one, number, gain) for number in (0, 1, 3) for gain in (4.0, 0.5)]])
    return found


def _keys(count: int = 14, width: int = 6) -> Any:
    random = np.random.RandomState(1)
    keys = random.standard_normal((4, width))[random.randint(0, 4, count)] + 0.35 * random.standard_normal(
        (count, width)
    )
    return keys / np.sqrt((keys * keys).sum(axis=1, keepdims=True))


def _thresholds(encoder: Any) -> list[object]:
    """Of questions in groups, with few and many answers, with texts to keep and without, in pieces or at once."""
    keys = _keys()
    kept = _keys(5)[1:] if encoder.format.short else _keys(30)[-4:]
    found: list[object] = []
    for answers in (np.arange(14) % 3, np.zeros(14, np.int64), np.arange(14), np.arange(14) // 5):
        for floor, reach in ((-1.0, 2.0**-13), (0.8, 2.0**-9)):
            for keep in (kept, kept[:0]):
                room = radii.strips(encoder, 14, 1.0)
                draw = Draw(0, floor, 8, reach)
                whole = radii.thresholds(encoder, keys, answers, draw, keep, room)
                found.append(whole)
                for at_once in (30, 5):
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(radii, "AT_ONCE", at_once)
                        pieces = radii.thresholds(encoder, keys, answers, draw, keep, room)
                    found.append([np.abs(one - two).max() < 1e-9 for one, two in zip(pieces, whole, strict=True)])
    near = np.array([-1.0, -0.5, 0.0, 0.99, 1.0, 1.1])
    for psi in (0.0, 0.1, 3.0):
        found += [radii.widened(near, psi), radii.narrowed(near, psi)]
    found.append(radii.lowered(near, 2.0**-6, np.linspace(0.0, 0.1, 6)))
    odd, room = np.full(14, 0.5), radii.strips(encoder, 14, 1.0)
    few = SimpleNamespace(per_layer=4)
    found.append(radii.out_of_strips(few, keys, np.arange(14) % 2, odd, 0.01, 20.0 * room))
    return found


def basis_of(width: int, room: int) -> Any:
    """Directions without a mean, at right angles to each other: rows of a Hadamard matrix."""
    matrix = np.ones((1, 1))
    while len(matrix) < width:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix[:, 1 : room + 1] / np.sqrt(width)


def _tensors(encoder: Any) -> list[object]:
    """All tensors that are added for some questions, from their keys, thresholds and answers."""
    D, room = encoder.width, layer.room_of(encoder)
    basis, random = basis_of(D, room), np.random.RandomState(2)
    states = random.standard_normal((2 * encoder.per_layer + 2, D)) + 0.3
    rows = layer.key_rows(states, basis, encoder)
    signs = layer.codes(3, ["unknown", "a", "b"], room)
    found: list[object] = [layer.outside(basis), rows, layer.words(basis, signs)]
    for least in (0.01, 0.5, 0.9):
        found += [layer.gain_of(rows, least, layer.words(basis, signs), encoder)]
    found += [layer.gain_of(rows[:count], 0.95, layer.words(basis, signs[:1] / 8.0), encoder) for count in (1, 2)]
    found.append(layer.gain_of(rows[:0], 0.5, layer.words(basis, signs), encoder))
    for count in (len(rows), 3, 0):
        for pooling in ("mean", "first"):
            some = layer.Neurons(rows[:count], np.linspace(0.5, 0.95, count), 1 + np.arange(count) % 2)
            found.append(layer.tensors(encoder, some, basis, signs, pooling))
    dense = np.zeros((D, D))
    dense[:room] = 0.5 * basis.T
    spread = np.diag(np.linspace(0.1, 3.0, D))
    chosen = layer.least_used(random.standard_normal((9, D)) * np.linspace(0.2, 2.0, D), spread, 5, encoder)
    return [
        *found,
        layer.stored_basis(dense, room),
        few_digits(chosen @ chosen.T, 2),
        [layer.attention_output(basis, encoder, pooling) for pooling in ("mean", "first")],
    ]


def _codes() -> list[object]:
    names = [f"answer {number}" for number in range(40)]
    found: list[object] = []
    for count, room in ((1, 8), (2, 4), (5, 16), (5, 64), (40, 64), (40, 8), (40, 4), (3, 9)):
        found.append(attempt(lambda n=names[:count], r=room: layer.seed_for(n, r)))
        found.append(attempt(lambda n=names[:count], r=room: layer.seed_for(n, r, 7)))
        words = layer.codes(2, names[:count], room)
        found += [words, layer.nearest_codes(words)]
    many = layer.codes(2, [str(number) for number in range(1100)], 24)
    many[1050] = many[1040]
    return [*found, layer.nearest_codes(many[:1040]), layer.nearest_codes(many)]


# -- encoders ------------------------------------------------------------------------------------------------------


def _recognized(encoder: Path, options: dict[str, Any]) -> list[object]:
    stages: list[tuple[str, float]] = []
    made: Any = attempt(lambda: ml.recognize(encoder, FAQ, progress=lambda *one: stages.append(one), **options))
    if isinstance(made, str):
        return [made]
    return [
        *shown(made),
        {name: round(share, 3) for name, share in stages},
        made.predict([*FAQ, *OTHERS]).tolist(),
        [
            {
                **row,
                "from": few_digits(row["from"]),
                "width": few_digits(row["width"], 2),
                "margin": row["margin"] if row["margin"] is None else few_digits(row["margin"], 2),
            }
            for row in made.report()
        ],
        attempt(lambda: made.predict(OTHERS, strict=True)),
        made.known(["Yes.", None, made.manifest.unknown, "?"]),
        made.predict(OTHERS[0]),
        made.predict([*list(FAQ)[:1], *OTHERS], unknown=None).tolist(),
    ]


def shown(made: Recognizer) -> list[object]:
    """The thresholds, the table, the numbers for JSON and the manifest of a model."""
    said = json.loads(made._finished().to_json())
    moved = [noise(each.pop("moved")) for each in said["questions"]]
    tau = [few_digits(1.0 - each.pop("threshold"), 2) for each in said["questions"]]
    said["draw"] |= {name: few_digits(said["draw"][name]) for name in ("floor", "reach")}
    sizes = made.sizes
    sizes |= {
        "moved": noise(sizes["moved"]),
        "floor": few_digits(sizes["floor"]),
        "measured": undigested(sizes["measured"]),
    }
    sizes["thresholds"] = {name: few_digits(1.0 - part, 2) for name, part in sizes["thresholds"].items()}
    kept = {key: part for key, part in said.items() if key not in ("headers", "measured")}
    unasked = replace(made.manifest, questions=tuple(replace(each, moved=None) for each in made.manifest.questions))
    rows = [re.sub(r"cos = \S+", "cos = …", f"{name}: {text}") for name, text in made.rows()]
    return [
        few_digits(made.neurons.rows, 2),
        made.neurons.answers,
        tau,
        moved,
        rows,
        sizes,
        undigested(kept) | {"tensors": len(said["tensors"])},
        made.classes,
        made.card,
        made.config,
        made.blocks,
        few_digits(made.kept),
        few_digits(made.reworded),
        [limit.words for limit in made.limits],
        [f"{name} {list(part.shape)}" for name, part in sorted(made.tensors.items())],
        re.sub(r"cos = \S+", "cos = …", made.readme()),
        [name for name, _ in replace(made, manifest=unasked).rows()],
        sorted(made.json()),
    ]


def _many(encoder: Path) -> list[object]:
    """More questions than a layer holds: which are asked in batches, and what becomes of repeated rows."""
    stages: list[tuple[str, float]] = []
    texts = [f"{one} {two}" for one in WORDS[:4] for two in WORDS[4:9]]
    rows, answers = [*texts, texts[0]], [text.partition(" ")[0] for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recognize, "LEAST_TRIED", 6)
        patch.setattr(running, "TOGETHER", 4)
        made: Any = attempt(
            lambda: ml.recognize(
                encoder, rows, [*answers, answers[0]], floor=0.97, progress=lambda *one: stages.append(one)
            )
        )
        stored = [SimpleNamespace(ids=[0] * (3 + number % 5)) for number in range(20)]
        tried: Any = [recognize.tried(stored[:count], np.sin(np.arange(count))) for count in (3, 6, 7, 20)]
        said = [
            tried,
            [(stage, round(share, 3)) for stage, share in stages[-12:]],
            list(running._batches([(1,) * (number % 4) for number in range(10)])),
        ]
    return (
        [*said, made]
        if isinstance(made, str)
        else [
            *said,
            *shown(made),
            made.repeated,
            dict(made.rows())["repeated"],
            made.predict(texts).tolist() == answers,
        ]
    )


def _saved(folder: Path, encoder: Path) -> list[object]:
    """A folder that is loaded and saved again, and the encoder that comes back."""
    made: Any = ml.load(folder)
    again, back = made.save(own_folder() / "again"), ml.detach(folder).save(own_folder() / "back")
    same = {path.name: path.read_bytes() == (again / path.name).read_bytes() for path in sorted(folder.iterdir())}
    was = {path.name: path.read_bytes() == (back / path.name).read_bytes() for path in sorted(encoder.iterdir())}
    names = sorted(path.name for path in back.iterdir())
    found = [
        attempt(lambda: made.save(folder)),
        attempt(lambda: made.save(again, overwrite=True).name),
        attempt(lambda: made.report()),
        attempt(lambda: ml.detach(folder).save(back, overwrite=True).name),
    ]
    return [same, was, names, ml.detach(folder).rows(), *shown(made)[3:], made.json()["repeated"], found]


def _changed(folder: Path) -> list[object]:
    old = Recognizer.load(folder)
    found: list[object] = []
    asked: list[int] = []
    plain = running.Running.pooled
    for change in (
        lambda: ml.forget(folder, list(FAQ)[:1], FAQ),
        lambda: ml.insert(folder, {"where are you": "Here."}, data=FAQ),
        lambda: ml.edit(folder, {list(FAQ)[2]: "Yes."}, data=FAQ),
        lambda: ml.insert(folder, {"where are you": "unknown"}, data=FAQ),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                running.Running, "pooled", lambda run, texts, say: asked.append(len(texts)) or plain(run, texts, say)
            )
            result: Any = attempt(change)
        if isinstance(result, str):
            found.append(result)
            continue
        made = result[0]
        old_rows = {each.question: row for each, row in zip(old.manifest.questions, old.neurons.rows, strict=True)}
        same = [
            bool(np.array_equal(old_rows.get(each.question, 0.0), row))
            for each, row in zip(made.manifest.questions, made.neurons.rows, strict=True)
        ]
        found.append(
            [
                same,
                made.classes,
                made.neurons.answers,
                few_digits(1.0 - made.neurons.thresholds, 2),
                made.predict([*FAQ, "where are you"]).tolist()[1:5],
                made.repeated,
                [noise(each.moved) for each in made.manifest.questions],
                [limit.words for limit in made.limits],
            ]
        )
    return [*found, asked]


def _measured(folder: Path) -> list[object]:
    """What asking a folder finds, also where answers are others, and where keys are others than they were."""
    made = Recognizer.load(folder)
    more = FAQ | {"card": "Yes.", "card card card": "Elsewhere.", "how " * 60: "Yes.", next(iter(FAQ)): "Another."}
    turned = made.neurons._replace(rows=np.roll(made.neurons.rows, 1, axis=1))
    other = replace(made, neurons=turned, given=None).save(own_folder() / "turned")
    stages: list[tuple[str, float]] = []
    found: list[object] = []
    for where, given, reach, length in (
        (folder, FAQ, 2.0**-13, 0.01),
        (folder, more, 2.0**-13, 0.01),
        (folder, FAQ, 0.0, 1e-9),
        (other, FAQ, 0.5, 0.01),
        (folder, FAQ, 2.0**-13, -1.0),
    ):
        data = read_facts(given, None, AS_THEY_ARE)
        said = measuring.measure(Recognizer.load(where).source, data, reach, length, lambda *one: stages.append(one))
        outside = said.outside if reach else "any"
        found.append(
            [
                said.kernels,
                said.asked,
                said.wrong,
                said.examples,
                outside,
                few_digits(said.moved, 1) if said.moved > 0.02 else noise(said.moved),
                str(said).replace(f"{said.moved:.2g}", "…"),
            ]
        )
    plain: Any = running.Running.say
    for odd in ("eager", "sdpa"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                running.Running,
                "say",
                lambda run, ids, kernel, report, odd=odd: _rolled(plain(run, ids, kernel, report), kernel == odd),
            )
            said = measuring.measure(made.source, read_facts(FAQ, None, AS_THEY_ARE), 0.5, 0.01, lambda *one: None)
        found.append([said.wrong, said.examples, said.outside, few_digits(said.moved, 1)])
    return [*found, stages]


def _rolled(reply: running.Reply, odd: bool) -> running.Reply:
    """A reply in which one state is another, and one answer, if this kernel of attention is the odd one."""
    if odd:
        reply.states[1], reply.classes[2] = np.roll(reply.states[1], 1), 4
    return reply


def _damaged(folder: Path) -> list[object]:
    from safetensors.torch import load_file, save_file

    found: list[object] = []
    for name, change in {
        "model.safetensors": lambda held: held.pop("bert.pooler.dense.weight"),
        "questions.safetensors": lambda held: held.clear(),
        "config.json": lambda said: said.update(id2label={"0": "unknown"}, label2id={"unknown": 0}),
        "questions.json": lambda said: said["questions"].pop(),
    }.items():
        other = shutil.copytree(folder, own_folder() / "other")
        path = other / name
        if not path.exists():
            found.append(f"no {name}: {sorted(part.name for part in other.iterdir())}")
            continue
        if name.endswith(".json"):
            said = json.loads(path.read_text())
            change(said)
            path.write_text(json.dumps(said))
        else:
            held = load_file(path)
            change(held)
            save_file(held, path, metadata={"format": "pt"})
        found.append(attempt(lambda o=other: ml.load(o).blocks))
        found.append(attempt(lambda o=other: ml.detach(o).rows()))
    return found


def _refusals(encoder: Path) -> dict[str, Ask]:
    first, *_ = FAQ
    given: dict[str, dict[str, Any]] = {
        "with a floor of 1": {"floor": 1.0},
        "with a floor of -1": {"floor": -1.0},
        "with a low floor": {"floor": -0.9},
        "pooled oddly": {"pooling": "last"},
        "with an answer that is unknown": {"unknown": "Yes."},
        "reworded without a question": {"rewordings": {"card": "my"}},
        "reworded too far": {"rewordings": {first: "when are you open"}, "floor": 0.9},
        "kept too near": {"keep": [first]},
        "kept oddly": {"keep": 3},
        "kept without a token": {"keep": [" "]},
        "on no device": {"device": "nowhere"},
        "kept too long": {"keep": ["card " * 60]},
    }
    found: dict[str, Ask] = {
        name: (lambda o=options: _brief(attempt(lambda: ml.recognize(encoder, FAQ, **o))))
        for name, options in given.items()
    }
    others: dict[str, Any] = {
        "contradicting": ([first, first], ["a", "b"]),
        "the same twice": ([first, first], ["a", "a"]),
        "too long": (["card " * 60], ["a"]),
        "empty": ([""], ["a"]),
        "nearly the same": (["card card card card", "card card card card card"], ["a", "b"]),
    }
    for name, (texts, answers) in others.items():
        found[name] = lambda t=texts, a=answers: _brief(attempt(lambda: ml.recognize(encoder, t, a, floor=0.9)))
    found["no folder"] = lambda: attempt(lambda: ml.recognize(3, FAQ))
    return found


def _brief(made: Any) -> object:
    return made if isinstance(made, str) else [len(made.neurons.rows), made.repeated, made.classes]


def _wrongly(encoder: Path) -> list[object]:
    """What is said where a question gets another answer: alone, or in batches; and where states are no numbers."""
    found: list[object] = []
    plain: Any = running.Running.say

    def odd(run: Any, *args: Any) -> Any:
        reply = plain(run, *args)
        return reply._replace(classes=(reply.classes + 1) % 5)

    ways: dict[str, Any] = {
        "at": lambda run, states: np.zeros(len(states), np.int64),
        "say": odd,
        "read": lambda run, pooled, output: np.full((len(pooled.mean), WIDTH), np.nan),
    }
    for name, way in ways.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running.Running, name, way)
            for few in (2, 5):
                patch.setattr(recognize, "NAMED", few)
                found.append(attempt(lambda: ml.recognize(encoder, FAQ, floor=0.9, keep=OTHERS)))
    return found


def _kept_running(encoder: Path) -> list[bool]:
    """Whether a model is loaded once, and anew for a device that is named."""
    made = ml.recognize(encoder, FAQ, floor=0.9)
    return [made.running() is made.running(), made.running("cpu") is made.running()]


def _run(encoder: Path) -> list[object]:
    """States of texts, pooled and read, and what becomes of tensors that do not fit."""
    base = read_encoder(encoder)[0]
    runs = running.Running(base, base.config, {})
    stages: list[tuple[str, float]] = []
    pooled = runs.pooled([(0, 5, 6, 2), (0, 9, 2)], lambda *one: stages.append(one))
    output = layer.attention_output(basis_of(base.width, 8), base, "mean")
    moved: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "put_on", lambda model, device: moved.append(device))
        running.Running(base, base.config, {}, "cpu")
    odd = {name: torch.zeros(3, 3) for name in base.tensors}
    more = Tensor("bert.more", "F32", (1,), memoryview(bytes(4)))
    chosen: list[str] = []
    made = ml.recognize(encoder, FAQ, floor=0.9).running()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made.model, "set_attn_implementation", chosen.append)
        made.pooled([(0, 5, 2)], lambda *one: None)
        for kernel in ("eager", None, "sdpa"):
            made.say([(0, 5, 2)], kernel)
    hooks = sum(len(part._forward_hooks) for part in made.model.modules())
    numbers = {
        code: Tensor("a tensor", code, (2,), memoryview(bytes(16)[: 2 * size]))
        for code, size in {
            "F64": 8,
            "F32": 4,
            "F16": 2,
            "BF16": 2,
            "I64": 8,
            "I32": 4,
            "I16": 2,
            "I8": 1,
            "U8": 1,
            "BOOL": 1,
            "F8_E4M3": 1,
        }.items()
    }
    return [
        *(few_digits(part.double().numpy()) for part in pooled[:2]),
        few_digits(pooled.spread),
        few_digits(runs.read(pooled, output)),
        stages,
        [chosen, moved, hooks, *_kept_running(encoder)],
        attempt(lambda: running.Running(base, base.config, odd)),
        attempt(lambda: running.Running(replace(base, tensors={**base.tensors, "bert.more": more}), base.config, {})),
        attempt(lambda: running.Running(base, base.config, {"another": torch.zeros(1)})),
        {code: attempt(lambda t=tensor: str(running.as_torch(t).dtype)) for code, tensor in numbers.items()},
        list(running.as_torch(Tensor("none", "F32", (0, 3), memoryview(b""))).shape),
        running.Reply(np.zeros(3, np.int64), np.eye(3) + 0.5).turned(np.eye(3)[:2]),
    ]
