"""Where facts live in stored weights: the neurons that write at each, and what the model answers without them."""
