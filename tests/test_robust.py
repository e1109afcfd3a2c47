"""Robust models: codes, half-spaces, gates; and that what is proved of noise and formats holds."""

from __future__ import annotations

import copy
import json
from concurrent.futures import CancelledError
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

import monolayer as ml
from monolayer.checker.labelled import labelled
from monolayer.checker.noise import Shares, errors
from monolayer.checker.robust import question_of
from monolayer.checker.short import round_to
from monolayer.checker.stored import read_model
from monolayer.construct.robust import cover as covering
from monolayer.construct.robust import halfspaces, hull
from monolayer.construct.robust.codes import balanced_words, largest_cosine, words
from monolayer.construct.robust.cover import Cells, cover
from monolayer.construct.robust.halfspaces import widest
from monolayer.construct.robust.hull import widest_slabs
from monolayer.model import places as robust_places
from monolayer.model.gates import live_classes
from monolayer.model.places import Places, mixtures, unit
from tests.datasets import Dataset, datasets


def random_facts(count: int = 60, length: int = 5, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.integers(0, 20, (count, length)), random.integers(0, 4, (count, length))


@pytest.fixture(scope="module")
def built() -> tuple[ml.Monolayer, Any, Any]:
    X, Y = random_facts()
    return ml.memorize(X, Y, positions=True, robust=True, rank=32), X, Y


# -- lemmas of the construction ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 31, 32, 127, 2047])
def test_words_are_different_and_far_apart(count: int) -> None:
    found = words(count)
    assert set(np.unique(found)) <= {-1.0, 1.0}
    assert len(np.unique(found, axis=0)) == count
    assert largest_cosine(found, np.arange(count)).max(initial=-1.0) <= 0.25
    with pytest.raises(ml.DataError, match="more than the codes"):
        words(2**40)


@settings(max_examples=25, deadline=None)
@given(
    st.one_of(st.integers(1, 40), st.integers(500, 1100), st.just(16_000)),
    st.sampled_from([0.25, 0.5]),
    st.integers(0, 2**31),
    st.sampled_from([0, 2, 64, 512]),
    st.booleans(),
)
def test_balanced_words_have_mean_0_and_are_far_apart(
    count: int, cosine: float, start: int, least_length: int, no_opposites: bool
) -> None:
    """Wherever the search begins; the last ones too, where a code is nearly used up."""
    found = balanced_words(count, cosine, start=start, least_length=least_length, no_opposites=no_opposites)
    assert set(np.unique(found)) <= {-1.0, 1.0}
    assert (found.sum(axis=1) == 0.0).all()
    assert found.shape[1] >= max(16, least_length)
    assert found.shape[1].bit_count() == 1
    rows = np.unique(np.linspace(0, count - 1, 300).astype(int))
    assert largest_cosine(found, rows).max(initial=-1.0) <= cosine
    if no_opposites:
        assert largest_cosine(np.concatenate([-found, found]), count + rows).max(initial=-1.0) <= 1.0 - 1e-9
    again = balanced_words.__wrapped__(count, cosine, start=start, least_length=least_length, no_opposites=no_opposites)
    assert np.array_equal(found, again)


def test_balanced_words_are_as_short_as_can_be() -> None:
    """Counts of balanced words in the codes: as many, and one more, which needs a longer code."""
    rows = [(30, 0.25, False, 16), (31, 0.25, False, 32), (1054, 0.25, False, 32), (1055, 0.25, False, 64)]
    rows += [(527, 0.25, True, 32), (528, 0.25, True, 64), (870, 0.5, False, 16), (36518, 0.5, False, 32)]
    for count, cosine, no_opposites, length in rows:
        assert balanced_words(count, cosine, no_opposites=no_opposites).shape == (count, length)
    with pytest.raises(ml.DataError, match="more than the codes"):
        balanced_words(2**40, 0.5)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_the_widest_slab_is_found_and_no_dual_bound_is_below_it(seed: int) -> None:
    """In the plane the widest slab is known: the gap of the projections, over a fine grid of directions."""
    random = np.random.default_rng(seed)
    Z = torch.from_numpy(random.normal(size=(1, 24, 2))).float()
    T = torch.where(Z[:, None, :, 0] + 0.3 * Z[:, None, :, 1] > 0.5, 1.0, -1.0)
    T[:, 0, :2], Z[0, 0], Z[0, 1] = torch.tensor([1.0, -1.0]), torch.tensor([3.0, 1.0]), torch.tensor([-3.0, -1.0])
    angle = torch.linspace(0, 2 * torch.pi, 4_000)
    heights = Z[0] @ torch.stack([angle.cos(), angle.sin()])
    gap = heights[T[0, 0] > 0].amin(0) - heights[T[0, 0] < 0].amax(0)
    best = float(gap.max()) / 2
    assume(best > 0.1)  # the search stops early where even the widest slab is narrow
    found = widest(Z, T, enough=0.95 * best)
    assert float(found.half_width) <= best + 1e-3
    assert float(found.half_width) >= 0.5 * best - 1e-4  # no more is promised: the search is a heuristic
    assert float(widest(Z, T, enough=0.5 * best).half_width) >= 0.5 * best - 1e-4  # never given up as hopeless


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 8))
def test_what_covers_a_cell_depends_on_its_own_facts_alone(seed: int, count: int) -> None:
    """Bit for bit, whatever other cells are worked on beside it: edits rely on it."""
    random = np.random.default_rng(seed)
    size = random.integers(2, 40, count)
    start = np.concatenate([[0], np.cumsum(size)])
    label = random.integers(0, 3, start[-1])
    for begin in start[:-1]:
        label[begin : begin + 2] = 0, 1
    feature = torch.from_numpy(random.choice([-1.0, 1.0], (start[-1], 14))).float() + 0.2
    every = Cells(feature, label, start, np.zeros(count, np.int64))
    found = cover(every, 0.3)
    for cell in range(count):
        own = slice(int(start[cell]), int(start[cell + 1]))
        part = Cells(feature[own].clone(), label[own], np.array([0, size[cell]]), np.zeros(1, np.int64))
        alone, mine = cover(part, 0.3), found.cell == cell
        assert torch.equal(alone.normal, found.normal[torch.from_numpy(mine)])
        assert np.array_equal(alone.centre, found.centre[mine])
        assert np.array_equal(alone.half_width, found.half_width[mine])


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize(("causal", "per"), [(False, "token"), (False, "sequence"), (True, "token")])
def test_what_attention_returns_is_the_mean_of_what_a_place_sees(
    causal: bool, per: Any, placed: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weighted by the softmax of its logits, of which there are none where all places are alike."""
    monkeypatch.setattr(robust_places, "_WEIGHTS_AT_ONCE", at_once)
    draw = torch.Generator().manual_seed(0)
    lengths = [3, 1, 5, 3]
    values, begin = (torch.randn(*size, 4, generator=draw) for size in ((sum(lengths),), ()))
    query, key = (torch.randn(6, 2, generator=draw) for _ in range(2))
    places = Places(query, key, causal, per) if placed else Places(None, None, causal, per)
    found = {}
    for where, mixed in mixtures(places, values, begin, torch.tensor(lengths)):
        found |= dict(zip(where.tolist(), mixed, strict=True))
    wanted, first = {}, 0
    for number, length in enumerate(lengths):
        every = torch.cat([begin[None], values[first : first + length]])
        for place in range(1, length + 1) if per == "token" else [0]:
            seen = place + 1 if causal else length + 1
            logits = key[:seen] @ query[place] if placed else torch.zeros(seen)
            wanted[first + place - 1 if per == "token" else number] = logits.softmax(0) @ every[:seen]
        first += length
    assert set(found) == set(wanted)
    for answering, mixed in wanted.items():
        torch.testing.assert_close(found[answering], mixed)


def test_a_vector_of_the_stream_is_scaled_by_its_mean_square() -> None:
    """Up to 2⁻²⁰, which is added to it: in rational numbers, up to the rounding of float32."""
    for numbers in ((3.0, -4.0), (2.0**-11, 0.0), (0.0, 0.0)):
        square = sum(Fraction(number) ** 2 for number in numbers) / 2 + Fraction(1, 2**20)
        scaled = unit(torch.tensor(numbers))
        for number, one in zip(numbers, scaled.tolist(), strict=True):
            assert abs(Fraction(one) ** 2 * square - Fraction(number) ** 2) <= Fraction(number) ** 2 / 10**5


def test_what_covers_a_large_cell_depends_on_its_own_facts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups, few or many, have rows of their own or share them, beside those of more or fewer cells."""
    random = np.random.default_rng(1)
    start = np.arange(0, 1_501, 300)
    feature = torch.from_numpy(random.normal(size=(1_500, 30))).float()
    label = (random.random(1_500) < 0.2).astype(np.int64)
    cells, own = Cells(feature, label, start, np.zeros(5, np.int64)), slice(600, 900)
    found = cover(cells, 0.3)
    monkeypatch.setattr(covering, "NUMBERS_PER_BATCH", 1)
    monkeypatch.setattr(halfspaces, "PROBLEMS_AT_ONCE", 1)
    one = Cells(feature[own].clone(), label[own], np.array([0, 300]), np.zeros(1, np.int64))
    alone, mine = cover(one, 0.3), found.cell == 2
    assert torch.equal(alone.normal, found.normal[torch.from_numpy(mine)])
    assert np.array_equal(alone.centre, found.centre[mine])


@pytest.mark.parametrize("command", ["memorize data.jsonl --robust", "memorize-as bert data.jsonl"])
def test_an_interrupt_ends_the_batches_that_run_and_begins_no_other(
    command: str, tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = random_facts()
    rows = [json.dumps({"tokens": x, "labels": y}) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    (tmp_path / "data.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    solve, cut, batches, ended = covering._solve, covering._alike_batches, list[Any](), list[Any]()

    def listed(*given: Any) -> Any:
        batches.extend(cut(*given))
        return batches

    def solved(cells: Any, enough: float, stopped: Any, part: Any) -> Any:
        if part is not batches[0]:
            assert stopped.wait(60), "this batch would have run to its end"
        found = solve(cells, enough, stopped, part)
        ended.append(part)
        return found

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(covering, "NUMBERS_PER_BATCH", 1)
    monkeypatch.setattr(covering, "_alike_batches", listed)
    monkeypatch.setattr(covering, "_solve", solved)
    monkeypatch.setattr(covering, "_settle", interrupted)  # while the result of the first batch is looked at
    shown = said(*command.split(), "--positions", "--out", "new", code=130, errors=True)
    assert "60 rows with 300 tokens" in shown
    assert shown.endswith("error: interrupted; nothing is half-written")
    assert (len(batches) > 10, len(ended)) == (True, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_a_batch_looks_between_its_iterations_whether_it_is_wanted() -> None:
    looks = iter([None, CancelledError()])

    def check() -> None:
        if (error := next(looks)) is not None:
            raise error

    Z = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 24, 2))).float()
    T = torch.where(Z[:, None, :, 0] > 0.0, 1.0, -1.0)  # they can be told apart, by less than is asked for
    with pytest.raises(CancelledError):
        widest(Z, T, 1.01 * float(widest(Z, T, 9.0).half_width), check)


def test_the_search_for_a_slab_sees_few_of_a_crowd_and_misses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fact costs must not grow with its cell: few others are in a problem, and all are measured."""
    sizes: list[int] = []
    solve_one = hull._shortest
    monkeypatch.setattr(hull, "_shortest", lambda away: sizes.append(len(away)) or solve_one(away))
    random = np.random.default_rng(3)
    points = random.normal(size=(3_000, 12))
    points *= 12**0.5 / np.linalg.norm(points, axis=1, keepdims=True)
    asked = list(range(0, 3_000, 200))
    for fact, (normal, half_width) in zip(asked, widest_slabs(points, np.arange(3_000), asked, 2.0), strict=True):
        away = np.delete(points[fact] - points, fact, axis=0)
        assert (away @ normal).min() == pytest.approx(2.0 * half_width)
        assert half_width >= 0.999 * _exact(away)
    assert max(sizes) <= hull.NEAREST


def _exact(away: Any) -> float:
    """Half the length of the shortest vector in the hull, from one problem with all differences."""
    weight, _ = nnls(np.vstack([away.T, np.ones(len(away))]), np.append(np.zeros(away.shape[1]), 1.0))
    return float(np.linalg.norm(weight @ away / weight.sum())) / 2.0


def test_what_is_found_does_not_depend_on_the_number_of_threads() -> None:
    X, Y = random_facts(50)
    models, threads = [], torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            models.append(ml.memorize(X, Y, robust=True, rank=16, positions=True))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert ml.compare(*models).same


def test_a_neuron_is_silent_at_other_tokens_whatever_the_context(built: Any) -> None:
    model, _, _ = built
    gates, layout = model.feed_forward, model.feed_forward.layout
    token = model.lift.weight[:, : layout.token]
    place = model.positions.weight[:, layout.token : layout.token + layout.place]
    random = torch.Generator().manual_seed(0)
    context = torch.randn(500, layout.rank, generator=random)
    weights = gates.weight_1[:, layout.context]
    context = torch.cat([context / context.norm(dim=1, keepdim=True), weights / weights.norm(dim=1, keepdim=True)])
    for row in range(len(token)):
        read = torch.cat([token[row].expand(len(context), -1), place[[0]].expand(len(context), -1)], dim=1)
        z = torch.cat([read, context * layout.rank**0.5], dim=1)
        on = torch.relu(z @ gates.weight_1.T + gates.bias_1).amax(0) > 0
        own = (gates.weight_1[:, : layout.token] * token[row]).sum(1)
        # At its own token the gate is at its largest.
        assert all(own[j] >= (gates.weight_1[j, : layout.token] * token).sum(1).max() - 1e-3 for j in torch.nonzero(on))


@settings(max_examples=12, deadline=None)
@given(datasets())
def test_every_kind_of_data_comes_back_dense_and_fast(data: Dataset) -> None:
    if any(isinstance(label, list) for label in data.flat()) or isinstance(data.X[0][0], list):
        return  # reals and vectors are refused
    try:
        model = ml.memorize(data.X, data.Y, positions=data.positions, causal=data.causal, robust=True, rank=32)
    except ml.PrecisionError:  # contexts of long runs of few tokens may be too close: said, not answered wrongly
        return
    encoded = model.encode(data.X)
    dense = model.labels(encoded, path="dense")
    assert np.array_equal(dense, model.labels(encoded, path="fast"))
    assert model.card.decode(dense).tolist() == data.flat()
    assert ml.certify(model, data.X, data.Y).verdict == "proved"


def test_the_shortcut_stays_right_when_weights_are_changed(built: Any) -> None:
    _, X, Y = built
    other = ml.memorize(X, Y, positions=True, robust=True, rank=32)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(1.0 + 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    data = other.encode(X)
    assert np.array_equal(other.labels(data, path="fast"), other.labels(data, path="dense"))
    with torch.no_grad():
        other.lift.weight[:, other.feed_forward.layout.key] = 1.0  # now logits depend on tokens
    assert live_classes(other, other.feed_forward, data) is None
    with pytest.raises(ml.DataError, match="fast path"):
        other.labels(data, path="fast")


# -- options and refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "Y", "options", "words"),
    [
        ([[1, 2]], [[0, 1]], {"robust": 0.5}, "robust must be True or False, not 0.5"),
        ([[1, 2]], [[0, 1]], {"rank": 1}, "rank of a robust model must be a whole number from 2"),
        ([[1, 2]], [[0, 1]], {"rank": "auto"}, "not 'auto'"),
        ([[1, 2]], [[0, 1]], {"dtype": "int8"}, "integers need a scale per row"),
        ([[1, 2]], [[0, 1]], {"seed": -1}, "seed"),
        ([[1, 2]], [[0, 1]], {"temperature": 1.0}, "belongs to the line"),
        ([[[0.5], [1.5]]], [[0, 1]], {}, "takes ids or strings as tokens, and these are vectors"),
        ([[1, 2]], [[0.5, 1.5]], {}, "real numbers, which noise would blur"),
    ],
)
def test_what_makes_no_sense_is_named(X: Any, Y: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ml.DataError, match=words):
        ml.memorize(X, Y, **{"robust": True, **options})


def test_facts_that_no_half_space_tells_apart_are_named() -> None:
    """After many equal tokens one more hardly changes the mean."""
    X = [["a"] * 400]
    with pytest.raises(ml.PrecisionError, match=r"token \d+ of sequence 0 and token \d+ of sequence 0 .* at length 8;"):
        ml.memorize(X, [[i % 2 for i in range(400)]], robust=True, causal=True)


def test_claims_that_make_no_sense_are_named(built: Any) -> None:
    model, X, Y = built
    line = ml.memorize(X, Y, positions=True)
    for network, claim, said in (
        (model, {"noise": -1.0}, "noise must be"),
        (model, {"dtype": "int3"}, "dtype must be one of"),
        (line, {"noise": 0.01}, "claims about robust models"),
    ):
        with pytest.raises(ml.DataError, match=said):
            ml.certify(network, X, Y, **claim)


# -- the certificate -----------------------------------------------------------------------------------------


def perturbed(model: ml.Monolayer, noise: float, seed: int, signs: bool) -> ml.Monolayer:
    """A model whose weights moved by at most `noise` of themselves, at random or all the way."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in other.parameters():
            step = 2.0 * torch.rand(weight.shape, generator=generator) - 1.0
            weight.mul_(1.0 + noise * (step.sign() if signs else step))
    return other


def test_what_is_proved_of_noise_holds_for_perturbed_models(built: Any) -> None:
    model, X, Y = built
    proof = ml.certify(model, X, Y, noise=0.0025)
    assert proof.verdict == "proved"
    assert proof.noise >= 0.0025
    assert "by at most 0.0025 of itself" in proof.claim
    for seed in range(6):
        assert (perturbed(model, proof.noise, seed, signs=seed % 2 == 0).predict(X) == Y).all()
    beyond = ml.certify(model, X, Y, noise=0.1)
    assert beyond.verdict == "undecided"
    assert ml.certify(model, X, Y, noise=float(beyond.reason.split()[-1])).verdict == "proved"


def test_the_error_bound_holds_for_every_neuron_and_every_evaluation(built: Any, tmp_path: Path) -> None:
    """Lemmas R1 to R3, against float32 evaluations of perturbed weights: the largest error is a fair share of it."""
    model, X, Y = built
    stored = read_model(model.save(tmp_path / "m"))
    question = question_of(stored, labelled(stored, ml.Sequences.of(X, Y)))
    found, worst = question.found, 0.0
    assert len(found.point) > 500
    for seed, noise in enumerate((0.0, 1e-4, 1e-3, 1e-2, 1e-2)):
        bound = errors(found, question.gated, Shares.of(noise, question.gated, X.shape[1], stored.format))
        other = perturbed(model, noise, seed, signs=seed % 2 == 0)
        with torch.no_grad():
            Z, seen = other.stream(torch.from_numpy(X))
            gates = other.feed_forward
            value = gates.read(other.attention(Z, seen)[:, 1:]).reshape(-1, gates.layout.reads) @ gates.weight_1.T
        value = (value + gates.bias_1).detach().numpy()[found.point, found.neuron]
        share = np.abs(value - found.value) / bound
        assert share.max() <= 1.0
        worst = max(worst, float(share.max()))
    assert worst > 0.1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
def test_short_formats_are_proved_and_answer(built: Any, dtype: str) -> None:
    model, X, Y = built
    proof = ml.certify(model, X, Y, dtype=dtype)
    assert proof.verdict == "proved"
    assert any(dtype in assumption for assumption in proof.assumptions)
    assert f"with weights in {dtype}" in proof.claim
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.copy_(torch.from_numpy(round_to(weight.numpy(), dtype)))
    assert (other.predict(X) == Y).all()


def test_rounding_to_short_formats_is_that_of_torch() -> None:
    rows = (np.random.default_rng(0).normal(size=(800, 8)) * 10.0 ** np.arange(-4, 4)).astype(np.float32)
    for dtype in ("bfloat16", "float16"):
        theirs = torch.from_numpy(rows).to(getattr(torch, dtype)).float().numpy()
        assert np.array_equal(round_to(rows, dtype), theirs)
    # Halfway between two short numbers the last bit decides; of what is not finite only the sign does.
    upper = np.random.default_rng(1).integers(0, 1 << 16, 4000, dtype=np.uint32) << 16
    ties = np.concatenate([upper | lower for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(np.float32)
    ties = ties[np.isfinite(ties)]
    assert np.array_equal(round_to(ties, "bfloat16"), torch.from_numpy(ties).to(torch.bfloat16).float().numpy())
    odd = np.array([np.nan, np.inf, -np.inf, 0.0], dtype=np.float32)
    assert np.array_equal(round_to(odd, "bfloat16"), odd, equal_nan=True)
    for size in (1.0, 1e-3, 0.0):
        small = (size * rows).astype(np.float32)
        scale = (np.abs(small).max(axis=1, keepdims=True) / 127).astype(np.float32)
        whole = np.rint(np.divide(small, scale, out=np.zeros_like(small), where=scale > 0)).astype(np.float32)
        assert np.array_equal(round_to(small, "int8"), whole * scale)
    step = np.abs(rows).max(axis=1, keepdims=True) / 127
    short = round_to(rows, "int8")
    assert np.abs(short / step - np.rint(short / step)).max() < 1e-4
    assert (np.abs(short - rows) <= 0.5001 * step).all()


def test_swapped_labels_and_unknown_tokens_are_refuted(built: Any) -> None:
    model, X, Y = built
    wrong = Y.copy()
    wrong[3, 2] = (wrong[3, 2] + 1) % 4
    proof = ml.certify(model, X, wrong)
    assert (proof.verdict, proof.wrong) == ("refuted", 1)
    assert (proof.findings[0].sequence, proof.findings[0].position, proof.findings[0].got) == (3, 2, Y[3, 2])
    assert "would be proved" not in ml.certify(model, X, wrong, noise=0.01).reason
    for point in (0, 1, 2, 3):  # of every class
        at = tuple(int(number) for number in np.argwhere(point == Y)[0])
        wrong = Y.copy()
        wrong[at] = (point + 1) % 4
        assert ml.certify(model, X, wrong).findings[0].got == point
    unsure = ml.certify(model, X, Y, noise=0.2)
    assert unsure.verdict == "undecided"
    assert {finding.got for finding in unsure.findings} == {None}
    assert ml.certify(model, X, np.where(Y == 0, 9, Y)).verdict == "refuted"
    assert ml.certify(model, np.where(X[0, 0] == X, 99, X), Y).wrong >= 5
    assert ml.certify(model, np.tile(X, 2), np.tile(Y, 2)).verdict == "refuted"  # longer than there are places


@pytest.mark.usefixtures("bounds_alone")
def test_weights_that_the_proof_does_not_cover_leave_it_undecided(built: Any) -> None:
    model, X, Y = built
    layout = model.feed_forward.layout
    changes = {
        "a part of the stream": lambda m: m.lift.weight[:, layout.key].fill_(0.01),
        "read a part": lambda m: m.head.weight[:, 0].fill_(0.01),
        "too large": lambda m: m.feed_forward.weight_1[0].fill_(1e9),
        "mixed across": lambda m: m.attention.W_V[0, layout.context].fill_(0.01),
    }
    for said, change in changes.items():
        other = copy.deepcopy(model)
        with torch.no_grad():
            change(other)
        proof = ml.certify(other, X, Y)
        assert proof.verdict == "undecided"
        assert said in proof.reason


def test_a_short_vector_is_scaled_up_only_so_far() -> None:
    """1/√(z² + 2⁻²⁰) for the mean square z²: at most 1024 times, and 0 stays 0."""
    for size in (0.0, 2.0**-30, 2.0**-10, 1.0, 3.0):
        z = torch.full((2, 4), size, dtype=torch.float64)
        z[:, ::2] *= -1.0
        expected = np.sign(z.numpy()) * size / np.sqrt(size * size + 2.0**-20)
        assert unit(z).numpy() == pytest.approx(expected, rel=1e-14)
