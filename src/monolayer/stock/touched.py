"""The tokens that an edit touches: only their neurons are found anew, all others are taken as they stand.

In a robust model the neurons of a token are a function of the draw and of that token's own facts, and they stand
together, in the order of the tokens. So taking the touched ones out and putting new ones in gives the same bits as
building everything. Where the begin token answers for whole sequences, all facts are its facts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.data.distinct import distinct_rows
from monolayer.errors import DataError
from monolayer.huggingface.architectures import BEGIN
from monolayer.stock.folder import Neurons
from monolayer.stock.labelled import Work
from monolayer.stock.mirror import Mirror


@dataclass(frozen=True, eq=False)
class Touched:
    """`ids` of the tokens; all neurons of the model before; the sequences that teach their facts now, if any do."""

    ids: Ints
    stored: Neurons
    part: Work | None

    @classmethod
    def by(cls, tokens: Ints, job: Work, part_of: Callable[[Ints], Work], stored: Neurons) -> Touched:
        """The ids of these tokens; `job`: all that there is to answer now, `part_of`: the same of some sequences."""
        begin = [BEGIN] if job.kind == "lm" or job.at_begin else []
        ids = np.unique(np.append(tokens + job.shift, np.array(begin, np.int64)))
        if job.at_begin:
            return cls(ids, stored, job)
        rows = np.unique(job.data.sequence[np.isin(job.data.tokens + job.shift, ids)])
        return cls(ids, stored, part_of(rows) if len(rows) else None)

    def among(self, count: int) -> NDArray[np.bool_]:
        """Which of all ids `(V,)` they are."""
        mask = np.zeros(count, dtype=bool)
        mask[self.ids] = True
        return mask

    def joined(self, mirror: Mirror, cell: Ints, block: Neurons) -> Neurons:
        """The stored neurons of all other tokens, and `block`, whose neurons belong to the tokens `cell`."""
        old = self.stored
        words = mirror.tokens[:, mirror.code]
        _, group = distinct_rows(np.sign(np.concatenate([words, old.W_1[:, mirror.code]])))
        number = np.full(int(group.max()) + 1, -1)
        number[group[: len(words)]] = np.arange(len(words))
        owner = number[group[len(words) :]]
        fires = old.W_1.any(axis=1)
        if (np.diff(owner[fires]) < 0).any() or (owner[fires] < 0).any():
            raise DataError("the neurons of this folder are not those that its draw gives: memorize the data anew")
        stays = fires & ~np.isin(owner, self.ids)
        order = np.argsort(np.append(owner[stays], cell), kind="stable")

        def merged(one: Floats, two: Floats) -> Floats:
            found: Floats = np.concatenate([one[stays], two])[order]
            return found

        W_1, b_1, W_2 = merged(old.W_1, block.W_1), merged(old.b_1, block.b_1), merged(old.W_2, block.W_2)
        return Neurons(W_1, b_1, W_2, len(order))
