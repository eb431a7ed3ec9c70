"""The inversion of rows that are valid in both directions: an import row gives an export row.

op_type(x, a=0.5) <-> Operator(x, alpha=a, mode="none")    gives    Operator -> mode == "none": op_type(x, a=alpha)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphport.ops.declare import OP_DEFS
from graphport.ops.rule_language.text import RuleError, operator_of, parameters, parse_rule

if TYPE_CHECKING:
    from graphport.ops.rule_language.text import Parameter, ParsedRule


def invert_rule(row: ParsedRule, *, by_name: bool) -> ParsedRule:
    """Invert an import row: return the export row for its first op type. `by_name` passes parameters by keyword.

    Raises:
        RowError: the expression is not a single operator applied to parameters and constants.
    """
    begin, text = row.alternatives[0].meaning
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise RuleError(row.text, "the expression is not valid Python syntax", begin) from error
    if not isinstance(call, ast.Call):
        raise RuleError(row.text, "only a single operator call can be inverted", begin)
    signature = OP_DEFS[operator_of(row)].signature
    stated = {each.name: each for each in parameters(row)}
    sources: dict[str, str] = {}
    guards: list[str] = []
    for place, node in enumerate(_operands(call)):
        operand = signature.operand(place)
        name = _parameter(row, begin, node, stated)
        if operand is None or name is None:
            raise RuleError(row.text, "only operands that are parameters can be inverted", begin + node.col_offset)
        sources[name] = f"*{operand.name}" if operand.is_variadic else operand.name
    for keyword in call.keywords:
        name = _parameter(row, begin, keyword.value, stated)
        if name is None:
            guards.append(f"{keyword.arg} == {ast.unparse(keyword.value)}")
        else:
            sources[name] = str(keyword.arg)
    given = [_argument(each, sources[each.name], by_name=by_name) for each in stated.values() if each.name in sources]
    guard = f"{' and '.join(guards)}: " if guards else ""
    return parse_rule(f"{operator_of(row)} -> {guard}{row.op_types[0]}({', '.join(given)})")


def _operands(call: ast.Call) -> list[ast.expr]:
    """Return the operands; a call of a row function (`cast(x, …)`) is replaced by its argument."""
    found: list[ast.expr] = []
    for each in call.args:
        match each:
            case ast.Starred(value=ast.Call(args=arguments)):
                found += arguments
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name not in OP_DEFS:
                found.append(argument)
            case _:
                found.append(each)
    return found


def _parameter(row: ParsedRule, begin: int, node: ast.expr, stated: dict[str, Parameter]) -> str | None:
    inner = node.value if isinstance(node, ast.Starred) else node
    if isinstance(inner, ast.Constant):
        return None
    if not isinstance(inner, ast.Name) or inner.id not in stated:
        raise RuleError(row.text, "only a parameter or a constant can be inverted", begin + node.col_offset)
    return inner.id


def _argument(parameter: Parameter, source: str, *, by_name: bool) -> str:
    return f"{parameter.name}={source}" if by_name or parameter.is_keyword else source
