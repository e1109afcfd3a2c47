"""Questions to the parts of attaching that compute in float64 from given states: neurons, caps, written rows, and
directions of tokens. Nothing runs here but NumPy and single products, so answers are recorded to many digits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from monolayer.attaching import apart, directions, measuring, neurons
from monolayer.attaching.apart import Around, Duties, FiringCaps, WrittenRows
from monolayer.attaching.directions import Directions
from monolayer.attaching.neurons import Neurons, Steepness
from monolayer.attaching.running import PlacesAsked, Running
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.formats import HOST_FORMATS
from monolayer.huggingface.host import Host, read_host
from tests.plain_hosts import plain_host
from tests.record import Ask, attempt, few_digits

FORMATS = ("float32", "bfloat16", "float16")


def questions(folder: Path) -> Iterator[tuple[str, Ask]]:
    """Each with its name; hosts are written to `folder`."""
    hosts = {
        (kind, dtype): read_host(plain_host(folder / f"{kind} {dtype}", kind, dtype))[0]
        for kind in ("gpt2", "opt", "llama")
        for dtype in FORMATS
    }
    for (kind, dtype), host in hosts.items():
        name = f"{kind} {dtype}"
        yield f"steepness {name}", (lambda host=host: _steepness(host))
        yield f"neurons {name}", (lambda host=host: _neurons(host))
        yield f"caps {name}", (lambda host=host: _caps(host))
        yield f"spoilers {name}", (lambda host=host: _spoilers(host))
        if dtype != "bfloat16":
            yield f"directions {name}", (lambda host=host: _directions(host))
    for number in range(12):
        yield f"pairs {number}", (lambda number=number: _pairs(number))
    yield "rows that earlier blocks write", _written
    yield "places asked", lambda: PlacesAsked.of([(1, 2, 3), (4,), (5, 6)])
    for dtype in FORMATS:
        yield f"normed {dtype}", (lambda dtype=dtype: _normed(hosts["gpt2", dtype], hosts["llama", dtype]))


# -- neurons -----------------------------------------------------------------------------------------------------


def _steepness(host: Host) -> list[object]:
    """ρ and T for radii that are asked for; those at the edges of what is allowed are."""
    least = neurons.least_radius(host)
    asked: list[Any] = [
        None,
        least,
        0.99 * least,
        2.0**-10,
        0.0625,
        0.063,
        np.float64(0.01),
        np.float32(0.01),
        1,
        "wide",
        True,
    ]
    narrow, wide = (
        SimpleNamespace(width=width, format=host.format, silence=host.silence, response=host.response)
        for width in (8, 4096)
    )
    found = [attempt(lambda radius=radius: neurons.steepness(host, radius)) for radius in asked]
    return [
        least,
        *found,
        *(attempt(lambda of=of: neurons.steepness(of)) for of in (narrow, wide)),
        neurons.kept_from(neurons.steepness(host), host),
        neurons._least_returned(neurons.steepness(host), host),
        neurons._least_returned(Steepness(2.0**-12, 40.0, 512.0), host),
    ]


def states(host: Host, evaluations: int = 2, count: int = 7) -> Any:
    """Normed states `(K, N, D)` with one coordinate that is most of some of them; evaluations turn them a little."""
    random = np.random.RandomState(host.width)
    own = random.standard_normal((count, host.width)) * np.exp(random.standard_normal(host.width))
    own[::3, 5] += 30.0
    turned = own + 1e-3 * random.standard_normal((evaluations, count, host.width))
    turned[:, 2] = own[2]
    size = np.sqrt((turned * turned).mean(axis=2, keepdims=True))
    return neurons.rounded(turned / size, host.dtype)


def made(host: Host, own: bool = True, radius: float | None = None) -> tuple[Neurons, Steepness]:
    """Neurons of these states, and with which ρ and T; one state is near another, one is the same."""
    steep = replace(neurons.steepness(host, radius), own=own)
    samples = states(host)
    samples[:, 4], samples[:, 6] = samples[:, 1], samples[:, 3]
    samples[:, 6, 7] += 0.2
    samples = neurons.rounded(samples, host.dtype)
    later = np.arange(7) % 3 > 0
    W_1, b_1 = neurons.reading(samples, steep.response / steep.radii(samples, later, host), steep.response, host.dtype)
    random = np.random.RandomState(3)
    rows = random.standard_normal((4, host.width))[[0, 1, 2, 3, 1, 0, 3]]
    rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    room = np.linspace(0.02, 0.3, 7) if host.format.limited else None
    return Neurons(W_1, b_1, neurons.writing(rows, room, steep, host)), steep


def _neurons(host: Host) -> list[object]:
    steep, samples, later = neurons.steepness(host), states(host), np.arange(7) % 2 > 0
    three = states(host, 3)
    wide = replace(steep, radius=3.0 * steep.radius)
    found: list[object] = [
        steep.radii(samples, later, host),
        steep.radii(three, later, host),
        wide.radii(three, later, host),
        replace(steep, own=False).radii(samples, later, host),
        steep.radii(samples[:1], later, host),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neurons, "KEYS_AT_ONCE", 3)
        found += list(made(host)[0])
    found.append(made(host)[0].joined(made(host, own=False)[0]))
    some = np.random.RandomState(4).standard_normal((3, host.width))
    some[1, :8] = 0.0
    found.append(neurons.round_keys(some * 1e-3, some, np.array([1.0, -2.0, 0.5]), HOST_FORMATS[host.dtype]))
    return found


# -- neurons that disturb each other -------------------------------------------------------------------------------


def _caps(host: Host) -> list[object]:
    found: list[object] = []
    for own, radius in ((True, None), (False, None), (False, neurons.least_radius(host))):
        some, steep = made(host, own, radius)
        caps = apart.firing_caps(some, steep, host)
        found.append([caps.wanted, caps.own, 1.0 - caps.silent, 1.0 - caps.hardly, *caps[5:]])
        found.append([1.0 - (caps.keys * caps.keys).sum(axis=1), caps.wanted.longest - 1.0, caps.own.longest - 1.0])
        for state in (0.0, 300.0, 3e4):
            written = WrittenRows.of(some, steep, host, state)
            found.append(list(written))
            asked = [partial(apart.check_written, caps, written, duties(count)) for count in (3, 8)]
            found += map(attempt, asked)
        found += [_refusal(partial(apart.check_apart, caps, duties(count), str)) for count in (3, 8)]
    return found


def duties(per_block: int) -> Duties:
    """Those of seven neurons: facts of two tokens, of three, and of two."""
    facts = [FactIds((9,), (4, 5), 0, "row 0"), FactIds((8,), (6, 7, 5), 1, "row 1"), FactIds((7,), (4, 6), 4, "row 4")]
    return Duties.of(facts, per_block)


def _refusal(ask: Ask) -> object:
    """What comes back, or the words of the error with the rows that it names."""
    try:
        return ask()
    except apart.PrecisionError as error:
        return f"{error} {error.rows}"


def _pairs(seed: int) -> list[object]:
    """Pairs of neurons in clusters, in one block or several: which are refused, and in which words."""
    random, short = np.random.RandomState(seed), bool(seed % 2)
    count = 9
    keys = random.standard_normal((count, 5))[random.randint(0, 5, count)]
    keys = (
        keys
        + random.standard_normal(keys.shape) * np.array([0.0, 1e-5, 0.2, 0.6, 1.0])[random.randint(0, 5, (count, 1))]
    )
    keys /= np.sqrt((keys * keys).sum(axis=1, keepdims=True))
    longest, half = random.uniform(1.0, 1.2, count), random.uniform(0.01, 0.4, count)
    silent = random.uniform(0.7, 0.99, count)
    own = Around(half / 8.0, random.uniform(1.0, 1.1, count))
    hardly = np.minimum(0.995, silent + random.uniform(0.0, 0.1, count))
    caps = FiringCaps(keys, Around(half, longest), own, silent, hardly, short, seed % 4 == 1, np.full(count, 0.1), 0.01)
    tokens = random.randint(0, 3, count)
    facts = [FactIds((7,), (int(token),), row, f"row {row}") for row, token in enumerate(tokens)]
    found = []
    for at_once in (1, 30, 1 << 24):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apart, "PAIRS_AT_ONCE", at_once)
            for first, per_block in ((0, 4), (4, 20), (0, 1)):
                own_duties = Duties(tokens, facts, np.arange(count) // per_block)
                found.append(_refusal(lambda f=first, d=own_duties: apart.check_apart(caps, d, str, f)))
    every = apart._near_pairs(caps, Duties(tokens, facts, np.arange(count) // 4), *np.triu_indices(count, 1))
    return [*found, every, caps.needed(caps.own, caps.hardly, *np.triu_indices(4, 1))]


def _written() -> list[object]:
    """A later key at, near and away from what an earlier block writes, and with how much room."""
    facts = [FactIds((9,), (token,), token, f"row {token}") for token in range(6)]
    unit = np.eye(12)
    rows = unit[[0, 0, 2, 3, 1, 0]]
    written = WrittenRows(rows, np.array([0.0, 0.04, 0.0, 0.01, 0.0, 0.02]))
    found: list[object] = []
    for per_block in (1, 2, 3):
        each = Duties(np.arange(6), facts, np.arange(6) // per_block)
        for early, late in ((0, 2), (1, 5), (2, 3), (3, 5), (4, 1), (0, 1)):
            for near in (0.9, 0.911, 0.939, 0.941, 0.949, 0.951):
                keys = unit[6:].copy()
                keys[late] = np.sqrt(1.0 - near * near) * unit[6] + near * rows[early]
                caps: Any = SimpleNamespace(keys=keys, silent=np.full(6, 0.95))
                found.append(attempt(lambda c=caps, d=each: apart.check_written(c, written, d)))
    return found


def _spoilers(host: Host) -> list[object]:
    """Which neurons are awake at states of others, also where a neuron cannot be read."""
    found: list[object] = []
    for per_block in (2, 3, 8):
        some, steep = made(host)
        odd = Neurons(some.W_1.copy(), some.b_1.copy(), some.W_2)
        odd.W_1[5], odd.b_1[2], odd.W_1[0, 3] = 0.0, np.nan, np.inf
        for each in (some, odd):
            few = SimpleNamespace(
                width=host.width,
                neurons=per_block,
                format=host.format,
                silence=host.silence,
                kind=host.kind,
                epsilon=host.epsilon,
                activation=host.activation,
            )
            spoilers = measuring.Spoilers.of(SimpleNamespace(neurons=each, steep=steep, host=few))
            at = np.concatenate([states(host)[0][[0, 1, 2, 3, 1, 5, 3]], states(host, 3)[2], 0.5 * states(host)[1]])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(measuring, "STATES_AT_ONCE", 5)
                own = np.concatenate([np.arange(7), np.arange(7)[::-1], np.arange(7)])
                found += [spoilers.row, spoilers.block, spoilers.caps.silent, spoilers.woken(own, at)]
    return found


# -- directions ----------------------------------------------------------------------------------------------------


def _directions(host: Host) -> list[object]:
    """The directions of some tokens, and what is said of one whose margin is short."""
    tokens = np.array([0, 1, 66, 67, 100, 258, 263, 278, 290])
    found: list[object] = []
    for at_once in (1 << 23, 600, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(directions, "DIRECTION_LOGITS_AT_ONCE", at_once)
            patch.setattr(directions, "DIRECTION_STEPS", 60)
            head = Directions(host)
            found += [head.least, head.size, *map(few_digits, (head.mean, head.spread, head.shift, head.rows))]
            for flat in (False, True):
                each, margins = head.find(tokens, flat=flat)
                room = head.room(tokens, each)
                found += [*map(few_digits, (each, margins, room)), head.said(3.0 * each), head.said(-each)]
                for short in (margins, np.where(tokens == 100, head.least, margins), 0.0 * margins):
                    found.append(_short(head, tokens, short))
    peaks = np.vstack([np.eye(8)[:2] * 3.0, np.arange(8.0) - 3.0, np.zeros(8), np.ones(8)])
    return [*found, directions.flattened(peaks), directions._unit(peaks)]


def _short(head: Directions, tokens: Any, margins: Any) -> object:
    """What is said where margins are short, without how short."""
    rows = [f"row {token}" for token in tokens]
    said = attempt(lambda: directions.check_margins(head, tokens, margins, lambda token: f"token {token}", rows))
    return (
        re.sub(r"best: [-.\d]+", lambda found: f"best: {float(found[0][6:]):.1f}", said)
        if isinstance(said, str)
        else said
    )


def _normed(gpt2: Host, llama: Host) -> list[object]:
    """What norms return for states whose coordinates are small whole numbers, in the arithmetic of their format."""
    random = np.random.RandomState(5)
    whole = random.randint(-8, 9, (4, gpt2.width)).astype(float)
    whole[0] += 20.0
    whole = np.concatenate([whole, whole[1:] / 512.0])
    tensor = torch.from_numpy(whole).to(getattr(torch, gpt2.dtype))
    normed: Any = Running.normed
    found: list[object] = [neurons.normed(whole, host) for host in (gpt2, llama)]
    shared = [normed(SimpleNamespace(host=host), tensor) for host in (gpt2, llama)]
    return [*found, *(np.rint(256.0 * each) / 256.0 for each in shared)]
