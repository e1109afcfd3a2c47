"""`predict --text` without PyTorch: the same answers and the same errors as those of the network, or the network's own.

`--device cpu` asks the network; without it, a memorizer is asked by its files where the checker proves the answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.checker.answers import proved_classes
from monolayer.checker.evaluation import Evaluation
from monolayer.checker.stored import read_model
from monolayer.saved.kinds import open_model
from tests.stored_models import random_case

WORDS = [f"{first} {second}" for first in "abcdef" for second in "abcdef" if first != second]
TABLE = {text: str(number % 5) for number, text in enumerate(WORDS)}
MANY = {" ".join(key): str(7 * number % 5) for number, key in enumerate(product("abcdefghijkl", repeat=3))}
LABELS = [[ord(text[0]) % 4, number % 3] for number, text in enumerate(WORDS)]
SETS = [text for text in WORDS if text[0] < text[2]]  # without positions, the order of tokens does not count
BUILT: dict[str, Callable[[], Any]] = {
    "a table": lambda: ml.memorize(TABLE, positions=True),
    "a table of sets": lambda: ml.memorize({text: TABLE[text] for text in SETS}, positions=False),
    "tokens": lambda: ml.memorize(WORDS, LABELS, positions=True, unit="words"),
    "sets of tokens": lambda: ml.memorize(SETS, [[0, 1]] * len(SETS), unit="words"),
    "causal": lambda: ml.memorize(WORDS, LABELS, causal=True, positions=True, unit="words"),
    "next tokens": lambda: ml.memorize(["the cat sat on it", "a dog ran off now"], causal=True, unit="words"),
    "a cascade": lambda: ml.memorize(MANY, positions=True, dtype="float32"),
    "half-spaces": lambda: ml.memorize(TABLE, positions=True, robust=True),
    "half-spaces, tokens": lambda: ml.memorize(WORDS, LABELS, positions=True, unit="words", robust=True),
    "numbers": lambda: ml.memorize({number: str(number % 3) for number in range(12)}),
    "characters": lambda: ml.memorize({"银行": "b", "行走": "x"}, unit="characters"),
    "forgotten": lambda: ml.forget(ml.memorize(TABLE, positions=True), ["a b"], TABLE)[0],
}
ASKED = {
    "a cascade": ["a b c", "l l k"],
    "next tokens": ["the cat sat", "a dog"],
    "numbers": ["3", "11"],
    "characters": ["银行", "行走"],
    "forgotten": ["c d", "f e"],
}
WRONG = ["a b c d e f g", "a", "zebra b", "a b a b", "b a", ""]
"""Inputs that a model may not know, some of them in each of the ways in which that can be."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    scratch = tmp_path_factory.mktemp("models")
    return {kind: build().save(scratch / kind) for kind, build in BUILT.items()}


def asked(kind: str) -> list[str]:
    return ASKED.get(kind, ["a b", "c e"])


def inputs(kind: str) -> list[Any]:
    """What is asked, as the model takes it."""
    return [int(text) for text in asked(kind)] if kind == "numbers" else asked(kind)


def test_every_readout_and_attention_answers_without_pytorch(folders: dict[str, Path]) -> None:
    readouts = {(read_model(folder).config["readout"], read_model(folder).stages > 1) for folder in folders.values()}
    assert readouts == {("exact", False), ("exact", True), ("gates", False)}  # "runs" holds reals
    calls = [["predict", str(folders[kind]), "--json", *(f"--text={text}" for text in asked(kind))] for kind in BUILT]
    code = f"""
import sys
from monolayer.cli import run
codes = [run(call) for call in {calls!r}]
assert codes == [0] * len(codes), codes
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    decoder, rest = json.JSONDecoder(), done.stdout
    for kind in BUILT:
        answers, end = decoder.raw_decode(rest)
        rest = rest[end:].lstrip()
        names = [each.get("label", each.get("labels")) for each in answers["answers"]]
        expected = ml.load(folders[kind]).predict(inputs(kind))
        assert names == [one.tolist() if isinstance(one, np.ndarray) else one for one in expected], kind


@pytest.mark.parametrize("kind", BUILT)
def test_answers_and_errors_are_those_of_the_network(
    kind: str, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from monolayer.cli import run

    mixed = [asked(kind)[0], *WRONG]
    asked_with = [([], asked(kind)), ([], mixed), ([], WRONG[2:3]), ([], WRONG[4:5]), (["--strict"], mixed)]
    asked_with += [(["--no-strict"], mixed), (["--unknown", "none", "--json"], mixed)]
    for options, texts in asked_with:
        call = ["predict", str(folders[kind]), *options, *(f"--text={text}" for text in texts)]
        ways = [(run([*call, *device]), capsys.readouterr()) for device in ([], ["--device", "cpu"])]
        assert ways[0] == ways[1], call


def test_a_model_that_was_changed_is_refused_in_the_words_of_the_loader(
    folders: dict[str, Path], tmp_path: Path, said: Callable[..., str]
) -> None:
    folder = tmp_path / "model"
    BUILT["a table"]().save(folder)
    whole = bytearray((folder / "model.safetensors").read_bytes())
    whole[-1] ^= 1
    (folder / "model.safetensors").write_bytes(whole)
    call = ("predict", str(folder), "--text", "a b")
    assert said(*call, code=2) == said(*call, "--device", "cpu", code=2)


@pytest.mark.parametrize("readout", ["exact", "runs"])
def test_random_weights_are_answered_only_where_the_proof_holds(readout: str, tmp_path: Path) -> None:
    """Weights that nobody built: what is answered is what the network says, however close a label may be."""
    answered = 0
    for seed in range(12):
        case = random_case(
            seed, dtype="float64", target="classes", readout=readout, tokens="ids", positions=False, causal=False
        )
        stored = read_model(case.saved.write(tmp_path / f"{seed}"))
        assert stored.vocabulary is not None
        rows = np.random.default_rng(seed).integers(0, len(stored.vocabulary), (8, 3))
        data = ml.Sequences(rows.reshape(-1), np.full(8, 3), stored.vocabulary)
        network = open_model(tmp_path / f"{seed}").load()
        places = np.arange(network.card.labelling.count(data))
        proved = proved_classes(stored, data, places)
        answered += proved is not None
        for path in ("dense", "auto") if proved is not None else ():
            assert np.array_equal(proved, network.labels(data, path=path))
    assert answered


def test_nothing_is_proved_where_subnormal_numbers_count_as_0(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, data = read_model(folders["a table"]), ml.load(folders["a table"]).encode(["a b"])
    assert proved_classes(stored, data, np.zeros(1, dtype=np.int64)) is not None
    monkeypatch.setattr("monolayer.checker.answers.subnormals_are_flushed", lambda: True)
    assert proved_classes(stored, data, np.zeros(1, dtype=np.int64)) is None


def test_an_evaluation_that_errs_is_not_believed(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the wrong class is the largest. Its proof fails, and the network is asked."""
    right = Evaluation.outputs
    monkeypatch.setattr(Evaluation, "outputs", lambda self, tokens, at: -right(self, tokens, at))
    for kind, folder in folders.items():
        stored, saved = read_model(folder), open_model(folder)
        data = saved.load().encode(inputs(kind))
        places = np.arange(saved.load().card.labelling.count(data))
        assert proved_classes(stored, data, places) is None, kind
