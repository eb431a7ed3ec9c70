"""The syntax tree of NNEF documents, one for both editions.

Nodes are compared by content, without locations, comments and source. They are not modified after parsing. Trees may be
nested as deep as the text, so functions here do not use Python recursion.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

from graphport.core.diagnostics import Span
from graphport.formats.nnef.container.lexer import Comment, comments, string_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Source


class Edition(StrEnum):
    """The two languages: NNEF 1.0 provisional, and 1.0 to 1.0.5 final."""

    PROVISIONAL = "provisional"
    FINAL = "final"


class Node:
    """Part of a tree; code points `start` to `stop` of the document's text are its place."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    __hash__ = None  # pyright: ignore[reportAssignmentType]  equal by content, and the content is lists of nodes
    start: int
    stop: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and _equal(self, other)

    def __repr__(self) -> str:
        shown = (
            f"{name}={value!r}" for name, value in _contents(self) if value is None or isinstance(value, str | bool)
        )
        return f"{type(self).__name__}({', '.join(shown)})"


_POSITIONS = frozenset({"start", "stop", "source", "unread", "is_flat", "group", "is_spaced"})


def _contents(node: Node) -> Iterator[tuple[str, object]]:
    return ((name, getattr(node, name)) for name in type(node).__match_args__ if name not in _POSITIONS)


def _equal(left: Node, right: Node) -> bool:
    waiting: list[tuple[object, object]] = [(left, right)]
    while waiting:
        a, b = waiting.pop()
        if type(a) is not type(b) and not (isinstance(a, Call) and isinstance(b, Call)):
            return False
        if isinstance(a, Node) and isinstance(b, Node):
            waiting += [(x, y) for (_, x), (_, y) in zip(_contents(a), _contents(b), strict=True)]
        elif isinstance(a, tuple) and isinstance(b, tuple):
            pair = cast("tuple[object, ...]", a), cast("tuple[object, ...]", b)
            if len(pair[0]) != len(pair[1]):
                return False
            waiting += zip(*pair, strict=True)
        elif a != b:
            return False
    return True


# ── expressions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, eq=False, repr=False)
class Name(Node):
    """An identifier, used or declared."""

    text: str
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Number(Node):
    """A numeric literal without sign, exactly as written."""

    text: str
    start: int = 0
    stop: int = 0

    @property
    def is_integer(self) -> bool:
        """Whether it has neither fraction nor exponent."""
        return self.text.isdigit()

    @property
    def value(self) -> int | float:
        """The number it denotes."""
        return int(self.text) if self.text.isdigit() else float(self.text)


@dataclass(slots=True, eq=False, repr=False)
class String(Node):
    """A string literal exactly as written, quotes and escapes included."""

    text: str
    start: int = 0
    stop: int = 0

    @property
    def value(self) -> str:
        """The characters it denotes."""
        return string_value(self.text)


@dataclass(slots=True, eq=False, repr=False)
class Logical(Node):
    """`true` or `false`."""

    value: bool
    start: int = 0
    stop: int = 0


class Array(Node):
    """`[a, b]`, as a value or on the left of an assignment.

    Equal arrays of one text share the items of the first, which is `shift` code points earlier; `shared` is that tuple,
    so that properties of one array are known for all.
    """

    __slots__ = ("shared", "shift", "start", "stop")
    __match_args__ = ("items", "start", "stop")

    def __init__(self, items: tuple[Expression, ...], start: int = 0, stop: int = 0, shift: int = 0) -> None:
        self.shared = items
        self.start = start
        self.stop = stop
        self.shift = shift

    @property
    def items(self) -> tuple[Expression, ...]:
        """The items between the brackets, each with its own location."""
        return _moved(self.shared, self.shift) if self.shift else self.shared


def _moved(items: tuple[Expression, ...], by: int) -> tuple[Expression, ...]:
    """Copies of the items of a flat array, `by` code points further on."""
    moved: list[Expression] = []
    for item in items:
        start, stop = item.start + by, item.stop + by
        match item:
            case Number():
                moved.append(Number(item.text, start, stop))
            case Name():
                moved.append(Name(item.text, start, stop))
            case Logical():
                moved.append(Logical(item.value, start, stop))
            case Tuple():
                moved.append(Tuple(_moved(item.items, by), start, stop))
            case Unary():
                (operand,) = _moved((item.operand,), by)
                moved.append(Unary(item.operator, operand, start, stop))
            case _:
                raise TypeError(item)
    return tuple(moved)


@dataclass(slots=True, eq=False, repr=False)
class Tuple(Node):
    """`(a, b)`, as a value or on the left of an assignment; parentheses may be missing there."""

    items: tuple[Expression, ...]
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Argument(Node):
    """An argument of a call: positional (`name` is `None`) or named."""

    name: str | None
    value: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Call(Node):
    """An invocation; `generic` is the type between `<` and `>`, its name standing at the node's start."""

    name: str
    arguments: tuple[Argument, ...]
    generic: str | None = None
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Builtin(Node):
    """`shape_of`, `length_of`, `range_of`, or a type's name as a cast."""

    name: str
    operand: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Unary(Node):
    """`+`, `-` or `!` before its operand."""

    operator: str
    operand: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Binary(Node):
    """Two operands and the operator between them, `in` included."""

    operator: str
    left: Expression
    right: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Select(Node):
    """`yes if condition else no`."""

    condition: Expression
    yes: Expression
    no: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Subscript(Node):
    """`target[index]`."""

    target: Expression
    index: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Range(Node):
    """`target[begin:end]`; an absent bound is open."""

    target: Expression
    begin: Expression | None
    end: Expression | None
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Loop(Node):
    """`name in source`, one of a comprehension's iterators."""

    name: Name
    source: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Comprehension(Node):
    """`[for a in b if c yield d]`, or in the provisional edition `[d for a in b if c]`."""

    loops: tuple[Loop, ...]
    condition: Expression | None
    body: Expression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Missing(Node):
    """A faulty expression, which has been reported."""

    start: int = 0
    stop: int = 0


Expression: TypeAlias = (
    Name
    | Number
    | String
    | Logical
    | Array
    | Tuple
    | Call
    | Builtin
    | Unary
    | Binary
    | Select
    | Subscript
    | Range
    | Comprehension
    | Missing
)

# ── types ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, eq=False, repr=False)
class TypeName(Node):
    """A type that is a single name (provisional: also `tensor`), or `?`."""

    text: str
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class TensorType(Node):
    """`tensor<item>`; `item` is `None` for `tensor<>`."""

    item: str | None
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ArrayType(Node):
    """`item[]`."""

    item: TypeExpression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class TupleType(Node):
    """`(a, b)` of types."""

    items: tuple[TypeExpression, ...]
    start: int = 0
    stop: int = 0


TypeExpression: TypeAlias = TypeName | TensorType | ArrayType | TupleType

# ── declarations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, eq=False, repr=False)
class Parameter(Node):
    """A formal parameter of a fragment."""

    name: Name
    type: TypeExpression
    default: Expression | None = None
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Result(Node):
    """A result of a fragment."""

    name: Name
    type: TypeExpression
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Generic(Node):
    """`<?>` or `<? = default>` after a fragment's name."""

    default: str | None = None
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Assignment(Node):
    """`target = value`; `is_flat` where the parser knows that the value is a call without extended expressions.

    `group` is the place of the first parentheses in the value that are not part of a call or tuple.
    """

    target: Expression
    value: Expression
    start: int = 0
    stop: int = 0
    is_flat: bool = False
    group: tuple[int, int] | None = None


@dataclass(slots=True, eq=False, repr=False)
class Fragment(Node):
    """A declared operation; `body` is `None` for one that ends in a semicolon."""

    name: Name
    generic: Generic | None
    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    body: tuple[Assignment, ...] | None
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Graph(Node):
    """The graph definition."""

    name: Name
    parameters: tuple[Name, ...]
    results: tuple[Name, ...]
    body: tuple[Assignment, ...]
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Version(Node):
    """The version statement, its number as written."""

    text: str
    start: int = 0
    stop: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Extension(Node):
    """An extension directive with its names. `is_spaced` means that two of them are not separated by a comma."""

    names: tuple[Name, ...]
    start: int = 0
    stop: int = 0
    is_spaced: bool = False


@dataclass(eq=False, repr=False)
class Document(Node):
    """A whole document; `version` and `graph` are `None` where the text has none that could be read.

    `unread` names the fragments whose declaration could not be read.
    """

    edition: Edition
    version: Version | None
    extensions: tuple[Extension, ...]
    fragments: tuple[Fragment, ...]
    graph: Graph | None
    source: Source | None = None
    unread: frozenset[str] = frozenset()
    start: int = 0
    stop: int = 0

    @cached_property
    def comments(self) -> tuple[Comment, ...]:
        """Every comment of the text, in order."""
        return () if self.source is None or self.source.text is None else tuple(comments(self.source.text))

    def span(self, node: Node) -> Span | None:
        """Return the location of `node` in the text; `None` for a tree that was not parsed."""
        return None if self.source is None else Span(self.source, node.start, node.stop)


def is_literal(items: tuple[Expression, ...]) -> bool:
    """Whether the flat `items` of an array contain no name."""
    return not any(isinstance(item, Name) or (isinstance(item, Tuple) and not is_literal(item.items)) for item in items)
