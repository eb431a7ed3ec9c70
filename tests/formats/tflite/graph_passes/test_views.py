"""Tensors that are another one in another shape, and parts of spectra: they are said by one operator of their source."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.gelu import fuse_gelus
from graphport.formats.tflite.graph_passes.spectra import part_spectra
from graphport.formats.tflite.graph_passes.views import drop_identities, reshape_what_stays, shape_from_root
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.laws import computed

F32 = DType.FLOAT32


class Net:
    def __init__(self, *shape: Any, dtype: DType = F32) -> None:
        self.graph: Any = Graph()
        self.x = self.graph.add_input("x", TensorFact(dtype, shape))

    def put(self, op_type: str, *operands: Any, shape: Any = None, dialect="tflite", dtype=F32, **told: Any) -> Any:
        read = [each if isinstance(each, Value) else self.constant(each) for each in operands]
        made = Value(self.graph.fresh("v"), TensorFact(dtype, shape))
        return self.graph.append(Node(op_type, read, [made], told, dialect=dialect)).output

    def constant(self, array: Any) -> Value:
        storage = storage_of(np.asarray(array))
        return self.graph.add_constant("c", TensorFact.of(storage), storage)

    def after(self, work: Any, *outputs: Value) -> list[str]:
        self.graph.set_outputs(outputs)
        work(self.graph)
        verify(self.graph)
        return [node.op_type for node in self.graph]


def test_a_transpose_that_moves_only_axes_of_one_cell_is_a_reshaping():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(120):
        rank = int(rng.integers(1, 5))
        shape = [int(n) for n in rng.choice([1, 1, 2, 3], rank)]
        order = rng.permutation(rank)
        is_open = [bool(each) for each in rng.random(rank) < 0.2]
        dims = [Symbol(f"n{axis}") if is_open[axis] else n for axis, n in enumerate(shape)]
        net = Net(*dims)
        target = tuple(dims[axis] for axis in order)
        result = net.put("TRANSPOSE", net.x, order.astype(np.int32), shape=target, types=(F32,))
        kept = [axis for axis in order if is_open[axis] or shape[axis] != 1]
        is_reshaping = kept == sorted(kept) and sum(is_open) < 2
        found = net.after(reshape_what_stays, result)
        assert found == ["RESHAPE" if is_reshaping else "TRANSPOSE"], (dims, order)
        seen.add((is_reshaping, sum(is_open)))
        node = net.graph.first
        assert (node.output, node.operands[0], node.attributes) == (result, net.x, {"types": (F32,)})
        if is_reshaping:
            wanted = [n if isinstance(n, int) else -1 for n in target]
            told = node.operands[1].storage.numpy()
            assert (told.tolist(), told.dtype) == (wanted, np.int32)
    assert {(True, 0), (True, 1), (False, 0), (False, 1), (False, 2)} <= seen


def test_a_transpose_that_stays():
    large = np.iinfo(np.int32).max
    for dims, is_reshaping in (((1, large), True), ((1, large + 1), False)):
        net = Net(*dims)
        found = net.after(reshape_what_stays, net.put("TRANSPOSE", net.x, [1, 0], shape=dims[::-1]))
        assert (found == ["RESHAPE"]) is is_reshaping
    for kind in ("order", "constant", "custom", "word", "source", "result"):
        net = Net(1, 2)
        source = net.constant(np.zeros((1, 2), np.float32)) if kind == "constant" else net.x
        if kind == "source":
            net.x.fact = TensorFact(F32, None)
        order = net.graph.add_input("o", TensorFact(DType.INT32, (2,))) if kind == "order" else [1, 0]
        op_type = "REVERSE_V2" if kind == "word" else "TRANSPOSE"
        told = {"dialect": "custom"} if kind == "custom" else {}
        result = net.put(op_type, source, order, shape=None if kind == "result" else (2, 1), **told)
        assert net.after(reshape_what_stays, result) == [op_type], kind


def test_what_is_reshaped_again_is_reshaped_from_the_first():
    rng = np.random.default_rng(1)
    for _ in range(40):
        net = Net(2, 6)
        value, shown = net.x, []
        count = int(rng.integers(2, 5))
        for place in range(count):
            shape = [(12,), (3, 4), (1, 12), (4, 1, 3)][int(rng.integers(4))]
            op_type = str(rng.choice(["RESHAPE", "SQUEEZE", "EXPAND_DIMS"]))
            value = net.put(op_type, value, np.array(shape, np.int32), shape=shape)
            if place == count - 1 or rng.random() < 0.3:
                shown.append(net.put("ABS", value, shape=shape))
        found = net.after(shape_from_root, *shown)
        assert [op_type for op_type in found if op_type == "ABS"] == ["ABS"] * len(shown)
        assert len(found) == 2 * len(shown)
        for each in shown:
            node = each.producer.operands[0].producer
            assert node.operands[0] is net.x
            assert node.output.fact.shape == each.fact.shape
            if node.op_type == "RESHAPE":
                assert node.operands[1].storage.numpy().tolist() == list(each.fact.shape)


def test_reshapes_with_unknown_shape_are_unchanged():
    for kind in ("custom", "custom before", "word", "before", "open"):
        net = Net(2, 6)
        one = net.put("ABS" if kind == "before" else "RESHAPE", net.x, [12], shape=(12,))
        if kind == "custom before":
            one.producer.dialect = "custom"
        op_type = "ABS" if kind == "word" else "RESHAPE"
        shape = (Symbol("a"), Symbol("b")) if kind == "open" else (3, 4)
        two = net.put(op_type, one, [3, 4], shape=shape, dialect="custom" if kind == "custom" else "tflite")
        words = [node.op_type for node in net.graph]
        assert net.after(shape_from_root, two) == words, kind
        assert two.producer.operands[0] is one


def test_copies_are_inserted_before_consumers():
    net = Net(2)
    copy = net.put("Identity", net.x, dialect="", shape=(2,))
    shown, unread = (net.put("Identity", net.x, dialect="", shape=(2,)) for _ in range(2))
    other = net.put("Identity", net.x, dialect="custom", shape=(2,))
    y = net.put("Abs", copy, dialect="", shape=(2,))
    z = net.put("Abs", other, dialect="", shape=(2,))
    words = net.after(drop_identities, y, shown, z)
    assert words == ["Identity", "Identity", "Identity", "Abs", "Abs"]
    assert y.producer.operands == [net.x]
    assert [value.producer.graph is net.graph for value in (shown, unread, other)] == [True] * 3
    assert copy.producer is None or copy.producer.graph is None


def test_who_reads_parts_of_a_spectrum_computes_that_part():
    parts = {"REAL": "real", "IMAG": "imag", "COMPLEX_ABS": "magnitude"}
    for read in (["REAL"], ["IMAG", "REAL"], ["COMPLEX_ABS", "COMPLEX_ABS", "IMAG"]):
        net = Net(4, 8)
        spectrum = net.put("RFFT2D", net.x, [4, 8], shape=(4, 5), dtype=DType.COMPLEX64)
        found = [net.put(op_type, spectrum, shape=(4, 5)) for op_type in read]
        operands = list(spectrum.producer.inputs)
        assert net.after(part_spectra, *found) == ["RFFT2D"] * len(read)
        for value, op_type in zip(found, read, strict=True):
            told = value.producer.attributes
            assert (str(told["part"]).lower(), told["types"]) == (parts[op_type], (F32,))
            assert list(value.producer.inputs) == operands
    for kind in ("returned", "other reader", "custom reader", "custom", "word", "unread"):
        net = Net(4, 8)
        dialect, op_type = ("custom" if kind == "custom" else "tflite"), ("STFT" if kind == "word" else "RFFT2D")
        spectrum = net.put(op_type, net.x, [4, 8], shape=(4, 5), dtype=DType.COMPLEX64, dialect=dialect)
        shown = [spectrum] if kind == "returned" else []
        if kind != "unread":
            shown.append(net.put("REAL", spectrum, shape=(4, 5)))
        if kind == "other reader":
            shown.append(net.put("CAST", spectrum, shape=(4, 5)))
        elif kind == "custom reader":
            shown.append(net.put("REAL", spectrum, shape=(4, 5), dialect="custom"))
        words = [node.op_type for node in net.graph]
        assert net.after(part_spectra, *(shown or [net.x])) == words, kind


def test_what_moves_a_spectrum_moves_its_parts():
    parts = {"REAL": "real", "IMAG": "imag", "COMPLEX_ABS": "magnitude"}
    for read in (["REAL"], ["IMAG", "COMPLEX_ABS"]):
        net = Net(2, 1, 8)
        spectrum = net.put("RFFT2D", net.x, [1, 8], shape=(2, 1, 5), dtype=DType.COMPLEX64)
        flat = net.put("RESHAPE", spectrum, [2, 5], shape=(2, 5), dtype=DType.COMPLEX64, types=(DType.COMPLEX64,))
        turned = net.put("TRANSPOSE", flat, [1, 0], shape=(5, 2), dtype=DType.COMPLEX64)
        found = [net.put(op_type, turned, shape=(5, 2)) for op_type in read]
        assert sorted(net.after(part_spectra, *found)) == sorted(["RFFT2D", "RESHAPE", "TRANSPOSE"] * len(read))
        for value, op_type in zip(found, read, strict=True):
            reshaping = value.producer.operands[0].producer
            made = reshaping.operands[0].producer
            assert [each.op_type for each in (value.producer, reshaping, made)] == ["TRANSPOSE", "RESHAPE", "RFFT2D"]
            assert str(made.attributes["part"]).lower() == parts[op_type]
            assert [each.fact for each in (made.output, reshaping.output)] == [
                TensorFact(F32, (2, 1, 5)),
                TensorFact(F32, (2, 5)),
            ]
            assert reshaping.attributes["types"] == (F32,)
    for kind in ("returned", "other reader", "custom reader", "reals"):
        dtype = F32 if kind == "reals" else DType.COMPLEX64
        net = Net(2, 1, 8)
        spectrum = net.put("RFFT2D", net.x, [1, 8], shape=(2, 1, 5), dtype=dtype)
        flat = net.put("RESHAPE", spectrum, [2, 5], shape=(2, 5), dtype=dtype)
        others = {
            "returned": lambda flat=flat: flat,
            "other reader": lambda net=net, flat=flat: net.put("CAST", flat, shape=(2, 5)),
            "custom reader": lambda net=net, flat=flat: net.put("REAL", flat, shape=(2, 5), dialect="custom"),
            "reals": lambda net=net, flat=flat: net.put("REAL", flat, shape=(2, 5)),
        }
        shown = [net.put("REAL", flat, shape=(2, 5)), others[kind]()]
        words = [node.op_type for node in net.graph]
        assert net.after(part_spectra, *shown) == words, kind


def gelu(net: Net, dtype: Any) -> Value:
    """`0.5 * x * (1 + erf(x / √2))`."""

    def put(op_type: str, *operands: Any) -> Any:
        return net.put(op_type, *operands, dialect="", shape=(3,), dtype=DType.of(dtype))

    inner = put("Erf", put("Div", net.x, np.sqrt(2).astype(dtype)))
    return put("Mul", put("Mul", net.x, put("Add", inner, np.ones((), dtype))), np.array(0.5, dtype))


def test_a_gelu_is_one_operator_of_reals_of_32_bits():
    for dtype in ("float32", "float64", "float16"):
        for is_read in (False, True):
            net = Net(3, dtype=DType.of(dtype))
            value = gelu(net, dtype)
            inner = next(node for node in net.graph if node.op_type == "Erf").output
            net.graph.set_outputs([value])
            expected = computed(rewrite.copy(net.graph), {"x": np.array([-1, 0.5, 2], dtype)})
            found = net.after(fuse_gelus, value, *([inner] if is_read else []))
            assert (found == ["Gelu"]) is (dtype == "float32" and not is_read)
            assert len(found) in (1, 5)
            if len(found) > 1:
                continue
            assert value.producer.operands == [net.x]
            result = computed(rewrite.copy(net.graph), {"x": np.array([-1, 0.5, 2], dtype)})
            np.testing.assert_allclose(result[0], expected[0], rtol=1e-5)
