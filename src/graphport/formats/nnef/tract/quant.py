"""`graph.quant` as tract reads it: names of values, parameters in any order, whatever the graph says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import raise_errors
from graphport.formats.nnef.quant import Quantization, parse_quantization
from graphport.formats.nnef.syntax import Edition, Logical, Number, Unary

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source
    from graphport.formats.nnef.quant import Entry

_DEFAULTS: dict[str, float | bool] = {"signed": True, "symmetric": False, "bits": 8}


def quantizations_of(source: Source) -> dict[str, Quantization]:
    """How the values that the file names are quantized.

    Raises:
        DiagnosticError: its text is wrong.
    """
    parsed = parse_quantization(source, Edition.FINAL)
    raise_errors(parsed.diagnostics)
    return {entry.key.value: _quantization(entry) for entry in parsed.entries}


def _quantization(entry: Entry) -> Quantization:
    given: dict[str, float | bool] = dict(_DEFAULTS)
    for argument in entry.call.arguments:
        match argument.value:
            case Number() | Logical():
                given[argument.name or ""] = argument.value.value
            case Unary(operator="-", operand=Number() as number):
                given[argument.name or ""] = -number.value
            case _:
                pass
    given["symmetric"] = False  # tract uses all codes
    order = {"zero_point_linear_quantize": ("zero_point", "scale", "bits", "signed", "symmetric")}
    names = order.get(entry.call.name, tuple(given))
    return Quantization(entry.call.name, {name: given[name] for name in names if name in given})
