"""`memorize_files`: the line of `construct/line`, from files to a folder, with the same bits as `memorize` gives.

encode      every file to numbers, once                         encode.py
measure     contexts under each draw, range by range            measure.py
points      z of every block, cut into ranges by sampled splitters
parts       each range sorted, and its steps written            ranges.py
finish      the small tensors, the index, the card              finish.py
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from monolayer.cluster import crowds, encode, measure, ranges
from monolayer.cluster.blocks import Block, Rules, blocks, sample
from monolayer.cluster.contested import contradiction, with_stages
from monolayer.cluster.executor import Engine, Executor, executor
from monolayer.cluster.finish import Found, finish
from monolayer.cluster.room import HOUSE, HUT, Room
from monolayer.cluster.spill import PausedError, Spill, identity, is_full, opened
from monolayer.cluster.tables import for_workers
from monolayer.construct.construction import Progress
from monolayer.construct.line.build import by_label
from monolayer.construct.line.draw import Draw, Layout, Tokens, candidates, check_seed, check_temperature
from monolayer.construct.line.gaps import Gaps
from monolayer.construct.line.points import Floats, contextual_points, scale
from monolayer.construct.line.separate import DRAWS, hopeless
from monolayer.construct.line.values import MOST
from monolayer.data.folder import check_output
from monolayer.data.labels import Per, check_per
from monolayer.data.layout import Unit
from monolayer.data.shards import files as matching
from monolayer.data.shards import strangers
from monolayer.data.size import tokens_at_most
from monolayer.errors import DataError

SAMPLE = 1 << 20
"""Tokens, about, that splitters are taken from."""


def memorize_files(
    files: str | os.PathLike[str] | list[str],
    out: str | os.PathLike[str],
    *,
    memory: str | int | float = "2GB",
    workers: int | None = None,
    engine: Engine = "processes",
    scheduler: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    positions: bool = False,
    causal: bool = False,
    temperature: float | None = None,
    rank: int | Literal["auto"] = "auto",
    seed: int = 0,
    format: str | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    sequence: str | None = None,
    unit: Unit | None = None,
    per: Per | None = None,
    progress: Progress | None = None,
) -> Path:
    """The model that `memorize` would build from all these files together, bit for bit, in a folder; its path.

    `files`: a pattern such as `shards/*.parquet`, or a list of files; ids or strings, with classes as labels, or causal
    without labels. At most `memory` is held at one time by all processes of this machine together; what does not fit
    lies beside `out` while it is built. `engine`: `processes` (as many as `workers`, by default one a processor),
    `threads`, or `dask`: the workers of the cluster whose `scheduler` is at this address, or of this client; they must
    see the files and the folder under the same paths. `resume=True` goes on with a build that was stopped.
    `positions`, `causal`, `temperature`, `rank`, `seed`: as for `memorize`, but that `rank=1` never turns to gates;
    `format` to `per`: as for `monolayer.data.read`.
    """
    began = time.perf_counter()
    names = _names(files)
    check_seed(seed)
    check_temperature(temperature)
    check_per(per)
    if rank != "auto" and not (type(rank) is int and rank >= 1):
        raise DataError(f"rank must be a whole number from 1, or 'auto', not {rank!r}")
    if engine not in ("processes", "threads", "dask"):
        raise DataError(f"engine must be one of 'processes', 'threads', 'dask', not {engine!r}")
    if workers is None:
        workers = os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise DataError(f"workers must be a whole number from 1 on, not {workers!r}")
    final = check_output(out, overwrite=overwrite)
    shards = [identity(name) for name in names]
    house = 0 if engine != "processes" else HOUSE if positions or causal else HUT
    room = Room.of(memory, workers, house, max(tokens_at_most(name, format) for name in names))
    reading = {"format": format, "tokens": tokens, "labels": labels, "sequence": sequence, "unit": unit, "per": per}
    wishes = {"positions": positions, "causal": causal, "temperature": temperature, "rank": rank, "seed": seed}
    journal = {"shards": shards, **reading, **wishes, "memory": str(memory), "workers": workers}
    report = progress or (lambda stage, share: None)
    kept = False
    try:
        with executor(engine, workers, scheduler) as doing, opened(final, journal, resume) as spill:
            kept = True
            build = Build(spill, doing, room, shards, report)
            found = build.line(
                encode.Reading(reading, causal), positions, temperature, seed, MOST if rank == "auto" else rank
            )
            for shard in shards:
                if identity(shard["name"]) != shard:
                    raise DataError(f"{shard['name']} changed while the model was built: start anew")
            report("writing", 1.0)
            return finish(spill, found, final, overwrite, began)
    except OSError as error:
        if not is_full(error):
            raise
        raise OSError(
            error.errno, f"the disk of {final.absolute().parent} is full. Make room there, then {_again(final)}"
        ) from None
    except PausedError as error:
        raise DataError(f"{error}. When it is mended, {_again(final)}") from None
    except KeyboardInterrupt as stop:
        if kept:
            stop.add_note(f"interrupted; {_again(final)}")
        raise


def _again(out: Path) -> str:
    return f"go on from what is done with resume=True (--resume), or delete {out.with_name(f'.{out.name}.building')}"


def _names(files: Any) -> list[str]:
    if isinstance(files, str | os.PathLike):
        found = matching(os.fspath(files))
    else:
        found = [name for each in files for name in matching(os.fspath(each))]
        if not found:
            raise DataError("the list of files is empty: give at least one")
    if "-" in found:
        raise DataError("standard input can be read only once: give files")
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{twice} is given twice: its rows would stand in the data twice")
    return found


@dataclass(frozen=True, eq=False)
class Build:
    """A build under way."""

    spill: Spill
    doing: Executor
    room: Room
    shards: list[dict[str, Any]]
    report: Progress

    def line(
        self, reading: encode.Reading, positions: bool, temperature: float | None, seed: int, allowed: int
    ) -> Found:
        """The line, stage by stage, as `construct/line/build.py` has it."""
        found = self._read(reading, positions, temperature)
        rules, labelled = found.rules, found.labelled
        pieces = [block for i in range(len(self.shards)) for block in blocks(self.spill, i, self.room.block)]
        some = sample(self.spill, pieces, rules, SAMPLE)
        tried, best, fewest = 0, found, math.inf
        layouts: tuple[Layout, ...] = ("cells", "mixed")
        for layout in layouts:
            for number, draw, gaps in self._ranked(rules, pieces, some[0], layout, seed):
                tried += 1
                kappa = 1.0 if rules.per == "sequence" else scale(1.0, gaps.last - gaps.first)
                at = measure.splitters(contextual_points(draw, *some, kappa).z, -(-labelled // self.room.range))
                fixed, name = draw.point_error(kappa, some[0]), f"{layout}-{number}"
                attempt = replace(found, drawn=draw, kappa=kappa, fixed_error=fixed, tried=tried, name=name)
                attempt = self._parts(attempt, pieces, at)
                if attempt.crowds is None:
                    return attempt
                if tried == 1:
                    self._settle(attempt, pieces)
                count = len(attempt.crowds.low)
                worse, best = (best, attempt) if count < fewest else (attempt, best)
                fewest = min(fewest, count)
                self._drop(worse, pieces)
                if hopeless(count, labelled, attempt.errors, attempt.ends):
                    if not positions:
                        return self._cascade(replace(best, tried=tried), pieces, seed, allowed)
                    break
        return self._cascade(replace(best, tried=tried), pieces, seed, allowed)

    def _do(self, stage: str, share: tuple[float, float], function: Callable[..., None], tasks: dict[str, Any]) -> None:
        """Do the pieces `tasks`, by name, that are not finished yet."""
        left = [(self.spill, name, *task) for name, task in tasks.items() if not self.spill.finished(name)]
        begin, end = share
        done, began = len(tasks) - len(left), time.perf_counter()
        self.report(stage, begin)
        for count, _ in enumerate(self.doing.run(function, left), 1):
            rate = count / max(time.perf_counter() - began, 1e-9)
            self.report(
                f"{stage}: {done + count:,} of {len(tasks):,}, {rate:.3g} a second",
                begin + (end - begin) * (done + count) / len(tasks),
            )

    def _read(self, reading: encode.Reading, positions: bool, temperature: float | None) -> Found:
        """Every file to numbers; names and counts of all of them together."""
        spill, count = self.spill, len(self.shards)
        tasks = {f"encoded-{i:05}": (self.shards[i], reading) for i in range(count)}
        self._do("reading files", (0.0, 0.2), encode.encode, tasks)
        facts = [spill.facts(f"encoded-{i:05}") for i in range(count)]
        for shard, fact in zip(self.shards, facts, strict=True):
            one, two = str(facts[0]["kinds"][0]), str(fact["kinds"][0])
            if one != two:
                raise strangers(self.shards[0]["name"], one, shard["name"], two)
        next_token = "label_names" not in facts[0]
        token = encode.Table.of([fact["token_names"] for fact in facts])
        label = token if next_token else encode.Table.of([fact["label_names"] for fact in facts])
        per: Per = "token" if next_token or "last" in facts[0] else "sequence"
        label_count = label.total([fact["label_count"] for fact in facts])
        if not label_count.any():
            raise DataError("no sequence has a next token: every one has length 1")
        order = None
        if per == "token":
            some = np.zeros(len(token.names), dtype=np.int64)
            for i, fact in enumerate(facts):  # in the order of the files: the label that comes last stays
                known = fact["last"] >= 0
                some[token.rows[i][known]] = label.rows[i][fact["last"][known]]
            order = by_label(some)
        longest = max(int(fact["longest"]) for fact in facts)
        rules = Rules(
            per, positions, reading.causal, next_token, longest, len(token.names), len(label.names), temperature, order
        )
        for i in range(count):
            spill.write(f"table-{i:05}", [], token=token.rows[i], label=label.rows[i])
        sequences = sum(int(fact["sequences"]) for fact in facts)
        token_count = token.total([fact["token_count"] for fact in facts])
        return Found(self.shards, rules, token.names, label.names, sequences, token_count, label_count)

    def _ranked(
        self, rules: Rules, pieces: list[Block], some: Tokens, layout: Layout, seed: int
    ) -> list[tuple[int, Draw, Gaps]]:
        """The draws of a layout, the most promising first, each with its number and the gaps of its contexts."""
        drawn = list(candidates(some, layout, DRAWS, seed))
        seen = [for_workers(draw, rules) for draw in drawn]
        count = -(-sum(_contexts(block, rules) for block in pieces) // self.room.range)
        at = [measure.splitters(draw.contexts(some).numpy(), count) for draw in drawn]
        tasks: dict[str, Any] = {
            f"contexts-{layout}-{i:05}": (block, rules, seen, at) for i, block in enumerate(pieces)
        }
        ranges_of = {f"gaps-{layout}-{d}-{r:05}": (d, r) for d in range(DRAWS) for r in range(count)}
        error = [draw.context_error(some) for draw in drawn]
        if not all(map(self.spill.finished, ranges_of)):
            self._do("measuring draws", (0.2, 0.4), measure.contexts, tasks)
            bounds = {task: self.spill.facts(task)["bounds"].tolist() for task in tasks}
            parts = {
                name: ([(task, *found[d][r : r + 2]) for task, found in bounds.items()], error[d])
                for name, (d, r) in ranges_of.items()
            }
            self._do("measuring draws", (0.4, 0.45), measure.gaps, parts)
        for name in tasks:
            self.spill.drop(name)
        found = []
        for d, draw in enumerate(drawn):
            gaps = [self.spill.facts(f"gaps-{layout}-{d}-{r:05}")["gaps"] for r in range(count)]
            found.append((d, draw, measure.joined(gaps, error[d])))
        return sorted(found, key=lambda one: one[2].quality, reverse=True)

    def _parts(self, found: Found, pieces: list[Block], at: Floats) -> Found:
        """The points of every block, cut into ranges; each range as a part of the staircase; and the crowds."""
        rules, kappa, fixed, most = found.rules, found.kappa, found.fixed_error, self.room.range
        draw = for_workers(found.draw, rules)
        tasks: dict[str, Any] = {_points(found, i): (block, rules, draw, kappa, at) for i, block in enumerate(pieces)}
        names = [f"part-{found.name}-{r:05}" for r in range(len(at) + 1)]
        crowded = [f"first-{found.name}-{r:05}" for r in range(len(at) + 1)]
        if all(map(self.spill.finished, names)) and not self.spill.numbers(next(iter(tasks))).exists():
            tasks = {}  # they were dropped, since nobody needed them any more
        self._do("cutting points into ranges", (0.45, 0.7), ranges.points, tasks)
        bounds = {task: self.spill.facts(task)["bounds"].tolist() for task in tasks}
        own = {
            r: (r, [(task, *cuts[r : r + 2], cuts[-1]) for task, cuts in bounds.items()], rules, kappa, fixed, most)
            for r in range(len(names))
        }
        self._do("building steps", (0.7, 0.98), ranges.part, {name: own[r] for r, name in enumerate(names)})
        parts: list[dict[str, Any]] = [{"name": name, **self.spill.facts(name)} for name in names]
        filled = [r for r, part in enumerate(parts) if len(part["ends"])]
        last = float(parts[filled[-1]]["last"][-1])
        close = {i for i, r in enumerate(filled) if int(parts[r]["close"])}
        if not close:
            self._drop_points(found, pieces)
            return replace(found, parts=tuple(parts), last=(last,))
        again: list[int] = []
        while close:
            rebuild = {crowded[filled[i]]: own[filled[i]] for i in sorted(close)}
            self._do("rebuilding ranges with crowds", (0.98, 0.99), crowds.rebuilt, rebuild)
            again += [filled[i] for i in close]
            more = set()
            for i in close:
                left, right = self.spill.facts(crowded[filled[i]])["reaches"].tolist()
                more |= ({i - 1} if left else set()) | ({i + 1} if right else set())
            close = {i for i in more if 0 <= i < len(filled) and filled[i] not in again}
        again.sort()
        for r in again:
            parts[r] |= {"name": crowded[r], **self.spill.facts(crowded[r])}
        every = crowds.Crowds.of([parts[r]["crowds"] for r in again])
        if filled[-1] in again:
            last = float(parts[filled[-1]]["last"][-1])
        ends = float(every.ends[1])
        return replace(found, parts=tuple(parts), crowds=every, last=(last, ends))

    def _drop_points(self, found: Found, pieces: list[Block]) -> None:
        for i in range(len(pieces)):
            self.spill.drop(_points(found, i))

    def _drop(self, found: Found, pieces: list[Block]) -> None:
        """What a draw left that is not used."""
        self._drop_points(found, pieces)
        for part in found.parts:
            self.spill.drop(part["name"])

    def _held(self, found: Found, pieces: list[Block]) -> list[tuple[str, Block]]:
        """The points in crowds, block by block."""
        assert found.crowds is not None
        wanted = np.stack([found.crowds.low, found.crowds.high])
        tasks = {f"held-{found.name}-{i:05}": block for i, block in enumerate(pieces)}
        rules, kappa = found.rules, found.kappa
        draw = for_workers(found.draw, rules)
        self._do(
            "looking at crowds",
            (0.99, 0.995),
            crowds.held,
            {name: (block, rules, draw, kappa, wanted) for name, block in tasks.items()},
        )
        return list(tasks.items())

    def _settle(self, found: Found, pieces: list[Block]) -> None:
        """Raise an error if points that are too close contradict each other."""
        contradiction(self.spill, found, self._held(found, pieces))

    def _cascade(self, found: Found, pieces: list[Block], seed: int, allowed: int) -> Found:
        """Further stages for the points in crowds; the parts as those of a first stage."""
        found = with_stages(self.spill, found, [name for name, _ in self._held(found, pieces)], seed, allowed)
        self._drop_points(found, pieces)
        flat = {r: part for r, part in enumerate(found.parts) if part["name"].startswith("part-")}
        tasks = {f"wide-{found.name}-{r:05}": (part["name"], r, int(part["steps"])) for r, part in flat.items()}
        self._do("writing the first stage", (0.995, 1.0), crowds.widened, tasks)
        parts = [
            part | (self.spill.facts(f"wide-{found.name}-{r:05}") if r in flat else {})
            for r, part in enumerate(found.parts)
        ]
        return replace(found, parts=tuple(parts))


def _points(found: Found, block: int) -> str:
    return f"points-{found.name}-{block:05}"


def _contexts(block: Block, rules: Rules) -> int:
    return block.stop - block.start if rules.causal else block.last - block.first
