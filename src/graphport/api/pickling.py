"""Pickle models as archive files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from graphport import formats
from graphport.api.temporary_source import map_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


T = TypeVar("T")
_DERIVED = ("graph", "kept", "words")
"""Fields that are not pickled: the graph is an archive, the others are records of the dialect graph."""


def reduce_model(model: Any) -> tuple[Any, ...]:
    """Return the function and the arguments that restore `model`."""
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model.graphport"
        formats.FORMATS["archive"].write(model.graph, path)
        data = path.read_bytes()
    others = {each.name: getattr(model, each.name) for each in fields(model) if each.name not in _DERIVED}
    return restore_model, (type(model), data, others)


def restore_model(kind: Callable[..., T], data: bytes, others: Mapping[str, Any]) -> T:
    """Return the model of `reduce_model`.

    Raises:
        DiagnosticError: errors of the reader.
    """
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model.graphport"
        path.write_bytes(data)
        graph, _ = formats.FORMATS["archive"].read(path)
        map_weights(graph)
    return kind(graph=graph, **others)
