"""Find where facts live in stored weights: which neurons write at each fact, and what is answered without them."""
