"""A scikit-learn classifier that memorizes: `fit` constructs, `predict` returns every training label.

What a row of `X` is: of a table of floats, one token that is a vector; of a table of integers, a sequence of ids; a
string is a sequence of characters; anything else that `memorize` takes (lists, `Sequences`) a sequence as it is. One
label per row (docs/classifier.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monolayer.construct.consistency import OnConflict
from monolayer.construct.memorize import memorize
from monolayer.data import Labels, Names, Sequences
from monolayer.data.labelling import SEQUENCE
from monolayer.errors import DataError, needs_extra
from monolayer.table import quoted

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise ImportError(str(needs_extra("the classifier needs scikit-learn", "sklearn"))) from error


class MonolayerClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A one-layer Transformer with rank-1 attention, constructed by `fit`; `model_` is the `Monolayer`.

    `positions`: whether the order of tokens counts; None: in strings only. `on_conflict`: what to do with equal rows
    that have different labels; by default the majority wins, since pipelines pass such rows without asking. `unknown`:
    the answer to rows of strings or ids that were not in the training data; None: the answer there means nothing, since
    the model memorizes and does not generalize, and a row with a new token is an error. `seed`: of the random draw.
    """

    def __init__(
        self,
        *,
        positions: bool | None = None,
        on_conflict: OnConflict = "majority",
        unknown: Any = None,
        seed: int = 0,
    ) -> None:
        self.positions = positions
        self.on_conflict = on_conflict
        self.unknown = unknown
        self.seed = seed

    def fit(self, X: object, y: Any) -> MonolayerClassifier:
        """Memorize the label `y` `(N,)` of every row of `X`."""
        X = self._rows(X, y, reset=True)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, number = np.unique(y, return_inverse=True)
        labels = Labels(number.astype(np.int64), SEQUENCE.name, Names(range(len(self.classes_))))
        data = Sequences.of(X)
        self._check_unknown(data)
        self.model_ = memorize(
            Sequences(data.tokens, data.lengths, data.vocabulary, labels),
            positions=_texts(X) is not None if self.positions is None else self.positions,
            on_conflict=self.on_conflict,
            unknown=self.unknown is not None,
            seed=self.seed,
        )
        return self

    def predict(self, X: object) -> Any:
        """The label `(N,)` of every row of `X`; rows of the training data get the label that came with them."""
        check_is_fitted(self)
        rows = self._rows(X, None, reset=False)
        if self.unknown is None:
            return self.classes_[self.model_.predict(rows)]
        answers = self.model_.predict(rows, unknown=None)
        known = np.array([answer is not None for answer in answers], dtype=bool)
        labels = self.classes_[np.where(known, answers, 0).astype(np.int64)]
        return np.where(known, labels, np.asarray(self.unknown, labels.dtype if labels.dtype.kind == "O" else None))

    def _check_unknown(self, data: Sequences) -> None:
        """Refuse an answer to unknown rows that is of another kind than the labels, and one for rows of numbers."""
        if self.unknown is None:
            return
        if data.vocabulary is None:
            raise DataError("rows of floats are vectors, which have no fingerprints: leave unknown= out")
        kinds = np.asarray(self.unknown).dtype.kind, self.classes_.dtype.kind
        if kinds[1] != "O" and kinds[0] != kinds[1]:
            raise DataError(
                f"unknown={self.unknown!r} is of another type than the labels, such as {self.classes_[0]!r}: an array "
                "of answers has one type"
            )

    def _rows(self, X: object, y: object, *, reset: bool) -> Any:
        """`X` as `memorize` takes it; arrays of numbers are checked as scikit-learn does."""
        texts = _texts(X)
        if texts is not None:
            return texts
        if isinstance(X, list) and X and isinstance(X[0], list) and X[0] and isinstance(X[0][0], float):
            X = np.asarray(X)  # a table of numbers, written as lists
        if not hasattr(X, "shape") or isinstance(X, Sequences) or getattr(X, "ndim", 2) == 3:
            return X
        whole = getattr(getattr(X, "dtype", None), "kind", "f") in "iu"
        kind = None if whole else np.float64
        if reset:
            checked, _ = validate_data(self, X, y, dtype=kind)
        else:
            checked = validate_data(self, X, reset=False, dtype=kind)
        return checked if whole else checked[:, None, :]


def _texts(X: object) -> list[str] | None:
    """The rows of `X` if they are strings, one per row; None if they are anything else.

    A table of several columns with strings among them is an error.
    """
    if isinstance(X, Sequences):
        return None
    if isinstance(X, list | tuple):
        return list(X) if X and all(isinstance(row, str) for row in X) else None
    if not hasattr(X, "shape"):
        return None
    cells = np.asarray(X) if isinstance(X, np.ndarray) or not hasattr(X, "to_numpy") else np.asarray(X.to_numpy())
    if cells.dtype.kind not in "OUT" or cells.size == 0:
        return None
    if cells.ndim == 1 or (cells.ndim == 2 and cells.shape[1] == 1):
        rows = [str(cell) if isinstance(cell, str) else None for cell in cells.reshape(-1).tolist()]
        return None if None in rows else [row for row in rows if row is not None]
    odd = next((cell for cell in cells.reshape(-1).tolist() if isinstance(cell, str)), None)
    if odd is not None:
        raise DataError(
            f"X has {cells.shape[1]} columns, and one of them holds text such as {quoted(odd)}; columns hold numbers. "
            "Encode such columns (OrdinalEncoder, OneHotEncoder), or pass one text per row"
        )
    return None
