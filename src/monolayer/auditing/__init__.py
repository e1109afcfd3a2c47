"""Transformers of any kind, measured as the theory does: which parts tell contexts apart, and by how much."""

from monolayer.auditing.parts import Audit, AuditedPart
from monolayer.auditing.running import audit

__all__ = ["Audit", "AuditedPart", "audit"]
