"""Read a stock folder back: its facts, and its arrays by their letters. Files that say anything else are refused."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from safetensors import SafetensorError

from monolayer.arrays import Floats
from monolayer.data import Names
from monolayer.data.choices import Belongs, PerAnswer
from monolayer.data.form import SourceForm
from monolayer.data.objects import JsonFields, JsonObject
from monolayer.errors import ModelFileError
from monolayer.huggingface.architecture import TASK_LABELLINGS, ModelTask
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.files import BUILT_BY, DRAW_KEY, FolderFacts, written_files
from monolayer.huggingface.resaved import SPECIAL_TOKENS_FILE, harmless, special_tokens_map
from monolayer.huggingface.stock_kind import StockKind
from monolayer.huggingface.strict import ForeignError, demand_equal, value_under
from monolayer.huggingface.tensors import ModelFiles
from monolayer.huggingface.texts import CUTS, UNIT_OF, TextCut
from monolayer.huggingface.weights import Weights, read_weights

DEFAULT_CLASSES = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
"""The classes that transformers leaves out of `config.json`, since a configuration without classes gets these."""


@dataclass(frozen=True, eq=False)
class StockFolder:
    """What a stock folder holds: its facts, its weights, `arrays` by their letters, and all files that were read."""

    facts: FolderFacts
    weights: Weights
    arrays: Mapping[str, Floats]
    content: Mapping[str, bytes]

    @property
    def tensors(self) -> Mapping[str, Floats]:
        """All tensors by their names, widened to float64."""
        return self.weights.tensors

    def digest(self) -> str:
        """SHA-256 of the configuration, weights and tokenizer, which determine what the other files mean."""
        files = ("config.json", *sorted(self.weights.files), "tokenizer.json")
        parts = (hashlib.sha256(self.content[file]).digest() for file in files)
        return hashlib.sha256(b"".join(parts)).hexdigest()


class AskedAs(NamedTuple):
    """How to read the data that a folder is asked about.

    `names`: the names of its tokens. `per`: what its labels belong to. `next_token`: whether the label of each token is
    the next token, so that the data need no labels. `form`: that of the files or tables that it was built from.
    """

    names: Names | None
    per: Belongs | None
    next_token: bool = False
    form: SourceForm | None = None


def asked_as(files: ModelFiles) -> AskedAs:
    """How to read the data that a folder is asked about. Names of special tokens are left out.

    If the files are damaged or foreign, fields are None, and `read_folder` says what is wrong. Whether a language model
    holds prompts and answers, and how they are read, is taken from the draw.
    """
    try:
        config, tokenizer = files.object("config.json"), files.object("tokenizer.json")
        kind = ARCHITECTURES[str(config["model_type"])]
        names = Names(_token_names(tokenizer)[len(kind.special) :], UNIT_OF.get(_text_cut(tokenizer)))
    except (ForeignError, ModelFileError, KeyError, TypeError):
        return AskedAs(None, None)
    task = _task(kind, config)
    if task is None or not BUILT_BY.items() <= config.items():
        return AskedAs(names, None)
    labelling = TASK_LABELLINGS[task]
    draw = _draw(files)
    per_answer = next((known for known in get_args(PerAnswer) if draw.get("per_answer") == known), None)
    per_answer = per_answer if labelling.generates else None
    next_token = labelling.generates and per_answer is None
    try:
        form = SourceForm.from_json(draw.get("form"))
    except ValueError:
        form = None
    return AskedAs(names, per_answer or labelling.belongs_to, next_token, form)


def _draw(files: ModelFiles) -> JsonFields:
    """The fields of the draw; none if there is no draw, or if it is damaged."""
    try:
        draw: object = json.loads(stored_draw(files) or "")
    except (ForeignError, ModelFileError, ValueError, RecursionError):
        return {}
    return draw if isinstance(draw, dict) else {}


def stored_draw(files: ModelFiles) -> str | None:
    """The draw in `config.json`, as the text that `memorize_as` put there; None if there is none.

    transformers keeps a key that it does not know, and a text under such a key has no effect.
    """
    draw = files.object("config.json").get(DRAW_KEY)
    if draw is not None and type(draw) is not str:
        raise ForeignError(f"config.json says {DRAW_KEY} = {reprlib.repr(draw)}, which is not a text")
    return draw


def read_folder(files: ModelFiles) -> StockFolder:
    """Read a stock folder. Files that do not mean what `memorize_as` writes are a `ForeignError`."""
    config = files.object("config.json")
    name = config.get("model_type")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise ForeignError(f"the architecture {name!r} is not one of {', '.join(ARCHITECTURES)}")
    kind = ARCHITECTURES[name]
    if not BUILT_BY.items() <= config.items():
        raise ForeignError(
            "monolayer did not write it (config.json lacks built_by), and proofs are about folders of memorize_as; "
            "`monolayer audit` measures what any model answers"
        )
    task = _task(kind, config)
    if task is None:
        raise ForeignError(f"config.json says architectures = {config.get('architectures')!r}")
    generates = TASK_LABELLINGS[task].generates
    if not generates and not DEFAULT_CLASSES.keys() & config.keys():
        config |= DEFAULT_CLASSES
    stored_draw(files)  # an error if it is not a text
    config.pop(DRAW_KEY, None)
    beside = ("tokenizer.json", "tokenizer_config.json", *(("generation_config.json",) if generates else ()))
    objects = {"config.json": config, **{file: files.object(file) for file in beside}}
    try:
        weights = read_weights(files, config.get("dtype"))
        arrays = kind.arrays(task, weights.tensors)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SafetensorError) as error:
        raise ModelFileError(f"{files.path} lacks or garbles a tensor that {name} has: {error!r}") from None
    facts = _folder_facts(objects, kind, task, arrays)
    for key, count in (("tokens", len(facts.names)), ("W_H", len(facts.classes))):
        if len(arrays[key]) != count:
            raise ModelFileError(
                f"{files.path}: {key} has {len(arrays[key]):,} rows, and the files have {count:,} names"
            )
    may_differ = harmless(facts)
    for file, wanted in written_files(facts).items():
        demand_equal(file, may_differ[file].as_written(objects[file], wanted), wanted)
    if SPECIAL_TOKENS_FILE in files.sizes:
        objects[SPECIAL_TOKENS_FILE] = files.object(SPECIAL_TOKENS_FILE)
        demand_equal(SPECIAL_TOKENS_FILE, objects[SPECIAL_TOKENS_FILE], special_tokens_map(facts))
    return StockFolder(facts, weights, arrays, {**weights.files, **{file: files.demand(file) for file in objects}})


def _task(kind: StockKind, config: JsonObject) -> ModelTask | None:
    """The task of the class that `config.json` names; None if the architecture has no such class."""
    return next((task for task, model in kind.models.items() if config.get("architectures") == [model]), None)


def _folder_facts(
    files: Mapping[str, JsonObject], kind: StockKind, task: ModelTask, arrays: Mapping[str, Floats]
) -> FolderFacts:
    """The facts that the files and tensors are free to choose, with their types checked.

    Everything else in the files follows from these facts.
    """
    config, places, width = files["config.json"], arrays.get("places"), arrays["tokens"].shape[1]
    names = _token_names(files["tokenizer.json"])
    rotary = _rotary(config, kind, width)
    if places is None:  # any number will do, since rotary angles have no end
        room = _chosen_value(config, int, range(1, 2**31).__contains__, "max_position_embeddings")
    else:
        room = len(places) - kind.offset
    return FolderFacts(
        architecture=kind,
        task=task,
        dtype=str(config["dtype"]),
        rotary=rotary,
        width=width,
        neurons=len(arrays["W_1"]),
        room=room,
        positions=rotary != kind.still(width)[1] if kind.still else places is not None and bool(places.any()),
        names=names,
        classes=names if TASK_LABELLINGS[task].generates else _names_of_classes(config),
        cut=_text_cut(files["tokenizer.json"]),
    )


def _text_cut(tokenizer: JsonObject) -> TextCut:
    """How the tokenizer splits text; `given` if `memorize_as` did not write this tokenizer."""
    splitting = value_under("tokenizer.json", tokenizer, "pre_tokenizer")
    return next((cut for cut, how in CUTS.items() if how == splitting), "given")


def _token_names(tokenizer: JsonObject) -> tuple[str, ...]:
    """The names of all ids in `tokenizer.json`, in the order of the ids."""
    table = value_under("tokenizer.json", tokenizer, "model", "vocab")
    numbers: list[Any] = list(table.values()) if isinstance(table, dict) else [None]
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise ForeignError("model.vocab in tokenizer.json does not number its words from 0 on")
    return tuple(sorted(table, key=table.__getitem__))


def _names_of_classes(config: JsonObject) -> tuple[str, ...]:
    """The names of the classes in `config.json`, in the order of their numbers."""
    table = value_under("config.json", config, "id2label")
    names: list[Any] = [table.get(str(number)) for number in range(len(table))] if isinstance(table, dict) else []
    if not names or any(type(name) is not str for name in names):
        raise ForeignError("id2label in config.json does not name classes that are numbered from 0 on")
    if len(set(names)) < len(names):
        raise ForeignError("config.json gives two classes in id2label the same name")
    return tuple(names)


def _chosen_value(config: JsonObject, kind: type, fits: Callable[[Any], bool], *keys: str) -> Any:
    """The value under these nested keys of `config.json`, which the file may choose.

    It must have the type `kind`, and `fits` must say that the proofs allow for it.
    """
    value = value_under("config.json", config, *keys)
    if type(value) is not kind or not fits(value):
        raise ForeignError(f"config.json says {'.'.join(keys)} = {value!r}, which the proofs do not allow for")
    return value


def _rotary(config: JsonObject, kind: StockKind, width: int) -> tuple[float, int] | None:
    """The base of the rotary angles, and how many coordinates are rotated; None without rotary positions.

    All coordinates are rotated, except in a GPT-NeoX without positions, where two are.
    """
    if kind.still is None:
        return None
    theta = _chosen_value(config, float, lambda value: 1e-6 <= value <= 1e30, "rope_parameters", "rope_theta")
    if not kind.rotates_a_share:
        return theta, width
    shares = (1.0, 2.0 / width)
    share = _chosen_value(config, float, lambda value: value in shares, "rope_parameters", "partial_rotary_factor")
    # transformers rounds share · width down. If that gives 1, it is still one pair, with the angle 1.
    return theta, width if share == 1.0 else 2
