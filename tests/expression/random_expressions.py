"""Random expressions and operands for laws."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphport.expression.syntax import call, literal, reference

UNARY = ("abs", "neg", "sqrt", "square", "exp", "log", "tanh", "erf", "sign", "floor", "round", "reciprocal", "expm1")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "fmod", "remainder", "logaddexp", "atan2", "min")
NUMBERS = st.one_of(
    st.integers(-5, 5), st.floats(-4, 4, width=32), st.sampled_from([0.5, 2, -1, 1e-3, 1e6, float("inf"), float("nan")])
)
EVERY_LITERAL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.complex_numbers(),
    st.sampled_from(["torch.float", "torch.int64"]),
)


def trees(operands=3, leaves=None, unary=UNARY, binary=BINARY, max_leaves=12):
    """Expressions of `operands` operands."""
    if leaves is None:
        leaves = st.one_of(st.integers(0, operands - 1).map(reference), NUMBERS.map(literal))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(call, st.sampled_from(unary), inner),
            st.builds(call, st.sampled_from(binary), inner, inner),
        ),
        max_leaves=max_leaves,
    )


@st.composite
def operands(draw, count=3, dtypes=("float32",), elements=None):
    """Arrays that broadcast together."""
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, max_side=7, min_side=0)).input_shapes
    arrays = []
    for shape in shapes:
        dtype = np.dtype(draw(st.sampled_from(dtypes)))
        arrays.append(draw(hnp.arrays(dtype, shape, elements=elements or _elements(dtype))))
    return arrays


def _elements(dtype):
    match dtype.kind:
        case "f":
            return st.one_of(
                st.floats(-8, 8, width=dtype.itemsize * 8),
                st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, float(np.finfo(dtype).tiny)]),
            )
        case "b":
            return st.booleans()
        case _:
            return st.integers(-100 if dtype.kind == "i" else 0, 100)
