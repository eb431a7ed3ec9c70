"""Weights stored in as many bits as their noise is worth: plans, goals for bytes, tables of tokens, two bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.formats.onnx.target import ONNXRUNTIME
from graphport.ir import rewrite
from graphport.quantization import choices
from graphport.quantization.insert_qdq import emit_halves
from graphport.quantization.optimise.library import Library, StorageOption
from graphport.quantization.optimise.weight_storage import largest_within, noise_of, plans, shrunk, size, time_of
from graphport.quantization.targets import TARGETS
from tests.quantization import nets
from tests.quantization.test_weights_alone import _tokens, decoder


def _library(seed=0, layers=6):
    """Return layers of different sizes and noises: one bit less quadruples the noise of a layer."""
    r = np.random.default_rng(seed)
    made = Library()
    for number in range(layers):
        count, noise = int(r.integers(100, 5000)), float(10 ** r.uniform(-6, -2))
        ways = [StorageOption(DType.FLOAT32, 4 * count, 0.0)]
        ways += [
            StorageOption(DType.of(f"int{b}"), count * b // 8, noise * 4.0 ** (4 - b), time=float(b)) for b in (8, 4, 2)
        ]
        made.ways[f"layer{number}"] = ways
    return made


def _every(of):
    found = [{}]
    for name, ways in of.ways.items():
        found = [{**plan, name: way} for plan in found for way in ways]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_plans_are_pareto_optimal(seed):
    of = _library(seed, layers=4)
    every = [(size(plan), noise_of(plan)) for plan in _every(of)]
    made = plans(of, has_times=False)
    assert len(made) > 3
    assert [size(plan) for plan in made] == sorted(size(plan) for plan in made)
    for plan in made:
        assert not any(a <= size(plan) and b < noise_of(plan) * (1 - 1e-9) for a, b in every)


@pytest.mark.parametrize("seed", range(4))
def test_largest_plan_within_a_size_is_maximal(seed):
    of = _library(seed)
    made = plans(of, has_times=False)
    for most in np.linspace(size(made[0]), size(made[-1]), 7):
        plan = largest_within(of, made, int(most))
        assert plan is not None
        assert size(plan) <= most
        left = most - size(plan)
        better = [w for name, ways in of.ways.items() for w in ways if w.noise < plan[name].noise]
        names = {id(w): name for name, ways in of.ways.items() for w in ways}
        assert all(w.bytes - plan[names[id(w)]].bytes > left for w in better)
    assert largest_within(of, made, size(made[0]) - 1) is None


@pytest.mark.parametrize("seed", range(4))
def test_no_more_layers_are_shrunk_than_bytes_ask_for(seed):
    """Integers have priority: a goal just below their total changes at most two layers."""
    of = _library(seed)
    for name, ways in of.ways.items():
        whole = ways[1]
        of.ways[name] = [replace(whole, time=1.0, is_integer=True), *(replace(way, time=3.0) for way in ways)]
    whole = sum(ways[0].bytes for ways in of.ways.values())
    least = sum(min(way.bytes for way in ways) for ways in of.ways.values())
    assert all(way.is_integer for way in shrunk(of, whole).values())
    few = shrunk(of, int(0.97 * whole))
    assert 1 <= sum(not way.is_integer for way in few.values()) <= 2
    for most in np.linspace(least, whole, 7):
        plan = shrunk(of, int(most) + 1)
        assert size(plan) <= most + 1
        assert time_of(plan) <= time_of(shrunk(of, least))
    assert shrunk(of, least - 1) is None


def _as_run(made, x):
    """Return ONNX Runtime's result for the file, and the file."""
    proto = gp.to_onnx(made)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, x)[0]), proto


def test_weights_only_front_contains_several_precisions():
    found = decoder()
    report = gp.quantize(found, _tokens(), weights_only=True, weight_bits=4, weight_block=16, front=True).report
    named = {name for point in report.front for name in point.layers}
    assert {"int8 weights", "int4 weights", "int2 weights", "float16"} <= named
    assert len(report.front) >= 4
    near, small = max(report.front, key=lambda x: x.snr_db), min(report.front, key=lambda x: x.bytes)
    assert near.snr_db > 60
    assert small.bytes < 0.6 * near.bytes


OTHER_GOALS = [(False, 13_000), (True, 16_500), (False, 16_500), (True, 24_000), (False, 24_000)]
SLOW = pytest.mark.conformance(always=True)


@pytest.mark.parametrize(
    ("samples", "bytes_"),
    [(True, 13_000), *(pytest.param(*case, marks=SLOW) for case in OTHER_GOALS)],
)
def test_a_goal_for_bytes_is_met_by_fewer_bits(samples, bytes_):
    found, x = decoder(), _tokens(seed=7)
    given = _tokens() if samples else None
    made = gp.quantize(found, given, weights_only=True, weight_bits=4, weight_block=16, max_bytes=bytes_)
    y, proto = _as_run(made, x)
    assert made.report.passed
    assert len(proto.SerializeToString()) <= bytes_
    # At most a fifth of the size limit is unused.
    assert len(proto.SerializeToString()) > 0.8 * bytes_
    assert nets.snr(gp.run(found, x)["y"], y) == pytest.approx(made.report.snr_db, abs=2.5)


def test_small_size_goal_uses_fewer_than_8_bits():
    found = nets.residual()
    x = nets.samples(found, 400, seed=9)
    made = gp.quantize(found, nets.samples(found, 64), max_bytes=2500)
    assert made.report.passed
    y, proto = _as_run(made, x)
    assert len(proto.SerializeToString()) <= 2500
    assert nets.snr_of_variance(gp.run(found, x)["y"], y) == pytest.approx(made.report.snr_db, abs=3)
    assert any("weights" in name or name == "float16" for name in made.report.chosen.layers)
    # Each layer is listed once.
    assert sorted(layer.name for layer in made.report.layers) == ["first", "head", "second"]


@pytest.mark.parametrize("stored", [{DType.FLOAT16, DType.INT8}, {DType.INT8}, {DType.FLOAT16}])
def test_storage_uses_only_dtypes_of_the_target(monkeypatch, stored):
    target = replace(ONNXRUNTIME, stored=frozenset(stored))
    monkeypatch.setattr(choices, "find_target", lambda name: target)
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found, 64), max_bytes=2000)
    assert not any("int4" in name or "int2" in name for point in made.report.front for name in point.layers)
    assert (DType.INT8 in stored) == any(name == "int8 weights" for point in made.report.front for name in point.layers)


def _beyond_halves():
    """Products whose weights float16 does not hold: too large in the first, too small in the second."""
    found = nets.products()
    for value in found.graph.constants:
        factor = {"w1": 1e6, "c1": 1e6, "w2": 1e-6}.get(value.name)
        if factor is not None and value.storage is not None:
            value.storage = storage_of(value.storage.numpy() * np.float32(factor))
    return found


def test_weights_that_float16_does_not_hold_are_stored_in_bfloat16():
    found = _beyond_halves()
    made = gp.quantize(found, None, weights_only=True, front=True, preset="fast")
    near = [point for point in made.report.front if point.layers.get("bfloat16")]
    assert near
    assert max(point.snr_db for point in near) > 45


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_runtimes_compute_with_weights_in_bfloat16(target, tmp_path):
    assert DType.BFLOAT16 in TARGETS[target].stored
    found = _beyond_halves()
    graph = rewrite.copy(found.graph)
    for each in [each for each in graph if each.op == "MatMul"]:
        emit_halves(graph, each, DType.BFLOAT16)
    made, path = gp.QuantizedModel(graph), tmp_path / ("m.xml" if target == "openvino" else "m.onnx")
    gp.save(made, path)
    x = nets.samples(found, 8)
    said = gp.run(made, x, backend="reference")["y"]
    assert nets.snr(said, gp.run(gp.load(path), x, backend=target)["y"]) > 100
    assert 45 < nets.snr(gp.run(found, x)["y"], said) < 60


def test_two_bits_are_stated_in_the_operator_that_runtimes_have_them_in():
    found, x = decoder(), _tokens(seed=5)
    made = gp.quantize(found, _tokens(), weights_only=True, weight_bits=2, weight_block=16)
    y, proto = _as_run(made, x)
    nbits = [node for node in proto.graph.node if node.op_type == "MatMulNBits"]
    assert len(nbits) == 7
    assert {(a.name, a.i) for node in nbits for a in node.attribute} >= {("bits", 2), ("accuracy_level", 4)}
    assert nets.snr_of_variance(gp.run(found, x)["y"], y) == pytest.approx(made.report.snr_db, abs=1.5)
    again = gp.from_onnx(proto)
    assert nets.snr_of_variance(gp.run(found, x)["y"], gp.run(again, x)["y"]) == pytest.approx(
        made.report.snr_db, abs=1.5
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"weight_bits": 2},
        {"weight_bits": 2, "weights_only": True, "weight_block": 0},
        {"weight_bits": 2, "weights_only": True, "weight_block": 16, "target": "openvino"},
        {"weight_bits": 3, "weights_only": True, "weight_block": 16},
        {"tables": True},
        {"tables": True, "weights_only": True, "weight_block": 16, "target": "openvino"},
    ],
)
def test_unsupported_weight_storage_is_rejected(changes):
    with pytest.raises(gp.DiagnosticError, match="QUANT0004"):
        gp.quantize(decoder(), _tokens(), **changes)


def test_rows_are_picked_out_of_codes():
    found, x = decoder(), _tokens(seed=5)
    made = gp.quantize(found, _tokens(), weights_only=True, weight_bits=4, weight_block=16, tables=True)
    plain = gp.quantize(found, _tokens(), weights_only=True, weight_bits=4, weight_block=16)
    y, proto = _as_run(made, x)
    (node,) = [node for node in proto.graph.node if node.op_type == "GatherBlockQuantized"]
    stored = {t.name: t for t in proto.graph.initializer}[node.input[0]]
    assert stored.data_type == onnx.TensorProto.UINT8
    assert len(proto.SerializeToString()) < len(gp.to_onnx(plain).SerializeToString()) - 2 * 40 * 32
    assert nets.snr(gp.run(found, x)["y"], y) > nets.snr(gp.run(found, x)["y"], gp.run(plain, x)["y"]) - 0.3
    again = gp.from_onnx(proto)
    np.testing.assert_allclose(gp.run(again, x)["y"], y, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_zeros", [True, False])
def test_packed_tables_are_read(bits, has_zeros):
    r = np.random.default_rng(bits)
    rows, width, block = 24, 64, 16
    codes = r.integers(0, 1 << bits, size=(rows, width)).astype(np.uint8)
    zeros = r.integers(0, 1 << bits, size=(rows, width // block)).astype(np.uint8)
    constants = {"codes": _packed(codes, bits), "scales": r.uniform(0.1, 1, size=(rows, 4)).astype(np.float32)}
    constants |= {"zeros": _packed(zeros, bits)} if has_zeros else {}
    attributes = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    operands = ["codes", "ids", "scales", *(["zeros"] if has_zeros else [])]
    node = onnx.helper.make_node("GatherBlockQuantized", operands, ["y"], domain="com.microsoft")
    node.attribute.extend(onnx.helper.make_attribute(name, number) for name, number in attributes.items())
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["a", "b"])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(x, name) for name, x in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    x = {"ids": np.arange(rows).reshape(2, -1)}
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, x)[0]
    found = gp.run(gp.from_onnx(proto), x, backend="reference")["y"]
    np.testing.assert_array_equal(found, expected)


def _packed(numbers, bits):
    """Pack the codes of a row, the first in the lowest bits of a byte."""
    each = 8 // bits
    parts = numbers.reshape(len(numbers), -1, each)
    return np.sum([parts[..., k].astype(np.uint8) << (bits * k) for k in range(each)], axis=0).astype(np.uint8)


def test_dynamic_quantization_is_measured_dynamically():
    r = np.random.default_rng(0)
    constants = {f"w{k}": (r.standard_normal((32, 32)) / 6).astype(np.float32) for k in range(2)}
    nodes = [nets.node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(2)]
    found = gp.from_onnx(nets.model(nodes, [("x0", ["N", 32])], [("x2", ["N", 32])], constants))
    x = {"x0": r.standard_normal((48, 32)).astype(np.float32)}
    alone = gp.quantize(found, x, dynamic=True).report.snr_db
    front = gp.quantize(found, x, dynamic=True, front=True).report.front
    (told,) = (point.snr_db for point in front if point.layers == {"int8 weights": 2})
    assert told == pytest.approx(alone)
