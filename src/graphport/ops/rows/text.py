"""Tables of rows as text: heads, parameters, and the alternatives behind arrows.

A row begins at the margin; what is further in belongs to it. Lines that begin with `#` are remarks.

    word, other word(x, y=None, *, alpha: float = 1.0) -> guard: meaning
        -> meaning where no guard above holds
    word(x, y) -> a, b = names for what is computed first; guard: meaning
    word(x, y) <-> Operator(x, y)        read in both directions
    opset1.Sin, opset1.Cos(x) -> _(x)    the operator that is called as the word
    word, word -> other word             with all that it is given; `_` is a word of the same name
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ARROW = "->"
BOTH = "<->"
"""The arrow of a row that is read in both directions."""
_WORD = re.compile(r"[A-Za-z_][\w.:\-]*")
_KINDS = ("float", "number", "any", "ignored")

Kind = Literal["float", "number", "any", "ignored"]
"""What a parameter is: a float or any number, also where a constant tensor has it; anything; of no account."""


class RowError(ValueError):
    """A row is malformed, or does not fit the operators that it names."""

    def __init__(self, row: str, message: str, at: int = 0) -> None:
        """A fault at place `at` of the text of a row."""
        super().__init__(f"{message}\n    {row}\n    {' ' * at}^")


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a row takes under a name."""

    name: str
    kind: Kind = "any"
    default: Any = None
    is_required: bool = True
    is_keyword: bool = False
    is_variadic: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A meaning, and when it holds; `None` for always. The numbers are places in the text of the row."""

    guard: tuple[int, str] | None
    meaning: tuple[int, str]
    bindings: tuple[tuple[int, str], ...] = ()
    """What is given names before the guard is asked."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its text in one line, the words in front of the parameters, and what is behind each arrow."""

    text: str
    words: tuple[str, ...]
    parameters: tuple[int, str] | None
    alternatives: tuple[Alternative, ...]
    is_both: bool = False
    """Whether it is read in both directions."""


def rows(table: str) -> Iterator[Row]:
    """The rows of a table.

    Raises:
        RowError: one has no word, no arrow, or nothing behind an arrow.
    """
    whole: list[str] = []
    for line in table.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if whole and not line[0].isspace():
            yield row_of(" ".join(whole))
            whole = []
        whole.append(line.strip())
    if whole:
        yield row_of(" ".join(whole))


def row_of(text: str) -> Row:
    """A row that is given in one line.

    Raises:
        RowError: as `rows`.
    """
    marks = list(_outer(text))
    arrows = [each for each in marks if each[2] == BOTH] or [each for each in marks if each[2] == ARROW]
    if not arrows:
        raise RowError(text, f"there is no {ARROW} behind the word", len(text))
    words, opened, rest = text[: arrows[0][0]].partition("(")
    names = tuple(word.strip() for word in words.split(","))
    for name in names:
        if not _WORD.fullmatch(name):
            raise RowError(text, f"{name!r} is no word", max(text.find(name), 0))
    if opened and not rest.rstrip().endswith(")"):
        raise RowError(text, "the parameters are not closed", len(text[: arrows[0][0]].rstrip()))
    parameters = (len(words) + 1, rest.rstrip()[:-1]) if opened else None
    ends = [each[0] for each in arrows[1:]] + [len(text)]
    spans = [(begin, end) for (_, begin, _), end in zip(arrows, ends, strict=True)]
    alternatives = tuple(_alternative(text, *span, marks) for span in spans)
    is_both = arrows[0][2] == BOTH
    if is_both and (len(arrows) > 1 or alternatives[0].guard or alternatives[0].bindings):
        raise RowError(text, f"a row that is read in both directions has one {BOTH} and no guard", spans[0][0])
    return Row(text, names, parameters, alternatives, is_both)


_SAME = re.compile(r"(?<![\w.])_(?=\()")


def of_each_word(row: Row) -> Iterator[Row]:
    """The row; where `_` stands in it for what is called as the word, one for each of its words."""
    if row.parameters is None and row.alternatives[0].meaning[1] == "_":
        yield from (row_of(f"{word} {ARROW} {word}") for word in row.words)
        return
    if "_(" not in row.text or not _SAME.search(row.text):
        yield row
        return
    opened = row.text.find("(") if row.parameters is not None else row.text.find(ARROW)
    for word in row.words:
        rest = _SAME.sub(word.rpartition(".")[2], row.text[opened:])
        yield row_of(f"{word}{'' if row.parameters is not None else ' '}{rest}")


def operator_of(row: Row) -> str:
    """The operator that stands behind the first arrow."""
    return row.alternatives[0].meaning[1].partition("(")[0]


def alias_of(row: Row) -> str:
    """The word that stands behind the arrow of a row without parameters, as which its own are read; or nothing."""
    first = row.alternatives[0]
    is_alias = row.parameters is None and len(row.alternatives) == 1 and first.guard is None and not first.bindings
    return first.meaning[1] if is_alias and _WORD.fullmatch(first.meaning[1]) else ""


def _alternative(text: str, begin: int, end: int, marks: Sequence[Mark]) -> Alternative:
    """What is between two arrows: bindings, a guard, and the meaning."""
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
        raise RowError(text, "a second guard", inside[1][0])
    at, behind, mark = inside[0]
    return Alternative(_stripped(text, begin, at), _meaning(text, mark, behind, end, begin), tuple(bindings))


def _meaning(text: str, mark: str, begin: int, end: int, start: int) -> tuple[int, str]:
    found = _stripped(text, begin, end)
    if not found[1]:
        raise RowError(text, f"nothing is behind the {mark}", _stripped(text, start, end)[0])
    return found


def _stripped(text: str, begin: int, end: int) -> tuple[int, str]:
    """What is between two places, and where it begins."""
    part = text[begin:end]
    return begin + len(part) - len(part.lstrip()), part.strip()


_MARKS = re.compile(r"""'[^']*'|"[^"]*"|[(\[]|[)\]]|<->|->|:=|::|:|;""")
_DEPTHS = {"(": 1, "[": 1, ")": -1, "]": -1}
_OUTER = frozenset((BOTH, ARROW, ":", ";"))
Mark: TypeAlias = "tuple[int, int, str]"
"""Where a mark begins and ends, and the mark."""


def _outer(text: str) -> Iterator[Mark]:
    """The marks outside of brackets and quotes; `:=` and `::` are none."""
    depth = 0
    for match in _MARKS.finditer(text):
        depth += _DEPTHS.get(match[0], 0)
        if not depth and match[0] in _OUTER:
            yield match.start(), match.end(), match[0]


def parameters(row: Row) -> tuple[Parameter, ...]:
    """The parameters of a row: positional ones, then, behind `*`, those that have no place.

    A default that is a number says that the parameter is one.

    Raises:
        RowError: they are no list of parameters, or one has a kind or default that there is not.
    """
    if row.parameters is None:
        return ()
    begin, text = row.parameters
    prefix = "def f("
    try:
        (parsed,) = ast.parse(f"{prefix}{text}): pass").body
    except (SyntaxError, ValueError) as error:
        offset = getattr(error, "offset", None) or len(prefix)
        raise RowError(row.text, "these are no parameters", begin + max(offset - 1 - len(prefix), 0)) from error
    if not isinstance(parsed, ast.FunctionDef) or parsed.args.kwarg is not None or parsed.args.posonlyargs:
        raise RowError(row.text, "these are no parameters", begin)
    given = parsed.args
    absent: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    pairs = [(each, default, False) for each, default in zip(given.args, [*absent, *given.defaults], strict=True)]
    pairs += [(each, default, True) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    found = [_parameter(row, begin - len(prefix), *pair) for pair in pairs]
    if given.vararg is not None:
        positional = len(given.args)
        found.insert(positional, Parameter(given.vararg.arg, is_required=False, is_variadic=True))
    return tuple(found)


def _parameter(row: Row, begin: int, argument: ast.arg, default: ast.expr | None, is_keyword: bool) -> Parameter:
    kind: Any = None if argument.annotation is None else ast.unparse(argument.annotation)
    if kind is not None and kind not in _KINDS:
        at = begin + argument.col_offset
        raise RowError(row.text, f"{kind} is no kind of parameter: {', '.join(_KINDS)}", at)
    if default is None:
        return Parameter(argument.arg, kind or "any", is_keyword=is_keyword)
    try:
        value = _literal(default)
    except ValueError as error:
        raise RowError(row.text, f"the default of {argument.arg} is no literal", begin + default.col_offset) from error
    if kind is None:
        kind = "float" if isinstance(value, float) else "number" if isinstance(value, int) else "any"
    return Parameter(argument.arg, kind, value, is_required=False, is_keyword=is_keyword)


def _literal(node: ast.expr) -> Any:
    """A literal, or a quotient of two numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return ast.literal_eval(node.left) / ast.literal_eval(node.right)
    return ast.literal_eval(node)
