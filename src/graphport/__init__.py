"""Reads, checks, runs, compares and converts trained neural networks between exchange formats."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graphport.api import (
        ConversionReport,
        Model,
        QuantizedModel,
        RewriteReport,
        check,
        compare,
        convert,
        from_onnx,
        inspect,
        load,
        prepare,
        quantize,
        run,
        save,
        session,
        simplify,
        to_onnx,
    )
    from graphport.comparison import Comparison
    from graphport.conversion.inspection import Inspection
    from graphport.core.diagnostics import Diagnostic, DiagnosticError
    from graphport.expression.expression import Expression

_HOMES = {
    "ConversionReport": "graphport.api",
    "Model": "graphport.api",
    "QuantizedModel": "graphport.api",
    "RewriteReport": "graphport.api",
    "check": "graphport.api",
    "compare": "graphport.api",
    "convert": "graphport.api",
    "from_onnx": "graphport.api",
    "inspect": "graphport.api",
    "load": "graphport.api",
    "prepare": "graphport.api",
    "quantize": "graphport.api",
    "run": "graphport.api",
    "save": "graphport.api",
    "session": "graphport.api",
    "simplify": "graphport.api",
    "to_onnx": "graphport.api",
    "Comparison": "graphport.comparison",
    "Diagnostic": "graphport.core.diagnostics",
    "DiagnosticError": "graphport.core.diagnostics",
    "Expression": "graphport.expression.expression",
    "Inspection": "graphport.conversion.inspection",
}

__all__ = [
    "Comparison",
    "ConversionReport",
    "Diagnostic",
    "DiagnosticError",
    "Expression",
    "Inspection",
    "Model",
    "QuantizedModel",
    "RewriteReport",
    "check",
    "compare",
    "convert",
    "from_onnx",
    "inspect",
    "load",
    "prepare",
    "quantize",
    "run",
    "save",
    "session",
    "simplify",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import graphport` stays as quick as Python itself."""
    if name not in _HOMES:
        message = f"module 'graphport' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
