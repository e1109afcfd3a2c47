"""Facts of a host changed, taken out and put in: byte for byte the folder that attaching the rest gives."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.attaching import request as attaching
from monolayer.editing.hosts import HostComparison
from tests.hosts import FACTS, OTHERS, answers, logits, same_model

ROWS = list(FACTS.items())


def test_forgetting_gives_the_bits_of_attaching_the_rest_and_can_be_undone(
    gpt2: Path, with_facts: Path, tmp_path: Path
) -> None:
    gone = [ROWS[0][0], ROWS[5][0]]
    new, record = ml.forget(with_facts, gone, (list(FACTS), list(FACTS.values())))
    rest = {prompt: answer for prompt, answer in ROWS if prompt not in gone}
    assert record.claim == "bit-identical to attaching only the remaining data to this host"
    assert record.neurons == (6, 0)
    new.save(tmp_path / "new")
    assert same_model(tmp_path / "new", ml.attach(gpt2, rest).save(tmp_path / "rest"))
    assert ml.certify(tmp_path / "new", rest, only=True, host=gpt2).verdict == "proved"
    # At what was forgotten the model is the host again.
    assert all(torch.equal(*pair) for pair in zip(logits(tmp_path / "new", gone), logits(gpt2, gone), strict=True))
    assert [change.before for change in record.changes] == [FACTS[prompt] for prompt in gone]
    assert record.names.count == 0
    with pytest.raises(ml.DataError, match="names in this folder are those of the host's tokenizer"):
        ml.forget(with_facts, gone, (list(FACTS), list(FACTS.values())), names=True)
    assert all(not change.stays for change in record.changes)
    record.save(tmp_path / "record.json")
    record = ml.Record.load(tmp_path / "record.json")
    record.undo(tmp_path / "new").save(tmp_path / "back")
    assert same_model(tmp_path / "back", with_facts)
    assert "2 facts were restored from a record" in ml.certify(tmp_path / "back", FACTS).measured[1]
    assert ml.compare(with_facts, tmp_path / "back").same
    found = ml.compare(with_facts, tmp_path / "new", [*FACTS, *OTHERS[:2]])
    assert (found.only_one, found.only_two, found.answers) == (6, 0, 2)
    with pytest.raises(ml.DataError, match="belongs to another model"):
        record.undo(with_facts)


def test_prompts_come_in_every_shape_that_facts_do(
    with_facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that come along are left out; all prompts can be edited at once."""
    some = dict(ROWS[:2])
    table = pd.DataFrame({"prompt": list(some), "answer": list(some.values())})
    table.to_csv(tmp_path / "some.csv", index=False)
    table[["prompt"]].to_json(tmp_path / "prompts.jsonl", orient="records", lines=True)
    shapes = [list(some), some, table, table[["prompt"]], list(some.items()), tmp_path / "some.csv"]
    shapes += [str(tmp_path / "prompts.jsonl"), table.to_dict("records"), {"prompt": list(some)}]
    model = ml.load(with_facts)
    for shape in shapes:
        with monkeypatch.context() as patch:
            patch.setattr("monolayer.attaching.folder.can_generate", lambda: False)  # what neurons write is read
            assert model.predict(shape).tolist() == list(some.values())
        assert len(ml.locate(with_facts, shape)) == 6
        assert ml.forget(with_facts, shape, FACTS)[1].neurons == (6, 0)
    other = ml.edit(with_facts, dict.fromkeys(FACTS, " city1"), data=FACTS)[0]
    assert other.predict([ROWS[7][0]]).tolist() == [" city1"]


def test_a_folder_that_changes_while_it_is_read(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers open the files of a host by their names, after they were read here."""
    copy = Path(shutil.copytree(gpt2, tmp_path / "host"))
    load = attaching.Running

    def meanwhile(*given: Any) -> Any:
        os.utime(copy / "model.safetensors", ns=(1, 1))
        return load(*given)

    monkeypatch.setattr(attaching, "Running", meanwhile)
    with pytest.raises(ml.ModelFileError, match="changed while it was read"):
        ml.attach(copy, FACTS)


def test_edits_and_inserts_run_the_host_for_what_is_new(gpt2: Path, with_facts: Path, tmp_path: Path) -> None:
    data = (list(FACTS), list(FACTS.values()))
    new, record = ml.edit(with_facts, [ROWS[3][0]], [" city0, and river5"], data)
    new.save(tmp_path / "new")
    changed = {**FACTS, ROWS[3][0]: " city0, and river5"}  # in its place: order counts, for facts stand in it
    assert answers(tmp_path / "new", list(changed)) == list(changed.values())
    assert same_model(tmp_path / "new", ml.attach(gpt2, changed).save(tmp_path / "same"))
    assert record.changes[0].before == FACTS[ROWS[3][0]]
    assert record.neurons in ((2, 6), (3, 7))  # those of the fact alone; its first token stays, maybe with other bits
    assert ml.forget(tmp_path / "new", [ROWS[7][0]], changed)[1].neurons == (3, 0)
    more, _ = ml.insert(tmp_path / "new", ["It is near"], [" river6"], (list(changed), list(changed.values())))
    more.save(tmp_path / "more")
    assert same_model(tmp_path / "more", ml.attach(gpt2, {**changed, "It is near": " river6"}).save(tmp_path / "all"))
    with pytest.raises(ml.ContradictionError, match="with another label"):
        ml.insert(with_facts, [ROWS[3][0]], [" river1"], data)
    with pytest.raises(
        ml.DataError, match=r"not the data that the model holds.*in the order .*attach them to its host"
    ):
        ml.forget(with_facts, [ROWS[3][0]], (list(FACTS)[:5], list(FACTS.values())[:5]))
    for prompt in ("The capital of country99 is", "Somewhere else"):  # of words that the data have, or not
        with pytest.raises(ml.DataError, match=f"row 0 .'{prompt}'.* is not in the data"):
            ml.forget(with_facts, [prompt], data)


def test_rows_that_repeat_others_are_one_fact(
    gpt2: Path, with_facts: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    rows = [*ROWS[:4], ROWS[1], *ROWS[4:], ROWS[1]]
    data = tuple(map(list, zip(*rows, strict=True)))
    made = ml.attach(gpt2, *data)
    assert (made.repeated, made.json()["repeated"], made.json()["facts"]) == (2, 2, 12)
    assert "2 rows repeat others and need no neurons" in repr(made)
    folder = made.save(tmp_path / "new")
    assert same_model(folder, with_facts)
    assert (folder / "README.md").read_text() == (with_facts / "README.md").read_text()
    assert ml.certify(folder, *data, only=True, host=gpt2).verdict == "proved"
    places = list(ml.locate(folder, *data))
    assert [place.sequence for place in places[::3]] == list(range(14))
    neurons = [place.neurons for place in places[::3]]
    assert neurons[1] == neurons[4] == neurons[13] != neurons[0]
    # By its number, one row goes; what other rows state stays. They may come later, so its neurons may move.
    new, record = ml.forget(folder, [1], data)
    rest = [*rows[:1], *rows[2:]]
    assert (record.shared, record.changes[0].stays, record.changes[0].after) == (1, True, ROWS[1][1])
    attached = ml.attach(gpt2, *map(list, zip(*rest, strict=True)))
    assert same_model(new.save(tmp_path / "one"), attached.save(tmp_path / "rest"))
    assert ml.forget(folder, [13], data)[1].neurons == (0, 0)
    # By its prompt, all rows go.
    new, record = ml.forget(folder, [ROWS[1][0]], data)
    assert (record.shared, record.neurons, len(new.manifest.facts)) == (0, (3, 0), 11)
    table = tmp_path / "facts.jsonl"
    table.write_text("".join(json.dumps({"prompt": prompt, "completion": answer}) + "\n" for prompt, answer in rows))
    assert "2 rows repeat others" in said("attach", str(gpt2), str(table), "--out", str(tmp_path / "told"))


def test_the_commands_edit_attached_folders(with_facts: Path, tmp_path: Path, said: Callable[..., str]) -> None:
    facts, gone = tmp_path / "facts.jsonl", tmp_path / "gone.jsonl"
    facts.write_text("\n".join(json.dumps({"prompt": prompt, "completion": answer}) for prompt, answer in ROWS))
    gone.write_text(json.dumps({"prompt": ROWS[2][0]}))
    shown = said("forget", str(with_facts), str(gone), "--data", str(facts), "--out", str(tmp_path / "new"))
    assert "proved" in shown
    assert "11" in said("inspect", str(tmp_path / "new"))
    assert "3 only in the first, 0 only in the second" in said("compare", str(with_facts), str(tmp_path / "new"))


def test_compare_and_inspect_show_what_was_attached_also_where_nothing_says_so(
    gpt2: Path, with_facts: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    found = ml.compare(gpt2, with_facts, [*list(FACTS)[:2], *OTHERS[:2]])
    assert isinstance(found, HostComparison)
    tensors = load_file(gpt2 / "model.safetensors")
    assert (found.equal, found.one_alone, found.same) == (len(tensors), (), False)
    assert all(name.startswith(("transformer.h.2.", "transformer.h.3.")) for name in found.two_alone)
    assert (found.bare_one, found.bare_two) == ((), ((2, 24), (3, 12)))
    assert (found.facts_one, found.facts_two, found.only_two) == (None, 12, 36)
    assert (found.asked, found.answers) == (4, 2)
    assert ml.compare(gpt2, gpt2).same
    assert ml.compare(gpt2, with_facts, ["far " * 31]).answers == 0  # 93 tokens of 96, and 4 more come back
    with pytest.raises(ml.DataError, match="row 1: it has 99 tokens, and the host has 96 places"):
        ml.compare(gpt2, with_facts, ["far", "far " * 33])
    with pytest.raises(ml.ModelFileError, match="nothing: this folder does not exist"):
        ml.compare(gpt2, tmp_path / "nothing")
    with pytest.raises(ml.DataError, match=r"(?s)can be compared with the folder of another one .*is none"):
        ml.compare(gpt2, ml.memorize({"a": 1}))
    assert ml.compare(gpt2, ml.attach(gpt2, dict(ROWS[:1]))).two_alone  # in memory
    # Nothing that says so is left: the tensors still show it.
    bare = tmp_path / "bare"
    shutil.copytree(with_facts, bare)
    (bare / "attached.json").unlink()
    assert json.loads(said("inspect", str(bare), "--json"))["says_that_facts_were_attached"] is True
    config = json.loads((bare / "config.json").read_text())
    del config["attached_by"]
    (bare / "config.json").write_text(json.dumps(config))
    told = json.loads(said("inspect", str(bare), "--json"))
    assert (told["numbers_of_the_layers_whose_attention_adds_nothing"], told["neurons_in_them"]) == ([2, 3], 36)
    assert told["says_that_facts_were_attached"] is False
    shown = " ".join(said("compare", str(gpt2), str(bare)).split())
    assert "layers 2, 3, whose attention adds nothing: 36 neurons may hold" in shown
    assert "no attached.json says so" in shown
    for clean in (gpt2, with_facts):
        assert json.loads(said("inspect", str(clean), "--json"))["neurons_in_them"] == 36 * (clean == with_facts)
    assert "counts 12 facts" in " ".join(said("compare", str(gpt2), str(with_facts)).split())
    # Planted: one number of the host is another.
    tensors["transformer.wpe.weight"][3, 5] += 1.0
    save_file(tensors, bare / "host.safetensors", metadata={"format": "pt"})
    assert ml.compare(gpt2, bare).weights["transformer.wpe.weight"] == 1
