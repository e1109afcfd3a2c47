"""The robust construction: value rank k, half-spaces with margins, gates. It survives noise and short formats."""
