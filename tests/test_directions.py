"""Directions of tokens, and the numbers of a neuron, against slow references: the host's own norm and head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from monolayer.attaching.directions import FLATTEST, GOAL, Directions, _unit
from monolayer.attaching.neurons import ROUNDING_STEPS, normed, round_keys, rounded, steepness
from monolayer.huggingface.formats import HOST_FORMATS
from monolayer.huggingface.host import Host, read_host
from tests.hosts import loaded, write_host

KINDS = ("gpt2", "llama", "opt")


@pytest.fixture(scope="module", params=KINDS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Host, Any]:
    """A host whose last norm weighs coordinates very differently, and its model."""
    folder = write_host(tmp_path_factory.mktemp("host") / request.param, request.param)
    model = loaded(folder)
    norm = last_norm(model)
    with torch.no_grad():
        for part in norm.parameters():
            part.mul_(torch.linspace(0.25, 4.0, len(part)))
        head = model.lm_head.weight  # rows of other lengths: short ones leave little room at first
        head.mul_(torch.linspace(0.85, 1.2, len(head))[:, None])
    model.save_pretrained(folder)
    return read_host(folder)[0], loaded(folder)


def last_norm(model: Any) -> Any:
    names = ("transformer.ln_f", "model.norm", "model.decoder.final_layer_norm")
    return next(part for name, part in model.named_modules() if name in names)


def logits(model: Any, states: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        found = model.lm_head.double()(last_norm(model).double()(torch.from_numpy(states)))
    return found.numpy()  # type: ignore[no-any-return]


def test_logits_along_a_direction_are_those_of_a_long_state(host: tuple[Host, Any]) -> None:
    found, random = Directions(host[0]), np.random.default_rng(0)
    v = random.standard_normal((20, found.width))
    if not host[0].kind.rms:
        v -= v.mean(axis=1, keepdims=True)
    v = _unit(v)
    wanted = logits(host[1], v * 1e6)
    assert np.abs(found._logits(v) - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert (found.said(v * 1e6) == wanted.argmax(axis=1)).all()


def test_a_direction_leaves_as_much_room_as_is_sought_and_the_first_that_does_is_taken(host: tuple[Host, Any]) -> None:
    """Room is the lead over each other token, as a share of √D (|R_t − mean| + |R_a − mean|), slowly."""
    found, model = Directions(host[0]), host[1]
    head, weight = model.lm_head.weight.detach().double().numpy(), last_norm(model).weight.detach().double().numpy()
    rows = head * weight
    if not host[0].kind.rms:
        rows = rows - rows.mean(axis=1, keepdims=True)
    away = rows - rows.mean(axis=0)
    spread = np.sqrt((away * away).sum(axis=1))
    assert np.abs(found.spread - spread).max() <= 1e-5 * spread.max()

    def room(token: int, v: np.ndarray[Any, Any]) -> float:
        said = logits(model, 1e6 * v[None])[0]
        lead = said[token] - np.delete(said, token)
        return float((lead / (np.sqrt(len(v)) * (spread[token] + np.delete(spread, token)))).min())

    tokens = np.arange(6, 320, 13)
    directions, margins = found.find(tokens)
    first = _unit(away[tokens])
    searched = 0
    for token, v, margin, begin in zip(tokens, directions, margins, first, strict=True):
        assert room(token, v) >= 0.8 * GOAL  # or nearly, where 400 steps do not reach it
        if room(token, begin) >= GOAL + 1e-4:
            assert np.abs(v - begin).max() <= 1e-5
        searched += room(token, begin) < GOAL - 1e-4
        lead = logits(model, 1e6 * v[None])[0]
        assert abs(margin - (lead[token] - np.delete(lead, token).max())) <= 1e-4 * np.abs(lead).max()
    assert np.abs(np.array([room(*one) for one in zip(tokens, directions, strict=True)])
                  - found.room(tokens, directions)).max() <= 1e-4  # fmt: skip
    assert 2 <= searched < len(tokens)
    flat, _ = found.find(tokens, flat=True)
    most, usual = (np.median(np.abs(one).max(axis=1)) * np.sqrt(found.width) for one in (flat, directions))
    assert most <= 1.5 * FLATTEST < usual


def test_states_are_normed_as_by_a_norm_without_weight(host: tuple[Host, Any]) -> None:
    states = np.random.default_rng(1).standard_normal((30, host[0].width)) * 10.0 ** np.linspace(-4.0, 3.0, 30)[:, None]
    size = torch.Size([host[0].width])
    given = torch.from_numpy(states)
    if host[0].kind.rms:
        wanted = torch.nn.functional.rms_norm(given, size, eps=host[0].epsilon)
    else:
        wanted = torch.nn.functional.layer_norm(given, size, eps=host[0].epsilon)
    assert np.abs(normed(states, host[0]) - wanted.numpy()).max() <= 1e-12


def test_the_radius_allows_for_rounded_coordinates(tmp_path: Path) -> None:
    host, _ = read_host(write_host(tmp_path / "host", "llama", dtype=torch.bfloat16))
    assert steepness(host).radius >= ROUNDING_STEPS * host.format.unit / np.sqrt(host.width)


def test_keys_are_rounded_the_other_way_from_the_largest_move_on() -> None:
    """A slow reference, one coordinate at a time."""
    random, fmt = np.random.default_rng(2), HOST_FORMATS["bfloat16"]
    states = random.standard_normal((6, 40)) * np.exp(random.standard_normal(40))
    exact = states * (500.0 / (states * states).sum(axis=1))[:, None]
    wanted = rounded(exact, "bfloat16")
    for key, near, state in zip(exact, wanted, states, strict=True):
        other = near + np.sign(key - near) * fmt.spacing(near)
        missing = 500.0 - near @ state
        for at in sorted(range(len(key)), key=lambda at: -abs((other - near)[at] * state[at])):
            move = (other[at] - near[at]) * state[at]
            if abs(missing - move) < abs(missing):
                near[at], missing = other[at], missing - move
    assert np.array_equal(round_keys(exact, states, np.full(6, 500.0), fmt), wanted)
