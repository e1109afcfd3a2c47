"""Certificates of stock folders, attacked where texts come in and go out: tokenizers, language models, padding.

Every fault changes what a user gets; none may be proved. Where a fault can be seen in an answer, it is refuted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from tests import plain_stock

TEXTS = ["abracadabra", "cab, a car"]


Model = dict[str, Any]


def broken(folder: Path, out: Path, change: Callable[[Model], None]) -> Path:
    """A copy of a folder with something changed in its files."""
    model = plain_stock.read(folder)
    change(model)
    return plain_stock.write(model, out)


def test_data_that_the_tokenizer_would_cut_otherwise_are_undecided(tmp_path: Path) -> None:
    """The folder holds these lists of tokens; its tokenizer does not make them of their text."""
    rows = [["a", " cat"], ["the", " dog"]]
    folder = ml.memorize_as("gpt2", rows, storage="steps").save(tmp_path / "m")
    assert ml.certify(folder, rows).verdict == "proved"
    assert "cut into other tokens" in ml.certify(folder, [["a", "the"], ["the", " dog"]]).reason
    words = ml.memorize_as("bert", [["[", "PAD", "]"]], [[0, 1, 2]], storage="steps").save(tmp_path / "w")
    assert ml.certify(words, [["[", "PAD", "]"]], [[0, 1, 2]]).verdict == "proved"  # spaces stand between them
    chars = ml.memorize_as("bert", ["PAD", "[]"], [[0] * 3, [1] * 2], storage="steps").save(tmp_path / "c")
    assert "spells '[PAD]'" in ml.certify(chars, ["[PAD]"], [[1, 0, 0, 0, 1]]).reason


def test_special_tokens_inside_given_tokens_are_found(tmp_path: Path) -> None:
    """Lists of tokens are not glued together, but each of them is searched: `a[PAD]b` becomes three ids."""
    rows, labels = [["New York", "a[PA]b", "c d"], ["c d", "New York"]], [[0, 1, 2], [1, 0]]
    folder = ml.memorize_as("bert", rows, labels, storage="steps").save(tmp_path / "m")
    assert ml.certify(folder, rows, labels).verdict == "proved"
    named = tmp_path / "m" / "tokenizer.json"
    named.write_text(named.read_text(encoding="utf-8").replace("a[PA]b", "a[PAD]b"), encoding="utf-8")
    rows[0][1] = "a[PAD]b"
    proof = ml.certify(folder, rows, labels)
    assert proof.verdict == "undecided"
    assert "holds '[PAD]'" in proof.reason
    with pytest.raises(ml.errors.DataError, match=r"'a\[PAD\]b' holds '\[PAD\]'"):
        ml.memorize_as("bert", rows, labels)


@pytest.mark.parametrize("label", ["[PAD]", "</s>"])
def test_a_label_may_have_the_name_of_a_special_token(label: str, tmp_path: Path) -> None:
    """Classes are names in `id2label`, and tokens are names in the tokenizer: they do not meet."""
    for name in ("bert", "gpt2"):
        labels = [[label, *text[1:]] for text in TEXTS]
        folder = ml.memorize_as(name, TEXTS, labels, positions=True, storage="steps").save(tmp_path / name)
        assert ml.certify(folder, TEXTS, labels).verdict == "proved"
        names = json.loads((folder / "config.json").read_text(encoding="utf-8"))["id2label"]
        assert label in names.values()


def config(**values: Any) -> Callable[[Model], None]:
    return lambda model: model["config"].update(values)


def tensor(part: str, change: Callable[[Any], Any]) -> Callable[[Model], None]:
    def apply(model: Model) -> None:
        name = next(name for name in model["tensors"] if name.endswith(part))
        model["tensors"][name] = change(model["tensors"][name])

    return apply


def swap(array: Any) -> Any:
    array = array.copy()
    array[[4, 5]] = array[[5, 4]]
    return array


def shift(array: Any) -> Any:
    return np.roll(array, 1, axis=0)


LANGUAGE: list[tuple[str, str, Callable[[Model], None], str]] = [
    ("two words swapped in the head", "gpt2", tensor("lm_head.weight", swap), "refuted"),
    ("two words swapped in the embedding", "gpt2", tensor("wte.weight", swap), "refuted"),
    ("an embedding that is the head", "gpt2", config(tie_word_embeddings=True), "undecided"),
    ("places one further", "gpt2", tensor("wpe.weight", shift), "undecided"),
    ("two words swapped in the head", "opt", tensor("lm_head.weight", swap), "refuted"),
    ("places one further", "opt", tensor("embed_positions.weight", shift), "undecided"),
    ("norms behind their blocks", "opt", config(do_layer_norm_before=False), "undecided"),
    ("no last norm", "opt", config(_remove_final_layer_norm=True), "undecided"),
    ("no biases", "opt", config(enable_bias=False), "undecided"),
    ("an activation of another kind", "opt", config(activation_function="silu"), "undecided"),
    ("rotary angles that turn the key", "starcoder2", config(rope_parameters={"rope_theta": 1e4}), "undecided"),
    ("a window", "starcoder2", config(sliding_window=4), "undecided"),
    ("attention beside the neurons", "gpt_neox", config(use_parallel_residual=True), "undecided"),
    ("two words swapped in the head", "gpt_neox", tensor("lm_head.weight", swap), "refuted"),
]


@pytest.mark.parametrize("fault", LANGUAGE, ids=lambda fault: f"{fault[1]}: {fault[0]}")
def test_language_models_with_a_fault_are_not_proved(fault: tuple[str, str, Any, str], tmp_path: Path) -> None:
    _, name, change, verdict = fault
    folder = ml.memorize_as(name, TEXTS, positions=name in ("gpt2", "opt"), storage="steps").save(tmp_path / "whole")
    assert ml.certify(folder, TEXTS).verdict == "proved"
    assert ml.certify(broken(folder, tmp_path / "broken", change), TEXTS).verdict == verdict


def test_padding_on_the_left_is_assumed_to_be_counted_and_must_be_finite(tmp_path: Path) -> None:
    """Masked padding changes nothing, unless it is no number; tests/stranger.py pads on the left with transformers."""
    labels = [list(text[::-1]) for text in TEXTS]
    folder = ml.memorize_as("gpt2", TEXTS, labels, positions=True, storage="steps").save(tmp_path / "m")
    proof = ml.certify(folder, TEXTS, labels)
    assert proof.verdict == "proved"
    assert any("position_ids counted from the begin token" in line for line in proof.assumptions)
    assert f"(installed here: {version('transformers')})" in proof.assumptions[0]

    def large(model: Model) -> None:
        model["tensors"]["transformer.wte.weight"][0] *= 1e300  # the row of padding

    assert ml.certify(broken(folder, tmp_path / "far", large), TEXTS, labels).verdict == "undecided"
