"""What the site needs beyond its pages: links that leave `docs/` become plain text, since the site has no such page."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return _OUTSIDE.sub(r"\1", markdown)
