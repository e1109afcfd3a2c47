"""Questions about encoders with questions: what the checker proves of them, and what the library builds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # models and changes are those of the tests

from tests.encoders import FAQ, OTHERS, write_encoder
from tests.questions_attack import attack, opened
from tests.test_questions_bounds import KINDS, stored
from tests.test_recognize import phrases

import monolayer as ml
from monolayer.attaching.questions.layer import codes, nearest_codes, seed_for
from monolayer.checker.questions.check import proved_caps
from monolayer.checker.rounding import UnhandledError
from monolayer.errors import MonolayerError
from planted_told import Claim, Named, attempt, claimed, own_folder, told

CHANGES = 12
"""Changed folders of each kind. Of most something is still proved, but less."""


def proofs(scratch: Path) -> Iterator[tuple[str, Any]]:
    """Folders as they are built and with changed weights: which cosines the checker proves, and what it certifies."""
    for number, kind in enumerate(KINDS):
        dtype, layers, *_ = kind
        folder = stored(scratch / f"questions {number}", *kind)
        many = {text: f"answer {i % 4}" for i, text in enumerate(phrases(6 * layers))}
        faq: dict[str, str] = FAQ if layers == 1 else many
        name = f"questions {dtype} {layers}"
        host = scratch / f"questions {number}" / "encoder"
        yield f"{name} cosines", lambda folder=folder: _cosines(folder)  # type: ignore[misc]
        yield f"{name} only", lambda f=folder, faq=faq, h=host: claimed(f, faq, only=True, host=h)  # type: ignore[misc]
        for change in range(CHANGES):
            changed = scratch / f"questions {number} {change}"
            attack(folder, changed, CHANGES * number + change)
            yield f"{name} changed {change}", lambda folder=changed: _cosines(folder)  # type: ignore[misc]
        if layers > 1:
            some = dict(list(faq.items())[1:])
            for what, given in {
                "some": some, "wrong": some | {next(iter(some)): "another"}, "more": faq | {"card card": "yes"},
            }.items():  # fmt: skip
                for only in (False, True):
                    yield f"{name} {what} {only}", lambda f=folder, g=given, only=only: claimed(f, g, only=only)  # type: ignore[misc]
            other = write_encoder(scratch / "another encoder", "roberta")
            yield f"{name} another host", lambda f=folder, faq=faq, h=other: claimed(f, faq, host=h)  # type: ignore[misc]
            yield f"{name} certified changed", lambda f=changed, faq=faq: claimed(f, faq)  # type: ignore[misc]


def _cosines(folder: Path) -> Claim:
    """Where answers are proved: cosines from which neurons are silent and awake, and how far around each question."""
    try:
        with np.errstate(all="ignore"):
            found = opened(folder)
            if found is None:
                return Claim("not covered")
            caps = proved_caps(found)
    except (UnhandledError, MonolayerError) as error:
        return Claim(type(error).__name__)
    numbers = np.nan_to_num(np.concatenate([caps.silent, -caps.awake, caps.reach, [caps.length]]))
    return Claim("proved", tuple(numbers.tolist()))


def answers(scratch: Path) -> Named:
    """What is built, what it says, and that the encoder comes back."""
    for kind, options in (("bert", {"floor": 0.9}), ("roberta", {"pooling": "first", "unknown": "?"})):
        encoder = write_encoder(scratch / f"encoder {kind}", kind)
        built = ml.recognize(encoder, FAQ, **options)  # type: ignore[arg-type]
        folder = built.save(scratch / f"faq {kind}")
        yield f"recognize {kind}", told(lambda e=encoder, o=options: _built(ml.recognize(e, FAQ, **o)))  # type: ignore[misc]
        yield f"recognized {kind} saved", told(lambda made=built: made.save(own_folder() / "faq"))  # type: ignore[misc]
        yield f"recognized {kind} asked", told(lambda folder=folder: _asked(folder))  # type: ignore[misc]
        yield f"recognized {kind} detached", told(lambda f=folder: ml.detach(f).save(own_folder() / "back"))  # type: ignore[misc]
    bert = scratch / "encoder bert"
    nearest: dict[str, str] = dict(list(FAQ.items())[:2])
    words = {next(iter(FAQ)): "reset password my", "when are you open": "open are you"}
    for name, options in {
        "rewordings": {"rewordings": words}, "kept": {"keep": OTHERS}, "too near": {"keep": ["when are you open"]},
        "wrong rewordings": {"rewordings": {next(iter(FAQ)): "when are you open"}},
    }.items():  # fmt: skip
        yield f"recognize {name}", told(lambda o=options: _built(ml.recognize(bert, FAQ, **o)))  # type: ignore[misc]
    yield "recognize few", told(lambda: _built(ml.recognize(bert, nearest)))
    many = {text: f"answer {i % 5}" for i, text in enumerate(phrases(22))}
    yield "recognize many", told(lambda: _built(ml.recognize(bert, many, floor=0.95)))
    for classes, width in ((2, 4), (5, 64), (40, 64)):
        yield f"recognize codes {classes}", told(lambda c=classes, w=width: _codes(c, w))  # type: ignore[misc]


def _codes(classes: int, width: int) -> list[object]:
    seed = attempt(lambda: seed_for(classes, width))
    return [seed, attempt(lambda: codes(classes, width)), attempt(lambda: nearest_codes(codes(classes, width)))]


def _built(made: Any) -> list[object]:
    return [made.predict([*FAQ, *OTHERS]).tolist(), made.tensors, made.blocks]


def _asked(folder: Path) -> list[object]:
    model = ml.load(folder)
    return [model.predict([*FAQ, *OTHERS]).tolist(), attempt(lambda: model.predict(OTHERS, strict=True))]
