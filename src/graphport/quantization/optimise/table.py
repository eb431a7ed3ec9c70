"""Latency tables: times of layers on a machine, written there and read where models are quantized."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from graphport.core.facts import TensorFact
from graphport.core.regular_files import contents
from graphport.core.short_repr import short_repr
from graphport.quantization.optimise.costs import Times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from graphport.ir.graph import Node

SCHEMA = "graphport/latency/1"


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of a node in a run, float and quantized; `None` if it was fused into another kernel."""

    node: str
    signature: str
    float32: float | None
    int8: float | None


@short_repr
@dataclass(frozen=True, slots=True, eq=False)
class LatencyTable:
    """Times of nodes on a target's runtime, on one thread, in a run of `entries` samples.

    `whole` is microseconds of a float run, `rate` microseconds per quantized element. Nodes are identified by operator,
    attributes and shapes: the table applies to every model with such nodes.
    """

    target: str
    version: str
    processor: Mapping[str, Any]
    entries: int
    whole: float
    rate: float
    rows: tuple[Row, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        rows = [
            {"node": row.node, "signature": row.signature, "float32_us": row.float32, "int8_us": row.int8}
            for row in self.rows
        ]
        return {
            "schema": SCHEMA,
            "target": self.target,
            "version": self.version,
            "processor": dict(self.processor),
            "entries": self.entries,
            "whole_us": self.whole,
            "rounding_us": self.rate,
            "nodes": rows,
        }

    def times(self, nodes: Iterable[Node]) -> tuple[Times, Times, list[str]]:
        """Return times of `nodes` by name, float and quantized; and the names of nodes that the table lacks."""
        known = {row.signature: row for row in self.rows}
        before, after = Times(rate=self.rate), Times(rate=self.rate)
        missing: list[str] = []
        for node in nodes:
            stated = signature(node)
            row = known.get(stated) or self._like(stated)
            if row is None:
                missing.append(node.name or node.output.name)
                continue
            for times, number in ((before, row.float32), (after, row.int8)):
                if number is not None:
                    times.nodes[node.name] = number
        return before, after, missing

    def _like(self, stated: str) -> Row | None:
        pattern = re.compile(re.escape(stated).replace(re.escape("?"), r"(?:\d+|\?)"))
        return next((row for row in self.rows if pattern.fullmatch(row.signature)), None)


def read_table(path: Path) -> LatencyTable:
    """Read a latency table.

    Raises:
        DiagnosticError: QUANT0028 it is invalid.
    """
    try:
        found: object = json.loads(contents(path).decode("utf-8"))
        given = cast("dict[str, Any]", found if isinstance(found, dict) else {})
        if given.get("schema") != SCHEMA:
            raise _wrong(path, f"its schema is {given.get('schema')!r}, not {SCHEMA!r}")
        rows = tuple(
            Row(
                str(row["node"]),
                str(row["signature"]),
                _optional_float(row["float32_us"]),
                _optional_float(row["int8_us"]),
            )
            for row in given["nodes"]
        )
        return LatencyTable(
            str(given["target"]),
            str(given["version"]),
            dict(given["processor"]),
            max(int(given["entries"]), 1),
            float(given["whole_us"]),
            float(given["rounding_us"]),
            rows,
        )
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _wrong(path, str(error)) from error


def signature(node: Node) -> str:
    """Return the properties that determine a node's time: operator, operand shapes and attributes.

    Open sizes are `?`; so is the first axis of computed operands, the batch.
    """
    shapes: list[str] = []
    for value in node.inputs:
        fact = None if value is None else value.fact
        if value is not None and isinstance(fact, TensorFact) and fact.shape is not None:
            first = 0 if value.is_constant else 1
            dims = [
                str(dim) if isinstance(dim, int) and place >= first else "?" for place, dim in enumerate(fact.shape)
            ]
            shapes.append("x".join(dims) or "scalar")
    given = sorted(node.attributes.items())
    attributes = [f"{name}={_cell(x)}" for name, x in given if isinstance(x, int | float | str | tuple)]
    return " ".join([node.op, *shapes, *attributes])


def unknown_to(table: LatencyTable, missing: Sequence[str], target: str) -> list[Diagnostic]:
    """Return a warning if the table lacks some layers.

    Raises:
        DiagnosticError: QUANT0028 the table is of another target.
    """
    if table.target != target:
        message = f"the latency table is for {table.target}, the model for {target}"
        raise DiagnosticError(Diagnostic("QUANT0028", message, None, "measure a table with graphport latency --target"))
    if not missing:
        return []
    names = ", ".join(missing[:3])
    message = f"the latency table lacks {len(missing)} layers, for example {names}; their latency counts as 0"
    return [Diagnostic("QUANT0029", message, None, "run graphport latency on this model", Severity.WARNING)]


def _cell(x: object) -> str:
    return ",".join(map(str, cast("tuple[object, ...]", x))) if isinstance(x, tuple) else str(x)


def _optional_float(x: object) -> float | None:
    return None if x is None else float(cast("float", x))


def _wrong(path: Path, why: str) -> DiagnosticError:
    message = f"{path} is not a latency table: {why}"
    return DiagnosticError(
        Diagnostic("QUANT0028", message, Span(Source(str(path))), "create one: graphport latency MODEL -o FILE")
    )
