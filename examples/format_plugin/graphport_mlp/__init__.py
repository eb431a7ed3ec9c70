"""Perceptrons as JSON, read and written by graphport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.contract import Format, Hooks, deferred

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.ir.graph import Graph


def recognize(path: Path, head: bytes) -> bool:
    """Whether a file begins as a perceptron does."""
    del path
    return head.lstrip().startswith(b'{"format": "mlp"')


def versions(graph: Graph) -> dict[str, str]:
    """The format has no versions."""
    del graph
    return {}


FORMAT = Format(
    name="mlp",
    title="perceptron in JSON",
    endings=(".mlp",),
    dialect="mlp",
    hooks=Hooks(
        recognize=recognize,
        read=deferred("graphport_mlp.reader", "read"),
        versions=versions,
        write=deferred("graphport_mlp.writer", "write"),
    ),
    rules={"mlp": "graphport_mlp.rules"},
)
