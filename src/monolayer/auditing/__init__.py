"""Any Transformer, looked at as the theory looks at ours: which parts tell contexts apart, and by how much."""

from monolayer.auditing.parts import Audit, Part, audit

__all__ = ["Audit", "Part", "audit"]
