"""From data to models; `memorize` reads like the proof."""
