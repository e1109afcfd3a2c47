"""Saved models, whichever kind of folder they lie in: one way to open them, and the verbs that need nothing else."""
