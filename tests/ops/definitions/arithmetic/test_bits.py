"""One type's bits as another's, against the standard's implementation."""

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic.bits import BitCast
from graphport.ops.infer import Inference
from tests.ops.oracle import check_shapes, run_operator


@pytest.mark.parametrize("to", [dtype for dtype in DType if dtype.bits >= 8 and dtype is not DType.BOOL], ids=str)
def test_bits_stay(to):
    x = np.arange(2 * 16, dtype=np.uint8).reshape(2, 16).view(np.dtype(f"V{to.bits // 8}")).copy()
    narrow = x.view({8: np.uint8, 16: np.uint16, 32: np.int32, 64: np.int64, 128: np.complex128}[to.bits])
    (found,) = run_operator(BitCast, [narrow], to=to)
    assert found.dtype == to.numpy
    assert found.tobytes() == narrow.tobytes()
    check_shapes(BitCast, [narrow], [found], to=to)


@pytest.mark.parametrize(
    ("source", "to", "given", "expected"),
    [
        pytest.param(DType.INT4, DType.UINT4, [-8, -1, 7], [8, 15, 7], id="signed nibble"),
        pytest.param(DType.UINT4, DType.INT4, [8, 15, 7], [-8, -1, 7], id="nibble with a sign"),
        pytest.param(DType.UINT2, DType.INT2, [0, 1, 2, 3], [0, 1, -2, -1], id="two bits"),
        pytest.param(DType.UINT4, DType.FLOAT4E2M1, [1, 7, 15], [0.5, 6, -6], id="nibble as a float"),
        pytest.param(DType.FLOAT4E2M1, DType.INT4, [0.5, -6], [1, -1], id="float as a nibble"),
    ],
)
def test_bits_of_parts_of_a_byte_stay(source, to, given, expected):
    (found,) = run_operator(BitCast, [np.array(given, np.float32).astype(source.numpy)], to=to)
    assert found.dtype == to.numpy
    assert found.astype(np.float32).tolist() == expected


def test_a_scalar_keeps_its_shape():
    assert run_operator(BitCast, [np.array(1.0, np.float32)], to=DType.INT32)[0] == 0x3F800000


@pytest.mark.parametrize("to", [DType.INT64, DType.STRING], ids=str)
def test_other_widths_are_refused(to):
    with pytest.raises(ShapeError, match="float32 cannot be reinterpreted as"):
        Inference().infer_operator(BitCast, [TensorFact(DType.FLOAT32, (2,))], {"to": to}, 1)
