"""Reads, checks, runs, compares and converts trained neural networks between exchange formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.core.version import __version__ as __version__

if TYPE_CHECKING:
    from graphport.api.cast import cast
    from graphport.api.compare import FoundDifference, compare, find_difference
    from graphport.api.convert import ConversionReport, convert
    from graphport.api.cut import cut
    from graphport.api.dequantize import dequantize
    from graphport.api.edit import Edit, edit
    from graphport.api.inspect import inspect
    from graphport.api.latency import latency
    from graphport.api.load import check, from_jax, from_onnx, from_torch, load
    from graphport.api.merge import merge
    from graphport.api.model import Model, QuantizedModel
    from graphport.api.quantize import perplexity, quantize
    from graphport.api.report import report
    from graphport.api.rewrite import RewriteReport, prepare, simplify
    from graphport.api.run import run, session
    from graphport.api.save import save, to_onnx, to_torch
    from graphport.api.verify import verify
    from graphport.comparison import Comparison
    from graphport.comparison.limits import Limits
    from graphport.conversion.inspection import Inspection
    from graphport.core.diagnostics import Diagnostic, DiagnosticError
    from graphport.expression.expression import Expression
    from graphport.ops.custom_operators import operator
    from graphport.passes.preprocess import Preprocess
    from graphport.proof.document import Proof
    from graphport.quantization.images import Pictures
    from graphport.reports import Report

_HOMES = {
    "Edit": "graphport.api.edit",
    "FoundDifference": "graphport.api.compare",
    "Preprocess": "graphport.passes.preprocess",
    "edit": "graphport.api.edit",
    "merge": "graphport.api.merge",
    "operator": "graphport.ops.custom_operators",
    "Limits": "graphport.comparison.limits",
    "find_difference": "graphport.api.compare",
    "ConversionReport": "graphport.api.convert",
    "Model": "graphport.api.model",
    "QuantizedModel": "graphport.api.model",
    "RewriteReport": "graphport.api.rewrite",
    "cast": "graphport.api.cast",
    "check": "graphport.api.load",
    "compare": "graphport.api.compare",
    "convert": "graphport.api.convert",
    "cut": "graphport.api.cut",
    "dequantize": "graphport.api.dequantize",
    "from_onnx": "graphport.api.load",
    "from_jax": "graphport.api.load",
    "from_torch": "graphport.api.load",
    "inspect": "graphport.api.inspect",
    "latency": "graphport.api.latency",
    "load": "graphport.api.load",
    "prepare": "graphport.api.rewrite",
    "perplexity": "graphport.api.quantize",
    "quantize": "graphport.api.quantize",
    "report": "graphport.api.report",
    "run": "graphport.api.run",
    "save": "graphport.api.save",
    "session": "graphport.api.run",
    "simplify": "graphport.api.rewrite",
    "to_onnx": "graphport.api.save",
    "to_torch": "graphport.api.save",
    "verify": "graphport.api.verify",
    "Comparison": "graphport.comparison",
    "Diagnostic": "graphport.core.diagnostics",
    "DiagnosticError": "graphport.core.diagnostics",
    "Expression": "graphport.expression.expression",
    "Pictures": "graphport.quantization.images",
    "Proof": "graphport.proof.document",
    "Inspection": "graphport.conversion.inspection",
    "Report": "graphport.reports",
}

__all__ = [
    "Comparison",
    "ConversionReport",
    "Diagnostic",
    "DiagnosticError",
    "Edit",
    "Expression",
    "FoundDifference",
    "Inspection",
    "Limits",
    "Model",
    "Pictures",
    "Preprocess",
    "Proof",
    "QuantizedModel",
    "Report",
    "RewriteReport",
    "cast",
    "check",
    "compare",
    "convert",
    "cut",
    "dequantize",
    "edit",
    "find_difference",
    "from_jax",
    "from_onnx",
    "from_torch",
    "inspect",
    "latency",
    "load",
    "merge",
    "operator",
    "perplexity",
    "prepare",
    "quantize",
    "report",
    "run",
    "save",
    "session",
    "simplify",
    "to_onnx",
    "to_torch",
    "verify",
]


__getattr__ = first_used(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
