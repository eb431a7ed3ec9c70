"""Properties of a rewritten ONNX file, checked by programs that share no code with the passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplemented_

DISABLED = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
ENABLED = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL


def session(path: Path, level: Any = DISABLED) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def computed(path: Path, feeds: Mapping[str, Any]) -> dict[str, Any]:
    loaded = session(path)
    names = [output.name for output in loaded.get_outputs()]
    given = {each.name: feeds[each.name] for each in loaded.get_inputs()}
    return dict(zip(names, loaded.run(names, given), strict=True))


def feeds_of(proto: onnx.ModelProto, batch: int = 2) -> dict[str, Any]:
    random = np.random.default_rng(batch)
    constants = {tensor.name for tensor in proto.graph.initializer}
    found: dict[str, Any] = {}
    for each in proto.graph.input:
        if each.name in constants:
            continue
        tensor = each.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else batch for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype == np.bool_:
            found[each.name] = np.full(shape, True)
        elif np.issubdtype(dtype, np.floating):
            found[each.name] = random.normal(size=shape).astype(dtype)
        else:
            found[each.name] = random.integers(0, 5, shape).astype(dtype)
    return found


def assert_equal(source: Path, result: Path, feeds: Mapping[str, Any], tolerance: float = 1e-4) -> None:
    try:
        expected = computed(source, feeds)
    except (NotImplemented_, Fail):
        outputs = [output.name for output in onnx.load(source).graph.output]
        expected = dict(zip(outputs, ReferenceEvaluator(str(source)).run(None, dict(feeds)), strict=True))
        found = dict(zip(outputs, ReferenceEvaluator(str(result)).run(None, dict(feeds)), strict=True))
    else:
        found = computed(result, feeds)
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        assert (found[name].dtype, found[name].shape) == (wanted.dtype, wanted.shape)
        if np.issubdtype(wanted.dtype, np.floating):
            np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance / 10)
        else:
            np.testing.assert_array_equal(found[name], wanted)


def assert_same_interface(source: onnx.ModelProto, result: onnx.ModelProto) -> None:
    """Assert equal names, order and types of inputs and outputs, and that all symbols are preserved."""
    for before, after in ((_inputs(source), _inputs(result)), (source.graph.output, result.graph.output)):
        assert [each.name for each in before] == [each.name for each in after]
        for one, two in zip(before, after, strict=True):
            a, b = one.type.tensor_type, two.type.tensor_type
            assert a.elem_type == b.elem_type
            if a.HasField("shape") and b.HasField("shape"):
                assert len(a.shape.dim) == len(b.shape.dim)
                for p, q in zip(a.shape.dim, b.shape.dim, strict=True):
                    assert not (p.dim_param and q.HasField("dim_value"))
                    assert not (p.HasField("dim_value") and q.HasField("dim_value")) or p.dim_value == q.dim_value


def assert_loads(source: Path, result: Path) -> None:
    """The checker and the runtime take the result if they took the source."""
    if _is_valid(source):
        onnx.checker.check_model(str(result), full_check=True)
    if _is_runnable(source):
        session(result, ENABLED)


def _is_valid(path: Path) -> bool:
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def _is_runnable(path: Path) -> bool:
    try:
        session(path, ENABLED)
    except (NotImplemented_, Fail):
        return False
    return True


def assert_tidy(proto: onnx.ModelProto) -> None:
    """Assert that every node has a unique name, and that every node is used by an output."""
    names = [node.name for node in nodes(proto.graph)]
    assert all(names)
    assert len(set(names)) == len(names)
    used, outputs = uses(proto.graph), {output.name for output in proto.graph.output}
    assert [t.name for t in proto.graph.initializer if not used[t.name] and t.name not in outputs] == []
    assert [n.name for n in proto.graph.node if not any(used[o] or o in outputs for o in n.output)] == []


def assert_fact(fact: str, proto: onnx.ModelProto) -> None:
    kind, _, rest = fact.partition(":")
    words = Counter(node.op_type for node in proto.graph.node)
    match kind:
        case "no":
            assert not words[rest]
        case "no_deep":
            assert rest not in {node.op_type for node in nodes(proto.graph)}
        case "count":
            op_type, _, count = rest.partition("=")
            assert words[op_type] == int(count)
        case "nodes":
            assert len(proto.graph.node) <= int(rest), [node.op_type for node in proto.graph.node]
        case "unshared":
            used = uses(proto.graph)
            assert [tensor.name for tensor in proto.graph.initializer if used[tensor.name] > 1] == []
        case "has":
            domain, _, op_type = rest.partition(":")
            assert any((node.domain, node.op_type) == (domain, op_type) for node in proto.graph.node)
        case _:
            assert kind == "dynamic"


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def uses(graph: onnx.GraphProto) -> Counter[str]:
    """How often nodes read a name, and bodies return one from around them."""
    found = Counter(name for node in nodes(graph) for name in node.input if name)
    for node in nodes(graph):
        found.update(out.name for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for out in a.g.output)
    return found


def _inputs(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    constants = {tensor.name for tensor in proto.graph.initializer}
    return [each for each in proto.graph.input if each.name not in constants]
