"""Windows of views: what ONNX leaves out is filled in."""

from dataclasses import replace

import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact, Unknown
from graphport.ir.graph import Value
from graphport.ops.declare import ShapeError
from graphport.ops.lowering.windows import transposed_window_of, window_of
from graphport.ops.views.convolution import ConvTransposeView, ConvView
from graphport.ops.views.pooling import AveragePoolView


def tensor(*dims: int) -> Value:
    return Value("x", TensorFact(DType.FLOAT32, dims))


def test_conv_window_takes_kernel_from_weights_and_resolves_auto_pad():
    found = window_of(ConvView(tensor(1, 2, 8, 9), tensor(4, 2, 3, 2), auto_pad="SAME_UPPER", strides=(2, 1)))
    assert (found.kernel, found.strides, found.dilations) == ((3, 2), (2, 1), (1, 1))
    assert (found.pads, found.lengths) == (((0, 1), (0, 1)), (4, 9))


def test_pooling_with_ceil_mode_has_one_more_element():
    op = AveragePoolView(tensor(1, 2, 6), kernel_shape=(3,), strides=(2,))
    assert window_of(op).lengths == (2,)
    assert window_of(replace(op, ceil_mode=1)).lengths == (3,)


def test_convtranspose_window_honors_output_shape():
    op = ConvTransposeView(tensor(1, 2, 4), tensor(2, 3, 3), strides=(2,), output_shape=(8,))
    found = transposed_window_of(op)
    assert (found.lengths, found.pads) == ((8,), ((1, 0),))


def test_a_window_over_a_tensor_of_unknown_rank_is_unknown():
    with pytest.raises(Unknown):
        window_of(AveragePoolView(Value("x"), kernel_shape=(2,)))


def test_a_window_that_reaches_too_far_is_refused():
    with pytest.raises(ShapeError, match="reaches over 5"):
        window_of(ConvView(tensor(1, 1, 4), tensor(1, 1, 5)))
