"""Operators of ONNX that LiteRT has no kernel for, made of others: LiteRT computes what ONNX's own reference does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.every import every
from tests.formats.tflite.litert import LiteRT
from tests.models import model, node

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(71)
EDGES = np.array(
    [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2**39, 2**24 + 1, 2**63 + 2**39, 2**63 + 3 * 2**39],
    np.uint64,
)
LONG = np.concatenate(
    [EDGES, RANDOM.integers(0, 2**64, 300, dtype=np.uint64) >> RANDOM.integers(0, 64, 300, np.uint64)]
)
OTHER = np.maximum(np.roll(LONG, 7) >> RANDOM.integers(0, 60, len(LONG), np.uint64), 1)
SIGNED = LONG.view(np.int64)
SHIFTS = RANDOM.integers(0, 70, len(LONG))
SMALL = RANDOM.choice([0, 1, -1, 2, -2, 6, 3, -5], len(LONG))


def found_by_both(
    path: Path,
    operator: str,
    inputs: Sequence[Array],
    stored: dict[str, Array],
    options: dict[str, Any],
    litert: LiteRT,
) -> tuple[list[Array] | str, list[Array]]:
    """What LiteRT and the pages compute of one node, whose last operands are stored."""
    names = [f"x{place}" for place in range(len(inputs))]
    told = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
    ]
    options = dict(options)
    results = [f"y{place}" for place in range(options.pop("results", 1))]
    operands = [*names, *(name if array.size else "" for name, array in stored.items())]
    own = options.get("to", told[0].type.tensor_type.elem_type)
    ports = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if place else own, None)
        for place, name in enumerate(results)
    ]
    net = model(
        [node(operator, operands, results, **options)], told, ports, {k: v for k, v in stored.items() if v.size}
    )
    onnx.save(net, path / "m.onnx")
    source = gp.load(path / "m.onnx")
    gp.save(source, path / "m.tflite")
    wanted = gp.run(source, dict(zip(names, inputs, strict=True)), backend="reference")
    return litert(path / "m.tflite", inputs), list(wanted.values())


INTEGERS: dict[str, tuple[str, list[Array], dict[str, Any]]] = {
    "moved to the right, without a sign": ("BitShift", [LONG, SHIFTS.astype(np.uint64)], {"direction": "RIGHT"}),
    "quotients without a sign": ("Div", [LONG, OTHER], {}),
    "rests without a sign": ("Mod", [LONG, OTHER], {}),
    "from 64 bits without a sign": ("Cast", [LONG], {"to": TensorProto.FLOAT}),
    "to 64 bits without a sign": ("Cast", [LONG.astype(np.float32) * np.float32(0.99)], {"to": TensorProto.UINT64}),
    "truths to 64 bits without a sign": ("Cast", [LONG > 5], {"to": TensorProto.UINT64}),
    "powers of 64 bits": ("Pow", [SIGNED, RANDOM.integers(-5, 64, len(LONG))], {}),
    "large powers of small numbers": (
        "Pow",
        [SMALL[SMALL % 2 == 0], RANDOM.integers(0, 2**62, np.sum(SMALL % 2 == 0))],
        {},
    ),
    "powers of 32 bits, also negative ones": ("Pow", [SMALL.astype(np.int32), RANDOM.integers(-9, 9, len(LONG))], {}),
    "whole real powers": ("Pow", [SMALL, np.abs(SHIFTS % 20).astype(np.float32)], {}),
    "roots": ("Pow", [np.abs(SMALL), RANDOM.choice([0.5, 1.5, 0.25], len(LONG)).astype(np.float32)], {}),
}


@every("name", list(INTEGERS))
def test_integers_of_64_bits(name: str, tmp_path: Path) -> None:
    operator, inputs, options = INTEGERS[name]
    with LiteRT() as litert:
        found, wanted = found_by_both(tmp_path, operator, inputs, {}, options, litert)
    assert not isinstance(found, str), found
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[0].dtype == wanted[0].dtype


@every(("dtype", "largest"), [(dtype, largest) for dtype in "bHiIqQ" for largest in (0, 1)])
def test_the_order_of_integers_holds_at_their_ends(dtype: str, largest: int, tmp_path: Path) -> None:
    limits = np.iinfo(np.dtype(dtype))
    x = np.array([limits.max, 3, limits.min, limits.max - 1, limits.min + 1, 3], dtype)
    with LiteRT() as litert:
        found, wanted = found_by_both(
            tmp_path, "TopK", [x], {"k": np.array([5])}, {"largest": largest, "results": 2}, litert
        )
    assert not isinstance(found, str), found
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@every(
    ("axis", "order", "dtype"), [(axis, order, dtype) for axis in (0, -1, 1) for order in (0, 1) for dtype in "fqBQ"]
)
def test_distinct_slices(axis: int, order: int, dtype: str, tmp_path: Path) -> None:
    x = np.random.default_rng(3).integers(0, 2, (5, 6, 2)).astype(dtype)
    x[:, [4, 1]] = x[:, [0, 0]]
    options = {"axis": axis, "sorted": order, "results": 4}
    with LiteRT() as litert:
        found, wanted = found_by_both(tmp_path, "Unique", [x], {}, options, litert)
    assert not isinstance(found, str), found
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


RESIZED: list[tuple[dict[str, Any], list[float], list[float] | None]] = [
    (
        {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": beyond},
        roi,
        lengths,
    )
    for mode in ("linear", "nearest", "cubic")
    for beyond in (0.0, -7.5)
    for roi, lengths in (([0.1, -0.25, 0.8, 1.5], [5, 4]), ([0.6, 0.2, 0.6, 0.3], [1, 3]))
] + [
    ({"mode": mode, "antialias": 1, "exclude_outside": outside, "coordinate_transformation_mode": way}, [], lengths)
    for mode in ("linear", "cubic")
    for outside in (0, 1)
    for way in ("half_pixel", "align_corners", "half_pixel_symmetric")
    for lengths in ([3, 4], [12, 1])
]


@every(("options", "roi", "lengths"), RESIZED)
def test_images_resized_by_what_is_given_later(
    options: dict[str, Any], roi: list[float], lengths: list[int], tmp_path: Path
) -> None:
    x = np.random.default_rng(5).normal(size=(1, 2, 9, 7)).astype(np.float32)
    given = [x, np.array(roi, np.float32), np.array([], np.float32), np.array(lengths)]
    how = {**options, "axes": [2, 3]}
    ports = {"x": x, "sizes": given[3]} | ({"roi": given[1]} if roi else {})
    told = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in ports.items()
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    for are_stored in (False, True):
        graph = helper.make_graph(
            [node("Resize", ["x", "roi" if roi else "", "", "sizes"], ["y"], **how)],
            "g",
            told[:1] if are_stored else told,
            [y],
            [numpy_helper.from_array(array, name) for name, array in ports.items() if name != "x"]
            if are_stored
            else [],
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), tmp_path / "m.onnx"
        )
        source = gp.load(tmp_path / "m.onnx")
        gp.save(source, tmp_path / "m.tflite")
        fed = {"x": x} if are_stored else ports
        with LiteRT() as litert:
            found = litert(tmp_path / "m.tflite", list(fed.values()))
        assert not isinstance(found, str), found
        np.testing.assert_allclose(found[0], gp.run(source, fed, backend="reference")["y"], rtol=1e-4, atol=1e-5)


@every("equation", ["ii->i", "ii", "bii->bi", "ibi,ij->bj", "aibi->ab"])
def test_diagonals(equation: str, tmp_path: Path) -> None:
    terms = equation.partition("->")[0].split(",")
    lengths = {"a": 2, "b": 3, "i": 4, "j": 5}
    inputs = [RANDOM.normal(size=[lengths[c] for c in term]).astype(np.float32) for term in terms]
    with LiteRT() as litert:
        found, wanted = found_by_both(tmp_path, "Einsum", inputs, {}, {"equation": equation}, litert)
    assert not isinstance(found, str), found
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)


def test_frames_under_a_window_that_is_given_later(tmp_path: Path) -> None:
    x, window = RANDOM.normal(size=(2, 40, 1)).astype(np.float32), np.hanning(8).astype(np.float32)
    told = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("window", window))]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    net = model([node("STFT", ["x", "step", "window"], ["y"])], told, [y], {"step": np.array(4)})
    onnx.save(net, tmp_path / "m.onnx")
    source = gp.load(tmp_path / "m.onnx")
    gp.save(source, tmp_path / "m.tflite")
    with LiteRT() as litert:
        found = litert(tmp_path / "m.tflite", [x, window])
    wanted = gp.run(source, {"x": x, "window": window}, backend="reference")["y"]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)


def test_mel_weights_are_stored(tmp_path: Path) -> None:
    stored = {"bins": np.array(8), "length": np.array(64), "rate": np.array(16000)}
    edges = {"low": np.float32(20), "high": np.float32(7000)}
    with LiteRT() as litert:
        names = [*stored, *edges]
        x = np.zeros((33, 8), np.float32)
        net = model(
            [node("MelWeightMatrix", names, ["w"]), node("Add", ["x", "w"], ["y"])],
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
            {**stored, **edges},
        )
        onnx.save(net, tmp_path / "m.onnx")
        source = gp.load(tmp_path / "m.onnx")
        gp.save(source, tmp_path / "m.tflite")
        found = litert(tmp_path / "m.tflite", [x])
    np.testing.assert_array_equal(found[0], gp.run(source, {"x": x}, backend="reference")["y"])


def test_loops_stack_values_whose_shape_are_computed_at_run_time(tmp_path: Path) -> None:
    """Each round gives the last `n` rows of x, and `n` is given when it runs."""
    i64, f32 = TensorProto.INT64, TensorProto.FLOAT
    body = helper.make_graph(
        [
            node("Identity", ["c"], ["d"]),
            node("Add", ["t", "x"], ["u"]),
            node("Slice", ["u", "from", "end", "axis"], ["rows"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", i64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", f32, [4, 3]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("u", f32, [4, 3]),
            helper.make_tensor_value_info("rows", f32, None),
        ],
    )
    net = model(
        [node("Neg", ["n"], ["from"]), node("Loop", ["rounds", "", "x"], ["last", "all"], body=body)],
        [
            helper.make_tensor_value_info("x", f32, [4, 3]),
            helper.make_tensor_value_info("n", i64, [1]),
            helper.make_tensor_value_info("rounds", i64, []),
        ],
        [helper.make_tensor_value_info("last", f32, [4, 3]), helper.make_tensor_value_info("all", f32, None)],
        {"end": np.array([4]), "axis": np.array([0])},
    )
    onnx.save(net, tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    with LiteRT() as litert:
        for n, rounds in ((2, 3), (1, 1), (3, 2)):
            found = litert(tmp_path / "m.tflite", [x, np.array([n]), np.array(rounds)])
            assert not isinstance(found, str), found
            np.testing.assert_array_equal(found[0], x * (rounds + 1))
            np.testing.assert_array_equal(found[1], np.stack([x[4 - n :] * (k + 2) for k in range(rounds)]))


def test_of_a_branch_that_is_always_taken_its_nodes_are_written(tmp_path: Path) -> None:
    f32 = TensorProto.FLOAT
    own, wrong = (helper.make_tensor_value_info(name, f32, None) for name in ("own", "wrong"))
    taken = helper.make_graph([node("Relu", ["x"], ["own"])], "taken", [], [own])
    # For this shape that fails, which nobody is to mind.
    other = helper.make_graph([node("Squeeze", ["x", "axis"], ["wrong"])], "other", [], [wrong])
    net = model(
        [
            node("Shape", ["x"], ["s"]),
            node("Size", ["s"], ["r"]),
            node("Equal", ["r", "two"], ["is"]),
            node("If", ["is"], ["y"], then_branch=taken, else_branch=other),
        ],
        [helper.make_tensor_value_info("x", f32, [2, 3])],
        [helper.make_tensor_value_info("y", f32, None)],
        {"two": np.array(2), "axis": np.array([1])},
    )
    onnx.save(net, tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    assert [each.op_type for each in gp.load(tmp_path / "m.tflite", raw=True).graph] == ["RELU"]


@every("operator", ["AveragePool", "MaxPool"])
@every("options", [{}, {"pads": [0, 1, 0, 1, 0, 1]}, {"strides": [1, 2, 2]}])
def test_pools_over_three_axes(operator: str, options: dict[str, Any], tmp_path: Path) -> None:
    x = RANDOM.normal(size=(1, 2, 4, 5, 6)).astype(np.float32)
    with LiteRT() as litert:
        found, expected = found_by_both(tmp_path, operator, [x], {}, {"kernel_shape": [2, 2, 3], **options}, litert)
    assert not isinstance(found, str), found
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


def test_halves_of_large_int64_are_joined_exactly(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-(2**63), 2**63 - 1, (2, 7), np.int64)
    ports = [helper.make_tensor_value_info(name, TensorProto.INT64, [7]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node("BitwiseXor", ["x", "y"], ["z"])], "g", ports[:2], ports[2:])
    gp.save(gp.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])), tmp_path / "m.tflite")
    for backend in ("reference", "onnxruntime"):
        (z,) = gp.run(gp.load(tmp_path / "m.tflite"), {"x": x, "y": y}, backend=backend).values()
        np.testing.assert_array_equal(z, x ^ y)
