"""Find where facts live in a host that they were attached to: every token of an answer has a neuron.

A token is held by its own neuron. Another neuron writes at the token's place only if its key is so near that it may
fire on the cap of the token's neuron (Lemma A3). Facts that share a beginning have such neurons, and then the model
answers with the token even without the token's own neuron. Otherwise the host answers there without that neuron, and
the files do not say how.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.attached.answers import JudgedTokens, judge_answers, judge_at_longest
from monolayer.checker.attached.caps import Caps, Near, caps_and_neighbours, fires_for_sure
from monolayer.checker.attached.check import OTHER, assumed, measured
from monolayer.checker.attached.files import AttachedFolder, read_attached
from monolayer.checker.locating.location import TOKENS_SHOWN_BEFORE, Fact, KeyBall, Location, Slice
from monolayer.checker.locating.writers import MEASURED, NOT_KNOWN, PROVED, KnownAnswers, Writers, writers_of
from monolayer.checker.rounding import UnhandledError
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.huggingface.cutting import FactIds, TokenNames, cut_facts, cut_prompts, tokenizer_of
from monolayer.huggingface.host import TOKENIZER
from monolayer.huggingface.manifest import fact_digest, prompt_digest
from monolayer.huggingface.tensors import ModelFiles


class Held(NamedTuple):
    """A row of the data: its fact as ids, whether the data gave the answer, and the number of its first neuron."""

    ids: FactIds
    given: bool
    first: int


def locate_attached(folder: ModelFiles, data: Sequences) -> Location:
    """`locate` in a folder with facts attached. A prompt without an answer stands for its stored fact."""
    if data.prompts is None:
        raise DataError("this folder holds prompts and answers: give prompts as text, with or without answers")
    attached = read_attached(folder)
    changed = attached.changed()
    if changed is not None:
        raise UnhandledError(changed)
    caps, near = caps_and_neighbours(attached)
    rows = _given(attached, data) if len(data.labelled_places) else _stored(attached, caps, near, data)
    neurons = np.array([row.first + k for row in rows for k in range(len(row.ids.answer))], dtype=np.int64)
    tokens = np.array([token for row in rows for token in row.ids.answer], dtype=np.int64)
    decode, name = (
        tokenizer_of(attached.opened.content[TOKENIZER]).decode,
        TokenNames(attached.opened.content[TOKENIZER]),
    )

    def text(ids: tuple[int, ...]) -> str:
        words: str = decode(list(ids), skip_special_tokens=False)
        return words

    caps, judged = judge_at_longest(attached, caps, near, neurons, tokens)
    facts: list[Fact] = []
    for row in rows:
        whole = row.ids.prompt + row.ids.answer
        for place, token in zip(row.ids.places, row.ids.answer, strict=True):
            before = text(whole[max(0, place + 1 - TOKENS_SHOWN_BEFORE) : place + 1])
            facts.append(Fact(row.ids.row, place, before, name(token) if row.given else None))
    host, blocks = attached.host, -(-attached.manifest.neurons // attached.host.neurons)
    writes = [f"{host.layer(host.layers + block)}{host.kind.writes}.weight" for block in range(blocks)]
    return Location(
        facts,
        _writers(attached, caps, near, neurons, tokens, judged),
        tuple(Slice(name, axis=int(not host.kind.transposed)) for name in writes),
        lambda fact: _read_slices(attached, int(neurons[fact])),
        None,
        lambda numbers: [name(number) for number in numbers.tolist()],
        f"{host.dtype}, at states no longer than {caps.state:,.0f}, {_near(caps)} of a key",
        (*assumed(attached), *measured(attached.manifest, caps)),
        lambda fact: _ball(attached, caps, int(neurons[fact])),
    )


def _given(attached: AttachedFolder, data: Sequences) -> list[Held]:
    """The facts in `data`, which have answers. Raises a `DataError` that names a fact that the folder lacks."""
    data.check_labelled()
    starts = dict(zip((fact.fact for fact in attached.manifest.facts), attached.manifest.starts(), strict=True))
    prompts = {fact.prompt for fact in attached.manifest.facts}
    rows = []
    manifest, tokenizer = attached.manifest, attached.opened.content[TOKENIZER]
    for ids in cut_facts(tokenizer, data, manifest.end, manifest.templates, manifest.per):
        first = starts.get(fact_digest(ids))
        if first is None:
            why = OTHER if prompt_digest(ids.prompt) in prompts else "the folder holds no fact for this prompt"
            raise DataError(f"{ids.where}, {data.texts(ids.row)[0]!r}: {why}")
        rows.append(Held(ids, True, first))
    return rows


def _stored(attached: AttachedFolder, caps: Caps, near: Near, data: Sequences) -> list[Held]:
    """The facts that the folder holds for the prompts in `data`; answers are the tokens that their neurons write."""
    longest, starts = attached.manifest.longest_by_prompt(), attached.manifest.starts()
    templates, tokenizer = attached.manifest.templates, attached.opened.content[TOKENIZER]
    in_template = [cut_prompts(tokenizer, data, template) for template in templates]
    rows, prompts, numbers = list[int](), list[tuple[int, ...]](), list[int]()
    for row in range(len(data)):
        for each in in_template:
            number = longest.get(prompt_digest(each[row]))
            if number is None:
                raise DataError(f"{data.named(row)}, {data.texts(row)[0]!r}: the folder holds no fact for this prompt")
            rows.append(row)
            prompts.append(each[row])
            numbers.append(number)
    count = np.array([attached.manifest.facts[number].places for number in numbers])
    neurons = np.concatenate([starts[number] + np.arange(many) for number, many in zip(numbers, count, strict=True)])
    judged = judge_answers(attached, caps, near, neurons, np.zeros(len(neurons), np.int64)).got
    answers = np.split(judged, np.cumsum(count)[:-1])
    return [
        Held(FactIds(prompt, tuple(answer.tolist()), row, data.named(row)), False, starts[number])
        for row, prompt, answer, number in zip(rows, prompts, answers, numbers, strict=True)
    ]


def _writers(
    attached: AttachedFolder, caps: Caps, near: Near, neurons: Ints, tokens: Ints, judged: JudgedTokens
) -> Writers:
    """The neurons that may write at each token `(M,)` of answers, whose own neurons are `neurons` `(M,)`.

    `judged`: the judgement on these tokens.
    """
    answer = np.where(judged.right, tokens, judged.got)
    state = np.where(judged.right, PROVED, np.where(near.spoilt[neurons], NOT_KNOWN, MEASURED))
    pairs: list[tuple[int, int, bool, int]] = []
    for fact, own in enumerate(neurons.tolist()):
        others = near.others.get(own, [])
        same = [np.array_equal(attached.writes[i], attached.writes[own]) for i in others]
        sure = [alike and fires_for_sure(attached, caps, i, own) for i, alike in zip(others, same, strict=True)]
        # Without its own neuron a token is still the answer if all neighbours surely fire there and none spoils it.
        stays = bool(others) and all(sure) and not near.spoilt[own]
        pairs.append((fact, own, True, int(state[fact]) if stays else NOT_KNOWN))
        pairs += [(fact, i, fires, int(state[fact])) for i, fires in zip(others, sure, strict=True)]
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 4).T
    count = -(-attached.manifest.neurons // attached.host.neurons) * attached.host.neurons
    without = KnownAnswers(answer[columns[0]], columns[3])
    return writers_of(KnownAnswers(answer, state), columns[0], columns[1], columns[2] > 0, without, count)


def _read_slices(attached: AttachedFolder, neuron: int) -> tuple[Slice, ...]:
    """The row and the bias that a neuron reads with; for a gated neuron also the bias of its gate."""
    kind, (block, index) = attached.host.kind, divmod(neuron, attached.host.neurons)
    start = attached.host.layer(attached.host.layers + block)
    rows = [
        Slice(f"{start}{kind.reads}.weight", index, int(kind.transposed)),
        Slice(f"{start}{kind.reads}.bias", index),
    ]
    return (*rows, *([] if kind.multiplies is None else [Slice(f"{start}{kind.multiplies}.bias", index)]))


def _near(caps: Caps) -> str:
    """How near to a key answers are proved, in words."""
    if not caps.fmt.short:
        return f"within {caps.reach(np.ones_like(caps.narrow)):.3g}"
    low, high = float(caps.level.max(initial=0.0)), caps.fmt.high * caps.response
    turn = float(np.min(caps.fmt.turned(caps.radii), initial=np.inf))
    return f"where the input of a neuron lies between {low:.3g} and {high:.3g}, within 1 − cos = {turn:.3g}"


def _ball(attached: AttachedFolder, caps: Caps, neuron: int) -> KeyBall:
    """Where a neuron is, and the states at which it answers and at which it is silent."""
    block, index = divmod(neuron, attached.host.neurons)
    silent = 1.0 - float(caps.silent[neuron]) / (1.0 + caps.length)
    within = 1.0 - float(caps.wanted[neuron])
    return KeyBall(attached.host.layers + block, block, index, float(caps.radii[neuron]), within, silent)


__all__ = ["locate_attached"]
