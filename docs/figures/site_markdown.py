"""What the site adds to Markdown: formulas as MathML, and links that leave `docs/` as plain text.

GitHub shows `$…$` and `$$…$$` as formulas by itself. The site turns them into MathML while it is built, so that a
browser needs no script and fetches nothing. Browsers do not break a line inside MathML, so an inline formula becomes
several, one after the other, cut in front of each relation that stands outside all brackets.
"""

from __future__ import annotations

import os
import re
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.treeprocessors import Treeprocessor

_INLINE = r"(?<![\\$])\$(?![\s$])([^$]+?)(?<![\s\\])\$(?!\d)"
_DISPLAY = re.compile(r"^\$\$\s*\n?(.*?)\s*\$\$$", re.S)
_RELATION = re.compile(r"(?:[=<>≤≥≠≈∈⊂≪≫→↦∼:]|\\(?:le|ge|ne|iff|to|approx|sim)\b)=?")
_LONG = 40
"""A piece of an inline formula of so many characters may be wider than a phone: it scrolls sideways there."""
_OPENING, _CLOSING = "([{", ")]}"
_NAME = re.compile(r"<mo>([A-Za-z]{2,}6?)</mo>")
_BAR = re.compile(r"<m[oi](?: stretchy=\"false\")?>(&#x0007C;|‖)</m[oi]>")
_THIN_SPACE = '<mspace width="0.17em"/>'
_FUNCTION = r"<mi>[A-Za-z]{2,}6?</mi>"
_APPLIED = re.compile(
    rf"((?<!<msub>)(?<!<msup>)(?<!<msubsup>){_FUNCTION}|<(msub|msup)>{_FUNCTION}<(m[in])>[^<]*</\3></\2>)"
    r"(?=<m(?:i|n|sub|sup|row|frac|sqrt)\b)"
)
_FACTOR = r"(?<!<msub>)(?<!<msup>)<m([in])>[^<]*</m\2>|</m(?:sub|sup|sqrt|frac|style)>|<mo[^>]*>&#x00029;</mo>"
_AFTER_A_FACTOR = re.compile(rf"({_FACTOR})(?=(?:<msub>)?{_FUNCTION})")
_PRIMED = re.compile(r"<msup>(<m([io])\b[^>]*>[^<]*</m\2>)<mi>(&#x0203[23];)</mi></msup>")
_SIGN_AS_LETTER = re.compile(r"<mi>([^\w\s<&∞∂])</mi>")
_BEFORE_A_NUMBER = r"<mo[^>]*>(?:&#x00028;|\[|&#x0007B;|&#x0002C;|&#x0003[CDE];|[≤≥∈])</mo>"
_SIGNED = re.compile(rf"({_BEFORE_A_NUMBER})<mo>(−|±|&#x02212;)</mo>")


def pieces(formula: str) -> list[str]:
    """The formula, cut in front of each relation outside brackets.

    `f(a = b) ≤ c ≤ d` becomes `f(a = b)`, `≤ c` and `≤ d`. A `{` that LaTeX shows is written `\\{`.
    """
    depth, place, cuts = 0, 0, [0]
    while place < len(formula):
        if formula[place : place + 2] in (r"\{", r"\}", r"\|"):
            depth += {"{": 1, "}": -1, "|": 0}[formula[place + 1]]
            place += 2
            continue
        relation = _RELATION.match(formula, place)
        if relation and depth == 0 and formula[:place].strip():
            cuts.append(place)
        depth += (formula[place] in _OPENING) - (formula[place] in _CLOSING)
        place = relation.end() if relation else place + 1
    return [formula[start:end].strip() for start, end in zip(cuts, [*cuts[1:], len(formula)], strict=True)]


def mathml(formula: str, display: str = "inline") -> str:
    """The formula as an element `<math>`, with what the converter leaves out.

    It takes signs in Unicode, such as ≤, for letters, and names of functions for signs. Bars get no space on their
    sides; a function gets one behind a factor and in front of an argument without brackets. A prime is a raised sign by
    itself; as an exponent browsers would raise and shrink it once more, and nobody would see it. A minus behind a
    bracket, a comma or a relation belongs to what follows, without a space.
    """
    shown = _SIGN_AS_LETTER.sub(r"<mo>\1</mo>", convert(formula, display=display))
    shown = _NAME.sub(r"<mi>\1</mi>", shown)
    shown = _BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', shown)
    shown = _PRIMED.sub(r'\1<mo lspace="0" rspace="0">\3</mo>', shown)
    shown = _SIGNED.sub(r'\1<mo form="prefix">\2</mo>', shown)
    shown = _AFTER_A_FACTOR.sub(rf"\1{_THIN_SPACE}", shown)
    return _APPLIED.sub(rf"\1{_THIN_SPACE}", shown)


class _Inline(InlineProcessor):
    """`$…$` inside a line; a formula may go on in the next line of its paragraph."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]
        formula = " ".join(m[1].split())
        shown = "<wbr>".join(
            mathml(piece) if len(piece) < _LONG else f'<span class="long">{mathml(piece)}</span>'
            for piece in pieces(formula)
        )
        return self.md.htmlStash.store(shown), m.start(0), m.end(0)


class _Display(BlockProcessor):
    """A paragraph `$$…$$`."""

    def test(self, parent: Element, block: str) -> bool:
        return _DISPLAY.match(block.strip()) is not None

    def run(self, parent: Element, blocks: list[str]) -> None:
        matched = _DISPLAY.match(blocks.pop(0).strip())
        assert matched is not None
        shown = mathml(" ".join(matched[1].split()), "block")
        paragraph = Element("p")
        parent.append(paragraph)
        paragraph.text = self.parser.md.htmlStash.store(f'<span class="formula">{shown}</span>')


class _Inside(Treeprocessor):
    """Links that leave `docs/` lead to files of the repository, which the site does not have: keep their text."""

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            if link.get("href", "").startswith("../"):
                link.tag = "span"
                del link.attrib["href"]


class _Elsewhere(Treeprocessor):
    """A second link behind each notebook's, which opens it in Colab, if the source is known to lie on GitHub."""

    def run(self, root: Element) -> None:
        source = re.match(r"https://github\.com/([^/]+/[^/]+?)(?:\.git|/)?$", os.environ.get("REPO_URL", ""))
        for parent in list(root.iter()) if source else []:
            for place, link in reversed(list(enumerate(parent))):
                if link.tag == "a" and link.get("href", "").startswith("notebooks/"):
                    where = f"https://colab.research.google.com/github/{source[1]}/blob/main/docs/{link.get('href')}"
                    second = Element("a", {"href": where, "class": "elsewhere"})
                    second.text, second.tail, link.tail = "open in Colab", link.tail, " "
                    parent.insert(place + 1, second)


class SiteExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # After code spans (190), whose dollars are shown as they are, and before escapes (180): LaTeX has backslashes.
        md.inlinePatterns.register(_Inline(_INLINE, md), "formula", 185)
        md.parser.blockprocessors.register(_Display(md.parser), "formula", 95)
        md.treeprocessors.register(_Inside(md), "inside", 5)
        md.treeprocessors.register(_Elsewhere(md), "elsewhere", 6)


def makeExtension(**options: Any) -> SiteExtension:
    """The name by which Markdown finds an extension in a module."""
    return SiteExtension(**options)
