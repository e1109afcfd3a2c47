"""Any Transformer, looked at as the theory looks at ours: which parts tell contexts apart, and by how much."""

from monolayer.auditing.parts import Audit, AuditedPart, audit

__all__ = ["Audit", "AuditedPart", "audit"]
