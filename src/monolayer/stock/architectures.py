"""The stock architectures by name."""

from __future__ import annotations

from monolayer.stock.bert import BERT, DISTILBERT, ROBERTA
from monolayer.stock.decoders import LLAMA, NEOX, OPT, STARCODER2
from monolayer.stock.gpt2 import GPT2

ARCHITECTURES = {one.name: one for one in (BERT, ROBERTA, DISTILBERT, GPT2, OPT, NEOX, STARCODER2, LLAMA)}
