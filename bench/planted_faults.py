"""Faults that can be planted in Python source, one at a time: an AST walk over every place that arithmetic depends on.

A fault replaces one node of a module's tree. What is planted: constants halved, doubled, or one more or less; `abs`
dropped; `max` and `min`, `any` and `all`, `and` and `or`, `&` and `|` for each other, or one of their operands dropped;
terms, factors and divisors dropped; comparisons turned round, shifted at their boundary, or forced either way; `not`
and `~` dropped; conditions forced either way; branches of `np.where` and conditional expressions made equal; `raise`,
`return` in front of the end, updates in place and calls for their own sake dropped. Not planted is what NumPy takes
for the same, `reshape(-2)` for `reshape(-1)`, nor anything in an `assert`, which tells the type checker what holds.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDEST = 110
"""Characters of source that describe a fault."""
PAIRS = {"max": "min", "maximum": "minimum", "any": "all", "fmax": "fmin", "argmax": "argmin", "floor": "ceil"}
OTHER = PAIRS | {new: old for old, new in PAIRS.items()}
SHIFTED: dict[type[ast.cmpop], tuple[str, type[ast.cmpop]]] = {
    ast.Lt: ("boundary", ast.LtE), ast.LtE: ("boundary", ast.Lt),
    ast.Gt: ("boundary", ast.GtE), ast.GtE: ("boundary", ast.Gt),
    ast.Eq: ("comparison", ast.NotEq), ast.NotEq: ("comparison", ast.Eq),
    ast.In: ("comparison", ast.NotIn), ast.NotIn: ("comparison", ast.In),
}  # fmt: skip
"""By comparison, the kind of its fault and what it becomes. A boundary differs only where both sides are equal."""
CHOSEN = (ast.BitAnd, ast.BitOr)
PASSED = (ast.keyword, ast.comprehension)
DROPPED = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow, ast.LShift, *CHOSEN)


@dataclass(frozen=True, eq=False)
class Fault:
    """One node of the tree of `file` that another takes the place of.

    `function`: the outermost function around it, as `Class.method`; empty for a module's own statements, of which
    `name` is then assigned to.
    """

    file: str
    function: str
    name: str
    line: int
    kind: str
    before: str
    after: str
    owner: ast.AST
    field: str
    index: int | None
    new: ast.AST

    @property
    def key(self) -> str:
        return f"{self.file} {self.function or self.name}: {self.kind}: {self.before} → {self.after}"

    def plant(self) -> None:
        """Put it into the tree."""
        _put(self.owner, self.field, self.index, self.new)


def _put(owner: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[index] = node


def faults(tree: ast.Module, file: str) -> list[Fault]:
    """All of them, in order of the source."""
    seen: Counter[str] = Counter()
    found = []
    for fault in _walk(tree, file):
        seen[fault.key] += 1
        again = seen[fault.key]
        found.append(fault if again == 1 else _numbered(fault, again))
    return found


def _numbered(fault: Fault, number: int) -> Fault:
    values = {**vars(fault), "kind": f"{fault.kind} {number}"}
    return Fault(**values)


def _walk(tree: ast.Module, file: str) -> Iterator[Fault]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield from _inside(statement, file, statement.name, "")
        elif isinstance(statement, ast.ClassDef):
            for member in statement.body:
                if isinstance(member, ast.FunctionDef):
                    yield from _inside(member, file, f"{statement.name}.{member.name}", "")
        elif assigned(statement) is not None:
            yield from _below(statement, [], file, "", ast.unparse(assigned(statement)))


def assigned(statement: ast.stmt) -> Any:
    """What a module's own statement assigns to; None if it does not."""
    if isinstance(statement, ast.Assign):
        return statement.targets[0]
    return statement.target if isinstance(statement, ast.AnnAssign) and statement.value is not None else None


def _inside(function: ast.FunctionDef, file: str, name: str, target: str) -> Iterator[Fault]:
    for number, statement in enumerate(function.body):
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield from _node(statement, [], (function, "body", number), file, name, target)


Place = tuple[ast.AST, str, int | None]


def _node(node: ast.AST, above: list[ast.AST], place: Place, file: str, function: str, name: str) -> Iterator[Fault]:
    """Faults at a node and below it; `above`: expressions around it, the outermost first."""
    for kind, new in _variants(node, place):
        if _any_length(node, new, above):
            continue
        around = _around([*above, node])
        before = ast.unparse(around)
        _put(*place, new)
        after = ast.unparse(new if around is node else around)
        _put(*place, node)
        line = getattr(node, "lineno", 0)
        yield Fault(file, function, name, line, kind, _short(before), _short(after), *place, new)
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    yield from _below(node, above, file, function, name)


def _below(node: ast.AST, above: list[ast.AST], file: str, function: str, name: str) -> Iterator[Fault]:
    inner = [*above, node] if isinstance(node, ast.expr) else above if isinstance(node, PASSED) else []
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context | ast.operator | ast.cmpop):
                yield from _node(child, inner, (node, field, index), file, function, name)


def _around(chain: list[ast.AST]) -> ast.AST:
    """The widest expression around a node whose source is still short."""
    best = chain[-1]
    for node in reversed(chain):
        if not isinstance(node, ast.expr) or len(ast.unparse(node)) > WIDEST:
            break
        best = node
    return best


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _any_length(node: ast.AST, new: ast.AST, above: list[ast.AST]) -> bool:
    """Whether `-1` becomes `-2` in the shape that an array gets: to NumPy both are the length to be found."""
    minus = above and isinstance(above[-1], ast.UnaryOp) and isinstance(above[-1].op, ast.USub)
    if not (minus and isinstance(node, ast.Constant) and node.value == 1 and getattr(new, "value", None) == 2):
        return False
    call = next((one for one in reversed(above[:-1]) if isinstance(one, ast.Call)), None)
    return call is not None and isinstance(call.func, ast.Attribute) and call.func.attr == "reshape"


def _variants(node: ast.AST, place: Place) -> Iterator[tuple[str, ast.AST]]:
    """Kinds of faults at one node, and what takes its place."""
    if isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, DROPPED):
        yield from _operands(node)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", ast.BoolOp(other, node.values)
        for i in range(len(node.values)):
            left = [value for number, value in enumerate(node.values) if number != i]
            yield "operand dropped", left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in SHIFTED:
                kind, other = SHIFTED[type(op)]
                ops = [other() if number == i else old for number, old in enumerate(node.ops)]
                yield kind, ast.Compare(node.left, ops, node.comparators)
        yield from _forced(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield "negation dropped", node.operand
    elif isinstance(node, ast.IfExp):
        yield "branch", node.body
        yield "branch", node.orelse
    elif isinstance(node, ast.Raise):
        yield "raise dropped", ast.Pass()
    elif isinstance(node, ast.AugAssign):
        yield "update dropped", ast.Pass()
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call dropped", ast.Pass()
    elif isinstance(node, ast.If) and not isinstance(node.test, ast.Compare | ast.BoolOp):
        for value in (True, False):
            yield "condition", ast.If(ast.Constant(value), node.body, node.orelse)


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value - 1)
        yield "constant", ast.Constant(value + 1)
    elif isinstance(value, float):
        if value:
            yield "constant", ast.Constant(value / 2.0)
        yield "constant", ast.Constant(value * 2.0 if value else 1.0)


def _forced(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """True or false whatever it is, of the same shape."""
    yield "forced true", ast.BinOp(node, ast.BitOr(), ast.Constant(True))
    yield "forced false", ast.BinOp(node, ast.BitAnd(), ast.Constant(False))


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    numpy = isinstance(node.func, ast.Name) or (
        isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    )
    if called in ("abs", "nextafter", "sqrt") and node.args:
        yield f"{called} dropped", node.args[0]
    if called in OTHER:
        func: Any = node.func
        new = ast.Name(OTHER[called], ast.Load())
        if isinstance(func, ast.Attribute):
            new = ast.Attribute(func.value, OTHER[called], ast.Load())  # type: ignore[assignment]
        yield f"{called}/{OTHER[called]}", ast.Call(new, node.args, node.keywords)
        if called in ("max", "min", "maximum", "minimum") and numpy and len(node.args) > 1:
            yield from _arguments(node)
    if called == "where" and len(node.args) == 3:
        for kept in node.args[1:]:
            yield "branch", ast.Call(node.func, [node.args[0], kept, kept], node.keywords)


def _arguments(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    for i in range(len(node.args)):
        left = [arg for number, arg in enumerate(node.args) if number != i]
        if len(left) == 1 and not isinstance(left[0], ast.Starred):
            yield "argument dropped", left[0]
        elif len(left) > 1:
            yield "argument dropped", ast.Call(node.func, left, node.keywords)


def _operands(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    if any(isinstance(side, ast.JoinedStr) or _text(side) for side in (node.left, node.right)):
        return
    yield "operand dropped", node.left
    if isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
        yield "operand dropped", node.right
    if isinstance(node.op, CHOSEN):
        yield (
            "and/or",
            ast.BinOp(node.left, ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd(), node.right),
        )
    if isinstance(node.op, ast.Sub):
        yield "sign", ast.BinOp(node.left, ast.Add(), node.right)


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def modules(root: Path) -> dict[str, ast.Module]:
    """Trees of all modules below `root`, by their paths in it."""
    paths = sorted(path for path in root.rglob("*.py") if path.name != "__init__.py")
    return {path.relative_to(root).as_posix(): ast.parse(path.read_text()) for path in paths}


def spans(tree: ast.Module) -> dict[int, range]:
    """By line, the lines of the smallest statement that it belongs to; of a statement with others inside, its head.

    Of what stands on several lines, only some are seen when it is executed.
    """
    found: dict[int, range] = {}
    for node in ast.walk(tree):  # a statement comes before those inside it
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            end = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or node.lineno
            found.update(dict.fromkeys(range(node.lineno, end + 1), range(node.lineno, end + 1)))
    return found
