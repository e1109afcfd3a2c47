"""Edit and forget: exact, local changes of a model's readout, and records of them (docs/editing.md)."""
