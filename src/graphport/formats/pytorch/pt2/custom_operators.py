"""Operators that torch lacks, as custom operators: their schemas, and a Python module that defines stubs of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, cast

from graphport.core.dtypes import DType
from graphport.core.python_code import CodeError, Names, call, literal, path, source
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.schemas import Argument, Schema

if TYPE_CHECKING:
    from graphport.ir.graph import Node

NAMESPACE = "graphport"
_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


class CustomOperators:
    """The custom operators of one program, one for each operator and signature."""

    def __init__(self) -> None:
        self._names = Names(["torch", "library", NAMESPACE])
        self._operators: dict[tuple[str, str], str] = {}

    def declare(self, node: Node) -> tuple[str, Schema, dict[str, Any]]:
        """Return the name of the operator of `node`, its schema, and the arguments.

        Raises:
            CodeError: an attribute is a graph or a tensor.
        """
        arguments: dict[str, Any] = {f"x{index}": value for index, value in enumerate(node.inputs)}
        operands = tuple(Argument(name, "Tensor?", None) for name in arguments)
        names = Names(arguments)
        attributes = {
            names.make(name, "a"): attribute_literal(name, value) for name, value in sorted(node.attributes.items())
        }
        keyword = tuple(Argument(name, _type_of(value), None) for name, value in attributes.items())
        schema = Schema("", "", operands, keyword, ("Tensor",) * len(node.outputs))
        key = node.op, _signature(schema)
        if key not in self._operators:
            self._operators[key] = self._names.make(node.op, "op_")
        return self._operators[key], schema, arguments | attributes

    def code(self, file_name: str) -> str:
        """Return the Python module that defines the operators; empty if there are none."""
        if not self._operators:
            return ""
        lines = [
            f'"""Custom operators of {ascii(file_name)[1:-1]}: implement them, and import this module first."""',
            "",
            "import torch",
            "",
            *source(
                [
                    ast.Assign(
                        [ast.Name("library")], call("torch.library.Library", *map(literal, (NAMESPACE, "FRAGMENT")))
                    )
                ]
            ),
        ]
        for (op_type, signature), name in self._operators.items():
            lines += ["", "", *source([_definition(name, signature), _stub(name, op_type)])]
        return "\n".join(lines) + "\n"


def attribute_literal(name: str, value: Any) -> Any:
    """Return an attribute as a Python literal.

    Raises:
        CodeError: it is not a number, a string or a list of one type.
    """
    if isinstance(value, DType):
        return value.text
    items: list[Any] = list(value) if is_sequence(value) else [value]
    types: set[Any] = {type(item) for item in items}
    if not types <= _TYPES.keys() or len(types) > 1:
        message = f"the attribute {name} is not a number, a string or a list of one type"
        raise CodeError(message)
    return items if is_sequence(value) else value


def _type_of(value: Any) -> str:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return f"{_TYPES[type(items[0])] if items else 'int'}[]"
    return _TYPES[type(value)]


def _signature(schema: Schema) -> str:
    operands = ", ".join(f"{each.type} {each.name}" for each in schema.positional)
    keywords = ", ".join(f"{each.type} {each.name}" for each in schema.keyword)
    signature = ", ".join(text for text in (operands, f"*, {keywords}" if keywords else "") if text)
    returns = "Tensor" if len(schema.returns) == 1 else f"({', '.join(schema.returns)})"
    return f"({signature}) -> {returns}"


def _definition(name: str, signature: str) -> ast.stmt:
    return ast.Expr(call("library.define", literal(f"{name}{signature}")))


def _stub(name: str, op_type: str) -> ast.stmt:
    """Return the definition of a function that raises `NotImplementedError` with the op type."""
    error = ast.Raise(call("NotImplementedError", literal(op_type)))
    parameters = ast.arguments([], [], ast.arg("operands"), [], [], ast.arg("attributes"), [])
    register = call("torch.library.impl", path("library"), *map(literal, (name, "CompositeExplicitAutograd")))
    return ast.FunctionDef(name, parameters, [error], [register])
