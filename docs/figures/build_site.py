"""Builds the site: Zensical's pages, `llms.txt` for readers that are programs, and the builder as a folder of its own.

`[project.urls]` of pyproject.toml is the one place that says where the project lives. While it is commented out, the
site has no link to its source, notebooks have none that opens them elsewhere, and shared pages have no picture.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SPACE = """---
title: monolayer
emoji: 📐
sdk: static
app_file: index.html
license: apache-2.0
short_description: A one-layer Transformer, built from facts as you type
---

One HTML file that builds a one-layer Transformer from facts that you type, without training, and runs it in the
browser. It loads nothing and sends nothing. `monolayer page --out index.html` writes it.
"""
"""What a static host of Hugging Face reads beside `index.html`; others pass it over."""


def addresses(project: Path) -> dict[str, str]:
    """What `mkdocs.yml` and `site_markdown` ask the environment for: the addresses of the source and of the site."""
    urls = tomllib.loads(project.read_text(encoding="utf-8"))["project"].get("urls", {})
    return {"REPO_URL": urls.get("Source", ""), "SITE_URL": urls.get("Documentation", "")}


def llms(settings: str, index: str, site: str = "") -> str:
    """`llms.txt`: the home page's first sentences, then every page of the navigation, by section.

    `settings`: the text of mkdocs.yml. `site`: the address that links begin with; without one they are relative.
    """
    lines = ["# monolayer", ""]
    opening = " ".join(index.partition("# monolayer\n")[2].strip().partition("\n\n")[0].partition(" Try it")[0].split())
    lines.append(f"> {opening}")
    for line in settings.partition("\nnav:\n")[2].splitlines():
        entry = re.match(r'( +)- "?(.+?)"?: *(\S+\.md)?$', line)
        assert entry is not None, line
        depth, title, file = len(entry[1]) // 4, entry[2], entry[3]
        link = f"- [{title}]({site}{file.removesuffix('.md')}.html)" if file else f"##{'#' * depth} {title}"
        lines += [""] * (lines[-1] != "" and not (file and lines[-1].startswith("-"))) + [link]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Build into `build/site` and `build/builder`; a warning is an error."""
    known = addresses(ROOT / "pyproject.toml")
    path = os.pathsep.join(filter(None, [str(ROOT / "docs" / "figures"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | known | {"PYTHONPATH": path})
    settings, index = ((ROOT / name).read_text(encoding="utf-8") for name in ("mkdocs.yml", "docs/index.md"))
    (ROOT / "build" / "site" / "llms.txt").write_text(llms(settings, index, known["SITE_URL"]), encoding="utf-8")
    folder = ROOT / "build" / "builder"
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_bytes((ROOT / "docs" / "builder.html").read_bytes())
    (folder / "README.md").write_text(SPACE, encoding="utf-8")


if __name__ == "__main__":
    main()
