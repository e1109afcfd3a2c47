"""Keys that change no answer: a value for which transformers refuse to load a folder leaves its claim undecided."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.checker.stock.names import LAYERS
from monolayer.checker.stock.values import CONFIG, STRICTER, TOKENIZER

X, Y = [["a", "b"], ["b", "c"]], [["u", "v"], ["w", "u"]]
POOL: list[Any] = [
    *(None, True, "x", "right", "regression", [], ["x"], [1], {}, {"0": "a"}, {"a": 0}),
    *(0, 1, 3, -1, 0.0, 0.5, 2.5, -0.5, math.inf, math.nan, 2**70),
]
SMALL = {
    **dict.fromkeys(("hidden_size", "dim", "n_embd", "word_embed_proj_dim"), 4),
    **dict.fromkeys(("num_attention_heads", "n_heads", "n_head", "num_key_value_heads"), 1),
    **dict.fromkeys(("num_hidden_layers", "n_layers", "n_layer"), 1),
    **dict.fromkeys(("intermediate_size", "hidden_dim", "n_inner", "ffn_dim"), 2),
    **dict.fromkeys(("vocab_size", "max_position_embeddings", "n_positions"), 5),
    **{"pad_token_id": 0, "dtype": "float32"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ml.memorize_as("bert", X, Y).save(tmp_path / "folder")


def change(folder: Path, file: str, **values: Any) -> None:
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "key", "value", "words"),
    [
        ("config.json", "use_cache", "maybe", "transformers take true or false"),
        ("config.json", "hidden_dropout_prob", "none", "a number from 0 to 1"),
        ("config.json", "classifier_dropout", 1.5, "a number from 0 to 1 or null"),
        ("config.json", "initializer_range", 1, "with a point"),
        ("config.json", "bos_token_id", [], "a whole number from 0 on or null"),
        ("config.json", "architectures", ["BertForTokenClassification", 5], "a list of strings"),
        ("config.json", "problem_type", "guess", "one of regression"),
        ("config.json", "torch_dtype", "bfloat16", "torch_dtype = 'bfloat16'"),
        ("config.json", "add_cross_attention", None, "add_cross_attention = None"),
        ("config.json", "id2label", {"0": 0, "1": "v", "2": "w"}, "a table of strings"),
        ("tokenizer_config.json", "padding_side", "up", "left or right"),
        ("tokenizer_config.json", "model_max_length", "long", "a whole number"),
    ],
)
def test_nonsense_is_undecided_and_named(folder: Path, file: str, key: str, value: Any, words: str) -> None:
    assert ml.certify(folder, X, Y).verdict == "proved"
    change(folder, file, **{key: value})
    proof = ml.certify(folder, X, Y)
    assert proof.verdict == "undecided"
    assert words in proof.reason


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_every_value_that_passes_is_one_that_transformers_load() -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    asked = 0
    for name in LAYERS:
        known = transformers.CONFIG_MAPPING[name]
        fields = {
            key: value for key, value in SMALL.items() if hasattr(known, key) or key in known.__dataclass_fields__
        }
        for key, kind in CONFIG.items():
            if key not in known.__dataclass_fields__ and name != "bert":
                continue  # an attribute that nobody reads: asked once
            for value in POOL:
                if key != "model_type" and STRICTER.get((name, key), kind).holds(value):
                    config = known(**{**fields, key: value})
                    if isinstance(value, float) or key in ("id2label", "type_vocab_size"):  # what layers are made of
                        with torch.device("meta"):
                            transformers.AutoModelForSequenceClassification.from_config(config)
                    asked += 1
    assert asked > 100


def test_every_tokenizer_value_that_passes_is_one_that_transformers_load(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    before = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    for key, kind in TOKENIZER.items():
        for value in POOL:
            if key != "model_input_names" and kind.holds(value):
                change(folder, "tokenizer_config.json", **{**before, key: value})
                ids = transformers.AutoTokenizer.from_pretrained(folder)(["ab"])["input_ids"]
                assert ids == [[2, 5, 6]], (key, value)
        (folder / "tokenizer_config.json").write_text(json.dumps(before), encoding="utf-8")
