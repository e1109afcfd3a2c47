"""Adds to src/monolayer/huggingface/resaved.json what the installed transformers writes when it saves our folders.

    python tests/write_resaved.py                                  for each version that the table must know
    HF_HUB_OFFLINE=1 python tests/write_resaved.py                 tokenizers note whether they were loaded offline
    pip install --target old --no-deps 'transformers==4.57.*' 'huggingface_hub<1' 'tokenizers<0.23'
    PYTHONPATH=old:src python tests/write_resaved.py               transformers 4

Before a new row is committed, hold it against the source of transformers 5: it must change nothing for that value.
tests/test_resaved.py does so for configurations. What the table cannot hold is printed: values that depend on the
model, and values of ours that were changed or, in `generation_config.json`, left out (transformers 5 samples in
pipelines unless `do_sample` is false, so a language model that transformers 4 saved is another model).
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import monolayer as ml
from monolayer.huggingface.architecture import CLASS_SUFFIXES
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.strict import equal

TABLE = Path(ml.__file__).parent / "huggingface" / "resaved.json"
ROWS, TEXTS = [["a", "b", "c"], ["c", "a"]], [["a", "b"], ["c", "a", "b"]]
LABELS: dict[str, Any] = {"token": [["u", "v", "w"], ["v", "u"]], "sequence": ["u", "v"], "lm": None}
BY_HAND = {"is_local": [False], "local_files_only": [False, True]}
"""Values that a tokenizer from the hub has; `from_pretrained` overwrites both before they are used."""
FROM_FACTS = {"transformers_version", "added_tokens_decoder", "partial_rotary_factor", "max_length"}
FROM_FACTS |= {"padding", "truncation"}
"""Keys whose values `monolayer.huggingface.resaved` knows from the facts of a folder."""


def folders(out: Path) -> Iterator[tuple[str, str, Path]]:
    """Folders of every architecture and task, of steps and of cells, with and without positions."""
    for name, kind in ARCHITECTURES.items():
        for task in kind.models:
            for storage in ("cells",) if kind.rms else ("cells", "steps"):
                for positions in (True, False) if kind.has_places or storage == "cells" else (False,):
                    options: dict[str, Any] = {"storage": storage, "positions": positions}
                    rows = TEXTS if task == "lm" else ROWS
                    model = ml.memorize_as(name, rows, LABELS[task], rank=16 if storage == "cells" else None, **options)
                    yield name, task, model.save(out / f"{name}-{task}-{storage}-{positions}")


def resaved(task: Any, folder: Path, out: Path) -> Path:
    """The folder as transformers saves it again; twice if its tokenizer was used, which `tokenizer.json` then shows."""
    import transformers

    loads = getattr(transformers, f"AutoModel{CLASS_SUFFIXES[task]}").from_pretrained
    loads(folder, dtype="auto").save_pretrained(out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if "True" in folder.name:
        tokenizer(["a", "b"], padding=True, truncation=True)
        tokenizer.save_pretrained(out)
        tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def main() -> None:
    import transformers

    transformers.logging.set_verbosity_error()
    more: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    lacks: dict[str, set[str]] = defaultdict(set)
    instead: dict[str, list[Any]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        for name, task, folder in folders(Path(scratch)):
            new = resaved(task, folder, Path(f"{folder}-again"))
            for file in ("config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json"):
                if not (folder / file).exists():
                    continue
                ours, theirs = (json.loads((where / file).read_text("utf-8")) for where in (folder, new))
                group = name if file == "config.json" else file
                for key in {**ours, **theirs}:
                    if key in FROM_FACTS or (key in ours and key in theirs and equal(ours[key], theirs[key])):
                        continue
                    if key not in ours and file != "tokenizer.json":
                        _add(more[group][key], theirs[key])
                    elif key not in theirs and file == "config.json":
                        lacks[name].add(key)
                    elif key == "tokenizer_class":
                        _add(instead[key], theirs[key])
                    else:
                        print(f"{folder.name}: {file}: {key} = {ours.get(key)!r} → {theirs.get(key, 'nothing')!r}")
    table = json.loads(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    table.setdefault("transformers", [])
    _add(table["transformers"], transformers.__version__)
    for name in ARCHITECTURES:
        row = table.setdefault("config.json", {}).setdefault(name, {"more": {}, "lacks": []})
        for key, values in more[name].items():
            if len(values) == 1:
                _add(row["more"].setdefault(key, []), values[0])
            else:
                print(f"{name}: {key} depends on the model: {values}")
        row["lacks"] = sorted({*row["lacks"], *lacks[name]})
    tokenizer = table.setdefault("tokenizer_config.json", {"more": {}, "instead": {}})
    for part, found in (("more", {**more["tokenizer_config.json"]}), ("more", BY_HAND), ("instead", instead)):
        for key, values in found.items():
            for value in values:
                _add(tokenizer[part].setdefault(key, []), value)
    print(f"generation_config.json: more: {dict(more['generation_config.json'])}")
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _add(values: list[Any], value: Any) -> None:
    if not any(equal(value, known) for known in values):
        values.append(value)


if __name__ == "__main__":
    main()
