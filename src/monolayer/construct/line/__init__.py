"""The paper's construction: one number per point, a staircase over the line."""
