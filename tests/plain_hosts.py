"""Hosts and encoders of known numbers: multiples of 1/64 from a fixed series, whichever torch and transformers there
are. Configurations and tokenizers are written out, so no library has a part in what a folder holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import pre_tokenizers

from tests.encoders import WORDS as WORDS_OF_QUESTIONS

WIDTH, NEURONS, PLACES, LAYERS, HEADS = 32, 8, 40, 2, 4
WORDS = ("The", " capital", " of", " country", " is", " city", " river", " near", " far", " and", " sea")
END = "<end>"
END_ID = 0
CHAT = (
    "{% for turn in messages %}{% if loop.first and turn['role'] != 'system' %}[near]{% endif %}"
    "{% if turn['role'] == 'system' %}[{{ turn['content'] }}]{% else %}city {{ turn['content'] }}\nriver\n{% endif %}"
    "{% endfor %}"
)
"""It writes a system message of its own, unless there is one."""

# -- tokenizers --------------------------------------------------------------------------------------------------


def byte_tokenizer() -> dict[str, Any]:
    """`tokenizer.json`: bytes, and some words with the space in front of them as one token each."""
    vocabulary, merges = {END: END_ID}, list[list[str]]()
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[letter] = len(vocabulary)
    for word in WORDS:
        whole, *letters = word.replace(" ", "Ġ")
        for letter in letters:
            if whole + letter not in vocabulary:
                merges.append([whole, letter])
                vocabulary[whole + letter] = len(vocabulary)
            whole += letter
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": END_ID, "content": END, "special": True, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [{**end, "single_word": False, "lstrip": False, "rstrip": False}],
        "pre_tokenizer": by_bytes,
        "decoder": by_bytes,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges, "ignore_merges": False},
    }


def word_tokenizer(words: list[str]) -> dict[str, Any]:
    """`tokenizer.json`: words, with a token in front of every text and one behind it."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    ends = {name: {"id": name, "ids": [number], "tokens": [name]} for number, name in ((0, "<s>"), (2, "</s>"))}
    around = [{"SpecialToken": {"id": name, "type_id": 0}} for name in ends]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    flags = {"special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    return {
        "version": "1.0",
        "added_tokens": [{"id": number, "content": name, **flags} for number, name in enumerate(special)],
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [around[0], text, around[1]],
            "pair": [around[0], text, {"Sequence": {"id": "B", "type_id": 1}}, around[1]],
            "special_tokens": ends,
        },
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }


# -- weights -----------------------------------------------------------------------------------------------------

Sizes = dict[str, tuple[int, ...]]


def _norm(name: str) -> Sizes:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def _linear(name: str, *size: int, bias: bool = True) -> Sizes:
    """A linear layer from `size[1]` to `size[0]` numbers; of GPT-2 the other way round, with the bias as long."""
    return {f"{name}.weight": size} | ({f"{name}.bias": (size[0],)} if bias else {})


def _gpt2(vocabulary: int) -> Sizes:
    sizes = {"transformer.wte.weight": (vocabulary, WIDTH), "transformer.wpe.weight": (PLACES, WIDTH)}
    for layer in range(LAYERS):
        start = f"transformer.h.{layer}."
        sizes |= _norm(f"{start}ln_1") | _norm(f"{start}ln_2")
        for name, into, out in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, NEURONS),
            ("mlp.c_proj", NEURONS, WIDTH),
        ):
            sizes |= {f"{start}{name}.weight": (into, out), f"{start}{name}.bias": (out,)}
    return sizes | _norm("transformer.ln_f")


def _opt(vocabulary: int) -> Sizes:
    start = "model.decoder."
    sizes = {f"{start}embed_tokens.weight": (vocabulary, WIDTH), f"{start}embed_positions.weight": (PLACES + 2, WIDTH)}
    for layer in range(LAYERS):
        own = f"{start}layers.{layer}."
        for name in ("q", "k", "v", "out"):
            sizes |= _linear(f"{own}self_attn.{name}_proj", WIDTH, WIDTH)
        sizes |= _norm(f"{own}self_attn_layer_norm") | _norm(f"{own}final_layer_norm")
        sizes |= _linear(f"{own}fc1", NEURONS, WIDTH) | _linear(f"{own}fc2", WIDTH, NEURONS)
    return sizes | _norm(f"{start}final_layer_norm")


def _llama(vocabulary: int, *, biases: bool = False) -> Sizes:
    sizes: Sizes = {"lm_head.weight": (vocabulary, WIDTH), "model.embed_tokens.weight": (vocabulary, WIDTH)}
    for layer in range(LAYERS):
        own = f"model.layers.{layer}."
        for name, out in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2)):
            sizes |= _linear(f"{own}self_attn.{name}_proj", out, WIDTH, bias=biases)
        sizes |= _linear(f"{own}self_attn.o_proj", WIDTH, WIDTH, bias=False)
        for name in ("gate", "up"):
            sizes |= _linear(f"{own}mlp.{name}_proj", NEURONS, WIDTH, bias=False)
        sizes |= _linear(f"{own}mlp.down_proj", WIDTH, NEURONS, bias=False)
        sizes |= {f"{own}{name}_layernorm.weight": (WIDTH,) for name in ("input", "post_attention")}
    return sizes | {"model.norm.weight": (WIDTH,)}


COMMON: dict[str, Any] = {"bos_token_id": END_ID, "eos_token_id": END_ID, "pad_token_id": END_ID}
LLAMA: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS // 2,
    "intermediate_size": NEURONS,
    "max_position_embeddings": PLACES,
    "hidden_act": "silu",
    "rms_norm_eps": 2.0**-20,
    "tie_word_embeddings": False,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": (
        "GPT2LMHeadModel",
        {
            "n_embd": WIDTH,
            "n_layer": LAYERS,
            "n_head": HEADS,
            "n_inner": NEURONS,
            "n_positions": PLACES,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 2.0**-17,
        },
    ),
    "opt": (
        "OPTForCausalLM",
        {
            "hidden_size": WIDTH,
            "word_embed_proj_dim": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "ffn_dim": NEURONS,
            "max_position_embeddings": PLACES,
            "do_layer_norm_before": True,
            "activation_function": "relu",
        },
    ),
    "llama": ("LlamaForCausalLM", LLAMA),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
}
WRITES = ("c_proj.weight", "out_proj.weight", "o_proj.weight", "fc2.weight", "down_proj.weight")
"""The ends of names of weights that write to the stream."""
TABLES = ("wte.weight", "wpe.weight", "embed_tokens.weight", "embed_positions.weight", "_embeddings.weight")


def _numbers(sizes: Sizes, *, still: bool, seed: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Multiples of 1/64 below 4 in size; `still`: layers add 0, so a state is the sum of its embeddings."""
    random = np.random.RandomState(seed)
    for name, size in sizes.items():
        drawn = random.standard_normal(size)
        if "norm" in name.lower() or ".ln_" in name:
            scaled = 1.0 + 0.1 * drawn if name.endswith("weight") else 0.1 * drawn
        elif name.endswith(TABLES):
            scaled = drawn
        else:
            scaled = drawn * (
                0.0
                if still and name.endswith((*WRITES, "c_proj.bias", "fc2.bias", "out_proj.bias"))
                else 1.0
                if name.endswith(WRITES)
                else 0.25
            )
        yield name, torch.from_numpy(np.clip(np.rint(64.0 * scaled) / 64.0, -3.9375, 3.9375))


def _write(folder: Path, tensors: dict[str, torch.Tensor], files: int, said: dict[str, Any]) -> Path:
    """The weights in so many files, and JSON files beside them."""
    folder.mkdir(parents=True)
    names = [f"model-{number + 1:05}-of-{files:05}.safetensors" for number in range(files)]
    names = names if files > 1 else ["model.safetensors"]
    held = {name: dict(list(tensors.items())[number::files]) for number, name in enumerate(names)}
    for name, some in held.items():
        save_file(some, folder / name, metadata={"format": "pt"})
    if files > 1:
        size = sum(part.nbytes for part in tensors.values())
        where = {tensor: name for name, some in held.items() for tensor in some}
        said = said | {"model.safetensors.index.json": {"metadata": {"total_size": size}, "weight_map": where}}
    for name, content in said.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    return folder


def plain_host(
    folder: Path,
    kind: str = "gpt2",
    dtype: str = "float32",
    *,
    still: bool = False,
    files: int = 1,
    chat: str | None = None,
    generation: dict[str, Any] | None = None,
    unprefixed: bool = False,
    **more: Any,
) -> Path:
    """A host in a folder. `still`: its layers add 0. `chat`: its chat template. `more`: goes into `config.json`.

    `unprefixed`: names lack their first part, and masks lie beside the weights, as in the files of OpenAI's GPT-2.
    """
    texts = byte_tokenizer()
    count = len(texts["model"]["vocab"])
    sizes = (
        {"gpt2": _gpt2, "opt": _opt}[kind](count) if kind in ("gpt2", "opt") else _llama(count, biases=kind == "qwen2")
    )
    named, own = KINDS[kind]
    config = {"architectures": [named], "model_type": kind, "vocab_size": count, "dtype": dtype, **COMMON, **own}
    of_texts = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "bos_token": END, "pad_token": END}
    tensors = {name: part.to(getattr(torch, dtype)) for name, part in _numbers(sizes, still=still)}
    if unprefixed:
        tensors = {name.partition(".")[2]: part for name, part in tensors.items()}
        tensors |= {f"h.{layer}.attn.bias": torch.ones(1, 1, 4, 4) for layer in range(LAYERS)}
    said = {
        "config.json": config | more,
        "tokenizer.json": texts,
        "tokenizer_config.json": of_texts | ({} if chat is None else {"chat_template": chat}),
    }
    return _write(folder, tensors, files, said | ({} if generation is None else {"generation_config.json": generation}))


# -- encoders ----------------------------------------------------------------------------------------------------

OWN_NAMES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}
"""What a distilbert calls settings of a bert."""


def plain_encoder(folder: Path, kind: str = "bert", dtype: str = "float32", *, pad: bool = True) -> Path:
    """A sentence encoder in a folder. `pad`: whether it says which token pads."""
    words = list(dict.fromkeys(WORDS_OF_QUESTIONS))
    config: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": NEURONS,
        "hidden_act": "gelu",
        "max_position_embeddings": PLACES,
        "vocab_size": len(words) + 4,
        "type_vocab_size": 1,
        "layer_norm_eps": 2.0**-37,
        "pad_token_id": 1,
    }
    model = {"bert": "BertModel", "roberta": "RobertaModel", "distilbert": "DistilBertModel"}[kind]
    if kind == "distilbert":
        config = {OWN_NAMES.get(name, name): part for name, part in config.items()}
        del config["layer_norm_eps"], config["type_vocab_size"]
    said = {"architectures": [model], "model_type": kind, "dtype": dtype, **config}
    said |= {} if pad else {"pad_token_id": None}
    sizes: Sizes = {
        "embeddings.word_embeddings.weight": (len(words) + 4, WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
    }
    if kind != "distilbert":
        sizes["embeddings.token_type_embeddings.weight"] = (1, WIDTH)
    sizes |= _norm("embeddings.LayerNorm")
    for number in range(LAYERS):
        if kind == "distilbert":
            own, first, second, norms = (
                f"transformer.layer.{number}.",
                "ffn.lin1",
                "ffn.lin2",
                ("sa_layer_norm", "output_layer_norm"),
            )
            attention: tuple[str, ...] = tuple(f"attention.{name}_lin" for name in ("q", "k", "v", "out"))
        else:
            own, first, second = f"encoder.layer.{number}.", "intermediate.dense", "output.dense"
            norms = ("attention.output.LayerNorm", "output.LayerNorm")
            attention = (*(f"attention.self.{name}" for name in ("query", "key", "value")), "attention.output.dense")
        for name in attention:
            sizes |= _linear(f"{own}{name}", WIDTH, WIDTH)
        sizes |= _linear(f"{own}{first}", NEURONS, WIDTH) | _linear(f"{own}{second}", WIDTH, NEURONS)
        for name in norms:
            sizes |= _norm(f"{own}{name}")
    texts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }
    tensors = {name: part.to(getattr(torch, dtype)) for name, part in _numbers(sizes, still=False, seed=1)}
    files = {"config.json": said, "tokenizer.json": word_tokenizer(words), "tokenizer_config.json": texts}
    return _write(folder, tensors, 1, files)
