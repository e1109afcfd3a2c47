"""What the site needs beyond its pages: the page that builds, and links that leave `docs/` as plain text."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File, Files

from monolayer.page import page

_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]*\)")


def on_files(files: Files, config: Any) -> None:
    """Called by mkdocs once: what the site consists of."""
    files.append(File.generated(config, "builder.html", content=page()))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return _OUTSIDE.sub(r"\1", markdown).replace("](looking.md#a-page-that-builds)", "](builder.html)")
