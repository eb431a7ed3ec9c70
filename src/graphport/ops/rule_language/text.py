"""The parser of rule tables: op types, parameters, and the alternatives after arrows.

A row begins in the first column; indented lines continue it. Lines that begin with `#` are comments.

    op_type, another(x, y=None, *, alpha: float = 1.0) -> guard: meaning
        -> meaning if no guard above is true
    op_type(x, y) -> a, b = bound names; guard: meaning
    op_type(x, y) <-> Operator(x, y)     valid in both directions
    opset1.Sin, opset1.Cos(x) -> _(x)    `_` is the operator with the name of the op type
    op_type, op_type -> other op_type    an alias with unchanged arguments
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ARROW = "->"
TWO_WAY_ARROW = "<->"
"""The arrow of a row that is valid in both directions."""
_WORD = re.compile(r"[A-Za-z_][\w.:\-]*")
_KINDS = ("float", "number", "any", "ignored")

Kind = Literal["float", "number", "any", "ignored"]
"""The kind of a parameter: a float or any number, possibly as a constant tensor; any value; or ignored."""


class RuleError(ValueError):
    """A row is malformed or does not match the operators that it names."""

    def __init__(self, row: str, message: str, at: int = 0) -> None:
        """Create an error at position `at` of the text of a row."""
        super().__init__(f"{message}\n    {row}\n    {' ' * at}^")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a row."""

    name: str
    kind: Kind = "any"
    default: Any = None
    is_required: bool = True
    is_keyword: bool = False
    is_variadic: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative with its guard (`None` means always). The integers are positions in the text of the row."""

    guard: tuple[int, str] | None
    meaning: tuple[int, str]
    bindings: tuple[tuple[int, str], ...] = ()
    """Assignments evaluated before the guard."""


@dataclass(frozen=True, slots=True)
class ParsedRule:
    """A row: its text in one line, its op types, and the alternatives after its arrows."""

    text: str
    op_types: tuple[str, ...]
    parameters: tuple[int, str] | None
    alternatives: tuple[Alternative, ...]
    is_both: bool = False
    """Whether the row is valid in both directions."""


def parse_rules(table: str) -> Iterator[ParsedRule]:
    """Parse the rows of a table.

    Raises:
        RowError: a row has no op type, no arrow, or an empty alternative.
    """
    whole: list[str] = []
    for line in table.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if whole and not line[0].isspace():
            yield parse_rule(" ".join(whole))
            whole = []
        whole.append(line.strip())
    if whole:
        yield parse_rule(" ".join(whole))


def parse_rule(text: str) -> ParsedRule:
    """Parse a single row.

    Raises:
        RowError: as `rows`.
    """
    marks = list(_outer(text))
    arrows = [each for each in marks if each[2] == TWO_WAY_ARROW] or [each for each in marks if each[2] == ARROW]
    if not arrows:
        raise RuleError(text, f"expected {ARROW} after the op type", len(text))
    words, opened, rest = text[: arrows[0][0]].partition("(")
    names = tuple(op_type.strip() for op_type in words.split(","))
    for name in names:
        if not _WORD.fullmatch(name):
            raise RuleError(text, f"{name!r} is not an op type", max(text.find(name), 0))
    if opened and not rest.rstrip().endswith(")"):
        raise RuleError(text, "the parameter list has no closing parenthesis", len(text[: arrows[0][0]].rstrip()))
    parameters = (len(words) + 1, rest.rstrip()[:-1]) if opened else None
    ends = [each[0] for each in arrows[1:]] + [len(text)]
    spans = [(begin, end) for (_, begin, _), end in zip(arrows, ends, strict=True)]
    alternatives = tuple(_alternative(text, *span, marks) for span in spans)
    is_both = arrows[0][2] == TWO_WAY_ARROW
    if is_both and (len(arrows) > 1 or alternatives[0].guard or alternatives[0].bindings):
        raise RuleError(
            text, f"a row that is read in both directions has one {TWO_WAY_ARROW} and no guard", spans[0][0]
        )
    return ParsedRule(text, names, parameters, alternatives, is_both)


_SAME = re.compile(r"(?<![\w.])_(?=\()")


def expand_op_types(row: ParsedRule) -> Iterator[ParsedRule]:
    """Expand `_` to the name of each op type: return one row per op type, or the row itself if it contains no `_`."""
    if row.parameters is None and row.alternatives[0].meaning[1] == "_":
        yield from (parse_rule(f"{op_type} {ARROW} {op_type}") for op_type in row.op_types)
        return
    if "_(" not in row.text or not _SAME.search(row.text):
        yield row
        return
    opened = row.text.find("(") if row.parameters is not None else row.text.find(ARROW)
    for op_type in row.op_types:
        rest = _SAME.sub(op_type.rpartition(".")[2], row.text[opened:])
        yield parse_rule(f"{op_type}{'' if row.parameters is not None else ' '}{rest}")


def operator_of(row: ParsedRule) -> str:
    """Return the operator after the first arrow."""
    return row.alternatives[0].meaning[1].partition("(")[0]


def alias_of(row: ParsedRule) -> str:
    """Return the op type that a row without parameters is an alias of; empty if it is not an alias."""
    first = row.alternatives[0]
    is_alias = row.parameters is None and len(row.alternatives) == 1 and first.guard is None and not first.bindings
    return first.meaning[1] if is_alias and _WORD.fullmatch(first.meaning[1]) else ""


def _alternative(text: str, begin: int, end: int, marks: Sequence[Mark]) -> Alternative:
    """Parse the text between two arrows: bindings, a guard, and the expression."""
    inside = [each for each in marks if begin <= each[0] < end and each[2] in (";", ":")]
    bindings: list[tuple[int, str]] = []
    while inside and any(each[2] == ";" for each in inside):
        at, behind, mark = inside.pop(0)
        if mark == ";":
            bindings.append(_stripped(text, begin, at))
            begin = behind
    if not inside:
        return Alternative(None, _meaning(text, ARROW, begin, end, begin), tuple(bindings))
    if len(inside) > 1:
        raise RuleError(text, "a second guard, expected at most one", inside[1][0])
    at, behind, mark = inside[0]
    return Alternative(_stripped(text, begin, at), _meaning(text, mark, behind, end, begin), tuple(bindings))


def _meaning(text: str, mark: str, begin: int, end: int, start: int) -> tuple[int, str]:
    found = _stripped(text, begin, end)
    if not found[1]:
        raise RuleError(text, f"expected text after the {mark}", _stripped(text, start, end)[0])
    return found


def _stripped(text: str, begin: int, end: int) -> tuple[int, str]:
    """Strip the text between two positions. Return it with its start."""
    part = text[begin:end]
    return begin + len(part) - len(part.lstrip()), part.strip()


_MARKS = re.compile(r"""'[^']*'|"[^"]*"|[(\[]|[)\]]|<->|->|:=|::|:|;""")
_DEPTHS = {"(": 1, "[": 1, ")": -1, "]": -1}
_OUTER = frozenset((TWO_WAY_ARROW, ARROW, ":", ";"))
Mark: TypeAlias = "tuple[int, int, str]"
"""The start, the end and the text of a separator."""


def _outer(text: str) -> Iterator[Mark]:
    """Yield the separators outside of brackets and quotes; `:=` and `::` are not separators."""
    depth = 0
    for match in _MARKS.finditer(text):
        depth += _DEPTHS.get(match[0], 0)
        if not depth and match[0] in _OUTER:
            yield match.start(), match.end(), match[0]


def parameters(row: ParsedRule) -> tuple[Parameter, ...]:
    """Parse the parameters of a row: positional ones, then keyword-only ones after `*`.

    A number as default declares a number parameter.

    Raises:
        RowError: it is not a parameter list, or a kind or default is unknown.
    """
    if row.parameters is None:
        return ()
    begin, text = row.parameters
    prefix = "def f("
    try:
        (parsed,) = ast.parse(f"{prefix}{text}): pass").body
    except (SyntaxError, ValueError) as error:
        offset = getattr(error, "offset", None) or len(prefix)
        raise RuleError(row.text, "invalid parameter list", begin + max(offset - 1 - len(prefix), 0)) from error
    if not isinstance(parsed, ast.FunctionDef) or parsed.args.kwarg is not None or parsed.args.posonlyargs:
        raise RuleError(row.text, "invalid parameter list", begin)
    given = parsed.args
    absent: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    pairs = [(each, default, False) for each, default in zip(given.args, [*absent, *given.defaults], strict=True)]
    pairs += [(each, default, True) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    found = [_parameter(row, begin - len(prefix), *pair) for pair in pairs]
    if given.vararg is not None:
        positional = len(given.args)
        found.insert(positional, Parameter(given.vararg.arg, is_required=False, is_variadic=True))
    return tuple(found)


def _parameter(row: ParsedRule, begin: int, argument: ast.arg, default: ast.expr | None, is_keyword: bool) -> Parameter:
    kind: Any = None if argument.annotation is None else ast.unparse(argument.annotation)
    if kind is not None and kind not in _KINDS:
        at = begin + argument.col_offset
        raise RuleError(row.text, f"{kind} is not a kind of parameter, expected {', '.join(_KINDS)}", at)
    if default is None:
        return Parameter(argument.arg, kind or "any", is_keyword=is_keyword)
    try:
        value = _literal(default)
    except ValueError as error:
        raise RuleError(
            row.text, f"the default of {argument.arg} is not a literal", begin + default.col_offset
        ) from error
    if kind is None:
        kind = "float" if isinstance(value, float) else "number" if isinstance(value, int) else "any"
    return Parameter(argument.arg, kind, value, is_required=False, is_keyword=is_keyword)


def _literal(node: ast.expr) -> Any:
    """Evaluate a literal or a quotient of two literals."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return ast.literal_eval(node.left) / ast.literal_eval(node.right)
    return ast.literal_eval(node)
