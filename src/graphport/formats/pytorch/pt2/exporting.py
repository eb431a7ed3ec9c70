"""Export modules with an installed torch; the only module that imports torch, inside its functions."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from pathlib import Path


def exported(module: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> bytes:
    """Return the `.pt2` file of a module or of an exported program.

    Raises:
        DiagnosticError: PT0013 torch is not installed or cannot export the module.
    """
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        message = "exporting a module requires torch, which is not installed"
        raise DiagnosticError(Diagnostic("PT0013", message, None, "install torch, or load a .pt2 file")) from error
    program: Any = module
    if not isinstance(module, torch.export.ExportedProgram):
        program = _program(torch, module, args, kwargs, dynamic_shapes)
    buffer = BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def loaded(path: Path) -> Any:
    """Load the module of the exported program at `path`.

    Raises:
        DiagnosticError: PT0013 torch is not installed.
    """
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        message = "a PyTorch module requires torch, which is not installed"
        help = "install torch, or save the model as .pt2 and load it where torch is installed"
        raise DiagnosticError(Diagnostic("PT0013", message, None, help)) from error
    return torch.export.load(str(path)).module()


def _program(torch: Any, module: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> Any:
    given: Any = tuple(args) if type(args) in (tuple, list) else (args,)
    try:
        with torch.no_grad():
            return torch.export.export(module, given, kwargs or {}, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        # Torch raises many exception types; its message explains the cause.
        message = f"torch.export fails: {error}"
        help = "change the module until torch.export.export succeeds; torch.export.draft_export reports all problems"
        raise DiagnosticError(Diagnostic("PT0013", message, None, help)) from error
