"""The limits of element types that import rules pad and clip with."""

import ml_dtypes
import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError
from graphport.ops.lowering.operands import ends_of, finite_limits


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_floating or dtype.is_integer])
def test_limits_are_elements_of_the_type_and_have_no_neighbour_outside(dtype):
    low, high = finite_limits(dtype)
    assert low < high
    assert [float(np.array(each, dtype.numpy)) for each in (low, high)] == [float(low), float(high)]
    assert ends_of(dtype) == ((-np.inf, np.inf) if dtype.is_floating else (low, high))


def test_limits_of_bfloat16():
    assert finite_limits(DType.BFLOAT16)[1] == float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)


@pytest.mark.parametrize("dtype", [DType.BOOL, DType.STRING, DType.COMPLEX64])
@pytest.mark.parametrize("function", [ends_of, finite_limits])
def test_types_without_order_have_no_limits(function, dtype):
    with pytest.raises(ShapeError, match="expected floats or integers"):
        function(dtype)
