"""Texts of other kinds than questions, by which the default floor of thresholds is chosen."""

TEXTS = (
    "The river had risen in the night, and the bridge was closed until noon.",
    "She put the letter back into the drawer and said nothing about it.",
    "Add two spoons of flour, stir, and let the sauce rest for five minutes.",
    "def mean(values): return sum(values) / len(values)",
    "Shares of the company fell by three percent on Tuesday.",
    "Thank you for your order. It will be sent within two working days.",
    "The court found that the contract had been signed under pressure.",
    "Water boils at a lower temperature in the mountains.",
    "Please remember to switch off the lights when you leave the room.",
    "SELECT name, price FROM products WHERE price < 20 ORDER BY name;",
    "It was the best holiday that we have had for years!",
    "A triangle with two equal sides has two equal angles.",
    "The patient was given antibiotics and went home after a week.",
    "In the second half the visitors scored twice and won.",
    "Rain is expected in the west, with strong winds along the coast.",
    "The orchestra will play a symphony by a young composer tonight.",
    "ok, see you tomorrow then",
    "Error: the file could not be opened because it is in use.",
    "Many insects see light that people cannot see.",
    "The committee meets every second Thursday of the month.",
    "He learned to drive a tractor before he learned to swim.",
    "This product contains nuts and may contain traces of milk.",
    "The museum owns a large collection of old maps and globes.",
    "Turn left at the church and follow the road for two miles.",
)
"""Prose, code, notices and talk; none of it is a question."""
