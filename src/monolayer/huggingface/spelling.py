"""Whether two `config.json` of hosts describe the same model, in different words.

transformers writes a configuration anew when it saves a folder: it adds values that are the default, leaves out others,
renames `torch_dtype` and moves the angles of rotary positions from three keys into one or back. Here both are brought
into one form: every key that counts, with its default if it is missing (`host_defaults.json`, which holds the defaults
of transformers 4.57 and 5.23; they are the same). The tests compare it with transformers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.settings import FREE_GENERATION, NEUTRAL, word_set

UNREAD = word_set("""
    transformers_version _name_or_path name_or_path _commit_hash dtype torch_dtype use_cache tokenizer_class prefix
    task_specific_params problem_type finetuning_task id2label label2id num_labels gradient_checkpointing
    _attn_implementation_autoset unsloth_version unsloth_fixed transformers.js_config tf_legacy_loss
    initializer_range init_std attention_dropout dropout resid_pdrop embd_pdrop attn_pdrop hidden_dropout
    classifier_dropout residual_dropout embedding_dropout activation_dropout layerdrop attention_probs_dropout_prob
    hidden_dropout_prob summary_type summary_use_proj summary_activation summary_proj_to_labels summary_first_dropout
    summary_last_dropout return_dict output_attentions output_hidden_states torchscript use_bfloat16 pruned_heads
    tie_encoder_decoder cross_attention_hidden_size chunk_size_feed_forward is_encoder_decoder sep_token_id
    decoder_start_token_id is_decoder n_ctx n_special predict_special_tokens output_past _num_labels unk_token_id
    max_sequence_length is_llama_config original_max_position_embeddings
""")
"""Keys that do not change which numbers a causal language model computes in evaluation.

They are about training, losses, other heads, or what a call returns; `check_settings` looks at the values of those that
might. dtype is compared with the weights."""
GENERATION = (FREE_GENERATION | NEUTRAL.keys()) - {"bos_token_id", "eos_token_id", "pad_token_id"}
"""Settings of `generate`, which old versions of transformers wrote into `config.json`."""
ROTARY = {"rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "rotary_pct", "rotary_emb_base"}
OLD_NAMES = {"type": "rope_type"}
KEEP_PLACES, ORIGINAL = ("llama3", "yarn", "longrope"), "original_max_position_embeddings"
"""Kinds of rotary positions that depend on how many places a model was trained with, and the key that says so."""
THETA = 10000.0
"""The angle of rotary positions if `config.json` does not say."""


@cache
def host_defaults() -> dict[str, dict[str, Any]]:
    """The content of `host_defaults.json`: the values of missing keys, for each architecture."""
    text = files("monolayer.huggingface").joinpath("host_defaults.json").read_text("utf-8")
    defaults: dict[str, dict[str, Any]] = json.loads(text)
    return defaults


def different_key(kind: HostKind, one: Mapping[str, Any], two: Mapping[str, Any]) -> str | None:
    """The first key in which two `config.json` of this architecture describe different models, in words, or None."""
    first, second = settled(kind, one), settled(kind, two)
    for key in sorted({*first, *second}):
        if not _same(first.get(key), second.get(key)):
            return f"{key} = {first.get(key)!r:.80}, not {second.get(key)!r:.80}"
    return None


def settled(kind: HostKind, config: Mapping[str, Any]) -> dict[str, Any]:
    """Every key of a `config.json` that counts, with the default of those that are missing."""
    unread = UNREAD | GENERATION | ROTARY
    read = {key: value for key, value in config.items() if key not in unread}
    settings = {**host_defaults()[kind.name], **read}
    if "num_key_value_heads" in settings and settings["num_key_value_heads"] is None:
        settings["num_key_value_heads"] = settings["num_attention_heads"]
    if "head_dim" in settings and settings["head_dim"] is None:
        settings["head_dim"] = _quotient(settings["hidden_size"], settings["num_attention_heads"])
    layers = settings.get("layer_types")
    if isinstance(layers, list) and all(each == "full_attention" for each in layers):
        del settings["layer_types"]
    settings = {key: value for key, value in settings.items() if value is not None}
    if kind.places is None:  # rotary positions
        settings["rope_parameters"] = _rotary(kind, config)
    return settings


def _rotary(kind: HostKind, config: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary positions as transformers 5 reads them, and whatever transformers 4 would read otherwise."""
    older, newer = config.get("rope_scaling") or {}, config.get("rope_parameters") or {}
    if not isinstance(older, dict) or not isinstance(newer, dict):
        return {"rope_parameters": newer, "rope_scaling": older}
    theta = config.get(kind.theta_key)
    share = config.get("partial_rotary_factor", config.get("rotary_pct"))
    named = {"rope_theta": theta, "partial_rotary_factor": share, **older}
    named = {OLD_NAMES.get(key, key): value for key, value in named.items() if value is not None}
    usual = {"rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": kind.turned}
    rotary = {**usual, **named, **{OLD_NAMES.get(key, key): value for key, value in newer.items()}}
    if rotary["rope_type"] in KEEP_PLACES:
        places = config.get(ORIGINAL, rotary.get(ORIGINAL, config.get("max_position_embeddings")))
        rotary[ORIGINAL] = named[ORIGINAL] = places
    # Where both are there, transformers 5 reads the newer keys, and transformers 4 the older ones.
    other = {key: value for key, value in named.items() if not _same(value, rotary[key])}
    return {**rotary, "in older keys": other} if newer and other else rotary


def _quotient(one: Any, two: Any) -> Any:
    """The quotient of two whole numbers, None if they are not that."""
    return one // two if type(one) is int and type(two) is int and two else None


def _same(one: Any, two: Any) -> bool:
    """Whether two values are the same; 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(value, two[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)


__all__ = ["different_key", "host_defaults", "settled"]
