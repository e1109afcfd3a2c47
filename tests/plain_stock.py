"""BERT and GPT-2 for token classification, one layer, one head, in NumPy: an evaluator that is quick to ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file


def read(folder: Path) -> dict[str, Any]:
    return {
        "config": json.loads((folder / "config.json").read_text(encoding="utf-8")),
        "tensors": load_file(folder / "model.safetensors"),
        "tokenizer": (folder / "tokenizer.json").read_text(encoding="utf-8"),
        "tokenizer_config": (folder / "tokenizer_config.json").read_text(encoding="utf-8"),
    }


def write(model: dict[str, Any], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    tensors = {name: np.ascontiguousarray(value) for name, value in model["tensors"].items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(model["config"]), encoding="utf-8")
    (folder / "tokenizer.json").write_text(model["tokenizer"], encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(model["tokenizer_config"], encoding="utf-8")


def logits(model: dict[str, Any], ids: Any, mask: Any) -> Any:
    """`(N, n, C)` for ids and mask `(N, n)`."""
    return _bert(model, ids, mask) if model["config"]["model_type"] == "bert" else _gpt2(model, ids, mask)


def arriving(model: dict[str, Any], ids: Any) -> Any:
    """What the feed-forward block sees `(N, n, D)`."""
    found: list[Any] = []
    (_bert if model["config"]["model_type"] == "bert" else _gpt2)(model, ids, np.ones_like(ids), found)
    return found[0]


def _norm(x: Any, tensors: dict[str, Any], name: str, epsilon: float) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + epsilon)
    return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def _attend(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = np.where(seen, q @ k.swapaxes(1, 2) / float(np.sqrt(q.shape[-1])), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ v


def _active(x: Any, name: str) -> Any:
    assert name in ("relu", "relu6")
    return np.clip(x, 0.0, 6.0 if name == "relu6" else None)


def _bert(model: dict[str, Any], ids: Any, mask: Any, arrived: list[Any] | None = None) -> Any:
    tensors, epsilon = model["tensors"], model["config"]["layer_norm_eps"]
    block = "bert.encoder.layer.0"

    def linear(x: Any, name: str) -> Any:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    places = tensors["bert.embeddings.position_embeddings.weight"][: ids.shape[1]]
    types = tensors["bert.embeddings.token_type_embeddings.weight"][0]
    x = tensors["bert.embeddings.word_embeddings.weight"][ids] + types + places
    x = _norm(x, tensors, "bert.embeddings.LayerNorm", epsilon)
    q, k, v = (linear(x, f"{block}.attention.self.{name}") for name in ("query", "key", "value"))
    seen = mask[:, None, :].astype(bool)
    attended = linear(_attend(q, k, v, seen), f"{block}.attention.output.dense")
    x = _norm(attended + x, tensors, f"{block}.attention.output.LayerNorm", epsilon)
    if arrived is not None:
        arrived.append(x)
    hidden = _active(linear(x, f"{block}.intermediate.dense"), model["config"]["hidden_act"])
    x = _norm(linear(hidden, f"{block}.output.dense") + x, tensors, f"{block}.output.LayerNorm", epsilon)
    return linear(x, "classifier")


def _gpt2(model: dict[str, Any], ids: Any, mask: Any, arrived: list[Any] | None = None) -> Any:
    tensors, epsilon = model["tensors"], model["config"]["layer_norm_epsilon"]
    block = "transformer.h.0"

    def conv(x: Any, name: str) -> Any:
        return x @ tensors[f"{block}.{name}.weight"] + tensors[f"{block}.{name}.bias"]

    x = tensors["transformer.wte.weight"][ids] + tensors["transformer.wpe.weight"][: ids.shape[1]]
    q, k, v = np.split(conv(_norm(x, tensors, f"{block}.ln_1", epsilon), "attn.c_attn"), 3, axis=-1)
    n = ids.shape[1]
    seen = np.tril(np.ones((n, n), dtype=bool)) & mask[:, None, :].astype(bool)
    x = x + conv(_attend(q, k, v, seen), "attn.c_proj")
    normed = _norm(x, tensors, f"{block}.ln_2", epsilon)
    if arrived is not None:
        arrived.append(normed)
    hidden = _active(conv(normed, "mlp.c_fc"), model["config"]["activation_function"])
    x = _norm(x + conv(hidden, "mlp.c_proj"), tensors, "transformer.ln_f", epsilon)
    return x @ tensors["classifier.weight"].T + tensors["classifier.bias"]
