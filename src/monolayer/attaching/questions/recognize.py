"""`recognize`: stores questions in a sentence encoder, with one line per step of `attaching/questions/__init__.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from monolayer.arrays import Floats, Ints
from monolayer.attaching.questions.folder import Limit, Recognizer, class_names
from monolayer.attaching.questions.layer import (
    Neurons,
    attention_output,
    codes,
    gain_of,
    key_rows,
    least_used,
    room_of,
    seed_for,
    words,
)
from monolayer.attaching.questions.radii import NOBODY, Thresholds, default_floor, lowered, reach_of, strips, thresholds
from monolayer.attaching.questions.request import Question, Request, Text, each_once, questions_of
from monolayer.attaching.questions.running import Pooled, Reply, Running
from monolayer.bar import reporting, shows_progress
from monolayer.data import Sequences
from monolayer.errors import DataError, PrecisionError
from monolayer.huggingface.encoders import Encoder, Pooling
from monolayer.huggingface.questions import Draw, StoredQuestion, question_digest
from monolayer.model.torch_settings import own_settings
from monolayer.table import Progress, plural

LEAST_TRIED, TRIED_PER = 64, 8
"""So many questions, or one of so many, are also asked in batches."""
NAMED = 5
"""How many rows an error names; it only counts the others."""


@shows_progress
@own_settings()
def recognize(
    encoder: str | os.PathLike[str],
    questions: object,
    answers: object = None,
    *,
    unknown: str = "unknown",
    rewordings: object = None,
    keep: Sequence[str] | str | os.PathLike[str] | None = None,
    floor: float | None = None,
    pooling: Pooling | None = None,
    device: str | torch.device | None = None,
    progress: Progress | bool | None = None,
) -> Recognizer:
    """Make a classifier of a sentence encoder that answers questions, also in other words, and else says `unknown`.

    - `encoder`: the folder of an encoder, such as BERT, with its tokenizer (docs/understand.md).
    - `questions`: a list of texts; or a dict, a table or a file that holds questions and answers. Of a file without a
      header, or with other columns, what `read(file, header=False, per="continuation")` returns.
    - `answers`: a list of texts, one per question; several questions may share one.
    - `unknown`: what it says where no question is near.
    - `rewordings`: a table of stored questions and other wordings, which are to have the same answer: thresholds go
      down to them. A `DataError` names one that another question, or a text to keep, is nearer to.
    - `keep`: texts that must stay unknown, as a list or as a file with one text per line: thresholds go up.
    - `floor`: the least cosine of a text's state with a question's at which it answers; by default a third of the way
      from 1 to texts of other kinds.
    - `pooling`: 'mean' of all tokens, or the 'first' token; by default what the folder says, else the mean.
    - `device`: where the encoder runs, by default the processor.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    Every question is asked before this returns. Rewordings, texts to keep and, of more than 64 questions, the narrowest
    and some of each length (an eighth in all) are asked again in padded batches, with eager attention and with sdpa if
    transformers has both. Rows that fail are named.

    Example:

        >>> faq = {"How do I reset my password?": "Use the link on the login page."}
        >>> new = ml.recognize("minilm-folder", faq)  # doctest: +SKIP
        >>> folder = new.save("faq")  # doctest: +SKIP
    """
    report = reporting(progress)
    report("reading the encoder", 0.0)
    request = Request.of(encoder, unknown, rewordings, keep, floor, pooling, device)
    given = request.read(questions, answers, report)
    base, stored, count, room = given.encoder, given.stored, len(given.stored), room_of(given.encoder)
    groups = [[each.ids for each in group] for group in (stored, given.reworded, given.kept, given.others)]
    pooled = given.running.pooled([ids for group in groups for ids in group], _part(report, 0.1, 0.6))
    report("choosing thresholds", 0.6)
    basis = least_used(pooled.mean.double().numpy()[:count], pooled.spread, room, base)
    states = given.running.read(pooled, attention_output(basis, base, given.pooling))
    if not np.isfinite(states).all():
        raise PrecisionError("states of the encoder are not finite numbers in its format")
    mine, theirs, keeping, far = np.split(states, np.cumsum([len(group) for group in groups])[:-1])
    rows = key_rows(mine, basis, base)
    if floor is None:
        floor = default_floor(unit(rows) @ far.T, base)
    manifest = given.manifest(Draw(0, float(floor), room, reach_of(unit(rows), mine, base)))
    neurons = Neurons(rows, rows[:, 0], np.zeros(count, np.int64))
    shell = Recognizer(base, given.source, neurons, basis, [], manifest, keeping, theirs)
    kept, reworded = ([each.where for each in group] for group in (given.kept, given.reworded))
    made = assembled(shell, stored, rows, kept=kept, reworded=reworded)
    made = replace(made, data=given.data, repeated=len(given.data) - count)
    made = asked(made, stored, mine, device, _part(report, 0.65, 0.95), given.reworded, given.kept)
    report("done", 1.0)
    return made


def assembled(
    made: Recognizer,
    stored: Sequence[Question],
    rows: Floats,
    *,
    kept: Sequence[str] = (),
    reworded: Sequence[str] = (),
) -> Recognizer:
    """`made` with these questions, whose keys are in `rows` `(N, D)`, and with the thresholds that follow from all.

    `kept`, `reworded`: where texts to keep and rewordings stand, in words, for errors and for the report.
    """
    base, draw = made.encoder, made.manifest.draw
    digests = [question_digest(each.ids) for each in stored]
    classes = class_names(made.manifest.unknown, (each.answer for each in stored))
    number = {name: place for place, name in enumerate(classes)}
    answers = np.array([number[each.answer] for each in stored], dtype=np.int64)
    if base.format.limited and len(stored) > base.per_layer:
        raise PrecisionError(
            f"in {base.dtype} an encoder of this size holds {base.per_layer:,} questions, and these are "
            f"{len(stored):,}: numbers that further layers would need leave the format. Save it in float32"
        )
    keys, signs_seed = unit(rows), seed_for(classes, draw.room)
    gain = gain_of(rows, draw.floor, words(made.basis, codes(signs_seed, classes, draw.room)), base)
    room = strips(base, len(rows), gain)
    chosen = thresholds(base, keys, answers, draw, made.kept, room)
    chosen = _down_to_rewordings(made, chosen, digests, keys, room, stored, reworded)
    limits = _limits(chosen, stored, kept)
    odd = np.flatnonzero(chosen.tau > chosen.largest)
    if len(odd):
        worst = odd[chosen.tau[odd].argsort()[::-1]][:NAMED].tolist()
        pairs = "; ".join(f"{stored[row].where} and {limits[row].words}" for row in worst)
        raise PrecisionError(
            f"the encoder hardly tells apart {plural(len(odd), 'question')} from texts with another answer: {pairs}. "
            "Give them one answer, remove one of the two, or take another encoder" + _in_float32(base, room)
        )
    known = {each.question: each for each in made.manifest.questions}
    entries = tuple(
        StoredQuestion(digest, int(answer), float(tau), known[digest].moved if digest in known else None)
        for digest, answer, tau in zip(digests, answers, chosen.tau, strict=True)
    )
    manifest = replace(made.manifest, questions=entries, draw=replace(draw, seed=signs_seed), appended={})
    neurons = Neurons(rows, chosen.tau, answers)
    return replace(
        made, neurons=neurons, classes=classes, manifest=manifest, limits=limits, data=None, repeated=0, given=None
    )


def asked(
    made: Recognizer,
    stored: Sequence[Question],
    states: Floats,
    device: str | torch.device | None,
    report: Progress,
    reworded: Sequence[Text] = (),
    kept: Sequence[Text] = (),
) -> Recognizer:
    """`made`, tested: every question and rewording must get its answer, and every text to keep must be unknown.

    `states` `(N, D)`: û of the questions, where the encoder was run for each alone. What asks it in batches again finds
    out how far states move, and so needs only some of many questions: around its key every answer is proved.
    """
    running = Running(made.encoder, made.config, made.tensors, device)
    answers, keys = made.neurons.answers, unit(made.neurons.rows)
    _check_answers(made, running.at(states), answers, [each.where for each in stored], "each text alone")
    fell = Reply(answers, states).turned(keys)
    some = tried(stored, made.neurons.thresholds)
    texts: list[Question | Text] = [*(stored[row] for row in some), *reworded, *kept]
    wanted = np.concatenate(
        [answers[some], answers[[each.question for each in reworded]], np.zeros(len(kept), np.int64)]
    )
    kernels = made.encoder.kind.kernels
    for turn, kernel in enumerate(kernels):
        part = _part(report, turn / len(kernels), (turn + 1) / len(kernels))
        reply = running.say([each.ids for each in texts], kernel, part)
        _check_answers(made, reply.classes, wanted, [each.where for each in texts], f"{kernel} attention")
        fell[some] = np.maximum(fell[some], reply.turned(keys[some]))
    entries = tuple(
        replace(each, moved=float(moved)) for each, moved in zip(made.manifest.questions, fell, strict=True)
    )
    from importlib.metadata import version

    where_run = {"torch": torch.__version__, "transformers": version("transformers"), "device": str(device or "cpu")}
    measured = {**where_run, "in_batches": len(some)}
    return replace(made, manifest=replace(made.manifest, questions=entries, measured=measured))


def tried(stored: Sequence[Question], tau: Floats) -> list[int]:
    """Which questions are asked in batches: if they are many, those with the largest τ, and some of every length."""
    count = len(stored)
    most = max(LEAST_TRIED, count // TRIED_PER)
    if count <= most:
        return list(range(count))
    narrow = np.argsort(-tau, kind="stable")[: most // 2]
    lengths = np.argsort([len(each.ids) for each in stored], kind="stable")
    spread = lengths[np.linspace(0, count - 1, most - most // 2).astype(np.int64)]
    return sorted({*narrow.tolist(), *spread.tolist()})


def _check_answers(made: Recognizer, said: Ints, wanted: Ints, where: Sequence[str], how: str) -> None:
    """A `PrecisionError` names texts whose answer is not the one that is wanted."""
    odd = np.flatnonzero(said != wanted).tolist()
    if odd:
        named = "; ".join(
            f"{where[row]}: {made.classes[said[row]]!r}, not {made.classes[wanted[row]]!r}" for row in odd[:NAMED]
        )
        raise PrecisionError(
            f"{plural(len(odd), 'text')} did not get the right answer ({how}): {named}. Nothing was written: remove "
            "these rows, or choose another floor"
        )


def again(
    made: Recognizer,
    data: Sequences,
    *,
    device: str | torch.device | None = None,
    report: Progress = lambda stage, share: None,
) -> Recognizer:
    """The encoder of `made` with the questions in `data` and the same draw: directions, floor, texts to keep.

    The encoder runs only for new questions; then every question is tested, the others at their keys.
    """
    base = made.encoder
    stored = each_once(questions_of(base, made.source, data, made.manifest.unknown))
    places = made.manifest.places
    digests = [question_digest(each.ids) for each in stored]
    fresh = [number for number, digest in enumerate(digests) if digest not in places]
    rows = np.empty((len(stored), base.width))
    old = [number for number, digest in enumerate(digests) if digest in places]
    rows[old] = made.neurons.rows[[places[digests[number]] for number in old]]
    if fresh:
        running = Running(base, base.config, {}, device)
        pooled: Pooled = running.pooled([stored[number].ids for number in fresh], report)
        states = running.read(pooled, attention_output(made.basis, base, made.manifest.pooling))
        rows[fresh] = key_rows(states, made.basis, base)
    recognizer = assembled(made, stored, rows)
    recognizer = replace(recognizer, data=data, repeated=len(data) - len(stored))
    if not fresh:
        return recognizer
    at = unit(rows)
    at[fresh] = states
    return asked(recognizer, stored, at, device, report)


# -- thresholds ------------------------------------------------------------------------------------------------


def unit(rows: Floats) -> Floats:
    """The keys `(N, D)`: rows divided by their lengths."""
    directions: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return directions


def _down_to_rewordings(
    made: Recognizer,
    found: Thresholds,
    digests: Sequence[str],
    keys: Floats,
    room: Floats,
    stored: Sequence[Question],
    where: Sequence[str],
) -> Thresholds:
    """Thresholds that go down to the rewordings; a `DataError` names one that another text is nearer to."""
    number, tau = {digest: place for place, digest in enumerate(digests)}, found.tau.copy()
    owner = np.array([number.get(digest, NOBODY) for digest in made.manifest.rewordings], dtype=np.int64)
    there, draw = np.flatnonzero(owner != NOBODY), made.manifest.draw
    if not len(there):
        return found
    most = lowered((keys[owner[there]] * made.reworded[there]).sum(axis=1), draw.reach, room[owner[there]])
    np.minimum.at(tau, owner[there], most)
    least = thresholds(made.encoder, keys, _answers(stored), replace(draw, floor=-1.0), made.kept, room)
    for each, question, wanted in zip(there.tolist(), owner[there].tolist(), most.tolist(), strict=True):
        if wanted < least.tau[question]:
            named = where[each] if each < len(where) else f"a rewording of {stored[question].where}"
            raise DataError(
                f"{named}: its state has the cosine {float(keys[question] @ made.reworded[each]):.4f} with the "
                f"question, which would have to answer from {wanted:.4f} on, and must not below "
                f"{least.tau[question]:.4f} because of another text. Store it as a question of its own"
            )
    return found._replace(tau=tau)


def _answers(stored: Sequence[Question]) -> Ints:
    number: dict[str, int] = {}
    return np.array([number.setdefault(each.answer, len(number)) for each in stored], dtype=np.int64)


def _limits(found: Thresholds, stored: Sequence[Question], kept: Sequence[str]) -> list[Limit]:
    """What makes each threshold as large as it is."""
    limits = []
    margins = [tau - near if near > -1.0 else None for tau, near in zip(found.tau, found.nearest, strict=True)]
    for neighbour, text, margin in zip(found.neighbour.tolist(), found.kept.tolist(), margins, strict=True):
        if neighbour != NOBODY:
            words = stored[neighbour].where
        elif text != NOBODY:
            words = kept[text] if text < len(kept) else "a text to keep"
        else:
            words = "the floor"
        limits.append(Limit(words, None if margin is None else float(margin)))
    return limits


def _in_float32(encoder: Encoder, room: Floats) -> str:
    """A way out for many questions in a short format; `room` `(N,)`: their `strips`.

    In float16 many neurons may only write little, and in bfloat16 later layers read û roughly.
    """
    if not encoder.format.short or not len(room):
        return ""
    most = max(-1.0, 1.0 - 2.0 * float(room.max()))
    return (
        f"; or save it in float32, because in {encoder.dtype} so many questions can be told apart only from texts with "
        f"cosines up to {most:.2f}"
    )


def _part(report: Progress, start: float, stop: float) -> Progress:
    """`report` for a part of the work, between two shares of all of it."""
    return lambda stage, share: report(stage, start + (stop - start) * share)


__all__ = ["again", "recognize"]
