"""One setting for all property tests: the same examples in every run, and no clock; and what several files share.

`HYPOTHESIS_PROFILE=explore make test` draws new examples instead. `pytest --shift-seeds 3` shifts every seed, those of
the library included: what then fails had hung on the luck of a seed.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the processors, and with several threads each they mostly wait for one another: training of small
    # networks took five times the processor time. What is set outside holds, so that more threads can be tried.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# Kernels for GPUs run in Triton's interpreter here (test_fused.py); it is asked for before Triton is first imported.
os.environ.setdefault("TRITON_INTERPRET", "1")

import hypothesis.core
import pytest
from hypothesis import settings

import monolayer as ml

if TYPE_CHECKING:  # the process that hands out tests runs none, and waits for neither NumPy nor PyTorch
    import numpy as np

settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

APART = 1_000
"""How far a shift moves a seed: further than the seeds of one test are apart."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shift-seeds", type=int, default=0, metavar="K", help="move every fixed seed by K thousand")


def pytest_configure(config: pytest.Config) -> None:
    """Shift seeds where they are used: in the generators of NumPy and PyTorch and in hypothesis."""
    config.addinivalue_line("markers", "one_seed: about the bits of a seed, so skipped where seeds are shifted")
    shift = config.getoption("--shift-seeds")
    if not shift:
        return
    import numpy as np
    import torch

    settings.register_profile("shifted", deadline=None, derandomize=False, database=None)
    settings.load_profile("shifted")
    hypothesis.core.global_force_seed = shift
    numpy_generator, torch_seed = np.random.default_rng, torch.manual_seed

    def shifted_generator(seed: object = None) -> np.random.Generator:
        if isinstance(seed, int | np.integer):
            seed = int(seed) + APART * shift
        elif isinstance(seed, list | tuple):
            seed = [int(seed[0]) + APART * shift, *seed[1:]]
        return numpy_generator(seed)

    np.random.default_rng = shifted_generator
    torch.manual_seed = lambda seed: torch_seed(int(seed) + APART * shift)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--shift-seeds"):
        for item in items:
            if item.get_closest_marker("one_seed"):
                item.add_marker(pytest.mark.skip(reason="about the bits of one seed"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The collector of garbage waits: it would look at all modules again and again, and find next to nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is imported and collected stays, so the collector of garbage need not look at it later either.

    Nor so often: what tests parse or build is many objects that live for a moment.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    if "torch" in sys.modules:
        _draw_no_numbers_that_are_nowhere()


def _draw_no_numbers_that_are_nowhere() -> None:
    """GPT-2 in transformers draws its weights before it reads them, on a device without memory.

    There PyTorch works out in Python what a draw would give, a fifth of the time in which such folders are loaded.
    """
    import torch

    draw = torch.nn.init.normal_

    def normal(tensor: torch.Tensor, *given: Any, **options: Any) -> torch.Tensor:
        return tensor if tensor.is_meta else draw(tensor, *given, **options)

    torch.nn.init.normal_ = normal


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore Ctrl-C, which some tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def demanding(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Small data crowd a line as only large data do in earnest, if steps ask for more room."""

    def demand(slack: float) -> None:
        for module in ("points", "separate"):
            monkeypatch.setattr(f"monolayer.construct.line.{module}.SLACK", slack)

    return demand


DATA = '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n{"tokens": ["b", "a", "c"], "labels": ["y", "y", "z"]}\n'


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data.jsonl` and its model `m`, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "data.jsonl").write_text(DATA)
    ml.memorize(ml.read(folder / "data.jsonl")).save(folder / "m")
    return folder


@pytest.fixture
def here(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the working folder."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command, a string or its words, that leaves with `code`: what it printed, or its `errors` in one line."""

    from monolayer.cli import run

    def call(*words: str, code: int = 0, errors: bool = False) -> str:
        capsys.readouterr()
        assert run(list(words) if len(words) > 1 else words[0].split()) == code, capsys.readouterr()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return " ".join(printed.err.split()) if errors or code == 2 else printed.out

    return call


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host that facts are attached to; no test changes it."""
    from tests.hosts import write_host  # other tests need no transformers

    return write_host(tmp_path_factory.mktemp("host") / "gpt2")


@pytest.fixture(scope="session")
def with_facts(gpt2: Path) -> Path:
    """The GPT-2 with the facts of `tests.hosts` attached; tests change only copies of it."""
    from tests.hosts import FACTS

    return ml.attach(gpt2, FACTS).save(gpt2.with_name("attached"))


@pytest.fixture
def bounds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts without the evaluation that may refute what bounds leave open: for tests about the bounds."""
    monkeypatch.setattr("monolayer.checker.tried.MOST_WORK", 0)
