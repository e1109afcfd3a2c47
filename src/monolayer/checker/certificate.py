"""The verdict on a saved model and a dataset, in a form that people read and machines compare."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from decimal import ROUND_DOWN, Context
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from monolayer.data.aside import new_file, read_regular
from monolayer.data.origin import Origin
from monolayer.data.plan import ReadPlan, left_out, plan_lines
from monolayer.errors import ModelFileError
from monolayer.table import as_html, as_table
from monolayer.theory.verdicts import Verdict

CERTIFICATE_FILE = "certificate.json"
CERTIFICATE_VERSION = 1
Kind = Literal["wrong", "unsure"]
"""Of a finding: the point surely gets another answer than its label, or the bound leaves that open."""
MOST_FINDINGS = 10
"""How many points of each kind a certificate names; the others are only counted."""


class Claims(NamedTuple):
    """The claims that a caller makes besides the labels.

    `tolerance`: how far real answers may be from their labels. `only`: the model holds nothing but the data. For robust
    models, `noise`: relative change of every weight, and `dtype`: short format that the weights are rounded to. With
    attached facts, `host`: the folder of their host, if it is known, and `ask`: whether to ask the model for every
    answer; None asks if it can.
    """

    tolerance: float | None = None
    only: bool = False
    noise: float | None = None
    dtype: str | None = None
    host: str | os.PathLike[str] | None = None
    ask: bool | None = None


def counted_claim(claim: str, count: int) -> str:
    """A claim about `each of the {:,} labelled points`, or tokens, with their number; of one it says: the only."""
    if count == 1:
        for plural_form, single in (("labelled points", "labelled point"), ("tokens of", "token of")):
            claim = claim.replace("each of the {:,} " + plural_form, f"the only {single}")
    return claim.format(count)


@dataclass(frozen=True)
class Finding:
    """A point that gets another answer than its label (`wrong`), or that could not be decided (`unsure`).

    `position` and `token` are None for a label of a whole sequence. `why`: the reason, in words. `origin`: where the
    sequence stands in the file that it was read from, in words; None if it comes from elsewhere.
    """

    kind: Kind
    sequence: int
    position: int | None
    token: object
    expected: object
    got: object
    why: str
    origin: str | None = None

    def __str__(self) -> str:
        place = f"sequence {self.sequence}" + ("" if self.origin is None else f" ({self.origin})")
        if self.position is not None:
            token = "" if self.token is None else f" ({self.token!r})"
            place = f"token {self.position}{token} of {place}"
        got = f"got {self.got!r}, expected {self.expected!r}" if self.kind == "wrong" else f"expected {self.expected!r}"
        return f"{place}: {got}: {self.why}"


@dataclass(frozen=True)
class Certificate:
    """What was claimed, under which assumptions, for which bytes, and whether it is proved.

    `wrong`, `unsure`: numbers of points; `findings`: the first few of them. `margin`: the least distance of a point
    from a step, over the distance that two evaluations may be apart; None without steps. `label_error`: how far label
    coordinates may be from the label; None unless proved. `noise`: the largest relative change of every weight that a
    robust model is proved to bear; None for others. `longest`: with attached facts, the length of the longest states of
    the host at which answers are claimed, and `radius`: r, outside of which every logit is the host's; None for others.
    `measured`: what was measured, since no proof covers it. `recall`: with attached facts or stored questions,
    whether the model was asked for its answers here, and how many it returned; empty for others.
    `read_as`: how the data were read, one plan per source.
    """

    verdict: Verdict
    claim: str
    reason: str = ""
    assumptions: tuple[str, ...] = ()
    points: int = 0
    unsure: int = 0
    weights_digest: str = ""
    data_digest: str = ""
    format_version: int = 1
    wrong: int = 0
    findings: tuple[Finding, ...] = ()
    margin: float | None = None
    margin_at: str | None = None
    label_error: float | None = None
    notes: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    noise: float | None = None
    longest: float | None = None
    radius: float | None = None
    recall: str = ""
    read_as: tuple[ReadPlan, ...] = ()
    version: int = CERTIFICATE_VERSION

    def __bool__(self) -> bool:
        """Only a proof is true: unknown is never rounded to yes."""
        return self.verdict == "proved"

    __repr__ = as_table
    _repr_html_ = as_html

    def decided(
        self, wrong: int, unsure: int, findings: Iterable[Finding], reasons: Mapping[Verdict, str], **more: Any
    ) -> Certificate:
        """The verdict, from how many points are wrong and how many are unsure.

        `findings`: some of these points. `reasons`: the reason to give for each verdict. `more`: further fields that
        are now known.
        """
        verdict: Verdict = "refuted" if wrong else "undecided" if unsure else "proved"
        known = {"wrong": wrong, "unsure": unsure, "findings": tuple(findings)[:MOST_FINDINGS], **more}
        return replace(self, verdict=verdict, reason=reasons[verdict], **known)

    def about(self, origin: Origin | None, plans: tuple[ReadPlan, ...]) -> Certificate:
        """The certificate of data that were read as `plans` say, with places in their files for its findings.

        A claim about labels says how many places it leaves out, because they have none.
        """
        claim = self.claim + ("" if self.claim.endswith(left_out(plans)) else left_out(plans))
        findings = self.findings
        if origin is not None:
            findings = tuple(replace(one, origin=origin.place(one.sequence)) for one in findings)
        return replace(self, claim=claim, findings=findings, read_as=plans)

    def rows(self) -> list[tuple[str, str]]:
        """Names and values of the table that a terminal shows."""
        rows = [
            ("verdict", self.verdict),
            ("claim", self.claim),
            ("reason", self.reason),
            ("points", f"{self.points:,}" if self.points else ""),
            ("recall", self.recall),
            *(("read", line) for line in plan_lines(self.read_as)),
        ]
        if self.margin is not None:
            rows.append(("smallest margin", f"{self.margin:.3g} error bounds, at {self.margin_at}"))
        if self.label_error is not None:
            rows.append(("label error", "0: bit-exact" if self.label_error == 0 else f"at most {self.label_error:.3g}"))
        if self.noise is not None:
            rows.append(
                (
                    "noise on every weight",
                    f"up to {rounded_down(self.noise):.3g} of itself is proved to change no answer",
                )
            )
        if self.radius is not None:
            rows.append(("radius", f"{self.radius:.3g}: no neuron fires where 1 − ⟨key, state⟩ is more than that"))
        rows += [(finding.kind, str(finding)) for finding in self.findings]
        rows += [("measured", fact) for fact in self.measured]
        rows += [("note", note) for note in self.notes]
        rows += [("weights", self.weights_digest), ("data", self.data_digest)]
        return [(name, text) for name, text in rows if text]  # an unread folder has no digest

    def explain(self) -> str:
        """The certificate in plain words."""
        lines = [f"{self.verdict.upper()}: {self.reason}", f"Claim: {self.claim}"]
        lines += ["Assumed:", *(f"  - {assumption}" for assumption in self.assumptions)] if self.assumptions else []
        lines += [f"{name}: {text}" for name, text in self.rows()[3:]]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The certificate as JSON text, the content of `certificate.json`."""
        value = asdict(self) | {"read_as": [plan.to_json() for plan in self.read_as]}
        return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate in the JSON text `text`; an error if it is not one of this version."""
        try:
            value = json.loads(text)
            if value["version"] != CERTIFICATE_VERSION or set(value) != {field.name for field in fields(cls)}:
                raise ModelFileError(
                    f"the certificate has version {value['version']!r}; this monolayer reads {CERTIFICATE_VERSION}"
                )
            if value["verdict"] not in get_args(Verdict):
                raise ModelFileError(f"the certificate has verdict {value['verdict']!r}, which does not exist")
            value |= {key: tuple(value[key]) for key in ("assumptions", "notes", "measured")}
            findings = tuple(Finding(**finding) for finding in value["findings"])
            return cls(**value | {"findings": findings, "read_as": tuple(map(ReadPlan.from_json, value["read_as"]))})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"not a certificate: {error!r:.80}") from None

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Certificate | None:
        """The certificate beside a model, or None if there is none."""
        try:
            return cls.of(read_regular(Path(folder) / CERTIFICATE_FILE))
        except OSError as error:
            return cls.of(error)

    @classmethod
    def of(cls, content: bytes | OSError) -> Certificate | None:
        """The certificate in a file, given its content or the error of reading it; None if the file does not exist."""
        if isinstance(content, FileNotFoundError):
            return None
        if isinstance(content, OSError):
            raise ModelFileError(f"it cannot be read: {content.strerror}")
        try:
            return cls.from_json(content.decode())
        except UnicodeDecodeError:
            raise ModelFileError("it is not UTF-8 text") from None

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write `certificate.json` next to the model: all of it, or nothing."""
        final = Path(folder) / CERTIFICATE_FILE
        try:
            with new_file(final) as file:
                file.write(self.to_json())
        except FileNotFoundError:
            raise ModelFileError(f"{folder} is gone: there is no model to store {CERTIFICATE_FILE} with") from None
        return final


def rounded_down(share: float) -> float:
    """`share` rounded down to three digits, so that no more is shown than was proved."""
    return float(Context(prec=3, rounding=ROUND_DOWN).create_decimal_from_float(share))
