"""The kinds of models in monolayer's own format. One row each, which `kind` in `config.json` names.

The name is looked up here, and whatever depends on it is asked of the row. The builder and the checker read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelKind:
    """A kind of model.

    `holds_facts`: whether its readout holds the labels of data, rather than the values of a function in cells.
    `has_readout`: whether it has a readout, an embedding of tokens and the other fields of a memorizer; a network for
    the maximum norm has a format of its own. `has_grid`: whether it cuts vectors into the cells of a grid.
    """

    name: str
    holds_facts: bool = False
    has_readout: bool = True
    has_grid: bool = False


MEMORIZER = ModelKind("memorizer", holds_facts=True)
APPROXIMATOR = ModelKind("approximator", has_grid=True)
INTERPOLATOR = ModelKind("interpolator", has_readout=False)
MODEL_KINDS = {kind.name: kind for kind in (MEMORIZER, APPROXIMATOR, INTERPOLATOR)}


def kind_of(config: Mapping[str, object]) -> ModelKind:
    """The kind that a `config.json` names; a memorizer if the name is wrong, which whatever reads the rest says."""
    name = config.get("kind")
    return MODEL_KINDS.get(name, MEMORIZER) if isinstance(name, str) else MEMORIZER


__all__ = ["APPROXIMATOR", "INTERPOLATOR", "MEMORIZER", "MODEL_KINDS", "ModelKind", "kind_of"]
