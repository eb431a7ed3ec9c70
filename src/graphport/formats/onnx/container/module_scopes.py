"""Modules of PyTorch that nodes come from, as its two ONNX exporters record them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.names import scope_of_modules

if TYPE_CHECKING:
    from graphport.formats.onnx.container.notes import Properties

_NAME_SCOPES = "pkg.torch.onnx.name_scopes"
_QUOTED = re.compile(r"'([^']*)'")


def module_scope(name: str, metadata: Properties) -> str | None:
    """Return the modules around a node, outermost first, separated by `/`: `layers.0/conv`.

    The exporter of `dynamo=True` records the qualified names of the modules and the operator as metadata, the older one
    names nodes `/layers.0/layers.0.conv/Conv`, where a part repeats the part before it.
    """
    recorded = next((text for key, text in metadata if key == _NAME_SCOPES), None)
    if recorded is not None:
        return scope_of_modules(_QUOTED.findall(recorded)[:-1])
    return scope_of_modules(name.split("/")[1:-1]) if name.startswith("/") else None
