"""Scripts of docs/figures and bench, which lie outside the package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def script(path: str) -> Any:
    """The script at `path`, from the root of the repository."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str((ROOT / path).parent))  # a script finds those beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
