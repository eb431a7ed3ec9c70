"""Small IR files for tests, written without the code under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bool": "boolean",
    **{f"{s}int{n}": f"{s or 'i'}{n}" for s in ("", "u") for n in (8, 16, 32, 64)},
}


class Layer(NamedTuple):
    """One layer: `version.Type`, what `data` says, the layers (or `layer:port`) that it reads, its output ports."""

    name: str
    op_type: str
    data: Mapping[str, Any] = {}
    reads: Sequence[str] = ()
    outputs: int = 1
    inside: str = ""


class Constant(NamedTuple):
    """A Const layer with these numbers."""

    name: str
    array: Any


def parameter(name: str, shape: str, element_type: str = "f32") -> Layer:
    return Layer(name, "opset1.Parameter", {"shape": shape, "element_type": element_type})


def constant(name: str, data: Any, dtype: str) -> Constant:
    return Constant(name, np.array(data, dtype))


def write_ir(
    folder: Path, layers: Sequence[Layer | Constant], results: Sequence[str], *, version: str = "11", ports: str = ""
) -> Path:
    """Write `model.xml` and `model.bin`; every output port has no dims, which nobody has to believe."""
    text, weights = network(layers, results, ports=ports)
    path = folder / "model.xml"
    path.write_text(f'<?xml version="1.0"?>\n<net name="test" version="{version}">\n{text}<rt_info />\n</net>\n')
    path.with_suffix(".bin").write_bytes(weights)
    return path


def network(layers: Sequence[Layer | Constant], results: Sequence[str], *, ports: str = "") -> tuple[str, bytes]:
    """Layers and edges as text, and the weights."""
    numbers = {layer.name: index for index, layer in enumerate(layers)}
    counts = {layer.name: len(layer.reads) if isinstance(layer, Layer) else 0 for layer in layers}
    weights = b""
    said, edges = [], []
    for given in layers:
        layer = given
        if isinstance(layer, Constant):
            data = {
                "element_type": NAMES[layer.array.dtype.name],
                "shape": ", ".join(map(str, layer.array.shape)),
                "offset": len(weights),
                "size": layer.array.nbytes,
            }
            weights += layer.array.tobytes()
            layer = Layer(layer.name, "opset1.Const", data)
        elif isinstance(layer.data.get("offset"), bytes):
            raw = layer.data["offset"]
            layer = layer._replace(data={**layer.data, "offset": len(weights), "size": len(raw)})
            weights += raw
        said.append(_layer(numbers[layer.name], layer, ports))
        edges += [_edge(source, numbers, counts, numbers[layer.name], i) for i, source in enumerate(layer.reads)]
    for index, source in enumerate(results):
        number = len(layers) + index
        said.append(_layer(number, Layer(f"result{index}", "opset1.Result", reads=(source,), outputs=0), ports))
        edges.append(_edge(source, numbers, counts, number, 0))
    return f"<layers>\n{''.join(said)}</layers>\n<edges>\n{''.join(edges)}</edges>\n", weights


def _layer(number: int, layer: Layer, ports: str) -> str:
    version, _, type = layer.op_type.partition(".")
    data = "".join(f" {name}={quoteattr(str(value))}" for name, value in layer.data.items())
    inputs = "".join(f'<port id="{i}" precision="FP32" />' for i in range(len(layer.reads)))
    first = len(layer.reads)
    outputs = "".join(f'<port id="{first + i}" precision="UNSPECIFIED"{ports} />' for i in range(layer.outputs))
    return (
        f'<layer id="{number}" name={quoteattr(layer.name)} type="{type}" version="{version}">\n'
        + (f"<data{data} />\n" if data else "")
        + layer.inside
        + (f"<input>{inputs}</input>\n" if inputs else "")
        + (f"<output>{outputs}</output>\n" if outputs else "")
        + "</layer>\n"
    )


def _edge(source: str, numbers: Mapping[str, int], counts: Mapping[str, int], target: int, port: int) -> str:
    name, _, index = source.partition(":")
    start = counts[name] + int(index or 0)
    return f'<edge from-layer="{numbers[name]}" from-port="{start}" to-layer="{target}" to-port="{port}" />\n'
