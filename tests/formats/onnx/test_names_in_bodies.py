"""Names of a body that equal names of the graphs around it."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

import graphport
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.formats.onnx import from_proto, to_proto
from graphport.ir.graph import walk
from graphport.ir.verify import verify
from tests.formats.onnx.merged_decoders import Decoder, feeds, merged_decoder

DECODERS = [
    Decoder(),
    Decoder(layers=2, is_tied=False, opset=14, seed=1),
    Decoder(width=32, is_chained=True, opset=19, seed=2),
]


def info(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes: list[onnx.NodeProto], inputs: list[ValueInfoProto]) -> ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, [info("z", [2])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branches(name: str, inner: str) -> ModelProto:
    """An `If` whose branches call an intermediate value `inner` and their result `name`."""
    body: dict[str, Any] = {
        f"{key}_branch": helper.make_graph(
            [helper.make_node(op_type, ["x"], [inner]), helper.make_node("Neg", [inner], [name])],
            key,
            [],
            [info(name, [2])],
        )
        for key, op_type in (("then", "Exp"), ("else", "Abs"))
    }
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["y"], **body),
        helper.make_node("Add", ["y", "a"], ["s"]),
        helper.make_node("Neg", ["s"], ["z"]),
    ]
    return model_of(nodes, [info("x", [2]), info("c", [], TensorProto.BOOL)])


def loop(name: str, state: str) -> ModelProto:
    """A `Loop` whose body calls its state `state` and the next one `name`."""
    body = helper.make_graph(
        [helper.make_node("Add", [state, "x"], [name]), helper.make_node("Identity", ["k"], ["k2"])],
        "body",
        [info("i", [], TensorProto.INT64), info("k", [], TensorProto.BOOL), info(state, [2])],
        [info("k2", [], TensorProto.BOOL), info(name, [2])],
    )
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Loop", ["n", "c", "a"], ["y"], body=body),
        helper.make_node("Add", ["y", "a"], ["s"]),
        helper.make_node("Neg", ["s"], ["z"]),
    ]
    return model_of(nodes, [info("x", [2]), info("c", [], TensorProto.BOOL), info("n", [], TensorProto.INT64)])


def scan(name: str, state: str) -> ModelProto:
    body = helper.make_graph(
        [helper.make_node("Add", [state, "row"], [name]), helper.make_node("Neg", [name], ["out"])],
        "body",
        [info(state, [2]), info("row", [2])],
        [info(name, [2]), info("out", [2])],
    )
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["flat"], axis=0),
        helper.make_node("Reshape", ["flat", "shape"], ["rows"]),
        helper.make_node("Scan", ["x", "rows"], ["y", "ys"], num_scan_inputs=1, body=body),
        helper.make_node("ReduceSum", ["ys", "axis"], ["s"], keepdims=0),
        helper.make_node("Add", ["y", "s"], ["z"]),
    ]
    made = model_of(nodes, [info("x", [2]), info("c", [], TensorProto.BOOL)])
    made.graph.initializer.append(helper.make_tensor("shape", TensorProto.INT64, [2], [2, 2]))
    made.graph.initializer.append(helper.make_tensor("axis", TensorProto.INT64, [1], [0]))
    return made


def results(proto: ModelProto, given: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {each.name: given[each.name] for each in session.get_inputs()})


@pytest.mark.parametrize("make", [branches, loop, scan])
def test_body_may_reuse_names_of_later_results(make: Any) -> None:
    for name, inner in product(("y", "s", "z", "own"), ("t", "s", "y", "z")):
        if name == inner:
            continue
        proto = make(name, inner)
        onnx.checker.check_model(proto)
        findings: list[Diagnostic] = []
        graph = from_proto(proto, findings=findings)
        verify(graph)
        assert not findings, (name, inner)
        names = [value.name for each in walk(graph) for value in each.values()]
        outer = {value.name for value in graph.values()}
        assert not outer & set(names[len(outer) :])
        for is_true in (True, False):
            given = {"x": np.array([1, -2], np.float32), "c": np.array(is_true), "n": np.array(3)}
            for expected, found in zip(results(proto, given), results(to_proto(graph), given), strict=True):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["a", "x"])
def test_body_may_not_shadow_an_earlier_value(name: str) -> None:
    proto = branches(name, "t")
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(proto)
    with pytest.raises(DiagnosticError) as caught:
        from_proto(proto)
    assert "ONNX0101" in {each.code for each in caught.value.diagnostics}


@pytest.mark.parametrize("options", DECODERS, ids=["tied", "two layers", "chained"])
def test_merged_decoders_are_simplified_and_cast(options: Decoder, tmp_path: Path) -> None:
    proto = merged_decoder(options)
    onnx.checker.check_model(proto)
    source = tmp_path / "merged.onnx"
    source.write_bytes(proto.SerializeToString())
    model = graphport.load(source)
    versions = {
        "simplified": graphport.simplify(model, verify=False)[0],
        "half": graphport.cast(model, "float16", keep_io=True),
    }
    least = {"simplified": 100.0, "half": 40.0}
    for version, made in versions.items():
        path = tmp_path / f"{version}.onnx"
        graphport.save(made, path)
        written = onnx.load(path)
        assert [node.op_type for node in written.graph.node].count("If") == 1, version
        assert path.stat().st_size <= source.stat().st_size * 1.02, version
        for is_cached in (True, False):
            given = feeds(options, is_cached=is_cached)
            for expected, found in zip(results(proto, given), results(written, given), strict=True):
                noise = np.sum((expected - found) ** 2, dtype=np.float64)
                snr = 10 * np.log10(np.sum(expected**2, dtype=np.float64) / max(noise, 1e-30))
                assert snr >= least[version], (version, is_cached)
