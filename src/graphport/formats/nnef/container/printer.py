"""Syntax tree to text; parsing the text gives the same tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.formats.nnef.container.expressions import PRECEDENCE
from graphport.formats.nnef.container.syntax import (
    Argument,
    Array,
    ArrayType,
    Assignment,
    Binary,
    Builtin,
    Call,
    Comprehension,
    Document,
    Edition,
    Extension,
    Fragment,
    Generic,
    Graph,
    Logical,
    Loop,
    Missing,
    Name,
    Node,
    Number,
    Parameter,
    Range,
    Result,
    Select,
    String,
    Subscript,
    TensorType,
    Tuple,
    TupleType,
    TypeName,
    Unary,
    Version,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ANY = 0
_OPERATOR = 1
_UNARY = 7
_POSTFIX = 8
_Piece: TypeAlias = "str | tuple[Node, int]"
"""Text, or a node and how tightly what surrounds it binds: parentheses go around what binds less."""


def to_text(tree: Node, edition: Edition = Edition.FINAL) -> str:
    """The text of `tree`; a document prints in its own edition, any other node in `edition`.

    Comments are not printed: `fmt` keeps them.
    """
    if isinstance(tree, Document):
        edition = tree.edition
    waiting: list[_Piece] = [(tree, _ANY)]
    printed: list[str] = []
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, str):
            printed.append(piece)
        else:
            waiting += reversed(_print_node(*piece, is_final=edition is Edition.FINAL))
    return "".join(printed)


def _print_node(node: Node, strength: int, *, is_final: bool) -> Sequence[_Piece]:
    own = _strength(node)
    if own < strength:
        return ["(", (node, _ANY), ")"]
    match node:
        case Name() | Number() | String() | TypeName() | Version():
            return _print_leaf(node, is_final=is_final)
        case Logical():
            return ["true" if node.value else "false"]
        case Unary():
            return [node.operator, (node.operand, _UNARY)]
        case Binary():
            return [(node.left, own), f" {node.operator} ", (node.right, own + 1)]
        case Select():
            return [(node.yes, _OPERATOR), " if ", (node.condition, _ANY), " else ", (node.no, _ANY)]
        case Comprehension():
            return _comprehension(node, is_final=is_final)
        case Fragment() | Graph() | Document() | Extension() | Parameter() | Result() | Generic() | Assignment():
            return _definition(node, is_final=is_final)
        case _:
            return _bracketed(node)


def _strength(node: Node) -> int:
    match node:
        case Binary():
            return PRECEDENCE[node.operator]
        case Select():
            return _ANY
        case Unary():
            return _UNARY
        case _:
            return _POSTFIX


def _print_leaf(node: Name | Number | String | TypeName | Version, *, is_final: bool) -> Sequence[_Piece]:
    if isinstance(node, Version):
        return ["version ", node.text, ";" if is_final else ""]
    return [node.text]


def _bracketed(node: Node) -> Sequence[_Piece]:
    match node:
        case Array():
            return ["[", *_separated(node.items), "]"]
        case Tuple() | TupleType():
            return ["(", *_separated(node.items), ")"]
        case Call():
            generic = "" if node.generic is None else f"<{node.generic}>"
            return [node.name, generic, "(", *_separated(node.arguments), ")"]
        case Argument():
            return ["" if node.name is None else f"{node.name} = ", (node.value, _ANY)]
        case Builtin():
            return [node.name, "(", (node.operand, _ANY), ")"]
        case Subscript():
            return [(node.target, _POSTFIX), "[", (node.index, _ANY), "]"]
        case Range():
            ends = [[] if end is None else [(end, _ANY)] for end in (node.begin, node.end)]
            return [(node.target, _POSTFIX), "[", *ends[0], ":", *ends[1], "]"]
        case Loop():
            return [node.name.text, " in ", (node.source, _OPERATOR)]
        case TensorType():
            return [f"tensor<{node.item or ''}>"]
        case ArrayType():
            return [(node.item, _ANY), "[]"]
        case Missing():
            return ["..."]
        case _:
            raise TypeError(node)


def _comprehension(node: Comprehension, *, is_final: bool) -> Sequence[_Piece]:
    condition: list[_Piece] = [] if node.condition is None else [" if ", (node.condition, _ANY)]
    loops = _separated(node.loops)
    if is_final:
        return ["[for ", *loops, *condition, " yield ", (node.body, _ANY), "]"]
    return ["[", (node.body, _ANY), " for ", *loops, *condition, "]"]


def _definition(
    node: Fragment | Graph | Document | Extension | Parameter | Result | Generic | Assignment, *, is_final: bool
) -> Sequence[_Piece]:
    match node:
        case Assignment():
            return ["    ", *_target(node.target), " = ", (node.value, _ANY), ";\n" if is_final else "\n"]
        case Parameter():
            default: list[_Piece] = [] if node.default is None else [" = ", (node.default, _ANY)]
            return [node.name.text, ": ", (node.type, _ANY), *default]
        case Result():
            return [node.name.text, ": ", (node.type, _ANY)]
        case Generic():
            return ["<?>" if node.default is None else f"<? = {node.default}>"]
        case Extension():
            # Khronos' parser reads KHR extension names separated by commas; a vendor's name is followed by its own
            # syntax.
            separator = ", " if node.names[0].text.startswith("KHR_") else " "
            return ["extension ", separator.join(word.text for word in node.names), ";\n"]
        case Fragment():
            generic: list[_Piece] = [] if node.generic is None else [(node.generic, _ANY)]
            head: list[_Piece] = ["fragment ", node.name.text, *generic, *_signature(node)]
            return [*head, ";\n"] if node.body is None else [*head, "\n", *_body(node.body)]
        case Graph():
            return ["graph ", node.name.text, *_signature(node), "\n", *_body(node.body)]
        case Document():
            return _document(node)


def _document(document: Document) -> Sequence[_Piece]:
    pieces: list[_Piece] = []
    if document.version is not None:
        pieces += [(document.version, _ANY), "\n"]
    pieces += [(extension, _ANY) for extension in document.extensions]
    for definition in (*document.fragments, document.graph):
        if definition is not None:
            pieces += ["\n", (definition, _ANY)]
    return pieces


def _signature(node: Fragment | Graph) -> Sequence[_Piece]:
    return ["( ", *_separated(node.parameters), " ) -> ( ", *_separated(node.results), " )"]


def _body(body: tuple[Assignment, ...]) -> Sequence[_Piece]:
    return ["{\n", *((statement, _ANY) for statement in body), "}\n"]


def _target(target: Node) -> Sequence[_Piece]:
    # Results of several values read best without the parentheses that are optional on this side only.
    return _separated(target.items) if isinstance(target, Tuple) else [(target, _ANY)]


def _separated(nodes: Iterable[Node]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for node in nodes:
        if pieces:
            pieces.append(", ")
        pieces.append((node, _ANY))
    return pieces
