"""Pickle graphs as archive files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from graphport import formats
from graphport.api.temporary_source import map_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Graph


T = TypeVar("T")
_DERIVED = ("kept", "words")
"""Fields that are not pickled: records of the dialect graph."""


def reduce_graph(graph: Graph) -> tuple[Any, ...]:
    """Return the function and the arguments that restore `graph`."""
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model.graphport"
        formats.FORMATS["archive"].write(graph, path)
        return restore_graph, (path.read_bytes(),)


def restore_graph(data: bytes) -> Graph:
    """Return the graph of `reduce_graph`.

    Raises:
        DiagnosticError: errors of the reader.
    """
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model.graphport"
        path.write_bytes(data)
        graph, _ = formats.FORMATS["archive"].read(path)
        map_weights(graph)
    return graph


def reduce_model(model: Any) -> tuple[Any, ...]:
    """Return the function and the arguments that restore `model`."""
    kept = {each.name: getattr(model, each.name) for each in fields(model) if each.name not in _DERIVED}
    return restore_model, (type(model), kept)


def restore_model(kind: Callable[..., T], kept: Mapping[str, Any]) -> T:
    """Return the model of `reduce_model`."""
    return kind(**kept)
