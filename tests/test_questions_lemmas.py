"""Lemmas Q1 to Q6 (docs/proofs-questions.md), number by number: slow references against the checker.

Claims about drawn embeddings (`test_questions_bounds.py`) hardly see a rounding error that a bound leaves out. Here
numbers of folders are disturbed as well, so that every term of a bound is large enough to be missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from monolayer.checker.questions import caps as caps_module
from monolayer.checker.questions.caps import SLACK, Inputs, caps_of
from monolayer.checker.questions.files import Level, QuestionFolder
from monolayer.checker.questions.words import Words
from monolayer.checker.rounding import PADDING, UnhandledError
from tests.questions_attack import opened
from tests.test_questions_bounds import stored

U = 2.0**-24
V = {"float32": U, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""v: a number is rounded to the format by at most this share of itself."""
LOST = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-24}
LARGEST = {"float32": 3.4e38, "bfloat16": 3.38e38, "float16": 65_504.0}
CLOSE = 1e-9
KINDS = [("float32", 1), ("float32", 3), ("bfloat16", 1), ("float16", 1)]
"""Format, and one appended layer or several."""
FLATTEST, CROWDS = 4.0, 16
Folder = Callable[[str, int], QuestionFolder]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """What the checker reads of a folder of a format, with one appended layer or several; each is made once."""
    made = dict[tuple[str, int], QuestionFolder]()

    def find(dtype: str, layers: int) -> QuestionFolder:
        if (dtype, layers) not in made:
            found = opened(stored(tmp_path_factory.mktemp("q"), dtype, layers))
            assert found is not None
            assert (found.encoder.dtype, found.layers > 1) == (dtype, layers > 1)
            made[dtype, layers] = found
        return made[dtype, layers]

    return find


def disturbed(found: QuestionFolder, seed: int, size: float) -> QuestionFolder:
    """The folder with other numbers, which `recognize` would not write, but which the lemmas are about."""
    draw = np.random.default_rng(seed)

    def moved(rows: Any) -> Any:
        return rows + size * draw.normal(size=rows.shape) * np.abs(rows).max()

    words = {answer: moved(found.writes[list(found.answers).index(answer)]) for answer in set(found.answers.tolist())}
    return replace(
        found,
        reads=moved(found.reads),
        writes=np.stack([words[answer] for answer in found.answers.tolist()]),
        constant=moved(found.constant),
        level=Level(moved(found.level.reads), found.level.bias, moved(found.level.writes)),
        dense=moved(found.dense),
    )


def length(row: Any) -> float:
    return math.sqrt(math.fsum(x * x for x in np.asarray(row).tolist()))


def dot(one: Any, two: Any) -> float:
    return math.fsum(x * y for x, y in zip(np.asarray(one).tolist(), np.asarray(two).tolist(), strict=True))


def barred(row: Any) -> Any:
    """A row less its mean."""
    return np.asarray(row) - math.fsum(np.asarray(row).tolist()) / len(row)


def gamma(k: float) -> float:
    return k * U / (1.0 - k * U)


class Lemmas:
    """The numbers of the lemmas, one by one, from those of a folder."""

    def __init__(self, found: QuestionFolder) -> None:
        encoder = self.encoder = found.encoder
        self.found, self.dtype, self.D = found, encoder.dtype, encoder.width
        self.v, self.lost, self.root = V[self.dtype], LOST[self.dtype], math.sqrt(encoder.width)
        self.short = self.dtype != "float32"
        longest = (self.D + 16) * U + self.v if self.dtype == "float16" else 2.0**-4
        self.x = (1.0 + longest) * self.root
        self.base = found.constant + found.level.bias * found.level.writes
        self._level()
        self.X = [self.most_M * self.x, self.x]
        written = length(found.constant) + self.most_level + self.x
        spacing = 4.0 * self.root * self.lost
        self.E_0 = PADDING * ((gamma(8) + 3.1 * self.v) * written + spacing)
        share = gamma(encoder.neurons + 4) + 3.1 * self.v
        self.sigma = 3.0 * PADDING * share
        first = share * written + spacing + self.loose * length(found.level.writes)
        self.E = [PADDING * first, PADDING * (share * self.x + spacing)]

    def err(self, row: Any, bias: float) -> float:
        return gamma(self.D + 2) * (length(row) * self.x + abs(bias))

    def _level(self) -> None:
        """The neuron that levels: Δ, what it writes at most, and |M|."""
        p, bias, writes = self.found.level
        err = PADDING * self.err(p, bias)
        most = bias + length(p) * self.x + err
        self.loose = PADDING * ((0.001 + 5.0 * self.v) * most + err)
        self.most_level = PADDING * (1.0 + 4.0 * self.v) * most * length(writes)
        along = dot(writes, p) / length(p) ** 2
        across = length(writes - along * p)
        self.most_M = PADDING * (max(1.0, abs(1.0 + dot(p, writes))) + length(p) * across)

    def turned(self, norms: int, flat: float) -> float:
        """ω of so many norms."""
        rounded = (1.01 * self.v if self.short else 0.0) + 2.0 * self.lost
        total, kappa = 0.0, flat
        for _ in range(norms - 1):
            nu = PADDING * (2.0 * (self.D + 16) * U * kappa**2 + rounded)
            t = PADDING * (8.0 * U * kappa + rounded) / (1.0 - nu)
            total, kappa = total + t * (1.0 + t * t), (1.0 + nu) / (1.0 - nu)
        nu = PADDING * (2.0 * (self.D + 16) * U * kappa**2 + rounded)
        return PADDING * (total + nu + (self.encoder.epsilon / (1.0 - nu) ** 2 if norms > 1 else 0.0))

    def carried(self, row: Any) -> Any:
        """Mᵀ w."""
        return row + dot(row, self.found.level.writes) * self.found.level.reads

    def lengths_behind(self) -> tuple[float, float, float]:
        """ℓ, L and κ of the state behind the first layer where no neuron fires."""
        B, v = barred(self.base), self.found.level.writes
        product = 2.0 * (length(self.carried(B)) * self.x + self.loose * abs(dot(B, v)))
        rest = self.X[0] + self.loose * length(v)
        least = math.sqrt(length(B) ** 2 - PADDING * product) - self.E_0
        most = math.sqrt(length(B) ** 2 + PADDING * (product + rest**2)) + self.E_0
        most += self.root * math.sqrt(self.encoder.epsilon)
        return least / PADDING, most * PADDING, PADDING * (length(self.base) + rest + self.E_0) / least

    def head_error(self, row: int, moved: float) -> float:
        whole = length(self.found.dense[row]) * self.root
        rounded = (gamma(self.D + 4) + 2.0 * self.v) * whole * (1.0 + moved)
        return PADDING * (whole * moved + rounded + 4.0 * self.D * self.lost)

    def decides(self, seen: float) -> bool:
        """Q6."""
        signs, R = self.found.signs, self.found.signs.shape[1]
        apart = min(int((a != b).sum()) for i, a in enumerate(signs) for b in signs[:i])
        t = (1.0 - 2.0**-10 - 4.0 * self.v) * math.tanh(seen)
        doubt = 2.02 * R * (gamma(self.D + 4) + 1.1 * self.v)
        return 2.0 * apart * t > PADDING * doubt + 2.0**-20 and 2.0 * self.found.scale * R <= LARGEST[self.dtype]

    def _outweighs(self, word: Any, signs: Any, later: int) -> float:
        """The least A at which signs are those of the word and κ ≤ 4 (Q5); ∞ if there is none."""
        whole, seen = length(word), length(barred(word))
        beside = (0.0 if later else length(self.base)) + self.X[later] + self.E[later]
        Y_0 = beside + self.root * math.sqrt(self.encoder.epsilon)
        moved = self.turned(1 + 2 * (self.found.layers - 1), FLATTEST)
        flat = FLATTEST * seen - (1.0 + 5.0 * self.sigma) * whole
        found = [5.0 * Y_0 / flat if flat > 0.0 else math.inf]
        for r, row in enumerate(self.found.dense):
            P, q = barred(row), (0.5 + self.head_error(r, moved)) / self.root
            gain = float(signs[r]) * dot(P, word)
            gain -= PADDING * (length(P) * self.sigma * whole + q * (seen + self.sigma * whole))
            ground = 0.0 if later else abs(dot(P, barred(self.base)))
            need = ground + length(P) * (self.X[later] + self.E[later]) + q * Y_0
            found.append(need / gain if gain > 0.0 else math.inf)
        return PADDING * max(found)

    def _wakes_nothing(self, word: Any, later: int) -> float:
        """The least A at which it wakes no neuron of a later layer (Q5)."""
        whole, seen = length(word), length(barred(word))
        beside = (0.0 if later else length(self.base)) + self.X[later] + self.E[later]
        moved, found = self.turned(2 * (self.found.layers - 1), FLATTEST), [0.0]
        for j in np.flatnonzero(self.found.layer > 0).tolist():
            row, bias = self.found.reads[j], float(self.found.bias[j])
            w = barred(row)
            room = (-self.encoder.silence - bias - PADDING * self.err(row, bias)) / self.root - length(row) * moved
            held = 0.0 if later else abs(dot(w, barred(self.base)))
            gain = room * (seen - self.sigma * whole)
            gain -= abs(dot(word, w)) + PADDING * length(w) * self.sigma * whole
            need = held + length(w) * (self.X[later] + self.E[later]) + room * beside
            found.append(PADDING * need / gain if gain > 0.0 else math.inf)
        return max(found)

    def least(self, answer: int, later: int) -> float:
        """A of the neurons of an answer, in the first layer or a later one."""
        word = self.found.writes[list(self.found.answers).index(answer)]
        return max(self._outweighs(word, self.found.signs[answer], later), self._wakes_nothing(word, later))

    def threshold(self, j: int, level: float) -> tuple[float, float]:
        """s and c(level) of neuron `j` (Q3)."""
        row, bias = self.found.reads[j], float(self.found.bias[j])
        alpha, err = length(row) * self.root, PADDING * self.err(row, bias)
        silent, awake = (-self.encoder.silence - bias - err) / alpha, (level - bias + err) / alpha
        layer = int(self.found.layer[j])
        if layer:
            near, far, flat = self.lengths_behind()
            w, writes = barred(row), self.found.level.writes
            drift = PADDING * (alpha * self.turned(2 * layer, flat) + err)
            slack = abs(dot(w, barred(self.base))) + length(w) * self.E_0 + self.loose * abs(dot(w, writes))
            slack = PADDING * (slack + length(self.carried(w) - row) * self.x)
            low, high = -self.encoder.silence - bias - drift, level - bias + drift
            silent = (min(low * near, low * far) / self.root - slack) / alpha
            awake = (max(high * near, high * far) / self.root + slack) / alpha
        return silent - SLACK * (1.0 + abs(silent)), awake + SLACK * (1.0 + abs(awake))

    def finite(self) -> bool:
        """Q2: whether neurons write finite numbers only."""
        rest = max(map(abs, self.found.constant.tolist())) + self.x + self.most_level
        room = min(2.0**60 / self.root, LARGEST[self.dtype] / (1.0 + 4.0 * self.v))
        for layer in range(self.found.layers):
            mine = np.flatnonzero(self.found.layer == layer).tolist()
            rows, bias = [self.found.reads[j] for j in mine], self.found.bias[mine].tolist()
            errs = [PADDING * self.err(row, b) for row, b in zip(rows, bias, strict=True)]
            peak = max(abs(x) for j in mine for x in self.found.writes[j].tolist())
            each = [length(row) * self.x + b + err for row, b, err in zip(rows, bias, errs, strict=True)]
            if (1.01 + 4.0 * self.v) * sum(max(1.0, one) for one in each) * peak + rest <= room:
                continue
            products = [[dot(one, two) for two in rows] for one in rows]
            square = min(max(sum(map(abs, row)) for row in products), math.hypot(*(x for row in products for x in row)))
            start = min(-b - err - self.encoder.silence - 1.0 for b, err in zip(bias, errs, strict=True))
            if start <= 0.0:
                return False
            together = PADDING**2 * (1.01 + 4.0 * self.v) * square * self.x**2 / (4.0 * start)
            if together * peak + rest > room:
                return False
        return True


def cases(folder: Folder, kind: tuple[str, int]) -> list[QuestionFolder]:
    """The folder as it is, and disturbed."""
    found = folder(*kind)
    awake = replace(found, bias=-found.bias)  # wherever û is not nearly opposite to the key
    return [found, disturbed(found, 1, 1e-4), disturbed(found, 2, 1e-3), awake]


def close(value: float) -> Any:
    return pytest.approx(value, rel=CLOSE, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_lemmas_q3_and_q4_where_neurons_are_silent_and_awake(kind: tuple[str, int], folder: Folder) -> None:
    tried = 0
    for found in cases(folder, kind):
        by_hand = Lemmas(found)
        try:
            words = Words(found)
            inputs = Inputs(found, words)
            said = words.seen_length
        except UnhandledError:
            continue
        tried += 1
        assert (words.x, words.level.loose, words.level.longest) == tuple(
            map(close, (by_hand.x, by_hand.loose, by_hand.most_M))
        )
        assert (words.level.most, words.quiet, words.share) == tuple(
            map(close, (by_hand.most_level, by_hand.E_0, by_hand.sigma))
        )
        assert words.lost.tolist() == close(by_hand.E)
        assert said == close(by_hand.lengths_behind())
        for norms in (1, 2, 3, 7):
            assert words.sizes.after(norms, 2.5) == close(by_hand.turned(norms, 2.5))
        for j, (row, bias) in enumerate(zip(found.reads, found.bias.tolist(), strict=True)):
            assert inputs.err[j] == pytest.approx(PADDING * (by_hand.err(row, bias) + 2.0**-90), rel=CLOSE, abs=0.0)
        level = np.linspace(0.5, 40.0, len(found.bias))
        silent, awake = inputs.thresholds(level)
        for j in range(len(found.bias)):
            assert (silent[j], awake[j]) == close(by_hand.threshold(j, float(level[j])))
    assert tried >= 2


def test_a_large_epsilon_of_a_norm_counts_once_and_in_full(folder: Folder) -> None:
    """As usual it is less than what roundings add."""
    found = folder("float32", 1)
    found = replace(found, encoder=replace(found.encoder, config={**found.encoder.config, "layer_norm_eps": 0.01}))
    assert found.encoder.epsilon == 0.01
    for norms in (1, 2, 3, 7):
        assert Words(found).sizes.after(norms, 2.5) == close(Lemmas(found).turned(norms, 2.5))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_lemma_q5_how_much_neurons_must_return(kind: tuple[str, int], folder: Folder) -> None:
    finite = 0
    for found in cases(folder, kind):
        by_hand = Lemmas(found)
        try:
            words = Words(found)
            least = words.least
        except UnhandledError:
            continue
        for answer in sorted(set(found.answers.tolist())):
            for later in range(2 if found.layers > 1 else 1):
                assert least[later, answer] == close(by_hand.least(answer, later))
                finite += bool(np.isfinite(least[later, answer]))
        assert np.isinf(least[:, 0]).all()  # nothing writes the word of `unknown`
    assert finite > 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_lemmas_q5_and_q6_unknown_and_signs(kind: tuple[str, int], folder: Folder) -> None:
    found = folder(*kind)
    for seen in (2.0**-10, 2.0**-8, 2.0**-6, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0):
        assert Words(found).decides(seen) == Lemmas(found).decides(seen), seen
    verdicts = set()
    for size in np.linspace(0.5, 1.0, 21):  # a word of `unknown` that outweighs û less and less
        level = found.level._replace(writes=found.level.writes * size)
        weak = replace(found, constant=found.constant * size, level=level)
        words, by_hand = Words(weak), Lemmas(weak)
        try:
            said = words.unknown_decides()
        except UnhandledError:
            continue
        _, most, flat = by_hand.lengths_behind()
        moved = by_hand.turned(1 + 2 * (found.layers - 1), flat)
        rest = by_hand.X[0] + by_hand.loose * length(level.writes) + by_hand.E_0
        seen = []
        for r, row in enumerate(found.dense):
            own = float(found.signs[0, r]) * dot(barred(row), barred(by_hand.base)) - length(barred(row)) * rest
            seen.append(by_hand.root * own / most / PADDING - by_hand.head_error(r, moved))
        assert said == by_hand.decides(min(seen)), size
        verdicts.add(said)
    assert True in verdicts


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_lemma_q2_numbers_stay_finite(kind: tuple[str, int], folder: Folder) -> None:
    """Rows that are written are made longer until they no longer fit; then all neurons wake at once."""
    whole, verdicts = folder(*kind), set()
    for longer in 2.0 ** np.arange(0.0, 125.0, 1.0 if kind[0] == "float16" else 6.0):
        for awake in (0.0, 60.0):
            found = replace(whole, writes=whole.writes * longer, bias=whole.bias + awake)
            try:
                Inputs(found, Words(found))
                said = True
            except UnhandledError:
                said = False
            assert said == Lemmas(found).finite(), longer
            verdicts.add(said)
    assert verdicts == {True, False}


def crowded(found: QuestionFolder, seed: int) -> QuestionFolder:
    """The folder with neurons in other layers, some keys near others, and rows that outweigh more, or nothing.

    Odd seeds hold neurons back, so that they wake close to their keys only. Where rows are long, a neuron must return
    no more than what its activation takes for the identity; with relu that is nothing, and dips of neighbours count.
    """
    draw, count, encoder = np.random.default_rng(seed), len(found.bias), found.encoder
    mixed = draw.choice([0.0, 0.5, 0.9, 0.99], size=(count, 1), p=[0.55, 0.15, 0.15, 0.15])
    others = [draw.choice(np.flatnonzero(found.answers == answer)) for answer in found.answers]  # mostly of its answer
    others = np.where(draw.random(count) < 0.8, others, draw.integers(count, size=count))
    sizes = np.linalg.norm(found.reads, axis=1, keepdims=True)
    keys = found.reads / sizes
    near = (1.0 - mixed) * keys + mixed * keys[others]
    back = draw.uniform(0.1, 0.26, count) * found.bias if seed % 2 else 0.0
    activation = encoder.activation if seed % 4 < 2 else "relu"
    if seed % 3 == 2:  # one answer for all
        questions = tuple(replace(each, answer=found.answers[0].item()) for each in found.manifest.questions)
        writes = np.tile(found.writes[0], (count, 1))
        found = replace(found, manifest=replace(found.manifest, questions=questions), writes=writes)
    return replace(
        found,
        encoder=replace(encoder, config={**encoder.config, encoder.kind.activation: activation}),
        reads=near * sizes / np.linalg.norm(near, axis=1, keepdims=True),
        bias=found.bias + back,
        layer=draw.permutation(found.layer),
        writes=draw.choice([-1.0, 1.0, 2.0, 8.0, 64.0]) * found.writes,
    )


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_how_far_around_a_key_its_answer_is_proved(
    kind: tuple[str, int], folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pair by pair, a few of them at a time, whatever it is that decides."""
    whole, reached = folder(*kind), set[str]()
    monkeypatch.setattr(caps_module, "COSINES_AT_ONCE", 3 * len(whole.bias))
    for seed in range(CROWDS):
        found = crowded(whole, seed) if seed else whole
        try:
            caps = caps_of(found, Words(found))
        except UnhandledError:
            continue
        for j, (silent, awake, reach, why) in enumerate(around_keys(found)):
            assert (caps.silent[j], caps.awake[j]) == (close(silent), close(awake))
            assert float(caps.reach[j]) == pytest.approx(reach, rel=CLOSE, abs=1e-11), (seed, why)
            reached.add(why)
    assert len(reached & {"the width", "its own neuron", "another neuron"}) >= 2


def around_keys(found: QuestionFolder) -> list[tuple[float, float, float, str]]:
    """s, c and the reach of each question, as the page has it, and what decides the reach."""
    by_hand, answers, count = Lemmas(found), found.answers.tolist(), len(found.bias)
    eta = (by_hand.D + 16) * U + (by_hand.v if by_hand.short else 0.0)
    kept = 0.999 - 4.0 * by_hand.v
    least = {(answer, later): by_hand.least(answer, later) for answer in set(answers) for later in (0, 1)}
    needs = [least[answer, min(int(layer), 1)] for answer, layer in zip(answers, found.layer, strict=True)]
    levels = [max(found.encoder.identity, need / kept) for need in needs]
    at = [by_hand.threshold(j, level) for j, level in enumerate(levels)]
    keys = found.reads / np.array([[length(row)] for row in found.reads])
    said = []
    for j in range(count):
        psi, unsure = math.pi, list[float]()
        for i in range(count):
            theta = math.acos(max(-1.0, min(1.0, dot(keys[i], keys[j]) + SLACK)))
            silent = theta - math.acos(max(-1.0, min(1.0, at[i][0] / (1.0 + eta))))
            awake = math.acos(max(-1.0, min(1.0, at[i][1] / (1.0 - eta)))) - theta
            if found.layer[i] == found.layer[j] and answers[i] == answers[j]:
                unsure += [max(silent, awake)] if i != j else []
            elif found.layer[i] <= found.layer[j]:
                psi = min(psi, max(silent, awake) if answers[i] == answers[j] else silent)
        reach, why = 0.0, "nothing"
        for width in (2.0**-4, 2.0**-8, 2.0**-12, 2.0**-16):
            dips = 0.3 * sum(each < math.acos(1.0 - width) for each in unsure)
            wanted = max(levels[j], (max(needs[j], dips) + dips) / kept)
            inside = 1.0 - by_hand.threshold(j, wanted)[1] / (1.0 - eta)
            if psi > 0.0 and math.isfinite(wanted):
                bounds = {"its own neuron": inside, "another neuron": 1.0 - math.cos(psi), "the width": width}
                least = min(bounds, key=lambda name: bounds[name])
                reach, why = max((reach, why), (bounds[least] - SLACK, least))
        said.append((*at[j], reach, why))
    return said
