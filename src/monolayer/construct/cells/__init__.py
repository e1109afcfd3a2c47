"""What an approximator needs around the line: a function, a grid of cells, their cost and their error."""
