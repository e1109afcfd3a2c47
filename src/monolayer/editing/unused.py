"""Dropping the names that no fact uses after an edit.

Rows of embedding and head belong to names, and numbers of a draw to rows. So a name that is dropped leaves its row
behind, under the name `(forgotten name 7)`: no weight changes, and later edits find every row where it was.
"""

from __future__ import annotations

from dataclasses import replace

from monolayer.data import Sequences
from monolayer.data.unused import UnusedNames, unused_names
from monolayer.editing.subject import Subject
from monolayer.editing.texts import TextSubject
from monolayer.errors import DataError


def unused_after(subject: Subject, data: Sequences) -> UnusedNames | None:
    """The names of a model that these adopted `data` do not use; None where they are those of a host's tokenizer."""
    return None if isinstance(subject, TextSubject) else unused_names(data, subject.unknown)


def without_names(subject: Subject, data: Sequences, unused: UnusedNames | None) -> tuple[Subject, Sequences]:
    """The model and its data, with `unused` names dropped; no number of the model changes."""
    if isinstance(subject, TextSubject) or unused is None:
        raise DataError(
            "the names in this folder are those of the host's tokenizer, which attach does not change, and facts that "
            "are attached bring none of their own: leave names=True (--names) out"
        )
    vocabulary, labels = data.vocabulary, data.labels
    if vocabulary is not None:
        vocabulary = vocabulary.without(unused.tokens)
    if labels is not None and labels.classes is not None:
        labels = replace(labels, classes=labels.classes.without(unused.classes))
    left = replace(data, vocabulary=vocabulary, labels=labels)
    return subject.renamed(left), left
