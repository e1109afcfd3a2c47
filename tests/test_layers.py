"""Imports point one way: from the command line down to the errors, never up and never sideways in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "monolayer"
ORDER = [
    *(
        "cli",
        "page",
        "auditing",
        "estimator",
        "editing",
        "saved",
        "cluster",
        "stock",
        "attaching",
        "construct",
        "model",
    ),
    "checker",
    *("theory", "huggingface", "data", "bar", "table", "errors", "kernels", "fused", "arrays"),
]
"""From top to bottom: a layer may import those to its right, and itself."""
FORBIDDEN = {
    *((layer, "checker") for layer in ("model", "construct", "attaching", "stock", "cluster")),
    *((layer, "torch") for layer in ("checker", "theory", "huggingface", "data")),
}
"""The checker is a stranger to the builder, and what it stands on needs no PyTorch."""
parsed = cache(ast.parse)


def statements(body: list[ast.stmt], types: bool) -> Iterator[ast.stmt]:
    """All statements of a file, also inside others; maybe those for types."""
    for node in body:
        yield node
        if types or not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            for block in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from statements(getattr(node, block, []), types)


def modules(source: str, known: set[str] | None = None, types: bool = True) -> set[str]:
    """Modules that a file imports, wherever in the file it does; maybe for types.

    Of what is taken out of a package: the file it is in, if that is `known`, else the package.
    """
    found = set()
    for node in statements(parsed(source).body, types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where an arrow points"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if known is None or name in known else node.module or "" for name in names}
    return found


def violations(layer: str, source: str) -> list[str]:
    """Layers and watched packages that a file of a layer imports, and may not; types aside."""
    found = set()
    for name in modules(source, types=False):
        first, _, rest = name.partition(".")
        found |= {rest.split(".")[0]} & set(ORDER) if first == "monolayer" else {first}
        found |= {"torch"} if name.startswith("safetensors.torch") else set()
    above = {*ORDER[: ORDER.index(layer)], *(() if layer == "cli" else ("monolayer_experiments",))}
    wrong = {other for other in found if other in above or (layer, other) in FORBIDDEN}
    return [f"{layer} imports {other}" for other in wrong]


def package(folder: Path = PACKAGE) -> dict[str, str]:
    """The files of the package by the names of their modules."""
    found = {}
    for path in folder.rglob("*.py"):
        parts = (folder.name, *path.relative_to(folder).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


def test_imports_point_down() -> None:
    sources = [(name.split(".")[1], text) for name, text in package().items() if "." in name]
    assert {layer for layer, _ in sources} - {"__main__"} == set(ORDER)
    assert [found for layer, text in sources if layer in ORDER for found in violations(layer, text)] == []
    told = (PACKAGE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE) == ORDER  # the table for contributors


def test_a_planted_violation_is_caught() -> None:
    for layer, line in (
        ("theory", "from monolayer.model.load import load"),
        ("data", "import monolayer.construct.memorize"),
        ("checker", "from monolayer.construct import memorize"),
        ("checker", "def f():\n    import torch"),
        ("checker", "from safetensors.torch import load_file"),
        ("model", "from monolayer import checker"),
        ("errors", "import monolayer.data"),
        ("page", "from monolayer_experiments import find"),
    ):
        assert violations(layer, line), line


def circle(sources: dict[str, str]) -> list[str]:
    """Modules that import each other in a circle, the first one again at the end; empty if there is none.

    `sources`: files by the names of their modules.
    """
    known = set(sources)
    arrows = {module: modules(source, known) & known - {module} for module, source in sources.items()}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle_and_a_planted_one_is_caught() -> None:
    assert circle(package()) == []
    assert circle(package(PACKAGE.parent / "monolayer_experiments")) == []
    for line in (
        "from monolayer.model.monolayer import Monolayer",
        "if TYPE_CHECKING:\n    from monolayer.model.monolayer import Monolayer",
        "def f():\n    import monolayer.model.monolayer",
        "from monolayer.model import monolayer",
    ):
        files = {"monolayer.model.monolayer": "import monolayer.model.shortcut", "monolayer.model.shortcut": line}
        assert set(circle(files)) == set(files)
