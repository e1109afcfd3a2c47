"""Where a fact lives: what `locate` claims against networks whose neurons are silenced."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import monolayer as ml
from monolayer.checker.attached.answers import JudgedTokens
from monolayer.checker.locating import attached as locating_attached
from monolayer.checker.locating import writers as locating_writers
from monolayer.checker.locating.circuit import own_wires
from monolayer.checker.locating.locate import _own_rows
from monolayer.checker.locating.location import Fact, Location, Slice
from monolayer.checker.locating.writers import MEASURED, NOT_KNOWN, PROVED, KnownAnswers, Writers
from monolayer.checker.network import CODE, KEY
from monolayer.checker.stock.enclosed import Enclosed, add
from monolayer.checker.stock.evaluate import Batch
from monolayer.checker.stock.neurons import WakingPairs
from monolayer.checker.stored import read_model
from monolayer.cli import console
from monolayer.data.labelling import TOKEN
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
            written = matrix.any(dim=found.matrices[0].axis)
            if "weight_2" in found.matrices[0].tensor:  # our own models; the biases of stock folders are 0
                written |= bare.get_parameter(found.matrices[0].tensor.replace("weight_2", "bias_2")) != 0
            assert sum(own["m0"]["neurons"]) == int(written.sum())
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
    assert f" of {X.size - 1} (proved)" in repr(found)
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
    assert found.graph(-48) == found.graph(0)


def test_facts_are_the_labelled_places() -> None:
    rows, labels = [["a", "b"], ["b", "c"], ["c", "a"]], [["x", None], [None, "y"], ["x", " "]]
    for model in (ml.memorize(rows, labels), ml.memorize_as("gpt2", rows, labels)):
        found = ml.locate(model, rows, labels)
        where = [(one.sequence, one.position, one.text, one.answer) for one in found]
        assert where == [(0, 0, "a", "x"), (1, 1, "c", "y"), (2, 0, "c", "x"), (2, 1, "a", " ")]
        assert "' ' (proved)" in repr(found)
        # Without labels, pairs of tokens are sequences, unless the model answers prompts.
        assert [(one.sequence, one.position) for one in ml.locate(model, [("b", "c")])] == [(0, 0), (0, 1)]
    prompts, answers = ["the capital of Peru is", "the language of Peru is"], ["Lima", " Quechua"]
    folder, pairs = ml.memorize_as("gpt2", prompts, answers), list(zip(prompts, [" Lima", " Quechua"], strict=True))
    for given in ((prompts, answers), (list(zip(prompts, answers, strict=True)),)):
        asked = [(one.text, one.answer) for one in ml.locate(folder, *given)]
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
    assert [plan["source"] for plan in told.pop("read")] == [str(data)]
    assert told == {"folder": folder, **json.loads(json.dumps(found.to_json()))}
    held_by_neurons = next(fact for fact in told["facts"] if fact["neurons"])
    assert held_by_neurons["neurons"][0]["without"]["verdict"] == "proved"


@pytest.mark.parametrize("build", [ml.memorize, partial(ml.memorize_as, "bert")])
def test_an_unknown_key_is_refused_as_predict_refuses_it(build: Any, tmp_path: Path, said: Any) -> None:
    folder = str(build({"France": "Paris", "Peru": "Lima"}).save(tmp_path / "m"))
    (tmp_path / "keys.csv").write_text("key\nPeru\nNarnia\n", encoding="utf-8")
    words = "is 'Narnia', which the model has never seen; the model was built from"
    place = f"token 0 of sequence 1 (line 3 of {tmp_path / 'keys.csv'})"
    assert f"{place} {words}" in said("locate", folder, str(tmp_path / "keys.csv"), code=2)


# -- the parts ---------------------------------------------------------------------------------------------


def test_an_answer_without_a_neuron_is_known_no_better_than_the_one_with_it() -> None:
    """Facts 0 to 3; one neuron writes at 1 to 3. Real answers differ if one of their numbers does."""
    states, less = np.array([PROVED, PROVED, MEASURED, NOT_KNOWN]), np.array([MEASURED, PROVED, PROVED])
    for answer, gone, differs in (
        (np.array([5, 6, 7, 8]), np.array([6, 9, 9]), [False, False, True, False]),
        (np.array([[5.0, 1.0]] * 4), np.array([[5.0, 1.0], [5.0, 2.0], [9.0, 9.0]]), [False, False, True, False]),
    ):
        writers = Writers(answer, states, np.array([1, 2, 3]), np.array([0]), np.array([3]), np.zeros(0, np.int64),
                          np.zeros(0, np.int64), lambda j, gone=gone: KnownAnswers(gone, less))  # fmt: skip
        found = writers.ablated(0)
        assert found.answer.tolist() == [answer[0].tolist(), *gone.tolist()]
        assert found.state.tolist() == [PROVED, MEASURED, MEASURED, NOT_KNOWN]
        assert found.changed.tolist() == differs
    facts = [Fact(i, None, "t", None) for i in range(4)]
    named = lambda rows: [tuple(row) for row in rows.tolist()]  # noqa: E731
    toy: Any = Location(facts, writers, (Slice("W", axis=1),), lambda i: (), None, named, "", ())
    assert [toy[i].verdict for i in range(-4, 4)] == ["proved", "proved", "measured", "unknown"] * 2
    assert toy[3].answer is None
    ablations = [toy._ablation(0, i) for i in range(4)]
    assert [(one.changes, one.verdict) for one in ablations] == [
        (False, "proved"), (False, "measured"), (True, "measured"), (None, "unknown")]  # fmt: skip
    assert [one.others for one in ablations] == [(1, "unknown"), (1, "unknown"), (0, "unknown"), (1, "measured")]
    assert [ablations[3].answer, ablations[1].answer] == [None, (5.0, 1.0)]
    toy.ablate(Slice("W", 0, 1))
    for odd in (Slice("W", -1, 1), Slice("W", 1, 1), Slice("W", None, 1), Slice("V", 0, 1)):
        with pytest.raises(ml.DataError, match="this model has no neuron"):
            toy.ablate(odd)
    bare: Any = replace(toy, matrices=())
    with pytest.raises(ml.DataError, match="this model has no neuron"):
        bare.ablate(Slice("W", 0, 1))


def test_the_answers_of_a_head_are_proved_only_where_they_are_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes: proved where the head decides, else the nearest class, as measured; reals: as they are."""
    monkeypatch.setattr(locating_writers, "head_classes", lambda stored, value: np.array([0, 2, -1, -1, -1, 1, 1]))
    classes: Any = SimpleNamespace(classes=("x", "y", "z"))
    value = np.array([[1.0, 2.0, 1.4, -7.0, 9.0, 1.0, np.inf]])
    found = locating_writers._known_answers(classes, value, np.array([True] * 5 + [False, True]))
    assert found.answer.tolist() == [0, 2, 1, 0, 2, 1, 1]
    assert found.state.tolist() == [PROVED, PROVED, MEASURED, MEASURED, MEASURED, NOT_KNOWN, NOT_KNOWN]
    reals: Any = SimpleNamespace(classes=None)
    value = np.array([[0.5, np.inf, 1.0], [0.25, 1.0, 2.0]])
    found = locating_writers._known_answers(reals, value, np.array([True, True, False]))
    assert found.answer.tolist() == value.T.tolist()
    assert found.state.tolist() == [PROVED, NOT_KNOWN, NOT_KNOWN]


def test_the_neurons_of_a_folder_are_taken_away_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five places in two batches, the third without a label; what is left over has the bound of its rounding."""
    base, out = np.array([[1.0, -2.0]] * 3), np.array([[0.5, -8.0], [-4.0, 0.25], [3.0, 3.0]])
    write, added = np.array([[1.0, -3.0], [-2.0, 0.0], [0.0, 7.0]]), list[tuple[Enclosed, Enclosed]]()

    class Head:
        def answers(self, stream: Enclosed) -> Any:
            return (stream.middle[:, 1] > stream.middle[:, 0]).astype(int), stream.middle[:, 0] > 0.0

    class Program:
        head = Head()

        def __init__(self, net: Any) -> None:
            self.batch = 0

        def parts(self, ids: Any, at: Any, closely: bool, heard: Any) -> tuple[Enclosed, Enclosed]:
            assert closely, "as a certificate does where it must"
            here = slice(0, 3) if self.batch == 0 else slice(0, 2)
            if self.batch == 0 and net.awake:
                point, neuron = np.array([0, 1, 2, 0]), np.array([0, 1, 2, 2])
                heard.append(
                    WakingPairs(point, neuron, np.array([0.5, 2.0, 1.0, -0.25]), np.array([True, True, True, False]))
                )
            self.batch += 1
            zero = np.zeros_like(base[here])
            return Enclosed(base[here], zero, zero[:, :1], zero[:, :1]), Enclosed(
                out[here], zero, zero[:, :1], zero[:, :1]
            )

    class Folder(SimpleNamespace):
        def __getitem__(self, letter: str) -> Any:
            return {"W_1": np.zeros((3, 2)), "W_2": write}[letter]

    net: Any = Folder(labelling=TOKEN, width=2, awake=True)
    data: Any = SimpleNamespace(tokens=np.zeros(5))
    places: Any = SimpleNamespace(answering=np.array([0, 1, 3, 4]), begins=False)
    monkeypatch.setattr(locating_writers, "Program", Program)
    monkeypatch.setattr(locating_writers, "add", lambda one, two: added.append((one, two)) or add(one, two))
    asked = [
        Batch(np.zeros((1, 3)), np.arange(3), np.array([[0, 1, 2]])),
        Batch(np.zeros((1, 2)), np.arange(2), np.array([[3, 4]])),
    ]
    monkeypatch.setattr(locating_writers, "batches", lambda *_: asked)
    found = locating_writers.cells_writers(net, data, places)
    assert found.answer.tolist() == [0, 1, 0, 1]
    assert found.state.tolist() == [PROVED, MEASURED, PROVED, MEASURED]
    assert (found.order.tolist(), found.start.tolist(), found.stop.tolist()) == ([0, 1, 0], [0, 1, 2], [1, 2, 3])
    assert (found.fact.tolist(), found.neuron.tolist()) == ([0, 1], [0, 1])  # where it reads more than 0
    ((plain, left),) = [both for both in added if len(both[1].middle) == 3]
    point, written = (
        [0, 1, 0],
        np.array([[0.5, -1.5], [-4.0, 0.0], [0.0, -1.75]]),
    )  # of the pairs; one place has no label
    assert (plain.middle == base[point]).all()
    assert (left.middle == out[point] - written).all()
    rounding = 2.0**-40 * (np.abs(written) + np.abs(out[point]))
    assert (left.radius >= rounding).all()
    assert (left.radius <= 1.001 * rounding + 2.0**-100).all()
    net.awake = False
    none = locating_writers.cells_writers(net, data, places)
    assert (none.answer.tolist(), none.order.tolist(), none.fact.tolist()) == ([0, 1, 0, 1], [], [])
    assert none.stop.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("alike", "fires", "spoilt", "stays"),
    [
        ([], [], False, False),
        ([True, True], [True, True], False, True),
        ([True, True], [True, False], False, False),
        ([True, False], [True, True], False, False),
        ([True], [True], True, False),
    ],
    ids=["nobody else", "two others", "one that may fire by half", "one that writes otherwise", "spoilt"],
)
def test_an_attached_token_stays_only_where_all_other_neurons_fire_for_it(
    alike: list[bool], fires: list[bool], spoilt: bool, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fact 0 is written by neuron 1, and fires others besides; what is left without neuron 1 is known only then."""
    others = [3 + i for i in range(len(alike))]
    writes = np.array([[0.0], [1.0], [0.0], *([1.0] if same else [2.0] for same in alike)])
    right = JudgedTokens(np.array([True]), np.array([False]), np.array([7]))
    monkeypatch.setattr(locating_attached, "fires_for_sure", lambda found, caps, i, own: fires[others.index(i)])
    found: Any = SimpleNamespace(writes=writes, manifest=SimpleNamespace(neurons=5), host=SimpleNamespace(neurons=4))
    near: Any = SimpleNamespace(others={1: others} if others else {}, spoilt=np.array([False, spoilt, *[False] * 6]))
    made = locating_attached._writers(found, None, near, np.array([1]), np.array([9]), right)  # type: ignore[arg-type]
    assert (made.answer.tolist(), made.state.tolist()) == ([9], [PROVED])
    assert made.without(1).state.tolist() == [PROVED if stays else NOT_KNOWN]
    assert made.without(1).answer.tolist() == [9]
    assert made.neuron.tolist() == [
        1,
        *(i for i, same, sure in zip(others, alike, fires, strict=True) if same and sure),
    ]
    assert len(made.start) == 8  # of two blocks of four
    for i in others:
        assert made.without(i).state.tolist() == [PROVED]


def test_names_are_those_of_the_data_and_biases_count_if_any_is_not_0() -> None:
    """Tokens that are integers and classes that are digits are not mistaken for each other."""
    rows, labels = [[1, 2], [2, 3]], [["1", "2"], ["2", "1"]]
    assert [one.answer for one in ml.locate(ml.memorize_as("bert", rows, labels), rows, labels)] == ["1", "2", "2", "1"]
    text = [[1, 2, 3, 1]]
    assert [one.answer for one in ml.locate(ml.memorize_as("gpt2", text), text)] == [2, 3, 1, "</s>", 1]
    points: Any = SimpleNamespace(rows=None)
    for bias, there in (([0.0, 0.0], False), ([0.0, 2.0], True), ([1.0, 2.0], True)):
        stored: Any = SimpleStored({"feed_forward.stages.0.bias_2": np.array(bias)})
        found = _own_rows(stored, points, Fact(0, None, "t", None))
        assert found == (Slice("bos"), *([Slice("feed_forward.stages.0.bias_2")] if there else []))


class SimpleStored(dict[str, Any]):
    """Some tensors of a model of one block."""

    block = "feed_forward.stages.0"


def test_a_token_without_a_vector_has_no_known_answer() -> None:
    model, data = kinds.built("robust next")
    gone, before = copy.deepcopy(model), ml.locate(model, data)
    row = int(data.tokens[0])
    with torch.no_grad():
        gone.lift.weight[row] = torch.nan
    found = ml.locate(gone, data)
    touched = {int(data.sequence[i]) for i in np.flatnonzero(data.tokens == row)}
    verdicts = [(place.verdict, place.answer) for place in found if place.sequence in touched]
    assert set(verdicts) == {("unknown", None)}
    assert {place.verdict for place in before} == {"proved"}


def test_the_first_token_is_a_fact_where_all_sequences_begin_with_it() -> None:
    """It is held by the begin token, in front of the first sequence; certificates and places count it last."""
    rows = ["abcab"]
    model = ml.memorize_as("gpt2", rows, positions=True)
    found = ml.locate(model, rows)
    last = found[len(found) - 1]
    assert len(found) == sum(map(len, rows)) + 1
    assert (last.sequence, last.position, last.text, last.answer, last.verdict) == (0, -1, "<s>", "a", "proved")
    token, place = last.rows
    assert (token.index, place.index) == (2, 0)
    labels = list(zip((one.text for one in found), (one.label for one in found), strict=True))
    assert labels == [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b"), ("b", "</s>"), ("<s>", "a")]


def test_what_reads_and_writes_which_coordinates() -> None:
    """Of a line: neurons read the code and write labels; the head of attention reads `one`, keys and values."""
    model, data = kinds.built("line")
    found = ml.locate(model, data)
    graph, width = found.graph(), len(model.bos)
    assert graph["cfg"] == {"n_layers": 1, "n_heads": 1, "parallel_attn_mlp": False, "d_model": width}
    with TemporaryDirectory() as place:
        stored = read_model(model.save(Path(place) / "m"))
    for neurons in ([], [0], [0, 1]):
        wires = own_wires(stored, np.array(neurons, dtype=np.int64))
        assert np.flatnonzero(wires.reads[3]).tolist() == ([CODE] if neurons else [])
        assert np.flatnonzero(wires.writes[2]).tolist()[:3] == [0, KEY, CODE]
    empty = replace(stored, tensors={name: 0.0 * value for name, value in stored.tensors.items()})
    assert not own_wires(empty, np.array([0])).writes[2].any()
    with TemporaryDirectory() as place:
        cells = read_model(ml.approximate(lambda x: x, 1, 2, cells=2).save(Path(place) / "m"))
    empty = replace(cells, tensors={name: 0.0 * value for name, value in cells.tensors.items()})
    assert np.flatnonzero(own_wires(empty, np.array([0])).writes[2]).tolist() == [KEY, CODE]


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
