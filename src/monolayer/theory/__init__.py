"""The paper as functions: Boltzmann operator, separation, bounds, contextual mappings, and the theorems."""

from monolayer.theory.boltzmann import boltz, boltzmann
from monolayer.theory.bounds import corollary1_parameters, good_direction, theorem2
from monolayer.theory.closest import closest_pair
from monolayer.theory.contextual import ContextualMapping, contextual_mapping
from monolayer.theory.injectivity import projection_injective, proportional, theorem_a
from monolayer.theory.separation import Separation, separation
from monolayer.theory.theorem import Theorem, theorem

__all__ = [
    "ContextualMapping",
    "Separation",
    "Theorem",
    "boltz",
    "boltzmann",
    "closest_pair",
    "contextual_mapping",
    "corollary1_parameters",
    "good_direction",
    "projection_injective",
    "proportional",
    "separation",
    "theorem",
    "theorem2",
    "theorem_a",
]
