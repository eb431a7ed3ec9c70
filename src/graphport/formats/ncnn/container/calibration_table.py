"""Calibration tables: the scales with which ncnn quantizes to int8."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.atomic_write import replacing
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.regular_files import contents

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_WEIGHTS = "_param_"
DEAD = 1.0
"""Scale of an all-zero channel: any finite scale is exact, an infinite one is useless."""


@dataclass(frozen=True, slots=True)
class Scales:
    """Scales of one line: `key` is a layer name, or `LAYER_param_0` for its weights; integers per real unit.

    `is_float` marks a commented line: the layer stays float.
    """

    key: str
    scales: tuple[float, ...]
    is_float: bool = False

    @property
    def is_weights(self) -> bool:
        """Whether the line has the scales of a layer's weights, not of its input."""
        return _WEIGHTS in self.key


def read_table(path: str | Path) -> list[Scales]:
    """Return the lines of a calibration table, in file order.

    Raises:
        DiagnosticError: NCNN0401 a scale is not a positive number; IO0006 the file cannot be read.
    """
    try:
        text = contents(path).decode("utf-8", "backslashreplace")
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise DiagnosticError(Diagnostic("IO0006", message, None, "check the path")) from error
    source = Source(str(path), text)
    found: list[Scales] = []
    findings: list[Diagnostic] = []
    position = 0
    for row in text.splitlines(keepends=True):
        fields = row.replace("#", " ").split()
        span = Span(source, position, position + len(row.rstrip()))
        position += len(row)
        if not fields:
            continue
        try:
            scales = tuple(_scale(field) for field in fields[1:])
        except ValueError as error:
            findings.append(Diagnostic("NCNN0401", f"{fields[0]}: {error}", span, "run the calibration again"))
            continue
        found.append(Scales(fields[0], scales, row.lstrip().startswith("#")))
    if findings:
        raise DiagnosticError(*findings)
    return found


def _scale(field: str) -> float:
    """Parse a scale; replace infinity, which other tools write for an all-zero channel, by `DEAD`.

    Raises:
        ValueError: the scale is not a positive number.
    """
    scale = float(field)
    if math.isinf(scale) and scale > 0:
        return DEAD
    if not scale > 0:
        message = f"invalid scale {field}: expected a positive number"
        raise ValueError(message)
    return scale


def write_table(path: str | Path, lines: Iterable[Scales]) -> None:
    """Write a calibration table; infinite scales of all-zero channels become finite."""
    rows = [" ".join([line.key, *(f"{_finite(scale):.9g}" for scale in line.scales)]) for line in lines_of(lines)]
    with replacing(path) as file:
        file.write("".join(f"{row}\n" for row in rows).encode())


def lines_of(lines: Iterable[Scales]) -> list[Scales]:
    """Return the lines with `#` before the key of each layer that stays float."""
    return [Scales(f"#{line.key}" if line.is_float else line.key, line.scales) for line in lines]


def _finite(scale: float) -> float:
    return scale if math.isfinite(scale) and scale > 0 else DEAD
