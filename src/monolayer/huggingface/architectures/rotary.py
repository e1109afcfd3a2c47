"""Settings and keys of decoders with rotary positions (GPT-NeoX, Llama and its kin)."""

from __future__ import annotations

from monolayer.huggingface.architecture import ENDS, ONE_LAYER, ModelSetting, Setting

DECODER: dict[str, Setting] = {
    **ONE_LAYER,
    **ENDS,
    "max_position_embeddings": ModelSetting.PLACES,
    "attention_dropout": 0.0,
    "intermediate_size": ModelSetting.NEURONS,
    "hidden_act": ModelSetting.ACTIVATION,
}
ROPE: dict[str, Setting] = {"rope_type": "default", "rope_theta": ModelSetting.THETA}
ROTARY_KEYS = "rope_scaling rope_theta partial_rotary_factor "
"""Keys of `config.json` that older versions of transformers wrote in place of `rope_parameters`."""
