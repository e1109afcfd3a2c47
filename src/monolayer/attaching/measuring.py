"""Measure what no proof covers: whether the host's states lie at the keys, and whether every answer is returned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Floats, Ints
from monolayer.attaching.apart import SAME_KEY, FiringCaps, firing_caps
from monolayer.attaching.chats import Forms, check_split, their_tokenizer
from monolayer.attaching.facts import check_fit, read_facts
from monolayer.attaching.folder import Attached
from monolayer.attaching.running import (
    KERNELS,
    LOOKED_AT,
    AskedFacts,
    KeptStates,
    Miss,
    NotLoadedError,
    PlacesAsked,
    Running,
)
from monolayer.data.distinct import equal_rows
from monolayer.errors import DataError, PrecisionError
from monolayer.huggingface.cutting import FactIds, TokenNames, cut_facts
from monolayer.huggingface.host import TOKENIZER
from monolayer.huggingface.manifest import fact_digest
from monolayer.huggingface.tensors import ModelFiles
from monolayer.model.torch_settings import own_settings
from monolayer.table import Progress, plural

MOST_NAMED_ROWS = 5
"""How many rows an error names; it only counts the others."""
STATES_AT_ONCE = 64
"""How many states are compared with all keys at a time."""
ONEDNN = "torch.backends.mkldnn.enabled"
"""The switch of the library that PyTorch multiplies matrices of short formats with on a processor."""


def ask(
    made: Attached,
    running: Running,
    facts: Sequence[FactIds],
    first: Sequence[int | None],
    report: Progress,
    kept: KeptStates | None = None,
) -> AskedFacts:
    """Ask for every token of every answer in every way of evaluation.

    `first`: the number of the first neuron of each fact, or None for a fact without neurons. `kept`: states of the host
    that are known already.
    """

    starts = np.array([-1 if start is None else start for start in first])
    T, spoilers = made.steep.response, Spoilers.of(made)

    def look_at(asked: PlacesAsked, states: Tensor) -> Floats:
        """What `LOOKED_AT` lists; where a fact has no neurons, all but the length is 0."""
        numbers = np.zeros((len(LOOKED_AT), len(states)))
        length = states.double().norm(dim=1).cpu().numpy()
        stored = starts[asked.rows] >= 0
        neuron = starts[asked.rows[stored]] + asked.places[stored]
        seen, keys = running.normed(states)[stored], made.neurons.W_1[neuron]
        products, size = (keys * seen).sum(axis=1), np.sqrt((keys * keys).sum(axis=1))
        rose, alpha = products + made.neurons.b_1[neuron] - T, size * np.sqrt(made.host.width)
        turned = 1.0 - products / (size * np.sqrt((seen * seen).sum(axis=1)))
        share = turned / made.host.format.turned(T / alpha)
        parts = -rose / alpha, length[stored], -rose / T, rose / T, share, spoilers.woken(neuron, seen)
        numbers[1], numbers[:, stored] = length, np.stack(parts)
        return numbers

    return running.ask(facts, look_at, report, kept)


@dataclass(frozen=True, eq=False)
class Spoilers:
    """What tells whether a neuron that may spoil an answer is silent at a state, in short formats.

    Such a neuron writes another row than that of the answer, or stands in an earlier block and has another key. `row`
    `(N,)`: which of the different rows a neuron writes. `block` `(N,)`: its block.
    """

    caps: FiringCaps
    row: Ints
    block: Ints

    @classmethod
    def of(cls, made: Attached) -> Spoilers:
        """What is needed of the neurons of `made`. One that no key can be read from is silent nowhere.

        Such a neuron reads nothing or has a number that is not finite, which happens in changed files only.
        """
        given = made.neurons
        read = np.isfinite(given.W_1).all(axis=1) & given.W_1.any(axis=1) & np.isfinite(given.b_1)
        readable = given._replace(W_1=np.where(read[:, None], given.W_1, 1.0), b_1=np.where(read, given.b_1, 0.0))
        caps = firing_caps(readable, made.steep, made.host)
        caps = caps._replace(silent=np.where(read, caps.silent, -np.inf))
        row = equal_rows(given.W_2)[1]
        return cls(caps, row, np.arange(len(row)) // made.host.neurons)

    def woken(self, own: Ints, seen: Floats) -> Floats:
        """1 for each state `(P, D)` at which a neuron that may spoil the answer of neuron `own` is not silent, or 0."""
        woken = np.zeros(len(own))
        if not self.caps.short:  # there the proof does without
            return woken
        states, keys = torch.from_numpy(seen / np.sqrt(seen.shape[1])), torch.from_numpy(self.caps.keys)
        silent = torch.from_numpy(self.caps.silent)
        for start in range(0, len(own), STATES_AT_ONCE):
            some = slice(start, start + STATES_AT_ONCE)
            which, other = np.nonzero((states[some] @ keys.T > silent).numpy())
            mine = own[some][which]
            gap = self.caps.keys[mine] - self.caps.keys[other]
            same_key = 0.5 * (gap * gap).sum(axis=1) <= SAME_KEY
            alike = (self.row[mine] == self.row[other]) & (same_key | (self.block[mine] <= self.block[other]))
            woken[start + which[~alike]] = 1.0
        return woken


def asked(
    made: Attached, running: Running, facts: Sequence[FactIds], report: Progress, kept: KeptStates | None = None
) -> Attached:
    """Test every answer, and return `made` with the measurements in its manifest. `kept`: states that are known.

    Raises a `PrecisionError` that names the facts whose answers were not returned.
    """
    replies = ask(made, running, facts, made.manifest.starts(), report, kept)
    if replies.misses:
        rows = tuple(sorted({facts[miss.fact].row for miss in replies.misses}))
        missed = _missed(made, facts, replies.misses, rows)
        raise PrecisionError(f"{missed} {_way_out(running, replies.misses)}", rows=rows)
    lost, length, fell, rose, turned, woken = replies.states.tolist()
    measures = zip(made.manifest.facts, lost, length, fell, strict=True)
    stored = [replace(fact, moved=moved, length=long, fell=share) for fact, moved, long, share in measures]
    measured: dict[str, object] = {
        "kernels": list(KERNELS),
        "arithmetic": made.host.dtype,
        "device": running.device.type,
        **_versions(),
    }
    if made.host.format.short:
        measured |= {"rose": max(rose), "turned": max(turned), "woken": int(sum(woken))}
    return replace(made, manifest=replace(made.manifest, facts=tuple(stored), measured=measured))


def _versions() -> dict[str, str]:
    """The installed versions of torch and transformers."""
    import transformers

    return {"torch": torch.__version__, "transformers": transformers.__version__}


def _missed(made: Attached, facts: Sequence[FactIds], misses: list[Miss], rows: tuple[int, ...]) -> str:
    """The text of the error for facts that were not returned: those of `rows`, out of `facts`."""
    named = "; ".join(_in_words(made, facts, misses))
    return (
        f"{len(rows):,} of {plural(len(facts), 'fact')} were not returned in {made.host.dtype}: "
        f"{named}. Nothing was written."
    )


def _way_out(running: Running, misses: list[Miss]) -> str:
    """What to do about facts that were not returned: it depends on whether the machine is the cause."""
    dtype, on_gpu = running.host.dtype, running.device.type == "cuda"
    in_float32 = ", or attach the facts to the host in float32" if running.host.format.short else ""
    if running.rounds_midway():
        short = running.host.format.abbreviation
        setting = f"torch.backends.cuda.matmul.allow_{short}_reduced_precision_reduction" if on_gpu else ONEDNN
        return (
            f"PyTorch rounds sums to {dtype} midway on this machine, and facts need the whole sum: set "
            f"{setting} = False, here and wherever the model runs{in_float32}"
        )
    if all(miss.evaluation.stepwise for miss in misses):
        switch = "choose a wider radius=" if on_gpu else f"set {ONEDNN} = False, here and wherever the model runs"
        return (
            "With all places evaluated at once every answer was returned, so on this machine PyTorch computes "
            f"something else when it goes token by token, as generate does: {switch}{in_float32}"
        )
    return "Remove these rows, or choose a wider radius="


def _in_words(made: Attached, facts: Sequence[FactIds], misses: list[Miss]) -> tuple[str, ...]:
    """The first wrong tokens in words: the row, the evaluation, the token that was returned, that of the answer."""
    name = TokenNames(made.source.content[TOKENIZER])
    return tuple(
        f"{facts[miss.fact].where} ({miss.evaluation}): {name(miss.got)!r} in place of {name(miss.wanted)!r}"
        for miss in misses[:MOST_NAMED_ROWS]
    )


@dataclass(frozen=True)
class Measurement:
    """What was found when the model in a folder was asked for every answer on this machine.

    `facts`: how many facts were asked for, each in every template. `returned`: how many of them came back whole, in
    every evaluation. `tokens`: how many tokens of answers were asked for. `wrong`: how many of them came out wrong in
    some evaluation; `examples` describes the first ones. `moved`: the most by which ⟨key, state⟩ fell. `outside`: how
    many facts have states that a proof does not cover (they moved too far, or a neuron of another fact is awake there),
    or no neurons. `longest`: the length of the longest state. `where`: the format, the device and the versions.
    """

    facts: int
    returned: int
    tokens: int
    wrong: int
    examples: tuple[str, ...]
    moved: float
    outside: int
    longest: float
    where: str

    def __str__(self) -> str:
        outcome = "every token of every answer was returned"
        if self.wrong:
            outcome = f"{plural(self.wrong, 'token')} of answers did not come back"
        kernels = " and ".join(KERNELS)
        ways = f"at once and token by token, with {kernels} attention ({self.where})"
        words = (
            f"here, {outcome}, {ways}; states were within {self.moved:.3g} of their keys, up to {self.longest:.4g} long"
        )
        return words + (f", {plural(self.outside, 'fact')} out of their reach" if self.outside else "")


@own_settings()
def measure_answers(
    folder: str | os.PathLike[str] | ModelFiles,
    prompts: object,
    answers: object = None,
    *,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Measurement:
    """Ask the model in `folder`, which may be open already, for every answer. transformers load it by its name.

    Facts are asked in batches padded on the left, with eager and with sdpa attention, each once with all places at once
    and once token by token, as `generate` does.
    """
    made = Attached.load(folder)
    manifest = made.manifest
    data = read_facts(prompts, answers, made.card.manner)
    facts = cut_facts(made.source.content[TOKENIZER], data, manifest.end, manifest.templates, manifest.per)
    if not facts:
        raise DataError("there are no facts to ask for")
    check_fit(made.host, facts)
    if made.rewritten or made.host.kin is not None:  # the tokenizer's files were not read by this transformers before
        try:
            check_split(their_tokenizer(made.source.path), data, facts, Forms(manifest.templates, {}))
        except DataError as error:
            raise NotLoadedError(str(error)) from None
    starts = dict(zip((fact.fact for fact in manifest.facts), manifest.starts(), strict=True))
    running = Running(made.host, made.source, device, whole=True)
    first = [starts.get(fact_digest(fact)) for fact in facts]
    replies = ask(made, running, facts, first, progress or (lambda stage, share: None))
    wrong = {(miss.fact, miss.place) for miss in replies.misses}
    where = f"{made.host.dtype} on {running.device.type}, " + ", ".join(f"{k} {v}" for k, v in _versions().items())
    examples = _in_words(made, facts, replies.misses)
    lost, length, fell, rose, turned, woken = replies.states
    fmt = made.host.format
    away = (fell > 1.0 - fmt.low) | (rose > fmt.high - 1.0) | (turned > 1.0) | (woken > 0.0)
    outside = sum(start is None or bool(too_far) for start, too_far in zip(first, away, strict=True))
    tokens = sum(len(fact.answer) for fact in facts)
    right = len(facts) - len({fact for fact, _ in wrong})
    return Measurement(
        len(facts), right, tokens, len(wrong), examples, float(lost.max()), outside, float(length.max()), where
    )
