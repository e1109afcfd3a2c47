"""The scikit-learn classifier: scikit-learn's own checks, pipelines, and sequences that it has no checks for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import monolayer as ml


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass() -> None:
    failed, count = {}, 0
    for estimator, check in estimator_checks_generator(ml.MonolayerClassifier()):
        count += 1
        try:
            check(estimator)
        except Exception as error:
            if type(error).__name__ not in ("SkipTest", "Skipped", "SkipTestWarning"):
                failed[str(check)] = repr(error)
    assert count > 40
    assert failed == {}


def test_every_training_label_comes_back_through_a_pipeline() -> None:
    random = np.random.default_rng(3)
    X, y = random.standard_normal((300, 4)), random.integers(0, 5, 300)
    pipeline = make_pipeline(StandardScaler(), ml.MonolayerClassifier(seed=1)).fit(X, y)
    assert pipeline.score(X, y) == 1.0
    again = clone(pipeline).fit(X, y)
    assert np.array_equal(again.predict(X[::-1]), y[::-1])
    assert again[-1].get_params() == {"positions": False, "on_conflict": "majority", "seed": 1}


@pytest.mark.parametrize("X", [["ab", "ba", "abc"], [[3, 4], [4, 3], [7]], np.array([[1, 2], [2, 1], [5, 5]])])
def test_sequences_are_taken_as_they_are(X: object) -> None:
    y = ["x", "y", "x"]
    model = ml.MonolayerClassifier(positions=True).fit(X, y)
    assert model.predict(X).tolist() == y
    assert model.classes_.tolist() == ["x", "y"]
    assert ml.certify(model.model_, X, [0, 1, 0]).verdict == "proved"


def test_contradictions_are_settled_or_raised_and_before_fit_there_is_nothing_to_predict() -> None:
    X, y = [[1.0], [1.0], [1.0]], [0, 1, 1]
    assert ml.MonolayerClassifier().fit(X, y).predict(X).tolist() == [1, 1, 1]
    with pytest.raises(ml.ContradictionError):
        ml.MonolayerClassifier(on_conflict="error").fit(X, y)
    with pytest.raises(NotFittedError):
        ml.MonolayerClassifier().predict(X)
