"""Choices that callers make by a word; NumPy is not imported, so that help about them appears at once."""

from __future__ import annotations

from typing import Literal

Unit = Literal["characters", "words", "whole"]
"""How a string is split: into its characters, into its words, or not at all (one token)."""
Per = Literal["token", "sequence"]
PerOrAnswer = Literal["token", "sequence", "answer"]
PerAnswer = Literal["answer", "continuation"]
Belongs = Literal[Per, PerAnswer]
"""What a label belongs to; `answer`: there are no labels, but prompts and their answers (`prompts.py`).

`continuation` is `answer` without the space that is put between a prompt and its answer.
"""
