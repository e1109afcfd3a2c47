"""The line of `construct/line` over files: stages of pieces, with the same bits as in memory.

encode      every file to numbers, once; what they share        encode.py
extent      from what to what contexts reach under a draw       points.py
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
from monolayer.cluster.finish import Found, with_stages
from monolayer.cluster.settle import refuse_contradictions
from monolayer.construct.line.draw import CodeLayout, draws
from monolayer.construct.line.points import contextual_points, scale
from monolayer.construct.line.separate import DRAWS, hopeless
from monolayer.construct.line.values import LARGEST_RANK


class Build(Work):
    """The line, stage by stage."""

    def line(self, reading: dict[str, Any], options: Options) -> Found:
        """The line, as `construct/line/build.py` has it; `reading`: options of `monolayer.data.read`."""
        found = encode.survey(self, reading, options)
        names = sum(len(some) for some in (found.vocabulary, found.classes) if some is not None)
        smaller = replace(self, room=self.room.beside(names, found.rules.reals))
        pieces = blocks(self.spill, len(self.shards), smaller.room.block)
        found = smaller._separate(found, pieces, options)
        if found.rules.reals:
            found = replace(found, parts=(*found.parts, parts.closing(self.spill, found)))
        return found

    def _separate(self, found: Found, pieces: list[Block], options: Options) -> Found:
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
                at = points.splitters(contextual_points(draw, tokens, target).z, self.room.ranges(found.labelled))
                error = draw.point_error(kappa, tokens)
                attempt = replace(attempt, drawn=replace(draw, known=None), kappa=kappa, fixed_error=error)
                attempt = self._parts(attempt, pieces, at, strict=tried > 1)
                if tried == 1 and attempt.close:
                    refuse_contradictions(self, attempt, pieces)
                    if not all(part["whole"] for part in attempt.parts):  # it looked as if there were some
                        self._drop(attempt, pieces)
                        attempt = self._parts(replace(attempt, name=f"{attempt.name}-strict"), pieces, at, strict=True)
                attempt = replace(attempt, crowds=crowds.Crowds.of(attempt.parts))
                if attempt.crowds is None:
                    self._drop_points(attempt, pieces)
                    return replace(attempt, last=attempt.last_label)
                count = len(attempt.crowds.low)
                worse, best = (best, attempt) if count < fewest else (attempt, best)
                fewest = min(fewest, count)
                self._drop(worse, pieces)
                if hopeless(count, found.labelled, attempt.errors, attempt.ends):
                    if not options.positions:
                        return self._cascade(replace(best, tried=tried), pieces, options)
                    break
        return self._cascade(replace(best, tried=tried), pieces, options)

    def _kappa(self, found: Found, pieces: list[Block], error: float) -> float:
        """κ, for which the contexts of all files are computed."""
        if found.rules.per == "sequence":
            return 1.0
        tasks = {f"extent-{found.name}-{i:05}": (block, found.rules, found.draw) for i, block in enumerate(pieces)}
        self.do("computing contexts", (0.2, 0.3), points.extent, tasks)
        first, last = np.stack([self.spill.facts(name)["extent"] for name in tasks], axis=1)
        return scale(1.0, float(last.max() - first.min()), error)

    def _parts(self, found: Found, pieces: list[Block], at: Floats, *, strict: bool) -> Found:
        """The points of every block, cut into ranges; each range as a part of the staircase."""
        rules = found.rules
        names = [f"part-{found.name}-{r:05}" for r in range(len(at) + 1)]
        tasks: dict[str, Any] = {found.points(i): (block, rules, found.draw, at) for i, block in enumerate(pieces)}
        if all(map(self.spill.finished, names)) and not self.spill.numbers(found.points(0)).exists():
            tasks = {}  # they were dropped, since nobody needed them any more
        self.do("cutting points into ranges", (0.3, 0.6), points.points, tasks)
        bounds = {name: self.spill.facts(name)["bounds"].tolist() for name in tasks}
        ends = [-math.inf, *at.tolist(), math.inf]
        ranges = {}
        for r, name in enumerate(names):
            where = [points.Piece(piece, cuts[-1], cuts[r], cuts[r + 1]) for piece, cuts in bounds.items()]
            own = rules.label_type, rules.reals, found.kappa, found.fixed_error, self.room.range
            ranges[name] = (points.Range(r, ends[r], ends[r + 1], where, *own), strict)
        self.do("building steps", (0.6, 0.98), parts.part, ranges)
        return replace(found, parts=tuple({"name": name, **self.spill.facts(name)} for name in names))

    def _drop_points(self, found: Found, pieces: list[Block]) -> None:
        self.spill.drop(*(found.points(i) for i in range(len(pieces))))

    def _drop(self, found: Found, pieces: list[Block]) -> None:
        """What a draw left that is not used."""
        self._drop_points(found, pieces)
        self.spill.drop(*(part["name"] for part in found.parts))

    def _cascade(self, found: Found, pieces: list[Block], options: Options) -> Found:
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
        tasks = {
            f"staged-{part['name']}": (part["name"], r, rules.reals, first)
            for r, (part, first) in enumerate(zip(found.parts, every.first.tolist(), strict=True))
        }
        self.do("writing the first stage", (0.985, 1.0), parts.staged, tasks)
        staged = tuple(part | self.spill.facts(name) for part, name in zip(found.parts, tasks, strict=True))
        return replace(found, parts=staged, last=(*found.last_label, float(every.ends[1])))
