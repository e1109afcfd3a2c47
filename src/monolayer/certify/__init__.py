"""Stored weights and data in, a verdict out: proved, refuted or undecided. Knows no constructor, model or torch."""

from monolayer.certify.certificate import Certificate, Finding, data_digest
from monolayer.certify.check import certify, verify

__all__ = ["Certificate", "Finding", "certify", "data_digest", "verify"]
