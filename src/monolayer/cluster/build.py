"""The line of `construct/line` over files: stages of pieces, with the same bits as in memory.

encode      every file to numbers, once; what they share        encode.py
points      z of every block, cut into ranges by splitters      points.py
part        each range sorted, and its steps written            parts.py
settle      contradictions refused                              settle.py
held        points too close for one line, for further stages   crowds.py
known       fingerprints of the points, where they are kept     known.py
finish      the small tensors, the index, the card              finish.py
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Floats, Words, ends_of
from monolayer.cluster import crowds, encode, known, parts, points
from monolayer.cluster.blocks import Block, blocks, sample
from monolayer.cluster.executor import Options, Work
from monolayer.cluster.finish import BuildState, with_stages
from monolayer.cluster.settle import refuse_contradictions
from monolayer.construct.line.draw import CodeLayout
from monolayer.construct.line.encoded import Encoded, draws, scale
from monolayer.construct.line.points import contextual_points
from monolayer.construct.line.separate import DRAWS, crowded_by_chance, hopeless
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.line.values import LARGEST_RANK
from monolayer.construct.target import Target


class Sampled(NamedTuple):
    """Some sequences as the construction sees them, and their labelled places."""

    tokens: Tokens
    target: Target


class Build(Work):
    """The line, stage by stage."""

    def line(self, reading: dict[str, Any], options: Options) -> BuildState:
        """The line, as `construct/line/build.py` has it; `reading`: options of `monolayer.data.read`."""
        state = encode.survey(self, reading, options)
        names = sum(len(some) for some in (state.vocabulary, state.classes) if some is not None)
        smaller = replace(self, room=self.room.beside(names, state.rules.reals))
        pieces = blocks(self.spill, len(self.shards), smaller.room.block)
        state = smaller._separate(state, pieces, options)
        if state.rules.reals:
            state = replace(state, parts=(*state.parts, parts.closing(self.spill, state)))
        return replace(state, known=smaller._fingerprints(state, pieces)) if state.recognizes else state

    def _fingerprints(self, state: BuildState, pieces: list[Block]) -> Words:
        """The fingerprints of all points, by which the model recognizes what it was not built from."""
        tasks = {f"known-{i:05}": (block, state.rules) for i, block in enumerate(pieces)}
        self.do("fingerprints", (0.97, 0.99), known.write_fingerprints, tasks)
        return known.joined_fingerprints(self.spill, [*tasks], self.room.range)

    def _separate(self, state: BuildState, pieces: list[Block], options: Options) -> BuildState:
        """A draw that keeps points with different labels apart, with its parts; or the best one and further stages."""
        some = sample(self.spill, len(self.shards), state.rules)
        sampled = Sampled(state.rules.tokens(some), state.rules.target(state.rules.places(some)))
        tried, best, fewest = 0, state, math.inf
        layouts: tuple[CodeLayout, ...] = ("cells", "mixed")
        for layout in layouts:
            for encoded in draws(sampled.tokens, layout, DRAWS, options.seed):
                tried += 1
                attempt = replace(state, tried=tried, name=f"{layout}-{tried}")
                attempt = self._cut_points(attempt, encoded, sampled.target, pieces)
                crowded = crowded_by_chance(state.labelled, attempt.errors, attempt.ends)
                if tried == 1 or crowded:  # what is written will probably be used: no further draw is tried
                    attempt = self._parts(attempt, pieces, strict=tried > 1, staged=crowded)
                    if tried == 1 and attempt.close:
                        attempt = self._consistent(attempt, pieces, staged=crowded)
                    every = crowds.Crowds.of(attempt.parts)
                    count = 0 if every is None else len(every.low)
                else:
                    count = self._count_crowds(attempt, pieces, fewest)
                    attempt = attempt if count else self._parts(attempt, pieces, strict=True, staged=False)
                if count == 0:
                    return replace(self._staged(attempt, None), last=attempt.last_label)
                worse, best = (best, attempt) if count < fewest else (attempt, best)
                fewest = min(fewest, count)
                self._drop(worse, pieces)
                if hopeless(count, state.labelled, attempt.errors, attempt.ends):
                    if not options.positions:
                        return self._cascade(replace(best, tried=tried), pieces, options)
                    break
        return self._cascade(replace(best, tried=tried), pieces, options)

    def _cut_points(self, state: BuildState, encoded: Encoded, target: Target, pieces: list[Block]) -> BuildState:
        """The points of every block under the draw of a sample, cut into ranges.

        κ is a power of two that depends on how far the contexts of all files reach. That is found out while points are
        computed with the κ of the sample, which is nearly always the same; where it is not, they are computed again.
        """
        rules = state.rules

        def kappa_of(extent: tuple[float, float]) -> float:
            return scale(1.0, extent[1] - extent[0], encoded.context_error) if rules.labelling.at_tokens else 1.0

        kappa = kappa_of(ends_of(encoded.contexts))
        while True:
            sampled = contextual_points(encoded, target, kappa)
            at = points.splitters(sampled.z, self.room.ranges(state.labelled))
            drawn = replace(encoded.draw, kappa=kappa)
            state = replace(state, drawn=drawn, kappa=kappa, fixed_error=encoded.point_error(kappa), splitters=at)
            tasks = {state.points(i): (block, rules, state.draw, at) for i, block in enumerate(pieces)}
            self.do("cutting points into ranges", (0.2, 0.6), points.write_points, tasks)
            facts = [self.spill.facts(name) for name in tasks]
            kappa = kappa_of(_ends([fact["extent"] for fact in facts]))
            if kappa == state.kappa:
                return replace(state, ends=_ends([fact["ends"] for fact in facts]))
            self._drop_points(state, pieces)
            state = replace(state, name=f"{state.name}-wider")

    def _consistent(self, state: BuildState, pieces: list[Block], *, staged: bool) -> BuildState:
        """The parts of the first draw, once contradictions are ruled out; parts that looked contradictory come now."""
        refuse_contradictions(self, state, pieces)
        if all(part["whole"] for part in state.parts):
            return state
        self._drop_parts(state)
        return self._parts(state, pieces, strict=True, staged=staged)

    def _count_crowds(self, state: BuildState, pieces: list[Block], enough: float) -> int:
        """How many crowds a draw leaves, without writing parts; counting stops once there are `enough`.

        Data that barely fit on one line need several draws, and most draws leave a crowd in one of the first ranges.
        """
        ranges, count = self._ranges(state, pieces), 0
        names, batch = [f"looked-{state.name}-{range_.number:05}" for range_ in ranges], 4 * self.room.workers
        for first in range(0, len(ranges), batch):
            some = slice(first, first + batch)
            tasks = {name: (range_,) for name, range_ in zip(names[some], ranges[some], strict=True)}
            self.do("looking for crowds", (0.6, 0.7), parts.count_crowds, tasks)
            count += sum(int(self.spill.facts(name)["count"]) for name in tasks)
            if count >= enough:
                break
        return count

    def _ranges(self, state: BuildState, pieces: list[Block]) -> list[points.Range]:
        """The ranges into which the points of a draw are cut."""
        rules, files = state.rules, [state.points(i) for i in range(len(pieces))]
        bounds = np.array([self.spill.facts(name)["bounds"] for name in files])
        ends = [-math.inf, *state.splitters.tolist(), math.inf]
        described = rules.label_type, rules.reals, state.kappa, state.fixed_error, self.room.range
        return [
            points.Range(r, since, until, files, bounds[:, [r, r + 1, -1]], *described)
            for r, (since, until) in enumerate(pairwise(ends))
        ]

    def _parts(self, state: BuildState, pieces: list[Block], *, strict: bool, staged: bool) -> BuildState:
        """Each range of points as a part of the staircase.

        `staged`: there will be crowds, so that parts of classes are written as those of the first of several stages.
        """
        ranges = {
            f"part-{state.name}{'-strict' if strict else ''}-{range_.number:05}": (range_, strict, staged)
            for range_ in self._ranges(state, pieces)
        }
        self.do("building steps", (0.6, 0.98), parts.part, ranges)
        return replace(state, parts=tuple({"name": name, **self.spill.facts(name)} for name in ranges))

    def _drop_points(self, state: BuildState, pieces: list[Block]) -> None:
        self.spill.drop(*(state.points(i) for i in range(len(pieces))))

    def _drop(self, state: BuildState, pieces: list[Block]) -> None:
        """Delete the pieces of a draw that was not used."""
        self._drop_points(state, pieces)
        self._drop_parts(state)

    def _drop_parts(self, state: BuildState) -> None:
        self.spill.drop(*(part["name"] for part in state.parts))

    def _cascade(self, state: BuildState, pieces: list[Block], options: Options) -> BuildState:
        """Build further stages for the points in crowds, and rewrite the parts as parts of a first stage."""
        if not state.parts:
            state = self._parts(state, pieces, strict=True, staged=True)
        every, rules = crowds.Crowds.of(state.parts), state.rules
        assert every is not None  # asked only where there are some
        state = replace(state, crowds=every)
        wanted = np.stack([every.low, every.high])
        held: dict[str, Any] = {
            f"held-{state.name}-{i:05}": (block, rules, state.draw, state.points(i), wanted)
            for i, block in enumerate(pieces)
        }
        self.do("looking at crowds", (0.98, 0.985), crowds.held, held)
        allowed = LARGEST_RANK if options.rank == "auto" else options.rank
        state = with_stages(self.spill, state, every, list(held), options.seed, allowed)
        return replace(self._staged(state, every), last=(*state.last_label, float(every.ends[1])))

    def _staged(self, state: BuildState, every: crowds.Crowds | None) -> BuildState:
        """The parts, written for the first of several stages if there are crowds, otherwise for the only stage.

        Parts that were already written that way stay as they are.
        """
        first = [None] * len(state.parts) if every is None else every.first.tolist()
        others = [r for r, part in enumerate(state.parts) if bool(part["staged"]) != (every is not None)]
        names = {r: f"{'alone' if every is None else 'staged'}-{state.parts[r]['name']}" for r in others}
        tasks = {name: (state.parts[r]["name"], r, state.rules.reals, first[r]) for r, name in names.items()}
        self.do("writing the first stage", (0.985, 1.0), parts.staged, tasks)
        made = [part | (self.spill.facts(names[r]) if r in names else {}) for r, part in enumerate(state.parts)]
        return replace(state, parts=tuple(made))


def _ends(extents: list[Floats]) -> tuple[float, float]:
    """The least first number and the largest last number of some pairs; pairs may be empty."""
    low, high = np.array([extent for extent in extents if len(extent)]).T
    return float(low.min()), float(high.max())
