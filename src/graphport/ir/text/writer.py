"""Writes graphs as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphport.core.dims import Dim, Symbolic, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, Fact, OptionalFact, SequenceFact, TensorFact
from graphport.core.storage import Storage
from graphport.ir.graph import Attribute, Graph, Node, Value
from graphport.ir.text.elements import element_texts, float_text
from graphport.ir.text.words import WORD, bytes_text, dim_text, name_text, split_op, string_text, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphport.core.dims import Extents

INLINE = 16
"""Default limit of elements of a tensor that is written inline."""

_Piece: TypeAlias = "str | Iterator[_Piece]"


def to_text(graph: Graph, *, inline: int | None = INLINE, refer: Callable[[Storage], str] | None = None) -> str:
    """Format `graph` and its bodies as text.

    Args:
        graph: a verified graph; otherwise the text may not be readable.
        inline: tensors of at most this many elements are written inline; None for all.
        refer: stores a larger tensor and returns a name for it; without it the elements are omitted, and the text
            cannot be
            read back.

    Raises:
        ValueError: a symbol has different bounds in one fact.
        TypeError: an attribute has an unknown type.
    """
    return "".join(_flat(_Writer(inline, refer, graph.extents).graph(graph, ""))) + "\n"


def _flat(root: Iterator[_Piece]) -> Iterator[str]:
    # Iterative, because bodies and tuples may be nested to any depth.
    pending = [root]
    while pending:
        for piece in pending[-1]:
            if not isinstance(piece, str):
                pending.append(piece)
                break
            yield piece
        else:
            pending.pop()


class _Bound(NamedTuple):
    """The bound of a symbol."""

    lower: int | None = 1
    upper: int | None = None


class _Writer:
    """Writes graphs and remembers which bounds it has written."""

    def __init__(self, inline: int | None, refer: Callable[[Storage], str] | None, extents: Extents) -> None:
        self.extents = extents
        self.defined: set[str] = set()
        self.inline = inline
        self.refer = refer
        self.stated: dict[str, _Bound] = {}
        self.dims: dict[Symbolic, tuple[str, dict[str, _Bound]]] = {}

    def graph(self, graph: Graph, margin: str) -> Iterator[_Piece]:
        inputs = ", ".join(map(self.input, graph.inputs))
        opsets = ", ".join(f"{name_text(domain)} = {version}" for domain, version in graph.opsets.items())
        yield f"graph {name_text(graph.name)}({inputs}) {f'opsets {{{opsets}}} ' if opsets else ''}{{\n"
        inside = margin + "  "
        for value in graph.constants:
            yield f"{inside}{self.constant(value)}\n"
        for node in graph:
            yield inside
            yield from self.node(node, inside)
            yield "\n"
        outputs = ", ".join(value_text(value.name) for value in graph.outputs)
        yield f"{inside}return {outputs}".rstrip(" ") + f"\n{margin}}}"

    def input(self, value: Value) -> str:
        numbers = "" if value.storage is None else f" = {self.tensor(value.storage)}"
        return self.declared(value) + numbers

    def constant(self, value: Value) -> str:
        text = f"{'literal' if value.is_literal else 'constant'} "
        if value.storage is None:
            return text + self.declared(value)
        is_implied = value.fact == TensorFact.of(value.storage)
        name = value_text(value.name) if is_implied else f"{value_text(value.name)}: {self.fact(value.fact)}"
        return f"{text}{name} = {self.tensor(value.storage)}"

    def declared(self, value: Value) -> str:
        return value_text(value.name) if value.fact == UNKNOWN else f"{value_text(value.name)}: {self.fact(value.fact)}"

    def node(self, node: Node, margin: str) -> Iterator[_Piece]:
        results = ", ".join("_" if value is None else self.declared(value) for value in node.outputs) or "()"
        operands = ", ".join("_" if value is None else value_text(value.name) for value in node.inputs)
        yield f"{results} = {_op(node)}({operands})"
        start = " {"
        for name, attribute in node.attributes.items():
            yield f"{start}{name_text(name)} = "
            yield self.attribute(attribute, margin)
            start = ", "
        ending = "}" if node.attributes else ""
        yield f"{ending} name {string_text(node.name)}" if node.name else ending

    def attribute(self, attribute: Attribute, margin: str) -> _Piece:
        match attribute:
            case None | bool():
                return str(attribute).lower()
            case int():
                return str(int(attribute))
            case float():
                return float_text(attribute)
            case complex():
                return f"complex({float_text(attribute.real)}, {float_text(attribute.imag)})"
            case str():
                return string_text(attribute)
            case bytes():
                return bytes_text(attribute)
            case DType():
                return str(attribute)
            case TensorFact() | SequenceFact() | OptionalFact():
                return self.fact(attribute)
            case Storage():
                return self.tensor(attribute)
            case Graph():
                return self.graph(attribute, margin)
            case tuple():
                return self.write_items(attribute, margin)
            case _:
                message = f"{type(attribute).__name__} is not an attribute type"
                raise TypeError(message)

    def write_items(self, items: tuple[Attribute, ...], margin: str) -> Iterator[_Piece]:
        yield "("
        for number, item in enumerate(items):
            if number:
                yield ", "
            yield self.attribute(item, margin)
        yield ")"

    def fact(self, fact: Fact) -> str:
        start = end = ""
        while not isinstance(fact, TensorFact):
            start += "sequence(" if isinstance(fact, SequenceFact) else "optional("
            end += ")"
            fact = fact.element
        bounds: dict[str, _Bound] = {}
        shape = "..." if fact.shape is None else self.dim_list(fact.shape, bounds)
        elements = "" if fact.elements is None else f"{{{self.dim_list(fact.elements, bounds)}}}"
        reals = "" if fact.reals is None else f"<{', '.join(map(float_text, fact.reals))}>"
        return f"{start}{'?' if fact.dtype is None else fact.dtype}[{shape}]{elements}{reals}{end}{self.where(bounds)}"

    def dim_list(self, dims: Sequence[Dim], bounds: dict[str, _Bound]) -> str:
        return ", ".join(self.dim(dim, bounds) if isinstance(dim, Symbolic) else str(dim) for dim in dims)

    def dim(self, dim: Symbolic, bounds: dict[str, _Bound]) -> str:
        if dim not in self.dims:
            text = str(dim)
            found = {name: _Bound(*symbol.bounds) for name, symbol in symbols(dim).items()}
            self.dims[dim] = (dim_text(text), found)
        text, found = self.dims[dim]
        for name, bound in found.items():
            if bounds.setdefault(name, bound) != bound:
                message = f"the symbol {name!r} has the bounds {bounds[name]} and {bound} at once"
                raise ValueError(message)
        return text

    def where(self, bounds: dict[str, _Bound]) -> str:
        definitions = self.extents.used(
            self.extents.declared[name] for name in bounds if name in self.extents.definitions
        )
        definitions = {name: dim for name, dim in definitions.items() if name not in self.defined}
        for name, dim in definitions.items():
            for symbol in (self.extents.declared[name], dim):
                bounds |= {
                    inner: _Bound(*found.bounds) for inner, found in symbols(symbol).items() if inner not in bounds
                }
        new = {name: bound for name, bound in bounds.items() if self.stated.get(name, _Bound()) != bound}
        self.stated.update(new)
        texts = [f"{name_text(name)} in {_range(bound)}" for name, bound in new.items()]
        for name, dim in definitions.items():
            self.defined.add(name)
            texts.append(f"{name_text(name)} = {dim_text(str(dim))}")
        return f" where {' and '.join(texts)}" if texts else ""

    def tensor(self, storage: Storage) -> str:
        start = f"{storage.dtype}[{', '.join(map(str, storage.shape))}]"
        if self.inline is None or storage.count <= self.inline:
            return f"{start}({', '.join(element_texts(storage))})"
        return f"{start}(...)" if self.refer is None else f"{start}@{name_text(self.refer(storage))}"


def _range(bound: _Bound) -> str:
    return f"{'' if bound.lower is None else bound.lower}..{'' if bound.upper is None else bound.upper}"


def _op(node: Node) -> str:
    if WORD.fullmatch(node.op) and split_op(node.op) == (node.dialect, node.op_type):
        return node.op
    return f"{name_text(node.dialect)}:{name_text(node.op_type)}"
