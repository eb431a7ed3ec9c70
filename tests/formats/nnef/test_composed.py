"""Operators without an NNEF equivalent, composed of operators that both readers support."""

from __future__ import annotations

import nnef
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed

INTEGERS = TensorProto.INT64


def pad(*amounts):
    return "Pad", {"mode": "wrap"}, [(3, 4, 5)], [np.array(amounts)]


def columns(rows, blocks, image, block, **more):
    return "Col2Im", more, [(2, rows, blocks)], [np.array(image), np.array(block)]


def samples(plane, points, **more):
    return "GridSample", more, [(2, 3, *plane), (2, *points, 2)], []


def grid(size, **more):
    axes = len(size) - 2
    return "AffineGrid", more, [(size[0], axes, axes + 1)], [np.array(size)]


def picked(indices):
    return "GatherND", {}, [(3, 4, 5)], [np.array(indices)]


CASES = {
    "round once": pad(0, 1, 2, 0, 3, 5),
    "round several times": pad(7, 0, 0, 4, 9, 0),
    "cut off": pad(0, -1, 0, 0, 0, -2),
    "circular padding at one end": pad(0, 0, 0, 0, -1, 0),
    "columns": columns(12, 6, [4, 6], [2, 2], strides=[2, 2]),
    "columns that overlap": columns(9, 20, [4, 5], [3, 3], pads=[1, 1, 1, 1]),
    "columns with gaps and a rest": columns(8, 6, [6, 7], [2, 2], dilations=[2, 1], strides=[2, 2]),
    "columns of a line": columns(6, 4, [9], [3], strides=[2]),
    "samples between": samples((5, 6), (4, 3)),
    "samples at corners": samples((5, 6), (4, 3), align_corners=1),
    "samples held at the border": samples((5, 6), (4, 3), padding_mode="border"),
    "samples that are near": samples((4, 5), (3, 7), mode="nearest"),
    "a grid": grid((2, 1, 3, 4)),
    "a grid between corners": grid((2, 1, 3, 4), align_corners=1),
    "a grid of a line in space": grid((1, 1, 2, 1, 3)),
    "a grid of a point between corners": grid((1, 1, 1, 2), align_corners=1),
    "entries": picked([[0, 1], [2, -1], [-3, 0]]),
    "entries in rows": picked([[[2], [0]], [[-1], [1]]]),
    "numbers": picked([[0, 1, 4], [2, 3, -5]]),
}


def made(case):
    operator, attributes, shapes, constants = CASES[case]
    names = [f"x{at}" for at in range(len(shapes))]
    stored = [numpy_helper.from_array(array.astype(np.int64), f"c{at}") for at, array in enumerate(constants)]
    node = helper.make_node(operator, [*names, *(each.name for each in stored)], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip(names, shapes, strict=True)]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph([node], "net", inputs, outputs, stored)
    model = gp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    rng = np.random.default_rng(sum(map(ord, case)))
    return model, {
        name: (rng.random(shape) * 3 - 1.5).astype(np.float32) for name, shape in zip(names, shapes, strict=True)
    }


def test_both_readers_take_them(tmp_path):
    wanted = {}
    for case in CASES:
        place = tmp_path / "all" / case
        place.mkdir(parents=True)
        model, given = made(case)
        gp.save(model, place / "model", format="nnef", flavour="both")
        nnef.load_graph(str(place / "model"))
        wanted[case] = gp.run(model, given, backend="reference")["y"]
        again = gp.run(gp.load(place / "model"), given, backend="reference")["y"]
        np.testing.assert_allclose(again, wanted[case], 1e-4, 1e-5, err_msg=case)
        np.savez(place / "given.npz", *given.values())
    computed(tmp_path / "all")
    for case, array in wanted.items():
        (found,) = np.load(tmp_path / "all" / case / "found.npz").values()
        np.testing.assert_allclose(found, array, 1e-4, 1e-5, err_msg=case)


def test_they_are_written_in_tracts_op_types_too(tmp_path):
    for case in CASES:
        place = tmp_path / "all" / case
        place.mkdir(parents=True)
        model, given = made(case)
        gp.save(model, place / "model", format="nnef", flavour="tract")
        np.savez(place / "given.npz", *given.values())
    computed(tmp_path / "all")
    for case in CASES:
        model, given = made(case)
        (found,) = np.load(tmp_path / "all" / case / "found.npz").values()
        wanted = gp.run(model, given, backend="reference")["y"]
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-5, err_msg=case)


def test_places_that_a_run_gives_are_counted_from_the_front(tmp_path):
    """tract crashes for negative indices of a gather along several axes."""
    node = helper.make_node("GatherND", ["x", "i"], ["y"])
    inputs = [helper.make_tensor_value_info("x", 1, [3, 4]), helper.make_tensor_value_info("i", INTEGERS, [3, 2])]
    graph = helper.make_graph([node], "net", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = gp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    given = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "i": np.array([[0, -1], [-3, 2], [1, 0]])}
    place = tmp_path / "all" / "one"
    place.mkdir(parents=True)
    gp.save(model, place / "model", format="nnef", flavour="tract")
    np.savez(place / "given.npz", *given.values())
    computed(tmp_path / "all")
    (found,) = np.load(place / "found.npz").values()
    assert found.tolist() == [3, 2, 4]
