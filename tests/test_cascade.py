"""Value rank k: stages that tell apart what one line puts too close together, and lines in float32."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.checker import line, stages
from monolayer.checker import stored as checker_stored
from monolayer.checker.rounding import BINARY32, UnhandledError
from monolayer.checker.stages import _added
from monolayer.checker.stored import Stored
from monolayer.construct.line.cascade import KAPPA, Contested, cut_line, further
from monolayer.construct.line.points import SLACK, Points
from monolayer.construct.line.separate import crowds
from monolayer.model.load import load_model
from monolayer.model.shortcut import AskedTensors, _all_stages, labels_by, lines, plan, traced
from monolayer.page import page
from tests import kinds
from tests.evil import Evil, evaluate
from tests.stored_models import CODE, KEY, LABEL, Saved
from tests.verdicts import refused

pytestmark = pytest.mark.usefixtures("bounds_alone")

KINDS = ("tokens", "sequences", "next", "reals")


@cache
def built(kind: str) -> tuple[ml.Monolayer, Any, Any]:
    X, Y = kinds._data(f"cascade {kind}")
    return ml.memorize(X, Y, on_conflict="first", **kinds._options(f"cascade {kind}")), X, Y


def saved(model: ml.Monolayer, folder: Path) -> Saved:
    model.save(folder, overwrite=True)
    return Saved.read(folder)


# -- what it promises --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_crowded_line_gets_stages_and_every_label_is_proved(kind: str, tmp_path: Path) -> None:
    model, X, Y = built(kind)
    assert model.bos.dtype == torch.float32
    data = model.encode(X)
    answers = model.labels(data, path="fast")
    labelled = data.position < 60  # the last token of a causal row has no label, and may stand on a ramp
    labelled = labelled if model.card.per == "token" else slice(None)
    assert np.array_equal(answers[labelled], model.labels(data, path="dense")[labelled])
    assert ml.certify(model, X, Y).verdict == "proved"
    again = ml.load(model.save(tmp_path / "m"))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert np.array_equal(again.labels(data), answers)
    rank = model.summary.rank
    assert rank == model.feed_forward.rank == len(model.summary.contested) + 1 >= 2
    ranks = [int(torch.linalg.matrix_rank(matrix.double())) for matrix in model.attention.parameters()]
    assert ranks == [1, 1, rank, rank]


def test_the_margin_is_the_least_of_all_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    differ = np.zeros(2, dtype=bool)
    for kind in KINDS:
        model, X, Y = built(kind)
        every, found = noted(monkeypatch, stages, "_stage"), noted(monkeypatch, line, "evaluate")
        assert ml.certify(model, X, Y).margin == min(float(one.margin.min()) for one in every)
        assert len(every) == model.summary.rank
        least = np.minimum.reduce([one.margin for one in every])
        assert np.array_equal(found[0].margin, least)
        differ |= [not np.array_equal(one.margin, least) for one in (every[0], every[-1])]
    assert differ.all()  # neither the first stage nor the last alone would do


def noted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """What a function of a module returns from now on."""
    function, seen = getattr(module, name), list[Any]()

    def watched(*given: Any) -> Any:
        seen.append(function(*given))
        return seen[-1]

    monkeypatch.setattr(module, name, watched)
    return seen


def test_float64_has_stages_too(demanding: Callable[[float], None]) -> None:
    demanding(1e11)
    random = np.random.default_rng(12)
    X, Y = random.integers(0, 30, (300, 6)), random.integers(0, 5, (300, 6))
    model = ml.memorize(X, Y, positions=True)
    assert model.summary.rank >= 2
    assert np.array_equal(model.predict(X), Y)
    assert np.array_equal(model.predict(X, path="dense"), Y)
    assert ml.certify(model, X, Y).margin > 1e10
    wrong = Y.copy()
    wrong[7, 3] += 1
    assert ml.certify(model, X, wrong).verdict == "refuted"


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_few_places_need_all_stages_and_answers_are_as_if_all_did(kind: str) -> None:
    """Also at sequences that nobody memorized, whose points may lie on ramps, and at ids without a vector."""
    model, X, _ = built(kind)
    known, random = model.encode(X), np.random.default_rng(5)
    strange = random.permutation(known.tokens)
    strange[::97] = len(model.card.vocabulary) - 1
    way = plan(model)
    assert way is not None
    for tokens in (known.tokens, strange):
        asked = AskedTensors.of(model, replace(known, tokens=tokens))
        met = traced(model, asked, way)
        assert met is not None
        found, whole = labels_by(model, asked, way), _all_stages(model, asked, way, met)
        z = next(lines(model, asked, way, met))[0]
        assert torch.equal(found.nan_to_num(7.5), whole.where(~z.isnan()[:, None], 7.5).nan_to_num(7.5))
        settled = way.settled(z).isnan().any(dim=1)
        assert 0 < int(settled.sum()) < len(z)


# -- planted faults ----------------------------------------------------------------------------------------


def test_a_wrong_number_step_or_value_is_never_proved(tmp_path: Path) -> None:
    model, X, Y = built("tokens")
    part = "feed_forward.stages"
    stage_1, stage_2 = model.feed_forward.stairs[:2]
    numbered = int(torch.nonzero(stage_1.weight_2[1])[0])
    shift, bias_1, slope, jump = (
        part.tolist() for part in (stage_1.bias_2, stage_2.bias_1, stage_2.weight_1, stage_2.weight_2[0])
    )
    faults = [
        (f"{part}.0.weight_2", (1, numbered), 0.0),  # a stretch that is not numbered
        (f"{part}.0.bias_2", (1,), shift[1] + 1.0),  # all of them shifted
        (f"{part}.1.weight_2", (0, 5), jump[5] + 1.0),  # a label missed by one
        ("attention.W_O", (model.bos.numel() - 1, model.bos.numel() - 2), 0.3),  # another scale
    ]
    whole = saved(model, tmp_path / "m")
    steps = range(len(slope))
    faults += [(f"{part}.1.bias_1", (at,), bias_1[at] - 0.5 * slope[at]) for at in steps]  # steps moved
    wrong = 0
    for name, at, to in faults:
        folder = whole.edited(name, at, to).write(tmp_path / "fault")
        if (ml.load(folder).predict(X) != Y).any():  # a step may also move within its gap
            assert ml.certify(folder, X, Y).verdict != "proved"
            wrong += 1
    assert wrong > 3
    for letter in "VO":  # the entry of the second stage alone
        (_, place) = np.argwhere(whole.tensors[f"attention.W_{letter}"])[:2].tolist()
        for value in (1e-40, -1e-40):
            folder = whole.edited(f"attention.W_{letter}", tuple(place), value).write(tmp_path / "subnormal")
            assert "is subnormal" in ml.certify(folder, X, Y).reason
    column = whole.changed()
    column.tensors["lift.weight"][:, LABEL + 1] *= -1.0
    assert ml.certify(column.write(tmp_path / "values"), X, Y).verdict == "refuted"
    code = whole.edited("lift.weight", (0, LABEL + 2), 1.0)  # a later code that is not 0: no lemma covers it
    assert ml.certify(code.write(tmp_path / "codes"), X, Y).verdict == "undecided"


@pytest.mark.parametrize("shared", ["stream", "head"])
def test_two_values_that_share_a_coordinate_are_never_proved(shared: str, tmp_path: Path) -> None:
    """As many entries as stages: of the stream, two for the first stage and none for the second; of the head, their sum
    for both."""
    model, X, Y = built("tokens")
    case = saved(model, tmp_path / "m").changed()
    values, writes = case.tensors["attention.W_V"], case.tensors["attention.W_O"]
    second = LABEL + 1
    value, write = values[second, second], writes[second + 1, second]
    values[second, second] = writes[second + 1, second] = 0.0
    if shared == "stream":
        values[second, KEY], writes[CODE, second] = value, write
    else:
        values[KEY, second], writes[second + 1, KEY] = value, write
    folder = case.write(tmp_path / "changed")
    assert (ml.load(folder).predict(X) != Y).any()
    proof = ml.certify(folder, X, Y)
    assert proof.verdict == "undecided"
    assert "attention must read" in proof.reason


def test_labels_that_add_up_to_a_subnormal_number_may_be_flushed(
    demanding: Callable[[float], None], tmp_path: Path
) -> None:
    """Every stage writes normal numbers; only their sum is one that an evaluation may take for 0."""
    demanding(2e4)
    for seed in range(50):  # until so few draws do
        rng = np.random.default_rng(seed)
        X, Y = rng.integers(0, 6, (12, 4)), rng.integers(0, 5, (12, 4)) * 0.25
        with suppress(ml.PrecisionError, ml.ContradictionError):
            case = saved(ml.memorize(X, Y, positions=True, dtype="float32"), tmp_path / "m")
            if len(case.config["steps"]) > 1:
                break
    tiny = float(np.finfo(np.float32).tiny)
    for total, verdict in ((tiny / 2, "undecided"), (tiny, "proved")):
        labels = [tiny + total, -tiny, *[0.0] * len(case.config["steps"])]
        for stage in range(len(case.config["steps"])):
            case = case.edited(f"feed_forward.stages.{stage}.weight_2", 0, labels[stage])
        proof = ml.certify(case.write(tmp_path / verdict), X, np.full(X.shape, total))
        assert proof.verdict == verdict
        assert ("add up to a subnormal number" in proof.reason) == (verdict == "undecided")
        # Of the begin token, the first row, nothing is claimed: it may stand on a ramp.
        kind, flushing = (evaluate(case, X[0], Evil(rng, "random", "none", flush, 0))[1][1:] for flush in (False, True))
        assert (kind == np.float32(total)).all()
        assert (flushing == (0.0 if verdict == "undecided" else np.float32(total))).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_subnormal_sum_among_others_is_enough(sign: float) -> None:
    tiny = float(np.finfo(np.float32).tiny)
    stored = Stored({"bos": np.zeros(1, np.float32)}, {}, None, None, BINARY32)
    value, more = np.array([[1.0, sign * 1.5 * tiny]]), np.array([[0.1, -sign * tiny]])
    with pytest.raises(UnhandledError, match="subnormal"):
        _added(stored, value, more)
    whole = _added(stored, value[:, :1], more[:, :1])
    assert whole.tolist() == [[float(np.float32(1.0) + np.float32(0.1))]]


def test_loader_and_checker_take_the_same_folders(tmp_path: Path) -> None:
    model, _, _ = built("tokens")
    whole = saved(model, tmp_path / "m")
    steps = whole.config["steps"]
    assert load_model(tmp_path / "m").feed_forward.rank == len(steps)
    assert checker_stored.read_model(tmp_path / "m").stages == len(steps)
    no_steps: list[Any] = [None, [], [*steps[:-1], -1], "x", 3, True, {"steps": steps}, sum(steps), [steps, 0]]
    no_steps.append([float(steps[0]), *steps[1:]])
    changes: list[tuple[dict[str, Any], str]] = [({"steps": value}, "steps is ") for value in no_steps]
    changes += [
        ({"steps": steps[:1]}, "width is "), ({"steps": [*steps, 0]}, "width is "), ({"width": 9}, "width is "),
        ({"steps": [steps[0] + 1, *steps[1:]]}, "0.weight_1 "), ({"readout": "runs"}, "0.weight_2 "),
        ({"readout": "cascade"}, "readout is "), ({"version": 4}, "version (is )?4"), ({"labels": 2}, "one label slot"),
        ({"target": "reals"}, "classes (are named|is given)"), ({"cascade": {"steps": steps}}, r"\['cascade'\]"),
        ({"gates": {}}, r"\['gates'\]"), ({"kind": "approximator"}, "a grid"),
    ]  # fmt: skip
    for change, words in changes:
        refused(words, Saved(whole.config | change, whole.tensors, whole.names))
    for name in ("feed_forward.stages.0.bias_2", "feed_forward.stages.1.weight_2", "attention.W_V"):
        smaller = {**whole.tensors, name: whole.tensors[name][:-1]}
        refused(rf"{name} (is float32|has shape)", Saved(whole.config, smaller, whole.names))
        gone = {key: value for key, value in whole.tensors.items() if key != name}
        refused(rf"tensors \['{name}'\]", Saved(whole.config, gone, whole.names))


# -- the lemmas of the construction ------------------------------------------------------------------------

LINES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=30)
@given(LINES)
def test_crowds_are_the_stretches_without_room_for_a_step(given: list[tuple[int, int]]) -> None:
    given = sorted(given)
    z = np.array([place / 10 for place, _ in given])
    label = np.array([label for _, label in given])
    points = Points(z, np.arange(len(z)), 1.0, 0.1 / SLACK, 0.0)  # a step needs a gap of 1/10
    changes = np.flatnonzero(label[1:] != label[:-1])
    begin, end = crowds(points, changes)
    slow, start = [], 0
    for i in range(len(z)):
        if i + 1 == len(z) or z[i + 1] - z[i] >= SLACK * (0.1 / SLACK):
            if len(set(label[start : i + 1])) > 1:
                slow.append((start, i + 1))
            start = i + 1
    assert list(zip(begin.tolist(), end.tolist(), strict=True)) == slow
    part = cut_line(points, changes)
    plateau = np.searchsorted(part.steps + 1, np.arange(len(z)), side="right")
    assert (np.diff(part.number) >= 0).all()
    for i in range(len(z)):
        inside = [crowd for crowd in slow if crowd[0] <= i < crowd[1]]
        if not inside:  # the plateau has this label, and a stretch without any crowd
            assert label[part.first[plateau[i]]] == label[i]
            assert part.number[plateau[i]] not in part.stretch
        else:  # a plateau for the crowd alone, with a number for it alone
            assert part.first[plateau[i]] == inside[0][0]
            assert (part.number == part.number[plateau[i]]).sum() == 1


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([2.0**-24, 2.0**-12]))
def test_stages_add_what_is_missing_and_nothing_elsewhere(seed: int, whole: bool, unit: float) -> None:
    rng = np.random.default_rng(seed)
    crowd = np.sort(rng.choice(np.arange(-20, 20), 12, replace=False))
    stretch = np.repeat(crowd, rng.integers(2, 6, 12))
    missing = rng.integers(-3, 4, (1, len(stretch))).astype(float)
    means = {stage: rng.uniform(-1, 1, len(stretch)) for stage in range(2, 9)}
    contested = Contested(stretch, missing, ends=(-20, 19))
    stages, left = further(contested, lambda j, which: means[j][which], error=60 * unit, unit=unit, whole=whole, most=8)
    assert len(left) == 0
    number, total = stretch.astype(float), np.zeros(len(stretch))
    for j, stage in enumerate(stages, 2):
        z = number + KAPPA * means[j]
        error = KAPPA * 60 * unit + unit * np.abs(z)
        end = stage.start + 1.0 / stage.slope
        passed = np.searchsorted(end, z, side="right")
        # Two errors on either side of every point lie on its plateau: a certificate asks for no more.
        assert (np.append(-np.inf, end)[passed] <= z - 2 * error).all()
        assert (np.append(stage.start, np.inf)[passed] >= z + 2 * error).all()
        total += stage.level[0, passed]
        number = stage.level[-1, passed]
        for other in set(range(-20, 20)) - set(stretch.tolist()) if j == 2 else ():
            ends = np.searchsorted(end, [other - KAPPA, other + KAPPA], side="right")
            assert ends[0] == ends[1]
            assert stage.level[0, ends[0]] == 0
    assert np.array_equal(total, missing[0])


# -- what it refuses ---------------------------------------------------------------------------------------


def test_rank_1_says_which_rank_would_do() -> None:
    model, X, Y = built("tokens")
    rank = model.summary.rank
    with pytest.raises(ml.PrecisionError, match=rf"rank 1 in float32 can hold about [\d,]+ points.*rank={rank}"):
        ml.memorize(X, Y, positions=True, dtype="float32", rank=1)
    assert ml.memorize(X, Y, positions=True, dtype="float32", rank=rank).summary.rank == rank
    assert ml.memorize(X, Y, positions=True).summary.rank == 1


def test_what_works_on_one_staircase_says_so() -> None:
    with pytest.raises(ml.DataError, match="this model has rank 2: a staircase per stage"):
        page(built("tokens")[0])


def test_changed_weights_and_parts_fall_back_to_the_dense_network() -> None:
    own, X, _ = built("sequences")
    for part, place in (("attention.W_O", (-1, KEY)), ("feed_forward.stages.1.weight_1", 0)):
        model = copy.deepcopy(own)
        with torch.no_grad():
            model.get_parameter(part)[place] = -0.5
        with pytest.raises(ml.DataError, match="fast path"):
            model.predict(X[:5], path="fast")
