"""Frozen sequences, and the readers that make them from files."""

from monolayer.data.names import NameBuilder, Names
from monolayer.data.phrases import phrases, tiny_phrases
from monolayer.data.readers import read
from monolayer.data.sequences import Labels, Sequences

__all__ = ["Labels", "NameBuilder", "Names", "Sequences", "phrases", "read", "tiny_phrases"]
