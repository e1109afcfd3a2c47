"""An experiment's words follow from its numbers: changing a stored record changes the words."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from monolayer_experiments import depth, editing, memorization, shortfall, tagging
from monolayer_experiments.chance import above, apart, decided
from monolayer_experiments.results import read

RESULTS = Path(__file__).parent.parent / "results"


def stored(name: str) -> dict[str, Any]:
    return copy.deepcopy(read(RESULTS / f"{name}.json").results)


def every(rows: list[dict[str, Any]], **values: Any) -> None:
    for row in rows:
        row.update(values)


def test_memorization() -> None:
    results = stored("memorization")
    assert memorization.answer(results).startswith("Yes")
    row = results["rows"][0] | {"parameters": 9, "corollary_1": 8}
    for changed, words in (
        ({}, "1 of 1 proved"),
        ({}, "9 numbers, more than the 8 of Corollary 1"),
        ({"verdict": "undecided"}, "0 of 1 proved"),
        ({"right": row["labels"] - 1}, "No: 1 "),
    ):
        assert words in memorization.answer({**results, "rows": [row | changed], "refused": None})
    assert "refused" in memorization.answer({**results, "refused": {"sequences": 2, "words": "too close"}})


def test_depth() -> None:
    results = stored("depth")
    every(results["trained"], accuracy=0.5)
    assert "no training run did" in depth.answer(results)
    last = results["trained"][-1]
    last.update(accuracy=1.0, steps=1200, alone=1.25)
    said = f"1 of 5 training runs did too, the quickest ({last['model']}) in 1,200 steps and 1.25 s"
    assert said in depth.answer(results)
    results["constructed"][0]["accuracy"] = 0.5
    assert depth.answer(results).startswith("No:")
    every(results["trained"], sequences=100, grid={"0.003": 0.0575, "0.01": 0.06}, rate=0.01)
    assert {row[-1] for row in depth.tables(results)[1].rows} == {"0.01, not decided"}  # both rates end at chance
    assert "was best in 0 of 30 runs; 30 left the rate open" in depth.limits(results)
    every(results["trained"], grid={"0.003": 0.0575, "0.01": 0.4})
    assert {row[-1] for row in depth.tables(results)[1].rows} == {"0.01"}
    assert "was best in 30 of 30 runs" in depth.limits(results)


def test_tagging() -> None:
    results = stored("tagging")

    def held_out(labels: int, *shares: float) -> str:
        for corpus in results["corpora"]:
            corpus["held_out_labels"] = labels
            for row, share in zip(corpus["rows"], shares, strict=True):
                row["held_out"] = share
        return tagging.answer(results)

    assert "no match" not in held_out(176, 0.517, 0.574, 0.614, 0.574)  # as chance alone could make it
    assert "no match for a rule, learnt or counted" in held_out(1000, 0.25, 0.5, 0.5, 0.5)
    assert "construction 25.00 %, best trained model 50.00 %" in tagging.answer(results)
    tagging.find_model(results["corpora"][1], "most frequent label")["held_out"] = 0.125
    assert "no match for a rule" not in tagging.answer(results)


def test_shortfall() -> None:
    results = stored("shortfall") | {"labels": 10**4, "seeds": 3}
    every(results["rows"], accuracy=0.5, any_readout=dict.fromkeys(shortfall.SHORT_FORMATS, 1.0))
    good = [row for row in results["rows"] if row["weights"] == "constructed, 16 numbers"]
    every(good, accuracy=1.0)
    assert "So within this budget the readout falls short" in shortfall.answer(results)
    good[0]["accuracy"] = 0.4  # one seed is enough to leave it open
    assert "So " not in shortfall.answer(results)
    every(results["rows"], any_readout=dict.fromkeys(shortfall.SHORT_FORMATS, 1.0) | {"bfloat16": 0.4})
    assert "it is the contexts" in shortfall.answer(results)


def test_editing() -> None:
    results = stored("editing") | {"accuracy": 0.9, "chance": 0.05}
    most = results["cases"][-1]
    every(most["tuned"], edited_right=0.25, kept_lost=0.5)
    words = editing.answer(results)
    assert "every edited and every kept label was right, with the bits of a model" in words
    assert "gets down to 25.00 % of the edits and loses 50.00 % of the other labels" in words
    assert "Against us: with 1 edit it has all of them, loses none, and takes 0.091 s." in words
    beside = editing.tables(results)[0]
    assert [row[0] for row in beside.rows] == ["1", "10", "100", "1,000", "10,000"]
    assert beside.rows[-1][4:6] == ["25.00 %", "50.00 %"]
    every(results["cases"], seconds=0.0)
    assert "Against us" not in editing.answer(results)
    most["kept_lost"] = 1
    assert "not every label was right" in editing.answer(results)
    assert "learnt nothing" in editing.answer({**results, "accuracy": 0.05})


def test_what_a_sample_can_show() -> None:
    """Two draws from one urn are rarely told apart: three standard errors are about three in a thousand pairs."""
    for share, labels in ((0.05, 100), (0.5, 1000), (0.95, 10**6)):
        ones, others = np.random.default_rng(labels).binomial(labels, share, (2, 300)) / labels
        assert sum(apart(one, other, labels) for one, other in zip(ones, others, strict=True)) <= 9
        assert above(share + 0.04, share, 10**6)
        assert not above(share, share, labels)
    for trials, labels, settled in (
        ({"a": 0.5, "b": 0.3}, 1000, True),
        ({"a": 1.0, "b": 0.999}, 1000, True),
        ({"a": 0.5, "b": 0.49, "c": 0.1}, 1000, False),
        ({"a": 0.06, "b": 0.0575}, 800, False),
    ):
        assert decided(trials, labels, 0.0625) == settled
