"""The paper as functions: Boltzmann operator, separation, bounds, contextual mappings, and the theorems."""
