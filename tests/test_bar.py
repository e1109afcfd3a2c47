"""What a long call reports of its progress, and the bar that shows it: counts, and times that were measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

import monolayer as ml
from monolayer.bar import Pace, bar, reporting, time_left
from monolayer.table import Counted, counting, part_of

TABLE = {f"key {number}": f"v{number % 7}" for number in range(40)}


def test_the_time_left_follows_the_last_seconds() -> None:
    """A stage that was slow for 100 s and is quick now has not 100 s more to go."""
    pace = Pace()
    for second in range(101):
        pace.saw(float(second), second)
    assert pace.seconds_left(100.0, 1100) == pytest.approx(1000.0)
    for second in range(1, 11):
        pace.saw(100.0 + second, 100 + 50 * second)
    assert pace.seconds_left(110.0, 1100) == pytest.approx(10.0)
    assert pace.seconds_left(115.0, 1100) == pytest.approx(5.0)  # it counts down between two reports
    assert pace.seconds_left(121.0, 1100) is None  # longer than expected: unknown


def test_rare_reports_have_a_pace_too() -> None:
    pace = Pace()
    for second, done in ((0.0, 0), (40.0, 10), (80.0, 30)):
        pace.saw(second, done)
    assert pace.seconds_left(80.0, 50) == pytest.approx(40.0)


@pytest.mark.parametrize("seen", [[], [(0.0, 5)], [(0.0, 5), (30.0, 5)], [(0.0, 5), (0.1, 6)]])
def test_without_a_pace_no_time_is_shown(seen: list[tuple[float, int]]) -> None:
    """Nothing was reported, one report, nothing done in between, or less than a second: nobody knows."""
    pace = Pace()
    for each in seen:
        pace.saw(*each)
    assert pace.seconds_left(31.0, 100) is None


def test_times_are_never_0() -> None:
    assert [time_left(each) for each in (None, 0.01, 90.0, 3600.5)] == ["-:--:--", "0:00:01", "0:01:30", "1:00:01"]


def test_a_counted_stage_is_text_and_passes_through_parts() -> None:
    told: list[tuple[str, float]] = []
    counting(part_of(lambda *each: told.append(each), 0.5, 1.0), "asking", "fact", 0.0, 0.5)(1_000, 4_000)
    (stage, share) = told[0]
    assert isinstance(stage, Counted)
    assert (stage, stage.stage, stage.done, stage.total, share) == (
        "asking: 1,000 of 4,000 facts",
        "asking",
        1000,
        4000,
        0.5625,
    )
    assert Counted("asking", 1, 1, "fact") == "asking: 1 of 1 fact"


def shown(*told: tuple[str, float], terminal: bool = True) -> str:
    """The bar as it was drawn last, when these were told."""
    console = Console(file=StringIO(), force_terminal=terminal, width=80, color_system=None)
    with bar(console) as step:
        for each in told:
            step(*each)
    assert isinstance(console.file, StringIO)
    return ["", *(line for line in console.file.getvalue().splitlines() if ":" in line)][-1]


def test_a_bar_shows_counts_and_a_share_only_without_them() -> None:
    last = shown(("reading", 0.0), (Counted("finding half-spaces", 30, 400, "fact"), 0.3))
    assert "finding half-spaces" in last
    assert "30 of 400 facts, -:--:-- left" in last
    assert "%" not in last
    plain = shown((Counted("finding half-spaces", 30, 400, "fact"), 0.3), ("writing", 0.7))
    assert "writing" in plain
    assert "70%" in plain
    assert "left" not in plain
    assert shown(("writing", 0.7), terminal=False) == ""


@pytest.mark.parametrize("labels", [list(range(40)), [number % 2 for number in range(40)]])
def test_memorize_as_counts_the_facts_that_are_done(labels: list[int]) -> None:
    """One by one and in groups: every fact that needs a half-space is counted, up to the last."""
    told: list[Counted] = []

    def note(stage: str, share: float) -> None:
        if isinstance(stage, Counted):
            told.append(stage)

    stock = ml.memorize_as("bert", dict(zip(TABLE, labels, strict=True)), unknown=False, progress=note)
    done = [each.done for each in told]
    assert done == sorted(done)
    assert done[-1] == told[-1].total == 40 - labels.count(labels[0])
    assert {each.stage for each in told} == {"finding half-spaces"}
    told.clear()
    assert ml.certify(stock, dict(zip(TABLE, labels, strict=True)), progress=note).verdict == "proved"
    assert (told[-1].stage, told[-1].done, told[-1].total) == ("checking every label", 40, 40)


def takes_progress() -> list[Callable[..., Any]]:
    every = [getattr(ml, name) for name in ml.__all__]
    return [each for each in every if inspect.isfunction(each) and "progress" in inspect.signature(each).parameters]


def test_every_function_that_takes_progress_takes_true() -> None:
    names = {each.__name__ for each in takes_progress()}
    assert names == {
        "approximate",
        "attach",
        "certify",
        "export",
        "memorize",
        "memorize_as",
        "memorize_files",
        "recognize",
    }
    for each in takes_progress():
        assert each.__globals__["__name__"] == "monolayer.bar", each.__name__
        assert "True shows a bar" in (each.__doc__ or "")


def test_progress_true_is_a_bar(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    ml.memorize(TABLE, progress=True)
    assert capfd.readouterr() == ("", "")  # this is no terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    ml.memorize_as("bert", TABLE, progress=True)
    ml.memorize_text("to be or not to be", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("done") == 2
    with pytest.raises(ml.DataError, match="progress must be True or a function"):
        ml.memorize(TABLE, progress="yes")  # type: ignore[arg-type]
    assert reporting(False)("anything", 0.5) is None
