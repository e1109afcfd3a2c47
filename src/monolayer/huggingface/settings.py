"""Which keys `config.json` and `generation_config.json` of a host may have, and which values.

Facts are proved about the model that transformers makes of a folder, so every key that transformers reads must be known
here or in the row of the architecture (`HostKind.known_keys`). Any other key is refused: it could be another name of a
key that counts (`num_hidden_layers` beside the `n_layer` of GPT-2), name other weights (`transformers_weights`), other
code, or other layers (`per_layer_config`). A known key acts in the same way on the host and on the folder with facts
(rotary angles, scales of attention), or acts on neither (dropout, labels), or has its value checked. The tables are
taken from transformers 5.23 and from what earlier versions wrote. The tests compare them with transformers.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from monolayer.errors import DataError
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.marks import ATTACHED_MARK

GENERATION_FILE = "generation_config.json"


def word_set(text: str) -> frozenset[str]:
    """The set of the words in a text."""
    return frozenset(text.split())


FREE_GENERATION = word_set("""
    temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff
    max_length max_new_tokens length_penalty early_stopping num_return_sequences
    use_cache cache_implementation cache_config max_cache_len compile_config disable_compile low_memory
    prefill_chunk_size continuous_batching_config
    output_attentions output_hidden_states output_scores output_logits return_dict_in_generate
    is_assistant num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold
    prompt_lookup_num_tokens max_matching_ngram_size assistant_lookbehind target_lookbehind
    assistant_ensemble_weight speculation_type
    bos_token_id eos_token_id pad_token_id decoder_start_token_id transformers_version _from_model_config
""")
"""Keys of `generation_config.json` that do not change which token greedy decoding takes.

They concern only sampling and beams, limits of length, caches, and speculation."""
NEUTRAL: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("do_sample", "renormalize_logits", "remove_invalid_values", "token_healing", "use_mtp"), (False,)),
    **dict.fromkeys(("num_beams", "num_beam_groups", "guidance_scale", "repetition_penalty"), (1, 1.0)),
    "encoder_repetition_penalty": (1, 1.0),
    **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), (0,)),
    **dict.fromkeys(("penalty_alpha", "diversity_penalty"), (0, 0.0)),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "force_words_ids"), ([],)),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty"), ()),
    **dict.fromkeys(("sequence_bias", "watermarking_config", "dola_layers", "constraints", "stop_strings"), ()),
    **dict.fromkeys(("max_time", "assistant_early_exit", "forced_decoder_ids"), ()),
}
"""Keys of `generation_config.json` that may change which token greedy decoding takes.

Each has the values with which it does not; None is always one of them."""

FIXED: dict[str, object] = {
    **{"return_dict": True, "output_hidden_states": False, "output_attentions": False, "torchscript": False},
    **{"is_encoder_decoder": False, "tie_encoder_decoder": False, "add_cross_attention": False},
    **{"cross_attention_hidden_size": None, "chunk_size_feed_forward": 0, "pruned_heads": {}, "use_bfloat16": False},
    **{"pretraining_tp": 1},
}
"""Keys of `config.json` that must have these values if they are present."""
COMMON = word_set("""
    architectures model_type transformers_version _name_or_path name_or_path _commit_hash dtype torch_dtype
    _model_name_or_path vocab_size initializer_range use_cache
    bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id
    tie_word_embeddings tokenizer_class prefix task_specific_params layer_types
    id2label label2id num_labels problem_type finetuning_task classifier_dropout is_decoder
    gradient_checkpointing tf_legacy_loss _attn_implementation_autoset
    unsloth_version unsloth_fixed transformers.js_config
""")
"""Keys of `config.json` that all architectures have, or that tools write."""
LAYER_TYPES = ("full_attention", "sliding_attention")


def check_settings(kind: HostKind, config: Mapping[str, Any]) -> None:
    """Refuse a `config.json` with an unknown key, or with a value that the proofs do not cover; `kind`: of the host."""
    if "quantization_config" in config:
        quantization = config["quantization_config"]
        if isinstance(quantization, dict) and quantization.get("quant_method") == "gguf":
            raise DataError(
                "its config.json has the quantization_config that loading a GGUF file leaves, and what transformers "
                "makes of that differs between versions: some look for the GGUF file in place of the weights. Delete "
                'the key "quantization_config" from config.json; tensors that are not plain floats are refused then, '
                "too"
            )
        raise DataError("it is quantized; attach facts to the model that it was made from")
    if "auto_map" in config:
        raise DataError("its config.json names code of its own (trust_remote_code), which is never run here")
    known = {*kind.known_keys, *COMMON, *FIXED, *FREE_GENERATION, *NEUTRAL, *ATTACHED_MARK}
    for key in config:
        if key not in known:
            raise DataError(
                f"config.json has the key {key!r}, which is not a known setting of {kind.name}: it may change how "
                "transformers load the model. Remove the key if the model works the same without it"
            )
    for key, wanted in FIXED.items():
        if key in config and (type(config[key]) is not type(wanted) or config[key] != wanted):
            raise DataError(f"config.json says {key} = {config[key]!r}; facts can be attached where it is {wanted!r}")
    tied, layers = config.get("tie_word_embeddings", kind.tied), config.get("layer_types")
    if type(tied) is not bool:
        raise DataError(f"config.json says tie_word_embeddings = {tied!r}, which is neither true nor false")
    fits = isinstance(layers, list) and len(layers) == config.get(kind.depth)
    if layers is not None and not (fits and all(each in LAYER_TYPES for each in layers)):
        raise DataError(
            f"config.json says layer_types = {reprlib.repr(layers)}; facts can be attached where it has one of "
            f"{', '.join(LAYER_TYPES)} per layer"
        )


def unusual_generation(content: Mapping[str, object]) -> dict[str, object]:
    """The keys of `generation_config.json` with which `generate` may take another token than the likeliest.

    `content` holds the files of the folder by their names. It is a `DataError` if the file cannot be read.
    """
    if GENERATION_FILE not in content:
        return {}
    settings = read_generation(content)
    return {
        key: value
        for key, value in settings.items()
        if key not in FREE_GENERATION
        and value is not None
        and not any(type(value) is type(usual) and value == usual for usual in NEUTRAL.get(key, ()))
    }


def read_generation(content: Mapping[str, Any]) -> dict[str, Any]:
    """The object in `generation_config.json`, one of the files in `content`; a `DataError` if it cannot be read."""
    try:
        settings = json.loads(bytes(content[GENERATION_FILE]))
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise DataError(f"{GENERATION_FILE} of the host cannot be read")
    return settings


def stopping_tokens(config: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[Any, ...]:
    """The ids at which `generate` stops, from generation_config.json or else config.json; they are not checked."""
    stops: object = read_generation(content).get("eos_token_id") if GENERATION_FILE in content else None
    stops = config.get("eos_token_id") if stops is None else stops
    if stops is None:
        return ()
    return tuple(stops) if isinstance(stops, list) else (stops,)


def generation_words(unusual: Mapping[str, object]) -> str:
    """A clause that tells users what the keys of `unusual_generation` mean for them."""
    shown = ", ".join(f"{key} = {reprlib.repr(value)}" for key, value in list(unusual.items())[:4])
    more = ", …" if len(unusual) > 4 else ""
    return (
        f"{GENERATION_FILE} of this host sets {shown}{more}, so by default `generate` may answer differently from "
        "greedy decoding without processors"
    )
