"""The syntax tree of an expression; nothing here recurses, so that depth does not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Number = bool | int | float | complex
"""A weak scalar: it has a category (logical, integer, real, complex) but no width."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """A subexpression: `text` as written, code points `start` to `end` (exclusive), and arguments.

    Nodes are equal if they have equal meaning at any position; `str` is the canonical text without blanks.
    """

    text: str
    start: int = 0
    end: int = 0
    arguments: tuple[Node, ...] = ()

    @property
    def meaning(self) -> tuple[object, ...]:
        """The key that distinguishes nodes, without arguments."""
        return (type(self).__name__, self.text, len(self.arguments))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return [node.meaning for node in postorder(self)] == [node.meaning for node in postorder(other)]

    def __hash__(self) -> int:
        return hash(tuple(node.meaning for node in postorder(self)))

    def __str__(self) -> str:
        return "".join(_print_tokens(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reference(Node):
    """Operand number `index`."""

    index: int = 0

    @property
    def meaning(self) -> tuple[object, ...]:
        return ("Reference", self.index)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Node):
    """A number, None, or a PyTorch constant (`torch.float`, as a string)."""

    value: Number | str | None = None

    @property
    def meaning(self) -> tuple[object, ...]:
        # The text as key makes a NaN equal to itself and distinguishes the two zeros.
        return ("Literal", type(self.value).__name__, repr(self.value))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Node):
    """The function called `text`, applied to `arguments`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class List(Node):
    """A list of `arguments`."""


def call(function: str, *arguments: Node) -> Call:
    """Build `function(arguments…)`."""
    return Call(function, arguments=arguments)


def reference(index: int) -> Reference:
    """`@index`."""
    return Reference(f"@{index}", index=index)


def literal(value: Number | str | None) -> Literal:
    """Build a literal whose text parses to the same value."""
    if isinstance(value, complex):
        imaginary = f"{value.imag!r}"
        sign = "" if imaginary.startswith("-") else "+"
        return Literal(f"{value.real!r}{sign}{imaginary}j", value=value)
    return Literal(value if isinstance(value, str) else repr(value), value=value)


def postorder(root: Node) -> Iterator[Node]:
    """Every node after its arguments, which come in their order."""
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, is_open = pending.pop()
        if is_open or not node.arguments:
            yield node
            continue
        pending.append((node, True))
        pending.extend((argument, False) for argument in reversed(node.arguments))


def preorder(root: Node) -> Iterator[tuple[int, Node]]:
    """Every node with its depth, before its arguments."""
    pending = [(0, root)]
    while pending:
        depth, node = pending.pop()
        yield depth, node
        pending.extend((depth + 1, argument) for argument in reversed(node.arguments))


def drawing(root: Node) -> str:
    """Return the tree as indented lines of text."""
    return "\n".join("  " * depth + ("[]" if isinstance(node, List) else node.text) for depth, node in preorder(root))


def operand_count(root: Node) -> int:
    """One more than the largest `@index`: how many operands an evaluation takes."""
    return 1 + max((node.index for node in postorder(root) if isinstance(node, Reference)), default=-1)


def _print_tokens(root: Node) -> Iterator[str]:
    pending: list[Node | str] = [root]
    while pending:
        piece = pending.pop()
        if isinstance(piece, str):
            yield piece
            continue
        match piece:
            case Call():
                yield f"{piece.text}("
                pending.append(")")
            case List():
                yield "["
                pending.append("]")
            case _:
                yield piece.text
        for position, argument in enumerate(reversed(piece.arguments)):
            if position:
                pending.append(",")
            pending.append(argument)
