"""A host with facts attached: in memory, and saved as a folder that transformers load."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from monolayer.arrays import Bools
from monolayer.attaching.answers import Prompts, can_generate
from monolayer.attaching.extended import ExtendedModel, WeightFile
from monolayer.attaching.neurons import Neurons, Steepness, steepness
from monolayer.attaching.running import Running
from monolayer.attaching.written import tensor_digest, write_json
from monolayer.data import Sequences
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, FolderKind, new_folder
from monolayer.data.labelling import SEQUENCE
from monolayer.data.readers import prompts_of
from monolayer.data.shards import names_files
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.headers import Listed, header_listing, header_of, read_header, write_file
from monolayer.huggingface.host import COPIED, LARGE, Host, host_of
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, FILE, HOST_WEIGHTS, Manifest, open_attached
from monolayer.huggingface.marks import ATTACHED_MARK
from monolayer.huggingface.rewritten import original_files, reconciled
from monolayer.huggingface.settings import generation_words, unusual_generation
from monolayer.huggingface.strict import ForeignError, read_json
from monolayer.huggingface.templates import Template, stand_alone
from monolayer.huggingface.tensors import ModelFiles, file_digest
from monolayer.huggingface.tensors import Tensor as Stored
from monolayer.model.card import Card
from monolayer.model.torch_settings import own_settings
from monolayer.model.unknown import REFUSE, filled
from monolayer.table import plural, quoted

_FILES = (*COPIED, "config.json", FILE, ATTACHED_WEIGHTS, HOST_WEIGHTS, INDEX_FILE, "README.md", "certificate.json")
ATTACHED = FolderKind("host with attached facts", next(iter(ATTACHED_MARK)), frozenset(_FILES), r"[\w.-]+\.safetensors")
"""The kind of folder that `save` writes, and may replace with `overwrite=True`."""


@dataclass(frozen=True, eq=False, repr=False)
class Attached(ExtendedModel):
    """A host and the neurons of its facts. The folder that `save` writes can be used without monolayer."""

    host: Host
    source: ModelFiles
    """The folder that the host was read from: its own, or one with facts attached."""
    neurons: Neurons
    manifest: Manifest
    repeated: int = 0
    """How many rows of the data repeated others. Files do not keep this, so it is 0 for a folder that was loaded."""
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """The files beside the weights that were written anew since facts were attached, and mean the same, or are gone."""
    folders: ClassVar = ATTACHED
    was_stored: ClassVar = "facts were attached"

    @classmethod
    @own_settings()
    def load(cls, folder: str | os.PathLike[str] | ModelFiles) -> Attached:
        """Read a folder that `save` wrote, which may be open already."""
        opened = open_attached(folder)
        try:
            opened, manifest, rewritten = reconciled(opened, Manifest.in_folder(opened))
            config = read_json(Path("config.json"), manifest.config.encode())
            host = host_of(config, {name: opened.tensors[name] for name in manifest.tensors})
        except KeyError as error:
            raise ModelFileError(f"{opened.path} lacks the host's tensor {error.args[0]!r}") from None
        except (ForeignError, DataError) as error:
            raise ModelFileError(f"{opened.path} is not a folder that attach wrote: {error}") from None
        neurons = neurons_of_blocks(host, opened, manifest.neurons)
        return cls(host, opened, neurons, manifest, rewritten=rewritten)

    @property
    def original(self) -> Host:
        """The host without its facts."""
        return self.host

    def original_weights(self) -> Iterator[WeightFile]:
        """The host's files of weights; without an index there was one file, and it had another name."""
        for held, listed in self.host_listing.items():
            name = WEIGHTS_FILE if self.manifest.index is None else held
            yield WeightFile(name, self.manifest.headers[held], listed)

    def original_tensors(self) -> Iterator[tuple[str, str, Stored]]:
        """The host's tensors, each with the digest that it had."""
        for name, digest in self.manifest.tensors.items():
            yield name, digest, self.host.tensors[name]

    @property
    def weights(self) -> Mapping[str, Stored]:
        """The tensors in the folder by their names."""
        return self.source.tensors

    @property
    def card(self) -> Card:
        """How the model reads data: prompts and answers as text, without a vocabulary of its own."""
        return Card(
            None,
            None,
            SEQUENCE.name,
            causal=True,
            next_token=True,
            per_answer=self.manifest.per,
            form=self.manifest.form,
        )

    @property
    def steep(self) -> Steepness:
        """ρ and T of the neurons, and how long states are; they follow from the host and what the manifest says."""
        manifest = self.manifest
        return replace(steepness(self.host, manifest.radius), own=manifest.own_radii, state=manifest.state)

    @property
    def blocks(self) -> int:
        """How many blocks are appended."""
        return -(-len(self.neurons.b_1) // self.host.neurons)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors added to the host's, in its format: those of the blocks, and biases that the host lacks."""
        dtype = getattr(torch, self.host.dtype)
        tensors = {name: torch.zeros(size, dtype=dtype) for name, size in self.host.added_biases.items()}
        for number in range(self.blocks):
            start = self.host.layer(self.host.layers + number)
            tensors |= {start + name: tensor for name, tensor in self.block(number).items()}
        return tensors

    @cached_property
    def host_listing(self) -> dict[str, list[Listed]]:
        """For each of the host's files of weights, by the name that `save` gives it, its tensors in their order."""
        config = read_json(Path("config.json"), self.manifest.config.encode())
        headers = self.manifest.headers
        if self.host.kin is None:
            return {final: read_header(header) for final, header in headers.items()}
        return {final: self.host.kin.llama_listed(config, header) for final, header in headers.items()}

    def block(self, number: int) -> dict[str, Tensor]:
        """The tensors of appended block `number`, by their names inside the block."""
        host, H = self.host, self.host.neurons
        rows = slice(number * H, (number + 1) * H)
        parts: dict[str, Any] = {"W_1": self.neurons.W_1[rows], "W_2": self.neurons.W_2[rows]}
        parts["b_1"] = self.neurons.b_1[rows]
        parts["b_3"] = np.ones(len(parts["b_1"]))
        tensors = {}
        for name, role in host.block.items():
            # Made in the host's format: a whole block in float64 would be the largest thing that `save` holds.
            whole = torch.zeros(host.block_shapes[name], dtype=getattr(torch, host.dtype))
            if role == "ones":
                whole.fill_(1.0)
            elif role != "zeros":
                by_neuron = whole.T if host.kind.is_turned(role) else whole
                by_neuron[: len(parts[role])] = torch.from_numpy(parts[role])
            tensors[name] = whole
        return tensors

    def predict(
        self, X: object, *, strict: bool = False, unknown: Any = REFUSE, device: str | torch.device | None = None
    ) -> Any:
        """The answers to prompts `X`, as text `(N,)`: how `generate` in transformers continues each of them.

        The likeliest token is chosen each time, up to the end token. If no fact is stored for a prompt, the answer is
        what the host says; with `strict` such a prompt is an error that names it. Without transformers, stored answers
        are read from the weights, and every other prompt is an error. `unknown`: a value, such as None, in place of the
        answer to a prompt that no fact is stored for. One string that names no file is one prompt, and has one answer.
        """
        if isinstance(X, str) and not names_files(X):
            return self.predict([X], strict=strict, unknown=unknown, device=device)[0]
        if unknown is not REFUSE:
            data = prompts_of(X, like=self.card.manner)
            rows = np.flatnonzero(self.known(data))
            answers = self.answers(data.select(rows), device=device) if len(rows) else []
            return filled(np.array(answers, dtype=object), rows, len(data), unknown)
        data = self.encode(X)
        unseen = np.flatnonzero(~self.known(data)) if strict else np.array([])
        if len(unseen):
            row = int(unseen[0])
            note = self.notes(data.select(unseen[:1])).get(0)
            why = "" if note is None else f". It {note}"
            raise DataError(f"{data.named(row)}: no fact is stored for the prompt {data.texts(row)[0]!r}{why}")
        return np.array(self.answers(data, device=device), dtype=object)

    @own_settings()
    def answers(self, data: Sequences, device: str | torch.device | None = None) -> list[str | None]:
        """How the model continues each prompt, as text; None for prompts that are `unanswerable`."""
        prompts, texts = self._prompts(data), list[str | None]([None] * len(data))
        refused = prompts.unanswerable()
        rows = [row for row in range(len(data)) if row not in refused]
        if can_generate() and rows:
            running = Running(self.host, self.source, device)
            running.append([self.block(number) for number in range(self.blocks)])
            answers = prompts.generated(running, rows)
        else:
            answers = prompts.written(self.neurons, rows)
        for row, answer in zip(rows, answers, strict=True):
            texts[row] = answer
        return texts

    def unanswerable(self, data: Sequences) -> dict[int, str]:
        """The rows of prompts that cannot be answered, each with the reason in words."""
        return self._prompts(data).unanswerable()

    def known(self, data: Sequences) -> Bools:
        """Whether a fact is stored for each prompt `(N,)`."""
        return np.array([fact is not None for fact in self._prompts(data).facts], dtype=bool)

    def notes(self, data: Sequences) -> dict[int, str]:
        """The rows of prompts that no fact is stored for, but that end with a stored prompt, each told in words."""
        return self._prompts(data).notes()

    def _prompts(self, data: Sequences) -> Prompts:
        """The prompts in `data` as ids, with the facts that are stored for them."""
        return Prompts(self.host, self.manifest, self.source.content, data)

    @property
    def config(self) -> dict[str, object]:
        """The content of `config.json`."""
        return self.host.longer_config(self.blocks)

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all. The host's files of weights are copied byte for byte."""
        with new_folder(folder, overwrite=overwrite, kind=ATTACHED) as scratch:
            for final, listed in self.host_listing.items():
                header = self.manifest.headers[final]
                if listed != read_header(header):
                    header = header_listing(listed, header)
                write_file(scratch / final, header, (self.source.tensors[each.name].data for each in listed))
            for name, content in self.beside.items():
                (scratch / name).write_bytes(content)
            save_file(self.tensors, scratch / ATTACHED_WEIGHTS, metadata={"format": "pt"})
            file_of = {each.name: final for final, listed in self.host_listing.items() for each in listed}
            file_of |= dict.fromkeys(self.tensors, ATTACHED_WEIGHTS)
            size = sum(len(self.host.tensors[name].data) for name in self.manifest.tensors)
            size += sum(part.nbytes for part in self.tensors.values())
            index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(file_of.items()))}
            write_json(scratch / INDEX_FILE, index)
            write_json(scratch / "config.json", self.config)
            (scratch / FILE).write_text(self._finished().to_json(), encoding="utf-8")
            (scratch / "README.md").write_text(self.readme(), encoding="utf-8")
        return Path(folder)

    def _finished(self) -> Manifest:
        """The manifest with the digests of the appended tensors."""
        digests = {name: tensor_digest(tensor) for name, tensor in sorted(self.tensors.items())}
        files = {name: file_digest(content) for name, content in self.beside.items()}
        texts = {name: text for name, text in self.manifest.texts.items() if name in files}
        return replace(self.manifest, appended=digests, files=files, texts=texts)

    @cached_property
    def beside(self) -> dict[str, bytes]:
        """The files beside the host's weights, as they were when facts were attached wherever that is known."""
        return original_files(self.source, self.manifest)

    @property
    def sizes(self) -> dict[str, object]:
        """Sizes of the model and what was measured, as the files give them."""
        host, manifest = self.host, self.manifest
        return {
            "kind": "host with attached facts",
            "architecture": host.kind.name,
            "dtype": host.dtype,
            "layers": host.layers,
            "blocks": self.blocks,
            "width": host.width,
            "neurons_per_block": host.neurons,
            "facts": manifest.count,
            "neurons": manifest.neurons,
            "radius": manifest.radius,
            "templates": [asdict(template) for template in manifest.templates],
            "parameters": sum(tensor.numel() for tensor in self.tensors.values()),
            "measured": self._measured(),
            "generation": unusual_generation(self.source.content),
        }

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table that `repr` shows."""
        name, facts, *rest = self._stored_rows()
        one = "1 row repeats another and needs no neurons"
        repeats = one if self.repeated == 1 else f"{self.repeated:,} rows repeat others and need no neurons"
        more = [("repeated", repeats)] if self.repeated else []
        return [name, facts, *more, *rest]

    def _stored_rows(self) -> list[tuple[str, str]]:
        """The rows of the table that follow from what `save` writes."""
        host, manifest = self.host, self.manifest
        measured, templates = self._measured(), manifest.templates
        each = f", each in {len(templates):,} templates" if len(templates) > 1 else ""
        rows = [
            ("host", f"{host.named}, {plural(host.layers, 'layer')}, width {host.width:,}, {host.dtype}"),
            ("facts", f"{manifest.count:,}{each}, in {plural(manifest.neurons, 'neuron')}"),
            ("appended", f"{plural(self.blocks, 'block')} of {plural(host.neurons, 'neuron')}"),
            ("radius", self._radius()),
        ]
        if manifest.end is None:
            rows.append(("end token", "none: after an answer the host goes on"))
        rows += [(f"template {number}", quoted(template.text)) for number, template in _other_templates(manifest)]
        if not all(template.special_tokens for template in templates):
            one = "" if len(templates) == 1 else ", in templates that have their own"
            rows.append(("prompts", f"split without special tokens{one}: tokenizer(prompt, add_special_tokens=False)"))
        if measured is not None:
            rows.append(("measured", measured))
        unusual = unusual_generation(self.source.content)
        if unusual:
            rows.append(("generation", generation_words(unusual)))
        return rows

    def _radius(self) -> str:
        """ρ of the neurons in words: one number, or the least and the largest."""
        length = np.sqrt((self.neurons.W_1 * self.neurons.W_1).sum(axis=1) * self.host.width)
        radii = self.steep.response / length if len(length) else np.array([self.manifest.radius])
        least, most = f"{radii.min():.3g}", f"{radii.max():.3g}"
        one = f"{self.manifest.radius:.3g}" if radii.max() <= 1.05 * radii.min() else f"{least} to {most}, by token"
        return f"{one}: a fact answers where ⟨key, state⟩ falls by up to half of it"

    def _measured(self) -> str | None:
        """How far states moved between evaluations, and where that was measured, in words."""
        moved = [fact.moved for fact in self.manifest.facts if fact.moved is not None]
        measured = self.manifest.measured
        where = ", ".join(str(measured[key]) for key in ("arithmetic", "device") if key in measured)
        return f"states within {max(moved):.3g} of their keys ({where})" if moved else None

    def json(self) -> dict[str, object]:
        """The numbers of `sizes`, and how many rows repeated others, for JSON output."""
        return {**self.sizes, "repeated": self.repeated}

    def _layout_words(self) -> str:
        """Sentences for the README about the layout that the host got, if it got another one."""
        host = self.host
        if host.layout is None:
            return ""
        named = ""
        if host.kin is not None:
            named = f"The host is a {host.kin.model}; this folder is a {host.kind.model} with the same numbers, and "
            named += "`detach` gives the files of the host back, byte for byte. "
        return (
            f"{named}Its own layers have biases of 0 here. On a processor that changes no bit; on a GPU such layers "
            "run in other kernels, so the last bits of all logits differ from those of the host without them. "
        )

    def readme(self) -> str:
        """The text of the README.md in the folder."""
        table = "\n".join(f"| {name} | {value} |" for name, value in self._stored_rows())
        return f"""---
library_name: transformers
pipeline_tag: text-generation
tags: [monolayer]
---

# {self.host.kind.model} with {plural(self.manifest.count, "attached fact")}

monolayer appended the last {plural(self.blocks, "layer")}: facts, one neuron per token of an answer. All other weights
are the host's. {self._layout_words()}`monolayer verify FOLDER FACTS` proves what these layers do, `monolayer detach
FOLDER --out HOST` takes them off. `{FILE}` says which neurons hold which fact.

| | |
|---|---|
{table}

Wherever the host's state is not very near to one at a stored prompt, or at a later token of its answer, every logit is
the host's. Rewordings of a prompt are not recognized.
"""


def _other_templates(manifest: Manifest) -> list[tuple[int, Template]]:
    """The templates of a folder with their numbers; none if prompts stand by themselves."""
    return [] if stand_alone(manifest.templates) else list(enumerate(manifest.templates))


def host_weights(source: ModelFiles) -> dict[str, str]:
    """The host's weight files in `source`, each with its name in a folder with facts attached."""
    return {name: HOST_WEIGHTS if name == WEIGHTS_FILE else name for name in source.weights if name != ATTACHED_WEIGHTS}


def host_headers(source: ModelFiles) -> dict[str, str]:
    """The headers of the host's weight files, by their names in a folder with facts attached."""
    return {final: header_of(source.content[name]) for name, final in host_weights(source).items()}


def neurons_of_blocks(host: Host, opened: Mapping[str, Any], count: int) -> Neurons:
    """The neurons of the first `count` rows of the appended blocks, which are the rows in use."""
    blocks = -(-count // host.neurons)
    letters = {role: name for name, role in host.block.items() if role in ("W_1", "b_1", "W_2")}
    parts: dict[str, list[Any]] = {role: [] for role in letters}
    for number in range(blocks):
        start = host.layer(host.layers + number)
        for role, name in letters.items():
            if start + name not in opened:
                raise ModelFileError(f"the appended block {number} lacks the tensor {start + name!r}")
            whole = opened[start + name].numbers()
            if whole.shape != host.block_shapes[name]:
                raise ModelFileError(f"{start + name} has shape {whole.shape}, not {host.block_shapes[name]}")
            parts[role].append(whole.T if host.kind.is_turned(role) else whole)
    D = host.width
    none = {"W_1": np.zeros((0, D)), "b_1": np.zeros(0), "W_2": np.zeros((0, D))}
    return Neurons(*(np.concatenate([none[role], *parts[role]])[:count] for role in ("W_1", "b_1", "W_2")))


def copied_texts(source: ModelFiles) -> dict[str, str]:
    """The small files beside the weights that are text, as text."""
    texts = {}
    for name in COPIED:
        if name in source.content and name not in LARGE:
            with suppress(UnicodeDecodeError):
                texts[name] = bytes(source.content[name]).decode("utf-8")
    return texts


__all__ = [
    "ATTACHED",
    "Attached",
    "copied_texts",
    "host_headers",
    "neurons_of_blocks",
]
