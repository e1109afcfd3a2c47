"""What a caller has set in PyTorch changes neither bits nor answers of a model, and is restored afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.data.subnormal import subnormals_are_flushed
from monolayer.model.torch_settings import callers_settings, own_settings
from tests.flushed import flushing
from tests.hosts import FACTS, same_model

TABLE = {f"key {i}": f"value {i % 3}" for i in range(12)}
VECTORS = np.linspace(0.0, 1.0, 24).reshape(4, 3, 2)


@contextmanager
def long_type() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def meta_for_all() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


SETTINGS: dict[str, Callable[[], Any]] = {
    "float64": long_type,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "meta": meta_for_all,
    "meta here": lambda: torch.device("meta"),
    "inference": torch.inference_mode,
    "flushed": flushing,
}


def centred(X: Any) -> Any:
    return X - X.mean(axis=1, keepdims=True)


BUILDS: dict[str, Callable[[], Any]] = {
    "line": lambda: ml.memorize(TABLE),
    "float32": lambda: ml.memorize(TABLE, dtype="float32"),
    "reals": lambda: ml.memorize([[1], [2], [3]], [0.5, 1.5, 2.5]),
    "vectors": lambda: ml.memorize(VECTORS, [0, 1, 2, 0]),
    "text": lambda: ml.memorize_text("to be or not to be"),
    "robust": lambda: ml.memorize(TABLE, robust=True),
    "robust bfloat16": lambda: ml.memorize(TABLE, robust=True, dtype="bfloat16"),
    "approximator": lambda: ml.approximate(centred, dim=1, length=2, cells=4),
    "sup": lambda: ml.approximate(centred, dim=1, length=2, cells=4, norm="sup"),
    "bert": lambda: ml.memorize_as("bert", TABLE),
    "llama": lambda: ml.memorize_as("llama", list(FACTS)[:3], list(FACTS.values())[:3]),
    "steps": lambda: ml.memorize_as("gpt2", [[1, 2], [3, 4]], [[0, 1], [1, 0]], storage="steps", per="token"),
    "edit": lambda: ml.edit(ml.memorize(TABLE, robust=True), {"key 1": "value 0"}, data=TABLE)[0],
}


def written(model: Any, folder: Path) -> dict[str, bytes]:
    """The files of a model, by name."""
    model.save(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@cache
def _usual(kind: str) -> Any:
    return BUILDS[kind]()


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", BUILDS)
def test_builds_have_the_same_bits_under_any_settings(kind: str, setting: str, tmp_path: Path) -> None:
    usual = written(_usual(kind), tmp_path / "usual")
    with SETTINGS[setting]():
        found = written(BUILDS[kind](), tmp_path / "found")
        ml.load(tmp_path / "found").save(tmp_path / "again")
    assert found == usual
    again = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir() if path.is_file()}
    assert {name: again[name] for name in again if name.endswith("safetensors")} == {
        name: usual[name] for name in usual if name.endswith("safetensors")
    }


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "kind", ["line", "float32", "reals", "vectors", "text", "robust", "approximator", "sup", "bert"]
)
def test_answers_are_the_same_under_any_settings(kind: str, setting: str, tmp_path: Path) -> None:
    model = _usual(kind)
    X: Any = {"reals": [[1], [2]], "vectors": VECTORS, "text": [["to", " "]]}.get(kind, list(TABLE))
    X = [[[0.1], [0.9]]] if kind in ("approximator", "sup") else X
    usual = model.predict(X)
    model.save(tmp_path / "model")
    with SETTINGS[setting]():
        assert np.array_equal(model.predict(X), usual)
        assert np.array_equal(ml.load(tmp_path / "model").predict(X), usual)
        if kind not in ("bert", "sup"):
            assert np.array_equal(model.predict(X, path="dense"), usual)


@pytest.mark.parametrize("setting", SETTINGS)
def test_attached_facts_have_the_same_bits_under_any_settings(
    setting: str, gpt2: Path, with_facts: Path, tmp_path: Path
) -> None:
    with SETTINGS[setting]():
        made = ml.attach(gpt2, FACTS)
        made.save(tmp_path / "found")
        assert ml.load(tmp_path / "found").predict(list(FACTS)[:2]).tolist() == list(FACTS.values())[:2]
        ml.detach(tmp_path / "found").save(tmp_path / "host")
    assert same_model(tmp_path / "found", with_facts)
    weights = (tmp_path / "host" / "model.safetensors").read_bytes()
    assert weights == (gpt2 / "model.safetensors").read_bytes()


@pytest.mark.parametrize("setting", SETTINGS)
def test_exported_models_have_the_same_bits_under_any_settings(setting: str, tmp_path: Path) -> None:
    usual = ml.export(_usual("line"), tmp_path / "usual", "bert", list(TABLE))
    with SETTINGS[setting]():
        found = ml.export(_usual("line"), tmp_path / "found", "bert", list(TABLE))
    assert ml.compare(usual, found).same


def test_files_give_the_same_bits_under_any_settings(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("text,label\n" + "".join(f"{key},{value}\n" for key, value in TABLE.items()))
    options: dict[str, Any] = {"tokens": "text", "labels": "label", "unit": "whole"}
    ml.memorize_files(tmp_path / "data.csv", tmp_path / "usual", **options)
    for setting in SETTINGS:
        with SETTINGS[setting]():
            ml.memorize_files(tmp_path / "data.csv", tmp_path / setting, workers=1, **options)  # in this process
        weights = [{path.name: path.read_bytes() for path in (tmp_path / of).iterdir()} for of in (setting, "usual")]
        assert weights[0] == weights[1], setting


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_are_there_again_also_after_an_error(setting: str) -> None:
    def current() -> tuple[object, ...]:
        like = torch.empty(0)
        casts, inference = torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()
        return like.dtype, like.device, casts, inference, subnormals_are_flushed()

    usual = current()
    with SETTINGS[setting]():
        before = current()
        assert before != usual
        with own_settings():
            assert current() == usual
            with own_settings():
                assert current() == usual
            with callers_settings():
                assert current() == before
                with own_settings():  # the function of a caller may be a model
                    assert current() == usual
                assert current() == before
            assert current() == usual
        with pytest.raises(ml.DataError):
            ml.memorize([[1]], [[1, 2, 3]])
        assert current() == before
    assert current() == usual


def test_a_weight_built_in_inference_mode_can_be_trained() -> None:
    with torch.inference_mode():
        model = ml.memorize(TABLE, robust=True)
    assert not any(parameter.is_inference() for parameter in model.parameters())


def test_functions_of_the_caller_run_with_the_settings_of_the_caller() -> None:
    seen = set()

    def f(X: Any) -> Any:
        seen.add((torch.get_default_dtype(), torch.is_autocast_enabled("cpu")))
        return centred(X)

    with long_type(), torch.autocast("cpu", torch.bfloat16):
        ml.approximate(f, dim=1, length=2, error=0.5, lipschitz=2.0)
    assert seen == {(torch.float64, True)}


def test_two_threads_do_not_give_the_type_back_to_each_other() -> None:
    from threading import Barrier, Thread

    found, both = [], Barrier(2, timeout=60)

    def one() -> None:
        with own_settings():
            both.wait()
        both.wait()  # this thread has left, the other is still inside
        both.wait()

    def two() -> None:
        with own_settings():
            both.wait()
            both.wait()
            found.append(torch.get_default_dtype())
        both.wait()

    with long_type():
        threads = [Thread(target=one), Thread(target=two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [torch.float32]
        assert torch.get_default_dtype() == torch.float64
