"""The JSON files of a stock folder, written from the tensors, the vocabulary and the few facts that matter.

A folder is covered if its files say exactly this. Nothing here is taken from the construction: what it writes is read
by transformers in the tests, and compared with this by the checker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from monolayer.checker.stock.names import CLASSES, Task

Cut = Literal["characters", "words", "pieces", "given"]
PIECE = r"\s*\S+|\s+"
_SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
CUTS: dict[Cut, dict[str, Any] | None] = {
    "characters": {**_SPLIT, "pattern": {"Regex": r"[\s\S]"}},
    "words": {"type": "WhitespaceSplit"},
    "pieces": {**_SPLIT, "pattern": {"Regex": PIECE}},
    "given": None,
}
"""Ways to cut a text, as `tokenizer.json` says them."""
ENCODER = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
DECODER = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
"""Special tokens of models that see both ways, and of those that see what came before, in the order of their ids."""
PAD, UNKNOWN, BEGIN, END = range(4)


@dataclass(frozen=True)
class Facts:
    """What the files depend on. `places`: tokens that a sequence may have, the begin token among them."""

    kind: str
    task: Task
    dtype: str
    activation: str
    epsilon: float
    rotary: tuple[float, float] | None
    """Base of the rotary angles, and the share of the coordinates that is turned."""
    vocabulary: int
    width: int
    neurons: int
    places: int
    counted: bool
    """Whether the order of tokens counts."""
    causal: bool
    names: tuple[str, ...]
    classes: tuple[str, ...]
    cut: Cut


def written(facts: Facts) -> dict[str, dict[str, Any]]:
    """Each JSON file of the folder by its name."""
    files = {
        "config.json": _config(facts),
        "tokenizer.json": _tokenizer(facts),
        "tokenizer_config.json": _tokenizer_config(facts),
    }
    if facts.task == "lm":
        ids = {"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PAD}
        files["generation_config.json"] = {"do_sample": False, "max_length": facts.places + 1, **ids}
    return files


def _config(facts: Facts) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    if facts.task != "lm":
        names = {str(number): name for number, name in enumerate(facts.classes)}
        labels = {"id2label": names, "label2id": {name: int(number) for number, name in names.items()}}
    return {
        "architectures": [CLASSES[facts.kind][facts.task]],
        "model_type": facts.kind,
        "dtype": facts.dtype,
        "torch_dtype": facts.dtype,
        "tie_word_embeddings": False,
        "built_by": "monolayer",
        "vocab_size": facts.vocabulary,
        "pad_token_id": PAD,
        **labels,
        **_own(facts),
    }


def _own(facts: Facts) -> dict[str, Any]:
    """What only this architecture says."""
    D, H, L, act, eps = facts.width, facts.neurons, facts.places, facts.activation, facts.epsilon
    layers: dict[str, Any] = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": D}
    ends = {"bos_token_id": BEGIN, "eos_token_id": END}
    theta, share = facts.rotary or (0.0, 0.0)
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": theta}
    if facts.kind in ("bert", "roberta"):
        # RoBERTa counts places from pad_token_id + 1.
        count = {"max_position_embeddings": L} if facts.kind == "bert" else {"max_position_embeddings": L + 1, **ends}
        drop = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
        return {
            **layers,
            **count,
            **drop,
            "intermediate_size": H,
            "hidden_act": act,
            "type_vocab_size": 2,
            "layer_norm_eps": eps,
        }
    if facts.kind == "distilbert":
        drop = {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}
        sizes: dict[str, Any] = {"dim": D, "n_layers": 1, "n_heads": 1, "hidden_dim": H, "max_position_embeddings": L}
        return {**sizes, **drop, "activation": act, "sinusoidal_pos_embds": False}
    if facts.kind == "gpt2":
        drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "classifier_dropout": 0.0}
        sizes = {"n_positions": L, "n_embd": D, "n_layer": 1, "n_head": 1, "n_inner": H}
        return {**sizes, **drop, **ends, "activation_function": act, "layer_norm_epsilon": eps}
    common = {**layers, **ends, "max_position_embeddings": L, "attention_dropout": 0.0}
    if facts.kind == "opt":
        sizes = {"word_embed_proj_dim": D, "ffn_dim": H}
        return {**common, **sizes, "activation_function": act, "dropout": 0.0, "layerdrop": 0.0}
    common |= {"intermediate_size": H, "hidden_act": act}
    if facts.kind == "gpt_neox":
        return {
            **common,
            "hidden_dropout": 0.0,
            "classifier_dropout": 0.0,
            "layer_norm_eps": eps,
            "use_parallel_residual": False,
            "rotary_pct": share,
            "rope_parameters": {**rope, "partial_rotary_factor": share},
        }
    common |= {"num_key_value_heads": 1, "rope_theta": theta, "rope_parameters": rope}
    if facts.kind == "starcoder2":
        return {
            **common,
            **dict.fromkeys(("residual_dropout", "embedding_dropout", "classifier_dropout"), 0.0),
            "norm_epsilon": eps,
            "sliding_window": None,
            "use_bias": True,
        }
    return {**common, "head_dim": D, "rms_norm_eps": eps, "attention_bias": True, "mlp_bias": True}


def _tokenizer(facts: Facts) -> dict[str, Any]:
    special = list((DECODER if facts.causal else ENCODER).values())
    first = special[BEGIN]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    begins, one, two = (
        {"SpecialToken": {"id": first, "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}},
    )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": name, **plain} for number, name in enumerate(special)],
        "normalizer": None,
        "pre_tokenizer": CUTS[facts.cut],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begins, one],
            "pair": [begins, one, two],
            "special_tokens": {first: {"id": first, "ids": [BEGIN], "tokens": [first]}},
        },
        "decoder": _decoder(facts),
        "model": {
            "type": "WordLevel",
            "vocab": {name: number for number, name in enumerate((*special, *facts.names[len(special) :]))},
            "unk_token": special[UNKNOWN],
        },
    }


def _decoder(facts: Facts) -> dict[str, Any] | None:
    """How tokens become text: as they are; else with spaces between them, in a language model in front of each."""
    if facts.cut in ("characters", "pieces"):
        return {"type": "Fuse"}
    start = {"Regex": r"(?<![\s\S])"}
    return {"type": "Replace", "pattern": start, "content": " "} if facts.task == "lm" else None


def _tokenizer_config(facts: Facts) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts.places,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": padding_side(facts.kind, facts.task, counted=facts.counted),
        **{f"{name}_token": text for name, text in (DECODER if facts.causal else ENCODER).items()},
    }


def padding_side(kind: str, task: Task, *, counted: bool) -> str:
    """The side on which padding leaves every answer of a forward pass right.

    `generate` needs the left. There GPT-2 counts places from the padding on, unless it is given `position_ids`; OPT
    counts them by the mask, and rotary positions are differences.
    """
    return "left" if task == "lm" and not (kind == "gpt2" and counted) else "right"
