"""Keys that were never stored: refused with a hint, or given a value, by default for keys and values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import monolayer as ml
from monolayer.model import save
from monolayer.model.nearest import nearest_key

Said = Callable[..., str]
COUNTRIES = {
    "United States": "USA",
    "United Kingdom": "GBR",
    "Marshall Islands": "MHL",
    "Cook Islands": "COK",
    "France": "FRA",
    "State of Palestine": "PSE",
}
ABSENT = ["United Islands", "Atlantis", "France France", "Islands", "State of France"]
KEYS, CODES = list(COUNTRIES), list(COUNTRIES.values())


def csv(path: Path) -> Path:
    path.write_text("country,code\n" + "".join(f"{key},{value}\n" for key, value in COUNTRIES.items()))
    return path


def wide(path: Path) -> Path:
    rows = [f"{number},{key},{value},1.5\n" for number, (key, value) in enumerate(COUNTRIES.items())]
    path.write_text("id,country,code,area\n" + "".join(rows))
    return path


def frame() -> Any:
    return pytest.importorskip("pandas").DataFrame({"country": KEYS, "code": CODES})


CLOSED: dict[str, Callable[[Path], Any]] = {
    "dict": lambda folder: COUNTRIES,
    "pairs": lambda folder: list(COUNTRIES.items()),
    "items": lambda folder: COUNTRIES.items(),
    "csv": lambda folder: csv(folder / "d.csv"),
    "frame": lambda folder: frame(),
    "named columns": lambda folder: ml.read(wide(folder / "w.csv"), tokens="country", labels="code"),
    "series": lambda folder: frame().set_index("country")["code"],
    "json": lambda folder: (folder / "d.json").write_text(json.dumps(COUNTRIES)) and folder / "d.json",
    "two files": lambda folder: ml.read([csv(folder / "d.csv"), csv(folder / "e.csv")]),
    "some rows": lambda folder: ml.read(csv(folder / "d.csv")).select(np.arange(len(KEYS))),
    "characters": lambda folder: dict(COUNTRIES),
}
OPEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "lists": lambda folder: {"X": KEYS, "Y": CODES, "unit": "words"},
    "rows of tokens": lambda folder: {"X": [{"tokens": key.split(), "label": COUNTRIES[key]} for key in KEYS]},
    "a column of tokens": lambda folder: {
        "X": [{"id": n, "tokens": key.split(), "code": code} for n, (key, code) in enumerate(COUNTRIES.items())],
        **{"tokens": "tokens", "labels": "code"},
    },
    "a dict, switched off": lambda folder: {"X": COUNTRIES, "unknown": False},
}


@pytest.mark.parametrize("way", CLOSED)
def test_keys_and_values_are_closed(way: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"unit": "characters", "positions": True} if way == "characters" else {}
    model = ml.memorize(CLOSED[way](tmp_path), **options)
    for each in (model, ml.load(model.save(tmp_path / "m"))):
        assert each.predict(KEYS).tolist() == CODES
        assert each.predict(KEYS, unknown=None).tolist() == CODES
        assert each.predict(["France", *ABSENT], unknown=None).tolist() == ["FRA"] + [None] * len(ABSENT)
        assert each.predict("United Islands", unknown="?") == "?"
        for key in ABSENT:
            with pytest.raises(ml.DataError, match=f"sequence 1, '{key}', is not in the data that the model was built"):
                each.predict(["France", key])


@pytest.mark.parametrize("way", OPEN)
def test_other_data_are_open_unless_asked(way: str, tmp_path: Path) -> None:
    options = OPEN[way](tmp_path)
    model = ml.memorize(**options)
    assert model.card.fingerprint is None
    assert model.predict(["United Islands"])[0] in CODES  # a guess
    with pytest.raises(ml.DataError, match=r"cannot tell what it was built from: memorize with unknown=True"):
        model.predict(["United Islands"], unknown=None)
    found = model.predict(["France", "Atlantis"], unknown=None, strict=False).tolist()
    assert found == ["FRA", None]  # a token without a vector
    asked = ml.memorize(**options | {"unknown": True})
    assert asked.predict(["United Islands"], unknown=None).tolist() == [None]
    assert {name: tensor.tolist() for name, tensor in model.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in asked.state_dict().items()
    }  # fingerprints are no part of the network


def test_the_error_names_rows_and_a_stored_key() -> None:
    model = ml.memorize(COUNTRIES)
    with pytest.raises(ml.DataError) as error:
        model.predict(["Atlantis", "France", "x", "y", "z", "w"])
    assert "Neither are sequences 2, 3, 4 and 1 more. unknown=None gives None" in str(error.value)
    assert "strict=False" not in str(error.value)  # the network has no answer either
    with pytest.raises(ml.DataError, match=r"Did you mean 'United States'.*strict=False what the network answers"):
        model.predict(["United Islands"])
    assert model.predict(["United Islands"], strict=False)[0] in CODES
    with pytest.raises(ml.DataError, match="which the model has never seen"):
        model.predict(["Atlantis"], strict=False)


NEAR = [
    ("Untied States", "United States"),  # an unknown word in place of one
    ("United Kingdoms", "United Kingdom"),
    ("France France", "France"),  # one word too many
    ("State Palestine", "State of Palestine"),  # one too few
    ("Franc", "France"),
    ("Utopia", None),
    ("Untied Kingdoms", None),  # two words are other ones
]


@pytest.mark.parametrize(("asked", "meant"), NEAR)
def test_the_stored_key_that_is_spelt_alike(asked: str, meant: str | None) -> None:
    model = ml.memorize(COUNTRIES, positions=True)
    assert nearest_key(model, ml.data.Sequences.of([asked], unit="words"), 0) == meant


def test_a_hint_is_never_a_key_that_was_forgotten() -> None:
    table = {"alpha one": 1, "alpha two": 2}
    left, _ = ml.forget(ml.memorize(table), ["alpha one"], table)
    for asked in ("alpha one", "alpha ones"):
        with pytest.raises(ml.DataError, match="Did you mean 'alpha two'"):
            left.predict([asked])


def test_a_key_longer_than_any_is_unknown() -> None:
    model = ml.memorize({"a b": 1, "c d": 2}, positions=True)
    with pytest.raises(ml.DataError, match="it has 3 tokens, and the model has 2 positions"):
        model.predict(["a b c"])
    assert model.predict(["a b c", "a b", "b a"], unknown=None).tolist() == [None, 1, None]


def test_every_kind_of_label_has_its_unknown() -> None:
    assert ml.memorize({"a": 1.5, "b c": 2.5}).predict(["b", "a"], unknown=None).tolist() == [None, 1.5]
    vectors = ml.memorize({"a": [1.5, 2.0], "b c": [2.5, 3.0]}).predict(["b", "a"], unknown=None)
    assert vectors[0] is None
    assert vectors[1].tolist() == [1.5, 2.0]
    by_word = ml.memorize({"a b": ["x", "y"], "b c": ["z", "z"]}, per="token").predict(["b a", "a c"], unknown=None)
    assert [row.tolist() for row in by_word] == [["y", "x"], [None, None]]
    assert ml.memorize({1: 7, 3: 9}).predict([3, 2, 1], unknown=-1).tolist() == [9, -1, 7]
    robust = ml.memorize({"a b": 1, "b c": 2}, robust=True)
    assert robust.predict(["a c", "b c"], unknown=None).tolist() == [None, 2]
    assert ml.memorize({"a b": 1}).predict((key for key in ["b", "a b"]), unknown=None).tolist() == [None, 1]


@pytest.mark.parametrize("wrong", [1, "unknown", "?"])
def test_memorize_takes_a_switch_and_predict_a_value(wrong: Any) -> None:
    with pytest.raises(ml.DataError, match=r"unknown must be True, False or None.*predict\(…, unknown=\)"):
        ml.memorize(COUNTRIES, unknown=wrong)


@pytest.mark.parametrize("options", [{}, {"robust": True}])
def test_edits_keep_fingerprints_right(options: dict[str, Any], tmp_path: Path) -> None:
    model = ml.memorize(COUNTRIES, **options)
    rest = {key: code for key, code in COUNTRIES.items() if key != "United States"}
    left, record = ml.forget(model, ["United States"], COUNTRIES)
    assert left.predict([*rest, "United States"], unknown=None).tolist() == [*rest.values(), None]
    never_knew = ml.memorize(rest, draw=model)  # the draw decides that fingerprints are kept
    assert ml.compare(left, never_knew).same
    left.save(tmp_path / "left")
    never_knew.save(tmp_path / "never knew")
    assert (tmp_path / "left/memory.safetensors").read_bytes() == (
        tmp_path / "never knew/memory.safetensors"
    ).read_bytes()
    assert record.undo(left).predict("United States") == "USA"
    more, _ = ml.insert(model, ["Cook Kingdom"], ["CKD"], COUNTRIES)
    assert more.predict(["Cook Kingdom", "France"]).tolist() == ["CKD", "FRA"]
    other, _ = ml.edit(model, ["France"], ["USA"], COUNTRIES)
    assert other.predict(["France", "United Islands"], unknown=None).tolist() == ["USA", None]
    without, _ = ml.forget(ml.memorize(COUNTRIES, unknown=False, **options), ["United States"], COUNTRIES)
    assert without.card.fingerprint is None


# -- certificates ----------------------------------------------------------------------------------------------------


def without_fingerprints(model: ml.Monolayer, lost: list[int]) -> ml.Monolayer:
    """The model without some of its fingerprints, given by their places in their order."""
    kept = model.card.fingerprint
    assert kept is not None
    model.card = replace(model.card, fingerprint=replace(kept, words=np.delete(kept.words, lost)))
    return model


CERTIFIED: dict[str, tuple[Any, dict[str, Any]]] = {
    "sequences": (COUNTRIES, {}),
    "positions": (COUNTRIES, {"positions": True}),
    "robust": (COUNTRIES, {"robust": True}),
    "reals": ({"a b": 1.5, "b": 2.5, "c": 3.5}, {}),
    "tokens": ({"a b": ["x", "y"], "b c": ["z", "z"]}, {"per": "token"}),
    "tokens, causal": ({"a b": ["x", "y"], "b c": ["z", "z"]}, {"per": "token", "causal": True}),
}


@pytest.mark.parametrize("way", CERTIFIED)
def test_a_point_without_its_fingerprint_is_refuted(way: str) -> None:
    table, options = CERTIFIED[way]
    per = {key: options[key] for key in options if key == "per"}
    model = ml.memorize(table, **options)
    proof = ml.certify(model, table, **per)
    assert proof.verdict == "proved"
    assert "none of these points is refused as unknown: each has its fingerprint" in proof.claim
    assert any("this is not proved: if the hash behaves like a random function" in note for note in proof.notes)
    without = ml.certify(ml.memorize(table, unknown=False, **options), table, **per)
    assert without.verdict == "proved"
    assert "fingerprint" not in without.to_json()
    assert model.card.fingerprint is not None
    for lost in range(len(model.card.fingerprint.words)):
        refuted = ml.certify(without_fingerprints(ml.memorize(table, **options), [lost]), table, **per)
        assert refuted.verdict == "refuted"
        assert (refuted.wrong, len(refuted.findings)) == (1, 1)
        assert "1 has no fingerprint" in refuted.reason
        (finding,) = refuted.findings
        key = list(table)[finding.sequence]
        asked = without_fingerprints(ml.memorize(table, **options), [lost]).predict([key], unknown="?")[0]
        assert (asked if finding.position is None else asked[finding.position]) == "?"
        assert "predict refuses it as unknown" in finding.why
        assert refuted.label_error is None
        assert refuted.noise is None


def test_points_without_fingerprints_are_counted_over_files(tmp_path: Path, said: Said) -> None:
    for number in range(2):
        rows = "".join(f"key {number} {row},{row % 3}\n" for row in range(9))
        (tmp_path / f"{number}.csv").write_text("key,value\n" + rows)
    files = [str(tmp_path / "0.csv"), str(tmp_path / "1.csv")]
    model = ml.memorize(ml.read(files), positions=True)
    model.save(tmp_path / "m")
    assert "proved" in said("verify", str(tmp_path / "m"), *files)
    words = model.card.fingerprint
    assert words is not None
    without_fingerprints(model, list(range(12))).save(tmp_path / "m", overwrite=True)
    found = json.loads(said("verify", str(tmp_path / "m"), *files, "--json", code=1))
    unknown = model.predict([f"key {row // 9} {row % 9}" for row in range(18)], unknown=None)
    assert found["wrong"] == sum(label is None for label in unknown) == 12
    named = [finding["sequence"] for finding in found["findings"]]
    assert named == [row for row in range(18) if unknown[row] is None][:10]
    assert {finding["expected"] for finding in found["findings"]} <= {"0", "1", "2"}
    # A label that is wrong as well is refuted for that reason.
    row = next(row for row in range(18) if unknown[row] is None)
    (tmp_path / "0.csv").write_text(f"key,value\nkey {row // 9} {row % 9},{(row % 9 + 1) % 3}\n")
    found = json.loads(said("verify", str(tmp_path / "m"), files[0], "--json", code=1))
    assert "no fingerprint" not in found["reason"]


def test_only_points_with_a_label_need_a_fingerprint() -> None:
    X, Y = [["a", "b", "c"], ["c", "d"]], [["x", None, "y"], [None, "z"]]
    model = ml.memorize(X, Y, positions=True, unknown=True)
    assert model.card.fingerprint is not None
    assert len(model.card.fingerprint.words) == 3
    proof = ml.certify(model, X, Y)
    assert proof.verdict == "proved"
    assert proof.claim.startswith("every evaluation returns the label at each of the 3 labelled points")
    found = set()
    for lost in range(3):
        changed = without_fingerprints(ml.memorize(X, Y, positions=True, unknown=True), [lost])
        (finding,) = ml.certify(changed, X, Y).findings
        found.add((finding.sequence, finding.position, finding.expected))
    assert found == {(0, 0, "x"), (0, 2, "y"), (1, 1, "z")}


# -- stock folders ---------------------------------------------------------------------------------------------------


def test_a_stock_folder_of_keys_and_values_has_a_class_for_other_keys(tmp_path: Path) -> None:
    model = ml.memorize_as("bert", COUNTRIES)
    assert ml.certify(model, COUNTRIES).verdict == "proved"
    assert "unknown" in model.facts.classes
    assert "answered 'unknown'; for this every fact has a neuron, 4,248 bytes" in repr(model)
    for each in (model, ml.load(model.save(tmp_path / "bert"))):
        assert each.predict([*KEYS, *ABSENT]).tolist() == [*CODES, *["unknown"] * len(ABSENT)]
        assert each.predict([*KEYS, *ABSENT], unknown=None).tolist() == [*CODES, *[None] * len(ABSENT)]
        assert each.predict("Atlantis", unknown="?") == "?"
        with pytest.raises(
            ml.DataError, match="sequence 1 is not in the data of this folder: it is answered 'unknown'"
        ):
            each.predict(["France", "Atlantis"], strict=True)
        assert each.predict(["France"], strict=True).tolist() == ["FRA"]
        assert each.predict([["France"], ["France"] * 600], unknown=None).tolist() == ["FRA", None]  # no place for it
    # These keys are proved to be unknown; of all others nothing is claimed.
    assert ml.certify(model, ABSENT, ["unknown"] * len(ABSENT)).verdict == "proved"
    assert ml.certify(model, ["France"], ["unknown"]).verdict == "refuted"


def test_where_a_stock_folder_has_no_such_class() -> None:
    without = [
        ml.memorize_as("bert", COUNTRIES, unknown=False),
        ml.memorize_as("bert", COUNTRIES, storage="steps"),
        ml.memorize_as("bert", KEYS, CODES, unit="words"),
    ]
    for model in without:
        assert model.draw.unknown is None
        with pytest.raises(ml.DataError, match="no class for what it does not hold, so it cannot tell"):
            model.predict(["Atlantis"], unknown=None)
        assert model.predict(["Atlantis", "France"], unknown=None, strict=False).tolist() == [None, "FRA"]
    prompts = ml.memorize_as("gpt2", COUNTRIES)  # text that goes on
    assert prompts.draw.prompts
    assert prompts.draw.unknown is None
    assert prompts.predict(["Atlantis", "France"], unknown=None, strict=False).tolist() == [None, " FRA"]
    labels = ml.memorize_as("gpt2", COUNTRIES, per="sequence")
    assert labels.predict(["Atlantis", "France"]).tolist() == ["unknown", "FRA"]


FREE = [
    ({"a": "unknown", "b": "y"}, "unknown (2)"),
    ({"a": "unknown", "b": "unknown (2)"}, "unknown (3)"),
    ({"a": 0, "b": 1}, -1),
    ({"a": -1, "b": -2}, -3),
]


@pytest.mark.parametrize(("table", "name"), FREE)
def test_no_stored_answer_is_taken_for_unknown(table: dict[str, Any], name: Any) -> None:
    model = ml.memorize_as("bert", table)
    assert model.predict(["a", "b", "c"]).tolist() == [*table.values(), name]
    assert model.predict(["a", "b", "c"], unknown=None).tolist() == [*table.values(), None]
    assert ml.certify(model, table).verdict == "proved"


def test_edits_of_a_stock_folder_keep_the_class() -> None:
    model = ml.memorize_as("bert", COUNTRIES)
    rest = {key: code for key, code in COUNTRIES.items() if key != "France"}
    left, record = ml.forget(model, ["France"], COUNTRIES)
    assert left.predict([*rest, "France"], unknown=None).tolist() == [*rest.values(), None]
    assert ml.compare(left, ml.memorize_as("bert", rest, draw=model)).same
    assert record.undo(left).predict("France") == "FRA"
    with pytest.raises(ml.DataError, match="draw= decides unknown: leave it out"):
        ml.memorize_as("bert", rest, draw=model, unknown=False)


def test_a_model_that_recognizes_keys_is_exported_to_a_folder_that_does(tmp_path: Path) -> None:
    model = ml.memorize(COUNTRIES)
    assert ml.export(model, tmp_path / "a", "bert", KEYS).predict(["Atlantis", "France"]).tolist() == ["unknown", "FRA"]
    assert ml.export(model, tmp_path / "b", "bert", COUNTRIES, unknown=False).draw.unknown is None
    assert ml.export(model, tmp_path / "c", "bert", KEYS, storage="steps").draw.unknown is None
    with pytest.raises(ml.DataError, match="sequence 1, 'United Islands', is not in the data that the model was built"):
        ml.export(model, tmp_path / "d", "bert", ["France", "United Islands"])
    opened = ml.memorize(COUNTRIES, unknown=False)
    assert ml.export(opened, tmp_path / "e", "bert", KEYS).draw.unknown is None


def test_memorize_as_on_the_command_line(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    csv(Path("d.csv"))
    Path("keys.csv").write_text("country\nFrance\nAtlantis\n")
    assert "answered 'unknown'" in said("memorize-as bert d.csv --out m")
    assert json.loads(said("inspect m --json"))["unknown"] == "unknown"
    labels = [json.loads(line)["label"] for line in said("predict m keys.csv").splitlines()]
    assert labels == ["FRA", "unknown"]
    rows = [json.loads(line) for line in said("predict m keys.csv --strict").splitlines()]
    assert [(row["label"], row["seen"]) for row in rows] == [("FRA", True), (None, False)]
    labels = [json.loads(line)["label"] for line in said("predict m keys.csv --unknown ?").splitlines()]
    assert labels == ["FRA", "?"]
    assert "unknown input" not in said("memorize-as bert d.csv --out open --no-unknown")
    assert "contradict each other" in said(
        "memorize-as bert d.csv --out x --unknown no --no-unknown", code=2, errors=True
    )


# -- the command line ------------------------------------------------------------------------------------------------


def test_the_command_line_gives_null_for_a_key_and_answers_the_others(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    csv(Path("d.csv"))
    Path("keys.csv").write_text("country\nFrance\nUnited Islands\nAtlantis\n")
    shown = said("memorize d.csv --out m")
    assert "recognized by 6 fingerprints, 48 bytes" in shown
    assert "recognized by 6 fingerprints, 48 bytes" in said("inspect m")
    assert json.loads(said("memorize d.csv --out m --overwrite --json"))["fingerprint_bytes"] == 48
    rows = [json.loads(line) for line in said("predict m keys.csv").splitlines()]
    assert [row["label"] for row in rows] == ["FRA", None, None]
    assert rows[1]["error"] == "not in the data that the model was built from; did you mean 'United States'?"
    assert "'Atlantis', which the model has never seen" in rows[2]["error"]
    assert all("seen" not in row for row in rows)
    assert said("predict m keys.csv", errors=True).endswith("3 rows, no labels not seen: 2 of 3 sequences")
    found = json.loads(said("predict m keys.csv --unknown ? --json"))
    assert ([row["label"] for row in found["answers"]], found["unseen"]) == (["FRA", "?", "?"], 2)
    said("predict m keys.csv -o out.csv")
    assert [line.split(",")[1] for line in Path("out.csv").read_text().splitlines()] == ["answer", "FRA", "", ""]
    rows = [json.loads(line) for line in said("predict m keys.csv --no-strict").splitlines()]
    assert rows[1]["label"] in CODES
    # Where no key is known, that is an error, as it is for unknown words; unless a value is asked for.
    error = said("predict", "m", "--text", "United Islands", code=2, errors=True)
    assert "not in the data that the model was built from; did you mean 'United States'?" in error
    for option in ("--strict", "--unknown=?"):
        said("predict", "m", "--text", "United Islands", option)
    said("memorize d.csv --out open --no-unknown")
    assert json.loads(said("predict", "open", "--text", "United Islands"))["label"] in CODES
    assert "unknown input" not in said("inspect open")
    assert "memorize with --unknown" in said("predict open keys.csv --unknown ?", code=2, errors=True)


@pytest.mark.parametrize("count", [0, 1, 9, 10, 100, 1000])
def test_fingerprints_are_stored_as_safetensors_that_begin_at_a_multiple_of_eight(count: int, tmp_path: Path) -> None:
    words = np.sort(np.random.default_rng(count).integers(0, 2**63, count, dtype=np.uint64))
    save._write_words(words, tmp_path / "memory.safetensors")
    content = (tmp_path / "memory.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0
    assert length - len(content[8 : 8 + length].rstrip()) < 8
    assert np.array_equal(load_file(tmp_path / "memory.safetensors")["fingerprints"], words)
