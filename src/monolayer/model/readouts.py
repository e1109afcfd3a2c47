"""Every readout by its name in files. A new one is a file of its own and a line here."""

from __future__ import annotations

from monolayer.model.attention import RankOneAttention
from monolayer.model.cascade import Cascade
from monolayer.model.gates import Gates, RankAttention
from monolayer.model.staircase import Readout

READOUTS: dict[str, tuple[type[Readout], type[RankOneAttention]]] = {
    "exact": (Cascade, RankOneAttention),
    "runs": (Cascade, RankOneAttention),
    "gates": (Gates, RankAttention),
}
"""The readout, and the attention before it."""
