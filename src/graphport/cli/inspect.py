"""`graphport inspect`."""

from __future__ import annotations

from dataclasses import asdict
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
from graphport.cli.render import as_json, shown
from graphport.cli.shapes import fact_as_json
from graphport.cli.sizes import at, format_number, total_macs
from graphport.core.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.api.model import Model
    from graphport.conversion.inspection import Inspection
    from graphport.core.dims import Dim
    from graphport.formats.contract import Contents, TensorContents

_KERNEL = ("operator", "version", "nodes", "xnnpack")


@click.command(cls=Verb, name="inspect")
@click.argument("model", type=MODEL)
@click.option("--weights", "count", type=click.IntRange(min=1), metavar="N", help="Also list the N largest weights.")
@opening_options
@answered
def verb(
    model: Path,
    count: int | None,
    shapes: Any,
    edition: str | None,
    program: str | None,
    color: str,
    as_json_: bool,
) -> None:
    """Report inputs, outputs, operators, weights, work and memory of a model, and the formats that can express it.

    Operators have their ONNX names where possible; operators in bodies of loops and branches count once. Work is the
    number of multiply-accumulates of one run: a formula for open dims, or a number at stated sizes if the formula is
    long; --input binds dims. The memory of activations is the most that is alive at once in the order of the nodes: a
    value from its computation to its last consumer. For TorchScript also the modules with their weights, the methods
    and the extra files, even if the file does not contain the shapes of its inputs.

    \b
    Examples:
      graphport inspect net.onnx
      graphport inspect net.onnx --input x=1x3x224x224
      graphport inspect model.nnef.tgz --json
      graphport inspect net.onnx --weights 10
    """
    import graphport
    from graphport.formats import locate

    format, place = locate(model)
    contents = format.contents(place)
    if contents is not None and not as_json_:
        _print_contents(contents)
    try:
        loaded = graphport.load(model, edition=edition, shapes=input_bindings(shapes), program=program)
    except DiagnosticError as error:
        if contents is None or not as_json_:
            raise
        findings = [as_json(finding) for finding in error.diagnostics]
        print_json({"valid": False, "diagnostics": findings, "contents": asdict(contents)})
        raise click.exceptions.Exit(1) from None
    found = graphport.inspect(loaded)
    if as_json_:
        print_json(_document(loaded, found, count) | ({} if contents is None else {"contents": asdict(contents)}))
        return
    print_findings(loaded.findings, color)
    _tell(loaded, found)
    if count is not None:
        _print_weights(found, count)


def _document(model: Model, found: Inspection, count: int | None) -> dict[str, Any]:
    return {
        "format": found.format,
        "versions": dict(found.versions),
        "inputs": {name: fact_as_json(fact) for name, fact in found.inputs.items()},
        "outputs": {name: fact_as_json(fact) for name, fact in found.outputs.items()},
        "operators": found.operators,
        "parameters": found.parameters,
        "bytes": found.weight_bytes,
        "macs": _dim(found.macs),
        "macs_by_operator": {op: _dim(macs) for op, macs in found.macs_by_operator.items()},
        "macs_unknown": found.macs_unknown,
        **({} if found.example is None else {"example": asdict(found.example)}),
        **({} if found.activations is None else {"activations": asdict(found.activations)}),
        **({} if count is None else {"weights": [asdict(weight) for weight in found.weights[:count]]}),
        **({"kernels": [dict(zip(_KERNEL, row, strict=True)) for row in found.kernels]} if found.kernels else {}),
        "targets": {
            name: {"complete": not missing, "unsupported": missing} for name, missing in found.unsupported.items()
        },
        "diagnostics": [as_json(finding) for finding in model.findings],
    }


def _print_contents(contents: Contents) -> None:
    from graphport.cli.table import print_table

    rows = [
        (module.path or "(root)", module.type, ", ".join(f"{name} {_tensor(t)}" for name, t in module.tensors.items()))
        for module in contents.modules
    ]
    print_table(("module", "class", "weights"), rows)
    click.echo()
    print_table(("method",), [(method,) for method in contents.methods])
    click.echo()
    if contents.extra_files:
        print_table(("extra file", "bytes"), [(name, f"{size:,}") for name, size in contents.extra_files.items()])
        click.echo()


def _tensor(tensor: TensorContents) -> str:
    quantized = " quantized" if tensor.is_quantized else ""
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]{quantized}"


def _dim(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _tell(model: Model, found: Inspection) -> None:
    from graphport.cli.table import print_table
    from graphport.formats import FORMATS

    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    click.echo(shown(f"{model.path}: {FORMATS[found.format].title}{f' ({versions})' if versions else ''}") + "\n")
    facts = [("input", found.inputs), ("output", found.outputs)]
    print_table(
        ("", "name", "type and shape"), [(kind, name, str(fact)) for kind, of in facts for name, fact in of.items()]
    )
    click.echo()
    rows = [(op, str(count), _work(op, found)) for op, count in found.operators.items()]
    print_table(("operator", "nodes", "multiply-accumulates"), [*rows, _total(found)])
    if found.kernels:
        click.echo()
        print_table(("kernel", "version", "nodes", "XNNPACK runs it"), [tuple(map(str, row)) for row in found.kernels])
    click.echo(f"\n{found.parameters:,} parameters in {_size(found.weight_bytes)} of weights")
    if found.activations is not None:
        peak = found.activations
        sizes = f" ({at(peak.sizes)})" if peak.sizes else ""
        place = shown(f"{peak.operator} {peak.node}")
        click.echo(f"activations: {_size(peak.peak_bytes)} in {place}{sizes}")
    click.echo()
    print_table(("format", "supports it"), [(name, _verdict(of)) for name, of in found.unsupported.items()])


def _print_weights(found: Inspection, count: int) -> None:
    from graphport.cli.table import print_table

    rows = [
        (each.name, each.dtype, "×".join(map(str, each.shape)) or "scalar", f"{each.nbytes:,}")
        for each in found.weights[:count]
    ]
    click.echo()
    print_table(("weight", "type", "shape", "bytes"), rows)


def _work(op: str, found: Inspection) -> str:
    counts = found.macs_by_operator if found.example is None else found.example.macs_by_operator
    known = [format_number(counts[op], found)] if op in counts else []
    unknown = found.macs_unknown.get(op)
    return " + ".join([*known, *([f"{unknown} nodes of unknown shape"] if unknown else [])])


def _total(found: Inspection) -> tuple[str, str, str]:
    sizes = "" if found.example is None else f"{at(found.example.sizes)}: "
    return "all", str(sum(found.operators.values())), f"{sizes}{total_macs(found)}"


def _size(count: int) -> str:
    if count < 1 << 10:
        return f"{count} bytes"
    unit, name = next((1 << bits, name) for bits, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")) if count >= 1 << bits)
    return f"{count / unit:.1f} {name}"


def _verdict(missing: Mapping[str, int]) -> str:
    return "no: " + ", ".join(f"{op} ({count})" for op, count in missing.items()) if missing else "yes"
