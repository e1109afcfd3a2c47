"""How results of the theory are written: numbers that no float holds, in words, in HTML and in LaTeX.

Theorem 2's δ has millions of digits, so numbers come as decimal logarithms: `power_of_ten(-4675103.2)` is
`10^-4,675,103`. `as_html` raises the exponents for notebooks, and `as_latex` writes the same rows as a `tabular` that
needs no package, with formulas between dollar signs.
"""

from __future__ import annotations

import math
import re

from monolayer.table import Tabular, raised, visible
from monolayer.table import as_html as html_of_rows

LAST_MANTISSA = 1e4
"""Exponents up to here get a leading factor; beyond, it would say nothing: `10^-31,417`."""
LAST_EXPONENT = 1e9
"""Exponents up to here are written out; beyond, as a power of ten themselves: `10^(-2.5·10^17)`."""

_FORMULAS = {
    r"(?:\d[\d.,]*·)?10\^(?:\([^()]*\)|-?[\d.,]*\d)": "a power of ten",
    r"\{[-\d., …]*\}·v|v = \([-\d., …e+]*\)": "a sequence, as multiples of a vector",
    r"r_min|r_max|vᵀ|\|V\||X'|\b[NVXndv]\b": "names of the paper",
    r"(?<!\w)-\d[\d.,]*": "a negative number",
    r"[αβγδεηκλπρσ≠≤≥·−…]": "a single sign",
}
_FORMULA = re.compile("|".join(_FORMULAS))
_SIGNS = {
    **{"α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon", "η": r"\eta"},
    **{"κ": r"\kappa", "λ": r"\lambda", "π": r"\pi", "ρ": r"\rho", "σ": r"\sigma"},
    **{"≠": r"\neq ", "≤": r"\leq ", "≥": r"\geq ", "·": r" \cdot ", "−": "-", "…": r"\dots "},
    **{"r_min": r"r_{\min}", "r_max": r"r_{\max}", "vᵀ": r"v^\top", "{": r"\{", "}": r"\}"},
}
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_SPECIAL = {
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " "},
}


def power_of_ten(log10: float, digits: int = 3) -> str:
    """`10^log10` as people write it: `0`, `0.0503`, `987,000`, `7.05·10^-986`, `10^-4,675,103`, `10^(-2.5·10^17)`."""
    if math.isinf(log10):
        return "0" if log10 < 0 else "∞"
    if -3 <= log10 < 6:
        value = float(f"{10.0**log10:.{digits}g}")
        return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:g}"
    if abs(log10) < LAST_MANTISSA:
        whole = math.floor(log10)
        factor = f"{10.0 ** (log10 - whole):.{digits - 1}f}"
        if float(factor) >= 10:  # 9.999 was rounded up
            whole, factor = whole + 1, f"{1:.{digits - 1}f}"
        return f"10^{whole:,}" if float(factor) == 1 else f"{factor}·10^{whole:,}"
    if abs(log10) < LAST_EXPONENT:
        return f"10^{round(log10):,}"
    return f"10^({'-' if log10 < 0 else ''}{power_of_ten(math.log10(abs(log10)), digits)})"


def enclosed(low: float, high: float) -> str:
    """A number between `10^low` and `10^high`; one number where both ends are written alike."""
    least, most = power_of_ten(low), power_of_ten(high)
    if high == math.inf:
        return f"at least {least}"
    return least if least == most else f"between {least} and {most}"


def bytes_of_bits(bits: int) -> str:
    """The memory that so many bits take, such as `1.94 MB`."""
    size, units = bits / 8, ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}" if size < 1000 else f"{size:,.0f} {units[0]}"


def as_html(result: Tabular) -> str:
    """The `_repr_html_` of a result of the theory: its table, with exponents raised."""
    return raised(html_of_rows(result))


def as_latex(result: Tabular) -> str:
    """The rows of a result as a LaTeX `tabular`, to paste into a paper. It needs no package."""
    rows = result.rows()
    lines = [" & ".join(latex(cell) for cell in row) + r" \\" for row in rows]
    # The last column may hold sentences: it is wrapped.
    columns = "l" * (len(rows[0]) - 1) + r"p{0.6\linewidth}"
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", r"\hline", *lines, r"\hline", r"\end{tabular}"])


def latex(text: str) -> str:
    """Text for LaTeX: formulas between dollar signs, and what LaTeX would obey escaped."""
    text, parts, end = visible(text), [], 0
    for formula in _FORMULA.finditer(text):
        parts += [_escaped(text[end : formula.start()]), f"${_formula(formula[0])}$"]
        end = formula.end()
    return "".join([*parts, _escaped(text[end:])])


def _formula(text: str) -> str:
    base, power, exponent = text.partition("10^")
    if power:
        inner = exponent.removeprefix("(").removesuffix(")")
        return f"{_signs(base)}10^{{{_formula(inner)}}}"
    return _signs(text)


def _signs(text: str) -> str:
    """Signs as LaTeX names them; a comma between digits gets no space behind it."""
    named = _SIGN.sub(lambda sign: _SIGNS[sign[0]], text)
    return re.sub(r"(?<=\d),(?=\d)", "{,}", named)


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(sign, sign) for sign in text)
