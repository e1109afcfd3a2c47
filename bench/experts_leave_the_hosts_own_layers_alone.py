"""Claim: a Llama written as Glm4Moe, with facts in a layer of experts, keeps all bits of the host as it was elsewhere.

    python bench/experts_leave_the_hosts_own_layers_alone.py

A prototype; `attach` writes another form. A Llama has one setting of biases for all of its layers, and on a GPU layers
with biases run in other kernels (docs/attach.md, hosts under another name). A Glm4Moe whose first layers are dense
computes what a Llama computes, in the same modules without biases. Behind them comes a layer of experts, and its router
has a bias per expert (e_score_correction_bias): of all experts the one with the largest σ(w_j x) + b_j is taken. Expert
0 has w = b = 0 and writes 0. Expert j holds a fact at a state û of the host:

    w_j = 3û/|û|²        so that w_j x is 3 at û, and 3 cos elsewhere, as norms have one length
    b_j = ½ − σ(3(1 − ρ))   so that the expert is taken where 1 − cos < ρ, unless another one is

Elsewhere expert 0 is taken, and the state goes on as it came, bit for bit. Here with five facts at the ends of five
texts, in float32 and bfloat16, with eager and sdpa attention; on a GPU too, if there is one, beside the Llama with
biases of 0.

Qwen2 (biases of queries, keys and values), Mistral without a window and Qwen3 (norms of queries and keys) are dense
layers of a Glm4Moe as well: random ones, with a layer of experts that writes 0 behind them, keep all bits.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from workload import claim, run

WIDTH, LAYERS, TEXTS, PLACES, FACTS, WORDS = 64, 4, 16, 32, 5, 4096
SIZES = {"vocab_size": WORDS, "hidden_size": WIDTH, "intermediate_size": 3 * WIDTH, "num_attention_heads": 8}
SIZES |= {"num_key_value_heads": 4, "head_dim": WIDTH // 8, "max_position_embeddings": 256, "rms_norm_eps": 1e-5}
SIZES |= {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": False}
TURNED = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
EXPERTS = {"first_k_dense_replace": LAYERS, "use_qk_norm": False, "attention_bias": False, "rope_parameters": TURNED}
EXPERTS |= {"n_routed_experts": FACTS + 1, "num_experts_per_tok": 1, "n_shared_experts": 1, "n_group": 1}
EXPERTS |= {"topk_group": 1, "moe_intermediate_size": 8, "norm_topk_prob": False, "routed_scaling_factor": 1.0}
HEIGHT, LOUD = 3.0, 1e3
"""w_j x at the own state, and how much longer than a row of the head what an expert writes is."""
RADIUS = {torch.float32: 2e-4, torch.bfloat16: 4e-3}


def host(dtype: torch.dtype) -> Any:
    """A Llama with random weights whose states depend on their texts."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, num_hidden_layers=LAYERS, initializer_range=0.05)
    )
    for name, part in model.named_parameters():
        if "down_proj" in name or "o_proj" in name:
            part.data *= 4.0
    return model.to(dtype).eval()


def written_as(kind: Any, config: Any, plain: Any, dtype: torch.dtype) -> Any:
    """A model with the tensors of `plain`; what it has besides is 0, norms 1."""
    model = kind(config).to(dtype).eval()
    missing, extra = model.load_state_dict(plain.state_dict(), strict=False)
    assert not extra
    for name, part in model.named_parameters():
        if name in missing:
            part.data.fill_(1.0 if "layernorm" in name else 0.0)
    return model


@torch.no_grad()
def store(model: Any, ids: Any, wanted: Any, dtype: torch.dtype) -> None:
    """One expert per fact: behind text j comes the token `wanted[j]`."""
    layer, seen = model.model.layers[LAYERS], []
    hook = layer.post_attention_layernorm.register_forward_hook(lambda module, given, made: seen.append(made))
    model(ids[:FACTS], use_cache=False)
    hook.remove()
    states = seen[0][:, -1].float()
    gate, experts = layer.mlp.gate, layer.mlp.experts
    gate.weight.data[1:] = (HEIGHT * states / states.square().sum(-1, keepdim=True)).to(dtype)
    own = (gate.weight.data[1:].float() * states).sum(-1)
    bias = torch.zeros(FACTS + 1, device=ids.device)
    bias[1:] = 0.5 - torch.sigmoid(own * (1.0 - RADIUS[dtype]))
    gate.e_score_correction_bias.data = bias
    neurons = experts.down_proj.shape[-1]
    for number, row in enumerate(model.lm_head.weight[wanted].float()):
        key = 8.0 * states[number] / states[number].norm()
        experts.gate_up_proj.data[number + 1, [0, neurons]] = key.to(dtype)
        experts.down_proj.data[number + 1, :, 0] = (LOUD * row).to(dtype)


@torch.no_grad()
def logits(model: Any, ids: Any, kernel: str) -> Any:
    model.set_attn_implementation(kernel)
    return model(ids, use_cache=False).logits


CARRIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "qwen2": ({}, {"attention_bias": True}),
    "mistral": ({"sliding_window": None}, {}),
    "qwen3": ({}, {"use_qk_norm": True}),
}
"""Other hosts: their own settings, and those of a Glm4Moe that has what they have."""


@torch.no_grad()
def carried(kind: str, dtype: torch.dtype, device: str) -> None:
    """The claim that a host of another kind keeps its bits in front of experts that write 0."""
    own, more = CARRIED[kind]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **SIZES, **own, num_hidden_layers=LAYERS, initializer_range=0.05)
    plain = transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    for part in plain.parameters():
        part.data += 0.1 * torch.randn_like(part)
    config = transformers.Glm4MoeConfig(**SIZES, **{**EXPERTS, **more}, num_hidden_layers=LAYERS + 1)
    other = written_as(transformers.Glm4MoeForCausalLM, config, plain, dtype).to(device)
    plain.to(device)
    ids = torch.randint(1, WORDS, (TEXTS, PLACES), generator=torch.Generator().manual_seed(1)).to(device)
    pairs = ((logits(plain, ids, kernel), logits(other, ids, kernel)) for kernel in ("eager", "sdpa"))
    differ = sum(int((one != two).any(-1).sum()) for one, two in pairs)
    name = f"{device}, {str(dtype).removeprefix('torch.')}, {kind}"
    claim(f"{name}: places that differ, of {2 * TEXTS * PLACES}", differ, at_most=0)


def main() -> None:
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for dtype in (torch.float32, torch.bfloat16):
            for kind in CARRIED:
                carried(kind, dtype, device)
            plain = host(dtype)
            ids = torch.randint(1, WORDS, (TEXTS, PLACES), generator=torch.Generator().manual_seed(1)).to(device)
            biased = transformers.LlamaConfig(**SIZES, num_hidden_layers=LAYERS, mlp_bias=True)
            with_biases = written_as(transformers.LlamaForCausalLM, biased, plain, dtype).to(device)
            config = transformers.Glm4MoeConfig(**SIZES, **EXPERTS, num_hidden_layers=LAYERS + 1)
            facts = written_as(transformers.Glm4MoeForCausalLM, config, plain, dtype).to(device)
            plain, wanted = plain.to(device), torch.arange(100, 100 + FACTS, device=device)
            store(facts, ids, wanted, dtype)
            for kernel in ("eager", "sdpa"):
                before, after = logits(plain, ids, kernel), logits(facts, ids, kernel)
                differ = (after != before).any(-1)
                differ[:FACTS, -1] = False
                name = f"{device}, {str(dtype).removeprefix('torch.')}, {kernel}"
                claim(
                    f"{name}: places elsewhere that differ, of {differ.numel() - FACTS}", int(differ.sum()), at_most=0
                )
                right = int((after[:FACTS, -1].argmax(-1) == wanted).sum())
                claim(f"{name}: facts that answer, of {FACTS}", right, at_least=FACTS)
                biases = int((logits(with_biases, ids, kernel) != before).any(-1).sum())
                print(f"not claimed: {name}: places that differ with biases of 0, of {differ.numel()}: {biases}")


if __name__ == "__main__":
    run(main)
