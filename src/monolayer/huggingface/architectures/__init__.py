"""The architectures: one row of names and settings each, what it is with one layer, and what it is as a host.

A row is a file, or one object of a file whose architectures differ in a few words. It is taken from the source of
transformers 5.23. Folders are written and read by it. The tests compare it with transformers, which loads and runs
every architecture.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from monolayer.errors import DataError, similar_words
from monolayer.huggingface.architectures import bert, distilbert, gpt2, gpt_neox, llama, opt, starcoder2
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.stock_kind import StockKind

TRANSFORMERS = "5.23"
"""The version of transformers whose source the tables of architectures were read from."""
ARCHITECTURES: dict[str, StockKind] = {
    kind.name: kind
    for kind in (
        *(bert.STOCK, bert.ROBERTA_STOCK, distilbert.STOCK),
        *(gpt2.STOCK, opt.STOCK, gpt_neox.STOCK, starcoder2.STOCK, llama.STOCK),
    )
}
"""The architectures that `memorize_as` builds with one layer."""
HOSTS: dict[str, HostKind] = {
    kind.name: kind for kind in (gpt2.HOST, gpt_neox.HOST, opt.HOST, starcoder2.HOST, llama.HOST)
}
"""The architectures that facts can be attached to."""


def architecture_named(name: str) -> StockKind:
    """The architecture called `name`; for an unknown name, an error that suggests the nearest known one."""
    if isinstance(name, str) and name in ARCHITECTURES:  # anything but a string may not be hashable
        return ARCHITECTURES[name]
    near = similar_words(str(name).lower().replace("-", "_"), ARCHITECTURES)
    hint = f"did you mean {near[0]!r}? Known" if near else "known"
    raise DataError(f"architecture {name!r} is not known: {hint} are {', '.join(ARCHITECTURES)}")


@cache
def computed_by_transformers() -> str:
    """The assumption of a certificate that transformers compute an architecture as the source does that was read.

    It names the version that is installed, which may be another one. To find it, Python reads all that the package says
    of itself, so it is found once.
    """
    try:
        installed = f"installed here: {version('transformers')}"
    except PackageNotFoundError:
        installed = "not installed here"
    return f"the architecture computes what transformers {TRANSFORMERS} does, in evaluation mode ({installed})"
