"""Operators on integers: written with tract's and the standard's operators, and read as tract writes them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
import tract
from onnx import helper, numpy_helper

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from tests.every import every
from tests.formats.nnef.tract.test_writing import computed

UNSIGNED, SIGNED, WIDE = 2, 3, 6
NUMPY = {UNSIGNED: np.uint8, SIGNED: np.int8}


def bytes_of(rng, kind, *shape):
    limits = np.iinfo(NUMPY[kind])
    return rng.integers(limits.min, limits.max + 1, shape).astype(NUMPY[kind])


def scales(rng, count):
    return rng.uniform(0.004, 0.02, count).astype(np.float32) if count else np.float32(0.011)


def convolution(rng, *, kind=UNSIGNED, channels=0, groups=1, biased=True, result=UNSIGNED, **window):
    zero = NUMPY[kind](3 if kind == SIGNED else 121)
    stored = {
        "xs": np.float32(0.05),
        "xz": zero,
        "ws": scales(rng, channels),
        "w": bytes_of(rng, SIGNED, 4, 4 // groups, 3, 3),
    }
    stored |= {
        "wz": np.zeros(channels, np.int8) if channels else np.int8(0),
        "ys": np.float32(0.7),
        "yz": NUMPY[result](60),
    }
    stored |= {"b": rng.integers(-400, 400, 4).astype(np.int32)} if biased else {}
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", *(["b"] if biased else [])]
    return helper.make_node("QLinearConv", names, ["y"], group=groups, **window), stored, (kind, [1, 4, 7, 6]), result


def integers(rng, *, zeros=1, **window):
    stored = {
        "w": bytes_of(rng, SIGNED, 3, 4, 2, 2),
        "xz": np.uint8(100),
        "wz": rng.integers(-9, 9, zeros or ()).astype(np.int8),
    }
    return (
        helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], **window),
        stored,
        (UNSIGNED, [2, 4, 5, 6]),
        WIDE,
    )


def product(rng, shape, other, *, rows=0, columns=0, result=SIGNED):
    stored = {
        "w": bytes_of(rng, SIGNED, *other),
        "as": scales(rng, rows),
        "bs": scales(rng, columns),
        "ys": np.float32(0.6),
    }
    stored |= {"az": np.full(rows, 90, np.uint8) if rows else np.uint8(90), "yz": NUMPY[result](10)}
    stored |= {"bz": rng.integers(-5, 5, columns).astype(np.int8) if columns else np.int8(4)}
    names = ["x", "as", "az", "w", "bs", "bz", "ys", "yz"]
    return helper.make_node("QLinearMatMul", names, ["y"]), stored, (UNSIGNED, list(shape)), result


def whole(rng, shape, other, *, rows=0, columns=0):
    stored = {"w": bytes_of(rng, SIGNED, *other), "az": rng.integers(0, 200, rows or ()).astype(np.uint8)}
    stored |= {"bz": rng.integers(-5, 5, columns or ()).astype(np.int8)}
    return helper.make_node("MatMulInteger", ["x", "w", "az", "bz"], ["y"]), stored, (UNSIGNED, list(shape)), WIDE


CASES = {
    "a convolution": convolution,
    "padding is the zero of the input": lambda rng: convolution(rng, pads=[1, 2, 0, 1]),
    "a scale for each channel": lambda rng: convolution(rng, channels=4, strides=[2, 1]),
    "groups": lambda rng: convolution(rng, groups=2, channels=4, biased=False),
    "signed bytes": lambda rng: convolution(rng, kind=SIGNED, result=SIGNED, dilations=[2, 1]),
    "sums alone": lambda rng: integers(rng, pads=[1, 1, 1, 1]),
    "sums with a zero for each channel": lambda rng: integers(rng, zeros=3),
    "a product": lambda rng: product(rng, (3, 6), (6, 5)),
    "a scale for each row and column": lambda rng: product(rng, (3, 6), (6, 5), rows=3, columns=5),
    "products of several": lambda rng: product(rng, (2, 3, 6), (2, 6, 5), result=UNSIGNED),
    "products with one": lambda rng: product(rng, (2, 3, 6), (6, 5)),
    "sums of products": lambda rng: whole(rng, (3, 6), (6, 5)),
    "sums with a zero for each row and column": lambda rng: whole(rng, (3, 6), (6, 5), rows=3, columns=5),
}  # fmt: skip


def made(case, path):
    """Write the model and return its inputs."""
    rng = np.random.default_rng(sum(map(ord, case)))
    node, stored, (kind, shape), result = CASES[case](rng)
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    outputs = [helper.make_tensor_value_info("y", result, None)]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return bytes_of(rng, kind, *shape)


def right(model, x):
    return next(iter(gp.run(model, {next(iter(model.inputs)): x}, backend="reference").values()))


def test_they_are_written_in_tracts_op_types(tmp_path):
    wanted = {}
    for case in CASES:
        place = tmp_path / "all" / case
        place.mkdir(parents=True)
        x = made(case, tmp_path / "m.onnx")
        model = gp.load(tmp_path / "m.onnx")
        gp.save(model, place / "model", format="nnef", flavour="tract")
        assert "tract_core_qconv" in (text := (place / "model" / "graph.nnef").read_text()) or "einsum_q" in text
        np.savez(place / "given.npz", x=x)
        wanted[case] = right(model, x)
        np.testing.assert_array_equal(right(gp.load(place / "model"), x), wanted[case], err_msg=case)
    computed(tmp_path / "all")
    for case, array in wanted.items():
        (found,) = np.load(tmp_path / "all" / case / "found.npz").values()
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array, err_msg=case)


@every("case", CASES)
def test_they_are_written_in_the_standards_op_types(tmp_path, case):
    x = made(case, tmp_path / "m.onnx")
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m", format="nnef", flavour="khronos")
    again = gp.load(tmp_path / "m")
    found = right(again, x.astype(again.inputs["x"].fact.dtype.numpy))
    np.testing.assert_array_equal(found, right(model, x))


REWRITE = """
import pathlib, sys, numpy, tract
framework = tract.nnef().with_onnx()
for folder in pathlib.Path(sys.argv[1]).iterdir():
    model = tract.onnx().load(str(folder / "m.onnx")).into_model()
    framework.write_model_to_dir(model, str(folder / "model"))
"""
WRITTEN_BY_TRACT = [case for case in CASES if "each row" not in case]


def test_they_are_read_as_tract_writes_them(tmp_path):
    given = {}
    for case in WRITTEN_BY_TRACT:
        place = tmp_path / "all" / case
        place.mkdir(parents=True)
        given[case] = made(case, place / "m.onnx")
        np.savez(place / "given.npz", x=given[case])
    done = subprocess.run(
        [sys.executable, "-c", REWRITE, tmp_path / "all"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr.split("Stack backtrace", maxsplit=1)[0][-600:]
    computed(tmp_path / "all")
    for case, x in given.items():
        place = tmp_path / "all" / case
        model = gp.load(place / "model")
        (wanted,) = np.load(place / "found.npz").values()
        assert right(model, x).dtype == wanted.dtype
        np.testing.assert_array_equal(right(model, x), wanted, err_msg=case)


def test_the_operators_are_onnx_own(tmp_path):
    given = {}
    for case in ("a scale for each channel", "sums alone"):
        (tmp_path / "all" / case).mkdir(parents=True)
        given[case] = made(case, tmp_path / "all" / case / "m.onnx")
    subprocess.run([sys.executable, "-c", REWRITE, tmp_path / "all"], check=True, capture_output=True)
    for case, x in given.items():
        model = gp.load(tmp_path / "all" / case / "model")
        assert {"QLinearConv", "ConvInteger"} & {node.op for node in model.graph}
        gp.save(model, tmp_path / "back.onnx")
        (found,) = gp.run(
            gp.load(tmp_path / "back.onnx"), {next(iter(model.inputs)): x}, backend="onnxruntime"
        ).values()
        np.testing.assert_array_equal(found, right(model, x))


COMPRESSED = {
    "rows": ("int8", (), {"axis": 0}, (6,)),
    "rows, signed four bits": ("int4", (), {"axis": 0}, (6,)),
    "blocks": ("int8", (), {"axis": 1, "block_size": 4}, (6, 2)),
    "blocks of four bits": ("int4", (), {"axis": 1, "block_size": 4}, (6, 2)),
    "blocks of four bits around a point": ("uint4", (6, 2), {"axis": 1, "block_size": 4}, (6, 2)),
    "blocks of rows": ("uint8", (3, 8), {"axis": 0, "block_size": 2}, (3, 8)),
    "two bits": ("int2", (), {"axis": 1, "block_size": 2}, (6, 4)),
}


@pytest.mark.parametrize("is_computed", [False, True])
@pytest.mark.parametrize("case", COMPRESSED)
def test_compressed_weights_are_codes_for_tract(tmp_path, case, is_computed):
    kind, zero, attributes, scales = COMPRESSED[case]
    dtype, rng = DType[kind.upper()], np.random.default_rng(5)
    low, high = (0, 2**dtype.bits) if dtype.kind == "u" else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1))
    graph = Graph("compressed")
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2, 8)))

    def constant(name: str, array, element: DType) -> Value:
        storage = storage_of(array, element)
        return graph.add_constant(name, TensorFact.of(storage), storage)

    codes = constant("w", rng.integers(low, high, (6, 8)).astype(dtype.numpy), dtype)
    numbers = (rng.random(scales) + 0.1).astype(np.float16 if is_computed else np.float32)
    scale = constant("s", numbers, DType.FLOAT16 if is_computed else DType.FLOAT32)
    if is_computed:
        scale = graph.append(Node("Cast", [scale], [Value("t")], {"to": DType.FLOAT32})).output
    point = [constant("z", rng.integers(low, high, zero).astype(dtype.numpy), dtype)] if zero else []
    weights = graph.append(Node("DequantizeLinear", [codes, scale, *point], [Value("r")], attributes)).output
    turned = graph.append(Node("Transpose", [weights], [Value("u")], {"perm": (1, 0)})).output
    graph.append(Node("MatMul", [x, turned], [Value("y")]))
    graph.set_outputs([next(value for value in graph.values() if value.name == "y")])
    model = gp.Model(graph)
    given = rng.normal(size=(2, 8)).astype(np.float32)
    expected = gp.run(model, {"x": given}, backend="reference")["y"]
    gp.save(model, tmp_path / "t", format="nnef", flavour="tract")
    found = tract.nnef().load(str(tmp_path / "t")).into_runnable().run([given])[0].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    # A byte for each code, after the header.
    assert 128 + 48 in {file.stat().st_size for file in (tmp_path / "t").glob("*.dat")}
    again = gp.run(gp.load(tmp_path / "t"), {"x": given}, backend="reference")["y"]
    np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-5)
