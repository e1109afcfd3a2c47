"""An architecture as a host: what facts that are attached to it need to know, and the tensors of a block.

A host is somebody's decoder. A block of it computes

    x ← x + attention(norm_1 x),   x ← x + W_2 act(W_1 norm_2 x + b_1)

one after the other or both at once. In a gated block, act(…) is multiplied by W_3 norm_2 x + b_3. After all blocks come
the last norm and the head, which has no bias. The letters are those of `architecture.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from monolayer.huggingface.architecture import Architecture, ModelSetting

Role = Literal["zeros", "ones", "W_1", "b_1", "W_2", "b_3"]
"""What a tensor of an appended block holds: the array of a letter, or zeros or ones throughout."""


@dataclass(frozen=True)
class HostKind:
    """What one architecture is as a host, to which facts can be attached.

    Names of tensors are those of the architecture, and so are the keys of `config.json`.
    """

    architecture: Architecture
    activation: str
    """The name of the activation if `config.json` does not say."""
    epsilon: float = 1e-5
    """ε of the norms if `config.json` does not say."""
    tied: bool = True
    """Whether the head shares the embedding table if `config.json` does not say."""
    head: str = "lm_head.weight"
    """The name of the tensor of the head, if it does not share the embedding table."""
    demands: Mapping[str, object] = field(default_factory=dict)
    """Values that `config.json` must have for blocks to compute as above. A missing key has the demanded value."""
    bias_key: str | None = None
    """The key of `config.json` that gives feed-forward layers biases; None if they always have them.

    If a host lacks them, the key is set and its own biases are written as 0."""
    attention_bias: tuple[str | None, bool] = (None, True)
    """The key of `config.json` that gives attention its biases, None if there is none, and its default."""
    theta_key: str = "rope_theta"
    """The key of `config.json` with the angle of rotary positions, before transformers 5."""
    turned: float = 1.0
    """The share of the coordinates that rotary positions turn if `config.json` does not say."""
    more_keys: str = ""
    """Other keys that `config.json` may have besides those of one layer, with white space between them."""

    @property
    def name(self) -> str:
        """The name of the architecture."""
        return self.architecture.name

    @property
    def model(self) -> str:
        """The name of its transformers class for causal language models."""
        return self.architecture.class_for("lm")

    @property
    def root(self) -> str:
        """The prefix of the names of tensors. Some files, such as those of GPT-2, leave out its first part."""
        return self.architecture.root

    @property
    def layers(self) -> str:
        """The name of the list of layers, after `root`."""
        return self.architecture.blocks

    @property
    def tokens(self) -> str:
        """The name of the tensor of the embedding table, after `root`."""
        return f"{self.architecture.tables['tokens']}.weight"

    @property
    def places(self) -> str | None:
        """The name of the tensor of the table of places, after `root`; None if there is none."""
        table = self.architecture.tables.get("places")
        return None if table is None else f"{table}.weight"

    @property
    def last_norm(self) -> str:
        """The name of the norm before the head, after `root`."""
        return self.architecture.outer_norm

    @property
    def norms(self) -> tuple[str, str]:
        """The two norms of a block, in the order of evaluation."""
        return self.architecture.norms

    @property
    def attention(self) -> tuple[str, ...]:
        """The linear layers of attention. The last one writes. `attention_bias` says whether they have biases."""
        return tuple(dict.fromkeys(self.architecture.layers[letter] for letter in "QKVO"))

    @property
    def reads(self) -> str:
        """The linear layer `W_1`, `b_1`."""
        return self.architecture.layers["1"]

    @property
    def writes(self) -> str:
        """The linear layer `W_2`."""
        return self.architecture.layers["2"]

    @property
    def multiplies(self) -> str | None:
        """The linear layer `W_3`, `b_3` of gated neurons."""
        return self.architecture.layers.get("3")

    @property
    def transposed(self) -> bool:
        """Whether matrices are stored as `(in, out)`."""
        return self.architecture.transposed

    @property
    def rms(self) -> bool:
        """Whether norms subtract no mean and have no bias."""
        return self.architecture.rms

    @property
    def depth(self) -> str:
        """The key of `config.json` that counts the layers."""
        return self._key(ModelSetting.DEPTH)

    @property
    def sizes(self) -> tuple[str, str]:
        """The keys of `config.json` that hold `D` and `H`."""
        return self._key(ModelSetting.WIDTH), self._key(ModelSetting.NEURONS)

    @property
    def known_keys(self) -> frozenset[str]:
        """The keys of `config.json` that may be there besides those that all architectures have."""
        return frozenset({*self.architecture.settings, *self.more_keys.split(), *self.demands})

    def activation_in(self, config: Mapping[str, object]) -> Any:
        """The name of the activation of the feed-forward layers, as `config.json` gives it, or the default."""
        return config.get(self._key(ModelSetting.ACTIVATION), self.activation)

    def epsilon_in(self, config: Mapping[str, object]) -> Any:
        """ε of the norms, as `config.json` gives it, or the default; some architectures have no key for it."""
        key = self.architecture.key_of(ModelSetting.EPSILON)
        return self.epsilon if key is None else config.get(key, self.epsilon)

    def _key(self, setting: ModelSetting) -> str:
        """The key of `config.json` that holds a setting that every host has."""
        key = self.architecture.key_of(setting)
        assert key is not None, f"{self.name} has no key for {setting.value}"
        return key

    def block_names(self, config: Mapping[str, object]) -> frozenset[str]:
        """The names, within a layer, of the tensors that each layer of a host with this `config.json` has."""
        names = {f"{layer}.weight" for layer in (*self.attention, *self.linear, *self.norms)}
        if not self.rms:
            names |= {f"{norm}.bias" for norm in self.norms}
        if self.bias_key is None or config.get(self.bias_key, False):
            names |= set(self.biases)
        key, usual = self.attention_bias
        attention_has_biases = usual if key is None else config.get(key, usual)
        if attention_has_biases:
            names |= {f"{layer}.bias" for layer in self.attention}
        return frozenset(names)

    def block(self, config: Mapping[str, object]) -> dict[str, Role]:
        """The role of each tensor in an appended block, by its name in the block."""
        roles: dict[str, Role] = dict.fromkeys(self.block_names(config), "zeros")
        roles |= {f"{norm}.weight": "ones" for norm in self.norms}
        roles |= {f"{self.reads}.weight": "W_1", f"{self.reads}.bias": "b_1"}
        roles |= {f"{self.writes}.weight": "W_2", f"{self.writes}.bias": "zeros"}
        if self.multiplies is not None:
            roles |= {f"{self.multiplies}.weight": "zeros", f"{self.multiplies}.bias": "b_3"}
        return dict(sorted(roles.items()))

    def is_turned(self, role: Role) -> bool:
        """Whether the tensor of this role is stored as (width, neurons): the neurons of W_1 and W_2 are rows to us."""
        return role in ("W_1", "W_2") and self.transposed != (role == "W_2")

    @property
    def biases(self) -> tuple[str, ...]:
        """The names, within a block, of the biases of the feed-forward layers."""
        return tuple(f"{layer}.bias" for layer in self.linear)

    @property
    def linear(self) -> tuple[str, ...]:
        """The names, within a block, of the feed-forward layers."""
        return (self.reads, self.writes, *(() if self.multiplies is None else (self.multiplies,)))
