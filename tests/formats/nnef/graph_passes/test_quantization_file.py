"""Tensors that a file of quantizations names, as nodes; and pairs of nodes, as such a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.packaging import write_container
from graphport.formats.nnef.container.quantized import QUANTIZATION, Affine, Decoded, Quantization
from graphport.formats.nnef.container.tensors import Payload, tensor_file
from graphport.formats.nnef.graph_passes.quantization_file import expand_quantization, note, note_moved
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.laws import computed
from tests.models import model as onnx_model
from tests.models import node

TEXT = """version 1.0;

graph net( x ) -> ( y )
{
    x = external(shape = [2, 3]);
    w = variable(shape = [3, 4], label = 'w');
    h = matmul(x, w);
    y = relu(h);
}
"""
X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
CODES = np.random.default_rng(2).integers(-127, 128, (3, 4)).astype(np.int8)


def payload(text: str) -> Payload:
    return Payload(len(text), lambda: iter([text.encode()]))


def model(folder: Path, *lines: str, w: Any = W, text=TEXT, is_quantized=False) -> Path:
    files = {"graph.nnef": payload(text), "graph.quant": payload("\n".join(lines) + "\n")}
    files["w.dat"] = tensor_file(w if not isinstance(w, np.ndarray) else storage_of(w), "w", is_quantized=is_quantized)
    write_container(folder / "model", files)
    return folder / "model"


def ops(graph):
    return [node.op for node in graph]


def half_up(x):
    return np.floor(x + 0.5)


def zero_point(x, shift, scale, bits, signed, symmetric):
    largest = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    smallest = 0 if not signed else -largest if symmetric else -largest - 1
    return (np.clip(half_up(x / scale) + shift, smallest, largest) - shift) * scale


def min_max(x, low, high, bits, signed=False, symmetric=False):
    r = 2**bits - 1 - (signed and symmetric)
    return half_up((np.clip(x, low, high) - low) / (high - low) * r) / r * (high - low) + low


QDQ = ["QuantizeLinear", "DequantizeLinear"]


@pytest.mark.parametrize(
    ("line", "formula", "nodes"),
    [
        pytest.param(
            '"h": zero_point_linear_quantize(zero_point = 3, scale = 0.05, bits = 8, signed = true, symmetric = false);',
            lambda h: zero_point(h, 3, 0.05, 8, True, False),
            QDQ,
            id="whole steps",
        ),
        pytest.param(
            '"h": zero_point_linear_quantize(zero_point = 0, scale = 0.3, bits = 4, signed = true, symmetric = true);',
            lambda h: zero_point(h, 0, 0.3, 4, True, True),
            ["Max", *QDQ],
            id="one code less",
        ),
        pytest.param(
            '"h": zero_point_linear_quantize(zero_point = 1, scale = 0.3, bits = 5, signed = false, symmetric = false);',
            lambda h: zero_point(h, 1, 0.3, 5, False, False),
            None,
            id="a width that no type has",
        ),
        pytest.param(
            '"h": min_max_linear_quantize(min = -1.28, max = 1.27, bits = 8, signed = true, symmetric = false);',
            lambda h: min_max(h, -1.28, 1.27, 8, True, False),
            QDQ,
            id="a range with zero on a step",
        ),
        pytest.param(
            '"h": linear_quantize(min = -1.0, max = 1.5, bits = 3);',
            lambda h: min_max(h, -1, 1.5, 3),
            None,
            id="a range without",
        ),
        pytest.param(
            '"h": logarithmic_quantize(max = 2.0, bits = 3);',
            lambda h: np.sign(h) * 2.0 ** half_up(np.clip(np.log2(np.abs(h)), 1 - 7, 1)),
            None,
            id="powers of two",
        ),
    ],
)
@pytest.mark.parametrize("backend", ["reference", "onnxruntime"])
def test_a_computed_tensor_is_quantized(tmp_path, line, formula, nodes, backend):
    loaded = gp.load(model(tmp_path, line))
    h = formula((X @ W).astype(np.float64))
    found = gp.run(loaded, {"x": X}, backend=backend)
    np.testing.assert_allclose(found["y"], np.maximum(h, 0), rtol=1e-5, atol=1e-6)
    if nodes is not None:
        assert ops(loaded.graph) == ["MatMul", *nodes, "Relu"]
    else:
        assert "QuantizeLinear" not in ops(loaded.graph)


def test_an_input_is_quantized_for_all_who_read_it(tmp_path):
    line = '"x": zero_point_linear_quantize(zero_point = 0, scale = 0.5, bits = 8, signed = true, symmetric = false);'
    loaded = gp.load(model(tmp_path, line))
    assert list(loaded.inputs) == ["x"]
    found = gp.run(loaded, {"x": X})["y"]
    np.testing.assert_allclose(found, np.maximum(half_up(X / 0.5) * 0.5 @ W, 0), rtol=1e-5, atol=1e-6)


def test_an_output_keeps_its_name(tmp_path):
    line = '"y": zero_point_linear_quantize(zero_point = 0, scale = 0.5, bits = 8, signed = true, symmetric = false);'
    loaded = gp.load(model(tmp_path, line))
    assert list(loaded.outputs) == ["y"]
    np.testing.assert_allclose(gp.run(loaded, {"x": X})["y"], half_up(np.maximum(X @ W, 0) / 0.5) * 0.5, atol=1e-6)


SCALES = np.array([0.01, 0.02, 0.04])
PER_ROW = (
    "zero_point_linear_quantize(zero_point = [[0], [1], [2]], scale = [[0.01], [0.02], [0.04]], "
    "bits = 8, signed = true, symmetric = false);"
)


def test_codes_are_dequantized_by_row(tmp_path):
    path = model(tmp_path, f'"w": {PER_ROW}', w=CODES, is_quantized=True)
    w = (CODES - np.arange(3)[:, None]) * SCALES[:, None]
    raw = gp.load(path, raw=True)
    (stored,) = [value.storage for value in raw.graph.constants]
    assert stored is not None
    assert stored.dtype is DType.FLOAT32
    np.testing.assert_allclose(stored.numpy(), w, rtol=1e-6)
    np.testing.assert_array_equal(b"".join(stored.chunks(64)), stored.numpy().tobytes())
    loaded = gp.load(path)
    assert ops(loaded.graph) == ["DequantizeLinear", "MatMul", "Relu"]
    assert loaded.graph.first_node is not None
    assert loaded.graph.first_node.attributes["axis"] == 0
    np.testing.assert_allclose(gp.run(loaded, {"x": X})["y"], np.maximum(X @ w, 0), rtol=1e-5, atol=1e-6)


def test_the_label_names_the_variable_too(tmp_path):
    text = TEXT.replace("w = variable", "filter = variable").replace("(x, w)", "(x, filter)")
    loaded = gp.load(model(tmp_path, f'"w": {PER_ROW}', w=CODES, is_quantized=True, text=text))
    assert ops(loaded.graph) == ["DequantizeLinear", "MatMul", "Relu"]


def test_codes_off_any_grid_are_decoded(tmp_path):
    line = '"w": linear_quantize(min = -1.0, max = 1.6, bits = 8);'
    path = model(tmp_path, line, w=CODES.view(np.uint8), is_quantized=True)
    w = CODES.view(np.uint8) / 255 * 2.6 - 1
    loaded = gp.load(path)
    assert ops(loaded.graph) == ["MatMul", "Relu"]
    np.testing.assert_allclose(gp.run(loaded, {"x": X})["y"], np.maximum(X @ w, 0), rtol=1e-5, atol=1e-5)


def test_real_numbers_of_a_variable_are_quantized_by_row(tmp_path):
    path = model(tmp_path, f'"w": {PER_ROW.replace("symmetric = false", "symmetric = true")}')
    w = zero_point(W, np.arange(3)[:, None], SCALES[:, None], 8, True, True)
    found = gp.run(gp.load(path), {"x": X})["y"]
    np.testing.assert_allclose(found, np.maximum(X @ w, 0), rtol=1e-5, atol=1e-6)


def test_a_model_that_nobody_changed_is_written_as_it_was(tmp_path):
    path = model(tmp_path, f'"w": {PER_ROW}', w=CODES, is_quantized=True)
    gp.save(gp.load(path, raw=True), tmp_path / "again")
    for name in ("graph.nnef", "graph.quant", "w.dat"):
        assert (tmp_path / "again" / name).read_bytes() == (path / name).read_bytes()


def test_quantized_tensors_come_back_as_a_file(tmp_path):
    line = '"h": zero_point_linear_quantize(zero_point = 3, scale = 0.05, bits = 8, signed = true, symmetric = false);'
    path = model(tmp_path, f'"w": {PER_ROW}', line, w=CODES, is_quantized=True)
    loaded = gp.load(path)
    gp.save(loaded, tmp_path / "again")
    assert "quantize" not in (tmp_path / "again" / "graph.nnef").read_text()
    raw = gp.load(tmp_path / "again", raw=True)
    assert ops(raw.graph) == ["nnef.matmul", "nnef.relu"]
    again = gp.load(tmp_path / "again")
    assert ops(again.graph) == ops(loaded.graph)
    for name, array in gp.run(loaded, {"x": X}).items():
        np.testing.assert_array_equal(gp.run(again, {"x": X})[name], array)
    assert (tmp_path / "again" / "w.dat").read_bytes() == (path / "w.dat").read_bytes()


@pytest.mark.parametrize("reads_before", [False, True])
def test_what_is_read_before_it_is_quantized_is_copied(tmp_path, reads_before):
    from onnx import TensorProto, helper, numpy_helper

    constants = {"s": np.float32(0.1), "z": np.int8(2)}
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Add", ["d", "h"] if reads_before else ["d", "d"], ["y"]),
    ]
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    numbers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", typed[:1], typed[1:], numbers)
    first = gp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    gp.save(first, tmp_path / "model", flavour="khronos")
    second = gp.load(tmp_path / "model")
    np.testing.assert_array_equal(gp.run(second, {"x": X})["y"], gp.run(first, {"x": X})["y"])
    words = ops(gp.load(tmp_path / "model", raw=True).graph)
    assert words == (["nnef.relu", "nnef.copy", "nnef.add"] if reads_before else ["nnef.relu", "nnef.add"])


@pytest.mark.parametrize("zero", [0, 7])
def test_weights_that_a_scale_of_0_makes_0_come_back(zero, tmp_path):
    codes, scale, shift = CODES.copy(), np.array([0.5, 0, 0.25, 0], np.float32), np.full(4, zero, np.int8)
    codes[:, 3] = zero
    nodes = [node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=1), node("MatMul", ["x", "w"], ["y"])]
    initializers = {"q": codes, "s": scale, "z": shift}
    model = gp.from_onnx(onnx_model(nodes, [("x", [2, 3])], [("y", [2, 4])], initializers))
    gp.save(model, tmp_path / "m.nnef", flavour="khronos")
    assert "zero_point_linear_quantize" in (tmp_path / "m.nnef" / "graph.quant").read_text()
    outputs = gp.run(gp.load(tmp_path / "m.nnef"), {"x": X}, backend="reference")
    expected = X @ ((codes.astype(np.float32) - zero) * scale)
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-5, atol=1e-5)


def test_negative_scales_are_not_written_as_a_file(tmp_path):
    scale = np.array([0.5, -0.5, 0.25, 1], np.float32)
    nodes = [node("DequantizeLinear", ["q", "s"], ["w"], axis=1), node("MatMul", ["x", "w"], ["y"])]
    initializers = {"q": CODES, "s": scale}
    gp.save(gp.from_onnx(onnx_model(nodes, [("x", [2, 3])], [("y", [2, 4])], initializers)), tmp_path / "m.nnef")
    outputs = gp.run(gp.load(tmp_path / "m.nnef"), {"x": X}, backend="reference")
    np.testing.assert_allclose(outputs["y"], X @ (CODES * scale), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("axis", "scales"), [(0, [0.1, 0.3]), (1, [0.1, 0.2, 0.3, 0.5])])
def test_one_code_less_for_each_row_or_column(tmp_path, axis, scales):
    told = "[" + ", ".join(f"[{each}]" for each in scales) + "]" if axis == 0 else f"[{scales}]"
    line = (
        f'"h": zero_point_linear_quantize(zero_point = 0, scale = {told}, bits = 4, signed = true, symmetric = true);'
    )
    loaded = gp.load(model(tmp_path, line))
    shape = (-1, 1) if axis == 0 else (1, -1)
    expected = zero_point((X @ W).astype(np.float64), 0, np.array(scales).reshape(shape), 4, True, True)
    found = gp.run(loaded, {"x": X})["y"]
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)


def test_what_is_cut_off_has_as_many_axes_as_what_it_meets():
    """Behind the axis of the scales stand as many of length 1 as the tensor has axes there."""
    for rank, axis in ((1, 0), (2, 0), (2, 1), (4, 1), (4, 3)):
        graph = Graph()
        x = graph.add_input("x", TensorFact(DType.FLOAT32, (3,) * rank))
        y = graph.append(Node("Relu", [x], [Value("y", x.fact)])).output
        graph.set_outputs([y])
        scale: Any = tuple(0.5 + n for n in range(3))
        for _ in range(axis):
            scale = (scale,)
        if axis == 0 and rank > 1:
            scale = tuple((each,) for each in scale)
        arguments = {"zero_point": 0, "scale": scale, "bits": 8, "signed": True, "symmetric": True}
        y.notes[QUANTIZATION] = Quantization("zero_point_linear_quantize", arguments)
        expand_quantization(graph)
        assert ops(graph) == ["Relu", "Max", *QDQ]
        (floor,) = [each.operands[1].storage.numpy() for each in graph if each.op == "Max"]
        assert floor.shape == (3, *[1] * (rank - axis - 1))
        np.testing.assert_allclose(floor.reshape(-1), [-127 * (0.5 + n) for n in range(3)])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
@pytest.mark.parametrize(
    ("scale", "shift"),
    [
        (0.5, 3),
        ([[0.5], [0.25]], [[1], [2]]),
        ([[0.5, 0.25, 2.0]], [[0]]),
        ([[[0.5], [0.25]]], 0),
    ],
    ids=str,
)
def test_copies_of_codes_are_noted_as_they_are_decoded(dtype, scale, shift):
    def tuples(numbers):
        return tuple(map(tuples, numbers)) if isinstance(numbers, list) else numbers

    def only(numbers):
        return only(numbers[0]) if isinstance(numbers, list) and len(numbers) == 1 else numbers

    graph = Graph()
    codes = storage_of(np.arange(6).reshape(1, 2, 3), dtype)
    stored = Decoded(codes, Affine(np.array(scale, np.float64), np.array(shift, np.float64)))
    value = graph.add_constant("w", TensorFact(DType.FLOAT32, codes.shape), stored)
    plain = graph.add_constant("k", TensorFact.of(codes), codes)
    noted = graph.add_constant("n", TensorFact(DType.FLOAT32, codes.shape), stored)
    kept = noted.notes[QUANTIZATION] = Quantization("linear_quantize", {})
    note_moved(graph)
    found = value.notes[QUANTIZATION]
    assert found.operation == "zero_point_linear_quantize"
    expected_shift = only(shift) if np.size(shift) == 1 else tuples(shift)
    assert found.arguments == {
        "zero_point": expected_shift,
        "scale": tuples(scale),
        "bits": dtype.bits,
        "signed": dtype is not DType.UINT8,
        "symmetric": False,
    }
    assert isinstance(np.asarray(found.arguments["zero_point"]).reshape(-1)[0], np.integer)
    assert not plain.has_notes
    assert noted.notes[QUANTIZATION] is kept


# ── pairs of nodes as notes, and back ─────────────────────────────────────────────────────────────────────────────────

TYPES = [DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT4, DType.UINT4]


class Pair:
    """`y = Neg(DequantizeLinear(codes))` or of what is quantized, along an axis or as a whole."""

    def __init__(self, rng: Any, *, stored: bool, kind: str = "") -> None:
        self.graph: Any = Graph()
        shape = tuple(int(n) for n in rng.integers(2, 5, int(rng.integers(1, 4))))
        self.dtype = TYPES[int(rng.integers(len(TYPES)))]
        axis = int(rng.integers(-len(shape), len(shape)))
        count = shape[axis] if rng.random() < 0.6 or kind in ("blocks", "rank") else 1
        high = 8 if self.dtype.bits == 4 else 100
        low = 0 if self.dtype.kind == "u" else -high
        ranks = () if count == 1 else (count,)
        self.scale = rng.uniform(0.01, 1, ranks).astype(np.float32)
        has_zero = rng.random() < 0.7
        self.zero = rng.integers(low, high, ranks) if has_zero else np.zeros(ranks, int)
        if kind == "negative":
            self.scale = -self.scale
        elif kind == "nothing":
            self.scale = self.scale * 0
        if kind == "large":
            shape, axis, count = (1025, 1), 0, 1025
            self.scale, self.zero, has_zero = np.ones(1025, np.float32), np.zeros(1025, int), False
        elif kind == "largest":
            shape, axis, count = (1024, 1), 0, 1024
            self.scale, self.zero, has_zero = np.ones(1024, np.float32), np.zeros(1024, int), False
        spread = [1] * len(shape)
        spread[axis] = count
        self.codes = rng.integers(low, high, shape)
        self.numbers = (self.codes - self.zero.reshape(spread)) * self.scale.reshape(spread)
        scale = (
            self.graph.add_input("s", TensorFact.of(storage_of(self.scale)))
            if kind == "given"
            else self.put(self.scale)
        )
        zero = self.put(self.zero, self.dtype)
        self.fact = TensorFact(DType.FLOAT32, None if kind == "rank" else shape)
        told: dict[str, Any] = {} if axis == 1 and rng.random() < 0.5 else {"axis": axis}
        if kind == "blocks":
            told["block_size"] = 1
        self.x = self.graph.add_input("x", TensorFact(DType.FLOAT32, shape))
        back = [scale, *([zero] if has_zero or not stored else [])]
        if stored:
            codes = self.put(self.codes, self.dtype)
        else:
            made = self.node("Abs", [self.x], "a", TensorFact(DType.FLOAT32, shape))
            codes = self.node("QuantizeLinear", [made, scale, zero], "q", TensorFact(self.dtype, self.fact.shape), told)
            if kind == "other zero":
                back[1] = self.put(np.where(self.zero == 3, 4, 3), self.dtype)
            elif kind == "other scale":
                back[0] = self.put(self.scale * 2)
        self.d = self.node("DequantizeLinear", [codes, *back], "d", self.fact, told)
        shown = [self.node("Neg", [self.d], "y", self.fact)]
        if kind == "codes are read":
            shown.append(self.node("Identity", [codes], "z", codes.fact))
        elif kind == "read before":
            shown.append(self.node("Neg", [made], "z", self.fact))
        self.graph.set_outputs(shown)

    def put(self, array: Any, dtype: DType | None = None) -> Value:
        storage = storage_of(np.asarray(array), dtype)
        return self.graph.add_constant("c", TensorFact.of(storage), storage)

    def node(self, op_type: str, operands: list[Value], name: str, fact: Any, told: Any = None) -> Value:
        return self.graph.append(Node(op_type, operands, [Value(self.graph.fresh(name), fact)], told or {})).output


def test_codes_with_scales_are_noted_as_what_they_stand_for():
    rng = np.random.default_rng(6)
    for _ in range(60):
        pair = Pair(rng, stored=True)
        note(pair.graph)
        verify(pair.graph)
        assert ops(pair.graph) == ["Neg"]
        value = pair.graph.first.operands[0]
        assert (value.name, value.is_constant) == ("d", True)
        np.testing.assert_allclose(value.storage.numpy(), pair.numbers, rtol=1e-5, atol=1e-6)
        told = value.notes[QUANTIZATION]
        assert (told.arguments["bits"], told.arguments["signed"]) == (pair.dtype.bits, pair.dtype.kind == "i")
        expand_quantization(pair.graph)
        verify(pair.graph)
        assert ops(pair.graph) == ["DequantizeLinear", "Neg"]
        found = computed(pair.graph, {"x": np.zeros(pair.x.fact.shape, np.float32)})
        np.testing.assert_allclose(found[0], -pair.numbers, rtol=1e-5, atol=1e-6)


def test_pairs_are_noted_on_what_they_round():
    rng = np.random.default_rng(7)
    for case in range(60):
        kind = "read before" if case % 3 == 0 else ""
        pair = Pair(rng, stored=False, kind=kind)
        x = {"x": rng.normal(0, 3, pair.x.fact.shape).astype(np.float32)}
        expected = computed(rewrite.copy(pair.graph), x)
        note(pair.graph)
        verify(pair.graph)
        assert ops(pair.graph) == (["Abs", "Identity", "Neg", "Neg"] if kind else ["Abs", "Neg"])
        noted = next(value for value in pair.graph.values() if value.has_notes and QUANTIZATION in value.notes)
        assert (noted.name, noted.producer.op) == ("d", "Identity" if kind else "Abs")
        expand_quantization(pair.graph)
        verify(pair.graph)
        assert [op for op in ops(pair.graph) if op not in ("Abs", "Neg", "Identity")] == QDQ
        for one, other in zip(computed(pair.graph, x), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_quantization_that_the_file_cannot_express_is_unchanged():
    rng = np.random.default_rng(8)
    for _ in range(4):
        for kind in ("given", "blocks", "other zero", "other scale", "codes are read", "negative", "nothing"):
            pair = Pair(rng, stored=False, kind=kind)
            before = ops(pair.graph)
            note(pair.graph)
            assert ops(pair.graph) == before, kind
        for kind, is_noted in (
            *(("given", False), ("blocks", False), ("negative", False), ("large", False)),
            *(("nothing", True), ("largest", True)),
        ):
            pair = Pair(rng, stored=True, kind=kind)
            note(pair.graph)
            assert (ops(pair.graph) == ["Neg"]) is is_noted, kind
            if is_noted:
                value = pair.graph.first.operands[0]
                np.testing.assert_allclose(value.storage.numpy(), pair.numbers + 0.0, rtol=1e-5)
                assert np.all(np.asarray(value.notes[QUANTIZATION].arguments["scale"]) == 1)
