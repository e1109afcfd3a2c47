"""The paper's construction: one number a point, a staircase over the line."""
