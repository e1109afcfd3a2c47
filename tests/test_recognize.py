"""Questions stored in an encoder come back, other texts are unknown, and the encoder can be had back to the byte."""

from __future__ import annotations

import filecmp
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.attaching.questions.folder import Recognizer
from monolayer.attaching.questions.layer import (
    TOKENS_COUNT,
    codes,
    least_used,
    nearest_codes,
    outside,
    room_of,
    seed_for,
)
from monolayer.attaching.questions.radii import default_floor, strip
from monolayer.attaching.questions.running import Running
from monolayer.huggingface.encoders import ENCODERS, read_encoder
from monolayer_experiments.questions import COLUMNS, read
from tests.encoders import ARCHITECTURES, FAQ, NEURONS, OTHERS, PLACES, tokenizer, write_encoder

QUESTIONS, ANSWERS = list(FAQ), list(FAQ.values())


@pytest.fixture(scope="module", params=ARCHITECTURES)
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder") / request.param, request.param)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder") / "bert")


@pytest.fixture(scope="module")
def faq(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ml.recognize(bert, FAQ, floor=0.9).save(tmp_path_factory.mktemp("faq") / "faq")


def by_transformers(folder: Path, texts: list[str], **options: Any) -> list[str]:
    """What the plain pipeline says, text by text and in one padded batch."""
    asked = transformers.pipeline("text-classification", model=str(folder), **options)
    one = [each["label"] for each in asked(texts)]
    assert one == [each["label"] for each in asked(texts, batch_size=len(texts))]
    return one


def test_the_table_of_architectures_is_tested() -> None:
    assert tuple(ENCODERS) == ARCHITECTURES


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_questions_come_back_others_are_unknown_and_the_encoder_can_be_had_back(
    encoder: Path, pooling: Any, tmp_path: Path
) -> None:
    kind = ENCODERS[encoder.name]
    if pooling == "mean" and kind.no_mean is not None:
        with pytest.raises(ml.DataError, match=r"no layer can take the plain mean of .*pooling='first'"):
            ml.recognize(encoder, FAQ)
        return
    made = ml.recognize(encoder, FAQ, pooling=pooling, floor=0.9)
    folder = made.save(tmp_path / "faq")
    loaded = ml.load(folder)
    for model in (made, loaded):
        assert model.predict(QUESTIONS).tolist() == ANSWERS
        assert model.predict(QUESTIONS[0]) == ANSWERS[0]
    other = loaded.predict(OTHERS).tolist()
    assert "unknown" in other
    for kernel in kind.kernels:
        options = {"model_kwargs": {"attn_implementation": kernel}}
        assert by_transformers(folder, QUESTIONS + OTHERS, **options) == ANSWERS + other
    proof = ml.certify(folder, FAQ, only=True, host=encoder)
    assert proof.verdict == "proved", proof.explain()
    assert all(" and ".join(kind.kernels) + " attention" in words for words in proof.measured)
    back = ml.detach(folder).save(tmp_path / "back")
    names = sorted(path.name for path in encoder.iterdir())
    assert filecmp.cmpfiles(back, encoder, names, shallow=False)[0] == names


def test_the_longest_text_is_a_question_and_a_longer_one_is_named(encoder: Path) -> None:
    kind = ENCODERS[encoder.name]
    places = PLACES - {"bert": 0, "distilbert": 0}.get(kind.name, 2)  # the first two stand for padding
    longest = " ".join([QUESTIONS[0]] * PLACES).split()[: places - 2]  # and two marks
    made = ml.recognize(encoder, {" ".join(longest): "long"}, pooling="first", floor=0.9)
    assert made.predict(" ".join(longest)) == "long"
    with pytest.raises(ml.DataError, match=f"row 0: .*{places}"):
        ml.recognize(encoder, {" ".join([*longest, "card"]): "longer"}, pooling="first")


def test_a_mean_that_no_layer_takes_is_not_claimed(tmp_path: Path) -> None:
    made = ml.recognize(write_encoder(tmp_path / "mpnet", "mpnet"), FAQ, pooling="first", floor=0.9)
    folder = made.save(tmp_path / "faq")
    assert ml.certify(folder, FAQ).verdict == "proved"
    write_json(folder / "questions.json", {"pooling": "mean"})
    proof = ml.certify(folder, FAQ)
    assert proof.verdict == "undecided"
    assert "no layer can take the plain mean" in proof.reason


def test_the_whole_encoder_may_come_from_a_class_with_a_head_and_a_prefix(tmp_path: Path) -> None:
    kind = transformers.AutoModelForMaskedLM
    source = write_encoder(tmp_path / "masked", saved_as=kind)
    bare = write_encoder(tmp_path / "bare")
    folder = ml.recognize(source, FAQ, floor=0.9).save(tmp_path / "faq")
    assert by_transformers(folder, QUESTIONS) == ANSWERS
    back = ml.detach(folder).save(tmp_path / "back")
    assert (back / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    assert ml.load(folder).encoder.tensors.keys() == encoder_tensors(bare)


def encoder_tensors(folder: Path) -> set[str]:
    return {f"bert.{name}" for name in load_file(folder / "model.safetensors") if not name.startswith("pooler")}


@pytest.mark.parametrize(
    ("dtype", "activation"),
    [
        *(("float32", activation) for activation in ("gelu", "gelu_new", "relu", "silu")),
        *(("bfloat16", activation) for activation in ("gelu", "silu")),
        *(("float16", activation) for activation in ("relu", "silu")),
    ],
)
def test_formats_and_activations_are_proved(dtype: str, activation: str, tmp_path: Path) -> None:
    source = write_encoder(tmp_path / "host", dtype=getattr(torch, dtype), hidden_act=activation, intermediate_size=24)
    folder = ml.recognize(source, FAQ, floor=0.9).save(tmp_path / "faq")
    proof = ml.certify(folder, FAQ)
    assert proof.verdict == "proved", proof.explain()
    assert by_transformers(folder, QUESTIONS, dtype=getattr(torch, dtype)) == ANSWERS


def test_more_questions_than_neurons_stand_in_several_layers(bert: Path, tmp_path: Path) -> None:
    many = {text: f"answer {i % 5}" for i, text in enumerate(phrases(3 * NEURONS - 5))}
    made = ml.recognize(bert, many, floor=0.95)
    assert made.blocks == 3
    folder = made.save(tmp_path / "many")
    assert ml.load(folder).predict(list(many)).tolist() == list(many.values())
    assert by_transformers(folder, list(many)) == list(many.values())
    proof = ml.certify(folder, many, only=True)
    assert proof.verdict == "proved", proof.explain()


def test_many_questions_take_1_3_passes_each_and_an_edit_one_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = write_encoder(tmp_path / "host", intermediate_size=1024)
    free = sorted(word for word in tokenizer().get_vocab() if not word.startswith("<"))
    many = {f"{one} {two} {three}": "yes" for one in free[:8] for two in free[:8] for three in free[:8]}
    passes, forward = [], transformers.BertModel.forward

    def counted(model: Any, input_ids: Any = None, *args: Any, **options: Any) -> Any:
        passes.append(len(input_ids))
        return forward(model, input_ids, *args, **options)

    monkeypatch.setattr(transformers.BertModel, "forward", counted)
    made = ml.recognize(host, many)
    assert len(many) < sum(passes) <= 1.3 * len(many)
    passes.clear()
    ml.insert(made, {"zebra pay": "yes"}, data=many)
    assert sum(passes) <= 0.3 * len(many)


def test_a_question_that_loses_its_answer_is_named_though_it_is_asked_once(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(self: Running, states: Any) -> Any:
        classes = true(self, states)
        classes[3] = 0
        return classes

    true = Running.at
    monkeypatch.setattr(Running, "at", forgetful)
    with pytest.raises(ml.PrecisionError, match=r"each text alone\): row 3: 'unknown', not 'From 9 to 17.'"):
        ml.recognize(bert, FAQ, floor=0.9)


@pytest.mark.filterwarnings("ignore")
def test_the_onnx_form_of_a_folder_answers_in_onnxruntime(faq: Path, tmp_path: Path) -> None:
    """The folder that transformers.js reads: `onnx/model.onnx` beside `config.json` and the tokenizer's files."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(faq, attn_implementation="eager").eval()
    web = tmp_path / "web"
    shutil.copytree(faq, web, ignore=shutil.ignore_patterns("*.safetensors", "questions.json"))
    texts, file = transformers.AutoTokenizer.from_pretrained(web), web / "onnx" / "model.onnx"
    file.parent.mkdir()
    said_there = json.loads((web / "config.json").read_text())["id2label"]
    given = texts(QUESTIONS, padding=True, return_tensors="pt")
    axes = {0: "batch", 1: "sequence"}

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    torch.onnx.export(
        Logits(),
        (given["input_ids"], given["attention_mask"]),
        str(file),
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "logits": {0: "batch"}},
        dynamo=False,
    )
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for asked in (QUESTIONS, QUESTIONS + OTHERS, OTHERS[:1]):
        ids = texts(asked, padding=True, return_tensors="np")
        fed = {name: ids[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
        said = session.run(["logits"], fed)[0].argmax(axis=-1)
        assert [said_there[str(number)] for number in said.tolist()] == ml.load(faq).predict(asked).tolist()


def phrases(count: int) -> list[str]:
    """Texts that have few words in common."""
    free = sorted(word for word in tokenizer().get_vocab() if not word.startswith("<"))
    pairs = [(free[i % len(free)], free[(i + 1 + i // len(free)) % len(free)]) for i in range(count)]
    return [f"{one} {two} {two}" for one, two in pairs]


def test_edits_are_builds_with_the_same_draw_and_records_undo_them(faq: Path) -> None:
    model = ml.load(faq)
    less = {text: answer for text, answer in FAQ.items() if text != QUESTIONS[2]}
    new, record = ml.forget(faq, [QUESTIONS[2]], FAQ)
    assert new.predict(QUESTIONS[2]) == "unknown"
    assert ml.certify(new, less, only=True).verdict == "proved"
    assert ml.certify(new, FAQ).verdict == "refuted"  # asked here, it says unknown
    back = record.undo(new)
    assert all(torch.equal(back.tensors[name], part) for name, part in model.tensors.items())
    more, _ = ml.insert(new, {QUESTIONS[2]: FAQ[QUESTIONS[2]]}, data=less)
    assert ml.compare(more, model, QUESTIONS).answers == 0
    changed, _ = ml.edit(faq, {QUESTIONS[2]: "Ask us."}, data=FAQ)
    assert changed.predict(QUESTIONS).tolist() == [*ANSWERS[:2], "Ask us.", *ANSWERS[3:]]
    assert ml.certify(faq, FAQ | {QUESTIONS[2]: "Ask us."}).verdict == "refuted"
    with pytest.raises(ml.DataError, match="not the data that the model holds"):
        ml.forget(faq, [QUESTIONS[0]], less)


def test_a_question_has_its_neuron_and_is_unknown_without_it(faq: Path, tmp_path: Path) -> None:
    place = ml.locate(faq, FAQ)[2]
    assert (place.label, place.verdict, place.ablations[0].answer) == (ANSWERS[2], "proved", "unknown")
    assert str(place.neurons[0]) == "bert.encoder.layer.2.output.dense.weight[:, 2]"
    assert ml.locate(faq, QUESTIONS)[2].answer == ANSWERS[2]
    cut = shutil.copytree(faq, tmp_path / "cut")
    tensors = load_file(cut / "model.safetensors")
    tensors["bert.encoder.layer.2.output.dense.weight"][:, 2] = 0.0
    save_file(tensors, cut / "model.safetensors", metadata={"format": "pt"})
    assert by_transformers(cut, QUESTIONS) == [*ANSWERS[:2], "unknown", *ANSWERS[3:]]
    with pytest.raises(ml.DataError, match="no neuron for this question"):
        ml.locate(faq, OTHERS)


def test_thresholds_follow_rewordings_and_texts_to_keep(bert: Path) -> None:
    model = ml.recognize(bert, FAQ, floor=0.9)
    nearest = max(OTHERS, key=lambda text: cosines(model, [text]).max())
    row, cosine = int(cosines(model, [nearest]).argmax()), float(cosines(model, [nearest]).max())
    wide = ml.recognize(bert, FAQ, floor=min(0.9, cosine - 0.02))
    assert wide.predict(nearest) == ANSWERS[row]
    kept = ml.recognize(bert, FAQ, floor=min(0.9, cosine - 0.02), keep=[nearest])
    assert kept.predict(nearest) == "unknown"
    limited = kept.report()[row]
    assert limited["limit"] == "text 0"
    # The margin is room for rounding: how far its state may move, and how precisely the layer reads it.
    assert limited["margin"] == pytest.approx(limited["from"] - cosines(kept, [nearest])[0, row], abs=1e-5)
    assert 0.0005 < limited["margin"] < 0.02
    assert wide.report()[row]["margin"] > 0.02
    down = ml.recognize(bert, FAQ, floor=0.99, rewordings=[(QUESTIONS[row], nearest)])
    assert down.predict([nearest, *QUESTIONS]).tolist() == [ANSWERS[row], *ANSWERS]
    with pytest.raises(ml.DataError, match="Store it as a question of its own"):
        ml.recognize(bert, FAQ, floor=0.99, rewordings=[(QUESTIONS[row], nearest)], keep=[nearest])


def cosines(model: Recognizer, texts: list[str]) -> Any:
    """The cosines of texts with the keys of a model, by its own norm."""
    data = ml.Sequences.of(texts, per="answer")
    said = model.running().say(model.ids(data))
    keys = model.neurons.rows / np.linalg.norm(model.neurons.rows, axis=1, keepdims=True)
    return said.states @ keys.T


def bad(**config: object) -> Any:
    return lambda folder: write_json(folder / "config.json", config)


def write_json(path: Path, more: dict[str, object]) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (bad(model_type="albert"), "ALBERT share their weights"),
        (bad(model_type="gpt2"), "attach stores prompts in language models"),
        (bad(position_embedding_type="relative_key"), "relative"),
        (bad(hidden_act="gelu_10"), "activation"),
        (bad(num_hidden_layers=3), "lacks the tensor"),
        (bad(num_hidden_layers=1), "num_hidden_layers = 1"),
        (bad(quantization_config={}), "quantized"),
        (bad(surprise=1), "'surprise'"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no model.safetensors"),
    ],
)
def test_other_encoders_are_refused_with_the_reason(bert: Path, spoil: Any, why: str, tmp_path: Path) -> None:
    copied = shutil.copytree(bert, tmp_path / "copy")
    spoil(copied)
    with pytest.raises(ml.DataError, match=why):
        ml.recognize(copied, FAQ)


@pytest.mark.parametrize(
    ("questions", "options", "why"),
    [
        ({"how do i": "unknown"}, {}, "row 0: its answer is 'unknown'"),
        ([("my order", "a"), ("my order", "b")], {}, "row 0 and row 1 contradict each other"),
        ([("my zebra", "a"), ("my giraffe", "b")], {}, "row 0 and row 1 contradict each other"),
        ({" ".join(["my"] * 50): "a"}, {}, "has 52 tokens, and the encoder has 40 places"),
        ({"my order": "a", "  ": "b"}, {}, "there is no token in '  '"),
        (FAQ, {"floor": 1.5}, "floor is a cosine"),
        (FAQ, {"pooling": "max"}, "pooling is"),
        (FAQ, {"rewordings": {"who are you": "x"}}, "not among the questions"),
        (FAQ, {"keep": [QUESTIONS[1]]}, "row 1 and text 0"),
    ],
)
def test_errors_name_the_row(bert: Path, questions: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises((ml.DataError, ml.PrecisionError), match=why):
        ml.recognize(bert, questions, **options)


def test_strict_and_unknown_of_predict(faq: Path) -> None:
    model = ml.load(faq)
    text = next(text for text in OTHERS if model.predict(text) == "unknown")
    assert model.predict([text], unknown=None).tolist() == [None]
    with pytest.raises(ml.DataError, match="no stored question is near"):
        model.predict([text], strict=True)
    with pytest.raises(ml.DataError, match="places"):
        model.predict([" ".join(["my"] * 50)])


def test_words_are_written_where_texts_differ_least(tmp_path: Path) -> None:
    """Directions R: of length 1, at right angles, without a mean; how long states and tokens are does not matter."""
    found = read_encoder(write_encoder(tmp_path / "encoder"))[0]
    D, room, draw = found.width, room_of(found), np.random.default_rng(0)
    assert room == min(64, D // 4)
    sizes, flat = np.geomspace(1.0, 1e-3, D), np.eye(D) - np.full((D, D), 1.0 / D)
    pooled, spread = sizes * draw.normal(size=(500, D)), flat @ np.diag(sizes[::-1]) @ flat
    basis = least_used(pooled, spread, room, found)
    assert basis.T @ basis == pytest.approx(np.eye(room), abs=1e-6)
    assert basis.sum(axis=0) == pytest.approx(np.zeros(room), abs=1e-5)
    u = pooled @ flat
    longer = least_used(draw.uniform(1.0, 9.0, (500, 1)) * u, 7.0 * spread, room, found)
    assert longer == pytest.approx(basis, abs=1e-5)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    by_hand = u.T @ u / len(u) + TOKENS_COUNT * spread / np.trace(spread)
    used = np.einsum("dr,de,er->r", basis, by_hand, basis)
    assert used == pytest.approx(np.linalg.eigvalsh(by_hand)[1 : room + 1], rel=1e-3)  # [0] is the mean's
    left = outside(basis)
    assert left @ basis == pytest.approx(np.zeros((D, room)), abs=1e-12)
    assert left @ left == pytest.approx(left, abs=1e-12)
    assert np.trace(left) == pytest.approx(D - room)


def test_the_floor_is_above_all_texts_of_other_kinds(tmp_path: Path) -> None:
    found = read_encoder(write_encoder(tmp_path / "encoder"))[0]
    near, far = np.array([0.2, 0.3, 0.4]), np.array([0.0, 0.0, 0.9])
    assert default_floor(near, found) == pytest.approx(1.0 - 0.7 / 3.0)
    assert default_floor(far, found) == pytest.approx(0.9 + strip(found))


def test_words_of_answers_are_apart_and_stay_when_others_come() -> None:
    names = ["unknown", *(f"answer {i}" for i in range(400))]
    seed = seed_for(names, 64)
    assert nearest_codes(codes(seed, names, 64)) >= 8
    assert np.array_equal(codes(seed, names[:9], 64), codes(seed, names, 64)[:9])
    one, other = codes(seed, ["unknown", "unknown"], 64)  # the class of other texts, and an answer of that name
    assert not np.array_equal(one, other)
    with pytest.raises(ml.PrecisionError, match="too many for words"):
        seed_for(names, 8)


def test_the_commands(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[..., str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faq.jsonl").write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in FAQ.items()))
    Path("other.txt").write_text(OTHERS[0] + "\n")
    told = json.loads(said(f"recognize {bert} faq.jsonl --out out --keep other.txt --floor 0.9 --json"))
    assert told["certificate"]["verdict"] == "proved"
    assert [row["question"] for row in told["report"]] == QUESTIONS
    assert "asked: 5 of 5" in said("verify out faq.jsonl --only")
    without = json.loads(said("verify out faq.jsonl --no-ask --json"))
    assert (without["verdict"], without["recall"]) == ("proved", "not asked")
    assert not any("asked here" in each for each in without["measured"])
    answers = json.loads(said("predict", "out", "--text", QUESTIONS[0], "--text", OTHERS[0], "--json"))["answers"]
    assert [each["answer"] for each in answers] == [ANSWERS[0], "unknown"]
    assert "unknown (proved)" in said("locate out faq.jsonl")
    assert "encoder with questions" in said("inspect out")
    said("forget out --rows 1 --data faq.jsonl --out gone --record record.json")
    assert "differ" in said("compare out gone faq.jsonl")
    said("undo gone record.json --out again")
    assert Path("again/model.safetensors").read_bytes() == Path("out/model.safetensors").read_bytes()
    said("detach gone --out back")
    assert Path("back/model.safetensors").read_bytes() == (bert / "model.safetensors").read_bytes()


def test_intents_are_read_as_questions_rewordings_and_others(tmp_path: Path) -> None:
    parts = {
        "train": [["card one", "pay"], ["my order", "track"], ["card two", "pay"], ["where is", "track"]],
        "test": [["order it", "track"], ["pay card", "pay"], ["is it there", "track"], ["can i pay", "pay"]],
        "oos_test": [["who wrote it", "oos"]],
    }
    file = tmp_path / "intents.json"
    file.write_text(json.dumps(parts))
    assert read(file, COLUMNS, None, 2) == (
        ["card one", "card two", "my order", "where is"],
        ["pay", "pay", "track", "track"],
        ["pay card", "can i pay", "order it", "is it there"],
        ["who wrote it"] * 4,
    )
    with pytest.raises(ml.DataError, match="'pay' has 2 texts, and --examples asks for 3"):
        read(file, COLUMNS, None, 3)
