"""Where a fact lives: what `locate` claims against networks whose neurons are silenced."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import monolayer as ml
from monolayer.checker.locating.location import Location
from monolayer.cli import console
from tests import kinds, plain_stock
from tests.datasets import sets

transformers = pytest.importorskip("transformers")

RANDOM = np.random.default_rng(3)
X = sets(RANDOM, 12, 9, 4)
Y = RANDOM.integers(0, 5, X.shape)
ONE_EACH = RANDOM.integers(0, 5, len(X))
STOCK: dict[str, tuple[str, Any]] = {"bert": ("bert", Y), "gpt2 next": ("gpt2", None), "llama one": ("llama", ONE_EACH)}
AUTO = {"token": "TokenClassification", "sequence": "SequenceClassification", "lm": "CausalLM"}


@cache
def stock(kind: str) -> tuple[Any, Any, Any]:
    """A model, its network in transformers, and its facts."""
    name, labels = STOCK[kind]
    model = ml.memorize_as(name, X, labels, on_conflict="first")
    with TemporaryDirectory() as place:
        folder = model.save(Path(place) / "model")
        network = getattr(transformers, f"AutoModelFor{AUTO[model.task]}").from_pretrained(folder).eval()
        return model, network, plain_stock.read(folder)["facts"]


@torch.no_grad()
def answered(kind: str, silent: Any = None, rows: NDArray[Any] = X, other: Any = None) -> list[str]:
    """What transformers answers at every fact, with one neuron set to 0 on its way out of the activation, or what
    another network does."""
    _, network, facts = stock(kind)
    network = network if other is None else other
    number = {name: row for row, name in enumerate(facts.names)}
    ids = torch.tensor([[2, *(number[str(token)] for token in row)] for row in rows.tolist()])

    def gone(_: Any, inputs: Any) -> Any:
        hidden = inputs[0].clone()
        hidden[..., silent.index] = 0.0
        return (hidden,)

    with ExitStack() as stack:
        if silent is not None:
            module = network.get_submodule(silent.tensor.removesuffix(".weight"))
            stack.callback(module.register_forward_pre_hook(gone).remove)
        found = network(input_ids=ids).logits.argmax(-1)
    names = facts.names if facts.task == "lm" else facts.classes
    return [names[one] for one in (found if facts.task == "sequence" else found[:, 1:]).reshape(-1).tolist()]


def contradicted(found: Location, places: list[Any], neuron: Any, before: list[str], after: list[str]) -> list[str]:
    """Claims about one neuron that an evaluation shows to be wrong."""
    told, changed = found.ablate(neuron), np.array([one != two for one, two in zip(before, after, strict=True)])
    wrong = [
        f"fact {i} is answered {after[i]}, not {told.answers[i]}"
        for i, verdict in enumerate(told.verdicts)
        if verdict == "proved" and (str(told.answers[i]) != after[i] or bool(told.changed[i]) != changed[i])
    ]
    for i, each in ((i, each) for i, place in enumerate(places) for each in place.ablations if each.neuron == neuron):
        count, others = int(changed.sum()) - int(changed[i]), each.others
        if not (others.changed == count or (others.verdict == "unknown" and others.changed < count)):
            wrong.append(f"{count} others than fact {i} change, not {others.changed}")
        if each.verdict == "proved" and (str(each.answer), each.changes) != (after[i], changed[i]):
            wrong.append(f"fact {i} is answered {after[i]}, not {each.answer}")
    return wrong


def held(places: list[Any]) -> list[Any]:
    return sorted({neuron for place in places for neuron in place.neurons})


@pytest.mark.parametrize("kind", STOCK)
def test_without_a_neuron_transformers_answers_as_claimed(kind: str) -> None:
    found = ml.locate(stock(kind)[0], X, STOCK[kind][1])
    places, before = list(found), answered(kind)
    assert [(str(one.answer), one.verdict) for one in places][: len(before)] == [(one, "proved") for one in before]
    neurons = held(places)
    assert len(neurons) > 1
    for neuron in neurons:
        assert contradicted(found, places, neuron, before, answered(kind, neuron)) == []
        assert set(found.ablate(neuron).verdicts) == {"proved"}


def test_what_was_never_seen_is_claimed_as_far_as_margins_go() -> None:
    """Points anywhere, beside half-spaces too: what is proved is so, and not all is."""
    rows = np.random.default_rng(5).integers(0, 9, (800, 9))  # some ten points of 7,200 are not decided
    found = ml.locate(stock("bert")[0], rows)
    places, before = list(found), answered("bert", rows=rows)
    assert {place.verdict for place in places} == {"proved", "measured"}
    for neuron in held(places)[::6]:
        assert contradicted(found, places, neuron, before, answered("bert", neuron, rows)) == []


def own_words(model: ml.Monolayer, data: ml.Sequences, places: list[Any], network: ml.Monolayer) -> list[str]:
    """What `network`, which is `model` with other weights, answers at every fact."""
    asked, tokens = model.encode(data), model.card.per == "token"
    at = [int(asked.offsets[one.sequence]) + int(one.position or 0) if tokens else one.sequence for one in places]
    values: NDArray[Any] = model.card.decode(network.labels(asked, path="dense"))[at]
    return [str(value) for value in values.tolist()]


@pytest.mark.parametrize("kind", ["line", "line reals", "robust sequences", "robust next"])
def test_without_a_neuron_our_own_network_answers_as_claimed(kind: str) -> None:
    model, data = kinds.built(kind)
    found = ml.locate(model, data)
    places = list(found)
    words = partial(own_words, model, data, places)
    before = words(model)
    assert [(str(place.answer), place.verdict) for place in places] == [(one, "proved") for one in before]
    neurons = held(places)
    for neuron in neurons[:: max(1, len(neurons) // 8)]:
        less = copy.deepcopy(model)
        with torch.no_grad():
            less.get_parameter(neuron.tensor).select(neuron.axis, neuron.index).zero_()
        assert contradicted(found, places, neuron, before, words(less)) == []
    several = sum(len(place.neurons) > 1 for place in places)
    assert (several > 0) == (kind == "robust sequences")


def test_a_wrong_claim_is_caught() -> None:
    """The claims about one folder, held against another, and against another neuron."""
    found, before = ml.locate(stock("bert")[0], X, Y), answered("bert")
    one, two = held(list(found))[:2]
    assert contradicted(found, list(found), one, before, answered("bert", two)) != []
    other = ml.locate(ml.memorize_as("bert", X, Y[::-1], on_conflict="first"), X)
    assert contradicted(other, list(other), one, before, answered("bert", one)) != []


@pytest.mark.parametrize("kind", ["bert", "gpt2 next", "line", "robust next"])
def test_the_graph_is_what_circuit_tools_read_and_enough_for_the_answer(kind: str) -> None:
    words: Callable[[Any], list[str]]
    if kind in STOCK:
        model, network, _ = stock(kind)
        found, words = ml.locate(model, X, STOCK[kind][1]), lambda other: answered(kind, other=other)
    else:
        network, data = kinds.built(kind)
        found = ml.locate(network, data)
        words = partial(own_words, network, data, list(found))
    before, graph = words(network), json.loads(json.dumps(found.graph()))
    # What `Graph.from_json` of EAP-IG looks up, for one layer and one head.
    assert {"n_layers", "n_heads", "parallel_attn_mlp", "d_model"} == set(graph["cfg"])
    assert set(graph["nodes"]) == {"input", "a0.h0", "m0", "logits"}
    inner = [f"input->a0.h0<{letter}>" for letter in "qkv"]
    assert set(graph["edges"]) == {*inner, "input->m0", "a0.h0->m0", "input->logits", "a0.h0->logits", "m0->logits"}
    assert all(isinstance(edge["score"], float) and type(edge["in_graph"]) is bool for edge in graph["edges"].values())
    for name in ("input", "a0.h0", "m0"):
        assert [type(one) for one in graph["nodes"][name]["neurons"]] == [bool] * graph["cfg"]["d_model"]
    # All other neurons set to 0, and attention too where it is left out: the answer stays.
    by_neurons = [i for i, fact in enumerate(found) if fact.neurons]
    for i in (0, 11, by_neurons[0]) if hasattr(network, "attention") else (by_neurons[0], by_neurons[-1]):
        own = found.graph(i)["nodes"]
        kept = {neuron["index"] for neuron in own["m0"]["hidden"]}
        assert {neuron.index for neuron in found[i].neurons} <= kept < set(range(len(found.writers.start)))
        assert own["a0.h0"]["in_graph"] == bool(kept)
        assert own["m0"]["in_graph"] or not kept  # without neurons, a bias may still write the answer
        bare = copy.deepcopy(network)
        with torch.no_grad():
            matrix = bare.get_parameter(found.matrices[0].tensor)
            for gone in set(range(matrix.shape[found.matrices[0].axis])) - kept:
                matrix.select(found.matrices[0].axis, gone).zero_()
            assert sum(own["m0"]["neurons"]) == int(matrix.any(dim=found.matrices[0].axis).sum())
            if not kept:
                bare.attention.W_O.zero_()
        assert words(bare)[i] == before[i]


def test_a_place_names_tensors_rows_and_directions() -> None:
    model, network, facts = stock("bert")
    found = ml.locate(model, X)  # without labels every answer is a fact
    assert len(found) == X.size
    place = next(place for place in found if place.neurons)
    (neuron,) = place.neurons
    weights = dict(network.named_parameters())
    assert weights[neuron.tensor].select(neuron.axis, neuron.index).any()
    assert "array(" not in repr(place)
    token, position = place.rows
    assert token.tensor == "bert.embeddings.word_embeddings.weight"
    assert facts.names[token.index] == str(X[place.sequence, place.position])
    assert position.index == place.position + 1  # behind the begin token
    assert place.label == place.answer
    with pytest.raises(ml.DataError, match="no neuron 9999"):
        found.ablate(type(neuron)(neuron.tensor, 9999, neuron.axis))
    with pytest.raises(ml.DataError, match="one of those that a fact lists"):
        found.ablate(7)  # type: ignore[arg-type]
    for ask in (found.__getitem__, found.graph):
        for number in (48, -49):
            with pytest.raises(IndexError, match=f"there is no fact {number}: they are numbered from 0 to 47"):
                ask(number)
        with pytest.raises(TypeError, match="by its number, from 0 to 47, not by 'x'"):
            ask("x")  # type: ignore[arg-type]
    assert found.graph(-1) == found.graph(47)


def test_facts_are_the_labelled_places() -> None:
    rows, labels = [["a", "b"], ["b", "c"], ["c", "a"]], [["x", None], [None, "y"], ["x", " "]]
    for model in (ml.memorize(rows, labels), ml.memorize_as("gpt2", rows, labels)):
        found = ml.locate(model, rows, labels)
        where = [(one.sequence, one.position, one.text, one.answer) for one in found]
        assert where == [(0, 0, "a", "x"), (1, 1, "c", "y"), (2, 0, "c", "x"), (2, 1, "a", " ")]
        assert "' ' (proved)" in repr(found)
    prompts, answers = ["the capital of Peru is", "the language of Peru is"], ["Lima", " Quechua"]
    asked = [(one.text, one.answer) for one in ml.locate(ml.memorize_as("gpt2", prompts, answers), prompts, answers)]
    pairs = list(zip(prompts, [" Lima", " Quechua"], strict=True))
    assert asked == [fact for one, two in pairs for fact in ((one, two), (one + two, "</s>"))]
    with pytest.raises(ml.DataError, match="a list is not a model of monolayer"):
        ml.locate(rows, labels)


def test_the_command_prints_a_table_or_json(tmp_path: Path, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.out, "width", 200)  # COLUMNS is read once, when a console is made
    folder, data = str(stock("bert")[0].save(tmp_path / "model")), tmp_path / "facts.jsonl"
    rows = [json.dumps({"tokens": row, "labels": labels}) for row, labels in zip(X.tolist(), Y.tolist(), strict=True)]
    data.write_text("\n".join(rows), encoding="utf-8")
    shown, found = said("locate", folder, str(data), "--first", "3"), ml.locate(folder, X, Y)
    one, two = ([line.split() for line in text.splitlines()[1:5]] for text in (shown, repr(found)))
    assert one == two
    assert "3 of 48 facts" in said("locate", folder, str(data), "--first", "3", errors=True)
    told = json.loads(said("locate", folder, str(data), "--json"))
    assert told == {"folder": folder, **json.loads(json.dumps(found.to_json()))}
    held_by_neurons = next(fact for fact in told["facts"] if fact["neurons"])
    assert held_by_neurons["neurons"][0]["without"]["verdict"] == "proved"


@pytest.mark.parametrize("build", [ml.memorize, partial(ml.memorize_as, "bert")])
def test_an_unknown_key_is_refused_as_predict_refuses_it(build: Any, tmp_path: Path, said: Any) -> None:
    folder = str(build({"France": "Paris", "Peru": "Lima"}).save(tmp_path / "m"))
    (tmp_path / "keys.csv").write_text("key\nPeru\nNarnia\n", encoding="utf-8")
    words = "token 0 of sequence 1 is 'Narnia', which the model has never seen; the model was built from"
    assert words in said("locate", folder, str(tmp_path / "keys.csv"), code=2)


def test_what_holds_no_facts_is_refused() -> None:
    flat = ml.approximate(lambda x: x, dim=1, length=2, norm="sup", lipschitz=1.0, error=0.5)
    model = ml.memorize(X, Y)
    with torch.no_grad():
        model.attention.W_Q[0, 1] = 0.5
    for refused, words in (
        (flat, "interpolates between knots and holds no facts"),
        (model, r"not as a certificate covers them.*attention\.W_Q"),
        (kinds.built("cascade reals")[0], "this readout has 2 stages: memorize with robust=True"),
        (ml.memorize_as("bert", X, Y, storage="steps"), "locate looks into folders of cells"),
    ):
        with pytest.raises(ml.DataError, match=words):
            ml.locate(refused, [[0.5, 0.5]] if refused is flat else X)
