"""How many parameters do facts on given keys need? Constructions of hebbian-mlps, a margin, and gradient descent.

F facts on F given unit vectors of R^d, each mapped to another of them at random; `gated.py` has the network, 3dm
numbers, and the ways to build it. For every way, every load `F/d²` and every draw: the least width m, to a twentieth,
at which every fact comes back and is certified by a bound on rounding. Two counts of parameters: all 3dm, or the dm of
the readout alone where the gates are random and a seed draws them again.

Noise is asked at one load and one width, the least at which ridge regression on random features holds all facts: the
largest σ at which multiplying all 3dm numbers by `1 + σ · normal` leaves 99 of 100 facts right.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import torch

from monolayer.table import Progress
from monolayer_experiments import gated
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.gated import Facts, Gated
from monolayer_experiments.look import amount, column, distinct, figure, line, low_to_high, table, where
from monolayer_experiments.perturbed import ENOUGH, NOISE_DRAWS

QUESTION = "How many parameters do facts on given keys need?"

PLAN = {
    "dims": ((12,), (64, 90, 128)),
    "loads": ((1 / 4,), (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)),
    "draws": (2, 5),
    "steps": (200, 500),
    "training": (300, 3_000),
    "trained facts": (100, 2_100),
    "noisy load": (1 / 4, 1 / 8),
    "widest": (256, 16_384),
}
"""Quick and full. `steps` of the convex problem; `training`: steps of gradient descent, which is asked of so many facts
at most (`trained facts`)."""
KINDS = {"isotropic": False, "anisotropic": True}
PROCESSES = 3
"""How many processes share a GPU."""
PRECISION = 0.05
"""The least width is found to this share."""
RATES = (1e-2, 3e-3, 3e-2)
"""Learning rates of gradient descent; each dimension takes the best at its first load."""
WAYS = {
    "Hebbian": 0.03,
    "whitened": 0.085,
    "fitted": 0.2,
    "margin": 0.4,
    "fitted, margin": 0.7,
    "trained": 1.5,
}
"""The ways to build a network, and the bits per parameter at which the search begins."""
COLOURS = dict(zip(WAYS, ("grey", "red", "gold", "blue", "green", "orange"), strict=True))
NOISE = "noise"
"""The part of a dimension that asks for the noise at one load, where others find the widths of one way."""
PARTS = ("whitened", "margin", "trained", "fitted", "fitted, margin", NOISE, "Hebbian")
"""The parts of a dimension, in the order in which they are measured."""
RANDOM_GATES = ("Hebbian", "whitened", "margin")
"""Ways whose gates a seed draws again."""


class Cell(NamedTuple):
    """One dimension and one of `PARTS`: a share of the work that needs no other."""

    dim: int
    part: str
    plan: Results
    seed: int
    device: str

    @property
    def loads(self) -> list[float]:
        """The loads at which this part measures, in rising order."""
        loads = sorted(self.plan["loads"])
        if self.part == NOISE:
            return [self.plan["noisy load"]]
        few = self.plan["trained facts"] if self.part == "trained" else math.inf
        return [load for load in loads if self.facts(load) <= few]

    def facts(self, load: float) -> int:
        return round(load * self.dim**2)

    @property
    def seeds(self) -> list[int]:
        """Seeds of the draws of one kind of keys."""
        return [1_000 * self.seed + draw for draw in range(self.plan["draws"])]

    def draw(self, load: float) -> Facts:
        """The facts of a load: all draws of the first kind of keys, then all of the second, in one batch."""
        first, second = (
            gated.draw(self.facts(load), self.dim, self.seeds, spiked=spiked, device=self.device)
            for spiked in KINDS.values()
        )
        return first.beside(second)


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Find how few parameters of each kind of network still hold facts on given keys, for each dimension and load.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    cells = cells_of(plan, setting)
    rows: list[Results] = []
    if setting.device == "cpu":
        for done, cell in enumerate(cells):
            progress(f"d = {cell.dim}, {cell.part}", done / len(cells))
            rows += measured_whole(cell)
    else:  # small problems leave a GPU waiting for the next launch, so several processes share it
        with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
            for done, part in enumerate(pool.map(measured_whole, cells)):
                progress(f"d = {cells[done].dim}, {cells[done].part}", (done + 1) / len(cells))
                rows += part
    return together(plan, rows)


def cells_of(plan: Results, setting: Setting) -> list[Cell]:
    """All cells of a plan, small dimensions first: a run that is stopped then lacks the least."""
    return [Cell(dim, part, plan, setting.seed, setting.device) for dim, part in product(sorted(plan["dims"]), PARTS)]


def measured_whole(cell: Cell) -> list[Results]:
    """All rows of a cell; a process of its own may be asked for them."""
    return list(measured(cell))


def together(plan: Results, rows: list[Results]) -> Results:
    """The results of an experiment from the rows of its cells, whichever cell ended first."""
    order = {way: number for number, way in enumerate(WAYS)}
    rows = sorted(rows, key=lambda row: (order[row["way"]], row["kind"] != "isotropic", row["dim"], row["load"]))
    return {
        "draws": plan["draws"],
        "noisy load": plan["noisy load"],
        "rows": [row for row in rows if "widths" in row],
        "noise": [row for row in rows if "noise" in row],
    }


def measured(cell: Cell) -> Iterator[Results]:
    """The rows of a cell, one load after the other: least widths of a way, or the noise that every way tolerates."""
    if cell.part == NOISE:
        yield from _noise_rows(cell)
        return
    rate = _best_rate(cell) if cell.part == "trained" else None
    build = _builder(cell.part, cell.plan, rate)
    densities = dict.fromkeys(KINDS, WAYS[cell.part])
    for load in cell.loads:
        for row in _least_rows(cell, load, build, densities):
            yield row if rate is None else row | {"rate": rate}


def _least_rows(cell: Cell, load: float, build: Build, densities: dict[str, float]) -> list[Results]:
    """A row per kind of keys: least widths at one load. The search begins at `densities`, which it updates."""
    count = cell.facts(load)
    guesses = [_width(count, cell.dim, densities[kind]) for kind in KINDS for _ in cell.seeds]
    widths = _least(build, cell.draw(load), cell.seeds * len(KINDS), guesses, cell.plan["widest"])
    rows = []
    for number, kind in enumerate(KINDS):
        of_cell = widths[number * len(cell.seeds) : (number + 1) * len(cell.seeds)]
        row = {"way": cell.part, "kind": kind, "dim": cell.dim, "load": load, "facts": count, "widths": of_cell}
        if None not in of_cell:
            densities[kind] = density(row)
        rows.append(row)
    return rows


def _noise_rows(cell: Cell) -> Iterator[Results]:
    """Rows of the noise that every way tolerates at the width that ridge regression needs, found again here."""
    ridge = cell._replace(part="whitened")
    build, densities = _builder("whitened", cell.plan, None), dict.fromkeys(KINDS, WAYS["whitened"])
    load = cell.plan["noisy load"]
    for each in ridge.loads[: ridge.loads.index(load) + 1]:
        rows = _least_rows(ridge, each, build, densities)
    # Where some draw has no width within the widest, that one is used.
    widths = {row["kind"]: max(each or cell.plan["widest"] for each in row["widths"]) for row in rows}
    facts, rate = cell.draw(load), _best_rate(cell)
    for way in WAYS:
        build = _builder(way, cell.plan, rate, settle=True)
        network = build(facts, [widths[kind] for kind in KINDS for _ in cell.seeds], cell.seeds * len(KINDS))
        borne = _tolerance(network, facts)
        for number, kind in enumerate(KINDS):
            of_cell = borne[number * len(cell.seeds) : (number + 1) * len(cell.seeds)]
            row = {"way": way, "kind": kind, "dim": cell.dim, "load": load, "facts": cell.facts(load)}
            yield row | {"width": widths[kind], "noise": of_cell}


Build = Callable[[Facts, list[int], list[int]], Gated]


def _builder(way: str, plan: Results, rate: float | None, *, settle: bool = False) -> Build:
    """How a way builds networks of given widths; `settle`: for a wide margin, not for the first that is right."""
    steps = plan["steps"]

    def build(facts: Facts, widths: list[int], seeds: list[int]) -> Gated:
        if way == "trained":
            return gated.trained(facts, widths, seeds, rate or RATES[0], plan["training"], settle=settle)
        if way == "Hebbian":
            return gated.hebbian(facts, widths, seeds)
        start = (gated.fitted if way.startswith("fitted") else gated.whitened)(facts, widths, seeds)
        return gated.margin(facts, start, steps, settle=settle) if way.endswith("margin") else start

    return build


def _width(facts: int, dim: int, bits: float) -> int:
    """The width at which all 3dm parameters hold so many bits each."""
    return max(2, round(facts * math.log2(facts) / (3 * dim * bits)))


def _best_rate(cell: Cell) -> float:
    """The learning rate that leaves the fewest facts wrong at the first load, at a width that is about the least."""
    load, seeds = min(cell.plan["loads"]), cell.seeds * len(KINDS)
    facts, widths = cell.draw(load), [_width(cell.facts(load), cell.dim, WAYS["trained"])] * len(seeds)
    right = {
        rate: float(gated.recalled(gated.trained(facts, widths, seeds, rate, cell.plan["training"]), facts).mean())
        for rate in RATES
    }
    return max(right, key=lambda rate: right[rate])


def _least(build: Build, facts: Facts, seeds: list[int], guesses: list[int], widest: int) -> list[int | None]:
    """For each draw the least width, to PRECISION, at which every fact is certified; None: more than `widest`."""
    searches = [WidthSearch(min(guess, widest), widest) for guess in guesses]
    while left := [one for one, search in enumerate(searches) if not search.done]:
        widths, some = [searches[one].next for one in left], facts.some(left)
        network = build(some, widths, [seeds[one] for one in left])
        for one, share in zip(left, gated.certified(network, some).tolist(), strict=True):
            searches[one].hear(share == 1.0)
    return [search.high for search in searches]


class WidthSearch:
    """The search of one draw: the widest that failed, the narrowest that did not, and which is asked next.

    From the guess it goes up or down in growing strides until both are known, and then halves what lies between.
    """

    def __init__(self, guess: int, widest: int) -> None:
        self.widest = widest
        self.low = 0
        self.high: int | None = None
        self.next = max(1, guess)
        self.stride = 1.1

    @property
    def done(self) -> bool:
        if self.high is None:
            return self.low >= self.widest
        return self.high - self.low <= max(1.0, PRECISION * self.high)

    def hear(self, well: bool) -> None:
        if well:
            self.high = self.next
        else:
            self.low = self.next
        if self.high is None:
            self.next = min(self.widest, math.ceil(self.low * self.stride) + 1)
        elif self.low == 0:
            self.next = max(1, math.floor(self.high / self.stride) - 1)
        else:
            self.next = (self.low + self.high) // 2
        self.stride = min(4.0, self.stride**1.5)


def _tolerance(network: Gated, facts: Facts) -> list[float | None]:
    """For each network the largest σ, to a twentieth of a decade, that leaves enough facts right in every draw."""

    def holds(sigma: float) -> torch.Tensor:
        shares = [gated.recalled(network, facts, sigma, seed) for seed in range(NOISE_DRAWS)]
        return torch.stack(shares).amin(0) >= ENOUGH

    powers = [-4.0 + 0.05 * step for step in range(81)]
    largest: list[float | None] = [None] * len(facts.table)
    for power in powers:
        held = holds(10.0**power).tolist()
        for one, well in enumerate(held):
            if well:
                largest[one] = 10.0**power
        if not any(held):
            break
    return largest


def density(row: Results) -> float:
    """Bits per parameter, all 3dm counted, in the mean over the draws."""
    widths = row["widths"]
    return float(row["facts"] * math.log2(row["facts"]) * len(widths) / (3 * row["dim"] * sum(widths)))


def _found(results: Results) -> list[Results]:
    return [row for row in results["rows"] if None not in row["widths"]]


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    rows = where(_found(results), kind="isotropic")
    random, fitted = (
        low_to_high(_ratios(rows, squares, margin))
        for squares, margin in (("whitened", "margin"), ("fitted", "fitted, margin"))
    )
    return (
        f"{_training_said(_found(results))} A margin in place of least squares needs {random} times fewer parameters "
        f"on the same random gates, and {fitted} times fewer on the same fitted gates."
    )


def _by_way(results: Results) -> list[Results]:
    """For each way the bits per parameter over all loads and dimensions, and the noise that it tolerates."""
    rows = []
    for way in WAYS:
        of_kind = {kind: where(_found(results), way=way, kind=kind) for kind in KINDS}
        said = {kind: low_to_high(map(density, found)) if found else "—" for kind, found in of_kind.items()}
        alone = way in RANDOM_GATES and of_kind["isotropic"]
        readout = low_to_high(3 * density(row) for row in of_kind["isotropic"]) if alone else "—"
        noise = _noise_said(where(results["noise"], way=way, kind="isotropic"))
        rows.append({"way": way, **said, "readout": readout, "noise": noise})
    return rows


def _training_said(rows: list[Results]) -> str:
    """How gradient descent compares with the best construction, wherever both were measured."""
    best: dict[tuple[str, int, float], float] = {}
    for row in rows:
        if row["way"] != "trained":
            place = row["kind"], row["dim"], row["load"]
            best[place] = max(best.get(place, 0.0), density(row))
    asked = [row for row in where(rows, way="trained") if (row["kind"], row["dim"], row["load"]) in best]
    if not asked:
        return "Gradient descent was not asked."
    ratios = [density(row) / best[row["kind"], row["dim"], row["load"]] for row in asked]
    return (
        f"Gradient descent on all three matrices needs fewer parameters than every construction in "
        f"{sum(ratio > 1.0 for ratio in ratios)} of the {len(ratios)} cases where it was asked; the best construction "
        f"needs {low_to_high(ratios)} times as many."
    )


def _ratios(rows: list[Results], wide: str, narrow: str) -> list[float]:
    """How many times wider one way is than another, wherever both were measured."""
    pairs = product(where(rows, way=wide), where(rows, way=narrow))
    return [
        density(small) / density(large)
        for large, small in pairs
        if (large["dim"], large["load"]) == (small["dim"], small["load"])
    ]


def _noise_said(rows: list[Results]) -> str:
    every = [each for row in rows for each in row["noise"]]
    shares = [each for each in every if each is not None]
    if not shares:
        return "none tried"
    words = low_to_high(shares, lambda each: amount(each, 2))
    return words if len(shares) == len(every) else f"{words}, none in {len(every) - len(shares)} of {len(every)} draws"


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    made = []
    for kind in KINDS:
        rows = [row for row in _found(results) if row["kind"] == kind]
        traces = []
        for way in WAYS:
            for number, dim in enumerate(distinct(rows, "dim")):
                of_way = where(rows, way=way, dim=dim)
                x, y = [row["load"] for row in of_way], [density(row) for row in of_way]
                if of_way:
                    traces.append(line(way, x, y, COLOURS[way], legend=number == 0))
        made.append(
            figure(
                f"Bits per parameter against load, {kind} keys",
                traces,
                ("facts over d²", "bits per parameter"),
                "A curve per dimension. The least width at which every fact is certified, in the mean over "
                f"{results['draws']} draws of the data; all 3dm parameters count. Hebbian, whitened and fitted are "
                "constructions of hebbian-mlps (2607.10034), written again here.",
                log="xy",
                ticks_x=distinct(rows, "load"),
            )
        )
    return made


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    shown: Results = {
        "width": lambda row: low_to_high(row["widths"]) if None not in row["widths"] else "—",
        "bits": lambda row: density(row) if None not in row["widths"] else None,
        "readout": lambda row: 3 * density(row) if row["way"] in RANDOM_GATES and None not in row["widths"] else None,
        "noise": lambda row: _noise_said([row]),
    }
    head = (
        "way; keys: kind; d: dim; facts over d²: load; facts; width; bits per parameter: bits; of the readout: readout"
    )
    noisy = "way; keys: kind; d: dim; facts; width; noise"
    summary = (
        "way; isotropic keys: isotropic; anisotropic keys: anisotropic; of the readout alone: readout; noise that "
        "leaves 99 of 100 facts right: noise"
    )
    return [
        table(
            "Bits per parameter, every fact right and certified, over loads and dimensions", _by_way(results), summary
        ),
        table("Least widths", results["rows"], head, **shown),
        table("Noise at the width of ridge regression", results["noise"], noisy, noise=shown["noise"]),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    trained = where(results["rows"], way="trained")
    rates = low_to_high(column(trained, "rate"))
    asked = max(column(trained, "facts"), default=0)
    failed = {way: sum(None in row["widths"] for row in where(results["rows"], way=way)) for way in WAYS}
    few = "; ".join(f"{way}, {n} of {len(where(results['rows'], way=way))}" for way, n in failed.items() if n)
    beyond = f" Cases where no layer tried was wide enough in every draw are not counted: {few}." if few else ""
    dims = ", ".join(map(str, sorted(distinct(results["rows"], "dim"))))
    return (
        f"Measured for d = {dims}. Keys are values too, and facts a permutation of them, as in hebbian-mlps; its "
        "constructions are our own "
        "re-implementation from its text and formulas, in binary64, not its code. The search takes a width for too "
        f"small where the steps that it has are not enough. Gradient descent was asked of up to {asked:,} facts, all "
        f"of them in every step, at the best of {len(RATES)} learning rates ({rates} chosen).{beyond}"
    )
