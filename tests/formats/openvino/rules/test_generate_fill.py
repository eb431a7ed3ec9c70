"""Filled tensors in OpenVINO."""

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.definitions.generate import ConstantOfShape, EyeLike
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word


def whole(*numbers):
    return np.array(numbers, np.int64)


def test_eye():
    sizes = [np.array(3), np.array(4)]
    for k in (0, 1, -2):
        check_word("opset9.Eye", [*sizes, np.array(k)], constants=(0, 1, 2), output_type=DType.FLOAT32)
    operands = [*sizes, np.array(1), whole(2, 2)]
    check_word("opset9.Eye", operands, constants=(2, 3), output_type=DType.INT32)


def test_exporting_filled_tensors():
    x = np.zeros((3, 4), np.float32)
    assert check_operator(EyeLike, [x], k=1) is not None
    assert check_operator(EyeLike, [x], k=-1, dtype=DType.INT32, symbolic=True) is not None
    assert check_operator(ConstantOfShape, [whole(2, 3)], constants=(0,)) is not None
    assert check_operator(ConstantOfShape, [whole(2, 3)], value=np.array([7], np.int32)) is not None


@at_once("diagonal", [-2, 0, 3])
def test_a_diagonal_at_run_time(diagonal):
    operands = [np.array(3), np.array(4), np.array(diagonal), np.array([2])]
    check_word("opset9.Eye", operands, constants=(0, 1, 3), output_type=DType.FLOAT32)


@at_once("dtype", [DType.INT8, DType.UINT8, DType.FLOAT16], ids=str)
def test_types_that_onnx_runtime_has_no_kernel_for(dtype):
    check_word("opset9.Eye", [np.array(3), np.array(4), np.array(1)], constants=(0, 1, 2), output_type=dtype)
