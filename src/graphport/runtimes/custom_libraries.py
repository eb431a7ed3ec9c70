"""Libraries of custom operators for ONNX Runtime."""

from __future__ import annotations

import os
from typing import Any

LIBRARIES = "GRAPHPORT_ORT_LIBRARY"
"""Environment variable with the paths of the libraries, separated as in `PATH`."""


def register_libraries(options: Any) -> None:
    """Register the libraries that the environment names with the options of a session.

    Raises:
        Exception: ONNX Runtime does not load a library.
    """
    for path in filter(None, os.environ.get(LIBRARIES, "").split(os.pathsep)):
        options.register_custom_ops_library(path)
