"""Small faults in Python source, one at a time: every mutant of a file."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
COMPUTED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
# Called by these names, something else is called, or the call is left out and its receiver stays.
RENAMED = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "amax": "amin", "any": "all", "all": "any",
    "sum": "mean", "mean": "sum", "zeros_like": "ones_like", "new_zeros": "new_ones", "new_ones": "new_zeros",
    "zeros": "ones", "ones": "zeros", "floor": "ceil", "exp": "log", "log": "exp", "log1p": "log", "sqrt": "log1p",
}  # fmt: skip
LEFT_OUT = {"clamp_min", "clamp_max", "clamp", "detach", "double", "abs", "sort", "contiguous", "clone", "lower"}
# Keywords that change no result of these tests, or only how a progress bar looks.
KEPT = {"strict", "device", "dtype", "encoding", "check_invariants", "persistent", "desc", "unit", "leave"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What only changes a message, or what a reader of the code sees.
UNTOUCHED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass
class Mutant:
    """One fault. `parent.field` (at `place`, if that is a list) is to be replaced with `new`."""

    file: str
    function: str
    line: int
    text: str
    key: str
    lines: range
    chain: list[tuple[str, int]]  # the functions around it, outermost first: name and first line
    tree: ast.Module
    parent: ast.AST
    field: str
    place: int | None
    new: Any

    def compiled(self, filename: str) -> Any:
        """The module with the fault, as a code object; the tree is changed for good."""
        if self.place is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.place] = self.new
        return compile(ast.fix_missing_locations(self.tree), filename, "exec")


def mutants(file: Path, root: Path) -> list[Mutant]:
    """Every mutant of the functions of a file; what is declared outside of functions is not mutated."""
    name = str(file.relative_to(root))
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()
    for parent, field, place, old, new, functions, statement in _sites(tree, [], None):
        function = ".".join(part for part, _ in functions)
        text = f"{_short(old)} → {_short(new)}"
        seen[function, text] += 1
        if seen[function, text] > 1:
            text += f" #{seen[function, text]}"
        around = functions[-1][1]
        digest = hashlib.sha1(f"{name}:{function}:{text}:{ast.dump(around)}".encode()).hexdigest()[:16]
        chain = [(part, _first_line(node)) for part, node in functions if isinstance(node, FUNCTIONS)]
        new = ast.copy_location(new, old)
        found.append(
            Mutant(name, function, old.lineno, text, digest, _lines(statement), chain, tree, parent, field, place, new)
        )
    return found


def _sites(node: ast.AST, functions: list, statement: Any) -> Iterator[tuple]:
    """Places in a tree with what could stand there instead, and the functions and the statement around them."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or (isinstance(child, UNTOUCHED) and not functions):
                continue
            inside, at = functions, child if isinstance(child, ast.stmt) else statement
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                inside = [*functions, (child.name, child)]
            elif any(isinstance(part, FUNCTIONS) for _, part in functions) and not _is_text(child):
                for new in _instead(child):
                    yield node, field, place, child, new, functions, at
            kept = isinstance(child, ast.keyword) and child.arg in KEPT
            if not kept and not isinstance(child, UNTOUCHED) and not _logs(child):
                yield from _sites(child, inside, at)


def _instead(node: ast.AST) -> Iterator[ast.AST]:
    """What a fault could make of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in COMPARED[type(node.ops[0])]:
            yield ast.Compare(node.left, [operator()], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not isinstance(node.left, ast.JoinedStr):
        yield ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        yield ast.Constant(_other(node.value))
    elif isinstance(node, ast.Slice):
        for part in ("lower", "upper"):
            if getattr(node, part) is not None:
                changed = deepcopy(node)
                setattr(changed, part, None)
                yield changed
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(
        node.test, ast.Compare | ast.BoolOp | ast.UnaryOp
    ):
        yield type(node)(**{**dict(ast.iter_fields(node)), "test": ast.UnaryOp(ast.Not(), node.test)})
    elif isinstance(node, ast.Call):
        yield from _other_calls(node)
    elif isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Delete) or (
        isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    ):
        yield ast.Pass()
    elif isinstance(node, ast.Continue | ast.Break):
        yield ast.Break() if isinstance(node, ast.Continue) else ast.Continue()


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in RENAMED:
        changed = deepcopy(node)
        setattr(changed.func, "attr" if isinstance(function, ast.Attribute) else "id", RENAMED[name])
        yield changed
    if name in LEFT_OUT and isinstance(function, ast.Attribute):
        yield function.value
    for place, keyword in enumerate(node.keywords):
        if keyword.arg and keyword.arg not in KEPT:
            yield ast.Call(function, node.args, node.keywords[:place] + node.keywords[place + 1 :])


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value * 2 or 1.0


def _is_text(node: ast.AST) -> bool:
    """A docstring; likewise a statement with `super()`, without which the code does not fit its function any more."""
    if not isinstance(node, ast.Expr | ast.Assign):
        return False
    return (isinstance(node.value, ast.Constant) and isinstance(node, ast.Expr)) or "super()" in ast.unparse(node)


def _logs(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ("getLogger" in ast.unparse(node.func) or "logger" in ast.unparse(node.func))


def _short(node: ast.AST) -> str:
    """A node as one line: a statement with a body by its first."""
    return ast.unparse(node).split("\n")[0]


def _first_line(node: Any) -> int:
    """Where the interpreter says that a function begins: at its decorators."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _lines(statement: Any) -> range:
    """The lines of a statement, without those of its body."""
    body = getattr(statement, "body", None)
    last = max(statement.lineno, body[0].lineno - 1) if isinstance(body, list) else statement.end_lineno
    return range(statement.lineno, last + 1)
