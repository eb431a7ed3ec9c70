"""`graph.quant` in tract's format: names of values, parameters in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span, raise_errors
from graphport.formats.nnef.container.quant import parse_quantization
from graphport.formats.nnef.container.quantized import Quantization
from graphport.formats.nnef.container.syntax import Edition, Logical, Number, Unary

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source
    from graphport.formats.nnef.container.quant import QuantizationEntry

_MOST_BITS = 64
_NEEDED = {
    "zero_point_linear_quantize": ("zero_point", "scale"),
    "linear_quantize": ("min", "max"),
    "min_max_linear_quantize": ("min", "max"),
    "logarithmic_quantize": ("max",),
}
_DEFAULTS: dict[str, float | bool] = {"bits": 8, "signed": True, "symmetric": False}


def quantizations_of(source: Source) -> dict[str, Quantization]:
    """Return the quantization of each tensor that the file names.

    Raises:
        DiagnosticError: its text is wrong.
    """
    parsed = parse_quantization(source, Edition.FINAL)
    raise_errors(parsed.diagnostics)
    return {entry.key.value: _checked(_quantization(entry), entry, source) for entry in parsed.entries}


def _checked(found: Quantization, entry: QuantizationEntry, source: Source) -> Quantization:
    given = found.arguments
    missing = [name for name in _NEEDED.get(found.operation, ()) if name not in given]
    arguments = {name: value for name, value in given.items() if isinstance(value, int | float)}
    code, message = "NNEF0810", ""
    if missing:
        code, message = "NNEF0324", f"missing argument '{missing[0]}' of '{found.operation}'"
    elif not 1 <= arguments["bits"] <= _MOST_BITS:
        message = f"bits is {arguments['bits']}, expected 1 to {_MOST_BITS}"
    elif arguments.get("scale", 1) <= 0:
        message = "scale is not positive"
    elif arguments.get("min", 0) >= arguments.get("max", float("inf")):
        message = "'min' is not less than 'max'"
    if message:
        raise DiagnosticError(Diagnostic(code, message, Span(source, entry.call.start, entry.call.stop)))
    return found


def _quantization(entry: QuantizationEntry) -> Quantization:
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
    names = (*_NEEDED.get(entry.call.name, tuple(given)), *_DEFAULTS)
    return Quantization(entry.call.name, {name: given[name] for name in dict.fromkeys(names) if name in given})
