"""Infer the shapes of a model with one tool in a separate process, and print them as a line of JSON.

python tools.py TOOL MODEL.onnx

The time covers reading and inferring, not importing. The script needs no package except the tool: it runs in any
environment that has it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Shapes = dict[str, list[int | str | None] | None]
    Work = Callable[[str], Shapes]


def graphport() -> Work:
    """Infer with graphport, on the graph in the onnx dialect."""
    import graphport as gp
    from graphport.core.facts import TensorFact

    def work(model: str) -> Shapes:
        found: Shapes = {}
        for name, fact in gp.load(model, raw=True).shapes().items():
            shape = fact.shape if isinstance(fact, TensorFact) else None
            found[name] = None if shape is None else [dim if isinstance(dim, int) else str(dim) for dim in shape]
        return found

    return work


def onnx() -> Work:
    """Infer with onnx.shape_inference, with data propagation."""
    import onnx as tool

    def work(model: str) -> Shapes:
        return _declared(tool.shape_inference.infer_shapes(tool.load(model), data_prop=True))

    return work


def onnxruntime() -> Work:
    """Infer with ONNX Runtime's symbolic shape inference."""
    import onnx
    from onnxruntime.tools.symbolic_shape_infer import (  # pyright: ignore[reportMissingTypeStubs]
        SymbolicShapeInference,
    )

    def work(model: str) -> Shapes:
        loaded = onnx.load(model)
        return _declared(SymbolicShapeInference.infer_shapes(loaded, auto_merge=True))

    return work


def onnx_shape_inference() -> Work:
    """Infer with the package onnx_shape_inference."""
    import onnx_ir  # pyright: ignore[reportMissingImports]
    import onnx_shape_inference as tool  # pyright: ignore[reportMissingImports]

    def work(model: str) -> Shapes:
        graph = tool.infer_symbolic_shapes(onnx_ir.load(model)).graph
        values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
        return {value.name: _spelled(value.shape) for value in values if value.name}

    return work


def _spelled(shape: Iterable[Any] | None) -> list[int | str | None] | None:
    if shape is None:
        return None
    return [dim if isinstance(dim, int) else None if dim.value is None else str(dim.value) for dim in shape]


def _declared(model: Any) -> Shapes:
    """Return the declared shapes of a model."""
    found: Shapes = {}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        kind = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
            found[value.name] = None
            continue
        dims = kind.shape.dim
        found[value.name] = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
    return found


TOOLS: dict[str, Callable[[], Work]] = {
    "graphport": graphport,
    "onnx": onnx,
    "onnxruntime": onnxruntime,
    "onnx-shape-inference": onnx_shape_inference,
}


def main() -> None:
    """Infer and print the shapes with the processor seconds."""
    tool, model = sys.argv[1:3]
    logging.disable(logging.WARNING)
    work = TOOLS[tool]()
    started = time.process_time()
    found = work(model)
    took = time.process_time() - started
    sys.stdout.write(f"\n{json.dumps({'cpu_s': took, 'shapes': found})}\n")


if __name__ == "__main__":
    main()
