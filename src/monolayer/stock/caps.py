"""Half-spaces around single facts, for folders that answer `unknown` to whatever is not in their data.

`cover` makes slabs as wide as other labels allow, so that a key which the data lack falls onto some side. Here whatever
is not close to a fact shall wake no neuron. Behind the second norm all that can arrive lies on a sphere,

    β² u² + |F c|² = D/2,    u = F s,    β² = (K + D ε)/2

(`K` the squared norm of the stream before the context `c` is added, over `s²`). So `w · z = D/2 − |z − z_f|²/2` with
`w = (β² u_f, F_f c_f)`, and the half-space of a fact `f` is a cap of that sphere: a ball around it. Its half-width `h`,
in the units of `w/|w|`, is `NARROW`, or half of what is left to the nearest fact with another label, if that is less.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from monolayer.construct.robust.groups import Cells, HalfSpaces
from monolayer.stock.mirror import Mirror

NARROW = 2.0**-5
"""`h`, about as narrow as a half-space may be that is still proved. The ball has radius `√(2 h |w|)`, which is about 1,
where contexts are some 10 long."""
AT_ONCE = 1 << 23
"""Products held at a time."""


def caps(facts: Cells, mirror: Mirror, one: float) -> HalfSpaces:
    """One for every fact whose label is not that of its cell; `one`: how `u` is counted in the features."""
    context = facts.feature.shape[1] - mirror.values.shape[1]
    beta = (mirror.rest + mirror.width * mirror.epsilon) / (2.0 * mirror.scale**2) - (context - 1)  # places have theirs
    weight = facts.feature.clone()
    weight[:, context - 1] *= beta / one**2
    size = weight.double().norm(dim=1).numpy()
    normal = weight / torch.from_numpy(size).float()[:, None]
    top = (normal * facts.feature).double().sum(dim=1).numpy()
    room = np.full(len(top), np.inf)
    for start, stop in pairwise(facts.start.tolist()):
        rows = max(1, AT_ONCE // (stop - start))
        for first in range(start, stop, rows):
            some = slice(first, min(stop, first + rows))
            height = (normal[some] @ facts.feature[start:stop].T).double().numpy()
            height[facts.label[some][:, None] == facts.label[start:stop]] = -np.inf
            room[some] = top[some] - height.max(axis=1)
    half_width = np.maximum(np.minimum(NARROW, room / 2.0), 1e-9)
    chosen = np.flatnonzero(facts.label != facts.base[facts.cell])
    return HalfSpaces(
        cell=facts.cell[chosen],
        label=facts.label[chosen],
        normal=normal[torch.from_numpy(chosen)],
        centre=(top - half_width)[chosen],
        half_width=half_width[chosen],
        worst=int(chosen[half_width[chosen].argmin()]) if len(chosen) else None,
    )
