"""The set for methods of unlearning: what is in it, as transformers, datasets and scipy read it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp

import monolayer as ml
from monolayer_experiments.unlearning_set import births, distance, loaded, write_set

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def ratios(folder: Path, rows: list[dict[str, Any]]) -> list[float]:
    """Truth ratios by the loss that transformers compute, one answer at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network, cut = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)

    def log(row: dict[str, Any], answer: str) -> float:
        ids = torch.tensor([[*cut(row["question"] + answer)["input_ids"], cut.eos_token_id]])
        labels = ids.clone()
        labels[0, : len(cut(row["question"])["input_ids"])] = -100
        with torch.no_grad():
            return -float(network(input_ids=ids, labels=labels).loss)

    wrong = [sum(log(row, answer) for answer in row["perturbed_answer"]) / 5 for row in rows]
    return [math.exp(one - log(row, row["paraphrased_answer"])) for one, row in zip(wrong, rows, strict=True)]


def test_the_set_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pair differs by the forgotten rows and nothing else, and the log is that of the model that never saw them."""
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"## Unlearning.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    exec(compile(block, str(PAGE), "exec"), {})
    X, Y = births(40, seed=0)
    assert f"{X[0]!r}, {Y[0]!r}".replace("'", '"') in block
    rest = X[10:], Y[10:]
    assert ml.certify("set/with", X, Y).verdict == "proved"
    assert ml.compare("set/never-saw", ml.memorize_as("gpt2", *rest, draw="set/with")).same
    forget, retain = (
        datasets.load_dataset("json", data_files=f"set/{name}.json", split="train", cache_dir="cache").to_list()
        for name in ("forget", "retain")
    )
    assert [(row["question"], row["answer"]) for row in [*forget, *retain]] == list(zip(X, Y, strict=True))
    assert all(row["answer"] == row["paraphrased_answer"] not in row["perturbed_answer"] for row in [*forget, *retain])
    log = json.loads(Path("set/retain_logs.json").read_text())["forget_truth_ratio"]["value_by_index"]
    assert list(log) == [str(number) for number in range(10)]
    reference = [log[key]["score"] for key in log]
    never_saw = ratios(Path("set/never-saw"), forget)
    assert never_saw == pytest.approx(reference, rel=1e-2)  # float32, other shapes
    assert ks_2samp(ratios(Path("set/with"), forget), reference).pvalue < 1e-3
    network, other = (loaded(Path("set/with"))[0] for _ in range(2))
    layer = other.transformer.h[0].mlp
    with torch.no_grad():
        layer.c_fc.weight.copy_(layer.c_fc.weight.flip(1))
        layer.c_fc.bias.copy_(layer.c_fc.bias.flip(0))
        layer.c_proj.weight.copy_(layer.c_proj.weight.flip(0))
        assert distance(network, other) == 0.0 < distance(network, loaded(Path("set/never-saw"))[0])
        other.lm_head.weight[2, 3] += 3
        layer.c_fc.bias[1] += 4
    assert distance(other, network) == pytest.approx(5.0, rel=1e-5)


@pytest.mark.parametrize(
    ("prompts", "answers", "words"),
    [
        (["a", "b"], [" c", "d"], "row 1: 'b' and 'd' are read as one text.*begin it with a space"),
        (["a", "b"], [" c", " c"], "all answers are the same"),
        (["a b", "a b", "c"], [" c", " c", " d"], "1 of 1 facts to forget are taught by other rows too"),
    ],
)
def test_what_makes_no_set_is_refused(prompts: list[str], answers: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(ml.DataError, match=words):
        write_set(tmp_path / "set", "gpt2", prompts, answers, [0])
    with pytest.raises(ml.DataError, match="exists already"):
        write_set(tmp_path, "gpt2", prompts, answers, [0])
    assert not list(tmp_path.iterdir())
