"""Small IR models of one layer or a few, written by hand.

The XML is made attribute by attribute, so that defaults and older versions of operations are those of the readers and not
of a builder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from graphport.core.storage import storage_of

Array = np.ndarray[Any, Any]

NAMES = {
    **{f"{s}int{n}": f"{s[:1] or 'i'}{n}" for s in ("", "u") for n in (4, 8, 16, 32, 64)},
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "bool": "boolean",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}
"""NumPy's names of element types in OpenVINO's."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: its numbers, whether they are a Const, and the shape that a Parameter declares, if not its own."""

    array: Array
    is_constant: bool = False
    declared: str | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """A word as in an IR file; `operands` are places among the operands of the case, then results of earlier layers."""

    op_type: str
    operands: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    results: int = 1


@dataclass(frozen=True, slots=True)
class Case:
    """Layers on operands; the results of the last layer are the outputs."""

    name: str
    operands: tuple[Operand, ...]
    layers: tuple[Layer, ...]
    tolerance: float = 1e-4
    judges: tuple[str, ...] = ("plugin", "evaluation")
    """Whose answer is right: any of these. Both depart from the specification in places, rarely in the same."""
    expected: tuple[Array, ...] | None = None
    """What the specification says, where neither does it."""
    kept: tuple[int, ...] | None = None
    """The results that are outputs; by default all of the last layer."""
    made: tuple[str, bytes] | None = None
    """XML and weights that somebody else wrote, in the place of layers."""


def constant(array: Any) -> Operand:
    """A Const."""
    return Operand(np.asarray(array), is_constant=True)


def one(
    op_type: str, *operands: Operand | Array, results: int = 1, case: dict[str, Any] | None = None, **attributes: Any
) -> Case:
    """A case of one layer; arrays are Parameters. `case` has further fields of the case; `_` stands for `-` in names."""
    given = tuple(x if isinstance(x, Operand) else Operand(np.asarray(x)) for x in operands)
    said = {name.replace("exclude_pad", "exclude-pad"): value for name, value in attributes.items()}
    made = Case(op_type, given, (Layer(op_type, tuple(range(len(given))), said, results),))
    return replace(made, **(case or {}))


def document(case: Case) -> tuple[str, bytes]:
    """The XML and the weights of a case."""
    if case.made is not None:
        return case.made
    weights = bytearray()
    layers: list[str] = []
    edges: list[str] = []
    places: list[tuple[int, int]] = []

    def layer(kind: str, opset: str, data: str, inputs: Sequence[tuple[int, int]], results: int) -> None:
        number = len(layers)
        for port, (source, place) in enumerate(inputs):
            edges.append(f'<edge from-layer="{source}" from-port="{place}" to-layer="{number}" to-port="{port}" />')
        taken = "".join(f'<port id="{port}" />' for port in range(len(inputs)))
        made = "".join(f'<port id="{len(inputs) + k}" precision="FP32" />' for k in range(results))
        places.extend((number, len(inputs) + k) for k in range(results))
        taken = f"<input>{taken}</input>" if taken else ""
        made = f"<output>{made}</output>" if made else ""
        text = f'<layer id="{number}" name="{kind}_{number}" type="{kind}" version="{opset}">'
        layers.append(f"{text}{data}{taken}{made}</layer>")

    for operand in case.operands:
        kind = NAMES[operand.array.dtype.name]
        shape = ",".join(map(str, operand.array.shape))
        if not operand.is_constant:
            declared = shape if operand.declared is None else operand.declared
            layer("Parameter", "opset1", f'<data shape="{declared}" element_type="{kind}" />', [], 1)
            continue
        raw = b"".join(bytes(chunk) for chunk in storage_of(operand.array).chunks())
        place = f'offset="{len(weights)}" size="{len(raw)}"'
        layer("Const", "opset1", f'<data element_type="{kind}" shape="{shape}" {place} />', [], 1)
        weights += raw
    for each in case.layers:
        opset, _, kind = each.op_type.partition(".")
        data = " ".join(f"{name}={quoteattr(spelt(x))}" for name, x in each.attributes.items())
        layer(kind, opset, f"<data {data} />" if data else "", [places[k] for k in each.operands], each.results)
    last = case.layers[-1].results
    ends = places[len(places) - last :]
    for k in case.kept if case.kept is not None else range(last):
        layer("Result", "opset1", "", [ends[k]], 0)
    body = f"<layers>{''.join(layers)}</layers><edges>{''.join(edges)}</edges>"
    return f'<?xml version="1.0"?><net name="case" version="11">{body}</net>', bytes(weights)


def spelt(value: Any) -> str:
    """An attribute as an IR file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(spelt, value))
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def write(case: Case, folder: Path) -> Path:
    """The files of a case."""
    text, weights = document(case)
    path = folder / "case.xml"
    path.write_text(text, "utf-8")
    path.with_suffix(".bin").write_bytes(weights)
    return path


def given(case: Case) -> list[Array]:
    """The numbers of the Parameters, in order."""
    return [operand.array for operand in case.operands if not operand.is_constant]
