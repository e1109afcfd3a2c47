"""Audit: (r, δ), collisions and ranks of every part, on models whose numbers are known."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import monolayer as ml
from monolayer.auditing.heads import heads_of
from monolayer.auditing.parts import Audit, AuditedPart, confused
from tests.datasets import sets

RANDOM = np.random.default_rng(8)
X = sets(RANDOM, 60, 20, 5)
Y = RANDOM.integers(0, 4, (60, 5))


@pytest.fixture(scope="module")
def model() -> ml.Monolayer:
    return ml.memorize(X, Y)


def test_tokens_alone_confuse_and_attention_does_not(model: ml.Monolayer) -> None:
    found = ml.audit(model, X)
    assert found.points == 300
    assert found["lift"].delta == 0
    assert math.isinf(found["lift"].bits)
    assert found["lift"].confused["float32"] > 0
    attention = found["attention"]
    same = ml.contextual_mapping(lambda X: model.attention(*model.stream(torch.tensor(X)))[:, 1:], X)
    assert (attention.r, attention.delta) == (same.r, same.delta)
    assert attention.delta > 0
    assert attention.bits == pytest.approx(math.log2(attention.r / attention.delta))
    assert attention.qk_rank == pytest.approx((1.0,))
    assert attention.ov_rank == pytest.approx((1.0,))
    assert attention.confused["bfloat16"] >= attention.confused["float32"]


def test_a_single_point_needs_no_bits() -> None:
    found = ml.audit(ml.memorize({"France": "Paris"}), ["France"])
    assert (found["attention"].delta, found["attention"].bits) == (math.inf, 0.0)
    assert "nothing to tell apart" in str(found)


def test_confusion_is_counted_by_points_of_different_classes() -> None:
    outputs = torch.tensor([[1.0], [1.0], [1.0 + 2**-12], [5.0], [5.0]])
    classes = np.array([0, 1, 2, 3, 3])
    assert confused(outputs, classes) == 2
    assert confused(outputs.to(torch.bfloat16), classes) == 3


def test_a_notice_about_kernels_is_no_concern_of_a_user() -> None:
    """PyTorch warns where a processor lacks instructions for a short format."""
    layer = nn.Linear(3, 2, dtype=torch.bfloat16)
    layer.register_forward_hook(lambda *_: warnings.warn("mkldnn bf16 path needs the cpu support", stacklevel=1))
    assert ml.audit(nn.Sequential(layer), RANDOM.standard_normal((4, 2, 3))).points == 8


def test_ranks_of_known_matrices() -> None:
    layer = nn.MultiheadAttention(4, 1, bias=False, batch_first=True, dtype=torch.float64)
    eye = torch.eye(4, dtype=torch.float64)
    layer.in_proj_weight.data, layer.out_proj.weight.data = torch.cat([0.0 * eye, eye, eye]), eye
    found = ml.audit(
        nn.ModuleDict({"layer": layer}),
        RANDOM.standard_normal((30, 6, 4)),
        call=lambda network, Z: network["layer"](Z, Z, Z),  # type: ignore[index]
    )["layer"]
    assert (found.qk_rank, found.ov_rank) == (pytest.approx((0.0,)), pytest.approx((4.0,)))


def test_hugging_face_heads_give_the_attention_that_the_model_computes() -> None:
    """The matrices that are read off are the right ones: they reproduce the model's own attention weights."""
    from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel, GPT2Config, GPT2Model

    torch.manual_seed(0)
    small = {"vocab_size": 20, "attn_implementation": "eager"}
    bert = BertModel(
        BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, **small)
    )
    gpt2 = GPT2Model(GPT2Config(n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0, **small))
    distil = DistilBertModel(DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=8, **small))
    for network, name in ((bert, "encoder.layer.0.attention.self"), (gpt2, "h.0.attn")):
        network.eval()
        inputs: list[torch.Tensor] = []
        part = dict(network.named_modules())[name]
        handle = part.register_forward_pre_hook(
            lambda module, given, named, inputs=inputs: inputs.append(given[0] if given else named["hidden_states"]),
            with_kwargs=True,
        )
        said = network(torch.from_numpy(X), output_attentions=True).attentions[0]
        handle.remove()
        heads = heads_of(part, name, dict(network.named_modules()))
        assert heads is not None
        Z = inputs[0].double()[:, None]
        scores = Z @ heads[0] @ Z.mT / 8**0.5  # biases of a new model are 0
        later = torch.ones(5, 5, dtype=torch.bool).triu(1) & (network is gpt2)
        assert torch.allclose(scores.masked_fill(later, -torch.inf).softmax(-1).float(), said, atol=1e-6)
        assert ml.audit(network, X)[name].ov_rank is not None
    known = [part for part in ml.audit(distil, X).parts if part.qk_rank is not None]
    assert len(known) == 1


def gpt2(**more: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0, "n_positions": 32}
    return GPT2LMHeadModel(GPT2Config(**{"vocab_size": 20, **sizes, **more}))


def test_the_context_in_a_causal_model_is_the_prefix() -> None:
    """Sequences that begin alike are one class there, so that a causal model is not told that it confuses them."""
    network = gpt2()
    begin_alike = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 6], [7, 2]]
    found = ml.audit(network, begin_alike)
    assert found.causal
    assert (found.points, found.classes) == (13, 8)
    assert found["transformer.h.1"].tells_apart
    assert found["transformer.h.1"].confused["float32"] == 0
    assert not found["transformer.h.0.ln_1"].tells_apart  # the same token at the same place, after another token
    assert "transformer.h.0.ln_1" in found.explain()
    whole = ml.audit(network, begin_alike, causal=False)  # as if it could see what follows
    assert whole["transformer.h.1"].delta == 0
    assert whole["transformer.h.1"].confused["float32"] > 0
    assert whole.explain().startswith("No part tells all 13 contexts apart")
    looks_ahead = nn.Sequential(nn.Embedding(20, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))
    assert not ml.audit(looks_ahead, X).causal
    assert not ml.audit(nn.Sequential(nn.Embedding(20, 8)), X).causal  # looks nowhere
    assert ml.audit(ml.memorize(["ab", "ac"], [[0, 1], [0, 2]], causal=True), ["ab", "ac"]).causal


def test_the_last_sentence_names_the_parts() -> None:
    part = AuditedPart("lift", "Linear", 2, 1.0, 0.5, 1.0, {"float32": 0, "float16": 0, "bfloat16": 0}, 1e-7)
    blind = replace(part, name="embed", delta=0.0, bits=math.inf, confused={"float32": 3})
    rounded = replace(part, name="mix", delta=1e-8)
    assert (part.tells_apart, blind.tells_apart, rounded.tells_apart) == (True, False, None)
    for parts, words in (
        ((part,), "Every part tells all 9 contexts apart; the smallest difference is in lift, which takes 1.0 bits."),
        (
            (blind,),
            "No part tells all 9 contexts apart beyond rounding; embed comes closest and confuses 3 of 9 points",
        ),
        ((blind, rounded, part), "lift tells all 9 contexts apart (the smallest difference is in lift, which takes "),
        ((blind, rounded, part), "; embed and mix do not."),
        ((blind, part, *[rounded] * 4), "; 5 parts from embed to mix do not."),
    ):
        assert words in Audit(9, 9, parts).explain()
    assert "nothing to tell apart" in Audit(9, 1, (part,)).explain()


def test_ids_reach_the_model_as_they_are() -> None:
    """Ids with large gaps are not numbered anew: another id is another row of the embedding."""
    table = nn.Embedding(9000, 2)
    found = ml.audit(nn.Sequential(table), [[8000, 5]])
    assert found["0"].r == pytest.approx(float(table.weight.detach()[[8000, 5]].norm(dim=1).max()))


def test_folders_tokenizers_and_texts(tmp_path: Path, monkeypatch: Any, said: Any) -> None:
    ml.memorize_as("gpt2", ["a b", "c a b"], ["x", "y"], per="sequence").save(tmp_path / "stock")
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    monkeypatch.chdir(tmp_path)
    texts = ["a b", "c a b", "b"]
    network = AutoModelForSequenceClassification.from_pretrained("stock")
    by_model = ml.audit(network, texts, tokenizer=AutoTokenizer.from_pretrained("stock"))
    assert ml.audit("stock", texts) == by_model
    Path("texts.txt").write_text("\n".join(texts) + "\n\n")
    Path("texts.jsonl").write_text("".join(json.dumps({"tokens": text}) + "\n" for text in texts))
    for file in ("texts.txt", "texts.jsonl"):
        told = json.loads(said(f"audit stock {file} --json"))
        told.pop("read", None)  # a file of plain text is not read by a plan
        assert told == json.loads(json.dumps(by_model.to_json()))
    assert said("audit stock texts.txt").rstrip().endswith(by_model.explain())


def test_the_model_is_left_as_it_was(model: ml.Monolayer) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    network = nn.Sequential(nn.Embedding(20, 8), layer)
    network.train()
    one, two = (ml.audit(network, X, parts=["1"]) for _ in range(2))
    assert one == two
    assert network.training
    assert not any(part._forward_hooks for part in network.modules())


def test_bad_input_is_named(model: ml.Monolayer) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(10, 2))
    for given, data, options, words in (
        (model, X, {"parts": ["atention"]}, "no part 'atention': did you mean attention"),
        (model, "text", {}, "X is a str"),
        (model, np.zeros((1 << 12, 5), np.int64) + X[0], {}, "too many to compare"),
        (nn.Sequential(nn.Linear(3, 3)), X, {}, "does not take a tensor of shape"),
        (nn.Sequential(nn.Embedding(3, 3)), ["ab"], {}, "strings, such as 'a', and this model takes ids"),
        (nn.Sequential(nn.Embedding(3, 3)), ["ab"], {"tokenizer": {}.__getitem__}, "does not take text 0: KeyError"),
        (nn.Sequential(nn.Embedding(3, 3)), ["ab"], {"tokenizer": lambda _: {"input_ids": []}}, "has no token"),
        ("no/folder", [[0]], {}, "is not a saved model"),
        (flat, RANDOM.standard_normal((4, 5, 2)).astype(np.float32), {}, "no part answered with one vector per token"),
    ):
        with pytest.raises(ml.DataError, match=words):
            ml.audit(given, data, **options)


def test_on_the_command_line(model: ml.Monolayer, tmp_path: Path, monkeypatch: Any, said: Any) -> None:
    from transformers import BertConfig, BertModel

    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("".join(json.dumps({"tokens": row.tolist()}) + "\n" for row in X))
    model.save("model")
    told = json.loads(said("audit model data.jsonl --json"))
    assert [plan["format"] for plan in told.pop("read")] == ["jsonl"]
    assert told == json.loads(json.dumps(ml.audit(model, X).to_json()))
    assert "attention" in said("audit model data.jsonl --part attention")
    said("audit nothing data.jsonl", code=2)
    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(config).save_pretrained("bert")
    found = json.loads(said("audit bert data.jsonl --json"))["parts"]
    assert "encoder.layer.0" in {part["name"] for part in found}
    shown = said("audit bert data.jsonl")
    assert "encoder.layer.0.attention.self.query\n" in shown  # long names are whole, above their numbers
    assert max(map(len, shown.splitlines()[:-1])) <= 80  # the last line is a sentence, which terminals wrap
    # Damaged folders are bad input, and code in a folder is never run.
    folder, weights = Path("bert"), Path("bert/model.safetensors").read_bytes()
    kept = json.loads((folder / "config.json").read_text())
    (folder / "model.safetensors").write_bytes(weights[:100])
    (folder / "own.py").write_text("open('ran', 'w')\nclass Own: pass\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # what somebody pipes in
    own = {"model_type": "own", "architectures": ["Own"], "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Own"}}
    for changed in ({}, {"architectures": 7, "model_type": "none"}, {"hidden_size": "wide"}, own):
        (folder / "config.json").write_text(json.dumps(kept | changed))
        assert "cannot be loaded by transformers" in said("audit bert data.jsonl", code=2)
    (folder / "config.json").write_text("[" * 100_000)
    assert "its config.json cannot be read" in said("audit bert data.jsonl", code=2)
    assert not Path("ran").exists()
