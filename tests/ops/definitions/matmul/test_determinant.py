"""Determinants against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.matmul import Det
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator


@given(st.integers(0, 999), st.integers(1, 4), st.lists(st.integers(1, 3), max_size=2))
def test_determinants_are_those_of_onnx_runtime(seed, n, batch):
    x = np.random.default_rng(seed).normal(size=(*batch, n, n)).astype(np.float32)
    check_operator(Det, [x], tolerance=1e-4, opset=21)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_other_shapes_have_no_determinant(shape):
    with pytest.raises(ShapeError):
        Inference().infer_operator(Det, [TensorFact(DType.FLOAT32, shape)], {}, 1)
