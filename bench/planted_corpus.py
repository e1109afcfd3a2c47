"""Questions to the checker, each answered by how much it claims: whole models, damaged ones, and models at the edge of
what is proved, found by bisection with the checker as it is.

At such an edge a bound that is smaller by a millionth proves what the true one does not.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is part of the tests, and stays with them

from tests import attached_attack, stock_attack
from tests.adversary import EACH, FAMILIES, built_case
from tests.evil import TOLERANCE, Evil, evaluate
from tests.hosts import FACTS, write_host
from tests.stored_models import Case, random_case

import monolayer as ml
import planted_recognized
from monolayer.errors import MonolayerError
from monolayer.theory.targets import TARGETS
from planted_told import Claim, claimed

Question = Callable[[], Claim]
Named = Iterator[tuple[str, Question]]
KINDS, DAMAGED, STEPS = 10, 2, 34
STOCK = ("bert token words places", "gpt2 lm characters", "bert token characters cells", "gpt2 lm pieces cells",
         "distilbert sequence characters cells", "llama token words cells")  # fmt: skip
ATTACHED = ("gpt2", "opt", "llama")
APART = ("attached", "questions")
"""Parts of the checker that have questions of their own, which begin with the same word."""
STEPS_OF_A_LINE = "feed_forward.stages.{}.{}"
"""Tensors of steps: of which stage, and which. A line has one stage."""


def corpus(scratch: Path, files: Collection[str]) -> Named:
    """Those that can tell anything of a fault in one of these files, by names; folders lie in `scratch`."""
    scratch = scratch / "corpus"
    if any(not file.startswith(APART) for file in files):
        yield from _own(scratch)
        yield from _edges(scratch)
        yield from _functions(scratch)
        yield from _stock(scratch)
        yield from _located(scratch)
    if any(file.startswith("attached") for file in files):
        yield from _attached(scratch)
    if any(file.startswith("questions") for file in files):
        yield from planted_recognized.proofs(scratch)


def concerns(name: str, file: str) -> bool:
    """Whether a question can tell anything of a fault in a file."""
    located, stock = name.startswith("located"), name.startswith("stock")
    if name.startswith(APART) or file.startswith(APART):
        return name.partition(" ")[0] == file.partition("/")[0]
    if file.startswith("locating"):
        return located
    if file.startswith("stock"):
        return stock or located
    return not stock or file == "rounding.py"


def _case(kind: int) -> Case:
    dtype = "float32" if kind % 3 == 0 else "float64"
    return random_case(kind, dtype=dtype) if kind % 5 not in (2, 4) else built_case(kind, dtype, kind % 5 == 2)


def _ask(folder: Path, case: Case, **options: Any) -> Question:
    case.saved.write(folder)
    return lambda: claimed(folder, case.X, case.Y, **{"tolerance": TOLERANCE, **options})


def _own(scratch: Path) -> Named:
    for kind in range(KINDS):
        case = _case(kind)
        yield f"whole {kind}", _ask(scratch / f"whole {kind}", case)
        if case.saved.config["readout"] == "exact" and case.saved.config["per"] == "token":
            yield f"only {kind}", _ask(scratch / f"whole {kind}", case, only=True, tolerance=None)
        for number, family in enumerate(FAMILIES):
            for fault in range(DAMAGED):
                rng = np.random.default_rng([kind * EACH + fault, number])
                with np.errstate(all="ignore"):
                    damaged = FAMILIES[family](case, rng)
                name = f"{family} {kind} {fault}"
                yield name, _ask(scratch / name, damaged)


def _edge(proved: Callable[[float], bool], bad: float, good: float, steps: int = STEPS) -> float:
    """The number nearest to `good`, by bisection, at which something is not proved; it is at `good`, not at `bad`."""
    for _ in range(steps):
        middle = (good * bad) ** 0.5 if not 0.5 < good / bad < 2.0 else (good + bad) / 2
        good, bad = (middle, bad) if proved(middle) else (good, middle)
    return bad


def _edges(scratch: Path) -> Named:
    """Steps that come near a point until it is too near, and noise until it is too much."""
    for kind in range(KINDS):
        case, folder = _case(kind), scratch / f"edge {kind}"

        def borne(noise: float, case: Case = case, folder: Path = folder) -> bool:
            return claimed(folder, case.X, case.Y, noise=noise).verdict == "proved"

        if case.saved.config["readout"] == "gates":
            case.saved.write(folder)
            yield f"noise {kind}", _ask(folder, case, noise=_edge(borne, 0.25, 2.0**-30), tolerance=None)
        elif STEPS_OF_A_LINE.format(1, "weight_1") not in case.saved.tensors:
            for side in (1.0, -1.0):
                near = _nearer(case, side)
                if near is None:
                    continue

                def apart(share: float, case: Case = case, folder: Path = folder, near: Any = near) -> bool:
                    return (
                        claimed(near(share).saved.write(folder), case.X, case.Y, tolerance=TOLERANCE).verdict
                        != "undecided"
                    )

                moved = near(_edge(apart, 2.0**-60, 1.0))
                yield f"edge {kind} {side:g}", _ask(scratch / f"edge {kind} {side:g}", moved)


def _nearer(case: Case, side: float) -> Callable[[float], Case] | None:
    """The model with the step that is nearest to a point on one side of it moved to a share of its distance."""
    how = Evil.plain(np.random.default_rng(0))
    evaluate(case.saved, case.X[0], how)
    met = how.met[0]
    z = float(met[0] if case.saved.config["per"] == "sequence" else met[1])
    t = case.saved.tensors
    w, b = (t[STEPS_OF_A_LINE.format(0, name)].astype(float) for name in ("weight_1", "bias_1"))
    edges = (-b / w) if side > 0 else (1 - b) / w
    ahead = np.flatnonzero(side * (edges - z) > 0)
    if len(ahead) == 0:
        return None
    j = int(ahead[np.argmin(side * (edges[ahead] - z))])

    def moved(share: float) -> Case:
        edge = z + (edges[j] - z) * share
        bias = -w[j] * edge if side > 0 else 1 - w[j] * edge
        return replace(case, saved=case.saved.edited(STEPS_OF_A_LINE.format(0, "bias_1"), j, bias))

    return moved


def _functions(scratch: Path) -> Named:
    for name, dim, length, positions in (("force", 2, 2, False), ("max", 2, 2, True), ("nearest", 1, 3, False)):
        target = TARGETS[name]
        for norm in ("sup", "cells"):
            options: Any = {"norm": "sup"} if norm == "sup" else {"lipschitz": 2.0}
            model = ml.approximate(target.function, dim, length, cells=3, positions=positions, **options)
            folder = model.save(scratch / f"{norm} {name}")
            yield f"{norm} {name}", lambda folder=folder, f=target.function: claimed(folder, f)  # type: ignore[misc]
            for tolerance in (0.01, 1.0):
                moved = lambda X, f=target.function, far=tolerance: np.asarray(f(X)) + far / 2  # noqa: E731
                yield (
                    f"{norm} {name} {tolerance}",
                    lambda folder=folder, f=moved, t=tolerance: claimed(folder, f, tolerance=t),
                )  # type: ignore[misc]
            other = lambda X, f=target.function: np.asarray(f(X)) * (1 + 1e-9)  # noqa: E731
            yield f"{norm} not {name}", lambda folder=folder, f=other: claimed(folder, f)  # type: ignore[misc]


def _stock(scratch: Path) -> Named:
    from safetensors.numpy import load, save

    for words in STOCK:
        name, task, cut, *rest = words.split()
        case = stock_attack.Case(name, task, cut, bool(rest), "cells" in rest)  # type: ignore[arg-type]
        folder = case.build(scratch / f"stock {words}")
        given = (case.rows,) if case.labels is None else (case.rows, case.labels)
        yield f"stock {words}", lambda folder=folder, given=given: claimed(folder, *given)  # type: ignore[misc]
        if not case.robust:
            yield f"stock only {words}", lambda folder=folder, given=given: claimed(folder, *given, only=True)  # type: ignore[misc]
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        tensors = load(files["model.safetensors"]) if case.cut else {}
        rng = np.random.default_rng(len(words))
        for number in range(2):
            which = str(rng.choice(sorted(key for key, value in tensors.items() if value.any())))
            jolt = rng.normal(size=tensors[which].shape)
            jolt = jolt if number % 3 else jolt * (rng.random(jolt.shape) < 2.0 / jolt.size)
            place = scratch / f"stock {words} {number}"

            def moved(share: float, which: str = which, jolt: Any = jolt, place: Path = place, files: Any = files,
                      tensors: Any = tensors) -> Path:  # fmt: skip
                place.mkdir(exist_ok=True)
                new = {**tensors, which: (tensors[which] * (1.0 + share * jolt)).astype(tensors[which].dtype)}
                for file, content in {**files, "model.safetensors": save(new, {"format": "pt"})}.items():
                    (place / file).write_bytes(content)
                return place

            def borne(share: float, given: Any = given, moved: Any = moved) -> bool:
                return claimed(moved(share), *given).verdict == "proved"

            moved(_edge(borne, 1.0, 2.0**-50, steps=8))
            yield f"stock {words} {number}", lambda place=place, given=given: claimed(place, *given)  # type: ignore[misc]


def _located(scratch: Path) -> Named:
    for kind in (1, 2, 3):
        folder, case = scratch / f"whole {kind}", _case(kind)
        yield f"located {kind}", lambda folder=folder, case=case: _where(folder, case)  # type: ignore[misc]
    for words in (STOCK[0], STOCK[2]):
        name, task, cut, *rest = words.split()
        stock = stock_attack.Case(name, task, cut, bool(rest), "cells" in rest)  # type: ignore[arg-type]
        yield f"located {words}", lambda folder=scratch / f"stock {words}", case=stock: _where(folder, case)  # type: ignore[misc]


def _where(folder: Path, case: Any) -> Claim:
    given = (case.X, case.Y) if isinstance(case, Case) else (case.rows, case.labels)
    try:
        return Claim(f"found {[repr(one) for one in ml.locate(folder, *given)]}")
    except MonolayerError as error:
        return Claim(type(error).__name__)


def _attached(scratch: Path) -> Named:
    """Facts attached to small hosts, whole and some of them; and with a tensor changed until that is too much."""
    from safetensors.numpy import load_file, save_file

    for kind in ATTACHED:
        host = write_host(scratch / f"host {kind}", kind)
        folder = ml.attach(host, FACTS).save(scratch / f"attached {kind}")
        some = dict(list(FACTS.items())[:5])
        for what, facts in (("all", FACTS), ("some", some)):
            for only in (False, True):
                yield (
                    f"attached {kind} {what} {only}",
                    lambda folder=folder, facts=facts, only=only: claimed(folder, facts, only=only),  # type: ignore[misc]
                )
        tensors = load_file(folder / attached_attack.ATTACHED_WEIGHTS)
        for number, which in enumerate(sorted(name for name, value in tensors.items() if value.any())):
            jolt = np.random.default_rng(number).normal(size=tensors[which].shape)
            place = scratch / f"attached {kind} {number}"
            shutil.copytree(folder, place)

            def moved(
                share: float, which: str = which, jolt: Any = jolt, place: Path = place, tensors: Any = tensors
            ) -> Path:
                new = {**tensors, which: (tensors[which] * (1.0 + share * jolt)).astype(tensors[which].dtype)}
                save_file(new, place / attached_attack.ATTACHED_WEIGHTS, {"format": "pt"})
                attached_attack.retell(place)
                return place

            def borne(share: float, moved: Any = moved) -> bool:
                return claimed(moved(share), FACTS).verdict == "proved"

            moved(_edge(borne, 1.0, 2.0**-50, steps=8))
            yield f"attached {kind} {number}", lambda place=place: claimed(place, FACTS)  # type: ignore[misc]
