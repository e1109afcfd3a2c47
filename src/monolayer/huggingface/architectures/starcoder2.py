"""Starcoder2, which has the names of Llama and the neurons and norms of GPT-2."""

from __future__ import annotations

from monolayer.huggingface.architecture import ModelSetting
from monolayer.huggingface.architectures.llama import llama_like, llama_stock
from monolayer.huggingface.architectures.rotary import ROTARY_KEYS
from monolayer.huggingface.host_kind import HostKind

STARCODER2 = llama_like(
    "starcoder2",
    "Starcoder2",
    {"1": "mlp.c_fc", "2": "mlp.c_proj"},
    {
        **{"residual_dropout": 0.0, "embedding_dropout": 0.0, "classifier_dropout": 0.0},
        **{"norm_epsilon": ModelSetting.EPSILON, "sliding_window": None, "use_bias": True},
    },
    rms=False,
)
STOCK = llama_stock(STARCODER2)
HOST = HostKind(
    STARCODER2,
    activation="gelu_pytorch_tanh",
    demands={"use_bias": True},
    more_keys=ROTARY_KEYS
    + """
        activation_function layer_norm_epsilon mlp_type norm_type scale_attn_weights
        attention_softmax_in_fp32 scale_attention_softmax_in_fp32
    """,
)
