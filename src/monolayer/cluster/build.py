"""The line of `construct/line` over files: stages of pieces, with the same bits as in memory.

encode      every file to numbers, once; what they share        encode.py
contexts    those of every block under a draw, for κ           points.py
points      z of every block, cut into ranges by splitters      points.py
part        each range sorted, and its steps written            parts.py
settle      contradictions refused                              settle.py
held        points too close for one line, for further stages   crowds.py
finish      the small tensors, the index, the card              finish.py
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.cluster import crowds, encode, parts, points
from monolayer.cluster.blocks import Block, blocks, sample
from monolayer.cluster.executor import Options, Work
from monolayer.cluster.finish import BuildState, with_stages
from monolayer.cluster.settle import refuse_contradictions
from monolayer.construct.line.draw import CodeLayout, draws
from monolayer.construct.line.points import contextual_points, scale
from monolayer.construct.line.separate import DRAWS, crowded_by_chance, hopeless
from monolayer.construct.line.values import LARGEST_RANK


class Build(Work):
    """The line, stage by stage."""

    def line(self, reading: dict[str, Any], options: Options) -> BuildState:
        """The line, as `construct/line/build.py` has it; `reading`: options of `monolayer.data.read`."""
        found = encode.survey(self, reading, options)
        names = sum(len(some) for some in (found.vocabulary, found.classes) if some is not None)
        smaller = replace(self, room=self.room.beside(names, found.rules.reals))
        pieces = blocks(self.spill, len(self.shards), smaller.room.block)
        found = smaller._separate(found, pieces, options)
        if found.rules.reals:
            found = replace(found, parts=(*found.parts, parts.closing(self.spill, found)))
        return found

    def _separate(self, found: BuildState, pieces: list[Block], options: Options) -> BuildState:
        """A draw that keeps points with different labels apart, and its parts; or the best there is, and its stages."""
        some = sample(self.spill, pieces, found.rules)
        tokens, target = found.rules.tokens(some), found.rules.target(found.rules.places(some))
        tried, best, fewest = 0, found, math.inf
        layouts: tuple[CodeLayout, ...] = ("cells", "mixed")
        for layout in layouts:
            for draw in draws(tokens, layout, DRAWS, options.seed):
                tried += 1
                attempt = replace(found, drawn=replace(draw, known=None), tried=tried, name=f"{layout}-{tried}")
                kappa = self._kappa(attempt, pieces, draw.context_error(tokens))
                draw = replace(draw, kappa=kappa)
                some_points = contextual_points(draw, tokens, target)
                at = points.splitters(some_points.z, self.room.ranges(found.labelled))
                error = draw.point_error(kappa, tokens)
                attempt = replace(attempt, drawn=replace(draw, known=None), kappa=kappa, fixed_error=error)
                ends = some_points.ends() if len(some_points.z) else (0.0, 0.0)
                crowded = crowded_by_chance(found.labelled, attempt.errors, ends)
                attempt = self._parts(attempt, pieces, at, strict=tried > 1, staged=crowded)
                if tried == 1 and attempt.close:
                    refuse_contradictions(self, attempt, pieces)
                    if not all(part["whole"] for part in attempt.parts):  # it looked as if there were some
                        self._drop(attempt, pieces)
                        attempt = replace(attempt, name=f"{attempt.name}-strict")
                        attempt = self._parts(attempt, pieces, at, strict=True, staged=crowded)
                self.spill.drop(*(attempt.contexts(i) for i in range(len(pieces))))
                attempt = replace(attempt, crowds=crowds.Crowds.of(attempt.parts))
                if attempt.crowds is None:
                    self._drop_points(attempt, pieces)
                    return replace(self._staged(attempt, None), last=attempt.last_label)
                count = len(attempt.crowds.low)
                worse, best = (best, attempt) if count < fewest else (attempt, best)
                fewest = min(fewest, count)
                self._drop(worse, pieces)
                if hopeless(count, found.labelled, attempt.errors, attempt.ends):
                    if not options.positions:
                        return self._cascade(replace(best, tried=tried), pieces, options)
                    break
        return self._cascade(replace(best, tried=tried), pieces, options)

    def _kappa(self, found: BuildState, pieces: list[Block], error: float) -> float:
        """κ, for which the contexts of all files are computed."""
        if found.rules.per == "sequence":
            return 1.0
        tasks = {found.contexts(i): (block, found.rules, found.draw) for i, block in enumerate(pieces)}
        self.do("computing contexts", (0.2, 0.3), points.write_contexts, tasks)
        first, last = np.stack([self.spill.facts(name)["extent"] for name in tasks], axis=1)
        return scale(1.0, float(last.max() - first.min()), error)

    def _parts(self, found: BuildState, pieces: list[Block], at: Floats, *, strict: bool, staged: bool) -> BuildState:
        """The points of every block, cut into ranges; each range as a part of the staircase.

        `staged`: there will be crowds, so that parts of classes are written as those of the first of several stages.
        """
        rules = found.rules
        plan = points.PointsPlan(rules, found.draw, at)
        names = [f"part-{found.name}-{r:05}" for r in range(len(at) + 1)]
        tasks: dict[str, Any] = {
            found.points(i): (block, plan, found.contexts(i) if rules.per == "token" else None)
            for i, block in enumerate(pieces)
        }
        if all(map(self.spill.finished, names)) and not self.spill.numbers(found.points(0)).exists():
            tasks = {}  # they were dropped, since nobody needed them any more
        self.do("cutting points into ranges", (0.3, 0.6), points.write_points, tasks)
        bounds = np.array([self.spill.facts(name)["bounds"] for name in tasks]).reshape(len(tasks), len(names) + 1)
        ends = [-math.inf, *at.tolist(), math.inf]
        ranges = {}
        for r, name in enumerate(names):
            own = rules.label_type, rules.reals, found.kappa, found.fixed_error, self.room.range
            range_ = points.Range(r, ends[r], ends[r + 1], list(tasks), bounds[:, [r, r + 1, -1]], *own)
            ranges[name] = (range_, strict, staged)
        self.do("building steps", (0.6, 0.98), parts.part, ranges)
        return replace(found, parts=tuple({"name": name, **self.spill.facts(name)} for name in names))

    def _drop_points(self, found: BuildState, pieces: list[Block]) -> None:
        self.spill.drop(*(found.points(i) for i in range(len(pieces))))

    def _drop(self, found: BuildState, pieces: list[Block]) -> None:
        """What a draw left that is not used."""
        self._drop_points(found, pieces)
        self.spill.drop(*(part["name"] for part in found.parts))

    def _cascade(self, found: BuildState, pieces: list[Block], options: Options) -> BuildState:
        """Further stages for the points in crowds; the parts as those of a first stage."""
        every, rules = found.crowds, found.rules
        assert every is not None  # asked only where there are some
        wanted = np.stack([every.low, every.high])
        held: dict[str, Any] = {
            f"held-{found.name}-{i:05}": (block, rules, found.points(i), wanted) for i, block in enumerate(pieces)
        }
        self.do("looking at crowds", (0.98, 0.985), crowds.held, held)
        allowed = LARGEST_RANK if options.rank == "auto" else options.rank
        found = with_stages(self.spill, found, every, list(held), options.seed, allowed)
        self._drop_points(found, pieces)
        return replace(self._staged(found, every), last=(*found.last_label, float(every.ends[1])))

    def _staged(self, found: BuildState, every: crowds.Crowds | None) -> BuildState:
        """The parts as those of the first of several stages if there are crowds, else of the only one.

        Those that were written as such, since it was foreseen, stay as they are.
        """
        first = [None] * len(found.parts) if every is None else every.first.tolist()
        others = [r for r, part in enumerate(found.parts) if bool(part["staged"]) != (every is not None)]
        names = {r: f"{'alone' if every is None else 'staged'}-{found.parts[r]['name']}" for r in others}
        tasks = {name: (found.parts[r]["name"], r, found.rules.reals, first[r]) for r, name in names.items()}
        self.do("writing the first stage", (0.985, 1.0), parts.staged, tasks)
        made = [part | (self.spill.facts(names[r]) if r in names else {}) for r, part in enumerate(found.parts)]
        return replace(found, parts=tuple(made))
