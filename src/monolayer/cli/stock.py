"""`monolayer memorize --architecture`: a folder for transformers, with its certificate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monolayer.cli.console import print_json, table

if TYPE_CHECKING:
    from monolayer.data import Sequences
    from monolayer.stock.folder import StockModel


def check_stock(architecture: str, out: Path, overwrite: bool) -> None:
    """An unknown architecture and a folder that may not be replaced: better known before the work than after it."""
    from monolayer.data.folder import check_output
    from monolayer.stock.architecture import choose
    from monolayer.stock.architectures import ARCHITECTURES
    from monolayer.stock.folder import STOCK

    choose(architecture, ARCHITECTURES)
    check_output(out, overwrite=overwrite, kind=STOCK)


def write_stock(
    architecture: str,
    sequences: Sequences,
    options: Mapping[str, Any],
    out: Path,
    overwrite: bool,
    step: Callable[[str, float], None],
    as_json: bool,
) -> None:
    """Build the model, write its folder, and what could be proved of it as `certificate.json` beside it."""
    from monolayer.stock.build import memorize_as

    model = memorize_as(architecture, sequences, progress=step, **options)
    step("writing", 0.9)
    model.save(out, overwrite=overwrite)
    told(model, out, step, as_json)


def told(model: StockModel, out: Path, step: Callable[[str, float], None], as_json: bool) -> None:
    """Prove what lies in `out`, as far as that goes, keep the certificate beside it, and show both."""
    from monolayer.checker import certify

    step("checking every label", 0.95)
    certificate = certify(out, model.data)
    certificate.save(out)
    if as_json:
        print_json({"folder": str(out), **model.json(), "certificate": json.loads(certificate.to_json())})
    else:
        verdict = f"{certificate.verdict}: {certificate.reason}"
        table(str(out), [*model.rows(), ("certificate", verdict), ("load with", model.loads_with())])
