"""What an experiment says follows from its numbers: the stored records, changed, change the words."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer_experiments import depth, editing, functions, memorization, shortfall, tagging
from monolayer_experiments.results import read
from monolayer_experiments.runs import above, apart, decided

RESULTS = Path(__file__).parent.parent / "results"


def stored(name: str) -> dict[str, Any]:
    return copy.deepcopy(read(RESULTS / f"{name}.json").results)


def test_memorization() -> None:
    results = stored("memorization")
    assert memorization.answer(results).startswith("Yes")
    row = results["rows"][0] | {"parameters": 9, "corollary_1": 8}
    results |= {"rows": [row], "refused": None}
    assert "1 of 1 proved" in memorization.answer(results)
    assert "9 numbers, more than the 8 of Corollary 1" in memorization.answer(results)
    assert "0 of 1 proved" in memorization.answer({**results, "rows": [{**row, "verdict": "undecided"}]})
    assert memorization.answer({**results, "rows": [{**row, "right": row["labels"] - 1}]}).startswith("No: 1 ")
    assert "refused" in memorization.answer({**results, "refused": {"sequences": 2, "words": "too close"}})


def test_depth() -> None:
    results = stored("depth")
    for row in results["trained"]:
        row["accuracy"] = 0.5
    assert "no training run did" in depth.answer(results)
    last, built = results["trained"][-1], results["constructed"][-1]
    last.update(accuracy=1.0, alone=1.25)
    built["seconds"] = 0.001  # mostly fixed costs: no ratio is drawn from it
    assert f"1 of 5 training runs did too, the quickest ({last['model']}) in 1.25 s" in depth.answer(results)
    assert "against the construction's 0.001 s" in depth.answer(results)
    built["seconds"] = 1.0
    assert "times the construction's 1 s" in depth.answer(results)
    results["constructed"][0]["accuracy"] = 0.5
    assert depth.answer(results).startswith("No:")


def test_tagging() -> None:
    results = stored("tagging")

    def held_out(labels: int, *shares: float) -> str:
        for corpus in results["corpora"]:
            corpus["held_out_labels"] = labels
            for row, share in zip(corpus["rows"], shares, strict=True):
                row["held_out"] = share
        return tagging.answer(results)

    assert "no match for a rule, learnt or counted" in held_out(1000, 0.25, 0.5, 0.5, 0.5)
    assert "construction 25.00 %, best trained model 50.00 %" in tagging.answer(results)
    assert "no match" not in held_out(176, 0.517, 0.574, 0.614, 0.574)  # as chance alone could make it
    held_out(1000, 0.25, 0.5, 0.5, 0.5)
    tagging.find_model(results["corpora"][1], "most frequent label")["held_out"] = 0.125
    assert "no match for a rule" not in tagging.answer(results)


def test_functions() -> None:
    results = stored("functions")
    for row in results["rows"]:
        row.update(rms=[0.5], sup=[0.5])
        if row["model"] == "1 layer":  # of three seeds the median counts
            row.update(rms=[0.9, 0.1, 0.1] if row["target"] == "max" else [0.1, 0.9, 0.9], sup=[0.9])
    said = functions.answer(results)
    assert "ahead in root mean square on 1 of 8 functions and in largest error on 0 of 8 functions;" in said
    for row in results["rows"]:
        row["tuned"] = False
    assert "untuned" in str(functions.tables(results)[0].rows)


def test_shortfall() -> None:
    results = stored("shortfall")
    results.update(labels=10**4, seeds=3)
    for row in results["rows"]:
        row["accuracy"] = {"constructed, 16 numbers": 1.0}.get(row["weights"], 0.5)
        row["any_readout"] = dict.fromkeys(shortfall.FORMATS, 1.0)
    assert "So within this clock, with each of 3 seeds, the readout falls short" in shortfall.answer(results)
    only = {**results, "seeds": 1, "rows": [row for row in results["rows"] if row["seed"] == 0]}
    assert "with one seed, the readout falls short" in shortfall.answer(only)
    unlucky = next(row for row in results["rows"] if row["weights"] == "constructed, 16 numbers")
    unlucky["accuracy"] = 0.4  # one seed is enough to leave it open
    assert "So " not in shortfall.answer(results)
    for row in results["rows"]:
        row["any_readout"]["bfloat16"] = 0.4
    assert "it is the contexts" in shortfall.answer(results)
    for row in results["rows"]:
        row["accuracy"] = 0.3
    assert "So " not in shortfall.answer(results)


def test_editing() -> None:
    results = stored("editing") | {"accuracy": 0.9, "chance": 0.05}
    most = results["cases"][-1]
    for row in most["tuned"]:
        row |= {"edited_right": 0.25, "kept_lost": 0.5}
    assert "every edited and every kept label was right, with the bits of a model" in editing.answer(results)
    said = editing.answer(results)
    assert all(f"{count} edit" in said for count in ("1", "10", "100", "1,000"))
    assert "10,000 edits: 25.00 % and 50.00 % after" in said
    most["kept_lost"] = 1
    assert "not every label was right" in editing.answer(results)
    results["accuracy"] = results["chance"]
    assert "learnt nothing" in editing.answer(results)


# -- what a sample can show ----------------------------------------------------------------------------


def test_rates_that_end_at_chance_are_not_called_best() -> None:
    results = stored("depth")
    for row in results["trained"]:
        row.update(sequences=100, grid={"0.003": 0.0575, "0.01": 0.06}, rate=0.01)
    table = depth.tables(results)[1]  # the search is printed
    assert table.columns[-1] == "kept"
    assert {row[-1] for row in table.rows} == {"0.01, not decided"}
    assert "was best in" not in depth.limits(results)
    assert "the trials did not settle the rate" in depth.limits(results)
    for row in results["trained"]:
        row["grid"]["0.01"] = 0.4
    assert {row[-1] for row in depth.tables(results)[1].rows} == {"0.01"}
    assert "was best in 30 of 30 runs" in depth.limits(results)


@settings(max_examples=10)
@given(st.floats(0.05, 0.95), st.integers(100, 10**6), st.integers(0, 2**32))
def test_two_draws_from_one_urn_are_rarely_told_apart(share: float, labels: int, seed: int) -> None:
    """Three standard errors: about three in a thousand pairs."""
    ones, others = np.random.default_rng(seed).binomial(labels, share, (2, 300)) / labels
    assert sum(apart(one, other, labels) for one, other in zip(ones, others, strict=True)) <= 9
    assert apart(share, share + 0.04, 10**6)
    assert above(share + 0.04, share, 10**6)
    assert not above(share, share, labels)


def test_a_search_is_decided_by_a_lead_or_by_no_wrong_label() -> None:
    assert decided({"a": 0.5, "b": 0.3}, 1000, 0.0625)
    assert decided({"a": 1.0, "b": 0.999}, 1000, 0.0625)
    assert not decided({"a": 0.5, "b": 0.49, "c": 0.1}, 1000, 0.0625)
    assert not decided({"a": 0.06, "b": 0.0575}, 800, 0.0625)
