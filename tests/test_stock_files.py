"""The JSON files of a stock folder are what the checker itself would write: anything else is undecided, key named.

Each change here once was proved, or ended in a traceback; `bench/no_false_proof_of_a_stock_folder.py` tries thousands.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.checker.stock.files import read_stock
from monolayer.cli import run
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.files import written
from tests import stock_attack

X, Y = [["a", "b"], ["b", "c", "a"]], ["u", "v"]
CONFIG, TOKENIZER, SETTINGS = "config.json", "tokenizer.json", "tokenizer_config.json"
STEPS: dict[str, Any] = {"storage": "steps"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = ml.memorize_as("bert", X, Y, storage="steps").save(tmp_path_factory.mktemp("stock") / "whole")
    assert ml.certify(saved, X, Y).verdict == "proved"
    return saved


def put(*path: Any, value: Any) -> Callable[[Any], None]:
    """Set the value under a path of keys and places."""

    def change(files: Any) -> None:
        for key in path[:-1]:
            files = files[key]
        files[path[-1]] = value

    return change


def drop(*path: Any) -> Callable[[Any], None]:
    def change(files: Any) -> None:
        for key in path[:-1]:
            files = files[key]
        del files[path[-1]]

    return change


def swapped(files: Any) -> None:
    """Found by the attack: the answer of the end token was right, and its name was that of padding."""
    vocab = files[TOKENIZER]["model"]["vocab"]
    vocab["[PAD]"], vocab["[SEP]"] = vocab["[SEP]"], vocab["[PAD]"]


SINGLE, FIRST = (TOKENIZER, "post_processor", "single"), (TOKENIZER, "added_tokens", 0)
CHANGES: list[tuple[str, Callable[[Any], None], str]] = [
    ("padding on the left", put(SETTINGS, "padding_side", value="left"), "padding_side = 'left'"),
    ("no cut", put(TOKENIZER, "pre_tokenizer", value=None), "decoder = {'type': 'Fuse'}; the proofs need None"),
    ("other cut", put(TOKENIZER, "pre_tokenizer", value={"type": "Whitespace"}), "pre_tokenizer = {"),
    ("pipelines cut texts", put(SETTINGS, "model_max_length", value=3), "model_max_length = 3"),
    ("a version", put(TOKENIZER, "version", value="2.0"), "version = '2.0'"),
    ("a decoder", put(TOKENIZER, "decoder", value={"type": "BPEDecoder"}), "decoder.type = 'BPEDecoder'"),
    ("an id with a point", put(TOKENIZER, "model", "vocab", "a", value=5.0), "model.vocab"),
    ("an id that is true", put(TOKENIZER, "model", "vocab", "[UNK]", value=True), "model.vocab"),
    ("special tokens exchanged", swapped, "model.vocab['[PAD]'] = 3; the proofs need 0"),
    ("special: 1", put(*FIRST, "special", value=1), "added_tokens[0].special = 1; the proofs need True"),
    ("a pair", put(TOKENIZER, "post_processor", "pair", value=[]), "post_processor.pair"),
    ("another name in front", put(*SINGLE, 0, "SpecialToken", "id", value="[SEP]"), "single[0].SpecialToken.id"),
    ("nothing behind it", put(*SINGLE, 1, value={}), "post_processor.single[1].Sequence"),
    ("a flag as a padding id", put(CONFIG, "pad_token_id", value=False), "pad_token_id = False; the proofs need 0"),
    ("a word as a padding id", put(CONFIG, "pad_token_id", value="x"), "pad_token_id = 'x'"),
    ("a size with a point", put(CONFIG, "hidden_size", value=16.0), "hidden_size = 16.0; the proofs need 16"),
    ("a size of other tensors", put(CONFIG, "vocab_size", value=9), "vocab_size = 9"),
    ("a dropout of -0.0", put(CONFIG, "hidden_dropout_prob", value=-0.0), "hidden_dropout_prob = -0.0"),
    ("an unknown key", put(CONFIG, "auto_map", value={"AutoModel": "modeling.Mine"}), "auto_map = "),
    ("null for a default", put(CONFIG, "is_decoder", value=None), "is_decoder = None"),
    ("a missing key", drop(CONFIG, "tie_word_embeddings"), "nothing of tie_word_embeddings; the proofs need False"),
    ("two classes of one name", put(CONFIG, "id2label", "0", value="v"), "two classes in id2label the same name"),
    ("classes the other way", put(CONFIG, "label2id", value={"u": 1, "v": 0}), "label2id.u = 1; the proofs need 0"),
    ("a class that is no word", put(CONFIG, "id2label", "0", value=0), "id2label"),
    ("an activation that is no word", put(CONFIG, "hidden_act", value=["relu6"]), "hidden_act = "),
    ("another activation", put(CONFIG, "hidden_act", value="silu"), "silu"),
    ("an ε that is a word", put(CONFIG, "layer_norm_eps", value="1e-5"), "layer_norm_eps = '1e-5'"),
    ("a list of architectures", put(CONFIG, "model_type", value=["bert"]), "architecture"),
    ("two architectures", put(CONFIG, "architectures", value=["BertForSequenceClassification", 5]), "architectures = "),
    ("no attention mask", put(SETTINGS, "model_input_names", value=["input_ids"]), "model_input_names"),
    ("a template", put(SETTINGS, "chat_template", value="{{ messages }}"), "chat_template"),
]


def refused(folder: Path, files: dict[str, bytes], words: str) -> None:
    """Whether a folder with these files is undecided for this reason; they are put back."""
    whole = {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in files}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    proof = ml.certify(folder, X, Y)
    for name, before in whole.items():
        (folder / name).unlink() if before is None else (folder / name).write_bytes(before)
    assert (proof.verdict, words in proof.reason) == ("undecided", True), (words, proof.reason)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0])
def test_another_value_is_undecided_and_its_key_named(folder: Path, change: Any) -> None:
    _, apply, words = change
    files = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in (CONFIG, TOKENIZER, SETTINGS)}
    apply(files)
    refused(folder, {name: json.dumps(value).encode() for name, value in files.items()}, words)


TEXTS: list[tuple[str, str, Callable[[bytes], bytes], str]] = [
    ("half a pair", TOKENIZER, lambda text: text.replace(b'"c"', b'"\\ud800"'), "half of a surrogate pair"),
    ("NaN", CONFIG, lambda text: text.replace(b": 0.0", b": NaN", 1), "NaN"),
    ("a key twice", TOKENIZER, lambda text: text.replace(b'"a": 5', b'"a": 5, "a": 5'), "the key 'a' twice"),
    ("-0", TOKENIZER, lambda text: text.replace(b'"type_id": 0', b'"type_id": -0'), "-0"),
    ("depth", CONFIG, lambda text: text.replace(b": 1,", b": " + b"[" * 99 + b"]" * 99 + b",", 1), "32 levels deep"),
]


@pytest.mark.parametrize("change", TEXTS, ids=lambda change: f"{change[0]} in {change[1]}")
def test_text_that_parsers_read_in_different_ways_is_undecided(folder: Path, change: Any) -> None:
    _, name, apply, words = change
    text = (folder / name).read_bytes()
    assert apply(text) != text
    refused(folder, {name: apply(text)}, words)


def test_a_file_that_transformers_may_read_is_undecided(folder: Path) -> None:
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs", encoding="utf-8")
    assert ml.certify(folder, X, Y).verdict == "proved"
    for name in (
        *("special_tokens_map.json", "added_tokens.json", "generation_config.json", "adapter_config.json", "vocab.txt"),
        *("chat_template.jinja", "pytorch_model.bin", "model.safetensors.index.json", "modeling_mine.py"),
    ):
        refused(folder, {name: b"{}"}, name)


def test_a_folder_that_lacks_or_garbles_a_file_is_an_error(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    for name in (CONFIG, TOKENIZER, SETTINGS, "model.safetensors"):
        content = (broken / name).read_bytes()
        (broken / name).unlink()
        with pytest.raises(ml.ModelFileError, match=name):
            ml.certify(broken, X, Y)
        for garbled in (b"\xef\xbb\xbf" + content, content.decode("latin-1").encode("utf-16"), content[:-9], b"[1]"):
            (broken / name).write_bytes(garbled)
            with pytest.raises(ml.ModelFileError, match=r"as JSON|object|lacks or garbles a tensor"):
                ml.certify(broken, X, Y)
        (broken / name).write_bytes(content)


def test_a_folder_that_is_not_ours_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the hub has them: no tokenizer.json, no built_by. `verify` says so, and prints no empty sections."""
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"tokens": X[0], "label": "u"}), encoding="utf-8")
    for kind, words in (("llama", "monolayer did not write it"), ("t5", "architecture 't5' is not one of bert")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / CONFIG).write_text(json.dumps({"model_type": kind}), encoding="utf-8")
        assert run(["verify", str(tmp_path / kind), str(data)]) == 3
        said = capsys.readouterr().out
        assert words in " ".join(said.split())
        assert not [line for line in said.splitlines() if line.strip() in ("weights", "assumed", "points  0")]


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_every_folder_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    """Every architecture, task and storage, with and without positions, in one cut or another: the same facts."""
    kind, number = ARCHITECTURES[name], len(name)
    cuts = (["ab", "bca"], [["one", "two"], ["two", "three"]], [["one", " two"], ["two\n"]], [["a b", "c"], ["c "]])
    for task in kind.models:
        for options in ({"rank": 8}, {"rank": 8, "positions": True}, STEPS, {**STEPS, "positions": kind.has_places}):
            if kind.rms and options.get("storage"):
                continue
            number, rows = number + 1, cuts[number % 4]
            labels = {"token": [["u", "v", "u"][: len(row)] for row in rows], "sequence": ["u", "v"], "lm": None}[task]
            built = ml.memorize_as(name, rows, labels, on_conflict="first", **options)
            folder = built.save(tmp_path / str(number))
            net = read_stock(folder)  # compares, and raises what differs
            assert {*written(net), "draw.json"} == {path.name for path in folder.glob("*.json")}


def test_what_is_proved_after_a_change_is_loaded_and_right(tmp_path: Path) -> None:
    """A short run of `bench/no_false_proof_of_a_stock_folder.py`: a change or two in each kind of folder."""
    pytest.importorskip("transformers")
    some = [case for number, case in enumerate(stock_attack.cases()) if number % 12 == 0]
    found: Counter[str] = Counter()
    for number, case in enumerate(some):
        folder = case.build(tmp_path / str(number))
        whole = {path.name: path.read_bytes() for path in folder.iterdir()}
        for seed in (number, number + 19):
            verdict, wrong = stock_attack.attack(case, whole, folder, seed)
            assert not wrong, (case, seed)
            found[verdict] += 1
    assert found["undecided"] > 5
    assert found["proved"] > 0
