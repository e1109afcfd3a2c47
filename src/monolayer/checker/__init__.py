"""Stored weights and data in, a verdict out: proved, refuted or undecided. Knows no constructor, model or torch."""

from monolayer.checker.certificate import Certificate, Finding
from monolayer.checker.labelled import data_digest

__all__ = ["Certificate", "Finding", "data_digest"]
