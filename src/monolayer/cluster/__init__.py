"""The same construction over files that do not fit into memory: pure functions over pieces, an executor in front."""
