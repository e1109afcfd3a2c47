"""The three values that a verdict has. What is not known is `undecided`, and never rounded to `proved`."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["proved", "refuted", "undecided"]
