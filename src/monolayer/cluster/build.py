"""The line of `construct/line` over files: stages of pieces, with the same bits as in memory.

encode      every file to numbers, once; what they share        encode.py, survey.py
measure     contexts under each draw, range by range            measure.py
points      z of every block, cut into ranges by sampled splitters
settle      contradictions refused, or overruled                settle.py
parts       each range sorted, and its steps written            parts.py, runs.py
finish      the small tensors, the index, the card              finish.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.cluster import crowds, encode, measure, parts, ranges, reals, runs
from monolayer.cluster.blocks import Block, Rules, blocks, sample
from monolayer.cluster.contested import with_stages
from monolayer.cluster.finish import MENDED, Found
from monolayer.cluster.seen import kept
from monolayer.cluster.settle import settle
from monolayer.cluster.survey import survey
from monolayer.cluster.tables import for_workers
from monolayer.cluster.work import Wishes, Work
from monolayer.construct.line.draw import Draw, Layout, Tokens, candidates
from monolayer.construct.line.points import contextual_points, scale
from monolayer.construct.line.separate import DRAWS, hopeless
from monolayer.construct.line.values import MOST

SAMPLE = 1 << 18
"""Tokens, about, that splitters are taken from."""


class Build(Work):
    """The line, stage by stage."""

    def line(self, reading: encode.Reading, wishes: Wishes) -> Found:
        """The line, as `construct/line/build.py` has it."""
        found = survey(self, reading, wishes)
        names = sum(len(some) for some in (found.vocabulary, found.classes) if some is not None)
        beside = replace(self, room=self.room.without(names))
        if not found.rules.reals:
            return beside._separate(found, wishes)
        smaller = replace(beside, room=beside.room.beside(found.rules.reals))
        found = smaller._separate(found, wishes)
        found = replace(found, parts=(*found.parts, runs.closing(self.spill, found)))
        return replace(found, often=reals.counts(smaller, found.rules, smaller._pieces()))

    def _pieces(self) -> list[Block]:
        return [block for i in range(len(self.shards)) for block in blocks(self.spill, i, self.room.block)]

    def _separate(self, found: Found, wishes: Wishes) -> Found:
        """A draw that keeps points with different labels apart, and its parts; or what there is where none does."""
        rules, labelled = found.rules, found.labelled
        pieces = self._pieces()
        if wishes.fingerprint:
            found = replace(found, fingerprints=tuple(kept(self, rules, pieces)))
        data, target = sample(self.spill, pieces, rules, SAMPLE)
        some = found.tokens(data), target
        tried, best, fewest = 0, found, math.inf
        layouts: tuple[Layout, ...] = ("cells", "mixed")
        for layout in layouts:
            for number, draw in self._draws(found, pieces, some[0], layout, wishes.seed):
                tried += 1
                name = f"{layout}-{number}"
                attempt = replace(found, drawn=draw, tried=tried, name=name)
                extent = self._extent(attempt, pieces)
                reach, error = extent.last - extent.first, draw.context_error(some[0])
                kappa = 1.0 if rules.per == "sequence" else scale(1.0, reach, error)
                at = measure.splitters(
                    contextual_points(replace(draw, kappa=kappa), *some).z, self.room.ranges(labelled)
                )
                attempt = replace(attempt, kappa=kappa, fixed_error=draw.point_error(kappa, some[0]))
                attempt = replace(attempt, form=ranges.form_of(draw, kappa, extent, rules))
                attempt = self._parts(attempt, pieces, at)
                if tried == 1 and attempt.close:
                    settled = settle(self, attempt, pieces, wishes.on_conflict)
                    if settled.conflicts:
                        self._drop(attempt, pieces)
                        attempt = self._parts(replace(settled, name=name + MENDED), pieces, at)
                        found = replace(found, label_count=settled.label_count, conflicts=settled.conflicts)
                        found = replace(found, rules=settled.rules)
                attempt = self._crowds(attempt, pieces)
                if attempt.crowds is None:
                    return attempt
                count = len(attempt.crowds.low)
                worse, best = (best, attempt) if count < fewest else (attempt, best)
                fewest = min(fewest, count)
                self._drop(worse, pieces)
                if hopeless(count, labelled, attempt.errors, attempt.ends):
                    if not wishes.positions:
                        return self._cascade(replace(best, tried=tried), pieces, wishes)
                    break
        return self._cascade(replace(best, tried=tried), pieces, wishes)

    def _draws(
        self, found: Found, pieces: list[Block], some: Tokens, layout: Layout, seed: int
    ) -> Iterable[tuple[int, Draw]]:
        """The draws of a layout, each with its number: the most promising first, or as they come if all are alike."""
        if found.crowded:
            return enumerate(candidates(some, layout, DRAWS, seed))
        return self._ranked(found.rules, pieces, some, layout, seed)

    def _ranked(
        self, rules: Rules, pieces: list[Block], some: Tokens, layout: Layout, seed: int
    ) -> list[tuple[int, Draw]]:
        """The draws of a layout, each with its number, the most promising first."""
        drawn = list(candidates(some, layout, DRAWS, seed))
        seen = [for_workers(draw, rules) for draw in drawn]
        count = self.room.ranges(sum(_contexts(block, rules) for block in pieces))
        at = [measure.splitters(draw.contexts(some).numpy(), count) for draw in drawn]
        tasks: dict[str, Any] = {
            f"contexts-{layout}-{i:05}": (block, rules, seen, at) for i, block in enumerate(pieces)
        }
        ranges_of = {f"gaps-{layout}-{d}-{r:05}": (d, r) for d in range(DRAWS) for r in range(count)}
        error = [draw.context_error(some) for draw in drawn]
        if not all(map(self.spill.finished, ranges_of)):
            self.do("comparing draws", (0.2, 0.35), measure.contexts, tasks)
            bounds = {task: self.spill.facts(task)["bounds"].tolist() for task in tasks}
            asked = {
                name: ([(task, *found[d][r : r + 2]) for task, found in bounds.items()], error[d])
                for name, (d, r) in ranges_of.items()
            }
            self.do("comparing draws", (0.35, 0.4), measure.gaps, asked)
        self.spill.drop(*tasks)
        quality = []
        for d in range(DRAWS):
            gaps = [self.spill.facts(f"gaps-{layout}-{d}-{r:05}")["gaps"] for r in range(count)]
            quality.append(measure.joined(gaps, error[d]).quality)
        return sorted(enumerate(drawn), key=lambda one: quality[one[0]], reverse=True)

    def _extent(self, found: Found, pieces: list[Block]) -> measure.Extent:
        """That of the contexts of a draw, which are kept."""
        draw = for_workers(found.draw, found.rules)
        tasks = {found.contexts(i): (block, found.rules, draw) for i, block in enumerate(pieces)}
        self.do("computing contexts", (0.4, 0.45), measure.context, tasks)
        return measure.Extent.joined([self.spill.facts(name)["extent"] for name in tasks])

    def _parts(self, found: Found, pieces: list[Block], at: Floats) -> Found:
        """The points of every block, cut into ranges; each range as a part of the staircase."""
        rules, kappa, fixed, most = found.rules, found.kappa, found.fixed_error, self.room.range
        draw, form = for_workers(found.draw, rules), found.form
        assert form is not None
        tasks: dict[str, Any] = {
            _points(found, i): (block, rules, draw, kappa, found.contexts(i), form, at)
            for i, block in enumerate(pieces)
        }
        names = [f"part-{found.name}-{r:05}" for r in range(len(at) + 1)]
        if all(map(self.spill.finished, names)) and not self.spill.numbers(next(iter(tasks))).exists():
            tasks = {}  # they were dropped, since nobody needed them any more
        self.do("cutting points into ranges", (0.45, 0.7), ranges.points, tasks)
        bounds = {task: self.spill.facts(task)["bounds"].tolist() for task in tasks}
        slices = [[(task, *cuts[r : r + 2], cuts[-1]) for task, cuts in bounds.items()] for r in range(len(names))]
        own = tuple(ranges.Range(r, where, form, kappa, fixed, most) for r, where in enumerate(slices))
        tasks = {name: (range_, found.crowded) for name, range_ in zip(names, own, strict=True)}
        self.do("building steps", (0.7, 0.98), runs.part if rules.reals else parts.part, tasks)
        made: list[dict[str, Any]] = [{"name": name, **self.spill.facts(name)} for name in names]
        return replace(found, parts=tuple(made), ranges=own)

    def _crowds(self, found: Found, pieces: list[Block]) -> Found:
        """The crowds, if there are any; ranges that are no parts yet, or that others reach into, are built again."""
        made = list(found.parts)
        filled = [r for r, part in enumerate(made) if len(part["ends"])]
        new = {i for i, r in enumerate(filled) if int(made[r]["close"])}
        if not new:
            self._drop_points(found, pieces)
            return self._written(replace(found, last=_row(made[filled[-1]])), cascade=False)
        seen, make = set(new), runs.crowded if found.rules.reals else crowds.crowded

        def again(which: set[int]) -> None:
            names = {f"first-{found.name}-{filled[i]:05}": filled[i] for i in sorted(which)}
            tasks = {name: (found.ranges[r],) for name, r in names.items()}
            self.do("rebuilding ranges with crowds", (0.98, 0.99), make, tasks)
            for name, r in names.items():
                self.spill.drop(made[r]["name"])
                made[r] |= {"name": name, **self.spill.facts(name)}

        again({i for i in new if "reaches" not in made[filled[i]]})
        while new:
            beside = ((i, made[filled[i]]["reaches"].tolist()) for i in new)
            reached = {i + side for i, reaches in beside for side, there in zip((-1, 1), reaches, strict=True) if there}
            new = {i for i in reached if 0 <= i < len(filled)} - seen
            seen |= new
            again(new)
        every = crowds.Crowds.of([made[filled[i]]["crowds"] for i in sorted(seen)])
        last = *_row(made[filled[-1]]), float(every.ends[1])
        return replace(found, parts=tuple(made), crowds=every, last=last)

    def _drop_points(self, found: Found, pieces: list[Block]) -> None:
        self.spill.drop(*(_points(found, i) for i in range(len(pieces))))

    def _drop(self, found: Found, pieces: list[Block]) -> None:
        """What a draw left that is not used."""
        self._drop_points(found, pieces)
        self.spill.drop(*(part["name"] for part in found.parts))

    def _held(self, found: Found, pieces: list[Block]) -> list[str]:
        """The points in crowds, block by block."""
        assert found.crowds is not None
        wanted = np.stack([found.crowds.low, found.crowds.high])
        rules, kappa = found.rules, found.kappa
        draw = for_workers(found.draw, rules)
        tasks = {
            f"held-{found.name}-{i:05}": (block, rules, draw, kappa, found.contexts(i), wanted)
            for i, block in enumerate(pieces)
        }
        self.do("looking at crowds", (0.99, 0.995), crowds.held, tasks)
        return list(tasks)

    def _cascade(self, found: Found, pieces: list[Block], wishes: Wishes) -> Found:
        """Further stages for the points in crowds; the parts as those of a first stage."""
        allowed = MOST if wishes.rank == "auto" else wishes.rank
        found = with_stages(self.spill, found, self._held(found, pieces), wishes.seed, allowed)
        self._drop_points(found, pieces)
        return self._written(found, cascade=True)

    def _written(self, found: Found, *, cascade: bool) -> Found:
        """The parts as those of the first stage of a cascade, or of a line: rewritten where they are others."""
        made = list(found.parts)
        if found.rules.reals:
            return self._numbered(found) if cascade else found
        others = {f"again-{part['name']}": r for r, part in enumerate(made) if bool(part["cascade"]) != cascade}
        tasks = {name: (made[r]["name"], r, int(made[r]["steps"]), cascade) for name, r in others.items()}
        self.do("writing headers", (0.995, 1.0), parts.rewritten, tasks)
        for name, r in others.items():
            made[r] = made[r] | self.spill.facts(name)
        return replace(found, parts=tuple(made))

    def _numbered(self, found: Found) -> Found:
        """The parts of a first stage of real labels with the numbers of their stretches."""
        assert found.crowds is not None
        first, rows, tasks = found.crowds.ends[0], found.rules.reals + 1, dict[str, Any]()
        for r, part in enumerate(found.parts):
            tasks[f"again-{part['name']}"] = (part["name"], r, int(part["steps"]), rows, first)
            first += int(part["bounds"])
        self.do("writing the first stage", (0.995, 1.0), runs.numbered, tasks)
        made = [part | self.spill.facts(name) for part, name in zip(found.parts, tasks, strict=True)]
        return replace(found, parts=tuple(made))


def _row(part: dict[str, Any]) -> tuple[float, ...]:
    """The last label of a part."""
    return tuple(np.atleast_1d(part["last"][-1]).astype(np.float64).tolist())


def _points(found: Found, block: int) -> str:
    return f"points-{found.name}-{block:05}"


def _contexts(block: Block, rules: Rules) -> int:
    return block.stop - block.start if rules.causal else block.last - block.first
