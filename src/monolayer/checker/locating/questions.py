"""Find where questions live in an encoder: every question has a neuron.

Another neuron writes at a question only if it may be awake in the surroundings of its key that are proved. Without its
neuron a question is unknown there, if all others are silent; that is proved as well.
"""

from __future__ import annotations

import numpy as np

from monolayer.checker.locating.location import Fact, KeyBall, Location, Slice
from monolayer.checker.locating.writers import MEASURED, NOT_KNOWN, PROVED, KnownAnswers, Writers, writers_of
from monolayer.checker.questions.caps import LEAST_REACH, Caps
from monolayer.checker.questions.check import AskedQuestions, asked_questions, assumed, measured, proved_caps
from monolayer.checker.questions.files import QuestionFolder, read_questions
from monolayer.checker.rounding import UnhandledError
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.huggingface.tensors import ModelFiles

COSINES_AT_ONCE = 1 << 22


def locate_questions(folder: ModelFiles, data: Sequences) -> Location:
    """`locate` in an encoder with questions. A question without an answer stands for the one that is stored."""
    if data.prompts is None:
        raise DataError("this folder holds questions and answers: give questions as text, with or without answers")
    questions = read_questions(folder)
    changed = questions.changed()
    if changed is not None:
        raise UnhandledError(changed)
    asked = asked_questions(questions, data)
    if asked.missing:
        row = asked.missing[0]
        raise DataError(f"{data.named(row)}, {data.texts(row)[0]!r}: the folder holds no neuron for this question")
    caps = proved_caps(questions)
    facts = []
    for row in asked.rows.tolist():
        text, answer = data.texts(row)
        facts.append(Fact(row, None, text, answer or None))
    encoder = questions.encoder
    writes = [
        f"{encoder.layer(encoder.layers + layer)}{encoder.kind.linear['W_2']}.weight"
        for layer in range(questions.layers)
    ]
    reach = float(caps.reach[asked.neuron].min(initial=1.0))
    return Location(
        facts,
        _writers(questions, caps, asked),
        tuple(Slice(name, axis=1) for name in writes),
        lambda fact: _read_slices(questions, int(asked.neuron[fact])),
        None,
        lambda numbers: [questions.classes[number] for number in numbers.tolist()],
        f"{encoder.dtype}, at embeddings û with 1 − cos(k, û) ≤ {reach:.3g} of a key",
        (*assumed(questions), *measured(questions, caps)),
        lambda fact: _ball(questions, caps, int(asked.neuron[fact])),
    )


def _writers(questions: QuestionFolder, caps: Caps, asked: AskedQuestions) -> Writers:
    """The neurons that may write around the keys of the questions that are asked for."""
    stored = asked.neuron
    answers = questions.answers
    state = np.where(caps.reach[stored] >= LEAST_REACH, PROVED, MEASURED)
    silent_angle = np.arccos(np.clip(caps.silent / (1.0 + caps.length), -1.0, 1.0))
    ball = np.arccos(1.0 - caps.reach[stored])
    pairs: list[tuple[int, int, bool, int, int]] = []
    step = max(1, COSINES_AT_ONCE // max(1, len(answers)))
    for start in range(0, len(stored), step):
        some = stored[start : start + step]
        angle = np.arccos(np.clip(caps.keys[some] @ caps.keys.T, -1.0, 1.0))
        awake = angle - silent_angle < ball[start : start + step, None]
        for place, neuron in enumerate(some.tolist()):
            fact = start + place
            others = [other for other in np.flatnonzero(awake[place]).tolist() if other != neuron]
            # Alone, its question is unknown without it; beside neurons that may be awake, nobody knows.
            known = int(state[fact]) if not others else NOT_KNOWN
            pairs.append((fact, neuron, True, 0 if not others else int(answers[neuron]), known))
            pairs += [(fact, other, False, int(answers[neuron]), NOT_KNOWN) for other in others]
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 5).T
    layer, index = np.divmod(columns[1], questions.encoder.per_layer)
    neuron, count = layer * questions.encoder.neurons + index, questions.layers * questions.encoder.neurons
    without = KnownAnswers(columns[3], columns[4])
    return writers_of(KnownAnswers(answers[stored], state), columns[0], neuron, columns[2] > 0, without, count)


def _read_slices(questions: QuestionFolder, neuron: int) -> tuple[Slice, ...]:
    """The row and the bias that a neuron reads with."""
    layer, index = divmod(neuron, questions.encoder.per_layer)
    start = f"{questions.encoder.layer(questions.encoder.layers + layer)}{questions.encoder.kind.linear['W_1']}"
    return Slice(f"{start}.weight", index), Slice(f"{start}.bias", index)


def _ball(questions: QuestionFolder, caps: Caps, neuron: int) -> KeyBall:
    """Where a neuron is, and the embeddings at which it answers and at which it is silent."""
    layer, index = divmod(neuron, questions.encoder.per_layer)
    radius = 1.0 - questions.manifest.questions[neuron].threshold
    silent = 1.0 - float(caps.silent[neuron]) / (1.0 + caps.length)
    return KeyBall(questions.encoder.layers + layer, layer, index, radius, float(caps.reach[neuron]), silent)


__all__ = ["locate_questions"]
