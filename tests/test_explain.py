"""An explanation is the model's own numbers: same z, same labels, weights of the dense layer, edges that hold."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import monolayer as ml
from monolayer.cli import run
from monolayer.errors import DataError
from tests.datasets import Dataset, datasets
from tests.kinds import built

X = ["银行", "行走", "音乐", "快乐"]
Y = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"]]


def build(data: Dataset) -> ml.Monolayer:
    return ml.memorize(data.X, data.Y, positions=data.positions, causal=data.causal)


def shown(found: Any) -> str:
    text = StringIO()
    Console(width=200, file=text).print(found.table())
    return text.getvalue()


@settings(max_examples=4, deadline=None)
@given(datasets())
def test_the_numbers_are_those_of_the_model_and_of_its_dense_layer(data: Dataset) -> None:
    """The dense layer: sequence by sequence through the matrices themselves."""
    model = build(data)
    found = model.explain(data.X)
    assert found.label == model.card.decode(model.labels(model.encode(data.X))).tolist()
    assert np.array_equal(found.z, found.code + found.kappa * found.context)
    json.dumps(found.json(), allow_nan=False)
    assert shown(found).count("\n") > len(found.z)
    for row in data.X[:5]:
        found = model.explain([row])
        tokens = torch.from_numpy(model.encode([row]).tokens)
        with torch.no_grad():
            Z, seen = model.stream(tokens[None].to(model.bos.dtype) if tokens.ndim > 1 else tokens[None])
            scores = (Z @ model.attention.W_Q.T) @ (Z @ model.attention.W_K.T).transpose(1, 2)
            if model.card.causal:
                seen = seen & torch.ones(scores.shape[1:], dtype=torch.bool).tril()
            share = scores.masked_fill(~seen, -torch.inf).softmax(-1)[0].numpy()
        own = np.diag(share)[1:] if model.card.causal else share[-1, 1:]
        queries = share[:1] if model.card.per == "sequence" else share[1:]
        assert found.weight == pytest.approx(own, abs=1e-14)
        assert found.begin == pytest.approx(queries[:, 0], abs=1e-14)
        assert found.key == pytest.approx(Z[0, 1:, 1].numpy(), abs=1e-14)
        assert found.context == pytest.approx(queries @ Z[0, :, 1].numpy(), abs=1e-13)


@settings(max_examples=4, deadline=None)
@given(datasets(), st.floats(-0.999, 0.999))
def test_within_the_margin_the_label_stays_and_beyond_the_edges_it_goes(data: Dataset, part: float) -> None:
    model = build(data)
    found = model.explain(data.X)
    steps = model.feed_forward.stages[0].steps()
    assert steps is not None
    assert not found.on_ramp.any()
    assert (found.margin > 0).all()
    here = steps(torch.from_numpy(found.z))
    reach = np.where(np.isfinite(found.margin), found.margin, 1.0)
    assert torch.equal(steps(torch.from_numpy(found.z + part * reach)), here)
    assert torch.equal(here, steps.level[torch.from_numpy(found.step)])
    # The edges are where the label begins to change: on them it is still the same, beyond them it moves.
    for edge, outside in ((found.below, -1.0), (found.above, 1.0)):
        real = np.isfinite(edge)
        assert torch.equal(steps(torch.from_numpy(edge[real])), here[torch.from_numpy(real)])
        nearby = steps.slope[torch.from_numpy(found.step[real] - (outside < 0))].numpy()
        beyond = steps(torch.from_numpy(edge[real] + outside * 0.5 / nearby))
        assert not (beyond == here[torch.from_numpy(real)]).all(1).any()


@settings(max_examples=6, deadline=None)
@given(datasets())
def test_the_json_has_each_number_once_and_where_it_belongs(data: Dataset) -> None:
    """What is said of an answer stands with its token, or with its sequence; weights and `begin` add up to 1."""
    found = build(data).explain(data.X)
    rows, at_tokens = found.json(), found.card.labelling.at_tokens
    tokens = [token for row in rows for token in row["tokens"]]
    answers = tokens if at_tokens else rows
    assert [row["sequence"] for row in rows] == list(range(len(data.X)))
    assert [len(row["tokens"]) for row in rows] == [len(x) for x in data.X]
    for name in ("key", "weight"):
        assert [token[name] for token in tokens] == getattr(found, name).tolist()
    for name in ("begin", "code", "context", "z", "label"):
        assert [answer[name] for answer in answers] == list(getattr(found, name))
        assert not any(name in row for row in (rows if at_tokens else tokens))
    finite = [
        [None if np.isinf(edge) else edge for edge in edges] for edges in zip(found.below, found.above, strict=True)
    ]
    assert [answer["edges"] for answer in answers] == finite
    if not found.card.causal:
        begin = iter(found.begin.tolist())
        for row in rows:
            shares = sum(token["weight"] for token in row["tokens"])
            for _ in row["tokens"] if at_tokens else [row]:
                assert shares + next(begin) == pytest.approx(1.0, abs=1e-12)


def test_neighbours_are_the_labels_beside_on_the_line() -> None:
    model = ml.memorize(X, Y)
    found = model.explain(X)
    order = np.argsort(found.z)
    labels = [found.label[at] for at in order]
    assert [found.left[at] for at in order] == [None, *labels[:-1]]
    assert [found.right[at] for at in order] == [*labels[1:], None]
    assert found.step[order].tolist() == list(range(8))
    assert found.json()[0]["tokens"][1]["token"] == "行"


def test_a_place_on_a_ramp_is_named() -> None:
    """A staircase moved so that a point lies on a ramp: the explanation says so, and its margin is 0."""
    model = ml.memorize(X, Y)
    before = model.explain(X)
    order = np.argsort(before.z)
    steps = model.feed_forward.stages[0].steps()
    shift = float(before.z[order[1]] - (steps.start[1] + steps.end[1]) / 2)
    with torch.no_grad():
        model.feed_forward.stages[0].bias_1[1] -= model.feed_forward.stages[0].weight_1[1] * shift
    found = model.explain(X)
    assert np.flatnonzero(found.on_ramp).tolist() == [order[1]]
    assert found.margin[order[1]] == 0.0
    here = order[1]
    step = model.feed_forward.stages[0].steps()
    assert (found.below[here], found.above[here]) == pytest.approx((float(step.start[1]), float(step.end[1])), rel=1e-9)
    assert found.below[here] < found.z[here] < found.above[here]
    assert [found.left[order[1]], found.right[order[1]]] == [before.label[order[1]], before.label[order[2]]]


def test_what_has_no_explanation_says_why() -> None:
    model = ml.memorize(X, Y)
    handle = model.attention.register_forward_hook(lambda *_: None)
    with pytest.raises(DataError, match="hooked"):
        model.explain(X)
    handle.remove()
    model.explain(X)
    with torch.no_grad():
        model.attention.W_Q[0, 1] = 1.0
    cascade, data = built("cascade sequences")
    robust = ml.memorize(X, Y, robust=True)
    several = r"this model has rank \d: a staircase per stage"
    for other, asked, words in ((model, X, "changed"), (robust, X, "robust"), (cascade, data, several)):
        with pytest.raises(DataError, match=words):
            other.explain(asked)


def test_what_is_shown_can_be_told_apart_and_obeys_nothing() -> None:
    """A space is a sign, no neighbour is not the label "-", and names give no orders to a terminal or to a page."""
    model = ml.memorize([[" ", "\x1b[2J"], ["a\u202eb", "<b>"]], [["-", "—"], [" ", ""]])
    text = shown(model.explain([[" ", "\x1b[2J"], ["a\u202eb", "<b>"]]))
    assert "\x1b" not in text
    assert "\u202e" not in text
    for word in ("␣", "\\x1b[2J", "a\\u202eb", "⟨empty⟩", "⟨end⟩ │", "│ ⟨end⟩", "—"):
        assert word in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps({"tokens": list(x), "labels": y}, ensure_ascii=False) for x, y in zip(X, Y, strict=True)]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    model, data = str(tmp_path / "model"), str(tmp_path / "data.jsonl")
    assert run(["memorize", data, "--out", model]) == 0
    capsys.readouterr()
    assert run(["explain", model, data, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sequences"] == ml.load(model).explain(X).json()
    assert run(["explain", model, data, "--first", "2"]) == 0
    printed = capsys.readouterr()
    assert "beside" in printed.out
    assert "2 of 4 sequences" in printed.err


def test_a_long_name_is_shortened_in_the_table() -> None:
    """Otherwise every line of the table would be as long as the longest name."""
    found = ml.memorize({"x" * 10**5: "A", "y": "B"}).explain(["x" * 10**5])
    assert max(map(len, repr(found).splitlines())) < 200
    assert found.json()[0]["tokens"][0]["token"] == "x" * 10**5
