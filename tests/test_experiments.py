"""Every experiment on small data: what must hold in its numbers, and what is made of them; and the command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.data import Sequences
from monolayer.theory.heads import contraction
from monolayer.theory.mean_heads import least_left_by_one
from monolayer_experiments import NAMES, find, tagging
from monolayer_experiments import attach as attach_experiment
from monolayer_experiments.attach import METHODS
from monolayer_experiments.experiment import Experiment, Setting
from monolayer_experiments.keys import WAYS
from monolayer_experiments.ranks import least_error
from monolayer_experiments.results import command, digest, measure
from monolayer_experiments.synthetic import near_copies, with_repeats, without_repeats

Results = dict[str, Any]
Ran = list[tuple[str, Setting]]


def rank_holds(found: Results) -> None:
    for k in (1, 2, 4):
        curve = found["curves"][str(k)]
        slope = np.polyfit(np.log(curve["points"]), np.log(curve["gap"]), 1)[0]
        assert slope == pytest.approx(-2 / k, rel=0.3)  # M^(-2/k), from few draws
    assert found["errors"]["float64"] < 1e-14 < found["errors"]["float32"] < 1e-5 < found["errors"]["bfloat16"]


def ranks_holds(found: Results) -> None:
    assert len(found["trained"]) == 7 * len(found["sizes"])  # three kinds at two ranks, and all full
    rows = {(row["made"], row["kind"], row["rank"]): row for row in found["functions"]}
    assert min(rows["constructed", "values", 1]["largest"]) > 0.25
    assert max(rows["constructed", "values", 3]["largest"]) < 1e-6
    assert least_error(1) == 0.25
    # Points of the proof are among those asked: value rank 1 cannot be right at all of them.
    assert all(min(rows["trained", kind, 1]["largest"]) > 0.2 for kind in ("values", "both"))
    assert [row["labels"] for row in found["built"]] == sorted(row["labels"] for row in found["built"])


def shortfall_holds(found: Results) -> None:
    streams = [row for row in found["rows"] if row["model"].startswith("1 layer")]
    assert [row["seed"] for row in streams] == [1] * 4 + [2] * 4
    assert {row["any_readout"]["float32"] for row in streams} == {1.0}


def frontier_holds(found: Results) -> None:
    rows = {row["name"]: row for row in found["rows"]}
    assert all(row["recall"] == 1.0 for name, row in rows.items() if not name.startswith("trained"))
    assert all(row.get("verdict", "proved") == "proved" for row in rows.values())
    robust, held = rows["robust, rank 16"], rows["in the embedding, 48 neurons"]
    assert robust["noise"] > robust["proved"] > 1e-3
    assert held["noise"] > held["proved"] > 1e-4
    assert held["bits"] / held["parameters"] > 1.5 * robust["bits"] / robust["parameters"]
    assert rows["line"]["noise"] < 1e-3
    assert rows["packed, 8,192 classes"]["noise"] is None


def attach_holds(found: Results) -> None:
    rows = {(row["method"], row["facts"]): row for row in found["rows"]}
    assert set(rows) == {*((name, n) for name in METHODS for n in (2, 3))} - {("ROME", 3)}
    assert all(rows["attach", n]["divergence"] == rows["attach", n]["paraphrase"] == 0.0 for n in (2, 3))
    for name in METHODS:
        row = rows[name, 2]
        # Eight steps of training may leave a fact out; what is attached comes back by a theorem.
        assert row["efficacy"] == 1.0 or name != "attach", name
        assert row["efficacy"] > 0.0 or name in ("ROME", "MEMIT"), name
        assert (row["places"] > 0) == (name != "attach"), name
    # Where a fact is not stored the host answers, and of a few cities it may guess the right one.
    assert "guessed" not in attach_experiment.answer(found)
    lucky = [row | {"paraphrase": 0.5} if row["method"] == "attach" else row for row in found["rows"]]
    assert "the host guessed it" in attach_experiment.answer({**found, "rows": lucky})


def heads_holds(found: Results) -> None:
    for row in found["rows"]:
        blind = row["one_head"] >= 1e-4 * row["variance"]  # few samples leave 10^-6 of what one head sees
        assert blind == (row["target"] not in ("mean", "maximum")), row["target"]
        if row["two_heads"] is not None:  # it has one head more, up to what few samples say
            assert row["two_heads"] <= row["one_head"] + 0.02 * row["variance"]
    assert all(wave["left"] > max(0.3, least_left_by_one(wave["K"])) for wave in found["waves"])


def keys_holds(found: Results) -> None:
    widths = {(row["kind"], row["way"]): row["widths"] for row in found["rows"]}
    for kind in ("isotropic", "anisotropic"):
        assert max(widths[kind, "margin"]) < min(widths[kind, "whitened"])
        assert max(widths[kind, "fitted, margin"]) <= max(widths[kind, "fitted"])
        assert None not in widths[kind, "trained"]
        assert widths[kind, "Hebbian"] == [None, None]  # not within the widest that was tried
    assert {row["way"] for row in found["noise"]} == set(WAYS)


HOLDS: dict[str, Callable[[Results], None]] = {
    "attach": attach_holds,
    "heads": heads_holds,
    "keys": keys_holds,
    "rank": rank_holds,
    "ranks": ranks_holds,
    "shortfall": shortfall_holds,
    "frontier": frontier_holds,
}
SAYS = {
    "memorization": ("every label came back at every size", "2 of 2 proved", "more than the 9,609 of Corollary 1"),
    "duplicates": ("cost no label, and on the small data in balls the paper's margin", "distance 10^-1"),
    "ranks": ("Constructed with scores of rank 1, 1,024 or more", "where no network has less than 0.25"),
    "precision": ("every label comes back. That the separation exceeds δ is proved at every size",),
    "depth": ("The construction returned every label at every size",),
    "tagging": ("phrases: the construction returned 100 %", "words: the construction returned 100 %"),
    "editing": ("every edited and every kept label was right, with the bits of a model that memorized", "and proved"),
    "unlearning": ("gave the bits of the model that never saw them: forget quality 1, 100 %", "distance 0. "),
    "attach": ("every fact came back by free generation, and no bit of any logit changed", "rewordings are not"),
    "temperature": ("With random keys the mean, λ = 0, tells them apart too", "in float32 no temperature does so for"),
    "equivariant": ("L/(2D) in 21 of 21 measurements", "has slope 0.00: only its mean error falls, with slope −0.5"),
    "quantizer": ("Without it 4 of 6 of them keep", "For mean, maximum the estimated floor is 0"),
    "keys": ("A margin in place of least squares needs ",),
    "uniform": ("Not with rank 1: with the most cells", "proved in 6 of 6 cases"),
    "heads": (
        "One head sees mean, maximum by itself",
        "two heads, built with 4 cells",
        "18 of 18 proved",
    ),
}
"""What the answer must say of the small data below: it says so only where the numbers do."""
SMALL: dict[str, Results] = {
    "memorization": {"sequences": (100, 300)},
    "duplicates": {"sequences": 200},
    "rank": {"ranks": (1, 2, 4, 8), "low": 1 << 12, "high": 1 << 8, "asked": 50},
    "depth": {"sizes": {12: (2, 10), 20: (1, 10)}, "models": ("1 layer, rank 1", "2 layers")},
    "shortfall": {"sequences": 16, "budget": 10, "seeds": 2, "length": 4, "vocabulary": 14, "width": 32},
    "tagging": {"phrases": 100, "characters": 60, "words": 30, "budget": 10},
    "editing": {"phrases": 60, "characters": 100, "edits": (1, 5), "budget": 20, "width": 32, "tuning": (1, 4)},
    "unlearning": {"facts": 24, "forgotten": 8, "rates": (1e-3,), "steps": (1, 2)},
    "quantizer": {"cells": (2, 4, 8), "tested": 1_000, "samples": 1 << 12, "places": 4},
    "equivariant": {"cells": (2, 4, 8), "points": 2_000},
    "functions": {"targets": ("max", "ranks"), "seeds": 2, "cells": 4, "budget": 20, "pool": 200, "held_out": 100},
    "uniform": {"most_cells": 4, "points": 1_000},
    "heads": {"places": 4, "temperatures": 4, "slices": 6, "tested": 200, "waves": (1, 20), "wave_samples": 1 << 13},
    "precision": {"vocabularies": (4, 8, 16)},
    "keys": {"dims": (8,), "steps": 60, "training": 60, "widest": 64},
    "frontier": {"sequences": 24, "length": 4, "asked": 4, "ranks": (16,), "embedded": ((16, 48),), "fresh": 1},
}
SMALL["editing"]["asked"] = 20
SMALL["attach"] = {"host": (2, 64, 64, 4, 0.08, 2e-3), "steps": 8, "megabytes": 0.01, "vocabulary": 512, "known": 6}
SMALL["attach"] |= {
    "lines": 200,
    "facts": (2, 3),
    "rome": 2,
    "epochs": 10,
    "places": 400,
    "sampled": 800,
    "delta_steps": 5,
}
SMALL["frontier"] |= {"widths": (32,), "budget": 10}


def some_phrases() -> Sequences:
    """In place of the dictionary: 300 phrases of common and rare characters."""
    random = np.random.default_rng(0)
    X = [tuple(random.permutation(120)[: 1 + row % 4].tolist()) for row in range(300)]
    X = list(dict.fromkeys(X))  # an edit changes one phrase: another that is equal would contradict it
    return Sequences.of(X, [[x % 7 + len(row) for x in row] for row in X])


@pytest.mark.parametrize("name", NAMES)
def test_numbers_words_tables_and_figures(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said and drawn is made from the stored numbers alone."""
    experiment, shares = find(name), []
    monkeypatch.setattr(tagging, "phrases", some_phrases)
    monkeypatch.setattr("monolayer.checker.heads.contraction", cache(contraction))  # 18 networks have two of them
    for which, few in {
        "FINETUNING_RATES": (1e-4, 1e-3),
        "LORA_RATES": (3e-3, 1e-2),
        "WEIGHTS": (1_500.0, 15.0),
    }.items():
        monkeypatch.setattr(attach_experiment, which, few)
    raw = experiment.run(Setting(seed=1), lambda stage, share: shares.append(share), **SMALL.get(name, {}))
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] <= shares[-1] <= 1.0
    stored = json.loads(json.dumps(raw, allow_nan=False))
    HOLDS.get(name, lambda found: None)(stored)
    assert [words for words in (*SAYS.get(name, ()), ".") if words not in experiment.answer(stored)] == []
    assert experiment.limits(stored).endswith(".")
    for table in experiment.tables(stored):
        assert table.rows
        assert all(len(row) == len(table.columns) and all(map(str.strip, row)) for row in table.rows)
    figures = experiment.figures(stored)
    assert figures
    for figure in figures:
        json.dumps(figure.figure, allow_nan=False)
        assert figure.figure["data"]
        assert all(len(trace["x"]) == len(trace["y"]) > 0 for trace in figure.figure["data"])


def test_from_the_command_to_the_page(tmp_path: Path) -> None:
    name = "temperature"
    assert run(["experiment", name, "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.json", "report.html"}
    stored = json.loads((tmp_path / f"{name}.json").read_text())
    assert stored["setting"] == {"full": False, "device": "cpu", "seed": 0}
    assert stored["command"] == f"monolayer experiment {name} --out {tmp_path.name}"
    assert set(stored["versions"]) >= {"python", "numpy", "torch"}
    assert (stored["versions"]["monolayer"], stored["machine"][:3]) == (ml.__version__, "CPU")
    assert re.fullmatch("[0-9a-f]{16}", stored["versions"]["source"])
    assert str(tmp_path) not in json.dumps(stored)
    assert find(name).question in (tmp_path / "report.html").read_text()


# -- the command ---------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Every experiment replaced by one that takes no time; the list says which were run, and how."""
    ran: Ran = []

    def stand_in(name: str) -> Experiment:
        def measure(plan: Results, setting: Setting, progress: Any) -> Results:
            ran.append((name, setting))
            progress("half", 0.5)
            return {"value": plan["size"]}

        def none(results: Results) -> list[Any]:
            return []

        plan = {"size": (1, 2)}
        return Experiment(name, "what?", plan, measure, lambda results: "so.", none, none, lambda results: "nothing")

    monkeypatch.setattr("monolayer_experiments.results.digest", lambda folders: "0" * 16)  # of the same source again
    monkeypatch.setattr("monolayer_experiments.find", stand_in)
    monkeypatch.setattr("monolayer_experiments.report.find", stand_in)
    return ran


def test_all_runs_every_experiment(counted: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "all", "--full", "--seed", "5", "--out", str(tmp_path / "deep" / "r"), "--json"]) == 0
    assert counted == [(name, Setting(full=True, device="cpu", seed=5)) for name in NAMES]
    stored = json.loads((tmp_path / "deep" / "r" / "rank.json").read_text())
    assert (stored["command"], stored["results"]["value"]) == ("monolayer experiment rank --full --seed 5 --out r", 2)
    found = json.loads(capsys.readouterr().out)
    assert list(found["experiments"]) == list(NAMES)
    assert Path(found["report"]).read_text().count("<article") == len(NAMES)


def test_an_unknown_name_suggests_the_nearest_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from monolayer.cli import run\n"
        f"code = run(['experiment', 'precison', '--out', {str(tmp_path / 'r')!r}])\n"
        "sys.exit(10 * code + ('torch' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 20
    assert "there is no experiment 'precison'; did you mean 'precision'?" in " ".join(done.stderr.split())
    assert not (tmp_path / "r").exists()


def test_a_folder_with_other_results_is_refused(
    counted: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = str(tmp_path / "r"), tmp_path / "file"
    assert run(["experiment", "rank", "--out", folder]) == 0
    before = (tmp_path / "r" / "rank.json").read_text()
    assert run(["experiment", "depth", "--out", folder]) == 2
    assert "is not empty" in capsys.readouterr().err
    for name in ("depth", "rank"):  # what is finished is kept, not run again
        assert run(["experiment", name, "--out", folder, "--resume"]) == 0
    assert (tmp_path / "r" / "rank.json").read_text() == before
    capsys.readouterr()
    assert run(["experiment", "uniform", "--out", folder, "--resume", "--seed", "1"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert all(words in message for words in ("another setting", "--out r`"))
    assert (tmp_path / "r" / "report.html").read_text().count("<article") == 2
    file.write_text("mine")
    assert run(["experiment", "rank", "--out", str(file)]) == run(["experiment", "rank"]) == 2
    assert (file.read_text(), [name for name, _ in counted]) == ("mine", ["rank", "depth"])
    assert run(["experiment", "rank", "--device", "cuda:99", "--out", str(tmp_path / "new")]) == 2
    assert "device 'cuda:99' cannot be used here" in " ".join(capsys.readouterr().err.split())
    assert run(["experiment", "list"]) == 0
    assert NAMES[0] in capsys.readouterr().out


def test_an_interrupted_run_keeps_what_is_finished(
    counted: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:

        def interrupted(*given: Any) -> Any:
            if len(counted) == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return measure(*given)

        patch.setattr("monolayer_experiments.results.measure", interrupted)
        assert run(["experiment", "all", "--out", str(tmp_path)]) == 130
    shown = " ".join(capsys.readouterr().err.split())
    assert "--resume continues" in shown
    assert "no output was written" not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.json" for name in NAMES[:2])
    counted.clear()
    assert run(["experiment", "all", "--out", str(tmp_path), "--resume"]) == 0
    assert [name for name, _ in counted] == list(NAMES[2:])
    assert (tmp_path / "report.html").exists()


def test_the_digest_of_the_source_knows_its_files_and_nothing_else(tmp_path: Path) -> None:
    here, there = (tmp_path / where / "package" for where in ("here", "there"))
    for folder in (here, there):
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "a.py").write_text("x = 1\n")
    (there / "a.pyc").write_text("compiled")
    assert digest([here]) == digest([there])
    moved = (there / "inner" / "a.py").rename(there / "inner" / "b.py")
    found = {digest([here]), digest([there])}
    moved.write_text("x = 2\n")
    assert len(found | {digest([there])}) == 3


def test_the_command_names_the_folder_that_was_given() -> None:
    for folder, named in (("a/b", "a/b"), ("my results", "'my results'"), ("../over/there", "there")):
        assert command("rank", Setting(), Path(folder)) == f"monolayer experiment rank --out {named}"


# -- the data ------------------------------------------------------------------------------------------

sizes = st.tuples(st.integers(1, 40), st.integers(1, 6), st.integers(8, 60), st.integers(0, 1000))


def multisets(X: Any) -> list[tuple[int, ...]]:
    return [tuple(sorted(row)) for row in X.tolist()]


@settings(max_examples=30)
@given(sizes, st.floats(0, 1))
def test_data_have_their_properties(size: tuple[int, int, int, int], share: float) -> None:
    count, length, vocabulary, seed = size
    X, Y = without_repeats(min(count, vocabulary), length, vocabulary, 5, seed)  # there are at least that many sets
    assert X.shape == Y.shape == (min(count, vocabulary), length)
    assert {len(set(row)) for row in X.tolist()} == {length}
    assert len(set(multisets(X))) == len(X)
    assert 0 <= X.min() <= X.max() < vocabulary
    X, Y = with_repeats(share, count, length, vocabulary, 5, seed)
    assert len(set(multisets(X))) == len(X) > 0
    assert all(len(set(row)) == length - round(share * (length - 1)) for row in X.tolist())
    for tokens, classes in zip(X.tolist(), Y.tolist(), strict=True):  # a repeated token has one label
        assert len(set(zip(tokens, classes, strict=True))) == len(set(tokens))
    distance = 1 + seed % length
    X, Y = near_copies(distance, count, length, 2 * length + vocabulary, 5, seed)
    base = np.random.default_rng(seed).permutation(2 * length + vocabulary)[:length]
    assert ((base != X).sum(axis=1) == distance).all()
    assert len(set(multisets(X))) == len(X)
