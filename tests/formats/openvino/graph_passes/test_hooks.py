"""State, outputs and weights of OpenVINO's models, on the way to canonical graphs and back."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.legalizer import legalize_nodes
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.openvino import MEAN_VALUES
from graphport.formats.openvino.container.notes import DECOMPRESSION
from graphport.formats.openvino.graph_passes.hooks import after_export, before_export, before_using_rules
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.ops.constant_folding import Widened
from tests import models
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir

DATA = Path(__file__).parents[1] / "data"
X = np.array([[1, 2, 3, 4]], np.float32)


def compressed(folder, *, shift):
    """Weights of two groups of four, as compression writes them: integers, float16 scales, and a Convert at the end."""
    rng = np.random.default_rng(0)
    layers = [
        parameter("x", "3,8"),
        constant("w", rng.integers(0, 255, (5, 2, 4)), "uint8"),
        Layer("h", "opset1.Convert", {"destination_type": "f16"}, ["w"]),
        constant("s", rng.uniform(0.001, 0.01, (5, 2, 1)), "float16"),
    ]
    last = "h"
    if shift:
        layers += [
            constant("z", rng.integers(100, 150, (5, 2, 1)), "uint8"),
            Layer("zh", "opset1.Convert", {"destination_type": "f16"}, ["z"]),
            Layer("d", "opset1.Subtract", {}, ["h", "zh"]),
        ]
        last = "d"
    layers += [
        Layer("m", "opset1.Multiply", {}, [last, "s"]),
        constant("shape", [5, 8], "int64"),
        Layer("r", "opset1.Reshape", {"special_zero": "false"}, ["m", "shape"]),
        Layer("f", "opset1.Convert", {"destination_type": "f32"}, ["r"]),
        Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "true"}, ["x", "f"]),
    ]
    return write_ir(folder, layers, ["y"])


@pytest.mark.parametrize("shift", [False, True])
def test_compressed_weights_are_split_in_float32(shift, tmp_path):
    model = gp.load(compressed(tmp_path, shift=shift))
    constants = {v.name: v.storage.numpy().astype(np.float64) for v in model.graph.constants}
    zero = constants["z"] if shift else 0
    weights = ((constants["w"] - zero) * constants["s"]).reshape(5, 8)
    x = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    np.testing.assert_allclose(gp.run(model, {"x": x})["y"], x @ weights.T, rtol=1e-5, atol=1e-6)
    assert {str(v.fact.dtype) for v in model.graph.constants} >= {"uint8", "float16"}


def test_every_result_is_a_value_of_its_own_under_its_name():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2,)))
    storage = storage_of(np.ones(2, np.float32))
    one = graph.add_constant("one", TensorFact.of(storage), storage)
    y = graph.append(Node("opset1.ReLU", [x], [Value("y", x.fact)], dialect="openvino")).output
    graph.set_outputs([x, y, one, y])
    before_using_rules(graph, legalize_nodes)
    found = graph.outputs
    assert len(set(found)) == 4
    assert found[1] is y
    assert [value.producer.op_type for value in found if value.producer] == [
        "Identity",
        "opset1.ReLU",
        "Identity",
        "Identity",
    ]
    assert [value.producer.operands[0] for value in found if value is not y and value.producer] == [x, one, y]


def test_steps_that_are_taken_back_are_one_layer(tmp_path):
    layers = [
        parameter("x", "2,3"),
        *(constant(name, value, "float32") for name, value in (("low", -1.28), ("high", 1.27))),
        Layer("y", "opset1.FakeQuantize", {"levels": 256}, ["x", "low", "high", "low", "high"]),
    ]
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    assert [node.op for node in model.graph] == ["QuantizeLinear", "DequantizeLinear"]
    gp.save(model, tmp_path / "out.xml")
    assert [node.op_type for node in gp.load(tmp_path / "out.xml", raw=True).graph] == ["opset1.FakeQuantize"]
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(
        gp.run(model, {"x": x}, backend="openvino")["y"], gp.run(model, {"x": x})["y"], rtol=1e-5, atol=1e-6
    )


def test_half_the_bytes_where_asked(tmp_path):
    rng = np.random.default_rng(0)
    layers = [
        parameter("x", "3,64"),
        constant("w", rng.normal(size=(64, 64)), "float32"),
        constant("huge", np.full(64, 1e6), "float32"),
        Layer("m", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["x", "w"]),
        Layer("y", "opset1.Add", {}, ["m", "huge"]),
    ]
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    gp.save(model, tmp_path / "half.xml", weights="f16")
    assert (tmp_path / "half.bin").stat().st_size == 64 * 64 * 2 + 64 * 4
    assert 'name="decompression"' in (tmp_path / "half.xml").read_text()
    x = rng.normal(size=(3, 64)).astype(np.float32)
    found = gp.run(gp.load(tmp_path / "half.xml"), {"x": x})["y"]
    np.testing.assert_allclose(found, gp.run(model, {"x": x})["y"], rtol=1e-3)


@pytest.mark.parametrize(("reader", "rounds"), [("MatMul", False), ("Gather", True)])
def test_codes_of_a_table_are_rounded_except_for_products(reader, rounds, tmp_path):
    table = np.array([-0.6961928009986877, -0.5250730514526367], np.float32)
    last = {
        "MatMul": Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["x", "f"]),
        "Gather": Layer("y", "opset8.Gather", {"batch_dims": 0}, ["f", "i", "a"]),
    }
    layers = [
        parameter("x", "1,1"),
        Layer("w", "opset1.Const", {"element_type": "nf4", "shape": "1, 2", "offset": b"\x21", "size": 0}),
        Layer("h", "opset1.Convert", {"destination_type": "f16"}, ["w"]),
        constant("s", [[0.3]], "float16"),
        constant("i", [0], "int64"),
        constant("a", 0, "int64"),
        Layer("m", "opset1.Multiply", {}, ["h", "s"]),
        Layer("f", "opset1.Convert", {"destination_type": "f32"}, ["m"]),
        last[reader],
    ]
    found = gp.run(gp.load(write_ir(tmp_path, layers, ["y"])), {"x": np.ones((1, 1), np.float32)})["y"]
    codes = table.astype(np.float16).astype(np.float32) if rounds else table
    np.testing.assert_allclose(found[0], codes * np.float32(np.float16(0.3)), rtol=1e-7)


# ── decompressed weights ──────────────────────────────────────────────────────────────────────────────────────────────


def taken_apart(rng, folder, **kind):
    """Return a model of MatMul with compressed weights in a random form, its op types, and the weights."""
    groups, size, rows = rng.integers(2, 4), rng.integers(2, 5), rng.integers(2, 5)
    blocked = kind["scales"].startswith("blocks")
    shape = (rows, groups, size) if blocked else (rows, groups * size)
    target = (rows * groups, size) if kind["scales"] == "blocks apart" else (rows, groups * size)
    small = {
        "blocks": (rows, groups, 1),
        "blocks apart": (rows, groups, 1),
        "rows": (rows, 1),
        "columns": (1, groups * size),
        "one": (1,) * len(shape),
        "vector": (groups * size,),
        "all": shape,
    }
    dtype = np.dtype(kind["dtype"])
    info = np.iinfo(dtype)
    w = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    s = rng.uniform(0.001, 0.01, small[kind["scales"]]).astype(kind["scale"])
    z = rng.integers(info.min, info.max, s.shape if kind["zero"] != "one" else (1,) * s.ndim, dtype=dtype)
    layers = [
        parameter("x", f"3,{target[1]}"),
        constant("w", w, dtype.name),
        Layer("h", "opset1.Convert", {"destination_type": "f16" if kind["scale"] == "float16" else "f32"}, ["w"]),
        constant("s", s, kind["scale"]),
        constant("z", z, dtype.name),
        constant("shape", target, "int64"),
    ]
    last = "h"
    if kind["zero"] != "none":
        layers += [layers[2]._replace(name="zh", reads=["z"]), Layer("d", "opset1.Subtract", {}, ["h", "zh"])]
        last = "d"
    layers.append(Layer("m", "opset1.Multiply", {}, [last, "s"]))
    last = "m"
    if blocked:
        layers.append(Layer("r", "opset1.Reshape", {"special_zero": "false"}, ["m", "shape"]))
        last = "r"
    if kind["scale"] == "float16":
        layers.append(Layer("f", "opset1.Convert", {"destination_type": "f32"}, [last]))
        last = "f"
    layers.append(Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "true"}, ["x", last]))
    results = ["y", *([kind["read"]] if kind["read"] in [layer.name for layer in layers] else [])]
    weights = w.astype(np.float64)
    weights = (weights - (z if kind["zero"] != "none" else 0)) * s.astype(np.float64)
    path = write_ir(folder, layers, results)
    text = re.sub(f'(<layer [^>]*name="{last}".*?)UNSPECIFIED', r"\1FP32", path.read_text(), count=1, flags=re.DOTALL)
    path.write_text(text)
    return gp.load(path), weights.reshape(target)


KINDS = {
    "dtype": ["int8", "uint8", "uint16"],
    "scale": ["float32", "float16"],
    "zero": ["none", "same", "one"],
    "scales": ["blocks", "rows", "columns", "one", "vector", "all", "blocks apart"],
    "read": ["nobody", "nobody", "h", "d", "m"],
}


def test_weights_are_one_operator_wherever_their_scales_lie_as_it_needs_them(tmp_path):
    rng = np.random.default_rng(3)
    for case, (zero, scales) in enumerate([*product(KINDS["zero"], KINDS["scales"])] * 3):
        kind = {name: str(rng.choice(found)) for name, found in KINDS.items()} | {"zero": zero, "scales": scales}
        folder = tmp_path / str(case)
        folder.mkdir()
        model, weights = taken_apart(rng, folder, **kind)
        words = [node.op_type for node in model.graph]
        is_seen = kind["read"] == "h" or (kind["read"] == "d" and kind["zero"] != "none")
        fits = (zero != "one" or scales == "one") and scales not in ("all", "blocks apart")
        is_one = kind["dtype"] != "uint16" and fits and not is_seen
        if kind["read"] == "m" and (kind["scale"] == "float16" or scales == "blocks"):
            is_one = False  # the output and the operand of the MatMul are different values
        assert words.count("DequantizeLinear") == is_one, kind
        if is_one:
            assert len([op_type for op_type in words if op_type not in ("Transpose", "Identity")]) == 2 + (
                kind["scale"] == "float16"
            ), (kind, words)
        x = rng.normal(size=(3, weights.shape[1])).astype(np.float32)
        is_rounded = kind["scale"] == "float16" and kind["read"] != "nobody"  # the output is float16
        within = (2e-3 if is_rounded else 1e-5) * np.abs(weights).max()
        np.testing.assert_allclose(gp.run(model, {"x": x})["y"], x @ weights.T, atol=within, err_msg=str(kind))


# ── fake quantization ─────────────────────────────────────────────────────────────────────────────────────────────────


def pair(rng, kind):
    """Return a graph that quantizes and dequantizes `x`, and the limits of its range."""
    graph = Graph()
    shape = (2, 3, 4)
    axis = int(rng.integers(-3, 3))
    count = shape[axis] if kind in ("axes", "blocks", "another axis") or rng.random() < 0.5 else 1
    dtype = np.dtype(kind if kind in ("int16", "uint16") else rng.choice(["int8", "uint8"]))
    info = np.iinfo(dtype)
    ranks = () if count == 1 else (count,)
    scale = rng.uniform(0.01, 1, ranks).astype("float16" if kind == "half" else "float32")
    zero = rng.integers(info.min, info.max, ranks, dtype=dtype, endpoint=True)

    def constant_of(array):
        storage = storage_of(np.asarray(array))
        return graph.add_constant("c", TensorFact.of(storage), storage)

    fact = TensorFact(DType.FLOAT32, None if kind == "no shape" else shape)
    x = constant_of(rng.normal(size=shape).astype(np.float32)) if kind == "stored" else graph.add_input("x", fact)
    s = graph.add_input("s", TensorFact.of(storage_of(scale))) if kind == "given" else constant_of(scale)
    attributes = {"axis": axis} if count > 1 or rng.random() < 0.5 else {}
    if kind == "blocks":
        attributes["block_size"] = 1
    q = graph.append(
        Node("QuantizeLinear", [x, s, constant_of(zero)], [Value("q", TensorFact(None, fact.shape))], attributes)
    ).output
    back = [q, s, constant_of(zero)]
    if kind == "other scale":
        back[1] = constant_of(scale * 2)
    elif kind == "other zero":
        back[2] = constant_of(np.where(zero == 3, 4, 3).astype(dtype))
    elif kind == "no zero":
        del back[2:]
    other = {**attributes, "axis": (axis + 1) % 3} if kind == "another axis" else dict(attributes)
    if other.get("axis") == 1 and rng.random() < 0.5:
        del other["axis"]  # the default
    y = graph.append(Node("DequantizeLinear", back, [Value("y", fact)], other)).output
    shown = [y]
    if kind == "read twice":
        shown.append(graph.append(Node("Identity", [q], [Value("z", q.fact)])).output)
    elif kind == "returned":
        shown.append(q)
    elif kind == "of another dialect":
        y.producer.dialect = "custom"
    elif kind == "of another word":
        y.producer.op_type = "Identity"
    graph.set_outputs(shown)
    spread = [-1, *[1] * (2 - axis % 3)] if count > 1 else []
    low, high = (
        ((end - zero.astype(np.float64)) * scale.astype(np.float64)).reshape(spread) for end in (info.min, info.max)
    )
    return graph, low, high


STAYS = [
    "stored",
    "given",
    "blocks",
    "half",
    "int16",
    "uint16",
    "other scale",
    "other zero",
    "no zero",
    "another axis",
    "read twice",
    "returned",
    "of another dialect",
    "of another word",
]


def test_a_pair_is_one_layer_with_its_limits_or_stays():
    rng = np.random.default_rng(4)
    for case in range(40):
        graph, low, high = pair(rng, "")
        before_export(graph)
        verify(graph)
        assert [node.op_type for node in graph] == ["opset1.FakeQuantize"], case
        node = graph.last_node
        assert (node.attributes, node.dialect, node.output.name) == ({"levels": 256}, "openvino", "y")
        x, *limits = node.operands
        assert x is graph.inputs[0]
        assert [limits[place] for place in (2, 3)] == limits[:2]
        for found, wanted in zip(limits, (low, high), strict=False):
            assert found.fact == TensorFact.of(found.storage)
            assert found.storage.dtype is DType.FLOAT32
            assert found.storage.shape == wanted.shape
            np.testing.assert_array_equal(found.storage.numpy(), wanted.astype(np.float32))
    for kind in STAYS * 3:
        graph, _, _ = pair(rng, kind)
        words = [node.op_type for node in graph]
        before_export(graph)
        assert [node.op_type for node in graph] == words, kind
    graph, _, _ = pair(np.random.default_rng(0), "no shape")
    is_one = graph.first_node.operands[1].storage.count == 1
    before_export(graph)
    assert (graph.first_node.op_type == "opset1.FakeQuantize") is is_one


def test_scales_of_more_channels_than_are_looked_at_stay():
    for count, is_one in ((1024, True), (1025, False)):
        graph = Graph()
        x = graph.add_input("x", TensorFact(DType.FLOAT32, (count,)))
        scale, zero = (storage_of(np.ones(count, dtype)) for dtype in (np.float32, np.int8))
        s, z = (graph.add_constant("c", TensorFact.of(each), each) for each in (scale, zero))
        q = graph.append(Node("QuantizeLinear", [x, s, z], [Value("q")], {"axis": 0})).output
        graph.add_output(graph.append(Node("DequantizeLinear", [q, s, z], [Value("y")], {"axis": 0})).output)
        before_export(graph)
        assert (graph.first_node.op_type == "opset1.FakeQuantize") is is_one


# ── constants in narrow types ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_half_that_is_widened_is_marked_where_readers_would_fold_it():
    for dtype in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64, DType.INT8):
        for count in (15, 16):
            for to in (DType.FLOAT32, DType.FLOAT64):
                for is_fed in (False, True):
                    graph = Graph()
                    storage = storage_of(np.zeros(count, dtype.numpy))
                    fact = TensorFact.of(storage)
                    value = graph.add_input("c", fact) if is_fed else graph.add_constant("c", fact, storage)
                    node = Node("opset1.Convert", [value], [Value("y")], {"destination_type": to}, dialect="openvino")
                    graph.add_output(graph.append(node).output)
                    after_export(graph)
                    is_half = dtype in (DType.FLOAT16, DType.BFLOAT16)
                    is_marked = is_half and count == 16 and to is DType.FLOAT32 and not is_fed
                    assert (node.notes.get(DECOMPRESSION) is True) is is_marked, (dtype, count, to, is_fed)


def test_narrow_weights_are_converted_at_their_consumer():
    for dtype in (np.float16, None):
        graph = Graph()
        x = graph.add_input("x", TensorFact(DType.FLOAT32, (2,)))
        source = storage_of(np.array([1.5, -2], dtype or np.float32))
        stored = source if dtype is None else Widened(source, DType.FLOAT32)
        constant = graph.add_constant("w", TensorFact(DType.FLOAT32, (2,)), stored)
        for name in "yz":
            node = Node("opset1.Add", [x, constant], [Value(name, x.fact)], dialect="openvino")
            graph.add_output(graph.append(node).output)
        after_export(graph)
        verify(graph)
        assert [node.op_type for node in graph] == [
            *["opset1.Convert"] * (dtype is not None),
            "opset1.Add",
            "opset1.Add",
        ]
        (found,) = graph.constants
        assert found.storage is source
        assert (found.fact.dtype, found.fact.shape) == (source.dtype, (2,))
        if dtype is not None:
            convert = graph.first_node
            assert convert.attributes == {"destination_type": DType.FLOAT32}
            assert convert.operands == [found]
            assert [node.operands[1] for node in list(graph)[1:]] == [convert.output] * 2
            assert convert.output.fact == TensorFact(DType.FLOAT32, (2,))


def test_inputs_with_means_are_read_without_them_by_everybody():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (1, 2)))
    z = graph.add_input("z", TensorFact(DType.FLOAT32, (1, 2)))
    means = storage_of(np.array([[1, 2]], np.float32))
    x.notes[MEAN_VALUES], z.notes["other"] = means, 1
    y = Node("opset1.Add", [x, x], [Value("y", x.fact)], dialect="openvino")
    dead = Node("opset1.ReLU", [x], [Value("dead", x.fact)], dialect="openvino")
    for node in (y, dead):
        graph.append(node)
    graph.set_outputs([y.output])
    before_using_rules(graph, legalize_nodes)
    verify(graph)
    assert [node.op_type for node in graph] == ["opset1.Subtract", "opset1.Add"]
    centred = graph.first_node
    assert centred.operands[0] is x
    assert centred.operands[1].storage is means
    assert list(y.operands) == [centred.output] * 2
    assert (centred.output.fact, MEAN_VALUES in x.notes, z.uses) == (x.fact, False, type(z.uses)())


@pytest.mark.parametrize(("axis", "has_zero"), list(product((0, 1), (False, True))))
def test_weights_with_scales_of_channels_are_known_again(axis, has_zero, tmp_path):
    draw = np.random.default_rng(2)
    count = (4, 3)[axis]
    constants = {"w": draw.integers(-127, 128, (4, 3), np.int8), "s": draw.uniform(0.01, 0.1, count).astype(np.float32)}
    constants |= {"z": draw.integers(-9, 9, count, np.int8)} if has_zero else {}
    nodes = [
        models.node("DequantizeLinear", list(constants), ["r"], axis=axis),
        models.node("MatMul", ["x", "r"], ["y"]),
    ]
    written = gp.from_onnx(models.model(nodes, [("x", ["N", 4])], [("y", ["N", 3])], constants))
    gp.save(written, tmp_path / "a.xml")
    again = gp.load(tmp_path / "a.xml")
    assert [each.op for each in again.graph] == ["DequantizeLinear", "MatMul"]
    np.testing.assert_array_equal(gp.run(again, {"x": X})["y"], gp.run(written, {"x": X})["y"])
