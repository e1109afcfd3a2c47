"""Experiments: one claim per file, measured through the public interface. Modules load on first use."""

from __future__ import annotations

from importlib import import_module

from monolayer.errors import DataError, similar_words
from monolayer_experiments.experiment import Experiment

SECTIONS = {
    "What one layer holds": ("memorization", "duplicates", "precision", "rank", "ranks", "frontier", "keys"),
    "Construction beside training": ("depth", "shortfall", "tagging", "editing", "unlearning", "attach"),
    "From the mean to hardmax": ("temperature",),
    "Functions": ("equivariant", "functions", "quantizer", "heads", "uniform"),
}
"""The experiments by the sections of the report; each is the module of the same name."""
NAMES = tuple(name for names in SECTIONS.values() for name in names)


def find(name: str) -> Experiment:
    """The experiment called `name`; an unknown name is a DataError that suggests the nearest."""
    if name not in NAMES:
        near = similar_words(name, [*NAMES, "all"])
        hint = f"; did you mean {near[0]!r}? There" if near else ". There"
        raise DataError(f"there is no experiment {name!r}{hint} are: {', '.join(NAMES)}")
    module = import_module(f"monolayer_experiments.{name}")
    return Experiment(
        name, module.QUESTION, module.PLAN, module.run, module.answer, module.figures, module.tables, module.limits
    )
