"""Reciting: a model of the windows of a text, asked again and again for what comes next.

One answer takes O(w + log R) for windows of `w` tokens and `R` steps: the terms of `w` keys are added up anew, and the
step is found by binary search. `w` is fixed, so a text of `T` tokens takes O(T). A running sum would not do: keys
hold the place in the window, which changes for every token when the window moves on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import torch

from monolayer.data import Sequences
from monolayer.data.text import MARK, Script
from monolayer.errors import DataError, similar_words
from monolayer.model.attention import CODE, KEY
from monolayer.model.parts import Parts
from monolayer.model.shortcut import plan

TOKENS = {"words": "words, spaces and signs", "characters": "characters"}
"""What the tokens of a text are, in words, by unit."""
SAFE_SCORE = 700.0
"""Scores up to this size are added up as they are: `e^700` is 10^304, and 17,000 of them add up to a float64."""
LabelsOf = Callable[[Sequences], "np.ndarray[tuple[int], np.dtype[np.int64]]"]


def recite(model: Parts, prompt: str, labels: LabelsOf) -> Iterator[str]:
    """The text after `prompt`, a token at a time, to its end. `labels` is the model's own answer to any data."""
    script, vocabulary = model.card.script, model.card.vocabulary
    if script is None or vocabulary is None:
        raise DataError("this model does not recite: memorize a text with memorize_text (monolayer memorize-text)")
    rows = []
    for token in script.split(prompt):
        if token not in vocabulary.rows:
            near = similar_words(token, vocabulary.names)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise DataError(f"the text has no {token!r}{hint}")
        rows.append(vocabulary.rows[token])
    beginning = [vocabulary.rows[MARK], *rows]
    if len(beginning) <= script.window and _known(model, beginning):
        return _stream(model, beginning, script, labels)
    if not rows or not _known(model, rows[-script.short(len(rows)) :]):  # an empty prompt whose beginning was forgotten
        raise DataError(
            f"the prompt does not occur in the text, or continues in several ways there. Any {script.window} tokens in "
            f"a row determine what comes next ({TOKENS[script.unit]}); the prompt has {len(rows)}"
        )
    return _stream(model, rows, script, labels)


def _stream(model: Parts, rows: list[int], script: Script, labels: LabelsOf) -> Iterator[str]:
    assert model.card.vocabulary is not None  # recite saw to it
    names, answer = model.card.vocabulary.names, _next_row(model, labels)
    begun = names[rows[0]] == MARK
    seen = deque(rows, maxlen=script.window)
    while True:
        window = list(seen)
        if not begun and len(window) < script.window:
            window = window[-script.short(len(window)) :]
            if not _known(model, window):
                raise DataError("from here the text continues in several ways: give a longer prompt")
        following = answer(window)
        if names[following] == MARK:
            return
        yield str(names[following])
        seen.append(following)


def _known(model: Parts, rows: list[int]) -> bool:
    """Whether the model was built from this window; without fingerprints nothing speaks against it."""
    fingerprint = model.card.fingerprint
    if fingerprint is None:
        return True
    window = Sequences(np.array(rows), np.array([len(rows)]), model.card.vocabulary)
    return bool(fingerprint.seen(window, model.positions is not None)[0])


def _next_row(model: Parts, labels: LabelsOf) -> Callable[[list[int]], int]:
    """The function that maps the rows of a window to the row of the token that comes next."""

    def slow(rows: list[int]) -> int:
        return int(labels(Sequences(np.array(rows), np.array([len(rows)]), model.card.vocabulary))[0])

    way = plan(model)
    if way is None or len(way.stages) != 1 or model.positions is None or model.bos.dtype != torch.float64:
        return slow  # changed, of several stages, or in another format
    (kappa, _, steps), bos = way.stages[0], model.bos.detach().cpu().numpy()
    key = model.lift.weight.detach()[:, KEY].cpu().numpy()
    place = model.positions.weight.detach()[:, KEY].cpu().numpy()
    start, end, level = (part.cpu().numpy() for part in (steps.start, steps.end, steps.level[:, 0]))
    code, last = float(bos[CODE]), len(level) - 1
    largest = max(abs(float(bos[KEY])), float(np.nanmax(np.abs(key))) + float(np.abs(place).max()))
    if not abs(way.temperature) * largest <= SAFE_SCORE:
        return slow  # weights were changed: `exp` might overflow
    keys = np.empty(len(place) + 1)

    def fast(rows: list[int]) -> int:
        count = len(rows)
        s = keys[: count + 1]
        s[0] = bos[KEY]
        np.add(key[rows], place[:count], out=s[1:])
        weight = np.exp(way.temperature * s)
        z = code + kappa * (float(weight @ s) / float(weight.sum()))
        step = int(end.searchsorted(z, side="right"))
        if step < last and z > start[step]:  # on a ramp: no point of the text
            return slow(rows)
        return int(level[step])

    return fast
