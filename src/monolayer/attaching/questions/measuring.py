"""Ask an encoder with questions, as it lies in a folder, and look how far embeddings are from their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monolayer.attaching.questions.folder import Recognizer
from monolayer.attaching.questions.recognize import unit
from monolayer.attaching.questions.running import Running
from monolayer.data import Sequences
from monolayer.huggingface.questions import question_digest
from monolayer.huggingface.tensors import ModelFiles
from monolayer.model.torch_settings import own_settings
from monolayer.table import Progress, plural

NAMED = 3
"""How many wrong answers are named."""


@dataclass(frozen=True)
class Measured:
    """What asking showed.

    `kernels`: by which attention. `asked`: how many questions; `wrong`: answered differently; `examples`: some of
    these, in words; `outside`: stored ones whose embedding is not near the key of their neuron; `moved`: the farthest.
    """

    kernels: tuple[str, ...]
    asked: int
    wrong: int
    examples: str
    outside: int
    moved: float

    def __str__(self) -> str:
        asked = (
            f"asked here for {plural(self.asked, 'question')}, with {' and '.join(self.kernels)} attention, in batches "
            "with padding"
        )
        return f"{asked}: {self.asked - self.wrong:,} right, embeddings within 1 − cos = {self.moved:.2g} of their keys"


@own_settings()
def measure(opened: ModelFiles, data: Sequences, reach: float, length: float, report: Progress) -> Measured:
    """Ask for every question in `data`.

    Answers are proved for 1 − cos(key, û) up to `reach`, and |û| up to `length` from 1.
    """
    model = Recognizer.load(opened)
    ids, places, number = model.ids(data), model.manifest.places, {name: i for i, name in enumerate(model.classes)}
    rows = [row for row, text in enumerate(ids) if model.encoder.misfit(text) is None]
    wanted = np.array([number.get(data.texts(row)[1], -1) for row in rows], dtype=np.int64)
    neuron = np.array([places.get(question_digest(ids[row]), -1) for row in rows], dtype=np.int64)
    with np.errstate(invalid="ignore"):  # the rows of a changed folder may be 0, or NaN
        keys, stored = unit(model.neurons.rows), neuron >= 0
    running = Running(model.encoder, model.config, model.tensors)
    wrong, outside, moved = (np.zeros(len(rows), dtype=kind) for kind in (bool, bool, float))
    got: Sequence[int] = wanted.tolist()
    kernels = model.encoder.kind.kernels
    for kernel in kernels:
        reply = running.say([ids[row] for row in rows], kernel, report)
        got = np.where(wrong, got, reply.classes).tolist()
        wrong |= reply.classes != wanted
        with np.errstate(invalid="ignore"):
            fell = reply.turned(keys[neuron]) if len(keys) else np.zeros(len(rows))
        odd = ~(np.abs(np.linalg.norm(reply.states, axis=1) - 1.0) <= length)
        outside |= stored & (odd | ~(fell <= reach))
        moved = np.maximum(moved, np.where(stored, fell, 0.0))
    examples = "; ".join(
        f"{data.named(rows[i])}: {model.classes[got[i]]!r}" for i in np.flatnonzero(wrong)[:NAMED].tolist()
    )
    return Measured(
        kernels,
        len(data),
        int(wrong.sum()) + len(data) - len(rows),
        examples,
        int(outside.sum()),
        float(moved.max(initial=0.0)),
    )
