"""`graphport shapes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    MODEL,
    Verb,
    answered,
    input_bindings,
    opening_options,
    print_findings,
    print_json,
)
from graphport.cli.render import shown

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.api.model import Model
    from graphport.core.facts import Fact


@click.command(cls=Verb, name="shapes")
@click.argument("model", type=MODEL)
@opening_options
@answered
def verb(model: Path, shapes: Any, edition: str | None, program: str | None, color: str, as_json_: bool) -> None:
    """Print every value with its element type and shape.

    Dynamic dims are symbols, such as N or 2*H; the meaning of symbols is printed below. A named axis is at least 1;
    --input x=0..x3x224x224 permits 0.

    \b
    Examples:
      graphport shapes net.onnx
      graphport shapes net.onnx --input x=8x3x224x224
      graphport shapes model.nnef --json
    """
    import graphport
    from graphport.cli.table import print_table

    loaded = graphport.load(model, edition=edition, shapes=input_bindings(shapes), program=program)
    facts = loaded.shapes()
    if as_json_:
        values = {name: fact_as_json(fact) for name, fact in facts.items()}
        print_json({"values": values, **_bounds(facts.values()), **_extents(loaded)})
        return
    print_findings(loaded.findings, color)
    rows = [(value.name, _fact_kind(value), _dtype(value.fact), _shape(value.fact)) for value in loaded.graph.values()]
    print_table(("value", "of", "type", "shape"), rows)
    extents = _extents(loaded)
    for name, dim in extents.get("definitions", {}).items():
        click.echo(f"where {name} = {_spaced(dim)}")
    for name, (low, high) in _bounds(facts.values()).get("bounds", {}).items():
        click.echo(
            f"{shown(str(name))}: {low} or more" if high is None else f"{shown(str(name))}: {low or 0} to {high}"
        )


def fact_as_json(fact: Fact) -> dict[str, Any]:
    """Convert a fact to JSON: dtype and shape of a tensor; the element of a sequence or optional."""
    from graphport.core.facts import OptionalFact, SequenceFact

    if isinstance(fact, SequenceFact):
        return {"sequence": fact_as_json(fact.element)}
    if isinstance(fact, OptionalFact):
        return {"optional": fact_as_json(fact.element)}
    shape = None if fact.shape is None else [dim if isinstance(dim, int) else str(dim) for dim in fact.shape]
    return {"dtype": None if fact.dtype is None else str(fact.dtype), "shape": shape}


def _extents(model: Model) -> dict[str, Any]:
    """Return the definitions of the model's symbols and the constraints between dims."""
    from graphport.core.facts import TensorFact

    extents = model.graph.extents
    facts = [value.fact for value in model.graph.values()]
    dims = (dim for fact in facts if isinstance(fact, TensorFact) for dim in fact.shape or ())
    found = {
        "definitions": {name: str(dim) for name, dim in extents.used(dims).items()},
        "constraints": [str(constraint) for constraint in extents.constraints],
    }
    return {name: stated for name, stated in found.items() if stated}


def _bounds(facts: Any) -> dict[str, Any]:
    from graphport.core.dims import Symbolic, bounds, symbols
    from graphport.core.facts import TensorFact

    found: dict[str, list[int | None]] = {}
    for fact in facts:
        for dim in (fact.shape or ()) if isinstance(fact, TensorFact) else ():
            if isinstance(dim, Symbolic):
                for name, symbol in symbols(dim).items():
                    low, high = bounds(symbol)
                    if (low, high) != (1, None) and name not in found:
                        found[name] = [low, high]
    return {"bounds": found} if found else {}


def _spaced(dim: str) -> str:
    """Put spaces around the signs between the terms of a sum."""
    depth, is_quoted, found = 0, False, list[str]()
    for place, sign in enumerate(dim):
        depth += (sign == "(") - (sign == ")")
        is_quoted ^= sign == "`"
        is_outside = place > 0 and depth == 0 and not is_quoted
        found.append(f" {sign} " if sign in "+-" and is_outside else sign)
    return "".join(found)


def _fact_kind(value: Any) -> str:
    if value.is_input:
        return "input"
    return "constant" if value.is_constant else value.producer.op


def _dtype(fact: Fact) -> str:
    from graphport.core.facts import TensorFact

    if not isinstance(fact, TensorFact):
        return str(fact)
    return "?" if fact.dtype is None else str(fact.dtype)


def _shape(fact: Fact) -> str:
    from graphport.core.facts import TensorFact

    if not isinstance(fact, TensorFact) or fact.shape is None:
        return "?"
    return "×".join(map(str, fact.shape)) or "scalar"
