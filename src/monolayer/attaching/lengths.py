"""How long the states of a host are that written vectors must outweigh, measured at a text that is always the same."""

from __future__ import annotations

from monolayer.attaching.running import Running
from monolayer.huggingface.cutting import tokenizer_of

TYPICAL = (
    "The capital of France is Paris. The river runs through the city and into the sea. In 1969 people landed on the "
    "Moon. Water boils at one hundred degrees."
)
"""The text at which states are measured. It is fixed, so that neurons depend on the host and their own fact alone."""
FIRST_TOKENS = 4
"""How many places of that text do not count. In many trained models the first state is several times as long as all
others, and no answer stands there."""
ROOM_FOR_LENGTH = 1.25
"""Where states are longer than usual, how much longer than the longest at that text those may be that written vectors
are sized for. In SmolLM2-135M states are up to 1,070 long there, and 345 states at places of answers up to 1,100."""
LONGEST_STATE = 2.0**15
"""Written vectors are sized for no longer states, which what `PEAK` allows hardly outweighs."""


def to_outweigh(running: Running, tokenizer: bytes) -> float:
    """How long the states are that what neurons write must outweigh: `HostFormat.state`, times a power of two.

    In float16 that is 512 unless the host's states are longer, since vectors that are long for no need leave room for
    fewer blocks. `tokenizer`: the bytes of `tokenizer.json`.
    """
    usual = running.host.format.state
    if not running.host.format.limited:  # other formats have room for every length
        return usual
    ids = tokenizer_of(tokenizer).encode(TYPICAL).ids[: running.host.places]
    ids = [token for token in ids if token < running.host.vocabulary]
    if len(ids) <= FIRST_TOKENS:
        return usual
    (states,) = running.states([ids])
    longest = float(states[FIRST_TOKENS:].double().norm(dim=1).max())
    if not usual < longest < LONGEST_STATE:  # a state that is not finite is named with the fact that has one
        return usual
    doubled = 2.0 * usual
    while doubled < ROOM_FOR_LENGTH * longest:
        doubled *= 2.0
    return doubled
