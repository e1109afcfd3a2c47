"""Attached facts beside editors, on a folder and a file of edits: what is counted, and a whole run on a tiny host."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer_experiments import counterfact, editors
from monolayer_experiments.edits import entropy, read_edits, says
from monolayer_experiments.prose import KINDS, installed_text, windows
from tests.hosts import tokenizer, write_host

ROWS = [
    {
        "prompt": f"The capital of country{number} is",
        "subject": f"country{number}",
        "target_new": f"city{7 * number % 40}",
        "rephrase_prompt": f"It is near. country{number} has the capital",
        "locality_prompt": f"The capital of country{20 + number} is",
        "locality_ground_truth": f"city{number}",
    }
    for number in range(4)
]


@pytest.fixture
def edits(tmp_path: Path) -> Path:
    (tmp_path / "edits.json").write_text(json.dumps([*ROWS, {**ROWS[0], "target_new": "city1"}]))
    return tmp_path / "edits.json"


def test_a_file_of_edits_is_read_once_per_prompt_and_refused_with_its_row(edits: Path) -> None:
    found = read_edits(edits)
    assert [edit.new for edit in found] == [row["target_new"] for row in ROWS]
    assert (found[1].name, found[1].answer, len(found[1].prompts())) == ("country1", " city7", 2)
    for number, change in ((1, {"subject": "Mars"}), (2, {"target_new": None})):
        wrong = [dict(row) for row in ROWS]
        wrong[number] |= change
        edits.write_text(json.dumps(wrong))
        with pytest.raises(ml.DataError, match=f"row {number}: "):
            read_edits(edits)


def test_what_counts_as_the_answer_and_how_varied_a_text_is() -> None:
    assert says(" Paris, of course", "Paris")
    assert not says(" Parisian", " Paris")
    assert not says(" The city of Paris", "Paris")
    # 2 bigrams and 1 trigram: entropies of 1 bit and 0, and the words "a b a b …" have 2 of each.
    assert entropy([[1, 2, 3]]) == pytest.approx(0.5 * 2 / 3)
    assert entropy([[1, 2] * 50]) == pytest.approx(0.5 * (2 / 3 + 4 / 3), abs=1e-3)
    assert entropy([list(range(65))]) == pytest.approx(0.5 * (2 / 3 * 6 + 4 / 3 * math.log2(63)))
    assert entropy([[], [1, 1, 1]]) == entropy([]) == 0.0


def test_text_of_installed_packages_is_of_its_kind(tmp_path: Path) -> None:
    for kind in KINDS:
        begin = installed_text(kind, 5_000)
        assert len(begin) == 5_000
        assert begin == installed_text(kind, 9_000)[:5_000]
    assert "import" in installed_text("source", 20_000)
    assert all(len(row) == 16 for row in windows(tokenizer(), installed_text("licences", 2_000), 16))


def test_a_run_measures_every_method_and_can_be_joined(
    edits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """attach returns all answers and changes nothing; other methods are searched and change all places.

    In a Llama; `test_experiments.py` runs the same methods in a GPT-2.
    """
    texts = tokenizer()
    texts.pad_token = None  # as many hosts have it
    host = write_host(tmp_path / "llama", "llama", texts=texts)
    monkeypatch.setattr(counterfact, "installed_text", cache(installed_text))
    monkeypatch.setattr(counterfact, "CONTEXT", 64)
    monkeypatch.setattr(counterfact, "LONG", 12)
    monkeypatch.setattr(counterfact, "RATES", {"fine-tuning": (1e-3,), "LoRA": (1e-2,)})
    monkeypatch.setattr(counterfact, "EPOCHS", 10)
    monkeypatch.setattr(counterfact, "DELTA", editors.Descent(0.3, 3))
    monkeypatch.setattr(counterfact, "WEIGHTS", (15.0, 1.5))

    def run(*words: Any) -> None:
        counterfact.main([str(word) for word in words])

    some = ("--places", 400, "--sampled", 640, "--device", "cpu")
    run(host, edits, "--out", tmp_path / "a.json", "--edits", 3, 2, "--methods", "attach", "MEMIT", *some)
    run(host, edits, "--out", tmp_path / "b.json", "--edits", 2, "--methods", "fine-tuning", "LoRA", "ROME", *some)
    found = counterfact.merged([tmp_path / "a.json", tmp_path / "b.json"])
    rows = {(row["method"], row["edits"]): row for row in found["rows"]}
    assert rows.keys() == {(method, 2) for method in counterfact.METHODS} | {("attach", 3), ("MEMIT", 3)}
    for count in (2, 3):
        attached = rows["attach", count]
        assert (attached["efficacy"], attached["kept"], attached["places"], attached["refused"]) == (count, count, 0, 0)
        assert attached["divergence"] == 0.0
        assert attached["undone"] is True
        assert (attached["next"], attached["preferred"]) == (count, attached["host"]["preferred"])
        assert attached["asked_besides"] == [0, 0]
        assert attached["of"] > 300
        assert attached.get("places_as_was", 0) == 0  # on a processor biases of 0 change no bit
    assert len(rows["MEMIT", 3]["grid"]) > len(rows["MEMIT", 2]["grid"]) == counterfact.KEPT["MEMIT"]
    assert all(row["places"] == row["of"] for row in found["rows"] if row["method"] != "attach")
    capsys.readouterr()
    run("--table", tmp_path / "a.json", tmp_path / "b.json", "--out", tmp_path / "both.json")
    assert "| 2 | attach | 100 % |" in capsys.readouterr().out.replace("100.00 %", "100 %")
    assert counterfact.merged([tmp_path / "both.json"]) == json.loads((tmp_path / "both.json").read_text())
    other = json.loads((tmp_path / "b.json").read_text())
    other["file"]["digest"] = "x"
    (tmp_path / "b.json").write_text(json.dumps(other))
    with pytest.raises(ml.DataError, match="another file of edits"):
        counterfact.merged([tmp_path / "a.json", tmp_path / "b.json"])
