"""`graphport ops`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    Verb,
    answered,
    print_json,
    refuse_usage,
)

if TYPE_CHECKING:
    from graphport.ops.declare import OpDef
    from graphport.ops.operator_manual import Emitted, Spelling


@click.command(cls=Verb, name="ops")
@click.argument("operator", required=False)
@answered
def verb(operator: str | None, color: str, as_json_: bool) -> None:
    """List the supported operators and the formats that read and write them, or describe OPERATOR.

    Operators are those of ONNX at one opset; op types of other formats are imported as one or several of them. OPERATOR
    may also be an op type of another format.

    \b
    Examples:
      graphport ops
      graphport ops Conv
      graphport ops leaky_relu
      graphport ops com.microsoft.FastGelu
      graphport ops --json
    """
    del color
    from graphport.formats import FORMATS
    from graphport.ops import registry
    from graphport.ops.declare import OPSET

    dialects = {name: found.read_dialect for name, found in FORMATS.items()}
    if operator is not None:
        _print_operator(operator, dialects, as_json_=as_json_)
        return
    op_defs = [registry.op_defs()[name] for name in sorted(registry.op_defs())]
    if as_json_:
        print_json({"opset": OPSET, "operators": [_document(op_def, dialects) for op_def in op_defs]})
        return
    from graphport.cli.table import print_table

    rows = [(op_def.name, *(_spelling(op_def, *each).direction for each in dialects.items())) for op_def in op_defs]
    print_table(("operator", *dialects), rows)
    click.echo(f"{len(op_defs)} operators, as in ONNX opset {OPSET}")


def _spelling(op_def: OpDef, format: str, dialect: str) -> Spelling:
    from graphport.formats import FORMATS
    from graphport.ops import operator_manual

    found = operator_manual.spellings(dialect)[op_def.name]
    # A dialect with export rules may belong to a format without a writer.
    return replace(found, writes=found.writes and FORMATS[format].writes)


def _document(op_def: OpDef, dialects: dict[str, str]) -> dict[str, Any]:
    from graphport.ops import operator_manual

    stated = {name: _spelling(op_def, name, dialect) for name, dialect in dialects.items()}
    return {
        "name": op_def.name,
        "domain": op_def.domain or "ai.onnx",
        "family": operator_manual.family(op_def),
        "since": op_def.since,
        "older": list(operator_manual.older_forms(op_def)),
        "exactness": op_def.exactness,
        "formats": {name: {"read": list(of.reads), "write": of.writes} for name, of in stated.items()},
    }


def _print_operator(wanted: str, dialects: dict[str, str], *, as_json_: bool) -> None:
    from graphport.core.diagnostics import Diagnostic
    from graphport.ops import operator_manual, registry
    from graphport.ops.declare import MEANINGS

    op_def = registry.op_defs().get(wanted)
    if op_def is not None:
        _print_definition(op_def, dialects, as_json_=as_json_)
        return
    # Accept the name with its dialect too: `com.microsoft.Gelu` is `Gelu` in that dialect only.
    named = {name: wanted.removeprefix(f"{name}.") for name in registry.names() if wanted.startswith(f"{name}.")}
    words = dict.fromkeys(registry.names(), wanted)
    if not any(operator_manual.reading(name, wanted) or (name, wanted) in MEANINGS for name in words):
        words, wanted = named, next(iter(named.values()), wanted)
    readings = {dialect: operator_manual.reading(dialect, op_type) for dialect, op_type in words.items()}
    found = {dialect: emitted for dialect, emitted in readings.items() if emitted is not None}
    kept = [dialect for dialect, op_type in words.items() if (dialect, op_type) in MEANINGS]
    if not found and not kept:
        finding = Diagnostic("LEG0003", f"unknown operator {wanted!r}", None, _nearest(wanted))
        refuse_usage([finding], {"as_json_": as_json_})
    if as_json_:
        formats = {dialect: list(emitted.operators) for dialect, emitted in found.items()}
        rules = {
            dialect: {
                "always": sorted(emitted.always),
                "test": emitted.test or None,
                "refused": emitted.refused or None,
            }
            for dialect, emitted in found.items()
        }
        print_json({"word": wanted, "formats": formats, "rules": rules, "kept": kept})
        return
    for dialect in kept:
        click.echo(f"{wanted} of {dialect} is kept unchanged and computed by the reference interpreter")
    for dialect, emitted in found.items():
        if emitted.refused:
            click.echo(f"{wanted} of {dialect} is not supported: {emitted.refused}")
            continue
        always = [name for name in emitted.operators if name in emitted.always]
        others = [name for name in emitted.operators if name not in emitted.always]
        parts = [" and ".join(always), f"{'with ' if always else ''}some of {', '.join(others)}" if others else ""]
        meant = ", ".join(filter(None, parts)) or _without_operators(emitted)
        click.echo(f"{wanted} of {dialect} is converted to {meant}" + (f"  ({emitted.test})" if emitted.test else ""))


def _without_operators(emitted: Emitted) -> str:
    if emitted.is_operand:
        return "an unchanged operand"
    if emitted.test:
        return "an operand or a constant, without an operator"
    return "determined by its rule; no test records the operators"


def _nearest(wanted: str) -> str:
    from graphport.core.names import find_similar
    from graphport.ops import registry

    found = find_similar(wanted, registry.op_defs())
    return f"did you mean {' or '.join(found)}?" if found else "run graphport ops for the list"


def _print_definition(op_def: OpDef, dialects: dict[str, str], *, as_json_: bool) -> None:
    from graphport.cli.table import print_table
    from graphport.ops import operator_manual

    types = operator_manual.element_types(op_def)
    if as_json_:
        more = {"signature": operator_manual.signature(op_def), "types": types, "manual": op_def.manual}
        print_json(_document(op_def, dialects) | more)
        return
    click.echo(f"{operator_manual.signature(op_def, width=100)}\n\n{op_def.manual}\n")
    print_table(("type", "may be"), [(name, ", ".join(of)) for name, of in types.items()])
    click.echo(f"\n{operator_manual.versions(op_def)}\n")
    rows: list[tuple[str, str, str]] = []
    for name, dialect in dialects.items():
        stated = _spelling(op_def, name, dialect)
        rows.append((name, stated.direction or "no", ", ".join(stated.patterns or stated.reads)))
    print_table(("format", "direction", "op types"), rows)
