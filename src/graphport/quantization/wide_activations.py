"""Use 16-bit activations where 8 bits are insufficient: for single layers, if the target mixes widths."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.quantization.calibrate import calibrate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Graph, Value
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.choices import Choices
    from graphport.quantization.settings import Settings
    from graphport.runtimes.target import Target

_BYTE = 8


def widened(choices: Choices, best: Candidate, names: Collection[str]) -> Candidate:
    """Return `best` with 16-bit inputs of the layers whose nodes or results are in `names`; weights are unchanged.

    If all values have qparams, these layers also return 16 bits. Other consumers of such a value read 16 bits, too.
    Values whose kernel fixes the qparams keep them.
    """
    quantization = best.quantization
    dtype, points = choices.target.wide, quantization.placement.points
    asked = [
        layer for node, layer in quantization.placement.layers.items() if {node.name, node.output.name} & set(names)
    ]
    values = [layer.input for layer in asked]
    if choices.target.is_whole:
        values += [_end(layer.node.output, points) for layer in asked]
    roots = {points[value] for value in values if value in points}
    all_qparams = dict(quantization.all_qparams)
    for value in roots - quantization.fixed:
        if dtype is not None and value in best.states:
            all_qparams[value] = calibrate(
                best.states[value],
                dtype,
                # There are enough codes for the whole range and a margin for unseen samples.
                "auto" if choices.calibration == "auto" else "min-max",
                is_symmetric=choices.is_symmetric or dtype in choices.target.centred,
                percentile=choices.settings.percentile,
                power_of_two=choices.power_of_two,
            )
    # A search for ranges would return to 8 bits.
    quantization = replace(quantization, all_qparams=all_qparams, fixed=quantization.fixed | roots)
    quantization.weights = dict(quantization.weights)
    return replace(best, quantization=quantization, noise=None)


def _end(value: Value, points: Mapping[Value, Value]) -> Value:
    """Follow single consumers from a layer's result to a value with qparams: the result of the fused kernel."""
    while value not in points and len(value.uses) == 1 and value.users and len(value.users[0].outputs) == 1:
        value = value.users[0].output
    return value


def has_wide_layers(settings: Settings, target: Target) -> bool:
    """Whether single layers may have 16-bit activations."""
    return target.wide is not None and target.mixes and not settings.weights_only and not settings.full_integer


def refuse_wide(graph: Graph, settings: Settings, target: Target) -> None:
    """Reject layers for 16-bit inputs if unsupported.

    Raises:
        DiagnosticError: QUANT0004 the target does not mix widths, QUANT0010 there is no such node.
    """
    if not settings.wide_nodes:
        return
    if not has_wide_layers(settings, target) or settings.activation_bits > _BYTE:
        remedy = "remove the setting 'wide_nodes' (--wide)"
        if target.wide is not None:
            remedy += ", or use 16 bits for all activations (--bits 16)"
        message = f"{target.name} does not support 16-bit activations of single layers here"
        raise DiagnosticError(Diagnostic("QUANT0004", message, None, remedy))
    known = {name for node in graph for name in (node.name, *(value.name for value in node.results))}
    findings = [
        Diagnostic("QUANT0010", f"unknown layer {name!r}", None, "pass names of nodes or of their results")
        for name in settings.wide_nodes
        if name not in known
    ]
    if findings:
        raise DiagnosticError(*findings)
