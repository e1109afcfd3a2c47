"""The paper as functions: Boltzmann operator, separation, bounds, contextual mappings, and the theorems."""

from monolayer.theory.boltzmann import boltz, boltzmann
from monolayer.theory.bounds import corollary1_parameters, good_direction, theorem2
from monolayer.theory.closest import closest_pair
from monolayer.theory.contextual import ContextualMapping, contextual_mapping
from monolayer.theory.frequency import same_frequencies
from monolayer.theory.hardmax import Refutation, refute_hardmax
from monolayer.theory.injectivity import projection_injective, theorem_a
from monolayer.theory.separation import Separation, separation
from monolayer.theory.theorem import Theorem, theorem

__all__ = [
    "ContextualMapping",
    "Refutation",
    "Separation",
    "Theorem",
    "boltz",
    "boltzmann",
    "closest_pair",
    "contextual_mapping",
    "corollary1_parameters",
    "good_direction",
    "projection_injective",
    "refute_hardmax",
    "same_frequencies",
    "separation",
    "theorem",
    "theorem2",
    "theorem_a",
]
