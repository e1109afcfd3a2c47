"""monolayer: one-layer, rank-1 Transformers that return every label of a dataset, built without training.

Names load on first use, so that a checker or a help page does not wait for PyTorch.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monolayer.attaching.attach import attach as attach
    from monolayer.attaching.questions.recognize import recognize as recognize
    from monolayer.auditing import audit as audit
    from monolayer.checker.certificate import Certificate as Certificate
    from monolayer.checker.confuse import confuse as confuse
    from monolayer.cluster.memorize import memorize_files as memorize_files
    from monolayer.construct.approximate import approximate as approximate
    from monolayer.construct.memorize import memorize as memorize
    from monolayer.construct.memorize import memorize_text as memorize_text
    from monolayer.data.readers import read as read
    from monolayer.data.sequences import Sequences as Sequences
    from monolayer.editing.compare import compare as compare
    from monolayer.editing.facts import Facts as Facts
    from monolayer.editing.facts import edit as edit
    from monolayer.editing.facts import forget as forget
    from monolayer.editing.facts import insert as insert
    from monolayer.editing.record import Record as Record
    from monolayer.errors import ContradictionError as ContradictionError
    from monolayer.errors import DataError as DataError
    from monolayer.errors import ModelFileError as ModelFileError
    from monolayer.errors import MonolayerError as MonolayerError
    from monolayer.errors import OutOfMemoryError as OutOfMemoryError
    from monolayer.errors import PrecisionError as PrecisionError
    from monolayer.estimator import MonolayerClassifier as MonolayerClassifier
    from monolayer.model.monolayer import Monolayer as Monolayer
    from monolayer.model.rank_one import attention as attention
    from monolayer.model.uniform import Uniform as Uniform
    from monolayer.saved.certify import certify as certify
    from monolayer.saved.detach import detach as detach
    from monolayer.saved.load import load as load
    from monolayer.saved.locate import locate as locate
    from monolayer.saved.statement import statement as statement
    from monolayer.stock.build import memorize_as as memorize_as
    from monolayer.stock.export import export as export
    from monolayer.theory.contextual import contextual_mapping as contextual_mapping
    from monolayer.theory.hardmax import refute_hardmax as refute_hardmax
    from monolayer.theory.separation import separation as separation
    from monolayer.theory.theorem import theorem as theorem

__version__ = "0.2.0"

_HOMES = {
    "construct.memorize": "memorize memorize_text",
    "stock.build": "memorize_as",
    "attaching.attach": "attach",
    "saved.detach": "detach",
    "attaching.questions.recognize": "recognize",
    "cluster.memorize": "memorize_files",
    "stock.export": "export",
    "construct.approximate": "approximate",
    "auditing": "audit",
    "editing.facts": "forget edit insert Facts",
    "editing.compare": "compare",
    "editing.record": "Record",
    "saved.locate": "locate",
    "saved.certify": "certify",
    "saved.statement": "statement",
    "checker.certificate": "Certificate",
    "checker.confuse": "confuse",
    "model.rank_one": "attention",
    "saved.load": "load",
    "model.monolayer": "Monolayer",
    "estimator": "MonolayerClassifier",
    "model.uniform": "Uniform",
    "data.sequences": "Sequences",
    "data.readers": "read",
    "theory.separation": "separation",
    "theory.contextual": "contextual_mapping",
    "theory.theorem": "theorem",
    "theory.hardmax": "refute_hardmax",
    "errors": "MonolayerError DataError ContradictionError PrecisionError ModelFileError OutOfMemoryError",
}
_HOME = {name: f"monolayer.{module}" for module, names in _HOMES.items() for name in names.split()}

_NEEDS = {"MonolayerClassifier": "sklearn"}
"""Names that exist only where another package is installed; the extra that installs it has its name."""


def _installed(name: str) -> bool:
    return name not in _NEEDS or find_spec(_NEEDS[name]) is not None


__all__ = sorted([*filter(_installed, _HOME), "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'monolayer' has no attribute {name!r}")
    if not _installed(name):  # no ImportError: hasattr, help and `import *` must go on
        raise AttributeError(f"monolayer.{name} needs an extra: pip install 'monolayer[{_NEEDS[name]}]'")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
