"""The experiment on editing in a small setting: what must hold in its numbers, and what its words may say."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from monolayer_experiments import editing
from tests.small_runs import quick_runs


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    small = {
        "phrases": 200,
        "characters": 100,
        "edits": (1, 5),
        "clock": 0.05,
        "width": 32,
        "longest": 0.01,
        "asked": 40,
    }
    return dict(quick_runs({"editing": small})["editing"])


def test_the_construction_edits_exactly(results: dict[str, Any]) -> None:
    for case in results["cases"]:
        assert case["edited_right"] == 1.0
        assert case["kept_lost"] == 0
        assert case["same_bits"]
        assert case["verdict"] == "proved"
        assert 0 < case["neurons"] <= 2 * case["edits"] + 2


def test_fine_tuning_is_looked_at_on_every_clock(results: dict[str, Any]) -> None:
    for case in results["cases"]:
        runs = {(row["way"], row["rate"]) for row in case["tuned"]}
        assert runs == {(way, rate) for way in editing.WAYS for rate in editing.RATES}
        for way, rate in runs:
            rows = [row for row in case["tuned"] if (row["way"], row["rate"]) == (way, rate)]
            assert all(row["seconds"] >= row["clock"] and row["steps"] >= 1 for row in rows)
            assert [row["steps"] for row in rows] == sorted(row["steps"] for row in rows)


def test_words_say_what_the_numbers_say(results: dict[str, Any]) -> None:
    stored = copy.deepcopy(results)
    stored |= {"accuracy": 0.9, "chance": 0.05}
    most = stored["cases"][-1]
    for row in most["tuned"]:
        row |= {"edited_right": 0.25, "kept_lost": 0.5}
    assert "every edited and every kept label was right, each edited model" in editing.answer(stored)
    assert "25.00 % of them right" in editing.answer(stored)
    assert "50.00 % lost" in editing.answer(stored)
    most["kept_lost"] = 1
    assert "not every label was right" in editing.answer(stored)
    stored["accuracy"] = stored["chance"]
    assert "learnt nothing" in editing.answer(stored)
    assert len(editing.figures(stored)) == 2
    assert [table.title for table in editing.tables(stored)] == ["The construction", "Fine-tuning"]
    assert "not tried" in editing.limits(stored)
