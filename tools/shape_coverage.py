"""Count the correct shapes of a model: of graphport, of `onnx`, and of ONNX Runtime's symbolic shape inference.

python tools/shape_coverage.py MODEL.onnx ...

Every open dim of an input gets a separate symbol, and the declared shapes of other values are removed. Each inferred
shape is evaluated at two sizes of the inputs and compared with the shapes that ONNX Runtime computes, for every value
that a node of the main graph computes. `open` is a shape with symbols that no input has.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from graphport.conversion.legalize import legalize
from graphport.core.dims import evaluate, symbols
from graphport.core.facts import TensorFact
from graphport.formats.onnx import read

Shape = tuple[Any, ...] | None
Shapes = Mapping[str, Shape]
BATCHES = (1, 2)
IMAGES = ((64, 96), (96, 160))
"""Height and width at both sizes."""
SAMPLES = 512
"""Length of a signal: speech models accept no other."""
VERDICTS = ("right", "open", "WRONG", "no rank", "crash")


def main(paths: Sequence[str]) -> int:
    """Print a row for every model, and the totals."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    totals: dict[str, Counter[str]] = {name: Counter() for name in TOOLS}
    print(f"{'model':40} {'values':>7}  " + "  ".join(f"{name:>34}" for name in TOOLS))
    for path in paths:
        model, bindings = with_symbols(onnx.load(path))
        truth = [computed(model, binding) for binding in bindings]
        cells: list[str] = []
        for name, infer in TOOLS.items():
            started = time.process_time()
            counts = judged(infer, model, bindings, truth)
            totals[name] += counts
            cells.append(f"{told(counts)} {time.process_time() - started:6.2f}s")
        print(f"{Path(path).name:40} {len(truth[0]):7}  " + "  ".join(f"{cell:>34}" for cell in cells))
    print(f"{'all':48}  " + "  ".join(f"{told(counts):>34}" for counts in totals.values()))
    return 0


def told(counts: Counter[str]) -> str:
    """Format the counts of verdicts."""
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def with_symbols(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[dict[str, int]]]:
    """Return the model with symbols for open input dims and no declared shapes, and two assignments of the symbols."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    del twin.graph.value_info[:]
    for output in twin.graph.output:
        output.type.tensor_type.ClearField("shape")
    bindings: list[dict[str, int]] = [{}, {}]
    for given in inputs_of(twin):
        for axis, dim in enumerate(given.type.tensor_type.shape.dim):
            if dim.dim_value > 0:
                continue
            name = f"d{len(bindings[0])}"
            dim.Clear()
            dim.dim_param = name
            for number, binding in enumerate(bindings):
                binding[name] = length(axis, len(given.type.tensor_type.shape.dim), number)
    return twin, bindings


def length(axis: int, rank: int, number: int) -> int:
    """Return the size of an open axis of an input in run `number`."""
    if axis == 0 or rank == 3:
        return BATCHES[number]
    return IMAGES[number][axis % 2] if rank == 4 else SAMPLES


def inputs_of(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    """Return the inputs without initializers."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return (given for given in model.graph.input if given.name not in stored)


def computed(model: onnx.ModelProto, binding: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every value that a node of the main graph computes, in a run with the sizes of `binding`."""
    names = [name for node in model.graph.node for name in node.output if name]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {}
    for given in inputs_of(model):
        tensor = given.type.tensor_type
        shape = [binding.get(dim.dim_param, dim.dim_value) for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        # A scalar input of a speech model is a sample rate.
        feeds[given.name] = np.asarray(rng.normal(size=shape) if shape else 16000).astype(dtype)
    results: list[Any] = list(session.run(names, feeds))
    return {name: np.shape(found) for name, found in zip(names, results, strict=True)}


def judged(
    infer: Callable[[onnx.ModelProto], Shapes],
    model: onnx.ModelProto,
    bindings: Sequence[Mapping[str, int]],
    truth: Sequence[Mapping[str, tuple[int, ...]]],
) -> Counter[str]:
    """Count the verdicts of the shapes that `infer` infers."""
    try:
        found = infer(model)
    except Exception:  # noqa: BLE001  any exception of a tool counts as a crash
        return Counter({"crash": len(truth[0])})
    return Counter(verdict(found.get(name), [shapes[name] for shapes in truth], bindings) for name in truth[0])


def verdict(shape: Shape, real: Sequence[tuple[int, ...]], bindings: Sequence[Mapping[str, int]]) -> str:
    """Return the verdict of an inferred shape."""
    if shape is None:
        return "no rank"
    if any(len(shape) != len(each) for each in real):
        return "WRONG"
    results = {
        dim_verdict(dim, n, binding)
        for each, binding in zip(real, bindings, strict=True)
        for dim, n in zip(shape, each, strict=True)
    }
    return next((op_type for op_type in ("WRONG", "open") if op_type in results), "right")


def dim_verdict(dim: Any, real: int, binding: Mapping[str, int]) -> str:
    """Return the verdict of one dim: a number, an expression in symbols, or a formula as text."""
    if isinstance(dim, str):
        return text_verdict(dim, real, binding)
    if not isinstance(dim, int) and not set(symbols(dim)) <= set(binding):
        return "open"
    return "right" if evaluate(dim, binding) == real else "WRONG"


def text_verdict(text: str, real: int, binding: Mapping[str, int]) -> str:
    """Return the verdict of a dim as a formula in SymPy's syntax."""
    import sympy

    parse: Any = sympy.sympify
    formula: Any = parse(text, locals={name: sympy.Symbol(name) for name in binding})
    value = formula.subs(dict(binding))
    if value.free_symbols:
        return "open"
    return "right" if int(value) == real else "WRONG"


def of_graphport(model: onnx.ModelProto) -> Shapes:
    """Return the shapes that graphport infers."""
    graph, _ = legalize(read(model))
    return {value.name: value.fact.shape for value in graph.values() if isinstance(value.fact, TensorFact)}


def of_onnx(model: onnx.ModelProto) -> Shapes:
    """Return the shapes that `onnx.shape_inference` infers."""
    return declared(onnx.shape_inference.infer_shapes(model, data_prop=True))


def of_onnxruntime(model: onnx.ModelProto) -> Shapes:
    """Return the shapes that ONNX Runtime's symbolic shape inference infers."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    found: Any = SymbolicShapeInference.infer_shapes(twin, auto_merge=True)
    return declared(found)


def declared(model: onnx.ModelProto) -> Shapes:
    """Return the shapes that a model declares for its values."""
    found: dict[str, Shape] = {}
    for value in (*model.graph.value_info, *model.graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            dims = tensor.shape.dim
            found[value.name] = tuple(
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims
            )
    return found


TOOLS: dict[str, Callable[[onnx.ModelProto], Shapes]] = {
    "graphport": of_graphport,
    "onnx": of_onnx,
    "onnxruntime": of_onnxruntime,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
