"""Measure any Transformer as the theory does: which of its parts tell contexts apart, and by how much."""

from monolayer.auditing.parts import Audit, AuditedPart
from monolayer.auditing.running import audit

__all__ = ["Audit", "AuditedPart", "audit"]
