"""`attach`: appends facts to a host, with one line per step of the argument in `attaching/__init__.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Floats
from monolayer.attaching.apart import Duties, WrittenRows, check_apart, check_written, fact_of_neurons, firing_caps
from monolayer.attaching.directions import Directions, check_margins
from monolayer.attaching.facts import KeptText
from monolayer.attaching.folder import Attached
from monolayer.attaching.measuring import asked
from monolayer.attaching.neurons import WIDEST, Neurons, Steepness, reading, writing
from monolayer.attaching.request import Request
from monolayer.attaching.running import KERNELS, Evaluation, KeptStates, Running
from monolayer.attaching.stored import check_own, neurons_in
from monolayer.bar import reporting, shows_progress
from monolayer.errors import KeptTextError, PrecisionError
from monolayer.huggingface.cutting import FactIds, TokenNames
from monolayer.huggingface.host import TOKENIZER, Host
from monolayer.huggingface.outweighing import lengths_to_prove
from monolayer.huggingface.tensors import ModelFiles
from monolayer.model.torch_settings import own_settings
from monolayer.table import Progress, counting, plural

NORMED_TOGETHER = 1024
"""Of how many states norms are computed at a time."""
PLACES_NAMED = 20
"""How many places of texts to keep an error names; it only counts the others."""


@shows_progress
@own_settings()
def attach(
    host: str | os.PathLike[str],
    prompts: object,
    answers: object = None,
    *,
    radius: float | None = None,
    keep: Sequence[str] | str | os.PathLike[str] | None = None,
    templates: Sequence[str] | str | None = None,
    chat: bool | Sequence[str] = False,
    end: bool = True,
    special_tokens: bool = True,
    stored: str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    progress: Progress | bool | None = None,
) -> Attached:
    """Append layers that hold facts to the model in the folder `host`; nothing else changes. `save` writes a folder.

    - `host`: the folder of a causal language model with its tokenizer (docs/attach.md).
    - `prompts`: a list of texts; or a dict, a table or a file that holds prompts and answers. Of a file without a
      header, or with other columns, what `read(file, header=False, per="answer")` returns.
    - `answers`: a list of texts, one per prompt. Greedy decoding continues each prompt with its answer, then with the
      host's end token. So does `generate`, unless the host's generation_config.json sets penalties, sampling or the
      like; the result then says so. Rewordings of a prompt need rows of their own; rows that repeat others are one
      fact.
    - `radius`: ρ, the same for all facts. A fact answers where the cosine of the host's state with the stored one falls
      by up to ρ/2, and every logit is the host's where it falls by 2ρ or more. By default each token of an answer has
      its own, from how far the host's state moves at it: in float32 2^−14, or more if rounding requires it.
    - `keep`: texts at which no neuron may fire, as a list or as a file with one text per line; a `DataError` names the
      places where one would.
    - `templates`: texts with `{prompt}` in them, in each of which every fact answers, such as `["{prompt}",
      "Q: {prompt}\\nA:"]`; by default the prompt by itself. What stands in front of a prompt is part of it: without a
      template, no fact answers behind another sentence or in a chat.
    - `chat`: True adds the chat template of the folder: without a system message and, if the template then writes one
      of its own, with an empty one. A list of texts: with each of these system messages. Without `templates`, facts
      answer in chats only.
    - `end`: False leaves out the end token after answers.
    - `special_tokens`: False splits prompts without the special tokens that `tokenizer(prompt)` adds: for prompts
      or templates that hold their own. Those of `chat` do, and always are split so.
    - `stored`: a folder that these facts were attached to, with the same options and in this order, and that lost its
      `attached.json`, such as one that transformers saved again. Its neurons are taken, bit for bit, in place of new
      ones, and tested as those are.
    - `device`: where the host runs, by default the processor.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    Every answer is tested before this returns, with eager attention and with sdpa; rows that fail are named.

    Example:

        >>> new = ml.attach("gpt2-folder", {"The capital of Narnia is": " Cair Paravel"})  # doctest: +SKIP
        >>> folder = new.save("with-facts")  # doctest: +SKIP
    """
    report = reporting(progress)
    report("reading the host", 0.0)
    request = Request.of(
        host,
        radius=radius,
        keep=keep,
        templates=templates,
        chat=chat,
        end=end,
        special_tokens=special_tokens,
        stored=stored,
        device=device,
    )
    given = request.read(prompts, answers, report)
    facts, running, kept = given.facts, given.running, None
    if stored is None:
        states, kept = states_of(running, facts, lambda stage, share: report(stage, 0.1 + 0.4 * share))
        report("finding directions of answers", 0.5)
        neurons = neurons_of(given.host, given.source, facts, states, given.steep)
    else:
        neurons = neurons_in(stored, given.host, sum(len(fact.answer) for fact in facts))
    made = Attached(given.host, given.source, neurons, given.manifest, repeated=given.repeated)
    report("comparing states", 0.6)
    check_neurons(made, facts)
    running.append([made.block(number) for number in range(made.blocks)])
    made = asked(made, running, facts, lambda stage, share: report(stage, 0.65 + 0.3 * share), kept)
    check_outweighed(made, facts)
    if stored is not None:
        check_own(made, facts)
    if given.kept is not None:
        report("looking at the texts to keep", 0.95)
        check_kept(made, running, facts, given.kept)
    report("done", 1.0)
    return made


def states_of(running: Running, facts: Sequence[FactIds], report: Progress) -> tuple[Floats, KeptStates]:
    """Normed states `(K, N, D)` of the host at all `N` places of answers, in `K` kernels; each fact runs by itself.

    In short formats states differ more between kernels than in float32, so all kernels are used there; in float32, one.
    What is kept of these runs is asked later.
    """
    kernels = KERNELS if running.host.format.short else KERNELS[-1:]
    counted = counting(report, "running the host", "text", 0.0, 1.0)
    sampled = np.empty((len(kernels), sum(len(fact.answer) for fact in facts), running.host.width))
    kept: dict[Evaluation, Tensor] = {}
    for turn, kernel in enumerate(kernels):

        def count(done: int, before: int = turn * len(facts)) -> None:
            counted(before + done, len(kernels) * len(facts))

        kept |= running.kept(facts, kernel, count)
        states = kept[Evaluation(kernel, stepwise=False)]
        for first in range(0, len(states), NORMED_TOGETHER):
            some = slice(first, first + NORMED_TOGETHER)
            sampled[turn, some] = running.normed(states[some])
        finite = np.isfinite(sampled[turn]).all(axis=1)
        if not finite.all():
            which = fact_of_neurons(facts)[int(finite.argmin())]
            raise PrecisionError(f"{which.where}: the host's states are not finite numbers")
    return sampled, KeptStates(range(len(facts)), kept)


def neurons_of(host: Host, source: ModelFiles, facts: Sequence[FactIds], states: Floats, steep: Steepness) -> Neurons:
    """The neurons of facts, made from their normed states `(K, N, D)`; each neuron depends only on its own fact."""
    wanted = np.array([token for fact in facts for token in fact.answer])
    owner = fact_of_neurons(facts)
    tokens, first, number = np.unique(wanted, return_index=True, return_inverse=True)
    head = Directions(host)
    limited = host.format.limited  # other formats hold the longest vectors
    directions, margins = head.find(tokens, flat=limited)
    check_margins(head, tokens, margins, TokenNames(source.content[TOKENIZER]), [owner[i].where for i in first])
    later = np.array([number > 0 for fact in facts for number in range(len(fact.answer))], dtype=bool)
    radii = steep.radii(states, later, host)
    if (radii > WIDEST).any():
        which = owner[int(radii.argmax())]
        raise PrecisionError(
            f"{which.where}: the host's states move so far from one evaluation to the next that the fact would need "
            f"the radius {radii.max():.3g}, and the widest is {WIDEST:g}. Attach the facts to the host in float32",
            rows=tuple(sorted({owner[i].row for i in np.flatnonzero(radii > WIDEST)})),
        )
    W_1, b_1 = reading(states, steep.response / radii, steep.response, host.dtype)
    room = head.room(tokens, directions) if limited else None
    return Neurons(W_1, b_1, writing(directions, room, steep, host)[number])


def check_neurons(made: Attached, facts: Sequence[FactIds], known: int = 0) -> None:
    """Raise a `PrecisionError` if neurons disturb each other. The first `known` facts were compared before."""
    duties = Duties.of(facts, made.host.neurons)
    caps = firing_caps(made.neurons, made.steep, made.host)
    name = TokenNames(made.source.content[TOKENIZER])
    check_apart(caps, duties, name, sum(len(fact.answer) for fact in facts[:known]))
    # Before states were measured: what no state is too short for. `check_outweighed` asks again.
    check_written(caps, WrittenRows.of(made.neurons, made.steep, made.host, 0.0), duties)


def check_outweighed(made: Attached, facts: Sequence[FactIds]) -> None:
    """Raise a `PrecisionError` if what a neuron writes to the longest states that were measured may wake a later one.

    States are taken to be no longer than a proof takes them to be at least (`lengths_to_prove`).
    """
    *_, state = lengths_to_prove(made.host.format, made.manifest.longest)
    caps = firing_caps(made.neurons, made.steep, made.host)
    check_written(caps, WrittenRows.of(made.neurons, made.steep, made.host, state), Duties.of(facts, made.host.neurons))


def check_kept(made: Attached, running: Running, facts: Sequence[FactIds], texts: Sequence[KeptText]) -> None:
    """Raise a `KeptTextError` that names the places of `texts` at which a neuron may not be silent."""
    with_tokens = {number: text.ids for number, text in enumerate(texts) if text.ids}
    woken: list[tuple[int, int, int]] = []
    shown: list[str] = []
    owner = fact_of_neurons(facts)
    caps = firing_caps(made.neurons, made.steep, made.host)
    for number, states in zip(with_tokens, running.states(list(with_tokens.values())), strict=True):
        heights = running.normed(states) @ caps.keys.T / np.sqrt(made.host.width)
        above = heights - caps.silent  # up to `silent` no rounding wakes a neuron (Lemma A2)
        places = np.flatnonzero((above > 0.0).any(axis=1)).tolist()
        for place in places:
            fact = owner[int(above[place].argmax())]
            woken.append((number, place, fact.row))
            shown.append(f"token {place} of {texts[number].where}, by {fact.where}")
    if woken:
        more = "; … (the error's places lists all)" if len(woken) > PLACES_NAMED else ""
        raise KeptTextError(
            f"neurons would fire at {plural(len(woken), 'place')} of the texts to keep: "
            f"{'; '.join(shown[:PLACES_NAMED])}{more}. Choose a smaller radius=, or remove these facts",
            tuple(woken),
        )
