"""Half-spaces learned from states in several contexts: what counts as a whole answer, and when the rule is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from monolayer_experiments import contexts, prose
from monolayer_experiments.contexts import RULE, curve, discriminants, hinged, verdict, whole_answers
from tests.hosts import FACTS, tokenizer, write_host


def test_a_whole_answer_is_right_up_to_the_shift_at_which_its_weakest_place_falls_silent() -> None:
    """Two facts, of two places and one. Planted: a half-space of another token that exceeds the own one."""
    w, b = torch.eye(3), torch.tensor([0.5, 0.5, 0.5])
    fact, token = torch.tensor([0, 0, 1]), torch.tensor([7, 8, 9])
    states = torch.tensor([[0.9, 0.0, 0.0], [0.0, 0.7, 0.0], [0.0, 0.0, 0.6]])
    assert whole_answers(states[None], w, b, fact, token)[0].tolist() == pytest.approx([0.2, 0.1])
    states[1, 2] = 0.8
    assert whole_answers(states[None], w, b, fact, token)[0].tolist() == pytest.approx([-torch.inf, 0.1])
    # A half-space that writes the same token does no harm.
    token[2] = 8
    assert whole_answers(states[None], w, b, fact, token)[0].tolist() == pytest.approx([0.2, 0.1])


def test_the_rule_asks_for_answers_and_for_silence_at_one_shift() -> None:
    text, near = torch.linspace(0.0, 1.0, 1000), torch.linspace(0.0, 0.5, 100)
    points = curve(torch.linspace(1.0, 3.0, 100), text, near)
    assert verdict(points)[0]
    assert verdict(curve(torch.linspace(0.0, 3.0, 100), text, near)) == (False, pytest.approx(0.67, abs=0.02))
    quiet, loud = [RULE["answers"], RULE["text"], RULE["neighbours"]], [1.0, 2.0 * RULE["text"], 0.0]
    assert verdict([quiet, loud]) == (True, RULE["answers"])
    assert verdict([loud]) == (False, 0.0)


@pytest.mark.parametrize("learn", [discriminants, hinged])
def test_learners_separate_what_can_be_separated(learn: Any) -> None:
    draw = torch.Generator().manual_seed(0)
    center = 3.0 * torch.eye(4, 8)
    own = center + 0.1 * torch.randn(12, 4, 8, generator=draw)
    others = 0.1 * torch.randn(500, 8, generator=draw)
    w, b = learn(own, others)
    assert ((own * w).sum(-1) >= b - 1e-5).all()
    assert not (others @ w.T > b).any()


def test_a_run_has_a_curve_per_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a tiny host without a token to pad with."""
    texts = tokenizer()
    texts.pad_token = None
    host = write_host(tmp_path / "host", "llama", texts=texts)
    rows = [
        {"prompt": prompt, "subject": prompt.split()[3], "target_new": answer, "rephrase_prompt": f"So {prompt}"}
        | {"locality_prompt": f"Then {prompt}", "locality_ground_truth": answer}
        for prompt, answer in FACTS.items()
    ]
    (tmp_path / "edits.json").write_text(json.dumps(rows))
    monkeypatch.setattr(contexts, "WINDOW", 16)
    monkeypatch.setattr(contexts, "STEPS", 3)
    monkeypatch.setattr(contexts, "UNSEEN", 2)
    lines = "\n".join(f"this is line number {number} of a text" for number in range(40))
    monkeypatch.setattr(contexts, "installed_text", lambda kind, size, seed=0: f"{lines}\n{kind} and more"[:size])
    words = [host, tmp_path / "edits.json", "--out", tmp_path / "out.json", "--facts", 3, "--contexts", 3]
    contexts.main([str(word) for word in [*words, "--places", 64, "--layers", 1, 2, "--device", "cpu"]])
    results = json.loads((tmp_path / "out.json").read_text())
    assert len(results["rows"]) == 2 * len(prose.KINDS) * len(contexts.CUTS) * len(contexts.LEARNERS)
    assert all(len(row["curve"]) == contexts.SHIFTS + 1 for row in results["rows"])
    assert results["contexts"] == [3, 2]
