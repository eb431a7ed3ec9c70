"""`graphport expr`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    print_findings,
    print_json,
)
from graphport.cli.usage import Choice
from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.expression.expression import Expression
    from graphport.expression.syntax import Node


@click.command(cls=Verb, name="expr")
@click.argument("text")
@click.option("--inputs", "inputs", type=MODEL, help="An .npz file; its arrays, in their order, are @0, @1, ….")
@click.option("--outputs", "outputs", type=FILE, help="The .npz file to write, with the array `output`.")
@click.option("--show", type=Choice(["tokens", "tree", "rpn"]), help="Print one form only.")
@click.option("--lenient", is_flag=True, help="Accept known malformed expressions of pnnx with a warning.")
@answered
def verb(
    text: str, inputs: Path | None, outputs: Path | None, show: str | None, lenient: bool, color: str, as_json_: bool
) -> None:
    """Parse a pnnx expression and print its tokens, tree, reverse Polish notation, and value.

    \b
    Examples:
      graphport expr "add(@0,mul(@1,@2))"
      graphport expr "add(@0,mul(@1,@2))" --show rpn
      graphport expr "div(@0,2)" --inputs in.npz --json
    """
    from graphport.cli import arrays
    from graphport.expression.expression import Expression

    expression = Expression(text, lenient=lenient)
    value = None if inputs is None else expression(*_operands(arrays.read(inputs)))
    if outputs is not None and value is not None:
        arrays.write(outputs, {"output": value})
    if as_json_:
        print_json(expression.data() | ({} if inputs is None else {"outputs": _to_json_lists(value)}))
        return
    print_findings(expression.findings, color)
    for form in ("tokens", "tree", "rpn") if show is None else (show,):
        _tell(form, expression, headed=show is None)
    if inputs is not None:
        click.echo(str(value))


def _operands(named: dict[str, Any]) -> list[Any]:
    """Return the arrays in file order; if all names are `@0`, `0`, `x0`, …, in numeric order."""
    numbers = {name: name.lstrip("@x") for name in named}
    if all(number.isdigit() for number in numbers.values()):
        return [named[name] for name in sorted(named, key=lambda name: int(numbers[name]))]
    return list(named.values())


def _to_json_lists(value: Any) -> Any:
    """Convert to nested lists for JSON, with strings for NaN, infinity and complex values."""
    import numpy as np

    if is_sequence(value):
        return [_to_json_lists(item) for item in value]
    array: Any = np.asarray(value)
    if array.dtype == object:
        return value
    if array.dtype.kind in "biu":
        return array.tolist()
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if array.dtype.kind != "c" and np.isfinite(wide).all():
        return wide.tolist()
    words = np.empty(wide.shape, object)
    for place, number in np.ndenumerate(wide):
        words[place] = number.item() if np.isfinite(number) and not np.iscomplexobj(number) else str(number.item())
    return words.tolist()


def _tell(form: str, expression: Expression, *, headed: bool) -> None:
    if headed:
        click.echo(f"{form}:")
    if form == "tokens":
        from graphport.cli.table import print_table

        rows = [(str(t.kind), t.text, str(t.start), str(t.end)) for t in expression.tokens]
        print_table(("kind", "text", "start", "end"), rows)
    elif form == "tree":
        for line in _format_tree(expression.tree):
            click.echo(line)
    else:
        click.echo(" ".join(map(str, expression.rpn)))


MAX_INDENTED_LEVELS = 40
"""The maximum indentation of the printed tree; deeper levels are not indented further."""


def _format_tree(tree: Node) -> list[str]:
    """Format one node per line, arguments indented below their function."""
    from graphport.expression.syntax import Call

    lines: list[str] = []
    pending: list[tuple[Node, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        word = node.text if not node.arguments or isinstance(node, Call) else "[]"
        lines.append("  " * min(depth, MAX_INDENTED_LEVELS) + word)
        pending.extend((argument, depth + 1) for argument in reversed(node.arguments))
    return lines
