"""Data-moving operators in OpenVINO."""

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.ops.definitions.reshape import (
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Identity,
    Shape,
    Size,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word


def counted(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def ints(*numbers, dtype=np.int64):
    return np.array(numbers, dtype)


X = counted(2, 3, 4)


@at_once("symbolic", [False, True])
def test_transpose_by_an_order_or_in_reverse(symbolic):
    check_word("opset1.Transpose", [X, ints(1, 2, 0, dtype=np.int32)], constants=(1,), symbolic=symbolic)
    check_word("opset1.Transpose", [X, ints()], constants=(1,), symbolic=symbolic)


def test_squeeze_takes_axes_away():
    x = counted(1, 3, 1, 4)
    for version in (1, 15):
        check_word(f"opset{version}.Squeeze", [x, ints(0, -2)], constants=(1,))
        check_word(f"opset{version}.Squeeze", [x, np.array(2, np.int32)], constants=(1,))
        check_word(f"opset{version}.Squeeze", [x])
    check_word("opset15.Squeeze", [x, ints(0, 1)], constants=(1,), allow_axis_skip=True)


@at_once("axes", [ints(0), ints(-1, 1), np.array(1, np.int32)], ids=["first", "two", "number"])
@at_once("symbolic", [False, True])
def test_unsqueeze(axes, symbolic):
    check_word("opset1.Unsqueeze", [X, axes], constants=(1,), symbolic=symbolic)


def test_concat():
    check_word("opset1.Concat", [X, X + 1], axis=1)
    check_word("opset1.Concat", [X, X + 1, X], axis=-1)


def test_split():
    check_word("opset1.Split", [counted(2, 6), np.array(1)], constants=(1,), outputs=3, num_splits=3)
    with pytest.raises(AssertionError, match="6 elements cannot be split into 4 equal parts"):
        check_word("opset1.Split", [counted(2, 6), np.array(1)], constants=(1,), expected=[X], num_splits=4)


@at_once("lengths", [(1, 2, 3), (-1, 2, 1), (1, -1, 2), (1, 2, -1)])
@at_once("symbolic", [False, True])
def test_variadic_split(lengths, symbolic):
    operands = [counted(2, 6), np.array(1), ints(*lengths)]
    check_word("opset1.VariadicSplit", operands, constants=(1, 2), outputs=3, symbolic=symbolic)


@at_once("symbolic", [False, True])
def test_shape_of(symbolic):
    check_word("opset1.ShapeOf", [X], symbolic=symbolic)
    check_word("opset3.ShapeOf", [X], symbolic=symbolic, output_type=DType.INT32)


BROADCASTS = [
    ("numpy", (3, 1), (2, 3, 4), None),
    ("bidirectional", (3, 1), (2, 1, 4), None),
    ("explicit", (3,), (2, 3, 4), (1,)),
    ("explicit", (2, 4), (2, 3, 4), (0, 2)),
    ("explicit", (1,), (2, 3), (1,)),
]


def test_broadcasting_to_a_shape_that_is_fed():
    check_word("opset3.Broadcast", [counted(3, 1), np.array([2, 3, 4], np.int32)], mode="numpy")


@at_once(("mode", "shape", "target", "mapping"), BROADCASTS)
@at_once("constants", [(1, 2), (2,)])
def test_broadcast(mode, shape, target, mapping, constants):
    operands = [counted(*shape), ints(*target), *([] if mapping is None else [ints(*mapping)])]
    given = tuple(place for place in constants if place < len(operands))
    check_word("opset3.Broadcast", operands, constants=given, mode=mode)
    if mode != "bidirectional":
        check_word("opset1.Broadcast", operands, constants=given, mode=mode)


@at_once("repeats", [(2,), (1, 3), (2, 1, 3), (2, 1, 1, 2)])
@at_once("constants", [(), (1,)])
def test_tile_aligns_shape_and_counts_at_the_last_axis(repeats, constants):
    check_word("opset1.Tile", [X, ints(*repeats)], constants=constants)


BLOCKS = ["blocks_first", "depth_first"]


@at_once("mode", BLOCKS)
@at_once("shape", [(1, 8, 2, 3), (2, 4, 3), (1, 16, 2, 1, 3)])
def test_depth_to_space(mode, shape):
    check_word("opset1.DepthToSpace", [counted(*shape)], block_size=2, mode=mode)


@at_once("mode", BLOCKS)
@at_once("shape", [(1, 2, 4, 6), (2, 3, 4), (1, 2, 2, 4, 2)])
def test_space_to_depth(mode, shape):
    check_word("opset1.SpaceToDepth", [counted(*shape)], block_size=2, mode=mode)


@at_once(("shape", "axis"), [((2, 6, 3, 2), 1), ((2, 3, 6), -1), ((4, 3), 0)])
def test_shuffle_channels(shape, axis):
    check_word("opset1.ShuffleChannels", [counted(*shape)], axis=axis, group=2)


def test_batch_and_space():
    x = counted(1, 3, 4, 5)
    block, begins, ends = ints(1, 1, 2, 3), ints(0, 0, 1, 0), ints(0, 0, 1, 1)
    found = check_word("opset2.SpaceToBatch", [x, block, begins, ends], constants=(1, 2, 3))[0]
    check_word("opset2.BatchToSpace", [found, block, begins, ends], constants=(1, 2, 3))


def test_identity():
    check_word("opset16.Identity", [X])


def test_reorg_yolo():
    check_word("opset2.ReorgYolo", [counted(2, 8, 4, 6)], stride=(2,))


STATED = [
    (Identity, [X], (), {}),
    (Transpose, [X], (), {}),
    (Transpose, [X], (), {"perm": (1, 0, 2)}),
    (Squeeze, [counted(1, 3, 1)], (), {}),
    (Squeeze, [counted(1, 3, 1), ints(0)], (1,), {}),
    (Squeeze, [X], (), {}),
    (Unsqueeze, [X, ints(0, -1)], (1,), {}),
    (Concat, [X, X], (), {"axis": 1}),
    (Shape, [X], (), {}),
    (Shape, [X], (), {"start": 1}),
    (Shape, [X], (), {"start": -2, "end": -1}),
    (Size, [X], (), {}),
    (Expand, [counted(3, 1), ints(2, 1, 4)], (1,), {}),
    (Expand, [counted(3, 1), ints(2, 1, 4)], (), {}),
    (Tile, [X, ints(2, 1, 3)], (1,), {}),
    (DepthToSpace, [counted(1, 8, 2, 3)], (), {"blocksize": 2}),
    (DepthToSpace, [counted(1, 8, 2, 3)], (), {"blocksize": 2, "mode": "CRD"}),
    (SpaceToDepth, [counted(1, 2, 4, 6)], (), {"blocksize": 2}),
    (Flatten, [X], (), {"axis": 2}),
    (Flatten, [X], (), {"axis": 0}),
    (Flatten, [X], (), {"axis": -1}),
]


@at_once(
    ("op_def", "inputs", "constants", "attributes"),
    STATED,
    ids=[f"{i}-{case[0].name}" for i, case in enumerate(STATED)],
)
def test_exporting_a_page_preserves_its_semantics(op_def, inputs, constants, attributes):
    assert check_operator(op_def, inputs, constants=constants, **attributes) is not None


@at_once("op_def", [Transpose, Shape, Flatten, Identity], ids=lambda op_def: op_def.name)
def test_exporting_a_page_with_dynamic_dims(op_def):
    assert check_operator(op_def, [X], symbolic=True) is not None


def test_exporting_a_split():
    x = counted(2, 7)
    assert check_operator(Split, [x, ints(3, 4)], constants=(1,), outputs=2, axis=1) == ["opset1.VariadicSplit"]
    assert check_operator(Split, [x], outputs=3, axis=1, num_outputs=3) == ["opset1.VariadicSplit"]
    assert check_operator(Split, [counted(2, 6)], outputs=3, axis=1, num_outputs=3) == ["opset1.Split"]
