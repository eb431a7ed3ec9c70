"""Export of canonical operators without NNEF equivalent as fragments without body, and their import.

A fragment is named `onnx_` and the operator's name; its parameters are named like the operator's operands and
attributes. Other readers accept the document, but cannot run the operation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Source
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.build import DIALECT
from graphport.formats.nnef.container.literals import Unspellable, attribute_text, data_of
from graphport.formats.nnef.container.parser import parse_fragments
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.token_cursor import KEYWORDS
from graphport.formats.nnef.container.types import ArrayOf
from graphport.ir.graph import Node
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.syntax import Fragment
    from graphport.ir.graph import Attribute, Graph, Value
    from graphport.ops.declare import OpDef

EXTENSION = "KHR_enable_fragment_definitions"
_PREFIX = "onnx_"
_WORD = re.compile(rf"{_PREFIX}(.+?)(?:_v[0-9]+)?")


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A tensor parameter, or an array of all remaining operands."""

    name: str
    data: str
    values: tuple[Value, ...]
    is_array: bool

    @property
    def type(self) -> str:
        return f"tensor<{self.data}>{'[]' if self.is_array else ''}"


class Primitives:
    """The fragments of one document; nodes of one operator with different signatures have one each."""

    def __init__(self) -> None:
        self.fragments: dict[str, Fragment] = {}
        self._words: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def fragment_of(self, node: Node) -> tuple[str, list[tuple[Value, ...] | Value], list[str]]:
        """Return the fragment for a canonical `node`, its operands by parameter, and its formatted attributes.

        Raises:
            Unspellable: NNEF has no type for an operand, result or attribute.
        """
        op_def = None if node.dialect else registry.op_defs().get(node.op_type)
        if op_def is None or op_def.domain:
            raise Unspellable("it is not an operator of the ONNX standard")
        parameters = list(_parameters(node, op_def))
        attributes = {_name(name): (_type(name, value), value) for name, value in node.attributes.items()}
        formals = [f"{each.name}: {each.type}" for each in parameters]
        formals += [f"{name}: {of}" for name, (of, _) in attributes.items()]
        results = _results(node, op_def, {*(each.name for each in parameters), *attributes})
        if not formals:
            raise Unspellable("it has neither operands nor attributes")
        fragment_of = self._declared(op_def.name, f"( {', '.join(formals)} ) -> ( {', '.join(results)} )")
        operands = [each.values if each.is_array else each.values[0] for each in parameters]
        return (
            fragment_of,
            operands,
            [f"{name} = {attribute_text(value, None)}" for name, (_, value) in attributes.items()],
        )

    def _declared(self, operator: str, signature: str) -> str:
        fragment_of = self._words.get((operator, signature))
        if fragment_of is None:
            number = self._counts[operator] = self._counts.get(operator, 0) + 1
            fragment_of = f"{_PREFIX}{operator}" if number == 1 else f"{_PREFIX}{operator}_v{number}"
            self._words[operator, signature] = fragment_of
            (self.fragments[fragment_of],) = parse_fragments(Source(fragment_of, f"fragment {fragment_of}{signature};"))
        return fragment_of


def _name(name: str) -> str:
    return f"{name}_" if name in KEYWORDS[Edition.FINAL] else name


def _data(value: Value) -> str:
    found = data_of(value.fact.dtype) if isinstance(value.fact, TensorFact) else None
    if found is None:
        raise Unspellable(f"'{value.name}' is not a tensor of floats, integers or booleans")
    return found


def _parameters(node: Node, op_def: OpDef) -> Iterator[_Parameter]:
    for index, value in enumerate(node.inputs):
        operand = op_def.signature.operand(index)
        if operand is not None and operand.is_variadic:
            values = tuple(each for each in node.inputs[index:] if each is not None)
            if len({_data(each) for each in values}) != 1:
                raise Unspellable(f"'{operand.name}' mixes tensors of several types")
            yield _Parameter(_name(operand.name), _data(values[0]), values, is_array=True)
            return
        if value is not None and operand is not None:
            yield _Parameter(_name(operand.name), _data(value), (value,), is_array=False)


def _results(node: Node, op_def: OpDef, taken: set[str]) -> list[str]:
    if op_def.is_variadic_output:
        raise Unspellable("the number of its results is unknown")
    found: list[str] = []
    for name, value in zip(op_def.outputs, node.outputs, strict=False):
        own = _name(name)
        # The type of an unused result is unknown and irrelevant.
        data = _data(value or node.results[0])
        found.append(f"{own if own not in taken else f'{own}_result'}: tensor<{data}>")
    return found


def _type(name: str, value: Attribute) -> str:
    match value:
        case bool():
            return "logical"
        case int():
            return "integer"
        case float():
            return "scalar"
        case str():
            return "string"
        case tuple():
            kinds = {_type(name, item) for item in value}
            if len(kinds) < 2:
                return f"{next(iter(kinds), 'integer')}[]"
        case _:
            pass
    raise Unspellable(f"its attribute '{name}' cannot be written in NNEF")


# ── back ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def restore(graph: Graph, own: Mapping[str, Declaration]) -> None:
    """Replace calls of exported fragments, declared in `own`, by canonical nodes."""
    for node in graph:
        declaration = own.get(node.op_type) if node.dialect == DIALECT else None
        match = _WORD.fullmatch(node.op_type)
        op_def = None if match is None else registry.op_defs().get(match[1])
        if declaration is None or declaration.is_expanded or op_def is None:
            continue
        operands, attributes = _canonical_arguments(node, declaration, op_def)
        if operands is None:
            continue
        canonical = graph.insert_before(node, Node(op_def.name, operands, attributes=attributes, origin=node.origin))
        canonical.take_outputs(node)
        graph.remove(node)


def _canonical_arguments(
    node: Node, declaration: Declaration, op_def: OpDef
) -> tuple[list[Value | None] | None, dict[str, Attribute]]:
    """Return the operands and attributes of a canonical operator; no operands if the fragment was not exported."""
    signature = op_def.signature
    positions = {_name(operand.name): place for place, operand in enumerate(signature.operands)}
    keywords = {_name(name): name for name in signature.keywords}
    operands: list[Value | None] = []
    left = list(node.operands)
    for formal in declaration.formals:
        if not formal.takes_tensors:
            continue
        place = positions.get(formal.name)
        if place is None or place < len(operands):
            return None, {}
        operands += [None] * (place - len(operands))
        count = len(left) if isinstance(formal.type, ArrayOf) else 1
        operands += left[:count]
        del left[:count]
    attributes = {keywords[name]: value for name, value in node.attributes.items() if name in keywords}
    if left or len(attributes) < len(node.attributes) or len(node.outputs) > len(op_def.outputs):
        return None, {}
    return operands, attributes
