"""Run the host in transformers: its states at places, and its answers with blocks appended.

Only this file loads and runs models with transformers.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.arrays import Floats, Ints
from monolayer.attaching.neurons import normed
from monolayer.errors import DataError, needs_extra
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.host import Host
from monolayer.huggingface.kin import kin_of
from monolayer.huggingface.tensors import ModelFiles
from monolayer.model.device import check_device, no_notice_of_kernels
from monolayer.table import Progress, counting

KERNELS = ("eager", "sdpa")
"""The implementations of attention with which every fact is tested."""
TOGETHER = 128
"""How many facts are asked in one batch, at most, padded on the left as for `generate`. On a GPU a batch takes about as
long as a single fact, because most of the time goes into starting its kernels, so small batches are slow."""
UNLIKE = 0.25
"""By what share texts of a batch may be shorter than the longest, at most: padding takes a processor's time like text.
Or answers, where all places of answers are evaluated one after the other."""
PLACES_TOGETHER = 1024
"""How many places the appended blocks are asked at together, at most, where the host's states there were kept."""
WHOLE = 32
"""Of facts whose states were kept, each one of so many is asked of the whole network as well, and two at least."""
NEURONS_TRIED, ROWS_TRIED = 64, 16
"""How many neurons and rows a product has that is tried for how its sums are rounded."""
BATCH_NUMBERS = 1 << 26
"""How many logits, attention scores, and keys and values a batch holds at a time, at most, unless a single fact has
more."""


class Evaluation(NamedTuple):
    """A way to evaluate texts: a kernel of attention, and whether places of answers are evaluated one after the other.

    `generate` goes token by token, with the keys and values of earlier places from a cache. PyTorch has other code for
    that than for all places at once, so a fact that one of them returns may be lost in the other.
    """

    kernel: str
    stepwise: bool

    def __str__(self) -> str:
        return f"{self.kernel}, token by token" if self.stepwise else self.kernel


EVALUATIONS = tuple(Evaluation(kernel, stepwise) for stepwise in (False, True) for kernel in KERNELS)
"""The ways in which every fact is asked."""


class Miss(NamedTuple):
    """A token of an answer in whose place an evaluation returned another one; `fact`: the number of the fact."""

    fact: int
    place: int
    wanted: int
    got: int
    evaluation: Evaluation


class AskedFacts(NamedTuple):
    """The result of asking for facts.

    `misses`: the tokens that came out wrong. `states` `(6, N)`: for each fact, the largest of what `LOOKED_AT` lists at
    the places of its answer, in all evaluations.
    """

    misses: list[Miss]
    states: Floats


class PlacesAsked(NamedTuple):
    """Places of answers `(P,)`: the number of each one's fact, and which token of the answer is asked for there."""

    rows: Ints
    places: Ints

    @classmethod
    def of(cls, answers: Sequence[Sequence[int]]) -> PlacesAsked:
        """All places of some answers, in order."""
        lengths = [len(answer) for answer in answers]
        places = np.concatenate([np.arange(length) for length in lengths])
        return cls(np.repeat(np.arange(len(answers)), lengths), places)


@dataclass(frozen=True, eq=False)
class KeptStates:
    """What the host's own layers returned at places of answers, so that only what is behind them need be asked.

    `facts`: the numbers of the facts. `states`: for each way to evaluate their texts, the states `(P, D)` at all places
    of their answers, in order, in the host's format and on the processor.
    """

    facts: Sequence[int]
    states: Mapping[Evaluation, Tensor]

    def whole(self, facts: Sequence[FactIds], kernel: str) -> list[int]:
        """The numbers of the `facts` that are asked of the whole network: those without states, and some others.

        The others are texts of several lengths, the shortest among them.
        """
        if Evaluation(kernel, False) not in self.states:
            return list(range(len(facts)))
        by_length = sorted(self.facts, key=lambda number: len(facts[number].sequence))
        some = by_length[:: max(1, min(WHOLE, len(by_length) // 2))]
        return sorted({*range(len(facts))} - {*self.facts} | {*some})


LOOKED_AT = ("lost", "length", "fell", "rose", "turned", "woken")
"""What is measured of a state: the loss of ⟨k, û⟩; its length; by which share of T the input of its neuron fell, and
rose; 1 − cos(k, û) as a share of what is claimed; 1 if a neuron that may spoil the answer is not silent."""
LookAt = Callable[[PlacesAsked, Tensor], Floats]
"""Returns what `LOOKED_AT` lists `(6, P)` of the states `(P, D)` at some places."""


class _Evaluated(NamedTuple):
    """A batch of texts, padded on the left: how it was evaluated, and the numbers `(n,)` of its facts.

    States `(n, m, D)` are those at the last m places, and logits `(n, k, V)` those at the last k. All places of answers
    are among them.
    """

    way: Evaluation
    facts: Ints
    states: Tensor
    logits: Tensor | None


class _Stack:
    """Keys and values that texts left, to be those of one batch padded on the left, at the places `before` its last."""

    def __init__(self, count: int, before: int) -> None:
        self.count, self.before = count, before
        self.pieces: list[tuple[slice, int, list[tuple[Tensor, Tensor] | None]]] = []

    def add(self, rows: slice, start: int, cache: Any) -> None:
        """Take those of some texts, whose first place is `start`, from the `cache` that their evaluation left."""
        self.pieces.append((rows, start, [(layer.keys, layer.values) for layer in cache.layers]))

    def cache(self, config: Any) -> Any:
        """A cache that holds them all. They are copied layer by layer, so hardly any is in memory twice."""
        from transformers import DynamicCache

        made: Any = DynamicCache
        cache = made(config=config)
        for number in range(len(self.pieces[0][2])):
            both: list[Tensor] = []
            for rows, start, layers in self.pieces:
                given, layers[number] = layers[number], None
                assert given is not None  # each layer is taken once
                if not both:
                    shapes = [(self.count, part.shape[1], self.before, part.shape[3]) for part in given]
                    both = [part.new_zeros(shape) for part, shape in zip(given, shapes, strict=True)]
                for whole, part in zip(both, given, strict=True):
                    whole[rows, :, start:] = part[:, :, : max(0, self.before - start)]
            cache.update(*both, number)
        return cache


def _alike(facts: Sequence[FactIds], *, alone: bool) -> Iterator[slice]:
    """Which rows of a batch, the longest first, are evaluated together at once: texts of about one length, or one."""
    first = 0
    for row in range(1, len(facts) + 1):
        least = (1.0 - UNLIKE) * len(facts[first].sequence)
        if row == len(facts) or alone or len(facts[row].sequence) < least:
            yield slice(first, row)
            first = row


class _Reply(NamedTuple):
    """What was said in an evaluation at places of answers `(P,)`: their states `(P, D)`, and the tokens `(P,)`."""

    way: Evaluation
    of: PlacesAsked
    states: Tensor
    got: Ints


class NotLoadedError(DataError):
    """transformers cannot load the model in a folder; the message says why."""


class Running:
    """A host loaded by transformers. Blocks that were appended to it are removed, unless `whole` is True.

    transformers open the files of `source` by their names: an error if they are not those that were opened before.
    """

    def __init__(
        self, host: Host, source: ModelFiles, device: str | torch.device | None = None, *, whole: bool = False
    ) -> None:
        try:
            from transformers.utils import logging as theirs
        except ImportError:
            raise needs_extra("attaching facts runs the host in transformers", "stock") from None
        check_device(device)
        logging: Any = theirs  # it has no types
        verbosity = logging.get_verbosity()
        try:
            logging.set_verbosity_error()  # no warning about biases that the file lacks
            with quietly(logging):
                loaded: Any = _loaded(host, source)
        except Exception as error:  # transformers and what it validates configurations with raise of many kinds
            first = str(error).strip().partition("\n")[0]
            source.check_unchanged()
            raise NotLoadedError(f"{source.path} cannot be loaded by transformers: {first}") from None
        finally:
            logging.set_verbosity(verbosity)
        source.check_unchanged()
        self.host = host
        self.dtype: torch.dtype = getattr(torch, host.dtype)
        self.model: Any = loaded
        self.model.eval()
        self.model.requires_grad_(False)
        modules = dict(self.model.named_modules())
        start = host.kind.root.removesuffix(".")
        self.layers: nn.ModuleList = modules[f"{start}.{host.kind.layers}"]
        self.last_norm: nn.Module = modules[f"{start}.{host.kind.last_norm}"]
        if not whole:
            del self.layers[host.layers :]
            self._count()
            for name in host.added_biases:
                self._parameter(name).zero_()
        put_on(self.model, device)

    def _parameter(self, name: str) -> Tensor:
        """The parameter of the loaded model that the host's files call `name`."""
        full = self.host.kind.root + name.removeprefix(self.host.root)
        parameter: Tensor = self.model.get_parameter(full)
        return parameter

    def _count(self) -> None:
        """Write the number of layers into the configuration, because transformers make caches from it."""
        setattr(self.model.config, self.host.kind.depth, len(self.layers))
        kinds = getattr(self.model.config, "layer_types", None)
        if isinstance(kinds, list) and kinds:
            self.model.config.layer_types = (kinds + kinds[-1:] * len(self.layers))[: len(self.layers)]

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        device: torch.device = self.model.device
        return device

    def kept(self, facts: Sequence[FactIds], kernel: str, count: Callable[[int], None]) -> dict[Evaluation, Tensor]:
        """The host's last states `(P, D)` at all places of answers, in both ways; each text is first by itself.

        Token by token texts go in batches, behind the keys and values that each left when it was by itself. `count` is
        told how many facts are done.
        """
        lengths = [len(fact.answer) for fact in facts]
        first, places = np.cumsum([0, *lengths]).tolist(), sum(lengths)
        kept = torch.empty(2 * places, self.host.width, dtype=self.dtype)
        done, rows, waiting = 0, list[Tensor](), list[Tensor]()
        for way, numbers, states, _ in self._evaluated(facts, kernel, self._base(), alone=True):
            count(done)
            done += 0 if way.stepwise else len(numbers)
            for number, part in zip(numbers, states, strict=True):
                rows.append(torch.arange(lengths[number]) + first[number] + way.stepwise * places)
                waiting.append(part[-lengths[number] :])
            if way.stepwise:  # seldom, because a copy waits until the device has nothing to do
                kept[torch.cat(rows)] = torch.cat(waiting).cpu()
                rows, waiting = [], []
        return {Evaluation(kernel, False): kept[:places], Evaluation(kernel, True): kept[places:]}

    def states(self, texts: Sequence[Sequence[int]], kernel: str = "sdpa") -> Iterator[Tensor]:
        """The host's last states `(n, D)` at all places of each text; every text is evaluated by itself."""
        self.model.set_attn_implementation(kernel)
        # All ids are copied at once, because a copy to a GPU waits until it is idle.
        ids = torch.tensor([token for text in texts for token in text], dtype=torch.long, device=self.device)
        with self._watching() as seen:
            for text in torch.split(ids, [len(text) for text in texts]):
                seen.clear()
                self._output_of(self._base(), input_ids=text[None])
                yield seen[0][0]

    def normed(self, states: Tensor) -> Floats:
        """What the norm of an appended block returns for states `(n, D)`; short formats use their own arithmetic."""
        host, x = self.host, states.detach()
        if not host.format.short:
            return normed(x.double().cpu().numpy(), host)
        if host.kind.rms:
            wide = x.float()
            x = (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + host.epsilon)).to(x.dtype)
        else:
            x = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=host.epsilon)
        normed_states: Floats = x.double().cpu().numpy()
        return normed_states

    def rounds_midway(self) -> bool:
        """Whether sums of `D` products are rounded to a short format here before they are complete.

        Proofs assume that they are not. PyTorch does it on ARM processors with bfloat16 instructions: oneDNN has a
        library of ARM's cut long sums into pieces there, and add up the pieces in the format.
        """
        if not self.host.format.short:
            return False
        beside = 4.0 / self.host.format.unit  # 1 + `beside` rounds to `beside`
        weights = torch.zeros(NEURONS_TRIED, self.host.width, dtype=self.dtype, device=self.device)
        weights[:, 0], weights[:, 1], weights[:, -1] = beside, 1.0, -beside
        # One row alone goes to other code.
        sums = torch.nn.functional.linear(torch.ones_like(weights[:ROWS_TRIED]), weights)
        return bool((sums != 1.0).any())

    def _base(self) -> Any:
        """The loaded network without its head."""
        return self.model.base_model

    def _output_of(self, network: Any, **inputs: Any) -> Any:
        """What `network`, the model or its base, returns for `inputs`; it keeps a cache only if they say so."""
        with no_notice_of_kernels(self.dtype):
            return network(**{"use_cache": False} | inputs)

    @contextmanager
    def _watching(self) -> Iterator[list[Tensor]]:
        """Collect the states that enter the first appended block, or the last norm if no block is appended."""
        seen: list[Tensor] = []

        def keep(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.append((given[0] if given else named["hidden_states"]).detach())

        behind = self.layers[self.host.layers] if len(self.layers) > self.host.layers else self.last_norm
        hook = behind.register_forward_pre_hook(keep, with_kwargs=True)
        try:
            with torch.inference_mode():
                yield seen
        finally:
            hook.remove()

    def append(self, blocks: Sequence[Mapping[str, Tensor]]) -> None:
        """Append blocks to the host's own layers, in place of any that were appended before."""
        del self.layers[self.host.layers :]
        like = self.layers[0]
        kernel = self.model.config._attn_implementation
        for tensors in blocks:
            block = type(like)(self.model.config, layer_idx=len(self.layers))
            block.load_state_dict(dict(tensors))
            self.layers.append(block.to(device=self.device, dtype=self.dtype).eval())
        self.model.requires_grad_(False)
        self._count()
        self.model.set_attn_implementation(kernel)

    def _batches(self, facts: Sequence[FactIds], kernel: str) -> Iterator[_Evaluated]:
        """The texts of all facts, evaluated in batches padded on the left: all places at once, then token by token."""
        return self._evaluated(facts, kernel, self.model, alone=False)

    def _evaluated(self, facts: Sequence[FactIds], kernel: str, network: Any, *, alone: bool) -> Iterator[_Evaluated]:
        """The texts of all facts, evaluated by `network`: all places at once, then token by token.

        All places at once they go in batches of about one length, or each `alone`. Token by token more of them go
        together, behind the keys and values that they left when they were evaluated at once.
        """
        self.model.set_attn_implementation(kernel)
        whole = network is self.model
        for numbers in self._together(facts, alone=alone):
            some = [facts[number] for number in numbers]
            inputs, steps = self._padded(some)
            length = inputs["input_ids"].shape[1]
            stack = _Stack(len(some), length - steps)
            # `generate` asks for few logits in the same way; those of a prompt cost as much as many layers.
            options = {"use_cache": True} | ({"logits_to_keep": steps} if whole else {})
            with self._watching() as seen:
                for rows in _alike(some, alone=alone):
                    start = length - len(some[rows.start].sequence)
                    piece = {key: each[rows, start:] for key, each in inputs.items() if not alone or key == "input_ids"}
                    output = self._output_of(network, **piece, **options)
                    stack.add(rows, start, output.past_key_values)
                    yield _Evaluated(Evaluation(kernel, False), numbers[rows], seen.pop(), output.get("logits"))
                    del output
                replies = self._step_by_step(network, inputs, steps, stack.cache(self.model.config))
                logits = torch.cat(replies, dim=1) if whole else None
                yield _Evaluated(Evaluation(kernel, True), numbers, torch.cat(seen, dim=1), logits)

    def _together(self, facts: Sequence[FactIds], *, alone: bool) -> Iterator[Ints]:
        """The numbers of facts that are evaluated together token by token.

        The longest texts come first, so that texts of about one length are together; or those with the longest
        answers, and with answers of about one length, if texts are evaluated `alone` before.
        """

        def size(number: int) -> tuple[int, int]:
            return -len(facts[number].answer) if alone else 0, -len(facts[number].sequence)

        order = sorted(range(len(facts)), key=size)
        while order:
            some = [facts[number] for number in order[:TOGETHER]]
            if alone:
                some = [fact for fact in some if len(fact.answer) > (1.0 - UNLIKE) * len(some[0].answer)]
            some = some[: self._batch_size(some)]
            yield np.array(order[: len(some)])
            order = order[len(some) :]

    def _padded(self, facts: Sequence[FactIds]) -> tuple[dict[str, Tensor], int]:
        """What the model is given for texts, padded on the left, and how many of the last places hold all answers."""
        length, steps = max(len(fact.sequence) for fact in facts), max(len(fact.answer) for fact in facts)
        ids = torch.zeros(len(facts), length, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, fact in enumerate(facts):
            ids[row, length - len(fact.sequence) :] = torch.tensor(list(fact.sequence))
            mask[row, length - len(fact.sequence) :] = 1
        place = (mask.cumsum(dim=1) - 1).clamp(min=0)
        named = {"input_ids": ids, "attention_mask": mask, "position_ids": place}
        return {key: each.to(self.device) for key, each in named.items()}, steps

    def _step_by_step(self, network: Any, inputs: Mapping[str, Tensor], steps: int, cache: Any) -> list[Tensor]:
        """The logits `(n, 1, V)` at each of the last places of a batch, evaluated one after the other.

        The keys and values of the places before them are taken from `cache`. A network without a head has no logits.
        """
        length, logits = inputs["input_ids"].shape[1], []
        for at in range(length - steps, length):
            piece = {
                "input_ids": inputs["input_ids"][:, at : at + 1],
                "attention_mask": inputs["attention_mask"][:, : at + 1],
                "position_ids": inputs["position_ids"][:, at : at + 1],
            }
            output = self._output_of(network, use_cache=True, past_key_values=cache, **piece)
            cache = output.past_key_values
            logits.append(output.get("logits"))
        return logits

    def _said_behind(self, states: Tensor) -> Tensor:
        """Logits `(P, V)` of the model where its host's own layers return `states` `(P, D)`, each by itself.

        The model runs as transformers run it, but for its host's layers, which are taken out meanwhile.
        """

        def put(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            here = states[:, None]
            return ((here, *given[1:]), named) if given else ((), {**named, "hidden_states": here})

        own = list(self.layers)[: self.host.layers]
        del self.layers[: self.host.layers]
        hook = next(iter(self.layers), self.last_norm).register_forward_pre_hook(put, with_kwargs=True)
        try:
            with torch.inference_mode():
                ids = torch.zeros(len(states), 1, dtype=torch.long, device=self.device)
                logits: Tensor = self._output_of(self.model, input_ids=ids, attention_mask=ids + 1).logits[:, 0]
                return logits
        finally:
            hook.remove()
            for layer in reversed(own):
                self.layers.insert(0, layer)

    def _batch_size(self, facts: Sequence[FactIds]) -> int:
        """How many of the facts, from the first on, are evaluated together: as `BATCH_NUMBERS` allows, at least one."""
        count = len(facts)
        while count > 1 and count * self._numbers_held(facts[:count]) > BATCH_NUMBERS:
            count //= 2
        return count

    def _numbers_held(self, facts: Sequence[FactIds]) -> int:
        """How many numbers are in memory for each text of a batch, which is padded to the longest."""
        length = max(len(fact.sequence) for fact in facts)
        heads: int = self.model.config.num_attention_heads
        scores = heads * length**2  # of one layer, where attention is eager
        keys_and_values = 2 * len(self.layers) * length * self.host.width
        return max(len(fact.answer) for fact in facts) * self.host.vocabulary + scores + keys_and_values

    def ask(
        self, facts: Sequence[FactIds], look_at: LookAt, progress: Progress, kept: KeptStates | None = None
    ) -> AskedFacts:
        """Ask for every token of every answer, in every way of evaluation. `look_at` measures the states.

        At states that were `kept`, the appended blocks, the last norm and the head are asked.
        """
        misses: list[Miss] = []
        looked = np.full((len(facts), len(LOOKED_AT)), -np.inf)
        for number, kernel in enumerate(KERNELS):
            share = 1.0 / len(KERNELS)
            counted = counting(progress, f"asking, {kernel}", "fact", number * share, (number + 1) * share)
            for way, of, states, got in self._replies(facts, kernel, kept, counted):
                wanted = np.array([facts[fact].answer[place] for fact, place in zip(of.rows, of.places, strict=True)])
                for wrong in np.flatnonzero(got != wanted).tolist():
                    fact, place = int(of.rows[wrong]), int(of.places[wrong])
                    misses.append(Miss(fact, place, int(wanted[wrong]), int(got[wrong]), way))
                np.maximum.at(looked, of.rows, look_at(of, states).T)
        misses = sorted({*misses}, key=lambda miss: (EVALUATIONS.index(miss.evaluation), *miss[:-1]))
        return AskedFacts(misses, np.maximum(looked, 0.0).T)

    def _replies(
        self, facts: Sequence[FactIds], kernel: str, kept: KeptStates | None, count: Callable[[int, int], None]
    ) -> Iterator[_Reply]:
        """What the model says at all places of answers: the whole network, or what is behind states that were kept."""
        kept = KeptStates((), {}) if kept is None else kept
        ways = [way for way in kept.states if way.kernel == kernel]
        whole, done = kept.whole(facts, kernel), 0
        count_of = len(whole) + (len(kept.facts) if ways else 0)
        for way, numbers, states, logits in self._batches([facts[number] for number in whole], kernel):
            assert logits is not None  # the network has its head
            count(done, count_of)
            done += len(numbers) if way.stepwise else 0
            answers = [facts[whole[number]].answer for number in numbers]
            asked = PlacesAsked.of(answers)
            # A text ends at the last place of its answer, and batches are padded on the left.
            before_end = np.array([len(answer) for answer in answers])[asked.rows] - asked.places
            row = torch.from_numpy(asked.rows).to(self.device)
            at = [torch.from_numpy(each.shape[1] - before_end).to(self.device) for each in (states, logits)]
            got = logits[row, at[1]].argmax(dim=-1).cpu().numpy()
            of = PlacesAsked(np.array(whole)[numbers[asked.rows]], asked.places)
            yield _Reply(way, of, states[row, at[0]], got)
        step = max(1, min(PLACES_TOGETHER, BATCH_NUMBERS // self.host.vocabulary))
        for way in ways:
            count(done, count_of)
            asked = PlacesAsked.of([facts[number].answer for number in kept.facts])
            for first in range(0, len(asked.rows), step):
                some = slice(first, first + step)
                states = kept.states[way][some].to(self.device)
                got = self._said_behind(states).argmax(dim=-1).cpu().numpy()
                yield _Reply(way, PlacesAsked(np.array(kept.facts)[asked.rows[some]], asked.places[some]), states, got)

    def continued(self, prompt: Sequence[int], most: int, stops: Sequence[int]) -> list[int]:
        """The ids with which the model continues a prompt, up to one of the ids `stops`.

        They are at most as many as `most`, and as the host has places for.
        """
        ids, room = torch.tensor([list(prompt)], device=self.device), self.host.places
        fits = most if room is None else min(most, room - len(prompt) + 1)
        options = {"max_new_tokens": fits, "do_sample": False, "pad_token_id": next(iter(stops), 0)}
        with torch.inference_mode(), no_notice_of_kernels(self.dtype):
            generated = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), eos_token_id=list(stops) or None, **options
            )
        return list(takewhile(lambda token: token not in stops, generated[0, len(prompt) :].tolist()))


def put_on(model: Any, device: str | torch.device | None) -> None:
    """Move a model to a device; None leaves it where it is."""
    if device is not None:
        try:
            model.to(device)
        except RuntimeError as error:
            first = str(error).strip().partition("\n")[0]
            raise DataError(f"device {str(device)!r} cannot be used: {first}") from None


def _loaded(host: Host, source: ModelFiles) -> Any:
    """The model in a folder, as transformers load it; a Llama under another name, from its tensors as a Llama."""
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    dtype = getattr(torch, host.dtype)
    if kin_of(json.loads(source.content["config.json"])) is None:
        options: dict[str, Any] = {} if host.kind.bias_key is None else {host.kind.bias_key: True}
        return AutoModelForCausalLM.from_pretrained(
            source.path, dtype=dtype, local_files_only=True, trust_remote_code=False, **options
        )
    tensors = {
        name: torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(tensor.shape)
        for name, tensor in source.tensors.items()
        if name in host.tensors
    }
    configured: Any = LlamaConfig
    network: Any = LlamaForCausalLM
    return network.from_pretrained(None, config=configured(**host.longer_config(0)), state_dict=tensors, dtype=dtype)


@contextmanager
def quietly(logging: Any) -> Iterator[None]:
    """Hide the progress bar and the warnings of transformers."""
    shown = logging.is_progress_bar_enabled() if hasattr(logging, "is_progress_bar_enabled") else True
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if shown:
            logging.enable_progress_bar()
