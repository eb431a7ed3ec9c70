"""Compare the import and export rules of OpenVINO's operators with OpenVINO's results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest

from graphport.backends import reference
from graphport.conversion.export import export_graph
from graphport.conversion.legalize import legalize
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage, storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef
from graphport.ops.infer import Inference
from tests.at_once import ask
from tests.ops.oracle import compare, evaluate_graph, run_operator

Array = np.ndarray[Any, Any]


def _is_limited() -> bool:
    """Whether oneDNN is to use less of the processor than there is."""
    limit, flags = os.environ.get("ONEDNN_MAX_CPU_ISA", ""), Path("/proc/cpuinfo")
    is_wide = flags.exists() and " avx512f" in flags.read_text(encoding="utf-8")
    return is_wide and not limit.upper().startswith(("ALL", "DEFAULT", "AVX512", "AVX10")) and limit != ""


on_the_whole_processor = pytest.mark.skipif(
    _is_limited(),
    reason="OpenVINO 2026.4.1 ends or refuses in MVN, DFT and NV12: some of its kernels do not heed ONEDNN_MAX_CPU_ISA",
)

_NAMES = {
    **{DType.of(f"{s}int{n}"): f"{s[:1] or 'i'}{n}" for s in ("", "u") for n in (8, 16, 32, 64)},
    DType.FLOAT32: "f32",
    DType.FLOAT64: "f64",
    DType.FLOAT16: "f16",
    DType.BFLOAT16: "bf16",
    DType.BOOL: "boolean",
    DType.UINT4: "u4",
    DType.INT4: "i4",
    DType.FLOAT8E4M3FN: "f8e4m3",
    DType.FLOAT8E5M2: "f8e5m2",
    DType.STRING: "string",
}


_PORTS = {"boolean": "BOOL", "f16": "FP16", "f32": "FP32", "f64": "FP64"}


@cache
def table() -> dict[str, dict[str, tuple[str, str | None]]]:
    """Return type and default of each attribute by op type."""
    found: dict[str, dict[str, tuple[str, str | None]]] = {}
    for line in (files("graphport") / "formats/openvino/container/operators.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, sets, *attributes = line.split()
        known: dict[str, tuple[str, str | None]] = {}
        for attribute in attributes:
            if attribute.startswith("weights@"):
                continue
            key, _, rest = attribute.partition(":")
            kind, equals, default = rest.partition("=")
            known[key] = (kind, default if equals else None)
        found[f"opset{sets.split('-')[0]}.{name}"] = known
    return found


def completed(op_type: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as the reader does: missing ones with their defaults."""
    found: dict[str, Any] = {}
    for key, (kind, default) in table()[op_type].items():
        name = key.replace("-", "_")
        if name == "auto_broadcast":
            continue
        if name not in attributes and default is None:
            continue
        found[name] = attributes[name] if name in attributes else _default(kind, default or "")
    assert set(attributes) <= set(found), f"{op_type} has no {set(attributes) - set(found)}"
    return found


def _default(kind: str, text: str) -> Any:
    match kind:
        case "int" | "float" | "bool":
            return {"int": int, "float": float, "bool": lambda x: x == "true"}[kind](text)
        case "ints" | "floats" | "strs":
            each = {"ints": int, "floats": float, "strs": str}[kind]
            return tuple(each(x) for x in text.split(",") if x)
        case "type":
            return next(dtype for dtype, name in _NAMES.items() if name == text)
        case _:
            return text


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, DType):
        return _NAMES[value]
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return repr(value) if isinstance(value, float) else str(value)


def ir_of(*graphs: Graph) -> tuple[bytes, bytes]:
    """Serialize disjoint graphs of the openvino dialect as one IR: XML and the bytes of the constants."""
    layers: list[str] = []
    edges: list[str] = []
    weights = bytearray()
    places: dict[Value, tuple[int, int]] = {}

    def layer(kind: str, version: str, data: str, operands: Sequence[Value | None], results: Sequence[Value]) -> None:
        number, given = len(layers), [value for value in operands if value is not None]
        for port, value in enumerate(given):
            edges.append(
                f'<edge from-layer="{places[value][0]}" from-port="{places[value][1]}" to-layer="{number}" to-port="{port}"/>'
            )
        ports = "".join(f'<port id="{port}"/>' for port in range(len(given)))
        made = ""
        for port, value in enumerate(results, len(given)):
            places[value] = (number, port)
            fact = value.fact
            dtype = _NAMES.get(fact.dtype, "f32") if isinstance(fact, TensorFact) and fact.dtype else "f32"
            made += f'<port id="{port}" precision="{_PORTS.get(dtype, dtype.upper())}"/>'
        layers.append(
            f'<layer id="{number}" name="{kind}_{number}" type="{kind}" version="{version}"><data {data}/>'
            f"<input>{ports}</input><output>{made}</output></layer>"
        )

    for graph in graphs:
        for value in graph.inputs:
            fact = value.fact
            assert isinstance(fact, TensorFact)
            assert fact.dtype is not None
            shape = ",".join(str(dim) if isinstance(dim, int) else "?" for dim in fact.dims)
            layer("Parameter", "opset1", f'shape="{shape}" element_type="{_NAMES[fact.dtype]}"', [], [value])
        for value in graph.constants:
            if not value.uses:
                continue
            assert value.storage is not None
            raw = b"".join(bytes(chunk) for chunk in value.storage.chunks())
            shape = ",".join(map(str, value.storage.shape))
            data = f'element_type="{_NAMES[value.storage.dtype]}" shape="{shape}" offset="{len(weights)}" size="{len(raw)}"'
            weights += raw
            layer("Const", "opset1", data, [], [value])
        for node in graph:
            version, _, kind = node.op_type.partition(".")
            given = completed(node.op_type, node.attributes)
            known = {key.replace("-", "_"): key for key in table()[node.op_type]}
            data = " ".join(f"{known[key]}={quoteattr(_text(value))}" for key, value in given.items())
            layer(kind, version, data, node.inputs, [value for value in node.outputs if value is not None])
        for value in graph.outputs:
            layer("Result", "opset1", "", [value], [])
    text = f'<net name="one" version="11"><layers>{"".join(layers)}</layers><edges>{"".join(edges)}</edges></net>'
    return text.encode(), bytes(weights)


@cache
def _core() -> Any:
    import openvino

    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return core


def run_ir(graph: Graph, arrays: Mapping[str, Array], *, by_reference: bool = False) -> list[Array]:
    """Run a graph of the openvino dialect on OpenVINO's CPU plugin or its reference implementation."""
    import openvino

    if by_reference:
        model = _read(graph)
        results = [openvino.Tensor(output.get_element_type(), openvino.Shape([0])) for output in model.outputs]
        model.evaluate(results, [openvino.Tensor(np.ascontiguousarray(arrays[value.name])) for value in graph.inputs])
        return [np.array(result.data) for result in results]
    return ask((graph, arrays), _computed)


def _read(*graphs: Graph) -> Any:
    import openvino

    text, weights = ir_of(*graphs)
    return _core().read_model(text, openvino.Tensor(np.frombuffer(weights or b"\0", np.uint8).copy()))


def _computed(cases: Sequence[tuple[Graph, Mapping[str, Array]]]) -> list[list[Array] | Exception]:
    """Return the outputs or the exception of each graph; compiling all in one model costs as much as one."""
    try:
        request = _core().compile_model(_read(*(graph for graph, _ in cases)), "CPU").create_infer_request()
        request.infer([arrays[value.name] for graph, arrays in cases for value in graph.inputs])
    except Exception as error:  # noqa: BLE001  the halves show which graph raises
        half = len(cases) // 2
        return [error] if not half else _computed(cases[:half]) + _computed(cases[half:])
    numbers = iter(range(sum(len(graph.outputs) for graph, _ in cases)))
    return [[np.array(request.get_output_tensor(next(numbers)).data) for _ in graph.outputs] for graph, _ in cases]


def _graph(
    inputs: Sequence[Array | None], constants: Sequence[int], *, symbolic: bool
) -> tuple[Graph, list[Value | None], dict[str, Array]]:
    graph = Graph("one")
    values: list[Value | None] = []
    arrays: dict[str, Array] = {}
    for number, x in enumerate(inputs):
        if x is None:
            values.append(None)
            continue
        storage = storage_of(x)
        name = f"i{number}"
        if number in constants:
            values.append(graph.add_constant(name, TensorFact.of(storage), storage))
            continue
        shape = tuple(Symbol(f"{name}_{axis}") for axis in range(x.ndim)) if symbolic else x.shape
        values.append(graph.add_input(name, TensorFact(storage.dtype, shape)))
        arrays[name] = x
    return graph, values, arrays


def check_word(
    op_type: str,
    inputs: Sequence[Array | None],
    *,
    constants: Sequence[int] = (),
    outputs: int = 1,
    tolerance: float | None = None,
    symbolic: bool = False,
    expected: Sequence[Array] | None = None,
    by_reference: bool = False,
    **attributes: Any,
) -> list[Array]:
    """Compare the import rule of an op type with OpenVINO. Return our results.

    OpenVINO's reference implementation runs where its plugin is known to be wrong or to crash; `expected` replaces
    both.
    """
    graph, values, arrays = _graph(inputs, constants, symbolic=symbolic)
    results = [Value(f"o{number}") for number in range(outputs)]
    node = Node(op_type, values, results, completed(op_type, attributes), dialect="openvino")
    graph.append(node)
    for result in results:
        graph.add_output(result)
    judged = run_ir(graph, arrays, by_reference=by_reference) if expected is None else expected
    said, findings = legalize(graph)
    assert not findings, [finding.message for finding in findings]
    assert all(not node.dialect for node in said)
    computed = reference.prepare(said).run({value.name: arrays[value.name] for value in said.inputs})
    found = [computed[value.name] for value in said.outputs]
    for number, (a, b, value) in enumerate(zip(found, judged, said.outputs, strict=True)):
        fact = value.fact
        assert isinstance(fact, TensorFact)
        assert fact.dtype is None or fact.dtype.numpy == a.dtype
        if fact.shape is not None:
            assert len(fact.shape) == a.ndim
            assert all(not isinstance(d, int) or d == n for d, n in zip(fact.shape, a.shape, strict=True))
        compare(a, b, tolerance=tolerance, what=f"{op_type}: result {number}")
    return found


def check_operator(
    op_def: OpDef,
    inputs: Sequence[Array | None],
    *,
    constants: Sequence[int] = (),
    outputs: int = 1,
    tolerance: float | None = None,
    symbolic: bool = False,
    by_reference: bool = False,
    **attributes: Any,
) -> list[str] | None:
    """Export a node of `op_def` to the openvino dialect, and compare OpenVINO's results and the import rule's with it.

    Return the exported op types, or `None` if the dialect has no equivalent.
    """
    graph, values, arrays = _graph(inputs, constants, symbolic=symbolic)
    stored = {name: storage_of(a) if isinstance(a, np.ndarray) else a for name, a in attributes.items()}
    for result in Builder(Inference(), graph, count=outputs).results(op_def, outputs, *values, **stored):
        graph.add_output(result)
    said, findings = export_graph(graph, "openvino")
    if findings:
        return None
    words = [node.op_type for node in said]
    expected = run_operator(
        op_def, inputs, **{n: a.numpy() if isinstance(a, Storage) else a for n, a in attributes.items()}
    )
    judged = run_ir(said, arrays, by_reference=by_reference)
    for number, (a, b) in enumerate(zip(judged, expected[:outputs], strict=True)):
        compare(a, b, tolerance=tolerance, what=f"{op_def.name} as {words}: result {number}")
    for node in said:
        node.attributes = completed(node.op_type, node.attributes)
    back, findings = legalize(said)
    assert not findings, [finding.message for finding in findings]
    computed = evaluate_graph(back, {value: arrays[value.name] for value in back.inputs})
    for value, array in zip(back.outputs, expected, strict=False):
        compare(computed[value], array, tolerance=tolerance, what=f"{op_def.name} as {words} and back")
    return words
