"""A folder with facts attached that transformers loaded and saved again: what is still what it was.

`save_pretrained` writes one file of weights, or several of its own cut; it drops tensors that it computes anew, and the
copies of tied ones. It writes the JSON files of the tokenizer and of `generate` in its own words, and leaves out files
that it does not know. The tensors keep their bits, and with the headers in `attached.json` they are the host's files.

A file counts as the same here if prompts become the same ids with it and `generate` takes the same tokens. Everything
else that was changed is named, as before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any, NamedTuple

from monolayer.huggingface.headers import header_listing, read_header
from monolayer.huggingface.host import COPIED, TOKENIZER
from monolayer.huggingface.hosts import BUFFERS
from monolayer.huggingface.manifest import Manifest, tokenizer_digest
from monolayer.huggingface.settings import GENERATION_FILE, unusual_generation
from monolayer.huggingface.tensors import ModelFiles, Tensor, file_digest

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LISTS = ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens")
TOKENIZER_CONFIG, SPECIAL_TOKENS, TEMPLATE = "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"
UNREAD = frozenset({
    *("tokenizer_class", "backend", "is_local", "local_files_only", "model_max_length", "padding_side"),
    *("truncation_side", "clean_up_tokenization_spaces", "processor_class", "name_or_path", "tokenizer_file"),
    *("special_tokens_map_file", "model_input_names", "max_length", "stride", "truncation_strategy"),
    *("pad_to_multiple_of", "pad_token_type_id", "chat_template", "added_tokens_decoder", "transformers_version"),
    *("vocab_file", "merges_file"),
    *ROLES,
    *LISTS,
})  # fmt: skip
"""Keys of `tokenizer_config.json` that do not change which ids a single prompt becomes.

They are about padding, cutting and decoding, or name classes that read the same `tokenizer.json`; special tokens and
the chat template are compared by themselves."""


class Reconciled(NamedTuple):
    """A folder as `attach` wrote it, apart from its bytes.

    `folder`: its tensors have the names that `manifest` gives them. `manifest`: without tensors that transformers does
    not load (masks, and the table of a tied head). `rewritten`: files that were written anew and mean the same, and
    files that are gone and are not needed, each in words.
    """

    folder: ModelFiles
    manifest: Manifest
    rewritten: Mapping[str, str]


def reconciled(folder: ModelFiles, manifest: Manifest) -> Reconciled:
    """The folder and its manifest, with whatever `save_pretrained` of transformers changed undone if it can be."""
    folder = replace(folder, tensors=renamed(folder.tensors, {*manifest.tensors, *manifest.appended}))
    gone = {name for name in manifest.tensors if name not in folder.tensors and is_computed(name)}
    anew = {name: why for name in COPIED if (why := _rewritten(name, folder, manifest)) is not None}
    return Reconciled(folder, _without(manifest, gone) if gone else manifest, anew)


def _without(manifest: Manifest, gone: set[str]) -> Manifest:
    """The manifest of a host that never had these tensors."""
    headers = {
        name: header_listing([each for each in read_header(header) if each.name not in gone], header)
        for name, header in manifest.headers.items()
    }
    index = manifest.index
    if index is not None:
        stored = json.loads(index)
        stored["weight_map"] = {name: file for name, file in stored["weight_map"].items() if name not in gone}
        index = json.dumps(stored, indent=2) + "\n"
    kept = {name: digest for name, digest in manifest.tensors.items() if name not in gone}
    return replace(manifest, tensors=kept, headers=headers, index=index)


def renamed(tensors: Mapping[str, Tensor], known: Set[str]) -> dict[str, Tensor]:
    """The tensors by their `known` names: transformers writes the first part of names, which some files leave out."""
    renamed = dict(tensors)
    for name in known - tensors.keys():
        other = next((each for each in tensors.keys() - known if each.partition(".")[2] == name), None)
        if other is not None:
            renamed[name] = replace(renamed.pop(other), name=name)
    return renamed


def is_computed(name: str) -> bool:
    """Whether transformers computes a tensor anew, or takes it from another one, and so does not save it."""
    return name in HEADS or name.endswith(tuple(f".{each}" for each in BUFFERS))


HEADS = ("lm_head.weight", "embed_out.weight")


def _rewritten(name: str, folder: ModelFiles, manifest: Manifest) -> str | None:
    """Why it does not matter that a file is not what it was, in words; None if it is, or if it may matter."""
    content, digest = folder.content.get(name), manifest.files.get(name)
    if content is None:
        if digest is None or name in (TOKENIZER, TOKENIZER_CONFIG):
            return None
        return "gone" if name != GENERATION_FILE or _generation(b"{}", folder, manifest) else None
    if digest == file_digest(content):
        return None
    same = SAME.get(name)
    if same is None:
        return None
    try:
        known = same(bytes(content), folder, manifest)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return ("written anew" if digest is not None else "new") if known else None


Same = Callable[[bytes, ModelFiles, Manifest], bool]
"""Whether a file with this content says what the folder said when facts were attached."""


def _tokenizer(content: bytes, folder: ModelFiles, manifest: Manifest) -> bool:
    return tokenizer_digest(content) == manifest.tokenizer


def _tokenizer_config(content: bytes, folder: ModelFiles, manifest: Manifest) -> bool:
    now, before = json.loads(content), json.loads(manifest.texts.get(TOKENIZER_CONFIG, "{}"))
    counts = [
        {key: value for key, value in each.items() if key not in UNREAD and value is not None} for each in (now, before)
    ]
    known = _template_of(now) in (None, _template(manifest))
    return known and counts[0] == counts[1] and _are_known(now, before, folder)


def _special_tokens(content: bytes, folder: ModelFiles, manifest: Manifest) -> bool:
    return _are_known(json.loads(content), {}, folder)


def _chat_template(content: bytes, folder: ModelFiles, manifest: Manifest) -> bool:
    return content.decode("utf-8").rstrip() == _template(manifest)


def _generation(content: bytes, folder: ModelFiles, manifest: Manifest) -> bool:
    before = {GENERATION_FILE: manifest.texts.get(GENERATION_FILE, "{}").encode()}
    stops = [json.loads(each).get("eos_token_id") for each in (content, before[GENERATION_FILE])]
    fallback = json.loads(manifest.config).get("eos_token_id")
    stops = [fallback if stop is None else stop for stop in stops]
    return stops[0] == stops[1] and unusual_generation({GENERATION_FILE: content}) == unusual_generation(before)


def _vocabulary(content: bytes, folder: ModelFiles, manifest: Manifest) -> bool:
    tokenizer = json.loads(folder.content[TOKENIZER])
    return bool(json.loads(content) == tokenizer["model"]["vocab"])


def _merges(content: bytes, folder: ModelFiles, manifest: Manifest) -> bool:
    listed = json.loads(folder.content[TOKENIZER])["model"]["merges"]
    lines = content.decode("utf-8").splitlines()
    merges = [each if isinstance(each, str) else " ".join(each) for each in listed]
    return lines[lines[:1] != merges[:1] :] == merges


SAME: dict[str, Same] = {
    TOKENIZER: _tokenizer,
    TOKENIZER_CONFIG: _tokenizer_config,
    SPECIAL_TOKENS: _special_tokens,
    TEMPLATE: _chat_template,
    GENERATION_FILE: _generation,
    "vocab.json": _vocabulary,
    "merges.txt": _merges,
}


def _template_of(config: Mapping[str, Any]) -> str | None:
    """The chat template in a `tokenizer_config.json`."""
    template = config.get("chat_template")
    return template.rstrip() if isinstance(template, str) else None


def _template(manifest: Manifest) -> str | None:
    """The chat template of the folder that facts were attached to: in a file of its own, or with the tokenizer."""
    if TEMPLATE in manifest.texts:
        return manifest.texts[TEMPLATE].rstrip()
    return _template_of(json.loads(manifest.texts.get(TOKENIZER_CONFIG, "{}")))


def _are_known(now: Mapping[str, Any], before: Mapping[str, Any], folder: ModelFiles) -> bool:
    """Whether all special tokens that are named now were named before, or are among those of `tokenizer.json`."""
    tokenizer = json.loads(folder.content[TOKENIZER])
    known = {token["content"] for token in tokenizer.get("added_tokens") or ()} | set(_texts(before))
    return set(_texts(now)) <= known


def _texts(config: Mapping[str, Any]) -> list[str]:
    """The texts of the special tokens that a file of the tokenizer names."""
    parts: list[Any] = [config.get(role) for role in ROLES]
    for key in LISTS:
        more = config.get(key) or ()
        parts += more.values() if isinstance(more, dict) else more
    parts += (config.get("added_tokens_decoder") or {}).values()
    return [part["content"] if isinstance(part, dict) else str(part) for part in parts if part is not None]


def original_files(folder: ModelFiles, manifest: Manifest) -> dict[str, bytes]:
    """The files that lay beside the host's weights: as they were if that is known, otherwise as they are now."""
    contents: dict[str, bytes] = {}
    for name, digest in manifest.files.items():
        content = folder.content.get(name)
        if content is not None and file_digest(content) == digest:
            contents[name] = bytes(content)
        elif name in manifest.texts:
            contents[name] = manifest.texts[name].encode("utf-8")
        elif content is not None:
            contents[name] = bytes(content)
    return contents


__all__ = ["Reconciled", "is_computed", "original_files", "reconciled", "renamed"]
