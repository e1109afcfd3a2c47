"""Lemmas A1 to A5 (docs/proofs-attached.md), number by number: slow references against the checker."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.checker.attached import answers
from monolayer.checker.attached import caps as caps_module
from monolayer.checker.attached.answers import OVERFLOW, Head, _answered_to, judge_answers, judge_written
from monolayer.checker.attached.caps import caps_of, fires_for_sure, near_pairs
from monolayer.checker.attached.files import read_attached
from monolayer.checker.rounding import PADDING, UnhandledError
from tests.hosts import FACTS, NEURONS, write_host

U, D = 2.0**-24, 48
V = {"float32": U, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""v: a number is rounded to the format by at most this share of itself."""
LOST = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-24}
STATE = {"float32": 2.0**16, "bfloat16": 2.0**16, "float16": 2.0**9}
LARGEST = {"float32": 3.4e38, "bfloat16": 3.38e38, "float16": 65_504.0}
EXACTLY = 1e-13


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """What the checker reads of folders with `FACTS` attached, by format; a GPT-2, in bfloat16 a GPT-NeoX."""
    where, made = tmp_path_factory.mktemp("folders"), dict[str, Path]()

    def find(dtype: str) -> Any:
        if dtype not in made:
            kind = "gpt_neox" if dtype == "bfloat16" else "gpt2"
            host = write_host(where / f"{dtype}-host", kind, dtype=getattr(torch, dtype))
            made[dtype] = Path(ml.attach(host, FACTS).save(where / dtype))
        return read_attached(made[dtype])

    return find


def gamma(k: float) -> float:
    return k * U / (1.0 - k * U)


@pytest.mark.parametrize("dtype", V)
def test_lemma_a1_and_a3_what_a_neuron_reads(dtype: str, folders: Callable[[str], Any]) -> None:
    found = folders(dtype)
    caps, v = caps_of(found), V[dtype]
    eta = (D + 16) * U + (v if dtype != "float32" else 0.0)
    assert caps.length == pytest.approx(eta, rel=EXACTLY)
    most_length = 1.0 + max(eta, caps.fmt.beyond)
    for j, (reads, bias) in enumerate(zip(found.reads, found.bias.tolist(), strict=True)):
        alpha = math.sqrt(math.fsum(x * x for x in reads.tolist())) * math.sqrt(D)
        err = PADDING * (gamma(D + 2) * (alpha * most_length + abs(bias)) + 2.0**-90)
        level = max(caps.fmt.low * caps.response, err + caps.floor)
        longest = 1.0 + eta
        if dtype != "float32":
            turned = max(caps.fmt.turn, caps.response / alpha / 2.0)
            longest = min(longest, (caps.fmt.high * caps.response - bias) / alpha / (1.0 - turned))
        assert caps.err[j] == pytest.approx(err, rel=EXACTLY)
        assert caps.wanted[j] == pytest.approx((level - bias) / alpha, rel=EXACTLY)
        assert caps.silent[j] == pytest.approx((-found.host.silence - bias - err) / alpha, rel=EXACTLY)
        assert caps.longest[j] == pytest.approx(longest, rel=EXACTLY)
        returned = (1.01 + 4.0 * v) * max(1.0, alpha * most_length + bias + err)
        terms = alpha * most_length + abs(bias) + err  # which nearly cancel where the radius is small
        assert caps.most[j] == pytest.approx(returned, rel=0.0, abs=1.1 * EXACTLY * terms)


def written_by_hand(found: Any, caps: Any, near: Any, head: Head, dtype: str, j: int) -> tuple[bool, float]:
    """Lemma A4 for neuron `j`: whether its row outweighs every state, and σ."""
    v, n, row = V[dtype], int(near.count[j]), found.writes[j].tolist()
    mean = math.fsum(row) / D if head.centred else 0.0
    whole, seen = (math.sqrt(math.fsum((x - m) ** 2 for x in row)) for m in (0.0, mean))
    seen -= D * 2.0**-52 * whole
    own = j // NEURONS == int(near.first[j])
    a = (0.999 - 4.0 * v) * (caps.level[j] - caps.err[j]) - 0.3 * n if own else caps.floor / 2.0
    heard = a >= 0.3 * n if own else (0.999 - 4.0 * v) * caps.floor - 0.3 * n >= a
    finite = near.most[j] * whole <= 2.0**50
    finite &= 1.01 * near.most[j] * max(map(abs, row)) + caps.state <= LARGEST[dtype]
    if not (heard and finite and a * seen > 0.0):
        return False, 1.0
    kappa, size = whole / seen, a * seen
    delta = caps.state / size + (3.0 * gamma(n + 8) + 2.02 * v) * (kappa + caps.state / size)
    delta += (n + 4) * math.sqrt(D) * LOST[dtype] / size
    if delta > 0.25:
        return False, 1.0
    behind = (kappa + delta) / (1.0 - delta)
    sigma = PADDING * (2.0 * delta + 2.0 * (D + 16) * U * behind**2 + D * head.epsilon / size**2)
    return (True, sigma) if sigma <= 0.5 else (False, 1.0)


@pytest.mark.parametrize("dtype", V)
def test_lemma_a4_what_is_written(dtype: str, folders: Callable[[str], Any]) -> None:
    found = folders(dtype)
    wide, head = caps_of(found), Head(found)
    assert wide.state == STATE[dtype]  # the measured states are shorter
    near, own = near_pairs(found, wide), np.arange(len(found.bias)) // NEURONS
    head.epsilon = 2.0**8 * STATE[dtype]  # so that it counts
    verdicts = set()
    for number, factor in enumerate(2.0 ** np.arange(-9.0, 2.0)):
        caps = replace(wide, state=wide.state * (1.0, 2.0**-5, 2.0)[number % 3])
        for mean in (0.0, 2.0, 2.0**6):
            for count, first in ((0, own), (3, own), (40, own), (2, own - 1), (10**4, own)):
                size = np.abs(found.writes).max(axis=1, keepdims=True)
                rows = factor * found.writes + mean * size * (head.centred and dtype != "float16")
                changed = replace(found, writes=rows)
                some = replace(near, count=np.full(len(own), count), first=first)
                said = judge_written(changed, caps, some, head)
                for j in (0, 7, len(own) - 1):
                    firm, share = written_by_hand(changed, caps, some, head, dtype, j)
                    assert (bool(said.firm[j]), float(said.share[j])) == (firm, pytest.approx(share, rel=EXACTLY))
                    verdicts.add(firm)
    assert verdicts == {True, False}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_lemma_a4_what_is_written_stays_finite(dtype: str, side: float, folders: Callable[[str], Any]) -> None:
    """The bounds on what neurons return together, from both sides; the largest number of a row may be negative."""
    found = folders(dtype)
    caps, head = caps_of(found), Head(found)
    near, rows = near_pairs(found, caps), side * found.writes
    peak, whole = np.abs(rows).max(axis=1), np.sqrt((rows * rows).sum(axis=1))
    most = np.minimum(2.0**50 / whole, (LARGEST[dtype] - STATE[dtype]) / (1.01 * peak))
    for share, firm in ((0.999, True), (1.001, False)):
        said = judge_written(replace(found, writes=rows), caps, replace(near, most=share * most), head)
        assert (said.firm == firm).all()


@pytest.mark.parametrize("dtype", V)
def test_lemma_a5_what_the_head_may_be_off_by(dtype: str, folders: Callable[[str], Any]) -> None:
    found = folders(dtype)
    head, v, tiny = Head(found), V[dtype], 2.0**-126
    table, gain = head.head.numbers(), float(np.abs(head.weight).max())
    mean = table.mean(axis=0)

    def row_lengths(rows: Any) -> Any:
        return np.array([math.sqrt(math.fsum((row * row).tolist())) for row in rows])

    size, plain, spread = (row_lengths(rows) for rows in (table, table - mean, (table - mean) * head.weight))
    assert head.gain == gain
    random = np.random.default_rng(0)
    for scale in (1.0, 2.0**-40, 2.0**40):
        logits = scale * random.normal(size=(3, len(table)))
        own, moved, length = np.array([0, 5, 9]), np.array([0.0, 0.1, 1e-9]), np.array([7.0, 70.0, 1e-3])
        said = head._doubt(logits, own, moved, length, D)
        for i, (a, m, r) in enumerate(zip(own.tolist(), moved.tolist(), length.tolist(), strict=True)):
            for b in (1, 17, len(table) - 1):
                s, q, p = size[a] + size[b], plain[a] + plain[b], spread[a] + spread[b]
                summed = gamma(D + 8) * r
                doubt = m * p + summed * s + 2.0 * v * r * q + 4.0 * LOST[dtype] * math.sqrt(D) * s
                doubt += 8.0 * tiny * (math.sqrt(D) * r + D) + 2.0 * LOST[dtype]
                doubt += 1.1 * v * (m * gain + summed + 2.0 * v * r + 4.0 * LOST[dtype] * math.sqrt(D)) * s
                doubt = (1.0 + 2.0 * v) * doubt + v * (abs(logits[i, b]) + abs(logits[i, a]))
                assert said[i, b] == pytest.approx(doubt, rel=1e-12)


def crowded(found: Any, seed: int) -> Any:
    """Neurons whose keys lie at all angles from a few directions, some on top of each other, and fire more or less."""
    random, reads = np.random.default_rng(seed), found.reads.copy()
    length = np.sqrt((reads * reads).sum(axis=1))
    for j in range(1, len(reads)):
        if j % 4:
            other = random.normal(size=D)
            other -= other.mean()
            near = reads[j - j % 4] / length[j - j % 4]
            turned = near + random.choice([0.0, 3e-3, 1e-2, 2e-2, 3e-2, 0.05, 0.3, 0.5, 0.6]) * other / np.sqrt(
                other @ other
            )
            reads[j] = turned * length[j] / np.sqrt(turned @ turned)
    spread = random.uniform(0.0, 0.05, len(reads)) * float(caps_of(found).response)
    return replace(found, reads=reads, bias=found.bias + spread)


@pytest.mark.parametrize("dtype", V)
@pytest.mark.parametrize("seed", range(3))
def test_lemma_a3_who_may_fire_on_whose_cap(
    dtype: str, seed: int, folders: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pairs, one by one; the checker looks at a few rows at a time."""
    found = crowded(folders(dtype), seed)
    found = replace(found, writes=2.0**-6 * found.writes)  # finite, whoever fires
    caps, N = caps_of(found), len(found.bias)
    monkeypatch.setattr(caps_module, "COSINES_AT_ONCE", 5 * N)

    def half(cosine: float, turned: float) -> float:
        return min(math.acos(max(-1.0, min(1.0, cosine))), math.acos(max(-1.0, 1.0 - turned)))

    psi = [
        half(w / m, max(caps.fmt.turn, caps.response / a / 2.0))
        for w, m, a in zip(caps.wanted.tolist(), caps.longest.tolist(), caps.alpha.tolist(), strict=True)
    ]
    short = dtype != "float32"
    expected: dict[int, set[int]] = {}
    in_core: dict[int, set[int]] = {}
    for j in range(N):
        long = float(caps.longest[j])
        if short:
            at_most = caps.fmt.near * caps.response - float(caps.bias[j])
            long = min(long, at_most / float(caps.alpha[j]) / (1.0 - caps.fmt.core))
        core = half(float(caps.wanted[j]) / long, caps.fmt.core) if short else psi[j]
        for i in range(N):
            apart = math.sqrt(math.fsum(((caps.keys[i] - caps.keys[j]) ** 2).tolist()))
            angle = 2.0 * math.asin(min(1.0, apart / 2.0)) * (1.0 - 2.0**-20)
            silent = math.acos(max(-1.0, min(1.0, float(caps.silent[i] / caps.longest[j]))))
            if i != j and angle < psi[j] + silent:
                expected.setdefault(j, set()).add(i)
            if i != j and angle < core + math.acos(max(-1.0, min(1.0, float(caps.silent[i]) / long))):
                in_core.setdefault(j, set()).add(i)

    def harmless(i: int, j: int) -> bool:
        same = np.array_equal(found.writes[i], found.writes[j])
        return same and (i // NEURONS >= j // NEURONS or fires_for_sure(found, caps, i, j))

    near = near_pairs(found, caps)
    assert {j: set(others) for j, others in near.others.items()} == expected
    assert 2 < sum(map(len, expected.values())) < N * N / 2
    for j in range(N):
        spoiling = {i for i in expected.get(j, set()) if not harmless(i, j)}
        assert near.spoilt[j] == bool(spoiling & in_core.get(j, set()))
        assert near.guarded[j] == (bool(spoiling) and not near.spoilt[j])
        # Claimed in short formats: where the neurons that could spoil the answer are silent.
        all_of_them = (expected.get(j, set()) - (spoiling if short else set())) | {j}
        assert near.count[j] == len(all_of_them) - 1
        assert near.first[j] == min(all_of_them) // NEURONS
        assert near.most[j] == pytest.approx(sum(caps.most[i] for i in all_of_them), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_lemma_a2_what_neurons_that_are_awake_together_add(
    seed: int, folders: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In front of the last block, whichever neurons of a block may be awake at one state: just finite, and just not."""
    found = crowded(folders("float16"), seed)
    caps, N = caps_of(found), len(found.bias)
    monkeypatch.setattr(caps_module, "COSINES_AT_ONCE", 5 * N)
    v = V["float16"]
    factor = PADDING * (1.0 + 2.0 * gamma(NEURONS + 8) + 4.0 * v)
    each = factor * caps.most[:, None] * np.abs(found.writes)
    awake = [math.acos(max(-1.0, min(1.0, s / caps.anywhere))) for s in caps.silent.tolist()]
    most = np.zeros(D)
    for j in range(NEURONS):
        total = each[j].copy()
        for i in range(NEURONS):
            apart = math.sqrt(math.fsum(((caps.keys[i] - caps.keys[j]) ** 2).tolist()))
            angle = 2.0 * math.asin(min(1.0, apart / 2.0)) * (1.0 - 2.0**-20)
            if i != j and angle < awake[i] + awake[j]:
                # Where the key of j is nearer, the state is half of that angle away from the key of i.
                height = caps.alpha[i] * caps.anywhere * math.cos(angle / 2.0) + caps.bias[i] + caps.err[i]
                total += factor * (1.01 + 4.0 * v) * max(1.0, height) * np.abs(found.writes[i])
        most = np.maximum(most, total)
    room = LARGEST["float16"] - caps.fmt.coordinate
    assert each[:NEURONS].sum(axis=0).max() > 1.5 * most.max()  # not all are awake together
    for share, fits in ((0.9999, True), (1.0001, False)):
        rows = found.writes * (share * room / most.max())
        if fits:
            near_pairs(replace(found, writes=rows), caps)
        else:
            with pytest.raises(UnhandledError, match="in front of the last block"):
                near_pairs(replace(found, writes=rows), caps)


def test_lemma_a2_no_state_makes_a_block_write_more(folders: Callable[[str], Any]) -> None:
    """States at, between and around keys that are near each other, against the bound for two of them."""
    found = folders("float16")
    caps = caps_of(found)
    awake, draw = np.arccos(caps.silent / caps.anywhere), np.random.default_rng(0)
    for share in (0.1, 0.5, 0.9):
        pair = caps_of(turned_to(found, 1, 0, share * float(awake[0] + awake[1])))
        one, two = pair.keys[:2]
        angle = math.acos(min(1.0, float(one @ two)))
        bound = max(
            pair.most[j] + pair.returned_at(np.array([math.cos(angle / 2.0)]), np.array([1 - j]))[0] for j in (0, 1)
        )
        states = [part * one + (1.0 - part) * two for part in np.linspace(-0.5, 1.5, 101)]
        states += [state + 0.02 * draw.normal(size=D) / np.sqrt(D) for state in states]
        heights = [pair.anywhere * pair.keys[:2] @ (state / np.sqrt(state @ state)) for state in states]
        sums = [np.maximum(0.0, pair.alpha[:2] * height + pair.bias[:2] + pair.err[:2]).sum() for height in heights]
        assert max(sums) <= bound
        assert max(sums) > 0.6 * bound
        assert bound < 0.999 * pair.most[:2].sum()


@pytest.mark.parametrize(("share", "sure"), [(0.999, True), (1.001, False)])
def test_lemma_a3_a_key_that_moves_so_far_still_fires(share: float, sure: bool, folders: Callable[[str], Any]) -> None:
    """Neuron 1 has the key and the bias of neuron 0, but for as much as its input may fall on that cap, or more."""
    found = folders("float32")
    caps = caps_of(found)
    room = float(caps.level[0] - caps.err[0] - caps.floor) / PADDING
    across = np.random.default_rng(0).normal(size=D)
    across /= np.sqrt(across @ across)
    for part in (1.0, 0.25, 0.0):  # how much of it the key takes, and the bias the rest
        reads, bias = found.reads.copy(), found.bias.copy()
        reads[1] = reads[0] + share * part * room / math.sqrt(D) / (1.0 + caps.length) * across
        bias[1] = bias[0] - share * (1.0 - part) * room
        changed = replace(found, reads=reads, bias=bias)
        err = caps.err.copy()
        err[1] = err[0]
        assert fires_for_sure(changed, replace(caps, err=err), 1, 0) == sure


def test_neurons_that_hear_half_of_all_states_or_hardly_any_are_not_proved(folders: Callable[[str], Any]) -> None:
    found = folders("float32")
    caps = caps_of(found)
    half = -float(found.host.silence)  # silent only below 0, wanted above it
    with pytest.raises(UnhandledError, match="neuron 3 answers to half of all states"):
        caps_of(replace(found, bias=np.where(np.arange(len(found.bias)) == 3, half, found.bias)))
    rounding = float(caps.err[3] / (caps.alpha[3] + abs(found.bias[3])))
    longer = (caps.response - caps.floor) / (2.0 * rounding) / float(caps.alpha[3])  # err + floor is T
    reads, bias = found.reads.copy(), found.bias.copy()
    reads[3] *= longer
    bias[3] = -float(caps.alpha[3]) * longer + caps.response
    with pytest.raises(UnhandledError, match="rounding may silence neuron 3"):
        caps_of(replace(found, reads=reads, bias=bias))


@pytest.mark.parametrize(("share", "fits"), [(0.999, True), (1.001, False)])
def test_lemma_a5_logits_stay_finite(
    share: float, fits: bool, folders: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For whatever the last norm returns, and for what it returns at written rows."""
    found = folders("float32")
    head, (weight, bias) = Head(found), found.host.norm()
    rows, none = found.writes[:2], np.zeros(2)
    normed = math.sqrt(D) * head.direction(rows) * head.weight + head.bias
    length = np.sqrt((normed * normed).sum(axis=1)) + head.shift
    largest = (1.0 + 2.0**-4) * float(length.max()) * (1.0 + float(head.size.max()))
    head.fmt = replace(head.fmt, largest=largest / share)
    own = np.array([int((row @ head.head.numbers().T).argmax()) for row in normed])
    said = head.judge(rows, own, none, D)
    assert said.right[int(length.argmax())] == fits
    size = 2.0 * math.sqrt(D) * float(np.abs(weight).max()) + 2.0 * math.sqrt(float((bias * bias).sum()))
    factor = share * OVERFLOW / (size * (1.0 + float(head.size.max())))
    monkeypatch.setattr(type(found.host), "norm", lambda _: (factor * weight, factor * bias))
    if fits:
        Head(found)
    else:
        with pytest.raises(UnhandledError, match="logits may not be finite"):
            Head(found)


def distinct(found: Any) -> Any:
    """Neurons that all write different rows."""
    return replace(found, writes=np.random.default_rng(1).normal(size=found.writes.shape))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lemma_a5_a_written_row_that_may_wake_a_later_neuron_is_not_claimed(
    dtype: str, folders: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """⟨k, ŵ⟩ + (1 + v) σ + η + 2^-20 against s, of every neuron in a later block; from both sides."""
    monkeypatch.setattr(answers, "KEYS_AT_ONCE", 5)
    found = distinct(folders(dtype))
    caps, head, N = caps_of(found), Head(found), len(found.bias)
    block, share = np.arange(N) // NEURONS, np.linspace(0.01, 0.4, N)
    widest = (1.0 + V[dtype]) * share + caps.length + 2.0**-20
    products = head.direction(found.writes) @ caps.keys.T
    assert sorted(set(block.tolist())) == [0, 1]
    for one, later in ((0, N - 1), (3, NEURONS), (NEURONS - 1, NEURONS + 1)):
        for by, woken in ((1e-9, False), (-1e-9, True)):
            silent = np.full(N, 2.0)
            silent[later] = products[one, later] + widest[one] + by
            bad = _answered_to(found, replace(caps, silent=silent), head, block, share)
            assert bad[one] == woken
            assert not bad[NEURONS:].any(), "no block follows"
    # What counts is the first block that writes the row, and neurons of blocks behind that one.
    low = np.full(N, -2.0)
    assert _answered_to(found, replace(caps, silent=low), head, block, share).tolist() == (block == 0).tolist()
    assert _answered_to(found, replace(caps, silent=low), head, np.zeros(N, np.int64), share).all()
    assert not _answered_to(found, replace(caps, silent=low), head, np.ones(N, np.int64), share).any()
    # Neurons that write one row have the widest of their shares in common.
    twins = replace(found, writes=np.concatenate([found.writes[:1], found.writes[:1], found.writes[2:]]))
    silent = np.full(N, 2.0)
    silent[N - 1] = products[0, N - 1] + widest[1] - 1e-9
    assert share[0] < share[1]
    assert _answered_to(twins, replace(caps, silent=silent), head, block, share)[:2].all()


def test_an_answer_is_claimed_only_of_a_row_that_is_firm_unspoilt_and_wakes_nobody(
    folders: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every combination of the three, of right tokens and of wrong ones."""
    found = folders("float32")
    caps, asked = caps_of(found), np.arange(8)
    near, head = near_pairs(found, caps), Head(found)
    firm, share = judge_written(found, caps, near, head)
    assert firm.all()
    yes = np.array([False, True])
    weak, spoilt, hidden = (np.zeros(len(firm), dtype=bool) for _ in range(3))
    weak[:8], spoilt[:8], hidden[:8] = (part.reshape(-1) for part in np.meshgrid(yes, yes, yes))
    tokens = judge_answers(found, caps, near, asked, np.zeros(8, np.int64)).got
    monkeypatch.setattr(answers, "judge_written", lambda *_: answers.Written(~weak, share))
    monkeypatch.setattr(answers, "_answered_to", lambda *_: hidden)
    sound = ~(weak | spoilt | hidden)[:8]
    for given, right in ((tokens, True), ((tokens + 1) % len(head.size), False)):
        said = judge_answers(found, caps, replace(near, spoilt=spoilt), asked, given)
        assert said.right.tolist() == (sound & right).tolist()
        assert said.wrong.tolist() == (sound & (not right)).tolist()


def test_a_neighbour_is_harmless_in_the_same_block_a_later_one_or_where_it_surely_fires(
    folders: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = distinct(folders("float32"))
    same = replace(found, writes=np.repeat(found.writes[:1], len(found.bias), axis=0))
    pairs = [(0, 3), (3, 0), (0, NEURONS), (NEURONS - 1, NEURONS), (NEURONS, 0), (NEURONS + 1, NEURONS)]
    for fires in (False, True):
        monkeypatch.setattr(caps_module, "fires_for_sure", lambda *_, fires=fires: fires)
        for i, j in pairs:
            assert caps_module._harmless(same, None, i, j) == (fires or i // NEURONS >= j // NEURONS)  # type: ignore[arg-type]
            assert not caps_module._harmless(found, None, i, j)  # type: ignore[arg-type]


@pytest.mark.parametrize("turned", [1.0, -1.0])
@pytest.mark.parametrize("padded", [0.0, -1e-9, 1e-9])
def test_lemma_a5_an_answer_is_right_beyond_its_doubt_and_where_logits_are_finite(
    turned: float, padded: float, folders: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the last norm returns may be σ√D off, times its largest weight, which may be negative."""
    found = folders("float32")
    weight, bias = found.host.norm()
    weight = turned * weight * np.linspace(0.5, 1.0, D)
    monkeypatch.setattr(type(found.host), "norm", lambda _: (weight, bias))
    head, rows, share = Head(found), found.writes[:1], np.array([0.3])
    assert head.gain == max(map(abs, weight.tolist()))
    normed = math.sqrt(D) * head.direction(rows) * weight + bias
    length = math.sqrt(math.fsum((normed * normed).ravel().tolist())) + 0.3 * math.sqrt(D) * head.gain + head.shift
    largest = (1.0 + 2.0**-4) * length * (1.0 + float(head.size.max()))
    logits = (normed @ head.head.numbers().T)[0]
    best, last = int(logits.argmax()), int(logits.argmin())
    gaps = np.where(np.arange(len(logits)) == best, 1.0, logits[best] - logits)
    monkeypatch.setattr(
        head, "_doubt", lambda *_: gaps[None] / PADDING * (1.0 + padded) if padded else 0.0 * gaps[None]
    )
    for room, fits in ((1.0001, True), (0.9999, False)):
        head.fmt = replace(head.fmt, largest=room * largest)
        assert head.judge(rows, np.array([best]), share, D).right[0] == (fits and padded <= 0.0)
        said = head.judge(rows, np.array([last]), share, D)
        assert not said.right[0]
        assert said.wrong[0] or not fits or padded > 0.0
        assert fits or not said.wrong[0]


def test_only_norms_that_take_off_the_mean_do_not_see_it(tmp_path: Path) -> None:
    rows = np.arange(2.0 * D).reshape(2, D)
    for kind, seen in (("llama", rows), ("gpt2", rows - rows.mean(axis=1, keepdims=True))):
        folder = ml.attach(write_host(tmp_path / kind, kind), FACTS).save(tmp_path / f"{kind} attached")
        assert np.array_equal(Head(read_attached(folder)).seen(rows), seen)


def turned_to(found: Any, i: int, j: int, angle: float) -> Any:
    """The key of neuron `i` at this angle from that of neuron `j`."""
    reads, across = found.reads.copy(), np.random.default_rng(2).normal(size=D)
    key = reads[j] / np.sqrt(reads[j] @ reads[j])
    across -= across.mean() + (across @ key) * key
    across -= (across @ key) * key
    across /= np.sqrt(across @ across)
    reads[i] = np.sqrt(reads[i] @ reads[i]) * (math.cos(angle) * key + math.sin(angle) * across)
    return replace(found, reads=reads)


@pytest.mark.parametrize(("share", "near"), [(1.0 - 2.0**-19, True), (1.0 + 2.0**-18, False)])
def test_lemma_a3_the_widest_cap_and_the_neuron_that_hears_most_meet_at_the_sum_of_their_angles(
    share: float, near: bool, folders: Callable[[str], Any]
) -> None:
    """Nearer than in any other pair: what is sorted out in front by products of float32 must not lose this one."""
    found = folders("float32")
    # Other biases, so that no other neuron has so wide a cap or hears so much.
    step = 0.3 * float(caps_of(found).response)
    two = np.isin(np.arange(len(found.bias)), (0, 3))  # both for a first token: others have smaller radii
    found = replace(found, bias=found.bias + np.where(two, step, 0.0))
    found = replace(found, writes=2.0**-6 * found.writes)
    caps = caps_of(found)
    psi, around = (np.arccos(part / caps.longest) for part in (caps.wanted, caps.silent))
    j, i = int(psi.argmax()), 3 - int(psi.argmax())
    assert {i, j} == {0, 3}
    assert psi[j] > 1.1 * psi[~two].max()
    assert around[i] > 1.01 * around[~two].max()
    moved = turned_to(found, i, j, share * float(psi[j] + around[i]))
    pairs = near_pairs(moved, caps_of(moved)).others
    assert (i in pairs.get(j, [])) == near


@pytest.mark.parametrize(("share", "together"), [(1.0 - 2.0**-19, True), (1.0 + 2.0**-18, False)])
def test_lemma_a2_two_neurons_are_awake_together_up_to_the_sum_of_their_angles(
    share: float, together: bool, folders: Callable[[str], Any]
) -> None:
    """Each of them alone writes 0.99 of what is finite in front of the last block, and the other one a little."""
    found = folders("float16")
    caps = caps_of(found)
    awake = np.arccos(caps.silent / caps.anywhere)
    moved = turned_to(found, 1, 0, share * float(awake[0] + awake[1]))
    for side in (1.0, -1.0):
        writes = np.zeros_like(found.writes)
        writes[:2, 5] = side * 0.99 * (LARGEST["float16"] - caps.fmt.coordinate) / caps.most[:2]
        changed = replace(moved, writes=writes)
        if together:
            with pytest.raises(UnhandledError, match="in front of the last block"):
                near_pairs(changed, caps_of(changed))
        else:
            near_pairs(changed, caps_of(changed))
