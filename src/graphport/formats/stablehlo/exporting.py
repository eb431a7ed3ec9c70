"""Export functions of JAX as files in memory. JAX is imported here, when a function is exported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError


def exported(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The bytes of a `jax.export` file of a function, or of a `jax.export.Exported`.

    Raises:
        DiagnosticError: SH0011 JAX is not installed, or does not export the function.
    """
    try:
        jax: Any = import_module("jax")
        export: Any = import_module("jax.export")
    except ImportError as error:
        message = "jax is not installed, and exporting a function requires it"
        raise DiagnosticError(
            Diagnostic("SH0011", message, None, "install jax, or load a file written by jax.export")
        ) from error
    try:
        if isinstance(function, export.Exported):
            return bytes(function.serialize())
        compiled = function if hasattr(function, "lower") else jax.jit(function)
        return bytes(export.export(compiled)(*args, **kwargs).serialize())
    except Exception as error:
        # Tracing runs the function, which may raise any exception.
        message = f"jax.export fails: {error}"
        help = "correct the function until jax.export.export(jax.jit(function))(*args) succeeds"
        raise DiagnosticError(Diagnostic("SH0011", message, None, help)) from error
